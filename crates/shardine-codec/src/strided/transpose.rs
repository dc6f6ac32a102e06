//! Copies between boxes that are contiguous along different axes.
//!
//! Element by element, such a copy touches a line of the target again and again, and at the strides
//! of large arrays (often powers of two) the line has left the cache in between. So whole lines of
//! the target are built first, in a stage that stays in cache: square blocks one line long are
//! transposed in registers, and each line is stored once. Enough lines are collected that they can
//! be stored in the order of the target's memory.

use std::mem::MaybeUninit;

use super::lanes::{self, Kernels, Narrow};
use super::loops::Loop;
use super::stores::{Cached, LINE, Put};

/// Lines along a row of the target that are collected before any is stored.
const LINES: usize = 4;

/// Three nested loops over elements of one size.
pub(super) struct Cube {
    /// The loop that is neither of the other two, and the closest in the target if there are
    /// several.
    pub near: Loop,
    /// The loop that is contiguous in the source.
    pub across: Loop,
    /// The loop that is contiguous in the target.
    pub along: Loop,
}

/// Whether a plane is large enough for the kernels; `across` and `along` as in [`Cube`].
pub(super) fn is_worthwhile(across: Loop, along: Loop, size: usize) -> bool {
    across.from == size
        && along.to == size
        && across.n >= lanes::columns(size)
        && along.n >= lanes::rows(size)
}

/// Blocks of transposed lines.
#[repr(align(64))]
pub(super) struct Stage(MaybeUninit<[u8; Cached::STAGE]>);

impl Stage {
    pub(super) fn new() -> Self {
        Self(MaybeUninit::uninit())
    }
}

/// A loop over lines in the stage.
#[derive(Clone, Copy)]
struct Step {
    n: usize,
    /// Bytes from one line to the next in the stage.
    from: usize,
    /// The same in the target.
    to: usize,
}

impl Cube {
    /// Copies the box; its elements have `SIZE` bytes, which must be 1, 2, 4 or 8.
    ///
    /// # Safety
    /// Every offset of the box must lie inside the memory behind the two pointers, which must not
    /// overlap. `across.from` and `along.to` must be `SIZE`.
    pub(super) unsafe fn copy<const SIZE: usize, P: Put>(
        &self,
        source: *const u8,
        target: *mut u8,
        stage: &mut Stage,
    ) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has AVX2; the rest is upheld by the caller.
            return unsafe { self.copy_wide::<SIZE, P>(source, target, stage) };
        }
        // SAFETY: the narrow kernels run on every machine; the rest is upheld by the caller.
        unsafe { self.copy_with::<Narrow, SIZE, P>(source, target, stage) };
    }

    /// # Safety
    /// As for [`copy`](Self::copy), on a machine with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn copy_wide<const SIZE: usize, P: Put>(
        &self,
        source: *const u8,
        target: *mut u8,
        stage: &mut Stage,
    ) {
        // SAFETY: upheld by the caller.
        unsafe { self.copy_with::<lanes::Wide, SIZE, P>(source, target, stage) };
    }

    /// # Safety
    /// As for [`copy`](Self::copy), on a machine with the instructions of the kernels.
    #[inline(always)]
    unsafe fn copy_with<K: Kernels, const SIZE: usize, P: Put>(
        &self,
        source: *const u8,
        target: *mut u8,
        stage: &mut Stage,
    ) {
        let Self { near, across, along } = *self;
        let edge = LINE / SIZE;
        let block = LINE * edge;
        let lines = LINES.min(along.n.div_ceil(edge));
        let depth = P::STAGE / (block * lines);
        let stage = stage.0.as_mut_ptr().cast::<u8>();
        for i in (0..across.n).step_by(edge) {
            let columns = edge.min(across.n - i);
            for r in (0..near.n).step_by(depth) {
                let planes = depth.min(near.n - r);
                let a = Step { n: columns, from: LINE, to: across.to };
                let b = Step { n: planes, from: lines * block, to: near.to };
                let steps = if a.to >= b.to { [a, b] } else { [b, a] };
                let mut j = 0;
                while j < along.n {
                    // SAFETY: (r, i, j) is an element of the box.
                    let (source, target) = unsafe {
                        (
                            source.add(r * near.from + i * SIZE + j * along.from),
                            target.add(r * near.to + i * across.to + j * SIZE),
                        )
                    };
                    // Only whole lines are streamed, so what comes before the first one is copied
                    // separately.
                    let lead = if P::STREAMS { target.addr() % LINE / SIZE } else { 0 };
                    let rows = if lead > 0 { edge - lead } else { edge * lines }.min(along.n - j);
                    for (b, j) in (0..rows).step_by(edge).enumerate() {
                        for r in 0..planes {
                            // SAFETY: up to `edge` rows of `columns` elements, all of the box. The
                            // stage has room for `depth * lines` blocks.
                            unsafe {
                                let source = source.add(r * near.from + j * along.from);
                                let stage = stage.add((r * lines + b) * block);
                                fill::<K, SIZE>(
                                    columns,
                                    edge.min(rows - j),
                                    source,
                                    along.from,
                                    stage,
                                );
                            }
                        }
                    }
                    // SAFETY: the lines just staged, and their places in the box.
                    unsafe { empty::<P>(steps, rows * SIZE, block, stage, target) };
                    j += rows;
                }
            }
        }
    }
}

