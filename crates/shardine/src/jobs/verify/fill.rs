//! Finds chunks that are probably missing: absent ones are legal, so only what looks like a loss is
//! reported.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use shardine_store::Key;

use crate::engine::{Cells, shard_box};
use crate::jobs::check::keyed::{Checked, Fault, Folder, Payload};
use crate::jobs::check::{Finding, FindingKind, Run};
use crate::precomputed::Scale;
use crate::shard::uint64::{MortonCode, Sharding};

/// The most chunks of a scale whose presence is tracked.
const MOST_CELLS: u64 = 1 << 24;

/// The most shards of a scale whose capacity is computed.
const MOST_SHARDS: u64 = 1 << 20;

/// The smallest capacity of a shard, or a grid, that is compared.
const FEWEST: u64 = 8;

/// The most chunks of finer scales that are looked up for the chunks of all coarser scales of a
/// volume.
const MOST_LOOKS: u64 = 8 * MOST_CELLS;

/// The most shards reported one by one.
const SINGLE: usize = 20;

/// Which chunks of a grid exist.
#[derive(Debug)]
pub(crate) struct Presence {
    grid: [u64; 3],
    /// A bit for each chunk; empty if there are too many.
    bits: Vec<AtomicU64>,
}

impl Presence {
    pub fn new(grid: [u64; 3]) -> Self {
        let cells = cells(grid).filter(|&cells| cells <= MOST_CELLS).unwrap_or(0);
        let words = cells.div_ceil(64);
        Self { grid, bits: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Whether it is known which chunks exist.
    fn is_known(&self) -> bool {
        !self.bits.is_empty()
    }

    fn at(&self, cell: [u64; 3]) -> Option<(&AtomicU64, u64)> {
        let [x, y, z] = cell;
        let i = x + self.grid[0] * (y + self.grid[1] * z);
        Some((self.bits.get((i / 64) as usize)?, 1 << (i % 64)))
    }

    /// Records that a chunk of the grid exists.
    pub fn set(&self, cell: [u64; 3]) {
        if self.is_known()
            && let Some((word, bit)) = self.at(cell)
        {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn get(&self, cell: [u64; 3]) -> bool {
        self.at(cell).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    fn count(&self) -> u64 {
        self.bits.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }

    /// The chunks that exist.
    fn cells(&self) -> impl Iterator<Item = [u64; 3]> {
        let [nx, ny, _] = self.grid;
        self.bits.iter().enumerate().flat_map(move |(i, word)| {
            let word = word.load(Ordering::Relaxed);
            (0..64u64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| {
                let i = i as u64 * 64 + bit;
                [i % nx, i / nx % ny, i / nx / ny]
            })
        })
    }
}

fn cells(grid: [u64; 3]) -> Option<u64> {
    grid.iter().try_fold(1u64, |all, &n| all.checked_mul(n))
}

/// How much of its capacity a shard uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShardFill {
    number: u64,
    /// Whether all of its indexes could be read.
    known: bool,
    count: u64,
    low: [u64; 3],
    high: [u64; 3],
}

impl ShardFill {
    fn new(number: u64, known: bool) -> Self {
        Self { number, known, count: 0, low: [u64::MAX; 3], high: [0; 3] }
    }

    fn add(&mut self, cell: [u64; 3]) {
        self.count += 1;
        for (axis, i) in cell.into_iter().enumerate() {
            self.low[axis] = self.low[axis].min(i);
            self.high[axis] = self.high[axis].max(i);
        }
    }

    /// The chunks of a shard that readers find in their places; they are recorded in `presence`.
    pub fn of(checked: &Checked, folder: &Folder, number: u64, presence: &Presence) -> Self {
        let mut fill = Self::new(number, checked.survey.faults.is_empty());
        for surveyed in &checked.survey.entries {
            let fault = surveyed.fault.as_deref();
            if matches!(fault, Some(Fault::Misplaced { .. } | Fault::Duplicate)) {
                continue;
            }
            if let Some(cell) = folder.cell(surveyed.entry.key) {
                presence.set(cell);
                fill.add(cell);
            }
        }
        fill
    }

    /// Whether its chunks fill a box.
    fn is_box(&self) -> bool {
        let extent = |axis: usize| self.high[axis].checked_sub(self.low[axis])?.checked_add(1);
        let volume = (0..3).try_fold(1u64, |all, axis| all.checked_mul(extent(axis)?));
        self.count > 0 && volume == Some(self.count)
    }
}

/// What exists of a scale.
#[derive(Debug)]
pub(crate) struct Filling {
    folder: Option<Key>,
    pub presence: Presence,
    shards: Vec<ShardFill>,
    /// The capacity of each shard in chunks; `None` if unknown.
    room: Option<BTreeMap<u64, u64>>,
    sharding: Option<Sharding>,
    /// Whether something could not be read, so that it is unknown what exists.
    pub unknown: bool,
}

impl Filling {
    pub fn of(folder: &Folder) -> Self {
        let (grid, code) = match &folder.payload {
            Payload::Chunks(chunks) => (chunks.grid, chunks.code),
            Payload::Values(_) => ([0; 3], None),
        };
        let sharding = &folder.shards.sharding;
        Self {
            room: code.and_then(|code| room(sharding, &code)),
            sharding: Some(sharding.clone()),
            ..Self::of_chunks(folder.shards.folder.clone(), grid)
        }
    }

    /// For an unsharded scale.
    pub fn of_chunks(folder: Option<Key>, grid: [u64; 3]) -> Self {
        let presence = Presence::new(grid);
        Self { folder, presence, shards: Vec::new(), room: None, sharding: None, unknown: false }
    }

    pub fn add(&mut self, shard: ShardFill) {
        self.unknown |= !shard.known;
        self.shards.push(shard);
    }

    /// Shards that have far fewer chunks than the others: number, chunks, and capacity.
    fn sparse(&self) -> Vec<(u64, u64, u64)> {
        let Some(room) = &self.room else { return Vec::new() };
        let there: BTreeMap<u64, u64> = self.shards.iter().map(|s| (s.number, s.count)).collect();
        let compared = || room.iter().filter(|(_, room)| **room >= FEWEST);
        let fill =
            |shard: u64, room: u64| there.get(&shard).copied().unwrap_or(0) as f64 / room as f64;
        let mut fills: Vec<f64> = compared().map(|(&shard, &room)| fill(shard, room)).collect();
        if fills.len() < 3 {
            return Vec::new();
        }
        fills.sort_by(f64::total_cmp);
        let median = fills[fills.len() / 2];
        let is_sparse = |shard: u64, room: u64| match there.contains_key(&shard) {
            true => median >= 0.8 && fill(shard, room) < 0.5 * median,
            false => median >= 0.9,
        };
        compared()
            .filter(|(shard, room)| is_sparse(**shard, **room))
            .map(|(&shard, &room)| (shard, there.get(&shard).copied().unwrap_or(0), room))
            .collect()
    }

    /// Whether the scale looks as if each task had replaced a shard instead of adding to it: boxes
    /// that fill less than half of their shards. Returns how many shards look like that, and how
    /// many there are.
    fn boxes(&self) -> Option<(usize, usize)> {
        let room = self.room.as_ref()?;
        let room = |shard: &ShardFill| room.get(&shard.number).copied().unwrap_or(0);
        let compared = || self.shards.iter().filter(|shard| room(shard) >= FEWEST);
        let left = |shard: &&ShardFill| shard.count < room(shard).div_ceil(2) && shard.is_box();
        let (left, all) = (compared().filter(left).count(), compared().count());
        (all > 0 && left * 2 >= all).then_some((left, all))
    }
}

/// The capacity of each shard in cells of the grid.
fn room(sharding: &Sharding, code: &MortonCode) -> Option<BTreeMap<u64, u64>> {
    let grid = code.grid();
    let cells = cells(grid).filter(|&cells| cells > 0)?;
    let mut room = BTreeMap::new();
    if let Some(shape) = shard_box(sharding, *code) {
        // Each shard is a box, cut off at the end of the grid.
        let boxes = Cells::new((0..3).map(|axis| grid[axis].div_ceil(shape[axis])).collect());
        if boxes.count > MOST_SHARDS {
            return None;
        }
        for at in boxes {
            let corner: [u64; 3] = std::array::from_fn(|axis| at[axis] * shape[axis]);
            let inside = |axis: usize| shape[axis].min(grid[axis] - corner[axis]);
            let shard = sharding.place(code.encode(corner)).shard;
            room.insert(shard, (0..3).map(inside).product());
        }
        return Some(room);
    }
    if cells > MOST_CELLS {
        return None;
    }
    for cell in Cells::new(grid.to_vec()) {
        let key = code.encode(std::array::from_fn(|axis| cell[axis]));
        *room.entry(sharding.place(key).shard).or_insert(0) += 1;
    }
    Some(room)
}

/// The chunks of a finer scale that cover the same space as a chunk of a coarser one, as half-open
/// ranges.
fn below(coarse: &Scale, cell: [u64; 3], fine: &Scale) -> Option<[(u64, u64); 3]> {
    // Fractions of a voxel up to this are rounding errors.
    const NOTHING: f64 = 1e-3;
    let (chunk, fine_chunk, grid) = (coarse.chunk_size(), fine.chunk_size(), fine.grid());
    let mut ranges = [(0, 0); 3];
    for (axis, range) in ranges.iter_mut().enumerate() {
        let start = cell[axis].checked_mul(chunk[axis])?;
        let end = start.saturating_add(chunk[axis]).min(coarse.size[axis]);
        let voxel = |at: u64| {
            let place = coarse.voxel_offset[axis] as f64 + at as f64;
            place * coarse.resolution[axis] / fine.resolution[axis] - fine.voxel_offset[axis] as f64
        };
        let first = (voxel(start) + NOTHING).max(0.0).floor() as u64 / fine_chunk[axis];
        let last = (voxel(end) - NOTHING).max(0.0).ceil() as u64;
        *range = (first, last.div_ceil(fine_chunk[axis]).min(grid[axis]));
        if range.0 >= range.1 {
            return None;
        }
    }
    Some(ranges)
}

/// How the chunks of a coarser scale compare with those of a finer one.
struct Holes {
    /// Chunks of the coarser scale that exist.
    chunks: u64,
    /// Those below which the finer one has none.
    holes: u64,
    first: Option<[u64; 3]>,
}

/// Looks up at most `looks` chunks of the finer scale, and subtracts them; `None` if there are
/// more. In a hostile document, one chunk may cover the whole of another scale.
fn holes(coarse: (&Scale, &Filling), fine: (&Scale, &Filling), looks: &mut u64) -> Option<Holes> {
    let mut found = Holes { chunks: 0, holes: 0, first: None };
    for cell in coarse.1.presence.cells() {
        let Some([x, y, z]) = below(coarse.0, cell, fine.0) else { continue };
        found.chunks += 1;
        let mut cells = (z.0..z.1)
            .flat_map(|z| (y.0..y.1).map(move |y| (y, z)))
            .flat_map(|(y, z)| (x.0..x.1).map(move |x| [x, y, z]));
        let found_one = cells.any(|cell| {
            *looks = looks.saturating_sub(1);
            *looks == 0 || fine.1.presence.get(cell)
        });
        if *looks == 0 {
            return None;
        }
        if !found_one {
            found.holes += 1;
            found.first.get_or_insert(cell);
        }
    }
    Some(found)
}

/// Whether a scale is coarser than another, and finer along no axis.
fn is_coarser(scale: &Scale, than: &Scale) -> bool {
    let ratios = scale.resolution.iter().zip(&than.resolution).map(|(a, b)| a / b);
    ratios.clone().all(|ratio| ratio >= 1.0 && ratio.is_finite()) && { ratios }.any(|r| r > 1.0)
}

impl Run<'_> {
    /// Reports chunks that are probably missing, by scale.
    pub(super) fn missing(&self, scales: &[(&Scale, Filling)]) {
        let mut looks = MOST_LOOKS;
        for (i, (scale, filling)) in scales.iter().enumerate() {
            if filling.unknown {
                continue;
            }
            let sparse = filling.sparse();
            self.sparse(filling, &sparse);
            let coarser = scales
                .iter()
                .skip(i + 1)
                .find(|(other, filling)| is_coarser(other, scale) && filling.presence.is_known());
            let compared = match coarser {
                Some((other, coarse)) if filling.presence.is_known() => {
                    self.compare((scale, filling), (other, coarse), &mut looks)
                }
                _ => false,
            };
            if let (false, true, Some((left, all))) = (compared, sparse.is_empty(), filling.boxes())
            {
                let message = format!(
                    "in {left} of {all} shards the chunks fill a box, but less than half of the \
                     shard: the tasks of a parallel job may have replaced these shards instead of \
                     adding to them"
                );
                self.note(Finding::new(
                    FindingKind::MissingChunks,
                    filling.folder.clone(),
                    message,
                ));
            }
        }
    }

    fn sparse(&self, filling: &Filling, sparse: &[(u64, u64, u64)]) {
        if sparse.len() > SINGLE {
            let (there, room) = sparse.iter().fold((0, 0), |(a, b), s| (a + s.1, b + s.2));
            let message = format!(
                "{} shards have {there} of {room} chunks, far fewer than most others",
                sparse.len()
            );
            let folder = filling.folder.clone();
            return self.note(Finding::new(FindingKind::SparseShard, folder, message));
        }
        for (shard, there, room) in sparse {
            let message = format!("has {there} of {room} chunks, far fewer than most other shards");
            let name = filling.sharding.as_ref().map(|sharding| sharding.shard_name(*shard));
            let key = name.and_then(|name| match &filling.folder {
                Some(folder) => folder.join(&name).ok(),
                None => Key::new(&name).ok(),
            });
            self.note(Finding::new(FindingKind::SparseShard, key, message).shard(&[*shard]));
        }
    }

    /// Compares a scale with a coarser one; returns whether something is missing.
    fn compare(
        &self,
        (scale, filling): (&Scale, &Filling),
        (other, coarse): (&Scale, &Filling),
        looks: &mut u64,
    ) -> bool {
        let Some(found) = holes((other, coarse), (scale, filling), looks) else { return false };
        let rooms = |scale: &Scale| cells(scale.grid()).unwrap_or(0);
        let (there, room) = (filling.presence.count(), rooms(scale));
        let full = found.chunks as f64 >= 0.95 * rooms(other) as f64;
        let message = if let Some(first) = found.first {
            format!(
                "it has no chunks below {} of {} chunks of the coarser scale \"{}\" (the first is \
                 {first:?}): it has {there} of {room}",
                found.holes, found.chunks, other.key
            )
        } else if full && room >= FEWEST && there * 2 < room {
            format!(
                "it has {there} of {room} chunks, but the coarser scale \"{}\" is full",
                other.key
            )
        } else {
            return false;
        };
        let folder = filling.folder.clone();
        self.note(Finding::new(FindingKind::MissingChunks, folder, message));
        true
    }
}
