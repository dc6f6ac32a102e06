//! The engine that all handles of a process share.
//!
//! Threads do not survive a fork, so a process that was forked starts an engine of its own, and
//! handles that it has inherited are opened again. Locks here are only taken with the interpreter
//! lock held, and a fork holds it too, so none is ever held in the new process.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use shardine::{Engine, EngineOptions};

use crate::error;

/// How often this process, or one it descends from, was forked.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The engine, and the number of forks when it was started.
static ENGINE: Mutex<Option<Inherited<Arc<Engine>>>> = Mutex::new(None);

/// Something of use only in the process that made it. In a process that has inherited it, it is
/// never dropped: its threads are gone, and its locks may be held by them.
pub struct Inherited<T> {
    forks: u64,
    value: Option<T>,
}

impl<T> Inherited<T> {
    /// Made by this process.
    pub fn new(value: T) -> Self {
        Self { forks: FORKS.load(Ordering::Relaxed), value: Some(value) }
    }

    /// The value, if this process made it.
    pub fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.forks == FORKS.load(Ordering::Relaxed))
    }
}

impl<T> Drop for Inherited<T> {
    fn drop(&mut self) {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            mem::forget(self.value.take());
        }
    }
}

/// Tells that this process is new; called by `os.register_at_fork`.
#[pyfunction]
#[pyo3(name = "_forked")]
pub fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The engine of this process.
pub fn current(py: Python<'_>) -> PyResult<Arc<Engine>> {
    let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engine) = engine.as_ref().and_then(Inherited::get) {
        return Ok(Arc::clone(engine));
    }
    let new = start(py, &EngineOptions::new())?;
    *engine = Some(Inherited::new(Arc::clone(&new)));
    Ok(new)
}

fn start(py: Python<'_>, options: &EngineOptions) -> PyResult<Arc<Engine>> {
    Engine::new(options).map_err(|error| error::to_py(py, &error.into()))
}

/// Sets how many threads and how much memory are used by what is opened from now on.
#[pyfunction]
#[pyo3(signature = (threads, memory, index_cache), name = "_configure")]
pub fn configure(
    py: Python<'_>,
    threads: usize,
    memory: Option<u64>,
    index_cache: Option<u64>,
) -> PyResult<()> {
    let mut options = EngineOptions::new().threads(threads);
    if let Some(memory) = memory {
        // As for the command line, an eighth is for file buffers and the program itself.
        options = options.memory(memory - memory / 8);
    }
    if let Some(bytes) = index_cache {
        options = options.index_cache(bytes);
    }
    let new = start(py, &options)?;
    *ENGINE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Inherited::new(new));
    Ok(())
}