/// Fills a block of the stage: `columns` lines of `rows` elements, both at most a line's worth.
///
/// # Safety
/// `rows` rows of `columns` elements, `from` bytes apart, must be readable at `source`, and a block
/// must be writable at `stage`.
#[inline(always)]
unsafe fn fill<K: Kernels, const SIZE: usize>(
    columns: usize,
    rows: usize,
    source: *const u8,
    from: usize,
    stage: *mut u8,
) {
    let edge = LINE / SIZE;
    if SIZE == 1 && columns == edge {
        // A kernel for bytes reads 16 or 32 rows, and returns to each of them 8 times. Rows a power
        // of two apart would evict each other from the cache, so they are gathered first.
        let mut lines = MaybeUninit::<[u8; LINE * LINE]>::uninit();
        let lines = lines.as_mut_ptr().cast::<u8>();
        for j in 0..rows {
            // SAFETY: a row of the source is a whole line here, and there are at most `LINE` rows.
            unsafe { Cached::put::<LINE>(source.add(j * from), lines.add(j * LINE)) };
        }
        // SAFETY: the same rows at another place.
        unsafe { transpose::<K, SIZE>(columns, rows, lines, LINE, stage) };
    } else {
        // SAFETY: upheld by the caller.
        unsafe { transpose::<K, SIZE>(columns, rows, source, from, stage) };
    }
}

/// # Safety
/// As for [`fill`].
#[inline(always)]
unsafe fn transpose<K: Kernels, const SIZE: usize>(
    columns: usize,
    rows: usize,
    source: *const u8,
    from: usize,
    stage: *mut u8,
) {
    let edge = LINE / SIZE;
    // SAFETY: upheld by the caller; the kernels get as many rows and columns as they need.
    unsafe {
        if columns == edge && rows == edge {
            // The compiler knows these bounds.
            kernels::<K, SIZE>(edge, edge, source, from, stage);
        } else if columns < lanes::columns(SIZE) || rows < lanes::rows(SIZE) {
            for j in 0..rows {
                for i in 0..columns {
                    let source = source.add(j * from + i * SIZE);
                    Cached::put::<SIZE>(source, stage.add(i * LINE + j * SIZE));
                }
            }
        } else if rows < K::BYTES / SIZE {
            kernels::<Narrow, SIZE>(columns, rows, source, from, stage);
        } else {
            kernels::<K, SIZE>(columns, rows, source, from, stage);
        }
    }
}

/// Fills a block of the stage with kernels of one kind. The last one in either direction ends at
/// the edge; where it overlaps the one before, elements are staged twice.
///
/// # Safety
/// As for [`fill`]; there must be enough rows and columns for a kernel.
#[inline(always)]
unsafe fn kernels<K: Kernels, const SIZE: usize>(
    columns: usize,
    rows: usize,
    source: *const u8,
    from: usize,
    stage: *mut u8,
) {
    let (width, height) = (lanes::columns(SIZE), K::BYTES / SIZE);
    for j in (0..rows).step_by(height) {
        let j = j.min(rows - height);
        for i in (0..columns).step_by(width) {
            let i = i.min(columns - width);
            // SAFETY: `width` columns and `height` rows from (j, i) on are inside.
            unsafe {
                let source = source.add(j * from + i * SIZE);
                K::transpose::<SIZE>(source, from, stage.add(i * LINE + j * SIZE), LINE);
            }
        }
    }
}

