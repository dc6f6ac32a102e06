//! `plan`: recommendations, and what they are made from.

use serde_json::{Value, json};

use super::support::*;

/// Bytes that do not compress, or to little.
fn bytes(len: usize, compressible: bool) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    (0..len)
        .map(|i| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if compressible { (i / 64) as u8 | 1 } else { (state >> 32) as u8 | 1 }
        })
        .collect()
}

/// An array with something in it.
fn array(folder: &Folder, name: &str, shard: &str, compressible: bool) {
    folder.ok(&[
        "create",
        name,
        "--shape",
        "128,256,256",
        "--dtype",
        "uint8",
        "--chunk",
        "32,32,32",
        "--shard",
        shard,
    ]);
    folder.put("in.raw", &bytes(128 * 256 * 256, compressible));
    folder.ok(&["write", name, "in.raw"]);
}

fn plan(folder: &Folder, arguments: &[&str]) -> Value {
    folder.json(&[&["plan", "--json"], arguments].concat())
}

#[test]
fn what_chunks_really_take_is_measured() {
    let folder = Folder::new();
    for (name, shard) in [("plain", "none"), ("sharded", "64,64,64")] {
        array(&folder, name, shard, false);
        let advice = plan(&folder, &[name, "--remote"]);
        let one = &advice["arrays"][0];
        let stored = &folder.json(&["info", name, "--json"])["stored"];
        let measured = &one["measured"];
        assert_eq!(measured["shape"], json!([32, 32, 32]));
        // All of the 256 chunks of 32 shards, or some of those that are by themselves.
        let counts = if name == "plain" { 64..=128 } else { 256..=256 };
        assert!(counts.contains(&measured["count"].as_u64().unwrap()), "{measured}");
        assert_eq!(measured["share"], 1.0);
        let ratio = measured["ratio"].as_f64().unwrap();
        assert!((ratio - stored["ratio"].as_f64().unwrap()).abs() < 0.05, "{ratio} {stored}");
        // What is foretold of the array as it is, is what is there.
        let before = &one["before"];
        assert_eq!(before["objects"], stored["objects"]);
        let (told, real) =
            (before["stored_bytes"].as_f64().unwrap(), stored["bytes"].as_f64().unwrap());
        assert!((told / real - 1.0).abs() < 0.02, "{told} {real}");
        assert_eq!(one["shard_choice"]["rule"], "whole-array");
        assert_eq!(one["shard_shape"], json!([128, 256, 256]));
        assert_eq!(one["command"], format!("shardine reshard {name} --shard 128,256,256"));
        // What is told to do does it, and what was foretold is there.
        folder.ok(&["reshard", name, "--shard", "128,256,256"]);
        let stored = &folder.json(&["info", name, "--json"])["stored"];
        assert_eq!(one["after"]["objects"], stored["objects"]);
        let told = one["after"]["stored_bytes"].as_f64().unwrap();
        assert!((told / stored["bytes"].as_f64().unwrap() - 1.0).abs() < 0.02, "{told} {stored}");
        assert_eq!(plan(&folder, &[name, "--remote"])["arrays"][0]["action"], "nothing");
    }
}

#[test]
fn compressible_data_gets_larger_shards() {
    let folder = Folder::new();
    let mut chunks = Vec::new();
    for (name, compressible) in [("noise", false), ("smooth", true)] {
        array(&folder, name, "none", compressible);
        let advice = plan(&folder, &[name, "--target-size", "1MB"]);
        let per_shard = advice["arrays"][0]["chunks_per_shard"].clone();
        let counts: Vec<u64> = serde_json::from_value(per_shard).unwrap();
        chunks.push(counts.iter().product::<u64>());
        let bytes = advice["arrays"][0]["after"]["object_bytes"].as_u64().unwrap();
        assert!(bytes <= 1_420_000, "{name} {bytes}");
    }
    assert_eq!(chunks[0], 32);
    assert!(chunks[1] > 4 * chunks[0], "{chunks:?}");
}

