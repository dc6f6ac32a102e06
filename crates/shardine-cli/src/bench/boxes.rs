//! Boxes of an array, and which of very many are picked: the same ones in every run.

use shardine::Region;

use crate::units;

/// Pseudo-random numbers that are the same every time.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A fixed seed: two benchmarks of one array touch the same chunks.
    const SEED: u64 = 0x5a4d_1e5e_ed00_0001;

    pub fn new() -> Self {
        Self(Self::SEED)
    }

    /// A number below `n`; 0 for an `n` of 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // A step of an odd constant visits every state; mixing makes neighbours look unrelated.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(n)) >> 64) as u64
    }

    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for i in (1..things.len()).rev() {
            things.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// At most `most` numbers below `n`, ascending and spread over the range: one from each of as
    /// many equal parts.
    pub fn spread(&mut self, n: u64, most: u64) -> Vec<u64> {
        if most >= n {
            return (0..n).collect();
        }
        let bound = |part: u64| (u128::from(part) * u128::from(n) / u128::from(most)) as u64;
        (0..most).map(|i| bound(i) + self.below(bound(i + 1) - bound(i))).collect()
    }
}

/// A box of elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub start: Vec<u64>,
    pub shape: Vec<u64>,
}

impl Piece {
    pub fn region(&self) -> Region {
        Region::of_box(&self.start, &self.shape)
    }

    pub fn elements(&self) -> u64 {
        units::elements(&self.shape)
    }

    /// The same box, with its start relative to the start of another.
    pub fn moved(mut self, origin: &[u64]) -> Self {
        for (start, &origin) in self.start.iter_mut().zip(origin) {
            *start = start.saturating_add(origin);
        }
        self
    }

    /// The part of this box, given relative to the start of another, that lies inside that one.
    pub fn inside(mut self, outer: &Self) -> Self {
        for (k, len) in self.shape.iter_mut().enumerate() {
            *len = (*len).min(outer.shape[k].saturating_sub(self.start[k]));
        }
        self.moved(&outer.start)
    }

    /// Parts of this box of at most `budget` elements, cut between chunks; a single chunk where
    /// that is more.
    pub fn cut(&self, chunk: &[u64], budget: u64) -> impl Iterator<Item = Piece> {
        let tiles = Tiles::new(&self.shape, &grown(chunk, &self.shape, budget));
        (0..tiles.count()).map(move |i| tiles.at(i).moved(&self.start))
    }
}

/// An array divided into boxes of one shape; those at its end are smaller.
#[derive(Debug, Clone)]
pub struct Tiles {
    shape: Vec<u64>,
    tile: Vec<u64>,
    /// Boxes along each axis.
    counts: Vec<u64>,
}

impl Tiles {
    pub fn new(shape: &[u64], tile: &[u64]) -> Self {
        let counts = shape.iter().zip(tile).map(|(&n, &t)| n.div_ceil(t.max(1))).collect();
        Self { shape: shape.to_vec(), tile: tile.to_vec(), counts }
    }

    /// The number of boxes, saturating.
    pub fn count(&self) -> u64 {
        units::elements(&self.counts)
    }

    /// Box `i` in C order.
    pub fn at(&self, mut i: u64) -> Piece {
        let mut cell = vec![0; self.counts.len()];
        for (at, &n) in cell.iter_mut().zip(&self.counts).rev() {
            *at = i % n.max(1);
            i /= n.max(1);
        }
        self.of_cell(&cell)
    }

    /// The box at this position of the grid of boxes. Empty if that is beyond the end.
    pub fn of_cell(&self, cell: &[u64]) -> Piece {
        let start = cell.iter().zip(&self.tile).zip(&self.shape);
        let start: Vec<u64> = start.map(|((&i, &t), &n)| i.saturating_mul(t).min(n)).collect();
        let shape = start.iter().zip(&self.tile).zip(&self.shape);
        let shape = shape.map(|((&start, &t), &n)| t.min(n - start)).collect();
        Piece { start, shape }
    }
}

