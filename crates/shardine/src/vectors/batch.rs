//! Batches of rows in the making.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field};
use shardine_geometry::zarr_vectors::{Column, Scalar};
use shardine_geometry::{Axis, GeometryBatch, GeometryError, GeometrySchema, Links, OBJECT_ID};

use super::attributes::{BinColumn, ObjectColumn};
use super::cells::{CellView, Wanted};
use super::level::{ValueType, VectorLevel};
use super::store::VectorStore;

/// How many rows a batch has, about.
pub(super) const BATCH_ROWS: usize = 1 << 16;

/// Collects rows of cells, and makes batches of them.
#[derive(Debug)]
pub(super) struct Batches {
    pub(super) schema: GeometrySchema,
    coordinate: Scalar,
    /// What has to be added to coordinates.
    offset: Option<Vec<f64>>,
    axes: Vec<Column>,
    ids: Option<Column>,
    attributes: Vec<Column>,
    bin: Option<BinColumn>,
    objects: Vec<ObjectColumn>,
    rows: usize,
    /// How many rows were in batches before.
    pub(super) done: u64,
    kinds: Vec<ValueType>,
}

impl Batches {
    pub(super) fn new(
        store: &VectorStore,
        level: &VectorLevel,
        wanted: &Wanted,
        bin: Option<BinColumn>,
        objects: Vec<ObjectColumn>,
        link_attributes: Vec<Field>,
    ) -> Self {
        let offset = store.root.coordinate_offset.clone();
        let offset = offset.filter(|offset| offset.iter().any(|add| *add != 0.0));
        let with_ids = level.objects.is_some();
        let mut fields: Vec<Field> = Vec::new();
        let names = store.root.axes.iter().map(|axis| axis.name.clone());
        let mut taken: Vec<String> = names.chain(with_ids.then(|| OBJECT_ID.to_owned())).collect();
        let mut add = |name: &str, prefix: &str, column: DataType, nulls: bool| {
            let mut name = name.to_owned();
            while taken.contains(&name) {
                name = format!("{prefix}_{name}");
            }
            taken.push(name.clone());
            fields.push(Field::new(name, column, nulls));
        };
        for (attribute, width) in level.attributes.iter().zip(&wanted.widths) {
            let kind = &attribute.values;
            let nulls = kind.document.categories.as_ref().is_some_and(|all| all.missing.is_some());
            add(&attribute.name, "vertex", kind.column_type(*width), nulls);
        }
        if let Some(bin) = &bin {
            add(bin.name(), "chunk", bin.column_type(), false);
        }
        for column in &objects {
            add(column.name(), "object", column.column_type(), true);
        }
        let axis = |axis: &shardine_geometry::zarr_vectors::SpaceAxis| Axis {
            name: axis.name.clone(),
            unit: axis.unit.clone(),
        };
        let column = match level.coordinate {
            Scalar::Float32 => Scalar::Float32,
            _ if offset.is_some() => Scalar::Float64,
            own => own,
        };
        let schema = GeometrySchema {
            kind: store.kind,
            axes: store.root.axes.iter().map(axis).collect(),
            coordinate: column.arrow(),
            objects: with_ids,
            vertex_attributes: fields.into(),
            link_attributes: link_attributes.into(),
        };
        let columns = level.attributes.iter().zip(&wanted.widths);
        Self {
            coordinate: level.coordinate,
            axes: schema.axes.iter().map(|_| Column::new(column, 1)).collect(),
            ids: with_ids.then(|| Column::new(Scalar::Int64, 1)),
            attributes: columns
                .map(|(attribute, width)| Column::new(attribute.values.stored.scalar, *width))
                .collect(),
            kinds: level.attributes.iter().map(|one| one.values.clone()).collect(),
            schema,
            offset,
            bin,
            objects,
            rows: 0,
            done: 0,
        }
    }

    /// The number that the next row will have among all.
    pub(super) fn next_row(&self) -> u64 {
        self.done + self.rows as u64
    }

    /// Whether there are enough rows for a batch.
    pub(super) fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS
    }

    /// Whether there are no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds `count` rows of a chunk from `start` on, of the object with this row and id.
    pub(super) fn push(
        &mut self,
        cell: &CellView<'_>,
        start: usize,
        count: usize,
        object: Option<(u64, i64)>,
    ) {
        let positions = cell.vertices.rows(start, count);
        let (size, rank) = (self.coordinate.size(), self.axes.len());
        for (axis, column) in self.axes.iter_mut().enumerate() {
            match &self.offset {
                None => column.push_strided(positions, size * rank, size * axis),
                Some(offset) => {
                    let add = offset.get(axis).copied().unwrap_or(0.0);
                    for row in positions.chunks_exact(size * rank) {
                        let value = row.get(size * axis..size * (axis + 1)).unwrap_or_default();
                        let value = self.coordinate.number(value);
                        // As zarr-vectors does, 32 bits are added to in 32 bits.
                        match self.coordinate {
                            Scalar::Float32 => {
                                column.push(&(value as f32 + add as f32).to_le_bytes());
                            }
                            _ => column.push(&(value + add).to_le_bytes()),
                        }
                    }
                }
            }
        }
        for (values, column) in cell.attributes.iter().zip(&mut self.attributes) {
            column.push(values.rows(start, count));
        }
        if let Some(ids) = &mut self.ids {
            let id = object.map_or(-1, |(_, id)| id).to_le_bytes();
            (0..count).for_each(|_| ids.push(&id));
        }
        if let Some(bin) = &mut self.bin {
            bin.push(cell.chunk.first().copied().unwrap_or(0), count);
        }
        for column in &mut self.objects {
            column.push(object.map(|(row, _)| row), count);
        }
        self.rows += count;
    }

    /// Takes the rows so far out as a batch.
    pub(super) fn take(&mut self, links: Links) -> Result<GeometryBatch, GeometryError> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        for axis in &mut self.axes {
            columns.push(axis.finish(None)?);
        }
        if let Some(ids) = &mut self.ids {
            columns.push(ids.finish(None)?);
        }
        for (column, kind) in self.attributes.iter_mut().zip(&self.kinds) {
            columns.push(kind.finish(column, None)?);
        }
        if let Some(bin) = &mut self.bin {
            columns.push(bin.finish()?);
        }
        for column in &mut self.objects {
            columns.push(column.finish()?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let columns_of = self.schema.vertex_columns();
        let vertices = RecordBatch::try_new_with_options(columns_of, columns, &options)?;
        let first_row = self.done;
        self.done += self.rows as u64;
        self.rows = 0;
        Ok(GeometryBatch { first_row, vertices, links })
    }

    /// A batch of links alone.
    pub(super) fn only_links(&self, links: Links) -> GeometryBatch {
        let vertices = RecordBatch::new_empty(Arc::clone(&self.schema.vertex_columns()));
        GeometryBatch { first_row: self.done, vertices, links }
    }
}
