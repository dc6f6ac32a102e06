//! The copies that groups keep of the metadata below them.

use serde_json::{Value, json};

use super::support::*;

fn document(folder: &Folder, name: &str) -> Value {
    serde_json::from_slice(&folder.get(&format!("{name}/zarr.json"))).unwrap()
}

fn copies(folder: &Folder, name: &str) -> Value {
    document(folder, name)["consolidated_metadata"]["metadata"].clone()
}

/// `g` and `g/sub` are groups with an array `a` each, and attributes.
fn groups() -> Folder {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("g/sub")).unwrap();
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {"kept": true}});
    for name in ["g", "g/sub"] {
        folder.put(&format!("{name}/zarr.json"), group.to_string().as_bytes());
        let array = format!("{name}/a");
        folder.ok(&["create", &array, "--shape", "0,4", "--dtype", "uint8", "--chunk", "1,2"]);
    }
    folder
}

#[test]
fn what_changes_below_a_group_changes_in_the_copies_above() {
    let folder = groups();
    assert!(folder.text(&["consolidate", "g"]).contains("3 nodes"));
    assert_eq!(folder.json(&["consolidate", "g/sub", "--json"]), json!({"nodes": 1}));
    folder.ok_with_input(&["append", "g/sub/a", "-"], &[1; 8]);
    assert_eq!(copies(&folder, "g")["sub/a"], document(&folder, "g/sub/a"));
    assert_eq!(copies(&folder, "g/sub")["a"], document(&folder, "g/sub/a"));
    assert_eq!(copies(&folder, "g")["sub/a"]["shape"], json!([2, 4]));
    // What is new, what takes another's place, and what comes from elsewhere.
    let create = ["create", "g/sub/b", "--shape", "4", "--dtype", "uint8"];
    folder.ok(&create);
    assert_eq!(copies(&folder, "g")["sub/b"], document(&folder, "g/sub/b"));
    folder.ok(&["create", "g/sub/b", "--shape", "9", "--dtype", "int8", "--overwrite"]);
    assert_eq!(copies(&folder, "g/sub")["b"], document(&folder, "g/sub/b"));
    folder.ok(&["copy", "g/sub", "g/twin"]);
    assert_eq!(copies(&folder, "g")["twin/b"], document(&folder, "g/sub/b"));
    folder.ok(&["convert", "g/a", "g/c", "--chunk", "1,4"]);
    assert_eq!(copies(&folder, "g")["c"], document(&folder, "g/c"));
    folder.ok(&["reshard", "g/sub/a", "--chunks-per-shard", "2"]);
    assert_eq!(copies(&folder, "g")["sub/a"], document(&folder, "g/sub/a"));
    assert_eq!(copies(&folder, "g/sub")["a"], document(&folder, "g/sub/a"));
    // By a path with a link in it.
    std::os::unix::fs::symlink(folder.path("g/sub/a"), folder.path("link")).unwrap();
    folder.ok_with_input(&["append", "link", "-"], &[2; 4]);
    assert_eq!(copies(&folder, "g")["sub/a"]["shape"], json!([3, 4]));
    let found = folder.json(&["verify", "g", "--json"]);
    assert!(!found.to_string().contains("consolidated-metadata"), "{found}");
    assert_eq!(document(&folder, "g")["attributes"], json!({"kept": true}));
    // Without copies nothing is made.
    folder.ok(&["consolidate", "g", "--remove"]);
    assert!(folder.text(&["consolidate", "g", "--remove"]).contains("no consolidated"));
    folder.ok_with_input(&["append", "g/sub/a", "-"], &[3; 4]);
    assert_eq!(document(&folder, "g").get("consolidated_metadata"), None);
    assert_eq!(copies(&folder, "g/sub")["a"]["shape"], json!([4, 4]));
    assert!(folder.refused(&["consolidate", "g/a"]).contains("not a group"));
    assert!(folder.refused(&["consolidate", "missing"]).contains("missing"));
}

