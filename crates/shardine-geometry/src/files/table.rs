//! Which column of a table is what, and batches made of its rows.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, SchemaRef};

use super::columns::{cast, is_number, kept, kept_type, pick, plain};
use super::options::{ReadOptions, usual_name};
use super::{cannot_hold, invalid};
use crate::{Axis, GeometryBatch, GeometryError, GeometryKind, GeometrySchema, Links, OBJECT_ID};

/// Which column is what.
#[derive(Debug)]
pub(super) struct Mapping {
    pub axes: Vec<Axis>,
    /// The columns of the vertices of a row: one set, or the two ends of a line.
    pub positions: Vec<Vec<usize>>,
    pub object: Option<usize>,
    pub attributes: Vec<usize>,
}

impl Mapping {
    /// Finds the columns of a table by their names.
    pub fn new(
        format: &'static str,
        names: &[&str],
        options: &ReadOptions,
    ) -> Result<Self, GeometryError> {
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(**name)) {
            return Err(invalid(format, format!("column {twice}"), "two columns have this name"));
        }
        let find = |name: &str| names.iter().position(|found| *found == name);
        let axes = match options.axes.is_empty() {
            false => options.axes.clone(),
            true => usual_axes(&find, options.kind),
        };
        if axes.is_empty() {
            let names = names.join(", ");
            return Err(invalid(
                format,
                "columns",
                format!("there is no column x; name the axes, which are among: {names}"),
            ));
        }
        let column = |name: String| {
            find(&name).ok_or_else(|| {
                let names = names.join(", ");
                invalid(format, format!("column {name}"), format!("it is not among: {names}"))
            })
        };
        let ends = options.kind == GeometryKind::Lines
            && axes.first().is_some_and(|axis| find(&format!("{}0", axis.name)).is_some());
        let positions: Vec<Vec<usize>> = match ends {
            true => ["0", "1"]
                .map(|end| axes.iter().map(|axis| column(format!("{}{end}", axis.name))).collect())
                .into_iter()
                .collect::<Result<_, GeometryError>>()?,
            false => {
                vec![axes.iter().map(|axis| column(axis.name.clone())).collect::<Result<_, _>>()?]
            }
        };
        let object = find(OBJECT_ID);
        if object.is_none() && options.kind.has_objects() && !ends {
            return Err(invalid(
                format,
                format!("column {OBJECT_ID}"),
                format!(
                    "it is missing, and says which rows form one of the {}",
                    options.kind.name()
                ),
            ));
        }
        let used = |column: &usize| {
            object == Some(*column) || positions.iter().any(|columns| columns.contains(column))
        };
        let attributes = (0..names.len()).filter(|column| !used(column)).collect();
        Ok(Self { axes, positions, object, attributes })
    }

    /// Whether a row is a line with two ends.
    fn is_ends(&self) -> bool {
        self.positions.len() == 2
    }

    /// The columns of vertices.
    pub fn schema(
        &self,
        format: &'static str,
        columns: &SchemaRef,
        options: &ReadOptions,
    ) -> Result<GeometrySchema, GeometryError> {
        let mut found = self.positions.iter().flatten().map(|&at| columns.field(at).data_type());
        let first = found.next().cloned().unwrap_or(DataType::Float64);
        let coordinate = match &options.coordinate {
            Some(coordinate) => coordinate.clone(),
            None if is_number(&first) && found.all(|other| *other == first) => first,
            None => DataType::Float64,
        };
        if !is_number(&coordinate) {
            return Err(cannot_hold(format, format!("coordinates of type {coordinate}")));
        }
        let mut attributes = Vec::new();
        for &at in &self.attributes {
            let field = columns.field(at);
            attributes.push(attribute_field(format, field)?);
        }
        let schema = GeometrySchema {
            kind: options.kind,
            axes: self.axes.clone(),
            coordinate,
            objects: self.object.is_some() || options.kind.has_objects(),
            vertex_attributes: attributes.into(),
            link_attributes: Fields::empty(),
        };
        // The two ends of a line become one axis, whose name may be taken.
        let columns = schema.vertex_columns();
        let mut seen = HashSet::new();
        if let Some(twice) = columns.fields().iter().find(|field| !seen.insert(field.name())) {
            let place = format!("column {}", twice.name());
            return Err(invalid(format, place, "it would be both an axis and an attribute"));
        }
        Ok(schema)
    }
}

/// An attribute as it is in batches.
pub(super) fn attribute_field(format: &'static str, field: &Field) -> Result<Field, GeometryError> {
    match kept_type(field.data_type()) {
        Some(kept) => Ok(Field::new(field.name(), kept, field.is_nullable())),
        None => Err(invalid(
            format,
            format!("column {}", field.name()),
            format!(
                "its type {} is none that attributes have: numbers, Booleans, strings, lists of \
                 numbers of one length",
                field.data_type()
            ),
        )),
    }
}

/// The values of an attribute as they are in batches.
pub(super) fn attribute_column(
    format: &'static str,
    rows: &RecordBatch,
    column: usize,
) -> Result<ArrayRef, GeometryError> {
    kept(rows.column(column)).ok_or_else(|| {
        let name = rows.schema_ref().field(column).name().clone();
        invalid(format, format!("column {name}"), "its strings are too many")
    })
}

