//! `copy`: data sets in folders.

use std::process::Command;

use serde_json::json;

use crate::support::{Folder, wkw, written};

const MARKER: &str = ".shardine-copy.json";

/// Whether two folders hold the same files, as another program sees it.
fn same(folder: &Folder, one: &str, other: &str) -> bool {
    let compared = Command::new("diff")
        .arg("-r")
        .args([folder.path(one), folder.path(other)])
        .output()
        .unwrap();
    compared.status.success()
}

/// An array in a group, and a file of another make.
fn data_set() -> Folder {
    let folder = written();
    std::fs::create_dir_all(folder.path("set/sub")).unwrap();
    std::fs::rename(folder.path("a"), folder.path("set/a")).unwrap();
    folder.put("set/zarr.json", br#"{"zarr_format": 3, "node_type": "group"}"#);
    folder.put("set/sub/notes.txt", b"by hand");
    folder
}

#[test]
fn a_data_set_is_copied_as_it_is() {
    let folder = data_set();
    let told = folder.text(&["copy", "set", "new/place"]);
    assert!(told.starts_with("copied 7 objects, "), "{told}");
    assert!(told.ends_with("; all lengths checked\n"), "{told}");
    assert_eq!(told.lines().count(), 1);
    assert!(same(&folder, "set", "new/place"));
    for (check, end) in [("none", "not checked\n"), ("content", "read back and compared\n")] {
        let told = folder.text(&["copy", "set", check, "--verify", check]);
        assert!(told.ends_with(end), "{told}");
        assert!(same(&folder, "set", check));
    }
    folder.ok(&["verify", "new/place", "--decode"]);
    let report = folder.json(&["copy", "set/a", "b", "--json", "--requests", "1"]);
    assert_eq!((&report["objects_copied"], &report["objects_skipped"]), (&json!(5), &json!(0)));
    assert_eq!((&report["resumed"], &report["verified"]), (&json!(false), &json!("size")));
    assert!(report["bytes_copied"].as_u64().unwrap() > 0 && report["seconds"].is_number());
    assert!(same(&folder, "set/a", "b"));
}

#[test]
fn a_volume_is_copied_with_all_that_lies_in_its_folder() {
    let folder = Folder::new();
    folder.ok(&[
        "create",
        "v",
        "--to",
        "precomputed",
        "--shape",
        "40,40,20",
        "--dtype",
        "uint8",
        "--chunk",
        "16,16,16",
        "--resolution",
        "8,8,8",
        "--shard",
        "32,32,32",
    ]);
    folder.put("in.raw", &[7; 40 * 40 * 20]);
    folder.ok(&["write", "v", "in.raw"]);
    std::fs::create_dir(folder.path("v/mesh")).unwrap();
    folder.put("v/mesh/7:0", b"fragments");
    for check in ["none", "size", "content"] {
        folder.ok(&["copy", "v", check, "--verify", check]);
        assert!(same(&folder, "v", check));
    }
    folder.ok(&["verify", "content", "--decode"]);
    assert!(folder.refused(&["copy", "v", "content"]).contains("content"));
    // What its `info` tells of and lies elsewhere would not be copied.
    let info = String::from_utf8(folder.get("v/info")).unwrap();
    folder.put("v/info", info.replace("\"8_8_8\"", "\"../8_8_8\"").as_bytes());
    let errors = folder.refused(&["copy", "v", "w"]);
    assert!(errors.contains("../8_8_8"), "{errors}");
    assert!(!folder.exists("w"));
}

#[test]
fn a_data_set_of_webknossos_is_copied_and_overwritten() {
    let folder = wkw();
    let told = folder.text(&["copy", "w", "to"]);
    assert!(told.starts_with("copied 3 objects, "), "{told}");
    assert!(same(&folder, "w", "to"));
    folder.put("w/z0/y0/x0.wkw", &folder.get("w/z0/y0/x1.wkw"));
    assert!(folder.refused(&["copy", "w", "to"]).contains("--overwrite"));
    folder.ok(&["copy", "w", "to", "--overwrite"]);
    assert!(same(&folder, "w", "to"));
    // Its files alone are no data set.
    std::fs::remove_file(folder.path("to/header.wkw")).unwrap();
    let refused = folder.refused(&["copy", "w", "to", "--overwrite"]);
    assert!(refused.contains("is not a data set"), "{refused}");
    assert!(folder.exists("to/z0/y0/x0.wkw"));
}

#[test]
fn the_same_command_goes_on_where_it_stopped() {
    let folder = data_set();
    folder.ok(&["copy", "set", "to"]);
    std::fs::remove_file(folder.path("to/zarr.json")).unwrap();
    std::fs::remove_file(folder.path("to/a/c/1/0")).unwrap();
    let source = folder.path("set").canonicalize().unwrap();
    let marker = json!({"shardine_copy": 1, "source": source, "clearing": false});
    folder.put(&format!("to/{MARKER}"), marker.to_string().as_bytes());
    let refused = folder.refused(&["copy", "set/a", "to"]);
    assert!(refused.contains("is an unfinished copy of"), "{refused}");
    assert!(refused.contains("--overwrite"), "{refused}");
    let told = folder.text(&["copy", "./set", "to"]);
    assert!(told.starts_with("copied 3 objects, "), "{told}");
    assert!(told.contains("; 4 objects, "), "{told}");
    assert!(same(&folder, "set", "to"));
    assert!(!folder.exists(&format!("to/{MARKER}")));
}

#[test]
fn a_copy_that_is_killed_goes_on() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("set/c")).unwrap();
    folder.put("set/zarr.json", b"{}");
    for i in 0..2_000 {
        folder.put(&format!("set/c/{i}"), &vec![i as u8; 1_000 + i]);
    }
    // Killed as soon as the first objects are there.
    let mut child = folder.command(&["copy", "set", "to", "--requests", "1"]).spawn().unwrap();
    while !folder.path("to/c").is_dir() && child.try_wait().unwrap().is_none() {}
    let killed = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    if killed && folder.exists(&format!("to/{MARKER}")) {
        let report = folder.json(&["copy", "set", "to", "--json"]);
        assert_eq!(report["resumed"], json!(true));
    }
    std::fs::read_dir(folder.path("to/c")).unwrap().for_each(|entry| {
        // What the killed one was writing; a later writer of the same object leaves it alone.
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "tmp") {
            std::fs::remove_file(path).unwrap();
        }
    });
    assert!(same(&folder, "set", "to"));
}

