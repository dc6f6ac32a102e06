//! From a situation to shapes.

use super::chunk::chunk_shape;
use super::figures::Figures;
use super::packing::{Limits, grow};
use super::rule::{Choice, Rule};
use super::situation::{PlanError, Purpose, Situation, count};
use crate::shard::IndexLocation;

const MB: u64 = 1_000_000;

/// The range of acceptable shard sizes, in bytes.
const LEAST: u64 = 10 * MB;
const MOST: u64 = 100 * MB;

/// The default target size.
const TARGET: u64 = 64 << 20;

/// The target where every change may rewrite a shard.
const UPDATE_TARGET: u64 = 16 << 20;

/// The target where only the number of objects counts.
const ARCHIVE_TARGET: u64 = 96 * MB;

/// The most chunks in a shard: an index of 512 KiB, which has to be read before any chunk.
const SHARD_CHUNKS: u64 = 1 << 15;

/// The most bytes in a shard before compression: other writers hold a whole shard in memory.
const SHARD_MEMORY: u64 = 1 << 30;

/// The number of chunks that a local disk handles easily.
const FEW_CHUNKS: u64 = 1_000_000;

/// Chunks per axis in a shard that is served.
const PER_AXIS: u64 = 8;

/// A chunk is too small with fewer elements and bytes than these, if the array has more than this
/// many chunks.
const SMALL_ELEMENTS: u64 = 16 * 16 * 16;
const SMALL_BYTES: u64 = 16 << 10;
const SMALL_COUNT: u64 = 10_000;

/// A chunk is too large with more than this many bytes before compression.
const LARGE_BYTES: u64 = 16 << 20;
const LARGE_ARCHIVED: u64 = 128 << 20;

/// What should be done to an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Nothing: it is fine.
    Nothing,
    /// It does not exist yet.
    Create,
    /// Repack its chunks, moving them unchanged.
    Reshard,
    /// Repack its chunks, each as an object of its own.
    Unshard,
    /// Give it chunks of another shape, which re-encodes them.
    Rechunk,
}

/// The recommended shapes, and why.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Recommendation {
    /// The shape of chunks.
    pub chunk: Vec<u64>,
    /// What decided it.
    pub chunk_choice: Choice,
    /// The shape of shards, which hold whole chunks; `None` stores each chunk as an object of its
    /// own.
    pub shard: Option<Vec<u64>>,
    /// What decided it.
    pub shard_choice: Choice,
    /// Where the index of a shard goes, and what decided it; `None` without shards. The index
    /// should have a checksum.
    pub index: Option<(IndexLocation, Choice)>,
    /// What should be done.
    pub action: Action,
    /// The figures of the array as it is.
    pub before: Option<Figures>,
    /// The figures of the array as recommended.
    pub after: Figures,
    /// Anything else worth knowing: one line each.
    pub notes: Vec<String>,
}

/// Recommends the shapes of chunks and shards.
///
/// Deterministic, and a pure function of the situation. The only error is a given shape that does
/// not fit the array.
pub fn recommend(situation: &Situation) -> Result<Recommendation, PlanError> {
    situation.check()?;
    let (chunk, chunk_choice) = choose_chunk(situation);
    let (shard, shard_choice) = choose_shard(situation, &chunk, chunk_choice.rule);
    let index = shard.as_ref().map(|_| choose_index(situation));
    let current = situation.current.as_ref();
    let action = match current {
        None => Action::Create,
        Some(current) if current.chunk != chunk => Action::Rechunk,
        Some(current) if current.shard.is_some() && shard.is_none() => Action::Unshard,
        Some(current) => {
            let index_stays = index.as_ref().is_none_or(|(place, choice)| {
                *place == current.index && (current.checksum || choice.rule == Rule::IndexKept)
            });
            match current.shard == shard && index_stays {
                true => Action::Nothing,
                false => Action::Reshard,
            }
        }
    };
    let before =
        current.map(|current| Figures::new(situation, &current.chunk, current.shard.as_deref()));
    let after = Figures::new(situation, &chunk, shard.as_deref());
    let notes = notes(situation, &chunk, shard.as_deref());
    Ok(Recommendation {
        chunk,
        chunk_choice,
        shard,
        shard_choice,
        index,
        action,
        before,
        after,
        notes,
    })
}