/// A column that must have a number of one type in each row. `before` rows have been read.
pub(super) fn number_column(
    format: &'static str,
    rows: &RecordBatch,
    column: usize,
    data_type: &DataType,
    before: u64,
) -> Result<ArrayRef, GeometryError> {
    let field = rows.schema_ref().field(column);
    let array = rows.column(column);
    let at = |row: usize| {
        format!("row {}, column {}", before.saturating_add(row as u64 + 1), field.name())
    };
    if array.null_count() > 0 {
        let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or(0);
        return Err(invalid(format, at(row), "the value is missing"));
    }
    let array = plain(array).unwrap_or_else(|| array.clone());
    cast(&array, data_type).map_err(|row| match row {
        Some(row) => invalid(format, at(row), format!("the value does not fit into {data_type}")),
        None => invalid(
            format,
            format!("column {}", field.name()),
            format!("it should hold numbers and is of type {}", field.data_type()),
        ),
    })
}

/// x, then y and z as far as there are columns.
fn usual_axes(find: &dyn Fn(&str) -> Option<usize>, kind: GeometryKind) -> Vec<Axis> {
    let is_there = |name: &str| {
        let end = format!("{name}0");
        find(name).is_some() || (kind == GeometryKind::Lines && find(&end).is_some())
    };
    (0..3)
        .map(usual_name)
        .take_while(|name| is_there(name))
        .map(|name| Axis { name, unit: None })
        .collect()
}

/// Makes batches of the rows of a table.
pub(super) struct Assembler {
    format: &'static str,
    mapping: Mapping,
    pub schema: GeometrySchema,
    columns: SchemaRef,
    /// The attributes of objects.
    pub object_columns: Vec<String>,
    /// Rows of the table and vertices so far.
    rows: u64,
    vertices: u64,
}

impl Assembler {
    pub fn new(
        format: &'static str,
        columns: &SchemaRef,
        options: &ReadOptions,
    ) -> Result<Self, GeometryError> {
        let names: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
        let mapping = Mapping::new(format, &names, options)?;
        let schema = mapping.schema(format, columns, options)?;
        // A row with both ends is an object, and so is what else is in it.
        let object_columns = match mapping.is_ends() {
            true => schema.vertex_attributes.iter().map(|field| field.name().clone()).collect(),
            false => Vec::new(),
        };
        let columns = schema.vertex_columns();
        Ok(Self { format, mapping, schema, columns, object_columns, rows: 0, vertices: 0 })
    }

    /// The vertices of the next rows of the table.
    pub fn batch(&mut self, rows: &RecordBatch) -> Result<GeometryBatch, GeometryError> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.fields().len());
        for axis in 0..self.mapping.axes.len() {
            let ends: Result<Vec<ArrayRef>, _> = self
                .mapping
                .positions
                .iter()
                .map(|columns| self.numbers(rows, columns[axis], &self.schema.coordinate))
                .collect();
            let ends = ends?;
            let rows = 0..rows.num_rows();
            arrays.push(match &ends[..] {
                [position] => position.clone(),
                both => pick(both, rows.flat_map(|row| [(0, row), (1, row)]))?,
            });
        }
        if self.schema.objects {
            let ids = match self.mapping.object {
                Some(column) => self.numbers(rows, column, &DataType::Int64)?,
                // A line without an id has the number of its row.
                None => {
                    let first = self.rows as i64;
                    Arc::new(Int64Array::from_iter_values(first..first + rows.num_rows() as i64))
                }
            };
            arrays.push(self.for_each_vertex(ids)?);
        }
        for &column in &self.mapping.attributes {
            let attribute = attribute_column(self.format, rows, column)?;
            arrays.push(self.for_each_vertex(attribute)?);
        }
        let vertices = RecordBatch::try_new(self.columns.clone(), arrays)?;
        let first_row = self.vertices;
        self.rows += rows.num_rows() as u64;
        self.vertices += vertices.num_rows() as u64;
        let links = Links { width: self.schema.kind.link_width(), ..Links::default() };
        Ok(GeometryBatch { first_row, vertices, links })
    }

    fn numbers(
        &self,
        rows: &RecordBatch,
        column: usize,
        data_type: &DataType,
    ) -> Result<ArrayRef, GeometryError> {
        number_column(self.format, rows, column, data_type, self.rows)
    }

    /// A value for each vertex, of one for each row.
    fn for_each_vertex(&self, column: ArrayRef) -> Result<ArrayRef, GeometryError> {
        if !self.mapping.is_ends() {
            return Ok(column);
        }
        let rows = 0..column.len();
        Ok(pick(&[column], rows.flat_map(|row| [(0, row), (0, row)]))?)
    }
}

/// Batches of the rows of a table, no larger than asked for.
pub(super) struct TableRows {
    pub assembler: Assembler,
    batch_rows: usize,
    /// Rows that have been read and not yet given.
    waiting: VecDeque<RecordBatch>,
    ended: bool,
}

impl TableRows {
    pub fn new(assembler: Assembler, batch_rows: usize) -> Self {
        Self { assembler, batch_rows, waiting: VecDeque::new(), ended: false }
    }

    pub fn next(
        &mut self,
        mut read: impl FnMut() -> Result<Option<RecordBatch>, GeometryError>,
    ) -> Result<Option<GeometryBatch>, GeometryError> {
        while !self.ended {
            let Some(mut rows) = self.waiting.pop_front() else {
                match read()? {
                    Some(rows) => self.waiting.push_back(rows),
                    None => self.ended = true,
                }
                continue;
            };
            if rows.num_rows() > self.batch_rows {
                let rest = rows.slice(self.batch_rows, rows.num_rows() - self.batch_rows);
                self.waiting.push_front(rest);
                rows = rows.slice(0, self.batch_rows);
            }
            if rows.num_rows() > 0 {
                return self.assembler.batch(&rows).map(Some);
            }
        }
        Ok(None)
    }
}
