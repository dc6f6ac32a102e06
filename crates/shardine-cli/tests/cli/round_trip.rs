use crate::support::{Folder, npy, split_npy, u16s};

const VOLUME: &[&str] = &[
    "create", "a", "--shape", "20,30,40", "--dtype", "uint16", "--chunk", "4,5,8", "--shard",
    "8,10,16",
];

fn volume() -> (Folder, Vec<u16>) {
    let folder = Folder::new();
    folder.ok(VOLUME);
    let values: Vec<u16> = (0..20 * 30 * 40u32).map(|i| (i * 7919 % 65521) as u16).collect();
    folder.put("in.raw", &u16s(values.iter().copied()));
    folder.ok(&["write", "a", "in.raw"]);
    (folder, values)
}

#[test]
fn a_whole_array_comes_back_raw_and_as_npy() {
    let (folder, values) = volume();
    assert_eq!(folder.ok(&["read", "a", "-o", "-"]), u16s(values.iter().copied()));
    folder.ok(&["read", "a", "-o", "out.npy"]);
    let file = folder.get("out.npy");
    let (header, data) = split_npy(&file);
    assert_eq!(header, "{'descr': '<u2', 'fortran_order': False, 'shape': (20, 30, 40), }");
    assert_eq!(data, u16s(values.iter().copied()));
    // What is written can be written again.
    folder.ok(&["create", "b", "--shape", "20,30,40", "--dtype", "uint16"]);
    folder.ok(&["write", "b", "out.npy"]);
    assert_eq!(folder.ok(&["read", "b", "-o", "-"]), u16s(values));
}

#[test]
fn regions_with_steps_and_from_the_end() {
    let (folder, values) = volume();
    let at = |z: usize, y: usize, x: usize| values[(z * 30 + y) * 40 + x];
    let expected = (0..20).step_by(3).flat_map(|z| (25..30).map(move |y| at(z, y, 39)));
    let found = folder.ok(&["read", "a", "--region", "::3,-5:,-1", "-o", "-"]);
    assert_eq!(found, u16s(expected));
    let found = folder.ok(&["read", "a", "--region", "-1", "-o", "-"]);
    assert_eq!(found, u16s(values[19 * 30 * 40..].iter().copied()));
    let found = folder.ok(&["read", "a", "--region", "...,7", "-o", "-"]);
    assert_eq!(found.len(), 20 * 30 * 2);
}

#[test]
fn every_order_of_chunks_and_every_budget_reads_the_same() {
    let (folder, values) = volume();
    for order in ["morton", "c", "arrival"] {
        folder.ok(&["write", "a", "in.raw", "--order", order, "--threads", "3"]);
        for memory in ["1MiB", "64MiB"] {
            let options = ["--memory", memory, "--threads", "1"];
            let read = [&["read", "a", "-o", "-"], &options[..]].concat();
            assert_eq!(folder.ok(&read), u16s(values.iter().copied()));
            folder.ok(&[&["read", "a", "-o", "out.raw", "--overwrite"], &options[..]].concat());
            assert_eq!(folder.get("out.raw"), u16s(values.iter().copied()));
        }
    }
}

/// What `write --json` counts: objects written and removed, chunks encoded, kept and empty.
fn counts(report: &serde_json::Value) -> [u64; 5] {
    ["objects_written", "objects_removed", "chunks_encoded", "chunks_kept", "chunks_empty"]
        .map(|member| report[member].as_u64().unwrap())
}

