//! Changes a shard in place: new chunks go to unused bytes, then the index is switched.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use shardine_codec::Context;
use shardine_store::{Edit, InPlace, Object, ReadRange, StoreError};

use super::stream::Stream;
use super::{Strategy, add};
use crate::Error;
use crate::cache::StaleIndexes;
use crate::layout::{ShardLayout, UpdatePlan};
use crate::object::{Batch, Piece, Sink};
use crate::shard::{ChecksumScan, Gaps, IndexLocation, ShardError, ShardIndex};
use crate::tuning::{HELD_CHUNKS, SCANNED, WORTH_A_JOURNAL};

/// Overwrites the checksum of an older index.
const SPOILT: &[u8] = &[0; 4];

/// Why shards of this kind cannot be changed in place; `None` if they can.
pub(super) fn refusal(shard: Option<&ShardLayout>) -> Option<&'static str> {
    match shard {
        None => Some("a codec beside sharding_indexed encodes the shard as a whole"),
        Some(shard) if !shard.index.is_checksummed() => {
            Some("its index has no checksum, so a torn write would go unnoticed")
        }
        Some(_) => None,
    }
}

/// Whether `auto` changes a shard in place: if it costs less, and any reader finds an index at all
/// times.
pub(super) fn is_worth_it(shard: &ShardLayout, old: &ShardIndex, plan: &UpdatePlan<'_>) -> bool {
    if refusal(Some(shard)).is_some() || shard.index.location() == IndexLocation::End {
        return false;
    }
    let len = |entry| old.get(entry).ok().flatten().map_or(0, |range| range.end - range.start);
    let replaced: u64 = plan.touched().into_iter().map(len).sum();
    let all: u64 = (0..old.len()).map(len).sum();
    let kept = all.saturating_sub(replaced);
    kept >= WORTH_A_JOURNAL && kept > replaced
}

/// The outcome of a change in place.
pub(super) enum Changed {
    /// Done; whether gaps now take up more of the shard than allowed.
    Done { past_max_gap: bool },
    /// Nothing would be left in the shard, and nothing was changed.
    Empty,
}

impl Stream<'_, '_> {
    /// Changes the shard in place.
    pub(super) fn change(
        &self,
        edit: &Edit,
        index: &ShardIndex,
        plan: &UpdatePlan<'_>,
    ) -> Result<Changed, Error> {
        let (writing, shard) = (self.writing, self.shard);
        let damaged = |source| self.damaged(source);
        let old_len = index.shard_len();
        let index_range = shard.index.range(old_len).map_err(damaged)?;
        let touched: Vec<u32> = plan.touched().into_iter().map(|entry| entry as u32).collect();
        let gaps = gaps(index, &index_range, &touched).map_err(damaged)?;
        let change = edit.in_place(index_range.clone())?;

        let placer = Placer { state: Mutex::new(Placing::new(change, old_len)) };
        let outcome = self.encode_all(plan, &touched, &placer)?;
        let placing = placer.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Placing { mut change, held, placed, mut end, mut bytes, .. } = placing;

        let mut new = index.clone();
        touched.iter().for_each(|&entry| new.set_absent(entry as usize));
        for (entry, range) in placed {
            new.set(entry, range);
        }
        // Readers of this engine must look again, and must not keep the file's gaps from being
        // reused.
        writing.forget(&self.task.index);
        let reuse = writing.options.strategy != Strategy::Append && change.shut_out_readers();
        let mut free = if reuse { gaps.clone() } else { Gaps::default() };
        let mut last: Vec<(u64, &[u8])> = Vec::new();
        for batch in &held {
            for (entry, range) in new_pieces(batch) {
                let data = &batch.encoded[range.clone()];
                let len = data.len() as u64;
                let at = free.take(len).unwrap_or(end);
                end = end.max(at + len);
                bytes += len;
                new.set(entry, at..at + len);
                let before = last.last().map(|(at, data)| at + data.len() as u64);
                match last.last_mut() {
                    // Bytes adjacent both in memory and in the shard are written together.
                    Some((start, joined)) if before == Some(at) && range.start >= joined.len() => {
                        let from = range.start - joined.len();
                        if std::ptr::eq(batch.encoded[from..].as_ptr(), joined.as_ptr()) {
                            *joined = &batch.encoded[from..range.end];
                            debug_assert_eq!(*start + joined.len() as u64, at + len);
                        } else {
                            last.push((at, data));
                        }
                    }
                    _ => last.push((at, data)),
                }
            }
        }
        let cell = writing.cell_id(&self.task.index);
        let mut stale = writing.engine.stale.get(&cell, &edit.version);
        if last.iter().any(|(at, _)| *at < old_len) {
            let found = match stale {
                Some(known) => known,
                None => self.stale_indexes(&gaps, &*edit.object)?.into(),
            };
            // Before the chunks, which may go to the same place.
            last.splice(0..0, found.iter().map(|&at| (at, SPOILT)));
            stale = Some([].into());
        }
        if new.all_absent() && !writing.options.store_empty {
            writing.counters.chunks(outcome);
            return Ok(Changed::Empty);
        }
        let index_len = shard.index.len();
        let (at, len) = match shard.index.location() {
            IndexLocation::Start => (0, end),
            IndexLocation::End if end > old_len => (end, end + index_len),
            IndexLocation::End => (index_range.start, old_len),
        };
        if new == *index {
            // Chunks that were absent and still are.
            writing.counters.chunks(outcome);
            return Ok(Changed::Done { past_max_gap: false });
        }
        let encoded = writing
            .engine
            .with_context(|context| shard.index.encode(context, &new))
            .map_err(|e| writing.encode_error(self.key, &self.task.index, &[], e.into()))?;
        let version = change.switch(&last, at, &encoded, len)?;
        if let Some(known) = stale {
            // With the index at the end of a file that has grown, the old one stays behind.
            let behind = (at >= old_len).then(|| index_range.end - SPOILT.len() as u64);
            let checksums = known.iter().copied().chain(behind).collect();
            writing.engine.stale.insert(cell, StaleIndexes { version, checksums });
        }
        add(&writing.counters.objects_written, 1);
        add(&writing.counters.bytes_written, bytes + index_len);
        writing.counters.chunks(outcome);
        let past_max_gap = self.is_past_max_gap(&new, at..at + index_len, len);
        Ok(Changed::Done { past_max_gap })
    }