/// A box of whole cells of a grid, long along the last axes, of at most `budget` elements; or a
/// single cell.
pub fn grown(cell: &[u64], shape: &[u64], budget: u64) -> Vec<u64> {
    let mut tile: Vec<u64> = cell.iter().zip(shape).map(|(&c, &n)| c.min(n).max(1)).collect();
    for k in (0..tile.len()).rev() {
        let rest = units::elements(&tile) / tile[k];
        let fit = budget / rest.max(1);
        if fit < shape[k] {
            tile[k] = tile[k].max(fit / cell[k].max(1) * cell[k]);
            break;
        }
        tile[k] = shape[k].max(1);
    }
    tile
}

/// The elements of all cells of a grid that a box can touch, wherever it lies.
pub fn touched(piece: &[u64], cell: &[u64], shape: &[u64]) -> u64 {
    let axes = piece.iter().zip(cell).zip(shape).map(|((&len, &cell), &n)| {
        let cells = len.saturating_sub(1).div_ceil(cell.max(1)).saturating_add(1);
        cells.saturating_mul(cell).min(n)
    });
    units::elements(&axes.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spread_covers_the_range_and_is_the_same_every_time() {
        let picked = Random::new().spread(1000, 10);
        assert_eq!(picked, Random::new().spread(1000, 10));
        for (i, &at) in picked.iter().enumerate() {
            assert_eq!(at / 100, i as u64);
        }
        assert_eq!(Random::new().spread(3, 10), [0, 1, 2]);
        assert!(Random::new().spread(0, 10).is_empty());
        assert_eq!(Random::new().spread(u64::MAX, 2).len(), 2);
    }

    #[test]
    fn tiles_end_where_the_array_does() {
        let tiles = Tiles::new(&[5, 7], &[2, 4]);
        assert_eq!(tiles.count(), 6);
        assert_eq!(tiles.at(5), Piece { start: vec![4, 4], shape: vec![1, 3] });
        let elements: u64 = (0..6).map(|i| tiles.at(i).elements()).sum();
        assert_eq!(elements, 35);
        assert_eq!(tiles.of_cell(&[9, 0]).elements(), 0);
        assert_eq!(Tiles::new(&[], &[]).at(0).elements(), 1);
        assert_eq!(Tiles::new(&[u64::MAX, u64::MAX], &[1, 1]).count(), u64::MAX);
    }

    #[test]
    fn a_box_grows_along_its_last_axes_by_whole_cells() {
        assert_eq!(grown(&[4, 4], &[100, 10], 300), [28, 10]);
        assert_eq!(grown(&[4, 4], &[100, 10], 30), [4, 4]);
        assert_eq!(grown(&[4, 4], &[100, 10], 1), [4, 4]);
        assert_eq!(grown(&[4, 4], &[100, 10], 5000), [100, 10]);
        assert_eq!(grown(&[4, 4], &[2, 3], 1), [2, 3]);
        assert!(grown(&[], &[], 1).is_empty());
    }

    #[test]
    fn the_parts_of_a_box_are_all_of_it() {
        let piece = Piece { start: vec![10, 20], shape: vec![8, 6] };
        let parts: Vec<Piece> = piece.cut(&[4, 4], 16).collect();
        assert_eq!(parts.len(), 4);
        assert_eq!(parts[3], Piece { start: vec![14, 24], shape: vec![4, 2] });
    }

    #[test]
    fn what_lies_past_the_end_of_another_box_is_cut_off() {
        let outer = Piece { start: vec![8, 8], shape: vec![3, 8] };
        let inner = Piece { start: vec![2, 4], shape: vec![2, 4] };
        assert_eq!(inner.inside(&outer), Piece { start: vec![10, 12], shape: vec![1, 4] });
        let past = Piece { start: vec![4, 4], shape: vec![2, 4] };
        assert_eq!(past.inside(&outer).elements(), 0);
    }

    #[test]
    fn a_box_that_is_not_aligned_touches_one_cell_more() {
        assert_eq!(touched(&[1], &[10], &[100]), 10);
        assert_eq!(touched(&[2], &[10], &[100]), 20);
        assert_eq!(touched(&[11], &[10], &[100]), 20);
        assert_eq!(touched(&[12], &[10], &[100]), 30);
        assert_eq!(touched(&[12, 1], &[10, 64], &[25, 5]), 125);
    }
}
