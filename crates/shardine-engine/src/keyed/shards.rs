use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use quick_cache::Weighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use shardine_codec::Context;
use shardine_store::{Buffer, Key, Object, ReadRange, Store, StoreError, StoreExt, Version};

use super::joined::Joined;
use crate::on_threads;
use crate::shard::uint64::{
    KeyPlace, MAX_INDEX, Minishard, MinishardEntry, ShardTable, Sharding, Uint64Error,
};
use crate::tuning::{INDEX_GAP, KEPT_INDEXES, KEPT_TABLES, MAX_MERGED_READ, REREADS, WHOLE_TABLE};

/// The most keys that one shard may have.
const MAX_ENTRIES: usize = 1 << 26;

/// An open shard.
pub struct OpenShard {
    /// Its key.
    pub key: Key,
    /// The open object.
    pub object: Arc<dyn Object>,
    /// The version being read, for objects that learn their own only by reading.
    expected: Option<Version>,
    /// Whether it is in the older form, two objects.
    is_older: bool,
    /// The length, as far as known.
    len: u64,
    table: Option<Arc<ShardTable>>,
    /// Where no value can be: the table, and all indexes if the table is known. Sorted and
    /// disjoint.
    taken: Arc<[Range<u64>]>,
}

impl OpenShard {
    /// The version being read, as far as known.
    fn version(&self) -> Option<Version> {
        self.object.version().or_else(|| self.expected.clone())
    }
}

impl fmt::Debug for OpenShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenShard").field("key", &self.key).finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct ByMemory;

impl Weighter<u64, Arc<OpenShard>> for ByMemory {
    fn weight(&self, _: &u64, shard: &Arc<OpenShard>) -> u64 {
        // An open file has a price too: only a few dozen are kept.
        shard.table.as_ref().map_or(0, |table| table.len() * 32) + (64 << 10)
    }
}

/// The index of a minishard, and its range in the shard.
type PlacedIndex = (Arc<Minishard>, Range<u64>);

/// The index of a minishard, with the version of its shard and its range in it.
type KnownIndex = (Option<Version>, Arc<Minishard>, Range<u64>);

/// One read that covers several indexes of a shard.
struct IndexRead {
    shard: Arc<OpenShard>,
    range: Range<u64>,
    /// The indexes and their ranges.
    indexes: Vec<(KeyPlace, Range<u64>)>,
}

impl Weighter<KeyPlace, KnownIndex> for ByMemory {
    fn weight(&self, _: &KeyPlace, (_, index, _): &KnownIndex) -> u64 {
        index.memory() as u64 + 64
    }
}

/// The shards of one folder, with what is known about their indexes.
pub struct KeyedShards {
    /// Where the shards live.
    pub store: Arc<dyn Store>,
    /// The folder that holds them; `None` is the root of the store.
    pub folder: Option<Key>,
    /// Which key is in which shard.
    pub sharding: Sharding,
    opened: Mutex<Cache<u64, Arc<OpenShard>, ByMemory, RandomState>>,
    indexes: Mutex<Cache<KeyPlace, KnownIndex, ByMemory, RandomState>>,
}

impl fmt::Debug for KeyedShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = f.debug_struct("KeyedShards");
        { name }.field("folder", &self.folder).field("sharding", &self.sharding).finish()
    }
}

/// All entries of a shard, by minishard and key.
#[derive(Debug, Clone, Default)]
pub struct ShardIndexes {
    /// Bytes of the shard.
    pub len: u64,
    /// Bytes of the table at its start.
    pub table_len: u64,
    /// Where the indexes of minishards are.
    pub index_ranges: Vec<Range<u64>>,
    /// The ranges of these and of the table, sorted and disjoint.
    taken: Vec<Range<u64>>,
    /// The minishards, as stored.
    pub minishards: Vec<(u64, Minishard)>,
}

impl ShardIndexes {
    /// The bytes of a value.
    pub fn range(&self, entry: &MinishardEntry) -> Result<Range<u64>, Uint64Error> {
        entry.range_outside(self.len, &self.taken)
    }

    /// The minishard and entry of each value.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &MinishardEntry)> {
        let minishards = self.minishards.iter();
        minishards.flat_map(|(number, index)| index.entries().iter().map(move |e| (*number, e)))
    }
}

pub(super) fn damaged(key: &Key, error: &Uint64Error) -> StoreError {
    StoreError::Damaged { key: key.clone(), reason: error.to_string() }
}

