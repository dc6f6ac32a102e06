//! Copies whole data sets from store to store, byte for byte.

pub(super) mod clear;
mod error;
mod job;
pub(super) mod keys;
mod options;
mod pieces;
mod queue;
mod worker;

use super::frame::{
    Beginning, JobError, JobKind, Marker, PartEnd, Start, place, remove_leftovers_below,
    source_state,
};
use super::rebuild::PartOutcome;
use super::span::job_span;
use super::whole::check_whole;
use crate::dataset::{contents, document_names};
use crate::{Error, Location};
use job::Job;
use keys::{KeySource, Told, nothing_told, refusal};
use serde_json::Value;
use shardine_store::StoreExt;

pub use error::CopyError;
pub use options::{CopyCheck, CopyOptions, CopyProgress, CopyReport};

/// The object at the root of a target that marks it as unfinished, while a copy writes it or after
/// one was killed.
pub const COPY_MARKER: &str = ".shardine-copy.json";

const COPY: JobKind = JobKind { marker: COPY_MARKER, member: "shardine_copy" };

/// Copies every object below a location to another, which may be in another store.
///
/// Objects appear whole in the target, and metadata (the documents of all formats, by name) after
/// everything else, the deepest first and the root's last: a reader of the target never finds an
/// array whose shards are still to come.
///
/// The target must be empty, unless it is overwritten or an earlier copy of the same source was
/// interrupted there, as [`COPY_MARKER`] says. Then existing objects of the same length are kept;
/// that they have the same bytes is only certain with [`CopyCheck::Content`], in case the source
/// was changed meanwhile. Metadata is always copied again. What is overwritten is removed first,
/// and only if it is a data set.
///
/// Between stores that keep headers with their objects (S3, Google Cloud Storage, Azure) objects
/// are copied as stored, with their content type, encoding and user metadata. Where the target has
/// none, a `Content-Encoding` is decoded, and the other headers are dropped.
///
/// An object that changes while it is read is copied again from the start. A shard that is being
/// updated in place, or was when its writer died, is copied as it was before or after. An object
/// that disappears is left out, unless it is metadata.
///
/// A source that contains something that is not copied, such as a link to a folder, is
/// [`Error::LeftOut`]; on files before anything is written. A link to a file is copied as the file.
/// A document that names folders outside the source, which would not be copied, is
/// [`CopyError::Outside`].
///
/// A source that cannot be listed is copied if its documents name all its objects: a Zarr array, a
/// group with consolidated metadata, a precomputed volume whose meshes and skeletons, if any, are
/// in shards, or what a `datasource-properties.json` of webknossos describes. Then every object
/// that the grids could have is requested.
///
/// Costs a listing for each folder of the source, and for each object one request to read it (one
/// for each 8 MiB) and what the target needs to write it; a check of lengths costs one listing for
/// each folder of the target, a check of contents reads all of it. Between local files the kernel
/// moves the bytes, unless contents are checked. Memory is the bytes in flight, the names in some
/// folders, and the names of all metadata.
///
/// ```
/// use std::sync::Arc;
/// use shardine::store::{Condition, Key, MemoryStore, Store, StoreExt};
/// use shardine::jobs::{CopyOptions, copy};
/// use shardine::Location;
///
/// let (from, to) = (MemoryStore::new(), MemoryStore::new());
/// from.put(&Key::new("a/zarr.json")?, b"{}", Condition::None)?;
/// let (source, target) = (Location::root(Arc::new(from)), Location::root(Arc::new(to)));
/// let report = copy(&source, &target, &CopyOptions::new())?;
/// assert_eq!((report.objects_copied, report.bytes_copied), (1, 2));
/// # Ok::<(), shardine::Error>(())
/// ```
pub fn copy(
    source: &Location,
    target: &Location,
    options: &CopyOptions,
) -> Result<CopyReport, Error> {
    let _span = job_span("copy", source);
    place::check_apart(source, target)?;
    check_whole(source, Some(target))?;
    match keys::list(source)? {
        Some(listed) => run(source, target, options, &listed),
        None => match contents(source) {
            Ok(Some(told)) => run(source, target, options, &Told::new(told)?),
            Ok(None) if place::is_object(source)? => {
                Err(CopyError::SingleObject { at: source.to_string() }.into())
            }
            Ok(None) => Err(nothing_told(source)),
            Err(error) => Err(refusal(source, error)),
        },
    }
}

