use std::ops::ControlFlow;
use std::sync::Arc;

use shardine_store::{StoreError, StoreExt};

use super::Array;
use super::metadata::{ConsolidatedEntry, GroupMetadata, MetadataError, NodeMetadata};
use crate::engine::in_order;
use crate::{Engine, Error, Location};

/// The name of the document that makes a node.
pub(crate) const DOCUMENT: &str = "zarr.json";

/// An array or a group.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nodes are opened by the handful")]
pub enum Node {
    /// An array.
    Array(Array),
    /// A group.
    Group(Group),
}

impl Node {
    /// Opens what is at a place. One read.
    pub fn open(engine: &Arc<Engine>, location: &Location) -> Result<Self, Error> {
        Self::from_metadata(engine, location, read_document(location)?, None)
    }

    fn from_metadata(
        engine: &Arc<Engine>,
        location: &Location,
        metadata: NodeMetadata,
        known: Option<Vec<ConsolidatedEntry>>,
    ) -> Result<Self, Error> {
        match metadata {
            NodeMetadata::Array(metadata) => {
                Array::from_metadata(engine, location, metadata).map(Self::Array)
            }
            NodeMetadata::Group(metadata) => {
                let (engine, location) = (Arc::clone(engine), location.clone());
                Ok(Self::Group(Group { engine, location, metadata, known }))
            }
        }
    }
}

/// Reads the document of a node.
pub(crate) fn read_document(location: &Location) -> Result<NodeMetadata, Error> {
    let key = location.key(DOCUMENT)?;
    match location.store.get(&key)? {
        Some(bytes) => NodeMetadata::parse(&bytes)
            .map_err(|source| Error::Metadata { object: key, source: Box::new(source) }),
        None => {
            for name in [".zarray", ".zgroup"] {
                let object = location.key(name)?;
                if location.store.get(&object)?.is_some() {
                    return Err(Error::Metadata {
                        object,
                        source: Box::new(MetadataError::ZarrV2),
                    });
                }
            }
            Err(Error::NoNode { at: location.to_string() })
        }
    }
}

/// A node directly below a group.
#[derive(Debug)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// The node, or why it cannot be opened.
    pub node: Result<Node, Error>,
    /// Whether it was listed and its own document was read. If the store cannot list, consolidated metadata says that it is
    /// there, and what it is.
    pub listed: bool,
}

/// Memory that is reckoned for a document on its way.
const IN_FLIGHT: u64 = 64 << 10;

/// A group: a place with attributes that has arrays and groups below it.
#[derive(Debug)]
pub struct Group {
    engine: Arc<Engine>,
    location: Location,
    metadata: GroupMetadata,
    /// What the consolidated metadata of a group further up says of the nodes below, if it was opened by that.
    known: Option<Vec<ConsolidatedEntry>>,
}

impl Group {
    /// Makes a new group. There must be no node at the place.
    pub fn create(
        engine: &Arc<Engine>,
        location: &Location,
        metadata: GroupMetadata,
    ) -> Result<Self, Error> {
        let key = location.key(DOCUMENT)?;
        let condition = shardine_store::Condition::Absent;
        match location.store.put(&key, &metadata.to_bytes(), condition) {
            Ok(_) => {}
            Err(shardine_store::StoreError::Conflict { .. }) => {
                return Err(Error::Exists { at: location.to_string() });
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Self { engine: Arc::clone(engine), location: location.clone(), metadata, known: None })
    }

    /// Its metadata.
    pub fn metadata(&self) -> &GroupMetadata {
        &self.metadata
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The nodes directly below, by name. One listing, and one read for each folder, some at once in a far store.
    ///
    /// What is stored counts, not what consolidated metadata says. A folder without metadata is no node. A
    /// child whose metadata is damaged does not hide the others: its name comes with the error.
    ///
    /// Where the store cannot list, consolidated metadata is all there is to go by, and nothing is read;
    /// [`Error::UnlistedGroup`] if the group has none.
    pub fn children(&self) -> Result<Vec<Child>, Error> {
        let listing = match self.location.store.list(self.location.path.as_ref()) {
            Err(StoreError::Unsupported { .. }) => return self.consolidated_children(),
            listing => listing?,
        };
        let mut children = Vec::new();
        let names: Vec<&str> = listing
            .folders
            .iter()
            .map(|folder| folder.as_str().rsplit('/').next().unwrap_or_default())
            .collect();
        let open = |i: usize| Node::open(&self.engine, &self.location.join(names[i])?);
        let most = self.engine.at_once(&*self.location.store, IN_FLIGHT);
        in_order(most, names.len(), &open, &mut |i, node| {
            match node {
                Err(Error::NoNode { .. }) => {}
                node => children.push(Child { name: names[i].to_owned(), node, listed: true }),
            }
            ControlFlow::Continue(())
        });
        Ok(children)
    }

    /// The children that consolidated metadata names.
    fn consolidated_children(&self) -> Result<Vec<Child>, Error> {
        let known = self.known.as_deref().or_else(|| self.metadata.consolidated());
        let Some(known) = known else {
            return Err(Error::UnlistedGroup { at: self.location.to_string() });
        };
        let mut children = Vec::new();
        for (name, metadata) in known.iter().filter(|(path, _)| !path.contains('/')) {
            let node = match metadata {
                Ok(metadata) => self.location.join(name).and_then(|location| {
                    let below = below(known, name, metadata);
                    Node::from_metadata(&self.engine, &location, metadata.clone(), below)
                }),
                Err(error) => Err(Error::Metadata {
                    object: self.location.key(DOCUMENT)?,
                    source: Box::new(error.clone()),
                }),
            };
            children.push(Child { name: name.clone(), node, listed: false });
        }
        children.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(children)
    }
}

/// What is known of the nodes below the node `name`. Most writers name all nodes in the outermost group.
fn below(
    known: &[ConsolidatedEntry],
    name: &str,
    metadata: &NodeMetadata,
) -> Option<Vec<ConsolidatedEntry>> {
    let NodeMetadata::Group(group) = metadata else { return None };
    let inside = |(path, node): &ConsolidatedEntry| {
        let rest = path.strip_prefix(name)?.strip_prefix('/')?;
        Some((rest.to_owned(), node.clone()))
    };
    let mut entries: Vec<ConsolidatedEntry> = known.iter().filter_map(inside).collect();
    if entries.is_empty() {
        entries.extend(group.consolidated().unwrap_or_default().iter().cloned());
    }
    Some(entries)
}
