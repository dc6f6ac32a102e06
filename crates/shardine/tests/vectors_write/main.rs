//! Writing geometry: rows in any order, runs that are stopped, and processes that share the work.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

#[path = "../common/mod.rs"]
mod common;
mod deaths;
mod tables;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Array as _, ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields};
use shardine::files::FoundFile;
use shardine::jobs::{
    CancelToken, JobContext, JobError, Part, PartOutcome, VerifyOptions, WriteVectorsOptions,
    WriteVectorsReport, verify, write_vectors,
};
use shardine::store::{Key, StoreExt};
use shardine::vectors::{VectorQuery, VectorStore};
use shardine::{Array, CodecChoice, Engine, Error, ErrorKind, Location};
use shardine_geometry::zarr_vectors::{FragmentIndex, Manifest};
use shardine_geometry::{
    Axis, GeometryBatch, GeometryError, GeometryKind, GeometrySchema, GeometrySource, Links,
};

/// Random rows in a cube of 100, in batches.
struct Rows {
    schema: GeometrySchema,
    count: u64,
    next: u64,
    links: Vec<u64>,
    linked: bool,
    /// Whether the number of a row is in two columns.
    twice: bool,
    /// The rows whose bounds are told before the first batch, if any are.
    bounded: Option<u64>,
}

const KINDS: [GeometryKind; 7] = [
    GeometryKind::Points,
    GeometryKind::Lines,
    GeometryKind::Polylines,
    GeometryKind::Streamlines,
    GeometryKind::Graph,
    GeometryKind::Skeletons,
    GeometryKind::Mesh,
];

/// Links among so many vertices.
fn links_of(kind: GeometryKind, count: u64) -> Vec<u64> {
    let parent = |child: u64| (coordinate(child, 0) * 1000.0) as u64 % child;
    match kind {
        GeometryKind::Graph | GeometryKind::Mesh => (0..600).map(|at| at * 7919 % count).collect(),
        GeometryKind::Skeletons => (1..count).flat_map(|child| [child, parent(child)]).collect(),
        _ => Vec::new(),
    }
}

impl Rows {
    fn new(kind: GeometryKind, count: u64) -> Self {
        let axis = |name: &str| Axis { name: name.to_owned(), unit: None };
        let schema = GeometrySchema {
            kind,
            axes: ["x", "y", "z"].map(axis).to_vec(),
            coordinate: DataType::Float32,
            objects: matches!(kind, GeometryKind::Polylines | GeometryKind::Streamlines),
            vertex_attributes: Fields::from(vec![Field::new("row", DataType::Int64, false)]),
            link_attributes: Fields::empty(),
        };
        let (links, linked, twice, bounded) = (Vec::new(), false, false, None);
        Self { schema, count, next: 0, links, linked, twice, bounded }
    }

    fn bounded(mut self, rows: Option<u64>) -> Self {
        self.bounded = rows;
        self
    }

    fn links(mut self, links: Vec<u64>) -> Self {
        self.links = links;
        self
    }
}

