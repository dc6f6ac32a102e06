//! The index of the fragments of a chunk: which of its rows belong together.
//!
//! ```text
//! u32 magic "ZVFG" as 0x5A564647, u16 version 1, u16 flags 0, u32 fragments F, u32 ranges R
//! ceil(F / 8) bytes, bit f of which says that fragment f is a range; padded to 8 bytes
//! R x (i64 first row, i64 number of rows)
//! u32 offsets[F - R + 1] into the list of rows, counted in rows
//! i64 rows[offsets[F - R]]
//! ```
//!
//! Without fragments only the first 16 bytes are stored.

use super::bytes::{i64s, natural, take, take_array, take_u32, u32s};
use super::error::{PayloadError, PayloadResult};

const MAGIC: u32 = 0x5A56_4647;
const VERSION: u16 = 1;
const HEADER: usize = 16;

/// The fragments of a chunk, read from bytes in place.
///
/// Every range and row has been checked to be a natural number, and [`extent`](Self::extent) says
/// how many rows the chunk must have for all of them to exist.
#[derive(Debug, Clone)]
pub struct FragmentIndex<'a> {
    len: usize,
    bitmap: &'a [u8],
    ranges: &'a [u8],
    offsets: &'a [u8],
    rows: &'a [u8],
    /// How many ranges come before each 64th fragment; empty if there are at most 64.
    ranges_before: Vec<u32>,
    extent: u64,
    total: u64,
}

/// The rows of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragment<'a> {
    /// `count` rows from `start` on.
    Range {
        /// The first row.
        start: u64,
        /// How many.
        count: u64,
    },
    /// Rows one by one.
    List(RowList<'a>),
}

/// Rows that are listed one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowList<'a>(&'a [u8]);

impl RowList<'_> {
    /// The rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + Clone + '_ {
        // Their signs have been checked.
        i64s(self.0).map(|row| row as u64)
    }
}

impl Fragment<'_> {
    /// How many rows it has.
    pub fn len(&self) -> u64 {
        match self {
            Self::Range { count, .. } => *count,
            Self::List(list) => list.iter().len() as u64,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands each row to `each`, in order.
    pub fn for_each(&self, mut each: impl FnMut(u64)) {
        match self {
            Self::Range { start, count } => (*start..start + count).for_each(each),
            Self::List(list) => list.iter().for_each(&mut each),
        }
    }
}

impl<'a> FragmentIndex<'a> {
    /// Reads an index, all of it.
    pub fn parse(bytes: &'a [u8]) -> PayloadResult<Self> {
        let mut rest = bytes;
        let what = "the head of a fragment index";
        let magic = take_u32(&mut rest, what)?;
        if magic != MAGIC {
            return Err(number("the magic of a fragment index", magic, "not 0x5A564647"));
        }
        let version = u16::from_le_bytes(take_array(&mut rest, what)?);
        if version != VERSION {
            return Err(number("the version of a fragment index", version.into(), "not 1"));
        }
        let _flags = take_array::<2>(&mut rest, what)?;
        let len = take_u32(&mut rest, what)?;
        let range_count = take_u32(&mut rest, what)?;
        if range_count > len {
            return Err(number("the number of ranges", range_count, "more than fragments"));
        }
        let mut index = Self {
            len: len as usize,
            bitmap: &[],
            ranges: &[],
            offsets: &[],
            rows: &[],
            ranges_before: Vec::new(),
            extent: 0,
            total: 0,
        };
        if len > 0 {
            let lists = u64::from(len - range_count);
            index.bitmap = take(&mut rest, padded_bitmap(len.into()), "the bits of ranges")?;
            index.ranges = take(&mut rest, u64::from(range_count) * 16, "the table of ranges")?;
            index.offsets = take(&mut rest, (lists + 1) * 4, "the offsets of lists")?;
            let listed = u32s(index.offsets).last().unwrap_or(0);
            index.rows = take(&mut rest, u64::from(listed) * 8, "the rows of lists")?;
        }
        if !rest.is_empty() {
            let extra = rest.len() as u64;
            return Err(PayloadError::Trailing { what: "a fragment index", extra });
        }
        index.count_ranges(range_count)?;
        index.check_rows()?;
        Ok(index)
    }

    fn count_ranges(&mut self, expected: u32) -> PayloadResult<()> {
        let mut ranges = 0;
        if self.len > 64 {
            self.ranges_before.reserve_exact(self.len.div_ceil(64));
        }
        for at in (0..self.len).step_by(64) {
            if self.len > 64 {
                self.ranges_before.push(ranges);
            }
            ranges += self.bits(at, self.len - at).count_ones();
        }
        if ranges != expected {
            return Err(number("the number of ranges", expected, "but other bits are set"));
        }
        Ok(())
    }

    /// The bits of up to 64 fragments from `at` on, which is a multiple of 64.
    fn bits(&self, at: usize, count: usize) -> u64 {
        // The bitmap is padded to 8 bytes.
        let word = self.bitmap.get(at / 8..).and_then(|bytes| bytes.first_chunk::<8>());
        let bits = word.map_or(0, |word| u64::from_le_bytes(*word));
        if count < 64 { bits & ((1 << count) - 1) } else { bits }
    }

    fn check_rows(&mut self) -> PayloadResult<()> {
        let (mut extent, mut total) = (0u64, 0u64);
        for (at, [start, count]) in pairs(self.ranges).enumerate() {
            let start = natural(start, || format!("the first row of range {at}"))?;
            let count = natural(count, || format!("the number of rows of range {at}"))?;
            // Both are below 2^63.
            extent = extent.max(if count == 0 { 0 } else { start + count });
            total = total.saturating_add(count);
        }
        let mut before = 0;
        for (at, offset) in u32s(self.offsets).enumerate() {
            if offset < before || (at == 0 && offset != 0) {
                let what = format!("offset {at} of lists");
                let rule = "which must ascend from 0";
                return Err(PayloadError::Number { what, value: offset.into(), rule });
            }
            before = offset;
        }
        for (at, row) in i64s(self.rows).enumerate() {
            let row = natural(row, || format!("listed row {at}"))?;
            extent = extent.max(row + 1);
            total = total.saturating_add(1);
        }
        (self.extent, self.total) = (extent, total);
        Ok(())
    }

    /// How many fragments there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One more than the largest row of any fragment; 0 if no fragment has a row.
    pub fn extent(&self) -> u64 {
        self.extent
    }

    /// How many rows all fragments have together, a row counted as often as it is in one.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether the fragments are ranges that follow each other and are `rows` rows together.
    pub fn tiles(&self, rows: u64) -> bool {
        let mut next = 0;
        self.ranges.len() == self.len * 16
            && pairs(self.ranges).all(|[start, count]| {
                let follows = start as u64 == next;
                next = next.saturating_add(count as u64);
                follows || count == 0
            })
            && next == rows
    }

    /// Fragment `at`; `None` if there are fewer.
    ///
    /// Costs the same wherever it is.
    pub fn get(&self, at: usize) -> Option<Fragment<'a>> {
        if at >= self.len {
            return None;
        }
        let word = at & !63;
        let before = self.ranges_before.get(at / 64).copied().unwrap_or(0) as usize;
        let bits = self.bits(word, self.len - word);
        let below = bits & ((1u64 << (at - word)) - 1);
        let ranges = before + below.count_ones() as usize;
        if bits >> (at - word) & 1 == 1 { self.range(ranges) } else { self.list(at - ranges) }
    }

    /// All fragments, in order.
    pub fn iter(&self) -> impl Iterator<Item = Fragment<'a>> + '_ {
        (0..self.len).filter_map(|at| self.get(at))
    }

    fn range(&self, at: usize) -> Option<Fragment<'a>> {
        let [start, count] = pairs(self.ranges.get(at * 16..)?).next()?;
        // Their signs have been checked.
        Some(Fragment::Range { start: start as u64, count: count as u64 })
    }

    fn list(&self, at: usize) -> Option<Fragment<'a>> {
        let mut offsets = u32s(self.offsets.get(at * 4..)?);
        let (start, end) = (offsets.next()? as usize, offsets.next()? as usize);
        Some(Fragment::List(RowList(self.rows.get(start * 8..end * 8)?)))
    }
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = [i64; 2]> + '_ {
    bytes.as_chunks::<16>().0.iter().map(|pair| {
        let mut numbers = i64s(pair);
        [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
    })
}

