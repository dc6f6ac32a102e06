//! Where the encoded chunks of an array lie, and whether two arrays have the same.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use shardine::{ArrayNode, Engine, EngineOptions, Location};

use crate::Result;
use crate::block::{Block, Triple, each};

/// The encoded bytes of one chunk.
pub struct Stored {
    pub object: PathBuf,
    pub range: Range<u64>,
}

/// The stored chunks of an array by their places in the grid of chunks.
pub fn stored(path: &Path) -> Result<BTreeMap<Triple, Stored>> {
    let engine = Engine::new(&EngineOptions::new())?;
    let array = ArrayNode::open(
        &engine,
        &Location::parse(path.to_str().ok_or("the path is not Unicode")?)?,
    )?;
    let mut chunks = BTreeMap::new();
    for object in array.objects()? {
        let cell: Triple = object.cell.as_slice().try_into()?;
        let file = path.join(object.key.as_str());
        if array.shard_shape().is_none() {
            chunks.insert(cell, Stored { object: file, range: 0..object.len });
            continue;
        }
        let shard = array.shard_entries(&object.cell)?.ok_or("a shard is gone")?;
        let grid: Triple = shard.grid.as_slice().try_into()?;
        for (inside, entry) in Block::whole(grid).points().zip(shard.entries) {
            let at = each(|axis| cell[axis] * grid[axis] + inside[axis]);
            if let Some(range) = entry {
                chunks.insert(at, Stored { object: file.clone(), range });
            }
        }
    }
    Ok(chunks)
}

/// Fails unless two arrays have the same chunks, byte for byte as they are encoded.
pub fn compare(one: &Path, other: &Path) -> Result {
    let (ours, theirs) = (stored(one)?, stored(other)?);
    if ours.is_empty() || !ours.keys().eq(theirs.keys()) {
        return Err(format!("{} and {} chunks are stored", ours.len(), theirs.len()).into());
    }
    let (mut a, mut b, mut total) = (Vec::new(), Vec::new(), 0);
    for ((at, x), y) in ours.iter().zip(theirs.values()) {
        x.read(&mut a)?;
        y.read(&mut b)?;
        if a != b {
            return Err(format!("chunk {at:?} is encoded as other bytes").into());
        }
        total += a.len();
    }
    println!("      {} chunks have the same {total} encoded bytes", ours.len());
    Ok(())
}

impl Stored {
    /// Reads the bytes into a buffer that is used again.
    fn read(&self, into: &mut Vec<u8>) -> Result {
        into.resize(usize::try_from(self.range.end - self.range.start)?, 0);
        Ok(File::open(&self.object)?.read_exact_at(into, self.range.start)?)
    }
}
