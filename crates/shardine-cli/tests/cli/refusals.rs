use std::process::Stdio;

use crate::support::{Folder, npy};

fn array() -> Folder {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "100,100", "--dtype", "uint16"]);
    folder
}

#[test]
fn a_mistake_in_the_arguments_is_one_line() {
    let folder = array();
    assert!(folder.refused(&[]).contains("no verb given"));
    assert!(folder.refused(&["frobnicate"]).contains("frobnicate"));
    assert!(folder.refused(&["read", "a", "--frob"]).contains("--frob"));
    let errors = folder.refused(&["create", "b"]);
    assert!(errors.contains("not provided: --shape <N,N,..>, --dtype <TYPE>\n"), "{errors}");
    assert!(errors.contains("see `shardine create --help`"), "{errors}");
    let errors = folder.refused(&["read", "a", "--region", "1:2:-3"]);
    assert!(errors.contains("steps must be positive"), "{errors}");
}

#[test]
fn places_that_this_version_cannot_reach_are_named() {
    let folder = array();
    for (url, reason) in [
        ("ftp://host/a", "ftp:// is not supported"),
        ("s3://", "names no bucket"),
        ("s3://user:secret@bucket/a", "as options"),
        ("http://127.0.0.1/a?b=c", "no query"),
    ] {
        let errors = folder.refused(&["info", url]);
        assert!(errors.contains(reason), "{errors}");
        assert!(!errors.contains("secret"), "{errors}");
    }
    let errors = folder.refused(&["info", "s3://bucket/a", "--store-option", "no=such"]);
    assert!(errors.contains("\"no\": S3 has no such option"), "{errors}");
    let errors = folder.refused(&["info", "nothing"]);
    assert!(errors.contains("there is no Zarr array or group at"), "{errors}");
    folder.put("file", b"x");
    folder.refused(&["info", "file"]);
    let url = format!("file://{}", folder.path("a").display());
    folder.ok(&["info", &url]);
    let create = ["create", "with space", "--shape", "2", "--dtype", "uint8"];
    folder.ok(&create);
    let root = folder.path("").display().to_string();
    folder.ok(&["info", &format!("file://localhost{root}with%20space")]);
    let errors = folder.refused(&["info", "file://host/a"]);
    assert!(errors.contains("other hosts"), "{errors}");
}

#[test]
fn empty_regions_are_one_line_without_a_hint() {
    let folder = array();
    for region in ["5:5", "100:", "200", "0:1,0:1,0:1", "-200", "7:3"] {
        let errors = folder.refused(&["read", "a", "--region", region, "-o", "x"]);
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains("region"), "{errors}");
    }
    assert_eq!(folder.names(), ["a"]);
}

#[test]
fn a_large_region_is_not_shown() {
    let folder = array();
    let errors = folder.refused(&["read", "a"]);
    assert!(errors.contains("too many to show") && errors.contains("-o FILE"), "{errors}");
}

#[test]
fn strings_do_not_go_into_npy() {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "2", "--dtype", "string"]);
    let errors = folder.refused(&["read", "a", "-o", "x.npy"]);
    assert!(
        errors.contains("a .npy file cannot hold string") && errors.contains("raw"),
        "{errors}"
    );
    assert_eq!(folder.names(), ["a"]);
}

#[test]
fn what_does_not_fit_the_region_is_refused() {
    let folder = array();
    folder.put("in.npy", &npy(1, "'<u2'", false, "(2, 2)", &[0; 8]));
    let errors = folder.refused(&["write", "a", "in.npy"]);
    assert!(errors.contains("in.npy: has shape 2 x 2, but the region has 100 x 100"), "{errors}");
    folder.ok(&["write", "a", "--region", ":2,:2", "in.npy"]);
    folder.put("in.raw", &[0; 8]);
    let errors = folder.refused(&["write", "a", "in.raw"]);
    assert!(
        errors.contains("has 8 bytes, but the region (100 x 100 of uint16) has 20000"),
        "{errors}"
    );
    std::fs::rename(folder.path("in.npy"), folder.path("misnamed")).unwrap();
    let errors = folder.refused(&["write", "a", "misnamed"]);
    assert!(errors.contains("starts like a .npy file"), "{errors}");
    assert!(folder.refused(&["write", "a", "missing.npy"]).contains("missing.npy"));
    assert!(folder.refused(&["write", "a", "a"]).contains("is a folder"));
    assert!(folder.refused(&["write", "a", "--cast", "in.raw"]).contains("--cast"));
}

