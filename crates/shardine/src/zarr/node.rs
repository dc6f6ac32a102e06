use std::ops::ControlFlow;
use std::sync::Arc;

use shardine_store::{Key, StoreError, StoreExt, Unlisted, UnlistedKind};

use super::ArrayNode;
use super::consolidated::{StaleCopy, renew_consolidated_above};
use super::metadata::{
    ArrayMetadata, ConsolidatedEntry, GroupMetadata, MetadataError, NodeMetadata, ZarrFormat,
    check_node_name,
};
use crate::anchor::Anchor;
use crate::engine::{in_order, tuning};
use crate::ome::{OmeError, OmeMetadata};
use crate::{Engine, Error, Location};

/// The name of the document that makes a node.
pub(crate) const DOCUMENT: &str = "zarr.json";

/// The documents of version 2.
pub(crate) const V2_ARRAY: &str = ".zarray";
pub(crate) const V2_GROUP: &str = ".zgroup";
pub(crate) const V2_ATTRIBUTES: &str = ".zattrs";
pub(crate) const V2_CONSOLIDATED: &str = ".zmetadata";

/// All version 2 documents, in the order in which they may be removed.
pub(crate) const V2_DOCUMENTS: [&str; 4] = [V2_CONSOLIDATED, V2_ARRAY, V2_GROUP, V2_ATTRIBUTES];

/// The documents that make an array; the first one that exists counts.
pub(crate) const ARRAY_DOCUMENTS: [&str; 2] = [DOCUMENT, V2_ARRAY];

/// The documents that a node with this metadata may have; the first always exists.
pub(crate) fn node_documents(metadata: &NodeMetadata) -> &'static [&'static str] {
    let is_array = matches!(metadata, NodeMetadata::Array(_));
    node_documents_of(metadata.zarr_format(), is_array)
}

/// The documents that an array or a group of this version may have.
pub(super) fn node_documents_of(format: ZarrFormat, is_array: bool) -> &'static [&'static str] {
    match (format, is_array) {
        (ZarrFormat::V3, _) => &[DOCUMENT],
        (ZarrFormat::V2, true) => &[V2_ARRAY, V2_ATTRIBUTES],
        (ZarrFormat::V2, false) => &[V2_GROUP, V2_ATTRIBUTES, V2_CONSOLIDATED],
    }
}

/// The document that describes the nodes below a group.
pub(crate) fn consolidated_name(format: ZarrFormat) -> &'static str {
    match format {
        ZarrFormat::V2 => V2_CONSOLIDATED,
        ZarrFormat::V3 => DOCUMENT,
    }
}

/// The document that holds the attributes of a node.
pub(crate) fn attribute_name(format: ZarrFormat) -> &'static str {
    match format {
        ZarrFormat::V2 => V2_ATTRIBUTES,
        ZarrFormat::V3 => DOCUMENT,
    }
}

/// The document that makes an array.
pub(crate) fn array_document(format: ZarrFormat) -> &'static str {
    match format {
        ZarrFormat::V2 => V2_ARRAY,
        ZarrFormat::V3 => DOCUMENT,
    }
}

/// An array or a group.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nodes are opened by the handful")]
pub enum Node {
    /// An array.
    Array(ArrayNode),
    /// A group.
    Group(Group),
}

impl Node {
    /// Opens the node at a location. One read; three to five for version 2.
    pub fn open(engine: &Arc<Engine>, location: &Location) -> Result<Self, Error> {
        let anchor = Anchor::of(location, &ARRAY_DOCUMENTS)?;
        Ok(match Self::from_metadata(engine, location, read_document(location)?, None)? {
            Self::Array(array) => Self::Array(array.anchored(anchor)),
            group @ Self::Group(_) => group,
        })
    }

    /// The version of its documents.
    pub fn zarr_format(&self) -> ZarrFormat {
        match self {
            Self::Array(array) => array.zarr_format(),
            Self::Group(group) => group.zarr_format(),
        }
    }

