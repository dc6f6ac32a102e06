//! Changing an object that exists.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::{Condition, Key, Object, ReadRange, Store, StoreError, Version};

/// An object that is about to be changed, as it is now.
///
/// Where the store has locks, nobody else changes it as long as this lives. Elsewhere whoever is first wins: what is
/// published or removed under its [`condition`](Self::condition) is a [`StoreError::Conflict`] for the others.
#[derive(Debug)]
pub struct Edit {
    /// The object, for reading.
    pub object: Arc<dyn Object>,
    /// Its version.
    pub version: Version,
    held: Option<Arc<dyn Held>>,
}

impl Edit {
    /// Of an object in a store without locks, as it is now: [`Store::edit`] of such a store.
    pub fn by_version<S: Store + ?Sized>(store: &S, key: &Key) -> Result<Self, StoreError> {
        let object = store.open(key, None)?;
        if object.version().is_none() {
            // A store to which opening is free learns the version with the first read.
            object.read(ReadRange::Bounded(0..0))?;
        }
        let changed = || StoreError::Changed { key: key.clone() };
        let version = object.version().ok_or_else(changed)?;
        Ok(Self::unlocked(object, version))
    }

    /// Of a store without locks.
    pub fn unlocked(object: Arc<dyn Object>, version: Version) -> Self {
        Self { object, version, held: None }
    }

    /// Of a store with locks.
    pub fn locked(object: Arc<dyn Object>, version: Version, held: Arc<dyn Held>) -> Self {
        Self { object, version, held: Some(held) }
    }

    /// The same with another view of the object, for stores that wrap others.
    pub fn with_object(self, object: Arc<dyn Object>) -> Self {
        Self { object, ..self }
    }

    /// What must hold for the object to be replaced or removed.
    pub fn condition(&self) -> Condition {
        match &self.held {
            Some(held) => {
                Condition::Held { version: self.version.clone(), held: Holding(Arc::clone(held)) }
            }
            None => Condition::Unchanged(self.version.clone()),
        }
    }

    /// Begins a change in place.
    ///
    /// `guard` is where the bytes are that say which others count (the index of a shard). Where the store cannot
    /// make such a change safe, or not for this object, it is [`StoreError::Unsupported`].
    pub fn in_place(&self, guard: Range<u64>) -> Result<Box<dyn InPlace>, StoreError> {
        match &self.held {
            Some(held) => Arc::clone(held).in_place(guard),
            None => Err(StoreError::Unsupported {
                store: "a store whose objects are only replaced whole".to_owned(),
                operation: "change an object in place",
            }),
        }
    }
}

/// What a store holds while an object is changed.
pub trait Held: Any + Debug + Send + Sync {
    /// Begins a change in place. See [`Edit::in_place`].
    fn in_place(self: Arc<Self>, guard: Range<u64>) -> Result<Box<dyn InPlace>, StoreError>;
}

/// What is held of an object, as part of a [`Condition`].
#[derive(Debug, Clone)]
pub struct Holding(Arc<dyn Held>);

impl Holding {
    /// What the store itself put in.
    pub fn get<T: Held>(&self) -> Option<&T> {
        let held: &dyn Any = &*self.0;
        held.downcast_ref()
    }
}

impl PartialEq for Holding {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Holding {}

/// A change of an object in place: nobody sees any of it before it is switched, and all of it from then on.
///
/// A process that dies in the middle leaves the object as it was or as it was to be, for all who read it with such a
/// store. Dropping this undoes what was written.
pub trait InPlace: Debug + Send + Sync {
    /// Whether bytes that nothing refers to may be overwritten, because nobody has the object open for reading who
    /// may know it from a time when something did. Nobody can open it from then on until the change is over.
    fn shut_out_readers(&mut self) -> bool;

    /// Writes bytes past the end. They are not durable before the switch.
    fn append(&mut self, data: &[u8]) -> Result<u64, StoreError>;

    /// Writes the last bytes, to where nothing is referred to, then switches: `new` takes its place at `at`, and the
    /// object ends at `len`. Durable when it returns.
    ///
    /// `at` is where the guarded bytes are, or past all bytes that were there before. An error leaves the object in
    /// one of the two states.
    fn switch(
        self: Box<Self>,
        last: &[(u64, &[u8])],
        at: u64,
        new: &[u8],
        len: u64,
    ) -> Result<Version, StoreError>;
}