#[test]
fn a_strategy_or_a_share_that_does_not_exist_is_refused() {
    let folder = array();
    folder.put("in.raw", &[1; 20_000]);
    let errors = folder.refused(&["write", "a", "in.raw", "--strategy", "sideways"]);
    assert!(errors.contains("auto, rewrite, in-place or append"), "{errors}");
    for share in ["25", "101%", "nan", "-1"] {
        let errors = folder.refused(&["write", "a", "in.raw", &format!("--max-gap={share}")]);
        assert!(errors.contains("25% or 0.25"), "{errors}");
    }
    for strategy in ["auto", "rewrite", "in-place", "append"] {
        folder.ok(&["write", "a", "in.raw", "--strategy", strategy, "--max-gap", "10%"]);
    }
}

#[test]
fn json_and_elements_do_not_mix() {
    let folder = array();
    assert!(folder.refused(&["read", "a", "-o", "-", "--json"]).contains("standard output"));
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "4000,4000", "--dtype", "uint16"]);
    let mut command = folder.command(&["read", "a", "-o", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_failed_read_leaves_the_old_output_and_nothing_beside_it() {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "8", "--dtype", "uint8", "--chunk", "2", "--shard", "4"]);
    folder.put("in.raw", &[1; 8]);
    folder.ok(&["write", "a", "in.raw"]);
    folder.put("a/c/1", b"too short");
    folder.put("out.npy", b"old");
    folder.refused(&["read", "a", "-o", "out.npy", "--overwrite"]);
    assert_eq!(folder.get("out.npy"), b"old");
    assert_eq!(folder.names(), ["a", "in.raw", "out.npy"]);
    folder.refused(&["read", "a", "-o", "no/such/folder/out.npy"]);
}

#[test]
fn devices_are_written_to_and_links_stay_links() {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "8", "--dtype", "uint8"]);
    folder.ok(&["read", "a", "-o", "/dev/null"]);
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    folder.put("real.npy", b"old");
    std::os::unix::fs::symlink("real.npy", folder.path("link.npy")).unwrap();
    folder.ok(&["read", "a", "-o", "link.npy", "--overwrite"]);
    assert!(std::fs::symlink_metadata(folder.path("link.npy")).unwrap().is_symlink());
    assert!(folder.get("real.npy").starts_with(b"\x93NUMPY"));
}

#[test]
fn an_update_of_a_damaged_chunk_says_how_to_replace_it() {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "8", "--dtype", "uint8", "--chunk", "4", "--shard", "8",
        "--codec", "crc32c",
    ]);
    folder.put("in.raw", &[1; 8]);
    folder.ok(&["write", "a", "in.raw"]);
    let mut shard = folder.get("a/c/0");
    shard[0] ^= 1;
    folder.put("a/c/0", &shard);
    folder.put("two.raw", &[2; 2]);
    let errors = folder.refused(&["write", "a", "--region", "0:2", "two.raw"]);
    assert!(errors.contains("cannot read the chunk to be updated"), "{errors}");
    assert!(
        errors.contains("hint: ") && errors.contains("rewrite the whole of chunk [0]"),
        "{errors}"
    );
    // It does help.
    folder.put("four.raw", &[2; 4]);
    folder.ok(&["write", "a", "--region", "0:4", "four.raw"]);
    assert_eq!(folder.text(&["read", "a"]), "2 2 2 2 1 1 1 1\n");
}

#[test]
fn errors_are_json_for_those_who_ask_for_json() {
    let folder = array();
    for arguments in [
        &["info", "nothing", "--json"][..],
        &["verify", "a", "--decode", "--nonsense", "--json"],
        &["read", "a", "--region", "1000000", "--json"],
    ] {
        folder.refused(arguments);
    }
}

