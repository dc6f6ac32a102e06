def check_keys(*a): pass