fn choose_chunk(situation: &Situation) -> (Vec<u64>, Choice) {
    if let Some(chunk) = &situation.chunk {
        return (chunk.clone(), Choice::new(Rule::ChunkGiven, "as given"));
    }
    let fresh = chunk_shape(&situation.shape, situation.element_bytes);
    let Some(current) = &situation.current else {
        let reason = "about 64^3 elements (512^2 in a plane), at most 4 MiB; short axes whole";
        return (fresh, Choice::new(Rule::Chunk64, reason));
    };
    let raw = situation.raw(&current.chunk);
    let (elements, chunks) = (count(&current.chunk), count(&situation.grid(&current.chunk)));
    let small = elements < SMALL_ELEMENTS && raw < SMALL_BYTES && chunks > SMALL_COUNT;
    if small && fresh != current.chunk {
        let reason = format!(
            "{chunks} chunks of {elements} elements ({raw} bytes) are too small: each costs an entry and a request of its own"
        );
        return (fresh, Choice::new(Rule::ChunkTooSmall, reason));
    }
    let most = match situation.purpose {
        Purpose::Archive => LARGE_ARCHIVED,
        _ => LARGE_BYTES,
    };
    if raw > most && situation.raw(&fresh) < raw {
        let reason = format!(
            "a chunk of {} before compression is too large: reading any of it decodes all of it",
            megabytes(raw)
        );
        return (fresh, Choice::new(Rule::ChunkTooLarge, reason));
    }
    let reason = "the existing chunks are suitable, and are moved without being decoded";
    (current.chunk.clone(), Choice::new(Rule::ChunkKept, reason))
}

/// The target that suits the purpose of the array.
fn target(situation: &Situation) -> u64 {
    situation.target.unwrap_or(match situation.purpose {
        Purpose::Update => UPDATE_TARGET,
        Purpose::Archive => ARCHIVE_TARGET,
        _ => TARGET,
    })
}

fn choose_shard(
    situation: &Situation,
    chunk: &[u64],
    chunk_rule: Rule,
) -> (Option<Vec<u64>>, Choice) {
    let grid = situation.grid(chunk);
    let chunks = count(&grid);
    // An axis that is still empty will get chunks.
    let growing = situation.shape.contains(&0);
    let current = situation.current.as_ref().filter(|current| current.chunk == chunk);
    let current = current.and_then(|current| current.shard.clone());
    let encoded = situation.encoded(chunk);
    let none = |rule, reason: String| (None, Choice::new(rule, reason));
    if chunks <= 1 && !growing {
        return none(Rule::OneChunk, "the whole array is one chunk".to_owned());
    }
    if situation.purpose == Purpose::Write && situation.writers > 1 {
        let reason = format!(
            "{} concurrent writers: they wait for each other if they share a shard, but not with \
             single chunks",
            situation.writers
        );
        return none(Rule::ParallelWriters, reason);
    }
    if let Some(shard) = &current
        && situation.target.is_none()
        && let Some(choice) = keep(situation, chunk, shard)
    {
        return (current, choice);
    }
    let few = chunks < FEW_CHUNKS && !situation.remote && situation.target.is_none();
    let packs_anyway = matches!(situation.purpose, Purpose::Serve | Purpose::Archive);
    if few && !packs_anyway && current.is_none() {
        let reason = match chunk_rule {
            _ if growing => "a local disk holds up to a million chunks without shards".to_owned(),
            _ => format!("{chunks} chunks on a local disk: below a million, shards are overhead"),
        };
        return none(Rule::FewLocalChunks, reason);
    }
    if encoded >= target(situation) {
        let reason =
            format!("a chunk alone takes {}, as much as a shard should", megabytes(encoded));
        return none(Rule::LargeChunks, reason);
    }
    pack(situation, chunk, encoded, growing)
}

