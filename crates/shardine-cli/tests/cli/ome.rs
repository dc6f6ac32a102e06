//! OME-Zarr images, and the verbs that take a level of them.

use serde_json::json;

use crate::ome_support::{BOTH, Version};
use crate::support::{Folder, u16s};

fn has_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn info_shows_an_image_as_its_metadata_describes_it() {
    for version in BOTH {
        let folder = Folder::new();
        version.labelled(&folder, "i");
        version.group(&folder, "i/tables", json!({}));
        let text = folder.text(&["info", "i"]);
        let format = match version {
            Version::V04 => "format       OME-Zarr 0.4 (Zarr v2)",
            Version::V05 => "format       OME-Zarr 0.5 (Zarr v3)",
        };
        has_lines(
            &text,
            &[
                "image        i",
                format,
                "name         cells",
                "type         uint16, 2 bytes",
                "axes         t (time, second), c (channel), z, y, x (space, micrometer)",
                "extent       16 x 8 x 8 µm (z, y, x)",
                "codecs       bytes",
                "levels       3",
                "channels     2",
                "  0  DAPI  #0000FF  shown from 10 to 900, values from 0 to 65535",
                "labels       1",
                "  nuclei  label image, 3 levels (t, c, z, y, x), \"cells\"",
                "others       1",
                "  tables  group",
            ],
        );
        let level = text.lines().find(|line| line.starts_with("  1 ")).unwrap();
        assert!(level.replace(" x ", "x").contains("1.5 s, 1, 4x1x1 µm"), "{level}");
        let fast = folder.text(&["info", "i", "--fast"]);
        assert!(text.contains("ratio") && !fast.contains("ratio"), "{fast}");
        let label = folder.text(&["info", "i/labels/nuclei"]);
        has_lines(
            &label,
            &[
                "label image  i/labels/nuclei",
                "labels of    ../../",
                "values       1 colour, properties of 2 values",
            ],
        );
        has_lines(&folder.text(&["info", "i/labels"]), &["labels       i/labels"]);
    }
}

#[test]
fn info_tells_programs_what_the_metadata_says() {
    for version in BOTH {
        let folder = Folder::new();
        version.labelled(&folder, "i");
        let info = folder.json(&["info", "i", "--json"]);
        let zarr = if version == Version::V04 { "zarr2" } else { "zarr3" };
        assert_eq!((&info["kind"], &info["format"]), (&json!("group"), &json!("ome-zarr")));
        assert_eq!(info["formats"], json!([zarr]));
        assert_eq!(info["children"].as_array().unwrap().len(), 4);
        assert!(info["attributes"].is_object() && info["unfinished_job"].is_null());
        let ome = &info["ome"];
        assert_eq!((&ome["version"], &ome["name"]), (&json!(version.name()), &json!("cells")));
        assert_eq!(ome["axes"][1], json!({ "name": "c", "type": "channel", "unit": null }));
        assert_eq!(ome["axes"][4], json!({ "name": "x", "type": "space", "unit": "micrometer" }));
        let level = &ome["levels"][2];
        assert_eq!((&level["path"], &level["shape"]), (&json!("2"), &json!([2, 2, 2, 4, 4])));
        assert_eq!(level["scale"], json!([1.5, 1.0, 8.0, 2.0, 2.0]));
        assert_eq!(level["translation"], json!([0.0, 0.0, 3.0, 0.75, 0.75]));
        assert_eq!(level["stored"]["bytes"].as_u64().unwrap() % 4, 0);
        assert_eq!(ome["labels"], json!(["nuclei"]));
        assert_eq!(ome["label_images"][0]["levels"], 3);
        assert_eq!(ome["channels"][1]["label"], "GFP");
        assert_eq!(ome["channels"][1]["window"]["end"], 900);
        let fast = folder.json(&["info", "i", "--json", "--fast"]);
        assert_eq!(fast["ome"]["levels"][0].get("stored"), None);
        let label = folder.json(&["info", "i/labels/nuclei", "--json"]);
        let expected = json!({ "colors": 1, "properties": 2, "source": "../../" });
        assert_eq!(label["ome"]["image_label"], expected);
    }
}

