//! Takes the encoded chunks of several levels in the order of their blocks, and makes objects of
//! them.
//!
//! Workers finish blocks in any order. What they deliver waits until everything before it is there,
//! so each object gets its chunks in the same order in every run. Objects of a level become visible
//! only after those of the levels below it: what is there was made from what is there.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use shardine_store::{Condition, CreateOptions, Staged};

use crate::engine::tuning::{JOB_BATCH, SYNCED_BYTES};
use crate::engine::{Engine, Finished, GrowingObject, IndexedFrame, NewObject, Publisher};
use crate::layout::ShardLayout;
use crate::{Array, Error};

/// What was made of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LevelCounts {
    /// Chunks that were encoded and are stored.
    pub chunks: u64,
    /// Chunks that hold nothing but the fill value and are not stored.
    pub empty: u64,
    /// Objects that were written.
    pub objects: u64,
    /// Objects of an earlier run that were kept.
    pub kept: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

impl LevelCounts {
    pub(super) fn add(&mut self, other: &Self) {
        self.chunks += other.chunks;
        self.empty += other.empty;
        self.objects += other.objects;
        self.kept += other.kept;
        self.bytes += other.bytes;
    }
}

/// A chunk of a block.
#[derive(Debug)]
pub(super) struct MadeChunk {
    /// The object that it belongs to.
    pub cell: Vec<u64>,
    /// Its number in the object's index.
    pub entry: usize,
    /// Where its bytes are; `None` if it is not stored.
    pub range: Option<Range<usize>>,
}

/// The encoded chunks of a block.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The level of the stage.
    pub level: usize,
    pub chunks: Vec<MadeChunk>,
    pub bytes: Vec<u8>,
}

/// A level that is written.
pub(super) struct OutputLevel<'a> {
    pub array: &'a Array,
    /// Its shards, if it has shards that are written chunk by chunk.
    pub shard: Option<&'a ShardLayout>,
}

impl OutputLevel<'_> {
    /// How many chunks of a shard lie in the array.
    fn chunks_in(&self, shard: &ShardLayout, cell: &[u64]) -> u64 {
        let bounds = self.array.chunks.bounds(cell);
        let axes = bounds.iter().zip(&shard.chunk_shape);
        axes.fold(1, |n, (&len, &chunk)| n.saturating_mul(len.div_ceil(chunk.max(1))))
    }
}

/// A shard whose chunks are not all there yet.
struct OpenShard {
    /// `None` as long as no chunk is stored.
    object: Option<GrowingObject>,
    missing: u64,
}

/// Objects that are complete but not visible.
#[derive(Default)]
struct Unpublished {
    staged: Vec<Staged>,
    bytes: u64,
}

/// The objects of a task.
struct Objects {
    open: Vec<HashMap<Vec<u64>, OpenShard>>,
    unpublished: Vec<Unpublished>,
    counts: Vec<LevelCounts>,
}

/// Deliveries that wait for their turn.
#[derive(Default)]
struct Queue {
    next: u64,
    waiting: BTreeMap<u64, Made>,
    /// Whether a thread is writing.
    writing: bool,
    given_up: bool,
    early: usize,
    spare: Vec<Vec<u8>>,
}

/// Where blocks of a task go.
pub(super) struct Output<'a> {
    engine: &'a Engine,
    levels: &'a [OutputLevel<'a>],
    /// For stores where each publication is a request, which may be under way.
    remote: Option<Publisher<'a, ()>>,
    queue: Mutex<Queue>,
    moved_on: Condvar,
    objects: Mutex<Objects>,
}

/// If a worker panics, nobody waits for its block.
pub(super) struct GiveUp<'o, 'a>(pub &'o Output<'a>);

impl Drop for GiveUp<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.give_up();
        }
    }
}

impl<'a> Output<'a> {
    pub fn new(engine: &'a Engine, levels: &'a [OutputLevel<'a>]) -> Self {
        let remote = levels.first().filter(|l| !l.array.chunks.store.read_cost().local);
        let count = levels.len();
        Self {
            engine,
            levels,
            remote: remote.map(|level| Publisher::new(&*level.array.chunks.store, JOB_BATCH)),
            queue: Mutex::default(),
            moved_on: Condvar::new(),
            objects: Mutex::new(Objects {
                open: (0..count).map(|_| HashMap::new()).collect(),
                unpublished: (0..count).map(|_| Unpublished::default()).collect(),
                counts: vec![LevelCounts::default(); count],
            }),
        }
    }

    /// Waits until block `number` is among the next `window`. `false` means that it is no longer
    /// needed because a worker failed.
    ///
    /// The next block that is missing is under way, or made from blocks that are, so it never waits
    /// here.
    pub fn wait_for_turn(&self, number: u64, window: u64) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        while number >= queue.next.saturating_add(window) && !queue.given_up {
            queue.early += 1;
            queue = self.moved_on.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.early -= 1;
        }
        !queue.given_up
    }

