//! What is built reads back as what was given, whatever the kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_schema::{DataType, Field, Fields};
use proptest::prelude::*;

use super::*;
use crate::sort::tests_spool::CountingSpool;
use crate::zarr_vectors::{
    FragmentIndex, FragmentRef, Manifest, Ragged, StoredType, original_order,
};
use crate::{Axis, Links};

/// Rows in the plane, each with its number as an attribute.
#[derive(Debug, Clone)]
pub(super) struct Input {
    kind: GeometryKind,
    points: Vec<[f32; 2]>,
    ids: Option<Vec<i64>>,
    links: Vec<u64>,
}

impl Input {
    pub(super) fn new(kind: GeometryKind, points: &[[f32; 2]]) -> Self {
        Self { kind, points: points.to_vec(), ids: None, links: Vec::new() }
    }

    pub(super) fn ids(mut self, ids: &[i64]) -> Self {
        self.ids = Some(ids.to_vec());
        self
    }

    pub(super) fn links(mut self, links: &[u64]) -> Self {
        self.links = links.to_vec();
        self
    }

    pub(super) fn schema(&self) -> GeometrySchema {
        let axis = |name: &str| Axis { name: name.to_owned(), unit: None };
        let width = self.kind.link_width();
        let link_fields = vec![
            Field::new("link", DataType::UInt32, false),
            Field::new("word", DataType::Utf8, true),
        ];
        GeometrySchema {
            kind: self.kind,
            axes: vec![axis("x"), axis("y")],
            coordinate: DataType::Float32,
            objects: self.ids.is_some(),
            vertex_attributes: Fields::from(vec![
                Field::new("row", DataType::UInt32, false),
                Field::new("parity", DataType::Utf8, true),
            ]),
            link_attributes: if width > 0 { Fields::from(link_fields) } else { Fields::empty() },
        }
    }

    /// The batches, of up to `size` rows; links come after all vertices.
    pub(super) fn batches(&self, size: usize) -> Vec<GeometryBatch> {
        let schema = self.schema();
        let mut batches = Vec::new();
        let numbers: Vec<usize> = (0..self.points.len()).collect();
        let ends: Vec<usize> = numbers.chunks(size).map(|rows| rows[rows.len() - 1] + 1).collect();
        let mut first = 0;
        for end in ends.into_iter().chain([self.points.len()]) {
            let rows = first..end;
            let axis = |axis: usize| -> ArrayRef {
                let values = self.points[rows.clone()].iter().map(|point| point[axis]);
                Arc::new(Float32Array::from_iter_values(values))
            };
            let mut columns = vec![axis(0), axis(1)];
            if let Some(ids) = &self.ids {
                columns.push(Arc::new(Int64Array::from(ids[rows.clone()].to_vec())));
            }
            let numbers = rows.clone().map(|row| row as u32);
            columns.push(Arc::new(UInt32Array::from_iter_values(numbers)));
            let parity = rows.clone().map(|row| match row % 3 {
                0 => None,
                1 => Some("odd"),
                _ => Some("even"),
            });
            columns.push(Arc::new(StringArray::from_iter(parity)));
            let vertices = RecordBatch::try_new(schema.vertex_columns(), columns).unwrap();
            let is_last = rows.is_empty();
            let links = if is_last { self.all_links() } else { Links::default() };
            batches.push(GeometryBatch { first_row: first as u64, vertices, links });
            first = end;
        }
        batches
    }

    fn all_links(&self) -> Links {
        let width = self.kind.link_width();
        if width == 0 || self.links.is_empty() {
            return Links::default();
        }
        let count = (self.links.len() / width) as u32;
        let column: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..count));
        let words: ArrayRef = Arc::new(StringArray::from_iter((0..count).map(word)));
        let fields = self.schema().link_attributes;
        let schema = Arc::new(arrow_schema::Schema::new(fields));
        let attributes = Some(RecordBatch::try_new(schema, vec![column, words]).unwrap());
        Links { width, rows: self.links.clone(), attributes }
    }

    pub(super) fn build(&self, options: &BuildOptions) -> Result<BuiltStore, GeometryError> {
        let spool = CountingSpool::default();
        let mut builder = Builder::new(&self.schema(), options, &spool)?;
        for batch in self.batches(7) {
            builder.push(&batch)?;
        }
        builder.finish(&|| Ok(()), &|_| {})
    }

    fn id(&self, row: usize) -> i64 {
        match (&self.ids, self.kind) {
            (Some(ids), _) => ids[row],
            (None, GeometryKind::Lines) => row as i64 / 2,
            (None, _) => 0,
        }
    }
}

