//! Rows of chunks, copied to and from where they belong.

use crate::block::{Block, Triple, each, index};

/// The part of one chunk that a block needs, with everything measured in bytes.
#[derive(Debug, Clone)]
pub struct Piece {
    pub shard: usize,
    pub entry: usize,
    /// A whole chunk that lies outside as it is stored: no copy is needed.
    pub direct: bool,
    /// Where it begins in the decoded chunk, and in the memory outside.
    inside: usize,
    pub outside: usize,
    inside_strides: [usize; 3],
    outside_strides: [usize; 3],
    shape: [usize; 3],
    element: usize,
}

impl Piece {
    /// `part` is the overlap of `chunk` and `block`; the memory outside is the block in C order.
    pub fn new(
        shard: usize,
        entry: usize,
        chunk: &Block,
        part: &Block,
        block: &Block,
        (element, transposed): (usize, bool),
    ) -> Self {
        let mut inside_strides = strides(chunk.shape, element);
        if transposed {
            let [z, y, x] = chunk.shape;
            inside_strides = strides([x, y, z], element);
            inside_strides.reverse();
        }
        let outside_strides = strides(block.shape, element);
        let from = each(|axis| part.start[axis] - chunk.start[axis]);
        let inside = (0..3).map(|axis| from[axis] as usize * inside_strides[axis]).sum();
        let to = each(|axis| part.start[axis] - block.start[axis]);
        Self {
            shard,
            entry,
            direct: !transposed && part == chunk && block.shape[1..] == chunk.shape[1..],
            inside,
            outside: index(to, block.shape) * element,
            inside_strides,
            outside_strides,
            shape: part.shape.map(|n| n as usize),
            element,
        }
    }
}

fn strides(shape: Triple, element: usize) -> [usize; 3] {
    let row = shape[2] as usize * element;
    [shape[1] as usize * row, row, element]
}

/// Copies a piece from its decoded chunk to the memory outside.
///
/// # Safety
///
/// Both must have room for all of the piece.
pub unsafe fn scatter(piece: &Piece, chunk: *const u8, outside: *mut u8) {
    // SAFETY: the caller's promise, and the places that the piece begins at.
    unsafe {
        let (from, to) = (chunk.add(piece.inside), outside.add(piece.outside));
        rows(piece, from, &piece.inside_strides, to, &piece.outside_strides);
    }
}

/// Copies a piece from the memory outside into its chunk.
///
/// # Safety
///
/// As for [`scatter`].
pub unsafe fn gather(piece: &Piece, outside: *const u8, chunk: *mut u8) {
    // SAFETY: the caller's promise, and the places that the piece begins at.
    unsafe {
        let (from, to) = (outside.add(piece.outside), chunk.add(piece.inside));
        rows(piece, from, &piece.outside_strides, to, &piece.inside_strides);
    }
}

/// Copies the piece's rows between two memories.
///
/// # Safety
///
/// Both must have room for them.
unsafe fn rows(
    piece: &Piece,
    from: *const u8,
    from_strides: &[usize; 3],
    to: *mut u8,
    to_strides: &[usize; 3],
) {
    let [planes, lines, columns] = piece.shape;
    let row = columns * piece.element;
    if from_strides[2] != piece.element || to_strides[2] != piece.element {
        // SAFETY: the caller's promise.
        return unsafe {
            match piece.element {
                2 => tiles::<2>(piece.shape, from, from_strides, to, to_strides),
                _ => tiles::<8>(piece.shape, from, from_strides, to, to_strides),
            }
        };
    }
    for plane in 0..planes {
        for line in 0..lines {
            // SAFETY: inside the piece.
            unsafe {
                let source = from.add(plane * from_strides[0] + line * from_strides[1]);
                let target = to.add(plane * to_strides[0] + line * to_strides[1]);
                if row == 64 {
                    // The length of most rows here, known to the compiler: no call.
                    target
                        .cast::<[u8; 64]>()
                        .write_unaligned(source.cast::<[u8; 64]>().read_unaligned());
                } else {
                    std::ptr::copy_nonoverlapping(source, target, row);
                }
            }
        }
    }
}

/// Columns that are copied together where rows are contiguous on one side only: both sides of a tile stay in the
/// nearest cache.
const TILE: usize = 8;

/// Copies single elements, tile by tile.
///
/// # Safety
///
/// Both memories must have room for the shape.
unsafe fn tiles<const N: usize>(
    [planes, lines, columns]: [usize; 3],
    from: *const u8,
    from_strides: &[usize; 3],
    to: *mut u8,
    to_strides: &[usize; 3],
) {
    for line in 0..lines {
        for first in (0..columns).step_by(TILE) {
            for plane in 0..planes {
                for column in first..(first + TILE).min(columns) {
                    let at = |strides: &[usize; 3]| {
                        plane * strides[0] + line * strides[1] + column * strides[2]
                    };
                    // SAFETY: inside the shape.
                    unsafe {
                        let value = from.add(at(from_strides)).cast::<[u8; N]>().read_unaligned();
                        to.add(at(to_strides)).cast::<[u8; N]>().write_unaligned(value);
                    }
                }
            }
        }
    }
}