    fn from_metadata(
        engine: &Arc<Engine>,
        location: &Location,
        metadata: NodeMetadata,
        known: Option<Vec<ConsolidatedEntry>>,
    ) -> Result<Self, Error> {
        match metadata {
            NodeMetadata::Array(metadata) => {
                ArrayNode::from_metadata(engine, location, metadata).map(Self::Array)
            }
            NodeMetadata::Group(metadata) => {
                let (engine, location) = (Arc::clone(engine), location.clone());
                Ok(Self::Group(Group { engine, location, metadata, known, stale: Vec::new() }))
            }
        }
    }
}

/// Reads the document of a node: of version 3, or if there is none, those of version 2.
pub(crate) fn read_document(location: &Location) -> Result<NodeMetadata, Error> {
    let found = match location.format {
        Some(ZarrFormat::V3) => read_v3(location)?,
        Some(ZarrFormat::V2) => read_v2(location)?,
        None => match read_v3(location)? {
            None => read_v2(location)?,
            found => found,
        },
    };
    found.ok_or_else(|| Error::NoNode { at: location.to_string() })
}

fn refused(object: Key) -> impl FnOnce(MetadataError) -> Error {
    |source| Error::Metadata { object, source: Box::new(source) }
}

/// Reads the document of a version 3 node; `None` if there is none.
pub(crate) fn read_v3(location: &Location) -> Result<Option<NodeMetadata>, Error> {
    let key = location.key(DOCUMENT)?;
    let Some(bytes) = location.store.get(&key)? else { return Ok(None) };
    NodeMetadata::parse(&bytes).map(Some).map_err(refused(key))
}

/// Reads the documents of a version 2 node; `None` if there are none.
pub(crate) fn read_v2(location: &Location) -> Result<Option<NodeMetadata>, Error> {
    let get = |name: &str| {
        let key = location.key(name)?;
        let bytes = location.store.get(&key)?;
        Ok::<_, Error>((key, bytes))
    };
    if let (key, Some(zarray)) = get(V2_ARRAY)? {
        let (_, zattrs) = get(V2_ATTRIBUTES)?;
        let array = ArrayMetadata::parse_v2(&zarray, zattrs.as_deref());
        return array.map(NodeMetadata::Array).map(Some).map_err(refused(key));
    }
    if let (key, Some(zgroup)) = get(V2_GROUP)? {
        let (_, zattrs) = get(V2_ATTRIBUTES)?;
        let (_, zmetadata) = get(V2_CONSOLIDATED)?;
        let group = GroupMetadata::parse_v2(&zgroup, zattrs.as_deref(), zmetadata.as_deref());
        return group.map(NodeMetadata::Group).map(Some).map_err(refused(key));
    }
    Ok(None)
}

/// The versions whose documents exist at a location, the newest first, whatever the documents say.
/// Three reads at most.
pub fn formats_at(location: &Location) -> Result<Vec<ZarrFormat>, Error> {
    let there = |name: &str| Ok::<_, Error>(location.store.get(&location.key(name)?)?.is_some());
    let mut formats = Vec::new();
    if there(DOCUMENT)? {
        formats.push(ZarrFormat::V3);
    }
    if there(V2_ARRAY)? || there(V2_GROUP)? {
        formats.push(ZarrFormat::V2);
    }
    Ok(formats)
}

/// A node directly below a group.
#[derive(Debug)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// The node, or why it cannot be opened.
    pub node: Result<Node, Error>,
    /// Whether it was listed and its own document was read. If the store cannot list, consolidated
    /// metadata says that it exists, and what it is.
    pub listed: bool,
}

/// A group: a location with attributes that has arrays and groups below it.
#[derive(Debug)]
pub struct Group {
    engine: Arc<Engine>,
    location: Location,
    metadata: GroupMetadata,
    /// What the consolidated metadata of a group further up says about the nodes below, if this
    /// group was opened through it.
    known: Option<Vec<ConsolidatedEntry>>,
    /// Groups above whose consolidated metadata does not include it.
    stale: Vec<StaleCopy>,
}

