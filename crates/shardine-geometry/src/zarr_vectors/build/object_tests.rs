//! Objects whose rows come in turns, their attributes and groups, and spools that fail.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::builder::{FixedSizeListBuilder, UInt8Builder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

use super::tests::{Input, Read, options};
use super::*;
use crate::sort::SpoolFile;
use crate::sort::tests_spool::CountingSpool;

#[test]
fn a_path_whose_rows_come_between_those_of_others_is_not_cut_there() {
    // Two paths in turns; the first leaves its chunk and comes back.
    let points = [[1.0, 1.0], [2.0, 2.0], [3.0, 1.0], [4.0, 2.0], [15.0, 1.0], [5.0, 2.0]];
    let points = [&points[..], &[[6.0, 1.0], [7.0, 2.0]]].concat();
    let ids = [5, -3, 5, -3, 5, -3, 5, -3];
    let input = Input::new(GeometryKind::Polylines, &points).ids(&ids);
    let store = input.build(&options()).unwrap();
    let read = Read::new(&store);
    assert_eq!(read.fragments(&[0, 0]), [vec![0, 2], vec![1, 3, 5, 7], vec![6]]);
    assert_eq!(read.fragments(&[1, 0]), [vec![4]]);
    let objects = read.objects();
    assert_eq!(objects[&5], [0, 2, 4, 6]);
    assert_eq!(objects[&-3], [1, 3, 5, 7]);
}

#[test]
fn a_line_has_two_vertices_wherever_they_come() {
    let points = [[1.0, 1.0], [2.0, 2.0], [3.0, 1.0], [14.0, 2.0]];
    let line = |ids: &[i64]| Input::new(GeometryKind::Lines, &points).ids(ids).build(&options());
    let store = line(&[9, 4, 9, 4]).unwrap();
    let read = Read::new(&store);
    assert_eq!(read.fragments(&[0, 0]), [vec![0, 2], vec![1]]);
    for ids in [[9, 4, 9, 9], [1, 2, 3, 4]] {
        let error = line(&ids).err().unwrap().to_string();
        assert!(error.contains("a line has 2 vertices"), "{error}");
    }
}

/// A table with a column of ids and others.
fn table(ids: &[i64], columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let mut all: Vec<(&str, ArrayRef)> =
        vec![(OBJECT_ID, Arc::new(Int64Array::from(ids.to_vec())))];
    all.extend(columns);
    RecordBatch::try_from_iter(all.into_iter().map(|(name, array)| (name.to_owned(), array)))
        .unwrap()
}

fn attributes(rows: &RecordBatch) -> Fields {
    rows.schema().fields().iter().skip(1).cloned().collect()
}

/// Points of the objects 2, 5 and 9 with tables.
fn with_tables(tables: &[RecordBatch], groups: &[(i64, i64)]) -> Result<BuiltStore, GeometryError> {
    let points = [[1.0, 1.0], [2.0, 2.0], [3.0, 1.0], [14.0, 2.0]];
    let input = Input::new(GeometryKind::Points, &points).ids(&[9, 2, 5, 9]);
    let spool = CountingSpool::default();
    let mut builder = Builder::new(&input.schema(), &options(), &spool)?;
    input.batches(2).iter().try_for_each(|batch| builder.push(batch))?;
    if let Some(first) = tables.first() {
        builder.object_attributes(&attributes(first))?;
    }
    tables.iter().try_for_each(|rows| builder.push_objects(rows))?;
    if !groups.is_empty() {
        let column = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let fields = [crate::GROUP, OBJECT_ID].map(|n| Field::new(n, DataType::Int64, false));
        let columns = vec![
            column(groups.iter().map(|(group, _)| *group).collect()),
            column(groups.iter().map(|(_, object)| *object).collect()),
        ];
        let schema = Arc::new(Schema::new(fields.to_vec()));
        builder.push_groups(&RecordBatch::try_new(schema, columns).unwrap())?;
    }
    builder.finish(&|| Ok(()), &|_| {})
}

fn read(store: &BuiltStore, name: &str) -> (ObjectArray, Vec<u8>) {
    let path = format!("0/object_attributes/{name}");
    let array = store.object_arrays().into_iter().find(|array| array.path == path).unwrap();
    let mut out = Vec::new();
    store.read_object_rows(&array, 0, store.objects().unwrap().len(), &mut out).unwrap();
    (array, out)
}