/// Coordinate `axis` of a row.
fn coordinate(row: u64, axis: u64) -> f32 {
    // SplitMix64.
    let mut mixed = (row * 3 + axis + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    ((mixed >> 40) % 100_000) as f32 / 1000.0
}

impl GeometrySource for Rows {
    fn schema(&self) -> &GeometrySchema {
        &self.schema
    }

    fn bounds(&mut self) -> Result<Option<[Vec<f64>; 2]>, GeometryError> {
        let Some(count) = self.bounded else { return Ok(None) };
        let all = |axis| (0..count).map(move |row| f64::from(coordinate(row, axis)));
        let low = (0..3).map(|axis| all(axis).fold(f64::INFINITY, f64::min)).collect();
        let high = (0..3).map(|axis| all(axis).fold(f64::NEG_INFINITY, f64::max)).collect();
        Ok(Some([low, high]))
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        let rows = self.next..self.count.min(self.next + 1000);
        if rows.is_empty() && (self.linked || self.links.is_empty()) {
            return Ok(None);
        }
        let axis = |axis: u64| -> ArrayRef {
            Arc::new(Float32Array::from_iter_values(rows.clone().map(|row| coordinate(row, axis))))
        };
        let mut columns = vec![axis(0), axis(1), axis(2)];
        if self.schema.objects {
            let ids = rows.clone().map(|row| row as i64 / 10);
            columns.push(Arc::new(Int64Array::from_iter_values(ids)));
        }
        columns.push(Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64))));
        if self.twice {
            columns.push(Arc::clone(&columns[columns.len() - 1]));
        }
        let vertices = RecordBatch::try_new(self.schema.vertex_columns(), columns)?;
        let links = match rows.is_empty() {
            true => Links {
                width: self.schema.kind.link_width(),
                rows: self.links.clone(),
                attributes: None,
            },
            false => Links::default(),
        };
        self.linked = rows.is_empty();
        let first_row = self.next;
        self.next = rows.end;
        Ok(Some(GeometryBatch { first_row, vertices, links }))
    }
}

const COUNT: u64 = 20_000;

fn options() -> WriteVectorsOptions {
    WriteVectorsOptions::new(&[10.0, 10.0, 10.0])
        .shard(&[4])
        .codec(CodecChoice::Words(vec!["zstd:1".to_owned()]))
        .memory(0)
}

/// Files that rows are said to come from.
fn inputs(folder: &Path, name: &str) -> Vec<FoundFile> {
    let path = folder.join(name);
    if !path.exists() {
        std::fs::write(&path, name).unwrap();
    }
    vec![FoundFile::of(&path).unwrap()]
}

fn write(
    context: &JobContext,
    mut rows: Rows,
    inputs: &[FoundFile],
    target: &Location,
    options: &WriteVectorsOptions,
) -> Result<WriteVectorsReport, Error> {
    write_vectors(context, &mut rows, inputs, target, options)
}

fn context() -> JobContext {
    JobContext::new(&Engine::shared().unwrap())
}

/// All objects of a store.
fn contents(target: &Location) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![target.path.clone()]);
    while let Some(folder) = folders.pop() {
        let listing = target.store.list(folder.as_ref()).unwrap();
        for (key, _) in &listing.objects {
            found.insert(key.to_string(), target.store.get(key).unwrap().unwrap().to_vec());
        }
        folders.extend(listing.folders.into_iter().map(Some));
    }
    found
}

/// The bytes of a cell; none if it is empty.
fn cell(target: &Location, path: &str, cell: [u64; 3]) -> Vec<u8> {
    let array = Array::open(target.join(path).unwrap()).unwrap();
    let region = (cell[0], cell[1], cell[2]);
    let elements = array.read_elements(region).unwrap();
    let shardine::Elements::Variable(elements) = elements else { panic!("not bytes") };
    elements.get(0).unwrap_or_default().to_vec()
}

#[test]
fn every_row_is_found_in_the_chunk_where_it_lies() {
    let target = Location::memory();
    let rows = Rows::new(GeometryKind::Points, COUNT);
    let report = write(&context(), rows, &[], &target, &options()).unwrap();
    assert_eq!((report.vertices, report.chunks, report.objects), (COUNT, 1000, None));
    let mut seen = vec![false; COUNT as usize];
    for number in 0..1000u64 {
        let place = [number / 100, number / 10 % 10, number % 10];
        let positions = cell(&target, "0/vertices", place);
        let rows = cell(&target, "0/vertex_attributes/row", place);
        let fragments = cell(&target, "0/vertex_fragments", place);
        let count = rows.len() / 8;
        assert_eq!(positions.len(), count * 12);
        assert!(FragmentIndex::parse(&fragments).unwrap().tiles(count as u64));
        for (at, row) in rows.as_chunks::<8>().0.iter().enumerate() {
            let row = i64::from_le_bytes(*row) as u64;
            for axis in 0..3u64 {
                let value = coordinate(row, axis);
                assert_eq!((value / 10.0) as u64, place[axis as usize]);
                let start = at * 12 + axis as usize * 4;
                assert_eq!(positions[start..start + 4], value.to_le_bytes());
            }
            assert!(!std::mem::replace(&mut seen[row as usize], true));
        }
    }
    assert!(seen.iter().all(|seen| *seen));
    let names: Vec<String> = contents(&target).into_keys().collect();
    assert!(names.iter().all(|name| !name.contains(".shardine")), "{names:?}");
}

