use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::temporary::{Temporary, is_own_file};
use super::{FileStore, failed};
use crate::error::check_head;
use crate::{
    COPY_PIECE, Condition, CreateOptions, Key, Object, ObjectWriter, ReadRange, Staged, StoreError,
};

/// A file being written under a temporary name.
#[derive(Debug)]
pub(super) struct FileWriter {
    // Dropped in this order: closed, then removed.
    file: File,
    temporary: Temporary,
    store: FileStore,
    /// Opened before the first byte is written.
    system: Option<Arc<File>>,
    key: Key,
    path: PathBuf,
    options: CreateOptions,
    /// Where the next bytes go. They are claimed first and written afterwards, so that no writer
    /// waits for another.
    end: AtomicU64,
    /// How many of the claimed bytes have not been written. Any that remain at the end are a hole.
    unwritten: AtomicU64,
}

/// A completely written file under a temporary name.
pub(super) struct FileStaged {
    pub file: File,
    pub temporary: Temporary,
    pub store: FileStore,
    pub system: Option<Arc<File>>,
    pub key: Key,
    pub path: PathBuf,
    pub condition: Condition,
}

impl FileWriter {
    pub fn create(
        store: &FileStore,
        key: &Key,
        options: CreateOptions,
    ) -> Result<Self, StoreError> {
        if key.as_str().split('/').any(is_own_file) {
            let reason = "a part would be taken for a temporary file";
            return Err(StoreError::Key { text: key.to_string(), reason });
        }
        let path = store.path(key);
        let folder = path.parent().unwrap_or(store.root());
        let (temporary, file) = begin(store, folder, &path)?;
        let kept = store.0.modes.apply_to_file(&file);
        kept.map_err(|e| failed("set the mode of a file for", &path, e))?;
        Ok(Self {
            file,
            temporary,
            store: store.clone(),
            system: store.sync_handle(),
            key: key.clone(),
            path,
            end: AtomicU64::new(options.head),
            unwritten: AtomicU64::new(0),
            options,
        })
    }

    /// Claims `len` bytes at the end.
    fn claim(&self, len: u64) -> Result<u64, StoreError> {
        // Files end at the largest signed offset.
        let grown = |end: u64| end.checked_add(len).filter(|&end| i64::try_from(end).is_ok());
        let offset = self
            .end
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown)
            .map_err(|_| failed("append to", &self.path, io::ErrorKind::FileTooLarge))?;
        self.unwritten.fetch_add(len, Ordering::Relaxed);
        Ok(offset)
    }

    /// Claims `len` bytes at the end, has them written, and returns their offset.
    fn fill(
        &self,
        len: u64,
        write: impl FnOnce(u64) -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        let offset = self.claim(len)?;
        write(offset)?;
        self.unwritten.fetch_sub(len, Ordering::Relaxed);
        Ok(offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), StoreError> {
        let (disk, path) = (&self.store.0.disk, self.temporary.path());
        disk.write(&self.file, path, data, offset).map_err(|e| failed("write", &self.path, e))
    }

    /// Copies piecewise through memory what the kernel cannot move.
    fn copy(&self, source: &dyn Object, range: Range<u64>, to: u64) -> Result<(), StoreError> {
        let (mut from, mut to) = (range.start, to);
        while from < range.end {
            let piece = from..range.end.min(from.saturating_add(COPY_PIECE));
            let data = source.read(ReadRange::Bounded(piece.clone()))?;
            self.write_at(&data, to)?;
            to += piece.end - piece.start;
            from = piece.end;
        }
        Ok(())
    }
}

impl ObjectWriter for FileWriter {
    fn append(&self, data: &[u8]) -> Result<u64, StoreError> {
        self.fill(data.len() as u64, |offset| self.write_at(data, offset))
    }

    fn reserve(&self, len: u64) -> Result<Option<u64>, StoreError> {
        self.claim(len).map(Some)
    }

    fn write_reserved(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.write_at(data, offset)?;
        self.unwritten.fetch_sub(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn append_from(&self, source: &dyn Object, range: Range<u64>) -> Result<u64, StoreError> {
        // The source, which knows its own name, reports a wrong range before anything is claimed.
        if range.start > range.end || source.len().is_some_and(|len| range.end > len) {
            return self.append(&source.read(ReadRange::Bounded(range))?);
        }
        self.fill(range.end - range.start, |offset| {
            // An observer of the disk wants to see the bytes.
            let moved = match source.file().filter(|_| !self.store.0.disk.is_watched()) {
                Some(file) => move_in_kernel(file, range.clone(), &self.file, offset)
                    .map_err(|e| failed("copy into", &self.path, e))?,
                None => 0,
            };
            self.copy(source, range.start + moved..range.end, offset + moved)
        })
    }

    fn finish(self: Box<Self>, head: &[u8]) -> Result<Staged, StoreError> {
        let this = *self;
        check_head(head, this.options.head)
            .map_err(|e| failed("write the head of", &this.path, e))?;
        let unwritten = this.unwritten.load(Ordering::Relaxed);
        if unwritten != 0 {
            let message = format!("{unwritten} bytes of it could not be written earlier");
            return Err(failed("finish", &this.path, io::Error::other(message)));
        }
        this.write_at(head, 0)?;
        let Self { file, temporary, store, system, key, path, options, .. } = this;
        let condition = options.condition;
        let staged =
            FileStaged { file, temporary, store, system, key: key.clone(), path, condition };
        Ok(Staged::new(key, staged))
    }
}

/// Creates a temporary file in a folder, and the folder if it is missing.
fn begin(store: &FileStore, folder: &Path, path: &Path) -> Result<(Temporary, File), StoreError> {
    let attempt = || {
        store.make_folder(folder)?;
        Temporary::create(&store.0.disk, folder).map_err(|e| failed("create a file for", path, e))
    };
    let mut attempts = 0;
    loop {
        match attempt() {
            // Someone found the folder empty in between, and removed it.
            Err(StoreError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && attempts < 16 =>
            {
                attempts += 1;
            }
            begun => return begun,
        }
    }
}

/// Moves as much of a range as the kernel will, and returns how much that was.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn move_in_kernel(from: &File, range: Range<u64>, to: &File, offset: u64) -> io::Result<u64> {
    use nix::errno::Errno;

    let (Ok(mut read), Ok(mut write)) = (i64::try_from(range.start), i64::try_from(offset)) else {
        return Ok(0);
    };
    let mut left = range.end.saturating_sub(range.start);
    while left > 0 {
        let piece = usize::try_from(left).unwrap_or(usize::MAX).min(1 << 30);
        match nix::fcntl::copy_file_range(from, Some(&mut read), to, Some(&mut write), piece) {
            // The source ends here, or is of a kind that the kernel cannot copy: a read will show
            // which.
            Ok(0) => break,
            Ok(n) => left -= n as u64,
            Err(Errno::EINTR) => {}
            // Two file systems, a special file, an old kernel, a sandbox.
            Err(
                Errno::EXDEV | Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::EPERM,
            ) => break,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(range.end.saturating_sub(range.start) - left)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn move_in_kernel(_: &File, _: Range<u64>, _: &File, _: u64) -> io::Result<u64> {
    Ok(0)
}
