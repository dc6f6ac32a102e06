//! Writing cells that are packed into shards by number: each shard once, with all that goes into it.

use std::collections::BTreeSet;
use std::sync::Mutex;

use shardine_codec::Context;
use shardine_codec::strided::Axes;
use shardine_store::ReadRange;
use smallvec::SmallVec;

use super::options::{WriteOptions, WriteReport};
use super::task::{Patch, TaskPart};
use super::{Strategy, read};
use crate::Error;
use crate::engine::{Engine, Grid, PackedCells, Publisher, WRITE_BATCH};
use crate::keyed::{Change, ChangeReport, Encoded, OldValue, change_shard};
use crate::layout::{EncodeOptions, Update};
use crate::selection::{Axis, Cell, Part, Selection};

/// Coordinates that are part of a cell's number.
const NUMBERED: usize = 3;

/// A shard and the numbers of its cells that are written.
struct Shard {
    number: u64,
    keys: Vec<u64>,
    /// Whether all of its cells are written, all of each.
    covered: bool,
}

/// Writes elements to selections of an array whose cells are packed; where they overlap, the later ones count.
pub(super) fn write(
    engine: &Engine,
    grid: &Grid,
    packed: &PackedCells,
    patches: &[Patch<'_>],
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    if matches!(options.strategy, Strategy::InPlace | Strategy::Append) {
        let reason = "its shards have no checksum, so that nobody could tell a torn one";
        return Err(Error::Strategy { strategy: options.strategy, reason });
    }
    let publisher = Publisher::new(&*packed.shards.store, WRITE_BATCH);
    let writing = Writing { engine, grid, packed, patches, options, publisher: &publisher };
    let report = Mutex::new(WriteReport::default());
    writing.all(&report)?;
    publisher.finish()?;
    Ok(report.into_inner().unwrap_or_else(|e| e.into_inner()))
}

/// Squeezes the gaps out of a shard: all of its values are kept.
pub(super) fn compact(engine: &Engine, packed: &PackedCells, place: &[u64]) -> Result<(), Error> {
    let Some(shard) = packed.shard_at(place) else { return Ok(()) };
    let change = Change {
        shards: &packed.shards,
        shard,
        keys: &[],
        replaces_all: false,
        keep_before: false,
        value_bytes: 0,
        inline: true,
        encode: &|_, _, _, _| Ok(Encoded::Absent),
        publisher: &Publisher::new(&*packed.shards.store, WRITE_BATCH),
    };
    change_shard(engine, &change).map(drop)
}

struct Writing<'a> {
    engine: &'a Engine,
    grid: &'a Grid,
    packed: &'a PackedCells,
    patches: &'a [Patch<'a>],
    options: &'a WriteOptions,
    publisher: &'a Publisher<'a, ()>,
}

