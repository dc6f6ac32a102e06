//! The metadata of a group.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};
use shardine_codec::ElementSize;

use super::deviations::correct_node;
use super::document::Document;
use super::node::{check_node, check_node_name};
use super::{MetadataError, NodeMetadata, ZarrFormat};

/// The member with the metadata of the nodes below.
const CONSOLIDATED: &str = "consolidated_metadata";

const KNOWN: [&str; 4] = ["zarr_format", "node_type", "attributes", CONSOLIDATED];

/// The most memory that the fill values and types of one consolidated document may take.
///
/// A few bytes of text can require an element of megabytes; thousands of them must not add up.
const MAX_CONSOLIDATED_ELEMENTS: usize = 256 << 20;

/// A group's `zarr.json`, or its equivalent where the documents are those of version 2.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupMetadata {
    document: Document,
    format: ZarrFormat,
    consolidated: Option<Vec<ConsolidatedEntry>>,
    /// Deviations from the specification.
    deviations: Vec<String>,
}

/// The path of a node below the group, and its metadata or why that was refused.
pub type ConsolidatedEntry = (String, Result<NodeMetadata, MetadataError>);

impl GroupMetadata {
    /// The metadata of a new group.
    pub fn new(attributes: Map<String, Value>) -> Self {
        let mut members = Map::new();
        members.insert("zarr_format".into(), json!(3));
        members.insert("node_type".into(), json!("group"));
        members.insert("attributes".into(), Value::Object(attributes));
        let document = Document::new(members);
        Self { document, format: ZarrFormat::V3, consolidated: None, deviations: Vec::new() }
    }

    /// The metadata of a group whose documents are those of version 2, with their attributes.
    pub(super) fn new_v2(
        attributes: Option<&Document>,
        consolidated: Option<Vec<ConsolidatedEntry>>,
    ) -> Result<Self, MetadataError> {
        let mut metadata = Self::new(Map::new());
        if let Some(attributes) = attributes {
            metadata.document.embed(&["attributes"], attributes)?;
        }
        Ok(Self { format: ZarrFormat::V2, consolidated, ..metadata })
    }

    /// The version of the documents that it was read from. Everything else here is in terms of
    /// version 3, whatever the version.
    pub fn zarr_format(&self) -> ZarrFormat {
        self.format
    }

    /// The equivalent in version 3, without consolidated metadata.
    pub fn into_v3(self) -> Self {
        let mut metadata = self.with_format(ZarrFormat::V3);
        metadata.remove_consolidated();
        metadata
    }

    pub(crate) fn with_format(self, format: ZarrFormat) -> Self {
        Self { format, ..self }
    }

    pub(super) fn document(&self) -> &Document {
        &self.document
    }

    /// Members that are not understood and may be ignored.
    pub(super) fn unknown(&self) -> Map<String, Value> {
        self.document.without(&KNOWN)
    }

    /// The group that a document describes; the document is untrusted until all of it is checked.
    pub(super) fn from_document(mut document: Document) -> Result<Self, MetadataError> {
        check_node(&document, "group")?;
        let deviations = correct_node(&mut document);
        document.check_members(&KNOWN)?;
        let consolidated = consolidated(document.get(CONSOLIDATED))?;
        Ok(Self { document, format: ZarrFormat::V3, consolidated, deviations })
    }

    /// Harmless deviations of the document from the specification, one sentence each. They are
    /// written correctly.
    pub fn deviations(&self) -> &[String] {
        &self.deviations
    }

    /// The user's attributes; empty if there are none.
    pub fn attributes(&self) -> &Map<String, Value> {
        self.document.attributes()
    }

    /// Replaces all attributes.
    pub fn set_attributes(&mut self, attributes: Map<String, Value>) {
        self.document.set("attributes", Some(Value::Object(attributes)));
    }

    /// Replaces all attributes by others, some of which were moved into the attribute `into`.
    pub(crate) fn move_attributes(&mut self, attributes: Map<String, Value>, into: &str) {
        self.document.move_attributes(attributes, into);
    }

    /// The consolidated metadata of the nodes below, in the document's order. It dates from when it
    /// was collected and may be out of date. `None` if the document has none, or has it in an
    /// unknown form.
    ///
    /// A node that is refused does not prevent the others from being read. To change a node, read
    /// its own document.
    pub fn consolidated(&self) -> Option<&[ConsolidatedEntry]> {
        self.consolidated.as_deref()
    }

