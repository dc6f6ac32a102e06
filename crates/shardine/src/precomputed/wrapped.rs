//! Presents files that are compressed according to their names, as some writers make them, by their
//! decompressed content.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

use shardine_codec::{BytesToBytes, Codec, CodecSpec, Context, from_spec};
use shardine_store::{
    Buffer, Condition, CreateOptions, Done, Edit, Headers, Key, Object, ObjectWriter, ReadRange,
    Staged, Store, StoreError, StoreExt, Version, copy_into, layer,
};

/// Suffixes that are supported, and the codec of each.
const UNDERSTOOD: [(&str, &str); 2] = [(".gz", "gzip"), (".zstd", "zstd")];

/// Suffixes that are recognised but whose codec is not supported.
const KNOWN: [&str; 3] = [".br", ".bz2", ".xz"];

/// The suffix of a name that says how the file is compressed, if it has one.
pub(crate) fn compressed_ending(name: &str) -> Option<&'static str> {
    compressed_endings().find(|ending| name.ends_with(ending))
}

/// A name without that suffix; `None` if it has none.
pub(crate) fn unwrapped(name: &str) -> Option<&str> {
    name.strip_suffix(compressed_ending(name)?)
}

/// All such suffixes, the most common one first.
pub(crate) fn compressed_endings() -> impl Iterator<Item = &'static str> {
    UNDERSTOOD.iter().map(|(ending, _)| *ending).chain(KNOWN)
}

/// A store in which an object may also have a name with `.gz` or a similar suffix, and is
/// compressed then.
///
/// A replaced object keeps its name; a new one gets the plain name, which every reader finds.
#[derive(Debug)]
pub(crate) struct WrappedStore {
    /// Where the objects live.
    pub inner: Arc<dyn Store>,
    /// The most bytes that an object may have when decompressed.
    pub limit: usize,
}

/// The object behind a key.
struct Stands {
    key: Key,
    codec: Option<&'static str>,
}

impl WrappedStore {
    /// Whether compressed files have names of their own: in object stores they have a header
    /// instead.
    fn has_endings(&self) -> bool {
        self.inner.has_folders()
    }

    /// Whether a web server may have such files: there objects can only be requested by name.
    fn may_have_endings(&self) -> bool {
        !self.inner.has_folders() && !self.inner.can_list()
    }

    /// The object behind a key; `None` if there is none.
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
                return Err(not_understood(key, ending));
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

fn not_understood(key: Key, ending: &str) -> StoreError {
    let reason = format!(
        "files that end in {ending} cannot be read; decompress it and remove the extension"
    );
    StoreError::Damaged { key, reason }
}

/// Decompresses an object.
fn unpack(
    key: &Key,
    name: &'static str,
    encoded: &[u8],
    limit: usize,
    range: &ReadRange,
) -> Result<(Buffer, u64), StoreError> {
    let mut bytes = Vec::new();
    codec(name)?
        .decode(&mut Context::default(), encoded, limit, &mut bytes)
        .map_err(|error| StoreError::Damaged { key: key.clone(), reason: error.to_string() })?;
    let len = bytes.len() as u64;
    let range = range.resolve(key, len)?;
    let bytes = bytes::Bytes::from(bytes);
    Ok((bytes.slice(range.start as usize..range.end as usize).into(), len))
}

/// An object of a store that cannot list: it may exist under any of its names, and each has to be
/// probed.
///
/// Costs one request if it has its plain name, two if it has the most common of the others, and one
/// for each name if it is missing.
#[derive(Debug)]
struct Sought(Arc<Seeker>);

struct Seeker {
    store: Arc<dyn Store>,
    key: Key,
    limit: usize,
    plain: Arc<dyn Object>,
    /// The other name under which it was found, by what it is compressed with.
    found: OnceLock<(&'static str, Arc<dyn Object>)>,
    /// Its length, if it is compressed.
    len: OnceLock<u64>,
}

impl std::fmt::Debug for Seeker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.plain)
    }
}

/// Responses for the other names, in order.
struct Answers {
    all: Vec<Option<Result<Buffer, StoreError>>>,
    missing: usize,
    done: Option<Done>,
}