    /// Makes sure that nobody waits for a block that will never come.
    pub fn give_up(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).given_up = true;
        self.moved_on.notify_all();
    }

    /// Memory of a delivery that has been written.
    pub fn spare(&self) -> Vec<u8> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.spare.pop().unwrap_or_default()
    }

    /// Takes block `number`, and writes what can be written. Never waits for other blocks.
    pub fn deliver(&self, number: u64, made: Made) -> Result<(), Error> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.insert(number, made);
        if queue.writing {
            return Ok(());
        }
        queue.writing = true;
        while let Some(made) = {
            let next = queue.next;
            queue.waiting.remove(&next)
        } {
            drop(queue);
            let written =
                self.objects.lock().unwrap_or_else(PoisonError::into_inner).take(self, &made);
            queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            if written.is_err() {
                queue.writing = false;
                return written;
            }
            queue.next += 1;
            let mut bytes = made.bytes;
            bytes.clear();
            queue.spare.push(bytes);
            if queue.early > 0 {
                self.moved_on.notify_all();
            }
        }
        queue.writing = false;
        Ok(())
    }

    /// Publishes everything when all blocks are delivered, and returns what was made of each level.
    pub fn finish(self) -> Result<Vec<LevelCounts>, Error> {
        let mut objects = self.objects.into_inner().unwrap_or_else(PoisonError::into_inner);
        let remote = self.remote.as_ref();
        for (i, level) in self.levels.iter().enumerate() {
            // Shards of which some chunks were known to be empty, and never asked for.
            let mut open: Vec<(Vec<u64>, OpenShard)> =
                std::mem::take(&mut objects.open[i]).into_iter().collect();
            open.sort_by(|a, b| a.0.cmp(&b.0));
            for (cell, shard) in open {
                objects.close(self.engine, remote, i, level, &cell, shard)?;
            }
        }
        objects.publish(self.levels)?;
        if let Some(remote) = remote {
            remote.finish()?;
        }
        Ok(objects.counts)
    }
}

impl Objects {
    fn take(&mut self, output: &Output<'_>, made: &Made) -> Result<(), Error> {
        let Output { engine, levels, remote, .. } = output;
        let (i, remote) = (made.level, remote.as_ref());
        let level = &levels[i];
        for chunk in &made.chunks {
            let bytes = chunk.range.clone().and_then(|range| made.bytes.get(range));
            match bytes {
                Some(_) => self.counts[i].chunks += 1,
                None => self.counts[i].empty += 1,
            }
            let Some(shard) = level.shard else {
                if let Some(bytes) = bytes {
                    let key = level.array.chunks.packing.key(&chunk.cell)?;
                    let writer = level.array.chunks.store.create(&key, CreateOptions::default())?;
                    writer.append(bytes)?;
                    let (staged, len) = (writer.finish(&[])?, bytes.len() as u64);
                    self.add(remote, i, Finished { staged, len })?;
                }
                continue;
            };
            let open = self.open[i].entry(chunk.cell.clone()).or_insert_with(|| OpenShard {
                object: None,
                missing: level.chunks_in(shard, &chunk.cell),
            });
            open.missing = open.missing.saturating_sub(1);
            if let Some(bytes) = bytes {
                with_object(level, shard, &chunk.cell, |new| {
                    let object = match &mut open.object {
                        Some(object) => object,
                        None => open.object.insert(GrowingObject::new(new)?),
                    };
                    object.push(new, chunk.entry, bytes)
                })?;
            }
            if open.missing == 0
                && let Some(open) = self.open[i].remove(&chunk.cell)
            {
                self.close(engine, remote, i, level, &chunk.cell, open)?;
            }
        }
        let count: usize = self.unpublished.iter().map(|level| level.staged.len()).sum();
        let bytes: u64 = self.unpublished.iter().map(|level| level.bytes).sum();
        if count >= JOB_BATCH || bytes >= SYNCED_BYTES {
            self.publish(levels)?;
        }
        Ok(())
    }

    /// Completes a shard.
    fn close(
        &mut self,
        engine: &Engine,
        remote: Option<&Publisher<'_, ()>>,
        i: usize,
        level: &OutputLevel<'_>,
        cell: &[u64],
        open: OpenShard,
    ) -> Result<(), Error> {
        let (Some(shard), Some(object)) = (level.shard, open.object) else { return Ok(()) };
        let finished = with_object(level, shard, cell, |new| object.finish(new, engine))?;
        match finished {
            Some(finished) => self.add(remote, i, finished),
            None => Ok(()),
        }
    }

    fn add(
        &mut self,
        remote: Option<&Publisher<'_, ()>>,
        i: usize,
        Finished { staged, len }: Finished,
    ) -> Result<(), Error> {
        self.counts[i].objects += 1;
        self.counts[i].bytes += len;
        if let Some(remote) = remote {
            remote.add(staged, (), len)?;
            return Ok(());
        }
        self.unpublished[i].staged.push(staged);
        self.unpublished[i].bytes += len;
        Ok(())
    }

    /// Makes all complete objects visible, level by level.
    fn publish(&mut self, levels: &[OutputLevel<'_>]) -> Result<(), Error> {
        for (level, unpublished) in levels.iter().zip(&mut self.unpublished) {
            let Unpublished { staged, .. } = std::mem::take(unpublished);
            if !staged.is_empty() {
                level.array.chunks.store.publish(staged)?;
            }
        }
        Ok(())
    }
}

/// Calls `work` with the description of a shard.
fn with_object<T>(
    level: &OutputLevel<'_>,
    shard: &ShardLayout,
    cell: &[u64],
    work: impl FnOnce(&NewObject<'_>) -> Result<T, crate::EngineError>,
) -> Result<T, Error> {
    let key = level.array.chunks.packing.key(cell)?;
    let frame = IndexedFrame { shard, key: &key, cell };
    let store = &*level.array.chunks.store;
    let new =
        NewObject { store, key: &key, condition: Condition::None, frame: &frame, any_order: false };
    Ok(work(&new)?)
}
