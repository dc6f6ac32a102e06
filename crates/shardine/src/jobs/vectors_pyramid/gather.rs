//! Hands the vertices of a level, and what objects use of them, to what makes a coarser one.

use shardine_geometry::zarr_vectors::{
    ChunkCoords, CoarseBuilder, FragmentRef, choose_objects, kept_objects,
};
use shardine_geometry::{GeometryError, Merge, Sorter, Spool};

use crate::Error;
use crate::jobs::{JobContext, JobProgress};
use crate::vectors::{ChunkVertices, WholeLevel};

/// Bytes of cells that are read together, about.
const TOGETHER: usize = 16 << 20;

/// The most chunks that are read together.
const MOST_CHUNKS: usize = 4096;

/// The objects of a level.
pub(super) struct Objects {
    /// The ids of all.
    pub ids: Vec<i64>,
    /// Whether each is kept.
    pub kept: Vec<bool>,
    /// How many fragments the manifests up to that of each refer to, those of dropped ones left out.
    pub ends: Vec<u64>,
}

impl Objects {
    /// Reads the ids, and draws those that are kept.
    pub fn choose(level: &WholeLevel<'_>, sparsity: f64, seed: u64) -> Result<Option<Self>, Error> {
        let Some(ids) = level.object_ids()? else { return Ok(None) };
        let count = ids.len() as u64;
        let mut kept = vec![false; ids.len()];
        for row in choose_objects(count, kept_objects(count, sparsity), seed) {
            if let Some(kept) = kept.get_mut(row as usize) {
                *kept = true;
            }
        }
        Ok(Some(Self { ends: Vec::new(), kept, ids }))
    }

    /// Whether a coarser level has the kept ones of the objects that have something in `finer`, and
    /// no others. Reads all manifests of both.
    pub fn are_in(&self, finer: &WholeLevel<'_>, coarser: &WholeLevel<'_>) -> Result<bool, Error> {
        if coarser.object_ids()?.as_ref() != Some(&self.ids) {
            return Ok(false);
        }
        let rows: Vec<(u64, i64)> = (0..).zip(self.ids.iter().copied()).collect();
        let present = |level: &WholeLevel<'_>| -> Result<Vec<bool>, Error> {
            let mut present = vec![false; rows.len()];
            level.each_block(&rows, &mut |at, block| {
                let is_empty = matches!(block.fragments, FragmentRef::Range { count: 0, .. });
                if let Some(present) = present.get_mut(at) {
                    *present |= !is_empty;
                }
                Ok(())
            })?;
            Ok(present)
        };
        let (before, after) = (present(finer)?, present(coarser)?);
        let drawn = self.kept.iter().zip(&before).map(|(kept, before)| *kept && *before);
        Ok(drawn.eq(after))
    }

    /// The object that a fragment belongs to, by the number of its use.
    fn id_of(&self, reference: u64) -> i64 {
        let row = self.ends.partition_point(|end| *end <= reference);
        self.ids.get(row).copied().unwrap_or(-1)
    }
}

/// Bytes of a row that says which fragments of a chunk an object uses.
const USE: usize = 24;

/// Gathers a level.
pub(super) struct Gather<'a> {
    pub context: &'a JobContext,
    pub level: &'a WholeLevel<'a>,
    pub spool: &'a dyn Spool,
    pub memory: u64,
    /// How errors of rows are told.
    pub failed: &'a dyn Fn(GeometryError) -> Error,
}