/// Why the existing shards may stay, if they may.
fn keep(situation: &Situation, chunk: &[u64], shard: &[u64]) -> Option<Choice> {
    let figures = Figures::new(situation, chunk, Some(shard));
    let (mean, largest) = (figures.object_bytes, figures.largest_object_bytes);
    if figures.index_bytes > 4 * 16 * SHARD_CHUNKS {
        return None;
    }
    let most = match situation.purpose {
        Purpose::Update if !situation.remote => MOST,
        Purpose::Update => 2 * UPDATE_TARGET,
        _ => MOST,
    };
    if figures.cells <= 1 && largest <= MOST {
        let reason = format!("all of the array is in one shard of {}", megabytes(mean));
        return Some(Choice::new(Rule::ShardKept, reason));
    }
    if (LEAST..=most).contains(&mean) {
        let reason = format!(
            "the existing shards have {} on average: within 10 to {} MB",
            megabytes(mean),
            most / MB
        );
        return Some(Choice::new(Rule::ShardKept, reason));
    }
    None
}

/// The axes along which views extend: the last three that have a chunk longer than 1, or the last
/// three.
fn looked_along(chunk: &[u64], grid: &[u64]) -> Vec<usize> {
    let axes = |along: &dyn Fn(usize) -> bool| {
        let mut axes: Vec<usize> = (0..chunk.len()).rev().filter(|&k| along(k)).take(3).collect();
        axes.reverse();
        axes
    };
    let extended = axes(&|k| chunk[k] > 1);
    if extended.is_empty() { axes(&|k| grid[k] > 1) } else { extended }
}

fn pack(
    situation: &Situation,
    chunk: &[u64],
    encoded: u64,
    growing: bool,
) -> (Option<Vec<u64>>, Choice) {
    // No limit along an axis that will grow, short of overflow.
    let grid: Vec<u64> = situation
        .grid(chunk)
        .iter()
        .zip(chunk)
        .map(|(&n, &c)| if n == 0 { u64::MAX / c } else { n.min(u64::MAX / c) })
        .collect();
    let target = target(situation);
    let in_memory = (SHARD_MEMORY / situation.raw(chunk).max(1)).max(1);
    let limits = Limits { target, chunks: SHARD_CHUNKS.min(in_memory) };
    let along = looked_along(chunk, &grid);
    let all: Vec<usize> = (0..chunk.len()).collect();
    let shape = |packed: &[u64]| packed.iter().zip(chunk).map(|(&n, &c)| n * c).collect::<Vec<_>>();
    if situation.purpose == Purpose::Serve && situation.target.is_none() {
        let mut eight = vec![1; chunk.len()];
        along.iter().for_each(|&k| eight[k] = PER_AXIS.min(grid[k]));
        let bytes = count(&eight).saturating_mul(encoded);
        let fits = (LEAST..=MOST).contains(&bytes) && count(&eight) <= limits.chunks;
        // If the array has a single chunk along these axes, the shards would hold one chunk each.
        if fits && count(&eight) > 1 {
            let reason = format!(
                "8 chunks per axis, the default for serving: {} per shard",
                megabytes(bytes)
            );
            return (Some(shape(&eight)), Choice::new(Rule::EightPerAxis, reason));
        }
    }
    let mut packed = vec![1; chunk.len()];
    grow(&mut packed, &along, &grid, encoded, limits);
    grow(&mut packed, &all, &grid, encoded, limits);
    let chunks = count(&packed);
    let raw = chunks.saturating_mul(situation.raw(chunk));
    if chunks <= 1 {
        let each = megabytes(encoded);
        let reason = match in_memory {
            1 => format!("two chunks of {each} would be past 1 GiB before compression"),
            _ => format!("two chunks of {each} would be far past {}", megabytes(target)),
        };
        return (None, Choice::new(Rule::LargeChunks, reason));
    }
    let bytes = megabytes(chunks.saturating_mul(encoded));
    let limited = chunks.saturating_mul(encoded) < target / 2;
    let choice = if packed == grid && !growing {
        Choice::new(Rule::WholeArray, format!("all of the array in one shard of {bytes}"))
    } else if limited && chunks.saturating_mul(2) > in_memory {
        let reason = format!(
            "{chunks} chunks come to {bytes}, but to {} before compression, which some writers hold in memory",
            megabytes(raw)
        );
        Choice::new(Rule::MemoryLimit, reason)
    } else if limited && chunks.saturating_mul(2) > SHARD_CHUNKS {
        let reason = format!(
            "{chunks} chunks of {encoded} bytes, {bytes}: more would make an index past 512 KiB"
        );
        Choice::new(Rule::IndexLimit, reason)
    } else {
        let (range, why) = match (situation.target, situation.purpose) {
            (Some(_), _) => ("as asked for", ""),
            (_, Purpose::Update) => {
                ("within 10 to 100 MB", "; few, as a change may rewrite a shard")
            }
            (_, Purpose::Archive) => ("within 10 to 100 MB", "; many, for few objects"),
            _ => ("within 10 to 100 MB", ""),
        };
        let reason =
            format!("{chunks} chunks come to {bytes}, near {}, {range}{why}", megabytes(target));
        Choice::new(Rule::TargetSize, reason)
    };
    (Some(shape(&packed)), choice)
}

