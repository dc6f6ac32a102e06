//! Cells that wait in a file until they are written.

use crate::GeometryError;
use crate::sort::{Spool, SpoolFile};

/// Bytes that are gathered before they go to the file.
const BUFFER: usize = 1 << 20;

/// A file that strings of bytes are added to.
pub(super) struct Growing {
    file: Box<dyn SpoolFile>,
    buffer: Vec<u8>,
    len: u64,
}

/// Where a string of bytes lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub at: u64,
    pub len: u64,
}

impl Growing {
    pub fn new(spool: &dyn Spool) -> Result<Self, GeometryError> {
        let file = spool.create().map_err(GeometryError::Spool)?;
        Ok(Self { file, buffer: Vec::new(), len: 0 })
    }

    pub fn add(&mut self, bytes: &[u8]) -> Result<Place, GeometryError> {
        let place = Place { at: self.len, len: bytes.len() as u64 };
        self.buffer.extend_from_slice(bytes);
        self.len += place.len;
        if self.buffer.len() >= BUFFER {
            self.flush()?;
        }
        Ok(place)
    }

    fn flush(&mut self) -> Result<(), GeometryError> {
        self.file.append(&self.buffer).map_err(GeometryError::Spool)?;
        self.buffer.clear();
        Ok(())
    }

    pub fn finish(mut self) -> Result<Finished, GeometryError> {
        self.flush()?;
        Ok(Finished(self.file))
    }
}

/// The file, complete.
pub(super) struct Finished(Box<dyn SpoolFile>);

impl Finished {
    /// Replaces the contents of `out`.
    pub fn read(&self, place: Place, out: &mut Vec<u8>) -> Result<(), GeometryError> {
        out.clear();
        // As many bytes as were added, so they fit into memory.
        out.resize(place.len as usize, 0);
        self.0.read_at(place.at, out).map_err(GeometryError::Spool)
    }
}

/// The cells of an array, in the order of their chunks.
#[derive(Debug, Default)]
pub(super) struct CellPlaces(Vec<(u128, Place)>);

impl CellPlaces {
    /// Adds the cell of a chunk that comes after all others.
    pub fn push(&mut self, chunk: u128, place: Place) {
        self.0.push((chunk, place));
    }

    /// Adds a chunk whose cell is made elsewhere, and is empty here. [`sort`](Self::sort) comes after.
    pub fn list(&mut self, chunk: u128) {
        self.push(chunk, Place { at: 0, len: 0 });
    }

    /// Puts chunks in order again, each of them once.
    pub fn sort(&mut self) {
        self.0.sort_unstable_by_key(|(chunk, _)| *chunk);
        self.0.dedup_by_key(|(chunk, _)| *chunk);
    }

    pub fn keys(&self) -> impl Iterator<Item = u128> + '_ {
        self.0.iter().map(|(chunk, _)| *chunk)
    }

    pub fn find(&self, chunk: u128) -> Option<Place> {
        let at = self.0.binary_search_by_key(&chunk, |(key, _)| *key).ok()?;
        self.0.get(at).map(|(_, place)| *place)
    }
}
