//! Writing a shard anew, with some of its values replaced and the others moved as they are.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardine_codec::{CodecError, Context};
use shardine_store::{Condition, CreateOptions, Edit, Key, Object, Staged, StoreError};

use super::shards::{KeyedShards, ShardIndexes, damaged};
use crate::engine::{Batch, Engine, FirstError, Piece, Sequencer, attempts};
use crate::shard::uint64::{Uint64Error, Uint64ShardIndexes};
use crate::{Error, engine};

/// Bytes of values in a piece of work for one worker, and values that are moved.
const PIECE: u64 = 256 << 10;
const KEPT: usize = 4096;

/// Bytes of bookkeeping for each piece of work in flight.
const OVERHEAD: u64 = 1024;

/// What became of a value that is written.
pub(crate) enum Encoded {
    /// There is none from now on.
    Absent,
    /// It was appended; so many bytes of what was appended come before it and belong to it without being part of it.
    Value {
        /// How many.
        before: usize,
    },
}

/// The value that a key had: the shard, and where it is in it, or why that is not to be believed.
pub(crate) type OldValue<'a> = Option<(&'a dyn Object, Result<Range<u64>, StoreError>)>;

/// Makes the value of the key with this number, appended to the buffer.
pub(crate) type EncodeValue<'a> =
    dyn Fn(&mut Context, usize, OldValue<'_>, &mut Vec<u8>) -> Result<Encoded, Error> + Sync + 'a;

/// What is to become of one shard.
pub(crate) struct Change<'a> {
    pub shards: &'a KeyedShards,
    pub shard: u64,
    /// The keys whose values are written or removed, each once. All of them are in this shard.
    pub keys: &'a [u64],
    /// Whether no other key of the shard stays.
    pub replaces_all: bool,
    /// Whether bytes that lie before a value and belong to no other stay with it.
    pub keep_before: bool,
    /// Memory for one value.
    pub value_bytes: u64,
    pub encode: &'a EncodeValue<'a>,
    /// Where new shards wait to be made visible together, if they replace all of the old ones.
    pub staged: Option<&'a Mutex<Vec<Staged>>>,
}

/// What a change did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChangeReport {
    /// Whether there is a shard now that was written.
    pub written: bool,
    /// Whether a shard was removed.
    pub removed: bool,
    /// Values that were encoded and stored.
    pub encoded: u64,
    /// Values that were moved as they were.
    pub kept: u64,
    /// Keys that have no value now.
    pub absent: u64,
    /// Bytes of the new shard.
    pub bytes: u64,
}

/// One value of the new shard.
struct Slot {
    minishard: u64,
    key: u64,
    action: Action,
}

enum Action {
    Keep {
        before: Range<u64>,
        range: Range<u64>,
    },
    /// A damaged entry is an error only for who wants the old value.
    Encode {
        number: usize,
        old: Option<Result<Range<u64>, Uint64Error>>,
    },
}

/// Changes a shard in one step. Other writers wait, or if they were faster, their change is kept and this one is made on
/// top of it.
pub(crate) fn change_shard(engine: &Engine, change: &Change<'_>) -> Result<ChangeReport, Error> {
    let shards = change.shards;
    let key = shards.shard_key(change.shard)?;
    let local = shards.store.read_cost().local;
    let report = attempts(local, &key, || attempt(engine, change, &key));
    shards.forget(change.shard);
    report
}

/// What stands where a shard is to be changed.
struct Old {
    object: Arc<dyn Object>,
    /// `None` if it is in its older form, of two objects.
    edit: Option<Edit>,
}

fn old_shard(change: &Change<'_>, key: &Key) -> Result<Option<Old>, StoreError> {
    if change.replaces_all {
        return Ok(None);
    }
    match change.shards.store.edit(key) {
        Ok(edit) => Ok(Some(Old { object: Arc::clone(&edit.object), edit: Some(edit) })),
        Err(StoreError::NotFound { .. }) => {
            let older = change.shards.open_older(change.shard)?;
            Ok(older.map(|object| Old { object, edit: None }))
        }
        Err(error) => Err(error),
    }
}

