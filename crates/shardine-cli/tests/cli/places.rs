//! Settings of stores: for both places of a verb or one of them, and credentials.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Folder, PROGRAM};

/// Runs the program with nothing in its environment, and returns its status and what it says.
fn alone(folder: &Folder, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(folder.path("")).env_clear().env("HOME", folder.path(""));
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn array() -> Folder {
    let folder = Folder::new();
    folder.ok(&["create", "a", "--shape", "4,4", "--dtype", "uint8"]);
    folder
}

#[test]
fn each_place_has_its_own_settings_in_every_verb_with_two() {
    let folder = array();
    let far = "s3://bucket/x";
    let from_far: [&[&str]; 9] = [
        &["compare", far, "a"],
        &["compare", far, "a", "--bytes"],
        &["copy", far, "b"],
        &["convert", far, "b"],
        &["convert", far, "b.npy"],
        &["shard", far, "-o", "b"],
        &["unshard", far, "-o", "b"],
        &["reshard", far, "-o", "b", "--chunks-per-shard", "2"],
        &["repair", far, "--set-aside", "aside"],
    ];
    let to_far: [&[&str]; 8] = [
        &["compare", "a", far],
        &["compare", "a", far, "--bytes"],
        &["copy", "a", far],
        &["convert", "a", far],
        &["shard", "a", "-o", far, "--chunks-per-shard", "1"],
        &["unshard", "a", "-o", far],
        &["reshard", "a", "-o", far, "--chunks-per-shard", "1"],
        &["repair", "a", "--set-aside", far],
    ];
    let unknown = "\"no\": S3 has no such option";
    for (verbs, own, other) in [
        (&from_far[..], "--source-option", "--target-option"),
        (&to_far[..], "--target-option", "--source-option"),
    ] {
        for verb in verbs {
            let (status, errors) = alone(&folder, &[verb, &[own, "no=such"][..]].concat());
            assert!(status == 2 && errors.contains(unknown), "{verb:?}: {errors}");
            let (_, errors) = alone(&folder, &[verb, &[other, "no=such"][..]].concat());
            assert!(!errors.contains(unknown), "{verb:?}: {errors}");
            // What is said of one goes before what is said of both.
            let both = ["--store-option", "requests=0", own, "requests=1"];
            let (_, errors) = alone(&folder, &[verb, &both[..]].concat());
            assert!(errors.contains("\"requests\""), "{verb:?}: {errors}");
        }
    }
    assert_eq!(folder.names(), ["a"]);
}

#[test]
fn settings_of_a_target_that_is_not_there_are_refused() {
    let folder = array();
    for verb in [&["unshard", "a"][..], &["shard", "a"], &["repair", "a"]] {
        let errors = folder.refused(&[verb, &["--target-option", "requests=1"][..]].concat());
        assert!(
            errors.contains("only one location") && errors.contains("--store-option"),
            "{errors}"
        );
    }
}

#[test]
fn a_bucket_without_credentials_is_refused_immediately_with_what_to_set() {
    let folder = array();
    for (url, says) in [
        ("s3://bucket/x", &["AWS_ACCESS_KEY_ID", "AWS_PROFILE", "endpoint=URL"][..]),
        ("gs://bucket/x", &["GOOGLE_APPLICATION_CREDENTIALS"]),
        ("az://c@account.dfs.core.windows.net/x", &["AZURE_STORAGE_ACCOUNT_KEY"]),
    ] {
        for verb in [&["info", url][..], &["ls", url], &["verify", url], &["copy", url, "b"]] {
            let start = Instant::now();
            let (status, errors) = alone(&folder, verb);
            assert!(start.elapsed() < Duration::from_secs(5), "{verb:?}");
            assert_eq!((status, errors.lines().count()), (2, 2), "{verb:?}: {errors}");
            assert!(errors.contains("there are no credentials for"), "{verb:?}: {errors}");
            for word in says.iter().chain(&["--anonymous", "SHARDINE_INSTANCE_CREDENTIALS"]) {
                assert!(errors.contains(word), "{verb:?}: {word} is not in {errors}");
            }
        }
    }
}

/// What was asked for, and whether the request was signed.
type Asked = Arc<Mutex<Vec<(String, bool)>>>;

/// A server that has nothing, and what it was asked for: the path, and whether that was signed.
fn server() -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let is_signed =
                headers.iter().any(|line| line.to_lowercase().starts_with("authorization:"));
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            record.lock().unwrap().push((path, is_signed));
            let answer = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            drop((&stream).write_all(answer.as_bytes()));
        }
    });
    (url, seen)
}

#[test]
fn anonymous_requests_are_not_signed() {
    let folder = array();
    let (url, seen) = server();
    let endpoint = format!("endpoint={url}");
    let keys = ["aws_access_key_id=testkey", "aws_secret_access_key=testsecret"];
    let with_keys = ["--store-option", keys[0], "--store-option", keys[1]];
    for (words, is_signed) in [
        (&["--anonymous"][..], false),
        (&[&with_keys[..], &["--anonymous"]].concat(), false),
        (&with_keys, true),
    ] {
        let verb = ["info", "s3://bucket/x", "--store-option", &endpoint];
        let (status, errors) = alone(&folder, &[&verb, words].concat());
        assert!(status == 2 && errors.contains("there is no"), "{errors}");
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert!(!seen.is_empty() && seen.iter().all(|(_, signed)| *signed == is_signed));
    }
    // Of two places it can be said of one.
    let (other, at_other) = server();
    let other = format!("endpoint={other}");
    let source = ["--source-option", &endpoint, "--source-option", "anonymous=true"];
    let target = ["--target-option", &other];
    let verb = ["copy", "s3://bucket/x", "s3://bucket/y"];
    alone(&folder, &[&verb[..], &source, &target, &with_keys].concat());
    let (seen, at_other) = (seen.lock().unwrap(), at_other.lock().unwrap());
    assert!(!seen.is_empty() && seen.iter().all(|(path, signed)| path.contains('x') && !signed));
    assert!(at_other.iter().all(|(path, signed)| path.contains('y') && *signed), "{at_other:?}");
}
