//! Vector data: what is cut into chunks of space is packed, tables of objects only on request.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use shardine::jobs::{RepackOptions, RepackOutcome, RepackedArray};
use shardine::{ArrayNode, Elements, Location, Packing, VariableElements, WriteOptions};
use shardine_geometry::zarr_vectors::{
    Block, FragmentRef, FragmentRows, encode_fragments, encode_manifest,
};

use crate::common::findings::check_at;
use crate::common::*;
use crate::repack::scene::*;

/// The arrays with a cell for each chunk of space.
const CELLS: [&str; 5] = [
    "0/link_fragments",
    "0/links/0/0.0.0",
    "0/vertex_attributes/r",
    "0/vertex_fragments",
    "0/vertices",
];

const TABLES: [&str; 3] =
    ["0/object_attributes/size", "0/object_index/manifests", "0/object_index/object_ids"];

fn codecs() -> Value {
    json!([
        {"name": "vlen-bytes"},
        {"name": "zstd", "configuration": {"level": 0, "checksum": false}},
    ])
}

/// The document of an array of bytes in pieces of `chunk`.
fn bytes_of(shape: &[u64], chunk: &[u64], attributes: &Value) -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "variable_length_bytes",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "", "codecs": codecs(), "attributes": attributes,
    })
}

fn table(rows: u64) -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": [rows], "data_type": "int64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    })
}

fn group(path: &Path, attributes: Value) {
    fs::create_dir_all(path).unwrap();
    let document = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
    fs::write(path.join("zarr.json"), document.to_string()).unwrap();
}