/// What is said of a link; nothing of each third.
fn word(link: u32) -> Option<String> {
    (link % 3 != 2).then(|| format!("{}é{link}", "w".repeat(link as usize % 4)))
}

pub(super) fn options() -> BuildOptions {
    BuildOptions::new(&[10.0, 10.0]).memory(0)
}

/// A store, read by what its cells say.
pub(super) struct Read<'a> {
    store: &'a BuiltStore,
    arrays: BTreeMap<String, GridArray>,
}

impl<'a> Read<'a> {
    pub(super) fn new(store: &'a BuiltStore) -> Self {
        let arrays = store.grid_arrays().into_iter().map(|array| (array.path.clone(), array));
        Self { store, arrays: arrays.collect() }
    }

    fn cell(&self, path: &str, chunk: &[i64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let array = &self.arrays[path];
        self.store.read_cell(array, &self.store.cell(chunk), &mut bytes).unwrap();
        let len = self.store.cell_len(array, &self.store.cell(chunk));
        assert_eq!(len, bytes.len() as u64, "{path} {chunk:?}");
        bytes
    }

    /// The numbers of the rows of a chunk, as they are stored.
    fn rows(&self, chunk: &[i64]) -> Vec<u32> {
        let bytes = self.cell("0/vertex_attributes/row", chunk);
        bytes.as_chunks::<4>().0.iter().map(|row| u32::from_le_bytes(*row)).collect()
    }

    /// The strings of a chunk, which are stored with the length of the longest of all.
    fn words(&self, path: &str, chunk: &[i64]) -> Vec<String> {
        let attributes = self.store.attributes(&self.arrays[path]);
        assert_eq!(attributes["row_shape"], serde_json::json!([]));
        assert_eq!(attributes.get("encoding"), None);
        let stored = StoredType::parse(attributes["dtype"].as_str().unwrap()).unwrap();
        let bytes = self.cell(path, chunk);
        bytes.chunks(stored.unit).map(|word| stored.text(word).unwrap()).collect()
    }

    /// The rows of each fragment of a chunk.
    pub(super) fn fragments(&self, chunk: &[i64]) -> Vec<Vec<u32>> {
        let (rows, bytes) = (self.rows(chunk), self.cell("0/vertex_fragments", chunk));
        let index = FragmentIndex::parse(&bytes).unwrap();
        assert!(index.tiles(rows.len() as u64));
        let of = |fragment: crate::zarr_vectors::Fragment<'_>| {
            let mut found = Vec::new();
            fragment.for_each(|row| found.push(rows[row as usize]));
            found
        };
        index.iter().map(of).collect()
    }

    fn chunks(&self) -> Vec<Vec<i64>> {
        let chunks = self.store.chunks(&self.arrays["0/vertices"]);
        chunks.iter().map(|chunk| chunk.to_vec()).collect()
    }

    /// The rows of each object, in the order of its manifest.
    pub(super) fn objects(&self) -> BTreeMap<i64, Vec<u32>> {
        let objects = self.store.objects().unwrap();
        let mut ids = Vec::new();
        objects.read_ids(0, objects.len(), &mut ids).unwrap();
        let mut ids = ids.as_chunks::<8>().0.iter().map(|id| i64::from_le_bytes(*id));
        let mut found = BTreeMap::new();
        for block in 0..objects.len().div_ceil(BuiltObjects::BLOCK) {
            let each = &mut |bytes: &[u8]| {
                let mut manifest = Manifest::parse(bytes, 2).unwrap();
                let mut rows = Vec::new();
                while let Some(block) = manifest.next_block().unwrap() {
                    let FragmentRef::Single(fragment) = block.fragments else { panic!() };
                    rows.extend(&self.fragments(&block.chunk)[fragment as usize]);
                }
                found.insert(ids.next().unwrap(), rows);
            };
            objects.read_manifests(block, each).unwrap();
        }
        found
    }