    /// The positions of checksums of older indexes in gaps of the shard.
    ///
    /// Updates that appended left them behind. Once a gap is reused they are wrong, and a search
    /// for the last valid index of a torn shard must not find them.
    fn stale_indexes(&self, gaps: &Gaps, object: &dyn Object) -> Result<Vec<u64>, Error> {
        let index = &self.shard.index;
        if index.location() == IndexLocation::Start || !index.ends_with_crc32c() {
            return Ok(Vec::new());
        }
        let mut stale = Vec::new();
        let Some(mut scan) = ChecksumScan::new(index.len()) else { return Ok(stale) };
        for gap in gaps.at_least(index.len()) {
            scan.restart();
            let mut at = gap.start;
            while at < gap.end {
                let end = gap.end.min(at + SCANNED);
                let bytes = object.read(ReadRange::Bounded(at..end))?;
                scan.take(&bytes, |found| {
                    stale.push(gap.start + found + index.len() - SPOILT.len() as u64);
                });
                at = end;
            }
        }
        Ok(stale)
    }

    /// Whether a shard of `len` bytes has to be compacted.
    fn is_past_max_gap(&self, index: &ShardIndex, index_range: Range<u64>, len: u64) -> bool {
        let mut with_len = index.clone().stored_at(index_range.clone());
        with_len.set_shard_len(len);
        let Ok(gaps) = Gaps::find(&with_len, &index_range) else { return false };
        let lens = (0..index.len()).filter_map(|i| with_len.get(i).ok().flatten());
        let largest = lens.map(|range| range.end - range.start).max().unwrap_or(0);
        let allowed = (len as f64 * self.writing.options.max_gap.clamp(0.0, 1.0)) as u64;
        // Gaps worth one chunk are what the next update of that chunk needs.
        gaps.total() > allowed.max(largest)
    }
}

