//! `append`: files, streams, and what becomes of them when they end too soon.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::*;

const MARKER: &str = ".shardine-append.json";

/// An array of `3 x 4` planes along the first axis, none yet.
fn array() -> Folder {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "0,3,4", "--dtype", "uint16", "--chunk", "2,2,2", "--shard",
        "4,4,4",
    ]);
    folder
}

fn shape(folder: &Folder, name: &str) -> Value {
    folder.json(&["info", name, "--json"])["shape"].clone()
}

fn all(folder: &Folder) -> Vec<u8> {
    folder.ok(&["read", "a", "-o", "-"])
}

fn numbers(first: u16, count: u16) -> Vec<u8> {
    u16s(first..first + count)
}

/// Runs what must fail with an input, and returns what it said.
fn fails_with_input(folder: &Folder, arguments: &[&str], input: &[u8]) -> String {
    let mut command = folder.command(arguments);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn files_of_any_thickness_come_one_behind_the_other() {
    let folder = array();
    folder.put("one.npy", &npy(1, "'<u2'", false, "(1, 3, 4)", &numbers(1, 12)));
    let report = folder.json(&["append", "a", "one.npy", "--json"]);
    assert_eq!(report["shape"], json!([1, 3, 4]));
    assert_eq!(report["array_shape"], json!([1, 3, 4]));
    assert_eq!((&report["dtype"], &report["appended_before"]), (&json!("uint16"), &json!(0)));
    assert!(report["bytes_written"].as_u64().unwrap() > 0);
    folder.put("raw", &numbers(13, 5 * 12));
    let report = folder.json(&["append", "a", "raw", "--json", "--commit-every", "3"]);
    assert_eq!((&report["shape"], &report["array_shape"]), (&json!([5, 3, 4]), &json!([6, 3, 4])));
    // Big-endian, of another type, in Fortran order: plane 0 has 73 + row + 3 column.
    let data: Vec<u8> = (73..85u32).flat_map(|n| n.to_be_bytes()).collect();
    folder.put("cast.npy", &npy(1, "'>u4'", true, "(1, 3, 4)", &data));
    assert!(folder.refused(&["append", "a", "cast.npy"]).contains("--cast"));
    let said = folder.text(&["append", "a", "cast.npy", "--cast"]);
    assert!(said.starts_with("appended 1 plane to a; it is now 7 x 3 x 4: "), "{said}");
    let mut expected = numbers(1, 72);
    expected.extend(u16s((0..12).map(|i| 73 + i / 4 + i % 4 * 3)));
    assert_eq!(all(&folder), expected);
    assert!(!folder.exists(&format!("a/{MARKER}")));
}

#[test]
fn any_axis_grows() {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "2,1,2", "--dtype", "uint8", "--chunk", "2,2,1", "--shard",
        "2,4,2",
    ]);
    folder.ok_with_input(&["append", "a", "-", "--axis", "1"], &[1, 2, 3, 4, 5, 6, 7, 8]);
    folder.put("in.npy", &npy(1, "'|u1'", false, "(2, 2, 2)", &[11, 12, 13, 14, 15, 16, 17, 18]));
    folder.ok(&["append", "a", "in.npy", "--axis", "1"]);
    let expected =
        [[0, 0, 1, 2, 5, 6, 11, 12, 13, 14], [0, 0, 3, 4, 7, 8, 15, 16, 17, 18]].concat();
    assert_eq!(all(&folder), expected);
    assert!(folder.refused(&["append", "a", "in.npy", "--axis", "3"]).contains("no axis 3"));
}

#[test]
fn text_is_appended_from_a_file() {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "0,2", "--dtype", "string", "--chunk", "2,2"]);
    folder.put("in", b"a\0bb\0\0dd");
    folder.ok(&["append", "a", "in"]);
    folder.put("in2", b"e\0f");
    folder.ok(&["append", "a", "in2"]);
    assert_eq!(all(&folder), b"a\0bb\0\0dd\0e\0f");
    folder.put("bad", b"e\0f\0g");
    assert!(folder.refused(&["append", "a", "bad"]).contains("1 plane with 1 elements left over"));
    let errors = folder.refused(&["append", "a", "-"]);
    assert!(errors.contains("variable length"), "{errors}");
}

