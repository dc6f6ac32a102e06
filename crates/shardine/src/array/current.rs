//! What a handle does when another array has replaced the one it was opened on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardine_codec::strided::Placement;
use shardine_store::FolderHold;

use super::Array;
use super::span::Call;
use crate::Error;
use crate::anchor::Anchor;
use crate::selection::Selection;

/// How often a read is repeated on a new array before that is held in its place.
const ATTEMPTS: usize = 4;

/// The array that has taken the place of another one.
#[derive(Debug, Default)]
pub(super) struct Successor {
    /// Whether there is one: asked by every read, of which most need no more.
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

/// An array that no job can exchange for another one as long as this lives, where there are locks.
///
/// Comes from [`Array::hold`].
#[derive(Debug)]
pub struct HeldArray<'a> {
    opened: &'a Array,
    successor: Option<Arc<Array>>,
    _hold: Option<Arc<FolderHold>>,
}

impl HeldArray<'_> {
    /// The array that is there: the one that was opened, or the one that has taken its place.
    pub fn array(&self) -> &Array {
        self.successor.as_deref().unwrap_or(self.opened)
    }
}

impl Array {
    /// Runs a read that opens objects by key, and repeats it if another array has replaced this one
    /// meanwhile, so that all of the outcome, errors included, is of one array.
    ///
    /// Costs one `stat` if an object was opened, and nothing if all were open. The selections were
    /// resolved on this array.
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

    /// Keeps the array in its place until the hold is dropped, and says which array that is: a job
    /// that rebuilds in place may have replaced the one that was opened by another with the same
    /// elements.
    ///
    /// Each call on an array sees one array from beginning to end without it. A hold is for several
    /// calls that belong together, such as listing objects and reading their indexes. Jobs that
    /// rebuild in place wait for it, and give up after half a minute, so do not keep it longer than
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

    /// Holds the array that was opened; [`Error::Replaced`] if another one has taken its place. For
    /// jobs that have made their plan already.
    pub(crate) fn hold_same(&self) -> Result<Option<Arc<FolderHold>>, Error> {
        self.anchor().map_or(Ok(None), Anchor::hold_same)
    }

    fn anchor(&self) -> Option<&Anchor> {
        self.anchor.as_deref()
    }

    /// Whether this is still the array that is at its place.
    pub(crate) fn is_in_place(&self) -> Result<bool, Error> {
        self.anchor().map_or(Ok(true), Anchor::is_same)
    }

    /// Opens the array that has taken the place of this one. It must have the same elements.
    fn renew(&self) -> Result<(), Error> {
        let new = self.format.reopen(self.engine(), &self.location)?;
        if new.data_type() != self.data_type() || new.shape().len() != self.shape().len() {
            return Err(Error::Replaced { at: self.location.to_string() });
        }
        self.successor.set(new);
        Ok(())
    }

    /// Refuses selections that lie outside of this array, though they were inside the one that was
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
