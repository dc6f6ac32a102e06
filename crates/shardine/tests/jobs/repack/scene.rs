//! Arrays in files, and jobs on them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use shardine::jobs::{RepackError, RepackOptions, RepackedArray};
use shardine::store::FileStore;
use shardine::{ArrayNode, Elements, Error, Location, Region};
use tempfile::TempDir;

use crate::common::*;

/// A folder, in memory if possible: these tests are not about the disk.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

pub fn at(path: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(path)))
}

pub fn create_at(location: &Location, document: &Value) -> ArrayNode {
    ArrayNode::create(&engine(), location, metadata(document)).unwrap()
}

pub fn elements(location: &Location) -> Elements {
    ArrayNode::open(&engine(), location).unwrap().read_elements(Region::all()).unwrap()
}

pub fn repack(
    source: &Location,
    target: Option<&Location>,
    options: &RepackOptions,
) -> Result<Vec<RepackedArray>, Error> {
    let mut told = Vec::new();
    shardine::jobs::repack(&engine(), source, target, options, &mut |array| told.push(array))?;
    Ok(told)
}

/// The one array of a job.
pub fn one(source: &Location, target: Option<&Location>, options: &RepackOptions) -> RepackedArray {
    let mut told = repack(source, target, options).unwrap();
    assert_eq!(told.len(), 1);
    told.remove(0)
}

pub fn refused(
    source: &Location,
    target: Option<&Location>,
    options: &RepackOptions,
) -> RepackError {
    match repack(source, target, options).unwrap_err() {
        Error::Repack(error) => error,
        error => panic!("{error}"),
    }
}

/// The names in a folder, in order.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Every file below a folder with its bytes.
pub fn tree(folder: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_owned();
                    found.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}