fn choose_index(situation: &Situation) -> (IndexLocation, Choice) {
    let sharded = situation.current.as_ref().filter(|current| current.shard.is_some());
    if situation.purpose == Purpose::Update {
        let reason =
            "at the start, with crc32c, an index can be switched in place when a chunk changes";
        return (IndexLocation::Start, Choice::new(Rule::IndexStart, reason));
    }
    match sharded {
        Some(current) if current.checksum => (
            current.index,
            Choice::new(Rule::IndexKept, "it has a checksum, and stays where it is"),
        ),
        Some(current) => {
            let reason = "it stays where it is, but should have a checksum";
            (current.index, Choice::new(Rule::IndexEnd, reason))
        }
        None => {
            let reason = "at the end, with crc32c: the default, which every reader knows";
            (IndexLocation::End, Choice::new(Rule::IndexEnd, reason))
        }
    }
}

fn notes(situation: &Situation, chunk: &[u64], shard: Option<&[u64]>) -> Vec<String> {
    let mut notes = Vec::new();
    if situation.sample.is_none() && situation.ratio.is_none() {
        notes.push(
            "nothing was measured and no ratio given: sizes are those before compression"
                .to_owned(),
        );
    }
    if situation.shape.contains(&0) {
        notes.push("an axis without elements is expected to grow".to_owned());
    }
    // What lies beyond the edge of the array in its last chunks.
    let axes = situation.shape.iter().zip(chunk).filter(|&(&length, _)| length > 0);
    let covered =
        axes.map(|(&length, &c)| length.div_ceil(c.max(1)) as f64 * c as f64 / length as f64);
    let over = 100.0 * (covered.product::<f64>() - 1.0);
    if over >= 10.0 {
        notes.push(format!(
            "{over:.0} % more elements lie past the edge: fill value in the last chunks, which \
             compresses well"
        ));
    }
    if situation.writers > 1 && shard.is_some() {
        notes.push(
            "give each writer whole shards: writers that share a shard wait for each other"
                .to_owned(),
        );
    }
    if let Some(ratio) = situation.sample.as_ref().and_then(|sample| sample.ratio)
        && ratio < 1.05
    {
        notes.push(format!(
            "the chunks hardly compress (ratio {ratio:.2}): another codec, or none, may do as well"
        ));
    }
    notes
}

/// Bytes for display, in the unit of the rules.
fn megabytes(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..100_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        100_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
