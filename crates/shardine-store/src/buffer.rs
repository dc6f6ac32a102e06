use std::fmt;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// From this length on, [`BufferPool::try_filled`] asks the system first.
const PROBED: usize = 64 << 20;

/// Bytes that a read brought. Memory from a [`BufferPool`] goes back to it when the buffer is dropped.
pub struct Buffer(Inner);

enum Inner {
    Pooled { memory: Vec<u8>, len: usize, pool: Arc<BufferPool> },
    Shared(Bytes),
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Inner::Pooled { memory, len, .. } => &memory[..*len],
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

/// Memory for reads, kept for the next one.
///
/// The first touch of a fresh page costs as much as copying it several times, so a read goes into memory that
/// has been used before whenever there is any. Keeps at most `retain` bytes.
#[derive(Debug)]
pub struct BufferPool {
    retain: usize,
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    /// A pool that keeps up to `retain` bytes for later.
    pub fn new(retain: usize) -> Arc<Self> {
        Arc::new(Self { retain, free: Mutex::default() })
    }

    /// A buffer of `len` bytes, filled by `fill`. Its content before that is unspecified.
    pub fn filled<E>(
        self: &Arc<Self>,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Buffer, E> {
        // A buffer keeps its full length while it is in the pool, so only a new one is zeroed, and the
        // system hands out large ones as zeros already.
        let mut memory = self.take(len).unwrap_or_else(|| vec![0; len]);
        let result = fill(&mut memory[..len]);
        let buffer = Buffer(Inner::Pooled { memory, len, pool: Arc::clone(self) });
        result.map(|()| buffer)
    }

    /// The same as [`filled`](Self::filled), but a length that the system has no memory for is an error.
    ///
    /// For lengths that somebody else chose: a sparse file claims any length at no cost.
    pub fn try_filled(
        self: &Arc<Self>,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Buffer> {
        // Vec has no fallible way to zeroed memory, so the reservation is tried and given back first.
        if len >= PROBED {
            Vec::<u8>::new().try_reserve_exact(len)?;
        }
        self.filled(len, fill)
    }

    /// The smallest kept buffer that is large enough.
    fn take(&self, len: usize) -> Option<Vec<u8>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = free.buffers.iter().enumerate().filter(|(_, b)| b.len() >= len);
        // A buffer far larger than needed is better kept for a read that needs it.
        let (i, _) =
            fitting.min_by_key(|(_, b)| b.len()).filter(|(_, b)| b.len() / 4 <= len.max(4096))?;
        let memory = free.buffers.swap_remove(i);
        free.bytes -= memory.len();
        Some(memory)
    }

    fn give(&self, memory: Vec<u8>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + memory.len() <= self.retain && free.buffers.len() < 64 {
            free.bytes += memory.len();
            free.buffers.push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill_with(byte: u8) -> impl FnOnce(&mut [u8]) -> Result<(), ()> {
        move |buffer| {
            buffer.fill(byte);
            Ok(())
        }
    }

    #[test]
    fn memory_is_used_again_and_never_kept_past_the_limit() {
        let pool = BufferPool::new(10_000);
        let first = pool.filled(8_000, fill_with(7)).unwrap();
        let address = first.as_ptr();
        drop(first);
        let second = pool.filled(7_000, fill_with(9)).unwrap();
        assert_eq!(second.as_ptr(), address);
        assert_eq!(&*second, &[9; 7_000][..]);
        let third = pool.filled(9_000, fill_with(1)).unwrap();
        drop(second);
        drop(third);
        assert_eq!(pool.free.lock().unwrap().bytes, 8_000);
    }

    #[test]
    fn a_length_that_no_machine_has_is_an_error() {
        let pool = BufferPool::new(0);
        let error = pool.try_filled(isize::MAX as usize, |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
