//! A new object being written to a remote store.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use shardine_store::{
    Buffer, Condition, CreateOptions, Headers, Key, Object, ObjectWriter, ReadRange, Staged,
    StoreError,
};

use tokio::sync::OwnedSemaphorePermit;

use crate::commit::{WriteId, history_of};
use crate::encoding::room_beside;
use crate::spool::Spool;
use crate::store::Remote;
use crate::upload::Upload;

/// The number of parts that S3 accepts; each time an eighth of them is used up, the part size
/// doubles.
const MOST_PARTS: usize = 10_000;

/// Bytes read per request from an object that is copied from.
const PIECE: u64 = 4 << 20;

/// How many of these are read in parallel.
const AHEAD: usize = 4;

/// Writes an object. A small one is kept in memory and sent in one request. A large one is uploaded
/// in parts while it is written, or kept on disk if the conditions of such uploads cannot be
/// trusted.
pub(crate) struct RemoteWriter {
    remote: Arc<Remote>,
    key: Key,
    head: usize,
    condition: Condition,
    id: WriteId,
    headers: Headers,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bytes so far, including the head.
    len: u64,
    /// What follows the head in the first part, which is sent last.
    first: Vec<u8>,
    /// The part being filled.
    part: Vec<u8>,
    /// The number of that part.
    number: usize,
    upload: Option<Upload>,
    spool: Option<Spool>,
}

impl std::fmt::Debug for RemoteWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "writer of {}/{}", self.remote.name, self.key)
    }
}

/// A new object that is ready to be published.
pub(crate) struct RemoteStaged {
    pub remote: Arc<Remote>,
    pub key: Key,
    pub condition: Condition,
    pub id: WriteId,
    pub headers: Headers,
    pub content: Content,
    /// Its share of the memory for uploads, once it is being sent.
    pub memory: Option<OwnedSemaphorePermit>,
}

impl RemoteStaged {
    /// Waits for the memory that its bytes take while they are being sent; parts already have
    /// theirs.
    pub async fn admit(mut self) -> Self {
        if let Content::Whole(pieces) = &self.content
            && self.memory.is_none()
        {
            let len = pieces.iter().map(Bytes::len).sum();
            self.memory = self.remote.memory(len).await;
        }
        self
    }
}

/// The bytes of a new object.
pub(crate) enum Content {
    /// All of them, to be sent in one request.
    Whole(Vec<Bytes>),
    /// Sent in parts, or being sent.
    Parts(Upload),
    /// On disk, to be sent in one request.
    Spooled(Arc<Spool>),
}

impl RemoteWriter {
    pub fn new(
        remote: Arc<Remote>,
        key: Key,
        options: CreateOptions,
        headers: Headers,
    ) -> Result<Self, StoreError> {
        let head = usize::try_from(options.head)
            .map_err(|_| remote.io("write", &key, io::ErrorKind::OutOfMemory.into()))?;
        // With a head, the first part has to wait for it, and the second is sent first.
        let number = usize::from(head > 0);
        let state = State { len: options.head, number, ..State::default() };
        let (id, condition, state) = (WriteId::new(), options.condition, Mutex::new(state));
        Ok(Self { remote, key, head, condition, id, headers, state })
    }

    /// Bytes of a part.
    fn part_size(&self, number: usize) -> usize {
        let doubled = (number / (MOST_PARTS / 8)).min(16) as u32;
        self.remote.tuning.part_size.saturating_mul(1 << doubled)
    }

    fn add(&self, state: &mut State, mut data: &[u8]) -> Result<(), StoreError> {
        let room = self.part_size(0).saturating_sub(self.head);
        if self.head > 0 && state.first.len() < room {
            let (now, rest) = data.split_at(data.len().min(room - state.first.len()));
            grow(&mut state.first, now, room).map_err(|e| self.no_memory(e))?;
            data = rest;
        }
        while !data.is_empty() {
            let size = self.part_size(state.number);
            let (now, rest) = data.split_at(data.len().min(size - state.part.len()));
            grow(&mut state.part, now, size).map_err(|e| self.no_memory(e))?;
            data = rest;
            if state.part.len() == size {
                self.send(state)?;
            }
        }
        Ok(())
    }

    fn no_memory(&self, error: std::collections::TryReserveError) -> StoreError {
        self.remote.io("write", &self.key, error.into())
    }

    /// Adds the full part to the spool on disk.
    fn spool(&self, state: &mut State) -> Result<(), StoreError> {
        let io =
            |source| self.remote.io("buffer on disk what is to be written to", &self.key, source);
        let spool = match &mut state.spool {
            Some(spool) => spool,
            None => {
                // The rest of the first part is written together with the head.
                let first = if self.head > 0 { self.head.max(self.part_size(0)) as u64 } else { 0 };
                state.spool.insert(Spool::new(first).map_err(io)?)
            }
        };
        if spool.len().saturating_add(state.part.len() as u64) > self.remote.put_limit() {
            return Err(StoreError::Unsupported {
                store: self.remote.name.clone(),
                operation: "safely replace an object that is too large for one request, as it is \
                            not known to check the conditions of multipart uploads when others \
                            write at the same time (use --single-writer if nothing else writes \
                            there, or conditional_uploads=true if it does check them)",
            });
        }
        spool.append(&state.part).map_err(io)?;
        state.part.clear();
        Ok(())
    }

