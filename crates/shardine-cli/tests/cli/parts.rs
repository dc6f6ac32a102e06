//! `--part`: several processes share a job.

use std::process::Command;

use serde_json::json;

use crate::support::{Folder, u16s};

fn same(folder: &Folder, one: &str, other: &str) -> bool {
    let (one, other) = (folder.path(one), folder.path(other));
    Command::new("diff").arg("-r").args([one, other]).output().unwrap().status.success()
}

fn array() -> Folder {
    let folder = Folder::new();
    folder.put("a.raw", &u16s((0..64 * 64 * 16).map(|i| i as u16)));
    let shape = ["--shape", "64,64,16", "--dtype", "uint16", "--chunk", "8,8,8", "--shard", "none"];
    folder.ok(&[&["create", "a"][..], &shape[..]].concat());
    folder.ok(&["write", "a", "a.raw"]);
    folder
}

#[test]
fn processes_at_the_same_time_make_what_one_makes() {
    let folder = array();
    for (one, many, job) in [
        ("s1", "s4", &["shard", "a", "--chunks-per-shard", "2", "-o"][..]),
        ("p1", "p4", &["convert", "a", "--to", "precomputed", "--chunks-per-shard", "2"]),
        ("c1", "c4", &["copy", "a"]),
    ] {
        folder.ok(&[job, &[one]].concat());
        let parts: Vec<_> = (1..=4)
            .map(|i| {
                let part = format!("{i}/4");
                let arguments = [job, &[many, "--part", &part]].concat();
                folder.command(&arguments).stdout(std::process::Stdio::null()).spawn().unwrap()
            })
            .collect();
        for mut part in parts {
            assert!(part.wait().unwrap().success(), "{job:?}");
        }
        assert!(same(&folder, one, many), "{job:?}");
        let again = folder.text(&[job, &[many, "--part", "2/4"]].concat());
        assert!(again.contains("exists already"), "{again}");
        assert!(same(&folder, one, many), "{job:?}");
    }
}

#[test]
fn a_part_says_what_is_missing_and_another_number_is_refused() {
    let folder = array();
    let part = |part: &str| {
        ["shard", "a", "--chunks-per-shard", "2", "-o", "s", "--part", part].map(str::to_owned)
    };
    let run = |text: &str| {
        let arguments = part(text);
        folder.text(&arguments.each_ref().map(String::as_str))
    };
    assert_eq!(run("2/3"), "part 2/3 is done; parts 1, 3 have not finished yet\n");
    let refused = |text: &str| {
        let arguments = part(text);
        folder.refused(&arguments.each_ref().map(String::as_str))
    };
    assert!(refused("1/2").contains("in 3 parts"));
    assert!(refused("finish").contains("parts 1, 3 have not finished yet"));
    let alone = folder.refused(&["shard", "a", "--chunks-per-shard", "2", "-o", "s"]);
    assert!(alone.contains("in 3 parts"), "{alone}");
    for wrong in ["0/3", "4/3", "x", "1/0"] {
        assert!(refused(wrong).contains("part such as 3/16"), "{wrong}");
    }
    folder.refused(&["info", "s"]);
    assert_eq!(run("1/3"), "part 1/3 is done; part 3 has not finished yet\n");
    let arguments = part("3/3");
    let last = [&arguments.each_ref().map(String::as_str)[..], &["--json"]].concat();
    let report = folder.json(&last);
    assert_eq!((&report["part"], &report["parts_missing"]), (&json!("3/3"), &json!([])));
    assert_eq!(report["arrays"][0]["chunks_moved"], 128);
    folder.ok(&["verify", "s", "--decode"]);
    let in_place = folder.refused(&["shard", "a", "--chunks-per-shard", "2", "--part", "1/2"]);
    assert!(in_place.contains("one process"), "{in_place}");
}
