//! Rewrites a shard with some of its values replaced and the others moved unchanged.

use std::ops::Range;
use std::sync::Arc;

use shardine_codec::Context;
use shardine_store::{Condition, CreateOptions, Edit, Key, Object, ReadRange, Staged, StoreError};

use super::shards::{KeyedShards, ShardIndexes, damaged};
use crate::Error;
use crate::shard::uint64::{Sharding, Uint64Error};
use crate::tuning::OPEN_SOURCES;
use crate::{
    Batch, Engine, Finished, NewObject, Piece, Publish, Slots, Taken, Uint64Frame, attempts,
};

/// The outcome of encoding a value.
pub enum Encoded {
    /// The key has no value any more.
    Absent,
    /// The value was appended. The first `before` bytes of what was appended belong to it without
    /// being part of it.
    Value {
        /// How many bytes.
        before: usize,
    },
    /// The value is moved unchanged from another object; nothing was appended.
    Moved {
        /// The object that holds it.
        object: Arc<dyn Object>,
        /// The bytes before it that belong to it without being part of it.
        before: Range<u64>,
        /// Its own bytes.
        range: Range<u64>,
    },
}

/// The previous value of a key: the shard and its range in it, or why that range is damaged.
pub type OldValue<'a> = Option<(&'a dyn Object, Result<Range<u64>, StoreError>)>;

/// Encodes the value of the key with this number and appends it to the buffer.
pub type EncodeValue<'a> =
    dyn Fn(&mut Context, usize, OldValue<'_>, &mut Vec<u8>) -> Result<Encoded, Error> + Sync + 'a;

/// A change to one object that holds values by key.
pub struct Change<'a> {
    /// The number of the object.
    pub object: u64,
    /// The keys whose values are written or removed, each once. All of them are in this object.
    pub keys: &'a [u64],
    /// Whether the shard keeps no other key.
    pub replaces_all: bool,
    /// Whether bytes before a value that belong to nothing else stay with it.
    pub keep_before: bool,
    /// Memory for one value.
    pub value_bytes: u64,
    /// Whether the calling thread does all the work while it holds the shard's lock. Required if
    /// workers may be waiting for that lock: waiting for them would deadlock.
    pub inline: bool,
    /// Encodes the value of a key.
    pub encode: &'a EncodeValue<'a>,
    /// Where new shards wait to be published together, if they replace all of the old ones. The
    /// caller finishes it.
    pub publisher: &'a dyn Publish,
}

impl<'a> Change<'a> {
    /// A change that keeps all values: rewriting the shard removes its gaps.
    pub fn nothing(object: u64, publisher: &'a dyn Publish) -> Self {
        Self {
            object,
            keys: &[],
            replaces_all: false,
            keep_before: false,
            value_bytes: 0,
            inline: true,
            encode: &|_, _, _, _| Ok(Encoded::Absent),
            publisher,
        }
    }
}

/// What a change did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeReport {
    /// Whether a shard was written and exists now.
    pub written: bool,
    /// Whether a shard was removed.
    pub removed: bool,
    /// Values that were encoded and stored.
    pub encoded: u64,
    /// Values that were moved unchanged.
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
    /// A damaged entry is an error only if the old value is needed.
    Encode {
        number: usize,
        old: Option<Result<Range<u64>, Uint64Error>>,
    },
}

/// Changes a shard atomically. Other writers wait; if another writer was faster, its change is kept
/// and this one is made on top of it.
pub fn change_shard(
    engine: &Engine,
    shards: &KeyedShards,
    change: &Change<'_>,
) -> Result<ChangeReport, Error> {
    let key = shards.shard_key(change.object)?;
    let local = shards.store.read_cost().local;
    let done = attempts(local, &key, || attempt(engine, shards, change, &key));
    shards.forget(change.object);
    let (report, staged) = done?;
    // Not part of the attempts: a failure of other shards waiting to be published is no reason to
    // repeat this one.
    if let Some(staged) = staged {
        change.publisher.add(staged, report.bytes)?;
    }
    Ok(report)
}

/// What exists where a shard is to be changed.
struct Old {
    object: Arc<dyn Object>,
    /// `None` if it is in the older form, two objects.
    edit: Option<Edit>,
}

