use serde_json::{Value, json};

use crate::support::{Folder, flip, written};

/// Runs what must find damage: status 1, nothing on standard error.
fn damaged(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.run(arguments);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_sound_exits_with_0() {
    let folder = written();
    assert_eq!(
        folder.text(&["verify", "a"]),
        "no damage: 1 array, 4 objects, 16 chunks, 400 B\n\
         every index was checked; --decode checks the chunks too\n"
    );
    assert!(folder.text(&["verify", "a", "--decode"]).contains("and 16 chunks decoded"));
    let report = folder.json(&["verify", "a", "--decode", "--json"]);
    assert_eq!((&report["ok"], &report["findings"]), (&json!(true), &json!([])));
    assert_eq!(report["summary"]["chunks_decoded"], 16);
}

#[test]
fn damage_exits_with_1_and_is_named() {
    let folder = written();
    flip(&folder, "a/c/0/1", 90);
    flip(&folder, "a/c/1/1", 10);
    let text = damaged(&folder, &["verify", "a", "--decode"]);
    for line in [
        "c/0/1 (shard 0,1)",
        "  damage index: bytes 32..100: the index cannot be decoded: codec \"crc32c\": stored",
        "  next: restore the object from a copy, or rewrite its region",
        "c/1/1 (shard 1,1)",
        "  damage chunk: chunk 2,3, bytes 8..16: the chunk cannot be decoded: codec",
        "2 findings of damage (index, chunk): 1 array, 4 objects, 12 chunks, 400 B",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line:?} is not in\n{text}");
    }
    let report: Value =
        serde_json::from_str(&damaged(&folder, &["verify", "a", "--decode", "--json"])).unwrap();
    assert_eq!(report["ok"], false);
    let findings = report["findings"].as_array().unwrap();
    let members: Vec<&str> = findings[1].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["severity", "kind", "object", "shard", "chunk", "range", "message"]);
    assert_eq!(findings[0]["kind"], "index");
    assert_eq!(findings[0]["chunk"], Value::Null);
    assert_eq!(findings[1]["severity"], "damage");
    assert_eq!(findings[1]["kind"], "chunk");
    assert_eq!(findings[1]["object"], "c/1/1");
    assert_eq!(findings[1]["shard"], json!([1, 1]));
    assert_eq!(findings[1]["chunk"], json!([2, 3]));
    assert_eq!(findings[1]["range"], json!([8, 16]));
    assert_eq!(report["summary"]["kinds"], json!({ "index": 1, "chunk": 1 }));
}

#[test]
fn notices_alone_exit_with_0() {
    let folder = written();
    folder.put("a/c/.shardine-1-1-1.tmp", b"x");
    folder.put("a/readme", b"x");
    let text = folder.text(&["verify", "a"]);
    assert!(text.contains("notice leftover-temporary: "), "{text}");
    assert!(text.contains("\nno damage, 2 notices (stray-object, leftover-temporary): "), "{text}");
    assert_eq!(folder.json(&["verify", "a", "--json"])["summary"]["notices"], 2);
}

#[test]
fn what_cannot_be_checked_exits_with_2() {
    let folder = written();
    assert!(folder.refused(&["verify", "b"]).contains("there is no Zarr array or group"));
    assert!(folder.refused(&["verify", "b", "--json"]).contains("\"hint\":\"no such file"));
    folder.put("a/zarr.json", b"{\"zarr_format\": 2}");
    assert!(folder.refused(&["verify", "a"]).contains("Zarr v2"));
    folder.put("a/zarr.json", b"{");
    let text = damaged(&folder, &["verify", "a"]);
    assert!(text.starts_with("zarr.json\n  damage metadata: "), "{text}");
}

