use serde_json::{Value, json};

use crate::support::Folder;

fn document(folder: &Folder, name: &str) -> Value {
    serde_json::from_slice(&folder.get(&format!("{name}/zarr.json"))).unwrap()
}

#[test]
fn the_defaults_are_what_the_help_says() {
    let folder = Folder::new();
    let text = folder.text(&["create", "a", "--shape", "1024,1024,1024", "--dtype", "uint16"]);
    assert_eq!(
        text,
        "created a: 1024 x 1024 x 1024 uint16, chunks 64 x 64 x 64 in shards 256 x 256 x 512\n"
    );
    let document = document(&folder, "a");
    assert_eq!(document["fill_value"], 0);
    assert_eq!(document["chunk_grid"]["configuration"]["chunk_shape"], json!([256, 256, 512]));
    assert_eq!(
        document["codecs"],
        json!([{ "name": "sharding_indexed", "configuration": {
            "chunk_shape": [64, 64, 64],
            "codecs": [
                { "name": "bytes", "configuration": { "endian": "little" } },
                { "name": "zstd", "configuration": { "level": 3, "checksum": false } },
            ],
            "index_codecs": [
                { "name": "bytes", "configuration": { "endian": "little" } },
                { "name": "crc32c" },
            ],
            "index_location": "end",
        } }])
    );
}

#[test]
fn every_option_reaches_the_metadata() {
    let folder = Folder::new();
    folder.ok(&[
        "create",
        "a",
        "--shape",
        "64,64",
        "--dtype",
        "uint8",
        "--chunk",
        "8,8",
        "--shard",
        "32,32",
        "--codec",
        "transpose:1,0",
        "--codec",
        "blosc:lz4:4:bitshuffle",
        "--codec",
        "crc32c",
        "--index",
        "start",
        "--fill",
        "7",
        "--dims",
        "y,",
        "--attributes",
        r#"{"unit": "nm"}"#,
        "--key-encoding",
        "v2",
        "--separator",
        "/",
    ]);
    let document = document(&folder, "a");
    assert_eq!(document["dimension_names"], json!(["y", null]));
    assert_eq!(document["attributes"], json!({ "unit": "nm" }));
    assert_eq!(document["fill_value"], 7);
    assert_eq!(
        document["chunk_key_encoding"],
        json!({ "name": "v2", "configuration": { "separator": "/" } })
    );
    let sharding = &document["codecs"][0]["configuration"];
    assert_eq!(sharding["index_location"], "start");
    let names: Vec<&str> = sharding["codecs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|codec| codec["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["transpose", "bytes", "blosc", "crc32c"]);
    let info = folder.json(&["info", "a", "--json"]);
    assert_eq!(info["chunk_codecs"], "transpose:1,0 -> bytes -> blosc:lz4:4:bitshuffle -> crc32c");
    folder.put("in.raw", &(0..4096).map(|i| i as u8).collect::<Vec<_>>());
    folder.ok(&["write", "a", "in.raw"]);
    assert!(folder.exists("a/1/1"));
    assert_eq!(folder.ok(&["read", "a", "-o", "-"]), folder.get("in.raw"));
}