/// Stores the staged lines; each continues for `len` bytes, over blocks that are `block` bytes
/// apart.
///
/// # Safety
/// The lines must have been staged, and their places in the target must be writable.
#[inline(always)]
unsafe fn empty<P: Put>(
    [outer, inner]: [Step; 2],
    len: usize,
    block: usize,
    stage: *const u8,
    target: *mut u8,
) {
    let whole = len / LINE;
    let part = len % LINE;
    let aligned = (target.addr() | outer.to | inner.to).is_multiple_of(LINE);
    for a in 0..outer.n {
        for b in 0..inner.n {
            // SAFETY: a staged line and its place; streamed only if that place, like all the
            // others, starts on a line.
            unsafe {
                let stage = stage.add(a * outer.from + b * inner.from);
                let target = target.add(a * outer.to + b * inner.to);
                for w in 0..whole {
                    if P::STREAMS && aligned {
                        P::put::<LINE>(stage.add(w * block), target.add(w * LINE));
                    } else {
                        Cached::put::<LINE>(stage.add(w * block), target.add(w * LINE));
                    }
                }
                if part > 0 {
                    short(stage.add(whole * block), target.add(whole * LINE), part);
                }
            }
        }
    }
}

/// Copies less than a line without the call that a copy of unknown length costs.
///
/// # Safety
/// `len` bytes must be readable at `source` and writable at `target`, and not overlap.
#[inline(always)]
unsafe fn short(source: *const u8, target: *mut u8, len: usize) {
    const PIECE: usize = 16;
    if len >= PIECE {
        for at in (0..len).step_by(PIECE) {
            let at = at.min(len - PIECE);
            // SAFETY: a piece inside the `len` bytes.
            unsafe { Cached::put::<PIECE>(source.add(at), target.add(at)) };
        }
    } else {
        // SAFETY: by contract.
        unsafe { Cached::row(source, target, len) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::stores::Streaming;
    use super::*;

    fn check<const SIZE: usize, P: Put>([planes, rows, columns]: [usize; 3]) {
        let (line, plane) = ((rows * SIZE).next_multiple_of(LINE), rows * columns * SIZE);
        let cube = Cube {
            near: Loop { n: planes, from: plane, to: line },
            across: Loop { n: columns, from: SIZE, to: line * planes },
            along: Loop { n: rows, from: columns * SIZE, to: SIZE },
        };
        let source: Vec<u8> = (0..plane * planes).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut chosen = vec![0xEE; line * planes * columns];
        let mut narrow = chosen.clone();
        let mut stage = Stage::new();
        // SAFETY: the source is contiguous, and the targets have room for whole lines.
        unsafe {
            cube.copy::<SIZE, P>(source.as_ptr(), chosen.as_mut_ptr(), &mut stage);
            cube.copy_with::<Narrow, SIZE, P>(source.as_ptr(), narrow.as_mut_ptr(), &mut stage);
        }
        P::finish();
        assert!(chosen == narrow, "{SIZE} {planes} {rows} {columns}");
        let last = source.len() - SIZE;
        let end = (planes * columns - 1) * line + rows * SIZE;
        assert_eq!(narrow[end - SIZE..end], source[last..]);
    }

    #[test]
    fn narrow_and_wide_kernels_give_the_same_bytes() {
        for shape in [[3, 64, 64], [40, 32, 32], [2, 33, 70], [1, 300, 17], [5, 16, 8]] {
            check::<1, Cached>(shape);
            check::<2, Cached>(shape);
            check::<4, Cached>(shape);
            check::<8, Cached>(shape);
            check::<1, Streaming>(shape);
            check::<8, Streaming>(shape);
        }
    }
}
