use serde_json::{Value, json};

use crate::support::Folder;

fn array(folder: &Folder, name: &str) {
    folder.ok(&[
        "create", name, "--shape", "8,8", "--dtype", "uint8", "--chunk", "2,2", "--shard", "4,4",
        "--codec", "none", "--dims", "y,x",
    ]);
}

/// One chunk in each of two shards.
fn written(folder: &Folder) {
    array(folder, "a");
    folder.put("in.raw", &[1; 4]);
    folder.ok(&["write", "a", "--region", "0:2,2:4", "in.raw"]);
    folder.ok(&["write", "a", "--region", "6:8,6:8", "in.raw"]);
}

#[test]
fn info_tells_what_is_stored() {
    let folder = Folder::new();
    written(&folder);
    let text = folder.text(&["info", "a"]);
    for line in [
        "array        a",
        "format       Zarr v3, sharded",
        "shape        8 x 8 (y, x)",
        "type         uint8, 1 byte",
        "chunk        2 x 2, 4 B",
        "shard        4 x 4, 16 B, 4 chunks (2 x 2)",
        "codecs       bytes",
        "index        at the end, bytes -> crc32c",
        "keys         like c/0/1",
        "stored       2 of 4 shards, 2 of 16 chunks",
        "gaps         none",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
    }
    let info = folder.json(&["info", "a", "--json"]);
    assert_eq!(info["kind"], "array");
    assert_eq!(info["format"], "zarr3");
    assert_eq!(info["shape"], json!([8, 8]));
    assert_eq!(info["dtype"], "uint8");
    assert_eq!(info["dimension_names"], json!(["y", "x"]));
    assert_eq!(info["chunks_per_shard"], json!([2, 2]));
    assert_eq!(info["inner_shard_shape"], Value::Null);
    assert_eq!(info["index"]["location"], "end");
    let index = 4 * 16 + 4;
    let stored = &info["stored"];
    assert_eq!(stored["objects"], 2);
    assert_eq!(stored["objects_possible"], 4);
    assert_eq!(stored["chunks"], 2);
    assert_eq!(stored["chunks_possible"], 16);
    assert_eq!(stored["inner_shards"], Value::Null);
    assert_eq!(stored["bytes"], 2 * (4 + index));
    assert_eq!(stored["decoded_bytes"], 2 * 4);
    assert_eq!(stored["array_bytes"], 64);
    assert_eq!(stored["ratio"], 8.0 / 144.0);
    assert_eq!(stored["gap_bytes"], 0);
    assert_eq!(folder.json(&["info", "a", "--json", "--fast"]).get("stored"), None);
}

#[test]
fn a_damaged_shard_is_told_and_does_not_hide_the_others() {
    let folder = Folder::new();
    written(&folder);
    let mut shard = folder.get("a/c/0/0");
    *shard.last_mut().unwrap() ^= 1;
    folder.put("a/c/0/0", &shard);
    let text = folder.text(&["info", "a"]);
    assert!(text.contains("damaged      1 shard: shard [0, 0] in \"c/0/0\""), "{text}");
    assert_eq!(folder.json(&["info", "a", "--json"])["stored"]["damaged_shards"], 1);
    let errors = folder.refused(&["read", "a", "-o", "-"]);
    assert!(errors.contains("c/0/0") && errors.contains("hint: "), "{errors}");
    assert_eq!(folder.text(&["read", "a", "--region", "6:,6:"]), "1 1\n1 1\n");
}

#[test]
fn ls_shows_objects_shards_and_chunks() {
    let folder = Folder::new();
    written(&folder);
    assert_eq!(folder.text(&["ls", "a"]), "object  bytes\nc/0/0      72\nc/1/1      72\n");
    assert_eq!(
        folder.text(&["ls", "a", "--shards"]),
        "shard  bytes  chunks  gap bytes  index\n\
         c/0/0     72  1 of 4          0  4..72\n\
         c/1/1     72  1 of 4          0  4..72\n"
    );
    let shards = folder.json(&["ls", "a", "--shards", "--json"]);
    assert_eq!(shards[1]["cell"], json!([1, 1]));
    assert_eq!(shards[1]["index"], json!({ "offset": 4, "length": 68 }));
    let chunks = folder.text(&["ls", "a", "--chunks", "--json"]);
    let chunks: Vec<Value> =
        chunks.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        chunks,
        [
            json!({ "chunk": [0, 1], "key": "c/0/0", "offset": 0, "length": 4 }),
            json!({ "chunk": [3, 3], "key": "c/1/1", "offset": 0, "length": 4 }),
        ]
    );
    assert_eq!(folder.text(&["ls", "a", "--chunks"]).lines().count(), 3);
}

