//! Arrays that name a codec or a data type which is not known here.

use serde_json::{Value, json};

use crate::support::Folder;

/// Changes a document of metadata.
fn edit(folder: &Folder, name: &str, change: impl FnOnce(&mut Value)) {
    let mut document = folder.document(name);
    change(&mut document);
    folder.put(name, document.to_string().as_bytes());
}

/// A sharded array `a` of 8 x 8 with two chunks stored, each in a shard.
fn sharded() -> Folder {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "8,8", "--dtype", "uint8", "--chunk", "2,2", "--shard", "4,4",
        "--codec", "zstd:3", "--dims", "y,x",
    ]);
    folder.put("in.raw", &[1; 4]);
    folder.ok(&["write", "a", "--region", "0:2,2:4", "in.raw"]);
    folder.ok(&["write", "a", "--region", "6:8,6:8", "in.raw"]);
    folder.ok(&["attrs", "set", "a", "made_by=us"]);
    folder
}

fn unknown_codec(document: &mut Value) {
    document["codecs"][0]["configuration"]["codecs"][1] = json!({ "name": "acme.squeeze" });
}

const CODEC: &str = "codec \"acme.squeeze\" is not supported: the array can be copied and its \
                     metadata read, but not its elements";

#[test]
fn an_array_with_an_unknown_codec_is_described_listed_and_copied() {
    let folder = sharded();
    let chunks = folder.text(&["ls", "a", "--chunks"]);
    let shards = folder.text(&["ls", "a", "--shards"]);
    edit(&folder, "a/zarr.json", unknown_codec);
    let text = folder.text(&["info", "a"]);
    for line in [
        "array        a",
        "format       Zarr v3, sharded",
        &format!("unsupported  {CODEC}"),
        "shape        8 x 8",
        "type         uint8",
        "chunk        2 x 2",
        "shard        4 x 4, 4 chunks (2 x 2)",
        "codecs       bytes -> acme.squeeze",
        "index        at the end, bytes -> crc32c",
        "stored       2 of 4 shards, 2 of 16 chunks",
        "attributes   1: made_by",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
    }
    let info = folder.json(&["info", "a", "--json"]);
    assert_eq!((&info["kind"], &info["format"]), (&json!("array"), &json!("zarr3")));
    assert_eq!((&info["shape"], &info["dtype"]), (&json!([8, 8]), &json!("uint8")));
    assert_eq!(info["chunk_shape"], json!([2, 2]));
    assert_eq!((&info["shard_shape"], &info["chunks_per_shard"]), (&json!([4, 4]), &json!([2, 2])));
    assert_eq!((&info["stored"]["objects"], &info["stored"]["chunks"]), (&json!(2), &json!(2)));
    assert_eq!(info["message"], CODEC);
    let unsupported = info["unsupported"].as_array().unwrap();
    assert_eq!(unsupported.len(), 1);
    assert_eq!(
        (&unsupported[0]["kind"], &unsupported[0]["name"], &unsupported[0]["member"]),
        (&json!("codec"), &json!("acme.squeeze"), &json!("codecs[0].configuration.codecs[1]"))
    );
    assert_eq!(folder.text(&["ls", "a", "--chunks"]), chunks);
    assert_eq!(folder.text(&["ls", "a", "--shards"]), shards);
    assert_eq!(folder.text(&["ls", "a"]).lines().count(), 3);
    assert_eq!(folder.json(&["attrs", "get", "a"]), json!({ "made_by": "us" }));
    folder.ok(&["attrs", "set", "a", "more=1"]);
    folder.ok(&["copy", "a", "b", "--verify", "content"]);
    assert_eq!(folder.get("b/zarr.json"), folder.get("a/zarr.json"));
    assert_eq!(folder.get("b/c/0/0"), folder.get("a/c/0/0"));
}

