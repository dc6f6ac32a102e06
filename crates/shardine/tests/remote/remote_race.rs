//! Three writers update chunks of one shard that is larger than a part of an upload, at the same
//! time.
//!
//! `SHARDINE_RACE_ROUNDS` makes it longer than the few rounds of an ordinary run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::sync::{Barrier, OnceLock};

use common::*;
use serde_json::json;
use shardine::{ArrayNode, Elements, Location, Region, StoreOptions, WriteOptions};
use shardine_testbed::{Azurite, SeaweedFs};

const BUCKET: &str = "races";
const WRITERS: u64 = 3;

/// Bytes of a chunk; three of them are more than a part.
const CHUNK: u64 = 3 << 20;

fn rounds(usual: u8) -> u8 {
    std::env::var("SHARDINE_RACE_ROUNDS").map_or(usual, |text| text.parse().unwrap())
}

fn s3(name: &str) -> Location {
    let server = SeaweedFs::shared().unwrap();
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| server.create_bucket(BUCKET).unwrap());
    let options = StoreOptions::new()
        .with("aws_endpoint", &format!("http://{}", server.addr()))
        .with("aws_access_key_id", SeaweedFs::ACCESS_KEY)
        .with("aws_secret_access_key", SeaweedFs::SECRET_KEY)
        .with("aws_region", SeaweedFs::REGION)
        .with("part_size", "5242880");
    Location::with_options(&format!("s3://{BUCKET}/{name}"), &options).unwrap()
}

fn azure(name: &str) -> Location {
    let server = Azurite::shared().unwrap();
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| server.create_container(BUCKET).unwrap());
    let options = StoreOptions::new()
        .with("azure_storage_account_name", Azurite::ACCOUNT)
        .with("azure_storage_account_key", Azurite::KEY)
        .with("azure_storage_endpoint", &server.endpoint())
        .with("part_size", "5242880");
    Location::with_options(&format!("az://{BUCKET}/{name}"), &options).unwrap()
}

/// The rounds in which an update was lost although its writer was told that it succeeded.
fn lost(place: &dyn Fn() -> Location, rounds: u8) -> usize {
    let codecs = json!([sharding(&[1, CHUNK], json!([bytes()]))]);
    let document = document(&[WRITERS, CHUNK], &[WRITERS, CHUNK], "uint8".into(), 0.into(), codecs);
    let made = ArrayNode::create(&engine(), &place(), metadata(&document)).unwrap();
    write(&made, "", vec![255; (WRITERS * CHUNK) as usize]);
    let arrays: Vec<ArrayNode> =
        (0..WRITERS).map(|_| ArrayNode::open(&engine(), &place()).unwrap()).collect();
    let mut lost = 0;
    for round in 1..=rounds {
        let barrier = Barrier::new(arrays.len());
        std::thread::scope(|scope| {
            for (i, array) in arrays.iter().enumerate() {
                let barrier = &barrier;
                scope.spawn(move || {
                    let region: Region = format!("{i},:").parse().unwrap();
                    let elements = Elements::Fixed(vec![round; CHUNK as usize]);
                    barrier.wait();
                    array.write_elements(&region, elements.as_ref(), &WriteOptions::new()).unwrap();
                });
            }
        });
        let found = read(&ArrayNode::open(&engine(), &place()).unwrap(), "");
        lost += usize::from(found.iter().any(|&byte| byte != round));
    }
    lost
}

#[test]
fn three_writers_of_a_large_shard_lose_nothing_on_s3() {
    let (name, rounds) = (format!("s3-{}", std::process::id()), rounds(12));
    let lost = lost(&|| s3(&name), rounds);
    println!("S3: {lost} of {rounds} rounds have lost an update");
    assert_eq!(lost, 0, "of {rounds} rounds");
}

#[test]
fn three_writers_of_a_large_shard_lose_nothing_on_azure() {
    let (name, rounds) = (format!("azure-{}", std::process::id()), rounds(6));
    let lost = lost(&|| azure(&name), rounds);
    println!("Azure: {lost} of {rounds} rounds have lost an update");
    assert_eq!(lost, 0, "of {rounds} rounds");
}