#[test]
fn verbs_that_change_something_say_so_unless_they_are_to_be_quiet() {
    let folder = Folder::new();
    folder.put("e", &[7; 64]);
    let create = ["create", "a", "--shape", "8,8", "--dtype", "uint8", "--overwrite"];
    for (arguments, said) in [
        (&create[..], "created a: "),
        (&["write", "a", "e"], "wrote 8 x 8 uint8 to a: 1 object, "),
        (&["append", "a", "e"], "appended 8 planes to a; it is "),
        (&["read", "a", "-o", "r.npy", "--overwrite"], "read "),
        (&["shard", "a", "--chunks-per-shard", "2"], "a: "),
        (&["copy", "a", "b", "--overwrite"], "copied "),
        (&["convert", "r.npy", "n", "--overwrite"], "made n: "),
        (&["compact", "a"], "0 of "),
    ] {
        let text = folder.text(arguments);
        assert!(text.starts_with(said), "{text}");
        assert_eq!(folder.text(&[arguments, &["--quiet"]].concat()), "", "{arguments:?}");
    }
    // What was asked for is no talk.
    assert!(folder.text(&["info", "a", "-q"]).contains("uint8"));
    assert!(folder.text(&["verify", "a", "--json", "-q"]).contains("\"ok\": true"));
    assert_eq!(folder.text(&["verify", "a", "-q"]), "");
}

#[test]
fn where_there_is_no_data_set_the_hint_says_what_is_there_instead() {
    let folder = array();
    folder.put("in.raw", &[1; 20_000]);
    folder.ok(&["write", "a", "in.raw"]);
    std::fs::create_dir_all(folder.path("many/b")).unwrap();
    std::fs::create_dir(folder.path("empty")).unwrap();
    folder.ok(&["create", "many/x", "--shape", "4", "--dtype", "uint8"]);
    for (url, hint) in [
        ("nothing", "no such file or folder"),
        ("nothing/at/all", "does not exist"),
        ("in.raw", "shardine convert"),
        ("a/c", "a part of the data set"),
        ("a/zarr.json", "a part of the data set"),
        ("many", "/many/x"),
        ("empty", "nothing in it looks like a data set"),
        ("s3:/bucket/x", "s3://bucket/x"),
    ] {
        let errors = folder.refused(&["info", url]);
        let told = errors.lines().nth(1).unwrap_or_default();
        assert!(told.contains(hint), "{url}: {errors}");
    }
    let errors = folder.refused(&["info", "a", "--zarr-format", "2"]);
    assert!(errors.contains("it is zarr3; omit --zarr-format"), "{errors}");
}

#[test]
fn a_wrong_option_is_named_with_what_would_do() {
    let folder = array();
    let create = ["create", "b", "--shape", "8", "--dtype"];
    for (verb, says) in [
        (&[&create[..], &["int7"]].concat()[..], &["--dtype: unknown data type", "uint8"][..]),
        (&[&create[..], &["uint8", "--codec", "zstd:99"]].concat(), &["--codec: ", "22", "--help"]),
        (&["shard", "a", "--shard", "3,3", "--chunk", "2,2"], &["not a multiple", "4,4 is"]),
        (&["unshard", "a", "--part", "1/2"], &["--part", "use -o"]),
        (&["copy", "a", "a"], &["same location", "outside"]),
        (&["read", "a", "-o", "no/such/x.npy"], &["x.npy", "no/such does not exist"]),
    ] {
        let errors = folder.refused(verb);
        for word in says {
            assert!(errors.contains(word), "{verb:?}: {word} is not in {errors}");
        }
        assert!(!errors.contains("zarr.json"), "{verb:?}: {errors}");
    }
    assert_eq!(folder.names(), ["a"]);
}

#[test]
fn a_store_that_does_not_answer_is_told_with_what_to_check() {
    let folder = array();
    let url = "http://127.0.0.1:1/x";
    let errors = folder.refused(&["info", url, "--store-option", "max_retries=0"]);
    assert!(errors.contains("nothing answers there"), "{errors}");
    let mut azure = folder.command(&["info", "az://container/x"]);
    let output = azure.env_remove("AZURE_STORAGE_ACCOUNT_NAME").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("AZURE_STORAGE_ACCOUNT_NAME"), "{errors}");
}

#[test]
fn options_of_volumes_are_the_only_ones_under_their_heading() {
    let folder = Folder::new();
    for verb in ["create", "convert", "shard", "reshard"] {
        let help = folder.text(&[verb, "--help"]);
        let volumes = help.split("Precomputed volumes:").nth(1).unwrap_or_default();
        let volumes = volumes.split("Machine:").next().unwrap_or_default();
        for option in ["--json", "--overwrite", "--verify", "--source-option", "--part"] {
            assert!(!volumes.contains(option), "{verb}: {option}");
        }
    }
}
