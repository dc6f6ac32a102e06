use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// From this length on, check that the system has enough memory before allocating.
const PROBED: usize = 64 << 20;

/// Bytes held in memory at a time while a file is copied or sent piecewise: 1 MiB.
pub const COPY_PIECE: u64 = 1 << 20;

/// The bytes returned by a read. Memory from a [`BufferPool`] returns to it when the buffer is
/// dropped.
pub struct Buffer(Inner);

enum Inner {
    Pooled { memory: ReadBuffer, range: Range<usize>, pool: Arc<BufferPool> },
    Shared(Bytes),
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Inner::Pooled { memory, range, .. } => &memory.0[range.clone()],
            Inner::Shared(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

impl From<Bytes> for Buffer {
    fn from(bytes: Bytes) -> Self {
        Self(Inner::Shared(bytes))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Inner::Pooled { memory, pool, .. } = &mut self.0 {
            pool.give(std::mem::take(memory));
        }
    }
}

/// Reusable memory that files are read into.
///
/// The kernel copies into it from a page. On some processors such a copy takes five times as long
/// if source and destination have nearly the same offset within their pages, so bytes are placed at
/// exactly the same offset.
#[derive(Debug, Default)]
pub struct ReadBuffer(Vec<u8>);

/// The page size, or a divisor of it.
const PAGE: usize = 4096;

/// A copy is slow if the destination's offset within its page exceeds the source's by less than
/// this, but is not equal to it.
const NEARLY: usize = 64;

impl ReadBuffer {
    /// Room for `len` bytes that will be read from `offset` on. Their content before the read is
    /// unspecified.
    ///
    /// Allocates if there is not enough room; an error if there is no memory for it.
    pub fn room(&mut self, len: usize, offset: u64) -> io::Result<&mut [u8]> {
        let range = self.place(len, offset)?;
        Ok(&mut self.0[range])
    }

    /// Whether reading bytes from `offset` of a file into a buffer and copying them from there is
    /// faster than reading straight into `target`.
    pub fn is_better_than(target: &[u8], offset: u64) -> bool {
        let ahead = target.as_ptr().addr().wrapping_sub(in_page(offset)) % PAGE;
        (1..NEARLY).contains(&ahead)
    }

    /// Where bytes from `offset` on go, after making room for them.
    fn place(&mut self, len: usize, offset: u64) -> io::Result<Range<usize>> {
        let with_room = len.checked_add(PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        if self.0.len() < with_room {
            // Vec cannot allocate zeroed memory fallibly, so first try to reserve as much and
            // release it.
            if with_room >= PROBED {
                Vec::<u8>::new().try_reserve_exact(with_room)?;
            }
            // The old bytes are not worth copying, and the system hands out large allocations
            // already zeroed.
            self.0 = Vec::new();
            self.0 = vec![0; with_room];
        }
        let start = in_page(offset).wrapping_sub(self.0.as_ptr().addr()) % PAGE;
        Ok(start..start + len)
    }
}

fn in_page(offset: u64) -> usize {
    (offset % PAGE as u64) as usize
}

/// A pool of memory for reads.
///
/// The first touch of a fresh page costs as much as copying it several times, so a read goes into
/// previously used memory whenever there is some. Keeps at most `retain` bytes.
#[derive(Debug)]
pub struct BufferPool {
    retain: usize,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    buffers: Vec<ReadBuffer>,
    bytes: usize,
}

impl BufferPool {
    /// A pool that keeps up to `retain` bytes for reuse.
    pub fn new(retain: usize) -> Arc<Self> {
        Arc::new(Self { retain, free: Mutex::default() })
    }

    /// A buffer of `len` bytes, filled by `fill` with bytes from `offset` of a file. Its content
    /// before that is unspecified.
    ///
    /// A length that the system has no memory for is an error: a sparse file can claim any length
    /// at no cost.
    pub fn filled(
        self: &Arc<Self>,
        len: usize,
        offset: u64,
        fill: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Buffer> {
        let mut memory = self.take(len.saturating_add(PAGE)).unwrap_or_default();
        let range = memory.place(len, offset)?;
        let result = fill(&mut memory.0[range.clone()]);
        let buffer = Buffer(Inner::Pooled { memory, range, pool: Arc::clone(self) });
        result.map(|()| buffer)
    }

    /// The smallest pooled buffer that is large enough.
    fn take(&self, len: usize) -> Option<ReadBuffer> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = free.buffers.iter().enumerate().filter(|(_, b)| b.0.len() >= len);
        // A buffer much larger than needed is better kept for a read that needs it.
        let (i, _) =
            fitting.min_by_key(|(_, b)| b.0.len()).filter(|(_, b)| b.0.len() / 4 <= len)?;
        let memory = free.buffers.swap_remove(i);
        free.bytes -= memory.0.len();
        Some(memory)
    }

    fn give(&self, memory: ReadBuffer) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + memory.0.len() <= self.retain && free.buffers.len() < 64 {
            free.bytes += memory.0.len();
            free.buffers.push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill_with(byte: u8) -> impl FnOnce(&mut [u8]) -> io::Result<()> {
        move |buffer| {
            buffer.fill(byte);
            Ok(())
        }
    }

    #[test]
    fn memory_is_used_again_and_never_kept_past_the_limit() {
        let pool = BufferPool::new(20_000);
        let first = pool.filled(8_000, 0, fill_with(7)).unwrap();
        let address = first.as_ptr();
        drop(first);
        let second = pool.filled(7_000, 0, fill_with(9)).unwrap();
        assert_eq!(second.as_ptr(), address);
        assert_eq!(&*second, &[9; 7_000][..]);
        let third = pool.filled(9_000, 0, fill_with(1)).unwrap();
        drop(second);
        drop(third);
        assert_eq!(pool.free.lock().unwrap().bytes, 8_000 + PAGE);
    }

    #[test]
    fn bytes_have_the_same_place_in_memory_pages_as_in_the_file() {
        let pool = BufferPool::new(1 << 20);
        for offset in [0, 1, 16, 4095, 4096, 70_001, u64::MAX] {
            let buffer = pool.filled(10_000, offset, fill_with(3)).unwrap();
            assert_eq!(buffer.as_ptr().addr() % PAGE, in_page(offset));
            assert!(!ReadBuffer::is_better_than(&buffer, offset));
            assert!(!ReadBuffer::is_better_than(&buffer[64..], offset));
            assert!(ReadBuffer::is_better_than(&buffer[16..], offset));
            assert_eq!(&*buffer, &[3; 10_000][..]);
        }
    }

    #[test]
    fn a_length_that_no_machine_has_is_an_error() {
        let pool = BufferPool::new(0);
        for len in [isize::MAX as usize, usize::MAX] {
            let error = pool.filled(len, 0, |_| Ok(())).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        }
    }
}
