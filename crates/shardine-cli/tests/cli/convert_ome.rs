use serde_json::{Value, json};

use crate::ome_support::Version;
use crate::support::{Folder, u16s, wkw};

/// A folder with `a`, an array of 8 x 8 x 8 without names of its axes.
fn array() -> Folder {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "8,8,8", "--dtype", "uint16", "--chunk", "4,4,4", "--codec",
        "gzip:1", "--shard", "none",
    ]);
    folder.put("in.raw", &u16s(1..=512));
    folder.ok(&["write", "a", "in.raw"]);
    folder
}

#[test]
fn an_array_becomes_an_image_of_each_version_and_a_volume_and_comes_back() {
    let folder = array();
    let refused = folder.refused(&["convert", "a", "b", "--to", "ome-zarr"]);
    assert!(
        refused.contains("its 3 axes have no names") && refused.contains("--axes"),
        "{refused}"
    );
    let arguments = [
        "convert",
        "a",
        "image",
        "--to",
        "ome-zarr",
        "--axes",
        "zyx",
        "--scale",
        "0.5,0.2,0.2",
        "--unit",
        "micrometer",
        "--name",
        "cells",
        "--json",
    ];
    let report = folder.json(&arguments);
    assert_eq!((&report["ome_version"], &report["image"]), (&json!("0.5"), &json!("new")));
    let level = &report["levels"][0];
    assert_eq!((&level["chunks_moved"], &level["chunks_recoded"]), (&json!(8), &json!(0)));
    assert_eq!((&level["target"], &level["axes"]), (&json!("0"), &json!(["z", "y", "x"])));
    assert_eq!(level["shard"], json!([8, 8, 8]));
    let root = folder.document("image/zarr.json");
    let ome = &root["attributes"]["ome"];
    assert_eq!(ome["version"], "0.5");
    assert_eq!(ome["multiscales"][0]["name"], "cells");
    assert_eq!(ome["multiscales"][0]["axes"][2]["unit"], "micrometer");
    assert_eq!(folder.document("image/0/zarr.json")["dimension_names"], json!(["z", "y", "x"]));
    assert!(folder.refused(&arguments[..arguments.len() - 1]).contains("already exists"));
    for (from, to, version) in [("image", "v6", "0.6"), ("v6", "v4", "0.4"), ("v4", "v5", "0.5")] {
        let text =
            folder.text(&["convert", from, to, "--to", "ome-zarr", "--ome-version", version]);
        assert!(text.contains(&format!("{to}/0: ")), "{text}");
        assert!(text.contains("8 chunks moved, 0 re-encoded"), "{text}");
        folder.ok(&["compare", from, to]);
        folder.ok(&["verify", to, "--decode"]);
        assert_eq!(folder.ok(&["read", &format!("{to}/0"), "-o", "-"]), folder.get("in.raw"));
    }
    assert!(folder.exists("v4/0/.zarray") && !folder.exists("v4/zarr.json"));
    let text = folder.text(&["convert", "v5", "volume", "--to", "precomputed"]);
    assert!(text.contains("positions: 100, 100, 250 nm further"), "{text}");
    folder.ok(&["compare", "v5", "volume"]);
    let text = folder.text(&["convert", "volume", "back", "--to", "ome-zarr"]);
    assert!(text.contains("metadata: taken from the volume"), "{text}");
    folder.ok(&["compare", "image", "back"]);
}

#[test]
fn version_2_is_written_for_old_readers() {
    let folder = array();
    let text = folder.text(&["convert", "a", "old", "--to", "zarr2"]);
    assert!(text.contains("8 chunks moved, 0 re-encoded"), "{text}");
    let zarray = folder.document("old/.zarray");
    assert_eq!(zarray["compressor"], json!({"id": "gzip", "level": 1}));
    assert!(folder.exists("old/0.0.0"));
    folder.ok(&["compare", "a", "old"]);
    folder.ok(&["convert", "a", "slash", "--to", "zarr2", "--separator", "/"]);
    assert!(folder.exists("slash/0/0/0"));
    let refused = folder.refused(&["convert", "a", "b", "--to", "zarr2", "--shard", "8,8,8"]);
    assert!(refused.contains("no shards"), "{refused}");
    let codecs = r#"[{"name":"transpose","configuration":{"order":[1,2,0]}},{"name":"bytes","configuration":{"endian":"little"}}]"#;
    folder.ok(&[
        "create", "t", "--shape", "4,4,4", "--dtype", "uint8", "--codecs", codecs, "--chunk",
        "2,2,2", "--shard", "none",
    ]);
    let refused = folder.refused(&["convert", "t", "b", "--to", "zarr2"]);
    assert!(refused.contains("transpose") && refused.contains("--codec"), "{refused}");
}

