//! Who uses the folder of a data set, and whether it is still the one that was opened.
//!
//! A job that repacks a data set in place exchanges its folder for another one. Readers take no
//! lock. They notice the exchange afterwards, by the data set's document ([`DocumentStamp`]) and by
//! the folder itself ([`FolderIdentity`]), and read again. Writers keep the folder in its place
//! until they have published: they hold it ([`FolderHold`], a shared `flock` on the folder's own
//! descriptor), and the job takes it exclusively ([`FolderAlone`]) for the moment of the exchange.
//! A *gate*, a file in the job's folder, keeps newly arriving writers from delaying the job
//! forever. All of these locks are kernel locks and die with their process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::fcntl::OFlag;

use super::disk::{DiskLook, DiskStep};
use super::object::TRUST;
use super::stamp::{ObjectTimes, Stamp};
use super::temporary::job_folder;
use super::{FileStore, failed, is_missing, lacks_locks};
use crate::{Key, StoreError};

/// The file in a job's folder at which new writers wait while the job waits for exclusive access.
const GATE: &str = "gate";

/// How often a job checks whether it has exclusive access.
const POLL: Duration = Duration::from_millis(2);

/// The folders held by this process: device and inode, once per hold.
static HELD: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// The state of a document, which distinguishes it from any other that had or will have its name.
#[derive(Debug, Clone, Copy)]
pub struct DocumentStamp {
    stamp: Stamp,
    /// Whether no later change can leave the document with the same times.
    telling: bool,
}

impl DocumentStamp {
    /// Whether any later change is guaranteed to show.
    pub fn is_telling(&self) -> bool {
        self.telling
    }

    /// Whether the document cannot have been replaced or overwritten since `earlier`.
    pub fn is_certainly(&self, earlier: &Self) -> bool {
        earlier.telling && self.stamp == earlier.stamp
    }
}

/// The identity of a folder, which distinguishes it from others that had or will have its name.
#[derive(Debug, Clone)]
pub struct FolderIdentity {
    id: (u64, u64),
    born: Option<SystemTime>,
    /// Where the file system does not record when a folder was created: keeps its inode number from
    /// being reused.
    _open: Option<Arc<File>>,
}

impl PartialEq for FolderIdentity {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.born) == (other.id, other.born)
    }
}

/// Keeps the folder of a data set in its place. Several may hold it.
#[derive(Debug)]
pub struct FolderHold {
    file: File,
    id: (u64, u64),
    /// A forked child shares the descriptor, and must not give up the lock of its parent.
    process: u32,
}

impl Drop for FolderHold {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(i) = held.iter().position(|id| *id == self.id) {
            held.swap_remove(i);
        }
        // Closing the descriptor is not enough while a child that was forked in the meantime has it
        // too.
        let _ = self.file.unlock();
    }
}

/// The right to exchange the folder of a data set for a new one: nobody else holds either of them.
#[derive(Debug)]
pub struct FolderAlone {
    files: Vec<File>,
    process: u32,
}

impl FolderAlone {
    /// How long someone who has files of the old folder open may read them without checking whether
    /// they have been replaced. Until this time has passed, or the old files have been removed,
    /// nobody may write to the new ones.
    pub const UNNOTICED: Duration = Duration::from_millis(TRUST);
}

impl Drop for FolderAlone {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // The new folder before the gate, so that writers waiting at the gate find it unlocked.
            self.files.iter().rev().for_each(|file| drop(file.unlock()));
        }
    }
}

/// Whether this process holds the folder behind a descriptor, so that waiting for exclusive access
/// would never end.
pub(super) fn is_held_here(folder: &File) -> io::Result<bool> {
    let id = id(folder)?;
    Ok(HELD.lock().unwrap_or_else(PoisonError::into_inner).contains(&id))
}

impl FileStore {
    /// The state of a document; `None` if there is none. One `stat`.
    pub fn document_stamp(&self, key: &Key) -> Result<Option<DocumentStamp>, StoreError> {
        let path = self.path(key);
        let asked = SystemTime::now();
        match self.0.disk.examine(&path) {
            Ok(found) => {
                let stamp = Stamp::from(&found);
                Ok(Some(DocumentStamp { stamp, telling: stamp.is_telling(asked) }))
            }
            Err(e) if is_missing(&e) => Ok(None),
            Err(e) => Err(failed("examine", &path, e)),
        }
    }

    /// When an object was changed; `None` if there is none. One `stat`.
    pub fn times(&self, key: &Key) -> Result<Option<ObjectTimes>, StoreError> {
        let path = self.path(key);
        let found = self.0.disk.find(&path).map_err(|e| failed("examine", &path, e))?;
        Ok(found.map(|found| Stamp::from(&found).into()))
    }

    /// The identity of the folder that is now in this place; `None` if there is none.
    pub fn folder_identity(
        &self,
        folder: Option<&Key>,
    ) -> Result<Option<FolderIdentity>, StoreError> {
        let path = self.folder_path(folder);
        let examined = (|| {
            let found = self.0.disk.examine(&path)?;
            let born = found.created().ok().filter(|born| *born != SystemTime::UNIX_EPOCH);
            if born.is_some() {
                return Ok(FolderIdentity { id: (found.dev(), found.ino()), born, _open: None });
            }
            let file = self.open_folder(&path)?;
            Ok(FolderIdentity { id: id(&file)?, born: None, _open: Some(Arc::new(file)) })
        })();
        match examined {
            Ok(identity) => Ok(Some(identity)),
            Err(e) if is_missing(&e) => Ok(None),
            Err(e) => Err(failed("examine", &path, e)),
        }
    }

