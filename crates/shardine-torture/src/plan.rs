//! What a writer does: a sequence of updates that parent and child both derive from the seed.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use shardine::{Strategy, WriteOptions};

use crate::Result;
use crate::setup::{Setup, Shape};

/// One writing call.
#[derive(Debug, Clone)]
pub struct Op {
    /// The elements written.
    pub range: Range<usize>,
    /// What the values are derived from; with 0 they are the fill value.
    pub sequence: u32,
    pub strategy: Strategy,
    pub max_gap: f64,
}

impl Op {
    pub fn options(&self) -> WriteOptions {
        WriteOptions::new().strategy(self.strategy).max_gap(self.max_gap)
    }

    pub fn values(&self) -> Vec<u32> {
        self.range.clone().map(|at| value(self.sequence, at)).collect()
    }

    pub fn apply(&self, to: &mut [u32]) {
        for at in self.range.clone() {
            to[at] = value(self.sequence, at);
        }
    }
}

/// The value of an element written by update `sequence`: noise in a part of each 64, so that the
/// lengths of compressed chunks vary.
pub fn value(sequence: u32, at: usize) -> u32 {
    if sequence == 0 {
        return 0;
    }
    let noisy = mix(u64::from(sequence) << 32 | (at as u64 >> 6)) % 64;
    if at as u64 % 64 < noisy {
        mix((at as u64) << 32 | u64::from(sequence)) as u32 | 1
    } else {
        sequence
    }
}

fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// A fast random number generator.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.0) % n.max(1) as u64) as usize
    }
}

/// The state of the shards when the kill comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// The shard does not exist yet.
    New,
    /// It is full.
    Existing,
    /// It has gaps.
    Gaps,
    /// Chunks are emptied, until none is left.
    Emptied,
    /// One call writes to several shards.
    Regions,
    /// Every update exceeds the limit of gaps.
    Compaction,
    /// Shards that are streamed, and that `auto` changes in place.
    Large,
    /// More bytes in one update than are held in memory.
    Flood,
    /// The array grows slice by slice.
    Slices,
    /// A long mix of everything.
    Random,
}

impl Scenario {
    pub const STEPPED: [Self; 9] = [
        Self::New,
        Self::Existing,
        Self::Gaps,
        Self::Emptied,
        Self::Regions,
        Self::Compaction,
        Self::Large,
        Self::Flood,
        Self::Slices,
    ];
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self> {
        let all = Self::STEPPED.into_iter().chain([Self::Random]);
        all.into_iter()
            .find(|scenario| scenario.to_string() == text)
            .ok_or_else(|| format!("there is no scenario \"{text}\""))
    }
}

/// A sequence of updates of one array.
#[derive(Debug)]
pub struct Plan {
    pub shape: Shape,
    pub ops: Vec<Op>,
    /// The initial number of elements of the array.
    pub len: usize,
    /// How many of the updates come before those that are to be killed.
    pub prepared: usize,
}

impl Plan {
    pub fn new(setup: &Setup, scenario: Scenario, seed: u64) -> Self {
        let shape = match scenario {
            Scenario::Large => Shape { chunk: 32 << 10, chunks: 80, shards: 1 },
            Scenario::Flood => Shape { chunk: 64 << 10, chunks: 48, shards: 1 },
            _ => Shape { chunk: 64, chunks: 16, shards: 3 },
        };
        let mut making = Making { setup, shape, random: Random::new(seed), ops: Vec::new() };
        let prepared = making.prepare(scenario);
        making.torture(scenario);
        let len = if scenario == Scenario::Slices { 0 } else { shape.len() };
        Self { shape, ops: making.ops, len, prepared }
    }
}

struct Making<'a> {
    setup: &'a Setup,
    shape: Shape,
    random: Random,
    ops: Vec<Op>,
}

