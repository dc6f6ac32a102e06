//! What the machine itself can do: without these figures, ratios to the floor mean little.

use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use super::plan::{Variant, Workload};
use super::run::{Runner, folder_size};
use crate::Result;
use crate::block::{Block, product};
use crate::floor::{Coder, Layout, Piece, scatter};
use crate::job::{Compressor, Job, Order};
use crate::measure::cpu;
use crate::memory::aligned;

/// Figures of one core, in GB per CPU-second unless named otherwise.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    pub memcpy: f64,
    /// 64 KiB from the page cache.
    pub pread: f64,
    /// Microseconds for a fresh page of 4 KiB.
    pub first_touch: f64,
    /// Rows of 64 bytes.
    pub scatter: f64,
    /// The same elements to Fortran order.
    #[serde(default)]
    pub turn: f64,
    /// Decoding chunks of 64 KiB, by codec.
    pub decode: Vec<(String, f64)>,
    /// Raw bytes per stored byte, by array.
    #[serde(default)]
    pub stored: Vec<(String, f64)>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "One core of this machine, GB per CPU-second: memcpy {:.1}, pread of 64 KiB {:.1}, scatter of 64-byte rows {:.1}, to Fortran order {:.1}",
            self.memcpy, self.pread, self.scatter, self.turn
        )?;
        for (codec, rate) in &self.decode {
            write!(f, ", decode {codec} {rate:.2}")?;
        }
        write!(f, "; first touch of a page {:.2} us", self.first_touch)
    }
}

/// The same figures of the machine on which the goals were set.
pub const REFERENCE: &str = "The goals were set on a machine with memcpy 6.4, pread 6.5 to 8.2, scatter 2.6, decode zstd 0.75, \
    blosc-lz4 2.6, gzip 0.41; first touch 1.6 us";

const BUFFER: usize = 128 << 20;
const CHUNK: usize = 64 << 10;

impl Figures {
    pub fn measure(runner: &Runner, variants: &[&Variant]) -> Result<Self> {
        let whole = Workload::named("W2").ok_or("the plan has no W2")?;
        let job = |variant: &Variant| runner.scale.job(&runner.folder, "floor", whole, variant);
        let fresh = timed(1, || {
            let mut memory: Vec<u8> = Vec::with_capacity(BUFFER);
            for page in memory.spare_capacity_mut().iter_mut().step_by(4096) {
                page.write(1);
            }
            black_box(&memory);
        });
        let mut from = aligned(BUFFER);
        from.fill(1);
        let mut to = aligned(BUFFER);
        to.fill(2);
        let copy = timed(4, || black_box(&mut to).copy_from_slice(black_box(&from)));

        let first = variants.first().ok_or("nothing to run")?;
        let file = File::open(job(first).volume)?;
        let mut failure = None;
        let read = timed(4, || {
            for at in 0..(BUFFER / CHUNK) as u64 {
                let offset = at * CHUNK as u64;
                if let Err(error) = file.read_exact_at(&mut from[..CHUNK], offset) {
                    failure = Some(error);
                }
            }
        });
        if let Some(error) = failure {
            return Err(error.into());
        }

        let shape = [256, 512, 512];
        let mut scattering = |outside: Order| {
            let layout = Layout { element: 2, inside: Order::C, outside };
            let whole = Block::whole(shape);
            let pieces = whole.cells([32; 3]).points().map(|cell| {
                let chunk = Block { start: cell.map(|i| i * 32), shape: [32; 3] };
                Piece::new(0, 0, &chunk, &chunk, &whole, layout)
            });
            let pieces: Vec<Piece> = pieces.collect();
            timed(4, || {
                for piece in &pieces {
                    // SAFETY: the volume of this shape has 128 MiB, as has `to`; `from` is more
                    // than a chunk.
                    unsafe { scatter(piece, from.as_ptr(), to.as_mut_ptr()) };
                }
            })
        };
        let (rows, turned) = (scattering(Order::C), scattering(Order::Fortran));
        let (mut decode, mut stored) = (Vec::new(), Vec::new());
        for variant in variants {
            let raw = product(job(variant).shape) * variant.element();
            let ratio = raw as f64 / folder_size(&job(variant).array)? as f64;
            stored.push((variant.name.to_owned(), ratio));
            if variant.compressor != Compressor::None
                && variant.chunk == 32
                && !variant.transposed
                && variant.element() == 2
            {
                decode.push((variant.title.to_owned(), decoding(&job(variant))?));
            }
        }
        let rate = |seconds: f64| BUFFER as f64 / seconds / 1e9;
        Ok(Self {
            memcpy: rate(copy),
            pread: rate(read),
            first_touch: fresh / (BUFFER / 4096) as f64 * 1e6,
            scatter: rate(rows),
            turn: rate(turned),
            decode,
            stored,
        })
    }
}

/// GB per CPU-second of decoding alone: chunks of the image, encoded here by the same codec.
fn decoding(job: &Job) -> Result<f64> {
    let volume = crate::worker::map(&job.volume)?;
    let len = product(job.chunk) * job.element;
    let mut coder = Coder::new(job);
    let mut chunks = Vec::new();
    for cell in Block::whole(job.shape).cells(job.chunk).points().step_by(37).take(100) {
        let start = [0, 1, 2].map(|axis: usize| cell[axis] * job.chunk[axis]);
        let block = Block { start, shape: job.chunk };
        coder.decoded.copy_from_slice(&crate::block::cut(&volume, job.shape, job.element, &block));
        chunks.push(coder.encode()?.to_vec());
    }
    let mut failure = None;
    let seconds = timed(3, || {
        for chunk in &chunks {
            coder.encoded[..chunk.len()].copy_from_slice(chunk);
            if let Err(error) = coder.decode_here(chunk.len()) {
                failure = Some(error);
            }
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok((chunks.len() * len) as f64 / seconds / 1e9),
    }
}

/// CPU seconds of the quickest of some tries.
fn timed(tries: usize, mut work: impl FnMut()) -> f64 {
    let clock = || {
        let (user, system) = cpu();
        user + system
    };
    let mut least = f64::INFINITY;
    for _ in 0..tries {
        let start = clock();
        work();
        least = least.min(clock() - start);
    }
    least
}
