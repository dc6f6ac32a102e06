//! `compare`, as scripts call it: by its exit status, and by its report.

use serde_json::{Value, json};

use crate::support::{Folder, npy};

/// Two arrays of the same elements in different packings.
fn pair(folder: &Folder) {
    let elements: Vec<u8> = (0..32 * 32u32).flat_map(|i| (i as u16).to_le_bytes()).collect();
    folder.put("in.npy", &npy(1, "'<u2'", false, "(32, 32)", &elements));
    folder.ok(&["convert", "in.npy", "a", "--chunk", "8,8", "--shard", "16,16"]);
    folder
        .ok(&["convert", "in.npy", "b", "--chunk", "5,7", "--shard", "none", "--codec", "gzip:1"]);
}

/// The exit status and the report.
fn compared(folder: &Folder, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = folder.run(&[&["compare"][..], arguments, &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|_| json!({ "errors": errors })))
}

#[test]
fn the_exit_status_says_whether_two_arrays_are_equal() {
    let folder = Folder::new();
    pair(&folder);
    let text = folder.text(&["compare", "a", "b"]);
    assert_eq!(text, "equal: 1 array, 1024 elements\n");
    folder.ok(&["compare", "a", "in.npy"]);
    folder.ok(&["compare", "in.npy", "in.npy"]);
    folder.put("one.raw", &[255, 255]);
    folder.ok(&["write", "b", "--region", "31,2", "one.raw"]);
    let output = folder.run(&["compare", "a", "b"]);
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(1), &b""[..]));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with(
            ".: 1 of 1024 elements differ; first at 31,2: 994 in A (chunk 3,0, shard 1,0, "
        ),
        "{text}"
    );
    assert!(lines[0].contains("a/c/1/0), 65535 in B (chunk 6,0, "), "{text}");
    assert!(lines[0].ends_with("b/c/6/0); largest difference 64541"), "{text}");
    assert_eq!(lines[1..], ["different: 1 difference; 1 array, 1024 elements"]);
    // Nothing is printed, and the status is the same.
    let quiet = folder.run(&["compare", "a", "b", "--quiet"]);
    assert_eq!((quiet.status.code(), &quiet.stdout[..]), (Some(1), &b""[..]));
}

