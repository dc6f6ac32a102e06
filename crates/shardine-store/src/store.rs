use std::any::Any;
use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

use crate::{Edit, FolderExchange, Folders, Headers, Holding, Key, Object, StoreError, Version};

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
    /// Adds bytes at the end and tells at which offset they landed. May be called from several
    /// threads.
    fn append(&self, data: &[u8]) -> Result<u64, StoreError>;

    /// Claims `len` bytes at the end and tells where they are, if the store can take bytes in any
    /// order; the claim is to be filled by one [`write_reserved`](Self::write_reserved) before the
    /// end.
    ///
    /// So a writer that keeps an order claims in that order, which takes no time, and writes side
    /// by side with others. `None` means that bytes can only be appended.
    fn reserve(&self, len: u64) -> Result<Option<u64>, StoreError>;

    /// Writes the bytes of a claim, all of them at once. [`StoreError::Unsupported`] where nothing
    /// can be claimed.
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
    /// What is there and is neither, the first [`MOST_UNLISTED`](Self::MOST_UNLISTED) of it.
    pub unlisted: Vec<Unlisted>,
    /// How many more of these there are.
    pub more_unlisted: u64,
}

impl Listing {
    /// So many unlisted things of a folder are told by name.
    pub const MOST_UNLISTED: usize = 1000;

    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.folders.is_empty() && self.unlisted.is_empty()
    }

    /// An error if one of the unlisted things has a name, in its folder, that matters.
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

/// Something below a prefix that is no object, and no folder that is walked.
///
/// It is told so that nobody takes a listing for the whole of a folder when it is not.
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
    /// A link to a folder. Objects behind it are opened by key, but it is not walked.
    FolderLink,
    /// A link that leads nowhere.
    BrokenLink,
    /// An object whose name cannot be a key.
    OddName,
    /// A folder whose name cannot be a key.
    OddFolder,
    /// A socket, pipe or device, or a link to one.
    Special,
    /// It has the name of a file that the store makes for itself, but is not one.
    LikeOwn,
    /// The folder of an interrupted job, which holds the only copy of the data set beside which it
    /// lies.
    OnlyCopy,
}

impl UnlistedKind {
    /// What it is, in a few words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::FolderLink => "a link to a folder",
            Self::BrokenLink => "a link that leads nowhere",
            Self::OddName => "a name that is not UTF-8 or holds a backslash",
            Self::OddFolder => "a folder whose name is not UTF-8 or holds a backslash",
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
    /// A change is under way, or was interrupted and cannot be undone here: this shows the object
    /// as it was before.
    Before(Arc<dyn Object>),
}

/// What a request costs beside the bytes that it moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCost {
    /// How many bytes could be read in the time that a request takes beside them: a gap of at most
    /// this many between two ranges is cheaper to read than to skip, if the second one has to wait
    /// for the first.
    pub request_in_bytes: u64,
    /// Whether a read is a copy from the memory or a disk of this machine, made by the thread that
    /// asks.
    ///
    /// Then nothing is gained by handing over many reads at once, and much by reading what a cache
    /// can hold and using it at once.
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
/// A store that cannot do one of these things answers [`StoreError::Unsupported`], never with a
/// weaker promise.
///
/// No method has a default, because a wrapper would inherit it and silently answer for the store
/// behind it: one that forgot `recover` would make an interrupted change look like damage. Wrappers
/// implement [`StoreLayer`](crate::layer::StoreLayer), which forwards whatever they do not change.
/// What follows from these methods for every store is in [`StoreExt`](crate::StoreExt).
pub trait Store: Debug + Send + Sync {
    /// A name for messages: the URL or path of its root.
    fn name(&self) -> String;

    /// What tells its root from the roots of all others, whatever they are called: same text, same
    /// place. Without secrets.
    fn identity(&self) -> String;

    /// What can be done because the objects are files in folders of this machine; `None` if they
    /// are not.
    fn folders(&self) -> Option<&dyn Folders>;

    /// Holds and exchanges the folders of data sets; `None` where a folder is never exchanged for
    /// another one.
    fn exchange(&self) -> Option<&dyn FolderExchange>;

    /// The store of what its root lies in, and the name that its root has there; `None` if nothing
    /// lies above it, or the store knows of nothing there. Makes no request.
    fn above(&self) -> Option<(Arc<dyn Store>, Key)>;