    /// Sets the consolidated metadata of the nodes below, each with its path below this group,
    /// replacing what was there.
    ///
    /// A path that no node may have is refused. The consolidated metadata of nested groups is left
    /// out.
    pub fn set_consolidated(
        &mut self,
        nodes: &[(String, NodeMetadata)],
    ) -> Result<(), MetadataError> {
        self.remove_consolidated();
        let empty = json!({ "kind": "inline", "must_understand": false, "metadata": {} });
        self.document.set(CONSOLIDATED, Some(empty));
        let mut entries = Vec::with_capacity(nodes.len());
        for (path, node) in nodes {
            path.split('/').try_for_each(check_node_name)?;
            let node = node_of_copy(node.clone());
            self.document.embed(&[CONSOLIDATED, "metadata", path], node.document())?;
            entries.push((path.clone(), Ok(node)));
        }
        self.consolidated = Some(entries);
        Ok(())
    }

    /// Removes the consolidated metadata, which is out of date once a node below changes.
    pub fn remove_consolidated(&mut self) {
        self.document.set(CONSOLIDATED, None);
        self.consolidated = None;
    }

    /// Takes over the consolidated metadata of another document.
    pub(crate) fn copy_consolidated(&mut self, from: &Self) {
        let member = from.document.get("consolidated_metadata").cloned();
        self.document.set("consolidated_metadata", member);
        self.consolidated = from.consolidated.clone();
    }

    /// Whether the document has consolidated metadata, even in an unknown form.
    pub(crate) fn has_consolidated(&self) -> bool {
        self.document.get(CONSOLIDATED).is_some_and(|member| !member.is_null())
    }

    /// Whether the consolidated metadata has an entry for a node.
    pub(crate) fn knows(&self, path: &str) -> bool {
        self.consolidated().unwrap_or_default().iter().any(|(known, _)| known == path)
    }

    /// Replaces the entries for a node and for those below it with `nodes`, whose paths are
    /// relative to this group. All other entries stay as they are, whatever they contain. Does
    /// nothing if there is no consolidated metadata.
    pub(crate) fn renew_consolidated(
        &mut self,
        path: &str,
        nodes: &[(String, NodeMetadata)],
    ) -> Result<(), MetadataError> {
        let inside = |name: &str| {
            name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let Some(entries) = &mut self.consolidated else { return Ok(()) };
        entries.retain(|(name, _)| !inside(name) || nodes.iter().any(|(new, _)| new == name));
        let mut member = self.document.get(CONSOLIDATED).cloned().unwrap_or_default();
        if let Some(Value::Object(known)) = member.get_mut("metadata") {
            let gone = |name: &String| inside(name) && !nodes.iter().any(|(new, _)| new == name);
            let gone: Vec<String> = known.keys().filter(|name| gone(name)).cloned().collect();
            gone.iter().for_each(|name| drop(known.shift_remove(name)));
        }
        self.document.set(CONSOLIDATED, Some(member));
        for (path, node) in nodes {
            path.split('/').try_for_each(check_node_name)?;
            let node = node_of_copy(node.clone());
            self.document.embed(&[CONSOLIDATED, "metadata", path], node.document())?;
            match entries.iter_mut().find(|(name, _)| name == path) {
                Some((_, known)) => *known = Ok(node),
                None => entries.push((path.clone(), Ok(node))),
            }
        }
        Ok(())
    }

    /// Sets the entries of some nodes, by path below this group. All others stay as they are. Does
    /// nothing if there is no consolidated metadata.
    pub(crate) fn put_consolidated(
        &mut self,
        nodes: &BTreeMap<String, NodeMetadata>,
    ) -> Result<(), MetadataError> {
        self.update_consolidated(|path| nodes.get(path))?;
        let Some(entries) = &mut self.consolidated else { return Ok(()) };
        let known: HashSet<String> = entries.iter().map(|(path, _)| path.clone()).collect();
        for (path, node) in nodes.iter().filter(|(path, _)| !known.contains(*path)) {
            path.split('/').try_for_each(check_node_name)?;
            let node = node_of_copy(node.clone());
            self.document.embed(&[CONSOLIDATED, "metadata", path], node.document())?;
            entries.push((path.clone(), Ok(node)));
        }
        Ok(())
    }

    /// Replaces the entry of each node for which `read` returns something; returns whether there
    /// was one. All other entries stay as they are. Takes time proportional to the number of
    /// entries, however many are replaced.
    pub(crate) fn update_consolidated<'a>(
        &mut self,
        read: impl Fn(&str) -> Option<&'a NodeMetadata>,
    ) -> Result<bool, MetadataError> {
        let mut changed = false;
        for (path, known) in self.consolidated.iter_mut().flatten() {
            let Some(node) = read(path) else { continue };
            if known.as_ref().is_ok_and(|known| known == node) {
                continue;
            }
            let node = node_of_copy(node.clone());
            self.document.embed(&[CONSOLIDATED, "metadata", path], node.document())?;
            *known = Ok(node);
            changed = true;
        }
        Ok(changed)
    }

