//! Consolidated metadata: a group's copy of the metadata of all nodes below it.
//!
//! Readers that trust a copy (xarray does, by default) see nothing else, so every change to the
//! metadata of a node also updates the copies of the groups above it. A copy is untrusted input:
//! only entries of the changed node are touched, and none is ever followed.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::MAX_DEPTH;
use shardine_store::{Condition, Edit, FileStore, Key, ReadRange, StoreError, StoreExt};

use super::metadata::{
    GroupMetadata, MetadataError, NodeMetadata, ZarrFormat, v2_consolidated, v2_names, v2_without,
};
use super::node::{
    DOCUMENT, V2_ARRAY, V2_ATTRIBUTES, V2_CONSOLIDATED, V2_GROUP, formats_at, read_v3,
};
use crate::engine::in_order;
use crate::{Error, Location};

/// How often a copy is updated again if it was out of date as soon as it was written.
pub(super) const ATTEMPTS: usize = 16;

/// Documents read in parallel from a remote store.
const AT_ONCE: usize = 16;

/// A group whose consolidated metadata is out of date, because it could not be updated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaleCopy {
    /// Which group.
    pub at: String,
    /// Why it could not be updated.
    pub reason: String,
}

/// Updates the entries of a node, and of the nodes below it, in the consolidated metadata of the
/// groups above; returns the groups whose copy is out of date because that failed.
///
/// Searches upwards as long as the next folder is a group: one read for each, and for a group with
/// a copy, a read of each changed node and a conditional write. Both the path through links and the
/// real path of the node are searched. Everything that changes a single array does this itself
/// ([`ArrayNode::create`](super::ArrayNode::create),
/// [`ArrayNode::resize`](super::ArrayNode::resize), [`Group::create`](super::Group::create),
/// in-place repacking); call it after making a hierarchy of many nodes.
pub fn renew_consolidated_above(location: &Location) -> Vec<StaleCopy> {
    let mut stale = Vec::new();
    let groups = above(location, &mut stale);
    for (group, path) in &groups {
        if let Err(error) = renew(group, Some((path, location))) {
            stale.push(StaleCopy { at: group.to_string(), reason: error.to_string() });
        }
        if let Err(error) = forget_v2(group, path) {
            stale.push(StaleCopy { at: group.to_string(), reason: error.to_string() });
        }
    }
    stale
}

/// Gives a group a copy of the metadata of all nodes below it; returns their number.
///
/// In version 3 the copy is a member of the group's `zarr.json`, in version 2 a `.zmetadata`. A
/// node that cannot be read is an error: readers that trust the copy would never see it. Costs a
/// listing for each group and a read for each document.
pub fn consolidate(location: &Location) -> Result<usize, Error> {
    match format_of(location)? {
        ZarrFormat::V3 => renew(location, None),
        ZarrFormat::V2 => consolidate_v2(location),
    }
}

/// Removes the consolidated metadata of a group; returns whether there was any.
pub fn remove_consolidated(location: &Location) -> Result<bool, Error> {
    if format_of(location)? == ZarrFormat::V2 {
        let key = location.key(V2_CONSOLIDATED)?;
        let there = location.store.get(&key)?.is_some();
        location.store.delete(&key, &Condition::None)?;
        return Ok(there);
    }
    for _ in 0..ATTEMPTS {
        let (mut group, edit) = hold_group(location)?;
        if !group.has_consolidated() {
            return Ok(false);
        }
        group.remove_consolidated();
        if put(location, &group, edit)? {
            return Ok(true);
        }
    }
    Err(Error::MetadataChanged { at: location.to_string() })
}

/// Updates the `.zmetadata` of a version 2 group, and of those above it, where it exists; returns
/// the groups for which that failed.
pub(super) fn renew_v2_copies(location: &Location) -> Vec<StaleCopy> {
    let mut stale = Vec::new();
    let mut groups: Vec<Location> =
        above(location, &mut stale).into_iter().map(|(group, _)| group).collect();
    groups.push(location.clone());
    for group in groups {
        let renewed =
            group.key(V2_CONSOLIDATED).and_then(|key| match group.store.get(&key)?.is_some() {
                true => consolidate_v2(&group).map(drop),
                false => Ok(()),
            });
        if let Err(error) = renewed {
            stale.push(StaleCopy { at: group.to_string(), reason: error.to_string() });
        }
    }
    stale
}

/// The version whose documents are used at a location.
pub(super) fn format_of(location: &Location) -> Result<ZarrFormat, Error> {
    let formats = match location.format {
        Some(format) => vec![format],
        None => formats_at(location)?,
    };
    formats.first().copied().ok_or_else(|| Error::NoNode { at: location.to_string() })
}