#[test]
fn what_cannot_be_copied_is_refused_in_one_line() {
    let folder = data_set();
    for (arguments, reason) in [
        (&["copy", "set", "set"][..], "the same location"),
        (&["copy", "set", "set/a/copy"], "one is inside the other"),
        (&["copy", "set/a", "set", "--overwrite"], "one is inside the other"),
        (&["copy", "nowhere", "to"], "there is nothing at "),
        (&["copy", "in.raw", "to"], "is a single object, not a data set"),
        (&["copy", "set", "in.raw"], "already exists"),
        (&["copy", "set/a", "set/sub", "--overwrite"], "is not a data set"),
        (&["copy", "set", "to", "--requests", "0"], "not a number from 1 to 1024"),
        (&["copy", "set", "to", "--memory", "1KiB"], "at least 1 MiB"),
        (&["copy", "set", "to", "--verify", "some"], "possible values"),
    ] {
        let refused = folder.refused(arguments);
        assert!(refused.contains(reason), "{refused}");
        assert!(!folder.exists("to"));
    }
    folder.ok(&["copy", "set", "to"]);
    let refused = folder.refused(&["copy", "set/a", "to"]);
    assert!(refused.contains("already exists") && refused.contains("--overwrite"), "{refused}");
    folder.ok(&["copy", "set/a", "to", "--overwrite"]);
    assert!(same(&folder, "set/a", "to"));
}
