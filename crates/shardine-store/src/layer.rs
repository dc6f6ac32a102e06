//! Stores and objects that wrap others.
//!
//! A [`StoreLayer`] implements only what it changes; the default methods forward every other call
//! to the wrapped store. One blanket implementation makes each layer a [`Store`], and it does not
//! compile until a new method of `Store` is forwarded. [`ObjectLayer`] does the same for objects.
//! [`check_layer`](crate::conformance::check_layer) checks that a layer changes only what it
//! declares.
//!
//! The methods have the same names as those of `Store` and `Object`. To keep calls unambiguous,
//! refer to these traits by path instead of importing them:
//!
//! ```
//! use std::sync::Arc;
//!
//! use shardine_store::{Condition, Key, MemoryStore, Store, StoreError, StoreExt, layer};
//!
//! /// A store that cannot be listed.
//! #[derive(Debug)]
//! struct Unlisted(MemoryStore);
//!
//! impl layer::StoreLayer for Unlisted {
//!     type Inner = MemoryStore;
//!
//!     fn inner(&self) -> &MemoryStore {
//!         &self.0
//!     }
//!
//!     fn can_list(&self) -> bool {
//!         false
//!     }
//! }
//!
//! let store: Arc<dyn Store> = Arc::new(Unlisted(MemoryStore::new()));
//! store.put(&Key::new("a")?, b"hello", Condition::None)?;
//! assert!(!store.can_list());
//! # Ok::<(), StoreError>(())
//! ```

use std::fmt::Debug;
use std::fs::File;
use std::sync::Arc;

use crate::{
    Buffer, Condition, CreateOptions, Done, Edit, FolderExchange, Folders, Headers, Key, Leftover,
    Listing, Object, ObjectWriter, Pending, ReadCost, ReadRange, Recovery, Staged, Store,
    StoreError, Version,
};

