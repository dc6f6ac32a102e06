//! What becomes of each node.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::look::{Documents, Found, FoundNode};
use super::{MigrateError, MigrateOptions};
use crate::ome::{OmeError, OmeMetadata, OmeRelease, OmeVersion};
use crate::zarr::metadata::{ArrayMetadata, GroupMetadata, MetadataError, NodeMetadata};
use crate::zarr::{DOCUMENT, ZarrFormat};
use crate::{ArrayNode, Engine, Error, Location};

/// The attribute that has the OME-Zarr metadata from 0.5 on.
const OME: &str = "ome";

/// The name of groups of label images, and of the attribute that lists them.
const LABELS: &str = "labels";

/// What happens to the `zarr.json` of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// It is as it should be.
    Keep,
    /// There is none.
    Write,
    /// It is another one.
    Replace,
}

/// A node with its current and its future documents.
#[derive(Debug)]
pub(super) struct PlannedNode {
    pub location: Location,
    /// Its path below the hierarchy; empty for the outermost node.
    pub path: String,
    pub depth: usize,
    /// Before the migration.
    pub documents: Documents,
    /// After the migration.
    pub target: NodeMetadata,
    pub action: Action,
}

impl PlannedNode {
    /// The last part of its path.
    pub fn name(&self) -> &str {
        last_part(&self.path)
    }
}

/// All nodes of a hierarchy, each group before the nodes in it.
#[derive(Debug)]
pub(super) struct Plan {
    pub nodes: Vec<PlannedNode>,
    /// The version of OME-Zarr that all metadata will have; `None` if there is none, or it stays as
    /// it is.
    pub version: Option<OmeVersion>,
    /// Nodes with OME-Zarr metadata.
    pub ome: u64,
    /// Those of them whose metadata changes its form.
    pub converted: u64,
    /// Arrays that get the names of their image's axes.
    pub named: u64,
}

impl Plan {
    /// Reads a hierarchy and plans its migration.
    pub fn of(
        engine: &Arc<Engine>,
        location: &Location,
        options: &MigrateOptions,
    ) -> Result<Self, Error> {
        let mut found = Found::look(engine, location)?;
        let metadata = match options.leave_ome {
            true => (0..found.nodes.len()).map(|_| None).collect(),
            false => read_ome(&mut found),
        };
        let version = version_of(&metadata, options);
        let levels = levels(&mut found, &metadata);
        let refused = std::mem::take(&mut found.refused);
        let mut planner = Planner { engine, refused: Found { refused, nodes: Vec::new() } };
        let mut plan = Self { nodes: Vec::new(), version, ome: 0, converted: 0, named: 0 };
        for (i, node) in found.nodes.into_iter().enumerate() {
            let metadata = metadata.get(i).and_then(Option::as_ref);
            plan.ome += u64::from(metadata.is_some());
            let axes = levels.get(&i).map(|(axes, _)| axes.as_slice());
            if let Some(node) = planner.node(node, metadata, axes, &mut plan) {
                plan.nodes.push(node);
            }
        }
        if !planner.refused.refused.is_empty() {
            let nodes = planner.refused.refused;
            return Err(MigrateError::Refused { nodes }.into());
        }
        plan.consolidate()?;
        Ok(plan)
    }

    /// The outermost node.
    pub fn root(&self) -> Option<&PlannedNode> {
        self.nodes.first()
    }

    /// Nodes with something to be done to their `zarr.json`.
    pub fn count(&self, action: Action) -> usize {
        self.nodes.iter().filter(|node| node.action == action).count()
    }

    /// Groups whose document is replaced.
    pub fn replaced_groups(&self) -> usize {
        let is_group = |node: &&PlannedNode| matches!(node.target, NodeMetadata::Group(_));
        self.nodes.iter().filter(is_group).filter(|node| node.action == Action::Replace).count()
    }

