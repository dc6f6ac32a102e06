/// The compressed Morton code of the cells of a grid: the interleaved bits of the coordinates, with
/// only as many per axis as its cells need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MortonCode {
    grid: [u64; 3],
    bits: [u32; 3],
}

impl MortonCode {
    /// For a grid with these lengths; `None` if its codes need more than 64 bits.
    pub fn new(grid: [u64; 3]) -> Option<Self> {
        let bits = grid.map(|cells| u64::BITS - cells.saturating_sub(1).leading_zeros());
        (bits.iter().sum::<u32>() <= 64).then_some(Self { grid, bits })
    }

    /// Bits of the largest code.
    pub fn bits(&self) -> u32 {
        self.bits.iter().sum()
    }

    /// The number of cells along each axis.
    pub fn grid(&self) -> [u64; 3] {
        self.grid
    }

    /// The code of a cell of the grid.
    pub fn encode(&self, cell: [u64; 3]) -> u64 {
        let (mut code, mut out) = (0, 0);
        for bit in 0..self.longest() {
            for (axis, &bits) in self.bits.iter().enumerate() {
                if bit < bits {
                    code |= (cell[axis] >> bit & 1) << out;
                    out += 1;
                }
            }
        }
        code
    }

    /// The cell with this code; `None` if it is outside the grid.
    pub fn decode(&self, code: u64) -> Option<[u64; 3]> {
        let (mut cell, mut at) = ([0; 3], 0);
        for bit in 0..self.longest() {
            for (axis, &bits) in self.bits.iter().enumerate() {
                if bit < bits {
                    cell[axis] |= (code >> at & 1) << bit;
                    at += 1;
                }
            }
        }
        let spare = code.checked_shr(self.bits()).unwrap_or(0);
        let inside = cell.iter().zip(&self.grid).all(|(&i, &n)| i < n);
        (spare == 0 && inside).then_some(cell)
    }

    /// The number of cells along each axis that share all but the lowest bits of their codes: a
    /// box, as only whole bits are fixed.
    pub fn box_of_low_bits(&self, low: u32) -> [u64; 3] {
        let mut shape = [1u64; 3];
        let mut left = low;
        for bit in 0..self.longest() {
            for (axis, &bits) in self.bits.iter().enumerate() {
                if bit < bits && left > 0 {
                    left -= 1;
                    shape[axis] <<= 1;
                }
            }
        }
        shape
    }

    fn longest(&self) -> u32 {
        self.bits.into_iter().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_volume_has_so_many_bits() {
        let grid = [79u64.div_ceil(20), 80 / 20, 144 / 12];
        let code = MortonCode::new(grid).unwrap();
        assert_eq!(code.bits, [2, 2, 4]);
        assert_eq!(code.encode([0b11, 0b01, 0b1010]), 0b1010_1011);
    }

    #[test]
    fn a_published_point_is_in_this_shard() {
        let chunks = |size: u64, chunk: u64| size.div_ceil(chunk);
        let code = MortonCode::new([chunks(248_832, 128), chunks(134_144, 128), chunks(7063, 16)])
            .unwrap();
        let key = code.encode([144_689 / 128, 52_487 / 128, 2829 / 16]);
        let sharding = super::super::Sharding::new(9, 6, 16).unwrap();
        assert_eq!(sharding.shard_name(sharding.place(key).shard), "458d.shard");
    }

    #[test]
    fn codes_are_told_from_what_is_none() {
        let code = MortonCode::new([3, 1, 5]).unwrap();
        assert_eq!(code.bits(), 5);
        let mut seen = std::collections::HashSet::new();
        for x in 0..3 {
            for z in 0..5 {
                let key = code.encode([x, 0, z]);
                assert!(seen.insert(key));
                assert_eq!(code.decode(key), Some([x, 0, z]));
            }
        }
        assert_eq!((0..64).filter(|&key| code.decode(key).is_some()).count(), 15);
        assert_eq!(code.decode(1 << 40), None);
    }

    #[test]
    fn sixty_four_bits_are_the_most() {
        let code = MortonCode::new([1 << 22, 1 << 21, 1 << 21]).unwrap();
        let last = [(1 << 22) - 1, (1 << 21) - 1, (1 << 21) - 1];
        assert_eq!((code.encode(last), code.decode(u64::MAX)), (u64::MAX, Some(last)));
        assert_eq!(MortonCode::new([1 << 22, 1 << 22, 1 << 21]), None);
        assert!(MortonCode::new([u64::MAX, 1, 1]).is_some());
        assert_eq!(MortonCode::new([0, 5, 5]).unwrap().bits(), 6);
    }

    #[test]
    fn low_bits_make_a_box() {
        let code = MortonCode::new([8, 2, 8]).unwrap();
        assert_eq!(code.box_of_low_bits(0), [1, 1, 1]);
        assert_eq!(code.box_of_low_bits(4), [4, 2, 2]);
        assert_eq!(code.box_of_low_bits(99), [8, 2, 8]);
    }
}
