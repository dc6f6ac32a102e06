//! `convert`: files that become arrays, and the way back.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::support::*;

const MARKER: &str = ".shardine-convert.json";

#[test]
fn npy_files_of_any_order_become_arrays() {
    let folder = Folder::new();
    let expected = u16s(0..60);
    // Element (i, j, k) is 20 i + 5 j + k; in Fortran order i varies fastest.
    let fortran: Vec<u16> = (0..60)
        .map(|n| {
            let (i, j, k) = (n % 3, n / 3 % 4, n / 12);
            20 * i + 5 * j + k
        })
        .collect();
    let big: Vec<u8> = fortran.iter().flat_map(|n| n.to_be_bytes()).collect();
    folder.put("c.npy", &npy(1, "'<u2'", false, "(3, 4, 5)", &expected));
    folder.put("f.npy", &npy(2, "'<u2'", true, "(3, 4, 5)", &u16s(fortran.clone())));
    folder.put("b.npy", &npy(1, "'>u2'", true, "(3, 4, 5)", &big));
    for name in ["c", "f", "b"] {
        let (file, array) = (format!("{name}.npy"), format!("{name}.zarr"));
        let report = folder
            .json(&["convert", &file, &array, "--chunk", "2,2,2", "--shard", "4,4,4", "--json"]);
        assert_eq!((&report["dtype"], &report["shape"]), (&json!("uint16"), &json!([3, 4, 5])));
        assert_eq!((&report["resumed"], &report["objects_written"]), (&json!(false), &json!(2)));
        assert_eq!(folder.ok(&["read", &array, "-o", "-"]), expected, "{name}");
        assert!(!folder.exists(&format!("{array}/{MARKER}")));
        folder.ok(&["verify", &array, "--decode"]);
        // And back again.
        folder.ok(&["convert", &array, "out.npy", "--overwrite"]);
        let (out, header) = (
            folder.get("out.npy"),
            "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 4, 5), }",
        );
        assert_eq!(split_npy(&out), (header.to_owned(), &expected[..]));
        folder.ok(&["convert", &array, "out.raw", "--overwrite"]);
        assert_eq!(folder.get("out.raw"), expected);
        assert_eq!(folder.ok(&["convert", &array, "-"]), expected);
    }
}

#[test]
fn raw_bytes_need_their_shape_and_type() {
    let folder = Folder::new();
    folder.put("in.raw", &u16s(1..25));
    folder.put("in.dat", &u16s(1..25));
    assert!(folder.refused(&["convert", "in.raw", "a"]).contains("--shape and --dtype"));
    let flags = ["--shape", "4,6", "--dtype", "uint16", "--chunk", "2,2", "--shard", "4,4"];
    for file in ["in.raw", "in.dat"] {
        let text = folder.text(&[&["convert", file, "a", "--overwrite"], &flags[..]].concat());
        assert!(text.starts_with("made a: 4 x 6 uint16, chunks 2 x 2 in shards 4 x 4; "), "{text}");
        assert_eq!(folder.ok(&["read", "a", "-o", "-"]), u16s(1..25));
    }
    folder.ok_with_input(
        &[&["convert", "-", "b", "--fill", "7", "--dims", "y,x"], &flags[..]].concat(),
        &u16s(1..25),
    );
    assert_eq!(folder.ok(&["read", "b", "-o", "-"]), u16s(1..25));
    let made = folder.json(&["info", "b", "--json"]);
    assert_eq!((&made["fill_value"], &made["dimension_names"]), (&json!(7), &json!(["y", "x"])));
    // Of another length than is said.
    folder.put("in.raw", &u16s(1..24));
    assert!(
        folder
            .refused(&[&["convert", "in.raw", "c"], &flags[..]].concat())
            .contains("has 46 bytes")
    );
    assert!(!folder.exists("c"));
}