#[test]
fn a_write_tells_exactly_what_it_did() {
    let folder = Folder::new();
    folder.ok(VOLUME);
    let stored = |what: &str| folder.json(&["info", "a", "--json"])["stored"][what].clone();
    let ones = u16s(std::iter::repeat_n(1, 20 * 30 * 40));
    folder.put("in.raw", &ones);
    // 5 x 6 x 5 chunks in 3 x 3 x 3 shards, of which the last along z and x are not full.
    let report = folder.json(&["write", "a", "in.raw", "--json"]);
    assert_eq!(counts(&report), [27, 0, 150, 0, 0]);
    assert_eq!(report["bytes_written"], stored("bytes"));
    assert_eq!((stored("objects"), stored("chunks")), (27.into(), 150.into()));
    // 2 x 6 x 2 chunks of 2 x 3 x 2 shards, which hold 4 x 6 x 4.
    folder.put("part.raw", &ones[..2 * 3 * 30 * 2]);
    let report = folder.json(&["write", "a", "--region", "7:10,:,15:17", "part.raw", "--json"]);
    assert_eq!(counts(&report), [12, 0, 24, 72, 0]);
    // Of one shard one chunk goes, of the next all do.
    folder.put("zeros.raw", &vec![0; 2 * 4 * 5 * 8]);
    let report = folder.json(&["write", "a", "--region", ":4,:5,:8", "zeros.raw", "--json"]);
    assert_eq!(counts(&report), [1, 0, 0, 7, 1]);
    folder.put("zeros.raw", &vec![0; 2 * 8 * 10 * 16]);
    let report = folder.json(&["write", "a", "--region", ":8,:10,:16", "zeros.raw", "--json"]);
    assert_eq!(counts(&report), [0, 1, 0, 0, 8]);
    assert_eq!((stored("objects"), stored("chunks")), (26.into(), 142.into()));
}

#[test]
fn a_write_without_shards_tells_exactly_what_it_did() {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "10", "--dtype", "uint8", "--chunk", "4", "--shard", "none",
    ]);
    folder.put("in.raw", &[1, 1, 1, 1, 0, 0, 0, 0, 1, 1]);
    assert_eq!(counts(&folder.json(&["write", "a", "in.raw", "--json"])), [2, 0, 2, 0, 1]);
    folder.put("zeros.raw", &[0; 6]);
    let report = folder.json(&["write", "a", "--region", ":6", "zeros.raw", "--json"]);
    assert_eq!(counts(&report), [0, 1, 0, 0, 2]);
}

#[test]
fn a_region_is_updated_and_the_rest_stays() {
    let (folder, mut values) = volume();
    let part: Vec<u16> = (0..3 * 30 * 2).map(|i| 60_000 + i).collect();
    folder.put("part.npy", &npy(1, "'<u2'", false, "(3, 30, 2)", &u16s(part.iter().copied())));
    let report = folder.json(&["write", "a", "--region", "7:10,:,15:17", "part.npy", "--json"]);
    assert_eq!(report["shape"], serde_json::json!([3, 30, 2]));
    assert_eq!(report["objects_written"], 2 * 3 * 2);
    let mut next = part.iter();
    for z in 7..10 {
        for y in 0..30 {
            for x in 15..17 {
                values[(z * 30 + y) * 40 + x] = *next.next().unwrap();
            }
        }
    }
    assert_eq!(folder.ok(&["read", "a", "-o", "-"]), u16s(values));
}

#[test]
fn standard_input_is_written() {
    let (folder, values) = volume();
    folder.ok(&["create", "b", "--shape", "20,30,40", "--dtype", "uint16"]);
    let bytes = u16s(values);
    folder.ok_with_input(&["write", "b", "-"], &bytes);
    assert_eq!(folder.ok(&["read", "b", "-o", "-"]), bytes);
}

#[test]
fn an_array_without_axes() {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "", "--dtype", "float64", "--fill", "-1.5"]);
    assert_eq!(folder.text(&["read", "a"]), "-1.5\n");
    folder.put("in.npy", &npy(1, "'<f8'", false, "()", &2.5f64.to_le_bytes()));
    folder.ok(&["write", "a", "in.npy"]);
    assert_eq!(folder.text(&["read", "a"]), "2.5\n");
    folder.ok(&["read", "a", "-o", "out.npy"]);
    let file = folder.get("out.npy");
    assert_eq!(split_npy(&file).0, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }");
    assert_eq!(folder.json(&["read", "a", "--json"])["values"], 2.5);
}

