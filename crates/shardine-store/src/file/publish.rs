use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::thread;
use std::time::SystemTime;

use nix::errno::Errno;

use super::disk::Disk;
use super::edit::FileHold;
use super::folder::{Folder, Renamed};
use super::lock::WriterLock;
use super::stamp::Stamp;
use super::temporary::{Temporary, journal_name};
use super::writer::FileStaged;
use super::{DiskStep, FileStore, failed, is_missing, lacks_locks};
use crate::{Condition, Key, Staged, StoreError, Version};

/// This many files of a batch are synced in parallel; a journaling file system commits them
/// together.
const SYNCS: usize = 8;

/// From this many files or folders on, the whole file system is synced instead of each of them.
const TOGETHER: usize = 16;

/// A file whose bytes are durable under its temporary name.
struct Durable {
    /// Kept for determining the version: only a descriptor is sure to refer to this file and no
    /// other.
    file: File,
    temporary: Temporary,
    key: Key,
    path: PathBuf,
    condition: Condition,
}

pub(super) fn publish(store: &FileStore, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
    let own = |staged: Staged| {
        let staged = staged.into_inner::<FileStaged>()?;
        if staged.store.root() == store.root() {
            return Ok(staged);
        }
        Err(StoreError::ForeignStaged { key: staged.key.clone() })
    };
    let staged = staged.into_iter().map(own).collect::<Result<Vec<_>, _>>()?;
    // All of them were open at the same time until now, so they share one handle.
    let system = staged.first().and_then(|staged| staged.system.clone());
    let durable = sync_files(store, system.as_deref(), staged)?;
    let mut touched = BTreeSet::new();
    let versions = durable
        .into_iter()
        .map(|file| {
            let folder = parent(&file.path).to_owned();
            let version = reveal(store, file)?;
            touched.insert(folder);
            Ok(version)
        })
        .collect();
    // Even after a failure: what was published before it has to last. A failed sync is worse than a
    // lost race, so it is the error to report.
    sync_folders(store, system.as_deref(), touched)?;
    versions
}

pub(super) fn delete(
    store: &FileStore,
    key: &Key,
    condition: &Condition,
) -> Result<(), StoreError> {
    let path = store.path(key);
    let missing = || match condition.allows_nothing() {
        true => Ok(()),
        false => Err(StoreError::Conflict { key: key.clone() }),
    };
    let target = lock_target(&store.0.disk, &path, condition)?;
    if matches!(target, Target::Missing) {
        return missing();
    }
    let folder = Folder::open(&store.0.disk, parent(&path))?;
    let name = name(&path)?;
    if matches!(target, Target::Unlocked) {
        folder.lock(condition)?;
    }
    if !folder.check(name, key, condition)? {
        return missing();
    }
    folder.remove(name)?;
    forget_journal(&folder, name)?;
    // Nobody should wait for a sync.
    folder.unlock()?;
    drop(target);
    folder.sync()
}

pub(super) fn remove_empty_folder(store: &FileStore, key: &Key) -> Result<(), StoreError> {
    let mut above = match Folder::open(&store.0.disk, store.root()) {
        Ok(root) => root,
        Err(StoreError::Io { source, .. }) if is_missing(&source) => return Ok(()),
        Err(e) => return Err(e),
    };
    let mut parts = key.as_str().split('/');
    let last = OsStr::new(parts.next_back().unwrap_or_default());
    for part in parts {
        match above.inside(OsStr::new(part))? {
            Some(folder) => above = folder,
            None => return Ok(()),
        }
    }
    {
        // Held in the meantime, so that a folder that someone creates again is not forgotten.
        let mut fresh = store.0.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        if !above.remove_folder(last)? {
            return Ok(());
        }
        fresh.remove(&store.path(key));
    }
    above.sync()
}

