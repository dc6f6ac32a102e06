//! Rows of chunks, copied to and from where they belong.

use crate::block::{Block, each, strides};
use crate::job::Order;

/// How the elements of chunks and of the memory outside lie.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Bytes of one element.
    pub element: usize,
    pub inside: Order,
    pub outside: Order,
}

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
    /// `part` is the overlap of `chunk` and `block`; the memory outside is the block.
    pub fn new(
        shard: usize,
        entry: usize,
        chunk: &Block,
        part: &Block,
        block: &Block,
        layout: Layout,
    ) -> Self {
        let Layout { element, inside, outside } = layout;
        let inside_strides = strides(chunk.shape, element, inside);
        let outside_strides = strides(block.shape, element, outside);
        let bytes = |start: &Block, strides: [usize; 3]| {
            let steps = each(|axis| part.start[axis] - start.start[axis]);
            (0..3).map(|axis| steps[axis] as usize * strides[axis]).sum()
        };
        let contiguous = inside == Order::C && outside == Order::C;
        Self {
            shard,
            entry,
            direct: contiguous && part == chunk && block.shape[1..] == chunk.shape[1..],
            inside: bytes(chunk, inside_strides),
            outside: bytes(block, outside_strides),
            inside_strides,
            outside_strides,
            shape: part.shape.map(|n| n as usize),
            element,
        }
    }
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
        // The source's dense axis goes first, which is the target's least dense one: what is
        // written lies close together.
        let axes = if from_strides[2] == piece.element { [2, 1, 0] } else { [0, 1, 2] };
        let shape = axes.map(|axis| piece.shape[axis]);
        let from = Side { start: from.cast_mut(), strides: axes.map(|axis| from_strides[axis]) };
        let to = Side { start: to, strides: axes.map(|axis| to_strides[axis]) };
        // SAFETY: the caller's promise.
        return unsafe {
            match piece.element {
                1 => transpose::<1>(shape, from, to),
                2 => transpose::<2>(shape, from, to),
                _ => transpose::<8>(shape, from, to),
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

/// One of two memories that elements are copied between.
#[derive(Clone, Copy)]
struct Side {
    start: *mut u8,
    strides: [usize; 3],
}

impl Side {
    /// # Safety
    ///
    /// The element must be in the memory.
    unsafe fn at(self, [a, b, c]: [usize; 3]) -> *mut u8 {
        let [i, j, k] = self.strides;
        // SAFETY: the caller's promise.
        unsafe { self.start.add(a * i + b * j + c * k) }
    }
}

/// Elements along each edge of a tile.
const TILE: usize = 8;

/// Bytes that are written together: less would bring a line of the target into the cache more than
/// once, as the rows of a large array are so far apart that they push each other out.
const LINE: usize = 64;

/// Copies elements whose first axis is dense in one memory and whose last axis is dense in the
/// other.
///
/// # Safety
///
/// Both memories must have room for the shape.
unsafe fn transpose<const N: usize>([first, second, third]: [usize; 3], from: Side, to: Side) {
    let dense = from.strides[0] == N && to.strides[2] == N;
    let step = LINE / N;
    for a in (0..first).step_by(TILE) {
        for b in 0..second {
            for c in (0..third).step_by(step) {
                // SAFETY: inside the shape.
                unsafe {
                    if dense && a + TILE <= first && c + step <= third {
                        lines::<N>(from, to, [a, b, c]);
                        continue;
                    }
                    for c in c..third.min(c + step) {
                        for a in a..first.min(a + TILE) {
                            let value = from.at([a, b, c]).cast::<[u8; N]>().read_unaligned();
                            to.at([a, b, c]).cast::<[u8; N]>().write_unaligned(value);
                        }
                    }
                }
            }
        }
    }
}

/// Copies as many lines as a tile has rows, beginning at a point.
///
/// # Safety
///
/// Both memories must have all of it, dense as for [`transpose`].
#[inline(always)]
unsafe fn lines<const N: usize>(from: Side, to: Side, [a, b, c]: [usize; 3]) {
    let mut lines = [[0; LINE]; TILE];
    for k in (0..LINE / N).step_by(TILE) {
        // SAFETY: the caller's promise.
        let rows: [[[u8; N]; TILE]; TILE] = std::array::from_fn(|i| unsafe {
            from.at([a, b, c + k + i]).cast::<[[u8; N]; TILE]>().read_unaligned()
        });
        for (line, row) in lines.iter_mut().zip(turn(rows)) {
            line[k * N..][..TILE * N].copy_from_slice(row.as_flattened());
        }
    }
    for (i, line) in lines.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { to.at([a + i, b, c]).cast::<[u8; LINE]>().write_unaligned(line) };
    }
}

/// Exchanges rows and columns.
#[inline(always)]
fn turn<const N: usize>(rows: [[[u8; N]; TILE]; TILE]) -> [[[u8; N]; TILE]; TILE] {
    #[cfg(target_arch = "x86_64")]
    if N == 2 {
        // SAFETY: eight rows of eight elements of two bytes are eight registers, whose bits may be
        // any.
        return unsafe {
            let registers = std::mem::transmute_copy(&rows);
            std::mem::transmute_copy(&turn_registers(registers))
        };
    }
    std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
}

/// Exchanges rows and columns of 16-bit elements: neighbours at distance 1, then 2, then 4 change
/// places.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn turn_registers(r: [std::arch::x86_64::__m128i; 8]) -> [std::arch::x86_64::__m128i; 8] {
    use std::arch::x86_64::{
        _mm_unpackhi_epi16 as high16, _mm_unpackhi_epi32 as high32, _mm_unpackhi_epi64 as high64,
        _mm_unpacklo_epi16 as low16, _mm_unpacklo_epi32 as low32, _mm_unpacklo_epi64 as low64,
    };
    // SAFETY: every processor of this architecture has SSE2.
    unsafe {
        let (a, b) = (
            [0, 2, 4, 6].map(|i| low16(r[i], r[i + 1])),
            [0, 2, 4, 6].map(|i| high16(r[i], r[i + 1])),
        );
        let quads = |p: [_; 4]| {
            let (l, h) =
                ((low32(p[0], p[1]), low32(p[2], p[3])), (high32(p[0], p[1]), high32(p[2], p[3])));
            [low64(l.0, l.1), high64(l.0, l.1), low64(h.0, h.1), high64(h.0, h.1)]
        };
        let ([c, d, e, f], [g, h, i, j]) = (quads(a), quads(b));
        [c, d, e, f, g, h, i, j]
    }
}
