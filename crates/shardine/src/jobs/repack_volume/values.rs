//! Values by 64-bit key in shards, and the stored chunks of a scale.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use shardine_codec::Context;
use shardine_store::{Key, StoreError};

use crate::engine::StoredBytes;
use crate::jobs::RepackError;
use crate::keyed::{KeyedShards, before_values};
use crate::precomputed::key_values::PayloadKind;
use crate::precomputed::{Volume, unwrapped};
use crate::shard::uint64::Encoding;
use crate::{Engine, Error};

/// A stored value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jobs) struct StoredValue {
    pub key: u64,
    /// Bytes before it that belong to it.
    pub before: u64,
    /// Its own bytes, as stored.
    pub len: u64,
}

/// Values by key in a folder of shards.
#[derive(Clone)]
pub(in crate::jobs) struct KeyFolderValues {
    pub shards: Arc<KeyedShards>,
    pub kind: PayloadKind,
}

impl KeyFolderValues {
    /// How shards compress values, on top of the values' own encoding.
    pub fn encoding(&self) -> Encoding {
        self.shards.sharding.data_encoding
    }

    /// The object of a value, for messages.
    pub fn object_key(&self, key: u64) -> Result<Key, StoreError> {
        self.shards.shard_key(self.shards.sharding.place(key).shard)
    }

    /// Visits all values. A key where no reader looks for it is an error, as it would be lost.
    pub fn each_key(
        &self,
        engine: &Engine,
        visit: &mut dyn FnMut(StoredValue),
    ) -> Result<(), Error> {
        each_value(engine, &self.shards, self.kind.keeps_before(), visit)
    }

    /// Whether values can be moved without being read.
    pub fn can_locate(&self) -> bool {
        self.shards.store.read_cost().local
    }

    /// Where a value is.
    pub fn locate(&self, context: &mut Context, key: u64) -> Result<StoredBytes, Error> {
        let Some((shard, range)) = self.shards.find(key, context)? else {
            return Err(StoreError::Changed { key: self.object_key(key)? }.into());
        };
        Ok(StoredBytes { object: Arc::clone(&shard.object), range: Some(range) })
    }

    /// Appends a value as stored, with `before` bytes that lie before it.
    pub fn read(
        &self,
        context: &mut Context,
        key: u64,
        before: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let found = self.locate(context, key)?.starting_before(before);
        let bytes = found.object.read(found.read_range())?;
        found.object.check_unchanged()?;
        out.extend_from_slice(&bytes);
        Ok(())
    }
}

/// Visits all values of a folder of shards, each with the bytes before it if those are kept.
fn each_value(
    engine: &Engine,
    shards: &KeyedShards,
    keeps_before: bool,
    visit: &mut dyn FnMut(StoredValue),
) -> Result<(), Error> {
    for shard in shards.stored()? {
        let Some(object) = shards.open_object(shard)? else { continue };
        let key = shards.shard_key(shard)?;
        let read = |context: &mut Context| shards.read_indexes(&key, &*object, context);
        let indexes = engine.with_context(read)?;
        object.check_unchanged()?;
        let before = if keeps_before { before_values(&indexes) } else { Vec::new() };
        let damaged = |reason: String| StoreError::Damaged { key: key.clone(), reason };
        let mut seen = HashSet::new();
        for (i, (minishard, entry)) in indexes.entries().enumerate() {
            let place = shards.sharding.place(entry.key);
            if (place.shard, place.minishard) != (shard, minishard) {
                let reason = "is not where it belongs; `shardine verify` shows more";
                return Err(damaged(format!("key {} {reason}", entry.key)).into());
            }
            if !seen.insert(entry.key) {
                return Err(damaged(format!("key {} occurs more than once", entry.key)).into());
            }
            indexes.range(entry).map_err(|error| damaged(error.to_string()))?;
            let before = before.get(i).map_or(0, |range: &Range<u64>| range.end - range.start);
            visit(StoredValue { key: entry.key, before, len: entry.len });
        }
    }
    Ok(())
}

/// Counts the stored chunks of a scale; an error if something is stored where no reader finds it,
/// as it would be lost. Costs a listing, and for shards a read of each index.
pub(super) fn count_chunks(engine: &Engine, volume: &Volume, level: usize) -> Result<u64, Error> {
    let scale = volume.scale(level)?;
    let code = scale.morton().ok_or_else(|| RepackError::Layout {
        at: volume.location().to_string(),
        reason: format!("scale \"{}\" has more chunks than 64-bit keys can number", scale.key),
    })?;
    if let Some(shards) = volume.shards(scale)? {
        let (mut count, mut outside) = (0u64, None);
        each_value(engine, &shards, false, &mut |value| {
            count += 1;
            if code.decode(value.key).is_none() {
                outside.get_or_insert(value.key);
            }
        })?;
        let Some(outside) = outside else { return Ok(count) };
        let key = shards.shard_key(shards.sharding.place(outside).shard)?;
        let reason = format!(
            "key {outside} is outside the grid of chunks; `shardine verify` shows more, and \
             `shardine repair` removes it"
        );
        return Err(StoreError::Damaged { key, reason }.into());
    }
    let names = volume.box_names(scale)?;
    let listing = volume.location().store.list(names.folder.as_ref())?;
    listing.refuse_unlisted(|name| names.object(name).is_some())?;
    let mut cells = HashSet::new();
    for (key, _) in listing.objects {
        let name = key.as_str().rsplit('/').next().unwrap_or_default();
        let Some(found) = names.object(name) else { continue };
        if !cells.insert(found.cell) {
            let plain = unwrapped(name).unwrap_or(name);
            let reason = format!("chunk {plain} is stored more than once");
            return Err(StoreError::Damaged { key, reason }.into());
        }
    }
    Ok(cells.len() as u64)
}
