//! A shard that a floor writes from its beginning to its end.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::Result;
use crate::block::{Block, Triple, each, index, product};

/// A shard that grows at its end, with the index behind the chunks.
pub struct Growing {
    file: File,
    end: AtomicU64,
    /// Chunks that are still to come.
    missing: AtomicUsize,
    /// Offset and length of each chunk.
    entries: Vec<[AtomicU64; 2]>,
    /// Chunks along each axis.
    grid: Triple,
}

impl Growing {
    /// The shard at a cell of an array of this shape, whose folder is `array`.
    pub fn create(
        array: &Path,
        cell: Triple,
        shape: Triple,
        shard: Triple,
        chunk: u64,
    ) -> Result<Self> {
        let folder = array.join(format!("c/{}/{}", cell[0], cell[1]));
        fs::create_dir_all(&folder)?;
        let start = each(|axis| cell[axis] * shard[axis]);
        let inside = Block { start, shape: each(|k| shard[k].min(shape[k] - start[k])) };
        let missing = product(inside.cells([chunk; 3]).shape);
        let grid = shard.map(|n| n / chunk);
        let absent = || [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)];
        Ok(Self {
            file: File::create_new(folder.join(cell[2].to_string()))?,
            end: AtomicU64::new(0),
            missing: AtomicUsize::new(missing),
            entries: (0..product(grid)).map(|_| absent()).collect(),
            grid,
        })
    }

    /// Writes a chunk at its place in the shard; after the last one the index.
    pub fn add(&self, inside: Triple, encoded: &[u8]) -> Result {
        let offset = self.end.fetch_add(encoded.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(encoded, offset)?;
        let entry = &self.entries[index(inside, self.grid)];
        entry[0].store(offset, Ordering::Relaxed);
        entry[1].store(encoded.len() as u64, Ordering::Relaxed);
        // Whoever takes the last one sees what all the others have stored.
        if self.missing.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Ok(());
        }
        let mut bytes: Vec<u8> = Vec::with_capacity(self.entries.len() * 16 + 4);
        for number in self.entries.iter().flatten() {
            bytes.extend_from_slice(&number.load(Ordering::Relaxed).to_le_bytes());
        }
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        Ok(self.file.write_all_at(&bytes, self.end.load(Ordering::Relaxed))?)
    }
}
