//! The arrays of a level.

use std::sync::OnceLock;

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use serde_json::{Map, Value};
use shardine_geometry::GeometryError;
use shardine_geometry::zarr_vectors::{
    AttributeDocument, ChunkCoords, Column, DocumentError, Level, READS_DRACO, Scalar, StoredType,
    Values,
};

use super::error::VectorsError;
use super::grid_array::GridArray;
use super::objects::ObjectTable;
use super::probe;
use super::store::VectorStore;
use super::told::Told;
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
    /// Whether the vertices of a chunk are a Draco stream.
    pub(super) draco: bool,
    /// How it is stored.
    pub(super) stored: StoredType,
    /// The fragments of each chunk; `None` if there is no such array.
    pub(super) fragments: Option<GridArray>,
    /// The fragments of the links within each chunk, in a store with links.
    pub(super) link_fragments: Option<GridArray>,
    pub(super) attributes: Vec<VertexAttribute>,
    pub(super) objects: Option<ObjectTable>,
    /// What is left out of it, and why.
    pub(super) notes: Vec<String>,
    /// What shows that lists of chunks in this level are wrong, once something does.
    doubt: OnceLock<String>,
}

/// An array with a row for each vertex.
#[derive(Debug)]
pub(super) struct VertexAttribute {
    pub(super) name: String,
    pub(super) array: GridArray,
    pub(super) values: ValueType,
}

/// What the values of an attribute are, and how they are stored.
#[derive(Debug, Clone)]
pub(crate) struct ValueType {
    pub(crate) document: AttributeDocument,
    pub(crate) stored: StoredType,
}

impl ValueType {
    /// Reads the attributes of an array; `None` if its values cannot be read.
    pub(crate) fn read(attributes: &Map<String, Value>) -> Result<Option<Self>, DocumentError> {
        let mut attributes = attributes.clone();
        let stored = match attributes.get("dtype").and_then(Value::as_str).map(StoredType::parse) {
            Some(Some(stored)) => {
                attributes.insert("dtype".to_owned(), stored.scalar.name().into());
                stored
            }
            Some(None) => return Ok(None),
            None => StoredType::of(Scalar::Float32),
        };
        let mut document = AttributeDocument::read(&attributes)?;
        document.width = document.width.and_then(|width| width.checked_mul(stored.unit));
        if stored.is_text() && document.width.is_none() {
            document.width = Some(stored.unit);
        }
        if document.width.is_some_and(|width| stored.is_text() && width != stored.unit) {
            return Ok(None);
        }
        Ok(Some(Self { document, stored }))
    }

    /// The type of the column that rows of `width` numbers form.
    pub(super) fn column_type(&self, width: usize) -> DataType {
        match self.stored.is_text() {
            true => DataType::Utf8,
            false => self.document.column_type(width),
        }
    }

    /// Takes the rows of a column out.
    pub(super) fn finish(
        &self,
        column: &mut Column,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, GeometryError> {
        match self.stored.is_text() {
            true => self.stored.finish_text(column, nulls),
            false => column.finish_with(self.document.categories.as_ref(), nulls),
        }
    }
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
        let encoding = vertices.attributes().get("encoding").and_then(Value::as_str);
        // What has other than three axes is stored as it is, whatever the document says.
        let draco = encoding == Some("draco") && store.root.axes.len() == 3;
        if draco && !READS_DRACO {
            let tokens = vec!["vertices encoded by Draco (a build with the feature)".to_owned()];
            return Err(store.wrong(VectorsError::Unsupported { tokens }));
        }
        let coordinate = match draco {
            true => StoredType::of(Scalar::Float32),
            false => read_coordinate(store, &vertices)?,
        };
        let link_fragments = match store.kind.link_width() {
            0 => None,
            _ => GridArray::open(store, &path("link_fragments"), rank)?,
        };
        let fragments = GridArray::open(store, &path("vertex_fragments"), rank)?;
        let objects = ObjectTable::open(store, &path("object_index"), rank)?;
        if fragments.is_none() && objects.is_some() {
            return Err(store.wrong(VectorsError::Missing { node: path("vertex_fragments") }));
        }
        let mut opened = Self {
            chunk_shape: document.chunk_shape.clone().unwrap_or(store.root.chunk_shape.clone()),
            document,
            vertices,
            coordinate: coordinate.scalar,
            stored: coordinate,
            draco,
            fragments,
            link_fragments,
            attributes: Vec::new(),
            objects,
            notes: Vec::new(),
            doubt: OnceLock::new(),
        };
        opened.open_attributes(store, &path("vertex_attributes"), rank)?;
        opened.compare_lists();
        Ok(opened)
    }

