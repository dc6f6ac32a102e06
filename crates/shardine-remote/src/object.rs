//! An object of a remote store, open for reading.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{Attributes, Error, GetOptions, GetRange, GetResult, ObjectMeta};
use shardine_store::{
    Buffer, Done, HeaderName, Headers, Key, Object, ReadRange, StoreError, Version, copy_into,
};
use tokio::sync::OwnedSemaphorePermit;

use crate::commit::History;
use crate::encoding::{Encoding, NotDecoded, decode, headers_of};
use crate::exchange::Exchange;
use crate::place::Kind;
use crate::runtime;
use crate::store::Remote;

/// How often a range whose body ended early is read again, after `object_store` has given up on it.
const SHORT: usize = 3;

/// The status of the answer to a range that begins past the end.
const UNSATISFIABLE: u16 = 416;

/// The status of the answer to a range.
const PARTIAL: u16 = 206;

/// A pointer, so that a request can outlive the call that made it.
#[derive(Debug)]
pub(crate) struct RemoteObject(Arc<Inner>);

struct Inner {
    remote: Arc<Remote>,
    key: Key,
    path: Path,
    /// Whether bytes are returned as they are stored, encoded or not.
    stored: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The version that reads are pinned to.
    version: Option<Version>,
    /// The length of the stored bytes, or of the decoded ones if they are encoded.
    len: Option<u64>,
    /// Whether an answer has described the object.
    seen: bool,
    history: History,
    headers: Headers,
    /// The encodings to undo.
    encodings: Vec<Encoding>,
    /// Bytes that came along with a read, and their offset.
    held: Option<(u64, Bytes)>,
    /// Their share of the memory for decoded objects.
    memory: Option<OwnedSemaphorePermit>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.remote.name, self.key)
    }
}

impl RemoteObject {
    pub fn new(
        remote: Arc<Remote>,
        key: Key,
        path: Path,
        expected: Option<Version>,
        stored: bool,
    ) -> Self {
        let state = Mutex::new(State { version: expected, ..State::default() });
        Self(Arc::new(Inner { remote, key, path, stored, state }))
    }

    /// The writes of the object, as far as they are known.
    pub fn history(&self) -> History {
        self.0.with(|state| state.history.clone())
    }
}

