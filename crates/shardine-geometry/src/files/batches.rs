//! Tables that another part of the program has as batches of Arrow.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Fields, Schema, SchemaRef};

use super::keyed::{KeyedTable, RawRows};
use super::options::ReadOptions;
use super::table::{Assembler, TableRows, attribute_column, attribute_field};
use super::{cannot_hold, invalid};
use crate::{GeometryBatch, GeometryError, GeometrySchema, GeometrySource, Links, TableSource};

const TABLE: &str = "the table";

/// Batches of a table, one after the other.
type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

struct BatchRows(Batches);

impl RawRows for BatchRows {
    const FORMAT: &'static str = TABLE;

    fn next(&mut self) -> Result<Option<RecordBatch>, GeometryError> {
        Ok(self.0.next().transpose()?)
    }
}

/// Rows of vertices in batches of a table: a column for each axis, `object_id`, attributes. Columns
/// mean what they do in a file.
///
/// Columns that are of the right type already are not copied.
pub struct BatchReader {
    raw: BatchRows,
    rows: TableRows,
}

impl BatchReader {
    /// Finds the columns by their names. All batches must have the columns `columns`.
    pub fn new(
        columns: &SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
        options: &ReadOptions,
    ) -> Result<Self, GeometryError> {
        let assembler = Assembler::new(TABLE, columns, options)?;
        let rows = TableRows::new(assembler, options.rows());
        Ok(Self { raw: BatchRows(Box::new(batches)), rows })
    }
}

impl GeometrySource for BatchReader {
    fn schema(&self) -> &GeometrySchema {
        &self.rows.assembler.schema
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        let Self { raw, rows } = self;
        rows.next(|| raw.next())
    }

    fn object_columns(&self) -> &[String] {
        &self.rows.assembler.object_columns
    }
}

/// Rows that are named by some of their columns, in batches of a table.
pub struct BatchTable(KeyedTable<BatchRows>);

impl BatchTable {
    /// Finds the columns `keys`, which are whole numbers. All other columns are attributes.
    pub fn new(
        columns: &SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
        keys: &[&str],
    ) -> Result<Self, GeometryError> {
        Ok(Self(KeyedTable::new(BatchRows(Box::new(batches)), columns, keys)?))
    }
}

impl TableSource for BatchTable {
    fn columns(&self) -> &SchemaRef {
        self.0.columns()
    }

    fn next_rows(&mut self) -> Result<Option<RecordBatch>, GeometryError> {
        self.0.next_rows()
    }
}

/// The rows in the types that attributes have.
fn kept_attributes(rows: &RecordBatch) -> Result<RecordBatch, GeometryError> {
    let fields = rows.schema_ref().fields().iter();
    let fields =
        fields.map(|field| attribute_field(TABLE, field)).collect::<Result<Vec<_>, _>>()?;
    let columns = (0..rows.num_columns()).map(|column| attribute_column(TABLE, rows, column));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.collect::<Result<_, _>>()?)?)
}

/// Vertices of one source, joined by links that are in memory.
///
/// The links come after all vertices, in a batch without vertices.
pub struct WithLinks<S> {
    vertices: S,
    links: Option<Links>,
    schema: GeometrySchema,
    next_row: u64,
}

impl<S: GeometrySource> WithLinks<S> {
    /// Joins them. A link must join as many vertices as links of this kind do.
    pub fn new(vertices: S, links: Links) -> Result<Self, GeometryError> {
        let kind = vertices.schema().kind;
        if kind.link_width() == 0 {
            return Err(cannot_hold(kind.name(), "links"));
        }
        if kind.link_width() != links.width {
            let reason = format!("a link of {} joins {} vertices", kind.name(), kind.link_width());
            return Err(invalid(TABLE, "links", format!("{reason}, not {}", links.width)));
        }
        let mut links = links;
        let mut link_attributes = Fields::empty();
        if let Some(rows) = &links.attributes {
            if rows.num_rows() != links.len() {
                let (rows, count) = (rows.num_rows(), links.len());
                let reason = format!("there are {rows} values for {count} links");
                return Err(invalid(TABLE, "attributes of links", reason));
            }
            let attributes = kept_attributes(rows)?;
            link_attributes = attributes.schema_ref().fields().clone();
            links.attributes = Some(attributes);
        }
        let schema = GeometrySchema { link_attributes, ..vertices.schema().clone() };
        Ok(Self { vertices, links: Some(links), schema, next_row: 0 })
    }
}

impl<S: GeometrySource> GeometrySource for WithLinks<S> {
    fn schema(&self) -> &GeometrySchema {
        &self.schema
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        if self.links.is_none() {
            return Ok(None);
        }
        if let Some(batch) = self.vertices.next_batch()? {
            self.next_row = batch.first_row + batch.vertices.num_rows() as u64;
            return Ok(Some(batch));
        }
        let (Some(links), first_row) = (self.links.take(), self.next_row) else { return Ok(None) };
        let far = links.rows.iter().position(|row| *row >= first_row);
        if let Some(at) = far {
            let (link, row) = (at / links.width.max(1), links.rows[at]);
            let reason = format!("there is no vertex {row}: there are {first_row}, from 0 on");
            return Err(invalid(TABLE, format!("link {link}"), reason));
        }
        let vertices = RecordBatch::new_empty(self.schema.vertex_columns());
        Ok(Some(GeometryBatch { first_row, vertices, links }))
    }

    fn object_columns(&self) -> &[String] {
        self.vertices.object_columns()
    }
}