fn run<K: KeySource>(
    source: &Location,
    target: &Location,
    options: &CopyOptions,
    keys: &K,
) -> Result<CopyReport, Error> {
    let mut marker = Marker::new(&COPY, source, Value::Null)?;
    let part = options.part;
    let before = match part {
        Some(_) if options.overwrite => {
            let reason = "each part would remove what the others have copied";
            return Err(JobError::NotInParts { option: "--overwrite", reason }.into());
        }
        Some(_) => source_state::of_tree(source)?,
        None => None,
    };
    if let Some(state) = before {
        marker.expect_source("", state);
    }
    let how = Beginning {
        overwrite: options.overwrite,
        take_over: options.take_over,
        part,
        within: false,
    };
    let start = marker.begin(Some(source), target, how)?;
    if start == Start::Exists {
        return match is_copied(source, target)? {
            true => {
                let report = Job::new(source, target, options, true).report();
                Ok(CopyReport { outcome: PartOutcome::AlreadyThere, ..report })
            }
            false => Err(Error::Exists { at: target.to_string() }),
        };
    }
    // Another process of the same part may have been here.
    let job = Job::new(source, target, options, start == Start::Resumed || part.is_some());
    if marker.is_finishing() {
        marker.end(target)?;
        return Ok(job.report());
    }
    if marker.begun("") != before {
        return Err(JobError::SourceChanged { at: source.to_string() }.into());
    }
    if start == Start::Clear {
        clear::clear(target, job.threads, COPY_MARKER)?;
        marker.cleared(target)?;
    }
    // Other parts may be at work, and the last one removes what is left.
    if start == Start::Resumed && part.is_none() {
        // What a run that was killed was writing may be what fills the disk.
        remove_leftovers_below(target)?;
    }
    if let Some(part) = part {
        // This part runs again, and until it is done the copy must not be finished.
        marker.remove_report(target, part)?;
    }
    let copied = job.copy_objects(keys);
    if let Some(part) = part {
        copied?;
        if source_state::of_tree(source)? != before || !job.is_source_unchanged()? {
            return Err(JobError::SourceChanged { at: source.to_string() }.into());
        }
        match marker.end_part(target, part, &Value::Null)? {
            PartEnd::Last(_) => {}
            PartEnd::Finished => return Ok(job.report()),
            PartEnd::Waiting(missing) => {
                let outcome = PartOutcome::Waiting { missing };
                return Ok(CopyReport { outcome, ..job.report() });
            }
        }
        if !marker.is_under_way(target)? {
            return Ok(job.report());
        }
        job.copy_documents()?;
        marker.end(target)?;
        return Ok(job.report());
    }
    let copied = copied.and_then(|()| match job.is_source_unchanged()? {
        true => job.copy_documents(),
        false => Ok(()),
    });
    if !job.is_source_unchanged()? {
        // What was copied may mix both states, and a later run would trust it.
        clear::clear(target, job.threads, COPY_MARKER)?;
        return Err(CopyError::SourceChanged { at: source.to_string() }.into());
    }
    copied?;
    marker.end(target)?;
    Ok(job.report())
}

/// Whether the root documents of two locations are the same.
fn is_copied(source: &Location, target: &Location) -> Result<bool, Error> {
    let mut any = false;
    for name in document_names().flat_map(|names| names.making) {
        let from = source.store.get(&source.key(name)?)?;
        let to = target.store.get(&target.key(name)?)?;
        any |= from.is_some();
        if from.as_deref() != to.as_deref() {
            return Ok(false);
        }
    }
    Ok(any)
}