#[test]
fn a_level_that_cannot_be_read_does_not_hide_the_others() {
    let folder = Folder::new();
    Version::V05.image(&folder, "i", "yx", &[8, 8], 3);
    std::fs::remove_dir_all(folder.path("i/1")).unwrap();
    folder.put("i/2/zarr.json", b"{");
    let text = folder.text(&["info", "i"]);
    assert!(text.contains("  1  cannot be read: there is no Zarr array"), "{text}");
    assert!(text.contains("  2  cannot be read: ") && text.contains("\n  0     8 x 8"), "{text}");
    let info = folder.json(&["info", "i", "--json"]);
    assert!(info["ome"]["levels"][1]["shape"].is_null());
    assert!(info["ome"]["levels"][1]["message"].is_string());
}

#[test]
fn metadata_that_cannot_be_understood_is_said_to_be_so_and_the_rest_is_shown() {
    let folder = Folder::new();
    Version::V05.image(&folder, "i", "yx", &[8, 8], 1);
    Version::V05.group(&folder, "i", json!({ "multiscales": [{ "axes": 5 }] }));
    let text = folder.text(&["info", "i"]);
    has_lines(
        &text,
        &[
            "group        i",
            "children     1",
            "OME-Zarr     cannot be understood: multiscales[0].datasets: is missing",
        ],
    );
    let info = folder.json(&["info", "i", "--json"]);
    assert_eq!(info["format"], "zarr3");
    assert!(info["ome"]["message"].is_string());
    assert!(folder.text(&["ls", "i", "-r"]).starts_with("i  group\n"));
}

#[test]
fn every_verb_takes_a_level_of_an_image() {
    for version in BOTH {
        let folder = Folder::new();
        version.image(&folder, "i", "zyx", &[8, 16, 16], 3);
        let number = |z: u16, y: u16, x: u16| z * 64 + y * 8 + x;
        assert_eq!(
            folder.ok(&["read", "i", "--level", "1", "--region", "z=3,y=2,x=1:3", "-o", "-"]),
            u16s([number(3, 2, 1), number(3, 2, 2)])
        );
        folder.put("in.raw", &u16s([7, 8]));
        folder.ok(&["-q", "write", "i", "--level", "1", "--region", "3,2,1:3", "in.raw"]);
        assert_eq!(folder.text(&["read", "i/1", "--region", "3,2,1:3"]), "7 8\n");
        let objects = folder.text(&["ls", "i", "--level", "2"]);
        assert!(objects.starts_with("object") && objects.contains("\n2/"), "{objects}");
        assert!(folder.text(&["ls", "i", "--chunks", "--level", "2"]).lines().count() > 1);
        let bench =
            folder.json(&["bench", "i", "--level", "1", "--repeats", "1", "--write", "--json"]);
        assert_eq!((&bench["level"], &bench["shape"]), (&json!(1), &json!([4, 8, 8])));
        let plan = folder.json(&["plan", "i", "--level", "1", "--json"]);
        assert_eq!(plan["arrays"].as_array().unwrap().len(), 1);
        assert_eq!(folder.json(&["plan", "i", "--json"])["arrays"].as_array().unwrap().len(), 3);
        assert!(folder.text(&["compare", "i", "i", "--level", "1"]).contains("equal: 1 array"));
        folder.ok(&["reshard", "i", "--level", "1", "--shard", "none", "-o", "one"]);
        assert_eq!(folder.json(&["info", "one", "--json"])["shape"], json!([4, 8, 8]));
        for verb in [&["read", "i"][..], &["ls", "i"], &["bench", "i"], &["plan", "i"]] {
            let told = folder.refused(&[verb, &["--level", "3"]].concat());
            assert!(told.contains("has no level 3: it has 3"), "{told}");
        }
        assert!(
            folder.refused(&["write", "i", "in.raw", "--gzip-level", "3"]).contains("gzip level")
        );
    }
    let folder = Folder::new();
    Version::V05.group(&folder, "g", json!({}));
    assert!(folder.refused(&["ls", "g", "--level", "0"]).contains("is a group"));
    assert!(
        folder
            .refused(&["plan", "--shape", "4", "--dtype", "u1", "--level", "0"])
            .contains("no levels")
    );
    assert!(
        folder.refused(&["reshard", "g", "--level", "0", "--shard", "none"]).contains("--level")
    );
}

