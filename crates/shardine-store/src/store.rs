use std::any::Any;
use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

use crate::{Edit, FolderExchange, Folders, Headers, Holding, Key, Object, StoreError, Version};

/// The condition of a write or a removal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Condition {
    /// Nothing.
    #[default]
    None,
    /// There is no such object.
    Absent,
    /// The object is still this version.
    Unchanged(Version),
    /// The same, and the caller excludes other writers in the meantime. Comes from
    /// [`Edit::condition`].
    Held {
        /// The version.
        version: Version,
        /// What excludes them.
        held: Holding,
    },
}

impl Condition {
    /// Whether the condition holds if there is no object.
    pub fn allows_nothing(&self) -> bool {
        matches!(self, Self::None | Self::Absent)
    }
}

/// How an object is to be written.
#[derive(Debug, Clone, Default)]
pub struct CreateOptions {
    /// Bytes to reserve at the beginning for a head that is known only at the end.
    pub head: u64,
    /// Checked when the object is published.
    pub condition: Condition,
}

/// A new object being written; invisible until published. Dropping it leaves nothing behind.
pub trait ObjectWriter: Debug + Send + Sync {
    /// Appends bytes and returns their offset. May be called from several threads.
    fn append(&self, data: &[u8]) -> Result<u64, StoreError>;

    /// Reserves `len` bytes at the end and returns their offset, if the store accepts bytes in any
    /// order. Each reservation must be filled by one [`write_reserved`](Self::write_reserved)
    /// before [`finish`](Self::finish).
    ///
    /// This lets writers that must keep an order reserve in that order, which takes no time, and
    /// write in parallel. `None` means that bytes can only be appended.
    fn reserve(&self, len: u64) -> Result<Option<u64>, StoreError>;

    /// Writes all bytes of a reservation in one call. [`StoreError::Unsupported`] if nothing can be
    /// reserved.
    fn write_reserved(&self, offset: u64, data: &[u8]) -> Result<(), StoreError>;

    /// Appends a range of another object and returns its offset; in the kernel if both are files.
    fn append_from(&self, source: &dyn Object, range: Range<u64>) -> Result<u64, StoreError>;

    /// Finishes writing. `head` must have exactly the reserved length.
    fn finish(self: Box<Self>, head: &[u8]) -> Result<Staged, StoreError>;
}

/// A completely written object that is not visible yet. Dropping it removes it.
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

    /// What the store put in, or an error if it came from another kind of store.
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

/// A publication in progress.
pub struct Pending(Box<dyn FnOnce() -> Result<Vec<Version>, StoreError> + Send>);

impl Pending {
    /// A publication that is complete.
    pub fn done(outcome: Result<Vec<Version>, StoreError>) -> Self {
        Self::new(|| outcome)
    }

    /// A publication whose outcome is returned by `wait`.
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
    /// Prefixes with something below them.
    pub folders: Vec<Key>,
    /// Everything that is neither, up to the first [`MOST_UNLISTED`](Self::MOST_UNLISTED).
    pub unlisted: Vec<Unlisted>,
    /// How many more of these there are.
    pub more_unlisted: u64,
}

impl Listing {
    /// The maximum number of unlisted things reported by name.
    pub const MOST_UNLISTED: usize = 1000;

    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.folders.is_empty() && self.unlisted.is_empty()
    }

    /// Fails if the name of an unlisted thing, within its folder, matters.
    pub fn refuse_unlisted(&self, matters: impl Fn(&str) -> bool) -> Result<(), StoreError> {
        let last = |name: &str| name.rsplit('/').next().map(str::to_owned).unwrap_or_default();
        match self.unlisted.iter().find(|unlisted| matters(&last(&unlisted.name))) {
            Some(unlisted) => Err(unlisted.clone().into()),
            None => Ok(()),
        }
    }

    /// Adds something that is neither an object nor a folder.
    pub fn add_unlisted(&mut self, unlisted: Unlisted) {
        if self.unlisted.len() < Self::MOST_UNLISTED {
            self.unlisted.push(unlisted);
        } else {
            self.more_unlisted += 1;
        }
    }
}

/// Something below a prefix that is neither an object nor a folder that is walked.
///
/// Reported so that nobody mistakes an incomplete listing for a complete one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unlisted {
    /// Its path below the root of the store, for messages: bytes that are not text are written as
    /// `\xff`.
    pub name: String,
    /// Its key, if the name can be one.
    pub key: Option<Key>,
    /// What it is.
    pub kind: UnlistedKind,
}

