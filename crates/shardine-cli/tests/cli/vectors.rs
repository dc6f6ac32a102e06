//! `vectors query`: what is said of a store beside its rows; `plan` of a store.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

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
        fs::remove_file(folder.path(&format!("p.zv/0/{array}/c/1/0/0"))).unwrap();
    }
    let summary = folder.json(&["vectors", "query", "p.zv", "--json"]);
    assert_eq!(summary["vertices"], json!(2));
    assert_eq!(summary["absent_chunks"], json!([{ "array": "0/vertices", "chunk": "1.0.0" }]));
    let notes = summary["notes"].to_string();
    assert!(notes.contains("level 0 says that it has 3 vertices; 2 were found"), "{notes}");
    let refused = folder.refused(&["vectors", "query", "p.zv", "--strict"]);
    assert!(refused.contains("0/vertices lists chunk 1.0.0, for which nothing is stored"));
}

/// The rows of a store without their order, and its links as the rows that they join.
fn contents(folder: &Folder, store: &str) -> (String, Vec<String>, Vec<String>) {
    let files = ["-o", "all.csv", "--edges", "all-edges.csv", "--overwrite"];
    folder.ok(&[&["vectors", "query", store][..], &files].concat());
    let text = |name: &str| String::from_utf8(folder.get(name)).unwrap();
    let (rows, links) = (text("all.csv"), text("all-edges.csv"));
    let (header, rows) = rows.split_once('\n').unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    let link = |line: &str| {
        line.split(',').map(|row| rows[row.parse::<usize>().unwrap()]).collect::<Vec<_>>().join(" ")
    };
    let mut links: Vec<String> = links.lines().skip(1).map(link).collect();
    let mut rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
    rows.sort();
    links.sort();
    (header.to_owned(), rows, links)
}

