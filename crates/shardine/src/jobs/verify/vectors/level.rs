//! A level: its document, and the arrays in it.

use std::collections::BTreeMap;

use serde_json::Value;
use shardine_geometry::zarr_vectors::rules::{
    self, AttributeRules, ChunkTable, Extent, LevelNames, VertexRules,
};
use shardine_geometry::zarr_vectors::{Level, StoredType};

use super::{Nodes, StoreCheck, Unopened};
use crate::jobs::check::FindingKind;
use crate::jobs::check::vectors::CellArray;
use crate::vectors::ValueType;
use crate::zarr::{Group, Node};
use crate::{Error, Location};

/// The most memory for what says which fragments belong to objects, as a part of all.
const OWNERS_SHARE: u64 = 8;

/// A level whose positions, fragments and attributes have been judged.
pub(super) struct LevelCheck {
    pub number: u64,
    pub document: Level,
    pub location: Location,
    /// How many axes its grids have.
    pub rank: usize,
    pub table: ChunkTable,
    /// The nodes that are judged later, by name.
    pub nodes: BTreeMap<String, Node>,
    /// Those that cannot be opened.
    pub unopened: Unopened,
}

/// The arrays whose cells have a row, or a fragment, for each vertex.
pub(super) struct VertexArrays {
    pub vertices: CellArray,
    /// `None` if coordinates cannot be read.
    pub rules: Option<VertexRules>,
    pub fragments: Option<CellArray>,
    pub attributes: Vec<(CellArray, AttributeRules)>,
    pub fragment_attributes: Vec<(CellArray, AttributeRules)>,
}

impl VertexArrays {
    /// Whether a chunk has fragments, but no vertices.
    pub(super) fn has_lone_fragments(&self) -> bool {
        let mut stored = self.fragments.iter().flat_map(|fragments| fragments.stored.sorted());
        stored.any(|chunk| !self.vertices.stored.has(&chunk))
    }
}

impl StoreCheck<'_, '_> {
    /// Judges a level without its links and objects; `None` if its document is refused.
    pub(super) fn level(&self, number: u64, group: Group) -> Result<Option<LevelCheck>, Error> {
        let (root, location) = (self.store.root(), group.location().clone());
        let document = match Level::read(group.metadata().attributes(), number, root.axes.len()) {
            Ok(document) => document,
            Err(error) => {
                self.run.note_at(&location, FindingKind::VectorsMetadata, error.to_string());
                return Ok(None);
            }
        };
        let rank = document.grid_rank(root.axes.len());
        let Nodes { opened, unopened } = self.nodes(&group);
        let mut nodes: BTreeMap<String, Node> = opened.into_iter().collect();
        let names = LevelNames {
            families: nodes.keys().cloned().chain(unopened.names.iter().cloned()).collect(),
            levels: self.store.levels().to_vec(),
        };
        let mut found = Vec::new();
        rules::judge_level(&document, root, &names, &mut found);
        self.note_document(&location, found);
        let has_objects = nodes.contains_key("object_index");
        let mut level = LevelCheck {
            number,
            document,
            location,
            rank,
            table: ChunkTable::new(has_objects),
            nodes: BTreeMap::new(),
            unopened: Unopened::default(),
        };
        let arrays = self.vertex_arrays(&level, &mut nodes, &unopened);
        level.nodes = nodes;
        level.unopened = unopened;
        match arrays {
            None => level.table.set_partial(),
            Some(arrays) if self.run.scope.metadata_only => self.vertex_lists(&arrays, true),
            Some(mut arrays) => self.vertices(&mut level, &mut arrays)?,
        }
        Ok(Some(level))
    }

    fn vertex_arrays(
        &self,
        level: &LevelCheck,
        nodes: &mut BTreeMap<String, Node>,
        unopened: &Unopened,
    ) -> Option<VertexArrays> {
        let is_there = |name: &str| unopened.may_have(name);
        let missing = |name: &str, why: &str| {
            let message = format!("there is no {name}{why}");
            self.run.note_at(&level.location, FindingKind::VectorsMetadata, message);
        };
        let Some(vertices) = nodes.remove("vertices") else {
            // Shapes given by numbers have no vertices.
            if level.document.vertices > 0 && !is_there("vertices") {
                missing("array of vertices", "");
            }
            return None;
        };
        let vertices = self.cell_array(vertices, level.rank)?;
        let fragments = match nodes.remove("vertex_fragments") {
            Some(node) => Some(self.cell_array(node, level.rank)?),
            None if is_there("vertex_fragments") => return None,
            None if nodes.contains_key("object_index") => {
                missing("array vertex_fragments", ", which objects consist of");
                None
            }
            None => None,
        };
        let attributes = self.attributes(level.rank, nodes, "vertex_attributes", "vertices");
        let fragment_attributes =
            self.attributes(level.rank, nodes, "fragment_attributes", "fragments");
        let rules = self.vertex_rules(level, &vertices);
        Some(VertexArrays { vertices, rules, fragments, attributes, fragment_attributes })
    }

