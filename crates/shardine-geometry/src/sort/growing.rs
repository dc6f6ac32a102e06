//! Rows gathered in memory.

use foldhash::HashMap;

use super::run::{Group, SpilledRun};
use super::spool::Spool;
use crate::GeometryError;

/// Bytes that an entry of the table of keys takes, with the room that the table leaves free.
const TABLE_ENTRY: usize = 64;

/// Rows in the order in which they came, each with the number of its key.
///
/// Most rows have a key that others have too, so sorting the keys and counting the rows of each is
/// cheaper than sorting rows.
pub(super) struct GrowingRun {
    width: usize,
    rows: Vec<u8>,
    /// The number of the key of each row.
    key_of: Vec<u32>,
    /// The keys, in the order of their first rows.
    keys: Vec<u128>,
    /// The number of each key; empty as long as keys only ascend.
    numbers: HashMap<u128, u32>,
    ascending: bool,
    last: u32,
}

/// A run in memory, in the order of its keys.
pub(super) struct SortedRun {
    pub width: usize,
    pub rows: Vec<u8>,
    /// The place of each row among `rows`; `None` if they are in order.
    pub order: Option<Vec<u32>>,
    pub groups: Vec<Group>,
}

impl GrowingRun {
    pub fn new(width: usize) -> Self {
        Self {
            width,
            rows: Vec::new(),
            key_of: Vec::new(),
            keys: Vec::new(),
            numbers: HashMap::default(),
            ascending: true,
            last: 0,
        }
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// All rows so far; none are left.
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.width))
    }

    /// Whether another row would take more than `memory` bytes, those needed to sort included.
    pub fn is_full(&self, memory: usize) -> bool {
        let rows = self.rows.len().saturating_add(self.key_of.len().saturating_mul(8));
        let table = if self.ascending { 32 } else { 32 + TABLE_ENTRY };
        rows.saturating_add(self.keys.len().saturating_mul(table)) >= memory
            || self.key_of.len() >= u32::MAX as usize
    }

    pub fn push(&mut self, key: u128, row: &[u8], memory: usize) {
        debug_assert_eq!(row.len(), self.width);
        let number = self.number(key);
        grow(&mut self.rows, self.width, memory);
        self.rows.extend_from_slice(row);
        grow(&mut self.key_of, 1, memory / (self.width + 8));
        self.key_of.push(number);
    }

    /// The number of a key, new or known.
    fn number(&mut self, key: u128) -> u32 {
        let last = self.keys.get(self.last as usize).copied();
        if last == Some(key) {
            return self.last;
        }
        // There are no more keys than rows, which 32 bits count.
        let next = self.keys.len() as u32;
        if self.ascending {
            if last.is_none_or(|last| key > last) {
                self.keys.push(key);
                self.last = next;
                return next;
            }
            self.ascending = false;
            self.numbers = self.keys.iter().copied().zip(0..).collect();
        }
        self.last = *self.numbers.entry(key).or_insert(next);
        if self.last == next {
            self.keys.push(key);
        }
        self.last
    }

    pub fn sort(self) -> SortedRun {
        let Self { width, rows, key_of, keys, ascending, numbers, .. } = self;
        drop(numbers);
        let mut counts = vec![0u32; keys.len()];
        for &key in &key_of {
            counts[key as usize] += 1;
        }
        let mut by_key: Vec<u32> = (0..keys.len() as u32).collect();
        if !ascending {
            by_key.sort_unstable_by_key(|&number| keys[number as usize]);
        }
        let group = |&number: &u32| Group {
            key: keys[number as usize],
            rows: counts[number as usize].into(),
        };
        let groups = by_key.iter().map(group).collect();
        let order = (!ascending).then(|| {
            // Where the next row of each key goes.
            let (mut next, mut at) = (vec![0u32; keys.len()], 0);
            for &number in &by_key {
                next[number as usize] = at;
                at += counts[number as usize];
            }
            let mut order = vec![0u32; key_of.len()];
            for (row, &key) in (0u32..).zip(&key_of) {
                let place = &mut next[key as usize];
                order[*place as usize] = row;
                *place += 1;
            }
            order
        });
        SortedRun { width, rows, order, groups }
    }

    /// Moves the rows to a file, in order.
    pub fn spill(self, spool: &dyn Spool) -> Result<SpilledRun, GeometryError> {
        self.sort().spill(spool)
    }
}

/// Makes room for `more` elements without ever asking for twice of what there will be.
fn grow<T>(elements: &mut Vec<T>, more: usize, most: usize) {
    if elements.capacity() - elements.len() < more {
        let step = elements.len().min(most / 8).max(more).max(1024);
        elements.reserve_exact(step);
    }
}
