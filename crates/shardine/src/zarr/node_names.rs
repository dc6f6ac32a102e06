//! Names for nodes that are made from something else.

/// Names for the nodes made from things with these keys: the keys, if they are valid names and all
/// different, otherwise `s0`, `s1` and so on.
pub(crate) fn node_names(keys: &[&str]) -> Vec<String> {
    let safe = |key: &&str| -> Option<String> {
        let parts: Vec<&str> =
            key.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
        let name = parts.join("_");
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
        let hidden = name.starts_with('.') || name.starts_with("__");
        let legal = !name.is_empty() && name.chars().all(plain) && !hidden && name != "zarr.json";
        legal.then_some(name)
    };
    let names: Option<Vec<String>> = keys.iter().map(safe).collect();
    let different = |names: &Vec<String>| {
        // Some file systems are not case-sensitive.
        let mut sorted: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair[0] != pair[1])
    };
    let numbered = || (0..keys.len()).map(|level| format!("s{level}")).collect();
    names.filter(different).unwrap_or_else(numbered)
}