    /// All stored links by the numbers of rows, each with its attribute.
    fn links(&self) -> Vec<(Vec<u32>, u32)> {
        let mut found = Vec::new();
        let links = self.store.links.as_ref().unwrap();
        for number in 0..links.arrays() {
            let offsets = links.offsets(number).unwrap().clone();
            let path = format!("0/links/0/{}", offsets.name());
            for chunk in self.store.chunks(&self.arrays[&path]) {
                let bytes = self.cell(&path, &chunk);
                let (width, within) = (offsets.width(), offsets.is_within());
                let columns = width + usize::from(!within);
                let rows = match within {
                    true => &bytes[..],
                    false => Ragged::parse(&bytes, columns * 8).unwrap().rows(),
                };
                let path = format!("0/link_attributes/link/0/{}", offsets.name());
                let has_attributes = self.arrays.contains_key(&path);
                let attributes = match has_attributes {
                    true => self.cell(&path, &chunk),
                    false => vec![0; rows.len()],
                };
                if has_attributes {
                    let path = format!("0/link_attributes/word/0/{}", offsets.name());
                    let numbers = attributes.as_chunks::<4>().0.iter();
                    let words = numbers.map(|link| word(u32::from_le_bytes(*link)));
                    let words: Vec<String> = words.map(Option::unwrap_or_default).collect();
                    assert_eq!(self.words(&path, &chunk), words);
                }
                for (row, value) in rows.chunks(columns * 8).zip(attributes.chunks(4)) {
                    let numbers = row.as_chunks::<8>().0.iter().map(|n| i64::from_le_bytes(*n));
                    let numbers: Vec<i64> = numbers.collect();
                    let stored = &numbers[numbers.len() - width..];
                    let end = |at: usize| {
                        let of = offsets.chunk(&chunk, at).unwrap();
                        self.rows(&of)[stored[at] as usize]
                    };
                    let mut ends: Vec<u32> = (0..width).map(end).collect();
                    if !within {
                        assert!(original_order(&mut ends, numbers[0]));
                    }
                    found.push((ends, u32::from_le_bytes(value.try_into().unwrap())));
                }
            }
        }
        found.sort();
        found
    }
}

/// Checks what holds for every store: positions and attributes of each row are as they were, in
/// the chunk where they belong.
fn check_rows(input: &Input, store: &BuiltStore) {
    let read = Read::new(store);
    let mut seen = vec![false; input.points.len()];
    for chunk in read.chunks() {
        let (rows, positions) = (read.rows(&chunk), read.cell("0/vertices", &chunk));
        let parity = "0/vertex_attributes/parity";
        let (codes, words) = match input.kind {
            GeometryKind::Points => (read.cell(parity, &chunk), Vec::new()),
            _ => (Vec::new(), read.words(parity, &chunk)),
        };
        assert_eq!((positions.len(), codes.len() + words.len()), (rows.len() * 8, rows.len()));
        for (at, &row) in rows.iter().enumerate() {
            let point = input.points[row as usize];
            let bytes: Vec<u8> = point.iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(positions[at * 8..][..8], bytes);
            let place = point.map(|value| (f64::from(value) / 10.0).floor() as i64);
            assert_eq!(chunk, place);
            if input.kind == GeometryKind::Points {
                // In the order of those strings that there are, and -1 for none.
                let odd = i8::from(input.points.len() > 2);
                assert_eq!(codes[at] as i8, [-1, odd, 0][row as usize % 3]);
            } else {
                assert_eq!(words[at], ["", "odd", "even"][row as usize % 3]);
            }
            assert!(!std::mem::replace(&mut seen[row as usize], true));
        }
    }
    assert!(seen.iter().all(|seen| *seen));
}

