//! Objects as files below a root folder.

mod dataset;
mod disk;
mod edit;
mod folder;
mod helpers;
mod journal;
mod leftover;
mod listing;
mod local;
mod lock;
mod modes;
mod object;
mod publish;
mod recover;
mod redirect;
mod stamp;
mod temporary;
mod tree;
mod writer;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nix::errno::Errno;

use crate::{
    BufferPool, Condition, CreateOptions, Edit, FolderExchange, Folders, Headers, Key, Leftover,
    Listing, Object, ObjectWriter, Pending, ReadCost, Recovery, Staged, Store, StoreError, Version,
};

pub use dataset::{DocumentStamp, FolderAlone, FolderHold, FolderIdentity};
pub use disk::{DiskLook, DiskObserver, DiskStep, Verdict};
pub use listing::{FolderId, Survey};
pub use modes::Modes;
pub use stamp::ObjectTimes;
pub use temporary::is_own_file;
pub use tree::{FolderLock, FolderPart, FolderState, JobLock};

/// How much memory a store created by [`FileStore::new`] keeps for its next reads.
const RETAINED: usize = 16 << 20;

/// A store of files below a root folder; a key is a path below it. Clones are the same store.
///
/// **Reading.** Opening costs one `open` and one `fstat`, a read one `pread`, into pooled memory or
/// the caller's. An open object holds one descriptor and keeps seeing its bytes when the file is
/// replaced or removed. A folder is not an object. Opening an object follows symbolic links;
/// listing and removing do not. On the common local file systems (not on network file systems,
/// which notice changes late) an object may be kept open: one `fstat` tells whether the file was
/// replaced, plus a look at its path while it is younger than the tick of the clock, and the
/// exchange of a folder above it is noticed within a tenth of a second. The disk space of a removed
/// file is freed once it is closed.
///
/// **Writing.** A new object is a temporary file next to its destination ([`is_own_file`] knows the
/// name), which is removed if the object is abandoned. [`publish`](Store::publish) syncs all files
/// of a batch, then renames each into its place, then syncs the folders; a large batch on a common
/// local file system is synced by one sync of the whole file system. Condition and rename happen
/// under an exclusive advisory lock (`flock`) on the file that is replaced, or by a rename that
/// fails if the name is taken, so writers in other processes on the same machine, and on file
/// systems that carry such locks across machines, lose no update; programs that take no lock are
/// not held back by it. Where a file system has no such locks, a write on the condition that an
/// object is unchanged is [`Unsupported`](StoreError::Unsupported). A replaced file keeps its mode;
/// a replaced symbolic link becomes a file, and what it pointed to stays.
///
/// **Versions** consist of device, inode, length and times. A published file gets its modification
/// time from the full resolution of the clock: many kernels stamp files with a tick of some
/// milliseconds and reuse a freed inode immediately, so that the third version of an object could
/// pass for the first. For a file that another program overwrites in place, a version is as good as
/// the file system's own times.
#[derive(Debug, Clone)]
pub struct FileStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    pool: Arc<BufferPool>,
    local: local::LocalSystems,
    disk: disk::Disk,
    /// The modes of new files and folders; where unset, the process's defaults apply.
    modes: Modes,
    /// Folders that this store created and whose entry in their parent is not known to be durable.
    fresh: Arc<Mutex<BTreeSet<PathBuf>>>,
    /// The root, open while something is being written: the kernel reports a failed write-back only
    /// through files that were open before it.
    sync_handle: Mutex<Weak<fs::File>>,
    /// Whether the system has failed to make something durable: it reports that once, to only one
    /// of all those waiting for it.
    sync_failed: Mutex<bool>,
}

