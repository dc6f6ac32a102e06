//! Two processes update one shard on S3, while responses get lost on the way.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::collections::HashMap;
use std::process::{Child, Command};

use common::*;
use shardine::{
    ArrayNode, Elements, Error, Location, SliceOptions, SliceWriter, StoreOptions, WriteOptions,
};
use shardine_testbed::{Faults, Proxy, ProxyOptions, SeaweedFs};

const BUCKET: &str = "duel";

/// How often each process updates its chunk.
const UPDATES: u16 = 500;

/// The variables that pass parameters to the processes.
const PLACE: &str = "SHARDINE_DUEL_PLACE";
const COLUMN: &str = "SHARDINE_DUEL_COLUMN";
const COUNT: &str = "SHARDINE_DUEL_COUNT";
const APPENDED: &str = "SHARDINE_DUEL_APPENDED";

/// The exit status of an append that was refused.
const REFUSED: i32 = 3;

fn location(endpoint: &str, name: &str) -> Location {
    let options = StoreOptions::new()
        .with("aws_endpoint", endpoint)
        .with("aws_access_key_id", SeaweedFs::ACCESS_KEY)
        .with("aws_secret_access_key", SeaweedFs::SECRET_KEY)
        .with("aws_region", SeaweedFs::REGION)
        .with("read_timeout", "5");
    Location::with_options(&format!("s3://{BUCKET}/{name}"), &options).unwrap()
}

/// One of the processes: writes 1, 2, 3 ... to its chunk, and reads each back.
#[test]
fn updater() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let (endpoint, name) = place.split_once(' ').unwrap();
    let column: u64 = std::env::var(COLUMN).unwrap().parse().unwrap();
    let count: u16 = std::env::var(COUNT).unwrap().parse().unwrap();
    let array = ArrayNode::open(&engine(), &location(endpoint, name)).unwrap();
    let width = array.chunk_shape()[1];
    let region = format!(":,{}:{}", column * width, (column + 1) * width);
    for value in 1..=count {
        let elements = (array.shape()[0] * width) as usize;
        let bytes = value.to_le_bytes().repeat(elements);
        array
            .write_elements(&region, Elements::Fixed(bytes.clone()).as_ref(), &WriteOptions::new())
            .unwrap();
        if value.is_multiple_of(50) {
            assert!(array.read_elements(&region).unwrap().into_fixed().unwrap() == bytes);
        }
    }
}

/// An updater process; killed when this is dropped.
struct Updater(Child);