#[test]
fn shapes_are_planned_before_there_is_an_array() {
    let folder = Folder::new();
    let shape = ["--shape", "2048,4096,4096", "--dtype", "uint16"];
    let local = plan(&folder, &shape);
    let one = &local["arrays"][0];
    assert_eq!(
        (&one["shard_shape"], &one["shard_choice"]["rule"]),
        (&json!(null), &json!("few-local-chunks"))
    );
    let served =
        plan(&folder, &[&shape[..], &["--for", "serve", "--ratio", "4", "--remote"]].concat());
    let one = &served["arrays"][0];
    assert_eq!(one["shard_choice"]["rule"], "eight-per-axis");
    assert_eq!(
        (&one["chunk_shape"], &one["shard_shape"]),
        (&json!([64, 64, 64]), &json!([512, 512, 512]))
    );
    assert_eq!(
        (&one["after"]["objects"], &one["after"]["index_bytes"]),
        (&json!(4 * 8 * 8), &json!(512 * 16 + 4))
    );
    // The command that is told makes what was told.
    let update = plan(&folder, &[&shape[..], &["--for", "update", "--remote"]].concat());
    let one = &update["arrays"][0];
    let command = one["command"].as_str().unwrap().replace("NEW.zarr", "new");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    folder.ok(&words);
    let made = folder.json(&["info", "new", "--json"]);
    for member in ["chunk_shape", "shard_shape"] {
        assert_eq!(made[member], one[member]);
    }
    assert_eq!(
        (&made["index"]["location"], &one["index_choice"]["rule"]),
        (&json!("start"), &json!("index-start"))
    );
    let writers =
        plan(&folder, &[&shape[..], &["--for", "write", "--writers", "9", "--remote"]].concat());
    assert_eq!(writers["arrays"][0]["shard_choice"]["rule"], "parallel-writers");
}

