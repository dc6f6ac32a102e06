//! Groups of rows in one string of bytes, as links between chunks are stored.
//!
//! ```text
//! i64 groups K
//! i64 offsets[K], in bytes, into what follows
//! bytes of all groups; the last ends where the string ends
//! ```

use super::bytes::{i64s, natural, take, take_i64};
use super::error::{PayloadError, PayloadResult};
use super::fragments::row_number;

/// Groups of rows, read from bytes in place.
#[derive(Debug, Clone, Copy)]
pub struct Ragged<'a> {
    offsets: &'a [u8],
    data: &'a [u8],
}

impl<'a> Ragged<'a> {
    /// Reads groups whose rows have `row` bytes. No bytes at all are no groups.
    ///
    /// Every group has been checked to be a whole number of rows.
    pub fn parse(bytes: &'a [u8], row: usize) -> PayloadResult<Self> {
        if bytes.is_empty() {
            return Ok(Self { offsets: &[], data: &[] });
        }
        let mut rest = bytes;
        let count = take_i64(&mut rest, "the number of groups")?;
        let count = natural(count, || "the number of groups".to_owned())?;
        let offsets = take(&mut rest, count.saturating_mul(8), "the offsets of groups")?;
        let ragged = Self { offsets, data: rest };
        let len = rest.len() as u64;
        if count == 0 && len > 0 {
            return Err(PayloadError::Trailing { what: "a list of no groups", extra: len });
        }
        let mut before = 0;
        for (at, offset) in i64s(offsets).chain([len as i64]).enumerate() {
            let end = natural(offset, || format!("the offset of group {at}"))?;
            if end < before || end > len || (at == 0 && end != 0) {
                return Err(PayloadError::Number {
                    what: format!("the offset of group {at}"),
                    value: offset,
                    rule: "which must ascend from 0 to the end of the bytes",
                });
            }
            if row == 0 || (end - before) % row as u64 != 0 {
                return Err(PayloadError::PartialRow { row: row as u64, actual: end - before });
            }
            before = end;
        }
        Ok(ragged)
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.offsets.len() / 8
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The rows of all groups, one after the other.
    pub fn rows(&self) -> &'a [u8] {
        self.data
    }

    /// The bytes of each group, in order.
    pub fn groups(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        let ends = i64s(self.offsets).skip(1).chain([self.data.len() as i64]);
        // All offsets have been checked.
        i64s(self.offsets)
            .zip(ends)
            .map(|(start, end)| self.data.get(start as usize..end as usize).unwrap_or_default())
    }
}

/// Appends groups, each given by its bytes, to `out`.
pub fn encode_ragged(groups: &[&[u8]], out: &mut Vec<u8>) -> PayloadResult<()> {
    out.extend(row_number(groups.len() as u64)?.to_le_bytes());
    let mut offset = 0u64;
    for group in groups {
        out.extend(row_number(offset)?.to_le_bytes());
        offset = offset.saturating_add(group.len() as u64);
    }
    for group in groups {
        out.extend_from_slice(group);
    }
    Ok(())
}