#[test]
fn shards_are_asked_for_in_three_ways() {
    let folder = Folder::new();
    let noise: Vec<u8> =
        (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    folder.put("in.npy", &npy(1, "'|u1'", false, "(1024, 1024)", &noise));
    for (flags, shard) in [
        (&["--chunks-per-shard", "4"][..], json!([256, 256])),
        (&["--chunks-per-shard", "2,8"], json!([128, 512])),
        (&["--chunks-per-shard", "1"], json!(null)),
        (&["--chunks-per-shard", "none"], json!(null)),
        (&["--shard", "128,128"], json!([128, 128])),
        // 64 chunks of 4 KiB, which do not compress.
        (&["--target-size", "256KiB", "--codec", "none"], json!([512, 512])),
    ] {
        let arguments =
            [&["convert", "in.npy", "a", "--chunk", "64,64", "--overwrite", "--json"], flags]
                .concat();
        assert_eq!(folder.json(&arguments)["shard_shape"], shard, "{flags:?}");
        assert_eq!(folder.ok(&["read", "a", "-o", "-"]), noise);
    }
    // What compresses well gets more chunks into a shard of the same size.
    folder.put("flat.npy", &npy(1, "'|u1'", false, "(1024, 1024)", &vec![3; 1 << 20]));
    let flags = ["--chunk", "64,64", "--target-size", "2KiB", "--json"];
    let report = folder.json(&[&["convert", "flat.npy", "flat"], &flags[..]].concat());
    let (bytes, objects) =
        (report["bytes_written"].as_f64().unwrap(), report["objects_written"].as_f64().unwrap());
    assert!((1400.0..2900.0).contains(&(bytes / objects)), "{report}");
    assert!(
        folder
            .refused(&["convert", "in.npy", "x", "--chunks-per-shard", "2,2,2"])
            .contains("2 axes")
    );
    assert!(
        folder
            .refused(&["convert", "in.npy", "x", "--chunks-per-shard", "0"])
            .contains("number of chunks")
    );
}

#[test]
fn types_are_those_of_the_file_unless_it_is_cast() {
    let folder = Folder::new();
    folder.put("t.npy", &npy(1, "'<M8[ns]'", false, "(2,)", &[7; 16]));
    folder.ok(&["convert", "t.npy", "t"]);
    assert_eq!(folder.ok(&["read", "t", "-o", "-"]), [7; 16]);
    folder.put("n.npy", &npy(1, "'<i4'", false, "(3,)", &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]));
    assert!(folder.refused(&["convert", "n.npy", "n", "--dtype", "uint8"]).contains("--cast"));
    folder.ok(&["convert", "n.npy", "n", "--dtype", "uint8", "--cast"]);
    assert_eq!(folder.ok(&["read", "n", "-o", "-"]), [1, 2, 3]);
    folder.put("o.npy", &npy(1, "'|O'", false, "(1,)", &[0; 8]));
    assert!(folder.refused(&["convert", "o.npy", "o"]).contains("|O"));
    folder.put("s.npy", &npy(1, "'<f4'", false, "()", &[0, 0, 128, 63]));
    folder.ok(&["convert", "s.npy", "s"]);
    assert_eq!(folder.text(&["read", "s"]).trim(), "1.0");
    folder.put("e.npy", &npy(1, "'<f4'", false, "(0, 3)", &[]));
    folder.ok(&["convert", "e.npy", "e"]);
    assert_eq!(folder.json(&["info", "e", "--json"])["shape"], json!([0, 3]));
}

#[test]
fn what_is_there_is_not_replaced_by_mistake() {
    let folder = Folder::new();
    folder.put("a.npy", &npy(1, "'|u1'", false, "(4,)", &[1, 2, 3, 4]));
    folder.put("b.npy", &npy(1, "'|u1'", false, "(4,)", &[5, 6, 7, 8]));
    folder.ok(&["convert", "a.npy", "x"]);
    assert!(folder.refused(&["convert", "b.npy", "x"]).contains("--overwrite"));
    folder.ok(&["convert", "b.npy", "x", "--overwrite"]);
    assert_eq!(folder.ok(&["read", "x", "-o", "-"]), [5, 6, 7, 8]);
    std::fs::create_dir(folder.path("home")).unwrap();
    folder.put("home/letter", b"dear");
    assert!(folder.refused(&["convert", "a.npy", "home", "--overwrite"]).contains("not an array"));
    assert_eq!(folder.get("home/letter"), b"dear");
    folder.put("home/zarr.json", br#"{"zarr_format": 3, "node_type": "group"}"#);
    folder.refused(&["convert", "a.npy", "home", "--overwrite"]);
    assert!(folder.refused(&["convert", "a.npy", "b.npy"]).contains("both files"));
}

/// A file whose conversion takes a while, and the arguments for it.
fn long() -> (Folder, Vec<u8>, [&'static str; 9]) {
    let folder = Folder::new();
    let data: Vec<u8> =
        (0..32u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 17) as u8).collect();
    folder.put("in.npy", &npy(1, "'|u1'", false, "(512, 256, 256)", &data));
    (
        folder,
        data,
        [
            "convert", "in.npy", "a", "--chunk", "16,32,32", "--shard", "16,64,64", "--codec",
            "zstd:15",
        ],
    )
}

/// Files below a folder.
fn files(path: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let each = entries.flatten().map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files(&entry.path()),
        _ if entry.file_name().to_string_lossy().starts_with('.') => 0,
        _ => 1,
    });
    each.sum()
}