#[test]
fn a_level_of_version_2_is_not_repacked_apart_from_its_image() {
    let folder = Folder::new();
    Version::V04.image(&folder, "i", "yx", &[8, 8], 2);
    let told = folder.refused(&["shard", "i", "--level", "0", "--chunks-per-shard", "2"]);
    assert!(told.contains("shardine migrate i` on the whole image"), "{told}");
    folder.put("in.raw", &u16s([0; 8]));
    let told = folder.refused(&["append", "i", "in.raw"]);
    assert!(told.contains("shardine migrate i`"), "{told}");
}

#[test]
fn an_append_grows_one_level_and_says_which_are_left_behind() {
    let folder = Folder::new();
    Version::V05.image(&folder, "i", "zyx", &[8, 16, 16], 4);
    folder.put("plane.raw", &u16s([5; 256]));
    let output = folder.run(&["append", "i", "plane.raw"]);
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("appended 1 plane to i; it is now 9 x 16 x 16"), "{said}");
    let note = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        note,
        "note: levels 1 to 3 of i no longer match level 0; run `shardine pyramid i --update` to \
         renew what has changed\n"
    );
    assert_eq!(folder.json(&["info", "i/1", "--json"])["shape"], json!([4, 8, 8]));
    let report = folder.run(&["append", "i", "plane.raw", "--json"]);
    assert_eq!(report.stderr, b"");
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["stale_levels"], json!(["1", "2", "3"]));
    assert_eq!(report["array_shape"], json!([10, 16, 16]));
    let quiet = folder.run(&["append", "i", "plane.raw", "-q"]);
    assert_eq!((quiet.stdout, quiet.stderr), (vec![], vec![]));
    // A coarser one leaves only those below it behind, and the coarsest none.
    folder.put("small.raw", &u16s([5; 16]));
    let report = folder.json(&["append", "i", "small.raw", "--level", "2", "--json"]);
    assert_eq!(report["stale_levels"], json!(["3"]));
    folder.put("small.raw", &u16s([5; 4]));
    let report = folder.json(&["append", "i", "small.raw", "--level", "3", "--json"]);
    assert_eq!(report.get("stale_levels"), None);
    assert!(folder.refused(&["append", "i/0", "plane.raw", "--level", "1"]).contains("no levels"));
}

#[test]
fn a_write_says_which_levels_it_leaves_behind_however_the_level_is_named() {
    for version in BOTH {
        let folder = Folder::new();
        version.image(&folder, "i", "zyx", &[8, 16, 16], 2);
        version.image(&folder, "single", "yx", &[4, 4], 1);
        folder.put("one.raw", &u16s([5]));
        for url in ["i", "i/0", "i/0/"] {
            let output = folder.run(&["write", url, "--region", "0,0,0", "one.raw"]);
            let note = String::from_utf8(output.stderr).unwrap();
            assert_eq!(
                note,
                "note: level 1 of i no longer matches level 0; run `shardine pyramid i --update` to \
                 renew what has changed\n"
            );
        }
        let report = folder.json(&["write", "i/0", "--region", "0,0,0", "one.raw", "--json"]);
        assert_eq!(report["stale_levels"], json!(["1"]));
        for write in [
            &["write", "i", "--level", "1", "--region", "0,0,0", "one.raw"][..],
            &["write", "single", "--region", "0,0", "one.raw"],
            &["-q", "write", "i", "--region", "0,0,0", "one.raw"],
        ] {
            assert_eq!(folder.run(write).stderr, b"", "{write:?}");
        }
    }
}