    /// Opens an object for reading.
    ///
    /// `expected` is the version that the caller knows something about. A store to which opening is
    /// free may use it to pin the reads to that version; others open what is there, and the caller
    /// compares [`Object::version`]. A missing object is [`StoreError::NotFound`], here or at the
    /// first read.
    fn open(&self, key: &Key, expected: Option<&Version>) -> Result<Arc<dyn Object>, StoreError>;

    /// Opens an object for reading as it is stored, with all its headers.
    ///
    /// [`open`](Self::open) undoes the encoding that the headers of an object tell of
    /// (`Content-Encoding`), this does not. In a store without headers there is no difference.
    fn open_stored(&self, key: &Key) -> Result<Arc<dyn Object>, StoreError>;

    /// Whether objects have headers here, so that they can be kept when an object is copied.
    fn keeps_headers(&self) -> bool;

    /// Begins a new object, or a new version of an old one, with headers.
    ///
    /// A store without headers refuses any ([`Headers::refuse`]); without them this is
    /// [`create`](Self::create).
    fn create_with_headers(
        &self,
        key: &Key,
        options: CreateOptions,
        headers: &Headers,
    ) -> Result<Box<dyn ObjectWriter>, StoreError>;

    /// Whether what is there can be listed at all. If not, [`list`](Self::list) is
    /// [`StoreError::Unsupported`].
    fn can_list(&self) -> bool;

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
    /// Each appears whole and at once. All are made durable before the first appears. If one fails,
    /// the ones before it have been published and the ones after it have not; a condition that does
    /// not hold is [`StoreError::Conflict`]. Where each object is a request, neighbours without a
    /// condition are published side by side, and some of them may be there though another failed.
    fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError>;

    /// The same, but the caller can go on meanwhile, where the store has requests in flight.
    /// Elsewhere it is [`Pending::done`].
    ///
    /// The outcome is that of [`Pending::wait`]; what is dropped without that is published or not.
    fn publish_later(&self, staged: Vec<Staged>) -> Pending;

    /// Gets hold of an object that exists, to change it. Waits for others who do, where the store
    /// has locks; a store without locks returns [`Edit::by_version`].
    ///
    /// A missing object is [`StoreError::NotFound`].
    fn edit(&self, key: &Key) -> Result<Edit, StoreError>;

    /// Removes an object; removing what is not there is no error unless the condition says so.
    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError>;

    /// Removes an object as the last step of a job whose result is durable: it is not waited for
    /// that the removal is, so that no failure can come after it. If it is undone by a power
    /// failure, the job can be given again.
    ///
    /// Where a removal is durable when it is answered, this is [`delete`](Self::delete) without a
    /// condition.
    fn delete_last(&self, key: &Key) -> Result<(), StoreError>;

    /// What is directly below `prefix` (`None`: the root), in order of keys. A prefix without
    /// objects lists as empty.
    ///
    /// Files that the store itself makes on the way (temporary ones) are left out.
    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError>;

    /// Files directly below `prefix` that writers made on the way and have not removed (yet).
    /// Listings leave them out.
    ///
    /// None in a store whose writers leave nothing behind.
    fn leftovers(&self, prefix: Option<&Key>) -> Result<Vec<Leftover>, StoreError>;

    /// Removes a leftover that is not a journal, unless its writer is still at work. Tells whether
    /// it is gone.
    fn remove_leftover(&self, prefix: Option<&Key>, name: &str) -> Result<bool, StoreError>;

    /// Finishes or undoes a change in place of an object that was interrupted.
    ///
    /// For a caller that finds that an object makes no sense. Waits for nobody: of an object that is
    /// being changed right now, or that may not be written to, it shows what was there before.
    /// Where objects are only replaced whole, it is [`Recovery::Nothing`].
    fn recover(&self, key: &Key) -> Result<Recovery, StoreError>;

    /// What [`recover`](Self::recover) would leave to readers if nothing could be written.
    ///
    /// For a caller that must not change anything: an interrupted change stays as it is, and
    /// [`Recovery::Before`] shows the object without it. [`Recovery::Done`] says that the change
    /// has ended, so that the object is to be opened again.
    fn before_change(&self, key: &Key) -> Result<Recovery, StoreError>;

    /// Removes the folder `folder` if there is nothing in it, so that an object can take its name.
    ///
    /// What is not empty stays, and so does what is no folder; neither is an error, nor is a folder
    /// that is not there. The folders above it stay. In a store where a folder is but the beginning
    /// that the keys of objects share, an empty one does not exist and there is nothing to do.
    fn remove_empty_folder(&self, folder: &Key) -> Result<(), StoreError>;
}
