//! Tables that are in memory already.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray};
use shardine_geometry::files::{BatchReader, BatchTable, ReadOptions, WithLinks};
use shardine_geometry::{GeometryKind, GeometrySource, Links, OBJECT_ID, TableSource};

use crate::all;

fn table(rows: usize) -> RecordBatch {
    let x = Float32Array::from_iter_values((0..rows).map(|row| row as f32));
    let columns: [(&str, ArrayRef); 4] = [
        ("x", Arc::new(x.clone())),
        ("y", Arc::new(x)),
        ("object_id", Arc::new(Int32Array::from_iter_values((0..rows as i32).map(|n| n / 2)))),
        ("kind", Arc::new(StringArray::from_iter_values((0..rows).map(|n| format!("k{}", n % 3))))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn reader(kind: GeometryKind, rows: usize, at_once: usize) -> BatchReader {
    let table = table(rows);
    let options = ReadOptions::new(kind).batch_rows(at_once);
    BatchReader::new(&table.schema(), std::iter::once(Ok(table)), &options).unwrap()
}

#[test]
fn batches_are_cut_and_their_columns_mean_what_they_do_in_a_file() {
    let found = all(&mut reader(GeometryKind::Points, 10, 4)).unwrap();
    assert_eq!((found.batches, found.rows.len()), (3, 11));
    assert_eq!(found.rows[0], "x,y,object_id,kind");
    assert_eq!(found.rows[10], "9.0,9.0,4,k0");
    assert!(found.schema.objects);
}

#[test]
fn columns_of_the_right_type_are_not_copied() {
    let table = table(10);
    let options = ReadOptions::new(GeometryKind::Points);
    let rows = std::iter::once(Ok(table.clone()));
    let mut reader = BatchReader::new(&table.schema(), rows, &options).unwrap();
    let batch = reader.next_batch().unwrap().unwrap();
    let start = |batch: &RecordBatch| batch.column(0).to_data().buffers()[0].as_ptr();
    assert_eq!(start(&batch.vertices), start(&table));
}

#[test]
fn links_follow_all_vertices_and_name_only_those() {
    let links = |rows: &[u64]| Links { width: 2, rows: rows.to_vec(), attributes: None };
    let graph = || reader(GeometryKind::Graph, 10, 4);
    let found = all(&mut WithLinks::new(graph(), links(&[0, 9, 3, 4])).unwrap()).unwrap();
    assert_eq!(found.links, [[0, 9], [3, 4]]);
    let refused = all(&mut WithLinks::new(graph(), links(&[0, 9, 3, 10])).unwrap()).unwrap_err();
    let told = refused.to_string();
    assert_eq!(told, "the table, link 1: there is no vertex 10: there are 10, from 0 on");
    let faces = Links { width: 3, rows: vec![0, 1, 2], attributes: None };
    assert!(WithLinks::new(graph(), faces).is_err());
    assert!(WithLinks::new(reader(GeometryKind::Points, 1, 4), links(&[])).is_err());
}

#[test]
fn attributes_of_links_have_a_value_for_each() {
    let weights: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
    let attributes = Some(RecordBatch::try_from_iter([("weight", weights)]).unwrap());
    let links =
        |rows: &[u64]| Links { width: 2, rows: rows.to_vec(), attributes: attributes.clone() };
    let graph = || reader(GeometryKind::Graph, 10, 100);
    let found = all(&mut WithLinks::new(graph(), links(&[0, 1, 2, 3])).unwrap()).unwrap();
    assert_eq!(found.schema.link_attributes[0].name(), "weight");
    assert!(WithLinks::new(graph(), links(&[0, 1])).is_err());
}

#[test]
fn rows_that_are_named_have_numbers_for_names() {
    let table = table(10);
    let rows = std::iter::once(Ok(table.clone()));
    let mut keyed = BatchTable::new(&table.schema(), rows, &[OBJECT_ID]).unwrap();
    assert_eq!(keyed.columns().field(0).name(), OBJECT_ID);
    assert_eq!(keyed.next_rows().unwrap().unwrap().num_rows(), 10);
    assert!(keyed.next_rows().unwrap().is_none());
    let none = std::iter::empty();
    assert!(BatchTable::new(&table.schema(), none, &["group"]).is_err());
}