impl Updater {
    fn start(place: &str, column: u64, count: u16) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["remote_duel::updater", "--exact", "--nocapture"])
            .env(PLACE, place)
            .env(COLUMN, column.to_string())
            .env(COUNT, count.to_string())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Updater {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn duel(document: &serde_json::Value, count: u16, seed: u64) {
    let server = SeaweedFs::shared().unwrap();
    server.create_bucket(BUCKET).unwrap();
    let proxy = Proxy::start(server.addr(), ProxyOptions::default()).unwrap();
    let name = format!("{}-{seed}", std::process::id());
    let there = location(&proxy.url(), &name);
    let array = ArrayNode::create(&engine(), &there, metadata(document)).unwrap();
    // Chunks that nobody updates must stay.
    let (rows, columns) = (array.shape()[0] as usize, array.shape()[1] as usize);
    let mut model = noise(rows * columns * 2, seed);
    write(&array, ":,:", model.clone());
    proxy.reset();
    let faults: Faults = "lost-answer:method=PUT,p=0.05;lost-answer:method=POST,p=0.05;drop:p=0.01;drop-middle:p=0.01;\
        status=503:p=0.02;status=500:p=0.005;truncate:method=GET,p=0.02"
        .parse()
        .unwrap();
    proxy.set_faults(faults.seed(seed));
    let place = format!("{} {name}", proxy.url());
    let mut updaters = [0, 2].map(|column| Updater::start(&place, column, count));
    for updater in &mut updaters {
        assert!(updater.0.wait().unwrap().success());
    }
    proxy.set_faults(Faults::none());
    let width = array.chunk_shape()[1] as usize;
    for row in 0..rows {
        for column in [0, 2] {
            let at = (row * columns + column * width) * 2;
            model[at..at + width * 2].copy_from_slice(&count.to_le_bytes().repeat(width));
        }
    }
    assert!(read(&reopen(&array), ":,:") == model, "something was lost");
    // On the server: each write has happened, and none twice.
    let mut writes: HashMap<String, usize> = HashMap::new();
    let mut lost = 0;
    let requests = proxy.requests();
    let taken = |status: Option<u16>| status.is_some_and(|status| status / 100 == 2);
    for request in requests.iter().filter(|request| request.path().contains("/c/")) {
        lost += usize::from(request.fault == Some("lost-answer") && taken(request.upstream_status));
        if request.method == "PUT"
            && taken(request.upstream_status)
            && let Some(history) = request.header("x-amz-meta-shardinewrites")
        {
            *writes.entry(history.rsplit(' ').next().unwrap().to_owned()).or_default() += 1;
        }
    }
    println!("{} requests, {lost} answers lost after the fact", requests.len());
    assert!(lost > 0, "the trial was too easy");
    assert_eq!(writes.len(), 2 * usize::from(count), "each update is one write");
    assert!(writes.values().all(|&times| times == 1), "a write took place twice");
}

#[test]
fn two_processes_update_one_shard_and_nothing_is_lost_or_done_twice() {
    duel(&sharded(&[32, 128], &[32, 128], &[32, 32]), UPDATES, 1);
}

#[test]
fn the_same_with_a_shard_that_is_streamed() {
    duel(&sharded(&[512, 2048], &[512, 2048], &[512, 512]), 40, 2);
}

/// One of the appending processes: eight planes of one number, committed two by two.
#[test]
fn appender() {
    let Ok(place) = std::env::var(APPENDED) else { return };
    let (endpoint, name) = place.split_once(' ').unwrap();
    let count: u16 = std::env::var(COUNT).unwrap().parse().unwrap();
    let array = ArrayNode::open(&engine(), &location(endpoint, name)).unwrap();
    let mut writer = match SliceWriter::new(array, 0, SliceOptions::new().commit_every(2)) {
        Ok(writer) => writer,
        Err(
            Error::AppendUnderWay { .. }
            | Error::AppendOwned { .. }
            | Error::MetadataChanged { .. },
        ) => std::process::exit(REFUSED),
        Err(error) => panic!("{error}"),
    };
    for _ in 0..8 {
        writer.push_elements(Elements::Fixed(count.to_le_bytes().repeat(4)).as_ref()).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn of_two_appends_the_refused_one_has_overwritten_nothing() {
    let server = SeaweedFs::shared().unwrap();
    server.create_bucket(BUCKET).unwrap();
    for round in 0..8 {
        let name = format!("append-{}-{round}", std::process::id());
        let there = location(&server.endpoint(), &name);
        let document = sharded(&[0, 4], &[4, 4], &[2, 4]);
        let array = ArrayNode::create(&engine(), &there, metadata(&document)).unwrap();
        let place = format!("{} {name}", server.endpoint());
        let start = |count: u16| {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["remote_duel::appender", "--exact", "--nocapture"])
                .env(APPENDED, &place)
                .env(COUNT, count.to_string())
                .spawn();
            Updater(child.unwrap())
        };
        let mut appenders = [1, 2].map(start);
        let mut done = Vec::new();
        for (number, appender) in (1u16..).zip(&mut appenders) {
            match appender.0.wait().unwrap().code() {
                Some(0) => done.push(number.to_le_bytes().repeat(32)),
                status => assert_eq!(status, Some(REFUSED)),
            }
        }
        let found = read(&reopen(&array), "");
        let turned: Vec<u8> = done.iter().rev().flatten().copied().collect();
        assert!(!done.is_empty() && (found == done.concat() || found == turned), "{round}");
        let left = there.store.list(None).unwrap().objects;
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
