use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::layer::{self, Step};
use crate::{
    Buffer, Done, FolderExchange, Folders, Key, Object, ObjectWriter, Pending, ReadRange, Staged,
    Store, StoreError, Version,
};

/// An operation that a [`FaultStore`] can be told to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Opening an object.
    Open,
    /// A read, alone or in a batch.
    Read,
    /// Starting a new object.
    Create,
    /// Appending to a new object, from memory or from another object.
    Append,
    /// Finishing a new object.
    Finish,
    /// Publishing one object. Those before it in its batch are published, those after it are not.
    Publish,
    /// The answer to publishing a batch, counted in batches: all of it is published, but the caller
    /// gets an error.
    PublishAnswer,
    /// Removing an object.
    Delete,
    /// Listing a prefix.
    List,
    /// Removing a folder if it is empty.
    RemoveFolder,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Create => "create",
            Self::Append => "append to",
            Self::Finish => "finish",
            Self::Publish => "publish",
            Self::PublishAnswer => "learn the outcome of publishing",
            Self::Delete => "delete",
            Self::List => "list",
            Self::RemoveFolder => "remove the folder",
        }
    }
}

/// Forwards everything to another store, but fails where it is told to, so that a test can show
/// that nothing is torn. Clones share their faults.
///
/// The capabilities [`folders`](Store::folders) and [`exchange`](Store::exchange) and the store
/// [`above`](Store::above) are withheld, since calls to them would bypass the faults.
///
/// ```
/// use shardine_store::{Condition, FaultStore, Key, MemoryStore, Operation, StoreError, StoreExt};
///
/// let store = FaultStore::new(MemoryStore::new());
/// let key = Key::new("zarr.json")?;
/// store.fail(Operation::Append, 0);
/// assert!(matches!(store.put(&key, b"{}", Condition::None), Err(StoreError::Io { .. })));
/// assert!(store.get(&key)?.is_none());
/// store.put(&key, b"{}", Condition::None)?;
/// # Ok::<(), StoreError>(())
/// ```
#[derive(Debug, Clone)]
pub struct FaultStore<S> {
    inner: S,
    faults: Faults,
}

/// Operations that are to fail, with the number of them that succeed first.
#[derive(Debug, Clone, Default)]
struct Faults(Arc<Mutex<Vec<(Operation, u64)>>>);

impl Faults {
    fn pass(&self, operation: Operation, key: Option<&Key>) -> Result<(), StoreError> {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = false;
        faults.retain_mut(|(at, left)| {
            if *at != operation {
                return true;
            }
            due |= *left == 0;
            let stays = *left > 0;
            *left = left.saturating_sub(1);
            stays
        });
        if !due {
            return Ok(());
        }
        let path = key.map_or_else(|| "the root".to_owned(), Key::to_string);
        let source = io::Error::other("a fault was injected");
        Err(StoreError::Io { operation: operation.text(), path, source })
    }
}

impl<S> FaultStore<S> {
    /// Wraps a store, with no faults so far.
    pub fn new(inner: S) -> Self {
        Self { inner, faults: Faults::default() }
    }

    /// The store behind this one.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Lets `operation` succeed `after` more times and then fail once. Several faults may be
    /// pending.
    pub fn fail(&self, operation: Operation, after: u64) {
        self.faults.0.lock().unwrap_or_else(PoisonError::into_inner).push((operation, after));
    }

