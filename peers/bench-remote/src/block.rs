//! Boxes of elements.

use serde::{Deserialize, Serialize};

/// Coordinates or lengths along the three axes.
pub type Triple = [u64; 3];

/// Bytes of one element, a uint16.
pub const ELEMENT: usize = 2;

/// A box of elements of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub start: Triple,
    pub shape: Triple,
}

impl Block {
    /// All of a volume.
    pub fn whole(shape: Triple) -> Self {
        Self { start: [0; 3], shape }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<u64>() as usize * ELEMENT
    }

    /// Its part of a checksum: the bytes of the block of a volume, in C order.
    pub fn add_to(&self, crc: &mut crc32fast::Hasher, volume: &[u8], shape: Triple) {
        let row = self.shape[2] as usize * ELEMENT;
        for z in self.start[0]..self.start[0] + self.shape[0] {
            for y in self.start[1]..self.start[1] + self.shape[1] {
                let from = ((z * shape[1] + y) * shape[2] + self.start[2]) as usize * ELEMENT;
                crc.update(&volume[from..from + row]);
            }
        }
    }
}