impl Making<'_> {
    fn add(&mut self, range: Range<usize>, empty: bool) {
        let sequence = if empty { 0 } else { self.ops.len() as u32 + 1 };
        let strategy = self.setup.strategy;
        self.ops.push(Op { range, sequence, strategy, max_gap: 0.25 });
    }

    fn chunks(&mut self, shard: usize, first: usize, count: usize, empty: bool) {
        let start = shard * self.shape.shard() + first * self.shape.chunk;
        self.add(start..start + count * self.shape.chunk, empty);
    }

    /// Some chunks of one shard, sometimes only a part of them.
    fn some(&mut self, shard: usize, most: usize, empty: bool) {
        let count = 1 + self.random.below(most);
        let first = self.random.below(self.shape.chunks - count + 1);
        self.chunks(shard, first, count, empty);
        if self.random.below(4) == 0
            && let Some(op) = self.ops.last_mut()
        {
            op.range.start += self.random.below(self.shape.chunk / 2);
            op.range.end -= self.random.below(self.shape.chunk / 2);
        }
    }

    fn prepare(&mut self, scenario: Scenario) -> usize {
        let all = 0..self.shape.len();
        if !matches!(scenario, Scenario::New | Scenario::Random | Scenario::Slices) {
            self.add(all, false);
        }
        if matches!(scenario, Scenario::Gaps) {
            for _ in 0..6 {
                self.some(0, 3, false);
            }
            self.some(0, 2, true);
            for op in &mut self.ops[1..] {
                (op.strategy, op.max_gap) = (Strategy::InPlace, 1.0);
            }
        }
        if matches!(scenario, Scenario::Flood) {
            self.ops[0].range.end -= 4 * self.shape.chunk;
        }
        self.ops.len()
    }

    fn torture(&mut self, scenario: Scenario) {
        let (shape, chunks) = (self.shape, self.shape.chunks);
        match scenario {
            Scenario::New => {
                self.some(0, 4, false);
                self.chunks(1, 0, chunks, false);
                self.some(0, 4, false);
            }
            Scenario::Existing => (0..3).for_each(|_| self.some(0, 4, false)),
            Scenario::Gaps => (0..4).for_each(|_| self.some(0, 3, false)),
            Scenario::Emptied => {
                self.some(0, 4, true);
                self.chunks(0, 0, chunks - 1, true);
                self.chunks(0, chunks - 1, 1, true);
                self.some(0, 2, false);
                self.chunks(1, 0, chunks, true);
            }
            Scenario::Regions => {
                self.add(100..shape.len() - 100, false);
                self.add(shape.shard() - 70..shape.shard() + 70, false);
                self.add(shape.shard()..shape.len(), false);
            }
            Scenario::Compaction => {
                let before = self.ops.len();
                for i in 0..3 {
                    self.some(0, 8, i == 1);
                }
                self.ops[before..].iter_mut().for_each(|op| op.max_gap = 0.0);
            }
            Scenario::Large => (0..2).for_each(|_| self.some(0, 3, false)),
            Scenario::Flood => {
                self.chunks(0, 2, 40, false);
                self.chunks(0, 40, 8, false);
            }
            Scenario::Slices => {
                let mut end = 0;
                for len in [10, 54, 200, 1000, 700] {
                    self.add(end..end + len, false);
                    end += len;
                }
            }
            Scenario::Random => self.anything(),
        }
    }

    fn anything(&mut self) {
        for _ in 0..4000 {
            let shard = self.random.below(self.shape.shards);
            match self.random.below(20) {
                0 => self.chunks(shard, 0, self.shape.chunks, true),
                1 => self.chunks(shard, 0, self.shape.chunks, false),
                2 => {
                    let start = self.random.below(self.shape.len() / 2);
                    let len = 1 + self.random.below(self.shape.len() / 2);
                    self.add(start..start + len, false);
                }
                3..=6 => self.some(shard, 4, true),
                _ => self.some(shard, 4, false),
            }
            if self.random.below(8) == 0
                && let Some(op) = self.ops.last_mut()
            {
                op.max_gap = 0.0;
            }
        }
    }
}