    fn vertex_rules(&self, level: &LevelCheck, vertices: &CellArray) -> Option<VertexRules> {
        let root = self.store.root();
        let attributes = vertices.attributes();
        if attributes.get("encoding").and_then(Value::as_str) == Some("draco") {
            let message = "positions were not checked: they are encoded by Draco".to_owned();
            self.run.note_at(vertices.location(), FindingKind::NotChecked, message);
            return None;
        }
        let name = attributes.get("dtype").and_then(Value::as_str).unwrap_or("float32");
        let Some(stored) = StoredType::of_coordinates(name) else {
            let message = format!("dtype: {name:?} is no type of coordinates");
            self.run.note_at(vertices.location(), FindingKind::VectorsMetadata, message);
            return None;
        };
        let chunk_shape = level.document.chunk_shape.as_ref().unwrap_or(&root.chunk_shape).clone();
        let (scalar, swapped) = (stored.scalar, stored.swapped);
        Some(VertexRules { scalar, swapped, chunk_shape, offset: root.coordinate_offset.clone() })
    }

    /// The arrays of a group of attributes of `of`.
    fn attributes(
        &self,
        rank: usize,
        nodes: &mut BTreeMap<String, Node>,
        group: &str,
        of: &'static str,
    ) -> Vec<(CellArray, AttributeRules)> {
        let group = nodes.remove(group).and_then(|node| self.group(node));
        let nodes = group.iter().flat_map(|group| self.nodes(group).opened);
        nodes.filter_map(|(_, node)| self.attribute(node, rank, of)).collect()
    }

    /// An array of attributes of `of`.
    pub(super) fn attribute(
        &self,
        node: Node,
        rank: usize,
        of: &'static str,
    ) -> Option<(CellArray, AttributeRules)> {
        let array = self.cell_array(node, rank)?;
        match ValueType::read(array.attributes()) {
            Ok(Some(ValueType { document, stored })) => {
                Some((array, AttributeRules::new(document, of).swapped(stored.swapped)))
            }
            Ok(None) => {
                let name = array.attributes().get("dtype").and_then(Value::as_str);
                let name = name.unwrap_or_default();
                let message =
                    format!("its values were not checked: those of type {name:?} cannot be read");
                self.run.note_at(array.location(), FindingKind::NotChecked, message);
                None
            }
            Err(error) => {
                let kind = FindingKind::VectorsMetadata;
                self.run.note_at(array.location(), kind, error.to_string());
                None
            }
        }
    }

    /// Whether what says which fragments belong to objects fits into memory.
    pub(super) fn fits_owners(&self, table: &ChunkTable) -> bool {
        table.fragments() / 8 <= self.run.engine.memory_in_flight() / OWNERS_SHARE
    }

    /// Compares what a level says with what was counted; `repair` raises it if that `is_all`.
    pub(super) fn vertex_count(&self, level: &LevelCheck, count: u64, is_all: bool) {
        let counts = [("vertex_count", Some(level.document.vertices), count)];
        let correction = is_all.then_some(rules::Correction::Vertices { count });
        self.note_counts(&level.location, &counts, correction);
    }

    /// Compares the bounds of the store with where the vertices of its finest level lie; `repair`
    /// corrects them if these are `all`.
    pub(super) fn bounds(&self, rules: &VertexRules, extent: &Extent, all: bool) {
        let root = self.store.root();
        let Some(bounds) = &root.bounds else { return };
        let moved = rules.offset.as_ref().map(|offset| {
            let corner = |corner: &[f64]| -> Vec<f64> {
                corner.iter().zip(offset).map(|(at, add)| at - add).collect()
            };
            [corner(&bounds[0]), corner(&bounds[1])]
        });
        let fits = moved.is_some_and(|moved| extent.outside(&moved, rules.scalar).is_none());
        if let Some(message) = extent.outside(bounds, rules.scalar).filter(|_| !fits) {
            let found = vec![rules::Violation::new(rules::RuleKind::Bounds, message)];
            let correction = rules::Correction::bounds(extent).filter(|_| all);
            self.note_mended(self.location, found, correction);
        }
    }
}
