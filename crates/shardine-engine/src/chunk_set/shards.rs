//! What shard indexes contain.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use shardine_codec::Context;
use shardine_store::{Buffer, Key, Object, ReadRange, Recovery, StoreError, StoreExt};

use super::ChunkSet;
use super::objects::{PossibleObject, ask_length, told_length};
use crate::layout::ShardLayout;
use crate::shard::{IndexLocation, ShardError, ShardIndex};
use crate::tuning::{AHEAD, REREADS, REREADS_BESIDE_A_WRITER, WRITER_WAIT};
use crate::{Error, ShardEntries, SharedPacking, in_order};

/// A shard whose index was read from the open object.
#[derive(Debug)]
pub struct IndexedShard {
    /// The open object.
    pub object: Arc<dyn Object>,
    /// Its index.
    pub index: ShardIndex,
    /// Where the index lies.
    pub index_range: Range<u64>,
    /// Its length in bytes.
    pub len: u64,
}

/// The outcome of reading the entries of a shard.
type FoundEntries = Result<Option<ShardEntries>, Error>;

impl ChunkSet {
    /// The entries in the index of the shard at `cell`; `None` if there is no such shard, or the
    /// array is not sharded.
    ///
    /// One open and one read. For nested shards these are the entries of the outer one;
    /// `Array::entry_shape` is the shape of what they hold.
    pub fn shard_entries(&self, cell: &[u64]) -> Result<Option<ShardEntries>, Error> {
        let key = match self.packing.shared() {
            Some(shared) => match shared.object_at(cell) {
                Some(object) => shared.object_key(object)?,
                None => return Ok(None),
            },
            None => self.packing.key(cell)?,
        };
        let cell = cell.to_vec();
        self.entries_of(&PossibleObject { key, cell, listed: None })
    }

    /// The entries in the indexes of these objects, in the given order; see
    /// [`shard_entries`](Self::shard_entries).
    ///
    /// One read each; a remote store is read in parallel, as far as its limit on requests in flight
    /// and the engine's memory allow. Stops when `visit` breaks.
    pub fn each_shard(
        &self,
        objects: &[PossibleObject],
        visit: &mut dyn FnMut(&PossibleObject, FoundEntries) -> ControlFlow<()>,
    ) {
        // The index as read and as decoded, and what is waiting for its turn.
        let index = self.layout.addressable().map_or(0, |shard| shard.index.len());
        let index = self.packing.shared().map_or(index, SharedPacking::index_bytes);
        let each = index.saturating_mul(2 + 2 * AHEAD as u64);
        let most = self.engine.at_once(&*self.store, each);
        let read = |i: usize| self.entries_of(&objects[i]);
        in_order(most, objects.len(), &read, &mut |i, found| visit(&objects[i], found));
    }

    fn entries_of(&self, stored: &PossibleObject) -> FoundEntries {
        if let Some(shared) = self.packing.shared() {
            let look = &mut |_| shared.entries(&self.engine, &stored.cell);
            return Ok(self.attempts(stored, look)?.flatten());
        }
        let Some(shard) = self.layout.addressable() else { return Ok(None) };
        self.attempts(stored, &mut |listed| self.entries_now(shard, stored, listed))
    }

