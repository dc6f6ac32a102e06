//! Everything that the indexes of a shard say, however damaged.

use std::ops::Range;

use shardine_codec::{BytesToBytes, Codec, CodecError, CodecSpec, Context, from_spec};
use shardine_store::{Object, ReadRange, StoreError};

use super::super::{covered, overlapping, together};
use super::fault::{Fault, ShardFault};
use crate::engine::tuning::MAX_MERGED_READ;
use crate::shard::uint64::{Encoding, KeyPlace, MAX_INDEX, Minishard, MinishardEntry, Sharding};

/// Bytes of the table read at a time.
const TABLE_PIECE: u64 = 1 << 20;

/// The most values of a shard kept for comparison: with their faults they take some 200 MiB.
const MOST_ENTRIES: u64 = 1 << 21;

/// Values without bytes of their own that any shard may have.
const FEW: u64 = 1 << 16;

/// How bytes are actually stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// As `info` says, or not checked.
    #[default]
    AsSaid,
    /// Not compressed, though `info` says gzip.
    Raw,
    /// gzip, though `info` says raw.
    Gzip,
    /// zlib, which is not gzip.
    Zlib,
}

/// A value as its index describes it, and what is wrong with it.
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub minishard: u64,
    pub entry: MinishardEntry,
    pub form: Form,
    pub fault: Option<Box<Fault>>,
}

impl Surveyed {
    /// Its bytes; the end of one outside the shard saturates.
    pub fn range(&self) -> Range<u64> {
        self.entry.start..self.entry.start.saturating_add(self.entry.len)
    }

    /// The shard that its key belongs to, if that is not this one.
    pub fn place_in_another(&self, shard: u64) -> Option<u64> {
        match self.fault.as_deref() {
            Some(Fault::Misplaced { place }) if place.shard != shard => Some(place.shard),
            _ => None,
        }
    }

    /// Whether its bytes may be read.
    pub fn is_sound(&self) -> bool {
        self.fault.is_none()
    }

    /// Whether it lies inside the shard.
    pub fn is_inside(&self, len: u64) -> bool {
        self.entry.range(len).is_ok()
    }

    pub fn set(&mut self, fault: Fault) {
        self.fault.get_or_insert(Box::new(fault));
    }
}

/// The contents of a shard.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub len: u64,
    pub table_len: u64,
    /// The ranges of the indexes inside the shard, including the table: sorted and disjoint.
    pub indexes: Vec<Range<u64>>,
    /// By minishard, and within each as stored.
    pub entries: Vec<Surveyed>,
    /// What is wrong with the table or the indexes.
    pub faults: Vec<ShardFault>,
    /// The form of indexes that are not stored as `info` says.
    pub index_form: Form,
    /// The number of such indexes.
    pub other_indexes: u64,
    /// The number of indexes.
    pub index_count: u64,
    /// Minishards whose keys or values are not in order.
    pub unsorted: u64,
}

impl Survey {
    /// Reads the indexes of shard `number`, and checks their entries; the values themselves are not
    /// read.
    pub fn read(
        sharding: &Sharding,
        number: u64,
        object: &dyn Object,
        len: u64,
        context: &mut Context,
    ) -> Result<Self, StoreError> {
        let table_len = sharding.table_len();
        let mut survey = Self { len, table_len, ..Self::default() };
        if len == 0 {
            survey.faults.push(ShardFault::Empty);
            return Ok(survey);
        }
        if len < table_len {
            survey.faults.push(ShardFault::Truncated { actual: len, table: table_len });
            return Ok(survey);
        }
        let found = survey.read_table(object)?;
        survey.read_minishards(sharding, object, &found, context)?;
        survey.judge(sharding, number);
        Ok(survey)
    }