#[test]
fn a_path_is_followed_through_its_manifest() {
    let target = Location::memory();
    let rows = Rows::new(GeometryKind::Polylines, 200);
    let report = write(&context(), rows, &[], &target, &options().shard(&[2, 3, 4])).unwrap();
    assert_eq!((report.objects, report.sparse_ids), (Some(20), false));
    let manifests = Array::open(target.join("0/object_index/manifests").unwrap()).unwrap();
    let shardine::Elements::Variable(manifests) = manifests.read_elements(..).unwrap() else {
        panic!("not bytes");
    };
    let ids = Array::open(target.join("0/object_index/object_ids").unwrap()).unwrap();
    assert_eq!(ids.read::<i64>(..).unwrap(), (0..20).collect::<Vec<_>>());
    for id in 0..20usize {
        let mut manifest = Manifest::parse(manifests.get(id).unwrap(), 3).unwrap();
        let mut found = Vec::new();
        while let Some(block) = manifest.next_block().unwrap() {
            let place = [0, 1, 2].map(|axis| block.chunk[axis] as u64);
            let rows = cell(&target, "0/vertex_attributes/row", place);
            let rows: Vec<i64> =
                rows.as_chunks::<8>().0.iter().map(|row| i64::from_le_bytes(*row)).collect();
            let index = cell(&target, "0/vertex_fragments", place);
            let index = FragmentIndex::parse(&index).unwrap();
            let add = |fragment: u64| {
                let fragment = index.get(fragment as usize).ok_or(())?;
                fragment.for_each(|row| found.push(rows[row as usize]));
                Ok::<(), ()>(())
            };
            block.fragments.try_for_each(add).unwrap();
        }
        let expected: Vec<i64> = (10 * id as i64..10 * id as i64 + 10).collect();
        assert_eq!(found, expected, "object {id}");
    }
}

#[test]
fn the_same_call_resumes_a_run_that_was_stopped_and_another_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path(), "rows.csv");
    let rows = || Rows::new(GeometryKind::Polylines, 100);
    let whole = Location::memory();
    write(&context(), rows(), &inputs, &whole, &options()).unwrap();
    let whole = contents(&whole);
    let target = Location::memory();
    // Stopped after some objects, and again after some more.
    let mut runs = 0;
    let report = loop {
        let (token, objects) = (CancelToken::new(), AtomicU64::new(0));
        let stop = token.clone();
        let watched = context().cancel(&token).progress(move |now| {
            if now.bytes > 0 && objects.fetch_add(1, Ordering::Relaxed) == 2 {
                stop.cancel();
            }
        });
        runs += 1;
        match write(&watched, rows(), &inputs, &target, &options()) {
            Err(Error::Cancelled) => {
                let root = Key::new("zarr.json").unwrap();
                assert!(target.store.get(&root).unwrap().is_none());
                let other = options().shard(&[2]);
                let error = write(&context(), rows(), &inputs, &target, &other);
                assert!(matches!(error, Err(Error::Import(_))), "{error:?}");
            }
            result => break result.unwrap(),
        }
        assert!(runs < 1000);
    };
    assert!(runs > 2 && report.resumed && report.objects_kept > 0, "{runs} {report:?}");
    assert_eq!(contents(&target), whole);
    let again = write(&context(), rows(), &inputs, &target, &options()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists);
}

