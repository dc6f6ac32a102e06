//! Carries over whatever else people keep in a data set's folder: everything the job does not write
//! itself.

use shardine_store::{
    Condition, CreateOptions, FolderPart, HeaderName, Key, ReadRange, StoreError, Version,
};

use super::JobContext;
use super::marker::is_report;
use crate::engine::Publisher;
use crate::engine::tuning::{JOB_BATCH, REMOTE_WRITES};
use crate::jobs::repack::RepackError;
use crate::jobs::whole::refuse;
use crate::jobs::{COPY_MARKER, PYRAMID_MARKER, REPACK_MARKER};
use crate::zarr::{APPEND_MARKER, CONVERT_MARKER, MAX_DEPTH};
use crate::{Error, Location};

/// Markers of jobs, which do not belong in a copy.
const MARKERS: [&str; 5] =
    [REPACK_MARKER, COPY_MARKER, CONVERT_MARKER, APPEND_MARKER, PYRAMID_MARKER];

/// Bytes moved in one step.
const PIECE: u64 = 1 << 20;

/// Bytes of objects held in memory on their way to a remote store.
const IN_FLIGHT: u64 = 8 << 20;

/// Copies everything that `part` classifies as carried over, by its path below the source.
///
/// Costs a listing for each folder that is not left out and a copy for each object, several in
/// parallel. Files are listed and examined again at the end: one that has appeared, vanished or
/// changed in the meantime is an error. If the store cannot list, nothing is carried over, which is
/// an error if `required`. Memory is in proportion to the names of what is copied.
pub(in crate::jobs) fn carry_over(
    context: &JobContext,
    source: &Location,
    target: &Location,
    part: &dyn Fn(&str, bool) -> FolderPart,
    required: bool,
) -> Result<(), Error> {
    let gather = || {
        let mut found = Vec::new();
        gather(source, "", part, 0, required, &mut found)?;
        found.sort();
        Ok::<_, Error>(found)
    };
    let found = gather()?;
    let local = source.store.read_cost().local;
    let before = if local { versions(source, &found)? } else { Vec::new() };
    let engine = context.engine();
    let publisher = Publisher::new(&*target.store, JOB_BATCH);
    let copy = |(path, len): (String, u64)| -> Result<(), Error> {
        context.check()?;
        copy_object(source, target, &path, len, &publisher)
    };
    if local && target.store.read_cost().local {
        engine.each_task(found.iter().cloned(), &|object, _| copy(object))?;
    } else {
        engine.each_waiting(IN_FLIGHT, REMOTE_WRITES, found.iter().cloned(), &copy)?;
    }
    publisher.finish()?;
    if local {
        let now = versions(source, &found)?;
        // The version of a file that has only just been written is not known.
        let same = before.iter().zip(&now).all(|(before, now)| before.is_none() || before == now);
        if !same || gather()? != found {
            return Err(RepackError::Changed { at: source.to_string() }.into());
        }
    }
    Ok(())
}

/// The versions of objects, as far as opening them tells; `None` of one that is no longer there.
fn versions(source: &Location, found: &[(String, u64)]) -> Result<Vec<Option<Version>>, Error> {
    let version = |(path, _): &(String, u64)| match source.store.open(&source.key(path)?, None) {
        Err(StoreError::NotFound { .. }) => Ok(None),
        object => Ok(object?.version()),
    };
    found.iter().map(version).collect()
}

/// Lists what is carried over below a folder, with the length from the listing.
fn gather(
    source: &Location,
    folder: &str,
    part: &dyn Fn(&str, bool) -> FolderPart,
    depth: usize,
    required: bool,
    found: &mut Vec<(String, u64)>,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep(source, folder));
    }
    let here = match folder {
        "" => source.path.clone(),
        folder => Some(source.key(folder)?),
    };
    let listing = match source.store.list(here.as_ref()) {
        // Without a listing, nothing else is known.
        Err(StoreError::Unsupported { .. }) if !required => return Ok(()),
        listing => listing?,
    };
    refuse(source, &listing.unlisted, listing.more_unlisted)?;
    let name = |key: &Key| key.as_str().rsplit('/').next().unwrap_or_default().to_owned();
    let below = |name: &str| match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    };
    for (key, len) in &listing.objects {
        let name = name(key);
        let path = below(&name);
        let is_marker = MARKERS.contains(&name.as_str()) || is_report(&name);
        if !is_marker && part(&path, false) == FolderPart::Carried {
            found.push((path, *len));
        }
    }
    for key in &listing.folders {
        let path = below(&name(key));
        match part(&path, true) {
            FolderPart::Left => {}
            FolderPart::Inside => gather(source, &path, part, depth + 1, required, found)?,
            // Everything in it is carried over.
            FolderPart::Carried => gather_all(source, &path, depth + 1, found)?,
        }
    }
    Ok(())
}

/// Lists everything below a folder, including the markers of jobs on data sets in it.
fn gather_all(
    source: &Location,
    folder: &str,
    depth: usize,
    found: &mut Vec<(String, u64)>,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep(source, folder));
    }
    let listing = source.store.list(Some(&source.key(folder)?))?;
    refuse(source, &listing.unlisted, listing.more_unlisted)?;
    let below =
        |key: &Key| format!("{folder}/{}", key.as_str().rsplit('/').next().unwrap_or_default());
    found.extend(listing.objects.iter().map(|(key, len)| (below(key), *len)));
    listing.folders.iter().try_for_each(|key| gather_all(source, &below(key), depth + 1, found))
}

fn too_deep(source: &Location, folder: &str) -> Error {
    let reason = format!("\"{folder}\" is nested too deeply: links may form a loop there");
    RepackError::Layout { at: source.to_string(), reason }.into()
}

fn copy_object(
    source: &Location,
    target: &Location,
    path: &str,
    listed: u64,
    publisher: &Publisher<'_, ()>,
) -> Result<(), Error> {
    let object = source.store.open(&source.key(path)?, None)?;
    let options = CreateOptions { head: 0, condition: Condition::None };
    let writer = target.store.create(&target.key(path)?, options)?;
    let known = match object.len() {
        Some(len) => Some(len),
        // The length and encoding of a remote object are known after its first read.
        None => {
            object.read(ReadRange::Bounded(0..listed.min(1)))?;
            let encoded = object.headers().get(&HeaderName::ContentEncoding).is_some();
            object.len().filter(|_| !encoded)
        }
    };
    let len = match known {
        Some(len) => {
            let mut at = 0;
            while at < len {
                let end = len.min(at + PIECE);
                writer.append_from(&*object, at..end)?;
                at = end;
            }
            len
        }
        None => {
            let bytes = object.read(ReadRange::All)?;
            writer.append(&bytes)?;
            bytes.len() as u64
        }
    };
    let staged = writer.finish(&[])?;
    object.check_unchanged()?;
    publisher.add(staged, (), len)?;
    Ok(())
}