/// Kills a run when it has put some shards where they belong; tells how many.
fn killed(folder: &Folder, arguments: &[&str]) -> usize {
    let mut child = folder.command(arguments).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let writing = || {
        let marker = std::fs::read_to_string(folder.path(&format!("a/{MARKER}")));
        marker.is_ok_and(|text| text.contains("\"clearing\": false"))
    };
    while !writing() || files(&folder.path("a/c")) == 0 {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    files(&folder.path("a/c"))
}

#[test]
fn a_killed_run_is_finished_by_the_same_command() {
    let (folder, data, arguments) = long();
    let there = killed(&folder, &arguments);
    assert!(folder.exists(&format!("a/{MARKER}")) && there < 512, "{there}");
    let found = folder.json(&["verify", "a", "--json"]);
    assert!(found["findings"].to_string().contains("unfinished-convert"), "{found}");
    // Another command does not go on with it.
    assert!(
        folder
            .refused(&[&arguments[..7], &["--codec", "zstd:1"]].concat())
            .contains("other options")
    );
    folder.put("other.npy", &npy(1, "'|u1'", false, "(1,)", &[1]));
    assert!(folder.refused(&["convert", "other.npy", "a"]).contains("unfinished conversion of"));
    let report = folder.json(&[&arguments[..], &["--json"]].concat());
    assert_eq!(report["resumed"], true);
    let kept = report["objects_kept"].as_u64().unwrap();
    assert!(kept > 0 && kept == there as u64, "{report}");
    assert_eq!(report["objects_written"].as_u64().unwrap() + kept, 512);
    assert_eq!(folder.ok(&["read", "a", "-o", "-"]), data);
    assert!(!folder.exists(&format!("a/{MARKER}")));
    assert!(folder.refused(&arguments).contains("--overwrite"));
}

#[test]
fn what_an_overwritten_array_held_is_never_kept() {
    let (folder, data, arguments) = long();
    // The same metadata, other elements.
    folder.put("old.npy", &npy(1, "'|u1'", false, "(512, 256, 256)", &vec![9; 32 << 20]));
    let mut old = arguments;
    old[1] = "old.npy";
    folder.ok(&old);
    killed(&folder, &[&arguments[..], &["--overwrite"]].concat());
    folder.ok(&arguments);
    assert_eq!(folder.ok(&["read", "a", "-o", "-"]), data);
}

#[test]
fn a_marker_before_the_metadata_is_gone_on_with() {
    let (folder, data, arguments) = long();
    killed(&folder, &arguments);
    // As if it had been killed in the middle of emptying the place.
    let marker = String::from_utf8(folder.get(&format!("a/{MARKER}"))).unwrap();
    folder.put(
        &format!("a/{MARKER}"),
        marker.replace("\"clearing\": false", "\"clearing\": true").as_bytes(),
    );
    let report = folder.json(&[&arguments[..], &["--json"]].concat());
    assert_eq!((&report["resumed"], &report["objects_written"]), (&json!(false), &json!(512)));
    assert_eq!(folder.ok(&["read", "a", "-o", "-"]), data);
}

#[test]
fn processes_share_a_file_by_parts() {
    let folder = Folder::new();
    let data = u16s(0..60);
    folder.put("a.npy", &npy(1, "'<u2'", false, "(3, 4, 5)", &data));
    let part =
        |part| ["convert", "a.npy", "a", "--chunk", "1,2,2", "--shard", "none", "--part", part];
    let said = String::from_utf8(folder.ok(&part("2/3"))).unwrap();
    assert!(said.contains("part 2/3 is done; parts 1, 3 have not finished yet"), "{said}");
    assert!(folder.refused(&["info", "a"]).contains("no Zarr"), "some parts are no array");
    assert!(folder.refused(&part("1/2")).contains("in 3 parts"));
    assert!(folder.refused(&part("finish")).contains("parts 1, 3 have not finished yet"));
    folder.ok(&part("1/3"));
    assert!(String::from_utf8(folder.ok(&part("3/3"))).unwrap().starts_with("made a:"));
    assert_eq!(folder.ok(&["read", "a", "-o", "-"]), data);
    assert!(!folder.exists(&format!("a/{MARKER}")));
    let again = folder.json(&[&part("1/3")[..], &["--json"]].concat());
    assert_eq!((&again["objects_written"], &again["parts_missing"]), (&json!(0), &json!([])));
}