/// The groups above a node, each with the path of the node below it.
pub(super) fn above(location: &Location, stale: &mut Vec<StaleCopy>) -> Vec<(Location, String)> {
    let mut found: Vec<(Location, String)> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    let mut places = vec![location.clone().with_format(None)];
    if let Some(folders) = location.store.folders() {
        let folder = folders.path_of(location.path.as_ref());
        match folder.canonicalize() {
            Ok(real) if real != folder => {
                places.push(Location::root(Arc::new(FileStore::new(real))));
            }
            Ok(_) => {}
            // A folder that no longer exists has no other path.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                stale.push(StaleCopy { at: location.to_string(), reason: error.to_string() });
            }
        }
    }
    for place in places {
        let (mut at, mut path) = (place, String::new());
        for _ in 0..MAX_DEPTH {
            let (group, name) = match at.parent() {
                Ok(Some(parent)) => parent,
                Ok(None) => break,
                Err(error) => {
                    stale.push(StaleCopy { at: at.to_string(), reason: error.to_string() });
                    break;
                }
            };
            path = if path.is_empty() { name } else { format!("{name}/{path}") };
            match is_group(&group) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    stale.push(StaleCopy { at: group.to_string(), reason: error.to_string() });
                    break;
                }
            }
            let identity = identity(&group);
            if !known.contains(&identity) {
                known.push(identity);
                found.push((group.clone(), path.clone()));
            }
            at = group;
        }
    }
    found
}

fn is_group(location: &Location) -> Result<bool, Error> {
    match read_v3(location)? {
        Some(NodeMetadata::Group(_)) => Ok(true),
        Some(NodeMetadata::Array(_)) => Ok(false),
        None => Ok(location.store.get(&location.key(V2_GROUP)?)?.is_some()),
    }
}

/// The same text for the same group, whichever path leads to it.
pub(super) fn identity(location: &Location) -> String {
    match location.store.folders() {
        Some(folders) => {
            let folder = folders.path_of(location.path.as_ref());
            folder.canonicalize().unwrap_or(folder).display().to_string()
        }
        None => {
            let path = location.path.as_ref().map(Key::as_str).unwrap_or_default();
            format!("{}/{path}", location.store.identity())
        }
    }
}

pub(super) fn refused(location: &Location, name: &str, source: MetadataError) -> Error {
    match location.key(name) {
        Ok(object) => Error::Metadata { object, source: Box::new(source) },
        Err(error) => error,
    }
}

/// The document of a group, held for a change.
pub(super) fn hold_group(location: &Location) -> Result<(GroupMetadata, Edit), Error> {
    let edit = match location.store.edit(&location.key(DOCUMENT)?) {
        Ok(edit) => edit,
        Err(StoreError::NotFound { .. }) => {
            return Err(Error::NoNode { at: location.to_string() });
        }
        Err(error) => return Err(error.into()),
    };
    match NodeMetadata::parse(&edit.object.read(ReadRange::All)?) {
        Ok(NodeMetadata::Group(group)) => Ok((group, edit)),
        Ok(NodeMetadata::Array(_)) => Err(Error::NotAGroup { at: location.to_string() }),
        Err(source) => Err(refused(location, DOCUMENT, source)),
    }
}