fn old_shard(
    shards: &KeyedShards,
    change: &Change<'_>,
    key: &Key,
) -> Result<Option<Old>, StoreError> {
    if change.replaces_all {
        return Ok(None);
    }
    match shards.store.edit(key) {
        Ok(edit) => Ok(Some(Old { object: Arc::clone(&edit.object), edit: Some(edit) })),
        Err(StoreError::NotFound { .. }) => {
            let older = shards.open_older(change.object)?;
            Ok(older.map(|object| Old { object, edit: None }))
        }
        Err(error) => Err(error),
    }
}

/// Also returns the new shard if it still has to be published.
fn attempt(
    engine: &Engine,
    shards: &KeyedShards,
    change: &Change<'_>,
    key: &Key,
) -> Result<(ChangeReport, Option<Staged>), Error> {
    let store = &*shards.store;
    let old = old_shard(shards, change, key)?;
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
    let slots = plan(&shards.sharding, change, key, &indexes)?;
    let is_older = old.as_ref().is_some_and(|old| old.edit.is_none());
    // In a remote store each of these would be a request for something that hardly ever exists.
    let has_older = store.read_cost().local && shards.has_older(change.object)?;
    let object = old.as_ref().map(|old| &old.object);
    let (mut report, mut waiting) = (ChangeReport::default(), None);
    // Only if something is left, or may be.
    if !slots.is_empty() {
        let values: Vec<(u64, u64)> = slots.iter().map(|slot| (slot.minishard, slot.key)).collect();
        let frame = Uint64Frame { sharding: &shards.sharding, key, values: &values };
        let condition = condition.clone();
        let new = NewObject { store, key, condition, frame: &frame, any_order: false };
        let work = Slots {
            is_made: &|slot: &Slot| matches!(slot.action, Action::Encode { .. }),
            inline: change.inline,
            ..Slots::made(&slots, change.value_bytes)
        };
        let laid_down = new.lay_down(engine, work, &|context, taken| {
            encode_batch(change, key, taken, object, context)
        })?;
        for (i, slot) in slots.iter().enumerate() {
            let is_there = laid_down.placed.get(i).is_ok_and(|range| range.is_some());
            match &slot.action {
                Action::Keep { .. } => report.kept += 1,
                Action::Encode { .. } if is_there => report.encoded += 1,
                Action::Encode { .. } => report.absent += 1,
            }
        }
        if report.kept + report.encoded > 0 {
            let Finished { staged, len } = laid_down.finish(engine)?;
            report.bytes = len;
            report.written = true;
            // The remains of the older form are removed once the new one is published.
            match change.replaces_all && !has_older {
                true => waiting = Some(staged),
                false => change.publisher.now(staged)?,
            }
        }
    }
    if !report.written {
        report.removed = remove(shards, change, key, &condition, old.is_some() && !is_older)?;
    }
    // Otherwise the remains of the older form would be found again as soon as the shard is removed.
    if is_older || has_older {
        report.removed |= !report.written;
        for older in shards.older_keys(change.object)? {
            store.delete(&older, &Condition::None)?;
        }
    }
    Ok((report, waiting))
}

/// Removes a shard that has become empty; returns whether there was one.
fn remove(
    shards: &KeyedShards,
    change: &Change<'_>,
    key: &Key,
    condition: &Condition,
    existed: bool,
) -> Result<bool, Error> {
    let store = &shards.store;
    let there = existed || (change.replaces_all && shards.is_there(change.object)?);
    if !there {
        return Ok(false);
    }
    match store.delete(key, condition) {
        // A shard that cannot be deleted safely becomes a shard without values.
        Err(StoreError::Unsupported { .. }) => {
            let head = shards.sharding.table_len();
            let options = CreateOptions { head, condition: condition.clone() };
            let writer = store.create(key, options)?;
            store.publish(vec![writer.finish(&vec![0; head as usize])?])?;
        }
        deleted => deleted?,
    }
    Ok(true)
}

