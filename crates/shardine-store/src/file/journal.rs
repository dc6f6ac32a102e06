//! The journal of a change in place, as bytes.
//!
//! It lies next to the file from before the first byte of the file changes until the change is
//! durable. After a writer was killed, it tells the next one which of the two states the file is
//! in, or how to get to one of them.
//!
//! All numbers are little-endian. The file begins with [`MAGIC`]; two records follow, each a `u64`
//! length, that many bytes, and their crc32c:
//!
//! 1. the *intent*: old length, start and length of the guarded bytes, their digest. The guarded
//!    bytes are those that the switch will replace or make meaningless: the index of a shard.
//! 2. the *switch*: new length, start and length of the switched bytes, their new digest, the
//!    digest of those that are the same before and after, and the runs that differ: start, length,
//!    old bytes, new bytes. It is written before the first of the switched bytes changes.
//!
//! A *digest* is a 64-bit FNV-1a hash. A crc32c would not do: for bytes that end in their own
//! crc32c, as an index does, it is always the same number.

use std::ops::Range;

/// The first bytes of a journal.
pub(super) const MAGIC: [u8; 8] = *b"SHRDJNL1";

/// The maximum length of the journal of a file of `len` bytes. The guarded bytes are part of the
/// file, and the journal holds them in their old and new state, with two numbers for each run.
pub(super) fn max_len(len: u64) -> u64 {
    len.saturating_mul(4).saturating_add(4096)
}

/// Differing runs at most this far apart are stored as one.
const NEAR: usize = 16;

/// A journal. See the module documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Journal {
    pub intent: Intent,
    pub switch: Option<Switch>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intent {
    pub old_len: u64,
    pub guard: Range<u64>,
    pub guarded: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Switch {
    pub new_len: u64,
    pub range: Range<u64>,
    pub switched: u64,
    /// The digest of the bytes outside the runs.
    pub common: u64,
    pub runs: Vec<Run>,
}

/// Bytes that differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// Relative to the switched range.
    pub start: usize,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
}

impl Intent {
    pub fn new(old_len: u64, guard_start: u64, guarded: &[u8]) -> Self {
        let guard = guard_start..guard_start.saturating_add(guarded.len() as u64);
        Self { old_len, guard, guarded: digest(guarded) }
    }

    /// Its record, preceded by the magic bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(32);
        for number in [self.old_len, self.guard.start, self.guard.end - self.guard.start] {
            payload.extend_from_slice(&number.to_le_bytes());
        }
        payload.extend_from_slice(&self.guarded.to_le_bytes());
        let mut bytes = MAGIC.to_vec();
        bytes.extend(record(&payload));
        bytes
    }
}

impl Switch {
    /// The switch from `old`, which is empty if nothing is yet where the new bytes go, to `new`.
    pub fn new(start: u64, old: &[u8], new: &[u8], new_len: u64) -> Self {
        let range = start..start.saturating_add(new.len() as u64);
        let mut runs: Vec<Run> = Vec::new();
        for (i, _) in old.iter().zip(new).enumerate().filter(|(_, (a, b))| a != b) {
            match runs.last_mut() {
                Some(run) if i - (run.start + run.old.len()) < NEAR => {
                    let from = run.start + run.old.len();
                    run.old.extend_from_slice(&old[from..=i]);
                    run.new.extend_from_slice(&new[from..=i]);
                }
                _ => runs.push(Run { start: i, old: vec![old[i]], new: vec![new[i]] }),
            }
        }
        let common = common(new, &runs);
        Self { new_len, range, switched: digest(new), common, runs }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        for number in [self.new_len, self.range.start, self.range.end - self.range.start] {
            payload.extend_from_slice(&number.to_le_bytes());
        }
        payload.extend_from_slice(&self.switched.to_le_bytes());
        payload.extend_from_slice(&self.common.to_le_bytes());
        for run in &self.runs {
            payload.extend_from_slice(&(run.start as u64).to_le_bytes());
            payload.extend_from_slice(&(run.old.len() as u64).to_le_bytes());
            payload.extend_from_slice(&run.old);
            payload.extend_from_slice(&run.new);
        }
        record(&payload)
    }

    /// The range from the first to the last byte that differs, relative to the switched range;
    /// empty if none differs.
    pub fn changed(&self) -> Range<usize> {
        match (self.runs.first(), self.runs.last()) {
            (Some(first), Some(last)) => first.start..last.start + last.new.len(),
            _ => 0..0,
        }
    }

    /// Whether each of these bytes has its old or its new value: the writer of this journal began
    /// the switch.
    pub fn is_between(&self, found: &[u8]) -> bool {
        let of_either = |run: &Run| {
            let found = found.get(run.start..run.start + run.old.len()).unwrap_or_default();
            let sides = run.old.iter().zip(&run.new);
            found.len() == run.old.len()
                && found.iter().zip(sides).all(|(byte, (old, new))| byte == old || byte == new)
        };
        found.len() as u64 == self.range.end - self.range.start
            && common(found, &self.runs) == self.common
            && self.runs.iter().all(of_either)
    }
}

