//! Vector data: what is cut into chunks of space is packed, tables of objects only on request.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use shardine::jobs::{RepackOptions, RepackOutcome, RepackedArray};
use shardine::{ArrayNode, Elements, Location, Packing, WriteOptions};

use crate::common::findings::check_at;
use crate::common::*;
use crate::repack::scene::*;

const CELLS: [&str; 4] =
    ["0/links/0/0.0.0", "0/vertex_attributes/r", "0/vertex_fragments", "0/vertices"];

fn cells(shape: &[u64]) -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "variable_length_bytes",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": vec![1; shape.len()]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "",
        "codecs": [{"name": "vlen-bytes"}, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}],
        "attributes": {"zv_array": "vertices", "nonempty_chunks": ["-1.0.0", "0.0.0"], "chunk_grid_origin": [-1, 0, 0]},
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

/// A store with one level, as zarr-vectors lays it out; `shape` is the grid of its cells.
fn store(root: &Path, shape: &[u64]) -> Location {
    group(root, json!({"zarr_vectors": {"zv_version": "0.9.2"}}));
    group(&root.join("0"), json!({"zarr_vectors_level": {"level": 0}}));
    group(&root.join("0/object_index"), json!({"zv_array": "object_index"}));
    group(&root.join("0/links"), json!({}));
    group(&root.join("0/links/0"), json!({"zv_array": "links_family"}));
    group(&root.join("0/vertex_attributes"), json!({}));
    let place = at(root);
    for name in CELLS {
        let array = create_at(&place.join(name).unwrap(), &cells(shape));
        let full = array.shape().iter().product::<u64>() as usize;
        let cells = (0..full).map(|i| vec![i as u8; i % 3 * 50]).collect();
        let cells = Elements::Variable(cells);
        array.write_elements(.., cells.as_ref(), &WriteOptions::new()).unwrap();
    }
    for name in ["0/object_index/object_ids", "0/object_attributes"] {
        let array = create_at(&place.join(name).unwrap(), &table(9));
        array.write(.., &[1i64, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap();
    }
    place
}

fn contents(place: &Location) -> Vec<(String, Elements)> {
    let tables = ["0/object_index/object_ids", "0/object_attributes"];
    let names = CELLS.iter().chain(&tables);
    names.map(|name| (name.to_string(), elements(&place.join(name).unwrap()))).collect()
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
    let old = contents(&place);
    let tables = tree(&root.join("0/object_index"));
    for packing in [vec![2], vec![2, 2, 4]] {
        let told = repack(&place, None, &by(&packing)).unwrap();
        assert_eq!(outcomes(&told, RepackOutcome::Done), CELLS);
        assert_eq!(
            outcomes(&told, RepackOutcome::Kept),
            ["0/object_attributes", "0/object_index/object_ids"]
        );
        assert_eq!(tree(&root.join("0/object_index")), tables);
        assert_eq!(contents(&place), old);
        let again = repack(&place, None, &by(&packing)).unwrap();
        assert_eq!(outcomes(&again, RepackOutcome::Unchanged), CELLS);
    }
    // Codecs and attributes are what they were.
    let document = document(&root, "0/vertices");
    let inner = &document["codecs"][0]["configuration"];
    assert_eq!(inner["codecs"], cells(&[1])["codecs"]);
    assert_eq!(inner["chunk_shape"], json!([1, 1, 1]));
    assert_eq!(document["attributes"], cells(&[1])["attributes"]);
    // Their contents mean nothing as geometry.
    for name in CELLS {
        assert_eq!(check_at(&place.join(name).unwrap(), true).0.damage, 0, "{name}");
    }

    repack(&place, None, &RepackOptions::new().packing(Packing::Unsharded)).unwrap();
    assert_eq!(contents(&place), old);
    let array = ArrayNode::open(&engine(), &place.join("0/vertices").unwrap()).unwrap();
    assert_eq!(array.shard_shape(), None);
}

#[test]
fn tables_are_packed_on_request() {
    let folder = folder();
    let (root, target) = (folder.path().join("a"), folder.path().join("b"));
    let place = store(&root, &[3, 4, 5]);
    let old = contents(&place);
    let told = repack(&place, Some(&at(&target)), &by(&[1, 2, 2])).unwrap();
    let shard = |told: &[RepackedArray], name: &str| {
        told.iter().find(|array| array.path == name).unwrap().shard_shape.clone()
    };
    assert_eq!(shard(&told, "0/object_attributes"), None);
    assert_eq!(contents(&at(&target)), old);

    let told = repack(&place, None, &by(&[1, 2, 2]).objects(true)).unwrap();
    assert_eq!(outcomes(&told, RepackOutcome::Kept), [""; 0]);
    // As many chunks as those of the others have: four, of two rows each.
    assert_eq!(shard(&told, "0/object_attributes"), Some(vec![8]));
    assert_eq!(shard(&told, "0/vertices"), Some(vec![1, 2, 2]));
    assert_eq!(contents(&place), old);
}

#[test]
fn an_axis_of_attributes_is_not_packed_unless_it_is_named() {
    let folder = folder();
    let place = store(&folder.path().join("s"), &[2, 3, 4, 5]);
    let old = contents(&place);
    let told = repack(&place, None, &by(&[2, 2, 4])).unwrap();
    let vertices = told.iter().find(|array| array.path == "0/vertices").unwrap();
    assert_eq!(vertices.shard_shape, Some(vec![1, 2, 2, 4]));
    assert_eq!(contents(&place), old);
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
    assert_eq!(
        outcomes(&told, RepackOutcome::Kept),
        ["v/0/object_attributes", "v/0/object_index/object_ids"]
    );
    assert!(outcomes(&told, RepackOutcome::Done).contains(&"plain"));
    let told = repack(&place.join("0").unwrap(), None, &by(&[4])).unwrap();
    assert_eq!(outcomes(&told, RepackOutcome::Kept).len(), 2);
    assert_eq!(outcomes(&told, RepackOutcome::Done).len(), 4);
}
