//! Documents of Zarr Vectors: those of zarr-vectors come back as they were.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

use serde_json::{Map, Value, json};
use shardine_geometry::GeometryKind;
use shardine_geometry::zarr_vectors::{
    AttributeDocument, Convention, GridDocument, Level, LinkFamily, ObjectIndex, Root, Scalar,
    chunk_key, chunk_of, kind_from_name, kind_name, parse_chunk_key,
};

const NAMES: [&str; 8] =
    ["points", "point_objects", "point_genes", "lines", "polylines", "graph", "skeleton", "mesh"];

fn documents(name: &str) -> Map<String, Value> {
    let path =
        format!("{}/../../tests/golden/zarr-vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    all["store"].as_object().unwrap().clone()
}

fn attributes(document: &Value) -> &Map<String, Value> {
    document["attributes"].as_object().unwrap()
}

/// The same document, whatever the order of its members.
fn same(a: &Map<String, Value>, b: &Map<String, Value>) {
    assert_eq!(a, b);
}

#[test]
fn the_root_and_levels_are_written_as_zarr_vectors_writes_them() {
    for name in NAMES {
        let documents = documents(name);
        let root_attributes = attributes(&documents["zarr.json"]);
        let root = Root::read(root_attributes).unwrap();
        let axes: Vec<String> = root.axes.iter().map(|axis| axis.name.clone()).collect();
        let level_attributes = attributes(&documents["0/zarr.json"]);
        let level = Level::read(level_attributes, 0, axes.len()).unwrap();
        same(&level.write(&axes), level_attributes);
        // What this version always writes the same is not kept apart.
        let mut known = root.clone();
        known.others.clear();
        same(&known.write(name, std::slice::from_ref(&level)), root_attributes);
    }
}

#[test]
fn members_that_nobody_knows_survive() {
    let documents = documents("points");
    let mut given = attributes(&documents["zarr.json"]).clone();
    given["zarr_vectors"]["mood"] = json!({"today": "good"});
    let root = Root::read(&given).unwrap();
    assert_eq!(root.write("points", &[])["zarr_vectors"]["mood"], json!({"today": "good"}));
    let mut given = attributes(&documents["0/zarr.json"]).clone();
    given["zarr_vectors_level"]["mood"] = json!(7);
    let level = Level::read(&given, 0, 3).unwrap();
    assert_eq!(level.write(&[])["zarr_vectors_level"]["mood"], json!(7));
}

#[test]
fn families_and_indexes_are_written_as_zarr_vectors_writes_them() {
    let documents = documents("graph");
    let family = attributes(&documents["0/links/0/zarr.json"]);
    same(&LinkFamily::read(family, 0, 3).write(), family);
    let index = attributes(&documents["0/object_index/zarr.json"]);
    same(&ObjectIndex::read(index, 3).unwrap().write(), index);
    assert!(ObjectIndex::read(index, 4).is_err());
}

#[test]
fn grids_list_chunks_in_the_order_of_their_names() {
    let documents = documents("points");
    let given = attributes(&documents["0/vertices/zarr.json"]);
    let grid = GridDocument::read(given, 3).unwrap();
    assert_eq!(grid.origin.to_vec(), [-2, -2, -2]);
    let mut written = Map::new();
    grid.write(&mut written);
    assert_eq!(written["nonempty_chunks"], given["nonempty_chunks"]);
    assert_eq!(written["chunk_grid_origin"], given["chunk_grid_origin"]);
    let first = grid.nonempty.as_ref().unwrap()[0].clone();
    let cell = grid.cell(&first, &[5, 5, 5]).unwrap();
    assert_eq!(grid.chunk(&cell).unwrap(), first);
    assert_eq!(grid.cell(&[-3, 0, 0], &[5, 5, 5]), None);
    assert_eq!(grid.cell(&[3, 0, 0], &[5, 5, 5]), None);
    assert_eq!(grid.cell(&[i64::MAX, i64::MIN, 0], &[5, 5, 5]), None);
    for wrong in
        [json!(["1.2"]), json!(["1.2.3", "1.2.3"]), json!([7]), json!("1.2.3"), json!(["1..3"])]
    {
        let mut attributes = Map::new();
        attributes.insert("nonempty_chunks".into(), wrong.clone());
        assert!(GridDocument::read(&attributes, 3).is_err(), "{wrong}");
    }
    assert_eq!(parse_chunk_key("-1.0.30", 3).unwrap().to_vec(), [-1, 0, 30]);
    assert_eq!(chunk_key(&[-1, 0, 30]), "-1.0.30");
    for wrong in ["", "1.2", "1.2.3.4", "+1.2.3", "1.2.x", "1.2.--3", "99999999999999999999.0.0"] {
        assert_eq!(parse_chunk_key(wrong, 3), None, "{wrong}");
    }
}

#[test]
fn a_position_belongs_to_the_chunk_below_it() {
    let chunk = |x: f64| chunk_of([x], &[50.0]).map(|chunk| chunk[0]);
    assert_eq!(chunk(0.0), Some(0));
    assert_eq!(chunk(49.9), Some(0));
    assert_eq!(chunk(50.0), Some(1));
    assert_eq!(chunk(-0.1), Some(-1));
    assert_eq!(chunk(-50.0), Some(-1));
    assert_eq!(chunk(f64::NAN), None);
    assert_eq!(chunk(f64::INFINITY), None);
    assert_eq!(chunk(1e300), None);
}

#[test]
fn kinds_and_types_have_the_names_of_the_format() {
    for name in ["point_cloud", "line", "polyline", "streamline", "skeleton", "graph", "mesh"] {
        assert_eq!(kind_name(kind_from_name(name).unwrap()), Some(name));
    }
    assert_eq!(kind_from_name("blob"), None);
    assert_eq!(kind_name(GeometryKind::Parametric), None);
    for (name, scalar) in
        [("float32", Scalar::Float32), ("<f4", Scalar::Float32), ("|b1", Scalar::Bool)]
    {
        assert_eq!(Scalar::parse(name), Some(scalar));
    }
    assert_eq!(Scalar::parse(">f4"), None);
    assert_eq!(Scalar::parse("object"), None);
    assert_eq!(Scalar::Int16.integer(&[0xfe, 0xff]), Some(-2));
    assert_eq!(Scalar::Uint64.integer(&[0xff; 8]), None);
    assert_eq!(Scalar::Int8.number(&[0x80]), -128.0);
}

#[test]
fn attributes_say_how_wide_their_rows_are_as_far_as_they_know() {
    let documents = documents("points");
    let read = |name: &str| {
        let path = format!("0/vertex_attributes/{name}/zarr.json");
        AttributeDocument::read(attributes(&documents[&path])).unwrap()
    };
    assert_eq!((read("rgb").scalar, read("rgb").width), (Scalar::Uint8, Some(3)));
    assert_eq!((read("ok").scalar, read("ok").width), (Scalar::Bool, None));
    assert_eq!(read("rgb").channels, ["ch0", "ch1", "ch2"]);
    let refused = |text: Value| AttributeDocument::read(text.as_object().unwrap()).is_err();
    assert!(refused(json!({"dtype": "complex64"})));
    assert!(refused(json!({"dtype": "uint8", "row_shape": [0]})));
    assert!(refused(json!({"dtype": "uint8", "row_shape": [u64::MAX, 16]})));
    assert!(refused(json!({"dtype": "uint8", "encoding": "dictionary"})));
    assert!(refused(json!({"dtype": "float32", "encoding": "dictionary", "categories": []})));
}

#[test]
fn a_root_that_cannot_be_meant_is_refused_with_its_member() {
    let documents = documents("points");
    let given = attributes(&documents["zarr.json"]).clone();
    let refused = |member: &str, value: Value| {
        let mut given = given.clone();
        given["zarr_vectors"][member] = value;
        Root::read(&given).unwrap_err().to_string()
    };
    assert_eq!(
        refused("chunk_shape", json!([1, 2])),
        "zarr_vectors.chunk_shape: must be 3 numbers, one for each axis"
    );
    assert!(refused("chunk_shape", json!([1, 0, 1])).contains("must be above 0"));
    assert!(refused("chunk_shape", Value::Null).contains("is missing"));
    assert!(refused("bounds", json!([[1, 2, 3]])).contains("two corners"));
    assert!(refused("links_convention", json!("psychic")).contains("is unknown"));
    assert!(refused("geometry_types", json!("mesh")).contains("list of words"));
    assert!(refused("zv_version", json!("0.8.1")).contains("only versions 0.9.x"));
    let mut without = given.clone();
    without.remove("multiscales");
    let error = Root::read(&without).unwrap_err().to_string();
    assert_eq!(error, "multiscales[0].axes: is missing");
    let mut twins = given.clone();
    twins["multiscales"][0]["axes"][1]["name"] = json!("x");
    assert!(Root::read(&twins).unwrap_err().to_string().contains("two are called"));
    assert_eq!(Root::read(&given).unwrap().convention, Convention::Sequential);
}
