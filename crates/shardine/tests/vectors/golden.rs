//! The stores in tests/golden, and rows in a form that is easy to compare.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type};
use arrow_array::{Array as _, RecordBatch};
use arrow_schema::DataType;
use serde_json::{Map, Value};
use shardine::store::{Condition, Key, MemoryStore, Store, StoreExt};
use shardine::vectors::{GeometrySource, VectorQuery, VectorStore};
use shardine::{Engine, EngineOptions, Location};

/// A store that zarr-vectors wrote, and what was given to it.
pub struct Golden {
    pub files: Map<String, Value>,
    pub given: Value,
}

pub fn golden(name: &str) -> Golden {
    let path =
        format!("{}/../../tests/golden/zarr-vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut all: Value = serde_json::from_str(&text).unwrap();
    let Value::Object(files) = all["store"].take() else { panic!("no files") };
    Golden { files, given: all["given"].take() }
}

pub fn bytes_of(content: &Value) -> Vec<u8> {
    let Value::String(hex) = content else { return content.to_string().into_bytes() };
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    (0..hex.len() / 2).map(byte).collect()
}

impl Golden {
    pub fn put_into(&self, store: &dyn Store) {
        for (key, content) in &self.files {
            store.put(&Key::new(key).unwrap(), &bytes_of(content), Condition::None).unwrap();
        }
    }

    /// Its files in memory.
    pub fn location(&self) -> Location {
        let store = MemoryStore::new();
        self.put_into(&store);
        Location::root(Arc::new(store))
    }

    pub fn open(&self) -> VectorStore {
        VectorStore::open_in(&engine(), self.location()).unwrap()
    }

    pub fn positions(&self) -> Vec<Vec<f64>> {
        serde_json::from_value(self.given["positions"].clone()).unwrap()
    }

    pub fn ids(&self) -> Vec<i64> {
        serde_json::from_value(self.given["ids"].clone()).unwrap()
    }
}

pub fn engine() -> Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    let engine = || Engine::new(&EngineOptions::default().threads(2)).unwrap();
    Arc::clone(ENGINE.get_or_init(engine))
}

/// A vertex.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub struct Row {
    pub position: Vec<f64>,
    pub id: Option<i64>,
    pub values: BTreeMap<String, Vec<f64>>,
    pub words: BTreeMap<String, Option<String>>,
}

/// The attributes of a link.
pub type LinkValues = BTreeMap<String, Vec<f64>>;

/// The answer to a query.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Answer {
    pub rows: Vec<Row>,
    /// Each with its attributes.
    pub links: Vec<(Vec<usize>, LinkValues)>,
    pub notes: Vec<String>,
}

impl Answer {
    pub fn positions(&self) -> Vec<Vec<f64>> {
        self.rows.iter().map(|row| row.position.clone()).collect()
    }

    pub fn sorted_positions(&self) -> Vec<Vec<f64>> {
        sorted(self.positions())
    }

    /// The links as lists of positions, in a fixed order.
    pub fn linked_positions(&self) -> Vec<Vec<Vec<f64>>> {
        let link = |(rows, _): &(Vec<usize>, _)| {
            rows.iter().map(|row| self.rows[*row].position.clone()).collect()
        };
        sorted(self.links.iter().map(link).collect())
    }
}

pub fn sorted<T: PartialOrd>(mut rows: Vec<T>) -> Vec<T> {
    rows.sort_by(|a, b| a.partial_cmp(b).unwrap());
    rows
}

pub fn ask(store: &VectorStore, query: &VectorQuery) -> Result<Answer, shardine::Error> {
    let mut answer = Answer::default();
    let mut rows = store.query(query)?;
    // Parametric objects have no positions.
    let rank = rows.schema().axes.len();
    while let Some(batch) = rows.read_batch()? {
        assert_eq!(batch.first_row, answer.rows.len() as u64);
        answer.rows.extend(rows_of(&batch.vertices, rank));
        let attributes = batch.links.attributes.as_ref();
        let columns = attributes.map(|batch| columns_of(batch, 0)).unwrap_or_default();
        for (at, link) in batch.links.rows.chunks_exact(batch.links.width.max(1)).enumerate() {
            let values = columns.iter().map(|(name, column)| (name.clone(), column[at].clone()));
            let link = link.iter().map(|row| *row as usize).collect();
            answer.links.push((link, values.collect()));
        }
    }
    answer.notes = rows.notes().to_vec();
    Ok(answer)
}

type Columns = BTreeMap<String, Vec<Vec<f64>>>;

fn columns_of(batch: &RecordBatch, skip: usize) -> Columns {
    let mut columns = Columns::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()).skip(skip) {
        let (values, width) = match column.data_type() {
            DataType::FixedSizeList(_, width) => {
                (column.as_fixed_size_list().values().clone(), *width as usize)
            }
            DataType::Dictionary(..) | DataType::Utf8 => continue,
            _ => (column.clone(), 1),
        };
        let numbers: Vec<f64> = match values.data_type() {
            DataType::Float32 => values
                .as_primitive::<Float32Type>()
                .values()
                .iter()
                .map(|v| f64::from(*v))
                .collect(),
            DataType::Float64 => values.as_primitive::<Float64Type>().values().to_vec(),
            DataType::Int64 => {
                values.as_primitive::<Int64Type>().values().iter().map(|v| *v as f64).collect()
            }
            DataType::Int32 => {
                values.as_primitive::<Int32Type>().values().iter().map(|v| f64::from(*v)).collect()
            }
            DataType::Int16 => {
                values.as_primitive::<Int16Type>().values().iter().map(|v| f64::from(*v)).collect()
            }
            DataType::UInt8 => {
                values.as_primitive::<UInt8Type>().values().iter().map(|v| f64::from(*v)).collect()
            }
            DataType::Boolean => {
                values.as_boolean().values().iter().map(|v| f64::from(u8::from(v))).collect()
            }
            other => panic!("{other}"),
        };
        let row = |(at, row): (usize, &[f64])| {
            if column.is_null(at) { vec![f64::NEG_INFINITY] } else { row.to_vec() }
        };
        columns.insert(field.name().clone(), numbers.chunks(width).enumerate().map(row).collect());
    }
    columns
}

fn rows_of(batch: &RecordBatch, rank: usize) -> Vec<Row> {
    let schema = batch.schema();
    let axes: Vec<String> = schema.fields().iter().take(rank).map(|f| f.name().clone()).collect();
    let mut columns = columns_of(batch, 0);
    let axes: Vec<Vec<Vec<f64>>> = axes.iter().map(|axis| columns.remove(axis).unwrap()).collect();
    let ids = columns.remove("object_id");
    (0..batch.num_rows())
        .map(|at| Row {
            position: axes.iter().map(|axis| axis[at][0]).collect(),
            id: ids.as_ref().map(|ids| ids[at][0] as i64),
            values: columns
                .iter()
                .map(|(name, column)| (name.clone(), column[at].clone()))
                .collect(),
            words: words_of(batch, at),
        })
        .collect()
}

fn words_of(batch: &RecordBatch, row: usize) -> BTreeMap<String, Option<String>> {
    let mut words = BTreeMap::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let word = match column.data_type() {
            DataType::Dictionary(..) => {
                let column = column.as_dictionary::<Int32Type>();
                let key = column.key(row);
                key.map(|key| column.values().as_string::<i32>().value(key).to_owned())
            }
            DataType::Utf8 => Some(column.as_string::<i32>().value(row).to_owned()),
            _ => continue,
        };
        words.insert(field.name().clone(), word);
    }
    words
}
