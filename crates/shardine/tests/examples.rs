//! The programs in `examples` do what they say: each is run, and checks itself.
//!
//! They are not compiled again for this: `cargo test` builds examples before it runs tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;

use shardine_testbed::SeaweedFs;

/// Where Cargo puts the examples of the same build.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let program = built.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let (built, written) = (changed(&program), changed(&source.with_extension("rs")));
    assert!(
        built.is_some() && built >= written,
        "{name} is not built, or was changed since: run `cargo build -p shardine --examples`"
    );
    program
}

fn run(name: &str, target: &str, variables: &[(&str, &str)]) {
    let ran = Command::new(program(name)).arg(target).envs(variables.iter().copied()).output();
    let ran = ran.unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{name}: {}\n{out}{err}", ran.status);
    assert!(!out.is_empty(), "{name} says nothing");
}

/// Twice, as a reader who tries it would.
fn run_in_folder(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("data");
    for _ in 0..2 {
        run(name, target.to_str().unwrap(), &[]);
    }
}

#[test]
fn make() {
    run_in_folder("make");
}

#[test]
fn update() {
    run_in_folder("update");
}

#[test]
fn instrument() {
    run_in_folder("instrument");
}

#[test]
fn reshard() {
    run_in_folder("reshard");
}

#[test]
fn precomputed() {
    run_in_folder("precomputed");
}

#[test]
fn s3() {
    let server = SeaweedFs::shared().unwrap();
    server.create_bucket("examples").unwrap();
    let variables = [
        ("AWS_ENDPOINT", server.endpoint()),
        ("AWS_ACCESS_KEY_ID", SeaweedFs::ACCESS_KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SeaweedFs::SECRET_KEY.to_owned()),
        ("AWS_REGION", SeaweedFs::REGION.to_owned()),
    ];
    run("s3", "s3://examples/volume", &variables.each_ref().map(|(name, value)| (*name, &**value)));
}

#[test]
fn every_example_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names: Vec<String> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    // The last takes gigabytes: it is for looking at memory by hand.
    let run = ["instrument", "make", "precomputed", "reshard", "s3", "update", "large_shard"];
    let mut expected = run.map(str::to_owned);
    expected.sort();
    assert_eq!(names, expected);
}
