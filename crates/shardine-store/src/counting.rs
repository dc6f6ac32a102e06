use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::layer::{self, Step};
use crate::{
    Buffer, Done, FolderExchange, Folders, Key, Object, ObjectWriter, ReadRange, Staged, Store,
    StoreError,
};

/// A call seen by a [`CountingStore`], including calls that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// An object was opened.
    Open {
        /// Its key.
        key: Key,
    },
    /// A range was read, alone or in a batch.
    Read {
        /// The object.
        key: Key,
        /// The requested range.
        range: ReadRange,
        /// How many bytes were returned; 0 if the read failed.
        bytes: u64,
    },
    /// An open object was checked for changes.
    Check {
        /// Its key.
        key: Key,
    },
    /// A new object was started.
    Create {
        /// Its key.
        key: Key,
    },
    /// Bytes were appended to a new object, from memory or from another object.
    Append {
        /// The object.
        key: Key,
        /// How many.
        bytes: u64,
    },
    /// Objects were published.
    Publish {
        /// Their keys, in the order of publication.
        keys: Vec<Key>,
    },
    /// An object was removed.
    Delete {
        /// Its key.
        key: Key,
    },
    /// A prefix was listed.
    List {
        /// The prefix; `None` is the root.
        prefix: Option<Key>,
    },
    /// An attempt to remove a folder if it is empty.
    RemoveFolder {
        /// The folder.
        folder: Key,
    },
}

/// How many calls of each kind a [`CountingStore`] has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Objects opened.
    pub opens: u64,
    /// Ranges read, alone or in a batch.
    pub reads: u64,
    /// Bytes returned by these reads.
    pub bytes_read: u64,
    /// Checks whether an open object is unchanged.
    pub checks: u64,
    /// Objects started.
    pub creates: u64,
    /// Appends to new objects, from memory or from another object.
    pub appends: u64,
    /// Bytes passed to these appends.
    pub bytes_appended: u64,
    /// Batches published.
    pub publishes: u64,
    /// Objects removed.
    pub deletes: u64,
    /// Prefixes listed.
    pub lists: u64,
    /// Attempts to remove a folder if it is empty.
    pub folder_removals: u64,
}

/// Forwards everything to another store and records the calls, so that a test can check what an
/// operation costs. Clones share the record.
///
/// Reads in a batch are counted one by one. Bytes moved from file to file are still moved in the
/// kernel; they count as an append, not as a read. The capabilities [`folders`](Store::folders) and
/// [`exchange`](Store::exchange) and the store [`above`](Store::above) are withheld, since calls to
/// them would bypass the count.
#[derive(Debug, Clone)]
pub struct CountingStore<S> {
    inner: S,
    log: Log,
    passes_folders: bool,
    passes_above: bool,
}

#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<Call>>>);

impl Log {
    fn add(&self, call: Call) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}

impl<S> CountingStore<S> {
    /// Wraps a store, with no calls recorded.
    pub fn new(inner: S) -> Self {
        Self { inner, log: Log::default(), passes_folders: false, passes_above: false }
    }

    /// Forwards [`folders`](Store::folders), so that code that depends on objects being files
    /// behaves as it does without counting.
    pub fn passing_folders(self) -> Self {
        Self { passes_folders: true, ..self }
    }

    /// Forwards [`above`](Store::above). Calls to that store are not counted.
    pub fn passing_above(self) -> Self {
        Self { passes_above: true, ..self }
    }

    /// The store behind this one.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// All calls since the start or the last [`reset`](Self::reset); calls from several threads are
    /// in the order in which they ended.
    pub fn calls(&self) -> Vec<Call> {
        self.log.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of these calls by kind.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for call in self.log.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            match call {
                Call::Open { .. } => counts.opens += 1,
                Call::Read { bytes, .. } => {
                    counts.reads += 1;
                    counts.bytes_read += bytes;
                }
                Call::Check { .. } => counts.checks += 1,
                Call::Create { .. } => counts.creates += 1,
                Call::Append { bytes, .. } => {
                    counts.appends += 1;
                    counts.bytes_appended += bytes;
                }
                Call::Publish { .. } => counts.publishes += 1,
                Call::Delete { .. } => counts.deletes += 1,
                Call::List { .. } => counts.lists += 1,
                Call::RemoveFolder { .. } => counts.folder_removals += 1,
            }
        }
        counts
    }

    /// Forgets all calls.
    pub fn reset(&self) {
        self.log.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl<S: Store> layer::StoreLayer for CountingStore<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.inner
    }

    fn before(&self, step: Step<'_>) -> Result<(), StoreError> {
        self.log.add(match step {
            Step::Open(key) => Call::Open { key: key.clone() },
            Step::Create(key) => Call::Create { key: key.clone() },
            Step::Publish(staged) => {
                Call::Publish { keys: staged.iter().map(|s| s.key.clone()).collect() }
            }
            Step::Delete(key) => Call::Delete { key: key.clone() },
            Step::List(prefix) => Call::List { prefix: prefix.cloned() },
            Step::RemoveFolder(folder) => Call::RemoveFolder { folder: folder.clone() },
        });
        Ok(())
    }

    fn object(&self, key: &Key, inner: Arc<dyn Object>) -> Arc<dyn Object> {
        Arc::new(CountingObject { inner, key: key.clone(), log: self.log.clone() })
    }

    fn writer(&self, key: &Key, inner: Box<dyn ObjectWriter>) -> Box<dyn ObjectWriter> {
        Box::new(CountingWriter { inner, key: key.clone(), log: self.log.clone() })
    }

    fn folders(&self) -> Option<&dyn Folders> {
        self.inner.folders().filter(|_| self.passes_folders)
    }

    fn exchange(&self) -> Option<&dyn FolderExchange> {
        None
    }

    fn above(&self) -> Option<(Arc<dyn Store>, Key)> {
        self.inner.above().filter(|_| self.passes_above)
    }
}

