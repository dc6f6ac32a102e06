//! The arrays of a level.

use serde_json::Value;
use shardine_geometry::zarr_vectors::{AttributeDocument, DocumentError, Level, Scalar, Values};

use super::error::VectorsError;
use super::grid_array::GridArray;
use super::objects::ObjectTable;
use super::store::VectorStore;
use crate::Error;
use crate::zarr::{Child, Node};

/// A level, with the arrays that every query needs.
#[derive(Debug)]
pub(super) struct VectorLevel {
    pub(super) document: Level,
    /// The edges of a chunk.
    pub(super) chunk_shape: Vec<f64>,
    pub(super) vertices: GridArray,
    /// The type of a coordinate.
    pub(super) coordinate: Scalar,
    /// The fragments of each chunk; `None` if there is no such array.
    pub(super) fragments: Option<GridArray>,
    pub(super) attributes: Vec<VertexAttribute>,
    pub(super) objects: Option<ObjectTable>,
    pub(super) notes: Vec<String>,
}

/// An array with a row for each vertex.
#[derive(Debug)]
pub(super) struct VertexAttribute {
    pub(super) name: String,
    pub(super) array: GridArray,
    pub(super) document: AttributeDocument,
}

impl VectorLevel {
    pub(super) fn open(store: &VectorStore, level: u64) -> Result<Self, Error> {
        let document = store.level_document(level)?;
        if document.others.get("refinement").and_then(Value::as_str) == Some("add") {
            let tokens = vec![format!("additive_levels (level {level} adds to a coarser one)")];
            return Err(store.wrong(VectorsError::Unsupported { tokens }));
        }
        let rank = document.grid_rank(store.root.axes.len());
        let path = |name: &str| format!("{level}/{name}");
        let vertices = GridArray::open(store, &path("vertices"), rank)?;
        let missing = || store.wrong(VectorsError::Missing { node: path("vertices") });
        let vertices = vertices.ok_or_else(missing)?;
        let coordinate = read_coordinate(store, &vertices)?;
        let fragments = GridArray::open(store, &path("vertex_fragments"), rank)?;
        let objects = ObjectTable::open(store, &path("object_index"), rank)?;
        if fragments.is_none() && objects.is_some() {
            return Err(store.wrong(VectorsError::Missing { node: path("vertex_fragments") }));
        }
        let mut opened = Self {
            chunk_shape: document.chunk_shape.clone().unwrap_or(store.root.chunk_shape.clone()),
            document,
            vertices,
            coordinate,
            fragments,
            attributes: Vec::new(),
            objects,
            notes: Vec::new(),
        };
        opened.open_attributes(store, &path("vertex_attributes"), rank)?;
        Ok(opened)
    }

    fn open_attributes(
        &mut self,
        store: &VectorStore,
        path: &str,
        rank: usize,
    ) -> Result<(), Error> {
        for Child { name, node, .. } in named_children(store, path, "vertex")? {
            let path = format!("{path}/{name}");
            let array = GridArray::of_node(store, &path, node?, rank)?;
            let document = attribute_document(store, &array)?;
            self.attributes.push(VertexAttribute { name, array, document });
        }
        Ok(())
    }

    /// The level as a number of rows and bytes: how long a row of coordinates is.
    pub(super) fn row_size(&self, rank: usize) -> usize {
        rank * self.coordinate.size()
    }
}

pub(super) fn attribute_document(
    store: &VectorStore,
    array: &GridArray,
) -> Result<AttributeDocument, Error> {
    AttributeDocument::read(array.attributes())
        .map_err(|source| store.wrong(VectorsError::Document { node: array.path.clone(), source }))
}

/// The nodes in the group at `path`; none if there is no such group. Where the store cannot list,
/// those that the root declares for `scope`.
pub(super) fn named_children(
    store: &VectorStore,
    path: &str,
    scope: &str,
) -> Result<Vec<Child>, Error> {
    let location = store.location.join(path)?;
    let group = match Node::open(&store.engine, &location) {
        Ok(Node::Group(group)) => group,
        Ok(Node::Array(_)) => {
            let node = path.to_owned();
            return Err(store.wrong(VectorsError::Node { node, expected: "a group" }));
        }
        Err(Error::NoNode { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    match group.children() {
        Err(Error::UnlistedGroup { .. }) => {
            let declared = store.root.others.get("attribute_specs");
            let names = declared.and_then(|all| all.get(scope)?.as_object());
            let mut children = Vec::new();
            for name in names.into_iter().flat_map(|names| names.keys()) {
                match Node::open(&store.engine, &location.join(name)?) {
                    // A declaration does not promise that there is an array.
                    Err(Error::NoNode { .. }) => {}
                    node => children.push(Child { name: name.clone(), node, listed: false }),
                }
            }
            Ok(children)
        }
        children => children,
    }
}

fn read_coordinate(store: &VectorStore, vertices: &GridArray) -> Result<Scalar, Error> {
    let attributes = vertices.attributes();
    if attributes.get("encoding").and_then(Value::as_str) == Some("draco") {
        let tokens = vec!["vertices encoded by Draco".to_owned()];
        return Err(store.wrong(VectorsError::Unsupported { tokens }));
    }
    let name = attributes.get("dtype").and_then(Value::as_str).unwrap_or("float32");
    let scalar = Scalar::parse(name).filter(|scalar| *scalar != Scalar::Bool);
    scalar.ok_or_else(|| {
        let source = DocumentError::new("dtype", format!("{name:?} is no type of coordinates"));
        store.wrong(VectorsError::Document { node: vertices.path.clone(), source })
    })
}

/// How many values a row has, in an attribute whose document may not say so: as many as fit the
/// rows of its first chunk.
pub(super) fn find_width(
    document: &AttributeDocument,
    values: &GridArray,
    rows_of: &GridArray,
    row: usize,
) -> Result<usize, Error> {
    if let Some(width) = document.width {
        return Ok(width);
    }
    let first = values.stored(&mut Vec::new())?.into_iter().next();
    let Some(chunk) = first else { return Ok(1) };
    let cell = |array: &GridArray| -> Result<Vec<u8>, Error> {
        Ok(array.read([&chunk])?.get(0).unwrap_or_default().to_vec())
    };
    let rows = cell(rows_of)?;
    let rows = Values::new(&rows, row).map_err(|error| rows_of.damaged(&chunk, error))?.len();
    let bytes = cell(values)?.len();
    let width = bytes.checked_div(rows * document.scalar.size()).unwrap_or(0);
    if width == 0 || width * rows * document.scalar.size() != bytes {
        let reason = format!("{bytes} bytes are no rows for {rows} vertices");
        return Err(values.contradicts(&chunk, reason));
    }
    Ok(width)
}
