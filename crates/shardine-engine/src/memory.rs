//! Memory for results.

use bytemuck::Pod;

use crate::tuning::HUGE;

/// Zeroed memory for `len` elements; `None` if the allocation fails.
///
/// A result is written once, which is also the first touch of each of its pages. With 4 KiB pages
/// that costs the kernel more than the elements cost us, so large results request 2 MiB pages if
/// `huge` is set.
pub fn zeroed<T: Pod>(len: usize, huge: bool) -> Option<Vec<T>> {
    // Fresh pages from the allocator are already zero, so they are not touched twice.
    let mut memory = bytemuck::try_zeroed_vec(len).ok()?;
    let bytes = bytemuck::cast_slice_mut(&mut memory);
    if huge && bytes.len() >= HUGE {
        advise_huge(bytes);
    }
    Some(memory)
}

#[cfg(target_os = "linux")]
fn advise_huge(memory: &mut [u8]) {
    use nix::sys::mman::{MmapAdvise, madvise};
    use std::ptr::NonNull;

    /// The kernel requires a multiple of the page size, which is 4 KiB to 64 KiB.
    const PAGE: usize = 64 << 10;

    let start = memory.as_ptr().align_offset(PAGE).min(memory.len());
    let rest = &mut memory[start..];
    let len = rest.len() / PAGE * PAGE;
    if let Some(start) = NonNull::new(rest.as_mut_ptr()) {
        // SAFETY: these pages lie within the exclusively borrowed slice, and the advice does not
        // change their content. A kernel that does not support it returns an error, and nothing is
        // lost.
        let _ = unsafe { madvise(start.cast(), len, MmapAdvise::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge(_: &mut [u8]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_whatever_its_length() {
        for len in [0, 1, 4095, HUGE - 1, HUGE, 3 * HUGE + 77] {
            let mut memory = zeroed::<u8>(len, true).unwrap();
            assert!(memory.len() == len && memory.iter().all(|&byte| byte == 0), "{len}");
            memory.fill(1);
            let mut memory = zeroed::<u64>(len / 8, true).unwrap();
            assert!(memory.len() == len / 8 && memory.iter().all(|&word| word == 0), "{len}");
            memory.fill(1);
        }
        assert!(zeroed::<u8>(isize::MAX as usize, true).is_none());
        assert!(zeroed::<u64>(isize::MAX as usize, true).is_none());
        assert!(zeroed::<u64>(usize::MAX, true).is_none());
    }
}