#[test]
fn elements_behind_an_unknown_codec_are_refused_with_what_is_missing() {
    let folder = sharded();
    edit(&folder, "a/zarr.json", unknown_codec);
    folder.put("in.npy", b"");
    for verb in [
        &["read", "a"][..],
        // Nothing is stored there, so nothing would have to be decoded.
        &["read", "a", "--region", "0:1,0:1"],
        &["read", "a", "-o", "x.npy"],
        &["write", "a", "in.raw"],
        &["bench", "a"],
        &["plan", "a"],
    ] {
        let errors = folder.refused(verb);
        assert!(errors.contains(CODEC), "{verb:?}: {errors}");
        assert!(errors.contains("shardine info"), "{verb:?}: {errors}");
    }
    for verb in [&["unshard", "a"][..], &["compact", "a"], &["convert", "a", "b"]] {
        let errors = folder.refused(verb);
        assert!(errors.contains("acme.squeeze"), "{verb:?}: {errors}");
    }
    assert!(!folder.exists("b") && !folder.exists("x.npy"));
}

#[test]
fn an_unknown_data_type_hides_only_the_elements() {
    let folder = sharded();
    edit(&folder, "a/zarr.json", |document| {
        document["data_type"] = json!({ "name": "acme.money", "configuration": { "digits": 3 } });
        document["fill_value"] = json!({ "amount": 0 });
    });
    let text = folder.text(&["info", "a"]);
    assert!(text.contains("data type \"acme.money\" is not supported"), "{text}");
    assert!(text.contains("fill value   {\"amount\":0}"), "{text}");
    assert!(text.contains("stored       2 of 4 shards, 2 of 16 chunks"), "{text}");
    let info = folder.json(&["info", "a", "--json"]);
    assert_eq!(info["dtype"]["name"], "acme.money");
    assert_eq!(info["unsupported"][0]["kind"], "data type");
    assert_eq!(folder.text(&["ls", "a", "--chunks"]).lines().count(), 3);
    let errors = folder.refused(&["read", "a"]);
    assert!(errors.contains("acme.money"), "{errors}");
}

#[test]
fn a_codec_around_shards_hides_their_indexes_and_no_more() {
    let folder = sharded();
    edit(&folder, "a/zarr.json", |document| {
        let codecs = document["codecs"].as_array_mut().unwrap();
        codecs.push(json!({ "name": "acme.wrap", "configuration": {} }));
    });
    let text = folder.text(&["info", "a"]);
    assert!(text.contains("codec \"acme.wrap\" is not supported"), "{text}");
    assert!(text.contains("stored       2 of 4"), "{text}");
    assert_eq!(folder.text(&["ls", "a"]).lines().count(), 3);
    folder.refused(&["ls", "a", "--shards"]);
}

#[test]
fn what_is_not_known_of_the_grid_is_shown_as_it_stands() {
    let folder = sharded();
    let grid = json!({ "name": "rectilinear", "configuration": { "kind": "inline" } });
    edit(&folder, "a/zarr.json", |document| document["chunk_grid"] = grid.clone());
    let text = folder.text(&["info", "a"]);
    assert!(text.contains("chunk grid \"rectilinear\" is not supported"), "{text}");
    assert!(text.contains("shape        8 x 8"), "{text}");
    let info = folder.json(&["info", "a", "--json"]);
    assert_eq!((&info["chunk_grid"], &info["chunk_shape"]), (&grid, &Value::Null));
    let errors = folder.refused(&["ls", "a"]);
    assert!(errors.contains("rectilinear"), "{errors}");
}

#[test]
fn verify_checks_the_indexes_of_an_array_whose_codec_it_does_not_know() {
    let folder = sharded();
    edit(&folder, "a/zarr.json", unknown_codec);
    for verb in [&["verify", "a", "--json"][..], &["verify", "a", "--decode", "--json"]] {
        let report = folder.json(verb);
        let findings = report["findings"].as_array().unwrap();
        assert_eq!((&report["ok"], findings.len()), (&json!(true), 1), "{report}");
        assert_eq!(findings[0]["kind"], "not-checked");
        assert_eq!(findings[0]["object"], "zarr.json");
        assert_eq!(findings[0]["message"], CODEC);
    }
    let mut shard = folder.get("a/c/0/0");
    *shard.last_mut().unwrap() ^= 1;
    folder.put("a/c/0/0", &shard);
    let output = folder.run(&["verify", "a", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["kind"] == "index"), "{report}");
}