#[derive(Debug)]
struct CountingObject {
    inner: Arc<dyn Object>,
    key: Key,
    log: Log,
}

impl layer::ObjectLayer for CountingObject {
    fn inner(&self) -> &Arc<dyn Object> {
        &self.inner
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        let result = self.inner.read(range.clone());
        let bytes = result.as_ref().map_or(0, |buffer| buffer.len() as u64);
        self.log.add(Call::Read { key: self.key.clone(), range, bytes });
        result
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        let (inner, asked) = (Arc::clone(&self.inner), range.clone());
        inner.read_then(
            range,
            Box::new(move |result| {
                let bytes = result.as_ref().map_or(0, |buffer| buffer.len() as u64);
                self.log.add(Call::Read { key: self.key.clone(), range: asked, bytes });
                done(result);
            }),
        );
    }

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let result = self.inner.read_into(start, into);
        let bytes = if result.is_ok() { into.len() as u64 } else { 0 };
        let range = ReadRange::Bounded(start..start.saturating_add(into.len() as u64));
        self.log.add(Call::Read { key: self.key.clone(), range, bytes });
        result
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.log.add(Call::Check { key: self.key.clone() });
        self.inner.check_unchanged()
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        self.log.add(Call::Check { key: self.key.clone() });
        self.inner.is_current()
    }
}

#[derive(Debug)]
struct CountingWriter {
    inner: Box<dyn ObjectWriter>,
    key: Key,
    log: Log,
}

impl ObjectWriter for CountingWriter {
    fn append(&self, data: &[u8]) -> Result<u64, StoreError> {
        self.log.add(Call::Append { key: self.key.clone(), bytes: data.len() as u64 });
        self.inner.append(data)
    }

    fn reserve(&self, len: u64) -> Result<Option<u64>, StoreError> {
        self.inner.reserve(len)
    }

    fn write_reserved(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.log.add(Call::Append { key: self.key.clone(), bytes: data.len() as u64 });
        self.inner.write_reserved(offset, data)
    }

    fn append_from(&self, source: &dyn Object, range: Range<u64>) -> Result<u64, StoreError> {
        let bytes = range.end.saturating_sub(range.start);
        self.log.add(Call::Append { key: self.key.clone(), bytes });
        self.inner.append_from(source, range)
    }

    fn finish(self: Box<Self>, head: &[u8]) -> Result<Staged, StoreError> {
        self.inner.finish(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::ThreadEach;
    use crate::{Condition, CreateOptions, FileStore, MemoryStore, Read, StoreExt};

    #[test]
    fn every_call_is_counted_and_recorded() {
        let store = CountingStore::new(MemoryStore::new());
        let key = Key::new("a/b").unwrap();
        store.put(&key, b"hello", Condition::Absent).unwrap();
        let object = store.open(&key, None).unwrap();
        object.read(ReadRange::Suffix(2)).unwrap();
        object.read(ReadRange::Suffix(9)).unwrap_err();
        object.check_unchanged().unwrap();
        store.list(None).unwrap();
        store.delete(&key, &Condition::None).unwrap();
        let folder = Key::new("a").unwrap();
        store.remove_empty_folder(&folder).unwrap();
        let key = || key.clone();
        assert_eq!(
            store.calls(),
            [
                Call::Create { key: key() },
                Call::Append { key: key(), bytes: 5 },
                Call::Publish { keys: vec![key()] },
                Call::Open { key: key() },
                Call::Read { key: key(), range: ReadRange::Suffix(2), bytes: 2 },
                Call::Read { key: key(), range: ReadRange::Suffix(9), bytes: 0 },
                Call::Check { key: key() },
                Call::List { prefix: None },
                Call::Delete { key: key() },
                Call::RemoveFolder { folder },
            ]
        );
        let expected = Counts {
            opens: 1,
            reads: 2,
            bytes_read: 2,
            checks: 1,
            creates: 1,
            appends: 1,
            bytes_appended: 5,
            publishes: 1,
            deletes: 1,
            lists: 1,
            folder_removals: 1,
        };
        assert_eq!(store.counts(), expected);
        store.reset();
        assert_eq!(store.counts(), Counts::default());
    }

    #[test]
    fn reads_of_a_batch_are_counted_one_by_one() {
        let store = CountingStore::new(MemoryStore::new());
        let key = Key::new("a").unwrap();
        store.put(&key, b"hello", Condition::None).unwrap();
        let object = store.open(&key, None).unwrap();
        let read = |range| Read { object: Arc::clone(&object), range: ReadRange::Bounded(range) };
        let mut reads = [read(0..1), read(1..4)].into_iter();
        store.read_batch(&ThreadEach, &mut reads, &|_, answer| assert!(answer.is_ok()));
        assert_eq!((store.counts().reads, store.counts().bytes_read), (2, 4));
    }

    #[test]
    fn a_move_from_file_to_file_is_not_read_through_memory() {
        let folder = tempfile::tempdir().unwrap();
        let store = CountingStore::new(FileStore::new(folder.path()));
        let (from, to) = (Key::new("from").unwrap(), Key::new("to").unwrap());
        store.put(&from, b"hello", Condition::None).unwrap();
        let source = store.open(&from, None).unwrap();
        let writer = store.create(&to, CreateOptions::default()).unwrap();
        writer.append_from(&*source, 1..4).unwrap();
        store.publish(vec![writer.finish(&[]).unwrap()]).unwrap();
        assert_eq!(store.counts().reads, 0);
        assert_eq!(&*store.get(&to).unwrap().unwrap(), b"ell");
    }
}
