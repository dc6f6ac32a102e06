//! Makes new objects visible, many at a time.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use shardine_store::{Pending, Staged, Store};

use crate::Error;

/// Objects that are made durable together. Each is an open file meanwhile.
const OBJECTS: usize = 256;

/// Bytes that are made durable together, so that the disk has something to do while others are still copied.
const BYTES: u64 = 128 << 20;

/// Objects on their way to a far store.
const PENDING: usize = 64;

/// A new object that nobody sees yet, and its place in the grid.
#[derive(Debug)]
struct Waiting {
    staged: Vec<Staged>,
    cells: Vec<Vec<u64>>,
    bytes: u64,
}

#[derive(Debug)]
pub(in crate::jobs) struct Publisher<'a> {
    store: &'a dyn Store,
    local: bool,
    waiting: Mutex<Waiting>,
    pending: Mutex<VecDeque<(Pending, Vec<u64>)>>,
}

impl<'a> Publisher<'a> {
    pub fn new(store: &'a dyn Store) -> Self {
        let waiting = Waiting { staged: Vec::new(), cells: Vec::new(), bytes: 0 };
        Self {
            store,
            local: store.read_cost().local,
            waiting: Mutex::new(waiting),
            pending: Mutex::default(),
        }
    }

    /// Takes an object, and tells the cells of those that have become visible by that.
    pub fn add(&self, staged: Staged, cell: Vec<u64>, len: u64) -> Result<Vec<Vec<u64>>, Error> {
        if !self.local {
            let pending = self.store.publish_later(vec![staged]);
            let oldest = {
                let mut all = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                all.push_back((pending, cell));
                if all.len() > PENDING { all.pop_front() } else { None }
            };
            return oldest.into_iter().map(finish).collect();
        }
        let full = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.staged.push(staged);
            waiting.cells.push(cell);
            waiting.bytes += len;
            if waiting.staged.len() < OBJECTS && waiting.bytes < BYTES {
                return Ok(Vec::new());
            }
            waiting.bytes = 0;
            (std::mem::take(&mut waiting.staged), std::mem::take(&mut waiting.cells))
        };
        self.publish(full)
    }

    /// Makes all that is left visible, and tells its cells.
    pub fn finish(&self) -> Result<Vec<Vec<u64>>, Error> {
        let pending =
            std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        let mut cells: Vec<Vec<u64>> = pending.into_iter().map(finish).collect::<Result<_, _>>()?;
        let rest = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.bytes = 0;
            (std::mem::take(&mut waiting.staged), std::mem::take(&mut waiting.cells))
        };
        cells.extend(self.publish(rest)?);
        Ok(cells)
    }

    fn publish(
        &self,
        (staged, cells): (Vec<Staged>, Vec<Vec<u64>>),
    ) -> Result<Vec<Vec<u64>>, Error> {
        if !staged.is_empty() {
            self.store.publish(staged)?;
        }
        Ok(cells)
    }
}

fn finish((pending, cell): (Pending, Vec<u64>)) -> Result<Vec<u64>, Error> {
    pending.wait()?;
    Ok(cell)
}
