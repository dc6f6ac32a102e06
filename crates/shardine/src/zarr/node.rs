use std::sync::Arc;

use shardine_store::{ReadRange, StoreError, StoreExt, Version};

use super::Array;
use super::metadata::{GroupMetadata, MetadataError, NodeMetadata};
use crate::{Engine, Error, Location};

/// The name of the document that makes a node.
pub(super) const DOCUMENT: &str = "zarr.json";

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
        match read_document(location)? {
            (NodeMetadata::Array(metadata), version) => {
                Array::from_metadata(engine, location, metadata, version).map(Self::Array)
            }
            (NodeMetadata::Group(metadata), _) => Ok(Self::Group(Group {
                engine: Arc::clone(engine),
                location: location.clone(),
                metadata,
            })),
        }
    }
}

/// Reads the document of a node, and tells its version if the store does.
pub(super) fn read_document(location: &Location) -> Result<(NodeMetadata, Option<Version>), Error> {
    let key = location.key(DOCUMENT)?;
    let read = location.store.open(&key, None).and_then(|object| {
        let bytes = object.read(ReadRange::All)?;
        Ok((bytes, object.version()))
    });
    match read {
        Ok((bytes, version)) => NodeMetadata::parse(&bytes)
            .map(|metadata| (metadata, version))
            .map_err(|source| Error::Metadata { object: key, source: Box::new(source) }),
        Err(StoreError::NotFound { .. }) => {
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
        Err(error) => Err(error.into()),
    }
}

/// A node directly below a group.
#[derive(Debug)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// The node, or why it cannot be opened.
    pub node: Result<Node, Error>,
}

/// A group: a place with attributes that has arrays and groups below it.
#[derive(Debug)]
pub struct Group {
    engine: Arc<Engine>,
    location: Location,
    metadata: GroupMetadata,
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
        Ok(Self { engine: Arc::clone(engine), location: location.clone(), metadata })
    }

    /// Its metadata.
    pub fn metadata(&self) -> &GroupMetadata {
        &self.metadata
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The nodes directly below, by name. One listing, and one read for each folder.
    ///
    /// What is stored counts, not what consolidated metadata says. A folder without metadata is no node. A
    /// child whose metadata is damaged does not hide the others: its name comes with the error.
    pub fn children(&self) -> Result<Vec<Child>, Error> {
        let listing = self.location.store.list(self.location.path.as_ref())?;
        let mut children = Vec::new();
        for folder in listing.folders {
            let name = folder.as_str().rsplit('/').next().unwrap_or_default().to_owned();
            match Node::open(&self.engine, &self.location.join(&name)?) {
                Err(Error::NoNode { .. }) => {}
                node => children.push(Child { name, node }),
            }
        }
        Ok(children)
    }
}