    /// Sends the full part.
    fn send(&self, state: &mut State) -> Result<(), StoreError> {
        if self.remote.sends_whole(&self.condition) {
            return self.spool(state);
        }
        let upload = match &state.upload {
            Some(upload) => upload,
            None => {
                let headers = self.headers.clone();
                let history = history_of(&self.condition).with(&self.id, room_beside(&headers));
                state.upload.insert(Upload::new(&self.remote, &self.key, history, headers)?)
            }
        };
        upload.put(state.number, vec![std::mem::take(&mut state.part).into()])?;
        state.number += 1;
        Ok(())
    }
}

/// Reads several ranges in parallel, as the source may be as far away as the target.
fn read_all(source: &dyn Object, mut ranges: Vec<ReadRange>) -> Vec<Result<Buffer, StoreError>> {
    let Some(last) = ranges.pop() else { return Vec::new() };
    std::thread::scope(|scope| {
        let begin = |range: ReadRange| {
            let reader = std::thread::Builder::new().name("shardine-ahead".to_owned());
            let again = range.clone();
            reader.spawn_scoped(scope, || source.read(range)).map_err(|_| again)
        };
        let begun: Vec<_> = ranges.into_iter().map(begin).collect();
        let last = source.read(last);
        let lost = || {
            let (path, error) = (format!("{source:?}"), io::Error::other("the reader panicked"));
            StoreError::Io { operation: "read", path, source: error }
        };
        let others = begun.into_iter().map(|read| match read {
            Ok(read) => read.join().unwrap_or_else(|_| Err(lost())),
            // If no more threads can be started, this one does it.
            Err(range) => source.read(range),
        });
        others.chain([last]).collect()
    })
}

/// Appends bytes, growing memory in few steps and never beyond `most`, which small objects do not
/// reach.
fn grow(
    memory: &mut Vec<u8>,
    data: &[u8],
    most: usize,
) -> Result<(), std::collections::TryReserveError> {
    let needed = memory.len() + data.len();
    if needed > memory.capacity() {
        let wanted = needed.max(memory.capacity().saturating_mul(2)).min(most.max(needed));
        memory.try_reserve_exact(wanted - memory.len())?;
    }
    memory.extend_from_slice(data);
    Ok(())
}

impl ObjectWriter for RemoteWriter {
    fn append(&self, data: &[u8]) -> Result<u64, StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = state.len;
        self.add(&mut state, data)?;
        state.len += data.len() as u64;
        Ok(offset)
    }

    fn reserve(&self, _: u64) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    fn write_reserved(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        let (store, operation) = (self.remote.name.clone(), "write what was not reserved");
        Err(StoreError::Unsupported { store, operation })
    }

    fn append_from(&self, source: &dyn Object, range: Range<u64>) -> Result<u64, StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = state.len;
        let mut at = range.start;
        loop {
            let mut pieces = Vec::with_capacity(AHEAD);
            while pieces.len() < AHEAD && (pieces.is_empty() || at < range.end) {
                let end = range.end.min(at.saturating_add(PIECE));
                pieces.push(ReadRange::Bounded(at..end));
                at = end;
            }
            for bytes in read_all(source, pieces) {
                let bytes = bytes?;
                self.add(&mut state, &bytes)?;
                state.len += bytes.len() as u64;
            }
            if at >= range.end {
                break;
            }
        }
        Ok(offset)
    }

    fn finish(self: Box<Self>, head: &[u8]) -> Result<Staged, StoreError> {
        if head.len() != self.head {
            let message =
                format!("{} bytes were reserved, but the head has {}", self.head, head.len());
            let source = io::Error::new(io::ErrorKind::InvalidInput, message);
            return Err(self.remote.io("write the head of", &self.key, source));
        }
        let mut state =
            std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        let mut first = Vec::new();
        if self.head > 0 {
            first = vec![Bytes::copy_from_slice(head), std::mem::take(&mut state.first).into()];
        }
        if state.spool.is_some() {
            self.spool(&mut state)?;
        }
        let content = match (state.upload.take(), state.spool.take()) {
            (_, Some(mut spool)) => {
                let mut at = 0;
                for piece in &first {
                    spool.write_head(at, piece).map_err(|source| {
                        self.remote.io("buffer on disk what is to be written to", &self.key, source)
                    })?;
                    at += piece.len() as u64;
                }
                Content::Spooled(Arc::new(spool))
            }
            (None, None) => {
                first.push(std::mem::take(&mut state.part).into());
                first.retain(|piece| !piece.is_empty());
                Content::Whole(first)
            }
            (Some(upload), None) => {
                if !state.part.is_empty() {
                    upload.put(state.number, vec![std::mem::take(&mut state.part).into()])?;
                }
                if self.head > 0 {
                    upload.put(0, first)?;
                }
                Content::Parts(upload)
            }
        };
        let (remote, key) = (Arc::clone(&self.remote), self.key.clone());
        let (condition, id, headers) =
            (self.condition.clone(), self.id.clone(), self.headers.clone());
        Ok(Staged::new(
            key.clone(),
            RemoteStaged { remote, key, condition, id, headers, content, memory: None },
        ))
    }
}
