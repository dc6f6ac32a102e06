//! Changing an existing object.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::{Condition, Key, Object, ReadRange, Store, StoreError, Version};

/// An object, in its current version, that is about to be changed.
///
/// In a store with locks, nobody else can change it while this value lives. Elsewhere the first
/// writer wins: publishing or removing under this [`condition`](Self::condition) is a
/// [`StoreError::Conflict`] for the others.
#[derive(Debug)]
pub struct Edit {
    /// The object, for reading.
    pub object: Arc<dyn Object>,
    /// Its version.
    pub version: Version,
    held: Option<Arc<dyn Held>>,
}

impl Edit {
    /// An edit of the current version of an object in a store without locks. Such a store
    /// implements [`Store::edit`] with this.
    pub fn by_version<S: Store + ?Sized>(store: &S, key: &Key) -> Result<Self, StoreError> {
        let object = store.open(key, None)?;
        if object.version().is_none() {
            // A store where opening is free learns the version with the first read.
            object.read(ReadRange::Bounded(0..0))?;
        }
        let changed = || StoreError::Changed { key: key.clone() };
        let version = object.version().ok_or_else(changed)?;
        Ok(Self::unlocked(object, version))
    }

    /// An edit in a store without locks.
    pub fn unlocked(object: Arc<dyn Object>, version: Version) -> Self {
        Self { object, version, held: None }
    }

    /// An edit in a store with locks.
    pub fn locked(object: Arc<dyn Object>, version: Version, held: Arc<dyn Held>) -> Self {
        Self { object, version, held: Some(held) }
    }

    /// The same edit with another view of the object, for stores that wrap others.
    pub fn with_object(self, object: Arc<dyn Object>) -> Self {
        Self { object, ..self }
    }

    /// The condition under which the object may be replaced or removed.
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
    /// `guard` is the range of the bytes that determine which others are live (the index of a
    /// shard). [`StoreError::Unsupported`] if the store cannot make such a change safely, in
    /// general or for this object.
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

/// What a store holds on to while an object is being changed.
pub trait Held: Any + Debug + Send + Sync {
    /// Begins a change in place. See [`Edit::in_place`].
    fn in_place(self: Arc<Self>, guard: Range<u64>) -> Result<Box<dyn InPlace>, StoreError>;
}

/// A hold on an object, as part of a [`Condition`].
#[derive(Debug, Clone)]
pub struct Holding(Arc<dyn Held>);

impl Holding {
    /// What the store itself put in; `None` if it is of another type.
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

/// A change of an object in place: nobody sees any of it before the switch, and everybody sees all
/// of it afterwards.
///
/// A process that dies halfway leaves the object in its old or its new state, for everyone who
/// reads it through such a store. Dropping this undoes what was written.
pub trait InPlace: Debug + Send + Sync {
    /// Whether unreferenced bytes may be overwritten, because nobody has the object open for
    /// reading who might have seen them referenced. If so, nobody can open it until the change is
    /// over.
    fn shut_out_readers(&mut self) -> bool;

    /// Writes bytes past the end and returns their offset. They are not durable before the switch.
    fn append(&mut self, data: &[u8]) -> Result<u64, StoreError>;

    /// Writes the last bytes, to unreferenced places, then switches: `new` is written at `at`, and
    /// the object ends at `len`. Durable on return.
    ///
    /// `at` is where the guarded bytes are, or past all bytes that were there before. An error
    /// leaves the object in one of the two states.
    fn switch(
        self: Box<Self>,
        last: &[(u64, &[u8])],
        at: u64,
        new: &[u8],
        len: u64,
    ) -> Result<Version, StoreError>;
}