/// Why something is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnlistedKind {
    /// A link to a folder. Objects behind it can be opened by key, but it is not walked.
    FolderLink,
    /// A link that leads nowhere.
    BrokenLink,
    /// An object whose name cannot be a key.
    OddName,
    /// A folder whose name cannot be a key.
    OddFolder,
    /// A socket, pipe or device, or a link to one.
    Special,
    /// Has the name of a file that the store creates for itself, but is not one.
    LikeOwn,
    /// The folder of an interrupted job that holds the only copy of the data set next to it.
    OnlyCopy,
}

impl UnlistedKind {
    /// What it is, in a few words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::FolderLink => "a link to a folder",
            Self::BrokenLink => "a broken link",
            Self::OddName => "a name that is not UTF-8 or contains a backslash",
            Self::OddFolder => "a folder whose name is not UTF-8 or contains a backslash",
            Self::Special => "neither a file nor a folder",
            Self::LikeOwn => "named like a temporary file of Shardine, but not one",
            Self::OnlyCopy => "an interrupted job that holds the only copy of what was there",
        }
    }

    /// Whether there may be more below it.
    pub fn is_folder(self) -> bool {
        matches!(self, Self::FolderLink | Self::OddFolder | Self::OnlyCopy)
    }
}

impl From<Unlisted> for StoreError {
    fn from(unlisted: Unlisted) -> Self {
        Self::Unlisted { name: unlisted.name, kind: unlisted.kind }
    }
}

impl fmt::Display for Unlisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" ({})", self.name, self.kind.reason())
    }
}

/// The kind of a file that a writer left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeftoverKind {
    /// An object that was never published. Safe to remove.
    Temporary,
    /// The journal of a change in place: needed until the object has been recovered.
    Journal,
    /// A journal that did not belong to the object next to it, and was set aside.
    SetAside,
    /// The folder of a job that rebuilds an array next to the old one.
    Job,
}

/// A file that a writer created for its own purposes: left behind, or still in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its name within its folder.
    pub name: String,
    /// What it is.
    pub kind: LeftoverKind,
    /// The object it belongs to, if known.
    pub object: Option<Key>,
    /// Its length.
    pub len: u64,
    /// Whether its writer is still active, or that cannot be determined.
    pub in_use: bool,
}

/// The outcome of recovering an object whose bytes make no sense.
#[derive(Debug)]
pub enum Recovery {
    /// No change of it was interrupted: these are its bytes.
    Nothing,
    /// An interrupted change was finished or undone; open the object again.
    Done,
    /// A change is in progress, or was interrupted and cannot be undone here: this is the object as
    /// it was before.
    Before(Arc<dyn Object>),
}

/// What a request costs besides the bytes that it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCost {
    /// How many bytes could be read in the time of a request's overhead: a gap of at most this many
    /// between two ranges is cheaper to read than to skip, if the second one has to wait for the
    /// first.
    pub request_in_bytes: u64,
    /// Whether a read is a copy from memory or a disk of this machine, made by the calling thread.
    ///
    /// If so, nothing is gained by submitting many reads together, and much by reading no more than
    /// fits in a cache and using it immediately.
    pub local: bool,
    /// How many requests the store keeps in flight; further ones wait.
    pub in_flight: usize,
}

impl ReadCost {
    /// The cost of reads in a store on this machine.
    pub const fn local(request_in_bytes: u64) -> Self {
        Self { request_in_bytes, local: true, in_flight: 1 }
    }
}

/// A place where objects live.
///
/// A store that cannot do one of these things returns [`StoreError::Unsupported`], never a weaker
/// guarantee.
///
/// No method has a default, because a wrapper would inherit it and silently answer for the store
/// behind it: one that forgot `recover` would make an interrupted change look like damage. Wrappers
/// implement [`StoreLayer`](crate::layer::StoreLayer), which forwards whatever they do not change.
/// Everything that follows from these methods for every store is in [`StoreExt`](crate::StoreExt).
pub trait Store: Debug + Send + Sync {
    /// A name for messages: the URL or path of its root.
    fn name(&self) -> String;

    /// Distinguishes its root from all others, whatever they are called: same text, same place.
    /// Without secrets.
    fn identity(&self) -> String;

    /// Operations that exist because the objects are files in folders on this machine; `None` if
    /// they are not.
    fn folders(&self) -> Option<&dyn Folders>;

    /// Holds and exchanges the folders of data sets; `None` if a folder is never exchanged for
    /// another one.
    fn exchange(&self) -> Option<&dyn FolderExchange>;

    /// The store that contains its root, and the key of its root there; `None` if there is nothing
    /// above it, or the store does not know. Makes no request.
    fn above(&self) -> Option<(Arc<dyn Store>, Key)>;

    /// Opens an object for reading.
    ///
    /// `expected` is the version that the caller knows something about. A store where opening is
    /// free may use it to pin the reads to that version; others open what is there, and the caller
    /// compares [`Object::version`]. A missing object is [`StoreError::NotFound`], here or at the
    /// first read.
    fn open(&self, key: &Key, expected: Option<&Version>) -> Result<Arc<dyn Object>, StoreError>;

