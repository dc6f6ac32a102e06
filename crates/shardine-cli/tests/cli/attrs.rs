use serde_json::json;

use crate::support::Folder;

#[test]
fn attributes_are_set_shown_and_removed_and_all_else_stays() {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "4", "--dtype", "uint8"]);
    let document = folder.document("a/zarr.json");
    // What no parser holds, and what this program does not know, stays as it stood.
    let text = document.to_string().replacen('{', r#"{"odd": {"must_understand": false},"#, 1);
    let text = text.replace(
        r#""attributes":{}"#,
        r#""attributes":{"big": 123456789012345678901234567890, "nan": NaN}"#,
    );
    assert!(text.contains("NaN"));
    folder.put("a/zarr.json", text.as_bytes());
    let said = folder.text(&["attrs", "set", "a", "units=micrometer", "offset=[0, 12.5]", "n=7"]);
    assert_eq!(said, "a: set units, offset, n\n");
    assert_eq!(folder.json(&["attrs", "get", "a", "offset"]), json!([0, 12.5]));
    assert_eq!(folder.json(&["attrs", "get", "a", "/offset/1"]), json!(12.5));
    assert_eq!(folder.json(&["attrs", "get", "a", "units"]), json!("micrometer"));
    assert_eq!(folder.text(&["attrs", "rm", "a", "n", "units"]), "a: removed n, units\n");
    let text = String::from_utf8(folder.get("a/zarr.json")).unwrap();
    assert!(text.contains("123456789012345678901234567890") && text.contains("NaN"), "{text}");
    assert!(text.contains("must_understand") && !text.contains("units"), "{text}");
    assert!(folder.refused(&["attrs", "rm", "a", "n"]).contains("no attribute \"n\""));
    assert!(folder.refused(&["attrs", "get", "a", "n"]).contains("no attribute \"n\""));
    assert!(folder.refused(&["attrs", "get", "b"]).contains("there is no"));
    folder.put("more.json", br#"{"x": {"y": 1}}"#);
    folder.ok(&["attrs", "set", "a", "--from", "more.json", "z=1"]);
    assert_eq!(folder.json(&["attrs", "get", "a", "/x/y"]), json!(1));
    folder.put("more.json", b"[1]");
    assert!(
        folder
            .refused(&["attrs", "set", "a", "--from", "more.json"])
            .contains("not hold a JSON object")
    );
}

#[test]
fn copies_in_groups_above_learn_of_it() {
    let folder = Folder::new();
    folder.put("zarr.json", br#"{"zarr_format": 3, "node_type": "group", "attributes": {}}"#);
    folder.ok(&["create", "a", "--shape", "4", "--dtype", "uint8"]);
    folder.ok(&["consolidate", "."]);
    folder.ok(&["attrs", "set", "a", "units=micrometer"]);
    let group = folder.document("zarr.json");
    let known = &group["consolidated_metadata"]["metadata"]["a"]["attributes"];
    assert_eq!(*known, json!({ "units": "micrometer" }));
}

#[test]
fn attributes_of_version_2_are_a_document_of_their_own() {
    let folder = Folder::new();
    folder.put(".zgroup", br#"{"zarr_format": 2}"#);
    std::fs::create_dir(folder.path("a")).unwrap();
    folder.put(
        "a/.zarray",
        br#"{"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|u1", "compressor": null,
            "fill_value": 0, "order": "C", "filters": null}"#,
    );
    folder.ok(&["consolidate", "."]);
    assert_eq!(folder.json(&["attrs", "get", "a"]), json!({}));
    folder.ok(&["attrs", "set", "a", "scale_factor=0.5"]);
    assert_eq!(folder.document("a/.zattrs"), json!({ "scale_factor": 0.5 }));
    let copy = folder.document(".zmetadata");
    assert_eq!(copy["metadata"]["a/.zattrs"], json!({ "scale_factor": 0.5 }));
    folder.ok(&["attrs", "rm", "a", "scale_factor"]);
    assert_eq!(folder.document("a/.zattrs"), json!({}));
}
