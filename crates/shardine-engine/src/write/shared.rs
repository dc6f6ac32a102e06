//! Writes cells that share objects: each object once, with everything that goes into it.

use std::sync::Arc;

use shardine_codec::Context;
use shardine_store::ReadRange;
use smallvec::SmallVec;

use super::task::{Patch, Task, tasks};
use super::{Writing, add, read};
use crate::Error;
use crate::SharedPacking;
use crate::keyed::{Change, ChangeReport, Encoded, OldValue};
use crate::layout::Update;
use crate::selection::Cell;

/// An object and those of its cells that are written.
struct Touched<'t> {
    object: u64,
    /// Their numbers.
    cells: Vec<u64>,
    /// Whether all of its cells are written completely.
    covered: bool,
    /// What goes into it, and possibly into others.
    task: Arc<Task<'t>>,
}

/// How the cells of an array are grouped for writing.
struct Boxes {
    /// Cells along each axis of a box that holds exactly the cells of one object, or all cells of
    /// the array.
    cells: SmallVec<[u64; 4]>,
    /// Elements along each axis.
    shape: Vec<u64>,
}

impl Writing<'_> {
    /// Writes patches to an array whose cells share objects.
    pub(super) fn shared(
        &self,
        packing: &dyn SharedPacking,
        patches: &[Patch<'_>],
    ) -> Result<(), Error> {
        let cell = self.grid.cell_shape();
        let cells = packing.object_shape().unwrap_or_else(|| {
            // An object's cells are spread over the whole array.
            self.grid.shape.iter().zip(cell).map(|(&len, &n)| len.div_ceil(n).max(1)).collect()
        });
        let shape = cell.iter().zip(&cells).map(|(&n, &cells)| n.saturating_mul(cells)).collect();
        let boxes = Boxes { cells, shape };
        let bounds = |index: &[u64]| {
            let axes = index.iter().zip(&boxes.shape).zip(&self.grid.shape);
            axes.map(|((&i, &n), &len)| n.min(len.saturating_sub(i.saturating_mul(n)))).collect()
        };
        let touched = tasks(patches, &boxes.shape, bounds)
            .flat_map(|task| self.touched(packing, &boxes, task, bounds).into_iter());
        let value = self.grid.layout.decoded_len();
        let is_small = packing.is_small(value);
        // An object that is partly changed is locked meanwhile: whether it counts as small must not
        // depend on how much of it is written, or one writer would wait for workers that wait for
        // its lock.
        let bytes = |touched: &Touched<'_>| match touched.covered || is_small {
            true => (touched.cells.len() as u64).saturating_mul(value),
            false => u64::MAX,
        };
        self.engine.each_object(touched, &bytes, &|touched| {
            self.count(self.shared_object(packing, &boxes, touched)?);
            Ok(())
        })
    }

    /// The objects that hold what a task writes, each once.
    fn touched<'t>(
        &self,
        packing: &dyn SharedPacking,
        boxes: &Boxes,
        task: Task<'t>,
        bounds: impl Fn(&[u64]) -> SmallVec<[u64; 6]>,
    ) -> Vec<Touched<'t>> {
        let bounds = bounds(&task.index);
        let mut covered = task.covers(&bounds);
        // Several parts may cover a box together, each some of its cells.
        let may_cover = !covered && task.parts.len() > 1;
        let (mut found, mut whole) = (Vec::new(), Vec::new());
        for part in &task.parts {
            for Cell { index, selection, .. } in part.cell.selection.cells(self.grid.cell_shape()) {
                let cell = boxes.cells.iter().zip(&task.index).zip(&index);
                let cell: SmallVec<[u64; 4]> =
                    cell.map(|((&cells, &at), &inside)| at * cells + inside).collect();
                let number = packing.number(&cell);
                found.push((packing.object_of(number), number));
                if may_cover && selection.covers(&self.grid.bounds(&cell)) {
                    whole.push(number);
                }
            }
        }
        if may_cover {
            whole.sort_unstable();
            whole.dedup();
            let cells = bounds.iter().zip(self.grid.cell_shape()).map(|(&n, &c)| n.div_ceil(c));
            covered = cells.fold(1u64, u64::saturating_mul) == whole.len() as u64;
        }
        found.sort_unstable();
        found.dedup();
        let task = Arc::new(task);
        let mut touched: Vec<Touched<'t>> = Vec::new();
        for (object, number) in found {
            match touched.last_mut() {
                Some(last) if last.object == object => last.cells.push(number),
                _ => {
                    let (cells, task) = (vec![number], Arc::clone(&task));
                    touched.push(Touched { object, cells, covered, task });
                }
            }
        }
        touched
    }

    fn shared_object(
        &self,
        packing: &dyn SharedPacking,
        boxes: &Boxes,
        touched: &Touched<'_>,
    ) -> Result<ChangeReport, Error> {
        self.check()?;
        let value_bytes = self.grid.layout.decoded_len();
        let encode =
            |context: &mut Context, number: usize, old: OldValue<'_>, out: &mut Vec<u8>| {
                let Some(cell) = packing.cell(touched.cells[number]) else {
                    return Ok(Encoded::Absent);
                };
                self.shared_cell(boxes, touched, &cell, context, old, out)
            };
        packing.change(
            self.engine,
            &Change {
                object: touched.object,
                keys: &touched.cells,
                replaces_all: touched.covered,
                keep_before: false,
                value_bytes,
                inline: !touched.covered && packing.is_small(value_bytes),
                encode: &encode,
                publisher: &self.publisher,
            },
        )
    }

    /// Encodes one cell.
    fn shared_cell(
        &self,
        boxes: &Boxes,
        touched: &Touched<'_>,
        cell: &[u64],
        context: &mut Context,
        old: OldValue<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, Error> {
        self.check()?;
        let bounds = self.grid.bounds(cell);
        let inside: SmallVec<[u64; 4]> =
            cell.iter().zip(&boxes.cells).map(|(&i, &cells)| i % cells).collect();
        let parts = touched.task.parts.iter().filter_map(|part| {
            let cell = part.cell.selection.cell(self.grid.cell_shape(), &inside)?;
            Some((part, cell))
        });
        let mut parts: SmallVec<[_; 1]> = parts.collect();
        let covers = |(_, cell): &(_, Cell)| cell.selection.covers(&bounds);
        let covering = parts.iter().rposition(covers);
        // Whatever comes before a part that covers the whole cell is overwritten.
        parts.drain(..covering.unwrap_or(0));
        let updates: SmallVec<[Update<'_>; 1]> = parts
            .iter()
            .map(|(part, cell)| Update {
                selection: &cell.selection,
                bounds: &bounds,
                source: part.view().advance(&cell.at),
                options: self.encode,
            })
            .collect();
        let old = match old.filter(|_| covering.is_none()) {
            Some((object, range)) => Some(read(object, ReadRange::Bounded(range?))?),
            None => None,
        };
        let outcome =
            self.grid.layout_of(cell).update_all(context, old.as_deref(), &updates, out).map_err(
                |source| match self.grid.packing.key(cell) {
                    Ok(object) => self.encode_error(&object, cell, &[], source),
                    Err(error) => error.into(),
                },
            )?;
        let element = self.grid.layout.element_size();
        self.progress(parts.iter().map(|(_, cell)| cell.selection.bytes(element)).sum());
        Ok(if outcome.stored { Encoded::Value { before: 0 } } else { Encoded::Absent })
    }

    fn count(&self, done: ChangeReport) {
        let counters = &self.counters;
        add(&counters.objects_written, u64::from(done.written));
        add(&counters.objects_removed, u64::from(done.removed));
        add(&counters.chunks_encoded, done.encoded);
        add(&counters.chunks_kept, done.kept);
        add(&counters.chunks_empty, done.absent);
        add(&counters.bytes_written, done.bytes);
    }
}
