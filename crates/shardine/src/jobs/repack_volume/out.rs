//! Makes a volume whose chunks are packed in another way, at another place.

use std::sync::Arc;

use shardine_store::{Condition, CreateOptions, FolderPart, Key, Store, StoreError, StoreExt};

use super::{Packed, RepackVolumeOptions, RepackedScale};
use crate::jobs::copy::clear::clear;
use crate::jobs::copy::marker::{JobKind, Marker, Start};
use crate::jobs::copy::place::check_apart;
use crate::jobs::frame::JobContext;
use crate::jobs::repack::{REPACK_MARKER, RepackError};
use crate::jobs::whole::{check_whole, refuse};
use crate::precomputed::INFO;
use crate::zarr::MAX_DEPTH;
use crate::{Engine, Error, Location};

const REPACK: JobKind = JobKind { marker: REPACK_MARKER, member: "shardine_repack_volume" };

pub(super) fn repack(
    context: &JobContext,
    source: &Location,
    target: &Location,
    mut wanted: impl Packed,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<(), Error> {
    let engine = context.engine();
    check_apart(source, target)?;
    check_whole(source, Some(target))?;
    wanted.check_inside()?;
    if options.dry_run {
        wanted.reports(false).into_iter().for_each(tell);
        return Ok(());
    }
    let before = fingerprint(source)?;
    let (marker, resumed) = begin(engine, source, target, &wanted, options, before)?;
    wanted.build(context, target, options, resumed)?;
    copy_others(source, target, "", &wanted, 0)?;
    wanted.recount(engine, target)?;
    if fingerprint(source)? != before {
        return Err(RepackError::Changed { at: source.to_string() }.into());
    }
    target.store.put(&target.key(INFO)?, &wanted.info(), Condition::None)?;
    marker.end(target)?;
    wanted.reports(resumed).into_iter().for_each(tell);
    Ok(())
}

/// Marks the target, and makes room in it; tells whether an earlier run has left something that can be used.
fn begin(
    engine: &Arc<Engine>,
    source: &Location,
    target: &Location,
    wanted: &impl Packed,
    options: &RepackVolumeOptions,
    before: Option<u64>,
) -> Result<(Marker, bool), Error> {
    let mut marker = Marker::new(&REPACK, source, wanted.request())?;
    let restart = options.restart && marker.is_at(target)?;
    let mut start = marker.begin(source, target, restart)?;
    // What an earlier run has made may be of a source that has changed since, or nobody can tell.
    let is_same = before.is_some_and(|state| marker.is_begun("", state));
    if start == Start::Resumed && !is_same {
        start = Start::Clear;
    }
    if start == Start::Clear {
        clear(target, engine.threads(), REPACK_MARKER)?;
        marker.cleared(target)?;
    }
    if let Some(state) = before
        && !is_same
    {
        marker.begin_part(target, "", state)?;
    }
    let resumed = start == Start::Resumed;
    if resumed && let Some(exchange) = target.store.exchange() {
        let (beside, name) = exchange.beside(target.path.as_ref())?;
        beside.remove_temporaries(&name)?;
    }
    Ok((marker, resumed))
}

/// What changes when somebody writes to a data set, where that can be told.
fn fingerprint(location: &Location) -> Result<Option<u64>, Error> {
    let Some(exchange) = location.store.exchange() else { return Ok(None) };
    Ok(Some(exchange.fingerprint(location.path.as_ref())?))
}

/// Copies all that lies in a volume's folder and is not built.
fn copy_others(
    source: &Location,
    target: &Location,
    folder: &str,
    wanted: &impl Packed,
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        let reason = format!("\"{folder}\" lies too deep: the links around it may be a loop");
        return Err(RepackError::Layout { at: source.to_string(), reason }.into());
    }
    let here = |location: &Location| -> Result<Option<Key>, Error> {
        Ok(if folder.is_empty() { location.path.clone() } else { Some(location.key(folder)?) })
    };
    let listing = source.store.list(here(source)?.as_ref())?;
    refuse(source, &listing.unlisted, listing.more_unlisted)?;
    let below = |key: &Key| {
        let name = key.as_str().rsplit('/').next().unwrap_or_default();
        if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
    };
    for (key, len) in &listing.objects {
        let path = below(key);
        if path != REPACK_MARKER && wanted.part(&path, false) == FolderPart::Carried {
            copy_object(&*source.store, key, *len, &*target.store, &target.key(&path)?)?;
        }
    }
    for key in &listing.folders {
        let path = below(key);
        if wanted.part(&path, true) != FolderPart::Left {
            copy_others(source, target, &path, wanted, depth + 1)?;
        }
    }
    Ok(())
}

fn copy_object(
    from: &dyn Store,
    key: &Key,
    len: u64,
    to: &dyn Store,
    target: &Key,
) -> Result<(), StoreError> {
    let object = from.open(key, None)?;
    let len = object.len().unwrap_or(len);
    let writer = to.create(target, CreateOptions::default())?;
    writer.append_from(&*object, 0..len)?;
    let staged = writer.finish(&[])?;
    object.check_unchanged()?;
    to.publish(vec![staged])?;
    Ok(())
}