    /// Renews the consolidated metadata of groups that have it, if anything below them changes.
    fn consolidate(&mut self) -> Result<(), Error> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by(|a, b| self.nodes[*a].path.cmp(&self.nodes[*b].path));
        // Innermost first: the copies in nested groups change the documents of these groups, but
        // not the copies of those that other groups have.
        for i in (0..self.nodes.len()).rev() {
            let node = &self.nodes[i];
            let NodeMetadata::Group(group) = &node.target else { continue };
            let had = match (&node.documents.v3, &node.documents.v2) {
                (Some(_), _) => group.consolidated().is_some(),
                (None, Some(NodeMetadata::Group(old))) => old.consolidated().is_some(),
                (None, _) => false,
            };
            if !had {
                continue;
            }
            let prefix = if node.path.is_empty() { String::new() } else { node.path.clone() + "/" };
            // What is below a group follows in order.
            let start = order.partition_point(|&i| self.nodes[i].path.as_str() < prefix.as_str());
            let below = order[start..].iter().map(|&i| &self.nodes[i]);
            let below: Vec<&PlannedNode> = below
                .take_while(|node| node.path.starts_with(&prefix))
                .filter(|node| !node.path.is_empty())
                .collect();
            if node.action == Action::Keep && below.iter().all(|node| node.action == Action::Keep) {
                continue;
            }
            let copies: Vec<(String, NodeMetadata)> = below
                .iter()
                .filter_map(|node| {
                    Some((node.path.get(prefix.len()..)?.to_owned(), node.target.clone()))
                })
                .collect();
            let mut group = group.clone();
            group.set_consolidated(&copies).map_err(|source| refused(&node.location, source))?;
            let node = &mut self.nodes[i];
            node.target = NodeMetadata::Group(group);
            node.action = action(&node.documents, &node.target);
        }
        Ok(())
    }
}

fn refused(location: &Location, source: MetadataError) -> Error {
    match location.key(DOCUMENT) {
        Ok(object) => Error::Metadata { object, source: Box::new(source) },
        Err(error) => error,
    }
}

fn action(documents: &Documents, target: &NodeMetadata) -> Action {
    match &documents.v3 {
        None => Action::Write,
        Some(v3) if v3.metadata == *target => Action::Keep,
        Some(_) => Action::Replace,
    }
}

/// Makes the documents of nodes, and collects those that have none.
struct Planner<'a> {
    engine: &'a Arc<Engine>,
    refused: Found,
}

impl Planner<'_> {
    fn node(
        &mut self,
        node: FoundNode,
        metadata: Option<&OmeMetadata>,
        axes: Option<&[String]>,
        plan: &mut Plan,
    ) -> Option<PlannedNode> {
        let FoundNode { location, path, depth, documents, current } = node;
        let made = match current {
            NodeMetadata::Array(array) => {
                self.array(&location, array, &documents, axes, plan).map(NodeMetadata::Array)
            }
            NodeMetadata::Group(group) => {
                self.group(&location, group, metadata, &path, plan).map(NodeMetadata::Group)
            }
        };
        let target = made?;
        let action = action(&documents, &target);
        Some(PlannedNode { location, path, depth, documents, target, action })
    }

    fn array(
        &mut self,
        location: &Location,
        array: ArrayMetadata,
        documents: &Documents,
        axes: Option<&[String]>,
        plan: &mut Plan,
    ) -> Option<ArrayMetadata> {
        let mut array = array.into_v3();
        if documents.v3.is_none()
            && let Err(error) = ArrayNode::from_metadata(self.engine, location, array.clone())
        {
            self.refused.refuse(location, &error);
            return None;
        }
        let Some(axes) = axes else { return Some(array) };
        let named = array.dimension_names().unwrap_or_default().iter().map(Option::as_deref);
        if !named.eq(axes.iter().map(|name| Some(name.as_str()))) {
            plan.named += 1;
            if let Err(error) =
                array.set_dimension_names(Some(axes.iter().cloned().map(Some).collect()))
            {
                let count = axes.len();
                let reason = format!("its image has {count} axes, so its {error}");
                self.refused.refuse(location, &reason);
                return None;
            }
        }
        Some(array)
    }

    fn group(
        &mut self,
        location: &Location,
        group: GroupMetadata,
        metadata: Option<&OmeMetadata>,
        path: &str,
        plan: &mut Plan,
    ) -> Option<GroupMetadata> {
        let mut group = match group.zarr_format() {
            ZarrFormat::V3 => group,
            ZarrFormat::V2 => group.into_v3(),
        };
        let Some(version) = &plan.version else { return Some(group) };
        if states(group.attributes(), version) {
            return Some(group);
        }
        match rewritten(group.attributes(), metadata, last_part(path), version) {
            Ok(None) => {}
            Ok(Some(attributes)) => {
                plan.converted += 1;
                group.move_attributes(attributes, OME);
            }
            Err(error) => {
                self.refused.refuse(location, &error);
                return None;
            }
        }
        Some(group)
    }
}

/// Whether OME-Zarr metadata says that it is of this version, spelled like this.
fn states(attributes: &Map<String, Value>, version: &OmeVersion) -> bool {
    let stated = attributes.get(OME).and_then(|ome| ome.get("version")).and_then(Value::as_str);
    stated == Some(version.to_string().as_str())
}

/// The attributes of a group with its OME-Zarr metadata in the form of a version; `None` if it has
/// none. `name` is that of the group.
pub(super) fn in_version(
    attributes: &Map<String, Value>,
    name: &str,
    version: &OmeVersion,
) -> Result<Option<Map<String, Value>>, OmeError> {
    let metadata = OmeMetadata::read(attributes)?;
    rewritten(attributes, metadata.as_ref(), name, version)
}

