use super::support::*;

const ARRAY: &str = r#"{"zarr_format": 2, "shape": [2, 3], "chunks": [2, 2], "dtype": ">u2", "order": "C",
    "fill_value": 9, "filters": null, "compressor": null, "dimension_separator": "/"}"#;

/// A group with the array `a`, whose second chunk was never written.
fn hierarchy() -> Folder {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("h/a/0")).unwrap();
    folder.put("h/.zgroup", br#"{"zarr_format": 2}"#);
    folder.put("h/.zattrs", br#"{"title": "trial"}"#);
    folder.put("h/a/.zarray", ARRAY.as_bytes());
    folder.put("h/a/0/0", &[0, 1, 0, 2, 0, 3, 0, 4]);
    folder
}

fn elements() -> Vec<u8> {
    u16s([1, 2, 9, 3, 4, 9])
}

#[test]
fn verbs_that_read_know_version_2() {
    let folder = hierarchy();
    assert_eq!(folder.ok(&["read", "h/a", "-o", "-"]), elements());
    let info = folder.json(&["info", "h/a", "--json"]);
    assert_eq!(
        (&info["format"], &info["formats"]),
        (&"zarr2".into(), &serde_json::json!(["zarr2"]))
    );
    assert_eq!(info["stored"]["objects"], 1);
    assert!(folder.text(&["info", "h"]).contains("format       Zarr v2\n"));
    assert!(folder.text(&["ls", "h"]).contains('a'));
    let verified = folder.json(&["verify", "h", "--decode", "--json"]);
    assert_eq!((&verified["ok"], &verified["findings"]), (&true.into(), &serde_json::json!([])));
    folder.ok(&["bench", "h/a", "--write"]);
    folder.ok(&["copy", "h", "copy"]);
    assert_eq!(folder.ok(&["read", "copy/a", "-o", "-"]), elements());
}

#[test]
fn an_array_of_version_2_is_not_grown_or_replaced() {
    let folder = hierarchy();
    folder.put("in.raw", &[0; 6]);
    let told = folder.refused(&["append", "h/a", "in.raw"]);
    assert!(told.contains("never changed") && told.contains("shardine migrate"), "{told}");
    let told =
        folder.refused(&["create", "h/a", "--shape", "4", "--dtype", "uint8", "--overwrite"]);
    assert!(told.contains("Zarr v2"), "{told}");
    let told =
        folder.refused(&["create", "n", "--shape", "4", "--dtype", "uint8", "--zarr-format", "2"]);
    assert!(told.contains("version 3"), "{told}");
    assert_eq!(folder.ok(&["read", "h/a", "-o", "-"]), elements());
}

#[test]
fn a_migration_tells_what_it_does_and_what_it_leaves() {
    let folder = hierarchy();
    let told = folder.text(&["migrate", "h", "--dry-run"]);
    assert!(told.contains("would write a/zarr.json\nwould write zarr.json\n"), "{told}");
    assert!(!folder.exists("h/zarr.json"));
    let told = folder.text(&["migrate", "h"]);
    assert!(told.contains("1 array and 1 group: 2 documents written"), "{told}");
    assert!(folder.text(&["info", "h/a"]).contains("metadata of both Zarr v2 and Zarr v3"));
    let old = folder.json(&["info", "h/a", "--json", "--zarr-format", "2"]);
    assert_eq!(old["format"], "zarr2");
    // Stopped half-way, the same command goes on.
    std::fs::remove_file(folder.path("h/zarr.json")).unwrap();
    let report = folder.json(&["migrate", "h", "--remove-v2", "--json"]);
    assert_eq!(report["written"], serde_json::json!(["zarr.json"]));
    assert_eq!(report["removed"].as_array().unwrap().len(), 3);
    assert!(!folder.exists("h/a/.zarray"));
    assert_eq!(folder.ok(&["read", "h/a", "-o", "-"]), elements());
    assert!(folder.text(&["migrate", "h"]).contains("nothing to do"));
}

#[test]
fn arrays_that_cannot_be_migrated_are_all_named() {
    let folder = hierarchy();
    for name in ["h/s", "h/t"] {
        std::fs::create_dir_all(folder.path(name)).unwrap();
        let document = ARRAY.replace("\">u2\"", "[[\"x\", \"<i4\"]]");
        folder.put(&format!("{name}/.zarray"), document.as_bytes());
    }
    let output = folder.run(&["migrate", "h"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("h/s: ") && told.contains("h/t: "), "{told}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("2 nodes cannot be migrated"));
    assert!(!folder.exists("h/a/zarr.json"));
}