#[test]
fn attributes_go_to_their_objects_and_those_without_are_absent() {
    let mut colours = FixedSizeListBuilder::new(UInt8Builder::new(), 2);
    colours.values().append_slice(&[255, 255]);
    colours.append(true);
    colours.values().append_nulls(2);
    colours.append(false);
    let rows = table(
        &[9, 5],
        vec![
            ("f", Arc::new(Float64Array::from(vec![Some(0.5), None]))),
            ("n", Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(3)]))),
            ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
            ("s", Arc::new(StringArray::from(vec![Some("\u{fc}x"), None]))),
            ("c", Arc::new(colours.finish())),
        ],
    );
    let store = with_tables(&[rows], &[]).unwrap();
    let (array, f) = read(&store, "f");
    assert_eq!((array.data_type, array.fill), ("float64".into(), "NaN".into()));
    let f: Vec<f64> = f.as_chunks::<8>().0.iter().map(|v| f64::from_le_bytes(*v)).collect();
    assert!(f[0].is_nan() && f[1].is_nan() && f[2] == 0.5, "{f:?}");
    // The value that zarr-vectors would take for none is one, so another one is taken.
    let (array, n) = read(&store, "n");
    assert_eq!(array.fill, i64::MIN + 1);
    assert_eq!(n, [i64::MIN + 1, 3, i64::MIN].map(i64::to_le_bytes).concat());
    let (array, b) = read(&store, "b");
    assert_eq!((array.data_type, array.fill), ("int8".into(), (-128).into()));
    assert_eq!(b, [128, 128, 1]);
    let (array, s) = read(&store, "s");
    assert_eq!(array.attributes["dtype"], "<U2");
    assert_eq!((s[..16].to_vec(), s[16], s[20]), (vec![0; 16], 0xfc, b'x'));
    let (array, c) = read(&store, "c");
    assert_eq!((array.columns, array.fill), (Some(2), 254.into()));
    assert_eq!(c, [254, 254, 254, 254, 255, 255]);
    assert!(store.groups("s").iter().any(|(path, _)| path == "0/object_attributes"));
}

#[test]
fn what_no_object_has_is_refused_by_name() {
    let value =
        |count: usize| -> (&str, ArrayRef) { ("v", Arc::new(Int64Array::from(vec![1; count]))) };
    let failed = |ids: &[i64]| {
        let rows = table(ids, vec![value(ids.len())]);
        with_tables(&[rows], &[]).err().unwrap().to_string()
    };
    assert!(failed(&[2, 7]).contains("no object has the id 7"));
    let many = failed(&[-1, 1, 3, 4, 6, 7, 8]);
    assert!(many.contains("the 7 ids -1, 1, 3, 4, 6, .."), "{many}");
    assert!(failed(&[5, 2, 5]).contains("object 5: has 2 rows of attributes"));
    let groups = with_tables(&[], &[(0, 2), (1, 3)]).err().unwrap().to_string();
    assert!(groups.contains("no object has the id 3"), "{groups}");
    for group in [-1, 1 << 40] {
        let error = with_tables(&[], &[(group, 2)]).err().unwrap().to_string();
        assert!(error.contains("the number of a group"), "{error}");
    }
    let rows = table(&[2], vec![]);
    assert!(with_tables(&[rows], &[]).err().unwrap().to_string().contains("there are none"));
}

#[test]
fn an_integer_type_without_a_value_to_spare_is_refused_only_if_one_is_needed() {
    let points: Vec<[f32; 2]> = (0..300).map(|n| [n as f32, 0.0]).collect();
    let ids: Vec<i64> = (0..300).collect();
    let input = Input::new(GeometryKind::Points, &points).ids(&ids);
    let build = |count: i64| {
        let spool = CountingSpool::default();
        let mut builder = Builder::new(&input.schema(), &options(), &spool).unwrap();
        input.batches(100).iter().for_each(|batch| builder.push(batch).unwrap());
        let bytes = (0..count).map(|n| n as u8);
        let column = Arc::new(arrow_array::UInt8Array::from_iter_values(bytes));
        let rows = table(&ids[..count as usize], vec![("v", column)]);
        builder.object_attributes(&attributes(&rows)).unwrap();
        builder.push_objects(&rows).unwrap();
        builder.finish(&|| Ok(()), &|_| {})
    };
    let (array, _) = read(&build(300).unwrap(), "v");
    assert!(!array.attributes.contains_key("fill_sentinel_meaning"));
    let error = build(299).err().unwrap().to_string();
    assert!(error.contains("use a wider type"), "{error}");
}

#[test]
fn groups_list_their_members_by_id_each_once() {
    let store = with_tables(&[], &[(3, 9), (0, 5), (3, 2), (3, 9)]).unwrap();
    let groups = store.object_groups().unwrap();
    let mut found = Vec::new();
    groups.read_members(0, &mut |members| found.push(members.to_vec())).unwrap();
    let ids = |ids: &[i64]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(found, [ids(&[5]), vec![], vec![], ids(&[2, 9])]);
    assert_eq!(groups.attributes()["num_groups"], 4);
}

