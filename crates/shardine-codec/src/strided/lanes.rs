//! Small blocks of elements, transposed in registers.
//!
//! A kernel reads rows of a few elements and writes each of their columns as one full register.
//! Interleaving the first half of `N` registers of `N` lanes with the second half moves one bit of
//! an element's row number to its column number; after log2(N) rounds the two are swapped. 32-byte
//! registers do this to two blocks in parallel, one below the other.

/// A set of kernels for elements of 1, 2, 4 and 8 bytes.
pub(super) trait Kernels {
    /// Bytes of one register: a kernel reads as many rows as elements fit in it.
    const BYTES: usize;

    /// Transposes one block of elements of `SIZE` bytes, which must be 1, 2, 4 or 8.
    ///
    /// # Safety
    /// The machine must have the instructions of these kernels. `BYTES / SIZE` rows of
    /// [`columns(SIZE)`](columns) elements must be readable, `from` bytes apart, and as many rows
    /// as there are columns must be writable, `BYTES` long and `to` bytes apart.
    unsafe fn transpose<const SIZE: usize>(
        source: *const u8,
        from: usize,
        target: *mut u8,
        to: usize,
    );
}

/// How many elements a kernel reads of each source row.
///
/// Sixteen registers of bytes plus what it takes to interleave them do not fit in the register
/// file, so bytes are processed eight columns at a time.
pub(super) const fn columns(size: usize) -> usize {
    if size == 1 { 8 } else { 16 / size }
}