#[test]
fn what_plan_says_makes_a_store_with_the_same_faces_objects_and_attributes() {
    let folder = Folder::new();
    // Two sheets of triangles, each vertex in a chunk of its own: too many chunks.
    let (mut rows, mut faces) = ("x,y,z,object_id,size\n".to_owned(), "a,b,c\n".to_owned());
    let edge = 102;
    for at in 0..edge * edge {
        let (x, y) = (at / edge, at % edge);
        rows += &format!("{x},{y},0,{},{}\n", x / 51, 1.5 + (x / 51) as f32);
        if x % 51 < 50 && y + 1 < edge {
            faces +=
                &format!("{at},{},{}\n{},{at},{}\n", at + 1, at + edge, at + edge + 1, at + edge);
        }
    }
    folder.put("rows.csv", rows.as_bytes());
    folder.put("faces.csv", faces.as_bytes());
    folder.put("given.csv", b"group,object_id\n2,1\n0,1\n2,0\n");
    let write = ["vectors", "write", "m.zv", "rows.csv", "--kind", "mesh", "--chunk", "1"];
    let more = ["--edges", "faces.csv", "--object-columns", "size", "--groups", "given.csv"];
    folder.ok(&[&write[..], &more, &["--shard", "64,64,1"]].concat());
    let plan = folder.json(&["plan", "m.zv", "--json"]);
    assert_eq!(plan["levels"][0]["action"], "rechunk");
    assert_eq!(plan["not_kept"], json!([]));
    let commands = plan["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 2);
    for command in commands {
        let words: Vec<&str> = command.as_str().unwrap().split(' ').collect();
        assert_eq!(words[0], "shardine");
        folder.ok(&words[1..]);
    }
    let (before, after) = (contents(&folder, "m.zv"), contents(&folder, "m-new.zv"));
    assert_eq!((before.0.as_str(), before.1.len()), ("x,y,z,object_id,size", edge * edge));
    assert_eq!(before.2.len(), faces.lines().count() - 1);
    assert!(before == after, "the stores differ");
    let attributes = folder.json(&["vectors", "info", "m-new.zv", "--json"])["attributes"].clone();
    assert_eq!(attributes.as_array().unwrap().len(), 1);
    assert_eq!((&attributes[0]["name"], &attributes[0]["of"]), (&json!("size"), &json!("object")));
    let groups = ["--groups-table", "again.csv"];
    folder.ok(&[&["vectors", "query", "m-new.zv"][..], &groups].concat());
    assert_eq!(folder.get("again.csv"), b"group,object_id\n0,1\n2,0\n2,1\n");
    folder.ok(&["verify", "m-new.zv"]);
    folder.ok(&["pyramid", "m.zv", "--coarsen", "4"]);
    let told = folder.text(&["plan", "m.zv"]);
    assert!(
        told.ends_with("not kept     coarser levels, which `shardine pyramid` makes\n"),
        "{told}"
    );
}

#[test]
fn a_column_that_is_to_be_an_attribute_of_objects_must_exist() {
    let folder = Folder::new();
    folder.put("p.csv", b"x,y,z,object_id,size\n1,1,1,7,2\n2,2,2,7,2\n15,1,1,8,4\n");
    let write = ["vectors", "write", "p.zv", "p.csv", "--kind", "points", "--chunk", "10"];
    let refused = folder.refused(&[&write[..], &["--object-columns", "weight"]].concat());
    assert!(refused.contains("no column \"weight\""), "{refused}");
    assert!(!folder.exists("p.zv"));
    folder.ok(&[&write[..], &["--object-columns", "size"]].concat());
    let attributes = folder.json(&["vectors", "info", "p.zv", "--json"])["attributes"].clone();
    assert_eq!(attributes[0]["of"], "object");
}

/// Points with words and numbers in a grid of chunks.
fn rows() -> Vec<u8> {
    let mut rows = "x,y,word,number\n".to_owned();
    for row in 0..300 {
        let word = ["one", "two", ""][row % 3];
        rows += &format!("{},{},{word},{}\n", (row * 37) % 80, (row * 13) % 60, row as f64 / 4.0);
    }
    rows.into_bytes()
}

#[test]
fn parts_of_a_file_sort_their_own_rows_and_make_the_same_store() {
    let folder = Folder::new();
    folder.put("rows.csv", &rows());
    let write = |store: &str, part: &[&str]| {
        let write = ["vectors", "write", store, "rows.csv", "--kind", "points", "--json"];
        let form = ["--chunk", "10", "--shard", "2"];
        folder.json(&[&write[..], &form, part].concat())
    };
    assert_eq!(write("whole.zv", &[])["rows_sorted"], json!(300));
    let mut sorted = Vec::new();
    for part in ["2/3", "1/3", "3/3"] {
        let report = write("parts.zv", &["--part", part]);
        sorted.push(report["rows_sorted"].as_u64().unwrap());
    }
    assert_eq!(sorted.iter().sum::<u64>(), 300, "{sorted:?}");
    assert!(sorted.iter().all(|rows| *rows > 20), "{sorted:?}");
    let files = |store: &str| {
        let (mut files, mut waiting) = (BTreeMap::new(), vec![folder.path(store)]);
        while let Some(next) = waiting.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(folder.path(store)).unwrap().to_owned();
                match path.is_dir() {
                    true => waiting.push(path),
                    false => drop(files.insert(name, fs::read(path).unwrap())),
                }
            }
        }
        // It has the name of the store.
        files.remove(Path::new("zarr.json")).unwrap();
        files
    };
    assert!(files("whole.zv") == files("parts.zv"));
}

#[test]
fn levels_are_made_by_parts_and_in_a_new_store() {
    let folder = points();
    let pyramid = |more: &[&str]| {
        let pyramid = ["pyramid", "p.zv", "--coarsen", "2", "--levels", "2"];
        folder.text(&[&pyramid[..], more].concat())
    };
    let said = pyramid(&["-o", "new.zv", "--part", "1/2"]);
    assert!(said.contains("part 1/2 is done; part 2 has not finished yet"), "{said}");
    assert!(!folder.exists("new.zv/zarr.json"));
    let said = pyramid(&["-o", "new.zv", "--part", "2/2"]);
    assert!(said.contains("new.zv/1: 1 vertex in 1 chunk"), "{said}");
    assert!(!folder.exists("p.zv/1") && !folder.exists("new.zv/.shardine-pyramid.json"));
    let said = pyramid(&["-o", "new.zv", "--part", "2/2"]);
    assert!(said.contains("nothing was done"), "{said}");
    pyramid(&["--part", "1/1"]);
    assert_eq!(folder.get("p.zv/1/vertices/c/0/0/0"), folder.get("new.zv/1/vertices/c/0/0/0"));
    let refused = folder.refused(&["pyramid", "p.zv", "-o", "x.zv", "--task-size", "1MiB"]);
    assert!(refused.contains("--task-size cannot be used with Zarr Vectors"), "{refused}");
}
