//! Which chunks go into which shard, for shards addressed by 64-bit key.

use super::ObjectCells;
use crate::Cells;
use crate::shard::uint64::{KeyHash, MortonCode, Sharding};
use crate::tuning::SORTED_KEYS;

/// The number of chunks of a shard along each axis, if the chunks of each shard form a box and no
/// two boxes share a shard.
pub fn shard_box(sharding: &Sharding, code: MortonCode) -> Option<[u64; 3]> {
    let low = sharding.preshift_bits.saturating_add(sharding.minishard_bits);
    let all = low.saturating_add(sharding.shard_bits);
    (sharding.hash == KeyHash::Identity && all >= code.bits()).then(|| code.box_of_low_bits(low))
}

/// All shards that have room for a chunk of the grid, each with all its keys. Memory is that of the
/// keys of one shard or, if shards are not boxes, of about a million keys.
pub(super) fn key_shards(
    sharding: &Sharding,
    code: MortonCode,
) -> Box<dyn Iterator<Item = ObjectCells> + Send + '_> {
    match shard_box(sharding, code) {
        Some(shape) => Box::new(boxes(sharding, code, shape)),
        None => Box::new(scattered(sharding.clone(), code)),
    }
}

/// The numbers of all shards that may have room for a chunk of the grid, without their keys: memory
/// stays small however many chunks a shard has.
pub fn shard_numbers(
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
    Box::new(scattered(sharding, code).map(|shard| shard.object))
}

fn boxes(
    sharding: &Sharding,
    code: MortonCode,
    shape: [u64; 3],
) -> impl Iterator<Item = ObjectCells> + Send + '_ {
    let grid = code.grid();
    let count = (0..3).map(|axis| grid[axis].div_ceil(shape[axis])).collect();
    Cells::new(count).filter_map(move |at| {
        let start: [u64; 3] = std::array::from_fn(|axis| at[axis] * shape[axis]);
        let inside = (0..3).map(|axis| shape[axis].min(grid[axis] - start[axis])).collect();
        let key = |cell: Vec<u64>| code.encode(std::array::from_fn(|k| start[k] + cell[k]));
        let keys: Vec<u64> = Cells::new(inside).map(key).collect();
        Some(ObjectCells { object: sharding.place(*keys.first()?).shard, cells: keys })
    })
}

/// Makes several passes over all keys, and collects some of the shards in each.
fn scattered(sharding: Sharding, code: MortonCode) -> impl Iterator<Item = ObjectCells> + Send {
    let grid = code.grid().to_vec();
    let shards = 1u128 << sharding.shard_bits.min(64);
    let passes = u128::from(Cells::new(grid.clone()).count.div_ceil(SORTED_KEYS)).clamp(1, shards);
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
        let mut found: Vec<ObjectCells> = Vec::new();
        for (number, key) in keys {
            match found.last_mut() {
                Some(last) if last.object == number => last.cells.push(key),
                _ => found.push(ObjectCells { object: number, cells: vec![key] }),
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
                    assert!(found.insert(shard.object, shard.cells).is_none(), "{grid:?} {bits:?}");
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