impl Gather<'_> {
    /// Hands everything to `builder`.
    pub fn all(
        &self,
        mut objects: Option<&mut Objects>,
        builder: &mut CoarseBuilder<'_>,
    ) -> Result<(), Error> {
        let mut uses = match objects.as_deref_mut() {
            Some(objects) => {
                let sorted = self.references(objects, builder)?;
                Some(Uses::new(sorted.merge(), self.memory).map_err(self.failed)?)
            }
            None => None,
        };
        let objects = objects.as_deref();
        let chunks = self.level.chunks()?;
        let (mut at, mut together, mut done) = (0, 16, 0u64);
        let label = format!("level {}", self.level.document().level);
        while at < chunks.len() {
            self.context.check()?;
            let part = &chunks[at..chunks.len().min(at + together)];
            let mut bytes = 0;
            self.level.each_chunk(part, &mut |chunk| {
                bytes += 64 + chunk.len() * 32;
                done += chunk.len() as u64;
                self.chunk(&chunk, objects, uses.as_mut(), builder)
            })?;
            at += part.len();
            let each = (bytes / part.len().max(1)).max(1);
            together = (TOGETHER / each).clamp(1, MOST_CHUNKS).min(together * 4);
            let (vertices, total) = (done, self.level.document().vertices.max(done));
            self.context.report(JobProgress::steps(&label, vertices, total));
        }
        // Levels made from what is left of another one would hide what was lost.
        self.level.check_count(done)?;
        let Some((order, uses)) = uses.as_ref().and_then(|uses| Some((uses.next?, uses))) else {
            return Ok(());
        };
        // Sorted by chunk, and all chunks that are stored have passed.
        let [reference, fragment, _] = uses.each().next().unwrap_or_default();
        let id = objects.map_or(-1, |objects| objects.id_of(reference));
        Err(self.level.no_fragment(id, &builder.coordinates(order), fragment))
    }

    /// Sorts what manifests refer to by chunk, and counts it for each object.
    fn references(
        &self,
        objects: &mut Objects,
        builder: &CoarseBuilder<'_>,
    ) -> Result<Sorter<'_>, Error> {
        let mut sorter = Sorter::new(self.spool, USE, self.memory / 4);
        let rows: Vec<(u64, i64)> = (0..)
            .zip(&objects.ids)
            .zip(&objects.kept)
            .filter(|(_, kept)| **kept)
            .map(|((row, id), _)| (row, *id))
            .collect();
        let mut counts = vec![0u64; objects.ids.len()];
        let (mut next, mut row) = (0u64, Vec::new());
        self.level.each_block(&rows, &mut |at, block| {
            let (object, id) = rows.get(at).copied().unwrap_or_default();
            let key = builder
                .chunk(&block.chunk)
                .map_err(|error| self.level.unfit(&block.chunk, error))?;
            let mut push = |first: u64, count: u64| -> Result<(), Error> {
                row.clear();
                row.extend(next.to_le_bytes());
                row.extend(first.to_le_bytes());
                row.extend(count.to_le_bytes());
                let missing = || self.level.no_fragment(id, &block.chunk, first);
                next = next.checked_add(count).ok_or_else(missing)?;
                if let Some(counted) = counts.get_mut(object as usize) {
                    *counted += count;
                }
                sorter.push(key.order(), &row).map_err(self.failed)
            };
            match block.fragments {
                FragmentRef::Range { start, count } if count > 0 => push(start, count),
                FragmentRef::Range { .. } => Ok(()),
                listed => listed.try_for_each(|fragment| push(fragment, 1)),
            }
        })?;
        let mut sum = 0u64;
        objects.ends = counts
            .into_iter()
            .map(|count| {
                sum = sum.saturating_add(count);
                sum
            })
            .collect();
        Ok(sorter)
    }

    fn chunk(
        &self,
        chunk: &ChunkVertices<'_>,
        objects: Option<&Objects>,
        uses: Option<&mut Uses>,
        builder: &mut CoarseBuilder<'_>,
    ) -> Result<(), Error> {
        let unfit = |error| self.told(chunk.chunk, error);
        let key = builder.chunk(chunk.chunk).map_err(unfit)?;
        let mut position = Vec::new();
        for row in 0..chunk.len() {
            chunk.position(row, &mut position);
            builder.vertex(key, row as u64, &position).map_err(unfit)?;
        }
        let (Some(uses), Some(objects)) = (uses, objects) else { return Ok(()) };
        if uses.next != Some(key.order()) {
            return Ok(());
        }
        for [reference, first, count] in uses.each() {
            for at in 0..count {
                let fragment = chunk.fragment(first.saturating_add(at)).ok_or_else(|| {
                    let id = objects.id_of(reference);
                    self.level.no_fragment(id, chunk.chunk, first.saturating_add(at))
                })?;
                let (mut within, mut failed) = (0, None);
                fragment.for_each(|row| {
                    if failed.is_some() {
                        return;
                    }
                    // Every row of a fragment exists, which was checked.
                    chunk.position(row as usize, &mut position);
                    failed = builder.used(reference + at, within, &position).err();
                    within += 1;
                });
                if let Some(error) = failed {
                    return Err(unfit(error));
                }
            }
        }
        uses.step().map_err(self.failed)
    }

    fn told(&self, chunk: &ChunkCoords, error: GeometryError) -> Error {
        match error {
            GeometryError::Spool(_) => (self.failed)(error),
            error => self.level.unfit(chunk, error),
        }
    }
}

/// What objects use, chunk by chunk.
struct Uses {
    merge: Merge,
    /// The uses of the chunk that comes next.
    rows: Vec<u8>,
    /// The place of that chunk in the order of chunks.
    next: Option<u128>,
    most: u64,
}

impl Uses {
    fn new(merge: Merge, most: u64) -> Result<Self, GeometryError> {
        let mut uses = Self { merge, rows: Vec::new(), next: None, most };
        uses.step()?;
        Ok(uses)
    }

    fn step(&mut self) -> Result<(), GeometryError> {
        self.next = self.merge.next_group(&mut self.rows, self.most)?;
        Ok(())
    }

    /// The uses of the chunk that comes next: the number of the first, its fragment, and how many
    /// follow each other.
    fn each(&self) -> impl Iterator<Item = [u64; 3]> + '_ {
        self.rows.as_chunks::<USE>().0.iter().map(|row| {
            let number = |at: usize| row.as_chunks::<8>().0.get(at).copied().unwrap_or_default();
            [0, 1, 2].map(|at| u64::from_le_bytes(number(at)))
        })
    }
}
