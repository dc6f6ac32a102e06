//! `shardine migrate` of OME-Zarr.

use super::support::*;
use crate::ome_fixtures::Files;

fn filled(make: &dyn Fn(&mut Files)) -> Folder {
    let folder = Folder::new();
    let mut files = Files::default();
    make(&mut files);
    for (name, bytes) in &files.0 {
        let path = folder.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    folder
}

fn labelled() -> Folder {
    filled(&|files| files.labelled("h", 2))
}

#[test]
fn an_image_with_labels_goes_to_0_5_and_on_to_0_6() {
    let folder = labelled();
    let told = folder.text(&["migrate", "h", "--dry-run"]);
    assert!(told.contains("would write labels/zarr.json"), "{told}");
    assert!(told.contains("would remove labels/cells/.zattrs"), "{told}");
    assert!(told.contains("4 groups would be version 0.5"), "{told}");
    assert!(!folder.exists("h/zarr.json") && folder.exists("h/.zattrs"));
    let told = folder.text(&["migrate", "h"]);
    assert!(
        told.contains("6 arrays and 4 groups: 10 documents written, 14 documents of"),
        "{told}"
    );
    assert!(told.contains("metadata of 4 groups is version 0.5"), "{told}");
    assert!(told.contains("6 arrays got the names of the axes"), "{told}");
    assert!(!folder.exists("h/.zattrs") && !folder.exists("h/0/.zarray"));
    assert_eq!(folder.document("h/zarr.json")["attributes"]["ome"]["version"], "0.5");
    let names = &folder.document("h/labels/cells/1/zarr.json")["dimension_names"];
    assert_eq!(*names, serde_json::json!(["c", "y", "x"]));
    let told = folder.text(&["migrate", "h"]);
    assert!(told.contains("already, OME-Zarr 0.5, nothing to do"), "{told}");

    let report = folder.json(&["migrate", "h", "--ome-version", "0.6rc0", "--json"]);
    assert_eq!(report["replaced"].as_array().unwrap().len(), 4);
    assert_eq!(report["replaced"][3], "zarr.json");
    assert_eq!(report["written"], serde_json::json!([]));
    let summary = &report["summary"];
    assert_eq!((&summary["ome"], &summary["converted"]), (&4.into(), &4.into()));
    assert_eq!((&summary["ome_version"], &summary["resumed"]), (&"0.6rc0".into(), &false.into()));
    assert_eq!(folder.document("h/labels/zarr.json")["attributes"]["ome"]["version"], "0.6rc0");
    assert_eq!(folder.names(), ["h"]);
    let verified = folder.json(&["verify", "h", "--json"]);
    assert_eq!(verified["ok"], true, "{verified}");
}

#[test]
fn both_versions_are_readable_side_by_side_if_asked() {
    let folder = labelled();
    folder.ok(&["migrate", "h", "--keep-v2"]);
    for format in ["2", "3"] {
        let told = folder.json(&["info", "h/labels/cells/0", "--json", "--zarr-format", format]);
        assert_eq!(told["format"], format!("zarr{format}"));
    }
    let told = folder.refused(&["migrate", "h", "--keep-v2", "--remove-v2"]);
    assert!(told.contains("cannot be used with"), "{told}");
}

#[test]
fn versions_and_parts_that_cannot_be_are_refused_with_what_to_do() {
    let folder = labelled();
    let told = folder.refused(&["migrate", "h", "--ome-version", "0.4"]);
    assert!(told.contains("convert"), "{told}");
    let told = folder.refused(&["migrate", "h", "--ome-version", "7"]);
    assert!(told.contains("0.1 to 0.6"), "{told}");
    let told = folder.refused(&["migrate", "h/labels/cells"]);
    assert!(told.contains("belongs to") && told.contains("hint: migrate "), "{told}");
    // What is not understood is left alone if asked, as ordinary attributes.
    folder.put("h/labels/.zattrs", br#"{"well": {"depth": 3}}"#);
    let output = folder.run(&["migrate", "h"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("h/labels: its OME-Zarr metadata is not understood"), "{told}");
    let told = folder.text(&["migrate", "h", "--ome-version", "none"]);
    assert!(told.contains("10 documents written, 0 documents of version 2 removed"), "{told}");
    assert_eq!(folder.document("h/labels/zarr.json")["attributes"]["well"]["depth"], 3);
}