impl KeyedShards {
    /// The shards of a folder. Reads nothing.
    pub fn new(store: Arc<dyn Store>, folder: Option<Key>, sharding: Sharding) -> Self {
        let cache = |bytes| {
            let (hash, lifecycle) = (RandomState::default(), DefaultLifecycle::default());
            Cache::with(64, bytes, ByMemory, hash, lifecycle)
        };
        let (hash, lifecycle) = (RandomState::default(), DefaultLifecycle::default());
        let opened = Mutex::new(Cache::with(64, KEPT_TABLES, ByMemory, hash, lifecycle));
        Self { store, folder, sharding, opened, indexes: Mutex::new(cache(KEPT_INDEXES)) }
    }

    /// The key of an object in the folder.
    pub fn object_key(&self, name: &str) -> Result<Key, StoreError> {
        match &self.folder {
            Some(folder) => folder.join(name),
            None => Key::new(name),
        }
    }

    /// The key of a shard.
    pub fn shard_key(&self, shard: u64) -> Result<Key, StoreError> {
        self.object_key(&self.sharding.shard_name(shard))
    }

    /// The two objects that make up a shard in its older form.
    pub fn older_keys(&self, shard: u64) -> Result<[Key; 2], StoreError> {
        let stem = self.sharding.shard_stem(shard);
        Ok([self.object_key(&format!("{stem}.index"))?, self.object_key(&format!("{stem}.data"))?])
    }

    /// Opens a shard, in either form; `None` if there is none.
    pub fn open_object(&self, shard: u64) -> Result<Option<Arc<dyn Object>>, StoreError> {
        let key = self.shard_key(shard)?;
        match open(&*self.store, &key)? {
            Some(object) => Ok(Some(object)),
            None => self.open_older(shard),
        }
    }

    /// Opens a shard in its older form.
    pub fn open_older(&self, shard: u64) -> Result<Option<Arc<dyn Object>>, StoreError> {
        let [index, data] = self.older_keys(shard)?;
        let Some(first) = open(&*self.store, &index)? else {
            self.refuse_wrapped(shard)?;
            return Ok(None);
        };
        // A table without values is an empty shard.
        let Some(second) = open(&*self.store, &data)? else { return Ok(Some(first)) };
        Ok(Some(Arc::new(Joined::new(index, first, second)?)))
    }

    /// Refuses a shard that was compressed as a whole: no reader could use it, yet it is not
    /// missing.
    fn refuse_wrapped(&self, shard: u64) -> Result<(), StoreError> {
        // In object stores such a shard has a header, and its own name. Where names cannot be
        // listed, it is probed.
        if !self.store.has_folders() && self.store.can_list() {
            return Ok(());
        }
        let key = self.object_key(&format!("{}.gz", self.sharding.shard_name(shard)))?;
        match open(&*self.store, &key)? {
            Some(_) => {
                let reason =
                    "it is a shard that was compressed as a whole, which no reader finds; \
                              `shardine repair` unwraps it"
                        .to_owned();
                Err(StoreError::Damaged { key, reason })
            }
            None => Ok(()),
        }
    }