impl Seeker {
    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        if let Some((name, object)) = self.found.get() {
            let (name, object, seeker) = (*name, Arc::clone(object), Arc::clone(&self));
            let unpack = move |answer: Result<Buffer, StoreError>| {
                done(answer.and_then(|encoded| seeker.unpack(name, &encoded, &range)));
            };
            return object.read_then(ReadRange::All, Box::new(unpack));
        }
        let (plain, again) = (Arc::clone(&self.plain), range.clone());
        plain.read_then(
            again,
            Box::new(move |answer| match answer {
                Err(StoreError::NotFound { .. }) => {
                    let first = other_names().into_iter().take(1).collect();
                    self.seek(first, range, done);
                }
                answer => done(answer),
            }),
        );
    }

    fn unpack(
        &self,
        name: &'static str,
        encoded: &[u8],
        range: &ReadRange,
    ) -> Result<Buffer, StoreError> {
        let (buffer, len) = unpack(&self.key, name, encoded, self.limit, range)?;
        self.len.get_or_init(|| len);
        Ok(buffer)
    }

    /// Probes the other names: the most common one first, then all remaining ones in parallel.
    fn seek(self: Arc<Self>, names: Vec<OtherName>, range: ReadRange, done: Done) {
        let opened: Result<Vec<_>, StoreError> = names
            .iter()
            .map(|(ending, _)| {
                let key = Key::new(&format!("{}{ending}", self.key))?;
                // A server may repeat in a header what the name says.
                self.store.open_stored(&key)
            })
            .collect();
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return done(Err(error)),
        };
        let all = opened.iter().map(|_| None).collect();
        let answers = Answers { all, missing: opened.len(), done: Some(done) };
        let answers = Arc::new(Mutex::new(answers));
        for (i, object) in opened.iter().enumerate() {
            let wanted = match names[i].1 {
                Some(_) => ReadRange::All,
                None => ReadRange::Bounded(0..0),
            };
            let (seeker, answers) = (Arc::clone(&self), Arc::clone(&answers));
            let (range, objects, names) = (range.clone(), opened.clone(), names.clone());
            let answered = move |answer| {
                let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.all[i] = Some(answer);
                answers.missing -= 1;
                if answers.missing > 0 {
                    return;
                }
                let (all, done) = (std::mem::take(&mut answers.all), answers.done.take());
                drop(answers);
                let Some(done) = done else { return };
                match seeker.conclude(&names, &objects, all, &range) {
                    Err(StoreError::NotFound { .. }) if names.len() == 1 => {
                        seeker.seek(other_names().split_off(1), range, done);
                    }
                    answer => done(answer),
                }
            };
            Arc::clone(object).read_then(wanted, Box::new(answered));
        }
    }

    /// Combines the responses for the other names.
    fn conclude(
        &self,
        names: &[OtherName],
        objects: &[Arc<dyn Object>],
        answers: Vec<Option<Result<Buffer, StoreError>>>,
        range: &ReadRange,
    ) -> Result<Buffer, StoreError> {
        for (((ending, codec), object), answer) in
            names.iter().zip(objects).zip(answers.into_iter().flatten())
        {
            match (answer, codec) {
                (Err(StoreError::NotFound { .. }), _) => {}
                (Err(error), _) => return Err(error),
                (Ok(encoded), Some(codec)) => {
                    self.found.get_or_init(|| (codec, Arc::clone(object)));
                    return self.unpack(codec, &encoded, range);
                }
                (Ok(_), None) => {
                    return Err(not_understood(
                        Key::new(&format!("{}{ending}", self.key))?,
                        ending,
                    ));
                }
            }
        }
        Err(StoreError::NotFound { key: self.key.clone(), store: self.store.name() })
    }
}

/// A suffix, and its codec if it is supported.
type OtherName = (&'static str, Option<&'static str>);

/// All of them, the most common one first.
fn other_names() -> Vec<OtherName> {
    let understood = UNDERSTOOD.iter().map(|(ending, codec)| (*ending, Some(*codec)));
    understood.chain(KNOWN.map(|ending| (ending, None))).collect()
}

impl Sought {
    /// The object, as far as it is known which one it is.
    fn object(&self) -> &dyn Object {
        match self.0.found.get() {
            Some((_, object)) => &**object,
            None => &*self.0.plain,
        }
    }
}

impl Object for Sought {
    fn len(&self) -> Option<u64> {
        self.0.plain.len().or(self.0.len.get().copied())
    }

