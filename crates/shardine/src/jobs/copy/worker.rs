//! One thread of a copy.

use std::sync::Arc;
use std::time::Duration;

use shardine_store::{
    Buffer, Condition, CreateOptions, HeaderName, Headers, Key, Object, ObjectWriter, ReadRange,
    Recovery, Staged, Store, StoreError,
};

use super::job::{Job, ObjectTask, Task};
use super::pieces::{Pieces, check_len};
use super::queue::{Queue, Work, Worker};
use super::{CopyCheck, CopyError};
use crate::dataset::names_encoding;
use crate::engine::Permit;
use crate::{EngineError, Error, Location};

/// Attempts to copy an object that keeps changing while it is read.
const ATTEMPTS: usize = 5;

/// Pieces of one object read in parallel, when there are other objects too, and when there are not.
const AHEAD: (u64, u64) = (4, 16);

/// Files made durable together.
const BATCH: usize = 64;

/// Bytes of a file moved in the kernel between two progress reports.
const KERNEL_PIECE: u64 = 64 << 20;

/// Expands a branch into branches and tasks.
type Expand<'a, B> = dyn Fn(B) -> Result<(Vec<B>, Vec<Task>), Error> + Sync + 'a;

pub(super) struct CopyWorker<'a, B> {
    job: &'a Job<'a>,
    queue: &'a Queue<B, Task>,
    expand: &'a Expand<'a, B>,
    /// Written, but not yet published.
    staged: Vec<(Staged, Written)>,
}

/// Length, checksum and encoding.
type Summed = (u64, u32, Option<String>);

/// An object that is written.
struct Written {
    task: ObjectTask,
    len: u64,
    /// Of the bytes as read; `None` if they never passed through memory.
    checksum: Option<u32>,
    /// The encoding of the bytes, which the target has to declare.
    encoding: Option<String>,
}

impl<B: Send> Worker<B, Task> for CopyWorker<'_, B> {
    fn work(&mut self, work: Work<B, Task>) -> Result<(), Error> {
        if self.job.options.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        match work {
            Work::Expand(branch) => {
                let (branches, tasks) = (self.expand)(branch)?;
                self.queue.add(branches, tasks);
                Ok(())
            }
            Work::Do(Task::Object(task)) => self.object(task),
            Work::Do(Task::Pieces(pieces)) => self.pieces(pieces),
        }
    }

    /// Publishes what is written.
    fn idle(&mut self) -> Result<(), Error> {
        let (staged, written): (Vec<_>, Vec<_>) = self.staged.drain(..).unzip();
        if staged.is_empty() {
            return Ok(());
        }
        self.job.target.store.publish(staged)?;
        for Written { task, len, checksum, encoding } in written {
            if self.job.options.check == CopyCheck::Content {
                self.read_back(&task.target, len, checksum, encoding.as_deref())?;
            }
            self.job.copied(&task, len)?;
        }
        Ok(())
    }
}

impl<'a, B: Send> CopyWorker<'a, B> {
    pub fn new(job: &'a Job<'a>, queue: &'a Queue<B, Task>, expand: &'a Expand<'a, B>) -> Self {
        Self { job, queue, expand, staged: Vec::new() }
    }

    fn object(&mut self, task: ObjectTask) -> Result<(), Error> {
        match self.skip(&task) {
            Ok(Some(len)) => return self.job.skipped(&task, len),
            Ok(None) => {}
            Err(StoreError::Changed { .. }) => return self.again(task),
            Err(error) => return Err(error.into()),
        }
        let source = match self.open(self.job.source, &task.source) {
            Ok(source) => source,
            Err(error) => return self.unread(task, error),
        };
        match self.beginning(&task, &source) {
            Ok(Beginning::All(buffer, permit)) => self.small(task, &*source, buffer, permit),
            Ok(Beginning::Part(len, first)) => self.large(task, source, len, first),
            Ok(Beginning::File(len)) => self.file(task, &*source, len),
            Err(error) => self.unread(task, error),
        }
    }

    /// Handles an object that could not be read: it is copied again later, or left out.
    fn unread(&self, task: ObjectTask, error: StoreError) -> Result<(), Error> {
        match error {
            StoreError::Changed { .. } => self.again(task),
            // It is shorter than when it was listed.
            StoreError::OutOfRange { .. } => self.again(task),
            // A shard left with only the fill value is removed, and an array need not have all of
            // them.
            StoreError::NotFound { .. } if !task.needed => {
                self.queue.add(Vec::new(), self.job.absent(task)?);
                Ok(())
            }
            error => Err(error.into()),
        }
    }

