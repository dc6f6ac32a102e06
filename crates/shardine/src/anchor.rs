//! Whether an open data set is still the one that is at its place.
//!
//! A handle has read a document, and from then on finds chunks by what that said. A job in place exchanges the whole
//! folder for another one, in which the same keys mean something else. So whatever opens objects by key asks afterwards
//! whether the document is still the same ([`Anchor::is_same`]), and is repeated on the new data set if not; what
//! writes keeps the folder in its place meanwhile ([`Anchor::hold`]). Stores other than files exchange nothing, and
//! have no anchors.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use shardine_store::{DocumentStamp, FolderHold, FolderIdentity, Key, Store, StoreError, StoreExt};

use crate::{Error, Location};

/// Whether a document tells of the same data set as another one, as far as chunks depend on it.
type IsAlike = dyn Fn(&[u8]) -> bool + Send + Sync;

/// What a data set of files was opened by.
pub(crate) struct Anchor {
    is_alike: Box<IsAlike>,
    store: Arc<dyn Store>,
    /// The folder that is exchanged as a whole.
    folder: Option<Key>,
    document: Key,
    folder_was: FolderIdentity,
    /// The state of the document when it was last known to describe the same data set.
    seen: Mutex<DocumentStamp>,
    /// The hold that somebody has: shared by all that is done through this handle meanwhile, so that what is done as a
    /// part of something else does not wait for a job that waits for that.
    held: Mutex<Weak<FolderHold>>,
}

impl Anchor {
    /// Of the data set that the first of these documents makes at a place. To be called before the document is read, so
    /// that a change between the two is noticed.
    ///
    /// A document that was changed is another data set's unless [`with_alike`](Self::with_alike) says more.
    ///
    /// `None` if the store exchanges no folders, or there is no such document.
    pub fn of(location: &Location, documents: &[&str]) -> Result<Option<Self>, Error> {
        let Some(exchange) = location.store.exchange() else { return Ok(None) };
        let folder = location.path.clone();
        // The folder first: if it is exchanged in between, the document is not the one that is read.
        let Some(folder_was) = exchange.folder_identity(folder.as_ref())? else { return Ok(None) };
        for name in documents {
            let document = location.key(name)?;
            if let Some(seen) = exchange.document_stamp(&document)? {
                let is_alike: Box<IsAlike> = if seen.is_telling() {
                    Box::new(|_: &[u8]| false)
                } else {
                    // Its times cannot tell, so its bytes have to.
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

    /// With a function that says of a document whether chunks mean by it what they meant by the one that was read.
    pub fn with_alike(self, is_alike: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self { is_alike: Box::new(is_alike), ..self }
    }

    /// Whether the data set that was opened is still at its place: the folder is the same, and so is the document, or one
    /// that is alike.
    ///
    /// One `stat` if nothing was changed.
    pub fn is_same(&self) -> Result<bool, Error> {
        // A store that exchanges nothing has no anchors.
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

    /// Keeps the folder in its place until this is dropped. `None` where there are no locks to rely on: there jobs in
    /// place are refused, unless their user says that nobody else is at work.
    ///
    /// Whether the data set is still the same is to be asked after that.
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

    /// The same, with [`Error::Replaced`] if it is another data set by then.
    pub fn hold_same(&self) -> Result<Option<Arc<FolderHold>>, Error> {
        let hold = self.hold()?;
        self.check_same()?;
        Ok(hold)
    }

    /// An error if another data set has taken the place of this one.
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
