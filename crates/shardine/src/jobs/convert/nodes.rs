//! The nodes of a data set of any format, as a Zarr hierarchy has them.

use serde_json::{Map, Value};

use super::super::frame::JobContext;
use super::super::losses::{refuse_array, refuse_data_set};
use crate::zarr::metadata::{ArrayMetadata, GroupMetadata};
use crate::zarr::{MAX_DEPTH, node_names};
use crate::{
    Array, ArrayNode, DataSet, Error, Group, Location, Node, PartContent, SetKind, open_in,
};

/// A node of the source, at its path in the target.
pub(super) struct OldNode {
    pub path: String,
    pub content: OldContent,
}

#[expect(clippy::large_enum_variant, reason = "there is one for each array")]
pub(super) enum OldContent {
    Group(OldGroup),
    Array(OldArray),
}

pub(super) struct OldGroup {
    /// Where it is, for messages.
    pub at: String,
    /// In terms of version 3, without what it says of other nodes.
    pub metadata: GroupMetadata,
    /// Whether it says what the nodes below it are.
    pub consolidated: bool,
    /// Whether the arrays in it are levels, the finest first, by the rules of its format.
    pub has_levels: bool,
}

pub(super) struct OldArray {
    pub array: Array,
    /// The metadata of a Zarr array.
    pub metadata: Option<ArrayMetadata>,
    pub attributes: Map<String, Value>,
    /// The data set that it is, or is a level of.
    pub folder: Location,
    /// Its number there.
    pub level: usize,
    /// Its name there; empty if it is the whole data set.
    pub name: String,
}

impl OldArray {
    /// Where it is, for messages.
    pub fn at(&self) -> String {
        match (self.metadata.is_some(), self.name.as_str()) {
            (true, _) | (_, "") => self.array.location().to_string(),
            (false, name) => format!("level \"{name}\""),
        }
    }
}

/// What there is to convert.
pub(super) struct OldNodes {
    /// Every node after those below it.
    pub nodes: Vec<OldNode>,
    /// Whether it is Zarr: then nodes keep their paths.
    pub is_zarr: bool,
}

impl OldNodes {
    /// Reads a data set: of Zarr all nodes, of another format its arrays and groups of them.
    pub fn read(context: &JobContext, source: &Location) -> Result<Self, Error> {
        let engine = context.engine();
        let set = open_in(engine, source)?;
        let is_zarr = set.format().starts_with("zarr");
        let mut found = Self { nodes: Vec::new(), is_zarr };
        if !is_zarr {
            refuse_data_set(engine, source)?;
            found.set(&*set, "", 0)?;
            return Ok(found);
        }
        // An array that cannot be opened is reported as such.
        let nothing = || Error::NoNode { at: source.to_string() };
        match set.is::<Group>() {
            true => {
                let group = set.downcast::<Group>().ok_or_else(nothing)?;
                found.group(context, &group, "", 0)?;
            }
            false if set.is::<ArrayNode>() => {
                found.array(*set.downcast::<ArrayNode>().ok_or_else(nothing)?, "")?;
            }
            false => drop(set.array(0)?),
        }
        Ok(found)
    }

    fn push(&mut self, path: &str, content: OldContent) {
        self.nodes.push(OldNode { path: path.to_owned(), content });
    }

    fn group(
        &mut self,
        context: &JobContext,
        group: &Group,
        path: &str,
        depth: usize,
    ) -> Result<(), Error> {
        context.check()?;
        let at = group.location().to_string();
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep { at, most: MAX_DEPTH });
        }
        for child in group.children()? {
            let inside = below(path, &child.name);
            match child.node? {
                Node::Array(array) => self.array(array, &inside)?,
                Node::Group(group) => self.group(context, &group, &inside, depth + 1)?,
            }
        }
        let consolidated = group.metadata().consolidated().is_some();
        let metadata = group.metadata().clone().into_v3();
        let group = OldGroup { at, metadata, consolidated, has_levels: false };
        self.push(path, OldContent::Group(group));
        Ok(())
    }

    fn array(&mut self, array: ArrayNode, path: &str) -> Result<(), Error> {
        refuse_array(&array)?;
        let metadata = array.metadata().clone();
        let attributes = metadata.clone().into_v3().attributes().clone();
        let folder = array.location().clone();
        let array = OldArray {
            array: array.into_array(),
            metadata: Some(metadata),
            attributes,
            folder,
            level: 0,
            name: path.to_owned(),
        };
        self.push(path, OldContent::Array(array));
        Ok(())
    }

    /// A data set of another format.
    fn set(&mut self, set: &dyn DataSet, path: &str, depth: usize) -> Result<(), Error> {
        let at = set.location().to_string();
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep { at, most: MAX_DEPTH });
        }
        let has_levels = match set.kind() {
            SetKind::Array => {
                let array = old_array(set, set.array(0)?, 0, "", set.attributes(None));
                self.push(path, OldContent::Array(array));
                return Ok(());
            }
            SetKind::KeyValues => return set.array(0).map(drop),
            kind => kind == SetKind::Levels,
        };
        let parts = set.parts()?;
        let keys: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let names = node_names(&keys);
        for (number, (part, name)) in parts.into_iter().zip(names).enumerate() {
            let inside = below(path, &name);
            match part.content? {
                PartContent::Array(array) => {
                    let attributes = set.attributes(has_levels.then_some(number));
                    let array = old_array(set, array, number, &part.name, attributes);
                    self.push(&inside, OldContent::Array(array));
                }
                PartContent::Set(inner) => self.set(&*inner, &inside, depth + 1)?,
                PartContent::Keys(_) => return Err(Error::NotAnArray { at }),
            }
        }
        let metadata = GroupMetadata::new(set.attributes(None));
        let group = OldGroup { at, metadata, consolidated: false, has_levels };
        self.push(path, OldContent::Group(group));
        Ok(())
    }
}

fn old_array(
    set: &dyn DataSet,
    array: Array,
    level: usize,
    name: &str,
    attributes: Map<String, Value>,
) -> OldArray {
    let (folder, name) = (set.location().clone(), name.to_owned());
    OldArray { array, metadata: None, attributes, folder, level, name }
}

/// The path of a node below the one at another path.
pub(super) fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}/{name}"),
    }
}

/// The path of the group that a node is in; `None` of the root.
pub(super) fn above(path: &str) -> Option<&str> {
    match path {
        "" => None,
        path => Some(path.rsplit_once('/').map_or("", |(above, _)| above)),
    }
}
