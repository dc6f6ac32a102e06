//! Memory stays within the promised limits. Each case runs in a process of its own, so that its
//! peak is its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod common;

use std::process::Command;
use std::sync::Arc;

use common::*;
use serde_json::json;
use shardine::store::FileStore;
use shardine::{
    ArrayNode, Engine, EngineOptions, GeneratorSource, Location, Region, Source, WriteOptions,
};

const MIB: u64 = 1 << 20;

/// The most memory that this process ever had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Runs one of the cases below in a child, where `SHARDINE_LIMIT_CASE` is set.
///
/// `hard` is a limit that the system enforces on the child's private memory.
fn run_case(case: &str, folder: &std::path::Path, hard: u64) {
    let test = std::env::current_exe().unwrap();
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -d {}; exec \"$0\" --exact child --nocapture", hard / 1024))
        .arg(test)
        .env("SHARDINE_LIMIT_CASE", case)
        .env("SHARDINE_LIMIT_FOLDER", folder)
        // There may be no memory left for a backtrace, and then the child would hang instead of
        // failing.
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case}: {text}{errors}");
    assert!(text.contains("peak"), "the case did not run: {text}");
    text.lines().filter(|line| line.contains("peak")).for_each(|line| println!("{line}"));
}

/// A shard of 512 x 512 x 512 uint16 (256 MiB) with chunks of 64 x 64 x 64.
fn big() -> serde_json::Value {
    let lz4 = json!({"name": "blosc", "configuration":
        {"cname": "lz4", "clevel": 1, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}});
    let codecs = json!([sharding(&[64, 64, 64], json!([bytes(), lz4]))]);
    document(&[512, 512, 512], &[512, 512, 512], "uint16".into(), 0.into(), codecs)
}

fn open(folder: &str, options: &EngineOptions) -> ArrayNode {
    let location = Location::root(Arc::new(FileStore::new(folder)));
    ArrayNode::open(&Engine::new(options).unwrap(), &location).unwrap()
}

/// Noise of eleven bits, so that the shard is large and still has something to compress.
fn generator() -> impl Source {
    GeneratorSource::new(2, |start, _, out| {
        let seed = start.iter().fold(7, |n, &i| n * 1_000_003 + i);
        let values = noise(out.len() / 2, seed);
        for (element, noise) in out.chunks_exact_mut(2).zip(values) {
            element.copy_from_slice(&(u16::from(noise) * 8).to_le_bytes());
        }
        Ok(())
    })
}

fn write_big(folder: &str, options: &EngineOptions) {
    let array = open(folder, options);
    array.write_from(Region::all(), &generator(), &WriteOptions::new()).unwrap();
}

/// Not a test of its own: the child of the tests below.
#[test]
fn child() {
    let Ok(case) = std::env::var("SHARDINE_LIMIT_CASE") else { return };
    let folder = std::env::var("SHARDINE_LIMIT_FOLDER").unwrap();
    let before = peak();
    let allowed = match case.as_str() {
        "write" => {
            write_big(&folder, &EngineOptions::new());
            64 * MIB
        }
        "write-small" => {
            write_big(&folder, &EngineOptions::new().memory(8 * MIB));
            24 * MIB
        }
        "read" => {
            let array = open(&folder, &EngineOptions::new());
            let bytes = read(&array, ":300");
            bytes.len() as u64 + 64 * MIB
        }
        "read-slabs" => {
            let array = open(&folder, &EngineOptions::new());
            for start in (0..512).step_by(32) {
                read(&array, &format!("{start}:{}", start + 32));
            }
            // The region of each read is 16 MiB.
            (16 + 64) * MIB
        }
        "read-small" => {
            let array = open(&folder, &EngineOptions::new().memory(8 * MIB));
            let bytes = read(&array, ":,:100");
            bytes.len() as u64 + 24 * MIB
        }
        "update" => {
            let array = open(&folder, &EngineOptions::new());
            let report =
                array.write_from("10:500,3:500,:", &generator(), &WriteOptions::new()).unwrap();
            assert_eq!(report.chunks_encoded, 512);
            64 * MIB
        }
        "many-write" => {
            let array = open(&folder, &EngineOptions::new());
            let bytes = noise(1 << 20, 3);
            let before = array.write_elements(
                Region::all(),
                shardine::ElementsRef::Fixed(&bytes),
                &Default::default(),
            );
            assert_eq!(before.unwrap().chunks_encoded, 1 << 18);
            64 * MIB
        }
        "many-read" => {
            let array = open(&folder, &EngineOptions::new());
            let whole = read(&array, "");
            assert!(whole == noise(1 << 20, 3));
            assert!(read(&array, "1:") == whole[1024..]);
            64 * MIB
        }
        other => panic!("no case {other}"),
    };
    let peak = peak();
    println!("{case}: peak {} MiB, allowed {} MiB", peak / MIB, (before + allowed) / MIB);
    assert!(peak <= before + allowed, "{case}: peak {peak}, allowed {before} + {allowed}");
}

#[test]
fn reads_and_writes_of_a_shard_far_larger_than_the_budget_stay_within_it() {
    let folder = tempfile::tempdir().unwrap();
    create_in(Arc::new(FileStore::new(folder.path())), &big());
    // The hard limits stop whatever the peaks, which are asserted in the child, should miss.
    run_case("write", folder.path(), 96 * MIB);
    run_case("read", folder.path(), 300 * MIB);
    run_case("read-slabs", folder.path(), 128 * MIB);
    run_case("read-small", folder.path(), 140 * MIB);
    run_case("update", folder.path(), 96 * MIB);
    run_case("write-small", folder.path(), 64 * MIB);
}

#[test]
fn a_great_many_small_chunks_do_not_cost_more_than_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let codecs = json!([sharding(&[2, 2], json!([bytes()]))]);
    let document = document(&[1024, 1024], &[1024, 1024], "uint8".into(), 0.into(), codecs);
    create_in(Arc::new(FileStore::new(folder.path())), &document);
    run_case("many-write", folder.path(), 96 * MIB);
    run_case("many-read", folder.path(), 96 * MIB);
}
