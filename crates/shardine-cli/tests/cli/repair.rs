use serde_json::json;

use crate::support::{Folder, flip, written};

#[test]
fn damage_is_mended_and_kept_and_told() {
    let folder = written();
    flip(&folder, "a/c/0/1", 90);
    flip(&folder, "a/c/1/1", 10);
    let before = folder.get("a/c/1/1");
    let foreseen = folder.text(&["repair", "a", "--decode", "--dry-run"]);
    assert!(foreseen.ends_with("2 things would be mended\n"), "{foreseen}");
    assert_eq!(folder.get("a/c/1/1"), before);
    let report = folder.json(&["repair", "a", "--decode", "--json"]);
    assert_eq!((&report["ok"], &report["dry_run"]), (&json!(true), &json!(false)));
    let repairs = report["repairs"].as_array().unwrap();
    assert_eq!(repairs[0]["kind"], "object-set-aside");
    assert_eq!(repairs[0]["object"], "c/0/1");
    assert_eq!(repairs[1]["kind"], "chunk-set-aside");
    assert_eq!((&repairs[1]["chunk"], &repairs[1]["range"]), (&json!([2, 3]), &json!([8, 16])));
    let kept = format!("a.set-aside/{}", repairs[1]["set_aside"].as_str().unwrap());
    assert_eq!(folder.get(&kept), before[8..16]);
    assert!(folder.text(&["verify", "a", "--decode"]).contains("no damage"));
    assert_eq!(folder.text(&["repair", "a", "--decode"]), "0 things mended\n");
    folder.ok(&["read", "a", "-o", "out.raw"]);
    let read = folder.get("out.raw");
    assert_eq!(read.iter().filter(|&&element| element == 7).count(), 64 - 16 - 4);
}

#[test]
fn what_cannot_be_mended_is_left_and_exits_with_2() {
    let folder = written();
    folder.ok(&["create", "b", "--shape", "4", "--dtype", "uint8"]);
    folder.put("a/zarr.json", b"{\"zarr_format\": 3, \"node_type\": \"array\"");
    let output = folder.run(&["repair", "a"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: 1 finding of damage cannot be mended here"), "{error}");
    assert!(error.contains("shardine verify a"), "{error}");
    let output = folder.run(&["repair", "b", "--set-aside", "b/inside"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("lies inside"));
}

#[test]
fn gaps_are_squeezed_out() {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "64,64", "--dtype", "uint8", "--chunk", "8,8", "--shard",
        "64,64", "--codec", "none",
    ]);
    let noise: Vec<u8> = (0..4096u32).map(|i| ((i * i) >> 3) as u8 | 1).collect();
    folder.put("in.raw", &noise);
    folder.ok(&["write", "a", "in.raw"]);
    let full = folder.get("a/c/0/0").len();
    folder.put("chunk.raw", &[9; 64]);
    let write = ["write", "a", "chunk.raw", "--region", "8:16,8:16", "--strategy", "append"];
    folder.ok(&write);
    // The old chunk and the old index are gaps.
    let grown = folder.get("a/c/0/0").len();
    assert!(grown > full);
    let foreseen = folder.json(&["compact", "a", "--dry-run", "--json"]);
    assert_eq!(foreseen["compacted"][0]["before"], grown);
    assert_eq!(folder.get("a/c/0/0").len(), grown);
    assert_eq!(
        folder.json(&["compact", "a", "--min-gap", "90%", "--json"])["compacted"],
        json!([])
    );
    let text = folder.text(&["compact", "a"]);
    assert!(text.contains("c/0/0 (shard 0,0): "), "{text}");
    assert!(text.contains("1 of 1 shard compacted"), "{text}");
    assert_eq!(folder.get("a/c/0/0").len(), full);
    assert!(folder.text(&["compact", "a"]).starts_with("0 of 1 shard compacted, 0 B freed"));
    folder.ok(&["read", "a", "--region", "8:16,8:16", "-o", "out.raw"]);
    assert_eq!(folder.get("out.raw"), [9; 64]);
}
