//! The metadata of an array that groups above it keep a copy of.
//!
//! Between the exchange of an array and the renewal of such a copy a reader that believes the copy would look for chunks
//! that are gone. So the copy is taken away before, when readers look at the array itself, and put back after.

use std::path::{Path, PathBuf};

use shardine_store::{Condition, FileStore, Key, StoreExt};

use crate::Error;
use crate::zarr::DOCUMENT;
use crate::zarr::metadata::{GroupMetadata, NodeMetadata};

/// Deeper than any hierarchy.
const MAX_DEPTH: usize = 64;

/// How often a copy is renewed that was out of date as soon as it was made.
const ATTEMPTS: usize = 8;

/// The name of what is kept of the group so many folders above the array.
fn kept_name(depth: usize) -> String {
    format!("group-{depth}.json")
}

/// The groups above an array: the folders above it as long as they are groups.
fn groups(above: &Path) -> Result<Vec<(PathBuf, GroupMetadata)>, Error> {
    let mut groups = Vec::new();
    for folder in above.ancestors().take(MAX_DEPTH) {
        let store = FileStore::new(folder);
        let Some(text) = store.get(&Key::new(DOCUMENT)?)? else { break };
        let Ok(NodeMetadata::Group(group)) = NodeMetadata::parse(&text) else { break };
        groups.push((folder.to_owned(), group));
    }
    Ok(groups)
}

/// Takes the copies away, and keeps in `work` what they were.
pub(super) fn take_away(beside: &FileStore, name: &Key, work: &Key) -> Result<(), Error> {
    let mut path = name.as_str().to_owned();
    for (depth, (folder, mut group)) in groups(beside.root())?.into_iter().enumerate() {
        let known =
            group.consolidated().unwrap_or_default().iter().any(|(known, _)| *known == path);
        if known {
            let kept = work.join(&kept_name(depth))?;
            beside.put(&kept, &group.to_bytes(), Condition::None)?;
            group.remove_consolidated();
            let store = FileStore::new(&folder);
            store.put(&Key::new(DOCUMENT)?, &group.to_bytes(), Condition::None)?;
        }
        let above = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        path = format!("{}/{path}", above.unwrap_or_default());
    }
    Ok(())
}

/// Puts the copies back, as the arrays are now.
pub(super) fn put_back(beside: &FileStore, work: &Key) -> Result<(), Error> {
    for (depth, (folder, _)) in groups(beside.root())?.into_iter().enumerate() {
        let kept = work.join(&kept_name(depth))?;
        let Some(text) = beside.get(&kept)? else { continue };
        if let Ok(NodeMetadata::Group(before)) = NodeMetadata::parse(&text) {
            renew(&FileStore::new(&folder), &before)?;
        }
        beside.remove_tree(&kept)?;
    }
    Ok(())
}

/// Gives a group its copy back, with what each array says itself. Another job may be at work on one of them.
fn renew(store: &FileStore, before: &GroupMetadata) -> Result<(), Error> {
    let document = Key::new(DOCUMENT)?;
    for _ in 0..ATTEMPTS {
        let Some(text) = store.get(&document)? else { return Ok(()) };
        let Ok(NodeMetadata::Group(now)) = NodeMetadata::parse(&text) else { return Ok(()) };
        let mut renewed = now.clone();
        if now.consolidated().is_none() {
            renewed.copy_consolidated(before);
        }
        let paths = renewed.consolidated().unwrap_or_default().iter();
        let arrays: Vec<String> = paths
            .filter(|(_, node)| !matches!(node, Ok(NodeMetadata::Group(_))))
            .map(|(path, _)| path.clone())
            .collect();
        for path in arrays {
            let key = Key::new(&format!("{path}/{DOCUMENT}"))?;
            if let Some(text) = store.get(&key)?
                && let Ok(node @ NodeMetadata::Array(_)) = NodeMetadata::parse(&text)
            {
                renewed.renew_consolidated(&path, &node);
            }
        }
        if renewed == now {
            return Ok(());
        }
        store.put(&document, &renewed.to_bytes(), Condition::None)?;
    }
    Ok(())
}
