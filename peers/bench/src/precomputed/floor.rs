//! The least work on a volume: the same bytes read, decompressed on all cores, and copied once.
//!
//! It does not decode `compressed_segmentation`: of such a chunk it copies as many bytes as the
//! voxels take, whatever they are. It is given such chunks encoded, and compresses and writes them.
//! Indexes and descriptors are kept.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;
use crate::block::{Block, Triple, each, index, product};
use crate::floor::{Coder, Crew, Layout, Output, Piece, gather, note, scatter, told};
use crate::job::{Compressor, Job, Order};
use crate::subject::Subject;

/// Where a chunk is: which shard, and which bytes of it.
type Place = (usize, u64, usize);

pub struct VolumeFloor {
    crew: Crew,
    volume: Stored,
}

/// A volume on the disk.
struct Stored {
    job: Job,
    shards: Vec<File>,
    /// By the place of the chunk in C order.
    places: Vec<Place>,
    folder: PathBuf,
    segmented: bool,
    minishard_bits: u32,
    /// Encoded chunks that are written, where they are not voxels.
    encoded: Vec<Vec<u8>>,
}

impl VolumeFloor {
    pub fn new(job: &Job) -> Self {
        let scale = &job.metadata["info"]["scales"][0];
        let bits = scale["sharding"]["minishard_bits"].as_u64().unwrap_or(0);
        let volume = Stored {
            job: job.clone(),
            shards: Vec::new(),
            places: Vec::new(),
            folder: PathBuf::new(),
            segmented: scale["encoding"] == "compressed_segmentation",
            minishard_bits: u32::try_from(bits).unwrap_or(0),
            encoded: Vec::new(),
        };
        Self { crew: Crew::new(job), volume }
    }

    fn read(&mut self, block: &Block, out: &mut [u8], order: Order) -> Result {
        let Self { crew, volume } = self;
        let (grid, layout, job) = (volume.grid(), volume.layout(order), &volume.job);
        let pieces: Vec<Piece> = block
            .cells(job.chunk)
            .points()
            .filter_map(|cell| {
                let start = each(|axis| cell[axis] * job.chunk[axis]);
                let chunk = Block { start, shape: job.chunk };
                let part = chunk.overlap(block)?;
                Some(Piece::new(0, index(cell, grid), &chunk, &part, block, layout))
            })
            .collect();
        let (next, failure, out) = (AtomicUsize::new(0), Mutex::new(None), Output::new(out));
        crew.run(&|coder: &mut Coder| {
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (shard, offset, len) = volume.places[piece.entry];
                let file = &volume.shards[shard];
                if let Err(error) = load(file, offset, len, job.compressor, volume.segmented, coder)
                {
                    return note(&failure, error);
                }
                // SAFETY: the piece lies in the chunk and in the output, and no other piece
                // overlaps it there.
                unsafe { scatter(piece, coder.decoded.as_ptr(), out.start()) };
            }
        });
        told(failure)
    }
}

impl Stored {
    fn grid(&self) -> Triple {
        each(|axis| self.job.shape[axis] / self.job.chunk[axis])
    }

    fn layout(&self, outside: Order) -> Layout {
        Layout { element: self.job.element, inside: Order::C, outside }
    }

    /// Writes a shard: its chunks in Morton order, each minishard's index behind them.
    fn write_shard(&self, shard: u64, elements: &[u8], coder: &mut Coder) -> Result {
        let (grid, whole) = (self.grid(), Block::whole(self.job.shape));
        let layout = self.layout(Order::C);
        let chunks = product(each(|axis| self.job.shard[axis] / self.job.chunk[axis])) as u64;
        let file = File::create(self.folder.join(format!("{shard:x}.shard")))?;
        let minishards = 1usize << self.minishard_bits;
        let per_minishard = chunks >> self.minishard_bits;
        let base = minishards as u64 * 16;
        let mut at = base;
        let mut entries: Vec<Vec<[u64; 3]>> = vec![Vec::new(); minishards];
        for number in 0..chunks {
            let id = shard * chunks + number;
            let cell = cell_of(id, grid);
            let entry = index(cell, grid);
            let len = if self.segmented {
                let bytes = &self.encoded[entry];
                coder.decoded[..bytes.len()].copy_from_slice(bytes);
                bytes.len()
            } else {
                let start = each(|axis| cell[axis] * self.job.chunk[axis]);
                let chunk = Block { start, shape: self.job.chunk };
                let piece = Piece::new(0, entry, &chunk, &chunk, &whole, layout);
                // SAFETY: the piece lies in the volume, whose elements these are, and fills the
                // chunk.
                unsafe { gather(&piece, elements.as_ptr(), coder.decoded.as_mut_ptr()) };
                coder.decoded.len()
            };
            let stored = coder.encode_some(len)?;
            file.write_all_at(stored, at)?;
            entries[usize::try_from(number / per_minishard)?].push([id, at, stored.len() as u64]);
            at += stored.len() as u64;
        }
        let mut head = Vec::new();
        for entries in entries {
            let bytes = minishard_index(&entries, base);
            file.write_all_at(&bytes, at)?;
            head.extend_from_slice(&(at - base).to_le_bytes());
            at += bytes.len() as u64;
            head.extend_from_slice(&(at - base).to_le_bytes());
        }
        file.write_all_at(&head, 0)?;
        Ok(file.sync_all()?)
    }

