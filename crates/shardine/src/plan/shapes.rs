//! Default shapes of chunks and shards.

use super::chunk_shape as chunk;
use crate::{DataType, ElementSize};

/// Bytes in a shard, before compression.
const SHARD_BYTES: u64 = 64 << 20;

/// The most chunks in a shard: an index of 512 KiB, which has to be read before the first chunk.
const SHARD_CHUNKS: u64 = 1 << 15;

/// Bytes of an element; a guess for variable-length types.
pub fn element_bytes(data_type: &DataType) -> u64 {
    match data_type.size() {
        ElementSize::Fixed(size) => size as u64,
        ElementSize::Variable => 16,
    }
}

/// A chunk like that of [`chunk_shape`](super::chunk_shape), but one that divides a shard of this
/// shape.
pub(super) fn chunk_in_shard(shape: &[u64], shard: &[u64], element: u64) -> Vec<u64> {
    let room: Vec<u64> =
        shape.iter().zip(shard).map(|(&n, &s)| if n == 0 { s } else { n.min(s) }).collect();
    let wanted = chunk(&room, element);
    wanted.iter().zip(shard).map(|(&wanted, &shard)| nearest_divisor(shard, wanted)).collect()
}

/// The divisor whose ratio to `wanted` is closest to 1.
fn nearest_divisor(n: u64, wanted: u64) -> u64 {
    let ratio = |d: u64| (d as f64 / wanted as f64).ln().abs();
    // Divisors far above `wanted` are worse than those around it, so the search can stop early; `n`
    // itself always divides.
    (1..=wanted.saturating_mul(8).min(n))
        .filter(|&d| n.is_multiple_of(d))
        .chain([n])
        .min_by(|&a, &b| ratio(a).total_cmp(&ratio(b)))
        .unwrap_or(n)
}

/// A shard of at most 64 MiB and 32,768 whole chunks, as even as possible and no larger than the
/// array.
///
/// `None` if it would hold only one chunk.
pub fn shard_shape(shape: &[u64], chunk: &[u64], element: u64) -> Option<Vec<u64>> {
    let cells = |k: usize| match shape[k] {
        0 => u64::MAX,
        length => length.div_ceil(chunk[k]),
    };
    let mut per_shard = vec![1u64; shape.len()];
    let bytes = |per_shard: &[u64]| {
        let lengths = per_shard.iter().zip(chunk);
        lengths.fold(element as u128, |n, (&m, &c)| n.saturating_mul(u128::from(m) * u128::from(c)))
    };
    let too_large = |per_shard: &[u64]| {
        bytes(per_shard) > u128::from(SHARD_BYTES)
            || per_shard.iter().fold(1u64, |n, &m| n.saturating_mul(m)) > SHARD_CHUNKS
    };
    let mut open: Vec<usize> = (0..shape.len()).filter(|&k| cells(k) > 1).collect();
    // Double the shortest side; on a tie the last, along which chunks are neighbours.
    while let Some(at) =
        (0..open.len()).min_by_key(|&i| (per_shard[open[i]] * chunk[open[i]], usize::MAX - open[i]))
    {
        let k = open[at];
        let before = per_shard[k];
        per_shard[k] = (2 * before).min(cells(k));
        if too_large(&per_shard) {
            per_shard[k] = before;
            open.remove(at);
        } else if per_shard[k] == cells(k) {
            open.remove(at);
        }
    }
    if per_shard.iter().all(|&n| n == 1) {
        return None;
    }
    Some(per_shard.iter().zip(chunk).map(|(&n, &c)| n * c).collect())
}

