use std::sync::Arc;

use shardine_codec::{Context, ElementSize};
use shardine_store::{Key, ReadRange, Store, StoreError};

use super::form::chunk;
use crate::engine::StoredBytes;
use crate::keyed::{KeyedShards, before_values};
use crate::precomputed::key_values::PayloadKind;
use crate::precomputed::{BoxNames, BoxObject, Scale, Volume, WrappedStore};
use crate::shard::uint64::{Encoding, MortonCode};
use crate::{Engine, Error, RepackError};

/// Values by key, however they are stored.
pub(crate) enum Values {
    /// In shards; with the bytes of a value before it is compressed, if these are chunks.
    Shards { shards: Arc<KeyedShards>, kind: PayloadKind, plain: Option<u64> },
    /// The chunks of a volume, each an object; with the bytes of one before it is compressed.
    Objects { store: WrappedStore, names: BoxNames, code: MortonCode, plain: u64 },
}

/// A value that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredValue {
    pub key: u64,
    /// Bytes before it that belong to it.
    pub before: u64,
    /// Its own bytes, as they are read.
    pub len: u64,
}

impl Values {
    /// The chunks of a scale of a volume.
    pub fn of_scale(volume: &Volume, level: usize) -> Result<Self, Error> {
        let scale = volume.scale(level)?;
        if let Some(shards) = volume.shards(scale)? {
            let plain = Some(chunk_bytes(volume, scale));
            return Ok(Self::Shards { shards, kind: PayloadKind::Plain, plain });
        }
        let at = || volume.location().to_string();
        let code = scale.morton().ok_or_else(|| RepackError::Layout {
            at: at(),
            reason: format!(
                "scale \"{}\" has more chunks than keys of 64 bits can name",
                scale.key
            ),
        })?;
        let store = volume.wrapped(scale);
        let (names, plain) = (volume.box_names(scale)?, chunk_bytes(volume, scale));
        Ok(Self::Objects { store, names, code, plain })
    }

    /// Bytes of a value before it is compressed, if that is known.
    pub fn plain(&self) -> Option<u64> {
        match self {
            Self::Shards { plain, .. } => *plain,
            Self::Objects { plain, .. } => Some(*plain),
        }
    }

    /// Whether there is a place for a key.
    pub fn has_place(&self, key: u64) -> bool {
        match self {
            Self::Shards { .. } => true,
            Self::Objects { code, .. } => code.decode(key).is_some(),
        }
    }

    /// How values are compressed, on top of what they are.
    pub fn encoding(&self) -> Encoding {
        match self {
            Self::Shards { shards, .. } => shards.sharding.data_encoding,
            Self::Objects { .. } => Encoding::Raw,
        }
    }

    /// Whether bytes before a value may belong to it.
    pub fn keeps_before(&self) -> bool {
        match self {
            Self::Shards { kind, .. } => kind.keeps_before(),
            Self::Objects { .. } => false,
        }
    }

    /// Where messages say a value is.
    pub fn object_key(&self, key: u64) -> Result<Key, StoreError> {
        match self {
            Self::Shards { shards, .. } => shards.shard_key(shards.sharding.place(key).shard),
            Self::Objects { names, code, .. } => {
                let cell = code.decode(key).ok_or_else(|| StoreError::Key {
                    text: key.to_string(),
                    reason: "it is outside the grid of chunks",
                })?;
                crate::engine::Packing::key(names, &cell)
            }
        }
    }

    /// All values.
    ///
    /// What is in the folder and is no chunk of the volume is not among them; a key in a place where nobody looks for it is
    /// an error, as it would be lost.
    pub fn each_key(
        &self,
        engine: &Engine,
        visit: &mut dyn FnMut(StoredValue),
    ) -> Result<(), Error> {
        match self {
            Self::Objects { store, names, code, plain } => {
                let chunk_of = |name: &str| chunk(names, code.grid(), name);
                let listing = store.list(names.folder.as_ref())?;
                listing.refuse_unlisted(|name| chunk_of(name).is_some())?;
                for (key, len) in listing.objects {
                    let name = key.as_str().rsplit('/').next().unwrap_or_default();
                    if let Some(BoxObject { cell, compressed }) = chunk_of(name) {
                        let len = if compressed { len.max(*plain) } else { len };
                        visit(StoredValue { key: code.encode(cell), before: 0, len });
                    }
                }
                Ok(())
            }
            Self::Shards { shards, .. } => {
                for shard in shards.stored()? {
                    let Some(object) = shards.open_object(shard)? else { continue };
                    let key = shards.shard_key(shard)?;
                    let indexes = engine
                        .with_context(|context| shards.read_indexes(&key, &*object, context))?;
                    object.check_unchanged()?;
                    let before =
                        if self.keeps_before() { before_values(&indexes) } else { Vec::new() };
                    for (i, (minishard, entry)) in indexes.entries().enumerate() {
                        let place = shards.sharding.place(entry.key);
                        if (place.shard, place.minishard) != (shard, minishard) {
                            let reason = format!(
                                "key {} is not where it belongs; `shardine verify` tells more",
                                entry.key
                            );
                            return Err(StoreError::Damaged { key, reason }.into());
                        }
                        indexes.range(entry).map_err(|error| {
                            let reason = error.to_string();
                            StoreError::Damaged { key: key.clone(), reason }
                        })?;
                        let before = before.get(i).map_or(0, |range| range.end - range.start);
                        visit(StoredValue { key: entry.key, before, len: entry.len });
                    }
                }
                Ok(())
            }
        }
    }

    /// Whether values can be moved without being read: they are in shards, and not far away.
    pub fn can_locate(&self) -> bool {
        match self {
            Self::Shards { shards, .. } => shards.store.read_cost().local,
            Self::Objects { .. } => false,
        }
    }

    /// Where a value is, if it is in a shard.
    pub fn locate(&self, context: &mut Context, key: u64) -> Result<Option<StoredBytes>, Error> {
        let Self::Shards { shards, .. } = self else { return Ok(None) };
        let found = shards.find(key, context)?;
        Ok(found.map(|(shard, range)| StoredBytes {
            object: Arc::clone(&shard.object),
            range: Some(range),
        }))
    }

    /// Appends a value as it is stored, with `before` bytes that lie before it.
    pub fn read(
        &self,
        context: &mut Context,
        key: u64,
        before: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let gone = || -> Error {
            match self.object_key(key) {
                Ok(key) => StoreError::Changed { key }.into(),
                Err(error) => error.into(),
            }
        };
        match self {
            Self::Shards { shards, .. } => {
                let (shard, range) = shards.find(key, context)?.ok_or_else(gone)?;
                let start = range.start.saturating_sub(before);
                let bytes = shard.object.read(ReadRange::Bounded(start..range.end))?;
                shard.object.check_unchanged()?;
                out.extend_from_slice(&bytes);
                Ok(())
            }
            Self::Objects { store, .. } => {
                let object = match store.open(&self.object_key(key)?, None) {
                    Err(StoreError::NotFound { .. }) => return Err(gone()),
                    object => object?,
                };
                out.extend_from_slice(&object.read(ReadRange::All)?);
                Ok(object.check_unchanged()?)
            }
        }
    }
}

/// Bytes of a chunk of a scale before it is compressed.
fn chunk_bytes(volume: &Volume, scale: &Scale) -> u64 {
    let element = match volume.info().data_type().size() {
        ElementSize::Fixed(size) => size as u64,
        ElementSize::Variable => 1,
    };
    let each = element.saturating_mul(volume.info().channels());
    scale.chunk_size().iter().fold(each, |bytes, &n| bytes.saturating_mul(n))
}
