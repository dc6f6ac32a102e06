//! Folders of precomputed meshes, skeletons, annotations and properties.

use serde_json::{Value, json};

use crate::support::Folder;

fn sharding(shard_bits: u32) -> Value {
    json!({
        "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 0, "hash": "identity",
        "minishard_bits": 1, "shard_bits": shard_bits,
        "minishard_index_encoding": "gzip", "data_encoding": "gzip",
    })
}

fn info(folder: &Folder, name: &str, document: &Value) {
    std::fs::create_dir_all(folder.path(name)).unwrap();
    folder.put(&format!("{name}/info"), document.to_string().as_bytes());
}

/// A folder `skeletons` of three keys in two shards.
fn skeletons(name: &str) -> Folder {
    let folder = Folder::new();
    info(
        &folder,
        name,
        &json!({ "@type": "neuroglancer_skeletons", "transform": [1], "sharding": sharding(1) }),
    );
    folder.put("value", b"some value");
    folder.ok(&["kv", "put", name, "0=value", "1=value", "2=value"]);
    folder
}

#[test]
fn info_of_sharded_skeletons_tells_shards_bytes_and_keys() {
    let folder = skeletons("s");
    let bytes: u64 = ["s/0.shard", "s/1.shard"]
        .iter()
        .map(|name| folder.path(name).metadata().map_or(0, |metadata| metadata.len()))
        .sum();
    let text = folder.text(&["info", "s"]);
    for line in [
        "folder       s",
        "format       Neuroglancer precomputed, skeletons",
        "type         neuroglancer_skeletons",
        "sharding     identity, preshift 0 + minishard 1 + shard 1 bits, data gzip, index gzip",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
    }
    assert!(text.contains(", 3 keys"), "{text}");
    let info = folder.json(&["info", "s", "--json"]);
    assert_eq!((&info["kind"], &info["format"]), (&json!("values"), &json!("precomputed")));
    assert_eq!(
        (&info["type"], &info["content"]),
        (&json!("neuroglancer_skeletons"), &json!("skeletons"))
    );
    let part = &info["parts"][0];
    assert_eq!(part["sharding"]["shard_bits"], 1);
    assert_eq!((&part["stored"]["keys"], &part["stored"]["bytes"]), (&json!(3), &json!(bytes)));
    let fast = folder.json(&["info", "s", "--fast", "--json"]);
    assert_eq!(fast["parts"][0]["stored"], Value::Null);
}

#[test]
fn a_damaged_shard_does_not_hide_the_others() {
    let folder = skeletons("s");
    let shards: Vec<String> = std::fs::read_dir(folder.path("s"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".shard"))
        .collect();
    assert_eq!(shards.len(), 2);
    folder.put(&format!("s/{}", shards[0]), b"short");
    let info = folder.json(&["info", "s", "--json"]);
    let stored = &info["parts"][0]["stored"];
    assert_eq!((&stored["objects"], &stored["damaged_shards"]), (&json!(2), &json!(1)));
    assert!(stored["keys"].as_u64().unwrap() > 0, "{info}");
    assert!(folder.text(&["info", "s"]).contains("1 damaged shard"));
}

#[test]
fn info_of_meshes_without_shards_counts_their_manifests() {
    let folder = Folder::new();
    info(&folder, "m", &json!({ "@type": "neuroglancer_multilod_draco" }));
    for name in ["7", "7.index", "8", "8.index", "x.index"] {
        folder.put(&format!("m/{name}"), b"12345");
    }
    let info_json = folder.json(&["info", "m", "--json"]);
    assert_eq!(info_json["content"], "multi-resolution meshes");
    let stored = &info_json["parts"][0]["stored"];
    assert_eq!((&stored["objects"], &stored["bytes"]), (&json!(5), &json!(25)));
    assert_eq!((&stored["keys"], &info_json["parts"][0]["sharding"]), (&json!(2), &Value::Null));
    info(&folder, "l", &json!({ "@type": "neuroglancer_legacy_mesh" }));
    for name in ["7:0", "7:0:0-1_0-1_0-1", "8:0.gz"] {
        folder.put(&format!("l/{name}"), b"123");
    }
    let text = folder.text(&["info", "l"]);
    assert!(text.contains("single-resolution meshes") && text.contains("3 objects"), "{text}");
    assert!(
        text.contains("2 keys") && text.contains("none: each value is its own object"),
        "{text}"
    );
}