#[test]
fn parts_in_any_order_make_the_same_store_as_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path(), "rows.csv");
    let objects = |kind| {
        let mut rows = Rows::new(kind, 2000).links(links_of(kind, 2000));
        rows.schema.objects |= kind == GeometryKind::Points;
        rows
    };
    for (kind, shard) in KINDS.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        // Few chunks: each distance between the ends of links is an array.
        let options = || match shard {
            true => WriteVectorsOptions::new(&[30.0; 3]).shard(&[1, 2, 2]).memory(0),
            false => WriteVectorsOptions::new(&[30.0; 3]).memory(0),
        };
        // Points without objects too.
        let rows = || match shard {
            true => Rows::new(kind, 2000).links(links_of(kind, 2000)),
            false => objects(kind),
        };
        let whole = Location::memory();
        let report = write(&context(), rows(), &inputs, &whole, &options()).unwrap();
        assert_eq!(report.rows_sorted, 2000);
        for bounded in [Some(2000), None] {
            let rows = || rows().bounded(bounded);
            let (target, mut sorted) = (Location::memory(), BTreeMap::new());
            for index in [2, 3, 2, 1] {
                let part = options().part(Part::Of { index, count: 3 });
                let report = write(&context(), rows(), &inputs, &target, &part).unwrap();
                assert_eq!(report.outcome == PartOutcome::Complete, index == 1, "{kind:?}");
                sorted.insert(index, report.rows_sorted);
            }
            assert!(contents(&target) == contents(&whole), "{kind:?} {shard} {bounded:?}");
            match bounded {
                // Each row is sorted by one of the parts.
                Some(_) => {
                    assert_eq!(sorted.values().sum::<u64>(), 2000, "{sorted:?}");
                    assert!(sorted.values().all(|rows| *rows < 1300), "{sorted:?}");
                }
                None => assert!(sorted.values().all(|rows| *rows == 2000), "{sorted:?}"),
            }
            let part = options().part(Part::Of { index: 2, count: 3 });
            let report = write(&context(), rows(), &inputs, &target, &part).unwrap();
            assert_eq!(report.outcome, PartOutcome::AlreadyThere);
        }
    }
}

#[test]
fn a_part_whose_rows_are_not_within_the_bounds_that_it_was_told_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path(), "rows.csv");
    let target = Location::memory();
    let options = WriteVectorsOptions::new(&[10.0; 3]).part(Part::Of { index: 1, count: 1 });
    // As if rows had been added between the two reads.
    let rows = Rows::new(GeometryKind::Points, 2000).bounded(Some(3));
    let error = write(&context(), rows, &inputs, &target, &options).unwrap_err();
    assert!(matches!(error, Error::Job(JobError::SourceChanged { .. })), "{error}");
    assert_eq!(target.store.list(None).unwrap().folders, []);
}

#[test]
fn a_run_is_not_resumed_with_columns_of_other_types() {
    let folder = tempfile::tempdir().unwrap();
    let inputs = inputs(folder.path(), "rows.csv");
    let target = Location::memory();
    let token = CancelToken::new();
    let cancel = token.clone();
    let watched = context().cancel(&token).progress(move |now| {
        if now.bytes > 0 {
            cancel.cancel();
        }
    });
    let rows = || Rows::new(GeometryKind::Points, 100);
    let stopped = write(&watched, rows(), &inputs, &target, &options());
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    let mut other = rows();
    let row = Field::new("row", DataType::Int64, true);
    let more = Field::new("more", DataType::Int64, true);
    other.schema.vertex_attributes = Fields::from(vec![row, more]);
    other.twice = true;
    let refused = write(&context(), other, &inputs, &target, &options());
    assert!(matches!(refused, Err(Error::Import(_))), "{refused:?}");
    write(&context(), rows(), &inputs, &target, &options()).unwrap();
}

#[test]
fn rows_that_memory_has_no_room_for_leave_no_file_behind() {
    let folder = tempfile::tempdir().unwrap();
    let target = Location::parse(folder.path().join("store").to_str().unwrap()).unwrap();
    let count = 400_000;
    let report =
        write(&context(), Rows::new(GeometryKind::Points, count), &[], &target, &options())
            .unwrap();
    assert_eq!(report.vertices, count);
    let names: Vec<String> = contents(&target).into_keys().collect();
    let stray = names.iter().filter(|name| !name.contains("zarr.json") && !name.contains("/c/"));
    assert_eq!(stray.count(), 0, "{names:?}");
}

