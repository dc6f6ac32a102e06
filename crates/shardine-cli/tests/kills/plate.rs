//! A plate of OME-Zarr 0.4: a small one, unless SHARDINE_PLATE is set: then one of 96 wells with
//! four fields of three levels, with labels.

use crate::ome::Files;

/// Whether the large plate is asked for.
pub fn is_large() -> bool {
    std::env::var_os("SHARDINE_PLATE").is_some()
}

pub fn plate() -> Files {
    let mut files = Files::default();
    if is_large() {
        let columns: Vec<String> = (1..=12).map(|column| column.to_string()).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        files.plate("", &["A", "B", "C", "D", "E", "F", "G", "H"], &columns, 4, 3);
    } else {
        files.plate("", &["A", "B"], &["1", "2", "3"], 2, 3);
    }
    files.consolidated("");
    files
}