#[test]
fn points_without_ids_are_one_fragment_in_their_own_order() {
    let input = Input::new(GeometryKind::Points, &[[1.0, 1.0], [-0.5, 3.0], [2.0, 2.0]]);
    let store = input.build(&options()).unwrap();
    check_rows(&input, &store);
    let read = Read::new(&store);
    assert_eq!(read.chunks(), [[-1, 0], [0, 0]]);
    assert_eq!(read.fragments(&[0, 0]), [[0, 2]]);
    assert!(store.objects().is_none() && store.links() == 0);
    let attributes = store.attributes(&read.arrays["0/vertices"]);
    assert_eq!(attributes["nonempty_chunks"], serde_json::json!(["-1.0", "0.0"]));
    assert_eq!(attributes["chunk_grid_origin"], serde_json::json!([-1, 0]));
}

#[test]
fn each_bin_is_a_fragment_also_an_empty_one() {
    let points = [[9.0, 1.0], [1.0, 1.0], [6.0, 2.0], [-1.0, -1.0]];
    let input = Input::new(GeometryKind::Points, &points);
    let store = input.build(&options().bin(Some(&[5.0, 10.0]))).unwrap();
    check_rows(&input, &store);
    let read = Read::new(&store);
    assert_eq!(read.fragments(&[0, 0]), [vec![1], vec![0, 2]]);
    assert_eq!(read.fragments(&[-1, -1]), [vec![], vec![3]]);
}

#[test]
fn a_path_is_cut_at_chunks_and_its_pieces_are_joined() {
    let points = [[1.0, 1.0], [2.0, 1.0], [11.0, 1.0], [12.0, 1.0], [3.0, 1.0], [13.0, 1.0]];
    let input = Input::new(GeometryKind::Polylines, &points).ids(&[4, 4, 4, 4, 4, 9]);
    let store = input.build(&options()).unwrap();
    check_rows(&input, &store);
    let read = Read::new(&store);
    assert_eq!(read.fragments(&[0, 0]), [vec![0, 1], vec![4]]);
    assert_eq!(read.fragments(&[1, 0]), [vec![2, 3], vec![5]]);
    assert_eq!(read.objects(), BTreeMap::from([(4, vec![0, 1, 2, 3, 4]), (9, vec![5])]));
    let links: Vec<Vec<u32>> = read.links().into_iter().map(|(ends, _)| ends).collect();
    assert_eq!(links, [[1, 2], [3, 4]]);
    assert!(!read.arrays.contains_key("0/link_fragments"));
    assert!(!store.objects().unwrap().is_counted());
}

#[test]
fn paths_within_chunks_have_no_links_at_all() {
    let input = Input::new(GeometryKind::Lines, &[[1.0, 1.0], [2.0, 1.0]]);
    let store = input.build(&options()).unwrap();
    assert!(store.grid_arrays().iter().all(|array| !array.path.contains("links")));
    assert!(store.groups("x").iter().all(|(path, _)| !path.contains("links")));
    assert!(store.objects().unwrap().is_counted());
}

#[test]
fn an_edge_of_a_skeleton_is_stored_unless_the_parent_is_the_row_before() {
    // 0 - 1 - 2 in one chunk, 3 branches off 1, 4 is in the next chunk.
    let points = [[1.0, 1.0], [2.0, 1.0], [3.0, 1.0], [4.0, 1.0], [11.0, 1.0]];
    let edges = [1, 0, 2, 1, 3, 1, 4, 3];
    let input = Input::new(GeometryKind::Skeletons, &points).links(&edges);
    let store = input.build(&options()).unwrap();
    check_rows(&input, &store);
    let read = Read::new(&store);
    assert_eq!(read.fragments(&[0, 0]), [[0, 1, 2, 3]]);
    assert_eq!(read.links(), [(vec![3, 1], 2), (vec![4, 3], 3)]);
}