    /// The chunks of the job's volume as they are before gzip.
    fn encoded_chunks(&mut self, coder: &mut Coder) -> Result<Vec<Vec<u8>>> {
        let array = self.job.array.clone();
        self.open(&array)?;
        let mut chunks = Vec::with_capacity(self.places.len());
        for &(shard, offset, len) in &self.places {
            self.shards[shard].read_exact_at(&mut coder.encoded[..len], offset)?;
            let bytes = if self.job.compressor == Compressor::None {
                &coder.encoded[..len]
            } else {
                let len = coder.decode_some(len)?;
                &coder.decoded[..len]
            };
            chunks.push(bytes.to_vec());
        }
        Ok(chunks)
    }

    /// Finds all chunks.
    fn open(&mut self, path: &Path) -> Result {
        let grid = self.grid();
        self.shards.clear();
        self.places = vec![(0, 0, 0); product(grid)];
        self.folder = path.join("8_8_8");
        for shard in 0..8usize {
            let bytes = fs::read(self.folder.join(format!("{shard:x}.shard")))?;
            let word = |bytes: &[u8], at: usize| -> Result<u64> {
                let bytes = bytes.get(at * 8..at * 8 + 8).ok_or("an index is too short")?;
                Ok(u64::from_le_bytes(bytes.try_into()?))
            };
            let base = 16usize << self.minishard_bits;
            for minishard in 0..1usize << self.minishard_bits {
                let start = base + usize::try_from(word(&bytes, minishard * 2)?)?;
                let end = base + usize::try_from(word(&bytes, minishard * 2 + 1)?)?;
                let stored = bytes.get(start..end).ok_or("an index lies outside")?;
                let decoded = inflate(stored)?;
                let count = decoded.len() / 24;
                let (mut id, mut at) = (0, base as u64);
                for i in 0..count {
                    id += word(&decoded, i)?;
                    at += word(&decoded, count + i)?;
                    let len = word(&decoded, 2 * count + i)?;
                    let entry = index(cell_of(id, grid), grid);
                    self.places[entry] = (shard, at, usize::try_from(len)?);
                    at += len;
                }
            }
            self.shards.push(File::open(self.folder.join(format!("{shard:x}.shard")))?);
        }
        Ok(())
    }
}

/// Has a chunk in `coder.decoded`, as far as it is decoded at all.
fn load(
    file: &File,
    offset: u64,
    len: usize,
    compressor: Compressor,
    segmented: bool,
    coder: &mut Coder,
) -> Result {
    if compressor == Compressor::None {
        return Ok(file.read_exact_at(&mut coder.decoded[..len], offset)?);
    }
    file.read_exact_at(&mut coder.encoded[..len], offset)?;
    if segmented { coder.decode_some(len).map(drop) } else { coder.decode_here(len) }
}

/// Compressed Morton code to z, y, x; the grid is a cube whose edge is a power of two.
fn cell_of(id: u64, grid: Triple) -> Triple {
    let mut cell = [0; 3];
    for bit in 0..grid[0].ilog2() {
        for axis in 0..3 {
            // x is the lowest bit, and the last axis here.
            cell[2 - axis] |= (id >> (3 * bit as usize + axis) & 1) << bit;
        }
    }
    cell
}

/// The index of a minishard: ids, gaps and sizes, stored without gzip's help in a gzip stream.
fn minishard_index(entries: &[[u64; 3]], base: u64) -> Vec<u8> {
    let (mut ids, mut gaps, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut last, mut end) = (0, base);
    for &[id, at, len] in entries {
        ids.extend_from_slice(&(id - last).to_le_bytes());
        gaps.extend_from_slice(&(at - end).to_le_bytes());
        sizes.extend_from_slice(&len.to_le_bytes());
        (last, end) = (id, at + len);
    }
    stored_gzip(&[ids, gaps, sizes].concat())
}

/// A gzip member of one stored block: what the format asks for, at no cost.
fn stored_gzip(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len() as u16;
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(&crc32(bytes).to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    // SAFETY: the pointer is valid for the length.
    unsafe { libdeflate_sys::libdeflate_crc32(0, bytes.as_ptr().cast(), bytes.len()) }
}

impl Subject for VolumeFloor {
    fn version(&self) -> String {
        "floor".to_owned()
    }

    fn open(&mut self, path: &Path) -> Result {
        self.volume.open(path)
    }

    fn create(&mut self, path: &Path) -> Result {
        let Self { crew, volume } = self;
        if volume.segmented && volume.encoded.is_empty() {
            volume.encoded = volume.encoded_chunks(crew.own())?;
        }
        volume.folder = path.join("8_8_8");
        fs::create_dir_all(&volume.folder)?;
        Ok(fs::write(path.join("info"), serde_json::to_vec(&volume.job.metadata["info"])?)?)
    }

    fn read_fresh(&mut self, block: &Block) -> Result<Vec<u8>> {
        let mut out = vec![0; block.elements() * self.volume.job.element];
        self.read(block, &mut out, Order::C)?;
        Ok(out)
    }

    fn read_into(&mut self, block: &Block, out: &mut [u8]) -> Result<Option<Vec<u8>>> {
        self.read(block, out, self.volume.job.order)?;
        Ok(None)
    }

    fn write(&mut self, _: &Block, elements: &[u8]) -> Result {
        let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
        let Self { crew, volume } = self;
        crew.run(&|coder: &mut Coder| {
            loop {
                let shard = next.fetch_add(1, Ordering::Relaxed);
                if shard >= 8 {
                    return;
                }
                if let Err(error) = volume.write_shard(shard as u64, elements, coder) {
                    return note(&failure, error);
                }
            }
        });
        told(failure)?;
        Ok(File::open(&volume.folder)?.sync_all()?)
    }
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut coder = Coder::sized(Compressor::Gzip, 1, 1 << 16);
    coder.encoded[..bytes.len()].copy_from_slice(bytes);
    let len = coder.decode_some(bytes.len())?;
    Ok(coder.decoded[..len].to_vec())
}
