use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_codec::Context;
use shardine_store::{FolderHold, Key, ReadRange, StoreError, StoreExt};

use super::{PayloadKind, fragments_len};
use crate::anchor::Anchor;
use crate::engine::Publisher;
use crate::engine::tuning::{GZIP_LEVEL, MAX_DECOMPRESSED, WRITE_BATCH};
use crate::keyed::{Change, Encoded, KeyedShards, OldValue, OpenShard, change_shard, gzip};
use crate::precomputed::{INFO, VolumeInfo};
use crate::shard::uint64::{Encoding, Sharding};
use crate::{Engine, Error, Location};

/// A folder of `neuroglancer_uint64_sharded_v1` shards as a store of values by 64-bit key.
#[derive(Debug)]
pub struct KeyValueStore {
    engine: Arc<Engine>,
    shards: Arc<KeyedShards>,
    kind: PayloadKind,
    /// Detects that another data set has replaced this one. Everything is refused then, as keys may
    /// be in other shards.
    anchor: Option<Arc<Anchor>>,
}

/// Changes to some keys.
#[derive(Debug, Clone, Default)]
pub struct KeyValues {
    changes: BTreeMap<u64, Option<NewValue>>,
}

#[derive(Debug, Clone)]
struct NewValue {
    value: Vec<u8>,
    fragments: Vec<u8>,
}

impl KeyValues {
    /// No changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of a key.
    pub fn put(self, key: u64, value: Vec<u8>) -> Self {
        self.put_mesh(key, value, Vec::new())
    }

    /// Sets the manifest of a key, with the fragments that it describes.
    pub fn put_mesh(mut self, key: u64, value: Vec<u8>, fragments: Vec<u8>) -> Self {
        self.changes.insert(key, Some(NewValue { value, fragments }));
        self
    }

    /// Removes the value of a key.
    pub fn remove(mut self, key: u64) -> Self {
        self.changes.insert(key, None);
        self
    }
}

/// What a change of keys did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PutReport {
    /// Shards that were written.
    pub shards_written: u64,
    /// Shards that were removed because nothing was left in them.
    pub shards_removed: u64,
    /// Values that were written.
    pub values_written: u64,
    /// Values that were moved unchanged.
    pub values_kept: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// A key that has a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedKey {
    /// The key.
    pub key: u64,
    /// Its shard.
    pub shard: u64,
    /// Its minishard.
    pub minishard: u64,
    /// Where the value is in the shard.
    pub range: Range<u64>,
}

impl KeyValueStore {
    /// Opens a folder whose own `info` says how it is sharded, as for meshes and skeletons. One
    /// read.
    pub fn open(engine: &Arc<Engine>, location: &Location) -> Result<Self, Error> {
        let key = location.key(INFO)?;
        let anchor = Anchor::of(location, &[INFO])?.map(Arc::new);
        let no_store = || Error::NoKeyValues { at: location.to_string() };
        let bytes = location.store.get(&key)?.ok_or_else(no_store)?;
        let document: Map<String, Value> =
            serde_json::from_slice(&bytes).map_err(|_| no_store())?;
        let sharding = document.get("sharding").ok_or_else(no_store)?;
        let sharding = Sharding::from_json(sharding)
            .map_err(|source| Error::Sharding { object: key.clone(), source })?;
        let kind = PayloadKind::from_info(&document);
        Ok(Self::with_sharding(engine, location, sharding, kind).with_anchor(anchor))
    }

    /// Opens a folder below a volume, or below anything else whose `info` describes it: the chunks
    /// of a scale, or annotations. One read.
    ///
    /// `folder` is relative to the folder of the `info`.
    pub fn open_in(engine: &Arc<Engine>, location: &Location, folder: &str) -> Result<Self, Error> {
        let key = location.key(INFO)?;
        let anchor = Anchor::of(location, &[INFO])?.map(Arc::new);
        let no_store = || Error::NoKeyValues { at: location.to_string() };
        let bytes = location.store.get(&key)?.ok_or_else(no_store)?;
        let document: Map<String, Value> =
            serde_json::from_slice(&bytes).map_err(|_| no_store())?;
        let found = tells_of(&document, folder).ok_or_else(no_store)?;
        let sharding = Sharding::from_json(found)
            .map_err(|source| Error::Sharding { object: key.clone(), source })?;
        let kind = if VolumeInfo::is_volume(&document) {
            PayloadKind::Plain
        } else {
            PayloadKind::from_info(&document)
        };
        let store = Self::with_sharding(engine, &location.join(folder)?, sharding, kind);
        Ok(store.with_anchor(anchor))
    }

