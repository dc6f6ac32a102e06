//! The metadata of a group.

use serde_json::{Map, Value, json};
use shardine_codec::ElementSize;

use super::document::Document;
use super::node::{check_node, check_node_name};
use super::{MetadataError, NodeMetadata};

const KNOWN: [&str; 4] = ["zarr_format", "node_type", "attributes", "consolidated_metadata"];

/// The most memory that the fill values and types of one consolidated document may take.
///
/// A few bytes of text can ask for an element of megabytes; thousands of them must not add up.
const MAX_CONSOLIDATED_ELEMENTS: usize = 256 << 20;

/// A group's `zarr.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupMetadata {
    document: Document,
    consolidated: Option<Vec<ConsolidatedEntry>>,
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
        Self { document: Document::new(members), consolidated: None }
    }

    /// The group that a document describes, which is hostile until all of it is checked.
    pub(super) fn from_document(document: Document) -> Result<Self, MetadataError> {
        check_node(&document, "group")?;
        document.check_members(&KNOWN)?;
        let consolidated = consolidated(document.get("consolidated_metadata"))?;
        Ok(Self { document, consolidated })
    }

    /// Whatever the user keeps with the group; empty if there are none.
    pub fn attributes(&self) -> &Map<String, Value> {
        self.document.attributes()
    }

    /// Changes the attributes, all of them.
    pub fn set_attributes(&mut self, attributes: Map<String, Value>) {
        self.document.set("attributes", Some(Value::Object(attributes)));
    }

    /// The metadata of the nodes below, in the document's order, as it was when it was gathered: it may be
    /// out of date. `None` if the document has none, or has it in a form that is not known.
    ///
    /// A node that is refused does not keep the others from being read. To change a node, read its own
    /// document.
    pub fn consolidated(&self) -> Option<&[ConsolidatedEntry]> {
        self.consolidated.as_deref()
    }

    /// Removes the metadata of the nodes below, which is out of date once one of them changes.
    pub fn remove_consolidated(&mut self) {
        self.document.set("consolidated_metadata", None);
        self.consolidated = None;
    }

    /// Takes over what another document says of the nodes below.
    pub(crate) fn copy_consolidated(&mut self, from: &Self) {
        let member = from.document.get("consolidated_metadata").cloned();
        self.document.set("consolidated_metadata", member);
        self.consolidated = from.consolidated.clone();
    }

    /// Replaces what the metadata of the nodes below says of one of them. Tells whether it says anything of it.
    pub fn set_consolidated(&mut self, path: &str, node: &NodeMetadata) -> bool {
        let Some(mut member) = self.document.get("consolidated_metadata").cloned() else {
            return false;
        };
        let known = self.consolidated.iter_mut().flatten().find(|(known, _)| known == path);
        let stored = member.get_mut("metadata").and_then(|nodes| nodes.get_mut(path));
        let (Some((_, known)), Some(stored)) = (known, stored) else { return false };
        (*known, *stored) = (Ok(node.clone()), node.to_json());
        self.document.set("consolidated_metadata", Some(member));
        true
    }

    /// The whole document, members that are not understood included, in its order.
    pub fn to_json(&self) -> Value {
        self.document.to_json()
    }

    /// The document's text, indented.
    ///
    /// Reading it gives the same metadata again, and what was read stands in it unchanged.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.document.to_bytes()
    }
}

fn consolidated(json: Option<&Value>) -> Result<Option<Vec<ConsolidatedEntry>>, MetadataError> {
    const MEMBER: &str = "consolidated_metadata";
    let members = match json {
        // zarr-python writes null where there is none.
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(members)) => members,
        Some(_) => return Err(MetadataError::invalid(MEMBER, "must be an object")),
    };
    if members.get("kind") != Some(&Value::from("inline")) {
        // It is a copy that a reader may do without, if the document says so.
        return match members.get("must_understand") {
            Some(Value::Bool(false)) => Ok(None),
            _ => Err(MetadataError::invalid(format!("{MEMBER}.kind"), "must be \"inline\"")),
        };
    }
    let Some(Value::Object(nodes)) = members.get("metadata") else {
        return Err(MetadataError::invalid(format!("{MEMBER}.metadata"), "must be an object"));
    };
    let mut elements = 0;
    let mut entries = Vec::with_capacity(nodes.len());
    for (path, node) in nodes {
        let parsed = path.split('/').try_for_each(check_node_name).and_then(|()| {
            if elements > MAX_CONSOLIDATED_ELEMENTS {
                let reason = "the fill values of the nodes before it take too much memory";
                return Err(MetadataError::invalid(MEMBER, reason));
            }
            NodeMetadata::from_json(node.clone())
        });
        if let Ok(node) = &parsed {
            elements = elements.saturating_add(element_memory(node));
        }
        entries.push((path.clone(), parsed));
    }
    Ok(Some(entries))
}

/// About how much memory the elements of a node's metadata take.
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
