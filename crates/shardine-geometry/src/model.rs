//! Kinds, columns and batches.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use crate::GeometryError;

/// The name of the column with the id of the object that a vertex belongs to.
pub const OBJECT_ID: &str = "object_id";

/// The name of the column with the number of a group of objects.
pub const GROUP: &str = "group";

/// What the vertices of a set form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GeometryKind {
    /// Points that nothing joins.
    Points,
    /// Objects of two vertices each.
    Lines,
    /// Objects that are paths: the vertices in order.
    Polylines,
    /// Polylines that follow a field, such as a fibre tract.
    Streamlines,
    /// Objects that are trees: each vertex but the root has one parent.
    Skeletons,
    /// Vertices and edges between any two of them.
    Graph,
    /// Vertices and triangles.
    Mesh,
    /// Shapes given by numbers, without vertices.
    Parametric,
}

impl GeometryKind {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Points => "points",
            Self::Lines => "lines",
            Self::Polylines => "polylines",
            Self::Streamlines => "streamlines",
            Self::Skeletons => "skeleton",
            Self::Graph => "graph",
            Self::Mesh => "mesh",
            Self::Parametric => "parametric",
        }
    }

    /// How many vertices one of its links joins; 0 if it has none.
    ///
    /// Links of paths follow from the order of their vertices and are not listed.
    pub fn link_width(self) -> usize {
        match self {
            Self::Points | Self::Lines | Self::Polylines | Self::Streamlines | Self::Parametric => {
                0
            }
            Self::Skeletons | Self::Graph => 2,
            Self::Mesh => 3,
        }
    }

    /// Whether each of its vertices belongs to an object by its nature.
    pub fn has_objects(self) -> bool {
        !matches!(self, Self::Points | Self::Graph | Self::Mesh | Self::Parametric)
    }
}

/// An axis of space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// Its name, which is that of the column with the coordinates.
    pub name: String,
    /// The unit of the coordinates, if it is known: `micrometer`.
    pub unit: Option<String>,
}

/// The columns of a set of geometry.
#[derive(Debug, Clone, PartialEq)]
pub struct GeometrySchema {
    /// What the vertices form.
    pub kind: GeometryKind,
    /// The axes, in the order of coordinates.
    pub axes: Vec<Axis>,
    /// The type of a coordinate: a float or an integer type.
    pub coordinate: DataType,
    /// Whether vertices have the column [`OBJECT_ID`].
    pub objects: bool,
    /// The attributes of vertices: numbers, Booleans, strings by dictionary, and lists of fixed
    /// size of numbers.
    pub vertex_attributes: Fields,
    /// The attributes of links.
    pub link_attributes: Fields,
}

impl GeometrySchema {
    /// The columns of vertices: the axes, then [`OBJECT_ID`] if there are objects, then attributes.
    pub fn vertex_columns(&self) -> SchemaRef {
        let axes = self
            .axes
            .iter()
            .map(|axis| Arc::new(Field::new(&axis.name, self.coordinate.clone(), false)));
        let id = self.objects.then(|| Arc::new(Field::new(OBJECT_ID, DataType::Int64, false)));
        let attributes = self.vertex_attributes.iter().cloned();
        Arc::new(Schema::new(axes.chain(id).chain(attributes).collect::<Vec<_>>()))
    }
}

/// Links between vertices: edges, or faces.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Links {
    /// How many vertices each link joins.
    pub width: usize,
    /// The numbers of the joined vertices, link after link, as rows of the whole set.
    pub rows: Vec<u64>,
    /// One row for each link; `None` if links have no attributes.
    pub attributes: Option<RecordBatch>,
}

impl Links {
    /// How many links there are.
    pub fn len(&self) -> usize {
        self.rows.len().checked_div(self.width).unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Some of the vertices of a set, and links.
#[derive(Debug, Clone, PartialEq)]
pub struct GeometryBatch {
    /// The number of the first vertex of this batch among those of all batches.
    pub first_row: u64,
    /// The vertices, with the columns of [`GeometrySchema::vertex_columns`]. Rows come in any
    /// order, but those of a path in the order of the path. What a query gives is sorted by object,
    /// except for points.
    pub vertices: RecordBatch,
    /// Links whose last vertex is in this batch or an earlier one.
    pub links: Links,
}

/// Gives the batches of a set, one after the other.
pub trait GeometrySource {
    /// The columns of every batch.
    fn schema(&self) -> &GeometrySchema;

    /// The next batch; `None` after the last.
    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError>;

    /// The attributes of vertices that are attributes of their objects, with the same value in each
    /// row of an object.
    fn object_columns(&self) -> &[String] {
        &[]
    }

    /// The smallest and the largest coordinates of all vertices; `None` if they cannot be found
    /// without using batches up. To be asked for before the first batch. Costs a read of all rows.
    fn bounds(&mut self) -> Result<Option<[Vec<f64>; 2]>, GeometryError> {
        Ok(None)
    }
}

impl<S: GeometrySource + ?Sized> GeometrySource for Box<S> {
    fn schema(&self) -> &GeometrySchema {
        (**self).schema()
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        (**self).next_batch()
    }

    fn object_columns(&self) -> &[String] {
        (**self).object_columns()
    }

    fn bounds(&mut self) -> Result<Option<[Vec<f64>; 2]>, GeometryError> {
        (**self).bounds()
    }
}

/// Gives the rows of a table, some at a time.
///
/// The first columns name something, such as [`OBJECT_ID`], and are 64-bit integers without gaps.
/// The others are what attributes are: numbers, Booleans, strings by dictionary, and lists of fixed
/// size of numbers.
pub trait TableSource {
    /// The columns of every batch.
    fn columns(&self) -> &SchemaRef;

    /// The next rows; `None` after the last.
    fn next_rows(&mut self) -> Result<Option<RecordBatch>, GeometryError>;
}

impl<S: TableSource + ?Sized> TableSource for Box<S> {
    fn columns(&self) -> &SchemaRef {
        (**self).columns()
    }

    fn next_rows(&mut self) -> Result<Option<RecordBatch>, GeometryError> {
        (**self).next_rows()
    }
}

/// Takes the batches of a set, one after the other.
pub trait GeometrySink {
    /// Takes the next batch.
    fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError>;

    /// Completes the output. Nothing of it counts before.
    fn finish(self: Box<Self>) -> Result<(), GeometryError>;
}
