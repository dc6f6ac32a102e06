//! Moves the values of a folder of shards into other shards.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use shardine_codec::Context;
use shardine_store::StoreError;

use super::values::{KeyFolderValues, StoredValue};
use crate::Error;
use crate::engine::tuning::{EXPANDS, GZIP_LEVEL, JOB_BATCH};
use crate::engine::{Engine, FirstError, Publisher, StoredBytes};
use crate::jobs::RepackError;
use crate::jobs::frame::{JobContext, JobProgress, Part};
use crate::jobs::rebuild::Counts;
use crate::keyed::{Change, ChangeReport, Encoded, OldValue, change_shard, gzip};
use crate::shard::uint64::Encoding;

/// The most bytes a value may decompress to.
const LIMIT: usize = 2 << 30;

/// Memory for a key to be moved, in bytes.
const KEY: u64 = size_of::<Moved>() as u64;

/// The most that is assumed for a value, whatever an index says.
const MOST: u64 = 1 << 40;

/// Values compared together.
const COMPARED: usize = 1024;

/// A key to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moved {
    /// Its shard at the target.
    shard: u64,
    key: u64,
    /// Bytes before its value that belong to it.
    before: u64,
    /// Memory for it, in bytes.
    memory: u64,
}

/// The memory for a moved value in bytes: as stored, and if it is recompressed, the result too.
fn memory(from: &KeyFolderValues, to: &KeyFolderValues, value: &StoredValue) -> u64 {
    let stored = value.before.saturating_add(value.len);
    let becomes = match from.encoding() == to.encoding() {
        true => 0,
        false => value.len.saturating_mul(EXPANDS),
    };
    stored.saturating_add(becomes).min(MOST)
}