/// The smallest shard not below this one that holds whole chunks.
pub(super) fn rounded_up(shard: &[u64], chunk: &[u64]) -> Vec<u64> {
    shard.iter().zip(chunk).map(|(&s, &c)| s.div_ceil(c).saturating_mul(c)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHUNK_ELEMENTS: u64 = 64 * 64 * 64;
    const CHUNK_BYTES: u64 = 4 << 20;

    #[test]
    fn chunks_are_cubes_unless_the_array_is_not() {
        for (shape, expected) in [
            (&[1024, 1024, 1024][..], &[64, 64, 64][..]),
            (&[4096, 4096], &[512, 512]),
            (&[1_000_000], &[262_144]),
            (&[5, 3, 1024, 1024, 1024], &[1, 1, 64, 64, 64]),
            (&[3, 4096, 4096], &[3, 256, 256]),
            (&[1, 4096, 4096], &[1, 512, 512]),
            (&[10, 10], &[10, 10]),
            (&[0, 100, 100], &[64, 64, 64]),
            (&[1, 1], &[1, 1]),
            (&[], &[]),
        ] {
            assert_eq!(chunk(shape, 2), expected, "{shape:?}");
        }
        // Elements of a mebibyte.
        assert_eq!(chunk(&[100, 100], 1 << 20), [2, 2]);
    }

    #[test]
    fn shards_are_near_64_mib() {
        for (shape, chunk, element, expected) in [
            (&[1024, 1024, 1024][..], &[64, 64, 64][..], 2, Some(vec![256, 256, 512])),
            (&[100_000, 100_000], &[512, 512], 1, Some(vec![8192, 8192])),
            (&[3, 4096, 4096], &[3, 256, 256], 1, Some(vec![3, 4096, 4096])),
            (&[10, 10], &[10, 10], 1, None),
            (&[100, 10], &[30, 10], 1, Some(vec![120, 10])),
            (&[0, 64], &[64, 64], 8, Some(vec![131_072, 64])),
            (&[1 << 40], &[128 << 20], 1, None),
            (&[], &[], 8, None),
        ] {
            assert_eq!(shard_shape(shape, chunk, element), expected, "{shape:?}");
        }
    }

    #[test]
    fn small_chunks_do_not_make_an_index_of_millions() {
        for (shape, chunk, expected) in [
            (&[1 << 30][..], &[1][..], &[32_768][..]),
            (&[4096, 4096, 4096], &[4, 4, 4], &[128, 128, 128]),
            (&[1 << 20, 1 << 20], &[1, 1 << 20], &[64, 1 << 20]),
            (&[1 << 20, 3], &[1, 1], &[8192, 3]),
        ] {
            let shard = shard_shape(shape, chunk, 1).unwrap();
            assert_eq!(shard, expected, "{shape:?}");
            let chunks: u64 = shard.iter().zip(chunk).map(|(s, c)| s / c).product();
            assert!(chunks <= SHARD_CHUNKS);
        }
    }

    #[test]
    fn a_chunk_divides_the_shard_that_was_given() {
        assert_eq!(chunk_in_shard(&[1000, 1000, 1000], &[256, 250, 257], 2), [64, 50, 257]);
        assert_eq!(chunk_in_shard(&[10, 10], &[32, 32], 2), [8, 8]);
        assert_eq!(rounded_up(&[250, 64], &[64, 64]), [256, 64]);
    }

    proptest! {
        #[test]
        fn every_shape_has_chunks_and_shards(
            shape in proptest::collection::vec(prop_oneof![0u64..5, 0u64..5000, any::<u64>()], 0..6),
            element in prop_oneof![1u64..20, 1u64..(16 << 20)],
        ) {
            let chunk = chunk(&shape, element);
            prop_assert_eq!(chunk.len(), shape.len());
            let elements: u64 = chunk.iter().product();
            prop_assert!((1..=CHUNK_ELEMENTS).contains(&elements));
            prop_assert!(elements == 1 || elements * element <= CHUNK_BYTES);
            if let Some(shard) = shard_shape(&shape, &chunk, element) {
                let elements: u64 = shard.iter().product();
                prop_assert!(elements * element <= SHARD_BYTES);
                let chunks: u64 = shard.iter().zip(&chunk).map(|(s, c)| s / c).product();
                prop_assert!(chunks <= SHARD_CHUNKS);
                prop_assert!(shard.iter().zip(&chunk).all(|(s, c)| s % c == 0));
            }
        }

        #[test]
        fn a_shard_of_any_shape_is_divided(
            axes in proptest::collection::vec((any::<u64>(), 1u64..100_000), 0..5),
        ) {
            let shape: Vec<u64> = axes.iter().map(|a| a.0).collect();
            let shard: Vec<u64> = axes.iter().map(|a| a.1).collect();
            let chunk = chunk_in_shard(&shape, &shard, 2);
            prop_assert!(shard.iter().zip(&chunk).all(|(s, &c)| c > 0 && s % c == 0));
        }
    }
}