/// The values of the new shard, by minishard and key.
fn plan(
    sharding: &Sharding,
    change: &Change<'_>,
    key: &Key,
    old: &ShardIndexes,
) -> Result<Vec<Slot>, Error> {
    let mut numbers: Vec<(u64, usize)> =
        change.keys.iter().copied().enumerate().map(|(i, key)| (key, i)).collect();
    numbers.sort_unstable();
    let mut slots: Vec<Slot> = Vec::with_capacity(numbers.len());
    let mut old_ranges: Vec<Option<Result<Range<u64>, Uint64Error>>> = vec![None; numbers.len()];
    let before = if change.keep_before { before_values(old) } else { Vec::new() };
    for (i, (minishard, entry)) in old.entries().enumerate() {
        let range = old.range(entry);
        match numbers.binary_search_by_key(&entry.key, |(key, _)| *key) {
            // The first of several wins, and only in the minishard where readers look for it.
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
    // Stable: the first of several values of a key stays first; readers never see the others.
    slots.sort_by_key(|slot| (slot.minishard, slot.key));
    slots.dedup_by_key(|slot| (slot.minishard, slot.key));
    Ok(slots)
}

/// For each entry, the bytes before its value that nothing refers to.
pub fn before_values(old: &ShardIndexes) -> Vec<Range<u64>> {
    let values: Vec<Range<u64>> =
        old.entries().map(|(_, entry)| old.range(entry).unwrap_or(0..0)).collect();
    bytes_before(&values, &old.index_ranges, old.table_len)
}

/// For each value, the bytes before it that belong to neither the table, an index nor a value.
pub fn bytes_before(
    values: &[Range<u64>],
    indexes: &[Range<u64>],
    table_len: u64,
) -> Vec<Range<u64>> {
    let mut taken: Vec<Range<u64>> = values.iter().chain(indexes).cloned().collect();
    taken.sort_unstable_by_key(|range| (range.start, range.end));
    let mut before = vec![0..0; values.len()];
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|&i| values[i].start);
    let (mut next, mut end) = (taken.iter().peekable(), table_len);
    let mut last: Option<usize> = None;
    for i in order {
        let start = values[i].start;
        // Two keys with the same value share the bytes before it.
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

fn encode_batch(
    change: &Change<'_>,
    key: &Key,
    taken: &Taken<'_, Slot>,
    old: Option<&Arc<dyn Object>>,
    context: &mut Context,
) -> Result<Batch, Error> {
    let mut batch = Batch { encoded: context.take_buffer(), ..Batch::default() };
    for (entry, slot) in (taken.first..).zip(taken.slots) {
        match &slot.action {
            Action::Keep { before, range } => {
                let unfinished = || Error::Unfinished { object: key.clone() };
                let old = old.ok_or_else(unfinished)?;
                if !before.is_empty() {
                    batch.push_moved(None, old, before.clone());
                }
                batch.push_moved(Some(entry), old, range.clone());
            }
            Action::Encode { number, old: range } => {
                let start = batch.encoded.len();
                let range = range.clone().map(|range| range.map_err(|error| damaged(key, &error)));
                let old = old.map(|old| &**old).zip(range);
                match (change.encode)(context, *number, old, &mut batch.encoded)? {
                    Encoded::Absent => batch.encoded.truncate(start),
                    Encoded::Moved { object, before, range } => {
                        batch.encoded.truncate(start);
                        let before = if change.keep_before { before } else { 0..0 };
                        let is_open = batch.objects.iter().any(|open| Arc::ptr_eq(open, &object));
                        if !is_open && batch.objects.len() >= OPEN_SOURCES {
                            let bytes = |range| object.read(ReadRange::Bounded(range));
                            if !before.is_empty() {
                                batch.push_bytes(None, &bytes(before)?);
                            }
                            batch.push_bytes(Some(entry), &bytes(range)?);
                            object.check_unchanged()?;
                            continue;
                        }
                        // It may be replaced or changed in the meantime.
                        batch.unlocked = true;
                        if !before.is_empty() {
                            batch.push_moved(None, &object, before);
                        }
                        batch.push_moved(Some(entry), &object, range);
                    }
                    Encoded::Value { before } => {
                        let end = batch.encoded.len();
                        if before > 0 && change.keep_before {
                            let range = start..start + before;
                            batch.pieces.push(Piece::New { entry: None, range });
                        }
                        let range = start + before..end;
                        batch.pieces.push(Piece::New { entry: Some(entry), range });
                    }
                }
            }
        }
    }
    Ok(batch)
}