#[test]
fn a_request_that_makes_no_sense_leaves_the_target_untouched() {
    let target = Location::memory();
    let points = || Rows::new(GeometryKind::Points, 10);
    for (options, reason) in [
        (options().shard(&[4, 4]), "there are 3 axes"),
        (options().shard(&[0]), "would be empty"),
        (options().bin(&[3.0, 3.0, 3.0]), "no whole number of bins"),
        (options().codec(CodecChoice::Words(vec!["zlob".to_owned()])), "zlob"),
        (WriteVectorsOptions::new(&[1.0]), "must be 3 lengths"),
    ] {
        let error = write(&context(), points(), &[], &target, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Request, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert!(contents(&target).is_empty());
    let part = options().part(Part::Of { index: 1, count: 2 });
    assert!(write(&context(), points(), &[], &target, &part).is_err());
}

#[test]
fn every_kind_is_read_back_as_it_was_written() {
    let count = 300u64;
    for kind in KINDS {
        let links = links_of(kind, count);
        let target = Location::memory();
        let rows = Rows::new(kind, count).links(links.clone());
        let options = WriteVectorsOptions::new(&[50.0; 3]).shard(&[2]);
        write(&context(), rows, &[], &target, &options).unwrap();
        let store = VectorStore::open(&target).unwrap();
        assert_eq!((store.kind(), store.notes().len()), (kind, 0));
        let mut found = store.query(&VectorQuery::new()).unwrap();
        let (mut given, mut joined) = (Vec::new(), Vec::new());
        while let Some(batch) = found.next_batch().unwrap() {
            let column = |name: &str| batch.vertices.column_by_name(name).unwrap().clone();
            let rows = column("row");
            let rows = rows.as_any().downcast_ref::<Int64Array>().unwrap();
            for (axis, name) in (0..).zip(["x", "y", "z"]) {
                let values = column(name);
                let values = values.as_any().downcast_ref::<Float32Array>().unwrap();
                for (row, value) in rows.values().iter().zip(values.values()) {
                    assert_eq!(coordinate(*row as u64, axis), *value, "{kind:?} row {row}");
                }
            }
            given.extend(rows.values().iter().map(|row| *row as u64));
            joined.extend_from_slice(&batch.links.rows);
        }
        let mut sorted = given.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..count).collect::<Vec<_>>(), "{kind:?}");
        let width = kind.link_width();
        if width > 0 {
            let by_row: Vec<u64> = joined.iter().map(|at| given[*at as usize]).collect();
            let in_order = |links: &[u64]| {
                let mut links: Vec<Vec<u64>> = links.chunks(width).map(<[u64]>::to_vec).collect();
                links.sort_unstable();
                links
            };
            assert_eq!(in_order(&by_row), in_order(&links), "{kind:?}");
        }
    }
}

#[test]
fn what_is_written_keeps_the_rules() {
    let links = |width: u64| (0..300 * width).map(|at| (at * 7919) % 3000).collect::<Vec<_>>();
    for (kind, links) in [
        (GeometryKind::Points, Vec::new()),
        (GeometryKind::Polylines, Vec::new()),
        (GeometryKind::Graph, links(2)),
        (GeometryKind::Mesh, links(3)),
    ] {
        for options in [options(), WriteVectorsOptions::new(&[30.0, 20.0, 10.0])] {
            let target = Location::memory();
            let rows = Rows::new(kind, 3000).links(links.clone());
            write(&context(), rows, &[], &target, &options).unwrap();
            let mut found = Vec::new();
            let checked = VerifyOptions::new().decode(true);
            verify(context(), &target, &checked, &mut |finding| found.push(finding)).unwrap();
            assert_eq!(found, [], "{kind:?}");
        }
    }
}