impl Inner {
    fn len(&self) -> Option<u64> {
        self.with(|state| state.len)
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An answer that needs no request.
    fn at_hand(&self, range: &ReadRange) -> Option<Result<Buffer, StoreError>> {
        self.with(|state| {
            let len = state.len?;
            let range = match range.resolve(&self.key, len) {
                Ok(range) => range,
                Err(error) => return Some(Err(error)),
            };
            if range.is_empty() {
                return Some(Ok(Bytes::new().into()));
            }
            let (start, bytes) = state.held.as_ref()?;
            slice_of(*start, bytes, &range).map(|bytes| Ok(bytes.into()))
        })
    }

    async fn fetch(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        if let Some(answer) = self.at_hand(&range) {
            return answer;
        }
        if self.is_encoded() {
            return self.decoded(range).await;
        }
        let asks_nothing = match &range {
            ReadRange::Bounded(range) => range.start >= range.end,
            ReadRange::Suffix(n) => *n == 0,
            ReadRange::Head { most, .. } | ReadRange::Tail { most, .. } => *most == 0,
            ReadRange::All | ReadRange::AtMost(_) => false,
        };
        let from_end = matches!(range, ReadRange::Suffix(_) | ReadRange::Tail { .. });
        // Azure has no suffix ranges, and no range may be empty.
        if asks_nothing || (from_end && self.remote.kind == Kind::Azure) {
            self.ask().await?;
            if let Some(answer) = self.at_hand(&range) {
                return answer;
            }
            if self.is_encoded() {
                return self.decoded(range).await;
            }
        }
        let asked = self.asked(&range);
        let (got, bytes) = match self.get(asked, &range).await {
            Ok((_, bytes)) if self.is_encoded() => return self.decode(range, bytes).await,
            Ok(answer) => answer,
            Err(Failure::Encoded) => return self.decoded(range).await,
            // Nothing of the range exists: the object may be empty, and any suffix of it is empty
            // too.
            Err(Failure::Unsatisfiable(_) | Failure::NoSuffix(_)) => {
                self.ask().await?;
                if let Some(answer) = self.at_hand(&range) {
                    return answer;
                }
                if self.is_encoded() {
                    return self.decoded(range).await;
                }
                let asked = self.asked(&range);
                self.get(asked, &range).await.map_err(|failure| self.error(failure))?
            }
            Err(failure) => return Err(self.error(failure)),
        };
        let wanted = self.with(|state| {
            let wanted = range.resolve(&self.key, state.len.unwrap_or(got.end));
            if let ReadRange::Head { .. } | ReadRange::Tail { .. } = range {
                state.held = Some((got.start, bytes.clone()));
            }
            wanted
        })?;
        if wanted.is_empty() {
            return Ok(Bytes::new().into());
        }
        slice_of(got.start, &bytes, &wanted).map(Buffer::from).ok_or_else(|| {
            let message = format!("bytes {wanted:?} were requested, but {got:?} were returned");
            self.remote.io("read", &self.key, io::Error::other(message))
        })
    }

    /// Whether the stored bytes have to be decoded.
    fn is_encoded(&self) -> bool {
        self.with(|state| !state.encodings.is_empty())
    }

    /// Gets an encoded object, for which a range is useless, and decodes it.
    async fn decoded(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let (_, bytes) =
            self.get(None, &ReadRange::All).await.map_err(|failure| self.error(failure))?;
        self.decode(range, bytes).await
    }

    /// Decodes an object, and returns a range of it.
    async fn decode(&self, range: ReadRange, bytes: Bytes) -> Result<Buffer, StoreError> {
        let encodings = self.with(|state| state.encodings.clone());
        let limit = self.remote.tuning.decoded_limit;
        let permit = self.remote.decoders.acquire().await;
        // Not on a thread that others wait for.
        let decoded = tokio::task::spawn_blocking(move || decode(&encodings, &bytes, limit)).await;
        drop(permit);
        let io = |source| self.remote.io("decode", &self.key, source);
        let bytes = match decoded.map_err(|error| io(io::Error::other(error)))? {
            Ok(bytes) => Bytes::from(bytes),
            Err(NotDecoded::TooLong) => return Err(self.too_long()),
            Err(NotDecoded::Broken(name, error)) => {
                let reason = format!("its header says that it is encoded as {name}: {error}");
                return Err(StoreError::Damaged { key: self.key.clone(), reason });
            }
        };
        let len = bytes.len() as u64;
        self.with(|state| {
            if state.len.is_some_and(|known| known != len) {
                return Err(StoreError::Changed { key: self.key.clone() });
            }
            state.len = Some(len);
            // Kept for the next read if it fits.
            state.memory = state.memory.take().or_else(|| self.remote.decoded_memory(bytes.len()));
            if state.memory.is_some() {
                state.held = Some((0, bytes.clone()));
            }
            Ok(())
        })?;
        let range = range.resolve(&self.key, len)?;
        let answer = slice_of(0, &bytes, &range).map(Buffer::from);
        answer.ok_or_else(|| io(io::ErrorKind::InvalidData.into()))
    }

    fn too_long(&self) -> StoreError {
        let message = format!(
            "it is stored with a Content-Encoding, so it can only be read as a whole, and has \
             more than {} bytes when decoded (decoded_limit=BYTES allows more)",
            self.remote.tuning.decoded_limit
        );
        let source = io::Error::new(io::ErrorKind::Unsupported, message);
        self.remote.io("read", &self.key, source)
    }

    fn error(&self, failure: Failure) -> StoreError {
        match failure {
            // The object was requested whole, and it was not encoded when it was requested before.
            Failure::Encoded => StoreError::Changed { key: self.key.clone() },
            Failure::Unsatisfiable(error)
            | Failure::NoSuffix(error)
            | Failure::CutOff(error)
            | Failure::Store(error) => error,
        }
    }

    /// The range to request.
    fn asked(&self, range: &ReadRange) -> Option<GetRange> {
        let len = self.len();
        match range {
            ReadRange::All | ReadRange::AtMost(_) => None,
            ReadRange::Bounded(range) => Some(GetRange::Bounded(range.clone())),
            ReadRange::Head { need, most } => {
                // Not every server accepts a range that ends beyond the end of the object.
                Some(GetRange::Bounded(0..(*need.max(most)).min(len.unwrap_or(u64::MAX))))
            }
            ReadRange::Suffix(n) => Some(last(*n, len)),
            ReadRange::Tail { need, most } => Some(last(*need.max(most), len)),
        }
    }

    /// Requests the length and the version.
    async fn ask(&self) -> Result<(), StoreError> {
        let (meta, attributes) = match self.remote.head(&self.path).await {
            Ok(found) => found,
            Err(error) => return Err(self.remote.failed("look for", &self.key, &error)),
        };
        self.see(&meta, &attributes)
    }

    /// Records what an answer says about the object, which must agree with earlier answers.
    fn see(&self, meta: &ObjectMeta, attributes: &Attributes) -> Result<(), StoreError> {
        let version = self.remote.version_of(meta);
        let mut headers = headers_of(attributes);
        let mut encodings = Vec::new();
        if !self.stored
            && let Some(header) = headers.get(&HeaderName::ContentEncoding)
        {
            encodings = Encoding::all(header).map_err(|header| {
                let message = format!(
                    "it is stored with the Content-Encoding \"{}\", which is not supported",
                    header.escape_default()
                );
                let source = io::Error::new(io::ErrorKind::Unsupported, message);
                self.remote.io("read", &self.key, source)
            })?;
            headers.remove(&HeaderName::ContentEncoding);
        }
        if !encodings.is_empty() && meta.size > self.remote.tuning.decoded_limit {
            return Err(self.too_long());
        }
        self.with(|state| {
            let same = state.version.as_ref().is_none_or(|known| *known == version)
                && (!state.seen || state.encodings == encodings)
                && (!encodings.is_empty() || state.len.is_none_or(|known| known == meta.size));
            if !same {
                return Err(StoreError::Changed { key: self.key.clone() });
            }
            if encodings.is_empty() {
                state.len = Some(meta.size);
            }
            (state.version, state.seen) = (Some(version), true);
            (state.headers, state.encodings) = (headers, encodings);
            state.history = History::of(attributes);
            Ok(())
        })
    }

    /// Gets bytes, again if they are cut off.
    async fn get(
        &self,
        range: Option<GetRange>,
        wanted: &ReadRange,
    ) -> Result<(Range<u64>, Bytes), Failure> {
        let mut attempt = 0;
        loop {
            match self.get_once(range.clone(), wanted).await {
                Err(Failure::CutOff(_))
                    if attempt + 1 < SHORT && attempt < self.remote.tuning.max_retries =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn get_once(
        &self,
        range: Option<GetRange>,
        wanted: &ReadRange,
    ) -> Result<(Range<u64>, Bytes), Failure> {
        let _permit = self.remote.requests.acquire().await;
        let pinned = self.with(|state| state.version.clone());
        // Google's version is not an ETag, and a weak ETag or a date cannot be a condition.
        let condition =
            pinned.filter(|version| self.remote.kind != Kind::Google && version.0.starts_with('"'));
        let options = GetOptions {
            range: range.clone(),
            if_match: condition.map(|version| version.0.to_string()),
            ..GetOptions::default()
        };
        let exchange = Exchange::with(Default::default());
        let is_part = range.is_some();
        let answer = match exchange.run(self.remote.store.get_opts(&self.path, options)).await {
            Ok(answer) => answer,
            Err(Error::Precondition { .. }) => {
                return Err(Failure::Store(StoreError::Changed { key: self.key.clone() }));
            }
            Err(error) => {
                let failed = self.remote.failed("read", &self.key, &error);
                return Err(match (&error, range) {
                    // Some servers answer a range that begins at the end with an empty one.
                    (Error::Generic { .. }, Some(_))
                        if [UNSATISFIABLE, PARTIAL].contains(&exchange.status()) =>
                    {
                        Failure::Unsatisfiable(failed)
                    }
                    (Error::NotSupported { .. }, Some(GetRange::Suffix(_))) => {
                        Failure::NoSuffix(failed)
                    }
                    _ => Failure::Store(failed),
                });
            }
        };
        let len = answer.meta.size;
        self.see(&answer.meta, &answer.attributes).map_err(Failure::Store)?;
        if is_part && self.is_encoded() {
            return Err(Failure::Encoded);
        }
        if let ReadRange::AtMost(_) = wanted {
            // Too many bytes are refused before any of them are in memory.
            wanted.resolve(&self.key, len).map_err(Failure::Store)?;
        }
        self.body(answer).await
    }

    async fn body(&self, answer: GetResult) -> Result<(Range<u64>, Bytes), Failure> {
        let range = answer.range.clone();
        let io = |source| Failure::Store(self.remote.io("read", &self.key, source));
        let len = usize::try_from(range.end - range.start)
            .map_err(|_| io(io::ErrorKind::OutOfMemory.into()))?;
        let mut stream = answer.into_stream();
        let arriving = Arriving::new(&self.remote);
        let mut first: Option<Bytes> = None;
        let mut all = Vec::new();
        let mut received = 0;
        while let Some(piece) = stream.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => {
                    return Err(Failure::CutOff(self.remote.failed("read", &self.key, &error)));
                }
            };
            received += piece.len();
            if received > len {
                break;
            }
            match first.take() {
                None if all.is_empty() => first = Some(piece),
                None => all.extend_from_slice(&piece),
                Some(before) => {
                    // Memory is allocated once there is more than one piece, in a single
                    // allocation.
                    all.try_reserve_exact(len).map_err(|error| io(error.into()))?;
                    all.extend_from_slice(&before);
                    all.extend_from_slice(&piece);
                }
            }
        }
        if received != len {
            let message = format!("{received} bytes were received instead of {len}");
            let error = self.remote.io("read", &self.key, io::Error::other(message));
            return Err(Failure::CutOff(error));
        }
        arriving.done(len as u64);
        let bytes = first.unwrap_or_else(|| all.into());
        Ok((range, bytes))
    }
}

/// Why a request returned nothing.
enum Failure {
    /// The range begins past the end.
    Unsatisfiable(StoreError),
    /// The server does not support suffix ranges.
    NoSuffix(StoreError),
    /// The body ended early.
    CutOff(StoreError),
    /// The answer would have been a part of something encoded as a whole.
    Encoded,
    Store(StoreError),
}

/// A body that is arriving, for the measurement.
struct Arriving<'a> {
    remote: &'a Remote,
    since: Instant,
    bytes: u64,
}

impl<'a> Arriving<'a> {
    fn new(remote: &'a Remote) -> Self {
        remote.cost.arriving();
        Self { remote, since: Instant::now(), bytes: 0 }
    }

