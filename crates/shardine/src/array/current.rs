//! What a handle does when the array it was opened on has been replaced.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardine_codec::strided::Placement;
use shardine_store::FolderHold;

use super::Array;
use super::span::Call;
use crate::Error;
use crate::anchor::Anchor;
use crate::selection::Selection;

/// How often a read is retried on a new array before that array is held in place.
const ATTEMPTS: usize = 4;

/// The array that has replaced another one.
#[derive(Debug, Default)]
pub(super) struct Successor {
    /// Whether there is one. Every read checks this, and most need nothing more.
    exists: AtomicBool,
    array: Mutex<Option<Arc<Array>>>,
}

impl Successor {
    fn get(&self) -> Option<Arc<Array>> {
        if !self.exists.load(Ordering::Acquire) {
            return None;
        }
        self.array.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, array: Array) {
        *self.array.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(array));
        self.exists.store(true, Ordering::Release);
    }
}

/// An array that no job can exchange while this lives, where there are locks.
///
/// Returned by [`Array::hold`].
#[derive(Debug)]
pub struct HeldArray<'a> {
    opened: &'a Array,
    successor: Option<Arc<Array>>,
    _hold: Option<Arc<FolderHold>>,
}

impl HeldArray<'_> {
    /// The array that is in place: the one that was opened, or its replacement.
    pub fn array(&self) -> &Array {
        self.successor.as_deref().unwrap_or(self.opened)
    }
}

impl Array {
    /// Runs a read that opens objects by key, and retries it if another array has replaced this one
    /// meanwhile, so that the whole outcome, errors included, comes from one array.
    ///
    /// Costs one `stat` if an object was opened, and nothing if all were open already. The
    /// selections were resolved on this array.
    #[inline]
    pub(super) fn consistently<T>(
        &self,
        wanted: &[(Selection, Placement)],
        read: &mut impl FnMut(&Array) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _span = self.call_span(Call::Read, wanted.len());
        let check = |array: &Array| array.check_covers(wanted.iter().map(|(s, _)| s));
        for _ in 0..ATTEMPTS {
            let successor = self.successor.get();
            let array = match &successor {
                None => self,
                Some(array) => {
                    check(array)?;
                    array
                }
            };
            let before = array.chunks.lookups();
            let outcome = read(array);
            if outcome.is_ok() && array.chunks.lookups() == before {
                return outcome;
            }
            if array.is_in_place()? {
                return outcome;
            }
            self.renew()?;
        }
        let held = self.hold()?;
        check(held.array())?;
        read(held.array())
    }

    /// Keeps the array in place until the hold is dropped, and says which array that is: an
    /// in-place job may have replaced the one that was opened with another that has the same
    /// elements.
    ///
    /// Each single call sees one array from beginning to end even without a hold. A hold is for
    /// several calls that belong together, such as listing objects and reading their indexes.
    /// In-place jobs wait for it and give up after half a minute, so do not keep it longer than
    /// needed. It does nothing in stores that cannot exchange folders and on file systems without
    /// locks.
    pub fn hold(&self) -> Result<HeldArray<'_>, Error> {
        loop {
            let successor = self.successor.get();
            let array = successor.as_deref().unwrap_or(self);
            let _hold = match array.anchor() {
                Some(anchor) => anchor.hold()?,
                None => None,
            };
            if array.is_in_place()? {
                return Ok(HeldArray { opened: self, successor, _hold });
            }
            self.renew()?;
        }
    }

    /// Holds the array that was opened; [`Error::Replaced`] if another one has replaced it. For
    /// jobs that have already made their plan.
    pub(crate) fn hold_same(&self) -> Result<Option<Arc<FolderHold>>, Error> {
        self.anchor().map_or(Ok(None), Anchor::hold_same)
    }

    fn anchor(&self) -> Option<&Anchor> {
        self.anchor.as_deref()
    }

    /// Whether this array is still the one at its location.
    pub(crate) fn is_in_place(&self) -> Result<bool, Error> {
        self.anchor().map_or(Ok(true), Anchor::is_same)
    }

    /// Opens the array that has replaced this one. It must have the same elements.
    fn renew(&self) -> Result<(), Error> {
        let new = self.format.reopen(self.engine(), &self.location)?;
        if new.data_type() != self.data_type() || new.shape().len() != self.shape().len() {
            return Err(Error::Replaced { at: self.location.to_string() });
        }
        self.successor.set(new);
        Ok(())
    }

    /// Refuses selections that lie outside this array although they were inside the one that was
    /// opened.
    pub(super) fn check_covers<'a>(
        &self,
        selections: impl Iterator<Item = &'a Selection>,
    ) -> Result<(), Error> {
        let mut selections = selections;
        let inside = selections.all(|selection| {
            let axes = selection.axes.iter().zip(self.shape());
            axes.into_iter().all(|(axis, &len)| {
                let span = axis.count.saturating_sub(1).saturating_mul(axis.step);
                axis.count == 0 || axis.start.saturating_add(span) < len
            })
        });
        if inside { Ok(()) } else { Err(Error::Replaced { at: self.location.to_string() }) }
    }
}
