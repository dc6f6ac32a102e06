//! Small blocks of elements, transposed in registers.
//!
//! A kernel reads [`rows`] rows of [`columns`] elements and writes [`columns`] rows of [`rows`]
//! elements, so that each row it writes fills one register of 16 bytes. Interleaving the first half
//! of `N` registers of `N` lanes with the second half moves one bit of an element's row number over
//! to its column number; after log2(N) rounds the two numbers have changed places.

/// Bytes of one register.
const REGISTER: usize = 16;

/// How many source rows a kernel reads: the elements that fill one register of the target.
pub(super) const fn rows(size: usize) -> usize {
    REGISTER / size
}

/// How many elements a kernel reads of each source row.
///
/// Sixteen registers of bytes and what it takes to interleave them do not fit in the register file,
/// so bytes are taken eight columns at a time.
pub(super) const fn columns(size: usize) -> usize {
    if size == 1 { 8 } else { rows(size) }
}

#[cfg(target_arch = "x86_64")]
pub(super) use sse2::transpose;

#[cfg(not(target_arch = "x86_64"))]
pub(super) use portable::transpose;

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_loadl_epi64, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi16,
        _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi8, _mm_unpacklo_epi16,
        _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };
    use std::array::from_fn;

    /// Transposes one block of elements of `SIZE` bytes, which must be 1, 2, 4 or 8.
    ///
    /// # Safety
    /// `rows(SIZE)` rows of `columns(SIZE)` elements must be readable, `from` bytes apart, and as many
    /// rows as there are columns must be writable, 16 bytes each and `to` bytes apart.
    #[inline(always)]
    pub(in super::super) unsafe fn transpose<const SIZE: usize>(
        source: *const u8,
        from: usize,
        target: *mut u8,
        to: usize,
    ) {
        // SAFETY: SSE2 is part of x86-64. Row `i < rows(SIZE)` is read at its start, 8 bytes of it where
        // elements are bytes and 16 otherwise, which is `columns(SIZE)` elements; neither load needs
        // alignment.
        unsafe {
            let row = |i: usize| _mm_loadu_si128(source.add(i * from).cast());
            let half_row = |i: usize| _mm_loadl_epi64(source.add(i * from).cast());
            match SIZE {
                // Interleaving the bytes of two rows leaves columns of byte pairs: words.
                1 => {
                    let pair = |i| _mm_unpacklo_epi8(half_row(2 * i), half_row(2 * i + 1));
                    store(words(from_fn(pair)), target, to);
                }
                2 => store(words(from_fn(row)), target, to),
                4 => store(
                    network::<4>(
                        from_fn(row),
                        |a, b| _mm_unpacklo_epi32(a, b),
                        |a, b| _mm_unpackhi_epi32(a, b),
                    ),
                    target,
                    to,
                ),
                _ => store(
                    network::<2>(
                        from_fn(row),
                        |a, b| _mm_unpacklo_epi64(a, b),
                        |a, b| _mm_unpackhi_epi64(a, b),
                    ),
                    target,
                    to,
                ),
            }
        }
    }

    #[inline(always)]
    fn words(rows: [__m128i; 8]) -> [__m128i; 8] {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { network(rows, |a, b| _mm_unpacklo_epi16(a, b), |a, b| _mm_unpackhi_epi16(a, b)) }
    }

    /// Transposes `N` registers of `N` lanes; `low` and `high` interleave the halves of two of them.
    #[inline(always)]
    fn network<const N: usize>(
        mut rows: [__m128i; N],
        low: impl Fn(__m128i, __m128i) -> __m128i,
        high: impl Fn(__m128i, __m128i) -> __m128i,
    ) -> [__m128i; N] {
        for _ in 0..N.ilog2() {
            let mut next = rows;
            for i in 0..N / 2 {
                next[2 * i] = low(rows[i], rows[i + N / 2]);
                next[2 * i + 1] = high(rows[i], rows[i + N / 2]);
            }
            rows = next;
        }
        rows
    }

    /// # Safety
    /// `N` rows of 16 bytes, `to` bytes apart, must be writable.
    #[inline(always)]
    unsafe fn store<const N: usize>(rows: [__m128i; N], target: *mut u8, to: usize) {
        for (i, row) in rows.into_iter().enumerate() {
            // SAFETY: row `i` of the `N`, by contract; the store needs no alignment.
            unsafe { _mm_storeu_si128(target.add(i * to).cast(), row) };
        }
    }
}

/// The same, element by element, for machines without a kernel of their own.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::{columns, rows};

    /// Transposes one block of elements of `SIZE` bytes.
    ///
    /// # Safety
    /// As for the kernel of x86-64.
    #[inline(always)]
    pub(in super::super) unsafe fn transpose<const SIZE: usize>(
        source: *const u8,
        from: usize,
        target: *mut u8,
        to: usize,
    ) {
        for j in 0..rows(SIZE) {
            for i in 0..columns(SIZE) {
                // SAFETY: element `i` of source row `j` and element `j` of target row `i`, by contract.
                unsafe {
                    let element = source.add(j * from + i * SIZE).cast::<[u8; SIZE]>().read();
                    target.add(i * to + j * SIZE).cast::<[u8; SIZE]>().write(element);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const SIZE: usize>() {
        let (from, to) = (70, 50);
        let source: Vec<u8> = (0..16 * from).map(|i| (i * 7 + i / 70) as u8).collect();
        let mut fast = vec![0xEE; 16 * to];
        let mut plain = fast.clone();
        // SAFETY: at most 16 rows of 16 bytes, at most 70 apart in the source and 50 in the targets.
        unsafe {
            transpose::<SIZE>(source.as_ptr(), from, fast.as_mut_ptr(), to);
            portable::transpose::<SIZE>(source.as_ptr(), from, plain.as_mut_ptr(), to);
        }
        assert_eq!(fast, plain, "{SIZE}");
        assert_eq!(plain[..SIZE], source[..SIZE]);
        assert_eq!(plain[SIZE..2 * SIZE], source[from..][..SIZE]);
        assert_eq!(plain[to..][..SIZE], source[SIZE..][..SIZE]);
    }

    #[test]
    fn a_block_in_registers_is_the_block_element_by_element() {
        check::<1>();
        check::<2>();
        check::<4>();
        check::<8>();
    }
}
