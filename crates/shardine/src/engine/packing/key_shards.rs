//! Which chunks go into which shard, where shards are found by 64-bit key.

use crate::engine::Cells;
use crate::shard::uint64::{KeyHash, MortonCode, Sharding};

/// Keys that are sorted by their shards at once, where the chunks of a shard are all over the volume.
const SORTED: u64 = 1 << 20;

/// A shard and its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyShard {
    pub number: u64,
    pub keys: Vec<u64>,
}

/// Whether the chunks of each shard are a box, and no two boxes share a shard; then how many chunks it has along each axis.
pub(crate) fn shard_box(sharding: &Sharding, code: MortonCode) -> Option<[u64; 3]> {
    let low = sharding.preshift_bits.saturating_add(sharding.minishard_bits);
    let all = low.saturating_add(sharding.shard_bits);
    (sharding.hash == KeyHash::Identity && all >= code.bits()).then(|| code.box_of_low_bits(low))
}

/// All shards that have room for a chunk of the grid, each with all its keys. Memory is that of the keys of one shard, or
/// where shards are no boxes of about a million of them.
pub(super) fn key_shards(
    sharding: &Sharding,
    code: MortonCode,
) -> Box<dyn Iterator<Item = KeyShard> + Send + '_> {
    match shard_box(sharding, code) {
        Some(shape) => Box::new(boxes(sharding, code, shape)),
        None => Box::new(scattered(sharding.clone(), code)),
    }
}

/// The numbers of all shards that may have room for a chunk of the grid, without their keys: memory
/// is small however many chunks a shard has.
pub(crate) fn shard_numbers(
    sharding: &Sharding,
    code: MortonCode,
) -> Box<dyn Iterator<Item = u64> + Send> {
    let (sharding, grid) = (sharding.clone(), code.grid());
    if let Some(shape) = shard_box(&sharding, code) {
        let count = (0..3).map(|axis| grid[axis].div_ceil(shape[axis])).collect();
        return Box::new(Cells::new(count).map(move |at| {
            let first = std::array::from_fn(|axis| at[axis] * shape[axis]);
            sharding.place(code.encode(first)).shard
        }));
    }
    let last = u64::MAX.checked_shr(64u32.saturating_sub(sharding.shard_bits)).unwrap_or(0);
    if last < Cells::new(grid.to_vec()).count {
        return Box::new(0..=last);
    }
    Box::new(scattered(sharding, code).map(|shard| shard.number))
}

fn boxes(
    sharding: &Sharding,
    code: MortonCode,
    shape: [u64; 3],
) -> impl Iterator<Item = KeyShard> + Send + '_ {
    let grid = code.grid();
    let count = (0..3).map(|axis| grid[axis].div_ceil(shape[axis])).collect();
    Cells::new(count).filter_map(move |at| {
        let start: [u64; 3] = std::array::from_fn(|axis| at[axis] * shape[axis]);
        let inside = (0..3).map(|axis| shape[axis].min(grid[axis] - start[axis])).collect();
        let key = |cell: Vec<u64>| code.encode(std::array::from_fn(|k| start[k] + cell[k]));
        let keys: Vec<u64> = Cells::new(inside).map(key).collect();
        Some(KeyShard { number: sharding.place(*keys.first()?).shard, keys })
    })
}

/// Goes through all keys as often as it takes to sort some of the shards at a time.
fn scattered(sharding: Sharding, code: MortonCode) -> impl Iterator<Item = KeyShard> + Send {
    let grid = code.grid().to_vec();
    let shards = 1u128 << sharding.shard_bits.min(64);
    let passes = u128::from(Cells::new(grid.clone()).count.div_ceil(SORTED)).clamp(1, shards);
    (0..passes).flat_map(move |pass| {
        let (first, end) = (shards * pass / passes, shards * (pass + 1) / passes);
        let mut keys: Vec<(u64, u64)> = Cells::new(grid.clone())
            .filter_map(|cell| {
                let key = code.encode(std::array::from_fn(|axis| cell[axis]));
                let shard = sharding.place(key).shard;
                (first..end).contains(&u128::from(shard)).then_some((shard, key))
            })
            .collect();
        keys.sort_unstable();
        let mut found: Vec<KeyShard> = Vec::new();
        for (number, key) in keys {
            match found.last_mut() {
                Some(last) if last.number == number => last.keys.push(key),
                _ => found.push(KeyShard { number, keys: vec![key] }),
            }
        }
        found
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn every_chunk_is_in_the_shard_that_its_key_says_and_in_no_other() {
        for grid in [[1, 1, 1], [4, 4, 4], [5, 3, 2], [7, 1, 9], [0, 3, 3]] {
            let code = MortonCode::new(grid).unwrap();
            for (bits, hash) in [
                ((0, 0, 0), KeyHash::Identity),
                ((1, 2, 10), KeyHash::Identity),
                ((2, 0, 1), KeyHash::Identity),
                ((0, 1, 64), KeyHash::Identity),
                ((1, 1, 3), KeyHash::Murmur3X86_128),
                ((0, 0, 64), KeyHash::Murmur3X86_128),
            ] {
                let sharding = Sharding::new(bits.0, bits.1, bits.2).unwrap().hash(hash);
                let mut expected: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
                for cell in Cells::new(grid.to_vec()) {
                    let key = code.encode([cell[0], cell[1], cell[2]]);
                    expected.entry(sharding.place(key).shard).or_default().push(key);
                }
                let mut found = BTreeMap::new();
                for shard in key_shards(&sharding, code) {
                    assert!(found.insert(shard.number, shard.keys).is_none(), "{grid:?} {bits:?}");
                }
                for keys in expected.values_mut().chain(found.values_mut()) {
                    keys.sort_unstable();
                }
                assert_eq!(found, expected, "{grid:?} {bits:?}");
                let numbers: Vec<u64> = shard_numbers(&sharding, code).collect();
                let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
                assert_eq!(distinct.len(), numbers.len(), "{grid:?} {bits:?}");
                assert!(expected.keys().all(|number| distinct.contains(number)));
            }
        }
    }
}
