//! The input of a recommendation.

use super::sample::{Sample, scaled};
use super::stored_cells::StoredCells;
use crate::shard::IndexLocation;

/// What an array is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Purpose {
    /// Nothing in particular.
    #[default]
    General,
    /// Viewed by many, a part at a time.
    Serve,
    /// Changed in small parts, again and again.
    Update,
    /// Written by many in parallel.
    Write,
    /// Archived, and seldom read.
    Archive,
}

/// How an array is packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// The shape of its chunks.
    pub chunk: Vec<u64>,
    /// The shape of its shards; `None` if it has none.
    pub shard: Option<Vec<u64>>,
    /// Where the index of a shard is.
    pub index: IndexLocation,
    /// Whether the index has a checksum.
    pub checksum: bool,
}

/// What is known about an existing or future array.
///
/// ```
/// use shardine::plan::{Situation, recommend};
///
/// let situation = Situation::new(vec![2048, 4096, 4096], 2).remote(true).ratio(2.0);
/// let advice = recommend(&situation)?;
/// assert_eq!((&advice.chunk[..], advice.shard), (&[64, 64, 64][..], Some(vec![256, 512, 512])));
/// println!("{}", advice.shard_choice.reason);
/// # Ok::<(), shardine::plan::PlanError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Situation {
    /// Elements along each axis; an axis of length 0 is assumed to grow.
    pub shape: Vec<u64>,
    /// Bytes of an element before compression; a guess for variable-length types.
    pub element_bytes: u64,
    /// How it is packed, if it exists.
    pub current: Option<Current>,
    /// The chunk shape, if the caller chose one.
    pub chunk: Option<Vec<u64>>,
    /// The measured size of its encoded chunks.
    pub sample: Option<Sample>,
    /// Which objects of it are there; without it, all that there is room for.
    pub stored: Option<StoredCells>,
    /// The compression ratio to assume if nothing was measured.
    pub ratio: Option<f64>,
    /// Whether it is in a store accessed over a network.
    pub remote: bool,
    /// What it is for.
    pub purpose: Purpose,
    /// The number of concurrent writers.
    pub writers: u64,
    /// Threads of one writer.
    pub threads: u64,
    /// The shard size in bytes to aim for, if the caller chose one.
    pub target: Option<u64>,
    /// Elements on a screen: rows and columns along the last two axes.
    pub screen: [u64; 2],
    /// Elements along each of the last three axes in a view of a volume.
    pub view: u64,
}

/// A situation that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A shape that does not fit the array.
    #[error("a {what} of {given:?} needs one length above 0 for each of the {rank} axes")]
    Rank {
        /// `chunk` or `shard`.
        what: &'static str,
        /// As given.
        given: Vec<u64>,
        /// Axes of the array.
        rank: usize,
    },
}

impl Situation {
    /// A new array on a local disk, with nothing else known.
    pub fn new(shape: Vec<u64>, element_bytes: u64) -> Self {
        Self {
            shape,
            element_bytes,
            current: None,
            chunk: None,
            sample: None,
            stored: None,
            ratio: None,
            remote: false,
            purpose: Purpose::General,
            writers: 1,
            threads: 1,
            target: None,
            screen: [1080, 1920],
            view: 512,
        }
    }

    /// Sets whether it is in a store accessed over a network.
    pub fn remote(mut self, remote: bool) -> Self {
        self.remote = remote;
        self
    }

    /// Sets the compression ratio.
    pub fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = Some(ratio);
        self
    }

    /// Sets what it is for.
    pub fn purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = purpose;
        self
    }

    /// Refuses shapes of another rank, and lengths of 0.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        let rank = self.shape.len();
        let check = |what, given: Option<&Vec<u64>>| match given {
            Some(given) if given.len() != rank || given.contains(&0) => {
                Err(PlanError::Rank { what, given: given.clone(), rank })
            }
            _ => Ok(()),
        };
        check("chunk", self.chunk.as_ref())?;
        check("chunk", self.current.as_ref().map(|current| &current.chunk))?;
        check("shard", self.current.as_ref().and_then(|current| current.shard.as_ref()))?;
        check("chunk", self.sample.as_ref().map(|sample| &sample.shape))
    }

    /// Bytes of a box before compression.
    pub(super) fn raw(&self, shape: &[u64]) -> u64 {
        shape.iter().fold(self.element_bytes.max(1), |n, &length| n.saturating_mul(length))
    }

    /// Bytes of an encoded chunk of this shape: as measured, or by the ratio, or uncompressed.
    pub(super) fn encoded(&self, chunk: &[u64]) -> u64 {
        match (&self.sample, self.ratio) {
            (Some(sample), _) => sample.bytes_of(chunk),
            (None, Some(ratio)) if ratio > 0.0 => {
                // Saturates at 2^64.
                (self.raw(chunk) as f64 / ratio).round() as u64
            }
            _ => self.raw(chunk),
        }
        .max(1)
    }

    /// Like [`encoded`](Self::encoded), for the largest chunk measured.
    pub(super) fn largest(&self, chunk: &[u64]) -> u64 {
        match &self.sample {
            Some(sample) => scaled(sample.max, chunk, &sample.shape).max(1),
            None => self.encoded(chunk),
        }
    }

    /// The share of the chunks there is room for that is stored, from 0 to 1.
    pub(super) fn share(&self) -> f64 {
        let sample = self.sample.as_ref();
        let counted = self.stored.as_ref().and_then(|stored| stored.share(sample));
        counted.unwrap_or_else(|| sample.map_or(1.0, Sample::share))
    }

    /// Chunks, or shards, along each axis.
    pub(super) fn grid(&self, cell: &[u64]) -> Vec<u64> {
        self.shape.iter().zip(cell).map(|(&length, &n)| length.div_ceil(n.max(1))).collect()
    }
}

/// The number of cells in a grid, saturating.
pub(super) fn count(grid: &[u64]) -> u64 {
    if grid.contains(&0) {
        return 0;
    }
    grid.iter().fold(1u64, |n, &m| n.saturating_mul(m))
}
