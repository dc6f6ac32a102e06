//! How a file is read.

use arrow_schema::DataType;

use crate::{Axis, GeometryKind};

/// How a file is read: what its rows form, and in pieces of what size.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// What the rows form.
    pub kind: GeometryKind,
    /// The axes, whose names are those of columns. None are listed: x, then y and z as far as the
    /// file has them.
    pub axes: Vec<Axis>,
    /// The type of coordinates. `None`: the one in the file; 64-bit floats if it is text, or if the
    /// axes differ.
    pub coordinate: Option<DataType>,
    /// The most vertices, and the most links, of a batch.
    pub batch_rows: usize,
    /// The objects of a `.swc` file with several trees.
    pub swc_objects: SwcObjects,
}

/// The objects of a `.swc` file, which has no ids of objects itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwcObjects {
    /// A tree is an object. They are numbered from this number on, in the order of their roots.
    PerTree(i64),
    /// All trees are one object with this id.
    One(i64),
}

impl ReadOptions {
    /// Axes and types as the file has them, in batches of 65,536 rows.
    pub fn new(kind: GeometryKind) -> Self {
        Self {
            kind,
            axes: Vec::new(),
            coordinate: None,
            batch_rows: 1 << 16,
            swc_objects: SwcObjects::PerTree(0),
        }
    }

    /// The same with these axes.
    pub fn axes(self, axes: Vec<Axis>) -> Self {
        Self { axes, ..self }
    }

    /// The same with this type of coordinates.
    pub fn coordinate(self, coordinate: DataType) -> Self {
        Self { coordinate: Some(coordinate), ..self }
    }

    /// The same with batches of so many rows; of one, if this is 0.
    pub fn batch_rows(self, batch_rows: usize) -> Self {
        Self { batch_rows, ..self }
    }

    /// The same with these objects for the trees of a `.swc` file.
    pub fn swc_objects(self, swc_objects: SwcObjects) -> Self {
        Self { swc_objects, ..self }
    }

    /// The rows of a batch: at least one, or nothing would ever be read.
    pub(super) fn rows(&self) -> usize {
        self.batch_rows.max(1)
    }

    /// The axes that were given, or `count` with the usual names.
    pub(super) fn axes_or_usual(&self, count: usize) -> Vec<Axis> {
        if !self.axes.is_empty() {
            return self.axes.clone();
        }
        (0..count).map(|axis| Axis { name: usual_name(axis), unit: None }).collect()
    }
}

/// x, y and z; t for time; then numbers.
pub(super) fn usual_name(axis: usize) -> String {
    match ["x", "y", "z", "t"].get(axis) {
        Some(name) => (*name).to_owned(),
        None => format!("axis_{axis}"),
    }
}
