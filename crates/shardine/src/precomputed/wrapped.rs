//! Files whose names say that they are compressed, as some writers make them, seen as what is in them.

use std::sync::{Arc, Mutex, PoisonError};

use shardine_codec::{BytesToBytes, Codec, CodecSpec, Context, from_spec};
use shardine_store::{
    Buffer, Condition, CreateOptions, Edit, Key, Listing, Object, ObjectWriter, ReadCost,
    ReadRange, Staged, Store, StoreError, Version,
};

/// Endings that are understood, and the codec that each means.
const UNDERSTOOD: [(&str, &str); 2] = [(".gz", "gzip"), (".zstd", "zstd")];

/// Endings that are known, but not what is behind them.
const KNOWN: [&str; 3] = [".br", ".bz2", ".xz"];

/// The ending of a name that says how the file is compressed, if it has one.
pub(crate) fn compressed_ending(name: &str) -> Option<&'static str> {
    UNDERSTOOD.iter().map(|(ending, _)| *ending).chain(KNOWN).find(|ending| name.ends_with(ending))
}

/// A store in which an object may also have a name with `.gz` or the like behind it, and be compressed then.
///
/// What is replaced keeps its name; what is new has the plain one, which every reader finds.
#[derive(Debug)]
pub(crate) struct WrappedStore {
    /// Where the objects live.
    pub inner: Arc<dyn Store>,
    /// Bytes that one of them may have when it is decompressed.
    pub limit: usize,
}

/// The object that stands for a key.
struct Stands {
    key: Key,
    codec: Option<&'static str>,
}

impl WrappedStore {
    /// Whether compressed files have names of their own: in object stores they have a header instead.
    fn has_endings(&self) -> bool {
        self.inner.files().is_some()
    }

    /// Which object stands for a key; `None` if none does.
    fn find(&self, key: &Key) -> Result<Option<Stands>, StoreError> {
        let there = |key: &Key| match self.inner.open(key, None) {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        };
        if there(key)? {
            return Ok(Some(Stands { key: key.clone(), codec: None }));
        }
        for (ending, codec) in UNDERSTOOD {
            let key = Key::new(&format!("{key}{ending}"))?;
            if there(&key)? {
                return Ok(Some(Stands { key, codec: Some(codec) }));
            }
        }
        for ending in KNOWN {
            let key = Key::new(&format!("{key}{ending}"))?;
            if there(&key)? {
                let reason = format!(
                    "files that end in {ending} cannot be read; decompress it, and remove the ending"
                );
                return Err(StoreError::Damaged { key, reason });
            }
        }
        Ok(None)
    }

    fn not_found(&self, key: &Key) -> StoreError {
        StoreError::NotFound { key: key.clone(), store: self.name() }
    }

    fn unwrap(&self, stands: Stands, object: Arc<dyn Object>) -> Arc<dyn Object> {
        match stands.codec {
            Some(codec) => {
                Arc::new(Unwrapped { key: stands.key, object, codec, limit: self.limit })
            }
            None => object,
        }
    }
}

fn codec(name: &'static str) -> Result<Arc<dyn BytesToBytes>, StoreError> {
    let mut configuration = serde_json::Map::new();
    configuration.insert("level".into(), if name == "gzip" { 6 } else { 3 }.into());
    if name == "zstd" {
        configuration.insert("checksum".into(), false.into());
    }
    let spec = CodecSpec { name: name.into(), configuration, must_understand: true };
    match from_spec(&spec) {
        Ok(Codec::BytesToBytes(codec)) => Ok(codec),
        _ => Err(StoreError::Unsupported { store: name.to_owned(), operation: "be used" }),
    }
}

/// What is in a compressed object. It is decompressed when it is read, and not kept.
#[derive(Debug)]
struct Unwrapped {
    key: Key,
    object: Arc<dyn Object>,
    codec: &'static str,
    limit: usize,
}

impl Object for Unwrapped {
    fn len(&self) -> Option<u64> {
        None
    }

