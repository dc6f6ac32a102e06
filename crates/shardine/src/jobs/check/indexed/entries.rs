//! A shard: its index, its entries, and what they lead to.

use std::ops::Range;

use shardine_codec::Context;
use shardine_store::StoreError;

use super::payload::size_problem;
use super::{Check, Indexed, NoIndex, Source, may_be_empty, read_index};
use crate::jobs::check::{FindingKind, covered, overlapping};
use crate::layout::{Layout, ShardLayout};
use crate::shard::{ShardError, ShardIndex};

/// An entry inside its shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub start: u64,
    pub end: u64,
    pub entry: u32,
    /// Whether to check what it leads to.
    pub sound: bool,
}

/// Offset and length of a chunk that is absent.
const EMPTY: u64 = u64::MAX;

impl Check<'_, '_> {
    /// Checks what lies at `at`. `bounds` is how much of it is inside the array, by axis of the
    /// array.
    pub fn layout(
        &mut self,
        source: Source<'_>,
        layout: &Layout,
        at: Range<u64>,
        path: &mut Vec<u32>,
        bounds: &[u64],
    ) -> Result<(), StoreError> {
        match layout {
            Layout::Chunk(leaf) => self.chunk(source, &leaf.codec, at, path),
            Layout::Shard(shard) if shard.after.is_empty() => {
                self.shard(source, shard, at, path, bounds)
            }
            Layout::Shard(shard) => self.encoded_shard(source, shard, at, path, bounds),
            // Its codecs need every element, even outside the array.
            Layout::Staged(staged) => {
                self.layout(source, &staged.inner, at, path, &staged.inner.spec().shape)
            }
        }
    }

    /// Checks a shard whose index is readable.
    pub fn shard(
        &mut self,
        source: Source<'_>,
        shard: &ShardLayout,
        at: Range<u64>,
        path: &mut Vec<u32>,
        bounds: &[u64],
    ) -> Result<(), StoreError> {
        let key = &self.stored.key;
        let read = |context: &mut Context| {
            read_index(shard, &at, context, |range| source.read(key, range))
        };
        let Indexed { index, range: index_range } = match self.run.engine.with_context(read)? {
            Ok(indexed) => indexed,
            Err(none) => {
                self.without_index = path.is_empty();
                let (kind, range, message) = match none {
                    NoIndex::Truncated(error) => (FindingKind::Truncated, at, error.to_string()),
                    NoIndex::Undecodable(stored, error) => {
                        let reason = match error {
                            ShardError::Index { source, .. } => source.to_string(),
                            error => error.to_string(),
                        };
                        let message = format!("the index cannot be decoded: {reason}");
                        (FindingKind::Index, stored, message)
                    }
                };
                return self.find(kind, path, Some(range), message);
            }
        };
        let mut placed = self.placed(shard, &index, &at, &index_range, path, bounds)?;
        drop(index);
        placed.sort_unstable_by_key(|p| (p.start, p.end, p.entry));
        self.overlaps(&mut placed, &at, path)?;
        if let Source::Object { .. } = source {
            let before = placed.partition_point(|p| p.start < index_range.start);
            let range = |placed: &Placed| placed.start..placed.end;
            let (first, last) = (placed[..before].iter(), placed[before..].iter());
            let taken = first.map(range).chain([index_range]).chain(last.map(range));
            self.gap_bytes += (at.end - at.start).saturating_sub(covered(taken));
        }
        placed.retain(|placed| placed.sound);
        if let Layout::Chunk(leaf) = &shard.inner {
            return self.chunks(source, &leaf.codec, &placed, at.start, path);
        }
        let bounds = shard.to_stored(bounds);
        let mut rest = placed.as_slice();
        while !rest.is_empty() {
            let (part, after) = rest.split_at(self.entries_ahead(rest));
            rest = after;
            let place = |placed: &Placed| at.start + placed.start..at.start + placed.end;
            let wanted = part.iter().filter_map(|p| self.wanted(&shard.inner, place(p)));
            let ahead = self.read_ahead(source, &wanted.collect::<Vec<_>>())?;
            let source = source.with(&ahead);
            for placed in part {
                let inside = shard.chunk_bounds(&shard.cell(placed.entry as usize), &bounds);
                path.push(placed.entry);
                self.layout(source, &shard.inner, place(placed), path, &inside)?;
                path.pop();
            }
        }
        Ok(())
    }

