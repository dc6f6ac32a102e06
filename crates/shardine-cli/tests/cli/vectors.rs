//! `vectors query`: what is said of a store beside its rows.

use serde_json::json;

use crate::support::Folder;

/// Points in two chunks, in files of their own.
fn points() -> Folder {
    let folder = Folder::new();
    folder.put("points.csv", b"x,y,z\n1,1,1\n2,2,2\n15,1,1\n");
    folder.ok(&[
        "vectors",
        "write",
        "p.zv",
        "points.csv",
        "--kind",
        "points",
        "--chunk",
        "10,10,10",
    ]);
    folder
}

/// Leaves the second chunk out of every list.
fn shorten(folder: &Folder) {
    for array in ["vertices", "vertex_fragments"] {
        let name = format!("p.zv/0/{array}/zarr.json");
        let mut document = folder.document(&name);
        assert_eq!(document["attributes"]["nonempty_chunks"], json!(["0.0.0", "1.0.0"]));
        document["attributes"]["nonempty_chunks"] = json!(["0.0.0"]);
        folder.put(&name, document.to_string().as_bytes());
    }
}

#[test]
fn a_wrong_list_costs_no_points_and_is_said_beside_the_answer() {
    let folder = points();
    let summary = folder.json(&["vectors", "query", "p.zv", "--strict", "--json"]);
    assert_eq!((&summary["vertices"], &summary["notes"]), (&json!(3), &json!([])));
    assert_eq!(summary["absent_chunks"], json!([]));
    shorten(&folder);
    let run = folder.run(&["vectors", "query", "p.zv"]);
    assert!(run.status.success());
    assert_eq!(String::from_utf8(run.stdout).unwrap(), "3 vertices\n");
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.starts_with("note: lists of chunks (nonempty_chunks) are wrong"), "{said}");
    let summary = folder.json(&["vectors", "query", "p.zv", "--json"]);
    assert_eq!((&summary["vertices"], summary["notes"].as_array().unwrap().len()), (&json!(3), 1));
    let refused = folder.refused(&["vectors", "query", "p.zv", "--strict", "-o", "out.csv"]);
    assert!(refused.contains("0/vertices does not list chunk 1.0.0, which is stored"), "{refused}");
    assert!(refused.contains("without `--strict`"), "{refused}");
    assert!(!folder.exists("out.csv"));
}

#[test]
fn chunks_that_are_listed_and_gone_are_named() {
    let folder = points();
    for array in ["vertices", "vertex_fragments"] {
        std::fs::remove_file(folder.path(&format!("p.zv/0/{array}/c/1/0/0"))).unwrap();
    }
    let summary = folder.json(&["vectors", "query", "p.zv", "--json"]);
    assert_eq!(summary["vertices"], json!(2));
    assert_eq!(summary["absent_chunks"], json!([{ "array": "0/vertices", "chunk": "1.0.0" }]));
    let notes = summary["notes"].to_string();
    assert!(notes.contains("level 0 says that it has 3 vertices; 2 were found"), "{notes}");
    let refused = folder.refused(&["vectors", "query", "p.zv", "--strict"]);
    assert!(refused.contains("0/vertices lists chunk 1.0.0, for which nothing is stored"));
}
