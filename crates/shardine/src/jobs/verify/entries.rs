//! A shard: its index, its entries, and what they lead to.

use std::ops::Range;

use shardine_store::StoreError;

use super::FindingKind;
use super::object::{Check, Source, may_be_empty};
use super::payload::size_problem;
use crate::layout::{Layout, ShardLayout};
use crate::shard::{ShardError, ShardIndex};

/// An entry that lies inside its shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub start: u64,
    pub end: u64,
    pub entry: u32,
    /// Whether to look at what it leads to.
    pub sound: bool,
}

/// Offset and length of a chunk that is absent.
const EMPTY: u64 = u64::MAX;

impl Check<'_, '_> {
    /// Checks what lies at `at`. `bounds` is how much of it is inside the array, by axis of the array.
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
            // Its codecs need every element, be it outside the array.
            Layout::Staged(staged) => {
                self.layout(source, &staged.inner, at, path, &staged.inner.spec().shape)
            }
        }
    }

    /// Checks a shard whose index can be read.
    pub fn shard(
        &mut self,
        source: Source<'_>,
        shard: &ShardLayout,
        at: Range<u64>,
        path: &mut Vec<u32>,
        bounds: &[u64],
    ) -> Result<(), StoreError> {
        let len = at.end - at.start;
        let index_range = match shard.index.range(len) {
            Ok(range) => range,
            Err(error) => {
                self.without_index = path.is_empty();
                return self.find(FindingKind::Truncated, path, Some(at), error.to_string());
            }
        };
        let stored = at.start + index_range.start..at.start + index_range.end;
        let bytes = source.read(&self.stored.key, stored.clone())?;
        let decoded = self.run.engine.with_context(|c| shard.index.decode(c, bytes.as_ref(), len));
        drop(bytes);
        let index = match decoded {
            Ok(index) => index,
            Err(error) => {
                let reason = match error {
                    ShardError::Index { source, .. } => source.to_string(),
                    error => error.to_string(),
                };
                let message = format!("the index cannot be decoded: {reason}");
                self.without_index = path.is_empty();
                return self.find(FindingKind::Index, path, Some(stored), message);
            }
        };
        let mut placed = self.placed(shard, &index, &at, &index_range, path, bounds)?;
        drop(index);
        placed.sort_unstable_by_key(|p| (p.start, p.end, p.entry));
        self.overlaps(&mut placed, &at, path)?;
        if let Source::Object { .. } = source {
            self.gap_bytes += len.saturating_sub(covered(&placed, &index_range));
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

    /// The entries that lie inside the shard; the others are findings.
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
            let range = at.start.saturating_add(offset)
                ..at.start.saturating_add(offset).saturating_add(length);
            let outside = || shard.chunk_bounds(&shard.cell(entry), &bounds).contains(&0);
            let (kind, message) = match end {
                _ if offset == EMPTY || length == EMPTY => (
                    FindingKind::HalfEmptyEntry,
                    format!(
                        "entry {entry} has offset {offset} and length {length}: half of it says that it is absent"
                    ),
                ),
                None => (
                    FindingKind::EntryOutOfBounds,
                    format!(
                        "entry {entry} has offset {offset} and length {length} in a shard of {len} bytes"
                    ),
                ),
                Some(_) if length == 0 && !may_be_empty(&shard.inner) => (
                    FindingKind::ZeroLengthEntry,
                    format!("entry {entry} has no bytes, but no chunk is encoded to nothing"),
                ),
                Some(end) => {
                    let mut kept = Placed { start: offset, end, entry: number, sound: false };
                    let problem =
                        if length > 0 && offset < index_range.end && end > index_range.start {
                            let message = format!(
                                "entry {entry} reaches into the index at bytes {index_range:?}"
                            );
                            Some((FindingKind::EntryInIndex, message))
                        } else if let Some(message) = size_problem(&shard.inner, length) {
                            Some((FindingKind::ChunkSize, message))
                        } else if cut && outside() {
                            let message = format!(
                                "entry {entry} is of a part of the shard outside the array"
                            );
                            Some((FindingKind::EntryOutsideArray, message))
                        } else {
                            None
                        };
                    kept.sound = problem.is_none();
                    if length > 0 {
                        placed.push(kept);
                    }
                    match problem {
                        Some(problem) => problem,
                        None => continue,
                    }
                }
            };
            path.push(number);
            let result = self.find(kind, path, Some(range), message);
            path.pop();
            result?;
        }
        Ok(placed)
    }

    /// Tells which entries share bytes. Only the first of them is looked into: a few bytes that many entries
    /// claim would else be looked at many times over.
    fn overlaps(
        &mut self,
        placed: &mut [Placed],
        at: &Range<u64>,
        path: &mut Vec<u32>,
    ) -> Result<(), StoreError> {
        let mut reaching: Option<Placed> = None;
        for next in placed {
            let Some(first) = reaching.filter(|first| next.start < first.end) else {
                reaching = Some(*next);
                continue;
            };
            next.sound = false;
            let layout = &self.array.chunks.layout;
            path.push(first.entry);
            let other = layout.chunk_coordinates(&self.stored.cell, path);
            path.pop();
            let bytes = at.start + first.start..at.start + first.end;
            let (kind, message) = if (first.start, first.end) == (next.start, next.end) {
                let message = format!("has the very same bytes as {other:?}");
                (FindingKind::SharedBytes, message)
            } else {
                let message = format!("overlaps {other:?}, which has the bytes {bytes:?}");
                (FindingKind::Overlap, message)
            };
            path.push(next.entry);
            let range = at.start + next.start..at.start + next.end;
            let result = self.find(kind, path, Some(range), message);
            path.pop();
            result?;
            if next.end > first.end {
                reaching = Some(*next);
            }
        }
        Ok(())
    }
}

/// Bytes that the index or an entry refers to. The entries are in order.
fn covered(placed: &[Placed], index: &Range<u64>) -> u64 {
    let (mut covered, mut end) = (0, 0);
    let mut take = |start: u64, stop: u64| {
        covered += stop.saturating_sub(start.max(end));
        end = end.max(stop);
    };
    let before = placed.partition_point(|p| p.start < index.start);
    placed[..before].iter().for_each(|p| take(p.start, p.end));
    take(index.start, index.end);
    placed[before..].iter().for_each(|p| take(p.start, p.end));
    covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_once_however_many_entries_claim_them() {
        let placed = |ranges: &[(u64, u64)]| -> Vec<Placed> {
            let entry = |&(start, end): &(u64, u64)| Placed { start, end, entry: 0, sound: true };
            ranges.iter().map(entry).collect()
        };
        assert_eq!(covered(&placed(&[]), &(0..8)), 8);
        assert_eq!(covered(&placed(&[(8, 12), (12, 20)]), &(0..8)), 20);
        assert_eq!(covered(&placed(&[(0, 12), (4, 8), (4, 8)]), &(20..28)), 20);
        assert_eq!(covered(&placed(&[(0, 24), (26, 28)]), &(20..28)), 28);
    }
}
