//! Geometry in stores of Zarr Vectors. The functions that users call are in `shardine/vectors.py`.

mod columns;
mod rows;
mod table;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use shardine::jobs::{ObjectTables, WriteVectorsOptions, write_vectors_with};
use shardine::vectors::{
    AttributeFilter, Axis, GeometryKind, GeometrySource, Links, VectorQuery, VectorStore,
};
use shardine_geometry::files::{BatchReader, BatchTable, ReadOptions, WithLinks};
use shardine_geometry::zarr_vectors::Scalar;
use shardine_geometry::{GROUP, GeometryError, OBJECT_ID, TableSource};

use crate::error;
use crate::jobs::{Options, run_with_progress, to_python};
use crate::run;

pub use rows::Rows;

/// What rows form, by name.
const KINDS: [(&str, GeometryKind); 7] = [
    ("points", GeometryKind::Points),
    ("lines", GeometryKind::Lines),
    ("polylines", GeometryKind::Polylines),
    ("streamlines", GeometryKind::Streamlines),
    ("graph", GeometryKind::Graph),
    ("skeleton", GeometryKind::Skeletons),
    ("mesh", GeometryKind::Mesh),
];

/// Writes a table of vertices as a new store.
#[pyfunction]
#[pyo3(name = "write_vectors", signature = (options, progress=None))]
pub fn write(
    py: Python<'_>,
    options: Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let options = Options::new(options);
    let target = options.location("url", "target_options")?;
    let kind = options.word("kind", &KINDS)?;
    let kind = kind.ok_or_else(|| options.wrong("kind", "is needed"))?;
    let mut reading = ReadOptions::new(kind);
    if let Some(names) = options.get::<Vec<String>>("axes")? {
        let axis = |name: String| Axis { name, unit: None };
        reading = reading.axes(names.into_iter().map(axis).collect());
    }
    if let Some(name) = options.get::<String>("dtype")? {
        let scalar = Scalar::parse(&name)
            .ok_or_else(|| options.wrong("dtype", "is not a type of coordinates"))?;
        reading = reading.coordinate(scalar.arrow());
    }
    let wrong = |error: GeometryError| error::request(py, &error.to_string(), None);
    let table = options.value("table")?;
    let table = table.ok_or_else(|| options.wrong("table", "is needed"))?;
    let (columns, batches) = table::batches(&table)?;
    let vertices = BatchReader::new(&columns, batches, &reading).map_err(wrong)?;
    let mut source: Box<dyn GeometrySource + Send> = match links(&options, kind)? {
        Some(links) => Box::new(WithLinks::new(vertices, links).map_err(wrong)?),
        None => Box::new(vertices),
    };
    let keyed = |name: &str, keys: &[&str]| -> PyResult<Option<Box<dyn TableSource + Send>>> {
        let Some(table) = options.value(name)? else { return Ok(None) };
        let (columns, batches) = table::batches(&table)?;
        let table = BatchTable::new(&columns, batches, keys);
        let named = |error| options.wrong(name, error);
        Ok(Some(Box::new(table.map_err(named)?)))
    };
    let mut attributes = keyed("object_attributes", &[OBJECT_ID])?;
    let mut groups = keyed("groups", &[GROUP, OBJECT_ID])?;
    let rank = source.schema().axes.len();
    let lengths = |name: &str| -> PyResult<Option<Vec<f64>>> {
        let Some(lengths) = options.numbers::<f64>(name)? else { return Ok(None) };
        if lengths.iter().any(|length| !length.is_finite() || *length <= 0.0) {
            return Err(options.wrong(name, "needs lengths above 0"));
        }
        Ok(Some(match &lengths[..] {
            [all] => vec![*all; rank],
            _ => lengths,
        }))
    };
    let chunk = lengths("chunk_shape")?;
    let chunk = chunk.ok_or_else(|| options.wrong("chunk_shape", "is needed"))?;
    let mut asked = WriteVectorsOptions::new(&chunk);
    asked.bin = lengths("bin_shape")?;
    asked.shard = options.numbers("shard_shape")?;
    asked.codec = options.codecs()?;
    asked.spool = options.get("spool")?;
    asked.overwrite = options.flag("overwrite")?;
    asked.take_over = options.flag("take_over")?;
    asked.memory = options.size("memory")?.unwrap_or(asked.memory);
    let engine = options.engine(py)?;
    let done = run_with_progress(py, &engine, progress.as_ref(), |context| {
        let mut tables = ObjectTables::default();
        if let Some(attributes) = &mut attributes {
            tables = tables.attributes(attributes);
        }
        if let Some(groups) = &mut groups {
            tables = tables.groups(groups);
        }
        write_vectors_with(context, &mut *source, tables, &[], &target, &asked)
    })?;
    run::long(py, |_| {
        shardine::zarr::renew_consolidated_above(&target);
        Ok(())
    })?;
    to_python(py, &Value::Object(done.to_json())).map(Bound::unbind)
}

/// The links that are given, of a kind that has links.
fn links(options: &Options<'_>, kind: GeometryKind) -> PyResult<Option<Links>> {
    let Some(rows) = options.value("links")? else { return Ok(None) };
    let rows = columns::whole_numbers(&rows)?;
    let attributes = match options.value("link_attributes")? {
        None => None,
        Some(table) => Some(table::whole(&table)?),
    };
    Ok(Some(Links { width: kind.link_width(), rows, attributes }))
}

/// What a store contains.
#[pyfunction]
#[pyo3(name = "vectors_info")]
pub fn info(py: Python<'_>, options: Bound<'_, PyDict>) -> PyResult<Py<PyAny>> {
    let options = Options::new(options);
    let (location, engine) = (options.location("url", "source_options")?, options.engine(py)?);
    let info = run::long(py, |_| VectorStore::open_in(&engine, &location)?.info())?;
    to_python(py, &info.to_json()).map(Bound::unbind)
}

/// The rows that answer a query.
#[pyfunction]
#[pyo3(name = "query_vectors")]
pub fn query(py: Python<'_>, options: Bound<'_, PyDict>) -> PyResult<Rows> {
    let options = Options::new(options);
    let (location, engine) = (options.location("url", "source_options")?, options.engine(py)?);
    let mut query = VectorQuery::new()
        .level(options.get("level")?.unwrap_or(0))
        .clip(options.flag("clip")?)
        .parametric(options.flag("parametric")?)
        .strict(options.flag("strict")?);
    if let Some((low, high)) = options.get::<(Vec<f64>, Vec<f64>)>("bbox")? {
        if low.iter().zip(&high).any(|(low, high)| low.is_nan() || high.is_nan() || low > high) {
            return Err(options.wrong("bbox", "must be the smallest and the largest corner"));
        }
        query = query.bounds(low, high);
    }
    query.ids = options.get("object_ids")?;
    query.groups = options.get("group_ids")?;
    for text in options.get::<Vec<String>>("where")?.unwrap_or_default() {
        let filter: AttributeFilter =
            text.parse().map_err(|error| options.wrong("where", error))?;
        query = query.filter(filter);
    }
    run::long(py, |token| {
        let store = VectorStore::open_in(&engine, &location)?;
        let mut rows = store.query(&query)?;
        let schema = rows.schema().clone();
        let mut batches = Vec::new();
        while let Some(batch) = rows.read_batch()? {
            if token.is_cancelled() {
                return Err(shardine::Error::Cancelled);
            }
            batches.push(batch);
        }
        Ok(Rows::new(schema, batches, rows.notes().to_vec()))
    })
}
