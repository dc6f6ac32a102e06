//! The floor: the least work that gives the same result.
//!
//! Descriptors and indexes are kept, contexts and buffers used again; each chunk costs one `pread`,
//! one call of the C codec and a copy of its rows. Nothing is checked that the task does not need.
//! A reference, not a proven bound.

mod coder;
mod copy;
mod crew;
mod update;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub use coder::{BLOSC_LEVEL, Coder, GZIP_LEVEL, ZSTD_LEVEL};
pub use copy::{Layout, Piece, gather, scatter};
pub use crew::Crew;

use crate::Result;
use crate::block::{Block, Triple, each, index, product};
use crate::job::{Compressor, Job, Order};
use crate::subject::Subject;

/// The offset and length of an inner chunk.
type Entry = (u64, u64);

/// A stored shard that is kept open.
struct Shard {
    file: File,
    len: u64,
    index: Vec<Entry>,
}

pub struct Floor {
    job: Job,
    crew: Crew,
    path: PathBuf,
    shards: Vec<Shard>,
    pieces: Vec<Piece>,
    /// The encoded bytes of a shard, for updates.
    whole: Vec<u8>,
}

/// Memory that several threads write to, each in places of its own.
#[derive(Clone, Copy)]
pub struct Output(*mut u8);

// SAFETY: pieces of one read never overlap.
unsafe impl Send for Output {}
// SAFETY: as above.
unsafe impl Sync for Output {}

impl Output {
    pub fn new(memory: &mut [u8]) -> Self {
        Self(memory.as_mut_ptr())
    }

    pub fn start(self) -> *mut u8 {
        self.0
    }
}

impl Floor {
    pub fn new(job: &Job) -> Self {
        Self {
            job: job.clone(),
            crew: Crew::new(job),
            path: PathBuf::new(),
            shards: Vec::new(),
            pieces: Vec::new(),
            whole: Vec::new(),
        }
    }

    /// Inner chunks of a shard along each axis.
    fn inner_grid(&self) -> Triple {
        each(|axis| self.job.shard[axis] / self.job.chunk[axis])
    }

    /// Shards of the array along each axis.
    fn outer_grid(&self) -> Triple {
        each(|axis| self.job.shape[axis].div_ceil(self.job.shard[axis]))
    }

    fn shard_path(&self, cell: Triple) -> PathBuf {
        self.path.join(format!("c/{}/{}/{}", cell[0], cell[1], cell[2]))
    }

    fn layout(&self, outside: Order) -> Layout {
        let inside = if self.job.transposed { Order::Fortran } else { Order::C };
        Layout { element: self.job.element, inside, outside }
    }

    /// Reads a block to `out`, which has room for it.
    fn read(&mut self, block: &Block, out: *mut u8, order: Order) -> Result {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        let whole = Block::whole(self.job.shape);
        let (inner, outer) = (self.inner_grid(), self.outer_grid());
        let layout = self.layout(order);
        for cell in block.cells(self.job.chunk).points() {
            let start = each(|axis| cell[axis] * self.job.chunk[axis]);
            let chunk = Block { start, shape: self.job.chunk };
            let Some(part) = chunk.overlap(block).and_then(|part| part.overlap(&whole)) else {
                continue;
            };
            let shard = index(each(|axis| cell[axis] / inner[axis]), outer);
            let entry = index(each(|axis| cell[axis] % inner[axis]), inner);
            pieces.push(Piece::new(shard, entry, &chunk, &part, block, layout));
        }
        let result = self.read_pieces(&pieces, Output(out));
        self.pieces = pieces;
        result
    }

    fn read_pieces(&mut self, pieces: &[Piece], out: Output) -> Result {
        let Self { crew, shards, job, .. } = self;
        if let [piece] = pieces {
            return read_piece(job, shards, piece, crew.own(), out);
        }
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        crew.run(&|coder: &mut Coder| {
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = read_piece(job, shards, piece, coder, out) {
                    note(&failure, error);
                    return;
                }
            }
        });
        told(failure)
    }

    /// Writes a whole shard: chunks as they are ready, then the index.
    fn write_shard(&mut self, cell: Triple, elements: &[u8]) -> Result {
        let path = self.shard_path(cell);
        fs::create_dir_all(path.parent().ok_or("a shard has a folder")?)?;
        let file = File::create(path)?;
        let (grid, layout, job) = (self.inner_grid(), self.layout(Order::C), &self.job);
        let chunks = product(grid);
        let whole = Block::whole(job.shard);
        let next = AtomicUsize::new(0);
        let end = AtomicU64::new(0);
        let failure = Mutex::new(None);
        let entries: Vec<(AtomicU64, AtomicU64)> =
            (0..chunks).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect();
        self.crew.run(&|coder: &mut Coder| {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= chunks {
                    return;
                }
                let n = number as u64;
                let at = [n / (grid[1] * grid[2]), n / grid[2] % grid[1], n % grid[2]];
                let start = each(|axis| at[axis] * job.chunk[axis]);
                let chunk = Block { start, shape: job.chunk };
                let piece = Piece::new(0, number, &chunk, &chunk, &whole, layout);
                // SAFETY: the piece lies in the shard, whose elements these are.
                unsafe { gather(&piece, elements.as_ptr(), coder.decoded.as_mut_ptr()) };
                let stored = coder.encode().and_then(|encoded| {
                    let offset = end.fetch_add(encoded.len() as u64, Ordering::Relaxed);
                    file.write_all_at(encoded, offset)?;
                    entries[number].0.store(offset, Ordering::Relaxed);
                    entries[number].1.store(encoded.len() as u64, Ordering::Relaxed);
                    Ok(())
                });
                if let Err(error) = stored {
                    return note(&failure, error);
                }
            }
        });
        told(failure)?;
        let entries = entries.into_iter().map(|(a, b)| (a.into_inner(), b.into_inner()));
        let index = encode_index(&entries.collect::<Vec<_>>());
        file.write_all_at(&index, end.into_inner())?;
        Ok(file.sync_all()?)
    }
}