    fn version(&self) -> Option<Version> {
        self.object().version()
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let (answer, waiting) = mpsc::sync_channel(1);
        let done = move |read| drop(answer.send(read));
        Arc::clone(&self.0).read_then(range, Box::new(done));
        waiting.recv().unwrap_or_else(|_| {
            let source = std::io::Error::other("the request was canceled");
            Err(StoreError::Io { operation: "read", path: format!("{self:?}"), source })
        })
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        Arc::clone(&self.0).read_then(range, done);
    }

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        copy_into(self, start, into)
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.object().check_unchanged()
    }

    /// An object may have another name later.
    fn can_be_kept(&self) -> bool {
        false
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn headers(&self) -> Headers {
        Headers::default()
    }

    fn file(&self) -> Option<&std::fs::File> {
        None
    }
}

/// The content of a compressed object. It is decompressed on each read, and not kept.
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
        Ok(unpack(&self.key, self.codec, &encoded, self.limit, &range)?.0)
    }

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        copy_into(self, start, into)
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        done(self.read(range));
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.object.check_unchanged()
    }

    /// The plain name, which takes precedence, may appear at any time.
    fn can_be_kept(&self) -> bool {
        false
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn headers(&self) -> Headers {
        Headers::default()
    }

    /// The file has other bytes.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }
}

/// A new object that is compressed once it is complete.
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

    fn reserve(&self, _: u64) -> Result<Option<u64>, StoreError> {
        Ok(None)
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

impl layer::StoreLayer for WrappedStore {
    type Inner = dyn Store;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn open(&self, key: &Key, expected: Option<&Version>) -> Result<Arc<dyn Object>, StoreError> {
        match self.inner().open(key, expected) {
            Err(StoreError::NotFound { .. }) if self.has_endings() => {
                let stands = self.find(key)?.ok_or_else(|| self.not_found(key))?;
                let object = self.inner().open(&stands.key, None)?;
                Ok(self.unwrap(stands, object))
            }
            Ok(plain) if self.may_have_endings() => {
                let (store, key) = (Arc::clone(&self.inner), key.clone());
                let (limit, found, len) = (self.limit, OnceLock::new(), OnceLock::new());
                Ok(Arc::new(Sought(Arc::new(Seeker { store, key, limit, plain, found, len }))))
            }
            opened => opened,
        }
    }

    /// The name says how it is compressed, so that is undone here too.
    fn open_stored(&self, key: &Key) -> Result<Arc<dyn Object>, StoreError> {
        if self.has_endings() {
            Store::open(self, key, None)
        } else {
            self.inner().open_stored(key)
        }
    }

    fn create(
        &self,
        key: &Key,
        options: CreateOptions,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        if self.has_endings()
            && let Some(Stands { key, codec: Some(codec) }) = self.find(key)?
        {
            let writer = self.inner().create(&key, CreateOptions { head: 0, ..options })?;
            return Ok(Box::new(Wrapping { codec, writer, bytes: Mutex::default() }));
        }
        self.inner().create(key, options)
    }

    fn create_with_headers(
        &self,
        key: &Key,
        options: CreateOptions,
        headers: &Headers,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        if !self.has_endings() {
            return self.inner().create_with_headers(key, options, headers);
        }
        headers.refuse(self)?;
        Store::create(self, key, options)
    }

    fn edit(&self, key: &Key) -> Result<Edit, StoreError> {
        match self.inner().edit(key) {
            Err(StoreError::NotFound { .. }) if self.has_endings() => {
                let stands = self.find(key)?.ok_or_else(|| self.not_found(key))?;
                let edit = self.inner().edit(&stands.key)?;
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
            self.inner().delete(&stands.key, condition)?;
            // Otherwise the object under another spelling would be found from now on.
            for (ending, _) in UNDERSTOOD {
                let key = Key::new(&format!("{key}{ending}"))?;
                if self.inner().open(&key, None).is_ok() {
                    self.inner().delete(&key, &Condition::None)?;
                }
            }
            return Ok(());
        }
        self.inner().delete(key, condition)
    }

    fn delete_last(&self, key: &Key) -> Result<(), StoreError> {
        if self.has_endings() {
            Store::delete(self, key, &Condition::None)
        } else {
            self.inner().delete_last(key)
        }
    }
}

#[cfg(test)]
mod tests {
    use shardine_store::conformance;

    use super::*;

    #[test]
    fn what_has_nothing_to_do_with_endings_is_passed_on() {
        let layer = |store| WrappedStore { inner: Arc::new(store), limit: 100 };
        // These go through open, create and delete, which handle the suffixes.
        let itself = ["open_stored", "create_with_headers", "delete_last"];
        conformance::check_layer(layer, &itself);
    }
}