impl FileStore {
    /// The store of the files below `root`, with its own memory. The folder need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::with_pool(root, BufferPool::new(RETAINED))
    }

    /// The same, with memory shared with others.
    pub fn with_pool(root: impl Into<PathBuf>, pool: Arc<BufferPool>) -> Self {
        Self::build(root.into(), pool, disk::Disk::default())
    }

    /// The same with an observer that is asked before each change to the disk, and before each
    /// query: for tests of what a failure, a full disk or a killed process leaves behind. Nothing
    /// is moved in the kernel then, so that the observer sees each byte.
    pub fn observed(root: impl Into<PathBuf>, observer: Arc<dyn DiskObserver>) -> Self {
        Self::build(root.into(), BufferPool::new(RETAINED), disk::Disk(Some(observer)))
    }

    fn build(root: PathBuf, pool: Arc<BufferPool>, disk: disk::Disk) -> Self {
        // A later change of the working directory must not move the store.
        let root = std::path::absolute(&root).unwrap_or(root);
        let local = local::LocalSystems::default();
        let (fresh, sync_handle) = (Arc::default(), Mutex::default());
        let sync_failed = Mutex::new(false);
        let modes = Modes::default();
        Self(Arc::new(Inner { root, pool, local, disk, modes, fresh, sync_handle, sync_failed }))
    }

    /// The store of the files below another folder, with the same memory and the same observer.
    pub fn elsewhere(&self, root: impl Into<PathBuf>) -> Self {
        Self::build(root.into(), Arc::clone(&self.0.pool), self.0.disk.clone())
    }

    /// The folder that the keys are relative to.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.0.root.join(key.as_str())
    }

    fn not_found(&self, key: &Key) -> StoreError {
        StoreError::NotFound { key: key.clone(), store: self.name() }
    }

    /// Returns [`Inner::sync_handle`], opening it if necessary, for a caller that is about to
    /// write.
    fn sync_handle(&self) -> Option<Arc<fs::File>> {
        let mut handle = self.0.sync_handle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = handle.upgrade() {
            return Some(open);
        }
        // Without a handle each file is made durable individually, so the reason does not matter.
        let open = self.0.disk.open(fs::File::options().read(true), &self.0.root).ok()?;
        let open = Arc::new(open);
        *handle = Arc::downgrade(&open);
        Some(open)
    }

    /// Whether all files on these devices can be made durable by one sync through a handle: they
    /// are on one local file system, and no observer wants to see each step.
    fn is_system_of(&self, handle: &fs::File, devices: impl Iterator<Item = Option<u64>>) -> bool {
        let Ok(found) = self.0.disk.examine_open(handle, self.root()) else { return false };
        let known = !self.0.disk.is_watched() && self.0.local.is_local(handle, found.dev());
        let mut devices = devices;
        known && devices.all(|of| of == Some(found.dev()))
    }

    /// Creates a folder and its missing parents, and remembers to make them durable.
    fn make_folder(&self, path: &Path) -> Result<(), StoreError> {
        let disk = &self.0.disk;
        if disk.is_folder(path).map_err(|e| failed("examine", path, e))? {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.make_folder(parent)?;
        }
        // Recorded before it exists: anyone who finds the folder must find the record too.
        let mut fresh = self.0.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        fresh.insert(path.to_owned());
        let made = disk
            .ask(DiskStep::CreateFolder { path })
            .and_then(|()| fs::create_dir(path))
            .and_then(|()| self.0.modes.apply_to_folder(path));
        let made = match made {
            // Someone else has just created it.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match disk.is_folder(path) {
                Ok(true) => Ok(()),
                Ok(false) => Err(e),
                Err(e) => Err(e),
            },
            made => made,
        };
        made.map_err(|e| {
            fresh.remove(path);
            failed("create the folder", path, e)
        })
    }
}

impl Store for FileStore {
    fn name(&self) -> String {
        self.0.root.display().to_string()
    }

    /// Its path as given: a link to a folder and the folder are two places.
    fn identity(&self) -> String {
        self.name()
    }

    fn open(&self, key: &Key, _: Option<&Version>) -> Result<Arc<dyn Object>, StoreError> {
        Ok(Arc::new(object::FileObject::open(self, key)?))
    }

