//! The metadata of an array that groups above it keep a copy of.
//!
//! Between the exchange of an array and the renewal of such a copy a reader that believes the copy would look for chunks
//! that are gone. So the copy is taken away before, when readers look at the array itself, and put back after.

use std::path::Path;

use crate::zarr::MAX_DEPTH;
use shardine_store::{
    Condition, FileStore, Key, LeftoverKind, MAX_SMALL_OBJECT, ReadRange, Store, StoreError,
    StoreExt,
};

use crate::zarr::DOCUMENT;
use crate::zarr::metadata::{GroupMetadata, NodeMetadata, check_node_name};
use crate::{Error, Location};

/// How often a copy is renewed that was out of date as soon as it was made.
const ATTEMPTS: usize = 8;

/// A group above an array that may have a copy of its metadata.
struct Above {
    store: FileStore,
    group: GroupMetadata,
    /// The array's path below it.
    path: String,
    /// Where it is kept what the group said.
    kept: Key,
}

/// The groups above an array: the folders above it as long as they are groups. If links lead to the array, also those
/// above the place that it was reached by.
fn above(
    beside: &FileStore,
    name: &Key,
    work: &Key,
    place: &Location,
) -> Result<Vec<Above>, Error> {
    let mut places = vec![beside.root().join(name.as_str())];
    if let Some(folders) = place.store.folders() {
        places.push(folders.path_of(place.path.as_ref()));
        places.dedup();
    }
    let mut found: Vec<Above> = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let mut path = String::new();
        for (depth, folder) in place.ancestors().skip(1).take(MAX_DEPTH).enumerate() {
            let below = place.ancestors().nth(depth).and_then(Path::file_name);
            let below = below.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            path = if path.is_empty() { below } else { format!("{below}/{path}") };
            let store = beside.elsewhere(folder);
            let Some(text) = store.get(&Key::new(DOCUMENT)?)? else { break };
            let Ok(NodeMetadata::Group(group)) = NodeMetadata::parse(&text) else { break };
            let kept = work.join(&format!("group-{number}-{depth}.json"))?;
            found.push(Above { store, group, path: path.clone(), kept });
        }
    }
    Ok(found)
}

/// Takes the copies away, and keeps in `work` what they were.
pub(in crate::jobs) fn take_away(
    beside: &FileStore,
    name: &Key,
    work: &Key,
    place: &Location,
) -> Result<(), Error> {
    for Above { store, group, path, kept } in above(beside, name, work, place)? {
        if !group.knows(&path) {
            continue;
        }
        let document = Key::new(DOCUMENT)?;
        // Only the copy goes: what somebody else changes in the document meanwhile stays.
        loop {
            let object = store.open(&document, None)?;
            let text = object.read(ReadRange::All)?;
            let Ok(NodeMetadata::Group(mut group)) = NodeMetadata::parse(&text) else { break };
            if !group.knows(&path) {
                break;
            }
            beside.put(&kept, &group.to_bytes(), Condition::None)?;
            group.remove_consolidated();
            let condition = object.version().map_or(Condition::None, Condition::Unchanged);
            match store.put(&document, &group.to_bytes(), condition) {
                Ok(_) => break,
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Puts the copies back, as the arrays are now, and renews those that another job has put back meanwhile.
pub(in crate::jobs) fn put_back(
    beside: &FileStore,
    name: &Key,
    work: &Key,
    place: &Location,
) -> Result<(), Error> {
    for Above { store, path, kept, .. } in above(beside, name, work, place)? {
        let before = match beside.get(&kept)? {
            None => None,
            Some(text) => match NodeMetadata::parse(&text) {
                Ok(NodeMetadata::Group(before)) => Some(before),
                _ => None,
            },
        };
        // What a run left that was killed here; nobody else knows whose it is.
        for leftover in store.leftovers(None)? {
            if leftover.kind == LeftoverKind::Temporary && !leftover.in_use && before.is_some() {
                store.remove_leftover(None, &leftover.name)?;
            }
        }
        renew(&store, before.as_ref(), &path)?;
        beside.remove_tree(&kept)?;
    }
    Ok(())
}

/// Gives a group its copy back, with what each array says itself, or renews what it says of one array. Another job may be at
/// work on another.
fn renew(store: &FileStore, before: Option<&GroupMetadata>, path: &str) -> Result<(), Error> {
    let document = Key::new(DOCUMENT)?;
    for _ in 0..ATTEMPTS {
        let object = store.open(&document, None)?;
        let text = object.read(ReadRange::AtMost(MAX_SMALL_OBJECT))?;
        let Ok(NodeMetadata::Group(now)) = NodeMetadata::parse(&text) else { return Ok(()) };
        let mut renewed = now.clone();
        let mut arrays = vec![path.to_owned()];
        if let Some(before) = before {
            if now.consolidated().is_none() {
                renewed.copy_consolidated(before);
            }
            let known = renewed.consolidated().unwrap_or_default().iter();
            let known = known.filter(|(_, node)| !matches!(node, Ok(NodeMetadata::Group(_))));
            arrays = known.map(|(path, _)| path.clone()).collect();
        }
        for path in arrays {
            // What no node may be called is left as it is: the array has been exchanged by now, and nobody follows it.
            if path.split('/').try_for_each(check_node_name).is_err() {
                continue;
            }
            let Ok(key) = Key::new(&format!("{path}/{DOCUMENT}")) else { continue };
            if let Some(text) = store.get(&key)?
                && let Ok(node @ NodeMetadata::Array(_)) = NodeMetadata::parse(&text)
                && renewed.knows(&path)
            {
                let nodes = [(path.clone(), node)];
                let wrong = |source| Error::Metadata { object: key, source: Box::new(source) };
                renewed.renew_consolidated(&path, &nodes).map_err(wrong)?;
            }
        }
        if renewed.to_bytes() == now.to_bytes() {
            return Ok(());
        }
        let condition = object.version().map_or(Condition::None, Condition::Unchanged);
        match store.put(&document, &renewed.to_bytes(), condition) {
            // Looked at once more: an array may have been exchanged while its document was read.
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