    /// Keeps the folder of a data set in its place until the hold is dropped. Waits for a job that
    /// is exchanging it.
    ///
    /// `None` if the locks of the file system are not reliable (only [local ones](Self::can_hold)
    /// are), or the folder may not be opened. [`StoreError::Io`] with `NotFound` if there is no
    /// folder.
    pub fn hold(&self, folder: Option<&Key>) -> Result<Option<FolderHold>, StoreError> {
        let path = self.folder_path(folder);
        let wrong = |e| failed("lock the folder", &path, e);
        loop {
            let file = match self.open_folder(&path) {
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
                file => file.map_err(wrong)?,
            };
            let id = id(&file).map_err(wrong)?;
            if !self.0.local.is_local(&file, id.0) {
                return Ok(None);
            }
            self.wait_at_gate(&path, &file)?;
            let asked = self.0.disk.look(DiskLook::Lock { path: &path });
            match asked.and_then(|()| file.lock_shared()) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if lacks_locks(&e) => return Ok(None),
                Err(e) => return Err(wrong(e)),
            }
            HELD.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            let hold = FolderHold { file, id, process: std::process::id() };
            let found = self.0.disk.examine(&path).map_err(wrong)?;
            if (found.dev(), found.ino()) == id {
                return Ok(Some(hold));
            }
        }
    }

    /// Whether [`hold`](Self::hold) works for this folder: it is on a local file system with locks.
    pub fn can_hold(&self, folder: Option<&Key>) -> Result<bool, StoreError> {
        let path = self.folder_path(folder);
        let file = self.open_folder(&path).map_err(|e| failed("open the folder", &path, e))?;
        let (device, _) = id(&file).map_err(|e| failed("examine", &path, e))?;
        if !self.0.local.is_local(&file, device) {
            return Ok(false);
        }
        let asked = self.0.disk.look(DiskLook::Lock { path: &path });
        match asked.map_err(TryLockError::Error).and_then(|()| file.try_lock_shared()) {
            Ok(()) => file.unlock().map(|()| true).map_err(|e| failed("unlock", &path, e)),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) if lacks_locks(&e) => Ok(false),
            Err(TryLockError::Error(e)) => Err(failed("lock the folder", &path, e)),
        }
    }

    /// Takes exclusive access to a data set and its replacement, for the job that works in `work`.
    /// Waits for those who hold the data set, while new ones wait at the gate; `None` if that takes
    /// longer than `patience`.
    ///
    /// The new folder stays locked under its new name until this is dropped.
    pub fn hold_alone(
        &self,
        folder: &Key,
        new: &Key,
        work: &Key,
        patience: Duration,
    ) -> Result<Option<FolderAlone>, StoreError> {
        let mut alone = FolderAlone { files: Vec::new(), process: std::process::id() };
        let gate = self.path(&work.join(GATE)?);
        let wrong = |e| failed("create", &gate, e);
        self.0.disk.ask(DiskStep::Create { path: &gate }).map_err(wrong)?;
        let file = File::options().create(true).truncate(false).write(true).open(&gate);
        let file = file.map_err(wrong)?;
        self.0.disk.lock(&file, &gate).map_err(|e| failed("lock", &gate, e))?;
        alone.files.push(file);
        let path = self.path(new);
        let file = self.open_folder(&path).map_err(|e| failed("lock the folder", &path, e))?;
        self.0.disk.lock(&file, &path).map_err(|e| failed("lock the folder", &path, e))?;
        alone.files.push(file);
        let path = self.path(folder);
        let wrong = |e| failed("lock the folder", &path, e);
        let file = self.open_folder(&path).map_err(wrong)?;
        let start = Instant::now();
        loop {
            match self.0.disk.try_lock(&file, &path) {
                Ok(()) => break,
                Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(e)) => return Err(wrong(e)),
                Err(TryLockError::WouldBlock) if start.elapsed() >= patience => return Ok(None),
                Err(TryLockError::WouldBlock) => thread::sleep(POLL),
            }
        }
        let found = self.0.disk.examine(&path).map_err(wrong)?;
        if (found.dev(), found.ino()) != id(&file).map_err(wrong)? {
            return Ok(None);
        }
        alone.files.push(file);
        Ok(Some(alone))
    }

    /// Waits while a job on this folder waits for exclusive access.
    fn wait_at_gate(&self, path: &Path, folder: &File) -> Result<(), StoreError> {
        let disk = &self.0.disk;
        // The path with all links resolved, in one call where the kernel provides it.
        let known = fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let real = match known {
            Ok(real) => real,
            Err(_) => disk.resolve(path).map_err(|e| failed("examine", path, e))?,
        };
        let (Some(above), Some(name)) = (real.parent(), real.file_name().and_then(|n| n.to_str()))
        else {
            return Ok(());
        };
        let gate = above.join(job_folder(name)).join(GATE);
        match disk.open_for_reading(&gate) {
            // Waiting is all that is needed: the lock is released with the descriptor.
            Ok(file) => match file.lock_shared() {
                Ok(()) => Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
                Err(e) => Err(failed("lock", &gate, e)),
            },
            // A job's folder is private to its owner: others skip the gate and wait for the lock.
            Err(e) if is_missing(&e) || e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(e) => Err(failed("open", &gate, e)),
        }
    }

    fn open_folder(&self, path: &Path) -> io::Result<File> {
        let flags = OFlag::O_DIRECTORY.bits();
        self.0.disk.open(OpenOptions::new().read(true).custom_flags(flags), path)
    }

    /// The path of a folder; `None` is the root.
    pub(crate) fn folder_path(&self, folder: Option<&Key>) -> PathBuf {
        folder.map_or_else(|| self.0.root.clone(), |key| self.path(key))
    }
}

fn id(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}