fn rewritten(
    attributes: &Map<String, Value>,
    metadata: Option<&OmeMetadata>,
    name: &str,
    version: &OmeVersion,
) -> Result<Option<Map<String, Value>>, OmeError> {
    let mut attributes = attributes.clone();
    if let Some(metadata) = metadata {
        metadata.write(version, &mut attributes)?;
        return Ok(Some(attributes));
    }
    // Anything may be called so; an empty list is OME-Zarr's only in a group of the same name.
    let listed = attributes.get(LABELS).and_then(Value::as_array);
    if name != LABELS || !listed.is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    attributes.shift_remove(LABELS);
    let mut metadata = OmeMetadata::new(version.clone());
    metadata.labels = Some(Vec::new());
    metadata.write(version, &mut attributes)?;
    Ok(Some(attributes))
}

/// The OME-Zarr metadata of each node. Nodes whose metadata is not understood are refused.
fn read_ome(found: &mut Found) -> Vec<Option<OmeMetadata>> {
    let mut all = Vec::with_capacity(found.nodes.len());
    let mut wrong = Vec::new();
    for node in &found.nodes {
        let read = match &node.current {
            NodeMetadata::Group(group) => OmeMetadata::read(group.attributes()),
            NodeMetadata::Array(_) => Ok(None),
        };
        all.push(read.unwrap_or_else(|error| {
            wrong.push((node.location.clone(), error));
            None
        }));
    }
    for (location, error) in wrong {
        let reason = format!("its OME-Zarr metadata is not understood: {error}");
        found.refuse(&location, &reason);
    }
    all
}

/// The version that is asked for; otherwise the newest that there is, and 0.5 at least.
fn version_of(metadata: &[Option<OmeMetadata>], options: &MigrateOptions) -> Option<OmeVersion> {
    let newest = metadata.iter().flatten().map(|metadata| &metadata.version).max()?;
    Some(match &options.ome_version {
        Some(version) => version.clone(),
        None => newest.clone().max(OmeRelease::V0_5.into()),
    })
}

/// The names of the axes of each array that is a level of an image, and which group says so, by the
/// positions of both. Groups are refused if they disagree, or if a level is not below the
/// hierarchy: it would stay what it is.
fn levels(
    found: &mut Found,
    metadata: &[Option<OmeMetadata>],
) -> HashMap<usize, (Vec<String>, usize)> {
    let mut levels: HashMap<usize, (Vec<String>, usize)> = HashMap::new();
    let mut wrong = Vec::new();
    {
        let is_array = |node: &FoundNode| matches!(node.current, NodeMetadata::Array(_));
        let arrays: HashMap<&str, usize> = (found.nodes.iter().enumerate())
            .filter(|(_, node)| is_array(node))
            .map(|(i, node)| (node.path.as_str(), i))
            .collect();
        for (group, (node, metadata)) in found.nodes.iter().zip(metadata).enumerate() {
            for image in metadata.iter().flat_map(|metadata| &metadata.images) {
                let axes: Vec<String> = image.axes.iter().map(|axis| axis.name.clone()).collect();
                for level in &image.levels {
                    let name = level.path.escape_debug();
                    let Some(path) = resolved(&node.path, &level.path) else {
                        wrong.push((group, format!("level \"{name}\" is not below it")));
                        continue;
                    };
                    // A level that is missing stays missing.
                    let Some(&array) = arrays.get(path.as_str()) else { continue };
                    match levels.get(&array) {
                        Some((known, _)) if *known == axes => {}
                        Some((known, other)) => {
                            let other = found.nodes.get(*other).map(|node| &node.location);
                            let other = other.map(ToString::to_string).unwrap_or_default();
                            wrong.push((
                                group,
                                format!(
                                    "level \"{name}\" has the axes {} here and {} in {other}",
                                    axes.join(", "),
                                    known.join(", ")
                                ),
                            ));
                        }
                        None => drop(levels.insert(array, (axes.clone(), group))),
                    }
                }
            }
        }
    }
    for (group, reason) in wrong {
        if let Some(location) = found.nodes.get(group).map(|node| node.location.clone()) {
            found.refuse(&location, &reason);
        }
    }
    levels
}

/// A path relative to a group, below the hierarchy; `None` if it leads out of that.
fn resolved(group: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = group.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_found_below_the_hierarchy_only() {
        assert_eq!(resolved("", "0").as_deref(), Some("0"));
        assert_eq!(resolved("a/b", "./0/x").as_deref(), Some("a/b/0/x"));
        assert_eq!(resolved("a/b", "../../0").as_deref(), Some("0"));
        assert_eq!(resolved("a", "../../0"), None);
    }
}
