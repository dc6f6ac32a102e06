//! Plates, wells, series and scenes, and hierarchies as trees.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::ome_support::{BOTH, Version};
use crate::support::Folder;

#[test]
fn a_plate_is_drawn_from_its_own_document_alone() {
    for version in BOTH {
        let folder = Folder::new();
        // No well exists: nothing is read of any.
        version.plate(&folder, "p", &[(0, 0), (0, 11), (7, 5)]);
        let text = folder.text(&["info", "p"]);
        let map =
            "      1  2  3  4  5  6  7  8  9 10 11 12\n   A  ●  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ●\n";
        assert!(text.contains(map), "{text}");
        for line in [
            "plate        p",
            "name         screen",
            "wells        3 of 96: 8 rows A to H, 12 columns 1 to 12",
            "fields       up to 2 in a well",
            "acquisitions 2: 0 (first), 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() < 100), "{text}");
        let info = folder.json(&["info", "p", "--json"]);
        assert_eq!(info["format"], "ome-zarr");
        assert_eq!(info["ome"]["version"], version.name());
        let plate = &info["ome"]["plate"];
        assert_eq!(plate["rows"].as_array().unwrap().len(), 8);
        assert_eq!(plate["columns"][11], "12");
        assert_eq!(plate["wells"][1], json!({ "path": "A/12", "row": 0, "column": 11 }));
        assert_eq!(plate["field_count"], 2);
    }
}

#[test]
fn a_well_and_the_images_of_bioformats2raw_are_described() {
    for version in BOTH {
        let folder = Folder::new();
        version.well(&folder, "w");
        let text = folder.text(&["info", "w"]);
        assert!(
            text.contains("fields       2\n  0  image, 1 level (y, x), acquisition 0\n"),
            "{text}"
        );
        let info = folder.json(&["info", "w", "--json"]);
        assert_eq!(info["ome"]["well"]["images"][1], json!({ "path": "1", "acquisition": 1 }));

        version.group(&folder, "b", json!({ "bioformats2raw.layout": 3 }));
        for series in ["0", "1"] {
            version.image(&folder, &format!("b/{series}"), "yx", &[8, 4], 2);
        }
        let numbered = folder.json(&["info", "b", "--json"]);
        let expected = json!({
            "name": "cells", "path": "1", "levels": 2, "shape": [8, 4], "dtype": "uint16",
        });
        assert_eq!(numbered["ome"]["bioformats2raw"]["series"][1], expected);
        // A list of series counts, and may name others.
        version.group(&folder, "b/OME", json!({ "series": ["1", "lost"] }));
        let text = folder.text(&["info", "b"]);
        assert!(text.contains("layout 3 of bioformats2raw\nseries       2\n"), "{text}");
        assert!(
            text.contains("  1     image, 2 levels (y, x), 8 x 4 uint16, \"cells\"\n"),
            "{text}"
        );
        assert!(text.contains("  lost  cannot be read: "), "{text}");
        assert!(text.contains("others       1\n  0  image, 2 levels"), "{text}");
        assert!(folder.text(&["info", "b/OME"]).contains("series       2: 1, lost"));
    }
}

#[test]
fn a_scene_is_described() {
    let folder = Folder::new();
    Version::V05.image(&folder, "s/tile", "yx", &[4, 4], 1);
    let axes = json!([{ "name": "y", "type": "space" }, { "name": "x", "type": "space" }]);
    let scene = json!({
        "coordinateSystems": [{ "name": "world", "axes": axes }],
        "coordinateTransformations": [{
            "type": "translation", "translation": [1.0, 2.0],
            "input": { "path": "tile", "name": "physical" }, "output": { "name": "world" },
        }],
    });
    let ome = json!({ "version": "0.6rc0", "scene": scene });
    let group = json!({ "zarr_format": 3, "node_type": "group", "attributes": { "ome": ome } });
    folder.put("s/zarr.json", group.to_string().as_bytes());
    let text = folder.text(&["info", "s"]);
    for line in [
        "scene        s",
        "format       OME-Zarr 0.6rc0 (Zarr v3)",
        "  world  y, x",
        "  tile: physical -> world  translation",
        "  tile  image, 1 level (y, x)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
    }
    let info = folder.json(&["info", "s", "--json"]);
    assert_eq!(info["ome"]["scene"]["coordinate_systems"][0]["name"], "world");
}

#[test]
fn a_tree_says_what_each_node_is() {
    let folder = Folder::new();
    Version::V05.labelled(&folder, "i");
    let tree = folder.text(&["ls", "-r", "i"]);
    let expected = "\
i  image, 3 levels (t, c, z, y, x)
├── 0       array, 2 x 2 x 8 x 16 x 16 uint16, shards of 1 x 1 x 8 x 8 x 8
├── 1       array, 2 x 2 x 4 x 8 x 8 uint16, shards of 1 x 1 x 8 x 8 x 8
├── 2       array, 2 x 2 x 2 x 4 x 4 uint16, shards of 1 x 1 x 8 x 8 x 8
└── labels  labels: nuclei
    └── nuclei  label image, 3 levels (t, c, z, y, x)
";
    assert!(tree.starts_with(expected), "{tree}");
    let nodes = folder.json(&["ls", "-r", "i", "--json"]);
    assert_eq!(
        nodes[3]["ome"],
        json!({ "kind": "labels", "version": "0.5", "labels": ["nuclei"] })
    );
    let label = &nodes[3]["children"][0];
    assert_eq!(
        (&label["path"], &label["ome"]["kind"]),
        (&json!("labels/nuclei"), &json!("label-image"))
    );
    assert_eq!(label["ome"]["levels"], json!(["0", "1", "2"]));
}

#[test]
fn of_nodes_that_look_alike_one_is_shown_unless_all_are_asked_for() {
    let folder = Folder::new();
    let wells: Vec<(usize, usize)> =
        (0..3).flat_map(|row| (0..11).map(move |column| (row, column))).collect();
    Version::V04.plate(&folder, "p", &wells);
    for (row, column) in wells {
        let row = char::from(b'A' + row as u8);
        Version::V04.group(&folder, &format!("p/{row}"), json!({}));
        Version::V04.well(&folder, &format!("p/{row}/{}", column + 1));
    }
    let output = folder.run(&["ls", "-r", "p"]);
    let tree = String::from_utf8(output.stdout).unwrap();
    let expected = "\
p  plate, 33 wells in 8 rows and 12 columns
├── A  row, 11 wells
│   ├── 1  well, 2 fields
│   │   ├── 0  image, 1 level (y, x)
│   │   │   └── 0  array, 4 x 4 uint16, chunks of 4 x 4
│   │   └── 1  image, 1 level (y, x)
│   │       └── 0  array, 4 x 4 uint16, chunks of 4 x 4
│   └── ... 10 more alike: 2 to 11
└── ... 2 more alike: B and C
";
    assert_eq!(tree, expected);
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(note.contains("--all") && note.lines().count() == 1, "{note}");
    assert_eq!(folder.run(&["-q", "ls", "-r", "p"]).stderr, b"");
    let all = folder.text(&["ls", "-r", "p", "--all"]);
    assert_eq!(all.lines().count(), 1 + 3 + 33 * (1 + 2 * 2));
    // Numbers in the order of their values.
    let row = folder.text(&["ls", "p/B"]);
    let names: Vec<&str> = row.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names[..3], ["1", "2", "3"]);
    assert_eq!(folder.text(&["ls", "p"]).lines().next(), Some("A  row, 11 wells"));
    let nodes = folder.json(&["ls", "-r", "p", "--json"]);
    assert_eq!(nodes[2]["children"].as_array().unwrap().len(), 11);
    assert_eq!(nodes[2]["children"][10]["children"][1]["children"][0]["shape"], json!([4, 4]));
    // Names that mean something are all shown, however alike the arrays are.
    Version::V05.group(&folder, "g", json!({}));
    for name in ["east", "north", "south", "west"] {
        folder.ok(&["create", &format!("g/{name}"), "--shape", "4", "--dtype", "uint8"]);
    }
    assert_eq!(folder.text(&["ls", "-r", "g"]).lines().count(), 5);
}

