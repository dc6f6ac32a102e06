use std::any::Any;
use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

use crate::{Buffer, Edit, FileStore, Holding, Key, StoreError, batch};

/// Which bytes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadRange {
    /// All of it.
    All,
    /// These bytes. A range that reaches past the end is an error, never a short answer.
    Bounded(Range<u64>),
    /// The last `n` bytes. An object that is shorter is an error.
    Suffix(u64),
    /// The first `need` bytes. More will be read of this object: up to `most` may be fetched by the same request, and
    /// kept with the open object for the reads to come.
    Head {
        /// Bytes that the answer has.
        need: u64,
        /// Bytes that may be fetched.
        most: u64,
    },
    /// The last `need` bytes, otherwise like [`Head`](Self::Head).
    Tail {
        /// Bytes that the answer has.
        need: u64,
        /// Bytes that may be fetched.
        most: u64,
    },
}

impl ReadRange {
    /// The bytes that this means in an object of `len` bytes, or [`StoreError::OutOfRange`].
    ///
    /// What comes back lies in `0..len`, so it may be allocated once `len` is known to be real.
    pub fn resolve(&self, key: &Key, len: u64) -> Result<Range<u64>, StoreError> {
        let (range, fits) = match self {
            Self::All => (0..len, true),
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
/// A file's inode, length and times, or an ETag; opaque to everyone but the store that made it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(pub Arc<str>);

/// An object open for reading. All its reads see one version of it.
///
/// If the object changed since it was opened, a read still sees the old bytes (a file replaced
/// by a rename) or fails with [`StoreError::Changed`]; it never mixes the two.
#[allow(clippy::len_without_is_empty, reason = "the length may be unknown")]
pub trait Object: Debug + Send + Sync {
    /// The length, if it is known without another request.
    fn len(&self) -> Option<u64>;

    /// The version, if it is known without another request. Known at the latest after the first read.
    fn version(&self) -> Option<Version>;

    /// Reads a range, whole or not at all. One request.
    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError>;

    /// Reads the bytes from `start` on into memory that the caller has, which they fill. One request.
    ///
    /// A store that receives bytes in memory of its own copies them; one that can read straight into the
    /// caller's says so with [`ReadCost::local`].
    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let end = start.saturating_add(into.len() as u64);
        let bytes = self.read(ReadRange::Bounded(start..end))?;
        if bytes.len() != into.len() {
            let message = format!("{} bytes were read instead of {}", bytes.len(), into.len());
            let (path, source) = (format!("{self:?}"), std::io::Error::other(message));
            return Err(StoreError::Io { operation: "read", path, source });
        }
        into.copy_from_slice(&bytes);
        Ok(())
    }

    /// Begins a read, and returns before the answer is there where the store has requests in flight; `done` gets the
    /// answer, on whatever thread that comes.
    ///
    /// As it comes on a thread that others wait for, `done` does no more than pass it on.
    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        done(self.read(range));
    }

    /// Fails with [`StoreError::Changed`] if the bytes behind this open object were overwritten in place.
    ///
    /// A store whose objects are only ever replaced whole has nothing to check and answers `Ok`. A file
    /// can be overwritten by a program of another make; whoever read several ranges of one calls this
    /// after the last. One `fstat` on a file, no request elsewhere.
    fn check_unchanged(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether the object may be kept open from one read to the next, because
    /// [`is_current`](Self::is_current) tells at once if it was replaced.
    fn can_be_kept(&self) -> bool {
        false
    }

    /// Whether the key still stands for this object, with the bytes that it had when it was opened.
    ///
    /// Reads of an object that was kept open see the version that was opened, so whoever makes them asks this
    /// after the last one and only then believes them. Costs less than opening the object again. One that
    /// cannot be kept says no.
    fn is_current(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// The open file behind the object, where there is one, so that its bytes can be moved in the kernel.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }
}

/// Who gets the answer of a read.
pub type Done = Box<dyn FnOnce(Result<Buffer, StoreError>) + Send>;

/// One read of a batch.
#[derive(Debug, Clone)]
pub struct Read {
    /// From which object.
    pub object: Arc<dyn Object>,
    /// Which bytes.
    pub range: ReadRange,
}

/// The reads of a batch, one after the other.
///
/// An iterator of reads is one that never has to wait.
pub trait Reads {
    /// The next one. If it must not wait, and would have to, it is to be asked [`Later`](NextRead::Later).
    fn next_read(&mut self, may_wait: bool) -> NextRead;
}

/// What comes next in a batch.
#[derive(Debug)]
pub enum NextRead {
    /// This read.
    Read(Read),
    /// Something, once answers of this batch have been used.
    Later,
    /// Nothing.
    End,
}

impl<I: Iterator<Item = Read>> Reads for I {
    fn next_read(&mut self, _: bool) -> NextRead {
        self.next().map_or(NextRead::End, NextRead::Read)
    }
}

/// What must hold for a write or a removal to take place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Condition {
    /// Nothing.
    #[default]
    None,
    /// There is no such object.
    Absent,
    /// The object is still this version.
    Unchanged(Version),
    /// The same, and the caller keeps other writers away meanwhile. Comes from [`Edit::condition`].
    Held {
        /// The version.
        version: Version,
        /// What keeps them away.
        held: Holding,
    },
}

impl Condition {
    /// Whether it holds where there is no object.
    pub fn allows_nothing(&self) -> bool {
        matches!(self, Self::None | Self::Absent)
    }
}

/// How an object is to be written.
#[derive(Debug, Clone, Default)]
pub struct CreateOptions {
    /// Bytes to keep free at the beginning, for a head that is known only at the end.
    pub head: u64,
    /// Checked when the object is published.
    pub condition: Condition,
}

/// A new object being written; invisible until it is published. Dropping it leaves nothing behind.
pub trait ObjectWriter: Debug + Send + Sync {
    /// Adds bytes at the end and tells at which offset they landed. May be called from several threads.
    fn append(&self, data: &[u8]) -> Result<u64, StoreError>;

    /// Claims `len` bytes at the end and tells where they are, if the store can take bytes in any order; the
    /// claim is to be filled by one [`write_reserved`](Self::write_reserved) before the end.
    ///
    /// So whoever has to keep an order claims in that order, which takes no time, and writes side by side
    /// with others. `None` means that bytes can only be appended.
    fn reserve(&self, _len: u64) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    /// Writes the bytes of a claim, all of them at once.
    fn write_reserved(&self, offset: u64, data: &[u8]) -> Result<(), StoreError>;

    /// Adds a range of another object at the end; in the kernel where both are files.
    fn append_from(&self, source: &dyn Object, range: Range<u64>) -> Result<u64, StoreError>;

    /// Ends the writing. `head` has exactly the length that was kept free.
    fn finish(self: Box<Self>, head: &[u8]) -> Result<Staged, StoreError>;
}

/// A completely written object that nobody sees yet. Dropping it removes it.
pub struct Staged {
    /// Where it will appear.
    pub key: Key,
    inner: Box<dyn Any + Send>,
}

impl Staged {
    /// Wraps what a store needs to publish the object.
    pub fn new(key: Key, inner: impl Any + Send) -> Self {
        Self { key, inner: Box::new(inner) }
    }

    /// What the store put in, or an error if another kind of store did.
    pub fn into_inner<T: Any>(self) -> Result<T, StoreError> {
        match self.inner.downcast::<T>() {
            Ok(inner) => Ok(*inner),
            Err(_) => Err(StoreError::ForeignStaged { key: self.key }),
        }
    }
}

impl Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A publication under way.
pub struct Pending(Box<dyn FnOnce() -> Result<Vec<Version>, StoreError> + Send>);

impl Pending {
    /// One that is over.
    pub fn done(outcome: Result<Vec<Version>, StoreError>) -> Self {
        Self::new(|| outcome)
    }

    /// One whose outcome `wait` waits for.
    pub fn new(wait: impl FnOnce() -> Result<Vec<Version>, StoreError> + Send + 'static) -> Self {
        Self(Box::new(wait))
    }

    /// Waits for the outcome.
    pub fn wait(self) -> Result<Vec<Version>, StoreError> {
        (self.0)()
    }
}

impl Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

/// What is directly below a prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Objects with their lengths, by key.
    pub objects: Vec<(Key, u64)>,
    /// Prefixes below which there is more.
    pub folders: Vec<Key>,
}

/// What kind of file a writer left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeftoverKind {
    /// An object that was never published. Nobody misses it.
    Temporary,
    /// The journal of a change in place: needed until the object has been recovered.
    Journal,
    /// A journal that did not belong to the object beside it, and was set aside.
    SetAside,
    /// The folder of a job that builds an array anew beside the old one.
    Job,
}