    fn version(&self) -> Option<Version> {
        self.object.version()
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let encoded = self.object.read(ReadRange::All)?;
        let mut bytes = Vec::new();
        let codec = codec(self.codec)?;
        codec.decode(&mut Context::default(), &encoded, self.limit, &mut bytes).map_err(
            |error| StoreError::Damaged { key: self.key.clone(), reason: error.to_string() },
        )?;
        let range = range.resolve(&self.key, bytes.len() as u64)?;
        let bytes = bytes::Bytes::from(bytes);
        Ok(bytes.slice(range.start as usize..range.end as usize).into())
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.object.check_unchanged()
    }
}

/// A new object that is compressed when it is whole.
struct Wrapping {
    codec: &'static str,
    writer: Box<dyn ObjectWriter>,
    bytes: Mutex<Vec<u8>>,
}

impl std::fmt::Debug for Wrapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wrapping").field("writer", &self.writer).finish_non_exhaustive()
    }
}

impl ObjectWriter for Wrapping {
    fn append(&self, data: &[u8]) -> Result<u64, StoreError> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = bytes.len() as u64;
        bytes.extend_from_slice(data);
        Ok(at)
    }

    fn write_reserved(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        let store = "a compressed file".to_owned();
        Err(StoreError::Unsupported { store, operation: "take bytes in any order" })
    }

    fn append_from(
        &self,
        source: &dyn Object,
        range: std::ops::Range<u64>,
    ) -> Result<u64, StoreError> {
        self.append(&source.read(ReadRange::Bounded(range))?)
    }

    fn finish(self: Box<Self>, _: &[u8]) -> Result<Staged, StoreError> {
        let bytes = self.bytes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut encoded = Vec::new();
        codec(self.codec)?.encode(&mut Context::default(), &bytes, &mut encoded).map_err(
            |error| StoreError::Io {
                operation: "compress",
                path: self.codec.to_owned(),
                source: std::io::Error::other(error.to_string()),
            },
        )?;
        self.writer.append(&encoded)?;
        self.writer.finish(&[])
    }
}

impl Store for WrappedStore {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn identity(&self) -> String {
        self.inner.identity()
    }

    fn open(&self, key: &Key, expected: Option<&Version>) -> Result<Arc<dyn Object>, StoreError> {
        match self.inner.open(key, expected) {
            Err(StoreError::NotFound { .. }) if self.has_endings() => {
                let stands = self.find(key)?.ok_or_else(|| self.not_found(key))?;
                let object = self.inner.open(&stands.key, None)?;
                Ok(self.unwrap(stands, object))
            }
            opened => opened,
        }
    }

    fn read_cost(&self) -> ReadCost {
        self.inner.read_cost()
    }

    fn create(
        &self,
        key: &Key,
        options: CreateOptions,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        if self.has_endings()
            && let Some(Stands { key, codec: Some(codec) }) = self.find(key)?
        {
            let writer = self.inner.create(&key, CreateOptions { head: 0, ..options })?;
            return Ok(Box::new(Wrapping { codec, writer, bytes: Mutex::default() }));
        }
        self.inner.create(key, options)
    }

    fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
        self.inner.publish(staged)
    }

    fn publish_later(&self, staged: Vec<Staged>) -> shardine_store::Pending {
        self.inner.publish_later(staged)
    }

    fn edit(&self, key: &Key) -> Result<Edit, StoreError> {
        match self.inner.edit(key) {
            Err(StoreError::NotFound { .. }) if self.has_endings() => {
                let stands = self.find(key)?.ok_or_else(|| self.not_found(key))?;
                let edit = self.inner.edit(&stands.key)?;
                let object = self.unwrap(stands, Arc::clone(&edit.object));
                Ok(edit.with_object(object))
            }
            edit => edit,
        }
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        if self.has_endings()
            && let Some(stands) = self.find(key)?
        {
            self.inner.delete(&stands.key, condition)?;
            // Another spelling would be found from now on.
            for (ending, _) in UNDERSTOOD {
                let key = Key::new(&format!("{key}{ending}"))?;
                if self.inner.open(&key, None).is_ok() {
                    self.inner.delete(&key, &Condition::None)?;
                }
            }
            return Ok(());
        }
        self.inner.delete(key, condition)
    }

    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError> {
        self.inner.list(prefix)
    }

    fn remove_empty_folder(&self, folder: &Key) -> Result<(), StoreError> {
        self.inner.remove_empty_folder(folder)
    }
}