impl Writing<'_> {
    fn all(&self, report: &Mutex<WriteReport>) -> Result<(), Error> {
        let value = self.grid.layout.decoded_len();
        let is_small = self.packed.is_small(value);
        // A shard that is changed in part is locked meanwhile: whether it is small must not depend on how much of it is
        // written, or one writer waits for workers who wait for its lock.
        let bytes = |shard: &Shard| match shard.covered || is_small {
            true => (shard.keys.len() as u64).saturating_mul(value),
            false => u64::MAX,
        };
        self.engine.each_object(self.shards(), &bytes, &|shard| {
            add(report, self.shard(shard)?);
            Ok(())
        })
    }

    /// The shards that are touched, each once.
    fn shards(&self) -> Box<dyn Iterator<Item = Shard> + '_> {
        if let Some(shape) = self.packed.shard_box() {
            return self.boxes(shape);
        }
        let sharding = &self.packed.shards.sharding;
        // The cells of a shard are all over the array.
        let mut keys: Vec<(u64, u64)> = Vec::new();
        for patch in self.patches {
            for cell in patch.selection.cells(self.grid.cell_shape()) {
                let key = self.packed.number(&cell.index);
                keys.push((sharding.place(key).shard, key));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        let covered = self.patches.iter().any(|patch| patch.selection.covers(&self.grid.shape));
        let mut at = 0;
        Box::new(std::iter::from_fn(move || {
            let number = keys.get(at)?.0;
            let end = at + keys[at..].partition_point(|(shard, _)| *shard == number);
            let shard =
                Shard { number, keys: keys[at..end].iter().map(|k| k.1).collect(), covered };
            at = end;
            Some(shard)
        }))
    }

    /// The same where the cells of a shard are a box of so many.
    fn boxes(&self, shape: [u64; NUMBERED]) -> Box<dyn Iterator<Item = Shard> + '_> {
        let cell = self.grid.cell_shape();
        let elements: Vec<u64> = cell
            .iter()
            .enumerate()
            .map(|(axis, &n)| n.saturating_mul(shape.get(axis).copied().unwrap_or(1)))
            .collect();
        let shard = move |index: SmallVec<[u64; 4]>| self.shard_of_box(&index, shape);
        if let [patch] = self.patches {
            let boxes = patch.selection.cells(&elements).map(|cell| cell.index);
            // The iterator borrows the shape that it goes by.
            let boxes: Vec<_> = boxes.collect();
            return Box::new(boxes.into_iter().filter_map(shard));
        }
        let mut boxes = BTreeSet::new();
        for patch in self.patches {
            boxes.extend(patch.selection.cells(&elements).map(|cell| cell.index));
        }
        Box::new(boxes.into_iter().filter_map(shard))
    }

    fn shard_of_box(&self, index: &[u64], shape: [u64; NUMBERED]) -> Option<Shard> {
        let PackedCells { shards, code, .. } = self.packed;
        let grid = code.grid();
        let start: [u64; NUMBERED] = std::array::from_fn(|axis| index[axis] * shape[axis]);
        let end: [u64; NUMBERED] =
            std::array::from_fn(|axis| start[axis].saturating_add(shape[axis]).min(grid[axis]));
        let mut keys = Vec::new();
        let mut covered = BTreeSet::new();
        for patch in self.patches {
            // Only where the patch is: a box may have any number of cells.
            let along = |axis: usize| {
                let cell = self.grid.cell_shape()[axis];
                let Axis { start: first, step, count } = patch.selection.axes[axis];
                let last = first + count.saturating_sub(1) * step;
                start[axis].max(first / cell)..end[axis].min(last / cell + 1)
            };
            for z in along(2) {
                for y in along(1) {
                    for x in along(0) {
                        let cell = self.cell_index([x, y, z]);
                        let Some(part) = self.part(patch, &cell) else { continue };
                        let key = code.encode([x, y, z]);
                        if part.cell.selection.covers(&self.grid.bounds(&cell)) {
                            covered.insert(key);
                        }
                        keys.push(key);
                    }
                }
            }
        }
        keys.sort_unstable();
        keys.dedup();
        let number = shards.sharding.place(*keys.first()?).shard;
        let cells = (0..NUMBERED).map(|axis| end[axis] - start[axis]);
        let covered = cells.fold(1u64, u64::saturating_mul) == covered.len() as u64;
        Some(Shard { number, keys, covered })
    }

    fn cell_index(&self, numbered: [u64; NUMBERED]) -> SmallVec<[u64; 4]> {
        let axes = self.grid.shape.len();
        (0..axes).map(|axis| numbered.get(axis).copied().unwrap_or(0)).collect()
    }

    /// What the patches have for a cell.
    fn parts(&self, index: &SmallVec<[u64; 4]>) -> SmallVec<[TaskPart<'_>; 1]> {
        self.patches.iter().filter_map(|patch| self.part(patch, index)).collect()
    }

    /// What a patch has for a cell.
    fn part<'p>(&self, patch: &'p Patch<'p>, index: &SmallVec<[u64; 4]>) -> Option<TaskPart<'p>> {
        let axes = patch.selection.axes.iter().zip(self.grid.cell_shape()).zip(index);
        let parts: Axes<Part> =
            axes.map(|((axis, &n), &i)| axis.part_in(n, i)).collect::<Option<_>>()?;
        let cell = Cell {
            index: index.clone(),
            selection: Selection { axes: parts.iter().map(|p| p.axis).collect() },
            at: parts.iter().map(|p| p.at).collect(),
        };
        Some(TaskPart { source: patch.source, cell })
    }

    fn shard(&self, shard: &Shard) -> Result<ChangeReport, Error> {
        let shards = &*self.packed.shards;
        let encode =
            |context: &mut Context, number: usize, old: OldValue<'_>, out: &mut Vec<u8>| {
                self.encode(context, shard.keys[number], old, out)
            };
        change_shard(
            self.engine,
            &Change {
                shards,
                shard: shard.number,
                keys: &shard.keys,
                replaces_all: shard.covered,
                keep_before: false,
                value_bytes: self.grid.layout.decoded_len(),
                inline: !shard.covered && self.packed.is_small(self.grid.layout.decoded_len()),
                encode: &encode,
                publisher: self.publisher,
            },
        )
    }

    fn encode(
        &self,
        context: &mut Context,
        key: u64,
        old: OldValue<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, Error> {
        let Some(cell) = self.packed.code.decode(key) else { return Ok(Encoded::Absent) };
        let index = self.cell_index(cell);
        let bounds = self.grid.bounds(&index);
        let mut parts = self.parts(&index);
        let covering = parts.iter().rposition(|part| part.cell.selection.covers(&bounds));
        parts.drain(..covering.unwrap_or(0));
        let options =
            EncodeOptions { order: self.options.order, store_empty: self.options.store_empty };
        let updates: SmallVec<[Update<'_>; 1]> = parts
            .iter()
            .map(|part| Update {
                selection: &part.cell.selection,
                bounds: &bounds,
                source: part.view(),
                options,
            })
            .collect();
        let old = match old.filter(|_| covering.is_none()) {
            Some((object, range)) => Some(read(object, ReadRange::Bounded(range?))?),
            None => None,
        };
        let layout = self.grid.layout_of(&index);
        let outcome = layout.update_all(context, old.as_deref(), &updates, out);
        let outcome = outcome.map_err(|source| {
            let chunk = index.to_vec();
            match self.grid.packing.key(&index) {
                Ok(object) => Error::Encode { object, chunk, source: Box::new(source) },
                Err(error) => error.into(),
            }
        })?;
        if let Some(progress) = &self.options.progress {
            let element = self.grid.layout.element_size();
            progress(parts.iter().map(|part| part.cell.selection.bytes(element)).sum());
        }
        Ok(if outcome.stored { Encoded::Value { before: 0 } } else { Encoded::Absent })
    }
}

fn add(report: &Mutex<WriteReport>, done: ChangeReport) {
    let mut report = report.lock().unwrap_or_else(|e| e.into_inner());
    report.objects_written += u64::from(done.written);
    report.objects_removed += u64::from(done.removed);
    report.chunks_encoded += done.encoded;
    report.chunks_kept += done.kept;
    report.chunks_empty += done.absent;
    report.bytes_written += done.bytes;
}