    /// Opens an object for reading as it is stored, with all its headers.
    ///
    /// [`open`](Self::open) decodes the `Content-Encoding` named in the headers of an object, this
    /// does not. In a store without headers there is no difference.
    fn open_stored(&self, key: &Key) -> Result<Arc<dyn Object>, StoreError>;

    /// Whether objects have headers in this store, so that they can be preserved when an object is
    /// copied.
    fn keeps_headers(&self) -> bool;

    /// Begins a new object, or a new version of an existing one, with headers.
    ///
    /// A store without headers refuses them ([`Headers::refuse`]). With empty headers this is
    /// [`create`](Self::create).
    fn create_with_headers(
        &self,
        key: &Key,
        options: CreateOptions,
        headers: &Headers,
    ) -> Result<Box<dyn ObjectWriter>, StoreError>;

    /// Whether the store can be listed at all. If not, [`list`](Self::list) is
    /// [`StoreError::Unsupported`].
    fn can_list(&self) -> bool;

    /// What a request costs, for merging ranges.
    fn read_cost(&self) -> ReadCost;

    /// Begins a new object, or a new version of an existing one.
    fn create(
        &self,
        key: &Key,
        options: CreateOptions,
    ) -> Result<Box<dyn ObjectWriter>, StoreError>;

    /// Makes staged objects durable and visible, and returns their versions.
    ///
    /// Each appears atomically. All are made durable before the first appears. If one fails, those
    /// before it have been published and those after it have not; a condition that does not hold is
    /// [`StoreError::Conflict`]. If each object is a request, consecutive objects without a
    /// condition are published in parallel, and some of them may be there although another one
    /// failed.
    fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError>;

    /// The same, but the caller can continue in the meantime if the store keeps requests in flight.
    /// Elsewhere it is [`Pending::done`].
    ///
    /// [`Pending::wait`] returns the outcome. If it is dropped without that, the objects may or may
    /// not be published.
    fn publish_later(&self, staged: Vec<Staged>) -> Pending;

    /// Acquires an existing object in order to change it. In a store with locks, waits for others
    /// who hold it; a store without locks returns [`Edit::by_version`].
    ///
    /// A missing object is [`StoreError::NotFound`].
    fn edit(&self, key: &Key) -> Result<Edit, StoreError>;

    /// Removes an object. Removing a missing object is not an error unless the condition says so.
    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError>;

    /// Removes an object as the last step of a job whose result is durable. Does not wait for the
    /// removal to become durable, so that nothing can fail after it. If a power failure undoes it,
    /// the job can be run again.
    ///
    /// If a removal is durable when it is answered, this is [`delete`](Self::delete) without a
    /// condition.
    fn delete_last(&self, key: &Key) -> Result<(), StoreError>;

    /// What is directly below `prefix` (`None`: the root), in order of keys. A prefix without
    /// objects lists as empty.
    ///
    /// Files that the store creates for its own purposes (temporary ones) are left out.
    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError>;

    /// Files directly below `prefix` that writers created for their own purposes and have not
    /// removed (yet). Listings leave them out.
    ///
    /// Empty in a store whose writers leave nothing behind.
    fn leftovers(&self, prefix: Option<&Key>) -> Result<Vec<Leftover>, StoreError>;

    /// Removes a leftover that is not a journal, unless its writer is still active. Returns whether
    /// it is gone.
    fn remove_leftover(&self, prefix: Option<&Key>, name: &str) -> Result<bool, StoreError>;

    /// Finishes or undoes an interrupted change of an object in place.
    ///
    /// For a caller that finds that an object makes no sense. Never waits: if the object is being
    /// changed right now, or may not be written to, the result shows it as it was before. If
    /// objects are only replaced whole, it is [`Recovery::Nothing`].
    fn recover(&self, key: &Key) -> Result<Recovery, StoreError>;

    /// What [`recover`](Self::recover) would give to readers if nothing could be written.
    ///
    /// For a caller that must not change anything: an interrupted change stays as it is, and
    /// [`Recovery::Before`] shows the object without it. [`Recovery::Done`] means that the change
    /// has ended, so the object must be opened again.
    fn before_change(&self, key: &Key) -> Result<Recovery, StoreError>;

    /// Removes the folder `folder` if it is empty, so that an object can take its name.
    ///
    /// A non-empty folder, something that is not a folder, and a missing folder are left alone, and
    /// none of them is an error. The folders above it stay. In a store where a folder is only a
    /// common prefix of keys, there are no empty folders and nothing to do.
    fn remove_empty_folder(&self, folder: &Key) -> Result<(), StoreError>;
}