    /// Whether any part of a shard's older form exists.
    pub fn has_older(&self, shard: u64) -> Result<bool, StoreError> {
        for key in self.older_keys(shard)? {
            if open(&*self.store, &key)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a shard exists in its usual form.
    pub fn is_there(&self, shard: u64) -> Result<bool, StoreError> {
        Ok(open(&*self.store, &self.shard_key(shard)?)?.is_some())
    }

    /// Forgets what is known about a shard.
    pub fn forget(&self, shard: u64) {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).remove(&shard);
    }

    /// The open shard, and whether it was open before. With `trust`, one that was open is not
    /// checked for being current.
    fn shard(
        &self,
        number: u64,
        trust: bool,
    ) -> Result<Option<(Arc<OpenShard>, bool)>, StoreError> {
        let known = {
            let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            opened.get(&number).cloned()
        };
        if let Some(known) = known {
            if known.object.can_be_kept() {
                if trust || known.object.is_current()? {
                    return Ok(Some((known, true)));
                }
            } else if let Some(again) = self.reopen(&known)? {
                return Ok(Some((Arc::new(again), true)));
            }
            self.forget(number);
        }
        let key = self.shard_key(number)?;
        let opened = match self.store.open(&key, None) {
            Ok(object) => self.open_shard(&key, object)?,
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let opened = match opened {
            Some(opened) => opened,
            None => {
                let Some(object) = self.open_older(number)? else { return Ok(None) };
                let Some(opened) = self.open_shard(&key, object)? else { return Ok(None) };
                OpenShard { is_older: true, ..opened }
            }
        };
        let shard = Arc::new(opened);
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.insert(number, Arc::clone(&shard));
        Ok(Some((shard, false)))
    }

    /// Reopens a shard whose contents are known for one version, requiring that version: an object
    /// that has been open for long may not notice that it was replaced. `None` if it was replaced,
    /// or if that cannot be determined.
    fn reopen(&self, known: &OpenShard) -> Result<Option<OpenShard>, StoreError> {
        let Some(version) = known.version().filter(|_| !known.is_older) else { return Ok(None) };
        let object = match self.store.open(&known.key, Some(&version)) {
            Ok(object) => object,
            Err(StoreError::NotFound { .. } | StoreError::Changed { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if object.version().is_some_and(|now| now != version) {
            return Ok(None);
        }
        Ok(Some(OpenShard {
            key: known.key.clone(),
            object,
            expected: Some(version),
            is_older: false,
            len: known.len,
            table: known.table.clone(),
            taken: Arc::clone(&known.taken),
        }))
    }

    /// Reads the table of a shard, unless it is large; `None` if there is no such object after all.
    fn open_shard(
        &self,
        key: &Key,
        object: Arc<dyn Object>,
    ) -> Result<Option<OpenShard>, StoreError> {
        let need = self.sharding.table_len();
        let table = if need <= WHOLE_TABLE {
            let read = match object.len() {
                Some(len) => object.read(ReadRange::Bounded(0..need.min(len))),
                None => object.read(ReadRange::Head { need, most: need.max(128 << 10) }),
            };
            let bytes = match read {
                // A store whose opens are free finds out now.
                Err(StoreError::NotFound { .. }) => return Ok(None),
                read => read?,
            };
            let len = object.len().unwrap_or(u64::MAX);
            let table = ShardTable::new(&self.sharding, bytes.to_vec(), len);
            Some(table.map_err(|error| damaged(key, &error))?)
        } else {
            None
        };
        let len = object.len().unwrap_or(u64::MAX);
        let own = 0..need;
        let taken = table.as_ref().map_or_else(|| vec![own], ShardTable::taken).into();
        let (key, table) = (key.clone(), table.map(Arc::new));
        Ok(Some(OpenShard { key, object, expected: None, is_older: false, len, table, taken }))
    }

    /// The range of a minishard's index.
    fn index_range(
        &self,
        shard: &OpenShard,
        minishard: u64,
    ) -> Result<Option<Range<u64>>, StoreError> {
        let range = match &shard.table {
            Some(table) => table.get(minishard),
            None => {
                // Its entry in the table, as if it were the only one.
                let at = minishard * 16;
                let entry = shard.object.read(ReadRange::Bounded(at..at + 16))?;
                let mut one = self.sharding.clone();
                one.minishard_bits = 0;
                let behind = self.sharding.table_len() - 16;
                ShardTable::new(&one, entry.to_vec(), shard.len.saturating_sub(behind))
                    .and_then(|table| table.get(0))
                    .map(|range| range.map(|range| range.start + behind..range.end + behind))
            }
        };
        range.map_err(|error| damaged(&shard.key, &error))
    }

    fn index(
        &self,
        shard: &OpenShard,
        place: KeyPlace,
        context: &mut Context,
    ) -> Result<Option<PlacedIndex>, StoreError> {
        if let Some(known) = self.known_index(&place, shard.version().as_ref()) {
            return Ok(Some(known));
        }
        let Some(range) = self.index_range(shard, place.minishard)? else { return Ok(None) };
        check_index(&shard.key, place.minishard, &range)?;
        let (version, bytes) = self.read_versioned(shard, &range)?;
        let index = self.keep_index(shard, version, (place, &range), &bytes, context)?;
        Ok(Some((index, range)))
    }

    /// Reads bytes of a shard and returns their version, if it is certain.
    fn read_versioned(
        &self,
        shard: &OpenShard,
        range: &Range<u64>,
    ) -> Result<(Option<Version>, Buffer), StoreError> {
        // The version of a file may become certain while it is read, and be that of later bytes.
        let before = shard.version();
        let bytes = shard.object.read(ReadRange::Bounded(range.clone()))?;
        // All reads of a remote object are of one version, which the first one determines.
        let version = before.or_else(|| shard.version().filter(|_| !self.store.read_cost().local));
        Ok((version, bytes))
    }

    /// The index of a minishard, if it was read from this version of its shard.
    fn known_index(&self, place: &KeyPlace, version: Option<&Version>) -> Option<PlacedIndex> {
        let indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, index, range) = indexes.get(place)?;
        (of.is_some() && of.as_ref() == version).then(|| (Arc::clone(index), range.clone()))
    }

    /// Decodes the index of a minishard and caches it.
    fn keep_index(
        &self,
        shard: &OpenShard,
        version: Option<Version>,
        (place, range): (KeyPlace, &Range<u64>),
        encoded: &[u8],
        context: &mut Context,
    ) -> Result<Arc<Minishard>, StoreError> {
        let index = Minishard::decode(&self.sharding, context, place.minishard, encoded)
            .map_err(|error| damaged(&shard.key, &error))?;
        let index = Arc::new(index);
        let known = (version, Arc::clone(&index), range.clone());
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).insert(place, known);
        Ok(index)
    }

    /// Finds the value of a key; `None` if there is none.
    #[expect(clippy::type_complexity, reason = "it is a shard and a range")]
    pub fn find(
        &self,
        key: u64,
        context: &mut Context,
    ) -> Result<Option<(Arc<OpenShard>, Range<u64>)>, StoreError> {
        let found = self.find_in(self.sharding.place(key).shard, &[key], false, context)?;
        Ok(found.and_then(|(shard, ranges, _)| Some((shard, ranges.into_iter().next()??))))
    }

    /// Opens a shard, finds values in it, and returns whether it was open before; `None` if there
    /// is no such shard.
    ///
    /// With `trust`, a shard that was open may be out of date: the caller checks after reading.
    #[expect(clippy::type_complexity, reason = "it is a shard, ranges and a flag")]
    pub fn find_in(
        &self,
        number: u64,
        keys: &[u64],
        trust: bool,
        context: &mut Context,
    ) -> Result<Option<(Arc<OpenShard>, Vec<Option<Range<u64>>>, bool)>, StoreError> {
        for _ in 0..REREADS {
            let Some((shard, known)) = self.shard(number, trust)? else { return Ok(None) };
            let ranges: Result<Vec<_>, _> =
                keys.iter().map(|&key| self.range_of(&shard, key, context)).collect();
            match ranges {
                // It has not been checked whether this is still true.
                Ok(ranges)
                    if known
                        && !shard.object.can_be_kept()
                        && ranges.iter().any(Option::is_none) => {}
                Ok(ranges) => return Ok(Some((shard, ranges, known))),
                // It was replaced after it was opened.
                Err(StoreError::Changed { .. }) => {}
                Err(_) if known && trust && !shard.object.is_current()? => {}
                Err(error) => return Err(error),
            }
            self.forget(number);
        }
        Err(StoreError::Changed { key: self.shard_key(number)? })
    }

    /// The range of a key's value in its shard.
    fn range_of(
        &self,
        shard: &OpenShard,
        key: u64,
        context: &mut Context,
    ) -> Result<Option<Range<u64>>, StoreError> {
        let index = self.index(shard, self.sharding.place(key), context)?;
        let Some((entry, own)) = index.and_then(|(index, own)| Some((*index.get(key)?, own)))
        else {
            return Ok(None);
        };
        // If the table is too large to be read whole, at least this index is known.
        let range = entry
            .range_outside(shard.len, &shard.taken)
            .and_then(|range| entry.range_outside(shard.len, &[own]).map(|_| range))
            .map_err(|error| damaged(&shard.key, &error))?;
        Ok(Some(range))
    }

    /// Runs `work` on the range of a value, and retries if the shard is replaced meanwhile; `None`
    /// if there is no value.
    pub fn with_value<T>(
        &self,
        key: u64,
        context: &mut Context,
        mut work: impl FnMut(&OpenShard, Range<u64>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let number = self.sharding.place(key).shard;
        for _ in 0..REREADS {
            let Some((shard, range)) = self.find(key, context)? else { return Ok(None) };
            let done =
                work(&shard, range).and_then(|done| shard.object.check_unchanged().map(|()| done));
            match done {
                Err(StoreError::Changed { .. } | StoreError::NotFound { .. }) => {
                    self.forget(number)
                }
                done => return done.map(Some),
            }
        }
        Err(StoreError::Changed { key: self.shard_key(number)? })
    }

    /// Prefetches the indexes that lead to some keys, many in parallel and neighbours together:
    /// every request to a remote store costs a round trip.
    ///
    /// Errors are ignored here; they occur again, and are reported, when the key is looked up.
    pub fn prepare(&self, keys: &[u64], at_once: usize) {
        let places: BTreeSet<KeyPlace> = keys.iter().map(|&key| self.sharding.place(key)).collect();
        let places: Vec<KeyPlace> = places.into_iter().collect();
        let shards: Vec<&[KeyPlace]> = places.chunk_by(|a, b| a.shard == b.shard).collect();
        let reads: Mutex<Vec<IndexRead>> = Mutex::default();
        side_by_side(at_once, &shards, |places| {
            let Some(first) = places.first() else { return };
            if let Ok(Some((shard, _))) = self.shard(first.shard, false)
                && shard.table.is_some()
            {
                let of_shard = self.index_reads(&shard, places);
                reads.lock().unwrap_or_else(PoisonError::into_inner).extend(of_shard);
            }
        });
        let reads = reads.into_inner().unwrap_or_else(PoisonError::into_inner);
        side_by_side(at_once, &reads, |read| drop(self.read_together(read)));
        if self.sharding.table_len() > WHOLE_TABLE {
            // Each index takes a read of its own.
            side_by_side(at_once, &places, |&place| {
                if let Ok(Some((shard, _))) = self.shard(place.shard, false) {
                    drop(self.index(&shard, place, &mut Context::default()));
                }
            });
        }
    }

    /// The reads that fetch the minishard indexes not known yet.
    fn index_reads(&self, shard: &Arc<OpenShard>, places: &[KeyPlace]) -> Vec<IndexRead> {
        let version = shard.version();
        let mut ranges: Vec<(KeyPlace, Range<u64>)> = places
            .iter()
            .filter(|place| self.known_index(place, version.as_ref()).is_none())
            .filter_map(|place| Some((*place, self.index_range(shard, place.minishard).ok()??)))
            .filter(|(place, range)| check_index(&shard.key, place.minishard, range).is_ok())
            .collect();
        ranges.sort_by_key(|(_, range)| range.start);
        let mut reads: Vec<IndexRead> = Vec::new();
        for (place, range) in ranges {
            match reads.last_mut() {
                Some(last) if are_near(&last.range, &range) => {
                    last.range.end = last.range.end.max(range.end);
                    last.indexes.push((place, range));
                }
                _ => {
                    let indexes = vec![(place, range.clone())];
                    reads.push(IndexRead { shard: Arc::clone(shard), range, indexes });
                }
            }
        }
        reads
    }

    /// Reads neighbouring indexes of a shard and caches them.
    fn read_together(&self, read: &IndexRead) -> Result<(), StoreError> {
        let IndexRead { shard, range, indexes } = read;
        let (version, bytes) = self.read_versioned(shard, range)?;
        let mut context = Context::default();
        for (place, index) in indexes {
            let at = (index.start - range.start) as usize..(index.end - range.start) as usize;
            let encoded = bytes.get(at).unwrap_or_default();
            self.keep_index(shard, version.clone(), (*place, index), encoded, &mut context)?;
        }
        Ok(())
    }

    /// Reads all indexes of a shard.
    pub fn read_indexes(
        &self,
        key: &Key,
        object: &dyn Object,
        context: &mut Context,
    ) -> Result<ShardIndexes, StoreError> {
        let wrong = |error: Uint64Error| damaged(key, &error);
        let need = self.sharding.table_len();
        let head = match object.len() {
            Some(len) => object.read(ReadRange::Bounded(0..need.min(len)))?,
            None => object.read(ReadRange::Bounded(0..need))?,
        };
        let len = object.len().unwrap_or(u64::MAX);
        let table = ShardTable::new(&self.sharding, head.to_vec(), len).map_err(wrong)?;
        let mut ranges = Vec::new();
        let mut total = 0u64;
        for minishard in 0..table.len() {
            if let Some(range) = table.get(minishard).map_err(wrong)? {
                check_index(key, minishard, &range)?;
                total = total.saturating_add(range.end - range.start);
                ranges.push((minishard, range));
            }
        }
        // Overlapping indexes could add up to any multiple of the shard's length.
        if total > len {
            let reason =
                format!("its table gives its indexes {total} bytes in total, but it has {len}");
            return Err(StoreError::Damaged { key: key.clone(), reason });
        }
        let mut entries = 0usize;
        let mut minishards = Vec::with_capacity(ranges.len());
        let mut by_place: Vec<usize> = (0..ranges.len()).collect();
        by_place.sort_by_key(|&i| ranges[i].1.start);
        let mut rest = by_place.as_slice();
        while let Some((&first, more)) = rest.split_first() {
            let mut read = ranges[first].1.clone();
            let together = more.iter().take_while(|&&i| {
                let range = &ranges[i].1;
                let joined = are_near(&read, range);
                if joined {
                    read.end = read.end.max(range.end);
                }
                joined
            });
            let count = 1 + together.count();
            let (now, later) = rest.split_at(count);
            let bytes = object.read(ReadRange::Bounded(read.clone()))?;
            for &i in now {
                let (minishard, range) = &ranges[i];
                let at = (range.start - read.start) as usize..(range.end - read.start) as usize;
                let encoded = bytes.get(at).unwrap_or_default();
                let index = Minishard::decode(&self.sharding, context, *minishard, encoded);
                let index = index.map_err(wrong)?;
                entries += index.entries().len();
                // A compressed index may have any number of keys; only a few of them can have empty
                // values.
                let most = len.saturating_add(1 << 16).min(MAX_ENTRIES as u64);
                if entries as u64 > most {
                    let reason = format!("it claims more than {most} keys, which is implausible");
                    return Err(StoreError::Damaged { key: key.clone(), reason });
                }
                minishards.push((*minishard, index));
            }
            rest = later;
        }
        minishards.sort_by_key(|(minishard, _)| *minishard);
        let index_ranges = ranges.into_iter().map(|(_, range)| range).collect();
        Ok(ShardIndexes { len, table_len: need, index_ranges, taken: table.taken(), minishards })
    }

    /// The number of the shard that an object with this name holds or, in the older form, belongs
    /// to.
    pub fn number_of(&self, name: &str) -> Option<u64> {
        let stem = name.strip_suffix(".shard").or_else(|| name.strip_suffix(".index"))?;
        self.sharding.shard_number(stem)
    }

    /// The numbers of the stored shards, in either form, sorted.
    pub fn stored(&self) -> Result<Vec<u64>, StoreError> {
        let listing = self.store.list(self.folder.as_ref())?;
        let number = |name: &str| self.number_of(name);
        listing.refuse_unlisted(|name| number(name).is_some())?;
        let last = |key: &Key| key.as_str().rsplit('/').next().map(str::to_owned);
        let names = listing.objects.iter().filter_map(|(key, _)| last(key));
        let mut shards: Vec<u64> = names.filter_map(|name| number(&name)).collect();
        shards.sort_unstable();
        shards.dedup();
        Ok(shards)
    }
}

/// Whether two ranges are close enough to be read together; the first must not start later.
fn are_near(read: &Range<u64>, next: &Range<u64>) -> bool {
    next.start <= read.end.saturating_add(INDEX_GAP)
        && next.end.max(read.end) - read.start <= MAX_MERGED_READ
}

/// Refuses an index longer than is plausible.
fn check_index(key: &Key, minishard: u64, range: &Range<u64>) -> Result<(), StoreError> {
    let len = range.end - range.start;
    if len > MAX_INDEX as u64 {
        let reason = format!("the index of minishard {minishard} is recorded as {len} bytes");
        return Err(StoreError::Damaged { key: key.clone(), reason });
    }
    Ok(())
}

/// Runs `work` on each item, many in parallel, each on a thread of its own since it waits for a
/// store.
pub(crate) fn side_by_side<T: Sync>(at_once: usize, items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    on_threads(at_once.min(items.len()), &|| {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item);
        }
    });
}

/// Opens an object; `None` if it does not exist.
fn open(store: &dyn Store, key: &Key) -> Result<Option<Arc<dyn Object>>, StoreError> {
    let object = match store.open(key, None) {
        Ok(object) => object,
        Err(StoreError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    if object.version().is_some() || store.read_cost().local {
        return Ok(Some(object));
    }
    // A store whose opens are free finds out with the first read.
    match object.read(ReadRange::Bounded(0..0)) {
        Ok(_) => Ok(Some(object)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
