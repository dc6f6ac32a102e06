//! What a recommendation is made from.

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
    /// Looked at by many, a part at a time.
    Serve,
    /// Changed in small parts, again and again.
    Update,
    /// Written by many at once.
    Write,
    /// Kept, and seldom read.
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

/// What is known of an array that is, or is to be.
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
    /// Elements along each axis; an axis of length 0 is taken as one that will grow.
    pub shape: Vec<u64>,
    /// Bytes of an element before compression; a guess for types of variable length.
    pub element_bytes: u64,
    /// How it is packed, if it exists.
    pub current: Option<Current>,
    /// The chunk that somebody has decided on.
    pub chunk: Option<Vec<u64>>,
    /// What chunks of it take, encoded.
    pub sample: Option<Sample>,
    /// Which objects of it are there; without it, all that there is room for.
    pub stored: Option<StoredCells>,
    /// How many times smaller encoded chunks are, if nothing was measured.
    pub ratio: Option<f64>,
    /// Whether it lives in a store that is asked over a network.
    pub remote: bool,
    /// What it is for.
    pub purpose: Purpose,
    /// How many write to it at the same time.
    pub writers: u64,
    /// Threads of one writer.
    pub threads: u64,
    /// The bytes that a shard should come near, if somebody has decided on that.
    pub target: Option<u64>,
    /// Elements of a screen: rows and columns along the last two axes.
    pub screen: [u64; 2],
    /// Elements along each of the last three axes that a view of a volume shows.
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
    /// A new array on a local disk, of which nothing else is known.
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

    /// Sets whether it lives in a store that is asked over a network.
    pub fn remote(mut self, remote: bool) -> Self {
        self.remote = remote;
        self
    }

    /// Sets how many times smaller encoded chunks are.
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

    /// Bytes of a chunk of this shape, encoded: as measured, or by the ratio, or as they are.
    pub(super) fn encoded(&self, chunk: &[u64]) -> u64 {
        match (&self.sample, self.ratio) {
            (Some(sample), _) => sample.bytes_of(chunk),
            (None, Some(ratio)) if ratio > 0.0 => {
                // Past 2^64 it stays there.
                (self.raw(chunk) as f64 / ratio).round() as u64
            }
            _ => self.raw(chunk),
        }
        .max(1)
    }

    /// The same for the largest that was seen.
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

/// How many there are of a grid, or the highest number there is.
pub(super) fn count(grid: &[u64]) -> u64 {
    if grid.contains(&0) {
        return 0;
    }
    grid.iter().fold(1u64, |n, &m| n.saturating_mul(m))
}