impl Group {
    /// Creates a new group. There must be no node at the location, not even one of version 2.
    /// Consolidated metadata of groups above is updated; see [`stale_copies`](Self::stale_copies).
    pub fn create(
        engine: &Arc<Engine>,
        location: &Location,
        metadata: GroupMetadata,
    ) -> Result<Self, Error> {
        if formats_at(location)?.contains(&ZarrFormat::V2) {
            return Err(Error::Exists { at: location.to_string() });
        }
        let metadata = metadata.with_format(ZarrFormat::V3);
        let key = location.key(DOCUMENT)?;
        let condition = shardine_store::Condition::Absent;
        match location.store.put(&key, &metadata.to_bytes(), condition) {
            Ok(_) => {}
            Err(shardine_store::StoreError::Conflict { .. }) => {
                return Err(Error::Exists { at: location.to_string() });
            }
            Err(error) => return Err(error.into()),
        }
        let (engine, location) = (Arc::clone(engine), location.clone());
        let stale = renew_consolidated_above(&location);
        Ok(Self { engine, location, metadata, known: None, stale })
    }

    /// Groups above whose consolidated metadata could not be updated when this one was created.
    pub fn stale_copies(&self) -> &[StaleCopy] {
        &self.stale
    }

    /// Its metadata.
    pub fn metadata(&self) -> &GroupMetadata {
        &self.metadata
    }

    /// The version of its documents.
    pub fn zarr_format(&self) -> ZarrFormat {
        self.metadata.zarr_format()
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The engine that opens what is below.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Its OME-Zarr metadata; `None` if it has none. Reads nothing.
    ///
    /// A store of Zarr Vectors has none, although its attributes look alike: its levels are groups.
    pub fn ome(&self) -> Result<Option<OmeMetadata>, Error> {
        if self.metadata.attributes().contains_key("zarr_vectors") {
            return Ok(None);
        }
        OmeMetadata::read(self.metadata.attributes()).map_err(|source| Error::Ome {
            at: self.location.to_string(),
            source: Box::new(source),
        })
    }

    /// Opens the array of a level, by its path below the group.
    pub(crate) fn level(&self, path: &str) -> Result<ArrayNode, Error> {
        if path.split('/').try_for_each(check_node_name).is_err() {
            let reason = format!("no node can have the path \"{}\"", path.escape_debug());
            return Err(Error::Ome {
                at: self.location.to_string(),
                source: Box::new(OmeError::member("datasets", reason)),
            });
        }
        ArrayNode::open(&self.engine, &self.location.join(path)?)
    }

    /// The nodes directly below, by name. One listing, and one read for each folder, some in
    /// parallel in a remote store.
    ///
    /// What is stored counts, not what consolidated metadata says. A folder without metadata is not
    /// a node. A child whose metadata is damaged does not hide the others: its name comes with the
    /// error. So does that of a link to a folder, which is not followed.
    ///
    /// Where the store cannot list, consolidated metadata is the only source, and nothing is read;
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
        let most = self.engine.at_once(&*self.location.store, tuning::DOCUMENT);
        in_order(most, names.len(), &open, &mut |i, node| {
            match node {
                Err(Error::NoNode { .. }) => {}
                node => children.push(Child { name: names[i].to_owned(), node, listed: true }),
            }
            ControlFlow::Continue(())
        });
        // Something that may be a node but is not followed must not be skipped silently.
        let may_be_node = |unlisted: &&Unlisted| {
            unlisted.kind.is_folder() || unlisted.kind == UnlistedKind::BrokenLink
        };
        for unlisted in listing.unlisted.iter().filter(may_be_node) {
            let name = unlisted.name.rsplit('/').next().unwrap_or_default().to_owned();
            let node = Err(StoreError::from(unlisted.clone()).into());
            children.push(Child { name, node, listed: true });
        }
        children.sort_by(|a, b| a.name.cmp(&b.name));
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
                    object: self.location.key(consolidated_name(self.zarr_format()))?,
                    source: Box::new(error.clone()),
                }),
            };
            children.push(Child { name: name.clone(), node, listed: false });
        }
        children.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(children)
    }
}

/// What is known about the nodes below the node `name`. Most writers name all nodes in the
/// outermost group.
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