    /// Starts over with an object that has changed.
    fn again(&self, mut task: ObjectTask) -> Result<(), Error> {
        task.attempts += 1;
        if task.attempts == ATTEMPTS {
            return Err(EngineError::Unstable { object: task.source, attempts: ATTEMPTS }.into());
        }
        std::thread::sleep(Duration::from_millis(10 << task.attempts));
        task.len = None;
        task.existing = None;
        self.queue.add_first(Task::Object(task));
        Ok(())
    }

    /// The length of an object that the target already has.
    fn skip(&self, task: &ObjectTask) -> Result<Option<u64>, StoreError> {
        let Some(existing) = task.existing else { return Ok(None) };
        let len = match task.len {
            Some(len) => len,
            None => match self
                .open(self.job.source, &task.source)
                .and_then(|o| length(self.job.source, &*o))
            {
                Ok(len) => len,
                Err(StoreError::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        if len != existing {
            return Ok(None);
        }
        if self.job.options.check == CopyCheck::Content {
            let sums = [(self.job.source, &task.source), (self.job.target, &task.target)]
                .map(|(location, key)| self.checksum(location, key));
            let [source, target] = sums;
            // The same bytes with another encoding mean something else.
            if source? != target? {
                return Ok(None);
            }
        }
        Ok(Some(len))
    }

    /// Opens an object as it was before or after an in-place update, whatever became of that.
    ///
    /// Where the target keeps headers, objects are copied as stored. Elsewhere the encoding in
    /// their headers has to be undone, as nothing else would say how to; unless their names say it
    /// too, as `.gz` does.
    fn open(&self, location: &Location, key: &Key) -> Result<Arc<dyn Object>, StoreError> {
        match location.store.recover(key)? {
            Recovery::Before(object) => Ok(object),
            Recovery::Nothing | Recovery::Done if self.keeps_headers() || names_encoding(key) => {
                location.store.open_stored(key)
            }
            Recovery::Nothing | Recovery::Done => location.store.open(key, None),
        }
    }

    fn keeps_headers(&self) -> bool {
        self.job.target.store.keeps_headers()
    }

    /// The encoding of an object's bytes, which the target has to declare.
    fn encoding(&self, headers: &Headers) -> Option<String> {
        let encoding = headers.get(&HeaderName::ContentEncoding);
        encoding.filter(|_| self.keeps_headers()).map(str::to_owned)
    }

    /// Length, checksum and encoding of an object, read piece by piece.
    fn checksum(&self, location: &Location, key: &Key) -> Result<Summed, StoreError> {
        let object = self.open(location, key)?;
        let len = length(location, &*object)?;
        let (mut start, mut checksum) = (0, 0);
        while start < len {
            let end = start.saturating_add(self.job.piece).min(len);
            let _permit = self.job.budget.acquire(end - start);
            let buffer = object.read(ReadRange::Bounded(start..end))?;
            checksum = crc32c::crc32c_append(checksum, &check_len(buffer, end - start)?);
            start = end;
        }
        object.check_unchanged()?;
        Ok((len, checksum, self.encoding(&object.headers())))
    }

    /// Compares what is in the target with what was written.
    fn read_back(
        &self,
        key: &Key,
        len: u64,
        checksum: Option<u32>,
        expected: Option<&str>,
    ) -> Result<(), Error> {
        let (found, sum, encoding) = self.checksum(self.job.target, key)?;
        if found == len && Some(sum) == checksum && encoding.as_deref() == expected {
            return Ok(());
        }
        self.job.target.store.delete(key, &Condition::None)?;
        Err(CopyError::Content { object: key.clone() }.into())
    }

    /// Determines the length of an object, and reads it or its first piece. One request.
    fn beginning(
        &self,
        task: &ObjectTask,
        source: &Arc<dyn Object>,
    ) -> Result<Beginning, StoreError> {
        let (job, known) = (self.job, source.len());
        if let Some(len) = known
            && job.local
            && source.file().is_some()
            && job.options.check != CopyCheck::Content
        {
            return Ok(Beginning::File(len));
        }
        let hint = match known.or(task.len) {
            Some(hint) => hint,
            None => length(job.source, &**source)?,
        };
        if known.is_some() && hint > job.piece {
            return Ok(Beginning::Part(hint, None));
        }
        let first = hint.min(job.piece);
        let permit = job.budget.acquire(first);
        let buffer = source.read(ReadRange::Bounded(0..first))?;
        let buffer = check_len(buffer, first)?;
        let len = length(job.source, &**source)?;
        Ok(match len == first {
            true => Beginning::All(buffer, permit),
            false => Beginning::Part(len, Some((buffer, permit))),
        })
    }

    fn create(
        &self,
        task: &ObjectTask,
        headers: &Headers,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        let (store, options) = (&self.job.target.store, CreateOptions::default());
        match store.keeps_headers() {
            true => store.create_with_headers(&task.target, options, headers),
            false => store.create(&task.target, options),
        }
    }

    fn small(
        &mut self,
        task: ObjectTask,
        source: &dyn Object,
        buffer: Buffer,
        permit: Permit,
    ) -> Result<(), Error> {
        if let Err(error) = source.check_unchanged() {
            return self.unread(task, error);
        }
        let headers = source.headers();
        let writer = self.create(&task, &headers)?;
        let (len, checksum) = (buffer.len() as u64, crc32c::crc32c(&buffer));
        if len > 0 {
            writer.append(&buffer)?;
        }
        drop(buffer);
        self.job.moved(len);
        // A remote store keeps the bytes in memory until they are sent, which is now.
        let written = self.written(task, writer, len, Some(checksum), self.encoding(&headers));
        drop(permit);
        written
    }

    /// Moves a file in the kernel.
    fn file(&mut self, task: ObjectTask, source: &dyn Object, len: u64) -> Result<(), Error> {
        let writer = self.create(&task, &Headers::default())?;
        let mut start = 0;
        while start < len {
            let end = start.saturating_add(KERNEL_PIECE).min(len);
            writer.append_from(source, start..end)?;
            self.job.moved(end - start);
            start = end;
        }
        if let Err(error) = source.check_unchanged() {
            self.job.unmoved(len);
            return self.unread(task, error);
        }
        self.written(task, writer, len, None, None)
    }

    fn large(
        &mut self,
        task: ObjectTask,
        source: Arc<dyn Object>,
        len: u64,
        first: Option<(Buffer, Permit)>,
    ) -> Result<(), Error> {
        let writer = self.create(&task, &source.headers())?;
        let pieces = Pieces::new(source, writer, len, self.job.piece);
        if let Some((buffer, permit)) = first {
            let bytes = buffer.len() as u64;
            pieces.begin_with(buffer, permit);
            self.job.moved(bytes);
        }
        let busy = self.queue.waiting() >= self.job.threads;
        let ahead = if busy { AHEAD.0 } else { AHEAD.1 };
        let others = ahead.min(pieces.count()).min(self.job.threads as u64).saturating_sub(1);
        let pieces = Arc::new((pieces, task));
        for _ in 0..others {
            self.queue.add_first(Task::Pieces(Arc::clone(&pieces)));
        }
        self.pieces(pieces)
    }

    /// Moves pieces of a large object; the last thread to do so ends it.
    fn pieces(&mut self, pieces: Arc<(Pieces, ObjectTask)>) -> Result<(), Error> {
        let cancel = &self.job.options.cancel;
        let stop = || self.queue.has_failed() || cancel.is_cancelled();
        pieces.0.work(&self.job.budget, &stop, &|bytes| self.job.moved(bytes));
        let Some((pieces, task)) = Arc::into_inner(pieces) else { return Ok(()) };
        let moved = pieces.written();
        match pieces.end() {
            Ok(moved) => {
                let encoding = self.encoding(&moved.headers);
                self.written(task, moved.writer, moved.len, Some(moved.checksum), encoding)
            }
            Err(error) => {
                self.job.unmoved(moved);
                self.unread(task, error)
            }
        }
    }

    fn written(
        &mut self,
        task: ObjectTask,
        writer: Box<dyn ObjectWriter>,
        len: u64,
        checksum: Option<u32>,
        encoding: Option<String>,
    ) -> Result<(), Error> {
        let staged = writer.finish(&[])?;
        self.staged.push((staged, Written { task, len, checksum, encoding }));
        // A remote store is called immediately, so that the requests of all threads are in flight
        // in parallel.
        let batch = if self.job.target.store.read_cost().local { BATCH } else { 1 };
        if self.staged.len() >= batch { self.idle() } else { Ok(()) }
    }
}

/// What is known about an object after its first read.
enum Beginning {
    /// All of it.
    All(Buffer, Permit),
    /// Its length, and its first piece if that was read.
    Part(u64, Option<(Buffer, Permit)>),
    /// The length of a file that the kernel can move.
    File(u64),
}

/// The length of an object. No request if it is known, else one.
fn length(location: &Location, object: &dyn Object) -> Result<u64, StoreError> {
    if let Some(len) = object.len() {
        return Ok(len);
    }
    object.read(ReadRange::Bounded(0..0))?;
    let (store, operation) = (location.store.name(), "report the length of an object");
    object.len().ok_or(StoreError::Unsupported { store, operation })
}
