//! Where a chunk of one level lies among the chunks of another.

use smallvec::SmallVec;

use super::grid::ChunkCoords;
use super::level::Level;

/// How chunks of a level are found among those of another, which may be longer or shorter.
///
/// A chunk of a level is a whole number of the store's chunks long, along each axis. The offset of
/// a link between levels is counted from the *anchor* of its cell: the chunk of the other level
/// that the cell begins in, `floor(chunk * own / other)`. Between levels whose chunks are as long
/// as each other's, that is the cell itself. zarr-vectors writes and reads such links by this rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor(SmallVec<[(i64, i64); 4]>);

impl Anchor {
    /// From chunks that are `own` chunks of the store long to those that are `other` chunks long,
    /// along each axis. A length of 0 is taken for 1.
    pub fn of_scales(scales: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let positive = |scale: u32| i64::from(scale.max(1));
        Self(scales.into_iter().map(|(own, other)| (positive(own), positive(other))).collect())
    }

    /// From the chunks of level `own` to those of level `other`, in a store with chunks of
    /// `chunk_shape`. `None` if the chunks of one are no whole number of the store's long, or if
    /// one of them is also cut by an attribute and the other is not.
    pub fn between(own: &Level, other: &Level, chunk_shape: &[f64]) -> Option<Self> {
        if own.chunk_attribute.is_some() != other.chunk_attribute.is_some() {
            return None;
        }
        let scales = |level: &Level| match &level.chunk_shape {
            Some(shape) => chunk_scales(shape, chunk_shape),
            None => Some(SmallVec::from_elem(1, chunk_shape.len())),
        };
        let (own_scales, other_scales) = (scales(own)?, scales(other)?);
        // The bins of an attribute are the same in all levels.
        let bins = own.chunk_attribute.iter().map(|_| (1, 1));
        Some(Self(bins.chain(own_scales.into_iter().zip(other_scales)).collect()))
    }

    /// The chunk of the other level that `chunk` begins in; `None` if its number is too large.
    pub fn chunk(&self, chunk: &[i64]) -> Option<ChunkCoords> {
        let axes = chunk.iter().zip(&self.0);
        let anchor = axes.map(|(at, (own, other))| {
            let anchor = (i128::from(*at) * i128::from(*own)).div_euclid(i128::from(*other));
            i64::try_from(anchor).ok()
        });
        anchor.collect()
    }
}

/// How many chunks with edges of `base` chunks with edges of `shape` are long; `None` if that is no
/// whole number.
pub(super) fn chunk_scales(shape: &[f64], base: &[f64]) -> Option<SmallVec<[i64; 4]>> {
    if shape.len() != base.len() {
        return None;
    }
    let scale = |(edge, base): (&f64, &f64)| {
        let ratio = edge / base;
        let whole = ratio.round();
        // Whole numbers below 2^53 are exact.
        let is_whole = (1.0..9e15).contains(&whole) && (ratio - whole).abs() <= 1e-9 * ratio;
        is_whole.then_some(whole as i64)
    };
    shape.iter().zip(base).map(scale).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn level(number: u64, chunk: Option<&[f64]>) -> Level {
        let mut block = json!({"level": number});
        if let Some(chunk) = chunk {
            block["chunk_shape"] = json!(chunk);
        }
        let attributes = json!({"zarr_vectors_level": block});
        Level::read(attributes.as_object().unwrap(), number, 2).unwrap()
    }

    /// What `anchor_chunk` of zarr-vectors 0.9.2 says, for chunks on both sides of zero.
    #[test]
    fn a_chunk_is_found_among_longer_and_shorter_ones() {
        let base = [10.0, 10.0];
        let (fine, coarse) = (level(0, None), level(1, Some(&[20.0, 60.0])));
        let up = Anchor::between(&fine, &coarse, &base).unwrap();
        let down = Anchor::between(&coarse, &fine, &base).unwrap();
        for (chunk, above, below) in [
            ([0, 0], [0, 0], [0, 0]),
            ([5, 5], [2, 0], [10, 30]),
            ([-1, -1], [-1, -1], [-2, -6]),
            ([-4, -7], [-2, -2], [-8, -42]),
        ] {
            assert_eq!(up.chunk(&chunk).unwrap()[..], above, "{chunk:?}");
            assert_eq!(down.chunk(&chunk).unwrap()[..], below, "{chunk:?}");
        }
        // Neither is a multiple of the other.
        let odd = level(2, Some(&[30.0, 30.0]));
        let across = Anchor::between(&coarse, &odd, &base).unwrap();
        assert_eq!(across.chunk(&[-2, 4]).unwrap()[..], [-2, 8]);
        assert_eq!(across, Anchor::of_scales([(2, 3), (6, 3)]));
        let same = Anchor::between(&coarse, &coarse, &base).unwrap();
        assert_eq!(same.chunk(&[i64::MIN, i64::MAX]).unwrap()[..], [i64::MIN, i64::MAX]);
    }

    #[test]
    fn there_is_no_anchor_where_chunks_do_not_nest_or_numbers_end() {
        let base = [10.0, 10.0];
        let (fine, coarse) = (level(0, None), level(1, Some(&[20.0, 20.0])));
        assert_eq!(Anchor::between(&fine, &level(1, Some(&[15.0, 10.0])), &base), None);
        assert_eq!(Anchor::between(&level(0, Some(&[5.0, 10.0])), &coarse, &base), None);
        let down = Anchor::between(&coarse, &fine, &base).unwrap();
        assert_eq!(down.chunk(&[i64::MAX, 0]), None);
        let cut = Level { chunk_attribute: Some(("gene".to_owned(), Vec::new())), ..fine.clone() };
        assert_eq!(Anchor::between(&cut, &coarse, &base), None);
        let coarse =
            Level { chunk_attribute: Some(("gene".to_owned(), Vec::new())), ..coarse.clone() };
        let up = Anchor::between(&cut, &coarse, &base).unwrap();
        assert_eq!(up.chunk(&[7, 3, -3]).unwrap()[..], [7, 1, -2]);
    }
}