/// How many source rows the narrowest kernel reads.
pub(super) const fn rows(size: usize) -> usize {
    Narrow::BYTES / size
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{Narrow, Wide};

#[cfg(not(target_arch = "x86_64"))]
pub(super) use Portable as Narrow;

/// Kernels that move element by element, for machines without kernels of their own.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) struct Portable;

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Kernels for Portable {
    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn transpose<const SIZE: usize>(
        source: *const u8,
        from: usize,
        target: *mut u8,
        to: usize,
    ) {
        for j in 0..Self::BYTES / SIZE {
            for i in 0..columns(SIZE) {
                // SAFETY: element `i` of source row `j` and element `j` of target row `i`, by
                // contract; arrays of bytes need no alignment.
                unsafe {
                    let element = *source.add(j * from + i * SIZE).cast::<[u8; SIZE]>();
                    *target.add(i * to + j * SIZE).cast::<[u8; SIZE]>() = element;
                }
            }
        }
    }
}

// No closures here: code is compiled for AVX2 only once it is inlined into a function with that
// feature, which is guaranteed for functions marked so.
#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::*;

    use super::Kernels;

    /// Kernels with the instructions that every x86-64 has.
    pub(in super::super) struct Narrow;

    impl Kernels for Narrow {
        const BYTES: usize = 16;

        #[inline(always)]
        unsafe fn transpose<const SIZE: usize>(
            source: *const u8,
            from: usize,
            target: *mut u8,
            to: usize,
        ) {
            // SAFETY: upheld by the caller.
            unsafe { transpose::<__m128i, SIZE>(source, from, target, to) }
        }
    }

    /// Kernels with the instructions of AVX2.
    pub(in super::super) struct Wide;

    impl Kernels for Wide {
        const BYTES: usize = 32;

        #[inline(always)]
        unsafe fn transpose<const SIZE: usize>(
            source: *const u8,
            from: usize,
            target: *mut u8,
            to: usize,
        ) {
            // SAFETY: upheld by the caller.
            unsafe { transpose::<__m256i, SIZE>(source, from, target, to) }
        }
    }

    /// A register and its instructions.
    ///
    /// # Safety
    /// All methods require a machine with these instructions, and pointers that are valid for what
    /// the method says it reads or writes there; no alignment is required.
    trait Register: Copy {
        /// Reads 16 bytes; if the register has room for more, also those `distance` bytes on.
        unsafe fn row(source: *const u8, distance: usize) -> Self;
        /// The same with 8 bytes, which go to the low half of every 16.
        unsafe fn half_row(source: *const u8, distance: usize) -> Self;
        /// Writes the whole register.
        unsafe fn store(self, target: *mut u8);
        /// Interleaves lanes of `SIZE` bytes from the low halves of every 16 bytes.
        unsafe fn low<const SIZE: usize>(self, other: Self) -> Self;
        /// The same with the high halves.
        unsafe fn high<const SIZE: usize>(self, other: Self) -> Self;
    }

    /// # Safety
    /// As for [`Kernels::transpose`].
    #[inline(always)]
    unsafe fn transpose<R: Register, const SIZE: usize>(
        source: *const u8,
        from: usize,
        target: *mut u8,
        to: usize,
    ) {
        // The rows of the lower block start where those of the upper one end.
        let distance = 16 / SIZE * from;
        // SAFETY: row numbers stay below 16 / SIZE, which is what is readable twice over if the
        // register has room for two rows; of the rows, 8 bytes are read if elements are bytes and
        // 16 otherwise.
        unsafe {
            match SIZE {
                1 => {
                    // Interleaving the bytes of two rows leaves columns of byte pairs: words.
                    let mut rows = [R::half_row(source, distance); 8];
                    for (i, row) in rows.iter_mut().enumerate() {
                        let even = R::half_row(source.add(2 * i * from), distance);
                        let odd = R::half_row(source.add((2 * i + 1) * from), distance);
                        *row = even.low::<1>(odd);
                    }
                    network::<R, 8, 2>(rows, target, to);
                }
                2 => network::<R, 8, 2>(load(source, from, distance), target, to),
                4 => network::<R, 4, 4>(load(source, from, distance), target, to),
                _ => network::<R, 2, 8>(load(source, from, distance), target, to),
            }
        }
    }

    /// # Safety
    /// `N` rows of 16 bytes, `from` bytes apart, must be readable at `source`, and as many
    /// `distance` bytes on if the register has room for them.
    #[inline(always)]
    unsafe fn load<R: Register, const N: usize>(
        source: *const u8,
        from: usize,
        distance: usize,
    ) -> [R; N] {
        // SAFETY: row `i` of the `N`, by contract.
        unsafe {
            let mut rows = [R::row(source, distance); N];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = R::row(source.add(i * from), distance);
            }
            rows
        }
    }

    /// Transposes `N` registers of lanes of `SIZE` bytes, `N` in every 16 bytes, and stores them.
    ///
    /// # Safety
    /// `N` rows as long as the register, `to` bytes apart, must be writable at `target`.
    #[inline(always)]
    unsafe fn network<R: Register, const N: usize, const SIZE: usize>(
        mut rows: [R; N],
        target: *mut u8,
        to: usize,
    ) {
        // SAFETY: row `i` of the `N`, by contract.
        unsafe {
            for _ in 0..N.ilog2() {
                let mut next = rows;
                for i in 0..N / 2 {
                    next[2 * i] = rows[i].low::<SIZE>(rows[i + N / 2]);
                    next[2 * i + 1] = rows[i].high::<SIZE>(rows[i + N / 2]);
                }
                rows = next;
            }
            for (i, row) in rows.into_iter().enumerate() {
                row.store(target.add(i * to));
            }
        }
    }

    impl Register for __m128i {
        #[inline(always)]
        unsafe fn row(source: *const u8, _: usize) -> Self {
            // SAFETY: by contract, here and in all methods below.
            unsafe { _mm_loadu_si128(source.cast()) }
        }

        #[inline(always)]
        unsafe fn half_row(source: *const u8, _: usize) -> Self {
            // SAFETY: as above.
            unsafe { _mm_loadl_epi64(source.cast()) }
        }

        #[inline(always)]
        unsafe fn store(self, target: *mut u8) {
            // SAFETY: as above.
            unsafe { _mm_storeu_si128(target.cast(), self) }
        }

        #[inline(always)]
        unsafe fn low<const SIZE: usize>(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                match SIZE {
                    1 => _mm_unpacklo_epi8(self, other),
                    2 => _mm_unpacklo_epi16(self, other),
                    4 => _mm_unpacklo_epi32(self, other),
                    _ => _mm_unpacklo_epi64(self, other),
                }
            }
        }

        #[inline(always)]
        unsafe fn high<const SIZE: usize>(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                match SIZE {
                    1 => _mm_unpackhi_epi8(self, other),
                    2 => _mm_unpackhi_epi16(self, other),
                    4 => _mm_unpackhi_epi32(self, other),
                    _ => _mm_unpackhi_epi64(self, other),
                }
            }
        }
    }

    impl Register for __m256i {
        #[inline(always)]
        unsafe fn row(source: *const u8, distance: usize) -> Self {
            // SAFETY: by contract, here and in all methods below.
            unsafe {
                let (upper, lower) =
                    (__m128i::row(source, 0), __m128i::row(source.add(distance), 0));
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(upper), lower)
            }
        }

        #[inline(always)]
        unsafe fn half_row(source: *const u8, distance: usize) -> Self {
            // SAFETY: as above.
            unsafe {
                let (upper, lower) =
                    (__m128i::half_row(source, 0), __m128i::half_row(source.add(distance), 0));
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(upper), lower)
            }
        }

        #[inline(always)]
        unsafe fn store(self, target: *mut u8) {
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(target.cast(), self) }
        }

        #[inline(always)]
        unsafe fn low<const SIZE: usize>(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                match SIZE {
                    1 => _mm256_unpacklo_epi8(self, other),
                    2 => _mm256_unpacklo_epi16(self, other),
                    4 => _mm256_unpacklo_epi32(self, other),
                    _ => _mm256_unpacklo_epi64(self, other),
                }
            }
        }

        #[inline(always)]
        unsafe fn high<const SIZE: usize>(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                match SIZE {
                    1 => _mm256_unpackhi_epi8(self, other),
                    2 => _mm256_unpackhi_epi16(self, other),
                    4 => _mm256_unpackhi_epi32(self, other),
                    _ => _mm256_unpackhi_epi64(self, other),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: Kernels, const SIZE: usize>() {
        let (from, to) = (70, 50);
        let source: Vec<u8> = (0..32 * from).map(|i| (i * 7 + i / 70) as u8).collect();
        let mut fast = vec![0xEE; 16 * to];
        let mut plain = fast.clone();
        // SAFETY: at most 32 rows of 16 bytes, 70 apart, and at most 16 of 32 bytes, 50 apart.
        unsafe {
            K::transpose::<SIZE>(source.as_ptr(), from, fast.as_mut_ptr(), to);
            for at in (0..K::BYTES).step_by(Portable::BYTES) {
                let source = source.as_ptr().add(at / SIZE * from);
                Portable::transpose::<SIZE>(source, from, plain.as_mut_ptr().add(at), to);
            }
        }
        assert_eq!(fast, plain, "{SIZE}");
        assert_eq!(plain[..SIZE], source[..SIZE]);
        assert_eq!(plain[SIZE..2 * SIZE], source[from..][..SIZE]);
        assert_eq!(plain[to..][..SIZE], source[SIZE..][..SIZE]);
    }

    fn check_sizes<K: Kernels>() {
        check::<K, 1>();
        check::<K, 2>();
        check::<K, 4>();
        check::<K, 8>();
    }

    #[test]
    fn a_block_in_registers_is_the_block_element_by_element() {
        check_sizes::<Narrow>();
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            check_sizes::<Wide>();
        }
    }
}
