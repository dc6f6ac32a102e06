use serde_json::{Value, json};

use crate::support::{Folder, flip, wkw, written};

/// Runs what cannot save everything: status 2, and one line that says so.
fn lossy(folder: &Folder, arguments: &[&str]) -> (String, String) {
    let output = folder.run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn what_is_lost_is_kept_and_told_until_it_is_written_again_or_accepted() {
    let folder = written();
    flip(&folder, "a/c/0/1", 90);
    flip(&folder, "a/c/1/1", 10);
    let before = folder.get("a/c/1/1");
    let (foreseen, error) = lossy(&folder, &["repair", "a", "--decode", "--dry-run"]);
    assert!(foreseen.ends_with("0 things would be repaired\n"), "{foreseen}");
    assert!(error.starts_with("error: 5 chunks are lost\n"), "{error}");
    assert_eq!(folder.get("a/c/1/1"), before);
    let (report, error) = lossy(&folder, &["repair", "a", "--decode", "--json"]);
    assert!(error.contains("shardine repair a --accept-loss"), "{error}");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["ok"], &report["dry_run"]), (&json!(false), &json!(false)));
    let repairs = report["repairs"].as_array().unwrap();
    assert_eq!((&repairs[0]["kind"], &repairs[0]["lost"]), (&json!("object-set-aside"), &json!(4)));
    assert_eq!(repairs[0]["object"], "c/0/1");
    assert_eq!((&repairs[1]["kind"], &repairs[1]["lost"]), (&json!("chunk-set-aside"), &json!(1)));
    assert_eq!((&repairs[1]["chunk"], &repairs[1]["range"]), (&json!([2, 3]), &json!([8, 16])));
    assert_eq!((&report["summary"]["mended"], &report["summary"]["lost"]), (&json!(0), &json!(5)));
    let kept = format!("a.set-aside/{}", repairs[1]["set_aside"].as_str().unwrap());
    assert_eq!(folder.get(&kept), before[8..16]);
    folder.ok(&["read", "a", "-o", "out.raw"]);
    let read = folder.get("out.raw");
    assert_eq!(read.iter().filter(|&&element| element == 7).count(), 64 - 16 - 4);

    // Nobody can take it for sound, nor get rid of the record by packing it otherwise.
    let output = folder.run(&["verify", "a", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["summary"]["kinds"]["lost-chunk"], 2);
    assert_eq!(found["summary"]["lost_chunks"], 5);
    let (_, error) = lossy(&folder, &["unshard", "a", "-o", "b"]);
    assert!(error.contains("5 chunks are recorded"), "{error}");
    assert_eq!(folder.run(&["copy", "a", "c"]).status.code(), Some(0));
    assert_eq!(folder.run(&["verify", "c"]).status.code(), Some(1));
    let (text, error) = lossy(&folder, &["repair", "a", "--decode"]);
    assert_eq!(
        (text.as_str(), error.lines().next()),
        ("0 things repaired\n", Some("error: 5 chunks are lost"))
    );

    let text = folder.text(&["repair", "c", "--accept-loss"]);
    assert!(text.contains("accepted 5 chunks that are lost or may be old"), "{text}");
    assert!(folder.text(&["verify", "c", "--decode"]).contains("no damage"));
    folder.ok(&["write", "a", "in.raw"]);
    assert!(folder.text(&["verify", "a", "--decode"]).contains("no damage"));
    folder.ok(&["repair", "a"]);
    assert!(!folder.exists("a/.shardine-lost.json"));
}

#[test]
fn what_cannot_be_mended_is_left_and_exits_with_2() {
    let folder = written();
    folder.ok(&["create", "b", "--shape", "4", "--dtype", "uint8"]);
    folder.put("a/zarr.json", b"{\"zarr_format\": 3, \"node_type\": \"array\"");
    let output = folder.run(&["repair", "a"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: 1 finding of damage cannot be repaired here"), "{error}");
    assert!(error.contains("shardine verify a"), "{error}");
    let output = folder.run(&["repair", "b", "--set-aside", "b/inside"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("lies inside"));
}

#[test]
fn a_format_that_is_only_read_is_not_sent_from_verify_to_repair_and_back() {
    let folder = wkw();
    folder.ok(&["verify", "w", "--decode"]);
    let text = folder.text(&["repair", "w"]);
    assert_eq!(text, "0 things repaired\n");
    let whole = folder.get("w/z0/y0/x1.wkw");
    folder.put("w/z0/y0/x1.wkw", &whole[..100]);
    let output = folder.run(&["verify", "w"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("next: restore the object from a copy"), "{text}");
    assert!(!text.contains("repair"), "{text}");
    for arguments in [&["repair", "w"][..], &["repair", "w", "--dry-run"]] {
        let output = folder.run(arguments);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("z0/y0/x1.wkw: not repaired: "), "{text}");
        let error = String::from_utf8(output.stderr).unwrap();
        let reason = "error: 1 finding of damage is not repaired: webknossos-wrap is read-only";
        assert!(error.starts_with(reason), "{error}");
        assert!(error.contains("restore the damaged files from a copy"), "{error}");
        assert!(!error.contains("shardine verify"), "{error}");
    }
    let (report, _) = lossy(&folder, &["repair", "w", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["ok"], &report["summary"]["left"]), (&json!(false), &json!(1)));
    assert_eq!(report["only_read"], "webknossos-wrap");
    assert_eq!(folder.get("w/z0/y0/x1.wkw"), &whole[..100]);
    assert_eq!(folder.names(), ["w"]);
    folder.put("w/z0/y0/x1.wkw", &whole);
    folder.ok(&["verify", "w", "--decode"]);
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