/// Makes the bytes of all files durable, several in parallel or all by one sync. Keeps their order.
fn sync_files(
    store: &FileStore,
    system: Option<&File>,
    mut staged: Vec<FileStaged>,
) -> Result<Vec<Durable>, StoreError> {
    // Files whose device is unknown are made durable one by one.
    let device = |staged: &FileStaged| {
        let found = store.0.disk.examine_open(&staged.file, staged.temporary.path());
        found.ok().map(|found| found.dev())
    };
    if staged.len() >= TOGETHER
        && let Some(system) = system
        && store.is_system_of(system, staged.iter().map(device))
    {
        staged.iter().try_for_each(prepare)?;
        sync_system(store, system)?;
        return staged.into_iter().map(close).collect();
    }
    let share = staged.len().div_ceil(SYNCS);
    let mut shares = Vec::with_capacity(SYNCS);
    while staged.len() > 1 {
        let rest = staged.split_off(share.min(staged.len()));
        shares.push(std::mem::replace(&mut staged, rest));
    }
    let sync_share = |share: Vec<FileStaged>| share.into_iter().map(sync_file).collect();
    thread::scope(|scope| {
        let spawn = |share: Vec<FileStaged>| {
            let folder = share.first().map(|s| parent(&s.path).to_owned()).unwrap_or_default();
            thread::Builder::new()
                .spawn_scoped(scope, move || sync_share(share))
                .map_err(|e| failed("start a thread to sync", &folder, e))
        };
        let running: Vec<_> = shares.into_iter().map(spawn).collect();
        // The rest is one file, or none: a batch of one needs no thread.
        let last: Result<Vec<_>, _> = sync_share(staged);
        let mut durable = Vec::new();
        for share in running {
            let synced: Result<Vec<_>, _> =
                share?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            durable.extend(synced?);
        }
        durable.extend(last?);
        Ok(durable)
    })
}

/// Makes the bytes of one file durable, and closes its descriptor, reporting any error.
fn sync_file(staged: FileStaged) -> Result<Durable, StoreError> {
    prepare(&staged)?;
    let step = DiskStep::SyncFile { path: staged.temporary.path() };
    let synced = staged.store.0.disk.ask(step).and_then(|()| staged.file.sync_all());
    synced.map_err(|e| failed("sync", &staged.path, e))?;
    close(staged)
}

/// Gives a file its mode and modification time.
fn prepare(staged: &FileStaged) -> Result<(), StoreError> {
    let FileStaged { file, path, .. } = staged;
    keep_mode(&staged.store.0.disk, file, path)?;
    // Many file systems' clocks tick too slowly to distinguish two files that used the same inode
    // in turn.
    file.set_modified(SystemTime::now()).map_err(|e| failed("set the time of", path, e))
}

/// Makes everything durable that was written to the file system behind `handle`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn sync_system(store: &FileStore, handle: &File) -> Result<(), StoreError> {
    let mut has_failed = store.0.sync_failed.lock().unwrap_or_else(PoisonError::into_inner);
    let synced = match *has_failed {
        true => Err(io::Error::other("an earlier sync of it has failed")),
        false => nix::unistd::syncfs(handle).map_err(io::Error::from),
    };
    *has_failed = synced.is_err();
    synced.map_err(|e| failed("sync the file system of", store.root(), e))
}

/// Never called: no file system is known to be local.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn sync_system(store: &FileStore, _: &File) -> Result<(), StoreError> {
    Err(failed("sync the file system of", store.root(), io::ErrorKind::Unsupported))
}

fn close(staged: FileStaged) -> Result<Durable, StoreError> {
    let FileStaged { file, temporary, key, path, condition, .. } = staged;
    // Some file systems report a failed write when a descriptor is closed, even if it is one of
    // two.
    let kept = file.try_clone().map_err(|e| failed("close", &path, e))?;
    match nix::unistd::close(file) {
        Ok(()) | Err(Errno::EINTR) => {}
        Err(e) => return Err(failed("close", &path, e)),
    }
    Ok(Durable { file: kept, temporary, key, path, condition })
}

/// Gives a new file the mode of the one that it will replace.
fn keep_mode(disk: &Disk, file: &File, path: &Path) -> Result<(), StoreError> {
    match disk.examine(path) {
        Ok(old) if old.is_file() => {
            let mode = Permissions::from_mode(old.permissions().mode() & 0o777);
            file.set_permissions(mode).map_err(|e| failed("set the mode of", path, e))
        }
        Ok(_) => Err(failed("replace the folder", path, io::ErrorKind::IsADirectory)),
        Err(e) if is_missing(&e) => Ok(()),
        Err(e) => Err(failed("examine", path, e)),
    }
}