    /// Retries while the object is replaced during the read; `None` if it does not exist.
    fn attempts<T>(
        &self,
        stored: &PossibleObject,
        look: &mut dyn FnMut(Option<u64>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut listed = stored.listed;
        for attempt in 0..REREADS as u64 {
            match look(listed) {
                Ok(found) => return Ok(Some(found)),
                Err(Error::Store(StoreError::NotFound { .. })) => return Ok(None),
                Err(Error::Store(StoreError::Changed { .. })) => {
                    listed = None;
                    std::thread::sleep(Duration::from_millis(attempt * 5));
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Unstable { object: stored.key.clone(), attempts: REREADS })
    }

    /// The entries of one version of a shard.
    fn entries_now(
        &self,
        shard: &ShardLayout,
        stored: &PossibleObject,
        listed: Option<u64>,
    ) -> Result<ShardEntries, Error> {
        let IndexedShard { index, index_range, len, .. } =
            self.open_shard_now(shard, stored, listed)?;
        let PossibleObject { key, cell, .. } = stored;
        ShardEntries::of_index(key, shard, &index, index_range, len)
            .map_err(|source| Error::shard(key, cell, source))
    }

    /// Opens a shard and reads its index; `None` if there is no such shard, or the array is not
    /// sharded.
    pub fn open_shard(&self, cell: &[u64]) -> Result<Option<IndexedShard>, Error> {
        let Some(shard) = self.layout.addressable() else { return Ok(None) };
        let (key, cell) = (self.packing.key(cell)?, cell.to_vec());
        let stored = PossibleObject { key, cell, listed: None };
        self.attempts(&stored, &mut |listed| self.open_shard_now(shard, &stored, listed))
    }

    /// Opens one version of a shard.
    fn open_shard_now(
        &self,
        shard: &ShardLayout,
        stored: &PossibleObject,
        listed: Option<u64>,
    ) -> Result<IndexedShard, Error> {
        let PossibleObject { key, cell, .. } = stored;
        let damaged = |source| Error::shard(key, cell, source);
        let read_index = |object: &dyn Object| {
            let (len, bytes) = read_index(shard, key, object, listed)?;
            let index_range = shard.index.range(len).map_err(damaged)?;
            let Some(bytes) = bytes else {
                let index = shard.index.len();
                return Err(damaged(ShardError::Truncated { actual: len, index }));
            };
            let decode = |c: &mut Context| shard.index.decode(c, &bytes, len);
            let index = self.engine.with_context(decode).map_err(damaged)?;
            Ok::<_, Error>((index, index_range, len))
        };
        let store = &self.store;
        let mut object = store.open(key, None)?;
        let mut found = read_index(&*object);
        let mut suspect = None;
        // Attempts that met no writer.
        let mut quiet = 0;
        for attempt in 1.. {
            if !matches!(found, Err(Error::Shard { .. })) {
                break;
            }
            // A writer may be changing it in place, or may have died doing so.
            let version = object.version();
            let mut is_last = false;
            match store.recover(key)? {
                // Each change creates a new version: this one is damaged, whatever the writer does.
                Recovery::Done | Recovery::Before(_) if version.is_some() && version == suspect => {
                    break;
                }
                Recovery::Done | Recovery::Before(_) if attempt == REREADS_BESIDE_A_WRITER => {
                    return Err(Error::Store(StoreError::Changed { key: key.clone() }));
                }
                // Only a file can be read while it is being changed.
                Recovery::Nothing if !store.has_folders() => is_last = true,
                Recovery::Nothing => {
                    // Either the change has finished since the read, or the shard is damaged and
                    // stays so.
                    let again = store.open(key, None)?;
                    quiet += 1;
                    is_last =
                        quiet >= REREADS || again.version().is_some_and(|now| version == Some(now));
                    object = again;
                    if !is_last && quiet > 1 {
                        std::thread::sleep(Duration::from_millis(quiet as u64 * 5));
                    }
                }
                Recovery::Done => object = store.open(key, None)?,
                Recovery::Before(before) => object = before,
            }
            if attempt > REREADS {
                std::thread::sleep(WRITER_WAIT);
            }
            suspect = version;
            found = read_index(&*object);
            if is_last {
                break;
            }
        }
        let (index, index_range, len) = found?;
        Ok(IndexedShard { object, index, index_range, len })
    }
}

/// Reads the index of a shard and returns it with the shard's length; no bytes if the shard is
/// shorter than an index.
///
/// One request. A listed length that differs from the object's is [`StoreError::Changed`].
fn read_index(
    shard: &ShardLayout,
    key: &Key,
    object: &dyn Object,
    listed: Option<u64>,
) -> Result<(u64, Option<Buffer>), StoreError> {
    let Some(len) = object.len().or(listed) else {
        let First { len, index } = first_read(Some(shard), object, 0)?;
        return Ok((len, index));
    };
    let read = match shard.index.range(len) {
        Ok(range) => object.read(ReadRange::Bounded(range)).map(Some),
        Err(_) => ask_length(object).map(|_| None),
    };
    match actual_length(object, &read) {
        Some(actual) if actual != len => Err(StoreError::Changed { key: key.clone() }),
        _ => Ok((len, read?)),
    }
}

/// The length of an object, if the object or the outcome of a read reveals it.
pub fn actual_length<T>(object: &dyn Object, read: &Result<T, StoreError>) -> Option<u64> {
    object.len().or(match read {
        Err(StoreError::OutOfRange { len, .. }) => Some(*len),
        _ => None,
    })
}

/// What the first read reveals about an object of unknown length.
#[derive(Debug)]
pub struct First {
    /// Its length in bytes.
    pub len: u64,
    /// The bytes of its index, if it is a shard that is long enough to have one.
    pub index: Option<Buffer>,
}

/// Learns the length of an object with one request, which also returns the index if it is a shard,
/// and may return up to `most` bytes for later reads.
pub fn first_read(
    shard: Option<&ShardLayout>,
    object: &dyn Object,
    most: u64,
) -> Result<First, StoreError> {
    let Some(shard) = shard else {
        return Ok(First { len: ask_length(object)?, index: None });
    };
    let need = shard.index.len();
    let most = most.max(need);
    let range = match shard.index.location() {
        IndexLocation::Start => ReadRange::Head { need, most },
        IndexLocation::End => ReadRange::Tail { need, most },
    };
    match object.read(range) {
        Ok(bytes) => Ok(First { len: told_length(object)?, index: Some(bytes) }),
        Err(StoreError::OutOfRange { len, .. }) => Ok(First { len, index: None }),
        Err(error) => Err(error),
    }
}