/// Replaces the document of a group if it is still the one that is held; returns whether it was.
pub(super) fn put(location: &Location, group: &GroupMetadata, edit: Edit) -> Result<bool, Error> {
    let key = location.key(DOCUMENT)?;
    match location.store.put(&key, &group.to_bytes(), edit.condition()) {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict { .. } | StoreError::Changed { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Updates a group's entries for one node, if it has a copy; or for all nodes, creating a copy.
/// Returns how many nodes were looked at.
fn renew(location: &Location, changed: Option<(&str, &Location)>) -> Result<usize, Error> {
    for _ in 0..ATTEMPTS {
        if changed.is_some() {
            match read_v3(location)? {
                Some(NodeMetadata::Group(group)) if group.has_consolidated() => {}
                // A version 2 group has no such copy.
                _ => return Ok(0),
            }
        }
        let (now, edit) = hold_group(location)?;
        if changed.is_some() && now.has_consolidated() && now.consolidated().is_none() {
            let reason = "is of an unknown kind";
            let source = MetadataError::invalid("consolidated_metadata", reason);
            return Err(refused(location, DOCUMENT, source));
        }
        let mut renewed = now.clone();
        let (path, nodes) = match changed {
            Some((path, node)) => (Some(path), nodes_at(path, node)?),
            None => (None, below(location)?),
        };
        match path {
            Some(path) => renewed.renew_consolidated(path, &nodes),
            None => renewed.set_consolidated(&nodes),
        }
        .map_err(|source| refused(location, DOCUMENT, source))?;
        if renewed.to_bytes() == now.to_bytes() {
            return Ok(nodes.len());
        }
        // Even so, check once more: a node may have changed while its copy was made.
        put(location, &renewed, edit)?;
    }
    Err(Error::MetadataChanged { at: location.to_string() })
}

/// A node and all nodes below it, by path from a group above; empty if the node does not exist.
fn nodes_at(path: &str, node: &Location) -> Result<Vec<(String, NodeMetadata)>, Error> {
    let Some(metadata) = read_v3(node)? else { return Ok(Vec::new()) };
    let inside = match metadata {
        NodeMetadata::Array(_) => Vec::new(),
        NodeMetadata::Group(_) => below(node)?,
    };
    let mut nodes = vec![(path.to_owned(), metadata)];
    nodes.extend(inside.into_iter().map(|(name, node)| (format!("{path}/{name}"), node)));
    Ok(nodes)
}

/// All nodes below a group, by path, each group before its nodes.
fn below(location: &Location) -> Result<Vec<(String, NodeMetadata)>, Error> {
    let mut nodes = Vec::new();
    each_below(location, "", 0, &|place| read_v3(place), &mut |path, node| {
        let inside = matches!(node, NodeMetadata::Group(_));
        nodes.push((path.to_owned(), node));
        inside
    })?;
    Ok(nodes)
}

/// Visits what `read` finds in the folders of a group, and where `visit` says so, in their folders.
fn each_below<T: Send>(
    location: &Location,
    path: &str,
    depth: usize,
    read: &(dyn Fn(&Location) -> Result<Option<T>, Error> + Sync),
    visit: &mut dyn FnMut(&str, T) -> bool,
) -> Result<(), Error> {
    let folders = location.store.list(location.path.as_ref())?.folders;
    if depth > MAX_DEPTH && !folders.is_empty() {
        return Err(Error::TooDeep { at: location.to_string(), most: MAX_DEPTH });
    }
    let cost = location.store.read_cost();
    let most = if cost.local { 1 } else { cost.in_flight.clamp(1, AT_ONCE) };
    let places: Vec<Location> = folders.into_iter().map(|key| location.at(Some(key))).collect();
    let mut result = Ok(());
    in_order(most, places.len(), &|i| read(&places[i]), &mut |i, found| {
        let name = places[i].path.as_ref().and_then(|key| key.as_str().rsplit('/').next());
        let name = name.unwrap_or_default();
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        result = found.and_then(|found| match found.map(|found| visit(&path, found)) {
            Some(true) => each_below(&places[i], &path, depth + 1, read, visit),
            Some(false) | None => Ok(()),
        });
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    result
}

/// The version 2 documents of a node, by name.
type V2Documents = Vec<(&'static str, Vec<u8>)>;

fn v2_documents(location: &Location) -> Result<Option<V2Documents>, Error> {
    let mut documents = Vec::new();
    for name in [V2_ARRAY, V2_GROUP, V2_ATTRIBUTES] {
        if let Some(bytes) = location.store.get(&location.key(name)?)? {
            documents.push((name, bytes.to_vec()));
        }
    }
    let is_node = documents.iter().any(|(name, _)| *name != V2_ATTRIBUTES);
    Ok(is_node.then_some(documents))
}

pub(super) fn consolidate_v2(location: &Location) -> Result<usize, Error> {
    let own = v2_documents(location)?.ok_or_else(|| Error::NoNode { at: location.to_string() })?;
    if own.iter().any(|(name, _)| *name == V2_ARRAY) {
        return Err(Error::NotAGroup { at: location.to_string() });
    }
    let mut all: Vec<(String, Vec<u8>)> =
        own.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    let mut nodes = 0;
    each_below(location, "", 0, &v2_documents, &mut |path, documents: V2Documents| {
        nodes += 1;
        let inside = !documents.iter().any(|(name, _)| *name == V2_ARRAY);
        all.extend(documents.into_iter().map(|(name, bytes)| (format!("{path}/{name}"), bytes)));
        inside
    })?;
    let text =
        v2_consolidated(&all).map_err(|source| refused(location, V2_CONSOLIDATED, source))?;
    location.store.put(&location.key(V2_CONSOLIDATED)?, &text, Condition::None)?;
    Ok(nodes)
}

/// Removes from the `.zmetadata` of a group the entries for version 2 documents at a path and below
/// it that no longer exist because the node is now of version 3. No other version 2 document is
/// changed.
fn forget_v2(location: &Location, path: &str) -> Result<(), Error> {
    let key = location.key(V2_CONSOLIDATED)?;
    let Some(text) = location.store.get(&key)? else { return Ok(()) };
    let wrong = |source| refused(location, V2_CONSOLIDATED, source);
    let mut gone = Vec::new();
    for name in v2_names(&text).map_err(wrong)? {
        // A name that is not a valid key is in no store.
        let inside = name.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        if inside && Key::new(&name).is_ok() && location.store.get(&location.key(&name)?)?.is_none()
        {
            gone.push(name);
        }
    }
    if !gone.is_empty() {
        let text = v2_without(&text, &gone).map_err(wrong)?;
        location.store.put(&key, &text, Condition::None)?;
    }
    Ok(())
}
