//! Rows, attributes and groups from files, read back by a query.

use std::collections::BTreeMap;
use std::io::Cursor;

use shardine::jobs::{ObjectTables, WriteVectorsOptions, WriteVectorsReport, write_vectors_with};
use shardine::vectors::{VectorQuery, VectorStore};
use shardine::{Error, ErrorKind, Location};
use shardine_geometry::files::{CsvWriter, FileFormat, ReadOptions};
use shardine_geometry::{GROUP, GeometryKind, GeometrySink, GeometrySource, OBJECT_ID};

use super::{contents, context};

/// Writes what three files say; an empty one is none.
pub fn write_csv(
    kind: GeometryKind,
    rows: &str,
    (attributes, groups): (&str, &str),
    target: &Location,
) -> Result<WriteVectorsReport, Error> {
    let bytes = |text: &str| Cursor::new(text.as_bytes().to_vec());
    let mut rows = FileFormat::Csv.open(bytes(rows), &ReadOptions::new(kind)).unwrap();
    let open = |text: &str, keys: &[&str]| {
        (!text.is_empty()).then(|| FileFormat::Csv.open_table(bytes(text), keys).unwrap())
    };
    let mut attributes = open(attributes, &[OBJECT_ID]);
    let mut groups = open(groups, &[GROUP, OBJECT_ID]);
    let mut tables = ObjectTables::default();
    if let Some(attributes) = &mut attributes {
        tables = tables.attributes(attributes);
    }
    if let Some(groups) = &mut groups {
        tables = tables.groups(groups);
    }
    let options = WriteVectorsOptions::new(&[10.0, 10.0]).memory(0);
    write_vectors_with(context(), &mut *rows, tables, &[], target, &options)
}

/// A query as CSV, its rows in order.
pub fn rows(target: &Location, query: &VectorQuery) -> Vec<String> {
    let store = VectorStore::open(target).unwrap();
    assert!(store.notes().is_empty(), "{:?}", store.notes());
    let mut found = store.query(query).unwrap();
    let mut text = Vec::new();
    let mut writer = Box::new(CsvWriter::create(&mut text, found.schema()).unwrap());
    while let Some(batch) = found.next_batch().unwrap() {
        writer.push(&batch).unwrap();
    }
    writer.finish().unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
    rows[1..].sort();
    rows
}

const POINTS: &str = "x,y,object_id,n\n1,2,9,1\n15,2,5,2\n3,4,9,3\n5,6,-2,4\n";

#[test]
fn attributes_and_groups_of_objects_are_read_back() {
    let target = Location::memory();
    let attributes = "weight,object_id,flag\n0.5,9,true\n-1,-2,false\n";
    let groups = "object_id,group\n9,2\n-2,0\n5,2\n";
    let report = write_csv(GeometryKind::Points, POINTS, (attributes, groups), &target).unwrap();
    assert_eq!((report.objects, report.vertices), (Some(3), 4));
    let found = rows(&target, &VectorQuery::new());
    let expected = [
        "x,y,object_id,n,flag,weight",
        "1.0,2.0,9,1,1,0.5",
        "15.0,2.0,5,2,,",
        "3.0,4.0,9,3,1,0.5",
        "5.0,6.0,-2,4,0,-1.0",
    ];
    assert_eq!(found, expected);
    let of_group = rows(&target, &VectorQuery::new().groups([2]));
    assert_eq!(of_group[1..], [expected[1], expected[2], expected[3]]);
    let none = VectorStore::open(&target).unwrap().query(&VectorQuery::new().groups([3]));
    assert!(none.is_err());
}

#[test]
fn other_columns_of_lines_are_attributes_of_the_lines() {
    let target = Location::memory();
    let lines = "x0,y0,x1,y1,weight\n1,1,2,2,0.5\n3,3,14,4,1.5\n";
    write_csv(GeometryKind::Lines, lines, ("", ""), &target).unwrap();
    let store = VectorStore::open(&target).unwrap();
    let of: BTreeMap<String, String> = store
        .info()
        .unwrap()
        .attributes
        .into_iter()
        .map(|attribute| (attribute.name, attribute.of.to_owned()))
        .collect();
    assert_eq!(of["weight"], "object", "{of:?}");
    let found = rows(&target, &VectorQuery::new());
    assert_eq!(found[1..], ["1.0,1.0,0,0.5", "14.0,4.0,1,1.5", "2.0,2.0,0,0.5", "3.0,3.0,1,1.5"]);
}

#[test]
fn tables_that_make_no_sense_leave_no_store() {
    let points = "x,y\n1,2\n";
    for (rows, attributes, groups, reason) in [
        (POINTS, "object_id,v\n3,1\n", "", "no object has the id 3"),
        (POINTS, "object_id,v\n5,1\n5,2\n", "", "object 5: has 2 rows"),
        (POINTS, "", "group,object_id\n-1,5\n", "group -1"),
        (POINTS, "", "group,object_id\n1,6\n", "no object has the id 6"),
        (points, "object_id,v\n0,1\n", "", "points without the column object_id"),
        (points, "", "group,object_id\n0,0\n", "points without the column object_id"),
    ] {
        let target = Location::memory();
        let error = write_csv(GeometryKind::Points, rows, (attributes, groups), &target);
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Request, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
        assert!(contents(&target).is_empty(), "something is left");
    }
}

#[test]
fn paths_in_turns_are_read_back_in_their_order() {
    let target = Location::memory();
    let text = "x,y,object_id\n1,1,7\n1,2,3\n12,1,7\n2,2,3\n3,1,7\n13,2,3\n";
    write_csv(GeometryKind::Polylines, text, ("", ""), &target).unwrap();
    let mut found = VectorStore::open(&target).unwrap().query(&VectorQuery::new()).unwrap();
    let mut text = Vec::new();
    let mut writer = Box::new(CsvWriter::create(&mut text, found.schema()).unwrap());
    while let Some(batch) = found.next_batch().unwrap() {
        writer.push(&batch).unwrap();
    }
    writer.finish().unwrap();
    let expected =
        "x,y,object_id\n1.0,2.0,3\n2.0,2.0,3\n13.0,2.0,3\n1.0,1.0,7\n12.0,1.0,7\n3.0,1.0,7\n";
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}
