//! Checks objects that are chunks or indexed shards, however damaged.

mod ahead;
mod entries;
mod index;
mod payload;

use std::ops::{Deref, Range};
use std::sync::Arc;

use shardine_store::{Buffer, Key, LeftoverKind, Object, ReadRange, Recovery, StoreError};

use super::{Finding, FindingKind, Limit, Origin, Run, Scope, Settled, Severity, gaps, settled};
use crate::Array;
use crate::engine::{First, actual_length, first_read};
use crate::jobs::frame::JobContext;
use crate::layout::Layout;
use crate::stored::PossibleObject;

use ahead::{Held, Pace};
pub(in crate::jobs) use index::{Indexed, NoIndex, read_index};
pub(in crate::jobs) use payload::{Problem, decode};

/// Findings of one object that are buffered until all of it is checked.
const PENDING: usize = 256;

/// The check of one version of an object.
struct Check<'a, 'r> {
    pub run: &'a Run<'r>,
    pub array: &'a Array,
    pub stored: &'a PossibleObject,
    /// How a remote store is read; `None` if it is local.
    pub pace: Option<Pace>,
    pub object: Arc<dyn Object>,
    pub len: u64,
    pub findings: Vec<Finding>,
    pub limit: Limit,
    pub chunks: u64,
    pub chunks_decoded: u64,
    pub gap_bytes: u64,
    /// The bytes to report for findings in a shard that had to be decoded first.
    pub opaque: Option<Range<u64>>,
    /// Whether the object is a shard without a readable index.
    pub without_index: bool,
}

/// Where the bytes of a shard come from.
#[derive(Clone, Copy)]
pub(in crate::jobs) enum Source<'a> {
    /// The object, some bytes of which may have been prefetched.
    Object { object: &'a dyn Object, held: &'a [Held] },
    /// A shard that had to be decoded first.
    Decoded(&'a [u8]),
}

/// Bytes of a source.
pub(in crate::jobs) enum Bytes<'a> {
    Read(Buffer),
    Slice(&'a [u8]),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Slice(bytes) => bytes,
        }
    }
}

impl<'a> Source<'a> {
    /// Reads these bytes, which are known to lie inside.
    pub fn read(self, key: &Key, range: Range<u64>) -> Result<Bytes<'a>, StoreError> {
        match self {
            Self::Object { object, held } => match Held::find(held, &range) {
                Some(bytes) => Ok(Bytes::Slice(bytes)),
                None => object.read(ReadRange::Bounded(range)).map(Bytes::Read),
            },
            Self::Decoded(bytes) => {
                let inside = ReadRange::Bounded(range).resolve(key, bytes.len() as u64)?;
                Ok(Bytes::Slice(&bytes[inside.start as usize..inside.end as usize]))
            }
        }
    }
}

impl<'r> Run<'r> {
    /// Checks an object; `None` if it does not exist.
    pub fn object(
        &self,
        array: &Array,
        stored: &PossibleObject,
        pace: Option<Pace>,
    ) -> Option<Vec<Finding>> {
        // A store may learn the true length only when it reads.
        let mut len = stored.listed;
        let open = || array.chunks.store.open(&stored.key, None);
        let look = &mut |object: &Arc<dyn Object>| {
            let mut check = self.check(array, stored, pace, object, &mut len)?;
            if check.without_index {
                check = self.without_change(check)?;
            }
            let is_damaged = check.is_damaged();
            Ok((check, is_damaged))
        };
        let check = match settled(&stored.key, &open, look) {
            Settled::Seen(check) => check,
            Settled::Gone => return None,
            Settled::Failed(kind, message) => {
                let finding = Finding::new(kind, Some(stored.key.clone()), message);
                return Some(vec![at_cell(array, finding, &stored.cell)]);
            }
        };
        self.sum(|summary| {
            summary.bytes += check.len;
            summary.chunks += check.chunks;
            summary.chunks_decoded += check.chunks_decoded;
            summary.gap_bytes += check.gap_bytes;
        });
        self.count(&check.limit.untold);
        Some(check.findings)
    }