/// Keeps the first failure of several threads.
pub fn note(failure: &Mutex<Option<String>>, error: Box<dyn std::error::Error>) {
    if let Ok(mut first) = failure.lock() {
        first.get_or_insert_with(|| error.to_string());
    }
}

/// The failure that was kept, if there is one.
pub fn told(failure: Mutex<Option<String>>) -> Result {
    match failure.into_inner() {
        Ok(None) => Ok(()),
        Ok(Some(text)) => Err(text.into()),
        Err(_) => Err("a thread has panicked".into()),
    }
}

fn read_piece(
    job: &Job,
    shards: &[Shard],
    piece: &Piece,
    coder: &mut Coder,
    out: Output,
) -> Result {
    let shard = &shards[piece.shard];
    let (offset, len) = if job.index_cache {
        shard.index[piece.entry]
    } else {
        read_index(&shard.file, shard.len, shard.index.len(), &mut coder.encoded)?;
        entry(&coder.encoded, piece.entry)
    };
    let len = usize::try_from(len)?;
    let plain = job.compressor == Compressor::None;
    if piece.direct {
        // SAFETY: a direct piece is a whole chunk that lies in the output as it is stored.
        let target = unsafe {
            std::slice::from_raw_parts_mut(out.start().add(piece.outside), coder.decoded.len())
        };
        if plain {
            return Ok(shard.file.read_exact_at(target, offset)?);
        }
        shard.file.read_exact_at(&mut coder.encoded[..len], offset)?;
        return coder.decode(len, target);
    }
    if plain {
        shard.file.read_exact_at(&mut coder.decoded, offset)?;
    } else {
        shard.file.read_exact_at(&mut coder.encoded[..len], offset)?;
        coder.decode_here(len)?;
    }
    // SAFETY: the piece lies in the chunk and in the output, and no other piece overlaps it there.
    unsafe { scatter(piece, coder.decoded.as_ptr(), out.start()) };
    Ok(())
}

/// Bytes of an index with its checksum.
fn index_size(chunks: usize) -> usize {
    chunks * 16 + 4
}

/// Reads the index of a shard into `buffer` and checks it.
fn read_index(file: &File, len: u64, chunks: usize, buffer: &mut [u8]) -> Result {
    let size = index_size(chunks);
    let start = len.checked_sub(size as u64).ok_or("the shard is shorter than its index")?;
    file.read_exact_at(&mut buffer[..size], start)?;
    let sum = crc32c::crc32c(&buffer[..size - 4]);
    if buffer[size - 4..size] != sum.to_le_bytes() {
        return Err("the index does not match its checksum".into());
    }
    Ok(())
}

fn entry(index: &[u8], number: usize) -> Entry {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&index[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    (word(number * 16), word(number * 16 + 8))
}

fn encode_index(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * 16 + 4);
    for (offset, len) in entries {
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
    }
    let sum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

impl Subject for Floor {
    fn version(&self) -> String {
        "floor".to_owned()
    }

    fn open(&mut self, path: &Path) -> Result {
        self.path = path.to_owned();
        self.shards.clear();
        let chunks = product(self.inner_grid());
        let mut bytes = vec![0; index_size(chunks)];
        for cell in Block::whole(self.outer_grid()).points() {
            let file = File::open(self.shard_path(cell))?;
            let len = file.metadata()?.len();
            read_index(&file, len, chunks, &mut bytes)?;
            let index = (0..chunks).map(|number| entry(&bytes, number)).collect();
            self.shards.push(Shard { file, len, index });
        }
        Ok(())
    }

    fn create(&mut self, path: &Path) -> Result {
        fs::create_dir_all(path)?;
        fs::write(path.join("zarr.json"), serde_json::to_vec_pretty(&self.job.metadata)?)?;
        self.path = path.to_owned();
        Ok(())
    }

    fn read_fresh(&mut self, block: &Block) -> Result<Vec<u8>> {
        let len = block.elements() * self.job.element;
        let mut out = Vec::with_capacity(len);
        self.read(block, out.as_mut_ptr(), Order::C)?;
        // SAFETY: the pieces of a block inside the array cover all of it.
        unsafe { out.set_len(len) };
        Ok(out)
    }

    fn read_into(&mut self, block: &Block, out: &mut [u8]) -> Result<Option<Vec<u8>>> {
        if out.len() != block.elements() * self.job.element {
            return Err("the buffer has another size than the block".into());
        }
        self.read(block, out.as_mut_ptr(), self.job.order)?;
        Ok(None)
    }

    fn write(&mut self, block: &Block, elements: &[u8]) -> Result {
        let cell = each(|axis| block.start[axis] / self.job.shard[axis]);
        if block.shape == self.job.shard {
            return self.write_shard(cell, elements);
        }
        self.update(cell, block, elements)
    }
}
