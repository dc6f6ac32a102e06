def check_conversion(*a): pass
