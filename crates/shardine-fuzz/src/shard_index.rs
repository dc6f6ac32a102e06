//! Shard indexes: every entry is inside the shard, absent, or an error.
//!
//! Input: the number of entries (two bytes), the shard's length (eight), the entries.

use shardine::shard::{ShardError, ShardIndex};

use crate::memory;

pub fn run(input: &[u8]) {
    let Some((head, entries)) = input.split_first_chunk::<10>() else { return };
    let chunks = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let Ok(shard_len) = head[2..].try_into().map(u64::from_le_bytes) else { return };
    memory::bounded(4 * entries.len() + (1 << 16), || check(entries, chunks, shard_len));
    // With the right number of entries.
    check(&entries[..entries.len() / 16 * 16], entries.len() / 16, shard_len);
}

fn check(entries: &[u8], chunks: usize, shard_len: u64) {
    let index = match ShardIndex::from_bytes(entries.to_vec(), chunks, shard_len) {
        Ok(index) => index,
        Err(error) => {
            assert_ne!(entries.len(), chunks * 16, "refused with the right size: {error}");
            return;
        }
    };
    assert_eq!((index.len(), index.as_bytes()), (chunks, entries));
    let Ok(mut rebuilt) = ShardIndex::empty(chunks) else { return };
    let mut sound = true;
    for i in 0..chunks {
        match index.get(i) {
            Ok(Some(range)) => {
                assert!(range.start <= range.end && range.end <= shard_len);
                assert_eq!(index.raw(i), Some((range.start, range.end - range.start)));
                rebuilt.set(i, range);
            }
            Ok(None) => assert_eq!(index.raw(i), Some((u64::MAX, u64::MAX))),
            Err(ShardError::OutOfBounds { entry, actual, .. }) => {
                assert_eq!((entry, actual), (i, shard_len));
                sound = false;
            }
            Err(error) => panic!("another error: {error}"),
        }
    }
    assert_eq!(index.get(chunks), Ok(None));
    if sound {
        assert_eq!(rebuilt.as_bytes(), entries, "the entries changed");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let indexes: [(u64, &[(u64, u64)]); 4] = [
        (0, &[]),
        (100, &[(0, 50), (u64::MAX, u64::MAX), (50, 50)]),
        (100, &[(90, 11), (u64::MAX, 1), (1, u64::MAX)]),
        (u64::MAX, &[(0, u64::MAX), (u64::MAX, 0), (u64::MAX - 1, 1)]),
    ];
    let mut seeds = Vec::new();
    for (shard_len, entries) in indexes {
        let mut seed = (entries.len() as u16).to_le_bytes().to_vec();
        seed.extend(shard_len.to_le_bytes());
        seed.extend(entries.iter().flat_map(|(o, n)| [o.to_le_bytes(), n.to_le_bytes()]).flatten());
        seeds.push(seed);
    }
    seeds
}
