//! Links between the rows of another file, as CSV: edges with the columns `a` and `b`, faces with
//! `a`, `b` and `c`.

use std::io::{Read, Seek, Write};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_schema::{DataType, Field, Fields};
use csv::Writer;

use super::columns::{FlatColumn, Values, flat_fields};
use super::csv_read::{CSV, CsvRows, guess_columns};
use super::csv_write::{failed, flat_columns, writer};
use super::{cannot_hold, invalid};
use crate::{
    GeometryBatch, GeometryError, GeometryKind, GeometrySchema, GeometrySink, GeometrySource,
    Links, OBJECT_ID,
};

/// The columns with the rows that a face joins; an edge has the first two.
const CORNERS: [&str; 3] = ["a", "b", "c"];

/// The columns with the rows that a link joins.
fn ends(width: usize) -> &'static [&'static str] {
    if width == 3 { &CORNERS } else { &CORNERS[..2] }
}

/// Reads links from CSV: the columns `a` and `b`, of faces also `c`, are numbers of rows, counted
/// from 0; others are attributes of links.
pub struct EdgeReader<R> {
    rows: CsvRows<R>,
    attributes: Fields,
    width: usize,
    /// Links so far.
    edges: u64,
}

impl<R: Read + Seek> EdgeReader<R> {
    /// Reads the links of sets of a kind: faces of meshes, edges of all others. Reads the file
    /// twice, first for the types of attributes. `batch_rows` is the most links that are given at
    /// once.
    pub fn open(
        mut input: R,
        kind: GeometryKind,
        batch_rows: usize,
    ) -> Result<Self, GeometryError> {
        let ends = ends(kind.link_width());
        let (width, batch_rows) = (ends.len(), batch_rows.max(1));
        let (names, guesses) = guess_columns(&mut input, batch_rows)?;
        let mut rows = CsvRows::new(input, batch_rows)?;
        let mut fields = Vec::new();
        for end in ends {
            let column = names.0.iter().position(|name| name == end).ok_or_else(|| {
                let reason = match width {
                    3 => "it is missing: faces have columns a, b and c",
                    _ => "it is missing: edges have columns a and b",
                };
                invalid(CSV, format!("column {end}"), reason)
            })?;
            fields.push((column, Field::new(*end, DataType::UInt64, false)));
        }
        for (column, (name, guess)) in names.0.iter().zip(&guesses).enumerate() {
            if !ends.contains(&name.as_str()) {
                let field = Field::new(name, guess.data_type(), guess.has_absent());
                fields.push((column, field));
            }
        }
        let attributes = fields.iter().skip(width).map(|(_, field)| field.clone()).collect();
        rows.read_as(fields)?;
        Ok(Self { rows, attributes, width, edges: 0 })
    }
}

impl<R: Read> EdgeReader<R> {
    /// The attributes of links.
    pub fn attributes(&self) -> &Fields {
        &self.attributes
    }

    /// The next links, among so many vertices; `None` after the last.
    pub fn next_links(&mut self, vertices: u64) -> Result<Option<Links>, GeometryError> {
        let Some(batch) = self.rows.next_rows()? else { return Ok(None) };
        let width = self.width;
        let column = |end: usize| batch.column(end).as_primitive::<UInt64Type>().values();
        let ends: Vec<_> = (0..width).map(column).collect();
        let mut rows = Vec::with_capacity(width * batch.num_rows());
        for row in 0..batch.num_rows() {
            for end in &ends {
                let end = end[row];
                if end >= vertices {
                    // The header is line 1, and line breaks inside cells are rare enough.
                    let line = self.edges.saturating_add(row as u64 + 2);
                    let reason = format!("there is no row {end}: there are {vertices}, from 0 on");
                    return Err(invalid(CSV, format!("edges, line {line}"), reason));
                }
                rows.push(end);
            }
        }
        self.edges += batch.num_rows() as u64;
        let attributes = match self.attributes.is_empty() {
            true => None,
            false => {
                let columns: Vec<usize> = (width..batch.num_columns()).collect();
                Some(batch.project(&columns)?)
            }
        };
        Ok(Some(Links { width, rows, attributes }))
    }
}

/// Vertices of one source, joined by links of a file.
///
/// The links come after all vertices, in batches without vertices.
pub struct WithEdges<S, R> {
    vertices: S,
    edges: EdgeReader<R>,
    schema: GeometrySchema,
    next_row: u64,
    ended: Option<RecordBatch>,
}

