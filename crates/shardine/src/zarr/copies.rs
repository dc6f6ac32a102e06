//! Updates consolidated metadata after many nodes have changed, each copy once.

use std::collections::BTreeMap;

use shardine_store::{Key, StoreExt};

use super::consolidated::{
    ATTEMPTS, StaleCopy, above, consolidate_v2, hold_group, identity, put, refused,
};
use super::metadata::{MetadataError, NodeMetadata, ZarrFormat};
use super::node::{DOCUMENT, V2_CONSOLIDATED, read_v3};
use crate::{Error, Location};

/// A group, and the nodes below it that have changed, by path.
struct ChangedBelow {
    group: Location,
    nodes: Vec<(String, Location)>,
}

/// Updates the entries of nodes in the consolidated metadata of the groups above them; returns the
/// groups for which that failed.
///
/// Only the nodes' own entries change, not those of nodes below them. Version 2 has one document for
/// all entries, which is made anew; `may_forget` tells whether it may, as entries of nodes that are
/// not there are then gone.
pub(crate) fn renew_copies_of(
    nodes: &[(Location, ZarrFormat)],
    may_forget: &dyn Fn(&Key) -> bool,
) -> Vec<StaleCopy> {
    let mut stale = Vec::new();
    for format in [ZarrFormat::V3, ZarrFormat::V2] {
        let changed = nodes.iter().filter(|(_, of)| *of == format).map(|(node, _)| node);
        for ChangedBelow { group, nodes } in groups_above(changed, format, &mut stale) {
            let renewed = match format {
                ZarrFormat::V3 => renew_entries(&group, &nodes),
                ZarrFormat::V2 => renew_document(&group, may_forget),
            };
            if let Err(error) = renewed {
                stale.push(StaleCopy { at: group.to_string(), reason: error.to_string() });
            }
        }
    }
    stale
}

/// The groups that may have entries of nodes.
fn groups_above<'a>(
    nodes: impl Iterator<Item = &'a Location>,
    format: ZarrFormat,
    stale: &mut Vec<StaleCopy>,
) -> Vec<ChangedBelow> {
    // All nodes of a folder have the same groups above them.
    let mut folders: BTreeMap<Option<&str>, Vec<(&str, &Location)>> = BTreeMap::new();
    let mut found: BTreeMap<String, ChangedBelow> = BTreeMap::new();
    let mut add = |group: &Location, entry: Option<(String, Location)>| {
        let changed = found
            .entry(identity(group))
            .or_insert_with(|| ChangedBelow { group: group.clone(), nodes: Vec::new() });
        changed.nodes.extend(entry);
    };
    for node in nodes {
        if format == ZarrFormat::V2 {
            // The document of a group has an entry for the group itself.
            add(node, None);
        }
        match node.path.as_ref().map(Key::as_str) {
            Some(path) => {
                let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
                folders.entry(Some(folder)).or_default().push((name, node));
            }
            None => folders.entry(None).or_default().push(("", node)),
        }
    }
    for (folder, nodes) in &folders {
        let Some((_, first)) = nodes.first() else { continue };
        for (group, path) in above(first, stale) {
            let prefix = path.rsplit_once('/').map_or("", |(prefix, _)| prefix);
            for (name, node) in nodes {
                let path = match (folder, prefix) {
                    (None, _) => path.clone(),
                    (Some(_), "") => (*name).to_owned(),
                    (Some(_), prefix) => format!("{prefix}/{name}"),
                };
                add(&group, Some((path, (*node).clone())));
            }
        }
    }
    found.into_values().collect()
}

/// Updates the entries of some nodes in the document of a group, if that has any.
fn renew_entries(group: &Location, nodes: &[(String, Location)]) -> Result<(), Error> {
    for _ in 0..ATTEMPTS {
        match read_v3(group)? {
            Some(NodeMetadata::Group(metadata)) if metadata.has_consolidated() => {}
            _ => return Ok(()),
        }
        let (now, edit) = hold_group(group)?;
        if now.has_consolidated() && now.consolidated().is_none() {
            let reason = "is of an unknown kind";
            let source = MetadataError::invalid("consolidated_metadata", reason);
            return Err(refused(group, DOCUMENT, source));
        }
        let mut stored = BTreeMap::new();
        for (path, node) in nodes {
            if let Some(metadata) = read_v3(node)? {
                stored.insert(path.clone(), metadata);
            }
        }
        let mut renewed = now.clone();
        renewed.put_consolidated(&stored).map_err(|source| refused(group, DOCUMENT, source))?;
        if renewed.to_bytes() == now.to_bytes() {
            return Ok(());
        }
        // Even so, check once more: a node may have changed while its copy was made.
        put(group, &renewed, edit)?;
    }
    Err(Error::MetadataChanged { at: group.to_string() })
}

/// Makes the document of a version 2 group with all entries anew, if it exists.
fn renew_document(group: &Location, may_forget: &dyn Fn(&Key) -> bool) -> Result<(), Error> {
    let key = group.key(V2_CONSOLIDATED)?;
    if group.store.get(&key)?.is_none() {
        return Ok(());
    }
    if !may_forget(&key) {
        let reason = "names nodes that do not exist, whose metadata would be forgotten";
        return Err(refused(group, V2_CONSOLIDATED, MetadataError::invalid("metadata", reason)));
    }
    consolidate_v2(group).map(drop)
}
