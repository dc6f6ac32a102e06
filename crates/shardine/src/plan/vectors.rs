//! Chunks, bins and shards of a level of Zarr Vectors.

use super::recommend::{Action, recommend};
use super::rule::{Choice, Rule};
use super::situation::{PlanError, Situation, count};

/// A chunk has too few vertices with less than this on average, if there are more than
/// [`MANY_CHUNKS`].
const FEW_VERTICES: u64 = 1_000;
const MANY_CHUNKS: u64 = 10_000;

/// How many vertices larger chunks have at least.
const ENOUGH_VERTICES: f64 = 2_000.0;

/// A chunk has too many vertices with more than this on average, and smaller ones at most that.
const MANY_VERTICES: u64 = 1_000_000;
const LESS_VERTICES: f64 = 250_000.0;

/// Chunks with fewer vertices are not divided into bins, and a bin has about this many.
const BINNED_VERTICES: u64 = 65_536;
const BIN_VERTICES: f64 = 8_192.0;

/// Bins with fewer vertices cost more than they save.
const FEW_IN_BIN: f64 = 32.0;

/// The most by which the edges of chunks change.
const MOST_FACTOR: u32 = 64;

/// A name in `nonempty_chunks` of each array, about.
const LISTED_BYTES: u64 = 17;

/// What is known about a level of a store.
#[derive(Debug, Clone)]
pub struct VectorSituation {
    /// The edges of a chunk, in units of space.
    pub chunk: Vec<f64>,
    /// The edges of a bin, if chunks are divided.
    pub bin: Option<Vec<f64>>,
    /// Whether chunks may be divided into bins: points without objects.
    pub can_bin: bool,
    /// How many vertices there are.
    pub vertices: u64,
    /// How many chunks are stored.
    pub chunks: u64,
    /// How many arrays have a cell for each of these chunks.
    pub arrays: u64,
    /// The one whose cells are largest: its shape is the grid of chunks, its chunks are cells.
    pub cells: Situation,
}

/// The recommended shapes, and why.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VectorRecommendation {
    /// The edges of a chunk.
    pub chunk: Vec<f64>,
    /// What decided it.
    pub chunk_choice: Choice,
    /// The edges of a bin; `None` if chunks are not divided.
    pub bin: Option<Vec<f64>>,
    /// What decided it.
    pub bin_choice: Choice,
    /// How many chunks a shard has along each axis; `None` stores each as an object of its own.
    pub chunks_per_shard: Option<Vec<u64>>,
    /// What decided it.
    pub shard_choice: Choice,
    /// What should be done.
    pub action: Action,
    /// The figures of the level as it is.
    pub before: VectorFigures,
    /// The figures of the level as recommended.
    pub after: VectorFigures,
}

/// What follows from shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VectorFigures {
    /// Chunks with vertices.
    pub chunks: u64,
    /// Vertices of one, on average.
    pub vertices_per_chunk: u64,
    /// Objects of one array that there is room for.
    pub objects: u64,
    /// Bytes of one, on average, if all of its chunks are stored.
    pub object_bytes: u64,
    /// Requests for a box of two chunks of now along each axis, in one array: the fewest, of a
    /// reader that merges those to one shard, and the most.
    pub requests: [u64; 2],
    /// Writers that never wait for each other: one for each object.
    pub writers: u64,
}

/// Recommends chunks, bins and shards for a level of Zarr Vectors. A pure function; shards follow
/// the rules of [`recommend`], with cells for chunks.
pub fn recommend_vectors(situation: &VectorSituation) -> Result<VectorRecommendation, PlanError> {
    let (factor, chunk_choice) = choose_chunk(situation);
    let rank = situation.chunk.len();
    let chunk: Vec<f64> = situation.chunk.iter().map(|edge| edge * factor).collect();
    let grown = factor.powi(i32::try_from(rank).unwrap_or(i32::MAX));
    let cells = resized(&situation.cells, rank, factor, grown);
    let advice = recommend(&cells)?;
    let (bin, bin_choice) = choose_bin(situation, &chunk, factor, grown);
    let chunks_per_shard = advice.shard.clone();
    let rewritten = factor != 1.0 || bin != situation.bin;
    let action = if rewritten { Action::Rechunk } else { advice.action };
    let current = situation.cells.current.as_ref().and_then(|current| current.shard.as_deref());
    let before = figures(situation, &situation.cells, rank, 1.0, 1.0, current);
    let after = figures(situation, &cells, rank, factor, grown, chunks_per_shard.as_deref());
    let shard_choice = advice.shard_choice;
    Ok(VectorRecommendation {
        chunk,
        chunk_choice,
        bin,
        bin_choice,
        chunks_per_shard,
        shard_choice,
        action,
        before,
        after,
    })
}

