//! What to do with the bytes that a fetch brought.

use rayon::prelude::*;
use shardine_codec::Context;
use shardine_codec::strided::Placement;

use super::plan::{Fetch, Node};
use super::{Opened, Path, Reading};
use crate::Error;
use crate::layout::{DecodeError, Layout, Target, advance};
use crate::selection::Selection;

/// Decoded bytes of a piece of work for one worker.
const PIECE: u64 = 256 << 10;

/// Chunks that are taken out of a shard in memory before any of them is decoded.
const MANY: usize = 4096;

/// A chunk in memory that is ready to be decoded.
struct Job<'a, 'b> {
    node: &'b Node<'a>,
    layout: &'a Layout,
    bytes: &'b [u8],
    start: u64,
    selection: Selection,
    place: Placement,
    path: Path,
}

impl Job<'_, '_> {
    /// # Safety
    /// Nobody else may touch the job's box in the target at the same time.
    unsafe fn decode(&self, context: &mut Context, target: &Target<'_>) -> Result<(), DecodeError> {
        let (bytes, selection, place) = (self.bytes, &self.selection, &self.place);
        match (self.node.skipped, self.layout) {
            // SAFETY: passed on from the caller.
            (Some(skipped), Layout::Chunk(leaf)) => unsafe {
                leaf.decode_run(context, bytes, skipped, selection, target, place)
            },
            // SAFETY: as above.
            (_, layout) => unsafe { layout.decode(context, bytes, selection, target, place) },
        }
    }
}

impl<'a> Reading<'a> {
    /// Decodes what a fetch brought, in parallel if there is much of it.
    pub(super) fn decode(
        &self,
        opened: &[Opened],
        fetch: &Fetch<'a>,
        bytes: &[u8],
        parallel: bool,
    ) -> Result<(), Error> {
        let base = fetch.range.as_ref().map_or(0, |r| r.start);
        let mut jobs = Vec::with_capacity(fetch.nodes.len());
        for node in &fetch.nodes {
            let range = node.range.clone().unwrap_or(0..bytes.len() as u64);
            let part = (range.start - base) as usize..(range.end - base) as usize;
            let job = Job {
                node,
                layout: node.layout,
                bytes: bytes.get(part).unwrap_or_default(),
                start: range.start,
                selection: node.selection.clone(),
                place: node.place.clone(),
                path: node.path.clone(),
            };
            self.unpack(opened, job, &mut jobs, parallel)?;
        }
        self.decode_all(opened, &jobs, parallel)
    }

    /// Decodes chunks, in parallel if there are many.
    fn decode_all(
        &self,
        opened: &[Opened],
        jobs: &[Job<'a, '_>],
        parallel: bool,
    ) -> Result<(), Error> {
        let each = jobs.first().map_or(0, |job| job.layout.decoded_len());
        let together = (PIECE / each.max(1)).max(1) as usize;
        if !parallel || jobs.len() <= together {
            return self.decode_jobs(opened, jobs);
        }
        let run = || jobs.par_chunks(together).try_for_each(|jobs| self.decode_jobs(opened, jobs));
        if self.engine.on_worker() { run() } else { self.engine.pool.install(run) }
    }

    /// Takes shards in memory apart, down to the chunks that are wanted.
    fn unpack<'b>(
        &self,
        opened: &[Opened],
        job: Job<'a, 'b>,
        jobs: &mut Vec<Job<'a, 'b>>,
        parallel: bool,
    ) -> Result<(), Error> {
        if jobs.len() >= MANY {
            self.decode_all(opened, jobs, parallel)?;
            jobs.clear();
        }
        let Some(shard) = job.layout.addressable() else {
            jobs.push(job);
            return Ok(());
        };
        let object = &opened[job.node.object];
        let damaged = |source| self.shard_error(object, source);
        let len = job.bytes.len() as u64;
        let at = shard.index.range(len).map_err(damaged)?;
        let encoded = &job.bytes[at.start as usize..at.end as usize];
        let index = self
            .engine
            .with_context(|context| shard.index.decode(context, encoded, len))
            .map_err(damaged)?;
        let place = shard.placement_to_stored(&job.place);
        for cell in shard.selection_to_stored(&job.selection).cells(&shard.chunk_shape) {
            let entry = shard.entry(&cell.index);
            let place = advance(&place, &cell.at);
            let Some(range) = index.get(entry).map_err(damaged)? else {
                self.fill(&cell.selection, &place)?;
                continue;
            };
            let mut path = job.path.clone();
            path.push(entry as u32);
            let inner = Job {
                node: job.node,
                layout: &shard.inner,
                bytes: &job.bytes[range.start as usize..range.end as usize],
                start: job.start + range.start,
                selection: cell.selection,
                place,
                path,
            };
            self.unpack(opened, inner, jobs, parallel)?;
        }
        let version = object.version();
        let key = self.index_key(&object.key, &job.path);
        self.remember(key, version, index);
        Ok(())
    }

    fn decode_jobs(&self, opened: &[Opened], jobs: &[Job<'a, '_>]) -> Result<(), Error> {
        self.engine.with_context(|context| {
            for job in jobs {
                // SAFETY: the window is this read's alone by the contract of `read`, and each job's box
                // is that of its chunk, which no other job has.
                let result = unsafe { job.decode(context, self.target) };
                result.map_err(|source| {
                    let object = &opened[job.node.object];
                    let range = job.start..job.start + job.bytes.len() as u64;
                    self.decode_error(&object.key, &object.cell.index, &job.path, range, source)
                })?;
            }
            Ok(())
        })
    }
}
