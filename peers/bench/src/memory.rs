//! Memory that begins on a page.

use memmap2::MmapMut;

/// Zeroed memory that begins on a page.
///
/// On some processors the kernel copies a fifth as fast to an address that lies a few bytes further
/// into its page than the source does, which is where `malloc` puts large blocks. Buffers of `read`
/// are therefore the same in each run.
pub fn aligned(len: usize) -> MmapMut {
    // There is nobody here who could do without it.
    MmapMut::map_anon(len.max(1)).unwrap_or_else(|_| std::process::abort())
}
