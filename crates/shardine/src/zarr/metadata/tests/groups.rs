use super::*;

fn with_nodes(nodes: Value) -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "group",
        "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": nodes},
    })
}

#[test]
fn a_group_has_attributes_and_perhaps_nothing_else() {
    let json = json!({"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}});
    let read = group(&json);
    assert_eq!(read.attributes()["a"], 1);
    assert_eq!(read.consolidated(), None);
    assert_eq!(read, GroupMetadata::new(read.attributes().clone()));
    refuses(&json!({"zarr_format": 3, "node_type": "group", "shape": [1]}), "shape is unknown");
    refuses(&json!({"zarr_format": 3, "node_type": "group", "attributes": 1}), "attributes");
}

#[test]
fn consolidated_metadata_holds_the_nodes_in_order_and_the_bad_ones_apart() {
    let bad = with("/codecs", json!([]));
    let inner = with_nodes(json!({"z": document()}));
    let json = with_nodes(json!({"b/c": document(), "a": inner, "bad": bad, "n": 5}));
    let read = group(&json);
    let entries = read.consolidated().unwrap();
    let paths: Vec<_> = entries.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["b/c", "a", "bad", "n"]);
    assert_eq!(entries[0].1, Ok(NodeMetadata::Array(array(&document()))));
    assert!(matches!(&entries[1].1, Ok(NodeMetadata::Group(a)) if a.consolidated().is_some()));
    assert!(entries[2].1.is_err() && entries[3].1.is_err());
    assert_eq!(read.to_json(), json);
}

#[test]
fn a_path_that_leaves_the_group_is_refused() {
    for path in ["..", "a/../b", "/a", "a/", "", "a//b", ".", "zarr.json", "__x", "a/.../b"] {
        let read = group(&with_nodes(json!({path: document()})));
        assert!(read.consolidated().unwrap()[0].1.is_err(), "{path}");
    }
    for name in ["a", "a.b", ".a", "_a", "é"] {
        assert_eq!(check_node_name(name), Ok(()));
    }
    assert!(check_node_name("a/b").is_err());
}

#[test]
fn consolidated_metadata_of_an_unknown_kind_is_passed_over_only_if_it_may_be() {
    let of = |value: Value| json!({"zarr_format": 3, "node_type": "group", "consolidated_metadata": value});
    assert_eq!(group(&of(Value::Null)).consolidated(), None);
    let elsewhere = of(json!({"kind": "elsewhere", "must_understand": false}));
    assert_eq!(group(&elsewhere).consolidated(), None);
    assert_eq!(group(&elsewhere).to_json(), elsewhere);
    refuses(&of(json!({"kind": "elsewhere"})), "consolidated_metadata.kind");
    refuses(&of(json!({"kind": "inline"})), "consolidated_metadata.metadata");
    refuses(&of(json!(5)), "consolidated_metadata: must be an object");
}

#[test]
fn huge_elements_in_many_nodes_do_not_add_up() {
    let mut node = document();
    node["data_type"] =
        json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": 16 << 20}});
    node["fill_value"] = json!("");
    let nodes: Map<_, _> = (0..20).map(|i| (i.to_string(), node.clone())).collect();
    let read = group(&with_nodes(Value::Object(nodes)));
    let good = read.consolidated().unwrap().iter().filter(|(_, node)| node.is_ok()).count();
    assert_eq!(good, 17);
}

#[test]
fn removing_the_copy_leaves_the_group() {
    let mut read = group(&with_nodes(json!({"a": document()})));
    read.remove_consolidated();
    assert_eq!(read.to_json(), json!({"zarr_format": 3, "node_type": "group"}));
    assert_eq!(read.consolidated(), None);
}

#[test]
fn what_zarr_python_writes_is_read_and_kept() {
    let text = include_str!("../../../../../../tests/golden/metadata/zarr_python.json");
    let Ok(NodeMetadata::Group(read)) = NodeMetadata::parse(text.as_bytes()) else {
        panic!("{:?}", NodeMetadata::parse(text.as_bytes()));
    };
    // The same text, except for two spellings of the same values.
    let expected = text.replace("1e-07", "1e-7").replace("\\u00e9", "é");
    assert_eq!(String::from_utf8(read.to_bytes()).unwrap(), expected);
    let entries = read.consolidated().unwrap();
    assert!(entries.len() >= 4);
    assert!(entries.iter().all(|(_, node)| node.is_ok()));
    let shards = entries.iter().find(|(path, _)| path == "sub/a").unwrap();
    let Ok(NodeMetadata::Array(shards)) = &shards.1 else { panic!("{shards:?}") };
    assert_eq!(shards.codecs()[0].name, "sharding_indexed");
    let inner = codec_specs_from_json(&shards.codecs()[0].configuration["codecs"]).unwrap();
    assert_eq!(inner[1].name, "zstd");
}