fn choose_chunk(situation: &VectorSituation) -> (f64, Choice) {
    let mean = situation.vertices.checked_div(situation.chunks).unwrap_or(0);
    let rank = i32::try_from(situation.chunk.len()).unwrap_or(1);
    let factors =
        || (1..).map(|power| 2u32.saturating_pow(power)).take_while(|f| *f <= MOST_FACTOR);
    if situation.chunks > MANY_CHUNKS && mean < FEW_VERTICES {
        let enough = |f: &u32| mean as f64 * f64::from(*f).powi(rank) >= ENOUGH_VERTICES;
        let factor = factors().find(enough).unwrap_or(MOST_FACTOR);
        let list = situation.chunks.saturating_mul(LISTED_BYTES) / 1000;
        let reason = format!(
            "{} chunks of {mean} vertices on average are too small: each is an entry of its own, \
             and the list of them takes {list} kB in the document of each of {} arrays. Edges \
             {factor} times as long",
            situation.chunks, situation.arrays
        );
        return (factor.into(), Choice::new(Rule::FewVertices, reason));
    }
    if mean > MANY_VERTICES {
        let less = |f: &u32| mean as f64 / f64::from(*f).powi(rank) <= LESS_VERTICES;
        let factor = factors().find(less).unwrap_or(MOST_FACTOR);
        let reason = format!(
            "a chunk of {mean} vertices on average is too large: a small box reads all of it. \
             Edges divided by {factor}"
        );
        return (1.0 / f64::from(factor), Choice::new(Rule::ManyVertices, reason));
    }
    let reason = format!("{mean} vertices a chunk on average: cells are moved as they are");
    (1.0, Choice::new(Rule::ChunkKept, reason))
}

fn choose_bin(
    situation: &VectorSituation,
    chunk: &[f64],
    factor: f64,
    grown: f64,
) -> (Option<Vec<f64>>, Choice) {
    let mean = situation.vertices as f64 / situation.chunks.max(1) as f64 * grown;
    let none = |rule, reason: String| (None, Choice::new(rule, reason));
    if let Some(bin) = &situation.bin {
        let axes = bin.iter().zip(chunk);
        let bins: f64 = axes.map(|(bin, chunk)| (chunk / bin).round().max(1.0)).product();
        let each = mean / bins;
        if each < FEW_IN_BIN && bins > 1.0 {
            let reason = format!(
                "bins of {each:.1} vertices on average are too small: each takes 16 bytes, and a \
                 chunk is read as a whole"
            );
            return none(Rule::BinTooSmall, reason);
        }
        if factor >= 1.0 {
            let reason = format!("bins of {each:.0} vertices on average are suitable");
            return (Some(bin.clone()), Choice::new(Rule::BinKept, reason));
        }
    }
    if !situation.can_bin {
        return none(Rule::NoBins, "bins are for points without objects".to_owned());
    }
    if mean < BINNED_VERTICES as f64 {
        let reason = format!("{mean:.0} vertices a chunk are few enough to be looked at together");
        return none(Rule::NoBins, reason);
    }
    let rank = chunk.len().max(1) as f64;
    let parts = (mean / BIN_VERTICES).powf(1.0 / rank).floor().max(2.0);
    let reason = format!("{mean:.0} vertices a chunk, in {parts} bins along each axis");
    let bin = chunk.iter().map(|edge| edge / parts).collect();
    (Some(bin), Choice::new(Rule::BinDivides, reason))
}

/// Cells as they would be if the edges of chunks were `factor` times as long along the last `rank`
/// axes, and a chunk had `grown` times as much in it.
fn resized(cells: &Situation, rank: usize, factor: f64, grown: f64) -> Situation {
    let mut cells = cells.clone();
    let unit = vec![1; cells.shape.len()];
    if factor == 1.0 {
        cells.chunk = Some(unit);
        return cells;
    }
    let bytes = cells.encoded(&unit) as f64 * grown;
    let skip = cells.shape.len().saturating_sub(rank);
    for len in cells.shape.iter_mut().skip(skip) {
        *len = (*len as f64 / factor).ceil().max(1.0) as u64;
    }
    let mut new = Situation::new(cells.shape.clone(), bytes.round().max(1.0) as u64);
    (new.chunk, new.remote, new.purpose) = (Some(unit), cells.remote, cells.purpose);
    (new.writers, new.threads, new.target) = (cells.writers, cells.threads, cells.target);
    new
}

