//! A large object on its way: read in pieces in parallel, written in their order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardine_store::{Buffer, Headers, Object, ObjectWriter, ReadRange, StoreError};

use crate::engine::{Budget, Permit};

/// An object moved by several threads that share it. The last one to release it ends it.
#[derive(Debug)]
pub(super) struct Pieces {
    source: Arc<dyn Object>,
    writer: Box<dyn ObjectWriter>,
    len: u64,
    piece: u64,
    /// Where the next piece to be read begins. Held while waiting for memory, so that pieces get
    /// theirs in order: then the first missing piece always has what it needs, and those after it
    /// do not wait forever.
    claimed: Mutex<u64>,
    flow: Mutex<Flow>,
}

#[derive(Debug)]
struct Flow {
    /// Pieces that were read, by start, with their memory.
    read: BTreeMap<u64, (Buffer, Permit)>,
    written: u64,
    checksum: u32,
    /// Whether some thread is writing; it also writes what arrives meanwhile.
    writing: bool,
    error: Option<StoreError>,
}

/// A large object whose bytes are all written.
#[derive(Debug)]
pub(super) struct Moved {
    pub writer: Box<dyn ObjectWriter>,
    pub len: u64,
    pub checksum: u32,
    /// The headers of the source.
    pub headers: Headers,
}

impl Pieces {
    pub fn new(
        source: Arc<dyn Object>,
        writer: Box<dyn ObjectWriter>,
        len: u64,
        piece: u64,
    ) -> Self {
        let flow =
            Flow { read: BTreeMap::new(), written: 0, checksum: 0, writing: false, error: None };
        Self { source, writer, len, piece, claimed: Mutex::new(0), flow: Mutex::new(flow) }
    }

    /// The number of pieces.
    pub fn count(&self) -> u64 {
        self.len.div_ceil(self.piece)
    }

    /// Adds the beginning, which has been read already.
    pub fn begin_with(&self, buffer: Buffer, permit: Permit) {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        *claimed = buffer.len() as u64;
        drop(claimed);
        self.add(0, Ok(buffer), permit, &|_| ());
    }

    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves pieces until all are taken, one has failed, or `stop` returns true. `moved` is called
    /// with the bytes written.
    pub fn work(&self, budget: &Arc<Budget>, stop: &dyn Fn() -> bool, moved: &dyn Fn(u64)) {
        while !stop() {
            let Some((range, permit)) = self.claim(budget) else { break };
            let start = range.start;
            let wanted = range.end - start;
            let answer = self.source.read(ReadRange::Bounded(range));
            let answer = answer.and_then(|buffer| check_len(buffer, wanted));
            self.add(start, answer, permit, moved);
        }
    }

    fn claim(&self, budget: &Arc<Budget>) -> Option<(Range<u64>, Permit)> {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let start = *claimed;
        if start >= self.len || self.flow().error.is_some() {
            return None;
        }
        let end = start.saturating_add(self.piece).min(self.len);
        let permit = budget.acquire(end - start);
        *claimed = end;
        Some((start..end, permit))
    }

    fn add(
        &self,
        start: u64,
        answer: Result<Buffer, StoreError>,
        permit: Permit,
        moved: &dyn Fn(u64),
    ) {
        let mut flow = self.flow();
        match answer {
            Ok(buffer) if flow.error.is_none() => {
                flow.read.insert(start, (buffer, permit));
            }
            Ok(_) => {}
            Err(error) => fail(&mut flow, error),
        }
        if flow.writing {
            return;
        }
        while let next = flow.written
            && let Some((buffer, permit)) = flow.read.remove(&next)
        {
            flow.writing = true;
            let checksum = flow.checksum;
            drop(flow);
            let checksum = crc32c::crc32c_append(checksum, &buffer);
            let result = self.writer.append(&buffer);
            let bytes = buffer.len() as u64;
            drop((buffer, permit));
            if result.is_ok() {
                moved(bytes);
            }
            flow = self.flow();
            flow.writing = false;
            match result {
                Ok(_) => {
                    flow.written += bytes;
                    flow.checksum = checksum;
                }
                Err(error) => fail(&mut flow, error),
            }
        }
    }

    /// The number of bytes written.
    pub fn written(&self) -> u64 {
        self.flow().written
    }

    /// Ends it, if all of it has arrived.
    pub fn end(self) -> Result<Moved, StoreError> {
        let flow = self.flow.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = flow.error {
            return Err(error);
        }
        if flow.written != self.len {
            // A thread stopped because something else failed.
            let message = format!("{} of {} bytes were moved", flow.written, self.len);
            let (path, source) = (format!("{:?}", self.source), std::io::Error::other(message));
            return Err(StoreError::Io { operation: "copy", path, source });
        }
        self.source.check_unchanged()?;
        let (headers, checksum) = (self.source.headers(), flow.checksum);
        Ok(Moved { writer: self.writer, len: self.len, checksum, headers })
    }
}

/// Drops what was read: it is no longer needed, and others may be waiting for its memory.
fn fail(flow: &mut Flow, error: StoreError) {
    flow.error.get_or_insert(error);
    flow.read.clear();
}

/// Refuses a response of the wrong length.
pub(super) fn check_len(buffer: Buffer, wanted: u64) -> Result<Buffer, StoreError> {
    if buffer.len() as u64 == wanted {
        return Ok(buffer);
    }
    let message = format!("{} bytes were read instead of {wanted}", buffer.len());
    let source = std::io::Error::other(message);
    Err(StoreError::Io { operation: "read", path: "an object".to_owned(), source })
}