#[test]
fn of_shards_in_shards_the_inner_shards_are_counted_and_not_chunks() {
    let folder = Folder::new();
    // Shards of 8 x 8 hold 4 inner shards of 4 x 4, which hold 16 chunks of 1 x 1 each.
    let inner = r#"[{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1],
        "codecs": ["bytes"], "index_codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]}}]"#;
    folder.ok(&[
        "create", "a", "--shape", "16,8", "--dtype", "uint8", "--chunk", "4,4", "--shard", "8,8",
        "--codecs", inner,
    ]);
    folder.put("in.raw", &[1; 64]);
    folder.ok(&["write", "a", "--region", "0:8,:", "in.raw"]);
    let text = folder.text(&["info", "a"]);
    for line in [
        "chunk        1 x 1, 1 B",
        "inner shard  4 x 4, 16 B, 16 chunks (4 x 4)",
        "shard        8 x 8, 64 B, 64 chunks (8 x 8)",
        "stored       1 of 2 shards, 4 of 8 inner shards",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
    }
    assert!(text.contains(" for 64 B in these inner shards, ratio "), "{text}");
    let info = folder.json(&["info", "a", "--json"]);
    assert_eq!(info["chunk_shape"], json!([1, 1]));
    assert_eq!(info["inner_shard_shape"], json!([4, 4]));
    assert_eq!(info["chunks_per_shard"], json!([8, 8]));
    let stored = &info["stored"];
    assert_eq!((&stored["chunks"], &stored["chunks_possible"]), (&Value::Null, &json!(128)));
    assert_eq!(stored["inner_shards"], 4);
    assert_eq!(stored["inner_shards_possible"], 8);
    assert_eq!(stored["decoded_bytes"], 64);
    assert!(folder.text(&["ls", "a", "--shards"]).contains("inner shards"));
    let shards = folder.json(&["ls", "a", "--shards", "--json"]);
    assert_eq!(shards[0]["inner_shards"], 4);
    assert_eq!(shards[0]["inner_shards_possible"], 4);
    assert!(folder.text(&["ls", "a", "--chunks"]).starts_with("inner shard  object"));
    let entries = folder.text(&["ls", "a", "--chunks", "--json"]);
    let last: Value = serde_json::from_str(entries.lines().last().unwrap()).unwrap();
    assert_eq!((entries.lines().count(), &last["inner_shard"]), (4, &json!([1, 1])));
}

#[test]
fn an_array_without_shards_has_chunks_but_no_shards() {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "4", "--dtype", "uint8", "--chunk", "2", "--shard", "none",
        "--codec", "none",
    ]);
    folder.put("in.raw", &[1; 4]);
    folder.ok(&["write", "a", "in.raw"]);
    assert!(folder.text(&["info", "a"]).contains("stored       2 of 2 chunks"));
    let chunks = folder.text(&["ls", "a", "--chunks", "--json"]);
    assert_eq!(chunks.lines().count(), 2);
    assert!(folder.refused(&["ls", "a", "--shards"]).contains("not sharded"));
}

#[test]
fn groups_show_their_children() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("g/inner")).unwrap();
    let group = br#"{"zarr_format": 3, "node_type": "group", "attributes": {"k": 1}}"#;
    folder.put("g/zarr.json", group);
    folder.put("g/inner/zarr.json", group);
    array(&folder, "g/one");
    array(&folder, "g/inner/two");
    std::fs::create_dir_all(folder.path("g/broken")).unwrap();
    folder.put("g/broken/zarr.json", b"{");
    let text = folder.text(&["ls", "g"]);
    assert!(text.contains("one     array, 8 x 8 uint8, shards of 4 x 4"), "{text}");
    assert!(text.contains("broken  cannot be read: "), "{text}");
    assert!(!text.contains("two"), "{text}");
    let tree = folder.text(&["ls", "g", "-r"]);
    assert!(tree.contains("├── inner   group\n│   └── two  array"), "{tree}");
    let nodes = folder.json(&["ls", "g", "-r", "--json"]);
    assert_eq!(nodes[1]["children"][0]["name"], "two");
    let text = folder.text(&["info", "g"]);
    assert!(text.contains("group        g") && text.contains("children     3"), "{text}");
    let info = folder.json(&["info", "g", "--json"]);
    assert_eq!(info["kind"], "group");
    assert_eq!(info["children"].as_array().unwrap().len(), 3);
    assert!(folder.refused(&["ls", "g", "--chunks"]).contains("group"));
    let errors = folder.refused(&["read", "g"]);
    assert!(errors.contains("is a group, not an array"), "{errors}");
    assert!(errors.contains("hint: name one of its arrays; run `shardine ls "), "{errors}");
}