#[test]
fn columns_of_objects_must_say_the_same_in_all_rows() {
    let points = [[1.0, 1.0], [2.0, 2.0], [3.0, 1.0]];
    let input = Input::new(GeometryKind::Points, &points).ids(&[4, 4, 7]);
    let named = |name: &str| input.build(&options().object_columns(&[name.to_owned()]));
    for name in ["row", "parity"] {
        let error = named(name).err().unwrap().to_string();
        assert!(error.contains("object 4: has different attributes"), "{error}");
    }
    let alone = Input::new(GeometryKind::Points, &points).ids(&[1, 2, 3]);
    let store = alone.build(&options().object_columns(&["row".to_owned()])).unwrap();
    assert_eq!(read(&store, "row").1, [0u32, 1, 2].map(u32::to_le_bytes).concat());
    let arrays = store.grid_arrays();
    assert!(arrays.iter().all(|array| array.path != "0/vertex_attributes/row"));
    let without = Input::new(GeometryKind::Points, &points);
    assert!(without.build(&options().object_columns(&["row".to_owned()])).is_err());
}

/// Fails one call of its files.
#[derive(Debug, Default)]
struct Faulty {
    at: usize,
    calls: Arc<AtomicUsize>,
}

struct FaultyFile {
    at: usize,
    calls: Arc<AtomicUsize>,
    file: Box<dyn SpoolFile>,
}

fn pass(calls: &AtomicUsize, at: usize) -> io::Result<()> {
    match calls.fetch_add(1, Ordering::Relaxed) == at {
        true => Err(io::Error::from(io::ErrorKind::StorageFull)),
        false => Ok(()),
    }
}

impl Spool for Faulty {
    fn create(&self) -> io::Result<Box<dyn SpoolFile>> {
        pass(&self.calls, self.at)?;
        let file = CountingSpool::default().create()?;
        Ok(Box::new(FaultyFile { at: self.at, calls: Arc::clone(&self.calls), file }))
    }
}

impl SpoolFile for FaultyFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        pass(&self.calls, self.at)?;
        self.file.append(bytes)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        pass(&self.calls, self.at)?;
        self.file.read_at(offset, out)
    }
}

/// Builds a graph of so many rows of objects in turns, with tables, and reads all of it.
fn build_all(spool: &Faulty, count: usize) -> Result<u64, GeometryError> {
    let points: Vec<[f32; 2]> =
        (0..count).map(|n| [(n * 7919 % 997) as f32, (n * 104_729 % 991) as f32]).collect();
    let ids: Vec<i64> = (0..count as i64).map(|n| n % 10_000).collect();
    let links: Vec<u64> = (0..count as u64).map(|n| n * 31 % count as u64).collect();
    let input = Input::new(GeometryKind::Graph, &points).ids(&ids).links(&links);
    let chunks = BuildOptions::new(&[200.0, 200.0]).memory(0);
    let mut builder = Builder::new(&input.schema(), &chunks, spool)?;
    input.batches(10_000).iter().try_for_each(|batch| builder.push(batch))?;
    let objects: Vec<i64> = (0..10_000).rev().collect();
    let values = Arc::new(Int64Array::from(objects.clone()));
    let rows = table(&objects, vec![("v", values)]);
    builder.object_attributes(&attributes(&rows))?;
    builder.push_objects(&rows)?;
    let store = builder.finish(&|| Ok(()), &|_| {})?;
    let (mut bytes, mut out) = (0, Vec::new());
    for array in store.grid_arrays() {
        for chunk in store.chunks(&array) {
            store.read_cell(&array, &store.cell(&chunk), &mut out)?;
            bytes += out.len() as u64;
        }
    }
    Ok(bytes)
}

#[test]
fn a_fault_of_the_spool_is_an_error_wherever_it_comes() {
    let whole = Faulty { at: usize::MAX, ..Faulty::default() };
    let count = 200_000;
    let bytes = build_all(&whole, count).unwrap();
    let calls = whole.calls.load(Ordering::Relaxed);
    assert!(calls > 60, "{calls}");
    for at in (0..calls).step_by(calls.div_ceil(25)) {
        let spool = Faulty { at, ..Faulty::default() };
        match build_all(&spool, count) {
            Err(GeometryError::Spool(_)) => {}
            Err(error) => panic!("call {at}: {error}"),
            Ok(other) => panic!("call {at} of {calls}: {other} of {bytes} bytes"),
        }
    }
}
