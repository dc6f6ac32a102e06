//! Checks that an open data set is still the one at its location.
//!
//! A handle reads a document once and finds chunks by it from then on. An in-place job exchanges
//! the whole folder for another, in which the same keys mean something else. So every operation
//! that opens objects by key checks afterwards that the document is still the same
//! ([`Anchor::is_same`]), and is retried on the new data set if it is not; writers hold the folder
//! in place meanwhile ([`Anchor::hold`]). Only file stores exchange folders, so other stores have
//! no anchors.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use shardine_store::{DocumentStamp, FolderHold, FolderIdentity, Key, Store, StoreError, StoreExt};

use crate::{Error, Location};

/// Whether a document describes the same data set as another, as far as chunks depend on it.
type IsAlike = dyn Fn(&[u8]) -> bool + Send + Sync;

/// The folder and document that a data set on a file store was opened from.
pub(crate) struct Anchor {
    is_alike: Box<IsAlike>,
    store: Arc<dyn Store>,
    /// The folder that is exchanged as a whole.
    folder: Option<Key>,
    document: Key,
    folder_was: FolderIdentity,
    /// The state of the document when it was last known to describe the same data set.
    seen: Mutex<DocumentStamp>,
    /// The current hold, shared by everything done through this handle meanwhile, so that a nested
    /// operation does not wait for a job that is itself waiting for the outer one.
    held: Mutex<Weak<FolderHold>>,
}

impl Anchor {
    /// The anchor of the data set described by the first of these documents that exists. Call this
    /// before reading the document, so that a change in between is noticed.
    ///
    /// A changed document counts as another data set's unless [`with_alike`](Self::with_alike) says
    /// otherwise.
    ///
    /// `None` if the store cannot exchange folders, or none of the documents exists.
    pub fn of(location: &Location, documents: &[&str]) -> Result<Option<Self>, Error> {
        let Some(exchange) = location.store.exchange() else { return Ok(None) };
        let folder = location.path.clone();
        // The folder first: if it is exchanged in between, the document is not the one that is
        // read.
        let Some(folder_was) = exchange.folder_identity(folder.as_ref())? else { return Ok(None) };
        for name in documents {
            let document = location.key(name)?;
            if let Some(seen) = exchange.document_stamp(&document)? {
                let is_alike: Box<IsAlike> = if seen.is_telling() {
                    Box::new(|_: &[u8]| false)
                } else {
                    // Its timestamps are not conclusive, so compare its bytes.
                    let before = location.store.get(&document)?.map(|bytes| bytes.to_vec());
                    Box::new(move |now: &[u8]| before.as_deref() == Some(now))
                };
                return Ok(Some(Self {
                    is_alike,
                    store: Arc::clone(&location.store),
                    folder,
                    document,
                    folder_was,
                    seen: Mutex::new(seen),
                    held: Mutex::default(),
                }));
            }
        }
        Ok(None)
    }

    /// Adds a function that decides whether chunks mean the same under a given document as under
    /// the one that was read.
    pub fn with_alike(self, is_alike: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self { is_alike: Box::new(is_alike), ..self }
    }

    /// Whether the data set that was opened is still at its location: the folder is the same, and
    /// the document is the same or alike.
    ///
    /// One `stat` if nothing changed.
    pub fn is_same(&self) -> Result<bool, Error> {
        // A store that cannot exchange folders has no anchors.
        let Some(exchange) = self.store.exchange() else { return Ok(true) };
        let Some(now) = exchange.document_stamp(&self.document)? else { return Ok(false) };
        let before = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if now.is_certainly(&before) {
            return Ok(true);
        }
        let Some(bytes) = self.store.get(&self.document)? else { return Ok(false) };
        let folder = exchange.folder_identity(self.folder.as_ref())?;
        if folder.as_ref() != Some(&self.folder_was) || !(self.is_alike)(&bytes) {
            return Ok(false);
        }
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(true)
    }

    /// Keeps the folder in place until the hold is dropped. `None` where there are no reliable
    /// locks: there, in-place jobs are refused unless the user asserts that nobody else is at work.
    ///
    /// Check that the data set is still the same only after taking the hold.
    pub fn hold(&self) -> Result<Option<Arc<FolderHold>>, StoreError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hold) = held.upgrade() {
            return Ok(Some(hold));
        }
        let Some(exchange) = self.store.exchange() else { return Ok(None) };
        let hold = exchange.hold(self.folder.as_ref())?.map(Arc::new);
        *held = hold.as_ref().map_or_else(Weak::new, Arc::downgrade);
        Ok(hold)
    }

    /// Like [`hold`](Self::hold), but [`Error::Replaced`] if another data set is there by then.
    pub fn hold_same(&self) -> Result<Option<Arc<FolderHold>>, Error> {
        let hold = self.hold()?;
        self.check_same()?;
        Ok(hold)
    }

    /// An error if another data set has replaced this one.
    pub fn check_same(&self) -> Result<(), Error> {
        if self.is_same()? {
            return Ok(());
        }
        let folder = Location::root(Arc::clone(&self.store)).at(self.folder.clone());
        Err(Error::Replaced { at: folder.to_string() })
    }
}

impl fmt::Debug for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anchor").field("document", &self.document).finish_non_exhaustive()
    }
}
