//! The documents of both versions in a hierarchy.

use std::ops::ControlFlow;
use std::sync::Arc;

use shardine_store::{Key, StoreExt, Unlisted, UnlistedKind};

use super::{MigrateError, RefusedNode};
use crate::engine::{in_order, tuning};
use crate::jobs::frame::place::below;
use crate::zarr::metadata::NodeMetadata;
use crate::zarr::{DOCUMENT, MAX_DEPTH, read_v2};
use crate::{Engine, Error, Location};

/// The documents of a node: of one version, or of both.
#[derive(Debug)]
pub(super) struct Documents {
    pub v2: Option<NodeMetadata>,
    pub v3: Option<V3Document>,
}

/// A `zarr.json`, parsed and as it is stored.
#[derive(Debug)]
pub(super) struct V3Document {
    pub metadata: NodeMetadata,
    pub text: Vec<u8>,
}

/// A node as it is now.
#[derive(Debug)]
pub(super) struct FoundNode {
    pub location: Location,
    /// Its path below the hierarchy; empty for the outermost node.
    pub path: String,
    pub depth: usize,
    pub documents: Documents,
    /// What counts: the document of version 3, where there is one.
    pub current: NodeMetadata,
}

/// All nodes of a hierarchy, each group before the nodes in it.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub nodes: Vec<FoundNode>,
    pub refused: Vec<RefusedNode>,
}

fn read(location: &Location) -> Result<Documents, Error> {
    let key = location.key(DOCUMENT)?;
    let v3 = match location.store.get(&key)? {
        None => None,
        Some(text) => {
            let parsed = NodeMetadata::parse(&text);
            let metadata = parsed
                .map_err(|source| Error::Metadata { object: key, source: Box::new(source) })?;
            Some(V3Document { metadata, text: text.to_vec() })
        }
    };
    // What version 3 has replaced does not matter if it is unreadable.
    let v2 = match read_v2(location) {
        Err(Error::Metadata { .. }) if v3.is_some() => None,
        v2 => v2?,
    };
    Ok(Documents { v2, v3 })
}

impl Found {
    /// Reads a location and everything below it, level by level: in a remote store all nodes of a
    /// level in parallel. Costs a listing for each group, and some reads for each node.
    pub fn look(engine: &Arc<Engine>, location: &Location) -> Result<Self, Error> {
        let mut found = Self::default();
        let mut places = vec![location.clone()];
        let most = engine.at_once(&*location.store, tuning::DOCUMENT);
        for depth in 0.. {
            let first = found.nodes.len();
            let mut result = Ok(());
            in_order(most, places.len(), &|i| read(&places[i]), &mut |i, documents| {
                result = found.add(location, &places[i], documents, depth);
                if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            result?;
            if depth == 0 && found.nodes.is_empty() && found.refused.is_empty() {
                return Err(Error::NoNode { at: location.to_string() });
            }
            places = found.folders(first, most, depth)?;
            if places.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    /// Adds a node, unless it is a folder without documents.
    fn add(
        &mut self,
        root: &Location,
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
        let v3 = documents.v3.as_ref().map(|v3| &v3.metadata);
        if let Some(current) = v3.or(documents.v2.as_ref()).cloned() {
            let (location, path) = (location.clone(), below(root, location).to_owned());
            self.nodes.push(FoundNode { location, path, depth, documents, current });
        }
        Ok(())
    }

    /// The folders in the groups among the nodes from `first` on.
    fn folders(&mut self, first: usize, most: usize, depth: usize) -> Result<Vec<Location>, Error> {
        let nodes = self.nodes.get(first..).unwrap_or_default().iter();
        let groups: Vec<Location> = nodes
            .filter(|node| matches!(node.current, NodeMetadata::Group(_)))
            .map(|node| node.location.clone())
            .collect();
        let list = |i: usize| groups[i].store.list(groups[i].path.as_ref());
        let (mut places, mut result) = (Vec::new(), Ok(()));
        in_order(most, groups.len(), &list, &mut |i, listing| {
            let group = &groups[i];
            let listing = match listing {
                Ok(listing) => listing,
                Err(error) => {
                    result = Err(error.into());
                    return ControlFlow::Break(());
                }
            };
            self.refuse_links(group, &listing.unlisted);
            if depth >= MAX_DEPTH && !listing.folders.is_empty() {
                let at = group.to_string();
                result = Err(MigrateError::TooDeep { at, most: MAX_DEPTH }.into());
                return ControlFlow::Break(());
            }
            let place = |folder: Key| group.at(Some(folder));
            places.extend(listing.folders.into_iter().map(place));
            ControlFlow::Continue(())
        });
        result.map(|()| places)
    }

    /// A node behind a link would have a different version than its group.
    fn refuse_links(&mut self, group: &Location, unlisted: &[Unlisted]) {
        let may_be_node = |unlisted: &&Unlisted| {
            unlisted.kind.is_folder() || unlisted.kind == UnlistedKind::BrokenLink
        };
        for unlisted in unlisted.iter().filter(may_be_node) {
            let place = match &unlisted.key {
                Some(key) => group.at(Some(key.clone())),
                None => group.clone(),
            };
            self.refuse(&place, &Error::Store(unlisted.clone().into()));
        }
    }

    pub fn refuse(&mut self, location: &Location, reason: &dyn ToString) {
        let (at, reason) = (location.to_string(), reason.to_string());
        self.refused.push(RefusedNode { at, reason });
    }
}