impl<S: GeometrySource, R: Read> WithEdges<S, R> {
    /// Joins them. The kind of the vertices must have such links.
    pub fn new(vertices: S, edges: EdgeReader<R>) -> Result<Self, GeometryError> {
        let kind = vertices.schema().kind;
        if kind.link_width() != edges.width {
            let what = if edges.width == 3 { "faces" } else { "edges" };
            return Err(cannot_hold(kind.name(), what));
        }
        let link_attributes = edges.attributes().clone();
        let schema = GeometrySchema { link_attributes, ..vertices.schema().clone() };
        Ok(Self { vertices, edges, schema, next_row: 0, ended: None })
    }
}

impl<S: GeometrySource, R: Read> GeometrySource for WithEdges<S, R> {
    fn schema(&self) -> &GeometrySchema {
        &self.schema
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        let none = match &self.ended {
            Some(none) => none.clone(),
            None => match self.vertices.next_batch()? {
                Some(batch) => {
                    self.next_row = batch.first_row + batch.vertices.num_rows() as u64;
                    return Ok(Some(batch));
                }
                None => {
                    let none = RecordBatch::new_empty(self.schema.vertex_columns());
                    self.ended.insert(none).clone()
                }
            },
        };
        let links = self.edges.next_links(self.next_row)?;
        Ok(links.map(|links| GeometryBatch { first_row: self.next_row, vertices: none, links }))
    }

    fn object_columns(&self) -> &[String] {
        self.vertices.object_columns()
    }

    fn bounds(&mut self) -> Result<Option<[Vec<f64>; 2]>, GeometryError> {
        self.vertices.bounds()
    }
}

/// Writes the links of a set as CSV: the columns `a` and `b`, for faces also `c`, are numbers of
/// vertices as rows of the whole set, counted from 0; attributes of links follow.
///
/// The edges of paths are those between vertices of an object that follow each other. Points have
/// none: of them there is only the header.
pub struct EdgeWriter<W: Write> {
    output: Writer<W>,
    /// The last vertex and its object, if edges follow from the order of vertices.
    path: Option<Option<i64>>,
    /// How many vertices a link joins.
    width: usize,
}

impl<W: Write> EdgeWriter<W> {
    /// Writes the header.
    pub fn create(output: W, schema: &GeometrySchema) -> Result<Self, GeometryError> {
        let is_path = schema.kind.link_width() == 0 && schema.kind.has_objects();
        let mut output = writer(output);
        let attributes = flat_fields(&schema.link_attributes);
        let attributes = attributes.iter().map(|field| field.name().as_str());
        let ends = ends(schema.kind.link_width()).iter().copied();
        output.write_record(ends.chain(attributes)).map_err(failed)?;
        Ok(Self { output, path: is_path.then_some(None), width: schema.kind.link_width() })
    }

    fn ends(&mut self, ends: &[u64]) -> Result<(), GeometryError> {
        ends.iter().try_for_each(|end| self.output.write_field(end.to_string())).map_err(failed)
    }

    fn end_row(&mut self) -> Result<(), GeometryError> {
        self.output.write_record(None::<&[u8]>).map_err(failed)
    }
}

impl<W: Write> GeometrySink for EdgeWriter<W> {
    fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        if let Some(mut last) = self.path.take() {
            let ids = batch.vertices.column_by_name(OBJECT_ID);
            if let Some(ids) = ids.and_then(|ids| ids.as_primitive_opt::<Int64Type>()) {
                for (row, &id) in (batch.first_row..).zip(ids.values()) {
                    if last.replace(id) == Some(id) && row > 0 {
                        self.ends(&[row - 1, row])?;
                        self.end_row()?;
                    }
                }
            }
            self.path = Some(last);
            return Ok(());
        }
        let attributes = match &batch.links.attributes {
            Some(attributes) => flat_columns(CSV, attributes)?,
            None => Vec::new(),
        };
        let columns: Vec<(&FlatColumn, Values<'_>)> =
            attributes.iter().filter_map(|column| Some((column, column.values()?))).collect();
        let mut cell = Vec::new();
        for (link, ends) in batch.links.rows.chunks_exact(batch.links.width.max(1)).enumerate() {
            if ends.len() != self.width {
                let what = format!("links of {} among those of {}", ends.len(), self.width);
                return Err(cannot_hold("edges.csv", what));
            }
            self.ends(ends)?;
            for (column, values) in &columns {
                cell.clear();
                if let Some(at) = column.at(link) {
                    values.write_text(at, &mut cell);
                }
                self.output.write_field(&cell).map_err(failed)?;
            }
            self.end_row()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), GeometryError> {
        Ok(self.output.flush()?)
    }
}
