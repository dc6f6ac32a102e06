//! Boxes of elements, and where they lie.

use serde::{Deserialize, Serialize};

use crate::job::Order;

/// Coordinates or lengths along the three axes.
pub type Triple = [u64; 3];

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

    /// How many elements it has.
    pub fn elements(&self) -> usize {
        product(self.shape)
    }

    /// What two boxes share, if anything.
    pub fn overlap(&self, other: &Self) -> Option<Self> {
        let mut both = *self;
        for axis in 0..3 {
            let start = self.start[axis].max(other.start[axis]);
            let end =
                (self.start[axis] + self.shape[axis]).min(other.start[axis] + other.shape[axis]);
            both.start[axis] = start;
            both.shape[axis] = end.checked_sub(start).filter(|&n| n > 0)?;
        }
        Some(both)
    }

    /// The cells of a grid that the box touches, as boxes of grid coordinates.
    pub fn cells(&self, cell: Triple) -> Self {
        let start = each(|axis| self.start[axis] / cell[axis]);
        let end = each(|axis| (self.start[axis] + self.shape[axis]).div_ceil(cell[axis]));
        Self { start, shape: each(|axis| end[axis] - start[axis]) }
    }

    /// Every coordinate inside, in C order.
    pub fn points(self) -> impl Iterator<Item = Triple> {
        let [a, b, c] = self.shape;
        let start = self.start;
        (0..a * b * c).map(move |i| {
            let at = [i / (b * c), i / c % b, i % c];
            each(|axis| start[axis] + at[axis])
        })
    }
}

/// One number per axis.
pub fn each(value: impl FnMut(usize) -> u64) -> Triple {
    let mut value = value;
    [value(0), value(1), value(2)]
}

pub fn product(shape: Triple) -> usize {
    shape.iter().product::<u64>() as usize
}

/// The place of a coordinate in C order.
pub fn index(at: Triple, shape: Triple) -> usize {
    ((at[0] * shape[1] + at[1]) * shape[2] + at[2]) as usize
}

/// The bytes of a block of a volume in C order.
pub fn cut(volume: &[u8], shape: Triple, element: usize, block: &Block) -> Vec<u8> {
    let mut out = Vec::with_capacity(block.elements() * element);
    let row = block.shape[2] as usize * element;
    for_rows(block, |at| {
        let from = index(at, shape) * element;
        out.extend_from_slice(&volume[from..from + row]);
    });
    out
}

/// Bytes from one element to the next along each axis.
pub fn strides(shape: Triple, element: usize, order: Order) -> [usize; 3] {
    let [planes, rows, columns] = shape.map(|n| n as usize);
    match order {
        Order::C => [rows * columns * element, columns * element, element],
        Order::Fortran => [element, planes * element, planes * rows * element],
    }
}

/// Whether `elements`, in an order of their own, are those of a block of a volume in C order.
pub fn matches(
    volume: &[u8],
    shape: Triple,
    element: usize,
    block: &Block,
    elements: &[u8],
    order: Order,
) -> bool {
    if elements.len() != block.elements() * element {
        return false;
    }
    if order == Order::Fortran {
        return matches_fortran(volume, shape, element, block, elements);
    }
    let row = block.shape[2] as usize * element;
    let mut same = true;
    let mut rows = elements.chunks_exact(row);
    for_rows(block, |at| {
        let from = index(at, shape) * element;
        same &= rows.next() == Some(&volume[from..from + row]);
    });
    same
}

/// Compares tiles of planes and columns, so that both sides stay in the nearest cache.
fn matches_fortran(
    volume: &[u8],
    shape: Triple,
    element: usize,
    block: &Block,
    elements: &[u8],
) -> bool {
    const TILE: usize = 32;
    let [planes, rows, columns] = block.shape.map(|n| n as usize);
    let (ours, theirs) =
        (strides(block.shape, element, Order::Fortran), strides(shape, element, Order::C));
    let from = index(block.start, shape) * element;
    let at = |strides: [usize; 3], [z, y, x]: [usize; 3]| {
        z * strides[0] + y * strides[1] + x * strides[2]
    };
    let same = |point: [usize; 3]| {
        let (a, b) = (at(ours, point), from + at(theirs, point));
        elements[a..a + element] == volume[b..b + element]
    };
    let starts = |n: usize| (0..n).step_by(TILE);
    starts(planes).all(|z| {
        starts(columns).all(|x| {
            (0..rows).all(|y| {
                (x..(x + TILE).min(columns))
                    .all(|x| (z..(z + TILE).min(planes)).all(|z| same([z, y, x])))
            })
        })
    })
}

fn for_rows(block: &Block, mut row: impl FnMut(Triple)) {
    for z in 0..block.shape[0] {
        for y in 0..block.shape[1] {
            row([block.start[0] + z, block.start[1] + y, block.start[2]]);
        }
    }
}
