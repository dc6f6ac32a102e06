use std::ops::Range;

use shardine_codec::{BytesToBytes, Codec, CodecError, CodecSpec, Context, from_spec};

use super::{Encoding, Sharding};

/// The largest decoded minishard index that is accepted, in bytes: eleven million keys.
pub const MAX_INDEX: usize = 256 << 20;

/// Bytes of an entry in a minishard's index.
const ENTRY: usize = 24;

/// A shard whose indexes contradict the format.
#[derive(Debug, Clone, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum Uint64Error {
    /// The shard is shorter than the table at its start.
    #[error("the shard holds {actual} bytes, but the table of its minishards alone needs {table}")]
    Truncated {
        /// Bytes of the shard.
        actual: u64,
        /// Bytes of the table.
        table: u64,
    },
    /// The stated range of an index is outside the shard.
    #[error(
        "the index of minishard {minishard} is recorded at bytes {start}..{end} of a shard of \
         {actual}"
    )]
    IndexRange {
        /// Which minishard.
        minishard: u64,
        /// Its first byte.
        start: u64,
        /// The byte after its last.
        end: u64,
        /// Bytes of the shard.
        actual: u64,
    },
    /// An index cannot be decompressed.
    #[error("the index of minishard {minishard} cannot be decoded: {source}")]
    IndexEncoding {
        /// Which minishard.
        minishard: u64,
        /// Why not.
        source: CodecError,
    },
    /// The length of an index is not a multiple of an entry's.
    #[error("the index of minishard {minishard} has {actual} bytes, not a multiple of 24")]
    IndexLength {
        /// Which minishard.
        minishard: u64,
        /// Decoded bytes.
        actual: usize,
    },
    /// The stated range of a value is outside the shard.
    #[error("key {key} is recorded at bytes {start}..{end} of a shard of {actual}")]
    ValueRange {
        /// Which key.
        key: u64,
        /// Its first byte.
        start: u64,
        /// The byte after its last, or `u64::MAX` on overflow.
        end: u64,
        /// Bytes of the shard.
        actual: u64,
    },
    /// The stated range of a value overlaps the table or an index.
    #[error(
        "key {key} is recorded at bytes {start}..{end}, which reach into the table or an index of \
         a minishard"
    )]
    ValueInIndex {
        /// Which key.
        key: u64,
        /// Its first byte.
        start: u64,
        /// The byte after its last.
        end: u64,
    },
}

/// The table at the start of a shard: where the index of each minishard lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardTable {
    /// Pairs of little-endian start and end, relative to the end of the table.
    bytes: Vec<u8>,
    shard_len: u64,
}

impl ShardTable {
    /// Takes the first bytes of a shard of `shard_len` bytes.
    pub fn new(sharding: &Sharding, bytes: Vec<u8>, shard_len: u64) -> Result<Self, Uint64Error> {
        let table = sharding.table_len();
        if (bytes.len() as u64) < table || shard_len < table {
            return Err(Uint64Error::Truncated {
                actual: shard_len.min(bytes.len() as u64),
                table,
            });
        }
        let mut bytes = bytes;
        bytes.truncate(table as usize);
        Ok(Self { bytes, shard_len })
    }

    /// The number of minishards.
    pub fn len(&self) -> u64 {
        (self.bytes.len() / 16) as u64
    }

    /// The ranges of the table and of all indexes that lie inside the shard, sorted and disjoint.
    pub fn taken(&self) -> Vec<Range<u64>> {
        let indexes = (0..self.len()).filter_map(|minishard| self.get(minishard).ok().flatten());
        merged(std::iter::once(0..self.bytes.len() as u64).chain(indexes).collect())
    }

    /// Whether there are no minishards, which is never the case.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of the shard that the table belongs to.
    pub fn shard_len(&self) -> u64 {
        self.shard_len
    }

