//! What a data set does not consist of: links to folders, names that are no keys, sockets. And files that are in the way.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use serde_json::Value;

use crate::support::{Folder, npy, written};

/// An array without shards, as `written` is otherwise.
fn unsharded(folder: &Folder) {
    folder.ok(&["unshard", "a", "-o", "u"]);
}

fn findings(folder: &Folder, url: &str) -> (Option<i32>, Vec<(String, String)>) {
    let output = folder.run(&["verify", url, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = report["findings"].as_array().unwrap().iter();
    let text = |finding: &Value, member: &str| finding[member].as_str().unwrap_or("").to_owned();
    let found = found.map(|f| (text(f, "kind"), text(f, "object") + " " + &text(f, "message")));
    (output.status.code(), found.collect())
}

#[test]
fn overwriting_removes_links_and_not_what_they_lead_to() {
    let copy = ["copy", "a", "d", "--overwrite"];
    let unshard = ["unshard", "a", "-o", "d", "--overwrite"];
    let convert = ["convert", "a", "d", "--overwrite", "--chunks-per-shard", "4"];
    let volume = ["convert", "a", "d", "--overwrite", "--to", "precomputed"];
    for (i, command) in [&copy[..], &unshard, &convert, &volume].into_iter().enumerate() {
        let folder = Folder::new();
        folder.ok(&[
            "create", "a", "--shape", "8,8,8", "--dtype", "uint8", "--chunk", "4,4,4", "--shard",
            "8,8,8", "--dims", "x,y,z",
        ]);
        folder.put("in.raw", &[7; 512]);
        folder.ok(&["write", "a", "in.raw"]);
        folder.ok(&["copy", "a", "d"]);
        std::fs::create_dir(folder.path("other")).unwrap();
        folder.put("other/file", b"mine");
        symlink("../a", folder.path("d/original")).unwrap();
        symlink("../other/file", folder.path("d/file")).unwrap();
        symlink("nowhere", folder.path("d/broken")).unwrap();
        std::fs::remove_dir_all(folder.path("d/c")).unwrap();
        symlink("../a/c", folder.path("d/c")).unwrap();
        folder.put("d/back\\slash", b"x");
        let before = folder.text(&["read", "a", "--region", "0,0"]);
        folder.ok(command);
        assert_eq!(folder.text(&["read", "a", "--region", "0,0"]), before, "{i}");
        assert_eq!(folder.get("other/file"), b"mine");
        for name in ["d/original", "d/file", "d/broken", "d/back\\slash"] {
            assert!(std::fs::symlink_metadata(folder.path(name)).is_err(), "{i} {name}");
        }
        assert!(!std::fs::symlink_metadata(folder.path("d/c")).is_ok_and(|d| d.is_symlink()));
        assert_eq!(
            folder.json(&["verify", "d", "--decode", "--json"])["findings"],
            Value::from(Vec::<Value>::new())
        );
    }
}

#[test]
fn a_new_array_is_not_written_through_links_of_the_old_one() {
    let folder = written();
    folder.ok(&["copy", "a", "d"]);
    std::fs::remove_dir_all(folder.path("d/c")).unwrap();
    symlink("../a/c", folder.path("d/c")).unwrap();
    folder.ok(&[
        "create",
        "d",
        "--overwrite",
        "--shape",
        "8,8",
        "--dtype",
        "uint8",
        "--chunk",
        "4,4",
    ]);
    assert_eq!(folder.text(&["read", "d", "--region", "0"]), "0 0 0 0 0 0 0 0\n");
    assert_eq!(folder.text(&["read", "a", "--region", "0"]), "7 7 7 7 7 7 7 7\n");
    folder.put("in.npy", &npy(1, "'|u1'", false, "(8, 8)", &[3; 64]));
    std::fs::remove_file(folder.path("d/zarr.json")).unwrap();
    folder.ok(&["copy", "a", "e"]);
    std::fs::remove_dir_all(folder.path("e/c/0")).unwrap();
    symlink("../../a/c/0", folder.path("e/c/0")).unwrap();
    folder.ok(&["convert", "in.npy", "e", "--overwrite"]);
    assert_eq!(folder.text(&["read", "e", "--region", "0"]), "3 3 3 3 3 3 3 3\n");
    assert_eq!(folder.text(&["read", "a", "--region", "0"]), "7 7 7 7 7 7 7 7\n");
}

#[test]
fn links_to_folders_are_told_and_not_walked() {
    let folder = written();
    unsharded(&folder);
    // Two links in each folder: a walk that follows them does not end.
    for name in ["a/loop", "a/again", "a/c/up", "u/loop", "u/c/up"] {
        let target = if name.contains("/c/") { "../.." } else { "../a" };
        symlink(target, folder.path(name)).unwrap();
    }
    for command in [
        &["copy", "a", "x"][..],
        &["convert", "a", "x", "--chunk", "4,4"],
        &["unshard", "a", "-o", "x"],
        &["unshard", "a"],
        &["reshard", "a", "--chunks-per-shard", "4"],
        &["shard", "u", "--chunks-per-shard", "4"],
    ] {
        let error = folder.refused(command);
        // In place, what lies beside the chunks is carried over as it is.
        let in_place = ["unshard", "reshard", "shard"].contains(&command[0]) && command.len() < 5;
        let in_place = in_place && !command.contains(&"-o");
        assert!(in_place != error.contains("loop\" (a link to a folder)"), "{command:?}: {error}");
        assert!(error.contains("c/up\" (a link to a folder)"), "{command:?}: {error}");
        assert!(!folder.exists("x"), "{command:?}");
    }
    let (status, found) = findings(&folder, "a");
    assert_eq!(status, Some(0), "{found:?}");
    let left_out: Vec<_> = found.iter().filter(|(kind, _)| kind == "left-out").collect();
    assert_eq!(left_out.len(), 3, "{found:?}");
    // By its own name, what a link leads to is an array like any other.
    symlink("a", folder.path("link")).unwrap();
    std::fs::remove_file(folder.path("a/loop")).unwrap();
    std::fs::remove_file(folder.path("a/again")).unwrap();
    std::fs::remove_file(folder.path("a/c/up")).unwrap();
    folder.ok(&["copy", "link", "x"]);
    folder.ok(&["reshard", "link", "--chunks-per-shard", "4"]);
    assert_eq!(folder.json(&["info", "a", "--json"])["shard_shape"], serde_json::json!([8, 8]));
}

#[test]
fn an_array_of_a_group_that_is_a_link_is_told() {
    let folder = written();
    std::fs::create_dir(folder.path("g")).unwrap();
    folder.put("g/zarr.json", br#"{"zarr_format": 3, "node_type": "group"}"#);
    symlink("../a", folder.path("g/linked")).unwrap();
    assert!(folder.text(&["ls", "g"]).contains("linked"));
    assert!(folder.text(&["info", "g"]).contains("linked"));
    assert_eq!(folder.json(&["ls", "g", "--json"])[0]["kind"], "error");
    for command in [&["copy", "g", "x"][..], &["unshard", "g"], &["convert", "g", "x"]] {
        assert!(folder.refused(command).contains("linked"), "{command:?}");
    }
    let output = folder.run(&["compact", "g"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("linked"));
    // Its chunks can be read, and counted where they are.
    assert_eq!(folder.text(&["read", "g/linked", "--region", "0"]), "7 7 7 7 7 7 7 7\n");
    std::fs::rename(folder.path("a/c"), folder.path("chunks")).unwrap();
    symlink("../chunks", folder.path("a/c")).unwrap();
    assert_eq!(folder.text(&["read", "a", "--region", "0"]), "7 7 7 7 7 7 7 7\n");
    let output = folder.run(&["info", "a"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not counted"));
    assert!(folder.refused(&["ls", "a"]).contains("\"c\" is a link to a folder"));
}

#[test]
fn a_migration_tells_of_nodes_behind_links() {
    let folder = Folder::new();
    for name in ["g", "far"] {
        std::fs::create_dir(folder.path(name)).unwrap();
        folder.put(&format!("{name}/.zgroup"), br#"{"zarr_format": 2}"#);
    }
    symlink("../far", folder.path("g/linked")).unwrap();
    let output = folder.run(&["migrate", "g"]);
    assert_eq!(output.status.code(), Some(2));
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert!(said.contains("linked"), "{said}");
    assert!(!folder.exists("g/zarr.json") && !folder.exists("far/zarr.json"));
}

#[test]
fn a_link_to_a_file_is_copied_as_the_file_and_a_broken_one_is_told() {
    let folder = written();
    std::fs::rename(folder.path("a/c/0/0"), folder.path("shard")).unwrap();
    symlink("../../../shard", folder.path("a/c/0/0")).unwrap();
    folder.ok(&["copy", "a", "b"]);
    assert_eq!(folder.get("b/c/0/0"), folder.get("shard"));
    assert!(!std::fs::symlink_metadata(folder.path("b/c/0/0")).unwrap().is_symlink());
    std::fs::rename(folder.path("shard"), folder.path("moved")).unwrap();
    for command in [&["copy", "a", "x"][..], &["unshard", "a", "-o", "x"], &["unshard", "a"]] {
        let error = folder.refused(command);
        assert!(error.contains("c/0/0\" (a broken link)"), "{error}");
    }
    let (status, found) = findings(&folder, "a");
    assert_eq!(status, Some(1));
    assert!(found.iter().any(|(kind, text)| kind == "broken-link" && text.contains("c/0/0")));
    assert!(folder.refused(&["ls", "a"]).contains("broken link"));
}

/// Makes something in a folder.
type Make<'a> = dyn Fn(&Folder) + 'a;

#[test]
fn what_cannot_be_copied_is_told_by_name() {
    let odd = OsStr::from_bytes(b"not-\xff-text");
    let socket = |folder: &Folder| drop(UnixListener::bind(folder.path("a/socket")).unwrap());
    let cases: [(&Make<'_>, &str); 6] = [
        (&|folder| folder.put("a/back\\slash", b"x"), "back\\slash"),
        (&|folder| std::fs::write(folder.path("a").join(odd), b"x").unwrap(), "not-\\xff-text"),
        (&|folder| std::fs::create_dir(folder.path("a").join(odd)).unwrap(), "not-\\xff-text"),
        (&|folder| std::fs::create_dir(folder.path("a/c/b\\d")).unwrap(), "c/b\\d"),
        (&socket, "socket"),
        (&|folder| folder.put("a/.shardine-notes.journal", b"mine"), ".shardine-notes.journal"),
    ];
    for (make, name) in cases {
        let folder = written();
        make(&folder);
        for command in
            [&["copy", "a", "x", "--verify", "content"][..], &["unshard", "a", "-o", "x"]]
        {
            let error = folder.refused(command);
            assert!(error.contains(name), "{command:?}: {error}");
            assert!(!folder.exists("x"), "{command:?}");
        }
        let (status, found) = findings(&folder, "a");
        assert_eq!(status, Some(0));
        let told = |(kind, text): &(String, String)| kind == "left-out" && text.contains(name);
        assert!(found.iter().any(told), "{name}: {found:?}");
    }
}

#[test]
fn files_that_only_look_like_ours_are_copied() {
    let folder = written();
    for name in
        [".shardine-notes.tmp", ".shardine-notes.json", ".shardine-a.job", ".shardine-x.aside"]
    {
        folder.put(&format!("a/{name}"), b"mine");
    }
    // One that was ours is not.
    folder.put("a/.shardine-1-2-3.tmp", b"temporary");
    folder.ok(&["copy", "a", "x"]);
    folder.ok(&["unshard", "a", "-o", "y"]);
    for name in
        [".shardine-notes.tmp", ".shardine-notes.json", ".shardine-a.job", ".shardine-x.aside"]
    {
        assert_eq!(folder.get(&format!("x/{name}")), b"mine");
        assert_eq!(folder.get(&format!("y/{name}")), b"mine");
    }
    assert!(!folder.exists("x/.shardine-1-2-3.tmp"));
}

#[test]
fn a_source_and_a_target_that_share_a_folder_are_refused() {
    let folder = written();
    std::fs::create_dir(folder.path("d")).unwrap();
    symlink("../a", folder.path("d/link")).unwrap();
    symlink("a", folder.path("same")).unwrap();
    symlink("a/new", folder.path("dangling")).unwrap();
    let before = folder.json(&["verify", "a", "--json"]);
    for target in ["d/link", "d/link/new", "d/link/new/deeper", "same", "./d/../a", "dangling"] {
        for command in [
            &["copy", "a", target, "--overwrite"][..],
            &["unshard", "a", "-o", target, "--overwrite"],
            &["convert", "a", target, "--overwrite"],
        ] {
            folder.refused(command);
            assert_eq!(folder.json(&["verify", "a", "--json"]), before, "{command:?}");
            assert!(!folder.exists("a/new"), "{command:?}");
        }
    }
    folder.put("a/in.npy", &npy(1, "'|u1'", false, "(8,)", &[1; 8]));
    folder.refused(&["convert", "a/in.npy", "same", "--overwrite"]);
    assert!(folder.exists("a/in.npy"));
}

#[test]
fn files_are_not_replaced_unless_that_is_said() {
    let folder = written();
    for (name, command) in [
        ("keep.npy", &["convert", "a", "keep.npy"][..]),
        ("keep.raw", &["convert", "a", "keep.raw"]),
        ("keep.npy", &["read", "a", "-o", "keep.npy"]),
        ("keep", &["read", "a", "--region", "0", "-o", "keep"]),
    ] {
        folder.put(name, b"mine");
        let error = folder.refused(command);
        assert!(error.contains("already exists") && error.contains("--overwrite"), "{error}");
        assert_eq!(folder.get(name), b"mine");
        folder.ok(&[command, &["--overwrite"]].concat());
        assert_ne!(folder.get(name), b"mine");
        std::fs::remove_file(folder.path(name)).unwrap();
        folder.ok(command);
        assert!(!folder.names().iter().any(|name| name.ends_with(".part")));
    }
    folder.ok(&["read", "a", "-o", "/dev/null"]);
}

#[test]
fn a_value_does_not_replace_a_file_unless_that_is_said() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("s")).unwrap();
    let sharding = r#"{"@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 0, "hash": "identity",
        "minishard_bits": 0, "shard_bits": 0}"#;
    folder.put("value", b"seven");
    folder.ok(&["kv", "put", "s", "--sharding", sharding, "7=value"]);
    folder.put("out", b"mine");
    let get = ["kv", "get", "s", "7", "--sharding", sharding, "-o"];
    folder.refused(&[&get[..], &["out"]].concat());
    assert_eq!(folder.get("out"), b"mine");
    folder.ok(&[&get[..], &["out", "--overwrite"]].concat());
    assert_eq!(folder.get("out"), b"seven");
    folder.ok(&[&get[..], &["/dev/null"]].concat());
}

#[test]
fn a_document_of_any_size_is_refused_before_it_is_read() {
    let huge = |folder: &Folder, name: &str| {
        std::fs::File::create(folder.path(name)).unwrap().set_len(1 << 40).unwrap();
    };
    let folder = written();
    for (name, arguments) in [
        ("a/zarr.json", &["info", "a"][..]),
        ("v2/.zarray", &["info", "v2"]),
        ("v2/.zarray", &["read", "v2"]),
        ("volume/info", &["info", "volume"]),
        ("volume/info", &["kv", "get", "volume", "1"]),
        ("x/.shardine-copy.json", &["copy", "a", "x"]),
        ("y/.shardine-convert.json", &["convert", "in.npy", "y"]),
    ] {
        let at = name.split('/').next().unwrap();
        std::fs::create_dir_all(folder.path(at)).unwrap();
        folder.put("in.npy", &npy(1, "'|u1'", false, "(8,)", &[1; 8]));
        let before = if at == "a" { Some(folder.get(name)) } else { None };
        huge(&folder, name);
        let error = folder.refused(arguments);
        assert!(error.contains("the limit of 67108864"), "{arguments:?}: {error}");
        if let Some(before) = before {
            let output = folder.run(&["verify", at, "--json"]);
            assert_eq!(output.status.code(), Some(1));
            folder.put(name, &before);
        }
    }
}

#[test]
fn more_threads_than_are_any_use_are_refused() {
    let folder = written();
    for command in [&["info", "a"][..], &["copy", "a", "x"], &["verify", "a"]] {
        let error = folder.refused(&[command, &["--threads", "100000"]].concat());
        assert!(error.contains("1024"), "{error}");
    }
    folder.ok(&["read", "a", "--region", "0", "--threads", "64"]);
}
