//! Arrays in files, and jobs on them.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use shardine::jobs::{RepackError, RepackOptions, RepackedArray};
use shardine::store::FileStore;
use shardine::{ArrayNode, Elements, Error, Location, Region};

pub use crate::common::trees::{folder, tree};
use crate::common::*;

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