/// A file of a store's own that a writer made on the way: left behind, or still in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its name in its folder.
    pub name: String,
    /// What it is.
    pub kind: LeftoverKind,
    /// The object that it belongs to, where that can be told.
    pub object: Option<Key>,
    /// Its length.
    pub len: u64,
    /// Whether its writer is still at work, or nobody can tell.
    pub in_use: bool,
}

/// What came of looking after an object whose bytes make no sense.
#[derive(Debug)]
pub enum Recovery {
    /// No change of it was interrupted: it is what it is.
    Nothing,
    /// An interrupted change was finished or undone; open the object again.
    Done,
    /// A change is under way, or was interrupted and cannot be undone here: this shows the object as it was before.
    Before(Arc<dyn Object>),
}

/// What a request costs beside the bytes that it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCost {
    /// How many bytes could be read in the time that a request takes beside them: a gap of at most this many between
    /// two ranges is cheaper to read than to skip, if the second one has to wait for the first.
    pub request_in_bytes: u64,
    /// Whether a read is a copy from the memory or a disk of this machine, made by the thread that asks.
    ///
    /// Then nothing is gained by handing over many reads at once, and much by reading what a cache can
    /// hold and using it at once.
    pub local: bool,
    /// How many requests the store has in flight at once; one more waits for one of these.
    pub in_flight: usize,
}

impl ReadCost {
    /// Of a store on this machine.
    pub const fn local(request_in_bytes: u64) -> Self {
        Self { request_in_bytes, local: true, in_flight: 1 }
    }
}