    /// The whole document in its order, including members that are not understood.
    pub fn to_json(&self) -> Value {
        self.document.to_json()
    }

    /// The document's text, indented.
    ///
    /// Parsing it returns the same metadata, and everything that was read is in it unchanged.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.document.to_bytes()
    }
}

/// A node as an entry in the metadata of a group above it: without consolidated metadata of its
/// own.
fn node_of_copy(node: NodeMetadata) -> NodeMetadata {
    match node {
        NodeMetadata::Array(array) => NodeMetadata::Array(array.into_v3()),
        NodeMetadata::Group(group) => NodeMetadata::Group(group.into_v3()),
    }
}

fn consolidated(json: Option<&Value>) -> Result<Option<Vec<ConsolidatedEntry>>, MetadataError> {
    const MEMBER: &str = CONSOLIDATED;
    let members = match json {
        // zarr-python writes null where there is none.
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(members)) => members,
        Some(_) => return Err(MetadataError::invalid(MEMBER, "must be an object")),
    };
    if members.get("kind") != Some(&Value::from("inline")) {
        // It is a copy that a reader may ignore, if the document says so.
        return match members.get("must_understand") {
            Some(Value::Bool(false)) => Ok(None),
            _ => Err(MetadataError::invalid(format!("{MEMBER}.kind"), "must be \"inline\"")),
        };
    }
    let Some(Value::Object(nodes)) = members.get("metadata") else {
        return Err(MetadataError::invalid(format!("{MEMBER}.metadata"), "must be an object"));
    };
    let mut gathered = Gathered::default();
    for (path, node) in nodes {
        gathered.push(MEMBER, path, || NodeMetadata::from_json(node.clone()));
    }
    Ok(Some(gathered.entries))
}

/// Nodes of one document, whose elements together take a bounded amount of memory.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub entries: Vec<ConsolidatedEntry>,
    elements: usize,
}

impl Gathered {
    /// Adds what `parse` returns, or why the node is refused; `member` is its place in the
    /// document.
    pub fn push(
        &mut self,
        member: &str,
        path: &str,
        parse: impl FnOnce() -> Result<NodeMetadata, MetadataError>,
    ) {
        let parsed = path.split('/').try_for_each(check_node_name).and_then(|()| {
            if self.elements > MAX_CONSOLIDATED_ELEMENTS {
                let reason = "the fill values of the nodes before it take too much memory";
                return Err(MetadataError::invalid(member, reason));
            }
            parse()
        });
        if let Ok(node) = &parsed {
            self.elements = self.elements.saturating_add(element_memory(node));
        }
        self.entries.push((path.to_owned(), parsed));
    }
}

/// Approximate memory taken by the elements of a node's metadata.
fn element_memory(node: &NodeMetadata) -> usize {
    match node {
        NodeMetadata::Array(array) => {
            let units = size_of_val(array.data_type().swap_units());
            match array.data_type().size() {
                ElementSize::Fixed(size) => size.saturating_add(units),
                ElementSize::Variable => array.fill().0.len(),
            }
        }
        NodeMetadata::Group(group) => {
            let inner = group.consolidated().unwrap_or_default();
            inner.iter().filter_map(|(_, node)| node.as_ref().ok()).map(element_memory).sum()
        }
    }
}