/// The gaps of a shard once these entries are replaced.
///
/// A damaged entry that is replaced refers to nothing readable; one that stays is an error.
fn gaps(
    index: &ShardIndex,
    index_range: &Range<u64>,
    replaced: &[u32],
) -> Result<Gaps, ShardError> {
    let is_damaged = |entry: &&u32| index.get(**entry as usize).is_err();
    let mut damaged = replaced.iter().filter(is_damaged).peekable();
    if damaged.peek().is_none() {
        return Gaps::find(index, index_range);
    }
    let mut sound = index.clone();
    damaged.for_each(|&entry| sound.set_absent(entry as usize));
    Gaps::find(&sound, index_range)
}

fn new_pieces(batch: &Batch) -> impl Iterator<Item = (usize, &Range<usize>)> {
    batch.pieces.iter().filter_map(|piece| match piece {
        Piece::New { entry, range } => entry.map(|entry| (entry, range)),
        Piece::Moved { .. } => None,
    })
}

/// Takes encoded chunks: holds them until all are there, or writes them past the end if they become
/// too many.
struct Placer {
    state: Mutex<Placing>,
}

struct Placing {
    change: Box<dyn InPlace>,
    held: Vec<Batch>,
    held_bytes: usize,
    placed: Vec<(usize, Range<u64>)>,
    /// Where the next bytes past the end go.
    end: u64,
    /// Bytes written.
    bytes: u64,
    given_up: bool,
}

impl Placing {
    fn new(change: Box<dyn InPlace>, end: u64) -> Self {
        let (held, placed) = (Vec::new(), Vec::new());
        Self { change, held, held_bytes: 0, placed, end, bytes: 0, given_up: false }
    }

    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let at = self.change.append(&batch.encoded)?;
        self.bytes += batch.encoded.len() as u64;
        self.end = at + batch.encoded.len() as u64;
        for (entry, range) in new_pieces(batch) {
            self.placed.push((entry, at + range.start as u64..at + range.end as u64));
        }
        Ok(())
    }
}

impl Sink for Placer {
    fn wait_for_turn(&self, _: usize, _: usize, _: &mut Context) -> bool {
        !self.state.lock().unwrap_or_else(PoisonError::into_inner).given_up
    }

    fn finish(&self, _: usize, mut batch: Batch) -> Result<(), StoreError> {
        let Some(used) = new_pieces(&batch).map(|(_, range)| range.end).max() else {
            return Ok(());
        };
        batch.encoded.truncate(used);
        // It has spare room for incompressible data.
        batch.encoded.shrink_to_fit();
        batch.pieces.shrink_to_fit();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.held_bytes += used + batch.pieces.len() * size_of::<Piece>();
        state.held.push(batch);
        if state.held_bytes <= HELD_CHUNKS {
            return Ok(());
        }
        state.held_bytes = 0;
        for batch in std::mem::take(&mut state.held) {
            state.append(&batch)?;
        }
        Ok(())
    }

    fn give_up(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).given_up = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardine_store::Version;

    #[derive(Debug)]
    struct Ignored;

    impl InPlace for Ignored {
        fn shut_out_readers(&mut self) -> bool {
            false
        }

        fn append(&mut self, _: &[u8]) -> Result<u64, StoreError> {
            Ok(0)
        }

        fn switch(
            self: Box<Self>,
            _: &[(u64, &[u8])],
            _: u64,
            _: &[u8],
            _: u64,
        ) -> Result<Version, StoreError> {
            Ok(Version("".into()))
        }
    }

    #[test]
    fn chunks_that_wait_take_no_more_memory_than_they_need() {
        let placer = Placer { state: Mutex::new(Placing::new(Box::new(Ignored), 0)) };
        for number in 0..1000 {
            // Encoders leave room for incompressible data, and empty chunks leave nothing else.
            let mut encoded = Vec::with_capacity(1 << 20);
            encoded.extend_from_slice(&[1; 10]);
            let pieces = match number % 2 {
                0 => vec![Piece::New { entry: Some(number), range: 0..10 }],
                _ => Vec::new(),
            };
            placer.finish(number, Batch { pieces, encoded, ..Batch::default() }).unwrap();
            let state = placer.state.lock().unwrap();
            let taken: usize = state.held.iter().map(|batch| batch.encoded.capacity()).sum();
            assert!(taken <= HELD_CHUNKS, "{taken}");
        }
        let state = placer.state.into_inner().unwrap();
        assert_eq!((state.held.len(), state.placed.len()), (500, 0));
    }
}
