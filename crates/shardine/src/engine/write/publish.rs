//! How written objects are made visible, and covered ones removed.

use std::sync::{Mutex, PoisonError};

use shardine_store::{Condition, Key, Staged, StoreError};

use super::{FAR, Writing, add};
use crate::Error;
use crate::engine::first_error::FirstError;

/// Objects that are removed together.
const REMOVED: usize = 4096;

impl Writing<'_> {
    /// Makes an object visible: now if it was merged with what stood there, else with others.
    pub(super) fn publish(&self, staged: Staged, covered: bool, len: u64) -> Result<(), Error> {
        match covered {
            true => drop(self.publisher.add(staged, (), len)?),
            false => self.publisher.publish_now(staged)?,
        }
        add(&self.counters.objects_written, 1);
        Ok(())
    }

    pub(super) fn publish_staged(&self) -> Result<(), Error> {
        self.publisher.finish()?;
        self.remove_covered()
    }

    /// Removes the objects of a far store that were covered with fill value.
    fn remove_covered(&self) -> Result<(), Error> {
        let removed =
            std::mem::take(&mut *self.removed.lock().unwrap_or_else(PoisonError::into_inner));
        // Threads are only started for something to do.
        let at_once = FAR.min(removed.len());
        self.far(removed.into_iter(), at_once, |key| {
            self.grid.store.delete(&key, &Condition::None)?;
            add(&self.counters.objects_removed, 1);
            Ok(())
        })
    }

    /// Has many pieces of work under way that wait for a store far away, each on a thread of its own.
    pub(super) fn far<T: Send>(
        &self,
        work: impl Iterator<Item = T> + Send,
        at_once: usize,
        run: impl Fn(T) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let (work, first_error) = (Mutex::new(work), FirstError::default());
        let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
        let all = &|| {
            while !first_error.is_set()
                && let Some(item) = next()
            {
                if let Err(error) = run(item) {
                    first_error.set(error);
                }
            }
        };
        std::thread::scope(|scope| {
            // The caller is one of them, and does not start others for a single piece.
            for _ in 1..at_once {
                let helper = std::thread::Builder::new().name("shardine-far".to_owned());
                // Where there are no more threads, those that are there do it.
                if helper.spawn_scoped(scope, all).is_err() {
                    break;
                }
            }
            all();
        });
        first_error.into_result()
    }

    /// Removes an object in which nothing but fill value is left.
    pub(super) fn remove(
        &self,
        key: &Key,
        covered: bool,
        existed: bool,
        condition: &Condition,
    ) -> Result<(), Error> {
        if covered && !self.local {
            // With the others at the end: each is a request.
            let many = {
                let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
                removed.push(key.clone());
                removed.len() >= REMOVED
            };
            return if many { self.remove_covered() } else { Ok(()) };
        }
        if covered {
            // Most objects that are covered with fill value were never there; looking is cheaper than removing.
            match self.grid.store.open(key, None) {
                Err(StoreError::NotFound { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
        } else if !existed {
            return Ok(());
        }
        self.grid.store.delete(key, condition)?;
        add(&self.counters.objects_removed, 1);
        Ok(())
    }
}