    /// Checks one version of an object.
    fn check<'b>(
        &'b self,
        array: &'b Array,
        stored: &'b PossibleObject,
        pace: Option<Pace>,
        object: &Arc<dyn Object>,
        known: &mut Option<u64>,
    ) -> Result<Check<'b, 'r>, StoreError> {
        let shard = array.chunks.layout.addressable();
        let mut held = Vec::new();
        let len = match object.len().or(*known) {
            Some(len) => len,
            None => {
                // If its chunks are needed, so is all of a small shard.
                let most = pace.filter(|_| self.scope.decode).map_or(0, |pace| pace.piece);
                let First { len, index } = first_read(shard, &**object, most)?;
                if let (Some(bytes), Some(Ok(range))) = (index, shard.map(|s| s.index.range(len))) {
                    held.push(Held { range, bytes });
                }
                len
            }
        };
        let mut check = Check {
            run: self,
            array,
            stored,
            pace,
            len,
            object: Arc::clone(object),
            findings: Vec::new(),
            limit: Limit::new(self.scope.max_of_kind),
            chunks: 0,
            chunks_decoded: 0,
            gap_bytes: 0,
            opaque: None,
            without_index: false,
        };
        let result = check.whole(&held);
        // A listing may give a different length than the object has, and alone proves nothing.
        if object.len().is_none() && check.is_damaged() {
            object.read(ReadRange::Bounded(0..0))?;
        }
        if let Some(actual) = actual_length(&**object, &result)
            && actual != check.len
        {
            *known = Some(actual);
            return Err(check.changed());
        }
        result.map(|()| check)
    }

    /// Checks a shard without an index as a reader sees it: without the in-place update that is
    /// under way, or was interrupted, if there is one. Nothing is recovered.
    fn without_change<'b>(&'b self, mut check: Check<'b, 'r>) -> Result<Check<'b, 'r>, StoreError> {
        let (store, key) = (&check.array.chunks.store, &check.stored.key);
        match store.before_change(key)? {
            Recovery::Before(before) => {
                let (array, stored) = (check.array, check.stored);
                return self.check(array, stored, check.pace, &before, &mut None);
            }
            Recovery::Done if store.open(key, None)?.version() != check.object.version() => {
                return Err(check.changed());
            }
            Recovery::Done | Recovery::Nothing => {}
        }
        // Even an invalid journal shows that the shard was being changed.
        let folder = key.as_str().rsplit_once('/').map(|(folder, _)| Key::new(folder));
        let leftovers = store.leftovers(folder.transpose()?.as_ref())?;
        let journal = leftovers.into_iter().find(|leftover| {
            leftover.kind == LeftoverKind::Journal && leftover.object.as_ref() == Some(key)
        });
        let Some(journal) = journal else { return Ok(check) };
        if journal.in_use {
            return Err(check.changed());
        }
        check.findings.clear();
        check.limit = Limit::new(self.scope.max_of_kind);
        // The first part has reported it with its folder, unless it was made since.
        if self.is_first() && self.first_journal_of(key) {
            let message = "a change in place was interrupted".to_owned();
            let finding = Finding::new(FindingKind::LeftoverJournal, Some(key.clone()), message);
            check.findings.push(at_cell(check.array, finding, &check.stored.cell));
        }
        Ok(check)
    }
}

/// Checks one object of an array.
pub(in crate::jobs) fn check_object(
    context: &JobContext,
    array: &Array,
    object: &PossibleObject,
    scope: Scope,
) -> Vec<Finding> {
    let mut told = Vec::new();
    let mut tell = |finding| told.push(finding);
    let run = Run::new(context, None, scope, &mut tell);
    let last = run.object(array, object, run.pace(array, 1));
    drop(run);
    told.extend(last.into_iter().flatten());
    told
}

impl Check<'_, '_> {
    fn is_damaged(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Damage)
    }

    fn changed(&self) -> StoreError {
        StoreError::Changed { key: self.stored.key.clone() }
    }

    fn whole(&mut self, held: &[Held]) -> Result<(), StoreError> {
        let layout = &self.array.chunks.layout;
        if self.len == 0 && !may_be_empty(layout) {
            let message = "it is empty".to_owned();
            return self.find(FindingKind::EmptyObject, &[], Some(0..0), message);
        }
        let bounds = self.array.chunks.bounds(&self.stored.cell);
        let object = Arc::clone(&self.object);
        let source = Source::Object { object: &*object, held };
        let wanted = self.wanted(layout, 0..self.len);
        let ahead = self.read_ahead(source, wanted.as_slice())?;
        let source = source.with(&ahead);
        self.layout(source, layout, 0..self.len, &mut Vec::new(), &bounds)?;
        if self.gap_bytes > 0 {
            let message = gaps(self.gap_bytes, self.len);
            self.find(FindingKind::Gap, &[], None, message)?;
        }
        Ok(())
    }

    /// Adds a finding about the object, or about what a path of entries leads to.
    pub fn find(
        &mut self,
        kind: FindingKind,
        path: &[u32],
        range: Option<Range<u64>>,
        message: String,
    ) -> Result<(), StoreError> {
        if !self.limit.admits(kind) {
            return Ok(());
        }
        let layout = &self.array.chunks.layout;
        let mut finding = Finding::new(kind, Some(self.stored.key.clone()), message);
        finding = at_cell(self.array, finding, &self.stored.cell);
        if let Some(origin) = &mut finding.origin {
            origin.path = path.to_vec();
        }
        if !path.is_empty() {
            let place = layout.chunk_coordinates(&self.stored.cell, path);
            if path.len() == depth(layout) {
                finding = finding.chunk(Some(place));
            } else {
                finding.message = format!("inner shard {place:?}: {}", finding.message);
            }
        }
        if let Some(range) = self.opaque.clone().or(range) {
            finding = finding.range(range);
        }
        self.findings.push(finding);
        if self.findings.len() >= PENDING {
            // Too many to buffer; they hold for the object's current version.
            self.object.check_unchanged()?;
            self.run.tell(self.findings.drain(..));
        }
        Ok(())
    }
}

/// Whether an encoded object or entry may have no bytes.
fn may_be_empty(layout: &Layout) -> bool {
    match layout {
        Layout::Chunk(leaf) => leaf.codec.encoded_size() == shardine_codec::EncodedSize::Exact(0),
        _ => false,
    }
}

/// How many entries lead to an innermost chunk.
fn depth(layout: &Layout) -> usize {
    match layout {
        Layout::Chunk(_) => 0,
        Layout::Shard(shard) => 1 + depth(&shard.inner),
        Layout::Staged(staged) => depth(&staged.inner),
    }
}

/// Adds the object's position to a finding: as a shard, or as the chunk it is.
pub(in crate::jobs) fn at_cell(array: &Array, mut finding: Finding, cell: &[u64]) -> Finding {
    let array_path = array.location().path.clone();
    finding.origin = Some(Origin { array: array_path, cell: cell.to_vec(), path: Vec::new() });
    match array.shard_shape() {
        Some(_) => finding.shard(cell),
        None => finding.chunk(Some(cell.to_vec())),
    }
}