    /// Where the index of a minishard lies in the shard; `None` if the minishard is empty.
    pub fn get(&self, minishard: u64) -> Result<Option<Range<u64>>, Uint64Error> {
        let at = usize::try_from(minishard).ok().and_then(|i| i.checked_mul(16));
        let pair = at.and_then(|at| self.bytes.get(at..)).and_then(<[u8]>::first_chunk::<16>);
        let Some(pair) = pair else { return Ok(None) };
        let (words, _) = pair.as_chunks::<8>();
        let (start, end) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        if start == end {
            return Ok(None);
        }
        let table = self.bytes.len() as u64;
        let range = start.checked_add(table).zip(end.checked_add(table));
        match range {
            Some((start, end)) if start < end && end <= self.shard_len => Ok(Some(start..end)),
            _ => Err(Uint64Error::IndexRange { minishard, start, end, actual: self.shard_len }),
        }
    }
}

/// A value as recorded in the index of its minishard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinishardEntry {
    /// Its key.
    pub key: u64,
    /// Its first byte in the shard, as stored, unchecked.
    pub start: u64,
    /// Its length, unchecked.
    pub len: u64,
}

impl MinishardEntry {
    /// Its bytes in a shard of `shard_len`.
    pub fn range(&self, shard_len: u64) -> Result<Range<u64>, Uint64Error> {
        let end = self.start.checked_add(self.len);
        match end {
            Some(end) if end <= shard_len => Ok(self.start..end),
            _ => Err(Uint64Error::ValueRange {
                key: self.key,
                start: self.start,
                end: end.unwrap_or(u64::MAX),
                actual: shard_len,
            }),
        }
    }
}

impl MinishardEntry {
    /// The same, but an error if the value overlaps one of these ranges, which are sorted and
    /// disjoint.
    pub fn range_outside(
        &self,
        shard_len: u64,
        taken: &[Range<u64>],
    ) -> Result<Range<u64>, Uint64Error> {
        let range = self.range(shard_len)?;
        let after = taken.partition_point(|other| other.end <= range.start);
        match taken.get(after) {
            Some(other) if other.start < range.end && !range.is_empty() => {
                let Range { start, end } = range;
                Err(Uint64Error::ValueInIndex { key: self.key, start, end })
            }
            _ => Ok(range),
        }
    }
}

/// The ranges sorted, with touching ones merged.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges.dedup_by(|next, last| {
        let joined = next.start <= last.end;
        if joined {
            last.end = last.end.max(next.end);
        }
        joined
    });
    ranges
}

/// The decoded index of a minishard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Minishard {
    /// By key if `sorted`, otherwise as stored.
    entries: Vec<MinishardEntry>,
    /// Whether keys are ascending.
    sorted: bool,
}

impl Minishard {
    /// Decodes an index. Keys may come in any order, and numbers wrap around as in the format.
    pub fn decode(
        sharding: &Sharding,
        context: &mut Context,
        minishard: u64,
        encoded: &[u8],
    ) -> Result<Self, Uint64Error> {
        let failed = |source| Uint64Error::IndexEncoding { minishard, source };
        match sharding.minishard_index_encoding {
            Encoding::Raw => Self::from_bytes(sharding, minishard, encoded),
            Encoding::Gzip => {
                let mut decoded = context.take_buffer();
                gzip(1)
                    .and_then(|gzip| gzip.decode(context, encoded, MAX_INDEX, &mut decoded))
                    .map_err(failed)?;
                let index = Self::from_bytes(sharding, minishard, &decoded);
                context.give_buffer(decoded);
                index
            }
        }
    }

    fn from_bytes(sharding: &Sharding, minishard: u64, bytes: &[u8]) -> Result<Self, Uint64Error> {
        let actual = bytes.len();
        if !actual.is_multiple_of(ENTRY) {
            return Err(Uint64Error::IndexLength { minishard, actual });
        }
        let (words, _) = bytes.as_chunks::<8>();
        let number = |i: usize| u64::from_le_bytes(words[i]);
        let count = actual / ENTRY;
        let mut entries = Vec::with_capacity(count);
        let (mut key, mut end) = (0u64, sharding.table_len());
        for i in 0..count {
            key = key.wrapping_add(number(i));
            let start = end.wrapping_add(number(count + i));
            let len = number(2 * count + i);
            entries.push(MinishardEntry { key, start, len });
            end = start.wrapping_add(len);
        }
        let sorted = entries.is_sorted_by(|a, b| a.key < b.key);
        Ok(Self { entries, sorted })
    }

