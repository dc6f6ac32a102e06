//! Writes `.swc` files.

use std::io::{BufWriter, Write};

use super::trees::{parents, parents_first};
use super::{RADIUS, SWC, TYPE};
use crate::files::cannot_hold;
use crate::files::columns::Values;
use crate::{GeometryBatch, GeometryError, GeometryKind, GeometrySchema, GeometrySink};

/// Writes trees: skeletons, or a graph without rings.
///
/// Each tree has a root of its own, whether or not they are one object: trees are never joined.
/// Everything is kept in memory until the end, as the parent of a node may come last. Nodes are
/// numbered by their rows from 1 on, unless one comes before its parent: then all are arranged from
/// the roots, which other programs need. Without attributes `type` and `radius` both are 0.
pub struct SwcWriter<W: Write> {
    output: BufWriter<W>,
    /// Coordinates and radius of each node as text.
    nodes: Vec<u8>,
    /// Where the text of each ends.
    ends: Vec<usize>,
    types: Vec<i64>,
    edges: Vec<(usize, usize)>,
}

impl<W: Write> SwcWriter<W> {
    /// Fails for other kinds, and for positions that do not have three coordinates.
    pub fn create(output: W, schema: &GeometrySchema) -> Result<Self, GeometryError> {
        if !matches!(schema.kind, GeometryKind::Skeletons | GeometryKind::Graph) {
            return Err(cannot_hold(SWC, schema.kind.name()));
        }
        if schema.axes.len() != 3 {
            return Err(cannot_hold(SWC, format!("positions with {} axes", schema.axes.len())));
        }
        let output = BufWriter::new(output);
        Ok(Self { output, nodes: vec![], ends: vec![], types: vec![], edges: vec![] })
    }
}

impl<W: Write> GeometrySink for SwcWriter<W> {
    fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        let axes = batch.vertices.columns().iter().take(3);
        let axes: Vec<Values<'_>> = axes.filter_map(|axis| Values::new(axis)).collect();
        let column = |name: &str| Values::new(batch.vertices.column_by_name(name)?);
        let (types, radii) = (column(TYPE), column(RADIUS));
        for row in 0..batch.vertices.num_rows() {
            for axis in &axes {
                axis.write_text(row, &mut self.nodes);
                self.nodes.push(b' ');
            }
            match radii.as_ref().filter(|radii| !radii.float(row).is_nan()) {
                Some(radii) => radii.write_text(row, &mut self.nodes),
                None => self.nodes.push(b'0'),
            }
            self.ends.push(self.nodes.len());
            let of_type = types.as_ref().map_or(0.0, |types| types.float(row));
            // A type that is absent is 0, as is one that is no number.
            self.types.push(of_type as i64);
        }
        for edge in batch.links.rows.chunks_exact(2) {
            self.edges.push((edge[0] as usize, edge[1] as usize));
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), GeometryError> {
        let count = self.types.len();
        if let Some((a, b)) = self.edges.iter().find(|(a, b)| *a.max(b) >= count) {
            return Err(cannot_hold(SWC, format!("an edge from row {a} to row {b} of {count}")));
        }
        let parents = parents(count, &self.edges).map_err(|(a, b)| {
            cannot_hold(SWC, format!("a ring, which the edge from row {a} to row {b} closes"))
        })?;
        let order = parents_first(&parents);
        let mut number = vec![0; count];
        order.iter().enumerate().for_each(|(place, &node)| number[node] = place + 1);
        writeln!(self.output, "# id type x y z radius parent")?;
        for node in order {
            let start = node.checked_sub(1).map_or(0, |before| self.ends[before]);
            write!(self.output, "{} {} ", number[node], self.types[node])?;
            self.output.write_all(&self.nodes[start..self.ends[node]])?;
            match parents[node] {
                Some(parent) => writeln!(self.output, " {}", number[parent])?,
                None => writeln!(self.output, " -1")?,
            }
        }
        Ok(self.output.flush()?)
    }
}
