use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Where in a shard its index lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexLocation {
    /// Before the chunks.
    Start,
    /// After the chunks.
    #[default]
    End,
}

/// The most chunks that one shard may hold; its index then takes 2 GiB.
pub const MAX_CHUNKS_PER_SHARD: u64 = 1 << 27;

/// Offset and length of an entry whose chunk is absent.
const EMPTY: u64 = u64::MAX;

/// Bytes of one entry.
const ENTRY: usize = 16;

/// A shard whose bytes contradict the format.
///
/// Each variant carries the numbers needed to locate the damage with a hex dump.
#[derive(Debug, Clone, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum ShardError {
    /// The shard is shorter than its own index.
    #[error("shard holds {actual} bytes, but its index alone needs {index}")]
    Truncated {
        /// Bytes of the shard.
        actual: u64,
        /// Bytes of its index.
        index: u64,
    },
    /// The index cannot be decoded.
    #[error("shard index at bytes {start}..{end} cannot be decoded: {source}")]
    Index {
        /// Where the index starts.
        start: u64,
        /// The byte after it.
        end: u64,
        /// The codecs' error.
        source: shardine_codec::CodecError,
    },
    /// An entry points outside the shard.
    #[error("entry {entry} has offset {offset} and length {len} in a shard of {actual} bytes")]
    OutOfBounds {
        /// Which entry, counted in C order.
        entry: usize,
        /// The stated offset of its chunk.
        offset: u64,
        /// The stated length of its chunk.
        len: u64,
        /// Bytes of the shard.
        actual: u64,
    },
    /// An entry overlaps the index, so its bytes cannot be a chunk.
    #[error(
        "entry {entry} has offset {offset} and length {len}, which reaches into the index at bytes {start}..{end}"
    )]
    InIndex {
        /// Which entry, counted in C order.
        entry: usize,
        /// The stated offset of its chunk.
        offset: u64,
        /// The stated length of its chunk.
        len: u64,
        /// Where the index starts.
        start: u64,
        /// The byte after it.
        end: u64,
    },
    /// There is not enough memory for this many entries.
    #[error("there is no memory for the index of {chunks} chunks; choose smaller shards")]
    TooManyChunks {
        /// Chunks per shard.
        chunks: usize,
    },
    /// The index does not have the number of entries that the metadata implies.
    #[error("shard index holds {actual} bytes of entries, but {expected} were expected")]
    EntryCount {
        /// 16 bytes per chunk.
        expected: usize,
        /// Bytes decoded.
        actual: usize,
    },
}

/// The decoded index of a shard: for each chunk, in C order, where it lies or that it is absent.
///
/// Entries are checked on access, so a bad entry costs one chunk rather than the shard, and opening
/// a shard of a million chunks does not scan its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardIndex {
    /// Pairs of little-endian offset and length.
    entries: Vec<u8>,
    /// Length of the shard that the entries refer to.
    shard_len: u64,
    /// The range of the index itself, where no chunk can lie; empty while a shard is being built.
    own: Range<u64>,
}

impl ShardIndex {
    /// An index of `chunks` absent chunks; an error if there is not enough memory.
    pub fn empty(chunks: usize) -> Result<Self, ShardError> {
        let mut entries = Vec::new();
        let len = chunks.saturating_mul(ENTRY);
        entries.try_reserve_exact(len).map_err(|_| ShardError::TooManyChunks { chunks })?;
        entries.resize(len, 0xFF);
        Ok(Self { entries, shard_len: 0, own: 0..0 })
    }

    /// Takes the decoded, little-endian bytes of the index of a shard of `shard_len` bytes.
    pub fn from_bytes(entries: Vec<u8>, chunks: usize, shard_len: u64) -> Result<Self, ShardError> {
        if Some(entries.len()) != chunks.checked_mul(ENTRY) {
            let expected = chunks.saturating_mul(ENTRY);
            return Err(ShardError::EntryCount { expected, actual: entries.len() });
        }
        Ok(Self { entries, shard_len, own: 0..0 })
    }

    /// Sets the range of the index itself in the shard: an entry that overlaps it is damaged.
    pub fn stored_at(mut self, own: Range<u64>) -> Self {
        self.own = own;
        self
    }

