//! The least that a pyramid takes: every chunk of the finest level is read, decoded and reduced
//! once, every new one is encoded and written once, on all cores.
//!
//! The kernel is Shardine's own. A thread takes a chunk of level 2 with all that it is made from;
//! what remains above is a hundredth of the work and is done at the end. The result is an image
//! like any other, so that its elements can be compared.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};
use shardine_codec::strided::Placement;
use shardine_codec::{Context, DataType, Downsample, DownsampleMethod};

use super::plan::{CHUNK, Level};
use crate::Result;
use crate::block::{Block, Triple, each};
use crate::chunks::{Stored, stored};
use crate::floor::Coder;
use crate::growing::Growing;
use crate::job::Compressor;

const ELEMENT: usize = 2;

/// Elements along an edge of a chunk, and bytes of a chunk.
const EDGE: usize = CHUNK as usize;
const BYTES: usize = EDGE * EDGE * EDGE * ELEMENT;

/// What the floor is to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reducing {
    /// The image, with its finest level.
    pub image: PathBuf,
    pub levels: Vec<Level>,
}

/// A level that is written.
struct Target<'a> {
    level: &'a Level,
    shards: BTreeMap<Triple, Growing>,
}

/// The finest level.
struct Source {
    chunks: BTreeMap<Triple, Stored>,
    files: BTreeMap<PathBuf, File>,
}

/// What a thread needs.
struct Worker {
    context: Context,
    kernel: Downsample,
    decoder: Coder,
    encoder: Coder,
    place: Placement,
}

/// Decoded chunks, by their places in the grid.
type Blocks = BTreeMap<Triple, Vec<u8>>;

impl Reducing {
    pub fn run(&self) -> Result {
        let source = Source::open(self.image.join("0"))?;
        let targets = self.levels.iter().map(|level| Target::create(&self.image, level));
        let targets: Vec<Target<'_>> = targets.collect::<Result<_>>()?;
        let [first, second, rest @ ..] = targets.as_slice() else {
            return Err("the floor makes two levels or more".into());
        };
        let units: Vec<Triple> = second.chunks().points().collect();
        let (next, made) = (AtomicUsize::new(0), Mutex::new(Blocks::new()));
        let work = || -> std::result::Result<(), String> {
            let mut worker = Worker::new().map_err(|error| error.to_string())?;
            while let Some(&at) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                let block = worker.unit(at, &source, first, second);
                let block = block.map_err(|error| format!("chunk {at:?} of level 2: {error}"))?;
                made.lock().map_err(|_| "a thread panicked")?.insert(at, block);
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
        let mut below = made.into_inner().map_err(|_| "a thread panicked")?;
        let mut worker = Worker::new()?;
        for target in rest {
            below = worker.level(&below, target)?;
        }
        Ok(())
    }
}

impl Source {
    fn open(path: PathBuf) -> Result<Self> {
        let chunks = stored(&path)?;
        let mut files = BTreeMap::new();
        for chunk in chunks.values() {
            if !files.contains_key(&chunk.object) {
                files.insert(chunk.object.clone(), File::open(&chunk.object)?);
            }
        }
        Ok(Self { chunks, files })
    }
}

impl<'a> Target<'a> {
    fn create(image: &std::path::Path, level: &'a Level) -> Result<Self> {
        let folder = image.join(&level.path);
        fs::create_dir(&folder)?;
        fs::write(folder.join("zarr.json"), serde_json::to_vec(&level.metadata)?)?;
        let mut shards = BTreeMap::new();
        for cell in Block::whole(level.shape).cells(level.shard).points() {
            let shard = Growing::create(&folder, cell, level.shape, level.shard, CHUNK)?;
            shards.insert(cell, shard);
        }
        Ok(Self { level, shards })
    }

    /// The grid of its chunks.
    fn chunks(&self) -> Block {
        Block::whole(self.level.shape).cells([CHUNK; 3])
    }

    /// Writes an encoded chunk.
    fn add(&self, at: Triple, encoded: &[u8]) -> Result {
        let per_shard = self.level.shard.map(|n| n / CHUNK);
        let cell = each(|axis| at[axis] / per_shard[axis]);
        let shard = self.shards.get(&cell).ok_or("outside of the level")?;
        shard.add(each(|axis| at[axis] % per_shard[axis]), encoded)
    }
}

impl Worker {
    fn new() -> Result<Self> {
        let data_type = DataType::parse_name("uint16")?;
        let place = Placement::contiguous(&[CHUNK; 3], ELEMENT).ok_or("chunks are too large")?;
        Ok(Self {
            context: Context::new(),
            kernel: Downsample::new(&data_type, DownsampleMethod::Mean, &[2; 3])?,
            decoder: Coder::sized(Compressor::Zstd, ELEMENT, BYTES),
            encoder: Coder::sized(Compressor::Zstd, ELEMENT, BYTES),
            place,
        })
    }

    /// Makes a chunk of level 2, and those of level 1 that it is made from.
    fn unit(
        &mut self,
        at: Triple,
        source: &Source,
        first: &Target<'_>,
        second: &Target<'_>,
    ) -> Result<Vec<u8>> {
        let mut above = vec![0; BYTES];
        for child in children(at) {
            self.encoder.decoded.fill(0);
            let mut any = false;
            for finest in children(child) {
                let Some(chunk) = source.chunks.get(&finest) else { continue };
                any = true;
                let file = source.files.get(&chunk.object).ok_or("no such object")?;
                let len = usize::try_from(chunk.range.end - chunk.range.start)?;
                let encoded = self.decoder.encoded.get_mut(..len).ok_or("the chunk is too long")?;
                file.read_exact_at(encoded, chunk.range.start)?;
                self.decoder.decode_here(len)?;
                let place = placed(&self.place, finest);
                let (from, to) = (&self.decoder.decoded, &mut self.encoder.decoded);
                self.kernel.run(&mut self.context, &[EDGE; 3], from, to, &place)?;
            }
            if any {
                let (from, place) = (&self.encoder.decoded, placed(&self.place, child));
                self.kernel.run(&mut self.context, &[EDGE; 3], from, &mut above, &place)?;
                first.add(child, self.encoder.encode()?)?;
            }
        }
        self.encoder.decoded.copy_from_slice(&above);
        second.add(at, self.encoder.encode()?)?;
        Ok(above)
    }

    /// Makes all chunks of a level from those of the one below.
    fn level(&mut self, below: &Blocks, target: &Target<'_>) -> Result<Blocks> {
        let mut made = Blocks::new();
        for at in target.chunks().points() {
            let mut block = vec![0; BYTES];
            for child in children(at) {
                let Some(from) = below.get(&child) else { continue };
                let place = placed(&self.place, child);
                self.kernel.run(&mut self.context, &[EDGE; 3], from, &mut block, &place)?;
            }
            self.encoder.decoded.copy_from_slice(&block);
            target.add(at, self.encoder.encode()?)?;
            made.insert(at, block);
        }
        Ok(made)
    }
}

/// The chunks of the level below that a chunk is made from.
fn children(at: Triple) -> impl Iterator<Item = Triple> {
    Block { start: at.map(|n| 2 * n), shape: [2; 3] }.points()
}

/// Where a chunk goes in the one above it.
fn placed(whole: &Placement, child: Triple) -> Placement {
    let mut place = whole.clone();
    place.start = (0..3).map(|k| (child[k] % 2) as usize * EDGE / 2 * place.strides[k]).sum();
    place
}
