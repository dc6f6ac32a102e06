//! Bytes that are written once and read anywhere, in memory as long as there is room.

use crate::GeometryError;
use crate::sort::{Spool, SpoolFile};

/// Bytes moved to a file at a time.
const FLUSHED: usize = 1 << 20;

/// Bytes in the order in which they came.
pub(super) struct ByteStore {
    /// What is not in the file: all, or the end.
    tail: Vec<u8>,
    file: Option<Box<dyn SpoolFile>>,
    in_file: u64,
    memory: usize,
}

impl ByteStore {
    /// Keeps up to `memory` bytes in memory, and from then on all but some in a file.
    pub fn new(memory: u64) -> Self {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX).max(FLUSHED);
        Self { tail: Vec::new(), file: None, in_file: 0, memory }
    }

    pub fn len(&self) -> u64 {
        self.in_file + self.tail.len() as u64
    }

    pub fn append(&mut self, bytes: &[u8], spool: &dyn Spool) -> Result<(), GeometryError> {
        let full = match &self.file {
            Some(_) => self.tail.len() >= FLUSHED,
            None => self.tail.len().saturating_add(bytes.len()) > self.memory,
        };
        if full {
            self.flush(spool)?;
        }
        self.tail.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self, spool: &dyn Spool) -> Result<(), GeometryError> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(spool.create().map_err(GeometryError::Spool)?),
        };
        file.append(&self.tail).map_err(GeometryError::Spool)?;
        self.in_file += self.tail.len() as u64;
        self.tail.clear();
        self.tail.shrink_to(2 * FLUSHED);
        Ok(())
    }

    /// Replaces the contents of `out` with `len` bytes from `offset` on.
    pub fn read(&self, offset: u64, len: u64, out: &mut Vec<u8>) -> Result<(), GeometryError> {
        let missing = || GeometryError::Spool(std::io::ErrorKind::UnexpectedEof.into());
        let end = offset.checked_add(len).filter(|end| *end <= self.len()).ok_or_else(missing)?;
        out.clear();
        if offset < self.in_file {
            let file = self.file.as_ref().ok_or_else(missing)?;
            let len = end.min(self.in_file) - offset;
            out.resize(usize::try_from(len).map_err(|_| missing())?, 0);
            file.read_at(offset, out).map_err(GeometryError::Spool)?;
        }
        if end > self.in_file {
            let start = offset.saturating_sub(self.in_file) as usize;
            out.extend_from_slice(&self.tail[start..(end - self.in_file) as usize]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sort::tests_spool::CountingSpool;

    #[test]
    fn bytes_are_read_where_they_were_written() {
        let spool = CountingSpool::default();
        let mut store = ByteStore::new(0);
        let bytes: Vec<u8> = (0..5_000_000u32).map(|n| (n / 7) as u8).collect();
        for piece in bytes.chunks(77_777) {
            store.append(piece, &spool).unwrap();
        }
        assert_eq!((store.len(), spool.files()), (bytes.len() as u64, 1));
        let mut out = vec![9];
        for (start, end) in [(0, 10), (4_000_000, 5_000_000), (4_999_990, 5_000_000), (7, 7)] {
            store.read(start as u64, (end - start) as u64, &mut out).unwrap();
            assert_eq!(out, bytes[start..end], "{start}..{end}");
        }
        assert!(store.read(4_999_999, 2, &mut out).is_err());
        assert!(store.read(u64::MAX, 2, &mut out).is_err());
    }
}