    /// The entries inside the shard; the others become findings.
    fn placed(
        &mut self,
        shard: &ShardLayout,
        index: &ShardIndex,
        at: &Range<u64>,
        index_range: &Range<u64>,
        path: &mut Vec<u32>,
        bounds: &[u64],
    ) -> Result<Vec<Placed>, StoreError> {
        let len = at.end - at.start;
        let bounds = shard.to_stored(bounds);
        let cut = *bounds != *shard.to_stored(&shard.spec.shape);
        let mut placed = Vec::new();
        for entry in 0..index.len() {
            let Some((offset, length)) = index.raw(entry) else { break };
            if (offset, length) == (EMPTY, EMPTY) {
                continue;
            }
            let number = entry as u32;
            let end = offset.checked_add(length).filter(|&end| end <= len);
            let said = || format!("entry {entry} has offset {offset} and length {length}");
            let outside = || shard.chunk_bounds(&shard.cell(entry), &bounds).contains(&0);
            let problem = if offset == EMPTY || length == EMPTY {
                let message = format!("{}: only one of the two marks the chunk as absent", said());
                Some((FindingKind::HalfEmptyEntry, message))
            } else if end.is_none() {
                let message = format!("{} in a shard of {len} bytes", said());
                Some((FindingKind::EntryOutOfBounds, message))
            } else if length == 0 && !may_be_empty(&shard.inner) {
                let message = "is empty, but no chunk encodes to zero bytes";
                Some((FindingKind::ZeroLengthEntry, format!("entry {entry} {message}")))
            } else if length > 0
                && offset < index_range.end
                && end.is_some_and(|end| end > index_range.start)
            {
                let message = format!("reaches into the index at bytes {index_range:?}");
                Some((FindingKind::EntryInIndex, format!("entry {entry} {message}")))
            } else if let Some(message) = size_problem(&shard.inner, length) {
                Some((FindingKind::ChunkSize, message))
            } else if cut && outside() {
                let message = format!("entry {entry} is for a part of the shard outside the array");
                Some((FindingKind::EntryOutsideArray, message))
            } else {
                None
            };
            if let (Some(end), true) = (end, length > 0) {
                let sound = problem.is_none();
                placed.push(Placed { start: offset, end, entry: number, sound });
            }
            let Some((kind, message)) = problem else { continue };
            let start = at.start.saturating_add(offset);
            let range = start..start.saturating_add(length);
            path.push(number);
            let result = self.find(kind, path, Some(range), message);
            path.pop();
            result?;
        }
        Ok(placed)
    }

    /// Reports which entries share bytes. Only the first of them is checked further: otherwise a
    /// few bytes that many entries claim would be checked many times.
    fn overlaps(
        &mut self,
        placed: &mut [Placed],
        at: &Range<u64>,
        path: &mut Vec<u32>,
    ) -> Result<(), StoreError> {
        let ranges: Vec<_> = placed.iter().map(|p| p.start..p.end).zip(0..).collect();
        let mut shared = Vec::new();
        overlapping(ranges, |(_, first): (_, usize), (_, next)| shared.push((first, next)));
        for (first, next) in shared {
            placed[next].sound = false;
            let (first, next) = (placed[first], placed[next]);
            let layout = &self.array.chunks.layout;
            path.push(first.entry);
            let other = layout.chunk_coordinates(&self.stored.cell, path);
            path.pop();
            let bytes = at.start + first.start..at.start + first.end;
            let (kind, message) = if (first.start, first.end) == (next.start, next.end) {
                let message = format!("refers to the same bytes as {other:?}");
                (FindingKind::SharedBytes, message)
            } else {
                let message = format!("overlaps {other:?}, which is at bytes {bytes:?}");
                (FindingKind::Overlap, message)
            };
            path.push(next.entry);
            let range = at.start + next.start..at.start + next.end;
            let result = self.find(kind, path, Some(range), message);
            path.pop();
            result?;
        }
        Ok(())
    }
}
