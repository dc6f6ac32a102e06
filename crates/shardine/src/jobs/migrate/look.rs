//! The documents of either version in a hierarchy, and their targets.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_store::{StoreExt, Unlisted, UnlistedKind};

use super::{MigrateError, RefusedNode};
use crate::engine::{in_order, tuning};
use crate::zarr::MAX_DEPTH;
use crate::zarr::metadata::{DIMENSIONS, FILL_VALUE, GroupMetadata, MetadataError, NodeMetadata};
use crate::zarr::{read_v2, read_v3};
use crate::{ArrayNode, Engine, Error, Location};

/// The documents of a node.
#[derive(Debug)]
pub(super) struct Documents {
    pub v2: Option<NodeMetadata>,
    pub v3: Option<NodeMetadata>,
}

/// A node with its current or future `zarr.json`.
#[derive(Debug)]
pub(super) struct MigratedNode {
    pub location: Location,
    /// Before the migration.
    pub documents: Documents,
    /// After the migration.
    pub target: NodeMetadata,
}

/// All nodes of a hierarchy: those below a group before it.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub found: Vec<MigratedNode>,
    pub refused: Vec<RefusedNode>,
}

fn read(location: &Location) -> Result<Documents, Error> {
    let v3 = read_v3(location)?;
    // What version 3 has replaced does not matter if it is unreadable.
    let v2 = match read_v2(location) {
        Err(Error::Metadata { .. }) if v3.is_some() => None,
        v2 => v2?,
    };
    Ok(Documents { v2, v3 })
}

impl Nodes {
    /// Reads a location and everything below it. Costs a listing for each group, and some reads for
    /// each node.
    pub fn look(engine: &Arc<Engine>, location: &Location) -> Result<Self, Error> {
        let mut nodes = Self::default();
        let documents = read(location);
        if let Ok(Documents { v2: None, v3: None }) = documents {
            return Err(Error::NoNode { at: location.to_string() });
        }
        nodes.add(engine, location, documents, 0)?;
        Ok(nodes)
    }

