//! Chunks of space as keys to sort by.

use super::invalid;
use crate::GeometryError;
use crate::zarr_vectors::ChunkCoords;

/// The most axes: a key has 8 bits for each of them.
const MOST_AXES: usize = 16;

/// Chunks of space.
///
/// A chunk has a key, and keys are in the order of chunks: by the first coordinate, then by the
/// second and so on.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::zarr_vectors) struct Space {
    chunk: Vec<f64>,
    /// Bits of a key for each coordinate.
    bits: u32,
}

impl Space {
    pub fn new(chunk: &[f64], rank: usize) -> Result<Self, GeometryError> {
        if rank == 0 || rank > MOST_AXES {
            return Err(invalid("axes", format!("there are {rank}, and 1 to {MOST_AXES} may be")));
        }
        if chunk.len() != rank || chunk.iter().any(|edge| !edge.is_finite() || *edge <= 0.0) {
            let reason = format!("must be {rank} lengths above 0, one for each axis");
            return Err(invalid("the shape of a chunk", reason));
        }
        // More would not be exact as a float.
        let bits = (128 / rank as u32).min(54);
        Ok(Self { chunk: chunk.to_vec(), bits })
    }

    pub fn rank(&self) -> usize {
        self.chunk.len()
    }

    /// The edges of a chunk.
    pub fn edges(&self) -> &[f64] {
        &self.chunk
    }

    /// The coordinate of the chunk that holds `value`, as a part of a key.
    ///
    /// As zarr-vectors does, it divides in 64 bits whatever the type of the coordinates is.
    #[inline]
    pub fn part(&self, axis: usize, value: f64) -> Option<u128> {
        let chunk = (value / self.chunk[axis]).floor();
        let half = (1u64 << (self.bits - 1)) as f64;
        // Not true of what is no number either.
        (chunk >= -half && chunk < half).then(|| self.biased(chunk as i64))
    }

    fn biased(&self, coordinate: i64) -> u128 {
        let half = 1i64 << (self.bits - 1);
        // Whole numbers below 2^53, so the sum is exact and not negative.
        (coordinate.wrapping_add(half) as u64).into()
    }

    /// A key with one more coordinate.
    #[inline]
    pub fn join(&self, key: u128, part: u128) -> u128 {
        key << self.bits | part
    }

    /// The chunk that a key stands for.
    pub fn chunk(&self, key: u128) -> ChunkCoords {
        let half = 1i64 << (self.bits - 1);
        let mask = (1u128 << self.bits) - 1;
        let axes = (0..self.rank() as u32).rev();
        axes.map(|axis| ((key >> (axis * self.bits)) & mask) as i64 - half).collect()
    }

    /// The key of a chunk; `None` if it is too far away.
    pub fn key(&self, chunk: &[i64]) -> Option<u128> {
        let half = 1i64 << (self.bits - 1);
        let near = chunk.len() == self.rank() && chunk.iter().all(|c| (-half..half).contains(c));
        near.then(|| chunk.iter().fold(0, |key, &c| self.join(key, self.biased(c))))
    }

    /// The grid of chunks between two corners, both included: the first chunk and how many there
    /// are along each axis.
    pub fn grid(&self, low: &[f64], high: &[f64]) -> (ChunkCoords, Vec<u64>) {
        let at = |(value, edge): (&f64, &f64)| (value / edge).floor() as i64;
        let origin: ChunkCoords = low.iter().zip(&self.chunk).map(at).collect();
        let last = high.iter().zip(&self.chunk).map(at);
        let shape = last.zip(&origin).map(|(last, first)| last.abs_diff(*first) + 1).collect();
        (origin, shape)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_place_has_no_chunk() {
        let space = Space::new(&[0.5, 2.0, 1.0], 3).unwrap();
        for value in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1e13] {
            assert_eq!(space.part(0, value), None, "{value}");
        }
        assert!(space.part(0, -1e11).is_some());
        assert!(Space::new(&[1.0, 0.0], 2).is_err() && Space::new(&[1.0], 2).is_err());
    }

    #[test]
    fn a_grid_includes_both_bounds() {
        let space = Space::new(&[10.0, 10.0], 2).unwrap();
        let (origin, shape) = space.grid(&[-4.8, 20.0], &[24.8, 20.0]);
        assert_eq!((&*origin, shape), (&[-1, 2][..], vec![4, 1]));
    }

    proptest! {
        #[test]
        fn keys_are_in_the_order_of_chunks(
            (a, b) in (1usize..7).prop_flat_map(|rank| {
                let chunk = proptest::collection::vec(-200_000i64..200_000, rank);
                (chunk.clone(), chunk)
            }),
        ) {
            let space = Space::new(&vec![1.0; a.len()], a.len()).unwrap();
            let (Some(of_a), Some(of_b)) = (space.key(&a), space.key(&b)) else {
                panic!("{a:?} {b:?}");
            };
            prop_assert_eq!(a.cmp(&b), of_a.cmp(&of_b));
            prop_assert_eq!(&*space.chunk(of_a), &a[..]);
            let parts = a.iter().enumerate().map(|(axis, &c)| space.part(axis, c as f64 + 0.25));
            let joined = parts.fold(0, |key, part| space.join(key, part.unwrap()));
            prop_assert_eq!(joined, of_a);
        }
    }
}
