//! Ordinary and streaming stores.

/// Which kind of stores a copy uses.
///
/// Either way the same bytes are in memory when the copy returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stores {
    /// Ordinary stores. Each line of the target is read into the cache before it is changed.
    #[default]
    Cached,
    /// Stores that bypass the cache wherever a copy produces whole lines of the target: they
    /// neither read the target first nor evict anything else from the cache.
    ///
    /// For targets that are larger than the cache and not read again soon. A copy falls back to
    /// ordinary stores where lines are not whole (so a large target should start at a multiple of
    /// 64 bytes), where streaming would be slower, and on machines other than x86-64.
    Streaming,
}

/// Bytes of a cache line: the unit of memory transfers.
pub(super) const LINE: usize = 64;

/// Lines whose distances are all multiples of this share a memory channel. A burst of streaming
/// stores waits for it, while the cache writes back at leisure.
const CHANNEL: usize = 512;

/// Rows at least this long are streamed even if their ends lie inside lines.
const LONG: usize = 1024;

/// Whether streaming pays off for rows of `row` bytes that start at `target` and at these distances
/// from each other.
pub(super) fn streams(
    target: *const u8,
    row: usize,
    mut distances: impl Iterator<Item = usize> + Clone,
) -> bool {
    if !cfg!(target_arch = "x86_64") {
        return false;
    }
    let whole = row.is_multiple_of(LINE)
        && target.addr().is_multiple_of(LINE)
        && distances.clone().all(|d| d.is_multiple_of(LINE));
    row >= LONG || (whole && (row > LINE || !distances.all(|d| d.is_multiple_of(CHANNEL))))
}

/// A way to store rows of bytes.
pub(super) trait Put {
    /// Whether lines bypass the cache.
    const STREAMS: bool;

    /// Bytes of transposed lines worth collecting before they are stored.
    const STAGE: usize;

    /// Copies `N` bytes.
    ///
    /// # Safety
    /// `N` bytes must be readable at `source` and writable at `target`, and not overlap. To be
    /// streamed, `target` and `N` must be multiples of [`LINE`].
    unsafe fn put<const N: usize>(source: *const u8, target: *mut u8);

    /// Copies `len` bytes between any addresses.
    ///
    /// # Safety
    /// `len` bytes must be readable at `source` and writable at `target`, and not overlap.
    unsafe fn row(source: *const u8, target: *mut u8, len: usize);

    /// Orders everything stored so far before anything the thread stores from now on.
    fn finish();
}

/// Ordinary stores.
pub(super) struct Cached;

impl Put for Cached {
    const STREAMS: bool = false;
    const STAGE: usize = 32 << 10;

    #[inline(always)]
    unsafe fn put<const N: usize>(source: *const u8, target: *mut u8) {
        // SAFETY: by contract; arrays of bytes need no alignment.
        unsafe { *target.cast::<[u8; N]>() = *source.cast::<[u8; N]>() }
    }

    #[inline(always)]
    unsafe fn row(source: *const u8, target: *mut u8, len: usize) {
        // SAFETY: by contract.
        unsafe { std::ptr::copy_nonoverlapping(source, target, len) }
    }

    fn finish() {}
}

/// Streaming stores.
#[cfg(target_arch = "x86_64")]
pub(super) struct Streaming;

#[cfg(not(target_arch = "x86_64"))]
pub(super) use Cached as Streaming;

#[cfg(target_arch = "x86_64")]
impl Put for Streaming {
    const STREAMS: bool = true;
    const STAGE: usize = 16 << 10;

    #[inline(always)]
    unsafe fn put<const N: usize>(source: *const u8, target: *mut u8) {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
        debug_assert!(N.is_multiple_of(LINE) && target.addr().is_multiple_of(LINE));
        for i in (0..N).step_by(16) {
            // SAFETY: SSE2 is part of x86-64; inside the `N` bytes, and aligned, by contract.
            unsafe {
                _mm_stream_si128(target.add(i).cast(), _mm_loadu_si128(source.add(i).cast()));
            }
        }
    }

    #[inline(always)]
    unsafe fn row(source: *const u8, target: *mut u8, len: usize) {
        let head = (target.addr().wrapping_neg() % LINE).min(len);
        let lines = (len - head) / LINE;
        let tail = head + lines * LINE;
        // SAFETY: three pieces that make up the `len` bytes; the middle one starts on a line.
        unsafe {
            std::ptr::copy_nonoverlapping(source, target, head);
            for at in (head..tail).step_by(LINE) {
                Self::put::<LINE>(source.add(at), target.add(at));
            }
            std::ptr::copy_nonoverlapping(source.add(tail), target.add(tail), len - tail);
        }
    }

    /// Streaming stores are exempt from the order in which other cores see this one's stores:
    /// whatever the caller does next to signal that the box is filled (unlocking, or setting a
    /// flag) could become visible before the bytes. The fence restores the order that every release
    /// operation assumes.
    fn finish() {
        // SAFETY: SSE is part of x86-64.
        unsafe { std::arch::x86_64::_mm_sfence() }
    }
}