    fn add(
        &mut self,
        engine: &Arc<Engine>,
        location: &Location,
        documents: Result<Documents, Error>,
        depth: usize,
    ) -> Result<(), Error> {
        let documents = match documents {
            Ok(documents) => documents,
            Err(error @ (Error::Metadata { .. } | Error::Layout { .. })) => {
                self.refuse(location, &error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let current = documents.v3.as_ref().or(documents.v2.as_ref()).cloned();
        let target = match current {
            // A folder that is not a node.
            None => return Ok(()),
            Some(NodeMetadata::Array(array)) => {
                let array = array.into_v3();
                if documents.v3.is_none()
                    && let Err(error) = ArrayNode::from_metadata(engine, location, array.clone())
                {
                    self.refuse(location, &error);
                    return Ok(());
                }
                NodeMetadata::Array(array)
            }
            Some(NodeMetadata::Group(group)) => {
                let first = self.found.len();
                self.children(engine, location, depth)?;
                match documents.v3 {
                    Some(_) => NodeMetadata::Group(group),
                    None => NodeMetadata::Group(
                        self.group(group, location, first)
                            .map_err(|source| metadata_error(location, source))?,
                    ),
                }
            }
        };
        self.found.push(MigratedNode { location: location.clone(), documents, target });
        Ok(())
    }

    fn children(
        &mut self,
        engine: &Arc<Engine>,
        location: &Location,
        depth: usize,
    ) -> Result<(), Error> {
        let listing = location.store.list(location.path.as_ref())?;
        // A node behind a link would have a different version than its group.
        let may_be_node = |unlisted: &&Unlisted| {
            unlisted.kind.is_folder() || unlisted.kind == UnlistedKind::BrokenLink
        };
        for unlisted in listing.unlisted.iter().filter(may_be_node) {
            let place = match &unlisted.key {
                Some(key) => location.at(Some(key.clone())),
                None => location.clone(),
            };
            self.refuse(&place, &Error::Store(unlisted.clone().into()));
        }
        let folders = listing.folders;
        if depth >= MAX_DEPTH && !folders.is_empty() {
            let at = location.to_string();
            return Err(MigrateError::TooDeep { at, most: MAX_DEPTH }.into());
        }
        let places: Vec<Location> =
            folders.into_iter().map(|folder| location.at(Some(folder))).collect();
        let most = engine.at_once(&*location.store, tuning::DOCUMENT);
        let mut result = Ok(());
        in_order(most, places.len(), &|i| read(&places[i]), &mut |i, documents| {
            result = self.add(engine, &places[i], documents, depth + 1);
            match result {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        result
    }

    /// The version 3 metadata of a group, consolidated with that of the nodes below, which are
    /// those found from `first` on, if it was consolidated before.
    fn group(
        &self,
        group: GroupMetadata,
        location: &Location,
        first: usize,
    ) -> Result<GroupMetadata, MetadataError> {
        let gathered = group.consolidated().is_some();
        let mut group = group.into_v3();
        if gathered {
            let skip = location.path.as_ref().map_or(0, |path| path.as_str().len() + 1);
            let below = self.found.get(first..).unwrap_or_default().iter();
            let mut below: Vec<(String, NodeMetadata)> = below
                .filter_map(|node| {
                    let path = node.location.path.as_ref()?.as_str().get(skip..)?;
                    Some((path.to_owned(), node.target.clone()))
                })
                .collect();
            below.sort_by(|a, b| a.0.cmp(&b.0));
            group.set_consolidated(&below)?;
        }
        Ok(group)
    }

    fn refuse(&mut self, location: &Location, error: &Error) {
        let (at, reason) = (location.to_string(), error.to_string());
        self.refused.push(RefusedNode { at, reason });
    }
}

fn metadata_error(location: &Location, source: MetadataError) -> Error {
    match location.key(crate::zarr::DOCUMENT) {
        Ok(object) => Error::Metadata { object, source: Box::new(source) },
        Err(error) => error,
    }
}

/// What differs between documents of the two versions; `None` if they say the same.
///
/// Dimension names do not count: version 2 has them among the attributes.
pub(super) fn difference(v2: &NodeMetadata, v3: &NodeMetadata) -> Option<&'static str> {
    // In version 3 form; dimension names that are still among the attributes do no harm.
    let wanted = match v2 {
        NodeMetadata::Array(array) => NodeMetadata::Array(array.clone().into_v3()),
        NodeMetadata::Group(_) => v2.clone(),
    };
    if without(&wanted, &[DIMENSIONS]) != without(v3, &[DIMENSIONS]) {
        return Some("the attributes");
    }
    match (v2, v3) {
        (NodeMetadata::Group(_), NodeMetadata::Group(_)) => None,
        (NodeMetadata::Array(old), NodeMetadata::Array(new)) => {
            let checks = [
                (old.shape() == new.shape(), "the shape"),
                (old.chunk_shape() == new.chunk_shape(), "the chunk shape"),
                (old.data_type() == new.data_type(), "the data type"),
                (old.fill() == new.fill(), "the fill value"),
                (old.codecs() == new.codecs(), "the codecs"),
                (old.key_encoding() == new.key_encoding(), "the keys of chunks"),
            ];
            checks.into_iter().find(|(same, _)| !same).map(|(_, what)| what)
        }
        _ => Some("one is a group, the other an array"),
    }
}

/// Whether version 2 attributes that a killed removal has left are those of the node.
pub(super) fn are_those_of(zattrs: &[u8], node: &NodeMetadata) -> bool {
    const GROUP: &[u8] = br#"{"zarr_format": 2}"#;
    let parsed = GroupMetadata::parse_v2(GROUP, Some(zattrs), None);
    // What xarray keeps elsewhere in version 3.
    let moved = [DIMENSIONS, FILL_VALUE];
    parsed
        .is_ok_and(|parsed| without(&NodeMetadata::Group(parsed), &moved) == without(node, &moved))
}

/// The attributes of a node without some of them.
fn without(node: &NodeMetadata, names: &[&str]) -> Map<String, Value> {
    let mut attributes = node.attributes().clone();
    names.iter().for_each(|name| drop(attributes.shift_remove(*name)));
    attributes
}

/// A version 2 document at a location, as stored.
pub(super) fn stored(location: &Location, name: &str) -> Result<Option<Vec<u8>>, Error> {
    Ok(location.store.get(&location.key(name)?)?.map(|bytes| bytes.to_vec()))
}