    fn open_stored(&self, key: &Key) -> Result<Arc<dyn Object>, StoreError> {
        self.open(key, None)
    }

    fn keeps_headers(&self) -> bool {
        false
    }

    fn can_list(&self) -> bool {
        true
    }

    /// 16 KiB. At a random offset of a cached file, a `pread` takes 0.7 to 1.5 µs regardless of its
    /// length (buffer and task come on top), in which time the kernel copies 8 to 16 KiB.
    fn read_cost(&self) -> ReadCost {
        ReadCost::local(16 << 10)
    }

    fn folders(&self) -> Option<&dyn Folders> {
        Some(self)
    }

    fn exchange(&self) -> Option<&dyn FolderExchange> {
        Some(self)
    }

    /// Determined from the path as given. A name that is not a key ends it.
    fn above(&self) -> Option<(Arc<dyn Store>, Key)> {
        let root = self.root();
        let name = root.file_name().and_then(std::ffi::OsStr::to_str);
        let (Some(above), Some(name)) = (root.parent(), name) else { return None };
        let name = Key::new(name).ok()?;
        Some((Arc::new(self.with_root(above.to_owned())), name))
    }

    fn create(
        &self,
        key: &Key,
        options: CreateOptions,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        Ok(Box::new(writer::FileWriter::create(self, key, options)?))
    }

    fn create_with_headers(
        &self,
        key: &Key,
        options: CreateOptions,
        headers: &Headers,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        headers.refuse(self)?;
        self.create(key, options)
    }

    fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
        publish::publish(self, staged)
    }

    fn publish_later(&self, staged: Vec<Staged>) -> Pending {
        Pending::done(self.publish(staged))
    }

    fn edit(&self, key: &Key) -> Result<Edit, StoreError> {
        edit::edit(self, key)
    }

    fn recover(&self, key: &Key) -> Result<Recovery, StoreError> {
        recover::recover(self, key)
    }

    fn before_change(&self, key: &Key) -> Result<Recovery, StoreError> {
        recover::before_change(self, key)
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        publish::delete(self, key, condition)
    }

    fn delete_last(&self, key: &Key) -> Result<(), StoreError> {
        self.remove_last(key)
    }

    /// Costs one `stat` per object. A folder is listed even if it is empty. A link to a file is an
    /// object; a link to a folder is [unlisted](Listing::unlisted), like everything that is not an
    /// object, and a prefix that passes through one is [`LinkedFolder`](StoreError::LinkedFolder).
    /// The store's own files are left out.
    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError> {
        listing::list(self, prefix)
    }

    /// Costs a listing, and for each such file one `open` and one attempt to lock it.
    fn leftovers(&self, prefix: Option<&Key>) -> Result<Vec<Leftover>, StoreError> {
        leftover::list(self, prefix)
    }

    fn remove_leftover(&self, prefix: Option<&Key>, name: &str) -> Result<bool, StoreError> {
        leftover::remove(self, prefix, name)
    }

    /// One `open` for each part of the key, and if the folder was empty, one sync of its parent. No
    /// symbolic link below the root is followed or removed: what is behind one stays as it is. A
    /// killed writer's leftover makes a folder non-empty.
    fn remove_empty_folder(&self, folder: &Key) -> Result<(), StoreError> {
        publish::remove_empty_folder(self, folder)
    }
}

fn failed(operation: &'static str, path: &Path, source: impl Into<io::Error>) -> StoreError {
    StoreError::Io { operation, path: path.display().to_string(), source: source.into() }
}

/// Whether an error means that the file system has no locks.
fn lacks_locks(error: &io::Error) -> bool {
    let lacking = [Errno::ENOSYS, Errno::EOPNOTSUPP, Errno::ENOLCK].map(|e| Some(e as i32));
    error.kind() == io::ErrorKind::Unsupported || lacking.contains(&error.raw_os_error())
}

/// Whether an error means that there is nothing at a path, possibly because a part of the path is a
/// file.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