#[test]
fn the_report_for_programs_has_the_form_that_the_docs_show() {
    let folder = Folder::new();
    pair(&folder);
    let (status, report) = compared(&folder, &["a", "b"]);
    assert_eq!(status, Some(0));
    assert_eq!(
        report,
        json!({
            "differences": [], "equal": true, "untold": 0,
            "summary": {"arrays": 1, "elements": 1024, "differing": 0, "chunks_not_decoded": 0, "differences": 0},
        })
    );
    folder.put("one.raw", &[255, 255]);
    folder.ok(&["write", "b", "--region", "31,2", "one.raw"]);
    folder.ok(&["attrs", "set", "b", "who=me"]);
    let (status, report) = compared(&folder, &["a", "b"]);
    assert_eq!((status, &report["equal"]), (Some(1), &json!(false)));
    assert_eq!(report["differences"].as_array().unwrap().len(), 2);
    let (attributes, elements) = (&report["differences"][0], &report["differences"][1]);
    assert_eq!(
        attributes,
        &json!({
            "kind": "attributes", "path": "", "path_b": "", "attributes": [{"name": "who", "b": "me"}],
        })
    );
    let object = |side: &str| elements[side]["object"].as_str().unwrap().to_owned();
    assert!(object("a").ends_with("/a/c/1/0") || object("a") == "a/c/1/0", "{}", object("a"));
    let mut elements = elements.clone();
    for side in ["a", "b"] {
        elements[side].as_object_mut().unwrap().remove("object");
    }
    assert_eq!(
        elements,
        json!({
            "kind": "elements", "path": "", "path_b": "", "count": 1, "total": 1024, "largest": 64541,
            "a": {"at": [31, 2], "value": 994, "chunk": [3, 0], "shard": [1, 0], "stored": true},
            "b": {"at": [31, 2], "value": 65535, "chunk": [6, 0], "shard": null, "stored": true},
        })
    );
    let (status, report) = compared(&folder, &["a", "b", "--max-differences", "1"]);
    assert_eq!((status, &report["untold"]), (Some(1), &json!(1)));
    let (_, report) = compared(&folder, &["a", "b", "--data-only"]);
    assert_eq!(report["differences"].as_array().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_read_is_neither_equal_nor_different() {
    let folder = Folder::new();
    pair(&folder);
    assert!(folder.refused(&["compare", "a", "gone"]).contains("gone"));
    assert!(folder.refused(&["compare", "gone", "gone"]).contains("gone"));
    assert!(folder.refused(&["compare", "a", "gone.npy"]).contains("gone.npy"));
    assert!(folder.refused(&["compare", "a", "b", "--level", "1"]).contains("levels"));
    assert!(folder.refused(&["compare", "a", "b", "--bytes", "--data-only"]).contains("--bytes"));
    let shard = folder.get("a/c/0/0");
    folder.put("a/c/0/0", &shard[..shard.len() - 1]);
    assert!(folder.refused(&["compare", "a", "b"]).contains("c/0/0"));
    assert!(folder.refused(&["compare", "b", "a", "--json"]).contains("c/0/0"));
}

#[test]
fn a_volume_is_compared_with_what_is_made_of_it() {
    let folder = Folder::new();
    let elements: Vec<u8> = (0..20 * 10 * 6).map(|i| i as u8).collect();
    folder.put("in.npy", &npy(1, "'|u1'", false, "(20, 10, 6)", &elements));
    let dims = ["--dims", "x,y,z", "--chunk", "8,8,4"];
    folder.ok(&[&["convert", "in.npy", "a"][..], &dims].concat());
    let volume = ["--to", "precomputed", "--resolution", "8,8,40"];
    folder.ok(&[&["convert", "a", "v"][..], &volume].concat());
    folder.ok(&["convert", "v", "back"]);
    for (a, b) in [("a", "v"), ("v", "a"), ("v", "back"), ("back", "v"), ("v", "in.npy")] {
        folder.ok(&["compare", a, b]);
    }
    folder.put("one.raw", &[255]);
    folder.ok(&["write", "v", "--region", "19,9,0", "one.raw"]);
    let (status, report) = compared(&folder, &["back", "v"]);
    assert_eq!(status, Some(1));
    let found = &report["differences"][0];
    assert_eq!((&found["path"], &found["a"]["at"]), (&json!("8_8_40"), &json!([19, 9, 0, 0])));
}

#[test]
fn stored_objects_are_compared_byte_for_byte() {
    let folder = Folder::new();
    pair(&folder);
    folder.ok(&["copy", "a", "copy"]);
    let text = folder.text(&["compare", "a", "copy", "--bytes"]);
    assert!(text.starts_with("equal: 5 objects in both, "), "{text}");
    let mut shard = folder.get("copy/c/1/1");
    shard[40] ^= 1;
    folder.put("copy/c/1/1", &shard);
    std::fs::remove_file(folder.path("copy/c/0/1")).unwrap();
    let (status, report) = compared(&folder, &["a", "copy", "--bytes"]);
    assert_eq!(status, Some(1));
    let len = shard.len();
    assert_eq!(
        report["differences"][1],
        json!({
            "kind": "bytes", "object": "c/1/1", "first": 40, "length_a": len, "length_b": len,
        })
    );
    assert_eq!(report["differences"][0]["kind"], "only-in-a");
    // Two files, whatever they hold.
    folder.ok(&["compare", "in.npy", "in.npy", "--bytes"]);
    assert_eq!(folder.run(&["compare", "in.npy", "one.raw", "--bytes"]).status.code(), Some(2));
}
