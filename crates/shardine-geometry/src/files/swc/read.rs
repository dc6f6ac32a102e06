//! Reads `.swc` files.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, SchemaRef};

use super::trees::trees;
use super::{RADIUS, SWC, TYPE};
use crate::files::columns::{ColumnBuilder, is_number, pick};
use crate::files::lines::Lines;
use crate::files::options::{ReadOptions, SwcObjects};
use crate::files::{cannot_hold, invalid};
use crate::{GeometryBatch, GeometryError, GeometryKind, GeometrySchema, GeometrySource, Links};

/// Reads trees, each node with the attributes `type` and `radius`, and edges from it to its parent.
///
/// The file is read as a whole, because a node may come before its parent and trees may be mixed.
/// Nodes keep their order, and the trees follow each other if each is an object of its own. A
/// parent of -1 makes a node a root, and so does 0 where there is no node 0. Columns after the
/// seventh are not read.
#[derive(Debug)]
pub struct SwcReader {
    schema: GeometrySchema,
    /// All vertices.
    vertices: RecordBatch,
    /// All edges (child, parent), in the order of the later of the two.
    edges: Vec<[u64; 2]>,
    batch_rows: usize,
    next_row: usize,
    next_edge: usize,
}

/// What lines say, in their order.
struct Nodes {
    /// Type, coordinates and radius.
    columns: Vec<ColumnBuilder>,
    ids: Vec<i64>,
    parents: Vec<i64>,
    lines: Vec<u64>,
}

impl SwcReader {
    /// Reads all of the file, as skeletons or as a graph.
    pub fn open(input: impl Read, options: &ReadOptions) -> Result<Self, GeometryError> {
        if !matches!(options.kind, GeometryKind::Skeletons | GeometryKind::Graph) {
            return Err(cannot_hold(SWC, options.kind.name()));
        }
        let axes = options.axes_or_usual(3);
        if axes.len() != 3 {
            return Err(cannot_hold(SWC, format!("positions with {} axes", axes.len())));
        }
        let coordinate = options.coordinate.clone().unwrap_or(DataType::Float64);
        if !is_number(&coordinate) {
            return Err(cannot_hold(SWC, format!("coordinates of type {coordinate}")));
        }
        let radius = match coordinate {
            DataType::Float32 => DataType::Float32,
            _ => DataType::Float64,
        };
        let attributes =
            vec![Field::new(TYPE, DataType::Int32, false), Field::new(RADIUS, radius, false)];
        let schema = GeometrySchema {
            kind: options.kind,
            axes,
            coordinate,
            objects: true,
            vertex_attributes: attributes.into(),
            link_attributes: Fields::empty(),
        };
        let nodes = Nodes::read(input, &schema)?;
        nodes.arrange(schema, options)
    }
}

impl Nodes {
    fn read(input: impl Read, schema: &GeometrySchema) -> Result<Self, GeometryError> {
        let mut lines = Lines::new(SWC, input);
        let [of_type, of_radius] = [0, 1].map(|at| schema.vertex_attributes[at].data_type());
        let coordinate = &schema.coordinate;
        let types = [of_type, coordinate, coordinate, coordinate, of_radius];
        let columns = types.into_iter().filter_map(ColumnBuilder::new).collect();
        let mut nodes = Self { columns, ids: vec![], parents: vec![], lines: vec![] };
        loop {
            let Some(line) = lines.next()? else { return Ok(nodes) };
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let pushed = nodes.push(line);
            pushed.map_err(|reason| lines.wrong(reason))?;
            nodes.lines.push(lines.number());
        }
    }

    fn push(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_ascii_whitespace().take(7).collect();
        let [id, values @ .., parent] = &words[..] else { return Err("it is empty".into()) };
        if words.len() < 7 {
            return Err(format!("a node has 7 columns, and this line has {}", words.len()));
        }
        let integer = |word: &str, what: &str| {
            word.parse::<i64>().map_err(|_| format!("{word:?} is not the number of a {what}"))
        };
        self.ids.push(integer(id, "node")?);
        self.parents.push(integer(parent, "parent")?);
        for ((word, column), name) in
            values.iter().zip(&mut self.columns).zip([TYPE, "x", "y", "z", RADIUS])
        {
            if !column.push_text(word) {
                return Err(format!("{word:?} in column {name} is not a number that fits"));
            }
        }
        Ok(())
    }

