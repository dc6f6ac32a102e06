//! Decodes the bytes that a fetch returned.

use shardine_codec::Context;
use shardine_codec::strided::Placement;

use super::plan::{Fetch, Node, Plan};
use super::{Opened, Path, Reading};
use crate::Error;
use crate::layout::{DecodeError, Layout, advance};
use crate::selection::Selection;
use crate::tuning::{DECODE_PIECE, MANY_CHUNKS};

/// A chunk in memory that is ready to be decoded.
struct Job<'a, 'b> {
    /// Which of the opened objects.
    object: usize,
    /// Which of its parts.
    part: usize,
    layout: &'a Layout,
    bytes: &'b [u8],
    /// Where they start in the object.
    start: u64,
    selection: Selection,
    place: Placement,
    path: Path,
    /// The number of the plain chunk's bytes before them.
    skipped: Option<usize>,
}

impl<'a> Reading<'a> {
    /// Where the bytes of a fetch can be read to without decoding: a plain chunk, or a run of one,
    /// that lies in the output as it is stored.
    ///
    /// # Safety
    /// Nobody else may touch the chunk's box in the target while the slice lives.
    pub(super) unsafe fn straight_into(
        &self,
        plan: &Plan<'a>,
        fetch: &Fetch,
    ) -> Option<&'a mut [u8]> {
        let mut nodes = plan.nodes(fetch);
        let (Some(node), None) = (nodes.next(), nodes.next()) else { return None };
        let Layout::Chunk(leaf) = node.layout else { return None };
        // A fetch of a whole chunk may have the wrong length, which may happen to be that of a
        // part.
        if node.skipped.is_none() && !node.selection.covers(&leaf.codec.spec().shape) {
            return None;
        }
        // SAFETY: upheld by the caller.
        unsafe { leaf.plain_place(&node.selection, self.target, &node.place, fetch.len()) }
    }

    /// Decodes what a fetch returned, on this thread.
    pub(super) fn decode_here(
        &self,
        opened: &[Opened],
        plan: &Plan<'a>,
        fetch: &Fetch,
        bytes: &[u8],
        context: &mut Context,
    ) -> Result<(), Error> {
        for node in plan.nodes(fetch) {
            let (part, start) = part_of(fetch, node, bytes);
            if node.layout.addressable().is_none() {
                let (selection, place) = (&node.selection, &node.place);
                let chunk = Chunk { layout: node.layout, bytes: part, skipped: node.skipped };
                self.decode_chunk(context, chunk, selection, place).map_err(|source| {
                    let range = start..start + part.len() as u64;
                    self.decode_error(&opened[node.object], (node.part, &node.path), range, source)
                })?;
                continue;
            }
            let mut jobs = Vec::new();
            self.unpack(opened, job_of(node, part, start), context, &mut jobs, false)?;
            jobs.iter().try_for_each(|job| self.decode_job(opened, job, context))?;
        }
        Ok(())
    }

    /// Decodes what some fetches returned, in parallel if there is much of it. Records failures.
    pub(super) fn decode_all(
        &self,
        opened: &[Opened],
        plan: &Plan<'a>,
        fetches: &[(&Fetch, &[u8])],
        parallel: bool,
    ) {
        let mut jobs = Vec::new();
        self.engine.with_context(|context| {
            for &(fetch, bytes) in fetches {
                for node in plan.nodes(fetch) {
                    let (part, start) = part_of(fetch, node, bytes);
                    let job = job_of(node, part, start);
                    if let Err(error) = self.unpack(opened, job, context, &mut jobs, parallel) {
                        self.failed(opened, fetch.object, error);
                    }
                }
            }
        });
        self.share_jobs(opened, &jobs, parallel);
    }

    /// Decodes chunks, in parallel if there are many. Records failures.
    fn share_jobs(&self, opened: &[Opened], jobs: &[Job<'a, '_>], parallel: bool) {
        let each = jobs.first().map_or(0, |job| job.layout.decoded_len());
        let together = (DECODE_PIECE / each.max(1)).max(1) as usize;
        let pieces: Vec<&[Job<'a, '_>]> = jobs.chunks(together).collect();
        let workers = if parallel { self.engine.threads() } else { 1 };
        self.engine.share(workers, pieces.len(), &|i, context| {
            for job in pieces[i] {
                if self.is_over() {
                    return;
                }
                if let Err(error) = self.decode_job(opened, job, context) {
                    self.failed(opened, job.object, error);
                }
            }
        });
    }

    /// Splits shards in memory down to the chunks that are needed.
    fn unpack<'b>(
        &self,
        opened: &[Opened],
        job: Job<'a, 'b>,
        context: &mut Context,
        jobs: &mut Vec<Job<'a, 'b>>,
        parallel: bool,
    ) -> Result<(), Error> {
        if jobs.len() >= MANY_CHUNKS {
            self.share_jobs(opened, jobs, parallel);
            jobs.clear();
        }
        let Some(shard) = job.layout.addressable() else {
            jobs.push(job);
            return Ok(());
        };
        let object = &opened[job.object];
        let damaged = |source| self.shard_error(object, source);
        let len = job.bytes.len() as u64;
        let at = shard.index.range(len).map_err(damaged)?;
        let encoded = &job.bytes[at.start as usize..at.end as usize];
        let index = shard.index.decode(context, encoded, len).map_err(damaged)?;
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
                object: job.object,
                part: job.part,
                layout: &shard.inner,
                bytes: &job.bytes[range.start as usize..range.end as usize],
                start: job.start + range.start,
                selection: cell.selection,
                place,
                path,
                skipped: None,
            };
            self.unpack(opened, inner, context, jobs, parallel)?;
        }
        let version = object.version();
        let key = self.index_key(object, &job.path);
        self.remember(key, version, index);
        Ok(())
    }

    fn decode_job(
        &self,
        opened: &[Opened],
        job: &Job<'a, '_>,
        context: &mut Context,
    ) -> Result<(), Error> {
        let chunk = Chunk { layout: job.layout, bytes: job.bytes, skipped: job.skipped };
        self.decode_chunk(context, chunk, &job.selection, &job.place).map_err(|source| {
            let range = job.start..job.start + job.bytes.len() as u64;
            self.decode_error(&opened[job.object], (job.part, &job.path), range, source)
        })
    }

    fn decode_chunk(
        &self,
        context: &mut Context,
        chunk: Chunk<'_>,
        selection: &Selection,
        place: &Placement,
    ) -> Result<(), DecodeError> {
        let Chunk { layout, bytes, skipped } = chunk;
        match (skipped, layout) {
            // SAFETY: by the contract of `read` the window belongs to this read alone, and each
            // chunk's box in it belongs to that chunk, which one worker decodes.
            (Some(skipped), Layout::Chunk(leaf)) => unsafe {
                leaf.decode_run(context, bytes, skipped, selection, self.target, place)
            },
            // SAFETY: as above.
            (_, layout) => unsafe { layout.decode(context, bytes, selection, self.target, place) },
        }
    }
}

/// The bytes of a chunk, or of a run of a plain one.
struct Chunk<'a> {
    layout: &'a Layout,
    bytes: &'a [u8],
    skipped: Option<usize>,
}

/// The bytes of a node within those of its fetch, and where they start in the object.
fn part_of<'b>(fetch: &Fetch, node: &Node<'_>, bytes: &'b [u8]) -> (&'b [u8], u64) {
    let base = fetch.range.as_ref().map_or(0, |r| r.start);
    let range = node.range.clone().unwrap_or(0..bytes.len() as u64);
    let part = (range.start - base) as usize..(range.end - base) as usize;
    (bytes.get(part).unwrap_or_default(), range.start)
}

fn job_of<'a, 'b>(node: &Node<'a>, bytes: &'b [u8], start: u64) -> Job<'a, 'b> {
    Job {
        object: node.object,
        part: node.part,
        layout: node.layout,
        bytes,
        start,
        selection: node.selection.clone(),
        place: node.place.clone(),
        path: node.path.clone(),
        skipped: node.skipped,
    }
}
