//! What to do next where there is no data set.

use std::path::{Path, PathBuf};
use std::{fs, io};

use shardine::{SetKind, open};

use crate::failure::quoted;

/// How many folders are looked at, above and below.
const MOST_ABOVE: usize = 16;
const MOST_BELOW: usize = 64;

/// How many data sets are named.
const MOST_NAMED: usize = 3;

/// The hint for a location without a data set, by what is there.
pub fn hint(at: &str) -> String {
    const DOCUMENTS: &str = "a data set has a zarr.json, .zarray, .zgroup, info, header.wkw or \
                             datasource-properties.json at its root";
    if at.contains("://") {
        return format!("check the name; {DOCUMENTS}");
    }
    let path = Path::new(at);
    if let Some(url) = url_with_one_slash(at) {
        return format!("a URL has two slashes after the scheme: {}", quoted(&url));
    }
    let Ok(found) = fs::metadata(path) else {
        return match path.parent().filter(|parent| is_missing(parent)) {
            Some(parent) => {
                format!("the folder {} does not exist; check the path", parent.display())
            }
            None => "no such file or folder; check the name".to_owned(),
        };
    };
    if found.is_dir()
        && let Ok(set) = open(path)
    {
        return match set.format() {
            "zarr2" | "zarr3" => {
                format!("it is {}; omit --zarr-format to use it", set.format())
            }
            format => format!("it is a {format} data set, and this verb is for Zarr"),
        };
    }
    let above = path.ancestors().skip(1).take(MOST_ABOVE);
    let holds = |folder: &&Path| open(*folder).is_ok_and(|set| set.kind() != SetKind::Group);
    if let Some(set) = above.filter(|folder| !folder.as_os_str().is_empty()).find(holds) {
        let set = quoted(&set.to_string_lossy());
        return format!("it is a part of the data set {set}; use that instead");
    }
    if found.is_file() {
        return format!(
            "it is a file; run `shardine convert {} TARGET` to make an array from a .npy file, or from raw bytes with \
             --shape and --dtype",
            quoted(at)
        );
    }
    let below = data_sets_below(path);
    match below.is_empty() {
        true => format!("nothing in it looks like a data set; {DOCUMENTS}"),
        false => format!("use one of the data sets in it, such as {}", below.join(", ")),
    }
}

/// Whether there is nothing at a path for certain.
pub fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// What `s3:/bucket/x` should have been; it was taken for a path.
fn url_with_one_slash(at: &str) -> Option<String> {
    let schemes = ["s3", "gs", "az", "http", "https", "abfs", "abfss", "file"];
    schemes.iter().find_map(|scheme| {
        let (before, rest) = at.split_once(&format!("{scheme}:/"))?;
        let is_start = before.is_empty() || before.ends_with('/');
        (is_start && !rest.is_empty()).then(|| format!("{scheme}://{rest}"))
    })
}

fn data_sets_below(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_folder = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.is_dir());
    let mut folders: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(is_folder).collect();
    folders.sort();
    let found = folders.iter().take(MOST_BELOW).filter(|path| open(*path).is_ok());
    found.take(MOST_NAMED).map(|path| quoted(&path.to_string_lossy())).collect()
}