    /// The entries as little-endian bytes, for encoding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.entries
    }

    /// The number of entries, including absent ones.
    pub fn len(&self) -> usize {
        self.entries.len() / ENTRY
    }

    /// Whether there are no entries at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether all chunks are absent.
    pub fn all_absent(&self) -> bool {
        self.entries.iter().all(|&b| b == 0xFF)
    }

    /// Where chunk `i` lies, or `None` if it was never written (or there is no such chunk).
    ///
    /// `None` reads back as the fill value; it is not an error. An entry outside the shard is an
    /// error, and so is one that overlaps the index.
    pub fn get(&self, i: usize) -> Result<Option<Range<u64>>, ShardError> {
        let Some((offset, len)) = self.raw(i) else { return Ok(None) };
        if offset == EMPTY && len == EMPTY {
            return Ok(None);
        }
        match offset.checked_add(len) {
            Some(end)
                if end <= self.shard_len && (end <= self.own.start || offset >= self.own.end) =>
            {
                Ok(Some(offset..end))
            }
            end => self.unusual(i, offset, len, end),
        }
    }

    /// Checks an entry that does not lie among the chunks.
    #[cold]
    fn unusual(
        &self,
        entry: usize,
        offset: u64,
        len: u64,
        end: Option<u64>,
    ) -> Result<Option<Range<u64>>, ShardError> {
        let Range { start, end: own_end } = self.own;
        match end.filter(|&end| end <= self.shard_len) {
            None => Err(ShardError::OutOfBounds { entry, offset, len, actual: self.shard_len }),
            // An empty range cannot overlap the index.
            Some(end) if len == 0 => Ok(Some(offset..end)),
            Some(_) => Err(ShardError::InIndex { entry, offset, len, start, end: own_end }),
        }
    }

    /// Offset and length of entry `i` as stored, unchecked.
    pub fn raw(&self, i: usize) -> Option<(u64, u64)> {
        let start = i.checked_mul(ENTRY)?;
        let (pair, _) = self.entries.get(start..)?.split_at_checked(ENTRY)?;
        let (words, _) = pair.as_chunks::<8>();
        Some((u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])))
    }

    /// Sets the range of chunk `i`. The entry must exist.
    pub fn set(&mut self, i: usize, range: Range<u64>) {
        let entry = &mut self.entries[i * ENTRY..(i + 1) * ENTRY];
        entry[..8].copy_from_slice(&range.start.to_le_bytes());
        entry[8..].copy_from_slice(&(range.end - range.start).to_le_bytes());
        self.shard_len = self.shard_len.max(range.end);
    }

    /// Marks chunk `i` as absent. The entry must exist.
    pub fn set_absent(&mut self, i: usize) {
        self.entries[i * ENTRY..(i + 1) * ENTRY].fill(0xFF);
    }

    /// Length of the shard that the entries refer to.
    pub fn shard_len(&self) -> u64 {
        self.shard_len
    }

    /// Sets the length of the shard.
    pub fn set_shard_len(&mut self, len: u64) {
        self.shard_len = len;
    }

    /// Bytes of memory used.
    pub fn memory(&self) -> usize {
        self.entries.capacity() + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(entries: &[(u64, u64)], shard_len: u64) -> ShardIndex {
        let bytes = entries.iter().flat_map(|(o, n)| [o.to_le_bytes(), n.to_le_bytes()]).flatten();
        ShardIndex::from_bytes(bytes.collect(), entries.len(), shard_len).unwrap()
    }

    #[test]
    fn an_entry_past_the_end_is_named() {
        let index = index(&[(EMPTY, EMPTY), (8, 32)], 39);
        assert_eq!(index.get(0), Ok(None));
        assert_eq!(
            index.get(1),
            Err(ShardError::OutOfBounds { entry: 1, offset: 8, len: 32, actual: 39 })
        );
    }

    #[test]
    fn an_entry_that_reaches_into_the_index_is_named() {
        let entries = [(0, 8), (4, 8), (16, 8), (24, 8), (12, 0), (0, 40)];
        let index = index(&entries, 40).stored_at(8..24);
        assert_eq!(index.get(0), Ok(Some(0..8)));
        assert_eq!(index.get(3), Ok(Some(24..32)));
        assert_eq!(index.get(4), Ok(Some(12..12)));
        for entry in [1, 2, 5] {
            let (offset, len) = entries[entry];
            let error = ShardError::InIndex { entry, offset, len, start: 8, end: 24 };
            assert_eq!(index.get(entry), Err(error));
        }
    }

    #[test]
    fn entries_that_overflow_are_errors_and_not_panics() {
        let hostile = [(u64::MAX - 1, 10), (u64::MAX, 100), (0, 1 << 62), (10, u64::MAX)];
        let index = index(&hostile, 1000);
        for i in 0..hostile.len() {
            assert!(
                matches!(index.get(i), Err(ShardError::OutOfBounds { entry, .. }) if entry == i)
            );
        }
        assert_eq!(index.get(4), Ok(None));
        assert_eq!(index.get(usize::MAX), Ok(None));
    }

    #[test]
    fn what_is_set_is_got() {
        let mut index = ShardIndex::empty(3).unwrap();
        assert!(index.all_absent());
        index.set(1, 5..9);
        assert_eq!(index.get(0), Ok(None));
        assert_eq!(index.get(1), Ok(Some(5..9)));
        assert!(!index.all_absent());
    }

    #[test]
    fn a_wrong_number_of_entries_is_refused() {
        assert_eq!(
            ShardIndex::from_bytes(vec![0; 31], 2, 0),
            Err(ShardError::EntryCount { expected: 32, actual: 31 })
        );
        assert!(ShardIndex::from_bytes(vec![], usize::MAX, 0).is_err());
    }
}