#[test]
fn options_of_another_target_are_refused() {
    let folder = array();
    for (options, why) in [
        (&["--axes", "zyx"][..], "--axes: only applies with --to ome-zarr"),
        (&["--to", "zarr2", "--ome-version", "0.5"], "--ome-version: only applies"),
        (&["--to", "ome-zarr", "--resolution", "1,1,1"], "--resolution: only applies"),
        (
            &["--to", "ome-zarr", "--axes", "zyx", "--ome-version", "0.4", "--shard", "8,8,8"],
            "no shards",
        ),
        (&["--to", "ome-zarr", "--axes", "zyx", "--unit", "parrot"], "parrot"),
        (&["--to", "ome-zarr", "--axes", "zy"], "2 axes were named"),
    ] {
        let refused = folder.refused(&[&["convert", "a", "b"][..], options].concat());
        assert!(refused.contains(why), "{refused}");
        assert!(!folder.exists("b"));
    }
    let refused = folder.refused(&["convert", "in.raw", "b", "--to", "ome-zarr"]);
    assert!(refused.contains("raw bytes have no recorded shape"), "{refused}");
    for (source, target, to) in [("a", "b.npy", "ome-zarr"), ("in.raw", "b", "precomputed")] {
        let refused = folder.refused(&["convert", source, target, "--to", to]);
        assert!(refused.contains("only applies from one data set to another"), "{refused}");
    }
}

#[test]
fn parts_and_a_dry_run_make_what_one_process_makes() {
    let folder = array();
    let convert = |target: &str, more: &[&str]| -> Value {
        let all = [&["convert", "a", target, "--to", "ome-zarr", "--axes", "zyx", "--json"], more];
        folder.json(&all.concat())
    };
    assert_eq!(convert("whole", &["--dry-run"])["dry_run"], true);
    assert!(!folder.exists("whole"));
    convert("whole", &[]);
    assert_eq!(convert("parts", &["--part", "2/2"])["parts_missing"], json!([1]));
    assert!(!folder.exists("parts/zarr.json"));
    convert("parts", &["--part", "1/2"]);
    folder.ok(&["compare", "whole", "parts", "--bytes"]);
}

#[test]
fn webknossos_becomes_an_image() {
    let folder = wkw();
    let report = folder.json(&["convert", "w", "image", "--to", "ome-zarr", "--json"]);
    assert_eq!(report["levels"][0]["axes"], json!(["c", "z", "y", "x"]));
    assert_eq!(report["levels"][0]["moves"], true);
    folder.ok(&["compare", "w", "image"]);
}

#[test]
fn a_file_becomes_an_image_with_levels_in_one_command() {
    let folder = array();
    let command = |source: &'static str| {
        [
            "convert",
            source,
            "image",
            "--to",
            "ome-zarr",
            "--shape",
            "8,8,8",
            "--dtype",
            "uint16",
            "--chunk",
            "4,4,4",
            "--axes",
            "zyx",
            "--scale",
            "0.5,0.2,0.2",
            "--unit",
            "micrometer",
            "--name",
            "cells",
            "--levels",
            "auto",
        ]
    };
    let text = folder.text(&command("in.raw"));
    assert!(text.contains("image/0: ") && text.contains("; 8 chunks encoded"), "{text}");
    assert!(text.contains("image/1: ") && text.contains("made by mean"), "{text}");
    assert_eq!(folder.ok(&["read", "image", "-o", "-"]), folder.get("in.raw"));
    folder.ok(&["verify", "image", "--decode"]);
    let report = folder.json(&["info", "image", "--json"]);
    assert_eq!(report["ome"]["name"], "cells");
    let levels = report["ome"]["levels"].as_array().unwrap().len();
    assert!(levels > 1, "{report}");
    assert!(!folder.names().iter().any(|name| name.contains("shardine")));
    // The same as in three steps.
    folder.ok(&[
        "convert",
        "a",
        "steps",
        "--to",
        "ome-zarr",
        "--axes",
        "zyx",
        "--scale",
        "0.5,0.2,0.2",
        "--unit",
        "micrometer",
        "--name",
        "cells",
        "--levels",
        &levels.to_string(),
        "--codec",
        "zstd:3",
    ]);
    folder.ok(&["compare", "image", "steps"]);
    let mut parts = command("in.raw").to_vec();
    parts[2] = "other";
    parts.extend(["--part", "1/2"]);
    let refused = folder.refused(&parts);
    assert!(refused.contains("--levels cannot be combined with --part"), "{refused}");
    assert!(refused.contains("shardine pyramid") && !folder.exists("other"), "{refused}");
    let refused = folder.refused(&["convert", "a", "other", "--levels", "2"]);
    assert!(refused.contains("--levels: only applies with --to ome-zarr"), "{refused}");
}

#[test]
fn labels_that_a_volume_leaves_out_are_told_with_a_command_that_converts_them() {
    let folder = Folder::new();
    Version::V05.image(&folder, "image", "zyx", &[8, 8, 8], 1);
    Version::V05.group(&folder, "image/labels", json!({ "labels": ["nuclei"] }));
    Version::V05.image(&folder, "image/labels/nuclei", "zyx", &[8, 8, 8], 1);
    let text = folder.text(&["convert", "image", "volume", "--to", "precomputed"]);
    let line = text.lines().find(|line| line.starts_with("left out: labels/")).unwrap();
    let report = folder.json(&["convert", "image", "again", "--to", "precomputed", "--json"]);
    let labels = report["labels_left_out"].as_array().unwrap();
    assert!(!labels.is_empty(), "{report}");
    for label in labels {
        let (path, command) = (label["path"].as_str().unwrap(), label["command"].as_str().unwrap());
        assert!(line.contains(path), "{line}");
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        folder.ok(&words);
        folder.ok(&["compare", &format!("image/{path}"), words[2]]);
    }
}