fn attempt(engine: &Engine, change: &Change<'_>, key: &Key) -> Result<ChangeReport, Error> {
    let (shards, store) = (change.shards, &*change.shards.store);
    let old = old_shard(change, key)?;
    let condition = match &old {
        _ if change.replaces_all => Condition::None,
        Some(Old { edit: Some(edit), .. }) => edit.condition(),
        _ => Condition::Absent,
    };
    let indexes = match &old {
        Some(old) => {
            let read = |context: &mut Context| shards.read_indexes(key, &*old.object, context);
            engine.with_context(read)?
        }
        None => ShardIndexes::default(),
    };
    let slots = plan(change, key, &indexes)?;
    let is_older = old.as_ref().is_some_and(|old| old.edit.is_none());
    // In a far store each of these would be a request for what is hardly ever there.
    let has_older = store.read_cost().local && shards.has_older(change.shard)?;
    let object = old.as_ref().map(|old| &*old.object);
    let mut report = ChangeReport::default();
    // Only where something is left, or may be.
    if !slots.is_empty() {
        let head = shards.sharding.table_len();
        let options = CreateOptions { head, condition: condition.clone() };
        let writer = store.create(key, options)?;
        let per_slot = if change.keep_before { 2 } else { 1 };
        let too_many = |_| Error::Unfinished { object: key.clone() };
        let sequencer = Sequencer::new(&*writer, object, slots.len() * per_slot, false);
        let sequencer = sequencer.map_err(too_many)?;
        encode_all(engine, change, key, &slots, object, &sequencer)?;
        let unfinished = || Error::Unfinished { object: key.clone() };
        let (index, bytes) = sequencer.into_index().ok_or_else(unfinished)?;
        let values_end = head + bytes;
        let (table, tail) = engine
            .with_context(|context| {
                let mut indexes = Uint64ShardIndexes::new(&shards.sharding, values_end);
                for (i, slot) in slots.iter().enumerate() {
                    let range = index.get(i * per_slot + per_slot - 1).ok().flatten();
                    match (&slot.action, &range) {
                        (Action::Keep { .. }, _) => report.kept += 1,
                        (Action::Encode { .. }, Some(_)) => report.encoded += 1,
                        (Action::Encode { .. }, None) => report.absent += 1,
                    }
                    if let Some(range) = range {
                        indexes.add(context, slot.minishard, slot.key, range)?;
                    }
                }
                indexes.finish(context)
            })
            .map_err(|source: CodecError| StoreError::Damaged {
                key: key.clone(),
                reason: source.to_string(),
            })?;
        if report.kept + report.encoded > 0 {
            if writer.append(&tail)? != values_end {
                return Err(unfinished());
            }
            report.bytes = values_end + tail.len() as u64;
            report.written = true;
            publish(change, writer.finish(&table)?, !has_older)?;
        }
    }
    if !report.written {
        report.removed = remove(change, key, &condition, old.is_some() && !is_older)?;
    }
    // What is left of the older form would be found again as soon as the shard is removed.
    if is_older || has_older {
        report.removed |= !report.written;
        for older in shards.older_keys(change.shard)? {
            store.delete(&older, &Condition::None)?;
        }
    }
    Ok(report)
}

/// Makes a new shard visible: with others, if it `may_wait` and nothing of the old one is in it.
fn publish(change: &Change<'_>, staged: Staged, may_wait: bool) -> Result<(), Error> {
    let store = &change.shards.store;
    // What waits to be sent to a far store is in memory.
    let may_wait = may_wait && change.replaces_all && store.read_cost().local;
    match change.staged {
        Some(waiting) if may_wait => {
            let full = {
                let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.push(staged);
                if waiting.len() < engine::PUBLISHED_TOGETHER {
                    return Ok(());
                }
                std::mem::take(&mut *waiting)
            };
            store.publish(full)?;
        }
        _ => {
            store.publish(vec![staged])?;
        }
    }
    Ok(())
}

