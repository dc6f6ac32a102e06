//! Rows chunk by chunk: points, and whatever has no objects.

use std::collections::HashMap;

use shardine_geometry::zarr_vectors::{ChunkCoords, Fragment};
use shardine_geometry::{GeometryBatch, Links};

use super::batch::Batches;
use super::cells::{CellView, Cells};
use super::error::VectorsError;
use super::query::Plan;
use crate::Error;

/// How many bytes of cells are read at once, about.
const READ_AT_ONCE: u64 = 32 << 20;

/// How many chunks are read at once at most.
const MOST_CHUNKS: u64 = 8192;

/// Reads chunk by chunk. Memory is in proportion to the chunks that are read at once.
#[derive(Debug)]
pub(super) struct ByCell {
    pub(super) plan: Plan,
    chunks: Vec<ChunkCoords>,
    /// The fragments of objects, by the number of their chunk; `None` without objects.
    owners: Option<Vec<Owner>>,
    /// How many chunks were read, and how many owners were passed.
    read: usize,
    passed: usize,
    at_once: usize,
    /// Chunks that were read, and how many of them were taken.
    cells: Option<(Cells, usize)>,
    /// Whether all of the level is asked for.
    whole: bool,
    mask: Vec<bool>,
    ended: bool,
}

/// Fragments of a chunk that belong to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    chunk: u32,
    fragment: u64,
    count: u64,
    row: u64,
    id: i64,
}

impl ByCell {
    pub(super) fn new(
        mut plan: Plan,
        objects: Option<Vec<(u64, i64)>>,
        whole: bool,
    ) -> Result<Self, Error> {
        let mut chunks = plan.level.vertices.stored(&mut plan.notes)?;
        let stored = chunks.len() as u64;
        chunks.retain(|chunk| plan.test.takes_chunk(chunk));
        if plan.links.is_some() {
            let note = "links are left out: the level has no index of objects";
            plan.notes.push(note.to_owned());
        }
        let bytes = plan.level.document.vertices.saturating_mul(plan.vertex_bytes());
        let each = bytes.checked_div(stored).unwrap_or(0).max(1);
        let at_once = (READ_AT_ONCE.min(plan.memory / 8) / each).clamp(1, MOST_CHUNKS) as usize;
        let whole = whole && !plan.test.tests_rows() && plan.test.object_filters.is_empty();
        let mut rows = Self {
            plan,
            chunks,
            owners: None,
            read: 0,
            passed: 0,
            at_once,
            cells: None,
            whole,
            mask: Vec::new(),
            ended: false,
        };
        if let Some(objects) = objects {
            rows.owners = Some(rows.find_owners(&objects)?);
        }
        Ok(rows)
    }

    fn find_owners(&self, objects: &[(u64, i64)]) -> Result<Vec<Owner>, Error> {
        let Some(table) = &self.plan.level.objects else { return Ok(Vec::new()) };
        let places: HashMap<&ChunkCoords, u32, foldhash::fast::FixedState> =
            self.chunks.iter().zip(0..).collect();
        let mut owners = Vec::new();
        let most = self.plan.memory / size_of::<Owner>() as u64;
        let vertices = &self.plan.level.vertices;
        table.each_block(objects, &mut |at, block| {
            let Some(&(row, id)) = objects.get(at) else { return Ok(()) };
            let Some(&chunk) = places.get(&block.chunk) else { return Ok(()) };
            use shardine_geometry::zarr_vectors::FragmentRef;
            if let FragmentRef::Range { start, count } = block.fragments {
                owners.push(Owner { chunk, fragment: start, count, row, id });
            } else {
                let taken: Result<(), Error> = block.fragments.try_for_each(|fragment| {
                    owners.push(Owner { chunk, fragment, count: 1, row, id });
                    Ok(())
                });
                taken?;
            }
            if owners.len() as u64 > most {
                let needs = (owners.len() * size_of::<Owner>()) as u64;
                let most = self.plan.memory;
                return Err(vertices.wrong(VectorsError::TooLarge { needs, most }));
            }
            Ok(())
        })?;
        owners.sort_unstable();
        Ok(owners)
    }