/// Gives a file its name, if its condition holds.
fn reveal(store: &FileStore, new: Durable) -> Result<Version, StoreError> {
    let name = name(&new.path)?;
    let folder = Folder::open(&store.0.disk, parent(&new.path))?;
    let from = new.temporary.path().file_name().unwrap_or_default();
    let (key, condition) = (&new.key, &new.condition);
    let _lock = loop {
        let target = match condition {
            // If there is one, it does not matter who is changing it.
            Condition::Absent => Target::Missing,
            _ => lock_target(&store.0.disk, &new.path, condition)?,
        };
        match target {
            Target::Missing => {
                if !condition.allows_nothing() {
                    return Err(StoreError::Conflict { key: key.clone() });
                }
                match folder.rename_new(from, name)? {
                    Renamed::Yes => break None,
                    Renamed::Exists if *condition == Condition::Absent => {
                        return Err(StoreError::Conflict { key: key.clone() });
                    }
                    // Someone has created it since, and someone else may be changing it.
                    Renamed::Exists => {}
                    Renamed::Unknown => {
                        folder.lock(condition)?;
                        if !folder.check(name, key, condition)? {
                            folder.rename(from, name)?;
                            break None;
                        }
                        folder.unlock()?;
                    }
                }
            }
            Target::Locked(lock) => {
                folder.check(name, key, condition)?;
                folder.rename(from, name)?;
                break lock;
            }
            Target::Unlocked => {
                folder.lock(condition)?;
                folder.check(name, key, condition)?;
                folder.rename(from, name)?;
                break None;
            }
        }
    };
    new.temporary.renamed();
    forget_journal(&folder, name)?;
    let found = store.0.disk.examine_open(&new.file, &new.path);
    let found = found.map_err(|e| failed("examine", &new.path, e))?;
    Ok(Stamp::from(&found).version())
}

/// Makes the entries of folders durable, and the entries of folders that were created for them.
pub(super) fn sync_folders(
    store: &FileStore,
    system: Option<&File>,
    touched: BTreeSet<PathBuf>,
) -> Result<(), StoreError> {
    let mut all = touched.clone();
    let mut settled = Vec::new();
    {
        let fresh = store.0.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        for folder in &touched {
            for made in folder.ancestors().filter(|path| fresh.contains(*path)) {
                all.insert(parent(made).to_owned());
                settled.push(made.to_owned());
            }
        }
    }
    let device = |path: &PathBuf| store.0.disk.examine(path).ok().map(|found| found.dev());
    let devices = all.iter().map(device);
    match system.filter(|_| all.len() >= TOGETHER) {
        Some(system) if store.is_system_of(system, devices) => sync_system(store, system)?,
        _ => all.iter().try_for_each(|path| Folder::open(&store.0.disk, path)?.sync())?,
    }
    let mut fresh = store.0.fresh.lock().unwrap_or_else(PoisonError::into_inner);
    for made in &settled {
        fresh.remove(made);
    }
    Ok(())
}

/// What is in the place of an object to be replaced or removed.
enum Target {
    /// Nothing.
    Missing,
    /// An object that nobody else can change while its lock is held, here or by the caller.
    Locked(Option<WriterLock>),
    /// An object that cannot be locked, and therefore is not changed in place by anyone.
    Unlocked,
}

/// Keeps away writers that change the object in place while it is being replaced or removed: what
/// they wrote to a file without a name would be lost.
fn lock_target(disk: &Disk, path: &Path, condition: &Condition) -> Result<Target, StoreError> {
    if let Condition::Held { held, .. } = condition
        && let Some(hold) = held.get::<FileHold>()
        && hold.lock.is_of(disk, path)?
    {
        return Ok(Target::Locked(None));
    }
    match WriterLock::wait(disk, path) {
        Ok(Some(lock)) => Ok(Target::Locked(Some(lock))),
        Ok(None) => Ok(Target::Missing),
        // Where there are no locks nobody changes anything in place, and what this process cannot
        // open nobody else can either.
        Err(StoreError::Io { source, .. })
            if lacks_locks(&source)
                || matches!(
                    source.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory
                ) =>
        {
            Ok(Target::Unlocked)
        }
        Err(error) => Err(error),
    }
}

/// Removes the journal of an object that no longer exists.
fn forget_journal(folder: &Folder, name: &OsStr) -> Result<(), StoreError> {
    let Some(name) = name.to_str().map(journal_name) else { return Ok(()) };
    let name = OsStr::new(&name);
    if !folder.has(name)? {
        return Ok(());
    }
    // A power failure may preserve either of the two name changes without the other. The old object
    // without its journal might be unreadable, so its removal has to be durable first.
    folder.sync()?;
    folder.remove(name)
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn name(path: &Path) -> Result<&OsStr, StoreError> {
    path.file_name().ok_or_else(|| failed("name", path, io::ErrorKind::InvalidInput))
}
