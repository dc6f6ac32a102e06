//! Publishes new objects, many at a time.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use shardine_store::{Pending, Staged, Store};

use super::first_error::FirstError;
use crate::Error;
use crate::tuning::{PENDING, SYNCED_BYTES};

/// New objects that are not visible yet, each with a note of the caller's that is returned once the
/// object is visible.
#[derive(Debug)]
struct Waiting<T> {
    staged: Vec<Staged>,
    notes: Vec<T>,
    bytes: u64,
}

impl<T> Waiting<T> {
    fn new() -> Self {
        Self { staged: Vec::new(), notes: Vec::new(), bytes: 0 }
    }
}

/// Takes finished objects and publishes them: in a local store together, as that takes one wait for
/// the disk; in a remote store while the next ones are made.
#[derive(Debug)]
pub struct Publisher<'a, T> {
    store: &'a dyn Store,
    local: bool,
    together: usize,
    waiting: Mutex<Waiting<T>>,
    pending: Mutex<VecDeque<(Pending, T)>>,
    /// The first failure among the objects in flight.
    failed: FirstError<Error>,
}

impl<'a, T> Publisher<'a, T> {
    /// For a store in which this many objects may wait.
    pub fn new(store: &'a dyn Store, together: usize) -> Self {
        let local = store.read_cost().local;
        let (waiting, pending) = (Mutex::new(Waiting::new()), Mutex::default());
        Self { store, local, together, waiting, pending, failed: FirstError::default() }
    }

    /// Takes an object of `len` bytes, and returns the notes of those that have become visible as a
    /// result.
    pub fn add(&self, staged: Staged, note: T, len: u64) -> Result<Vec<T>, Error> {
        if !self.local {
            let pending = self.store.publish_later(vec![staged]);
            let oldest = {
                let mut all = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                all.push_back((pending, note));
                if all.len() > PENDING { all.pop_front() } else { None }
            };
            // The failure of another object is reported by `finish`: the caller would take it for
            // its own and retry.
            return Ok(oldest.into_iter().filter_map(|oldest| self.wait(oldest)).collect());
        }
        let full = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.staged.push(staged);
            waiting.notes.push(note);
            waiting.bytes += len;
            if waiting.staged.len() < self.together && waiting.bytes < SYNCED_BYTES {
                return Ok(Vec::new());
            }
            std::mem::replace(&mut *waiting, Waiting::new())
        };
        self.publish(full)
    }

    /// Publishes an object immediately: what it was made from is in the same place.
    pub fn publish_now(&self, staged: Staged) -> Result<(), Error> {
        self.store.publish(vec![staged])?;
        Ok(())
    }

    /// Publishes everything that is left and returns its notes. Nothing is in flight afterwards,
    /// even if some objects failed.
    pub fn finish(&self) -> Result<Vec<T>, Error> {
        let waiting = std::mem::replace(
            &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner),
            Waiting::new(),
        );
        let published = self.publish(waiting);
        let mut notes = self.wait_for_pending();
        notes.extend(published?);
        self.failed.check()?;
        Ok(notes)
    }

    /// Waits for all objects in flight, even if some fail.
    fn wait_for_pending(&self) -> Vec<T> {
        let pending =
            std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        pending.into_iter().filter_map(|pending| self.wait(pending)).collect()
    }

    fn wait(&self, (pending, note): (Pending, T)) -> Option<T> {
        match pending.wait() {
            Ok(_) => Some(note),
            Err(error) => {
                self.failed.set(error.into());
                None
            }
        }
    }

    fn publish(&self, Waiting { staged, notes, .. }: Waiting<T>) -> Result<Vec<T>, Error> {
        if !staged.is_empty() {
            self.store.publish(staged)?;
        }
        Ok(notes)
    }
}

/// Where finished objects go, for code that keeps no notes.
pub trait Publish: Sync {
    /// Takes an object of `len` bytes, to be published together with others.
    fn add(&self, staged: Staged, len: u64) -> Result<(), Error>;

    /// Publishes an object immediately: what it was made from is in the same place.
    fn now(&self, staged: Staged) -> Result<(), Error>;
}

impl Publish for Publisher<'_, ()> {
    fn add(&self, staged: Staged, len: u64) -> Result<(), Error> {
        self.add(staged, (), len).map(drop)
    }

    fn now(&self, staged: Staged) -> Result<(), Error> {
        self.publish_now(staged)
    }
}

impl<T> Drop for Publisher<'_, T> {
    /// Nothing in flight may arrive after the caller has seen a failure, and perhaps has written
    /// again.
    fn drop(&mut self) {
        self.wait_for_pending();
    }
}