#[test]
fn what_cannot_be_stored_is_refused_with_its_place() {
    let points = [[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]];
    let graph = Input::new(GeometryKind::Graph, &points);
    let skeleton = Input::new(GeometryKind::Skeletons, &points);
    let binned = options().bin(Some(&[3.0, 10.0]));
    let with_ids = Input::new(GeometryKind::Points, &points).ids(&[1, 2, 3]);
    for (result, reason) in [
        (graph.clone().links(&[0, 3]).build(&options()), "link 0: refers to row 3"),
        (skeleton.clone().links(&[1, 0]).build(&options()), "object 0: has 2 roots"),
        (skeleton.clone().links(&[1, 0, 2, 0, 2, 1]).build(&options()), "row 2: has two parents"),
        (skeleton.ids(&[1, 1, 2]).links(&[1, 0, 2, 1]).build(&options()), "object 2: has 0 roots"),
        (with_ids.build(&options().bin(Some(&[5.0, 5.0]))), "loses points"),
        (
            Input::new(GeometryKind::Points, &points).build(&binned),
            "a chunk of 10 is no whole number of bins of 3",
        ),
        (
            Input::new(GeometryKind::Points, &[[0.0, 0.0], [f32::NAN, 0.0]]).build(&options()),
            "row 1, column x: NaN is no place",
        ),
        (Input::new(GeometryKind::Points, &[]).build(&options()), "has no rows"),
        (
            Input::new(GeometryKind::Points, &points).build(&BuildOptions::new(&[1.0])),
            "must be 2 lengths",
        ),
    ] {
        let error = result.err().unwrap().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn one_long_string_takes_no_memory_for_every_row_until_a_cell_does_not_fit() {
    let schema = GeometrySchema {
        kind: GeometryKind::Polylines,
        axes: ["x", "y"].map(|name| Axis { name: name.to_owned(), unit: None }).to_vec(),
        coordinate: DataType::Float32,
        objects: false,
        vertex_attributes: Fields::from(vec![Field::new("note", DataType::Utf8, false)]),
        link_attributes: Fields::empty(),
    };
    // A string of 1,000 characters is stored in 4,000 bytes, and so is every other one.
    let build = |rows: u32, chunks: u32| {
        let spool = CountingSpool::default();
        let mut builder = Builder::new(&schema, &options(), &spool).unwrap();
        let x = (0..rows).map(|row| (row / (rows / chunks)) as f32 * 10.0);
        let notes = (0..rows).map(|row| if row == 7 { "é".repeat(1000) } else { "a".to_owned() });
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Float32Array::from_iter_values(x)),
            Arc::new(Float32Array::from_iter_values((0..rows).map(|_| 1.0))),
            Arc::new(StringArray::from_iter_values(notes)),
        ];
        let vertices = RecordBatch::try_new(schema.vertex_columns(), columns).unwrap();
        builder.push(&GeometryBatch { first_row: 0, vertices, links: Links::default() }).unwrap();
        (builder.finish(&|| Ok(()), &|_| {}), spool.files())
    };
    // 40 MB in 100 cells, of which 8 bytes a row are kept until they are written.
    let (store, files) = build(10_000, 100);
    let (store, chunk) = (store.unwrap(), [0, 0]);
    assert_eq!(files, 0);
    let read = Read::new(&store);
    let words = read.words("0/vertex_attributes/note", &chunk);
    assert_eq!((words.len(), words[6].as_str(), words[7].chars().count()), (100, "a", 1000));
    let (refused, _) = build(10_000, 10);
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("its 1000 values of note take 4000000 bytes"), "{error}");
    assert!(error.contains("chunk [0, 0]"), "{error}");
}

#[test]
fn the_root_is_described_last() {
    let input = Input::new(GeometryKind::Graph, &[[1.0, 1.0], [12.0, 1.0]]).links(&[1, 0]);
    let groups = input.build(&options()).unwrap().groups("brain");
    let paths: Vec<&str> = groups.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths[paths.len() - 2..], ["0", ""]);
    for (at, path) in paths.iter().enumerate() {
        let above = path.rsplit_once('/').map_or("", |(above, _)| above);
        assert!(path.is_empty() || paths[at..].contains(&above), "{path}");
    }
    assert_eq!(groups[groups.len() - 1].1["ome"]["name"], "brain");
}