    /// Every chunk has a cell in each of these arrays, so lists that differ are wrong.
    fn compare_lists(&self) {
        let Some(own) = self.vertices.list() else { return };
        if own.is_empty() && self.document.vertices > 0 {
            let (array, count) = (&self.vertices.path, self.document.vertices);
            self.doubt(format!("{array} lists no chunk for {count} vertices"));
        }
        let attributes = self.attributes.iter().map(|one| &one.array);
        for other in self.fragments.iter().chain(attributes) {
            if let Some(list) = other.list().filter(|list| *list != own) {
                let differ = |a: &[ChunkCoords], b: &[ChunkCoords]| {
                    a.iter().filter(|chunk| b.binary_search(chunk).is_err()).count()
                };
                self.doubt(format!(
                    "{} lists {} chunks that {} does not, and the other way round {}",
                    self.vertices.path,
                    differ(own, list),
                    other.path,
                    differ(list, own),
                ));
            }
        }
    }

    /// From now on, chunks of this level are found without lists.
    pub(super) fn doubt(&self, why: String) {
        let _ = self.doubt.set(why);
    }

    /// Whether lists of chunks are known to be wrong, which `told` then says.
    pub(super) fn doubts(&self, told: &mut Told) -> Result<bool, Error> {
        let Some(why) = self.doubt.get() else { return Ok(false) };
        told.contradiction(format!(
            "lists of chunks (nonempty_chunks) are wrong: {why}; chunks were found by the indexes \
             of shards or a listing"
        ))?;
        Ok(true)
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
            if self.draco {
                let why = "Draco keeps no order of vertices that its rows could be matched with";
                self.notes.push(format!("{path} is left out: {why}"));
                continue;
            }
            match value_type(store, &array)? {
                Some(values) => self.attributes.push(VertexAttribute { name, array, values }),
                None => self.notes.push(left_out(&array)),
            }
        }
        Ok(())
    }

    /// How many bytes a position has.
    pub(super) fn row_size(&self, rank: usize) -> usize {
        rank * self.coordinate.size()
    }
}

/// What the values of an attribute are; `None` if they cannot be read.
pub(super) fn value_type(
    store: &VectorStore,
    array: &GridArray,
) -> Result<Option<ValueType>, Error> {
    ValueType::read(array.attributes())
        .map_err(|source| store.wrong(VectorsError::Document { node: array.path.clone(), source }))
}

/// Says that an attribute is left out.
pub(super) fn left_out(array: &GridArray) -> String {
    let dtype = array.attributes().get("dtype").and_then(Value::as_str).unwrap_or_default();
    format!("{} is left out: values of type {dtype:?} cannot be read", array.path)
}

/// The nodes in the group at `path`; none if there is no such group. Where the store cannot list,
/// those that consolidated metadata of the root names, or else that the root declares for `scope`.
pub(super) fn named_children(
    store: &VectorStore,
    path: &str,
    scope: &str,
) -> Result<Vec<Child>, Error> {
    let group = match store.node(path) {
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
            let declared = declared.and_then(|all| all.get(scope)?.as_object());
            let declared = || declared.into_iter().flat_map(|names| names.keys().cloned());
            let names = store.known_below(path).unwrap_or_else(|| declared().collect());
            // A declaration does not promise that there is an array.
            probe::named(store, path, names)
        }
        children => children,
    }
}

fn read_coordinate(store: &VectorStore, vertices: &GridArray) -> Result<StoredType, Error> {
    let attributes = vertices.attributes();
    let name = attributes.get("dtype").and_then(Value::as_str).unwrap_or("float32");
    let stored = StoredType::parse(name)
        .filter(|stored| stored.scalar != Scalar::Bool && stored.unit == 1 && !stored.is_text());
    stored.ok_or_else(|| {
        let source = DocumentError::new("dtype", format!("{name:?} is no type of coordinates"));
        store.wrong(VectorsError::Document { node: vertices.path.clone(), source })
    })
}

/// How many numbers a row has, in an attribute whose document may not say so: as many as fit the
/// rows of the first chunk that has any.
pub(super) fn find_width(
    store: &VectorStore,
    level: &VectorLevel,
    attribute: &VertexAttribute,
    row: usize,
) -> Result<usize, Error> {
    let (document, values) = (&attribute.values.document, &attribute.array);
    if let Some(width) = document.width {
        return Ok(width);
    }
    let mut told = Told::new(&store.location, false);
    let doubt = level.doubts(&mut told)?;
    for chunk in values.stored(doubt, &mut told)?.chunks {
        let cell = |array: &GridArray| -> Result<Vec<u8>, Error> {
            Ok(array.read([&chunk])?.get(0).unwrap_or_default().to_vec())
        };
        let (rows, bytes) = (cell(&level.vertices)?, cell(values)?.len());
        let rows = Values::new(&rows, row);
        let rows = rows.map_err(|error| level.vertices.damaged(&chunk, error))?.len();
        if rows == 0 && bytes == 0 {
            continue;
        }
        let size = document.scalar.size();
        let width = bytes.checked_div(rows * size).unwrap_or(0);
        if width == 0 || width * rows * size != bytes {
            let reason = format!("{bytes} bytes are no rows for {rows} vertices");
            return Err(values.contradicts(&chunk, reason));
        }
        return Ok(width);
    }
    Ok(attribute.values.stored.unit)
}
