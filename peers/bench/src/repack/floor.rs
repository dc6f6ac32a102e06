//! The least that encoding anew takes: every chunk is read, decoded, cut, encoded and written, on
//! all cores.
//!
//! The result is an array like any other, so that its elements can be compared.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Result;
use crate::block::{Block, Triple, each, index, product};
use crate::chunks::{Stored, stored};
use crate::floor::Coder;
use crate::growing::Growing;
use crate::job::Compressor;

const ELEMENT: usize = 2;

/// What the floor is to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recoding {
    pub source: PathBuf,
    pub target: PathBuf,
    /// The `zarr.json` of the target.
    pub metadata: Value,
    pub shape: Triple,
    /// Edges of the chunks of the source and of the target, and of the target's shards.
    pub from: u64,
    pub to: u64,
    pub shard: u64,
}

impl Recoding {
    pub fn run(&self) -> Result {
        fs::create_dir_all(&self.target)?;
        fs::write(self.target.join("zarr.json"), serde_json::to_vec(&self.metadata)?)?;
        let shards = self.shards()?;
        let mut files = BTreeMap::new();
        let chunks: Vec<(Triple, Stored)> = stored(&self.source)?.into_iter().collect();
        for (_, chunk) in &chunks {
            if !files.contains_key(&chunk.object) {
                files.insert(chunk.object.clone(), File::open(&chunk.object)?);
            }
        }
        let next = AtomicUsize::new(0);
        let work = || -> std::result::Result<(), String> {
            // The header of a blosc frame says what is in it: the decoder is the same for all of
            // its compressors.
            let mut decoder = Coder::sized(Compressor::BloscLz4, ELEMENT, bytes(self.from));
            let mut encoder = Coder::sized(Compressor::Zstd, ELEMENT, bytes(self.to));
            while let Some((at, chunk)) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                let file = files.get(&chunk.object).ok_or("no such object")?;
                self.recode(*at, chunk, file, &shards, (&mut decoder, &mut encoder))
                    .map_err(|error| format!("chunk {at:?}: {error}"))?;
            }
            Ok(())
        };
        let threads = thread::available_parallelism()?.get();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
            })
        })?;
        Ok(())
    }

    fn shards(&self) -> Result<BTreeMap<Triple, Growing>> {
        let shard = [self.shard; 3];
        let cells = Block::whole(self.shape).cells(shard).points();
        let create =
            |cell| Ok((cell, Growing::create(&self.target, cell, self.shape, shard, self.to)?));
        cells.map(create).collect()
    }

    fn recode(
        &self,
        at: Triple,
        chunk: &Stored,
        file: &File,
        shards: &BTreeMap<Triple, Growing>,
        (decoder, encoder): (&mut Coder, &mut Coder),
    ) -> Result {
        let len = usize::try_from(chunk.range.end - chunk.range.start)?;
        let encoded = decoder.encoded.get_mut(..len).ok_or("the chunk is too long")?;
        file.read_exact_at(encoded, chunk.range.start)?;
        decoder.decode_here(len)?;
        for part in Block::whole([self.from; 3]).cells([self.to; 3]).points() {
            let start = part.map(|n| n * self.to);
            let row = self.to as usize * ELEMENT;
            let rows = Block { start, shape: [self.to, self.to, 1] }.points();
            for (row_at, out) in rows.zip(encoder.decoded.chunks_exact_mut(row)) {
                let from = index(row_at, [self.from; 3]) * ELEMENT;
                out.copy_from_slice(&decoder.decoded[from..from + row]);
            }
            let place = each(|axis| at[axis] * self.from + start[axis]);
            let cell = place.map(|n| n / self.shard);
            let inside = place.map(|n| n % self.shard / self.to);
            let shard = shards.get(&cell).ok_or("outside of the array")?;
            shard.add(inside, encoder.encode()?)?;
        }
        Ok(())
    }
}

/// Bytes of a chunk.
fn bytes(edge: u64) -> usize {
    product([edge; 3]) * ELEMENT
}