    /// The indexes that the table leads to, by position. Of those that share bytes only the first
    /// is read.
    fn read_table(&mut self, object: &dyn Object) -> Result<Vec<(u64, Range<u64>)>, StoreError> {
        let (len, table_len) = (self.len, self.table_len);
        let mut found = Vec::new();
        let mut at = 0;
        while at < table_len {
            let end = table_len.min(at + TABLE_PIECE);
            let bytes = object.read(ReadRange::Bounded(at..end))?;
            let (words, _) = bytes.as_chunks::<8>();
            let (pairs, _) = words.as_chunks::<2>();
            for (i, pair) in pairs.iter().enumerate() {
                let minishard = at / 16 + i as u64;
                let [start, end] = pair.map(u64::from_le_bytes);
                if start == end {
                    continue;
                }
                let inside = start.checked_add(table_len).zip(end.checked_add(table_len));
                match inside.filter(|(start, end)| start < end && *end <= len) {
                    Some((start, end)) => found.push((minishard, start..end)),
                    None => self.faults.push(ShardFault::IndexRange { minishard, start, end }),
                }
            }
            at = end;
        }
        self.index_count = found.len() as u64;
        found.sort_unstable_by_key(|(minishard, range)| (range.start, range.end, *minishard));
        self.indexes.push(0..table_len);
        let mut apart: Vec<(u64, Range<u64>)> = Vec::with_capacity(found.len());
        for (minishard, range) in found {
            match apart.last() {
                Some((other, last)) if range.start < last.end => {
                    let (other, range) = (*other, range.clone());
                    self.faults.push(ShardFault::IndexOverlap { minishard, other, range });
                }
                _ => apart.push((minishard, range.clone())),
            }
            match self.indexes.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => self.indexes.push(range),
            }
        }
        Ok(apart)
    }

    fn read_minishards(
        &mut self,
        sharding: &Sharding,
        object: &dyn Object,
        found: &[(u64, Range<u64>)],
        context: &mut Context,
    ) -> Result<(), StoreError> {
        let mut rest = found;
        while let Some(((minishard, first), more)) = rest.split_first() {
            if first.end - first.start > MAX_INDEX as u64 {
                let (minishard, range) = (*minishard, first.clone());
                self.faults.push(ShardFault::IndexTooLarge { minishard, range });
                rest = more;
                continue;
            }
            let ranges = rest.iter().map(|(_, range)| range.clone());
            let Some((count, read)) = together(ranges, MAX_MERGED_READ) else { break };
            let (now, later) = rest.split_at(count);
            rest = later;
            let bytes = object.read(ReadRange::Bounded(read.clone()))?;
            for (minishard, range) in now {
                let at = (range.start - read.start) as usize..(range.end - read.start) as usize;
                let encoded = bytes.get(at).unwrap_or_default();
                let (minishard, range) = (*minishard, range.clone());
                let problem = match self.decode(sharding, context, minishard, encoded) {
                    Ok(index) => self.add(sharding, minishard, range, &index),
                    Err(reason) => Some(ShardFault::Index { minishard, range, reason }),
                };
                self.faults.extend(problem);
            }
        }
        self.entries.sort_by_key(|surveyed| surveyed.minishard);
        Ok(())
    }

    /// Decodes an index as `info` says it is stored, or in another form if that yields a valid one.
    fn decode(
        &mut self,
        sharding: &Sharding,
        context: &mut Context,
        minishard: u64,
        encoded: &[u8],
    ) -> Result<Minishard, String> {
        let error = match Minishard::decode(sharding, context, minishard, encoded) {
            Ok(index) => return Ok(index),
            Err(error) => error.to_string(),
        };
        let plain = sharding.clone().minishard_index_encoding(Encoding::Raw);
        let mut decoded = context.take_buffer();
        let (form, bytes) = match sharding.minishard_index_encoding {
            Encoding::Raw if is_gzip(encoded) => {
                (Form::Gzip, unpack(Form::Gzip, context, encoded, MAX_INDEX as u64, &mut decoded))
            }
            Encoding::Gzip if is_zlib(encoded) => {
                (Form::Zlib, unpack(Form::Zlib, context, encoded, MAX_INDEX as u64, &mut decoded))
            }
            Encoding::Gzip if !is_gzip(encoded) => {
                decoded.extend_from_slice(encoded);
                (Form::Raw, Ok(()))
            }
            _ => return Err(error),
        };
        let index = match bytes {
            Ok(()) => Minishard::decode(&plain, context, minishard, &decoded).ok(),
            Err(_) => None,
        };
        context.give_buffer(decoded);
        // Any 24 bytes are an index; these are accepted if they lead somewhere.
        let index = index.filter(|index| {
            form != Form::Raw || index.entries().iter().all(|e| e.range(self.len).is_ok())
        });
        let index = index.ok_or(error)?;
        self.index_form = form;
        self.other_indexes += 1;
        Ok(index)
    }

    /// Adds the entries of an index, unless they are too many to keep; then returns what can be
    /// said without them.
    fn add(
        &mut self,
        sharding: &Sharding,
        minishard: u64,
        range: Range<u64>,
        index: &Minishard,
    ) -> Option<ShardFault> {
        let entries = index.entries();
        let all = (self.entries.len() + entries.len()) as u64;
        if all > self.len.saturating_add(FEW) {
            let reason = format!(
                "the index of minishard {minishard} has {} keys, but the shard only {} bytes",
                entries.len(),
                self.len
            );
            return Some(ShardFault::Index { minishard, range, reason });
        }
        if all > MOST_ENTRIES {
            let is_bad = |entry: &MinishardEntry| {
                entry.range(self.len).is_err() || sharding.place(entry.key).minishard != minishard
            };
            let again = entries.windows(2).filter(|pair| pair[0].key == pair[1].key).count();
            let bad = entries.iter().filter(|entry| is_bad(entry)).count();
            if bad + again == 0 {
                return Some(ShardFault::IndexTooLarge { minishard, range });
            }
            let reason = format!(
                "the index of minishard {minishard} has {} keys: {bad} point nowhere or are \
                 misplaced, and {again} are repeated",
                entries.len()
            );
            return Some(ShardFault::ManyBad { range, reason });
        }
        if !entries.is_sorted_by(|a, b| a.key <= b.key && a.start <= b.start) {
            self.unsorted += 1;
        }
        self.entries.extend(entries.iter().map(|&entry| Surveyed {
            minishard,
            entry,
            form: Form::AsSaid,
            fault: None,
        }));
        None
    }

    /// Finds the faults that show in the entries alone.
    fn judge(&mut self, sharding: &Sharding, number: u64) {
        let (len, table_len) = (self.len, self.table_len);
        for surveyed in &mut self.entries {
            let here = KeyPlace { shard: number, minishard: surveyed.minishard };
            let place = sharding.place(surveyed.entry.key);
            let range = surveyed.range();
            if !surveyed.is_inside(len) {
                surveyed.set(Fault::OutOfBounds);
            } else if range.start < table_len || touches(&self.indexes, &range) {
                surveyed.set(Fault::InIndex);
            } else if place != here {
                surveyed.set(Fault::Misplaced { place });
            }
        }
        self.duplicates();
        self.overlaps();
    }

    /// Marks keys that repeat in the same minishard.
    fn duplicates(&mut self) {
        let entries = &mut self.entries;
        let before =
            |a: &Surveyed, b: &Surveyed| (a.minishard, a.entry.key) < (b.minishard, b.entry.key);
        if entries.is_sorted_by(before) {
            return;
        }
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(|&i| (entries[i].minishard, entries[i].entry.key));
        for pair in order.windows(2) {
            let (first, next) = (&entries[pair[0]], &entries[pair[1]]);
            if (first.minishard, first.entry.key) == (next.minishard, next.entry.key) {
                entries[pair[1]].set(Fault::Duplicate);
            }
        }
    }

    /// Marks values that share bytes. Only the first of them is checked further.
    fn overlaps(&mut self) {
        let entries = &mut self.entries;
        let mut order: Vec<usize> = (0..entries.len())
            .filter(|&i| entries[i].entry.len > 0 && entries[i].is_inside(self.len))
            .filter(|&i| !matches!(entries[i].fault.as_deref(), Some(Fault::InIndex)))
            .collect();
        order.sort_by_key(|&i| (entries[i].entry.start, entries[i].entry.len));
        let ranges: Vec<_> = order.into_iter().map(|i| (entries[i].range(), i)).collect();
        overlapping(ranges, |(of, first), (range, i)| {
            let other = entries[first].entry.key;
            entries[i].set(if of == range {
                Fault::Shared { other }
            } else {
                Fault::Overlap { other, of: of.clone() }
            });
        });
    }

    /// Bytes that no index, no value, and none of these other ranges refers to.
    pub fn gap_bytes(&self, others: &[Range<u64>]) -> u64 {
        let inside = self.entries.iter().filter(|s| s.is_inside(self.len)).map(Surveyed::range);
        let mut taken: Vec<Range<u64>> = self.indexes.iter().chain(others).cloned().collect();
        taken.extend(inside);
        taken.sort_unstable_by_key(|range| range.start);
        self.len.saturating_sub(covered(taken))
    }
}

