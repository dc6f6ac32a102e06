//! One object of a grid: opened, checked, and checked again if it changed meanwhile.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use shardine_store::{Buffer, Key, LeftoverKind, Object, ReadRange, StoreError};

use super::ahead::{Held, Pace};
use super::grid::at_cell;
use super::{Finding, FindingKind, Run, Severity, Untold, add};
use crate::engine::tuning::REREADS;
use crate::engine::{First, actual_length, first_read};
use crate::layout::Layout;
use crate::{Array, PossibleObject};

/// Findings of one object that are kept until all of it is checked.
const PENDING: usize = 256;

/// The check of one version of an object.
pub(super) struct Check<'a, 'r> {
    pub run: &'a Run<'r>,
    pub array: &'a Array,
    pub stored: &'a PossibleObject,
    /// How a remote store is read; `None` if it is on this machine.
    pub pace: Option<Pace>,
    pub object: Arc<dyn Object>,
    pub len: u64,
    pub findings: Vec<Finding>,
    /// How many findings of each kind there are.
    pub found: Untold,
    /// Those that are only counted.
    pub untold: Untold,
    pub chunks: u64,
    pub chunks_decoded: u64,
    pub gap_bytes: u64,
    /// The bytes that findings concern while a shard is checked that had to be decoded first.
    pub opaque: Option<Range<u64>>,
    /// Whether the shard that is the object has no index that can be read.
    pub without_index: bool,
}

/// Where the bytes of a shard come from.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// The object, of which some bytes may have been read ahead.
    Object { object: &'a dyn Object, held: &'a [Held] },
    /// A shard that had to be decoded first.
    Decoded(&'a [u8]),
}

/// Bytes of a source.
pub(super) enum Bytes<'a> {
    Read(Buffer),
    Slice(&'a [u8]),
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Slice(bytes) => bytes,
        }
    }
}

impl<'a> Source<'a> {
    /// These bytes, which are known to lie inside.
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

impl Run<'_> {
    /// What is wrong with an object; `None` if it is not there.
    pub(super) fn object(
        &self,
        array: &Array,
        stored: &PossibleObject,
        pace: Option<Pace>,
    ) -> Option<Vec<Finding>> {
        let finding = |kind, message: String| {
            at_cell(array, Finding::new(kind, Some(stored.key.clone()), message), &stored.cell)
        };
        // A store may learn the true length only when it reads.
        let mut len = stored.listed;
        for attempt in 0..REREADS as u64 {
            match self.attempt(array, stored, pace, &mut len) {
                Ok(findings) => return Some(findings),
                Err(StoreError::NotFound { .. }) => return None,
                Err(StoreError::Changed { .. }) => {
                    std::thread::sleep(Duration::from_millis(attempt * 5));
                }
                Err(error) => {
                    return Some(vec![finding(FindingKind::Unreadable, error.to_string())]);
                }
            }
        }
        let message = format!("it kept changing, and was given up after {REREADS} attempts");
        Some(vec![finding(FindingKind::NotChecked, message)])
    }

    fn attempt(
        &self,
        array: &Array,
        stored: &PossibleObject,
        pace: Option<Pace>,
        known: &mut Option<u64>,
    ) -> Result<Vec<Finding>, StoreError> {
        let changed = || StoreError::Changed { key: stored.key.clone() };
        let store = &array.chunks.store;
        let object = store.open(&stored.key, None)?;
        let shard = array.chunks.layout.addressable();
        let mut held = Vec::new();
        let len = match object.len().or(*known) {
            Some(len) => len,
            None => {
                // All of a small shard is wanted if its chunks are.
                let most = pace.filter(|_| self.options.decode).map_or(0, |pace| pace.piece);
                let First { len, index } = first_read(shard, &*object, most)?;
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
            object: Arc::clone(&object),
            findings: Vec::new(),
            found: Untold::default(),
            untold: Untold::default(),
            chunks: 0,
            chunks_decoded: 0,
            gap_bytes: 0,
            opaque: None,
            without_index: false,
        };
        let result = check.whole(&held);
        // A listing may tell another length than the object has, and what it says alone proves nothing.
        let is_damaged = |f: &Finding| f.severity == Severity::Damage;
        if object.len().is_none() && check.findings.iter().any(is_damaged) {
            object.read(ReadRange::Bounded(0..0))?;
        }
        if let Some(actual) = actual_length(&*object, &result)
            && actual != check.len
        {
            *known = Some(actual);
            return Err(changed());
        }
        result?;
        object.check_unchanged()?;
        // What was read is one version, but damage counts only in the version that is there now.
        if check.findings.iter().any(is_damaged) {
            let now = store.open(&stored.key, None)?;
            if now.version().is_none() {
                now.read(ReadRange::Bounded(0..0))?;
            }
            if now.version() != object.version() {
                return Err(changed());
            }
            self.excuse(&mut check)?;
        }
        add(&self.counters.bytes, check.len);
        add(&self.counters.chunks, check.chunks);
        add(&self.counters.chunks_decoded, check.chunks_decoded);
        add(&self.counters.gap_bytes, check.gap_bytes);
        self.count(&check.untold);
        Ok(check.findings)
    }

    /// What looks like damage may be a change in place that is under way, or one that was interrupted: then the shard has
    /// no index, but its journal has it.
    fn excuse(&self, check: &mut Check<'_, '_>) -> Result<(), StoreError> {
        let key = &check.stored.key;
        let folder = key.as_str().rsplit_once('/').map(|(folder, _)| Key::new(folder));
        let leftovers = check.array.chunks.store.leftovers(folder.transpose()?.as_ref())?;
        let journal = leftovers.into_iter().find(|leftover| {
            leftover.kind == LeftoverKind::Journal && leftover.object.as_ref() == Some(key)
        });
        let Some(journal) = journal else { return Ok(()) };
        if journal.in_use {
            return Err(StoreError::Changed { key: key.clone() });
        }
        if !check.without_index {
            return Ok(());
        }
        check.findings.clear();
        check.untold = Untold::default();
        if self.first_journal_of(key) {
            let message = "a change in place was interrupted".to_owned();
            let finding = Finding::new(FindingKind::LeftoverJournal, Some(key.clone()), message);
            check.findings.push(at_cell(check.array, finding, &check.stored.cell));
        }
        Ok(())
    }
}

impl Check<'_, '_> {
    fn whole(&mut self, held: &[Held]) -> Result<(), StoreError> {
        let layout = &self.array.chunks.layout;
        if self.len == 0 && !may_be_empty(layout) {
            let message = "it has no bytes at all".to_owned();
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
            let share = self.gap_bytes as f64 / self.len as f64 * 100.0;
            let message = format!(
                "{} of {} bytes ({share:.1} %) are gaps that no entry refers to",
                self.gap_bytes, self.len
            );
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
        self.found.add(kind, 1);
        if self.found.get(kind) > self.run.options.max_of_kind {
            self.untold.add(kind, 1);
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
            // So many are not kept; they are true of what the object is now.
            self.object.check_unchanged()?;
            self.run.tell(self.findings.drain(..));
        }
        Ok(())
    }
}

/// Whether an encoded object or entry may have no bytes.
pub(super) fn may_be_empty(layout: &Layout) -> bool {
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