fn write(
    context: &JobContext,
    from: &KeyFolderValues,
    to: &KeyFolderValues,
    resumed: bool,
    part: Option<Part>,
) -> Result<Counts, Error> {
    let engine = context.engine();
    // As many keys at a time as there is memory for.
    let room = (engine.memory_in_flight() / 4 / KEY).max(1);
    let moved = |value: &StoredValue| {
        let StoredValue { key, before, .. } = *value;
        let shard = to.shards.sharding.place(key).shard;
        Moved { shard, key, before, memory: memory(from, to, value) }
    };
    let mut total = 0u64;
    let mut all = Some(Vec::new());
    from.each_key(engine, &mut |value| {
        if !is_mine(part, to.shards.sharding.place(value.key).shard) {
            return;
        }
        total += 1;
        match &mut all {
            Some(keys) if total <= room => keys.push(moved(&value)),
            all => *all = None,
        }
    })?;
    let passes = total.div_ceil(room).max(1);
    let done = AtomicU64::new(0);
    let progress = |n: u64| -> Result<(), Error> {
        let done = done.fetch_add(n, Ordering::Relaxed) + n;
        context.report(JobProgress::steps("", done, total));
        context.check()
    };
    let counts = Mutex::default();
    for pass in 0..passes {
        let mut keys = match all.take() {
            Some(keys) => keys,
            None => {
                let mut keys = Vec::new();
                from.each_key(engine, &mut |value| {
                    let wanted =
                        |moved: &Moved| is_mine(part, moved.shard) && moved.shard % passes == pass;
                    keys.extend(Some(moved(&value)).filter(wanted));
                })?;
                keys
            }
        };
        keys.sort_unstable();
        let moving = Moving { engine, from, to, resumed, progress: &progress };
        moving.shards(&keys, &counts)?;
    }
    Ok(counts.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Moving<'a> {
    engine: &'a Engine,
    from: &'a KeyFolderValues,
    to: &'a KeyFolderValues,
    resumed: bool,
    progress: &'a (dyn Fn(u64) -> Result<(), Error> + Sync),
}

impl Moving<'_> {
    fn shards(&self, keys: &[Moved], counts: &Mutex<Counts>) -> Result<(), Error> {
        let publisher = Publisher::new(&*self.to.shards.store, JOB_BATCH);
        let groups = keys.chunk_by(|a, b| a.shard == b.shard);
        let moves = self.from.encoding() == self.to.encoding() && self.from.can_locate();
        // Moving takes hardly any memory, and several shards keep the disk busier than several
        // workers on one.
        let bytes = |group: &&[Moved]| match moves {
            true => 0,
            false => group.iter().map(|moved| moved.memory).fold(0, u64::saturating_add),
        };
        self.engine.each_object(groups, &bytes, &|group| -> Result<(), Error> {
            let made = self.shard(group, &publisher)?;
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            match made {
                None => counts.kept += 1,
                Some(report) => {
                    counts.written += u64::from(report.written);
                    counts.bytes += report.bytes;
                    match self.from.encoding() == self.to.encoding() {
                        true => counts.moved += report.encoded,
                        false => counts.recompressed += report.encoded,
                    }
                }
            }
            Ok(())
        })?;
        publisher.finish()?;
        Ok(())
    }

    /// Makes a shard; `None` if an earlier run has.
    fn shard(
        &self,
        group: &[Moved],
        publisher: &Publisher<'_, ()>,
    ) -> Result<Option<ChangeReport>, Error> {
        let Some(first) = group.first() else { return Ok(None) };
        if self.resumed && self.to.shards.open_object(first.shard)?.is_some() {
            (self.progress)(group.len() as u64)?;
            return Ok(None);
        }
        let numbers: Vec<u64> = group.iter().map(|moved| moved.key).collect();
        let moves = self.from.encoding() == self.to.encoding() && self.from.can_locate();
        let encode = |context: &mut Context, i: usize, _: OldValue<'_>, out: &mut Vec<u8>| {
            let Moved { key, before, .. } = group[i];
            (self.progress)(1)?;
            if moves
                && let StoredBytes { object, range: Some(range) } =
                    self.from.locate(context, key)?
            {
                let before = range.start.saturating_sub(before)..range.start;
                return Ok(Encoded::Moved { object, before, range });
            }
            move_value(context, self.from, self.to, key, before, out)?;
            Ok(Encoded::Value { before: before as usize })
        };
        let change = Change {
            object: first.shard,
            keys: &numbers,
            replaces_all: true,
            keep_before: self.from.kind.keeps_before(),
            value_bytes: group.iter().map(|moved| moved.memory).max().unwrap_or(0),
            inline: false,
            encode: &encode,
            publisher,
        };
        Ok(Some(change_shard(self.engine, &self.to.shards, &change)?))
    }
}

/// Appends a value as it will be stored, with the bytes before it.
fn move_value(
    context: &mut Context,
    from: &KeyFolderValues,
    to: &KeyFolderValues,
    key: u64,
    before: u64,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    if from.encoding() == to.encoding() {
        return from.read(context, key, before, out);
    }
    let mut stored = context.take_buffer();
    let read = from.read(context, key, before, &mut stored);
    let recoded = read.and_then(|()| {
        let (ahead, value) = stored.split_at_checked(before as usize).unwrap_or((&[], &stored));
        out.extend_from_slice(ahead);
        match to.encoding() {
            Encoding::Raw => inflate(context, from, key, value, out),
            Encoding::Gzip => Ok(gzip(GZIP_LEVEL)?
                .encode(context, value, out)
                .map_err(|error| wrong(from, key, &error.to_string()))?),
        }
    });
    context.give_buffer(stored);
    recoded
}

fn inflate(
    context: &mut Context,
    from: &KeyFolderValues,
    key: u64,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let start = out.len();
    let limit = LIMIT.saturating_add(start);
    let done = gzip(GZIP_LEVEL)?.decode(context, value, limit, out);
    done.map_err(|error| wrong(from, key, &error.to_string()).into())
}