#[test]
fn the_demo_runs_twice_and_touches_nothing_else() {
    let folder = Folder::new();
    for _ in 0..2 {
        let text = folder.text(&["demo"]);
        assert!(text.contains("every voxel matches what was written"), "{text}");
        assert!(text.contains("8 chunks re-encoded"), "{text}");
    }
    assert_eq!(folder.names(), ["shardine-demo"]);
    // What it says to try next works.
    let text = folder.text(&["demo", "it is mine"]);
    let commands: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("  shardine ")).collect();
    assert_eq!(commands.len(), 8);
    for command in commands {
        let arguments: Vec<String> = command
            .replace("'it is mine'", "it_is_mine")
            .split(' ')
            .map(|word| word.replace('_', " "))
            .collect();
        folder.ok(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }
    folder.put("file", b"precious");
    assert!(folder.refused(&["demo", "."]).contains("is not empty"));
    assert_eq!(folder.get("file"), b"precious");
}

#[test]
fn the_demo_tells_programs_its_numbers_and_nothing_else() {
    let folder = Folder::new();
    let report = folder.json(&["demo", "--json"]);
    let members: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        members,
        ["folder", "write", "image", "plane", "box", "update", "reshard", "read", "verify"]
    );
    assert_eq!(report["write"]["objects_written"], 8);
    assert_eq!(report["write"]["chunks_encoded"], 190);
    assert_eq!(report["write"]["chunks_empty"], 322);
    let levels = &report["image"]["ome"]["levels"];
    assert_eq!(levels[0]["stored"]["chunks"], 190);
    assert_eq!(levels[2]["scale"], json!([2.0, 1.0, 1.0]));
    assert_eq!(levels[2]["translation"], json!([0.75, 0.375, 0.375]));
    assert_eq!(report["image"]["ome"]["labels"], json!(["ball"]));
    assert_eq!(report["plane"]["region"], "z=64");
    assert_eq!(report["box"]["region"], "128:129,120:136,96:160");
    assert!(report["plane"]["bytes_read"].as_u64() < report["read"]["bytes_read"].as_u64());
    assert_eq!(report["update"]["chunks_encoded"], 8);
    assert_eq!(report["update"]["chunks_kept"], 0);
    assert!(report["update"]["bytes_written"].as_u64().unwrap() < 1 << 20);
    // One shard for each level of the image and of its labels.
    assert_eq!(report["reshard"]["objects_written"], 6);
    assert_eq!(report["verify"]["objects"], 6);
    let chunks = report["verify"]["chunks_decoded"].as_u64();
    assert!(chunks > Some(190 + 56 + 8) && report["reshard"]["chunks_moved"].as_u64() == chunks);
    assert!(report["read"]["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn completions_and_help_are_for_the_verbs_that_exist() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = folder.text(&["completions", shell]);
        assert!(script.contains("store-empty"), "{shell}");
    }
    let help = folder.text(&["--help"]);
    for verb in [
        "demo",
        "info",
        "ls",
        "create",
        "read",
        "write",
        "append",
        "verify",
        "repair",
        "compact",
        "copy",
        "plan",
        "convert",
        "shard",
        "unshard",
        "reshard",
        "migrate",
        "pyramid",
        "bench",
        "completions",
    ] {
        assert!(help.contains(&format!("\n  {verb}")), "{verb}");
        assert!(folder.text(&[verb, "--help"]).contains("Examples:"), "{verb}");
    }
    assert!(!help.contains("\n  serve"));
    assert!(folder.text(&["--version"]).starts_with("shardine "));
}