/// A call that is about to be forwarded, as seen by [`StoreLayer::before`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Step<'a> {
    /// An object is opened, for reading or for editing.
    Open(&'a Key),
    /// A new object is started.
    Create(&'a Key),
    /// These objects are published.
    Publish(&'a [Staged]),
    /// An object is removed.
    Delete(&'a Key),
    /// A prefix is listed.
    List(Option<&'a Key>),
    /// A folder is removed if it is empty.
    RemoveFolder(&'a Key),
}

/// Declares each method once, with its default body, and generates both the method of the layer and
/// the method of `Store` that calls it.
macro_rules! store_layer {
    (
        $(#[$about:meta])*
        trait { $($own:tt)* }
        $(
            fn $name:ident(&$this:ident $(, $arg:ident: $of:ty)* $(,)?) $(-> $answer:ty)? $body:block
        )*
    ) => {
        $(#[$about])*
        pub trait StoreLayer: Debug + Send + Sync {
            $($own)*
            $(
                #[doc = concat!("See [`Store::", stringify!($name), "`].")]
                fn $name(&$this $(, $arg: $of)*) $(-> $answer)? $body
            )*
        }

        /// The names of all methods of a store.
        pub(crate) const STORE_METHODS: &[&str] = &[$(stringify!($name)),*];

        impl<L: StoreLayer> Store for L {
            $(
                fn $name(&$this $(, $arg: $of)*) $(-> $answer)? {
                    StoreLayer::$name($this $(, $arg)*)
                }
            )*
        }
    };
}

store_layer! {
    /// A store that wraps another one.
    ///
    /// Besides the methods of [`Store`] there are three hooks that see all calls of a kind:
    /// [`before`](Self::before), [`object`](Self::object) and [`writer`](Self::writer). Use these
    /// to wrap objects: there are several ways to open one, and a hook misses none.
    trait {
        /// The type of the wrapped store.
        type Inner: Store + ?Sized;

        /// The wrapped store.
        fn inner(&self) -> &Self::Inner;

        /// Runs before a call is forwarded; an error is returned to the caller instead.
        fn before(&self, _: Step<'_>) -> Result<(), StoreError> {
            Ok(())
        }

        /// Wraps an object of the inner store, whichever method opened it.
        fn object(&self, _: &Key, object: Arc<dyn Object>) -> Arc<dyn Object> {
            object
        }

        /// Wraps a writer of the inner store, whichever method created it.
        fn writer(&self, _: &Key, writer: Box<dyn ObjectWriter>) -> Box<dyn ObjectWriter> {
            writer
        }
    }

    fn name(&self) -> String {
        self.inner().name()
    }

    fn identity(&self) -> String {
        self.inner().identity()
    }

    fn folders(&self) -> Option<&dyn Folders> {
        self.inner().folders()
    }

    fn exchange(&self) -> Option<&dyn FolderExchange> {
        self.inner().exchange()
    }

    fn above(&self) -> Option<(Arc<dyn Store>, Key)> {
        self.inner().above()
    }

    fn open(&self, key: &Key, expected: Option<&Version>) -> Result<Arc<dyn Object>, StoreError> {
        self.before(Step::Open(key))?;
        Ok(self.object(key, self.inner().open(key, expected)?))
    }

    fn open_stored(&self, key: &Key) -> Result<Arc<dyn Object>, StoreError> {
        self.before(Step::Open(key))?;
        Ok(self.object(key, self.inner().open_stored(key)?))
    }

    fn keeps_headers(&self) -> bool {
        self.inner().keeps_headers()
    }

    fn create_with_headers(
        &self,
        key: &Key,
        options: CreateOptions,
        headers: &Headers,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        self.before(Step::Create(key))?;
        Ok(self.writer(key, self.inner().create_with_headers(key, options, headers)?))
    }

    fn can_list(&self) -> bool {
        self.inner().can_list()
    }

    fn read_cost(&self) -> ReadCost {
        self.inner().read_cost()
    }

    fn create(
        &self,
        key: &Key,
        options: CreateOptions,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        self.before(Step::Create(key))?;
        Ok(self.writer(key, self.inner().create(key, options)?))
    }

    fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
        self.before(Step::Publish(&staged))?;
        self.inner().publish(staged)
    }

    fn publish_later(&self, staged: Vec<Staged>) -> Pending {
        match self.before(Step::Publish(&staged)) {
            Ok(()) => self.inner().publish_later(staged),
            Err(error) => Pending::done(Err(error)),
        }
    }

    fn edit(&self, key: &Key) -> Result<Edit, StoreError> {
        self.before(Step::Open(key))?;
        let edit = self.inner().edit(key)?;
        let object = self.object(key, Arc::clone(&edit.object));
        Ok(edit.with_object(object))
    }

    fn delete(&self, key: &Key, condition: &Condition) -> Result<(), StoreError> {
        self.before(Step::Delete(key))?;
        self.inner().delete(key, condition)
    }

    fn delete_last(&self, key: &Key) -> Result<(), StoreError> {
        self.before(Step::Delete(key))?;
        self.inner().delete_last(key)
    }

    fn list(&self, prefix: Option<&Key>) -> Result<Listing, StoreError> {
        self.before(Step::List(prefix))?;
        self.inner().list(prefix)
    }

    fn leftovers(&self, prefix: Option<&Key>) -> Result<Vec<Leftover>, StoreError> {
        self.inner().leftovers(prefix)
    }

    fn remove_leftover(&self, prefix: Option<&Key>, name: &str) -> Result<bool, StoreError> {
        self.inner().remove_leftover(prefix, name)
    }

    fn recover(&self, key: &Key) -> Result<Recovery, StoreError> {
        Ok(match self.inner().recover(key)? {
            Recovery::Before(object) => Recovery::Before(self.object(key, object)),
            recovery => recovery,
        })
    }

    fn before_change(&self, key: &Key) -> Result<Recovery, StoreError> {
        Ok(match self.inner().before_change(key)? {
            Recovery::Before(object) => Recovery::Before(self.object(key, object)),
            recovery => recovery,
        })
    }

    fn remove_empty_folder(&self, folder: &Key) -> Result<(), StoreError> {
        self.before(Step::RemoveFolder(folder))?;
        self.inner().remove_empty_folder(folder)
    }
}

// Pointers are layers too, so that a wrapper can hold a shared or boxed store.

impl<S: Store + ?Sized> StoreLayer for Arc<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        self
    }
}

impl<S: Store + ?Sized> StoreLayer for Box<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        self
    }
}

/// An object that wraps another one with the same bytes.
///
/// The three read methods have no defaults: a layer that acts on reads must act on all of them. An
/// object whose bytes differ from those of the object it wraps is not a layer; it implements
/// [`Object`] in full.
#[allow(clippy::len_without_is_empty, reason = "the length may be unknown")]
pub trait ObjectLayer: Debug + Send + Sync {
    /// The wrapped object.
    fn inner(&self) -> &Arc<dyn Object>;

    /// See [`Object::read`].
    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError>;

    /// See [`Object::read_into`].
    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError>;

    /// See [`Object::read_then`].
    fn read_then(self: Arc<Self>, range: ReadRange, done: Done);

    /// See [`Object::len`].
    fn len(&self) -> Option<u64> {
        self.inner().len()
    }

    /// See [`Object::version`].
    fn version(&self) -> Option<Version> {
        self.inner().version()
    }

    /// See [`Object::check_unchanged`].
    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.inner().check_unchanged()
    }

    /// See [`Object::can_be_kept`].
    fn can_be_kept(&self) -> bool {
        self.inner().can_be_kept()
    }

    /// See [`Object::is_current`].
    fn is_current(&self) -> Result<bool, StoreError> {
        self.inner().is_current()
    }

    /// See [`Object::headers`].
    fn headers(&self) -> Headers {
        self.inner().headers()
    }

    /// See [`Object::file`].
    fn file(&self) -> Option<&File> {
        self.inner().file()
    }
}

impl<L: ObjectLayer> Object for L {
    fn len(&self) -> Option<u64> {
        ObjectLayer::len(self)
    }

    fn version(&self) -> Option<Version> {
        ObjectLayer::version(self)
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        ObjectLayer::read(self, range)
    }

    fn read_into(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        ObjectLayer::read_into(self, start, into)
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        ObjectLayer::read_then(self, range, done);
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        ObjectLayer::check_unchanged(self)
    }

    fn can_be_kept(&self) -> bool {
        ObjectLayer::can_be_kept(self)
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        ObjectLayer::is_current(self)
    }

    fn headers(&self) -> Headers {
        ObjectLayer::headers(self)
    }

    fn file(&self) -> Option<&File> {
        ObjectLayer::file(self)
    }
}
