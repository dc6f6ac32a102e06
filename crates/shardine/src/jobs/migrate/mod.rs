//! Migrates Zarr version 2 metadata to version 3; chunks stay where they are.

mod error;
mod nodes;

use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_store::{Condition, StoreError, StoreExt};

pub use error::{MigrateError, RefusedNode};
use nodes::{MigratedNode, Nodes, are_those_of, difference, stored};

use super::span::job_span;
use crate::zarr::metadata::NodeMetadata;
use crate::zarr::{DOCUMENT, V2_DOCUMENTS, read_v2, read_v3};
use crate::{Engine, Error, Location};

/// How to migrate a hierarchy.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct MigrateOptions {
    /// Only report what would be done.
    pub dry_run: bool,
    /// Remove the version 2 documents once those of version 3 exist and say the same.
    pub remove_v2: bool,
}

impl MigrateOptions {
    /// Writes, and removes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether to change nothing.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets whether to remove the version 2 documents.
    pub fn remove_v2(mut self, remove_v2: bool) -> Self {
        self.remove_v2 = remove_v2;
        self
    }
}

/// A document that was written or removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// Its key.
    pub object: String,
    /// Whether it was removed; otherwise it was written.
    pub removed: bool,
}

/// The result of a migration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrateSummary {
    /// Arrays of the hierarchy.
    pub arrays: u64,
    /// Groups of the hierarchy.
    pub groups: u64,
    /// Version 3 documents that were written, or would be.
    pub written: u64,
    /// Version 2 documents that were removed, or would be.
    pub removed: u64,
    /// Nodes with OME-Zarr 0.4 metadata, which stays in that form.
    pub ome: u64,
}

/// Attributes that OME-Zarr up to 0.4 puts among all others.
const OME: [&str; 7] =
    ["multiscales", "omero", "plate", "well", "image-label", "labels", "bioformats2raw.layout"];

/// Writes a `zarr.json` for every Zarr version 2 node at a location and below it. No chunk is read,
/// written or moved.
///
/// Each document is written only where there is none: arrays first, groups after their contents,
/// and the outermost last. So another migration finishes one that was killed, and does nothing to a
/// migrated hierarchy. Groups that have a `.zmetadata` get consolidated metadata. If any node
/// cannot be migrated, nothing is written: [`MigrateError::Refused`] names all of them.
///
/// With [`remove_v2`](MigrateOptions::remove_v2) the version 2 documents are removed at the end, if
/// all of version 3 are read back and say the same; otherwise none is removed, and the result is
/// [`MigrateError::Differs`].
///
/// Costs a listing for each group, four or five reads for each node, and a write for each document;
/// a document that was written is read once more before the older ones are removed. The store must
/// be able to list, unless the location is an array.
pub fn migrate(
    engine: &Arc<Engine>,
    location: &Location,
    options: &MigrateOptions,
    report: &mut dyn FnMut(&Migrated),
) -> Result<MigrateSummary, Error> {
    let _span = job_span("migrate", location);
    let location = location.clone().with_format(None);
    let nodes = Nodes::look(engine, &location)?;
    if !nodes.refused.is_empty() {
        return Err(MigrateError::Refused { nodes: nodes.refused }.into());
    }
    let mut summary = MigrateSummary::default();
    for node in &nodes.found {
        match node.target {
            NodeMetadata::Array(_) => summary.arrays += 1,
            NodeMetadata::Group(_) => summary.groups += 1,
        }
        summary.ome += u64::from(is_ome(node.target.attributes()));
        if node.documents.v3.is_none() && write(node, options)? {
            summary.written += 1;
            let object = node.location.key(DOCUMENT)?.as_str().to_owned();
            report(&Migrated { object, removed: false });
        }
    }
    if options.remove_v2 {
        for node in &nodes.found {
            check(node, options)?;
        }
        // Outermost first, so that nobody finds a version 2 hierarchy that is only half there.
        for node in nodes.found.iter().rev() {
            summary.removed += remove(node, options, report)?;
        }
    }
    Ok(summary)
}

fn is_ome(attributes: &Map<String, Value>) -> bool {
    OME.iter().any(|name| attributes.contains_key(*name))
}

/// Writes the document of a node, unless another process has done so since; returns whether it was
/// written, or would be.
fn write(node: &MigratedNode, options: &MigrateOptions) -> Result<bool, Error> {
    if options.dry_run {
        return Ok(true);
    }
    let key = node.location.key(DOCUMENT)?;
    match node.location.store.put(&key, &node.target.to_bytes(), Condition::Absent) {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// An error unless the version 3 document exists and agrees with those of version 2.
fn check(node: &MigratedNode, options: &MigrateOptions) -> Result<(), Error> {
    let at = || node.location.to_string();
    let v3 = match options.dry_run {
        true => node.target.clone(),
        false => read_v3(&node.location)?.ok_or_else(|| Error::NoNode { at: at() })?,
    };
    // As they are now: the array may have grown since it was found.
    let v2 = match node.documents.v2.is_some() && !options.dry_run {
        true => read_v2(&node.location)?,
        false => node.documents.v2.clone(),
    };
    match v2.as_ref().and_then(|v2| difference(v2, &v3)) {
        Some(what) => Err(MigrateError::Differs { at: at(), what }.into()),
        None => Ok(()),
    }
}

/// Removes the version 2 documents; returns how many.
fn remove(
    node: &MigratedNode,
    options: &MigrateOptions,
    report: &mut dyn FnMut(&Migrated),
) -> Result<u64, Error> {
    // Once more: all others were checked in between.
    check(node, options)?;
    let mut removed = 0;
    for name in V2_DOCUMENTS {
        let Some(bytes) = stored(&node.location, name)? else { continue };
        // Without the document they belong to, they have not been compared yet; or that one was
        // unreadable.
        let compared = node.documents.v2.is_some()
            || (name == ".zattrs" && are_those_of(&bytes, &node.target));
        if !compared {
            continue;
        }
        let key = node.location.key(name)?;
        if !options.dry_run {
            node.location.store.delete(&key, &Condition::None)?;
        }
        removed += 1;
        report(&Migrated { object: key.as_str().to_owned(), removed: true });
    }
    Ok(removed)
}
