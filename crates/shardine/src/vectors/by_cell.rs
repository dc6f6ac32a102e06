//! Rows chunk by chunk: points, and whatever has no objects.

use std::collections::HashMap;
use std::sync::Arc;

use shardine_geometry::zarr_vectors::{
    ChunkCoords, Fragment, FragmentIndex, FragmentRef, chunk_key,
};
use shardine_geometry::{GeometryBatch, Links};

use super::batch::Batches;
use super::cells::{CellView, Cells};
use super::error::VectorsError;
use super::grid_array::Stored;
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
    /// Whether `chunks` come from a list, so that something need not be stored.
    listed: bool,
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

/// An object, and a chunk that it has.
type Unlisted = (i64, ChunkCoords);

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
        let doubt = plan.level.doubts(&mut plan.told)?;
        let Stored { mut chunks, listed } = plan.level.vertices.stored(doubt, &mut plan.told)?;
        let stored = chunks.len() as u64;
        chunks.retain(|chunk| plan.test.takes_chunk(chunk));
        if plan.links.is_some() {
            plan.told.note("links are left out: the level has no index of objects");
        }
        let bytes = plan.level.document.vertices.saturating_mul(plan.vertex_bytes());
        let each = bytes.checked_div(stored).unwrap_or(0).max(1);
        let at_once = (READ_AT_ONCE.min(plan.memory / 8) / each).clamp(1, MOST_CHUNKS) as usize;
        let whole = whole && !plan.test.tests_rows() && plan.test.object_filters.is_empty();
        let mut rows = Self {
            plan,
            chunks,
            listed,
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
            rows.owners = match rows.find_owners(&objects)? {
                Ok(owners) => Some(owners),
                Err(unlisted) if rows.listed => {
                    rows.find_chunks(unlisted)?;
                    Some(rows.find_owners(&objects)?.map_err(|lost| rows.lost(lost))?)
                }
                Err(lost) => return Err(rows.lost(lost)),
            };
        }
        Ok(rows)
    }

    /// Finds the chunks without their list, which leaves out one that an object has.
    fn find_chunks(&mut self, (object, chunk): Unlisted) -> Result<(), Error> {
        let Plan { level, told, test, .. } = &mut self.plan;
        let (array, chunk) = (&level.vertices.path, chunk_key(&chunk));
        level.doubt(format!("{array} does not list chunk {chunk}, which object {object} has"));
        let doubt = level.doubts(told)?;
        let Stored { mut chunks, listed } = level.vertices.stored(doubt, told)?;
        chunks.retain(|chunk| test.takes_chunk(chunk));
        (self.chunks, self.listed) = (chunks, listed);
        Ok(())
    }

    /// An object has a chunk for which nothing is stored.
    fn lost(&self, (object, chunk): Unlisted) -> Error {
        let reason = format!("nothing is stored for chunk {}, which it has", chunk_key(&chunk));
        self.plan.level.vertices.wrong(VectorsError::Object { object, reason })
    }

    /// The fragments of objects, or an object that has a chunk which is not among the known ones.
    fn find_owners(&self, objects: &[(u64, i64)]) -> Result<Result<Vec<Owner>, Unlisted>, Error> {
        let Some(table) = &self.plan.level.objects else { return Ok(Ok(Vec::new())) };
        let places: HashMap<&ChunkCoords, u32, foldhash::fast::FixedState> =
            self.chunks.iter().zip(0..).collect();
        let mut owners = Vec::new();
        let most = self.plan.memory / size_of::<Owner>() as u64;
        let (vertices, test) = (&self.plan.level.vertices, &self.plan.test);
        let mut unlisted = None;
        table.each_block(objects, &mut |at, block| {
            let Some(&(row, id)) = objects.get(at) else { return Ok(()) };
            let Some(&chunk) = places.get(&block.chunk) else {
                if test.takes_chunk(&block.chunk) {
                    unlisted.get_or_insert((id, block.chunk));
                }
                return Ok(());
            };
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
        if let Some(unlisted) = unlisted {
            return Ok(Err(unlisted));
        }
        owners.sort_unstable();
        Ok(Ok(owners))
    }

    pub(super) fn next(&mut self) -> Result<Option<GeometryBatch>, Error> {
        while !self.plan.batches.is_full() && (self.step()? || self.find_more()?) {}
        if self.plan.batches.is_empty() {
            self.end()?;
            return Ok(None);
        }
        let batch = self.plan.batches.take(Links::default());
        batch.map(Some).map_err(|error| self.plan.level.vertices.wrong(error.into()))
    }

    /// If the chunks of a list have fewer vertices than the level says, looks for others.
    fn find_more(&mut self) -> Result<bool, Error> {
        let (said, found) = (self.plan.level.document.vertices, self.plan.batches.next_row());
        if !self.whole || !self.listed || self.owners.is_some() || found >= said {
            return Ok(false);
        }
        self.listed = false;
        let Plan { level, told, .. } = &mut self.plan;
        let mut more = level.vertices.found()?;
        more.retain(|chunk| level.vertices.leaves_out(chunk));
        if more.is_empty() {
            return Ok(false);
        }
        let (array, count) = (&level.vertices.path, more.len());
        level.doubt(format!("{array} does not list {count} chunks that are stored"));
        level.doubts(told)?;
        more.sort_unstable();
        self.chunks.extend(more);
        Ok(true)
    }

    fn end(&mut self) -> Result<(), Error> {
        let (said, found) = (self.plan.level.document.vertices, self.plan.batches.done);
        if !std::mem::replace(&mut self.ended, true) {
            self.plan.told.sum_up();
            if self.whole && said != found {
                let level = self.plan.level.document.level;
                let note =
                    format!("level {level} says that it has {said} vertices; {found} were found");
                self.plan.told.contradiction(note)?;
            }
        }
        Ok(())
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
        if cells.is_absent(at) {
            self.skip()?;
        } else {
            let cell = cells.view(&self.plan.level, &self.plan.wanted, at)?;
            self.take(&cell)?;
        }
        self.read += 1;
        self.cells = Some((cells, at + 1));
        Ok(true)
    }

    /// Passes a chunk for which no array that was read has anything. If its fragments say that it
    /// has vertices, these are lost; if an object has it, that object is damaged.
    fn skip(&mut self) -> Result<(), Error> {
        let Some(chunk) = self.chunks.get(self.read) else { return Ok(()) };
        let level = Arc::clone(&self.plan.level);
        let owners = self.owners.as_deref().unwrap_or_default();
        let owner = owners.get(self.passed).filter(|owner| owner.chunk as usize == self.read);
        if let Some(owner) = owner {
            return Err(self.lost((owner.id, chunk.clone())));
        }
        let unread = level.fragments.as_ref().filter(|_| !self.plan.wanted.fragments);
        if let Some(fragments) = unread {
            let cell = fragments.read([chunk])?;
            let bytes = cell.get(0).unwrap_or_default();
            let rows = match bytes {
                [] => 0,
                bytes => FragmentIndex::parse(bytes)
                    .map_err(|error| fragments.damaged(chunk, error))?
                    .extent(),
            };
            if rows > 0 {
                let reason = format!("its {rows} vertices are not stored, only their fragments");
                return Err(level.vertices.contradicts(chunk, reason));
            }
        }
        if self.listed {
            self.plan.told.absent(&level.vertices.path, chunk_key(chunk))?;
        }
        Ok(())
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
            for fragment in owner.fragment..owner.fragment.saturating_add(owner.count) {
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
