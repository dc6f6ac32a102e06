//! A webknossos-wrap data set with a hostile file: opened, listed and read. Whatever the parser
//! accepts as a block lies inside the file.
//!
//! Input: the header of the data set, 16 bytes, then the bytes of a file. The magic of both is set,
//! as random bytes would hardly get past it.

use std::sync::Arc;

use shardine::shard::wkw::{WKW_HEADER, WkwHeader, WkwTable};
use shardine::store::{Condition, Key, MemoryStore, StoreExt};
use shardine::{Location, Region, open_in};

use crate::memory;
use crate::read_array::engine;

/// The most voxels of a file for which a data set is read here.
const MAX_VOXELS: u64 = 1 << 18;

pub fn run(input: &[u8]) {
    let Some((header, file)) = input.split_at_checked(WKW_HEADER) else { return };
    memory::bounded((256 << 20) + 64 * input.len(), || check(header, file));
}

fn with_magic(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (byte, magic) in bytes.iter_mut().zip(*b"WKW\x01") {
        *byte = magic;
    }
    bytes
}

fn check(header: &[u8], file: &[u8]) {
    let (header, file) = (with_magic(header), with_magic(file));
    let len = file.len() as u64;
    if let Ok(table) = WkwTable::parse(&file) {
        for block in (0..table.header().count().min(1 << 12)).chain([u64::MAX]) {
            if let Ok(range) = table.block(block, len) {
                assert!(range.start < range.end && range.end <= len, "{range:?} of {len}");
                assert!(range.start >= table.header().head_len(), "{range:?}");
            }
        }
    }
    let Ok(known) = WkwHeader::parse(&header) else { return };
    let edge = known.block_edge() * known.file_edge();
    if edge.pow(3).saturating_mul(known.channels()) > MAX_VOXELS {
        return;
    }
    let store = MemoryStore::new();
    for (name, bytes) in [("header.wkw", &header), ("z0/y0/x0.wkw", &file)] {
        if let Ok(key) = Key::new(name) {
            let _ = store.put(&key, bytes, Condition::None);
        }
    }
    let location = Location::root(Arc::new(store));
    let Ok(set) = open_in(engine(), &location) else { return };
    let Ok(array) = set.array(0) else { return };
    let entries = array.shard_entries(&[0, 0, 0, 0]);
    let answer = array.read_elements(Region::all());
    if answer.is_ok() {
        assert!(matches!(entries, Ok(Some(_))), "read, and yet: {entries:?}");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    // Blocks of 2 voxels along an edge, files of 2 blocks, one byte for each voxel.
    let header = |blocks: u8, offset: u8| {
        let mut header = b"WKW\x01\x11\x01\x01\x01".to_vec();
        header[5] = blocks;
        header.extend([offset, 0, 0, 0, 0, 0, 0, 0]);
        header
    };
    let raw = [header(1, 0), header(1, 16), (0..64).collect()].concat();
    // A block of 8 literals is a token followed by them.
    let ends = (1..=8u64).flat_map(|n| (80 + 9 * n).to_le_bytes()).collect();
    let blocks = (0..8u8).flat_map(|n| [0x80, n, n, n, n, n, n, n, n]).collect();
    let packed = [header(2, 0), header(2, 80), ends, blocks].concat();
    vec![raw, packed]
}
