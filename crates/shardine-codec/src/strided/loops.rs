//! The nested loops of a copy, merged and ordered.

use smallvec::SmallVec;

use super::Axes;
use super::stores::{Cached, LINE, Put, Stores, Streaming, streams};
use super::transpose::{Cube, Stage, is_worthwhile};

/// Edge of a tile in a transposing copy, in elements: two tiles of 8-byte elements fit in L1.
const TILE: usize = 32;

/// One loop: its count, and the bytes from one step to the next on either side.
#[derive(Clone, Copy)]
pub(super) struct Loop {
    pub n: usize,
    pub from: usize,
    pub to: usize,
}

/// The loops of a copy, outermost first, merged and ordered by the target's strides.
pub(super) struct Loops {
    loops: Axes<Loop>,
    /// Bytes that are contiguous on both sides in one step of the innermost loop.
    unit: usize,
}

impl Loops {
    pub(super) fn new(shape: &[usize], from: &[usize], to: &[usize], element: usize) -> Self {
        // Pushed one by one: collecting what a filter lets through costs more than the copy of a
        // small block.
        let mut axes: Axes<Loop> = SmallVec::new();
        for (k, &n) in shape.iter().enumerate().filter(|(_, n)| **n != 1) {
            axes.push(Loop { n, from: from[k], to: to[k] });
        }
        // Walking the target in memory order keeps writes sequential.
        axes.sort_by(|a, b| b.to.cmp(&a.to).then(b.from.cmp(&a.from)));
        let mut loops: Axes<Loop> = SmallVec::new();
        for axis in axes {
            match loops.last_mut() {
                Some(outer) if outer.from == axis.from * axis.n && outer.to == axis.to * axis.n => {
                    *outer = Loop { n: outer.n * axis.n, from: axis.from, to: axis.to };
                }
                _ => loops.push(axis),
            }
        }
        let mut unit = element;
        if let Some(&inner) = loops.last()
            && inner.from == element
            && inner.to == element
        {
            unit = element * inner.n;
            loops.pop();
        }
        Self { loops, unit }
    }

    /// Bytes that are contiguous in the target in the innermost loop.
    pub(super) fn row_bytes(&self) -> usize {
        match self.loops.last() {
            Some(inner) if inner.to == self.unit => self.unit * inner.n,
            _ => self.unit,
        }
    }

    /// Copies the box.
    ///
    /// # Safety
    /// Every offset of the box must lie inside the memory behind the two pointers, which must not
    /// overlap.
    pub(super) unsafe fn run(&self, source: *const u8, target: *mut u8, stores: Stores) {
        let rows = &self.loops[..self.loops.len() - usize::from(self.row_bytes() > self.unit)];
        if stores == Stores::Streaming
            && streams(target, self.row_bytes(), rows.iter().map(|l| l.to))
        {
            // SAFETY: upheld by the caller.
            unsafe { self.run_with::<Streaming>(source, target) };
            Streaming::finish();
        } else {
            // SAFETY: upheld by the caller.
            unsafe { self.run_with::<Cached>(source, target) };
        }
    }

    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn run_with<P: Put>(&self, source: *const u8, target: *mut u8) {
        // SAFETY: upheld by the caller.
        unsafe {
            match self.unit {
                1 => self.elements::<1, P>(source, target),
                2 => self.elements::<2, P>(source, target),
                4 => self.elements::<4, P>(source, target),
                8 => self.elements::<8, P>(source, target),
                16 => self.units::<16>(source, target),
                32 => self.units::<32>(source, target),
                64 => self.rows::<64, P>(source, target),
                128 => self.rows::<128, P>(source, target),
                256 => self.rows::<256, P>(source, target),
                unit => walk(&self.loops, |from, to| {
                    P::row(source.add(from), target.add(to), unit);
                }),
            }
        }
    }