/// Removes a shard in which nothing is left; tells whether there was one.
fn remove(
    change: &Change<'_>,
    key: &Key,
    condition: &Condition,
    existed: bool,
) -> Result<bool, Error> {
    let store = &change.shards.store;
    let there = existed || (change.replaces_all && change.shards.is_there(change.shard)?);
    if !there {
        return Ok(false);
    }
    match store.delete(key, condition) {
        // What cannot be removed safely becomes a shard without values.
        Err(StoreError::Unsupported { .. }) => {
            let head = change.shards.sharding.table_len();
            let options = CreateOptions { head, condition: condition.clone() };
            let writer = store.create(key, options)?;
            store.publish(vec![writer.finish(&vec![0; head as usize])?])?;
        }
        deleted => deleted?,
    }
    Ok(true)
}

/// The values of the new shard, by minishard and key.
fn plan(change: &Change<'_>, key: &Key, old: &ShardIndexes) -> Result<Vec<Slot>, Error> {
    let sharding = &change.shards.sharding;
    let mut numbers: Vec<(u64, usize)> =
        change.keys.iter().copied().enumerate().map(|(i, key)| (key, i)).collect();
    numbers.sort_unstable();
    let mut slots: Vec<Slot> = Vec::with_capacity(numbers.len());
    let mut old_ranges: Vec<Option<Result<Range<u64>, Uint64Error>>> = vec![None; numbers.len()];
    let before = if change.keep_before { before_values(old) } else { Vec::new() };
    for (i, (minishard, entry)) in old.entries().enumerate() {
        let range = old.range(entry);
        match numbers.binary_search_by_key(&entry.key, |(key, _)| *key) {
            // The first of several counts, and only where readers look for it.
            Ok(at) if sharding.place(entry.key).minishard == minishard => {
                old_ranges[at].get_or_insert(range);
            }
            Ok(_) => {}
            Err(_) => {
                let before = before.get(i).cloned().unwrap_or(0..0);
                let range = range.map_err(|error| damaged(key, &error))?;
                let action = Action::Keep { before, range };
                slots.push(Slot { minishard, key: entry.key, action });
            }
        }
    }
    for ((key, number), old) in numbers.into_iter().zip(old_ranges) {
        let minishard = sharding.place(key).minishard;
        slots.push(Slot { minishard, key, action: Action::Encode { number, old } });
    }
    // Stable: of several values of a key the first stays the first, and the others are not seen by anybody.
    slots.sort_by_key(|slot| (slot.minishard, slot.key));
    slots.dedup_by_key(|slot| (slot.minishard, slot.key));
    Ok(slots)
}

/// For each entry the bytes before its value that nothing refers to.
pub(crate) fn before_values(old: &ShardIndexes) -> Vec<Range<u64>> {
    let values: Vec<Range<u64>> =
        old.entries().map(|(_, entry)| old.range(entry).unwrap_or(0..0)).collect();
    let mut taken: Vec<Range<u64>> = values.iter().chain(&old.index_ranges).cloned().collect();
    taken.sort_unstable_by_key(|range| (range.start, range.end));
    let mut before = vec![0..0; values.len()];
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|&i| values[i].start);
    let (mut next, mut end) = (taken.iter().peekable(), old.table_len);
    let mut last: Option<usize> = None;
    for i in order {
        let start = values[i].start;
        // Two keys with the same value share what is before it.
        if let Some(last) = last.filter(|&last| values[last].start == start) {
            before[i] = before[last].clone();
            continue;
        }
        while let Some(range) = next.next_if(|range| range.start < start) {
            end = end.max(range.end);
        }
        if end < start {
            before[i] = end..start;
        }
        last = Some(i);
    }
    before
}

/// The slots that nobody has begun with.
struct Rest<'a> {
    slots: &'a [Slot],
    first: usize,
    count: usize,
}