#[test]
fn codecs_in_the_form_of_the_metadata() {
    let folder = Folder::new();
    folder.ok(&[
        "create",
        "a",
        "--shape",
        "64",
        "--dtype",
        "uint16",
        "--chunk",
        "8",
        "--shard",
        "none",
        "--codecs",
        r#"["bytes", {"name": "gzip", "configuration": {"level": 1}}]"#,
    ]);
    assert_eq!(folder.json(&["info", "a", "--json"])["shard_shape"], Value::Null);
    folder.ok(&[
        "create",
        "b",
        "--shape",
        "64",
        "--dtype",
        "uint16",
        "--chunk",
        "8",
        "--shard",
        "32",
        "--index-codecs",
        r#"[{"name": "bytes", "configuration": {"endian": "big"}}]"#,
    ]);
    assert_eq!(
        folder.json(&["info", "b", "--json"])["index"]["codecs"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn a_chunk_fits_the_shard_that_is_given() {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "500,500", "--dtype", "uint16", "--shard", "300,257"]);
    let info = folder.json(&["info", "a", "--json"]);
    assert_eq!(info["shard_shape"], json!([300, 257]));
    let errors = folder.refused(&[
        "create", "b", "--shape", "500,500", "--dtype", "uint16", "--shard", "300,250", "--chunk",
        "64,50",
    ]);
    assert!(errors.contains("hint: use --shard 320,250"), "{errors}");
    assert!(!folder.exists("b"));
}

#[test]
fn a_whole_document_is_kept_as_it_stands() {
    let folder = Folder::new();
    let document_text = r#"{
        "node_type": "array", "zarr_format": 3, "shape": [4], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": ["bytes"],
        "attributes": {"b": 1.50, "a": null},
        "extra": {"must_understand": false, "x": [1, 2]}
    }"#;
    folder.put("zarr.json", document_text.as_bytes());
    folder.ok(&["create", "a", "--metadata", "zarr.json"]);
    let given: Value = serde_json::from_str(document_text).unwrap();
    assert_eq!(document(&folder, "a"), given);
    let order: Vec<String> = document(&folder, "a").as_object().unwrap().keys().cloned().collect();
    assert_eq!(order[0], "node_type");
    folder.put("group.json", br#"{"zarr_format": 3, "node_type": "group"}"#);
    assert!(folder.refused(&["create", "b", "--metadata", "group.json"]).contains("group"));
    folder.put("bad.json", br#"{"zarr_format": 3, "node_type": "array"}"#);
    assert!(folder.refused(&["create", "b", "--metadata", "bad.json"]).contains("bad.json"));
    assert!(!folder.exists("b"));
}

#[test]
fn what_exists_is_replaced_only_when_told_to() {
    let folder = Folder::new();
    let create =
        ["create", "a", "--shape", "8", "--dtype", "uint8", "--chunk", "2", "--shard", "4"];
    folder.ok(&create);
    folder.put("in.raw", &[1; 8]);
    folder.ok(&["write", "a", "in.raw"]);
    let errors = folder.refused(&create);
    assert!(errors.contains("already exists") && errors.contains("--overwrite"), "{errors}");
    assert_eq!(folder.text(&["read", "a"]), "1 1 1 1 1 1 1 1\n");
    folder.ok(&[&create[..], &["--overwrite"]].concat());
    assert_eq!(folder.text(&["read", "a"]), "0 0 0 0 0 0 0 0\n");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let folder = Folder::new();
    let common = ["create", "a", "--shape", "8,8", "--dtype", "uint8"];
    for (more, message) in [
        (&["--chunk", "2"][..], "one length above 0 for each of the 2 axes"),
        (&["--chunk", "0,2"], "one length above 0"),
        (&["--codec", "lzma"], "--codec"),
        (&["--codec", "zstd:99"], "level"),
        (&["--codecs", "[]"], "codec"),
        (&["--codecs", "{"], "not valid JSON"),
        (&["--fill", "256"], "fill value"),
        (&["--fill", "x"], "fill value"),
        (&["--dims", "x"], "1 names"),
        (&["--attributes", "[]"], "not a JSON object"),
        (&["--separator", "-"], "separator"),
        (&["--shard", "none", "--index-codecs", "[\"bytes\"]"], "no index"),
        (&["--metadata", "x.json"], "cannot be used with"),
        (&["--memory", "1KiB"], "--memory"),
        (&["--memory", "lots"], "not a size"),
    ] {
        let errors = folder.refused(&[&common[..], more].concat());
        assert!(errors.contains(message), "{more:?}: {errors}");
        assert!(!folder.exists("a"), "{more:?}");
    }
    let errors = folder.refused(&["create", "a", "--shape", "8", "--dtype", "uint17"]);
    assert!(errors.contains("unknown data type") && errors.contains("uint17"), "{errors}");
}

#[test]
fn an_array_of_another_rank_takes_the_place_and_leaves_nothing_of_the_old_one() {
    let common = ["--dtype", "uint8", "--overwrite"];
    for key_encoding in ["default", "v2"] {
        let folder = Folder::new();
        let create = |shape: &[&str]| {
            let keys = ["--key-encoding", key_encoding, "--separator", "/"];
            folder.ok(&[&["create", "a"], shape, &common, &keys].concat());
        };
        folder.put("in.raw", &[1; 64]);
        create(&["--shape", "4,4,4", "--chunk", "2,2,2", "--shard", "none"]);
        folder.ok(&["write", "a", "in.raw"]);
        create(&["--shape", "8,8", "--chunk", "4,4", "--shard", "none"]);
        assert_eq!(std::fs::read_dir(folder.path("a")).unwrap().count(), 1);
        folder.ok(&["write", "a", "in.raw"]);
        assert_eq!(folder.json(&["info", "a", "--json"])["stored"]["objects"], 4);
        // And back: what were objects become folders.
        create(&["--shape", "4,4,4", "--chunk", "2,2,2", "--shard", "none"]);
        assert_eq!(folder.text(&["read", "a", "--region", "0,0"]), "0 0 0 0\n");
        folder.ok(&["write", "a", "in.raw"]);
        assert_eq!(folder.json(&["info", "a", "--json"])["stored"]["objects"], 8);
        // Another way to make keys, and no axes at all.
        folder.ok(&[&["create", "a", "--shape", "", "--key-encoding", "v2"], &common[..]].concat());
        assert_eq!(std::fs::read_dir(folder.path("a")).unwrap().count(), 1);
        assert_eq!(folder.text(&["read", "a"]), "0\n");
    }
}

#[test]
fn what_is_not_of_the_old_array_stays() {
    let folder = Folder::new();
    let create = ["create", "a", "--shape", "4,4", "--dtype", "uint8", "--overwrite"];
    folder.ok(&create);
    for name in ["a/notes", "a/c/0/mine", "a/c/x"] {
        std::fs::create_dir_all(folder.path(name)).unwrap();
    }
    folder.put("a/c/0/readme", b"precious");
    folder.ok(&create);
    assert!(["a/notes", "a/c/0/mine", "a/c/x"].iter().all(|name| folder.exists(name)));
    assert_eq!(folder.get("a/c/0/readme"), b"precious");
}

#[test]
fn a_group_in_the_way_is_named_and_not_offered_for_overwriting() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("g")).unwrap();
    folder.put("g/zarr.json", br#"{"zarr_format": 3, "node_type": "group"}"#);
    let create = ["create", "g", "--shape", "8", "--dtype", "uint8"];
    for more in [&[][..], &["--overwrite"]] {
        let errors = folder.refused(&[&create[..], more].concat());
        assert!(errors.contains("there is a group at"), "{errors}");
        assert!(errors.contains("remove the group first"), "{errors}");
        assert!(!errors.contains("already exists"), "{errors}");
        assert!(!errors.contains("--overwrite"), "{errors}");
    }
}

/// Where folders cannot be exchanged, a job that is killed between two renames leaves nothing at the name.
#[test]
fn nothing_is_created_where_a_killed_job_has_left_an_array_without_its_name() {
    let folder = Folder::new();
    let create = ["create", "a", "--shape", "4", "--dtype", "uint8", "--shard", "none"];
    folder.ok(&create);
    folder.put("in", &[1, 2, 3, 4]);
    folder.ok(&["write", "a", "in"]);
    let work = folder.path(".shardine-a.job");
    std::fs::create_dir(&work).unwrap();
    std::fs::rename(folder.path("a"), work.join("old")).unwrap();
    folder.ok(&["copy", ".shardine-a.job/old", ".shardine-a.job/new"]);
    let document = String::from_utf8(folder.get(".shardine-a.job/old/zarr.json")).unwrap();
    let job = json!({
        "shardine_job": 1, "request": {}, "from": document, "to": document, "fingerprint": null,
    });
    folder.put(".shardine-a.job/job.json", job.to_string().as_bytes());
    let refused = folder.refused(&create);
    assert!(refused.contains("already exists"), "{refused}");
    assert_eq!(folder.ok(&["read", "a", "-o", "-"]), [1, 2, 3, 4]);
}