fn padded_bitmap(len: u64) -> u64 {
    len.div_ceil(64) * 8
}

fn number(what: &str, value: u32, rule: &'static str) -> PayloadError {
    PayloadError::Number { what: what.to_owned(), value: value.into(), rule }
}

/// The rows of a fragment that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FragmentRows {
    /// `count` rows from `start` on.
    Range {
        /// The first row.
        start: u64,
        /// How many.
        count: u64,
    },
    /// Rows one by one.
    List(Vec<u64>),
}

/// Appends the index of `fragments` to `out`.
///
/// A list stays a list, also where its rows follow each other.
pub fn encode_fragments(fragments: &[FragmentRows], out: &mut Vec<u8>) -> PayloadResult<()> {
    let too_many = |what, actual: usize| PayloadError::TooMany {
        what,
        actual: actual as u64,
        limit: u32::MAX.into(),
    };
    let len = u32::try_from(fragments.len()).map_err(|_| too_many("fragments", fragments.len()))?;
    let is_range = |fragment: &&FragmentRows| matches!(fragment, FragmentRows::Range { .. });
    let ranges = fragments.iter().filter(is_range).count();
    out.reserve(HEADER + fragments.len() / 8 + 16 + ranges * 16);
    out.extend(MAGIC.to_le_bytes());
    out.extend(VERSION.to_le_bytes());
    out.extend(0u16.to_le_bytes());
    out.extend(len.to_le_bytes());
    // No more than there are fragments.
    out.extend((ranges as u32).to_le_bytes());
    if fragments.is_empty() {
        return Ok(());
    }
    for group in fragments.chunks(64) {
        let bits = group.iter().enumerate().fold(0u64, |bits, (at, fragment)| {
            bits | u64::from(matches!(fragment, FragmentRows::Range { .. })) << at
        });
        out.extend(bits.to_le_bytes());
    }
    for fragment in fragments {
        if let FragmentRows::Range { start, count } = fragment {
            out.extend(row_number(*start)?.to_le_bytes());
            out.extend(row_number(*count)?.to_le_bytes());
            row_number(start.saturating_add(*count))?;
        }
    }
    let mut listed = 0usize;
    out.extend(0u32.to_le_bytes());
    for fragment in fragments {
        if let FragmentRows::List(rows) = fragment {
            listed = listed.saturating_add(rows.len());
            let end = u32::try_from(listed).map_err(|_| too_many("listed rows", listed))?;
            out.extend(end.to_le_bytes());
        }
    }
    for fragment in fragments {
        if let FragmentRows::List(rows) = fragment {
            for row in rows {
                out.extend(row_number(*row)?.to_le_bytes());
            }
        }
    }
    Ok(())
}

/// `row` as the format stores it.
pub(super) fn row_number(row: u64) -> PayloadResult<i64> {
    i64::try_from(row).map_err(|_| PayloadError::TooMany {
        what: "rows",
        actual: row,
        limit: i64::MAX as u64,
    })
}