fn wrong(values: &KeyFolderValues, key: u64, reason: &str) -> StoreError {
    match values.object_key(key) {
        Ok(object) => {
            StoreError::Damaged { key: object, reason: format!("the value of key {key}: {reason}") }
        }
        Err(error) => error,
    }
}

impl KeyFolderValues {
    /// Moves all values to other shards, or those of a part; with `check` they are compared there.
    /// With `resumed`, existing objects are complete and stay.
    pub fn move_to(
        &self,
        context: &JobContext,
        to: &Self,
        resumed: bool,
        check: bool,
        part: Option<Part>,
    ) -> Result<Counts, Error> {
        let counts = write(context, self, to, resumed, part)?;
        if check || resumed {
            self.check(context, to, part)?;
        }
        Ok(counts)
    }

    /// Compares all values, and what lies before them, with their copies.
    fn check(&self, context: &JobContext, to: &Self, part: Option<Part>) -> Result<(), Error> {
        let mut keys = Vec::with_capacity(COMPARED);
        let mut result = Ok(());
        self.each_key(context.engine(), &mut |value| {
            let shard = to.shards.sharding.place(value.key).shard;
            if result.is_err() || !is_mine(part, shard) {
                return;
            }
            keys.push(value);
            if keys.len() == COMPARED {
                let stopped = context.check();
                result = stopped.and_then(|()| compare(context.engine(), self, to, &keys));
                keys.clear();
            }
        })?;
        result?;
        compare(context.engine(), self, to, &keys)
    }
}

/// Whether a shard belongs to this process.
fn is_mine(part: Option<Part>, shard: u64) -> bool {
    part.is_none_or(|part| part.takes(format!("keys:{shard}").as_bytes()))
}

fn compare(
    engine: &Engine,
    from: &KeyFolderValues,
    to: &KeyFolderValues,
    keys: &[StoredValue],
) -> Result<(), Error> {
    let first_error = FirstError::default();
    // The old and the new value, and if they are compressed differently, both decompressed.
    let each = keys.iter().map(|value| memory(from, to, value).saturating_mul(2)).max();
    let each = each.unwrap_or(0);
    let workers = engine.workers_within(each);
    let _permit = engine.admit(each.saturating_mul(workers as u64));
    engine.share(workers, keys.len(), &|i, context| {
        if first_error.is_set() {
            return;
        }
        let StoredValue { key, before, .. } = keys[i];
        let mut alike = || -> Result<bool, Error> {
            if from.encoding() == to.encoding() && from.can_locate() && to.can_locate() {
                let (old, new) = (from.locate(context, key)?, to.locate(context, key)?);
                let (old, new) = (old.starting_before(before), new.starting_before(before));
                let same = new.has_bytes_of(&old)?;
                old.object.check_unchanged()?;
                return Ok(same);
            }
            let (mut one, mut other) = (context.take_buffer(), context.take_buffer());
            from.read(context, key, before, &mut one)?;
            to.read(context, key, before, &mut other)?;
            let mut alike = one == other;
            if from.encoding() != to.encoding() {
                let at = before as usize;
                let mut plain = context.take_buffer();
                let (packed, raw) = match from.encoding() {
                    Encoding::Gzip => (&one, &other),
                    Encoding::Raw => (&other, &one),
                };
                let value = packed.get(at..).unwrap_or_default();
                inflate(context, from, key, value, &mut plain)?;
                alike = one.get(..at) == other.get(..at) && raw.get(at..) == Some(&plain[..]);
                context.give_buffer(plain);
            }
            context.give_buffer(one);
            context.give_buffer(other);
            Ok(alike)
        };
        match alike() {
            Ok(true) => {}
            Ok(false) => first_error.set(match to.object_key(key) {
                Ok(object) => RepackError::Differs { object, chunk: vec![key] }.into(),
                Err(error) => error.into(),
            }),
            Err(error) => first_error.set(error),
        }
    });
    first_error.into_result()
}