fn figures(
    situation: &VectorSituation,
    cells: &Situation,
    rank: usize,
    factor: f64,
    grown: f64,
    shard: Option<&[u64]>,
) -> VectorFigures {
    let unit = vec![1; cells.shape.len()];
    let per_object: Vec<u64> = shard.map_or_else(|| unit.clone(), <[u64]>::to_vec);
    let skip = cells.shape.len().saturating_sub(rank);
    // A box of two chunks of now, in the place where it touches the most.
    let (mut touched, mut objects) = (1u64, 1u64);
    for (axis, len) in cells.shape.iter().enumerate().skip(skip) {
        let along = ((2.0 / factor).ceil() as u64 + 1).min(*len).max(1);
        let per = per_object.get(axis).copied().unwrap_or(1).max(1);
        touched = touched.saturating_mul(along);
        let shards = (along - 1).div_ceil(per) + 1;
        objects = objects.saturating_mul(shards.min(len.div_ceil(per)).max(1));
    }
    let requests = match shard {
        None => [touched, touched],
        Some(_) => [objects.saturating_mul(2), touched.saturating_add(objects)],
    };
    let chunks = (situation.chunks as f64 / grown).ceil().max(1.0) as u64;
    let room = count(&cells.grid(&per_object));
    let in_object = count(&per_object).min(count(&cells.shape));
    VectorFigures {
        chunks,
        vertices_per_chunk: situation.vertices.checked_div(chunks).unwrap_or(0),
        objects: if shard.is_none() { chunks.min(room) } else { room },
        object_bytes: cells.encoded(&unit).saturating_mul(in_object),
        requests: [requests[0].min(requests[1]), requests[1]],
        writers: if shard.is_none() { chunks.min(room) } else { room },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Current;
    use crate::shard::IndexLocation;

    fn situation(vertices: u64, chunks: u64, grid: u64, cell: u64) -> VectorSituation {
        let mut cells = Situation::new(vec![grid; 3], cell);
        cells.current = Some(Current {
            chunk: vec![1; 3],
            shard: None,
            index: IndexLocation::End,
            checksum: true,
        });
        let (chunk, bin) = (vec![10.0; 3], None);
        VectorSituation { chunk, bin, can_bin: true, vertices, chunks, arrays: 2, cells }
    }

    #[test]
    fn chunks_of_a_few_vertices_become_larger() {
        let advice = recommend_vectors(&situation(1_000_000, 21_339, 28, 600)).unwrap();
        assert_eq!((advice.chunk_choice.rule, advice.chunk), (Rule::FewVertices, vec![40.0; 3]));
        assert_eq!(advice.action, Action::Rechunk);
        assert!(advice.after.chunks < 400 && advice.after.vertices_per_chunk > 2_000);
    }

    #[test]
    fn chunks_of_millions_become_smaller_and_have_bins() {
        let advice = recommend_vectors(&situation(400_000_000, 100, 5, 48_000_000)).unwrap();
        assert_eq!((advice.chunk_choice.rule, advice.chunk), (Rule::ManyVertices, vec![2.5; 3]));
        assert_eq!(advice.bin_choice.rule, Rule::NoBins);
        let advice = recommend_vectors(&situation(40_000_000, 100, 5, 4_800_000)).unwrap();
        assert_eq!(advice.chunk_choice.rule, Rule::ChunkKept);
        assert_eq!(
            (advice.bin_choice.rule, advice.bin),
            (Rule::BinDivides, Some(vec![10.0 / 3.0; 3]))
        );
    }

    #[test]
    fn shards_have_ten_to_a_hundred_megabytes_in_an_object_store() {
        let mut remote = situation(50_000_000, 10_000, 22, 60_000);
        remote.cells.remote = true;
        let advice = recommend_vectors(&remote).unwrap();
        assert_eq!(advice.action, Action::Reshard);
        let shard = advice.chunks_per_shard.unwrap();
        let bytes = shard.iter().product::<u64>() * 60_000;
        assert!((10_000_000..=100_000_000).contains(&bytes), "{shard:?}");
        assert!(advice.after.requests[0] < advice.before.requests[0]);
        assert!(advice.after.writers < advice.before.writers);
    }

    #[test]
    fn bins_of_a_few_vertices_are_given_up() {
        let mut binned = situation(1_000_000, 1_000, 10, 12_000);
        binned.bin = Some(vec![1.0; 3]);
        let advice = recommend_vectors(&binned).unwrap();
        assert_eq!((advice.bin_choice.rule, advice.bin), (Rule::BinTooSmall, None));
        binned.bin = Some(vec![5.0; 3]);
        let advice = recommend_vectors(&binned).unwrap();
        assert_eq!((advice.bin_choice.rule, advice.action), (Rule::BinKept, Action::Nothing));
    }
}
