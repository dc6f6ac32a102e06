//! Publishes written objects, and removes those overwritten with the fill value.

use std::sync::PoisonError;

use shardine_store::{Condition, Key, Staged, StoreError};

use super::{REMOTE_WRITES, Writing, add};
use crate::Error;
use crate::tuning::REMOVED_TOGETHER;

impl Writing<'_> {
    /// Publishes an object: immediately if it was merged with the existing one, otherwise together
    /// with others.
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

    /// Removes the objects of a remote store that were overwritten with the fill value.
    fn remove_covered(&self) -> Result<(), Error> {
        let removed =
            std::mem::take(&mut *self.removed.lock().unwrap_or_else(PoisonError::into_inner));
        self.engine.each_waiting(0, REMOTE_WRITES, removed.into_iter(), &|key| {
            self.grid.store.delete(&key, &Condition::None)?;
            add(&self.counters.objects_removed, 1);
            Ok(())
        })
    }

    /// Removes an object in which only the fill value is left.
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
                removed.len() >= REMOVED_TOGETHER
            };
            return if many { self.remove_covered() } else { Ok(()) };
        }
        if covered {
            // Most objects that are overwritten with the fill value never existed; checking is
            // cheaper than removing.
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
