use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::{Buffer, Headers, Key, StoreError};

/// Which bytes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadRange {
    /// All of it.
    All,
    /// All of it if it has at most this many bytes, otherwise [`StoreError::TooLarge`], before any
    /// of it is read.
    AtMost(u64),
    /// These bytes. A range that extends past the end is an error, never a short answer.
    Bounded(Range<u64>),
    /// The last `n` bytes. An object shorter than that is an error.
    Suffix(u64),
    /// The first `need` bytes. More will be read from this object: up to `most` may be fetched by
    /// the same request, and kept with the open object for later reads.
    Head {
        /// Bytes in the answer.
        need: u64,
        /// Bytes that may be fetched.
        most: u64,
    },
    /// The last `need` bytes, otherwise like [`Head`](Self::Head).
    Tail {
        /// Bytes in the answer.
        need: u64,
        /// Bytes that may be fetched.
        most: u64,
    },
}

impl ReadRange {
    /// The range of bytes in an object of `len` bytes, or [`StoreError::OutOfRange`].
    ///
    /// The result lies in `0..len`, so it may be allocated once `len` is known to be real.
    pub fn resolve(&self, key: &Key, len: u64) -> Result<Range<u64>, StoreError> {
        let (range, fits) = match self {
            Self::AtMost(limit) if len > *limit => {
                return Err(StoreError::TooLarge { key: key.clone(), len, limit: *limit });
            }
            Self::All | Self::AtMost(_) => (0..len, true),
            Self::Bounded(r) => (r.clone(), r.start <= r.end && r.end <= len),
            Self::Head { need, .. } => (0..*need, *need <= len),
            Self::Suffix(n) | Self::Tail { need: n, .. } => match len.checked_sub(*n) {
                Some(start) => (start..len, true),
                None => (0..*n, false),
            },
        };
        if fits {
            return Ok(range);
        }
        Err(StoreError::OutOfRange { key: key.clone(), start: range.start, end: range.end, len })
    }
}

/// The state of an object: two equal versions of one key have the same bytes.
///
/// A file's inode, length and times, or an ETag; opaque to everyone but the store that created it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(pub Arc<str>);

/// An object open for reading. All its reads see one version of it.
///
/// If the object changed since it was opened, a read still sees the old bytes (a file replaced
/// by a rename) or fails with [`StoreError::Changed`]; it never mixes the two.
///
/// No method has a default, because a wrapper would inherit it and silently answer for the object
/// behind it. Wrappers implement [`ObjectLayer`](crate::layer::ObjectLayer).
#[allow(clippy::len_without_is_empty, reason = "the length may be unknown")]
pub trait Object: Debug + Send + Sync {
    /// The length, if it is known without another request.
    fn len(&self) -> Option<u64>;

    /// The version, if it is known without another request. Always known after the first read.
    fn version(&self) -> Option<Version>;

    /// Reads a range, whole or not at all. One request.
    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError>;

    /// Reads the bytes from `start` on into the caller's memory, filling it. One request.
    ///
    /// A store that can read straight into the caller's memory says so with
    /// [`ReadCost::local`](crate::ReadCost); others copy what they receive ([`copy_into`]).
    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError>;

    /// Begins a read. In a store that keeps requests in flight, returns before the answer arrives
    /// and calls `done` with it, on whatever thread receives it. Where there is nothing to wait
    /// for, this is `done(self.read(range))`.
    ///
    /// Other reads may be waiting for that thread, so `done` must only pass the answer on.
    fn read_then(self: Arc<Self>, range: ReadRange, done: Done);

    /// Fails with [`StoreError::Changed`] if the bytes behind this open object were overwritten in
    /// place.
    ///
    /// A store whose objects are only ever replaced whole has nothing to check and returns `Ok`. A
    /// file can be overwritten by another program, so a caller that reads several ranges of one
    /// calls this after the last. One `fstat` on a file, no request elsewhere.
    fn check_unchanged(&self) -> Result<(), StoreError>;

    /// Whether the object may be kept open between reads, because [`is_current`](Self::is_current)
    /// notices immediately if it was replaced.
    fn can_be_kept(&self) -> bool;

    /// Whether the key still refers to this object, with the bytes that it had when it was opened.
    ///
    /// Reads of an object that was kept open see the version that was opened, so the caller calls
    /// this after the last read and trusts what it read only if this is true. Cheaper than opening
    /// the object again. Always false for an object that cannot be kept.
    fn is_current(&self) -> Result<bool, StoreError>;

    /// The headers that the store keeps with the object, as far as they are known. Always known
    /// after the first read.
    ///
    /// Empty in a store without headers. If the bytes are decoded while being read,
    /// `Content-Encoding` is not included.
    fn headers(&self) -> Headers;

    /// The open file behind the object, if there is one with the same bytes, so that they can be
    /// moved in the kernel.
    fn file(&self) -> Option<&std::fs::File>;
}

/// [`Object::read_into`] for objects whose reads allocate: reads, then copies.
pub fn copy_into<O: Object + ?Sized>(
    object: &O,
    start: u64,
    into: &mut [u8],
) -> Result<(), StoreError> {
    let end = start.saturating_add(into.len() as u64);
    let bytes = object.read(ReadRange::Bounded(start..end))?;
    if bytes.len() != into.len() {
        let message = format!("{} bytes were read instead of {}", bytes.len(), into.len());
        let (path, source) = (format!("{object:?}"), std::io::Error::other(message));
        return Err(StoreError::Io { operation: "read", path, source });
    }
    into.copy_from_slice(&bytes);
    Ok(())
}

/// The callback that receives the answer to a read.
pub type Done = Box<dyn FnOnce(Result<Buffer, StoreError>) + Send>;

/// One read of a batch.
#[derive(Debug, Clone)]
pub struct Read {
    /// The object to read.
    pub object: Arc<dyn Object>,
    /// Which bytes.
    pub range: ReadRange,
}

/// The reads of a batch, in order.
///
/// An iterator of reads never has to wait.
pub trait Reads {
    /// The next read. [`Later`](NextRead::Later) if it would have to wait and `may_wait` is false.
    fn next_read(&mut self, may_wait: bool) -> NextRead;
}

/// What comes next in a batch.
#[derive(Debug)]
pub enum NextRead {
    /// This read.
    Read(Read),
    /// More reads, but only once answers of this batch have been used.
    Later,
    /// There are no more reads.
    End,
}

impl<I: Iterator<Item = Read>> Reads for I {
    fn next_read(&mut self, _: bool) -> NextRead {
        self.next().map_or(NextRead::End, NextRead::Read)
    }
}