#[test]
fn hostile_names_in_a_copy_are_neither_followed_nor_fatal() {
    let folder = groups();
    folder.ok_with_input(&["append", "g/a", "-"], &[1; 8]);
    folder.ok(&["consolidate", "g"]);
    folder.ok(&["create", "outside", "--shape", "4", "--dtype", "uint8"]);
    let outside = folder.get("outside/zarr.json");
    let mut group = document(&folder, "g");
    let known = group["consolidated_metadata"]["metadata"].as_object_mut().unwrap();
    let hostile = ["", "/x", "../outside", "b/../../outside", "__x", "sub//a", "a\\b"];
    for name in hostile {
        known.insert(name.to_owned(), json!({"zarr_format": 3, "node_type": "array"}));
    }
    folder.put("g/zarr.json", group.to_string().as_bytes());
    folder.ok_with_input(&["append", "g/a", "-"], &[2; 4]);
    folder.ok(&["reshard", "g/a", "--chunks-per-shard", "2"]);
    folder.ok(&["reshard", "g", "--chunks-per-shard", "1"]);
    folder.ok(&["create", "g/new", "--shape", "4", "--dtype", "uint8"]);
    let copies = copies(&folder, "g");
    assert_eq!(copies["a"], document(&folder, "g/a"));
    assert_eq!(copies["new"], document(&folder, "g/new"));
    for name in hostile {
        assert_eq!(copies[name], json!({"zarr_format": 3, "node_type": "array"}), "{name}");
    }
    assert_eq!(folder.get("outside/zarr.json"), outside);
    assert!(!folder.names().iter().any(|name| name.starts_with(".shardine")));
    assert_eq!(folder.ok(&["read", "g/a", "-o", "-"]), [[1; 8].to_vec(), [2; 4].to_vec()].concat());
    // Made anew they are gone.
    folder.ok(&["consolidate", "g"]);
    assert_eq!(self::copies(&folder, "g").as_object().unwrap().len(), 4);
}

#[test]
fn a_copy_that_cannot_be_renewed_is_told() {
    let folder = groups();
    let mut group = document(&folder, "g");
    group["consolidated_metadata"] = json!({"kind": "elsewhere", "must_understand": false});
    folder.put("g/zarr.json", group.to_string().as_bytes());
    folder.put("planes", &[1; 4]);
    let output = folder.run(&["append", "g/a", "planes"]);
    assert_eq!(output.status.code(), Some(0));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("warning: the consolidated metadata of"), "{errors}");
    assert!(errors.contains("shardine consolidate"), "{errors}");
    assert_eq!(folder.ok(&["read", "g/a", "-o", "-"]), [1; 4]);
}

#[test]
fn a_copy_of_version_2_is_made_and_forgets_what_is_migrated() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("g/a")).unwrap();
    folder.put("g/.zgroup", br#"{"zarr_format": 2}"#);
    folder.put(
        "g/a/.zarray",
        br#"{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<f4", "order": "C",
            "fill_value": "NaN", "filters": null, "compressor": null}"#,
    );
    folder.put("g/a/.zattrs", br#"{"odd": NaN}"#);
    folder.ok(&["consolidate", "g"]);
    let text = String::from_utf8(folder.get("g/.zmetadata")).unwrap();
    assert!(text.contains("\"odd\": NaN"), "{text}");
    let copy: Value = serde_json::from_str(&text.replace(": NaN", ": 0")).unwrap();
    assert_eq!(copy["zarr_consolidated_format"], json!(1));
    let known: Vec<&String> = copy["metadata"].as_object().unwrap().keys().collect();
    assert_eq!(known, [".zgroup", "a/.zarray", "a/.zattrs"]);
    let found = folder.json(&["verify", "g", "--json"]);
    assert!(!found.to_string().contains("consolidated-metadata"), "{found}");
    folder.ok(&["migrate", "g/a", "--remove-v2"]);
    let copy: Value = serde_json::from_slice(&folder.get("g/.zmetadata")).unwrap();
    assert_eq!(copy["metadata"], json!({".zgroup": {"zarr_format": 2}}));
    folder.ok(&["consolidate", "g", "--remove"]);
    assert!(!folder.exists("g/.zmetadata"));
}