/// Serves a folder as plain HTTP, which cannot list; returns its URL and what is asked for.
fn serve(folder: &Folder) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (root, asked) = (folder.path(""), Arc::new(Mutex::new(Vec::new())));
    let log = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                match line {
                    Ok(line) if !line.is_empty() => head.push(line),
                    _ => break,
                }
            }
            let path = head[0].split(' ').nth(1).unwrap().trim_start_matches('/').to_owned();
            let body = std::fs::read(root.join(&path));
            log.lock().unwrap().push(path);
            let status = if body.is_ok() { "200 OK" } else { "404 Not Found" };
            let body = body.unwrap_or_default();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    (url, asked)
}

#[test]
fn an_image_is_described_where_nothing_can_be_listed() {
    let folder = Folder::new();
    Version::V05.labelled(&folder, "i");
    Version::V05.plate(&folder, "p", &[(0, 0), (1, 1)]);
    let (url, asked) = serve(&folder);
    let image = format!("{url}/i");
    let info = folder.json(&["info", &image, "--fast", "--json"]);
    assert_eq!(info["ome"]["levels"][2]["shape"], json!([2, 2, 2, 4, 4]));
    assert_eq!((&info["ome"]["labels"], &info["listed"]), (&json!(["nuclei"]), &json!(false)));
    let documents = asked.lock().unwrap().clone();
    assert!(documents.len() <= 9, "{documents:?}");
    let text = folder.text(&["info", &image, "--fast"]);
    assert!(text.contains("others       unknown: this store cannot list"), "{text}");
    asked.lock().unwrap().clear();
    assert!(folder.text(&["info", &format!("{url}/p")]).contains("A  ●"));
    let documents = asked.lock().unwrap().clone();
    assert!(documents.iter().all(|path| !path.contains("/A")), "{documents:?}");
    // Nothing is printed of a tree that cannot be known.
    assert!(folder.refused(&["ls", "-r", &image]).contains("cannot list"));
}