/// A place where objects live.
///
/// Few methods are required; a store that cannot do one of them answers
/// [`StoreError::Unsupported`], never with a weaker promise.
pub trait Store: Debug + Send + Sync {
    /// A name for messages: the URL or path of its root.
    fn name(&self) -> String;

    /// What tells its root from the roots of all others, whatever they are called: same text, same place. Without secrets.
    fn identity(&self) -> String {
        self.name()
    }

    /// The store itself, if its objects are files of this machine: for what only files can do.
    fn files(&self) -> Option<&FileStore> {
        None
    }

    /// The store of what its root lies in, and the name that its root has there; `None` if nothing lies above it, or the store
    /// knows of nothing there. Makes no request.
    fn above(&self) -> Option<(Arc<dyn Store>, Key)> {
        None
    }

    /// Opens an object for reading.
    ///
    /// `expected` is the version that the caller knows something about. A store to which opening is
    /// free may use it to pin the reads to that version; others open what is there, and the caller
    /// compares [`Object::version`]. A missing object is [`StoreError::NotFound`], here or at the first read.
    fn open(&self, key: &Key, expected: Option<&Version>) -> Result<Arc<dyn Object>, StoreError>;

    /// Runs many reads and hands each answer to `deliver`, with its place in the batch, as it comes.
    ///
    /// Answers come in any order and on any thread of `workers`; `reads` is drawn on the calling thread, and only as
    /// fast as it allows, so whoever has to wait for memory holds the batch back. Returns when all answers are delivered.
    fn read_batch(
        &self,
        workers: &rayon::ThreadPool,
        reads: &mut dyn Reads,
        deliver: &(dyn Fn(usize, Result<Buffer, StoreError>) + Sync),
    ) {
        let cost = self.read_cost();
        if cost.local {
            batch::by_workers(workers, reads, deliver);
        } else {
            batch::in_flight(workers, reads, deliver, cost.in_flight);
        }
    }

    /// What a request costs, for merging ranges.
    fn read_cost(&self) -> ReadCost;

    /// Begins a new object, or a new version of an old one.
    fn create(
        &self,
        key: &Key,
        options: CreateOptions,
    ) -> Result<Box<dyn ObjectWriter>, StoreError>;

    /// Makes staged objects durable and visible, and tells their versions.
    ///
    /// Each appears whole and at once. All are made durable before the first appears. If one fails, the
    /// ones before it have been published and the ones after it have not; a condition that does not
    /// hold is [`StoreError::Conflict`]. Where each object is a request, neighbours without a condition are
    /// published side by side, and some of them may be there though another failed.
    fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError>;

    /// The same, but the caller can go on meanwhile, where the store has requests in flight.
    ///
    /// The outcome is that of [`Pending::wait`]; what is dropped without that is published or not.
    fn publish_later(&self, staged: Vec<Staged>) -> Pending {
        Pending::done(self.publish(staged))
    }

    /// Gets hold of an object that exists, to change it. Waits for others who do, where the store has locks.
    ///
    /// A missing object is [`StoreError::NotFound`].
    fn edit(&self, key: &Key) -> Result<Edit, StoreError> {
        let object = self.open(key, None)?;
        if object.version().is_none() {
            // A store to which opening is free learns the version with the first read.
            object.read(ReadRange::Bounded(0..0))?;
        }
        let changed = || StoreError::Changed { key: key.clone() };
        let version = object.version().ok_or_else(changed)?;
        Ok(Edit::unlocked(object, version))
    }

    /// Removes an object; removing what is not there is no error unless the condition says so.
    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError>;

    /// What is directly below `prefix` (`None`: the root), in order of keys. A prefix without objects lists as empty.
    ///
    /// Files that the store itself makes on the way (temporary ones) are left out.
    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError>;

    /// Files directly below `prefix` that writers made on the way and have not removed (yet). Listings leave them out.
    fn leftovers(&self, _prefix: Option<&Key>) -> Result<Vec<Leftover>, StoreError> {
        Ok(Vec::new())
    }

    /// Removes a leftover that is not a journal, unless its writer is still at work. Tells whether it is gone.
    fn remove_leftover(&self, _prefix: Option<&Key>, _name: &str) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Finishes or undoes a change in place of an object that was interrupted.
    ///
    /// For whoever finds that an object makes no sense. Waits for nobody: of an object that is being changed
    /// right now, or that may not be written to, it shows what was there before.
    fn recover(&self, _key: &Key) -> Result<Recovery, StoreError> {
        Ok(Recovery::Nothing)
    }

    /// Removes the folder `folder` if there is nothing in it, so that an object can take its name.
    ///
    /// What is not empty stays, and so does what is no folder; neither is an error, nor is a folder that is
    /// not there. The folders above it stay. In a store where a folder is but the beginning that the keys of
    /// objects share, an empty one does not exist and there is nothing to do, which is the answer given here.
    /// A store that keeps folders of their own, and a store that passes calls on to another, must say more.
    fn remove_empty_folder(&self, _folder: &Key) -> Result<(), StoreError> {
        Ok(())
    }
}