#[test]
fn info_of_annotations_tells_of_each_index() {
    let folder = Folder::new();
    info(
        &folder,
        "n",
        &json!({
            "@type": "neuroglancer_annotations_v1", "annotation_type": "POINT",
            "by_id": { "key": "by_id", "sharding": sharding(0) },
            "relationships": [{ "id": "segment", "key": "rel_segment" }],
            "spatial": [{ "key": "spatial0", "grid_shape": [1, 1, 1] }],
        }),
    );
    folder.put("value", b"annotation");
    folder.ok(&["kv", "put", "n/by_id", "5=value", "6=value"]);
    for name in ["n/rel_segment", "n/spatial0"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    folder.put("n/rel_segment/11", b"abc");
    folder.put("n/spatial0/0_0_0", b"abcd");
    let text = folder.text(&["info", "n"]);
    assert!(text.contains("annotations  point"), "{text}");
    let info = folder.json(&["info", "n", "--json"]);
    let part = |name: &str| {
        let parts = info["parts"].as_array().unwrap();
        parts.iter().find(|part| part["name"] == name).unwrap()["stored"].clone()
    };
    assert_eq!((&part("by_id")["objects"], &part("by_id")["keys"]), (&json!(1), &json!(2)));
    assert_eq!(part("relationships/0")["keys"], 1);
    assert_eq!(
        (&part("spatial/0")["bytes"], &part("spatial/0")["keys"]),
        (&json!(4), &Value::Null)
    );
}

#[test]
fn the_folders_that_a_volume_names_are_told_with_it() {
    let folder = skeletons("v/skeletons");
    let volume = json!({
        "@type": "neuroglancer_multiscale_volume", "type": "segmentation", "data_type": "uint64",
        "num_channels": 1, "mesh": "mesh", "skeletons": "skeletons",
        "segment_properties": "props",
        "scales": [{
            "key": "1", "size": [4, 4, 4], "resolution": [1, 1, 1], "voxel_offset": [0, 0, 0],
            "chunk_sizes": [[4, 4, 4]], "encoding": "raw",
        }],
    });
    info(&folder, "v", &volume);
    std::fs::create_dir(folder.path("v/mesh")).unwrap();
    folder.put("v/mesh/7:0", b"{}");
    let text = folder.text(&["info", "v"]);
    assert!(text.contains("mesh in mesh: single-resolution meshes"), "{text}");
    assert!(text.contains("skeletons in skeletons: skeletons; sharded, 2 shards"), "{text}");
    assert!(text.contains("segment properties in props: cannot be read"), "{text}");
    let properties = json!({
        "@type": "neuroglancer_segment_properties",
        "inline": { "ids": ["1", "2"], "properties": [] },
    });
    info(&folder, "v/props", &properties);
    let told = folder.json(&["info", "v", "--json"]);
    let beside = told["beside"].as_array().unwrap();
    let members: Vec<&Value> = beside.iter().map(|folder| &folder["member"]).collect();
    assert_eq!(members, ["mesh", "skeletons", "segment_properties"]);
    assert_eq!(beside[1]["parts"][0]["stored"]["keys"], 3);
    assert_eq!(beside[2]["segments"], 2);
    let text = folder.text(&["info", "v/props"]);
    assert!(text.contains("segments     2, in info itself"), "{text}");
}

#[test]
fn an_unknown_encoding_of_a_volume_is_told_and_hides_no_chunk() {
    let folder = Folder::new();
    let volume = json!({
        "@type": "neuroglancer_multiscale_volume", "type": "image", "data_type": "uint8",
        "num_channels": 1,
        "scales": [{
            "key": "1", "size": [4, 4, 4], "resolution": [1, 1, 1], "voxel_offset": [0, 0, 0],
            "chunk_sizes": [[4, 4, 4]], "encoding": "kempressed",
        }],
    });
    info(&folder, "v", &volume);
    std::fs::create_dir(folder.path("v/1")).unwrap();
    folder.put("v/1/0-4_0-4_0-4", b"bytes");
    let text = folder.text(&["info", "v"]);
    let told = text.lines().find(|line| line.starts_with("unsupported")).unwrap();
    assert!(told.contains("kempressed") && told.contains("copied"), "{text}");
    assert!(text.contains("1 of 1 chunk in 1 object"), "{text}");
    let level = &folder.json(&["info", "v", "--json"])["levels"][0];
    assert_eq!(
        (level["unsupported"].as_array().unwrap().len(), &level["stored"]["chunks"]),
        (1, &json!(1))
    );
    assert!(folder.refused(&["read", "v"]).contains("kempressed"));
    folder.ok(&["copy", "v", "w"]);
}

#[test]
fn an_info_of_something_else_is_refused_as_before() {
    let folder = Folder::new();
    info(&folder, "x", &json!({ "name": "some other document" }));
    let errors = folder.refused(&["info", "x"]);
    assert!(errors.contains("info"), "{errors}");
}