fn any_input() -> impl Strategy<Value = Input> {
    let kind = prop_oneof![
        Just(GeometryKind::Points),
        Just(GeometryKind::Lines),
        Just(GeometryKind::Polylines),
        Just(GeometryKind::Streamlines),
        Just(GeometryKind::Skeletons),
        Just(GeometryKind::Graph),
        Just(GeometryKind::Mesh),
    ];
    let point = prop_oneof![
        (-25f32..35.0, -25f32..35.0),
        // Also on borders of chunks.
        (-2i8..4, -2i8..4).prop_map(|(x, y)| (f32::from(x) * 10.0, f32::from(y) * 10.0)),
    ];
    let points = proptest::collection::vec(point.prop_map(|(x, y)| [x, y]), 1..60);
    let random = proptest::collection::vec(any::<u32>(), 180);
    (kind, points, random, any::<bool>()).prop_map(|(kind, mut points, random, with_ids)| {
        if kind == GeometryKind::Lines {
            points.truncate(points.len() / 2 * 2);
            if points.is_empty() {
                points = vec![[1.0, 2.0], [30.0, 4.0]];
            }
        }
        let count = points.len();
        let mut input = Input::new(kind, &points);
        let is_tree = kind == GeometryKind::Skeletons;
        if with_ids {
            let id = |row: usize| match kind {
                GeometryKind::Lines => row as i64 / 2 - 7,
                _ if is_tree => row as i64 / 9 * 1000 - 1,
                _ => i64::from(random[row] % 5) - 2,
            };
            input.ids = Some((0..count).map(id).collect());
        }
        let row = |at: usize| u64::from(random[at]) % count as u64;
        match kind {
            GeometryKind::Graph => input.links = (0..2 * (count / 2)).map(row).collect(),
            GeometryKind::Mesh => input.links = (0..3 * (count / 2)).map(row).collect(),
            GeometryKind::Skeletons => {
                for (child, random) in random.iter().enumerate().take(count) {
                    let first = if with_ids { child / 9 * 9 } else { 0 };
                    if child > first {
                        let parent = first as u64 + u64::from(*random) % (child - first) as u64;
                        input.links.extend([child as u64, parent]);
                    }
                }
            }
            _ => {}
        }
        input
    })
}

/// The edges that follow from the order of rows, as a reader of skeletons sees them.
fn implied(read: &Read<'_>, explicit: &[(Vec<u32>, u32)]) -> Vec<(u32, u32)> {
    let mut edges: Vec<(u32, u32)> = explicit.iter().map(|(ends, _)| (ends[0], ends[1])).collect();
    let has_parent: Vec<u32> = edges.iter().map(|edge| edge.0).collect();
    for chunk in read.chunks() {
        for fragment in read.fragments(&chunk) {
            let pairs = fragment.windows(2).map(|pair| (pair[1], pair[0]));
            edges.extend(pairs.filter(|(child, _)| !has_parent.contains(child)));
        }
    }
    edges.sort_unstable();
    edges
}

proptest! {
    #[test]
    fn every_kind_reads_back_as_it_was(input in any_input()) {
        let store = input.build(&options()).unwrap();
        check_rows(&input, &store);
        prop_assert_eq!(store.vertices(), input.points.len() as u64);
        let read = Read::new(&store);
        if let Some(objects) = store.objects() {
            let mut expected: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
            for row in 0..input.points.len() {
                expected.entry(input.id(row)).or_default().push(row as u32);
            }
            let mut found = read.objects();
            prop_assert_eq!(objects.len(), expected.len() as u64);
            if !is_path(input.kind) {
                found.values_mut().for_each(|rows| rows.sort_unstable());
            }
            prop_assert_eq!(found, expected);
        }
        let width = input.kind.link_width();
        if width > 0 {
            let given = input.links.chunks(width).enumerate();
            let given = given.map(|(number, link)| {
                (link.iter().map(|row| *row as u32).collect::<Vec<_>>(), number as u32)
            });
            let mut given: Vec<_> = given.collect();
            given.sort();
            let stored = read.links();
            if input.kind == GeometryKind::Skeletons {
                prop_assert!(stored.iter().all(|link| given.contains(link)));
                let edges = given.iter().map(|(ends, _)| (ends[0], ends[1])).collect::<Vec<_>>();
                prop_assert_eq!(implied(&read, &stored), edges);
            } else {
                prop_assert_eq!(stored, given);
            }
        }
    }
}
