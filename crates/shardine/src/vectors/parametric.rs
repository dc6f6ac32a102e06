//! Shapes given by numbers.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field};
use serde_json::Value;
use shardine_geometry::{GeometryBatch, GeometryKind, GeometrySchema, Links};

use super::error::VectorsError;
use super::query::VectorQuery;
use super::store::VectorStore;
use crate::zarr::{ArrayNode, Node};
use crate::{Error, Region};

/// The group with the shapes.
pub(super) const GROUP: &str = "parametric";

/// The shapes of a store as rows: id, type, name, and the coefficients of its type.
#[derive(Debug)]
pub(super) struct Parametric {
    schema: GeometrySchema,
    batch: Option<GeometryBatch>,
}

/// How many shapes there are.
pub(super) fn count(store: &VectorStore) -> Result<u64, Error> {
    let at = store.location.join(GROUP)?.join("objects")?;
    let objects = ArrayNode::open(&store.engine, &at)?;
    Ok(objects.shape().first().copied().unwrap_or(0))
}

impl Parametric {
    pub(super) fn open(store: &VectorStore, query: &VectorQuery) -> Result<Self, Error> {
        if query.bounds.is_some() || query.groups.is_some() || !query.filters.is_empty() {
            let reason = "parametric objects can only be asked for by their ids".to_owned();
            return Err(store.wrong(VectorsError::Question(reason)));
        }
        let node = |name: &str| format!("{GROUP}/{name}");
        let wrong = |node: String, expected| store.wrong(VectorsError::Node { node, expected });
        let group = match Node::open(&store.engine, &store.location.join(GROUP)?) {
            Ok(Node::Group(group)) => group,
            Ok(Node::Array(_)) => return Err(wrong(GROUP.to_owned(), "a group")),
            Err(Error::NoNode { .. }) => {
                let reason = "the store has no parametric objects".to_owned();
                return Err(store.wrong(VectorsError::Question(reason)));
            }
            Err(error) => return Err(error),
        };
        let objects = ArrayNode::open(&store.engine, &store.location.join(&node("objects"))?)?;
        let &[rows, columns] = objects.shape() else {
            return Err(wrong(node("objects"), "float64 with two axes"));
        };
        let most = store.engine.memory_in_flight();
        if objects.decoded_len() > most {
            let needs = objects.decoded_len();
            return Err(store.wrong(VectorsError::TooLarge { needs, most }));
        }
        let numbers = objects.read::<f64>(..)?;
        let names = match ArrayNode::open(&store.engine, &store.location.join(&node("names"))?) {
            Ok(names) if names.shape() == [rows] => {
                Some(names.read_many_variable(&[Region::of_box(&[0], &[rows])])?)
            }
            Ok(_) => return Err(wrong(node("names"), "a name for each object")),
            Err(Error::NoNode { .. }) => None,
            Err(error) => return Err(error),
        };
        let types = group.metadata().attributes().get("parametric_types");
        let type_of = |number: f64| {
            let known = types.and_then(|types| types.get(format!("{number:.0}")));
            let name = known.and_then(|known| known.get("name")).and_then(Value::as_str);
            let count = known.and_then(|known| known.get("coefficients")?.as_array());
            (name.map_or_else(|| format!("{number:.0}"), str::to_owned), count.map(Vec::len))
        };
        let wanted = |row: &u64| {
            query.ids.as_ref().is_none_or(|ids| ids.iter().any(|id| u64::try_from(*id) == Ok(*row)))
        };
        if let Some(id) =
            query.ids.iter().flatten().find(|id| !u64::try_from(**id).is_ok_and(|id| id < rows))
        {
            return Err(store.wrong(VectorsError::NoSuch { what: "object", id: *id }));
        }
        let width = (columns as usize).max(1);
        let (mut ids, mut kinds, mut called) = (Vec::new(), Vec::new(), Vec::new());
        let mut coefficients = vec![Vec::new(); width - 1];
        for row in (0..rows).filter(wanted) {
            let own = numbers.get(row as usize * width..(row as usize + 1) * width);
            let own = own.unwrap_or_default();
            let (kind, count) = type_of(own.first().copied().unwrap_or(f64::NAN));
            ids.push(row as i64);
            kinds.push(kind);
            let name = names.as_ref().and_then(|names| names.get(row as usize));
            called.push(String::from_utf8_lossy(name.unwrap_or_default()).into_owned());
            for (at, column) in coefficients.iter_mut().enumerate() {
                let used = count.is_none_or(|count| at < count);
                column.push(own.get(at + 1).copied().filter(|_| used));
            }
        }
        let mut fields = vec![
            Field::new("type", DataType::Utf8, false),
            Field::new("name", DataType::Utf8, false),
        ];
        let numbered =
            (0..coefficients.len()).map(|at| Field::new(format!("c{at}"), DataType::Float64, true));
        fields.extend(numbered);
        let schema = GeometrySchema {
            kind: GeometryKind::Parametric,
            axes: Vec::new(),
            coordinate: DataType::Float64,
            objects: true,
            vertex_attributes: fields.into(),
            link_attributes: Vec::<Field>::new().into(),
        };
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids)),
            Arc::new(StringArray::from(kinds)),
            Arc::new(StringArray::from(called)),
        ];
        arrays.extend(
            coefficients.into_iter().map(|column| Arc::new(Float64Array::from(column)) as ArrayRef),
        );
        let vertices = RecordBatch::try_new(schema.vertex_columns(), arrays);
        let wrong =
            |error: arrow_schema::ArrowError| store.wrong(VectorsError::Geometry(error.into()));
        let vertices = vertices.map_err(wrong)?;
        let batch = GeometryBatch { first_row: 0, vertices, links: Links::default() };
        Ok(Self { schema, batch: Some(batch) })
    }

    pub(super) fn schema(&self) -> &GeometrySchema {
        &self.schema
    }

    pub(super) fn next(&mut self) -> Option<GeometryBatch> {
        self.batch.take().filter(|batch| batch.vertices.num_rows() > 0)
    }
}