    /// The entry of a key. If a key has several, the first one wins, as in other readers.
    pub fn get(&self, key: u64) -> Option<&MinishardEntry> {
        if self.sorted {
            let at = self.entries.binary_search_by_key(&key, |entry| entry.key).ok()?;
            return self.entries.get(at);
        }
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The entries, as stored.
    pub fn entries(&self) -> &[MinishardEntry] {
        &self.entries
    }

    /// Bytes of memory used.
    pub fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<MinishardEntry>() + size_of::<Self>()
    }
}

/// Builds the indexes of a new shard once all values are in place.
///
/// Entries are added minishard by minishard, and within each by key. The encoded indexes follow the
/// values, all together, so that a reader can fetch them in one read.
#[derive(Debug)]
pub struct Uint64ShardIndexes<'a> {
    sharding: &'a Sharding,
    table: Vec<u8>,
    indexes: Vec<u8>,
    /// Where the indexes will start, relative to the end of the table.
    base: u64,
    minishard: u64,
    entries: Vec<MinishardEntry>,
}

impl<'a> Uint64ShardIndexes<'a> {
    /// For a shard whose values end at byte `values_end`, table included.
    pub fn new(sharding: &'a Sharding, values_end: u64) -> Self {
        let table = vec![0; sharding.table_len() as usize];
        let base = values_end.saturating_sub(table.len() as u64);
        Self { sharding, table, indexes: Vec::new(), base, minishard: 0, entries: Vec::new() }
    }

    /// Adds a value that lies at `range`.
    pub fn add(
        &mut self,
        context: &mut Context,
        minishard: u64,
        key: u64,
        range: Range<u64>,
    ) -> Result<(), CodecError> {
        if minishard != self.minishard {
            self.close(context)?;
            self.minishard = minishard;
        }
        let len = range.end - range.start;
        self.entries.push(MinishardEntry { key, start: range.start, len });
        Ok(())
    }

    /// The table at the start of the shard, and the indexes after the values.
    pub fn finish(mut self, context: &mut Context) -> Result<(Vec<u8>, Vec<u8>), CodecError> {
        self.close(context)?;
        Ok((self.table, self.indexes))
    }

    /// Encodes the index of the minishard whose entries were added.
    fn close(&mut self, context: &mut Context) -> Result<(), CodecError> {
        let entries = std::mem::take(&mut self.entries);
        if entries.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(entries.len() * ENTRY);
        let mut put = |number: u64| bytes.extend_from_slice(&number.to_le_bytes());
        let mut before = 0;
        for entry in &entries {
            put(entry.key.wrapping_sub(before));
            before = entry.key;
        }
        let mut end = self.sharding.table_len();
        for entry in &entries {
            put(entry.start.wrapping_sub(end));
            end = entry.start + entry.len;
        }
        entries.iter().for_each(|entry| put(entry.len));
        let start = self.indexes.len();
        match self.sharding.minishard_index_encoding {
            Encoding::Raw => self.indexes.extend_from_slice(&bytes),
            Encoding::Gzip => gzip(INDEX_LEVEL)?.encode(context, &bytes, &mut self.indexes)?,
        }
        let at = self.minishard as usize * 16;
        let range = [start as u64, self.indexes.len() as u64];
        for (i, number) in range.into_iter().enumerate() {
            let place = at + i * 8..at + i * 8 + 8;
            self.table[place].copy_from_slice(&(self.base + number).to_le_bytes());
        }
        // Keeps the memory for the next entries.
        self.entries = entries;
        self.entries.clear();
        Ok(())
    }
}