#[test]
fn an_unknown_array_in_a_group_does_not_hide_the_others() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("g")).unwrap();
    folder.put("g/zarr.json", br#"{"zarr_format": 3, "node_type": "group"}"#);
    for name in ["g/a", "g/b"] {
        folder.ok(&["create", name, "--shape", "4", "--dtype", "uint8", "--codec", "zstd:3"]);
    }
    edit(&folder, "g/a/zarr.json", |document| {
        document["data_type"] = json!("acme.money");
    });
    let text = folder.text(&["info", "g"]);
    assert!(text.contains("acme.money") && text.contains("array, 4 uint8"), "{text}");
    let text = folder.text(&["ls", "g"]);
    assert!(text.contains("acme.money") && text.contains("array, 4 uint8"), "{text}");
    folder.ok(&["copy", "g", "h"]);
    folder.ok(&["verify", "g", "--decode"]);
}

#[test]
fn repair_leaves_damage_of_an_unknown_array_and_repairs_that_of_the_others() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("g")).unwrap();
    folder.put("g/zarr.json", br#"{"zarr_format": 3, "node_type": "group"}"#);
    for name in ["g/a", "g/b"] {
        let create = ["create", name, "--shape", "4", "--dtype", "uint8", "--chunk", "2"];
        folder.ok(&[&create[..], &["--shard", "4", "--codec", "zstd:3"]].concat());
        folder.put("in.raw", &[1; 4]);
        folder.ok(&["write", name, "in.raw"]);
        let object = format!("{name}/c/0");
        let mut shard = folder.get(&object);
        *shard.last_mut().unwrap() ^= 1;
        folder.put(&object, &shard);
    }
    edit(&folder, "g/a/zarr.json", unknown_codec);
    let before = folder.get("g/a/c/0");
    let output = folder.run(&["repair", "g", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["summary"]["left"], 1, "{report}");
    assert_eq!(folder.get("g/a/c/0"), before);
    folder.ok(&["info", "g/b"]);
    assert_ne!(folder.run(&["verify", "g/a"]).status.code(), Some(0));
}

#[test]
fn an_unknown_compressor_of_version_2_hides_only_the_elements() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("a")).unwrap();
    let zarray = json!({
        "zarr_format": 2, "shape": [4, 4], "chunks": [2, 2], "dtype": "<u2", "fill_value": 0,
        "order": "C", "filters": null, "compressor": { "id": "acme" },
    });
    folder.put("a/.zarray", zarray.to_string().as_bytes());
    folder.put("a/.zattrs", br#"{"made_by": "us"}"#);
    folder.put("a/0.1", &[7; 9]);
    let text = folder.text(&["info", "a"]);
    assert!(text.contains("format       Zarr v2") && text.contains("\"acme\""), "{text}");
    assert!(text.contains("shape        4 x 4") && text.contains("type         <u2"), "{text}");
    assert!(text.contains("chunk        2 x 2") && text.contains("made_by"), "{text}");
    let info = folder.json(&["info", "a", "--json"]);
    assert_eq!((&info["format"], &info["dtype"]), (&json!("zarr2"), &json!("<u2")));
    assert_eq!(info["stored"]["objects"], 1);
    assert!(folder.text(&["ls", "a"]).contains("0.1"));
    let errors = folder.refused(&["read", "a"]);
    assert!(errors.contains("acme"), "{errors}");
    folder.ok(&["copy", "a", "b"]);
}

#[test]
fn a_document_that_is_wrong_is_still_refused() {
    let folder = sharded();
    edit(&folder, "a/zarr.json", |document| {
        unknown_codec(document);
        document["shape"] = json!([8]);
    });
    // The grid does not fit the shape, so nothing can be listed.
    folder.refused(&["ls", "a"]);
    edit(&folder, "a/zarr.json", |document| {
        document["shape"] = json!([8, 8]);
        document["fill_value"] = json!("nonsense");
    });
    let errors = folder.refused(&["info", "a"]);
    assert!(errors.contains("fill_value"), "{errors}");
}