#[test]
fn an_array_without_elements() {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "0,5", "--dtype", "uint8"]);
    folder.ok(&["read", "a", "-o", "out.npy"]);
    let file = folder.get("out.npy");
    let (header, data) = split_npy(&file);
    assert!(header.contains("'shape': (0, 5)"), "{header}");
    assert_eq!(data, b"");
    folder.ok(&["write", "a", "out.npy"]);
    assert!(folder.refused(&["read", "a", "--region", "0:3"]).contains("region"));
    folder.ok(&["info", "a"]);
}

#[test]
fn strings_are_joined_by_nul() {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "2,3", "--dtype", "string", "--chunk", "1,2", "--shard", "2,4",
        "--fill", "-",
    ]);
    let bytes = "a\0\0\u{e9}t\u{e9}\0dd\0e\0".as_bytes();
    folder.put("in.raw", bytes);
    folder.ok(&["write", "a", "in.raw"]);
    assert_eq!(folder.ok(&["read", "a", "-o", "-"]), bytes);
    folder.ok(&["read", "a", "-o", "out"]);
    assert_eq!(folder.get("out"), bytes);
    assert_eq!(
        folder.ok(&["read", "a", "--region", ":,1:", "-o", "-"]),
        "\0\u{e9}t\u{e9}\0e\0".as_bytes()
    );
    folder.put("part.raw", b"new");
    folder.ok(&["write", "a", "--region", "1,2", "part.raw"]);
    let values = &folder.json(&["read", "a", "--json"])["values"];
    assert_eq!(*values, serde_json::json!([["a", "", "\u{e9}t\u{e9}"], ["dd", "e", "new"]]));
}

#[test]
fn bytes_of_variable_length_follow_their_length() {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "2", "--dtype", "bytes"]);
    let bytes = b"\x03\0\0\0a\0b\0\0\0\0";
    folder.put("in.raw", bytes);
    folder.ok(&["write", "a", "in.raw"]);
    assert_eq!(folder.ok(&["read", "a", "-o", "-"]), bytes);
}

#[test]
fn elements_that_were_never_written_are_the_fill_value() {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "2,2", "--dtype", "float32", "--fill", "NaN"]);
    assert_eq!(folder.text(&["read", "a"]), "NaN NaN\nNaN NaN\n");
    folder.ok(&["create", "b", "--shape", "2", "--dtype", "int8", "--fill", "-3"]);
    assert_eq!(folder.text(&["read", "b"]), "-3 -3\n");
}

#[test]
fn chunks_of_nothing_but_fill_value_are_stored_only_when_asked_for() {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "64", "--dtype", "uint8", "--chunk", "16", "--shard", "32",
    ]);
    folder.put("in.raw", &[0; 64]);
    assert_eq!(folder.json(&["write", "a", "in.raw", "--json"])["objects_written"], 0);
    assert_eq!(folder.json(&["info", "a", "--json"])["stored"]["objects"], 0);
    folder.ok(&["write", "a", "in.raw", "--store-empty"]);
    assert_eq!(folder.json(&["info", "a", "--json"])["stored"]["chunks"], 4);
}

#[test]
fn the_end_of_the_longest_axis_is_written_and_read_into_a_file() {
    let folder = Folder::new();
    let length = (u64::MAX - 7).to_string();
    folder.ok(&[
        "create", "a", "--shape", &length, "--dtype", "uint8", "--chunk", "4", "--shard", "16",
    ]);
    folder.put("in.raw", &[1, 2, 3, 4, 5, 6, 7, 8]);
    folder.ok(&["write", "a", "--region=-8:", "in.raw"]);
    assert_eq!(folder.text(&["read", "a", "--region=-8:"]), "1 2 3 4 5 6 7 8\n");
    assert_eq!(folder.ok(&["read", "a", "--region=-8:", "-o", "-"]), folder.get("in.raw"));
    folder.ok(&["read", "a", "--region=-8::3", "-o", "out.raw"]);
    assert_eq!(folder.get("out.raw"), [1, 4, 7]);
}