    fn done(mut self, bytes: u64) {
        self.bytes = bytes;
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.remote.cost.body(self.bytes, self.since.elapsed());
    }
}

/// The last `n` bytes, counted from the start if possible.
fn last(n: u64, len: Option<u64>) -> GetRange {
    match len {
        Some(len) => GetRange::Bounded(len.saturating_sub(n)..len),
        None => GetRange::Suffix(n),
    }
}

/// A range of the bytes that begin at `start`, if they contain it.
fn slice_of(start: u64, bytes: &Bytes, range: &Range<u64>) -> Option<Bytes> {
    let from = usize::try_from(range.start.checked_sub(start)?).ok()?;
    let to = usize::try_from(range.end.checked_sub(start)?).ok()?;
    (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
}

impl Object for RemoteObject {
    fn len(&self) -> Option<u64> {
        self.0.len()
    }

    fn version(&self) -> Option<Version> {
        // A version that is only expected is not known yet.
        self.0.with(|state| state.version.clone().filter(|_| state.seen))
    }

    fn headers(&self) -> Headers {
        self.0.with(|state| state.headers.clone())
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        if let Some(answer) = self.0.at_hand(&range) {
            return answer;
        }
        let inner = Arc::clone(&self.0);
        runtime::run(async move { inner.fetch(range).await })
            .map_err(|source| self.0.remote.io("read", &self.0.key, source))?
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        if let Some(answer) = self.0.at_hand(&range) {
            return done(answer);
        }
        let inner = Arc::clone(&self.0);
        // Without a runtime the task is dropped, and the waiting caller notices that.
        drop(runtime::spawn(async move { done(inner.fetch(range).await) }));
    }

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        copy_into(self, start, into)
    }

    /// Nothing to check: each answer was compared with the version of the first one.
    fn check_unchanged(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Checking whether it was replaced takes a request, just like opening it again.
    fn can_be_kept(&self) -> bool {
        false
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn file(&self) -> Option<&std::fs::File> {
        None
    }
}
