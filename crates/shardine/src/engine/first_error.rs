use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// The first error of work that several do at once; the others stop when they see it.
#[derive(Debug, Default)]
pub(crate) struct FirstError {
    failed: AtomicBool,
    error: Mutex<Option<Error>>,
}

impl FirstError {
    /// Whether somebody failed, so that going on is of no use.
    pub fn is_set(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub fn set(&self, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub fn into_result(self) -> Result<(), Error> {
        match self.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The error so far. Whoever takes it must give up, since nobody will see it again.
    pub fn check(&self) -> Result<(), Error> {
        match self.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