impl<'a> Rest<'a> {
    fn next(&mut self, value: u64) -> Option<(usize, usize, &'a [Slot])> {
        if self.slots.is_empty() {
            return None;
        }
        let mut encoded = 0u64;
        let end = self.slots.iter().take(KEPT).position(|slot| {
            encoded += u64::from(matches!(slot.action, Action::Encode { .. }));
            encoded.saturating_mul(value) >= PIECE
        });
        let end = end.map_or(self.slots.len().min(KEPT), |last| last + 1);
        let (now, later) = self.slots.split_at(end);
        let (number, first) = (self.count, self.first);
        self.slots = later;
        self.first += end;
        self.count += 1;
        Some((number, first, now))
    }
}

/// Where a worker panics, nobody waits for what it was to bring.
struct GiveUp<'a, 'b>(&'a Sequencer<'b>);

impl Drop for GiveUp<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.give_up();
        }
    }
}

/// Has the workers encode the values, as many at once as the budget allows, and lays them down.
fn encode_all(
    engine: &Engine,
    change: &Change<'_>,
    key: &Key,
    slots: &[Slot],
    old: Option<&dyn Object>,
    sequencer: &Sequencer<'_>,
) -> Result<(), Error> {
    // The elements, their encoded form, and what was there before.
    let cost = (PIECE + change.value_bytes).saturating_mul(3).saturating_add(OVERHEAD);
    let affordable = (engine.memory_in_flight() / cost).max(1) as usize;
    let workers = engine.threads().min(affordable);
    let window = affordable.min(workers * 4);
    let _permit = engine.admit(cost.saturating_mul(window as u64));
    let first_error = FirstError::default();
    let rest = Mutex::new(Rest { slots, first: 0, count: 0 });
    let finished = AtomicUsize::new(0);
    engine.share(workers, workers, &|_, context| {
        let _guard = GiveUp(sequencer);
        while !first_error.is_set() {
            let next = rest.lock().unwrap_or_else(PoisonError::into_inner).next(change.value_bytes);
            let Some((number, first, slots)) = next else { break };
            if !sequencer.wait_for_turn(number, window, context) {
                break;
            }
            let result = encode_batch(change, key, first, slots, old, context);
            match result.and_then(|batch| Ok(sequencer.finish(number, batch)?)) {
                Ok(()) => _ = finished.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    first_error.set(error);
                    sequencer.give_up();
                }
            }
        }
    });
    let count = rest.into_inner().unwrap_or_else(PoisonError::into_inner).count;
    first_error.into_result()?;
    if finished.into_inner() != count {
        return Err(Error::Unfinished { object: key.clone() });
    }
    Ok(())
}

fn encode_batch(
    change: &Change<'_>,
    key: &Key,
    first: usize,
    slots: &[Slot],
    old: Option<&dyn Object>,
    context: &mut Context,
) -> Result<Batch, Error> {
    let per_slot = if change.keep_before { 2 } else { 1 };
    let mut pieces = Vec::with_capacity(slots.len() * per_slot);
    let mut encoded = context.take_buffer();
    for (i, slot) in slots.iter().enumerate() {
        let entry = (first + i) * per_slot + per_slot - 1;
        match &slot.action {
            Action::Keep { before, range } => {
                if !before.is_empty() {
                    pieces.push(Piece::Kept { entry: entry - 1, range: before.clone() });
                }
                pieces.push(Piece::Kept { entry, range: range.clone() });
            }
            Action::Encode { number, old: range } => {
                let start = encoded.len();
                let range = range.clone().map(|range| range.map_err(|error| damaged(key, &error)));
                let old = old.zip(range);
                match (change.encode)(context, *number, old, &mut encoded)? {
                    Encoded::Absent => encoded.truncate(start),
                    Encoded::Value { before } => {
                        if before > 0 && change.keep_before {
                            let range = start..start + before;
                            pieces.push(Piece::New { entry: entry - 1, range });
                        }
                        let range = start + before..encoded.len();
                        pieces.push(Piece::New { entry, range });
                    }
                }
            }
        }
    }
    Ok(Batch { pieces, encoded })
}
