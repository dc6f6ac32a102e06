use std::collections::BTreeSet;
use std::ops::Range;

use super::{ShardError, ShardIndex};

/// The bytes of a shard that neither its index nor an entry refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    /// By length and start, to find the smallest gap that fits directly.
    by_len: BTreeSet<(u64, u64)>,
    total: u64,
}

impl Gaps {
    /// Finds the gaps. An entry outside the shard is an error: its bytes are unknown.
    pub fn find(index: &ShardIndex, index_range: &Range<u64>) -> Result<Self, ShardError> {
        let mut used = Vec::new();
        used.push(index_range.clone());
        for entry in 0..index.len() {
            used.extend(index.get(entry)?.filter(|range| !range.is_empty()));
        }
        used.sort_unstable_by_key(|range| range.start);
        let mut gaps = Self::default();
        let mut end = 0;
        for range in used {
            if range.start > end {
                gaps.add(end..range.start);
            }
            end = end.max(range.end);
        }
        if index.shard_len() > end {
            gaps.add(end..index.shard_len());
        }
        Ok(gaps)
    }

    fn add(&mut self, range: Range<u64>) {
        self.total += range.end - range.start;
        self.by_len.insert((range.end - range.start, range.start));
    }

    /// Total bytes in gaps.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The gaps of at least `len` bytes.
    pub fn at_least(&self, len: u64) -> impl Iterator<Item = Range<u64>> {
        self.by_len.range((len, 0)..).map(|&(len, start)| start..start + len)
    }

    /// Takes `len` bytes from the smallest gap that has them, and returns their offset.
    ///
    /// A chunk of fixed size reuses the slot of another one, which avoids fragmentation.
    pub fn take(&mut self, len: u64) -> Option<u64> {
        let &(found, start) = self.by_len.range((len, 0)..).next().filter(|_| len > 0)?;
        self.by_len.remove(&(found, start));
        self.total -= len;
        if found > len {
            self.by_len.insert((found - len, start + len));
        }
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(entries: &[Range<u64>], index: Range<u64>, len: u64) -> Gaps {
        let mut found = ShardIndex::empty(entries.len() + 1).unwrap();
        for (i, range) in entries.iter().enumerate() {
            found.set(i, range.clone());
        }
        found.set_shard_len(len);
        Gaps::find(&found, &index).unwrap()
    }

    #[test]
    fn what_nobody_refers_to_is_a_gap() {
        let mut gaps = gaps(&[10..20, 15..18, 30..40, 5..5], 90..100, 120);
        // 0..10, 20..30, 40..90, 100..120
        assert_eq!(gaps.total(), 90);
        assert_eq!(gaps.take(15), Some(100));
        assert_eq!(gaps.take(10), Some(0));
        assert_eq!(gaps.take(10), Some(20));
        assert_eq!(gaps.take(10), Some(40));
        assert_eq!(gaps.take(41), None);
        assert_eq!(gaps.take(40), Some(50));
        assert_eq!((gaps.total(), gaps.take(5), gaps.take(1)), (5, Some(115), None));
    }

    #[test]
    fn a_chunk_without_bytes_needs_no_gap() {
        assert_eq!(gaps(&[], 0..16, 32).take(0), None);
    }

    #[test]
    fn an_entry_outside_the_shard_is_an_error() {
        let mut index = ShardIndex::empty(1).unwrap();
        index.set(0, 10..20);
        index.set_shard_len(15);
        assert!(Gaps::find(&index, &(0..5)).is_err());
    }
}
