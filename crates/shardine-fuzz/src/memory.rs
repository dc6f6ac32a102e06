//! Catches allocations whose size follows a number in the input rather than the input's size.
//!
//! libFuzzer sees such an allocation only under a sanitizer, or when its pages are touched. This
//! allocator counts what all threads request: a target has the process to itself.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

static LIVE: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    if bytes > 0 {
        PEAK.fetch_max(live, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: upheld by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: upheld by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: upheld by the caller.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The old and new blocks may briefly exist together.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: upheld by the caller.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Runs `f` and panics if its memory ever exceeds that at its start by more than `limit` bytes.
pub fn bounded<T>(limit: usize, f: impl FnOnce() -> T) -> T {
    let start = LIVE.load(Relaxed);
    PEAK.store(start, Relaxed);
    let result = f();
    let used = PEAK.load(Relaxed) - start;
    assert!(used <= limit as isize, "took {used} bytes where {limit} should do");
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_past_the_bound_is_caught() {
        bounded(2000, || drop(std::hint::black_box(vec![1u8; 1000])));
        let caught = std::panic::catch_unwind(|| {
            bounded(2000, || drop(std::hint::black_box(Vec::<u8>::with_capacity(5000))));
        });
        assert!(caught.is_err());
    }
}