    /// Opens a folder whose sharding is known. Reads nothing.
    pub fn with_sharding(
        engine: &Arc<Engine>,
        location: &Location,
        sharding: Sharding,
        kind: PayloadKind,
    ) -> Self {
        let (store, folder) = (Arc::clone(&location.store), location.path.clone());
        let shards = Arc::new(KeyedShards::new(store, folder, sharding));
        Self { engine: Arc::clone(engine), shards, kind, anchor: None }
    }

    pub(crate) fn with_anchor(self, anchor: Option<Arc<Anchor>>) -> Self {
        Self { anchor, ..self }
    }

    /// Keeps the data set in place until the hold is dropped.
    fn hold(&self) -> Result<Option<Arc<FolderHold>>, Error> {
        self.anchor.as_deref().map_or(Ok(None), Anchor::hold_same)
    }

    /// The outcome of a read, if the data set is still the one that was opened.
    fn consistent<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        self.anchor.as_deref().map_or(Ok(()), Anchor::check_same)?;
        outcome
    }

    /// How it is sharded.
    pub fn sharding(&self) -> &Sharding {
        &self.shards.sharding
    }

    /// Its shards.
    pub(crate) fn shards(&self) -> Arc<KeyedShards> {
        Arc::clone(&self.shards)
    }

    /// What its values are.
    pub fn kind(&self) -> PayloadKind {
        self.kind
    }

    /// The value of a key in its stored form; `None` if there is none.
    ///
    /// At most three reads: one for each index that is not cached and one for the value.
    pub fn get_encoded(&self, key: u64) -> Result<Option<Vec<u8>>, Error> {
        let read = self.engine.with_context(|context| {
            self.shards.with_value(key, context, |shard, range| {
                Ok(shard.object.read(ReadRange::Bounded(range))?.to_vec())
            })
        });
        self.consistent(read.map_err(Error::from))
    }

    /// The value of a key; `None` if there is none.
    pub fn get(&self, key: u64) -> Result<Option<Vec<u8>>, Error> {
        let Some(encoded) = self.get_encoded(key)? else { return Ok(None) };
        Ok(Some(self.decode(key, encoded)?))
    }

    fn decode(&self, key: u64, encoded: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        if self.sharding().data_encoding == Encoding::Raw {
            return Ok(encoded);
        }
        let mut value = Vec::new();
        let decoded = self.engine.with_context(|context| {
            gzip(GZIP_LEVEL)?
                .decode(context, &encoded, MAX_DECOMPRESSED as usize, &mut value)
                .map_err(|error| {
                    let shard = self.shards.shard_key(self.sharding().place(key).shard)?;
                    let reason = format!("the value of key {key} cannot be decompressed: {error}");
                    Ok::<_, StoreError>(StoreError::Damaged { key: shard, reason })
                })
                .map_err(|error| error.unwrap_or_else(|error| error))
        });
        decoded?;
        Ok(value)
    }

    /// The fragments of a mesh: the bytes before its manifest. `None` if there is no such mesh.
    pub fn get_fragments(&self, key: u64) -> Result<Option<Vec<u8>>, Error> {
        let damaged = |object: &Key, reason: &str| StoreError::Damaged {
            key: object.clone(),
            reason: format!("key {key}: {reason}"),
        };
        // Both are read from one version of the shard.
        let read = |shard: &OpenShard, range: Range<u64>| {
            let manifest = shard.object.read(ReadRange::Bounded(range.clone()))?.to_vec();
            let manifest = self.decode(key, manifest)?;
            let len = fragments_len(&manifest)
                .ok_or_else(|| damaged(&shard.key, "its value is not the manifest of a mesh"))?;
            let least = self.sharding().table_len();
            let start = range.start.checked_sub(len).filter(|&start| start >= least);
            let start = start.ok_or_else(|| {
                let reason = "its manifest lists more bytes of fragments than there are before it";
                damaged(&shard.key, reason)
            })?;
            Ok(shard.object.read(ReadRange::Bounded(start..range.start))?.to_vec())
        };
        let read = self.engine.with_context(|context| self.shards.with_value(key, context, read));
        self.consistent(read.map_err(Error::from))
    }

    /// All keys that have values, shard by shard. Reads only indexes: the table of each shard, and
    /// its minishard indexes, which are usually contiguous.
    pub fn list(&self, mut visit: impl FnMut(ListedKey)) -> Result<(), Error> {
        let _hold = self.hold()?;
        for shard in self.shards.stored()? {
            let Some(object) = self.shards.open_object(shard)? else { continue };
            let key = self.shards.shard_key(shard)?;
            let read = |context: &mut Context| self.shards.read_indexes(&key, &*object, context);
            let indexes = self.engine.with_context(read)?;
            object.check_unchanged()?;
            for (minishard, entry) in indexes.entries() {
                // Entries that lie outside are reported when they are read, and by `verify`.
                let range = entry.start..entry.start.saturating_add(entry.len);
                visit(ListedKey { key: entry.key, shard, minishard, range });
            }
        }
        Ok(())
    }

    /// Writes and removes values. Each affected shard changes once and atomically, with all other
    /// values moved unchanged; other writers wait, or their change is kept and this one is applied
    /// on top of it.
    pub fn update(&self, values: &KeyValues) -> Result<PutReport, Error> {
        if self.kind == PayloadKind::MultiresolutionMesh {
            for (&key, value) in &values.changes {
                if let Some(NewValue { value, fragments }) = value
                    && fragments_len(value) != Some(fragments.len() as u64)
                {
                    return Err(Error::MeshWithoutFragments {
                        key,
                        told: fragments_len(value),
                        given: fragments.len() as u64,
                    });
                }
            }
        }
        let _hold = self.hold()?;
        let mut by_shard: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for &key in values.changes.keys() {
            by_shard.entry(self.sharding().place(key).shard).or_default().push(key);
        }
        let mut report = PutReport::default();
        for (shard, keys) in by_shard {
            let largest = keys.iter().filter_map(|key| values.changes[key].as_ref());
            let largest = largest.map(|v| v.value.len() + v.fragments.len()).max().unwrap_or(0);
            let encode = |context: &mut Context, i: usize, _: OldValue<'_>, out: &mut Vec<u8>| {
                let Some(NewValue { value, fragments }) = &values.changes[&keys[i]] else {
                    return Ok(Encoded::Absent);
                };
                out.extend_from_slice(fragments);
                self.encode(context, value, out)?;
                Ok(Encoded::Value { before: fragments.len() })
            };
            let done = change_shard(
                &self.engine,
                &self.shards,
                &Change {
                    object: shard,
                    keys: &keys,
                    replaces_all: false,
                    keep_before: self.kind.keeps_before(),
                    value_bytes: largest as u64,
                    inline: false,
                    encode: &encode,
                    publisher: &Publisher::new(&*self.shards.store, WRITE_BATCH),
                },
            )?;
            report.shards_written += u64::from(done.written);
            report.shards_removed += u64::from(done.removed);
            report.values_written += done.encoded;
            report.values_kept += done.kept;
            report.bytes_written += done.bytes;
        }
        Ok(report)
    }

    fn encode(
        &self,
        context: &mut Context,
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        match self.sharding().data_encoding {
            Encoding::Raw => out.extend_from_slice(value),
            Encoding::Gzip => gzip(GZIP_LEVEL)?.encode(context, value, out).map_err(|error| {
                let source = std::io::Error::other(error.to_string());
                StoreError::Io { operation: "compress", path: "a value".into(), source }
            })?,
        }
        Ok(())
    }
}

/// What an `info` says about the sharding of a folder below it.
fn tells_of<'a>(document: &'a Map<String, Value>, folder: &str) -> Option<&'a Value> {
    let listed = ["scales", "spatial", "relationships"].into_iter();
    let entries = listed
        .filter_map(|name| document.get(name).and_then(Value::as_array))
        .flatten()
        .chain(document.get("by_id"));
    entries
        .filter(|entry| entry.get("key").and_then(Value::as_str) == Some(folder))
        .find_map(|entry| entry.get("sharding").filter(|sharding| !sharding.is_null()))
}
