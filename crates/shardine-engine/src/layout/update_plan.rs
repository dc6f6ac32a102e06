//! Which entries of a shard an update keeps, and which it re-encodes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use shardine_codec::strided::Axes;
use smallvec::SmallVec;

use super::ShardLayout;
use crate::selection::{Cell, Part, Selection};
use crate::shard::{ShardError, ShardIndex, WriteOrder};

/// What an update does with one entry of a shard.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "few exist at a time, and each for a moment")]
pub enum Action {
    /// Its bytes stay unchanged.
    Keep {
        /// Where they are.
        old: Range<u64>,
    },
    /// It is re-encoded.
    Encode {
        /// What goes into it, in order, each with the number of its selection.
        cells: SmallVec<[(usize, Cell); 1]>,
        /// How much of it lies inside the array.
        bounds: Axes<u64>,
        /// Where its bytes are, if they are needed.
        old: Option<Range<u64>>,
    },
}

/// What an update does with the entries of a shard.
///
/// Actions are computed one by one: a shard of a million chunks costs its order, not a million
/// plans.
pub struct UpdatePlan<'a> {
    shard: &'a ShardLayout,
    old: Option<&'a ShardIndex>,
    /// What is written, by stored axis.
    selections: SmallVec<[Selection; 1]>,
    /// How much of the shard lies inside the array, by stored axis.
    bounds: Axes<u64>,
    /// The numbers of the selections that touch each entry, if there are many.
    touching: Option<HashMap<usize, SmallVec<[usize; 2]>>>,
    entries: Arc<[u32]>,
    order: WriteOrder,
}

impl<'a> UpdatePlan<'a> {
    /// `selections` and `bounds` are by axis of the array. Where selections overlap, the later one
    /// wins.
    pub fn new(
        shard: &'a ShardLayout,
        old: Option<&'a ShardIndex>,
        selections: &[&Selection],
        bounds: &[u64],
        order: WriteOrder,
    ) -> Result<Self, ShardError> {
        let selections: SmallVec<[Selection; 1]> =
            selections.iter().map(|s| shard.selection_to_stored(s)).collect();
        let bounds = shard.to_stored(bounds);
        let touching = (selections.len() > FEW).then(|| touching(shard, &selections));
        let entries = [].into();
        let mut plan = Self { shard, old, selections, bounds, touching, entries, order };
        plan.entries = match order {
            WriteOrder::Morton => shard.morton()?,
            WriteOrder::C => all_entries(shard)?.into(),
            WriteOrder::Arrival => {
                let mut entries = all_entries(shard)?;
                if let Some(old) = old {
                    // Kept entries can be moved in long runs if they stay in their old order.
                    entries.sort_by_cached_key(|&entry| {
                        let at = old.raw(entry as usize).map_or(u64::MAX, |(offset, _)| offset);
                        let kept = !plan.touches(entry as usize);
                        if kept { (0, at) } else { (1, u64::from(entry)) }
                    });
                }
                entries.into()
            }
        };
        Ok(plan)
    }

    /// The order in which a new shard is written.
    pub fn order(&self) -> WriteOrder {
        self.order
    }

    /// The entries in the order in which they are written.
    pub fn entries(&self) -> &[u32] {
        &self.entries
    }

    /// The entries that the update touches, in C order.
    pub fn touched(&self) -> Vec<usize> {
        let cells = self.selections.iter().flat_map(|s| s.cells(&self.shard.chunk_shape));
        let mut entries: Vec<usize> = cells.map(|cell| self.shard.entry(&cell.index)).collect();
        if self.selections.len() > 1 {
            entries.sort_unstable();
            entries.dedup();
        }
        entries
    }

    /// Whether the update touches an entry.
    pub fn touches(&self, entry: usize) -> bool {
        if let Some(touching) = &self.touching {
            return touching.contains_key(&entry);
        }
        let index = self.shard.cell(entry);
        self.selections.iter().any(|s| self.parts(s, &index).all(|part| part.is_some()))
    }

    /// What happens to an entry; `None` if it stays absent.
    pub fn action(&self, entry: usize) -> Result<Option<Action>, ShardError> {
        let old = || self.old.map_or(Ok(None), |index| index.get(entry));
        let mut cells = self.cells(entry);
        let Some((_, cell)) = cells.first() else {
            return Ok(old()?.map(|old| Action::Keep { old }));
        };
        let bounds = self.shard.chunk_bounds(&cell.index, &self.bounds);
        let covers = |(_, cell): &(usize, Cell)| cell.selection.covers(&bounds);
        let covering = cells.iter().rposition(covers);
        // Whatever comes before a cell that covers the whole chunk is overwritten.
        cells.drain(..covering.unwrap_or(0));
        // A chunk that is replaced as a whole may be damaged: that is how it gets repaired.
        let old = if covering.is_none() { old()? } else { None };
        Ok(Some(Action::Encode { cells, bounds, old }))
    }

    /// The part of a cell that a selection covers along each axis.
    fn parts(&self, selection: &Selection, index: &[u64]) -> impl Iterator<Item = Option<Part>> {
        let axes = selection.axes.iter().zip(&self.shard.chunk_shape).zip(index);
        axes.map(|((axis, &chunk), &i)| axis.part_in(chunk, i))
    }

    /// The parts of an entry that the selections cover, each with the selection's number.
    fn cells(&self, entry: usize) -> SmallVec<[(usize, Cell); 1]> {
        let index = self.shard.cell(entry);
        let cell = |number: usize| {
            Some((number, self.selections.get(number)?.cell(&self.shard.chunk_shape, &index)?))
        };
        match &self.touching {
            Some(touching) => {
                let numbers = touching.get(&entry).map(|numbers| &numbers[..]).unwrap_or_default();
                numbers.iter().filter_map(|&number| cell(number)).collect()
            }
            None => (0..self.selections.len()).filter_map(cell).collect(),
        }
    }
}

/// Up to this many selections are tried one by one for each entry.
const FEW: usize = 4;

/// The numbers of the selections that touch each entry, in order.
fn touching(shard: &ShardLayout, selections: &[Selection]) -> HashMap<usize, SmallVec<[usize; 2]>> {
    let mut touching: HashMap<usize, SmallVec<[usize; 2]>> = HashMap::new();
    for (number, selection) in selections.iter().enumerate() {
        for cell in selection.cells(&shard.chunk_shape) {
            touching.entry(shard.entry(&cell.index)).or_default().push(number);
        }
    }
    touching
}

fn all_entries(shard: &ShardLayout) -> Result<Vec<u32>, ShardError> {
    let chunks = shard.chunks();
    let mut entries = Vec::new();
    entries.try_reserve_exact(chunks).map_err(|_| ShardError::TooManyChunks { chunks })?;
    entries.extend(0..chunks as u32);
    Ok(entries)
}