#[test]
fn a_stream_is_taken_as_it_comes() {
    let folder = array();
    let mut command = folder.command(&["append", "a", "-", "--commit-every", "1", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for plane in 0..5u16 {
        // Half a plane changes nothing, and a whole one is there before the next has begun.
        let bytes = numbers(1 + plane * 12, 12);
        input.write_all(&bytes[..10]).unwrap();
        input.write_all(&bytes[10..]).unwrap();
        input.flush().unwrap();
        let start = Instant::now();
        while shape(&folder, "a")[0] != plane + 1 {
            assert!(start.elapsed() < Duration::from_secs(60), "plane {plane} did not come");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(all(&folder), numbers(1, (plane + 1) * 12));
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["shape"], &report["array_shape"]), (&json!([5, 3, 4]), &json!([5, 3, 4])));
    assert!(!folder.exists(&format!("a/{MARKER}")));
}

#[test]
fn every_strategy_and_place_of_the_index_gives_the_same_array() {
    let folder = Folder::new();
    let input = numbers(1, 11 * 12);
    for index in ["start", "end"] {
        for strategy in ["auto", "rewrite", "in-place", "append"] {
            folder.ok(&[
                "create",
                "a",
                "--shape",
                "0,3,4",
                "--dtype",
                "uint16",
                "--chunk",
                "1,2,2",
                "--shard",
                "4,4,4",
                "--index",
                index,
                "--overwrite",
            ]);
            let gaps = ["--strategy", strategy, "--max-gap", "100%"];
            let mut arguments = vec!["append", "a", "-", "--commit-every", "2"];
            arguments.extend(gaps);
            folder.ok_with_input(&arguments, &input[..5 * 24]);
            folder.put("rest", &input[5 * 24..]);
            let mut arguments = vec!["append", "a", "rest"];
            arguments.extend(gaps);
            folder.ok(&arguments);
            assert_eq!(all(&folder), input, "{strategy}, {index}");
            let report = folder.json(&["verify", "a", "--decode", "--json"]);
            assert_eq!(report["ok"], json!(true), "{strategy}, {index}");
        }
    }
}

#[test]
fn a_stream_that_ends_inside_a_plane_is_told_and_its_whole_planes_stay() {
    let folder = array();
    let mut input = numbers(1, 36);
    input.extend([7; 5]);
    let errors = fails_with_input(&folder, &["append", "a", "-"], &input);
    assert!(errors.contains("after 5 of its 24 bytes"), "{errors}");
    assert!(errors.contains("3 whole planes"), "{errors}");
    assert_eq!(all(&folder), numbers(1, 36));
    // An empty stream appends nothing and is no error.
    folder.ok(&["append", "a", "-"]);
    assert_eq!(all(&folder), numbers(1, 36));
}

#[test]
fn files_that_are_not_whole_planes_are_refused_before_anything_is_written() {
    let folder = array();
    folder.put("raw", &[0; 25]);
    assert!(folder.refused(&["append", "a", "raw"]).contains("1 plane with 1 bytes left over"));
    folder.put("in.npy", &npy(1, "'<u2'", false, "(1, 4, 3)", &numbers(1, 12)));
    assert!(folder.refused(&["append", "a", "in.npy"]).contains("1 x 4 x 3"));
    folder.put("in.npy", &npy(1, "'<u2'", false, "(12,)", &numbers(1, 12)));
    assert!(folder.refused(&["append", "a", "in.npy"]).contains("has shape 12"));
    folder.put("misnamed", &npy(1, "'<u2'", false, "(1, 3, 4)", &numbers(1, 12)));
    assert!(folder.refused(&["append", "a", "misnamed"]).contains("starts like a .npy file"));
    assert!(folder.refused(&["append", "a", "a"]).contains("is a folder"));
    assert!(folder.refused(&["append", "a", "missing"]).contains("missing"));
    assert!(folder.refused(&["append", "a", "raw", "--commit-every", "0"]).contains("0"));
    assert!(folder.refused(&["append", "a", "-", "--cast"]).contains("--cast"));
    assert_eq!(shape(&folder, "a"), json!([0, 3, 4]));
    assert!(!folder.exists(&format!("a/{MARKER}")));
}

/// Stops an append of 600 planes with SIGKILL when some of them are there; returns how many.
fn interrupted(folder: &Folder) -> u64 {
    folder.put("in.raw", &u16s((0..600u32 * 12).map(|i| (i % 60_000) as u16)));
    let mut command = folder.command(&["append", "a", "in.raw", "--commit-every", "1"]);
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    while shape(folder, "a")[0].as_u64().unwrap() < 3 {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing comes");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let planes = shape(folder, "a")[0].as_u64().unwrap();
    assert!(planes < 600, "it was faster than the kill");
    assert_eq!(all(folder), folder.get("in.raw")[..planes as usize * 24]);
    planes
}

#[test]
fn an_append_that_was_killed_goes_on_and_appends_nothing_twice() {
    let folder = array();
    let planes = interrupted(&folder);
    assert!(folder.exists(&format!("a/{MARKER}")));
    let found = folder.json(&["verify", "a", "--json"]);
    assert_eq!(found["ok"], json!(true));
    assert!(found["findings"].to_string().contains("unfinished-append"), "{found}");
    let report = folder.json(&["append", "a", "in.raw", "--json"]);
    assert_eq!(report["appended_before"], json!(planes));
    assert_eq!(report["shape"], json!([600 - planes, 3, 4]));
    assert_eq!(report["array_shape"], json!([600, 3, 4]));
    assert_eq!(all(&folder), folder.get("in.raw"));
    assert!(!folder.exists(&format!("a/{MARKER}")));
    // At the end it is an append like any other again.
    folder.ok(&["append", "a", "in.raw"]);
    assert_eq!(shape(&folder, "a"), json!([1200, 3, 4]));
}

#[test]
fn a_kill_between_the_last_plane_and_the_end_appends_nothing_twice() {
    let folder = array();
    let planes = interrupted(&folder);
    let marker = folder.get(&format!("a/{MARKER}"));
    folder.ok(&["append", "a", "in.raw"]);
    folder.put(&format!("a/{MARKER}"), &marker);
    let report = folder.json(&["append", "a", "in.raw", "--json"]);
    assert_eq!(report["shape"], json!([0, 3, 4]));
    assert_eq!(shape(&folder, "a"), json!([600, 3, 4]));
    assert!(planes > 0 && !folder.exists(&format!("a/{MARKER}")));
}

#[test]
fn another_source_is_refused_while_an_append_is_unfinished() {
    let folder = array();
    let planes = interrupted(&folder);
    folder.put("other.raw", &numbers(1, 12));
    for arguments in [&["append", "a", "other.raw"][..], &["append", "a", "-"]] {
        let errors = folder.refused(arguments);
        assert!(errors.contains("in.raw along axis 0 was interrupted"), "{errors}");
        assert!(errors.contains(&format!("{planes} planes")), "{errors}");
        assert!(errors.contains("--forget"), "{errors}");
    }
    // The same name is not the same file if its content is another.
    folder.put("in.raw", &numbers(1, 24));
    assert!(folder.refused(&["append", "a", "in.raw"]).contains("has changed"));
    assert_eq!(shape(&folder, "a")[0], planes);
    folder.ok(&["append", "a", "other.raw", "--forget"]);
    assert_eq!(shape(&folder, "a")[0], planes + 1);
    assert!(!folder.exists(&format!("a/{MARKER}")));
    folder.put(&format!("a/{MARKER}"), b"{");
    assert!(folder.refused(&["append", "a", "other.raw"]).contains("damaged"));
    folder.ok_with_input(&["append", "a", "-", "--forget"], &numbers(1, 12));
    assert_eq!(shape(&folder, "a")[0], planes + 2);
    assert!(!folder.exists(&format!("a/{MARKER}")));
}

#[test]
fn an_array_that_changed_otherwise_is_not_gone_on_with() {
    let folder = array();
    folder.put("in.raw", &numbers(1, 36));
    let planes = interrupted(&folder);
    let path = folder.path("a/zarr.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    document["shape"][0] = json!(5000);
    std::fs::write(&path, document.to_string()).unwrap();
    let errors = folder.refused(&["append", "a", "in.raw"]);
    assert!(errors.contains("something else has since changed"), "{errors}");
    assert!(planes > 0);
}

/// What a folder has that is Shardine's own.
fn leftovers(folder: &Folder, name: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path(name)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".shardine")).collect()
}

/// Runs two appends of 8 planes each at the same time, in many rounds. What each has committed must be there whole.
fn race(options: &[&str], rounds: u8) {
    for round in 0..rounds {
        let folder = array();
        let spawn = |input: &[u8]| {
            let mut arguments = vec!["append", "a", "-"];
            arguments.extend(options);
            let mut command = folder.command(&arguments);
            let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            let input = input.to_vec();
            // Who is refused reads nothing.
            let feed = std::thread::spawn(move || {
                for plane in input.chunks(24) {
                    let _ = stdin.write_all(plane);
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
            (child, feed)
        };
        let inputs = [u16s([1; 8 * 12]), u16s([2; 8 * 12])];
        let children: Vec<_> = inputs.iter().map(|input| spawn(input)).collect();
        let (mut expected, mut refusals) = (Vec::new(), Vec::new());
        for ((child, feed), input) in children.into_iter().zip(&inputs) {
            let output = child.wait_with_output().unwrap();
            feed.join().unwrap();
            match output.status.code() {
                Some(0) => expected.push(input.clone()),
                _ => refusals.push(String::from_utf8_lossy(&output.stderr).into_owned()),
            }
        }
        assert!(!expected.is_empty());
        let found = all(&folder);
        let mut turned = expected.clone();
        turned.reverse();
        let planes: Vec<&u8> = found.iter().step_by(24).collect();
        assert!(found == expected.concat() || found == turned.concat(), "{round}: {planes:?}");
        for errors in refusals {
            assert!(errors.contains("another append"), "{errors}");
        }
        assert_eq!(leftovers(&folder, "a"), [""; 0]);
    }
}

#[test]
fn of_two_streams_at_the_same_time_the_refused_one_has_overwritten_nothing() {
    race(&[], 30);
    race(&["--commit-every", "2", "--strategy", "in-place"], 30);
}

#[test]
fn a_killed_stream_stands_in_nobodys_way() {
    let folder = array();
    let mut command = folder.command(&["append", "a", "-", "--commit-every", "1"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&numbers(1, 12)).unwrap();
    input.flush().unwrap();
    let start = Instant::now();
    while shape(&folder, "a")[0] != 1 {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(2));
    }
    folder.put("more", &numbers(13, 12));
    for arguments in [&["append", "a", "-"][..], &["append", "a", "more"]] {
        let errors = folder.refused(arguments);
        assert!(errors.contains("another append"), "{errors}");
    }
    // A job that would put another array in its place has to wait as well.
    let errors = folder.refused(&["reshard", "a", "--chunks-per-shard", "1"]);
    assert!(errors.contains("another append"), "{errors}");
    // A copy has what is committed, and nothing of who is at work.
    folder.ok(&["copy", "a", "b"]);
    assert_eq!(leftovers(&folder, "b"), [""; 0]);
    child.kill().unwrap();
    child.wait().unwrap();
    folder.ok(&["append", "a", "more"]);
    assert_eq!(all(&folder), numbers(1, 24));
    assert_eq!(leftovers(&folder, "a"), [""; 0]);
}
