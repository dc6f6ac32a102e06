//! Sorts rows of fixed size by a key, however many there are.
//!
//! Rows are gathered in memory. When they take more than their share, they are sorted and moved to
//! a [`SpoolFile`] as a *run*, and in the end all runs are merged. Rows with the same key keep the
//! order in which they came.

mod growing;
mod merge;
mod run;
mod spool;

use growing::GrowingRun;
use run::SpilledRun;

pub use merge::Merge;
#[cfg(test)]
pub(crate) use spool::tests as tests_spool;
pub use spool::{Spool, SpoolFile};

use crate::GeometryError;

/// The least memory that rows are gathered in, so that a run is worth a file.
const LEAST: usize = 1 << 20;

/// Gathers rows to be sorted.
pub struct Sorter<'a> {
    spool: &'a dyn Spool,
    memory: usize,
    growing: GrowingRun,
    spilled: Vec<SpilledRun>,
    len: u64,
}

impl<'a> Sorter<'a> {
    /// Sorts rows of `width` bytes within about `memory` bytes.
    pub fn new(spool: &'a dyn Spool, width: usize, memory: u64) -> Self {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX).max(LEAST);
        Self { spool, memory, growing: GrowingRun::new(width), spilled: Vec::new(), len: 0 }
    }

    /// How many rows there are so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of a row.
    pub fn width(&self) -> usize {
        self.growing.width()
    }

    /// Adds a row, which has the width that was announced.
    pub fn push(&mut self, key: u128, row: &[u8]) -> Result<(), GeometryError> {
        if self.growing.is_full(self.memory) {
            let full = self.growing.take();
            self.spilled.push(full.spill(self.spool)?);
        }
        self.growing.push(key, row, self.memory);
        self.len += 1;
        Ok(())
    }

    /// The rows in the order of their keys.
    pub fn merge(self) -> Merge {
        Merge::new(self.spilled, self.growing, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::spool::tests::CountingSpool;
    use super::*;

    fn sorted(sorter: Sorter<'_>, width: usize) -> Vec<(u128, Vec<u8>)> {
        let (mut merge, mut found, mut rows) = (sorter.merge(), Vec::new(), Vec::new());
        while let Some(key) = merge.next_group(&mut rows, u64::MAX).unwrap() {
            found.extend(rows.chunks(width).map(|row| (key, row.to_vec())));
        }
        found
    }

    #[test]
    fn what_does_not_fit_goes_to_files_and_comes_back_in_order() {
        let spool = CountingSpool::default();
        let mut sorter = Sorter::new(&spool, 16, 0);
        let mut expected = Vec::new();
        let mut random = 7u64;
        for number in 0..400_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = u128::from(random >> 50) << 90;
            let row = [number.to_le_bytes(), random.to_le_bytes()].concat();
            sorter.push(key, &row).unwrap();
            expected.push((key, row));
        }
        assert_eq!(sorter.len(), 400_000);
        expected.sort_by_key(|(key, _)| *key);
        assert_eq!(sorted(sorter, 16), expected);
        assert!(spool.files() > 5, "{} files", spool.files());
    }

    #[test]
    fn a_group_that_is_too_large_is_refused_before_it_is_read() {
        let spool = CountingSpool::default();
        let mut sorter = Sorter::new(&spool, 8, 0);
        for number in 0..100u64 {
            sorter.push(5, &number.to_le_bytes()).unwrap();
        }
        let error = sorter.merge().next_group(&mut Vec::new(), 799).unwrap_err();
        assert!(matches!(error, GeometryError::GroupTooLarge { bytes: 800, .. }), "{error}");
    }

    #[test]
    fn an_error_of_the_spool_is_passed_on() {
        let spool = CountingSpool::failing_after(1);
        let mut sorter = Sorter::new(&spool, 8, 0);
        let failed = (0..1_000_000u64).find_map(|n| sorter.push(n.into(), &n.to_le_bytes()).err());
        assert!(matches!(failed, Some(GeometryError::Spool(_))), "{failed:?}");
    }

    proptest! {
        #[test]
        fn rows_come_out_as_a_stable_sort_has_them(
            keys in proptest::collection::vec(prop_oneof![0u128..8, any::<u128>()], 0..400),
            presorted in any::<bool>(),
        ) {
            let mut keys = keys;
            if presorted {
                keys.sort_unstable();
            }
            let spool = CountingSpool::default();
            let mut sorter = Sorter::new(&spool, 4, 0);
            let mut expected = Vec::new();
            for (number, key) in keys.iter().enumerate() {
                let row = (number as u32).to_le_bytes();
                sorter.push(*key, &row).unwrap();
                expected.push((*key, row.to_vec()));
            }
            expected.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(sorted(sorter, 4), expected);
        }
    }
}