#[test]
fn several_data_sets_are_checked_and_one_that_is_not_there_does_not_hide_another() {
    let folder = written();
    folder.ok(&["copy", "a", "b"]);
    let text = folder.text(&["verify", "a", "b"]);
    assert!(text.starts_with("== a\nno damage") && text.contains("\n== b\nno damage"), "{text}");
    flip(&folder, "b/c/0/0", 99);
    let output = folder.run(&["verify", "a", "b", "a", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let documents = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let found: Vec<(Value, Value)> =
        documents.map(|d| d.unwrap()).map(|d| (d["url"].clone(), d["ok"].clone())).collect();
    assert_eq!(
        found,
        [("a", true), ("b", false), ("a", true)].map(|(u, ok)| (u.into(), ok.into()))
    );
    let output = folder.run(&["verify", "nothing", "b"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stdout).unwrap().contains("damage"));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("error: nothing was not checked: there is no"), "{errors}");
}

#[test]
fn a_whole_hierarchy_is_checked() {
    let folder = written();
    folder.put("zarr.json", br#"{"zarr_format": 3, "node_type": "group"}"#);
    std::fs::create_dir(folder.path("b")).unwrap();
    folder.put("b/zarr.json", b"{");
    flip(&folder, "a/c/0/0", 99);
    let report: Value =
        serde_json::from_str(&damaged(&folder, &["verify", ".", "--json"])).unwrap();
    let objects: Vec<&Value> =
        report["findings"].as_array().unwrap().iter().map(|f| &f["object"]).collect();
    assert_eq!(objects, ["a/c/0/0", "b/zarr.json"]);
}

#[test]
fn a_report_for_people_is_short_and_one_for_programs_is_complete() {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "400", "--dtype", "uint8", "--chunk", "1", "--shard", "10",
        "--codec", "none",
    ]);
    folder.put("in.raw", &[7; 400]);
    folder.ok(&["write", "a", "in.raw"]);
    for shard in 0..30 {
        folder.put(&format!("a/c/{shard}"), b"");
    }
    let text = damaged(&folder, &["verify", "a"]);
    assert_eq!(text.matches("damage empty-object").count(), 20);
    assert!(text.contains("\nand empty-object in 10 more objects\n"), "{text}");
    let report: Value =
        serde_json::from_str(&damaged(&folder, &["verify", "a", "--json"])).unwrap();
    assert_eq!(report["findings"].as_array().unwrap().len(), 30);
}

#[test]
fn a_precomputed_volume_is_checked_and_mended() {
    let folder = Folder::new();
    let sharding = json!({
        "@type": "neuroglancer_uint64_sharded_v1", "hash": "identity", "preshift_bits": 0,
        "minishard_bits": 0, "shard_bits": 0,
    });
    let info = json!({
        "type": "image", "data_type": "uint8", "num_channels": 1,
        "scales": [{
            "key": "8_8_8", "size": [2, 1, 1], "resolution": [8, 8, 8], "chunk_sizes": [[1, 1, 1]],
            "encoding": "raw", "sharding": sharding,
        }],
    });
    // Two chunks of a byte, and behind them their keys, gaps and lengths.
    let words = [2u64, 50].into_iter().chain([0, 1, 0, 0, 1, 1]);
    let mut shard: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    shard.splice(16..16, [7, 9]);
    std::fs::create_dir_all(folder.path("v/8_8_8")).unwrap();
    std::fs::write(folder.path("v/info"), info.to_string()).unwrap();
    std::fs::write(folder.path("v/8_8_8/0.shard"), &shard).unwrap();
    assert_eq!(
        folder.text(&["verify", "v", "--decode"]),
        "no damage: 1 array, 1 object, 2 chunks, 66 B\n\
         every index was checked, and 2 chunks decoded\n"
    );
    std::fs::rename(folder.path("v/8_8_8/0.shard"), folder.path("v/8_8_8/1.shard")).unwrap();
    let text = damaged(&folder, &["verify", "v"]);
    assert!(text.contains("damage misnamed-shard"), "{text}");
    let report = folder.json(&["repair", "v", "--json"]);
    assert_eq!((&report["ok"], &report["summary"]["mended"]), (&json!(true), &json!(3)));
    assert!(folder.text(&["verify", "v", "--decode"]).starts_with("no damage: "));
    assert_eq!(std::fs::read(folder.path("v.set-aside/8_8_8_1.shard.bytes")).unwrap(), shard);
    assert!(!folder.path("v/8_8_8/1.shard").exists());
}

#[test]
fn a_part_speaks_of_itself_only() {
    let folder = written();
    flip(&folder, "a/c/0/1", 90);
    let (mut damaged_parts, mut objects) = (0, 0);
    for part in 1..=3 {
        let arguments = ["verify", "a", "--part", &format!("{part}/3")];
        let text = String::from_utf8(folder.run(&arguments).stdout).unwrap();
        let report = folder.run(&[&arguments[..], &["--json"]].concat());
        let json: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(json["part"], format!("{part}/3"));
        objects += json["summary"]["objects"].as_u64().unwrap();
        let is_damaged = json["ok"] == false;
        assert_eq!(report.status.code(), Some(i32::from(is_damaged)));
        damaged_parts += u32::from(is_damaged);
        let says = if is_damaged { "1 finding of damage (index): " } else { "no damage found: " };
        let line = format!("part {part} of 3: {says}");
        assert!(text.lines().any(|found| found.starts_with(&line)), "{line:?} is not in\n{text}");
        assert!(text.contains("every index of this part was checked"), "{text}");
    }
    assert_eq!((damaged_parts, objects), (1, 4));
    assert_eq!(folder.run(&["verify", "a", "--json"]).status.code(), Some(1));
}

#[test]
fn there_is_nothing_to_finish_after_the_parts() {
    let folder = written();
    let refused = folder.refused(&["verify", "a", "--part", "finish"]);
    assert!(refused.contains("verify writes nothing, so there is nothing to finish"), "{refused}");
    assert!(folder.refused(&["verify", "a", "--part", "4/3"]).contains("4/3"));
}
