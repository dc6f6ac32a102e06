//! The servers start, answer, and end with their parent.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use shardine_testbed::{Azurite, Nginx, NginxOptions, SeaweedFs, request};

#[test]
fn seaweedfs_wants_a_signature_and_makes_buckets() {
    let server = SeaweedFs::start().unwrap();
    assert_eq!(request(server.addr(), "GET", "/", &[], b"").unwrap().status, 403);
    // More than once, and many: each bucket takes some of a limited number of volumes.
    for i in 0..20 {
        server.create_bucket(&format!("bucket-{}", i / 2)).unwrap();
    }
    let addr = server.addr();
    drop(server);
    assert!(request(addr, "GET", "/", &[], b"").is_err(), "it still runs");
}

#[test]
fn azurite_wants_a_signature_and_makes_containers() {
    let server = Azurite::start().unwrap();
    let list = format!("/{}?comp=list", Azurite::ACCOUNT);
    assert_eq!(request(server.addr(), "GET", &list, &[], b"").unwrap().status, 403);
    server.create_container("one").unwrap();
    server.create_container("one").unwrap();
    let error = server.create_container("NOT A NAME").unwrap_err();
    assert!(error.to_string().contains("NOT A NAME"), "{error}");
}

#[test]
fn nginx_serves_a_folder_in_several_ways() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("object"), "0123456789").unwrap();
    let options = NginxOptions { tls: true, writable: true };
    let server = Nginx::start(folder.path(), &options).unwrap();
    let get =
        |path: &str| request(server.addr(), "GET", path, &[("Range", "bytes=2-4")], b"").unwrap();

    let answer = get("/object");
    assert_eq!((answer.status, answer.text().as_str()), (206, "234"));
    assert!(answer.header("etag").is_some() && answer.header("last-modified").is_some());
    let answer = get("/no-ranges/object");
    assert_eq!((answer.status, answer.text().as_str()), (200, "0123456789"));
    let answer = get("/no-etag/object");
    assert_eq!((answer.status, answer.header("etag")), (206, None));
    assert!(answer.header("last-modified").is_some());
    let answer = get("/bare/object");
    assert_eq!((answer.header("etag"), answer.header("last-modified")), (None, None));

    assert_eq!(request(server.addr(), "PUT", "/a/b", &[], b"new").unwrap().status, 201);
    assert_eq!(fs::read(folder.path().join("a/b")).unwrap(), b"new");

    let url = format!("{}/object", server.tls_url().unwrap());
    let output = Command::new("openssl")
        .args(["s_client", "-verify_return_error", "-verify_ip", "127.0.0.1", "-connect"])
        .arg(server.tls_addr().unwrap().to_string())
        .arg("-CAfile")
        .arg(server.certificate())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The program of this crate, serving a folder.
fn serve(folder: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardine-testbed"));
    command.args(["nginx", "--tls", "yes", "--root"]).arg(folder).stdout(Stdio::piped());
    command
}

#[test]
fn a_server_ends_when_its_owner_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = serve(folder.path()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(owner.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let place: serde_json::Value = serde_json::from_str(&line).unwrap();
    let addr = place["addr"].as_str().unwrap().parse().unwrap();
    let certificate = PathBuf::from(place["certificate"].as_str().unwrap());
    request(addr, "GET", "/", &[], b"").unwrap();
    assert!(certificate.exists());

    owner.kill().unwrap();
    owner.wait().unwrap();
    let start = Instant::now();
    while request(addr, "GET", "/", &[], b"").is_ok() || certificate.parent().unwrap().exists() {
        assert!(start.elapsed() < Duration::from_secs(10), "it left something behind");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_that_is_missing_or_broken_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    fs::write(&broken, "#!/bin/sh\necho 'nothing works' >&2\nexit 7\n").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    let error = |nginx: &std::path::Path| {
        let output = serve(folder.path()).env("SHARDINE_NGINX", nginx).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let text = error(&folder.path().join("missing"));
    assert!(text.contains("nginx is not installed; `cargo xtask servers`"), "{text}");
    let text = error(&broken);
    assert!(text.contains("7)") && text.contains("nothing works"), "{text}");
}