    /// Copies rows of a length known to the compiler, so that a row is a few moves rather than a
    /// call.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `N` must be a multiple of [`LINE`].
    unsafe fn rows<const N: usize, P: Put>(&self, source: *const u8, target: *mut u8) {
        let lined = self.loops.iter().fold(target.addr(), |all, l| all | l.to);
        // SAFETY: upheld by the caller. Rows are streamed only if they all start on a line, and AVX
        // is used only if the machine has it.
        unsafe {
            if P::STREAMS && lined.is_multiple_of(LINE) {
                return self.rows_with::<N, P>(source, target);
            }
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx") {
                return self.rows_wide::<N>(source, target);
            }
            self.rows_with::<N, Cached>(source, target);
        }
    }

    /// The same with 32-byte stores. The processor fetches the lines for as many stores as can be
    /// pending, so half as many stores fetch twice as many lines.
    ///
    /// # Safety
    /// As for [`run`](Self::run), on a machine with AVX.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx")]
    unsafe fn rows_wide<const N: usize>(&self, source: *const u8, target: *mut u8) {
        // SAFETY: upheld by the caller.
        unsafe { self.rows_with::<N, Cached>(source, target) };
    }

    /// # Safety
    /// As for [`run`](Self::run); if `P` streams, all rows must start on a line and `N` must be
    /// whole lines.
    #[inline(always)]
    unsafe fn rows_with<const N: usize, P: Put>(&self, source: *const u8, target: *mut u8) {
        walk(&self.loops, |from, to| {
            // SAFETY: offsets of the box, inside both memories.
            unsafe { P::put::<N>(source.add(from), target.add(to)) };
        });
    }

    /// Copies single elements, or runs that are contiguous on both sides and no longer than one.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    // Not inlined, so that other copies do not have the stage on their stack.
    #[inline(never)]
    unsafe fn elements<const N: usize, P: Put>(&self, source: *const u8, target: *mut u8) {
        match transposed(&self.loops) {
            Some((outer, across, along)) if is_worthwhile(across, along, N) => {
                let (near, outer) = match outer.split_last() {
                    Some((&near, outer)) => (near, outer),
                    None => (Loop { n: 1, from: 0, to: 0 }, &[][..]),
                };
                let cube = Cube { near, across, along };
                let mut stage = Stage::new();
                walk(outer, |from, to| {
                    // SAFETY: the box is made up of these boxes; `across` and `along` are
                    // contiguous.
                    unsafe { cube.copy::<N, P>(source.add(from), target.add(to), &mut stage) };
                });
            }
            // SAFETY: upheld by the caller.
            _ => unsafe { self.units::<N>(source, target) },
        }
    }

    /// Copies units of a size known to the compiler, one by one.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn units<const N: usize>(&self, source: *const u8, target: *mut u8) {
        let copy = |from: usize, to: usize| {
            // SAFETY: offsets of the box, inside both memories.
            unsafe { Cached::put::<N>(source.add(from), target.add(to)) };
        };
        match transposed(&self.loops) {
            Some((outer, across, along)) => walk(&outer, |from, to| {
                tile(across, along, |f, t| copy(from + f, to + t));
            }),
            None => walk(&self.loops, copy),
        }
    }

    /// # Safety
    /// Every offset of the box must lie inside the memory behind `target`.
    pub(super) unsafe fn fill(&self, element: &[u8], row: &[u8], target: *mut u8) {
        let put = |bytes: &[u8], to: usize| {
            // SAFETY: `to` is an offset of the box, and `bytes` is no longer than what is
            // contiguous there.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.add(to), bytes.len()) }
        };
        if row.is_empty() {
            walk(&self.loops, |_, to| put(element, to));
            return;
        }
        let length = self.row_bytes();
        let rows = &self.loops[..self.loops.len().saturating_sub(1)];
        walk(rows, |_, to| {
            let mut done = 0;
            while done < length {
                let n = row.len().min(length - done);
                put(&row[..n], to + done);
                done += n;
            }
        });
    }
}

/// If the innermost loop strides over the source while another walks it closely: the loops around
/// the two, the close one, and the innermost.
fn transposed(loops: &[Loop]) -> Option<(Axes<Loop>, Loop, Loop)> {
    let (&along, outer) = loops.split_last()?;
    let (k, &across) = outer.iter().enumerate().min_by_key(|(_, l)| l.from)?;
    if across.from >= along.from {
        return None;
    }
    let mut rest: Axes<Loop> = SmallVec::from_slice(outer);
    rest.remove(k);
    Some((rest, across, along))
}

/// Visits a plane tile by tile, so that the lines of both sides stay in cache.
#[inline(always)]
fn tile(across: Loop, along: Loop, mut visit: impl FnMut(usize, usize)) {
    for i0 in (0..across.n).step_by(TILE) {
        let i1 = across.n.min(i0 + TILE);
        for j0 in (0..along.n).step_by(TILE) {
            let j1 = along.n.min(j0 + TILE);
            for i in i0..i1 {
                for j in j0..j1 {
                    visit(i * across.from + j * along.from, i * across.to + j * along.to);
                }
            }
        }
    }
}

/// Calls `visit` with the offsets of every step of the loops.
#[inline(always)]
fn walk(loops: &[Loop], mut visit: impl FnMut(usize, usize)) {
    let Some((&inner, outer)) = loops.split_last() else {
        return visit(0, 0);
    };
    let mut counters: Axes<usize> = SmallVec::from_elem(0, outer.len());
    let (mut from, mut to) = (0, 0);
    loop {
        for i in 0..inner.n {
            visit(from + i * inner.from, to + i * inner.to);
        }
        // Count up like an odometer, the innermost of the outer loops first.
        let mut k = outer.len();
        loop {
            if k == 0 {
                return;
            }
            k -= 1;
            counters[k] += 1;
            from += outer[k].from;
            to += outer[k].to;
            if counters[k] < outer[k].n {
                break;
            }
            from -= outer[k].from * outer[k].n;
            to -= outer[k].to * outer[k].n;
            counters[k] = 0;
        }
    }
}