    /// The row of the parent of each node.
    fn parents(&self) -> Result<Vec<Option<usize>>, GeometryError> {
        let wrong =
            |row: usize, reason: String| invalid(SWC, format!("line {}", self.lines[row]), reason);
        let mut rows = HashMap::with_capacity(self.ids.len());
        for (row, id) in self.ids.iter().enumerate() {
            if let Some(first) = rows.insert(*id, row) {
                let reason = format!("node {id} is also in line {}", self.lines[first]);
                return Err(wrong(row, reason));
            }
        }
        let parent = |(row, id): (usize, &i64)| match (*id, rows.get(id)) {
            (-1, None) | (0, None) => Ok(None),
            (-1, Some(_)) => Ok(None),
            (_, Some(&parent)) => Ok(Some(parent)),
            (id, None) => Err(wrong(row, format!("its parent {id} is not in the file"))),
        };
        self.parents.iter().enumerate().map(parent).collect()
    }

    fn arrange(
        mut self,
        schema: GeometrySchema,
        options: &ReadOptions,
    ) -> Result<SwcReader, GeometryError> {
        let parents = self.parents()?;
        let (tree_of, _) = trees(&parents).map_err(|row| {
            let reason = "its ancestors form a ring, so there is no root";
            invalid(SWC, format!("line {}", self.lines[row]), reason)
        })?;
        let mut order: Vec<usize> = (0..tree_of.len()).collect();
        let ids: Vec<i64> = match options.swc_objects {
            SwcObjects::One(id) => vec![id; order.len()],
            SwcObjects::PerTree(first) => {
                // Keeps the order of nodes inside a tree.
                order.sort_by_key(|&row| tree_of[row]);
                order.iter().map(|&row| first.saturating_add(tree_of[row] as i64)).collect()
            }
        };
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place_of, &row)| place[row] = place_of);
        let joined = parents.iter().enumerate().filter_map(|(row, parent)| Some((row, (*parent)?)));
        let mut edges: Vec<[u64; 2]> =
            joined.map(|(row, parent)| [place[row] as u64, place[parent] as u64]).collect();
        edges.sort_by_key(|[child, parent]| (child.max(parent).to_owned(), *child));

        let columns: SchemaRef = schema.vertex_columns();
        let mut arrays = Vec::with_capacity(columns.fields().len());
        for column in &mut self.columns {
            arrays.push(pick(&[column.finish()], order.iter().map(|&row| (0, row)))?);
        }
        // From type, x, y, z, radius to x, y, z, object, type, radius.
        arrays.rotate_left(1);
        arrays.swap(3, 4);
        arrays.insert(3, Arc::new(Int64Array::from(ids)) as ArrayRef);
        let vertices = RecordBatch::try_new(columns, arrays)?;
        let batch_rows = options.rows();
        Ok(SwcReader { schema, vertices, edges, batch_rows, next_row: 0, next_edge: 0 })
    }
}

impl GeometrySource for SwcReader {
    fn schema(&self) -> &GeometrySchema {
        &self.schema
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        let first = self.next_row;
        let rows = (self.vertices.num_rows() - first).min(self.batch_rows);
        let left = &self.edges[self.next_edge..];
        if rows == 0 && left.is_empty() {
            return Ok(None);
        }
        self.next_row += rows;
        let known = self.next_row as u64;
        let edges = left.iter().take_while(|edge| edge.iter().all(|row| *row < known));
        let links: Vec<u64> = edges.flatten().copied().collect();
        self.next_edge += links.len() / 2;
        Ok(Some(GeometryBatch {
            first_row: first as u64,
            vertices: self.vertices.slice(first, rows),
            links: Links { width: 2, rows: links, attributes: None },
        }))
    }
}