    /// How many faults have not happened yet. A test that stepped past the last operation finds one
    /// here.
    pub fn waiting(&self) -> usize {
        self.faults.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Cancels the faults that have not happened yet.
    pub fn clear(&self) {
        self.faults.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl<S: Store> layer::StoreLayer for FaultStore<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.inner
    }

    fn before(&self, step: Step<'_>) -> Result<(), StoreError> {
        match step {
            Step::Open(key) => self.faults.pass(Operation::Open, Some(key)),
            Step::Create(key) => self.faults.pass(Operation::Create, Some(key)),
            // Counted in objects, below.
            Step::Publish(_) => Ok(()),
            Step::Delete(key) => self.faults.pass(Operation::Delete, Some(key)),
            Step::List(prefix) => self.faults.pass(Operation::List, prefix),
            Step::RemoveFolder(folder) => self.faults.pass(Operation::RemoveFolder, Some(folder)),
        }
    }

    fn object(&self, key: &Key, inner: Arc<dyn Object>) -> Arc<dyn Object> {
        Arc::new(FaultObject { inner, key: key.clone(), faults: self.faults.clone() })
    }

    fn writer(&self, key: &Key, inner: Box<dyn ObjectWriter>) -> Box<dyn ObjectWriter> {
        Box::new(FaultWriter { inner, key: key.clone(), faults: self.faults.clone() })
    }

    fn publish(&self, mut staged: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
        let first = staged.first().map(|s| s.key.clone());
        let fault = staged.iter().enumerate().find_map(|(i, s)| {
            self.faults.pass(Operation::Publish, Some(&s.key)).err().map(|error| (i, error))
        });
        if let Some((i, error)) = fault {
            staged.truncate(i);
            self.inner.publish(staged)?;
            return Err(error);
        }
        let versions = self.inner.publish(staged)?;
        self.faults.pass(Operation::PublishAnswer, first.as_ref())?;
        Ok(versions)
    }

    /// Publishes immediately, so that faults occur in the order in which objects are published.
    fn publish_later(&self, staged: Vec<Staged>) -> Pending {
        Pending::done(Store::publish(self, staged))
    }

    fn folders(&self) -> Option<&dyn Folders> {
        None
    }

    fn exchange(&self) -> Option<&dyn FolderExchange> {
        None
    }

    fn above(&self) -> Option<(Arc<dyn Store>, Key)> {
        None
    }
}

#[derive(Debug)]
struct FaultObject {
    inner: Arc<dyn Object>,
    key: Key,
    faults: Faults,
}

impl layer::ObjectLayer for FaultObject {
    fn inner(&self) -> &Arc<dyn Object> {
        &self.inner
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        self.faults.pass(Operation::Read, Some(&self.key))?;
        self.inner.read(range)
    }

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        self.faults.pass(Operation::Read, Some(&self.key))?;
        self.inner.read_into(start, into)
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        match self.faults.pass(Operation::Read, Some(&self.key)) {
            Ok(()) => Arc::clone(&self.inner).read_then(range, done),
            Err(error) => done(Err(error)),
        }
    }
}

#[derive(Debug)]
struct FaultWriter {
    inner: Box<dyn ObjectWriter>,
    key: Key,
    faults: Faults,
}

impl ObjectWriter for FaultWriter {
    fn append(&self, data: &[u8]) -> Result<u64, StoreError> {
        self.faults.pass(Operation::Append, Some(&self.key))?;
        self.inner.append(data)
    }

    fn reserve(&self, len: u64) -> Result<Option<u64>, StoreError> {
        self.inner.reserve(len)
    }

    fn write_reserved(&self, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        self.faults.pass(Operation::Append, Some(&self.key))?;
        self.inner.write_reserved(offset, data)
    }

    fn append_from(&self, source: &dyn Object, range: Range<u64>) -> Result<u64, StoreError> {
        self.faults.pass(Operation::Append, Some(&self.key))?;
        self.inner.append_from(source, range)
    }

    fn finish(self: Box<Self>, head: &[u8]) -> Result<Staged, StoreError> {
        self.faults.pass(Operation::Finish, Some(&self.key))?;
        self.inner.finish(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, CreateOptions, MemoryStore, StoreExt};

    #[test]
    fn the_chosen_read_fails_and_the_others_do_not() {
        let store = FaultStore::new(MemoryStore::new());
        let key = Key::new("a").unwrap();
        store.put(&key, b"hello", Condition::None).unwrap();
        store.fail(Operation::Read, 1);
        assert!(store.get(&key).is_ok());
        assert_eq!(store.waiting(), 1);
        let error = store.get(&key).unwrap_err();
        assert_eq!(error.to_string(), "cannot read \"a\": a fault was injected");
        assert!(store.get(&key).is_ok());
        assert_eq!(store.waiting(), 0);
    }

    #[test]
    fn a_batch_that_fails_in_the_middle_is_published_up_to_there() {
        let store = FaultStore::new(MemoryStore::new());
        let staged = ["a", "b", "c"].map(|key| {
            let key = Key::new(key).unwrap();
            store.create(&key, CreateOptions::default()).unwrap().finish(&[]).unwrap()
        });
        store.fail(Operation::Publish, 1);
        store.publish(staged.into()).unwrap_err();
        assert_eq!(store.list(None).unwrap().objects, [(Key::new("a").unwrap(), 0)]);
    }

    #[test]
    fn a_lost_answer_leaves_the_object_published() {
        let store = FaultStore::new(MemoryStore::new());
        let key = Key::new("a").unwrap();
        store.fail(Operation::PublishAnswer, 0);
        store.put(&key, b"hello", Condition::None).unwrap_err();
        assert_eq!(&*store.get(&key).unwrap().unwrap(), b"hello");
    }
}