/// The chunks of a grid that begins at -1 along the first axis of space.
fn chunks(shape: &[u64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for (axis, &length) in shape.iter().enumerate() {
        let first = if axis + 3 == shape.len() { -1 } else { 0 };
        let longer = |before: Vec<i64>| {
            (0..length as i64).map(move |at| [&before[..], &[first + at]].concat())
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

fn singles(count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let fragments: Vec<FragmentRows> =
        (0..count).map(|start| FragmentRows::Range { start, count: 1 }).collect();
    encode_fragments(&fragments, &mut bytes).unwrap();
    bytes
}

/// Where the links within chunks are, in grids of as many axes.
fn links(rank: usize) -> String {
    format!("0/links/0/{}", vec!["0"; rank].join("."))
}

/// A graph of 9 objects with one level, as zarr-vectors lays it out. `shape` is the grid of its
/// cells; where that has four axes, the first is that of an attribute. Cell `i` has `i % 3`
/// vertices, each a fragment, and an edge if there are two.
fn store(root: &Path, shape: &[u64]) -> Location {
    let (rank, place) = (shape.len(), at(root));
    let mut cells: [Vec<Vec<u8>>; 5] = Default::default();
    let mut lists: [Vec<String>; 5] = Default::default();
    let mut manifests: Vec<Vec<Block<'_>>> = vec![Vec::new(); 9];
    let (mut vertices, mut edges) = (0, 0);
    for (number, chunk) in chunks(shape).into_iter().enumerate() {
        let count = number % 3;
        let mut own: [Vec<u8>; 5] = Default::default();
        for row in 0..count {
            let place =
                chunk[rank - 3..].iter().map(|at| (*at as f32 + 0.25 + 0.5 * row as f32) * 10.0);
            own[4].extend(place.flat_map(f32::to_le_bytes));
            own[2].extend((vertices as f32).to_le_bytes());
            let fragments = FragmentRef::Single(row as u64);
            manifests[vertices % 9].push(Block { chunk: chunk[..].into(), fragments });
            vertices += 1;
        }
        if count > 0 {
            own[3] = singles(count as u64);
        }
        if count == 2 {
            own[1].extend([0i64, 1].iter().flat_map(|end| end.to_le_bytes()));
            own[0] = singles(1);
            edges += 1;
        }
        let name = chunk.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
        for ((cells, list), own) in cells.iter_mut().zip(&mut lists).zip(own) {
            if !own.is_empty() {
                list.push(name.clone());
            }
            cells.push(own);
        }
    }
    let axes = ["z", "y", "x"].map(|name| json!({"name": name, "type": "space"}));
    group(
        root,
        json!({
            "zarr_vectors": {
                "zv_version": "0.9.2", "chunk_shape": [10.0, 10.0, 10.0], "geometry_types": ["graph"],
                "links_convention": "explicit", "bounds": [[-10.0, 0.0, 0.0], [20.0, 40.0, 50.0]],
            },
            "multiscales": [{"axes": axes, "datasets": [{"path": "0"}]}],
        }),
    );
    let mut level = json!({"level": 0, "vertex_count": vertices, "fragments_tile": true});
    if rank > 3 {
        level["chunk_attribute_name"] = json!("gene");
        level["chunk_attribute_values"] = json!(["actb", "gfp"]);
    }
    group(&root.join("0"), json!({"zarr_vectors_level": level}));
    group(
        &root.join("0/object_index"),
        json!({
            "zv_array": "object_index", "num_objects": 9, "num_present": 9, "sid_ndim": rank,
            "layout": "vlen_manifests_v2", "object_ids_sorted": true,
        }),
    );
    group(&root.join("0/object_attributes"), json!({}));
    group(&root.join("0/links"), json!({}));
    group(
        &root.join("0/links/0"),
        json!({
            "zv_array": "links_family", "level_delta": 0, "link_width": 2, "directed": false,
            "store": "canonical", "sid_ndim": rank, "num_links": edges, "num_physical_records": edges,
        }),
    );
    group(&root.join("0/vertex_attributes"), json!({}));
    let origin: Vec<i64> = chunks(shape).swap_remove(0);
    let index = |name: &str| json!({"zv_array": name, "encoding": "fragment_index_v1"});
    let documents = [
        index("link_fragments"),
        json!({
            "zv_array": "links", "dtype": "int64", "offsets": [vec![0; rank]], "has_perm": false,
            "link_width": 2, "level_delta": 0,
        }),
        json!({"zv_array": "attribute", "name": "r", "dtype": "float32", "row_shape": []}),
        index("vertex_fragments"),
        json!({"zv_array": "vertices", "dtype": "float32", "encoding": "raw"}),
    ];
    for ((name, cells), (mut list, mut document)) in
        cell_arrays(rank).iter().zip(cells).zip(lists.into_iter().zip(documents))
    {
        list.sort_unstable();
        document["nonempty_chunks"] = json!(list);
        document["chunk_grid_origin"] = json!(origin);
        let document = bytes_of(shape, &vec![1; rank], &document);
        let array = create_at(&place.join(name).unwrap(), &document);
        let cells = Elements::Variable(cells.iter().collect());
        array.write_elements(.., cells.as_ref(), &WriteOptions::new()).unwrap();
    }
    let manifests: VariableElements = manifests
        .iter()
        .map(|blocks| {
            let mut bytes = Vec::new();
            encode_manifest(blocks, &mut bytes).unwrap();
            bytes
        })
        .collect();
    let document = bytes_of(&[9], &[2], &json!({}));
    let array = create_at(&place.join("0/object_index/manifests").unwrap(), &document);
    let manifests = Elements::Variable(manifests);
    array.write_elements(.., manifests.as_ref(), &WriteOptions::new()).unwrap();
    for name in ["0/object_index/object_ids", "0/object_attributes/size"] {
        let array = create_at(&place.join(name).unwrap(), &table(9));
        array.write(.., &[1i64, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap();
    }
    assert_sound(&place);
    place
}

/// The arrays with cells, in grids of as many axes.
fn cell_arrays(rank: usize) -> Vec<String> {
    let links = links(rank);
    CELLS
        .iter()
        .map(|name| if name.contains("/0/0.") { &*links } else { *name }.to_owned())
        .collect()
}

/// The store as a whole is in order, as arrays and as geometry.
#[track_caller]
fn assert_sound(place: &Location) {
    let (summary, findings) = check_at(place, true);
    assert!(summary.damage == 0 && findings.is_empty(), "{findings:#?}");
}

fn contents(place: &Location, rank: usize) -> Vec<(String, Elements)> {
    let names = cell_arrays(rank).into_iter().chain(TABLES.map(str::to_owned));
    names.map(|name| (name.clone(), elements(&place.join(&name).unwrap()))).collect()
}

fn by(chunks: &[u64]) -> RepackOptions {
    RepackOptions::new().packing(Packing::ChunksPerShard(chunks.to_vec()))
}

fn outcomes(told: &[RepackedArray], outcome: RepackOutcome) -> Vec<&str> {
    let mut paths: Vec<&str> =
        told.iter().filter(|array| array.outcome == outcome).map(|array| &*array.path).collect();
    paths.sort_unstable();
    paths
}

fn document(root: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(root.join(name).join("zarr.json")).unwrap()).unwrap()
}

#[test]
fn cells_are_packed_and_tables_of_objects_stay() {
    let folder = folder();
    let root = folder.path().join("s.zarrvectors");
    let place = store(&root, &[3, 4, 5]);
    let (old, attributes) =
        (contents(&place, 3), document(&root, "0/vertices")["attributes"].clone());
    let tables = tree(&root.join("0/object_index"));
    for packing in [vec![2], vec![2, 2, 4]] {
        let told = repack(&place, None, &by(&packing)).unwrap();
        assert_eq!(outcomes(&told, RepackOutcome::Done), CELLS);
        assert_eq!(outcomes(&told, RepackOutcome::Kept), TABLES);
        assert_eq!(tree(&root.join("0/object_index")), tables);
        assert_eq!(contents(&place, 3), old);
        assert_sound(&place);
        let again = repack(&place, None, &by(&packing)).unwrap();
        assert_eq!(outcomes(&again, RepackOutcome::Unchanged), CELLS);
    }
    // Codecs and attributes are what they were.
    let document = document(&root, "0/vertices");
    let inner = &document["codecs"][0]["configuration"];
    assert_eq!(inner["codecs"], codecs());
    assert_eq!(inner["chunk_shape"], json!([1, 1, 1]));
    assert_eq!(document["attributes"], attributes);

    repack(&place, None, &RepackOptions::new().packing(Packing::Unsharded)).unwrap();
    assert_eq!(contents(&place, 3), old);
    assert_sound(&place);
    let array = ArrayNode::open(&engine(), &place.join("0/vertices").unwrap()).unwrap();
    assert_eq!(array.shard_shape(), None);
}

#[test]
fn tables_are_packed_on_request() {
    let folder = folder();
    let (root, target) = (folder.path().join("a"), folder.path().join("b"));
    let place = store(&root, &[3, 4, 5]);
    let old = contents(&place, 3);
    let told = repack(&place, Some(&at(&target)), &by(&[1, 2, 2])).unwrap();
    let shard = |told: &[RepackedArray], name: &str| {
        told.iter().find(|array| array.path == name).unwrap().shard_shape.clone()
    };
    assert_eq!(shard(&told, "0/object_attributes/size"), None);
    assert_eq!(contents(&at(&target), 3), old);
    assert_sound(&at(&target));

    let told = repack(&place, None, &by(&[1, 2, 2]).objects(true)).unwrap();
    assert_eq!(outcomes(&told, RepackOutcome::Kept), [""; 0]);
    // As many chunks as those of the others have: four, of two rows each.
    assert_eq!(shard(&told, "0/object_attributes/size"), Some(vec![8]));
    assert_eq!(shard(&told, "0/object_index/manifests"), Some(vec![8]));
    assert_eq!(shard(&told, "0/vertices"), Some(vec![1, 2, 2]));
    assert_eq!(contents(&place, 3), old);
    assert_sound(&place);
}

#[test]
fn an_axis_of_attributes_is_not_packed_unless_it_is_named() {
    let folder = folder();
    let place = store(&folder.path().join("s"), &[2, 3, 4, 5]);
    let old = contents(&place, 4);
    let told = repack(&place, None, &by(&[2, 2, 4])).unwrap();
    let vertices = told.iter().find(|array| array.path == "0/vertices").unwrap();
    assert_eq!(vertices.shard_shape, Some(vec![1, 2, 2, 4]));
    assert_eq!(contents(&place, 4), old);
    assert_sound(&place);
}

#[test]
fn cells_cannot_be_given_another_shape() {
    let folder = folder();
    let place = store(&folder.path().join("s"), &[3, 4, 5]);
    let error = repack(&place, None, &by(&[2]).chunk(&[2, 2, 2])).unwrap_err();
    assert!(error.to_string().contains("chunks of space"), "{error}");
}

#[test]
fn a_store_below_another_group_and_a_level_alone_are_recognised() {
    let folder = folder();
    let root = folder.path().join("h");
    group(&root, json!({}));
    let place = store(&root.join("v"), &[3, 4, 5]);
    create_at(&at(&root).join("plain").unwrap(), &table(8));
    let told = repack(&at(&root), None, &by(&[2])).unwrap();
    assert_eq!(outcomes(&told, RepackOutcome::Kept), TABLES.map(|name| format!("v/{name}")));
    assert!(outcomes(&told, RepackOutcome::Done).contains(&"plain"));
    let told = repack(&place.join("0").unwrap(), None, &by(&[4])).unwrap();
    assert_eq!(outcomes(&told, RepackOutcome::Kept).len(), 3);
    assert_eq!(outcomes(&told, RepackOutcome::Done).len(), 5);
    assert_sound(&place);
}