impl Journal {
    /// Parses a journal; `None` unless its intent is complete. A truncated switch counts as none:
    /// it was not begun.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (payload, rest) = take_record(rest)?;
        let [old_len, start, len, guarded] = numbers(payload)?;
        let guard = start..start.checked_add(len)?;
        if guard.end > old_len {
            return None;
        }
        let intent = Intent { old_len, guard, guarded };
        let switch = take_record(rest).and_then(|(payload, _)| parse_switch(payload));
        // A switch never shortens the file.
        let switch = switch.filter(|switch| switch.new_len >= intent.old_len);
        Some(Self { intent, switch })
    }
}

fn parse_switch(payload: &[u8]) -> Option<Switch> {
    let (words, mut rest) = payload.split_at_checked(40)?;
    let [new_len, start, len, switched, common] = numbers(words)?;
    let range = start..start.checked_add(len)?;
    let mut runs: Vec<Run> = Vec::new();
    let mut end = 0;
    while !rest.is_empty() {
        let (words, bytes) = rest.split_at_checked(16)?;
        let [start, count] = numbers(words)?;
        let (start, count) = (usize::try_from(start).ok()?, usize::try_from(count).ok()?);
        let (old, bytes) = bytes.split_at_checked(count)?;
        let (new, bytes) = bytes.split_at_checked(count)?;
        if start < end || start.checked_add(count)? as u64 > len || count == 0 {
            return None;
        }
        end = start + count;
        runs.push(Run { start, old: old.to_vec(), new: new.to_vec() });
        rest = bytes;
    }
    (range.end <= new_len).then_some(Switch { new_len, range, switched, common, runs })
}

/// The digest of bytes.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    digest_on(0xcbf2_9ce4_8422_2325, bytes)
}

fn digest_on(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |d, &byte| (d ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The digest of everything outside the runs.
fn common(bytes: &[u8], runs: &[Run]) -> u64 {
    let (mut all, mut at) = (digest(&[]), 0);
    for run in runs {
        all = digest_on(all, bytes.get(at..run.start).unwrap_or_default());
        at = run.start + run.old.len();
    }
    digest_on(all, bytes.get(at..).unwrap_or_default())
}

fn record(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + 12);
    bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    bytes
}

/// The payload of a complete record, and the bytes after it.
fn take_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_at_checked(8)?;
    let len = u64::from_le_bytes(len.try_into().ok()?);
    let (payload, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    let (crc, rest) = rest.split_at_checked(4)?;
    (crc32c::crc32c(payload).to_le_bytes() == crc).then_some((payload, rest))
}

fn numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (words, []) = bytes.as_chunks::<8>() else { return None };
    let numbers: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let (old, new) =
            (b"abcdefgh-------------------------xyz", b"abCDefgh-------------------------Xyz");
        let intent = Intent::new(100, 60, old);
        Journal { intent, switch: Some(Switch::new(60, old, new, 120)) }
    }

    fn bytes(journal: &Journal) -> Vec<u8> {
        let mut bytes = journal.intent.to_bytes();
        bytes.extend(journal.switch.iter().flat_map(Switch::to_bytes));
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let journal = journal();
        assert_eq!(journal.switch.as_ref().unwrap().runs.len(), 2);
        assert_eq!(Journal::parse(&bytes(&journal)), Some(journal));
    }

    #[test]
    fn a_cut_journal_has_no_switch_or_no_intent() {
        let journal = journal();
        let bytes = bytes(&journal);
        let intent = journal.intent.to_bytes().len();
        for len in 0..bytes.len() {
            match Journal::parse(&bytes[..len]) {
                None => assert!(len < intent),
                Some(cut) => assert!(len >= intent && cut.switch.is_none()),
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let bytes = bytes(&journal());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Journal::parse(&flipped).is_none_or(|found| found.switch.is_none()));
        }
    }

    #[test]
    fn every_mixture_is_between_and_nothing_else() {
        let (old, new) = (*b"aaaabbbbcccc", *b"aaaaBBbbccCc");
        let switch = Switch::new(0, &old, &new, 12);
        for mix in 0..8u32 {
            let mut found = old;
            for (bit, at) in [4, 5, 10].into_iter().enumerate() {
                if mix & (1 << bit) != 0 {
                    found[at] = new[at];
                }
            }
            assert!(switch.is_between(&found));
            found[0] ^= 1;
            assert!(!switch.is_between(&found));
            found[0] ^= 1;
            found[5] = b'?';
            assert!(!switch.is_between(&found));
        }
        assert!(!switch.is_between(&old[1..]));
    }

    #[test]
    fn two_indexes_with_checksums_are_told_apart() {
        let index = |byte: u8| {
            let mut bytes = vec![byte; 64];
            bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
            bytes
        };
        assert_eq!(crc32c::crc32c(&index(1)), crc32c::crc32c(&index(2)));
        assert_ne!(digest(&index(1)), digest(&index(2)));
    }

    #[test]
    fn the_journal_of_one_entry_is_small() {
        let old = vec![0x11; 8196];
        let mut new = old.clone();
        new[160..176].fill(0x22);
        new[8192..].fill(0x33);
        let switch = Switch::new(0, &old, &new, 9000);
        assert_eq!((switch.changed(), switch.runs.len()), (160..8196, 2));
        assert!(switch.to_bytes().len() < 200);
    }
}