    pub(super) fn next(&mut self) -> Result<Option<GeometryBatch>, Error> {
        while !self.plan.batches.is_full() && self.step()? {}
        if self.plan.batches.is_empty() {
            self.end();
            return Ok(None);
        }
        let batch = self.plan.batches.take(Links::default());
        batch.map(Some).map_err(|error| self.plan.level.vertices.wrong(error.into()))
    }

    fn end(&mut self) {
        let (said, found) = (self.plan.level.document.vertices, self.plan.batches.done);
        if self.whole && said != found && !self.ended {
            let level = self.plan.level.document.level;
            let note =
                format!("level {level} says that it has {said} vertices; {found} were found");
            self.plan.notes.push(note);
        }
        self.ended = true;
    }

    /// Takes the next chunk; `false` if there is none.
    fn step(&mut self) -> Result<bool, Error> {
        let (cells, at) = match self.cells.take() {
            Some((cells, at)) if at < cells.len() => (cells, at),
            _ => {
                let end = self.chunks.len().min(self.read.saturating_add(self.at_once));
                let next = self.chunks.get(self.read..end).unwrap_or_default();
                if next.is_empty() {
                    return Ok(false);
                }
                (Cells::read(&self.plan.level, &self.plan.wanted, next.to_vec())?, 0)
            }
        };
        let cell = cells.view(&self.plan.level, &self.plan.wanted, at)?;
        self.take(&cell)?;
        self.read += 1;
        self.cells = Some((cells, at + 1));
        Ok(true)
    }

    fn take(&mut self, cell: &CellView<'_>) -> Result<(), Error> {
        let Plan { level, test, batches, .. } = &mut self.plan;
        if !test.knows_bin(cell.chunk) {
            let reason = "the level has no value for its bin";
            return Err(level.vertices.contradicts(cell.chunk, reason));
        }
        let mask = if test.tests_rows() {
            test.mask(cell, &mut self.mask);
            Some(self.mask.as_slice())
        } else {
            None
        };
        let Some(owners) = &self.owners else {
            match &cell.fragments {
                Some(fragments) if !fragments.tiles(cell.rows as u64) => {
                    for fragment in fragments.iter() {
                        push(batches, cell, fragment, mask, None);
                    }
                }
                _ => push_rows(batches, cell, (0, cell.rows), mask, None),
            }
            return Ok(());
        };
        let (Some(fragments), Some(array)) = (&cell.fragments, &level.fragments) else {
            return Ok(());
        };
        let own = owners.get(self.passed..).unwrap_or_default();
        let own = own.iter().take_while(|owner| owner.chunk as usize == self.read);
        for owner in own {
            self.passed += 1;
            for fragment in owner.fragment..owner.fragment + owner.count {
                let at = usize::try_from(fragment).ok().and_then(|at| fragments.get(at));
                let Some(rows) = at else {
                    let (id, known) = (owner.id, fragments.len());
                    let reason = format!("object {id} has fragment {fragment} of {known}");
                    return Err(array.contradicts(cell.chunk, reason));
                };
                push(batches, cell, rows, mask, Some((owner.row, owner.id)));
            }
        }
        Ok(())
    }
}

/// Adds the rows of a fragment that are taken.
pub(super) fn push(
    batches: &mut Batches,
    cell: &CellView<'_>,
    fragment: Fragment<'_>,
    mask: Option<&[bool]>,
    object: Option<(u64, i64)>,
) {
    match fragment {
        // All rows of fragments are known to exist.
        Fragment::Range { start, count } => {
            push_rows(batches, cell, (start as usize, count as usize), mask, object);
        }
        Fragment::List(rows) => {
            rows.iter().for_each(|row| push_rows(batches, cell, (row as usize, 1), mask, object));
        }
    }
}

fn push_rows(
    batches: &mut Batches,
    cell: &CellView<'_>,
    (start, count): (usize, usize),
    mask: Option<&[bool]>,
    object: Option<(u64, i64)>,
) {
    let Some(mask) = mask else { return batches.push(cell, start, count, object) };
    let mut rows = mask.iter().enumerate().skip(start).take(count).peekable();
    while let Some((first, taken)) = rows.next() {
        let mut run = 1;
        while rows.next_if(|(_, next)| *next == taken).is_some() {
            run += 1;
        }
        if *taken {
            batches.push(cell, first, run, object);
        }
    }
}