/// Whether a range overlaps some of these, which are sorted and disjoint.
pub(crate) fn touches(ranges: &[Range<u64>], range: &Range<u64>) -> bool {
    let after = ranges.partition_point(|other| other.end <= range.start);
    !range.is_empty() && ranges.get(after).is_some_and(|other| other.start < range.end)
}

/// Whether bytes begin like gzip.
pub(crate) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Whether bytes begin like zlib.
pub(crate) fn is_zlib(bytes: &[u8]) -> bool {
    // A window of 32 KiB, and a header whose two bytes are a multiple of 31.
    matches!(bytes, [0x78, flags, ..] if (0x7800 + u32::from(*flags)).is_multiple_of(31))
}

/// Decompresses bytes stored in this form.
pub(crate) fn unpack(
    form: Form,
    context: &mut Context,
    encoded: &[u8],
    limit: u64,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    match form {
        Form::Gzip => codec("gzip")?.decode(context, encoded, limit, out),
        Form::Zlib => codec("zlib")?.decode(context, encoded, limit, out),
        Form::AsSaid | Form::Raw => {
            out.extend_from_slice(encoded);
            Ok(())
        }
    }
}

/// `gzip`, `zlib` or `zstd`.
pub(crate) fn codec(name: &str) -> Result<std::sync::Arc<dyn BytesToBytes>, CodecError> {
    let mut configuration = serde_json::Map::from_iter([("level".to_owned(), 6.into())]);
    if name == "zstd" {
        configuration.insert("checksum".to_owned(), false.into());
    }
    let spec = CodecSpec { name: name.to_owned(), configuration, must_understand: true };
    match from_spec(&spec)? {
        Codec::BytesToBytes(codec) => Ok(codec),
        _ => Err(CodecError::unsupported(name, "it is not a bytes -> bytes codec")),
    }
}
