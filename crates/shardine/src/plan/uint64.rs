//! How to distribute the keys of a volume over `neuroglancer_uint64_sharded_v1` shards.

use crate::shard::uint64::{MortonCode, Sharding};

/// Bytes of chunks in a shard, before compression.
const SHARD_BYTES: u64 = 64 << 20;

/// The logarithm of the number of keys in a minishard: an index of 24 KiB, which a viewer has to
/// read before its first chunk.
const MINISHARD_KEYS: u32 = 10;

/// The logarithm of the number of minishards in a shard: a table of 8 KiB.
const MINISHARDS: u32 = 9;

/// A sharding, what it means and why it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardingPlan {
    /// The sharding; encodings are raw.
    pub sharding: Sharding,
    /// Voxels along x, y and z of the box that a shard holds.
    pub shard_box: [u64; 3],
    /// Chunks that a shard has room for.
    pub chunks_per_shard: u64,
    /// Shards that the volume has.
    pub shards: u64,
    /// Why, one sentence for each number.
    pub reasons: Vec<String>,
}

fn morton(size: [u64; 3], chunk: [u64; 3]) -> Option<MortonCode> {
    MortonCode::new(std::array::from_fn(|axis| size[axis].div_ceil(chunk[axis].max(1))))
}

/// The sharding that suits a volume of this size, in chunks of this shape and of this many bytes
/// before compression.
///
/// Keys are not hashed, so that a shard is a box, and all bits of a key are used, so that it is a
/// single box.
pub fn recommended_sharding(size: [u64; 3], chunk: [u64; 3], chunk_bytes: u64) -> ShardingPlan {
    sharding_for_size(size, chunk, chunk_bytes, SHARD_BYTES)
}

/// The sharding for shards of at most this many bytes before compression.
pub fn sharding_for_size(
    size: [u64; 3],
    chunk: [u64; 3],
    chunk_bytes: u64,
    shard_bytes: u64,
) -> ShardingPlan {
    let total = morton(size, chunk).map_or(64, |code| code.bits());
    let fitting = (shard_bytes / chunk_bytes.max(1)).max(1).ilog2();
    let inside = fitting.min(total).min(MINISHARD_KEYS + MINISHARDS);
    plan_of(size, chunk, inside, total)
}

fn plan_of(size: [u64; 3], chunk: [u64; 3], inside: u32, total: u32) -> ShardingPlan {
    let preshift_bits = inside.min(MINISHARD_KEYS);
    let minishard_bits = inside - preshift_bits;
    let shard_bits = total - inside;
    let sharding = Sharding::of_bits(preshift_bits, minishard_bits, shard_bits);
    let cells = morton(size, chunk).map_or([1; 3], |code| code.box_of_low_bits(inside));
    let shard_box: [u64; 3] = std::array::from_fn(|axis| cells[axis].saturating_mul(chunk[axis]));
    let grid = |axis: usize| size[axis].div_ceil(shard_box[axis].max(1));
    let reasons = vec![
        "hash identity: neighbouring chunks are in one shard, so that a shard is a box".to_owned(),
        format!(
            "preshift_bits {preshift_bits}: up to {} neighbouring chunks share one minishard index, which has at most {} bytes",
            1u64 << preshift_bits,
            24u64 << preshift_bits
        ),
        format!(
            "minishard_bits {minishard_bits}: {} bytes of table before the first chunk of a shard can be found",
            16u64 << minishard_bits
        ),
        format!(
            "shard_bits {shard_bits}: all {total} bits of the keys are used, so that no two boxes share a shard"
        ),
    ];
    ShardingPlan {
        sharding,
        shard_box,
        chunks_per_shard: 1 << inside,
        shards: grid(0).saturating_mul(grid(1)).saturating_mul(grid(2)),
        reasons,
    }
}

/// The sharding whose shards are boxes of this many voxels.
pub fn sharding_for_box(
    size: [u64; 3],
    chunk: [u64; 3],
    shard_box: [u64; 3],
) -> Result<Sharding, String> {
    let Some(code) = morton(size, chunk) else {
        return Err("there are more chunks than 64-bit keys can number".to_owned());
    };
    let total = code.bits();
    let voxels = |inside: u32| -> [u64; 3] {
        let cells = code.box_of_low_bits(inside);
        std::array::from_fn(|axis| cells[axis].saturating_mul(chunk[axis]))
    };
    // A box that extends beyond the volume is equivalent to one that ends with it.
    let alike = |inside: &u32| {
        let voxels = voxels(*inside);
        (0..3).all(|axis| {
            let ends = |n: u64| n >= size[axis];
            voxels[axis] == shard_box[axis] || (ends(voxels[axis]) && ends(shard_box[axis]))
        })
    };
    let all = MINISHARD_KEYS + MINISHARDS + 7;
    match (0..=total.min(all)).find(alike) {
        Some(inside) => Ok(plan_of(size, chunk, inside, total).sharding),
        None => {
            let possible: Vec<String> = (0..=total.min(all))
                .map(|inside| voxels(inside).map(|n| n.to_string()).join(","))
                .collect();
            Err(format!(
                "shards of {} are not possible, as keys follow a Morton curve; possible are {}",
                shard_box.map(|n| n.to_string()).join(","),
                possible.join("; ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bits_are_used_and_tables_stay_small() {
        for (size, chunk, bytes) in [
            ([512; 3], [64; 3], 1 << 18),
            ([1, 1, 1], [64; 3], 1),
            ([1 << 20, 1 << 20, 1 << 14], [64; 3], 1 << 21),
            ([100_000, 3, 7], [1, 1, 1], 1),
            ([0, 5, 5], [4; 3], 64),
        ] {
            let plan = recommended_sharding(size, chunk, bytes);
            let total = morton(size, chunk).unwrap().bits();
            let Sharding { preshift_bits, minishard_bits, shard_bits, .. } = plan.sharding;
            assert_eq!(preshift_bits + minishard_bits + shard_bits, total);
            assert!(minishard_bits <= 9 && preshift_bits <= 10);
            assert!(plan.chunks_per_shard == 1 || plan.chunks_per_shard * bytes <= 64 << 20);
        }
    }

    #[test]
    fn a_box_has_a_sharding_or_is_refused_with_those_that_have() {
        let sharding = sharding_for_box([512; 3], [64; 3], [256; 3]).unwrap();
        assert_eq!((sharding.preshift_bits + sharding.minishard_bits, sharding.shard_bits), (6, 3));
        assert!(sharding_for_box([512; 3], [64; 3], [1024; 3]).is_ok());
        let refused = sharding_for_box([512; 3], [64; 3], [64, 256, 64]).unwrap_err();
        assert!(refused.contains("128,128,64"), "{refused}");
    }
}
