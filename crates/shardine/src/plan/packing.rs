//! How many chunks go into a shard.

use crate::shard::MAX_CHUNKS_PER_SHARD;

/// Bytes of an index entry.
pub(super) const ENTRY: u64 = 16;

/// The number of chunks along each axis that brings a shard near a size.
///
/// `chunk_grid` is the number of chunks of the array along each axis (0 counts as 1),
/// `encoded_chunk_bytes` the size of one in its shard, not counting its index entry. The axis with
/// the fewest chunks is doubled first, on a tie the last, along which chunks are neighbours in C
/// order; so a shard is as even as the grid allows. It never exceeds the grid or
/// [`MAX_CHUNKS_PER_SHARD`] chunks, and its size is as close to the target as doubling gets: at
/// most 1.42 times the target, unless a single chunk is larger, and at least 0.7 times, unless the
/// grid or the limit prevents it.
///
/// ```
/// use shardine::plan::chunks_per_shard_for;
///
/// // Chunks of 64 KiB: 1024 of them are 64 MiB.
/// assert_eq!(chunks_per_shard_for(&[16, 64, 64], 64 << 10, 64 << 20), [8, 8, 16]);
/// // Short axes are taken whole, and the others make up for it.
/// assert_eq!(chunks_per_shard_for(&[3, 64, 64], 64 << 10, 64 << 20), [3, 16, 16]);
/// ```
pub fn chunks_per_shard_for(
    chunk_grid: &[u64],
    encoded_chunk_bytes: u64,
    target_bytes: u64,
) -> Vec<u64> {
    let mut packed = vec![1; chunk_grid.len()];
    let axes: Vec<usize> = (0..chunk_grid.len()).collect();
    let limits = Limits { target: target_bytes, chunks: MAX_CHUNKS_PER_SHARD };
    grow(&mut packed, &axes, chunk_grid, encoded_chunk_bytes, limits);
    packed
}

/// The same, where shards are extended along some axes first: along those of `turns[0]`, and only
/// if the whole grid along them is not enough, along those of `turns[1]`, and so on. At most `most`
/// chunks go into a shard.
pub(crate) fn chunks_per_shard_in_turn(
    chunk_grid: &[u64],
    turns: &[Vec<usize>],
    encoded_chunk_bytes: u64,
    target_bytes: u64,
    most: u64,
) -> Vec<u64> {
    let mut packed = vec![1; chunk_grid.len()];
    let limits = Limits { target: target_bytes, chunks: most.min(MAX_CHUNKS_PER_SHARD) };
    for axes in turns {
        grow(&mut packed, axes, chunk_grid, encoded_chunk_bytes, limits);
        if axes.iter().any(|&k| packed[k] < chunk_grid[k]) {
            break;
        }
    }
    packed
}

/// Limits on the size of a shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The size in bytes to aim for.
    pub target: u64,
    /// The most chunks in it.
    pub chunks: u64,
}

/// Extends a shard along some axes, starting from its present size.
pub(super) fn grow(
    packed: &mut [u64],
    axes: &[usize],
    chunk_grid: &[u64],
    chunk_bytes: u64,
    limits: Limits,
) {
    let each = u128::from(chunk_bytes) + u128::from(ENTRY);
    let target = u128::from(limits.target);
    let mut open: Vec<usize> =
        axes.iter().copied().filter(|&k| chunk_grid[k] > packed[k]).collect();
    let mut chunks = packed.iter().fold(1u64, |n, &m| n.saturating_mul(m));
    // An axis with the fewest chunks, on a tie the last.
    while let Some(at) = (0..open.len()).min_by_key(|&i| (packed[open[i]], usize::MAX - open[i])) {
        let k = open[at];
        // Both are within the limit, so nothing overflows.
        let longer = packed[k].saturating_mul(2).min(chunk_grid[k]);
        let more = (chunks / packed[k]).saturating_mul(longer);
        let (before, after) = (u128::from(chunks) * each, u128::from(more) * each);
        // Beyond the target, the closer of the two in proportion wins.
        let nearer = after <= target
            || before.checked_mul(after).is_some_and(|product| product < target * target);
        if more > limits.chunks || !nearer {
            open.remove(at);
            continue;
        }
        (packed[k], chunks) = (longer, more);
        if longer == chunk_grid[k] {
            open.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_shard_comes_near_its_size_and_is_even() {
        for (grid, bytes, expected) in [
            (&[64, 64, 64][..], 128 << 10, &[8, 8, 8][..]),
            (&[64, 64, 64], 100 << 10, &[8, 8, 8]),
            (&[64, 64, 64], 64 << 20, &[1, 1, 1]),
            (&[64, 64, 64], 1 << 40, &[1, 1, 1]),
            (&[1, 1, 1000], 1 << 20, &[1, 1, 64]),
            (&[5, 1, 7], 1 << 20, &[5, 1, 7]),
            (&[0, 0], 1, &[1, 1]),
            (&[], 1, &[]),
        ] {
            assert_eq!(chunks_per_shard_for(grid, bytes, 64 << 20), expected, "{grid:?} {bytes}");
        }
        assert_eq!(chunks_per_shard_for(&[u64::MAX], 0, u64::MAX), [MAX_CHUNKS_PER_SHARD]);
        // Images before channels before time points.
        for (grid, most, expected) in [
            (&[100, 3, 8, 64, 64][..], 1 << 15, &[1, 1, 8, 8, 8][..]),
            (&[100, 3, 2, 4, 4], 1 << 15, &[4, 3, 2, 4, 4]),
            (&[1, 3, 2, 4, 4], 1 << 15, &[1, 3, 2, 4, 4]),
            (&[100, 3, 8, 64, 64], 64, &[1, 1, 4, 4, 4]),
        ] {
            let turns = [vec![2, 3, 4], vec![1], vec![0]];
            let found = chunks_per_shard_in_turn(grid, &turns, 128 << 10, 64 << 20, most);
            assert_eq!(found, expected, "{grid:?}");
        }
        assert_eq!(chunks_per_shard_for(&[u64::MAX, u64::MAX], u64::MAX, u64::MAX), [1, 1]);
    }

    proptest! {
        #[test]
        fn no_shard_is_beyond_its_limits(
            grid in proptest::collection::vec(prop_oneof![0u64..4, 0u64..3000, any::<u64>()], 0..64),
            bytes in prop_oneof![0u64..100, 0u64..(1 << 24), any::<u64>()],
            target in prop_oneof![0u64..100, 0u64..(1 << 30), any::<u64>()],
        ) {
            let packed = chunks_per_shard_for(&grid, bytes, target);
            prop_assert_eq!(packed.len(), grid.len());
            prop_assert!(packed.iter().zip(&grid).all(|(&n, &most)| n >= 1 && n <= most.max(1)));
            let chunks: u128 = packed.iter().map(|&n| u128::from(n)).product();
            prop_assert!(chunks <= u128::from(MAX_CHUNKS_PER_SHARD));
            let size = chunks as f64 * (bytes as f64 + ENTRY as f64);
            prop_assert!(chunks == 1 || size <= 1.42 * target as f64);
            // Any axis that could still be doubled is kept from it by the target or the limit.
            let full = packed.iter().zip(&grid).all(|(&n, &most)| n > most.max(1) / 2);
            prop_assert!(full || size >= 0.7 * target as f64 || chunks * 2 > u128::from(MAX_CHUNKS_PER_SHARD));
        }
    }
}