/// Indexes are small and often read.
const INDEX_LEVEL: u8 = 6;

fn gzip(level: u8) -> Result<std::sync::Arc<dyn BytesToBytes>, CodecError> {
    let configuration = [("level".to_owned(), level.into())].into_iter().collect();
    let spec = CodecSpec { name: "gzip".into(), configuration, must_understand: true };
    match from_spec(&spec)? {
        Codec::BytesToBytes(codec) => Ok(codec),
        _ => Err(CodecError::unsupported("gzip", "it is not a bytes -> bytes codec")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(sharding: &Sharding, pairs: &[(u64, u64)], shard_len: u64) -> ShardTable {
        let bytes = pairs.iter().flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()]).flatten();
        ShardTable::new(sharding, bytes.collect(), shard_len).unwrap()
    }

    #[test]
    fn equal_offsets_are_empty_minishards_wherever_they_point() {
        let sharding = Sharding::new(0, 1, 0).unwrap();
        let table = table(&sharding, &[(u64::MAX, u64::MAX), (0, 24)], 100);
        assert_eq!(table.get(0), Ok(None));
        assert_eq!(table.get(1), Ok(Some(32..56)));
        assert_eq!(table.get(2), Ok(None));
    }

    #[test]
    fn indexes_outside_the_shard_are_errors() {
        let sharding = Sharding::new(0, 0, 0).unwrap();
        for pair in [(0, 85), (24, 0), (u64::MAX - 3, 4), (3, u64::MAX)] {
            let table = table(&sharding, &[pair], 100);
            assert!(matches!(table.get(0), Err(Uint64Error::IndexRange { .. })), "{pair:?}");
        }
    }

    #[test]
    fn keys_and_offsets_may_go_down() {
        let sharding = Sharding::new(0, 0, 0).unwrap();
        // Keys 9 and 4; 4 lies first.
        let numbers = [9, 5u64.wrapping_neg(), 10, 13u64.wrapping_neg(), 3, 10];
        let bytes: Vec<u8> = numbers.iter().flat_map(|n: &u64| n.to_le_bytes()).collect();
        let index = Minishard::decode(&sharding, &mut Context::default(), 0, &bytes).unwrap();
        assert_eq!(index.get(9).unwrap().range(100), Ok(26..29));
        assert_eq!(index.get(4).unwrap().range(100), Ok(16..26));
        assert!(index.get(4).unwrap().range(25).is_err());
        assert_eq!(index.get(5), None);
    }

    #[test]
    fn what_is_built_is_found() {
        for encoding in [Encoding::Raw, Encoding::Gzip] {
            let sharding = Sharding::new(0, 2, 0).unwrap().minishard_index_encoding(encoding);
            let context = &mut Context::default();
            let mut indexes = Uint64ShardIndexes::new(&sharding, 64 + 30);
            for (minishard, key, range) in
                [(0, 4, 64..70), (0, 8, 70..70), (2, 2, 80..94), (2, u64::MAX - 1, 94..94)]
            {
                indexes.add(context, minishard, key, range).unwrap();
            }
            let (head, tail) = indexes.finish(context).unwrap();
            let len = 94 + tail.len() as u64;
            let table = ShardTable::new(&sharding, head, len).unwrap();
            assert_eq!((table.get(1), table.get(3)), (Ok(None), Ok(None)));
            let mut read = |minishard| {
                let range = table.get(minishard).unwrap().unwrap();
                let bytes = &tail[range.start as usize - 94..range.end as usize - 94];
                Minishard::decode(&sharding, context, minishard, bytes).unwrap()
            };
            assert_eq!(read(0).get(8).unwrap().range(len), Ok(70..70));
            assert_eq!(read(2).get(2).unwrap().range(len), Ok(80..94));
            assert_eq!(read(2).get(u64::MAX - 1).unwrap().range(len), Ok(94..94));
        }
    }
}