#[test]
fn each_level_of_a_pyramid_is_told_and_all_together() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("g")).unwrap();
    folder.put("g/zarr.json", br#"{"zarr_format": 3, "node_type": "group", "attributes": {}}"#);
    for (name, shape) in [("g/0", "128,256,256"), ("g/1", "64,128,128"), ("g/2", "32,32,32")] {
        folder.ok(&[
            "create", name, "--shape", shape, "--dtype", "uint8", "--chunk", "32,32,32", "--shard",
            "none",
        ]);
    }
    folder.put("in.raw", &bytes(128 * 256 * 256, false));
    folder.ok(&["write", "g/0", "in.raw"]);
    let advice = plan(&folder, &["g", "--remote"]);
    let shards: Vec<&Value> =
        advice["arrays"].as_array().unwrap().iter().map(|one| &one["shard_shape"]).collect();
    assert_eq!(shards, [&json!([128, 256, 256]), &json!([64, 128, 128]), &json!(null)]);
    assert_eq!(advice["total"]["objects_before"], 256 + 32 + 1);
    assert_eq!(advice["total"]["objects_after"], 3);
    assert_eq!(advice["commands"].as_array().unwrap().len(), 2);
    assert!(advice["arrays"][1]["measured"].is_null());
    let text = folder.text(&["plan", "g", "--remote"]);
    assert!(
        text.contains("total        3 arrays: 289 objects as they are, 3 as recommended"),
        "{text}"
    );
    assert!(text.ends_with("shardine reshard g/1 --shard 64,128,128\n"), "{text}");
    assert!(
        text.lines().filter(|l| !l.contains("shardine ")).all(|l| l.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn what_is_good_stays() {
    let folder = Folder::new();
    array(&folder, "a", "128,256,256", false);
    let advice = plan(&folder, &["a"]);
    assert_eq!(advice["arrays"][0]["action"], "nothing");
    assert_eq!(advice["commands"], json!([]));
    assert!(folder.text(&["plan", "a"]).ends_with("to do        nothing\n"));
    let update = plan(&folder, &["a", "--for", "update"]);
    let command = update["arrays"][0]["command"].as_str().unwrap();
    assert_eq!(command, "shardine reshard a --shard 128,256,256 --index start");
}

#[test]
fn tiny_and_huge_chunks_are_told() {
    let folder = Folder::new();
    let odd = [("tiny", "1,1,5", "chunk-too-small"), ("huge", "512,512,512", "chunk-too-large")];
    for (name, chunk, rule) in odd {
        folder.ok(&[
            "create",
            name,
            "--shape",
            "997,1009,2003",
            "--dtype",
            "uint16",
            "--chunk",
            chunk,
            "--shard",
            "none",
        ]);
        let advice = plan(&folder, &[name]);
        let one = &advice["arrays"][0];
        assert_eq!(
            (&one["chunk_choice"]["rule"], &one["action"]),
            (&json!(rule), &json!("rechunk"))
        );
        assert_eq!(one["chunk_shape"], json!([64, 64, 64]));
        assert!(
            one["command"]
                .as_str()
                .unwrap()
                .starts_with(&format!("shardine reshard {name} --chunk "))
        );
        let given = plan(&folder, &[name, "--chunk", "8,8,8"]);
        assert_eq!(given["arrays"][0]["chunk_choice"]["rule"], "chunk-given");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = Folder::new();
    assert!(folder.refused(&["plan"]).contains("required"));
    assert!(folder.refused(&["plan", "nowhere"]).contains("nowhere"));
    let shape = ["plan", "--shape", "10,10", "--dtype", "uint8"];
    assert!(
        folder.refused(&[&shape[..], &["--chunk", "10"]].concat()).contains("each of the 2 axes")
    );
    assert!(folder.refused(&[&shape[..], &["--ratio", "0"]].concat()).contains("ratio"));
    assert!(folder.refused(&[&shape[..], &["--screen", "7"]].concat()).contains("1920x1080"));
    assert!(folder.refused(&["plan", "--shape", "10,10", "--dtype", "x"]).contains('x'));
}

#[test]
fn of_a_sparse_array_only_what_is_stored_counts_as_an_object() {
    let folder = Folder::new();
    for (name, shard) in [("plain", "none"), ("sharded", "16,16")] {
        folder.ok(&[
            "create", name, "--shape", "512,512", "--dtype", "uint8", "--chunk", "8,8", "--shard",
            shard,
        ]);
        folder.put("in.raw", &bytes(32 * 32, false));
        folder.ok(&["write", name, "in.raw", "--region", "64:96,128:160"]);
        let stored = folder.json(&["info", name, "--json"])["stored"]["objects"].clone();
        let advice = plan(&folder, &[name, "--target-size", "64KiB"]);
        let one = &advice["arrays"][0];
        let before = &one["before"];
        assert_eq!((&before["objects"], &before["object_count"]), (&stored, &json!("counted")));
        let room = if name == "plain" { 64 * 64 } else { 32 * 32 };
        assert_eq!(before["cells"], room);
        assert_eq!(advice["total"]["objects_before"], stored);
        // What is foretold is there afterwards.
        let shard = one["shard_shape"].as_array().unwrap();
        let shard = format!("{},{}", shard[0], shard[1]);
        let told = folder.text(&["plan", name, "--target-size", "64KiB"]);
        assert!(told.contains(&format!("{stored} stored, room for {room}")), "{told}");
        folder.ok(&["reshard", name, "--shard", &shard]);
        let stored = &folder.json(&["info", name, "--json"])["stored"]["objects"];
        assert_eq!(
            (&one["after"]["objects"], &one["after"]["object_count"]),
            (stored, &json!("counted"))
        );
        // What single chunks come to is an estimate, which is right for chunks that are all there.
        let finer = plan(&folder, &[name, "--for", "write", "--writers", "2"]);
        let after = &finer["arrays"][0]["after"];
        assert_eq!((&after["objects"], &after["object_count"]), (&json!(16), &json!("estimated")));
    }
    // Nothing is known of an array without chunks but what it has room for.
    folder.ok(&["create", "new", "--shape", "512,512", "--dtype", "uint8", "--chunk", "8,8"]);
    let told = folder.text(&["plan", "new"]);
    assert!(told.contains("up to "), "{told}");
}
