//! What `verify` finds, and arrays to find it in.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use shardine::jobs::{Finding, VerifyOptions, VerifySummary, verify};
use shardine::store::{Condition, FileStore, Key, StoreExt};
use shardine::{Array, ArrayNode, Location};

use super::*;

pub fn check_at(location: &Location, decode: bool) -> (VerifySummary, Vec<Finding>) {
    let mut findings = Vec::new();
    let options = VerifyOptions::new().decode(decode);
    let summary =
        verify(&engine(), location, &options, &mut |finding| findings.push(finding)).unwrap();
    let damage = findings.iter().filter(|f| f.severity.name() == "damage").count();
    assert_eq!(summary.damage as usize, damage);
    assert_eq!(summary.notices as usize, findings.len() - damage);
    (summary, findings)
}

pub fn check(array: &Array, decode: bool) -> Vec<Finding> {
    check_at(array.location(), decode).1
}

pub fn kinds(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.kind.name()).collect()
}

pub fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub fn get(array: &Array, object: &str) -> Vec<u8> {
    array.location().store.get(&key(object)).unwrap().unwrap().to_vec()
}

pub fn put(array: &Array, object: &str, bytes: &[u8]) {
    array.location().store.put(&key(object), bytes, Condition::None).unwrap();
}

pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
    let byte = |crc: u32, &b: &u8| (0..8).fold(crc ^ u32::from(b), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
}

/// A sharded array in files.
pub fn in_files(folder: &Path) -> ArrayNode {
    let document = document(
        &[32, 32],
        &[16, 16],
        "uint16".into(),
        0.into(),
        json!([sharding(&[4, 4], json!([bytes()]))]),
    );
    let array = create_in(Arc::new(FileStore::new(folder)), &document);
    write(&array, "", noise(2048, 3));
    array
}

/// 2 x 2 shards of 4 x 4 chunks; `uint16`, so that a chunk has 32 bytes.
pub fn written(codecs: Value, index: &str) -> ArrayNode {
    let mut sharding = sharding(&[4, 4], codecs);
    sharding["configuration"]["index_location"] = index.into();
    let document = document(&[32, 32], &[16, 16], "uint16".into(), 0.into(), json!([sharding]));
    let array = create(&document);
    write(&array, "", noise(2048, 3));
    array
}

pub fn plain() -> ArrayNode {
    written(json!([bytes()]), "end")
}
