//! Where sorted rows wait that memory has no room for.

use std::io;

/// Makes files for rows that memory has no room for.
pub trait Spool: Send + Sync {
    /// An empty file that is gone when it is dropped or when the process ends, in whatever way.
    fn create(&self) -> io::Result<Box<dyn SpoolFile>>;
}

/// A file that is written from its beginning to its end and read anywhere.
pub trait SpoolFile: Send + Sync {
    /// Adds bytes at the end.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Fills `out` with the bytes from `offset` on. Fewer are an error.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Files in memory.
    #[derive(Debug)]
    pub(crate) struct CountingSpool {
        files: AtomicUsize,
        most: usize,
    }

    impl Default for CountingSpool {
        fn default() -> Self {
            Self::failing_after(usize::MAX)
        }
    }

    impl CountingSpool {
        pub(crate) fn failing_after(most: usize) -> Self {
            Self { files: AtomicUsize::new(0), most }
        }

        pub(crate) fn files(&self) -> usize {
            self.files.load(Ordering::Relaxed)
        }
    }

    impl Spool for CountingSpool {
        fn create(&self) -> io::Result<Box<dyn SpoolFile>> {
            match self.files.fetch_add(1, Ordering::Relaxed) < self.most {
                true => Ok(Box::new(InMemory(Vec::new()))),
                false => Err(io::Error::from(io::ErrorKind::StorageFull)),
            }
        }
    }

    struct InMemory(Vec<u8>);

    impl SpoolFile for InMemory {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.extend_from_slice(bytes);
            Ok(())
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let start = usize::try_from(offset).unwrap();
            out.copy_from_slice(&self.0[start..start + out.len()]);
            Ok(())
        }
    }
}
