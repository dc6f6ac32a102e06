//! Makes a volume whose chunks are packed in another way, at another place.

use std::sync::Arc;

use shardine_store::{Condition, CreateOptions, FolderPart, Key, Store, StoreError, StoreExt};

use super::{Packed, RepackVolumeOptions, RepackedScale};
use crate::jobs::repack::{REPACK_MARKER, RepackError};
use crate::precomputed::INFO;
use crate::{Engine, Error, Location};

/// Deeper than any volume that is not a loop of links.
const MAX_DEPTH: usize = 64;

pub(super) fn repack(
    engine: &Arc<Engine>,
    source: &Location,
    target: &Location,
    mut wanted: impl Packed,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<(), Error> {
    if options.dry_run {
        wanted.reports(false).into_iter().for_each(tell);
        return Ok(());
    }
    let request = format!("{:#}\n", wanted.request());
    let marker = target.key(REPACK_MARKER)?;
    let exists = || Error::Exists { at: target.to_string() };
    let mut resumed = false;
    match target.store.get(&marker)? {
        Some(found) if *found == *request.as_bytes() && !options.restart => resumed = true,
        Some(found) if !options.restart => {
            let (at, request) = (target.to_string(), String::from_utf8_lossy(&found).into_owned());
            return Err(RepackError::OtherJob { at, request }.into());
        }
        Some(_) => {}
        None => {
            let listing = target.store.list(target.path.as_ref())?;
            if !(listing.objects.is_empty() && listing.folders.is_empty()) {
                return Err(exists());
            }
        }
    }
    target.store.put(&marker, request.as_bytes(), Condition::None)?;
    wanted.build(engine, target, options, resumed)?;
    copy_others(source, target, "", &wanted, 0)?;
    wanted.recount(engine, target)?;
    target.store.put(&target.key(INFO)?, &wanted.info(), Condition::None)?;
    target.store.delete(&marker, &Condition::None)?;
    wanted.reports(resumed).into_iter().for_each(tell);
    Ok(())
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
        return Ok(());
    }
    let here = |location: &Location| -> Result<Option<Key>, Error> {
        Ok(if folder.is_empty() { location.path.clone() } else { Some(location.key(folder)?) })
    };
    let listing = source.store.list(here(source)?.as_ref())?;
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
