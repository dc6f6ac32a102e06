//! Checks data sets of formats without a check of their own: the objects of their arrays, as
//! described by their packings.

use std::ops::Range;
use std::sync::Arc;

use shardine_codec::Context;
use shardine_store::{Object, StoreError};

use crate::engine::{ShardEntries, SharedPacking};
use crate::jobs::check::indexed::{Source, decode};
use crate::jobs::check::{BATCH, Finding, FindingKind, Run, Settled, gaps, overlapping, settled};
use crate::layout::Layout;
use crate::stored::PossibleObject;
use crate::{Array, EngineError, Error, Location, open_in};

/// The result for one version of an object.
#[derive(Default)]
struct Seen {
    findings: Vec<Finding>,
    len: u64,
    chunks: u64,
    decoded: u64,
    gap_bytes: u64,
}

/// A chunk of an object: its position in the array's grid, and its bytes.
type Stored = (Vec<u64>, Range<u64>);

impl Run<'_> {
    /// Checks the arrays of the data set at a location; `false` if there is none.
    pub(super) fn other_set(&self, location: &Location) -> Result<bool, Error> {
        let set = match open_in(self.engine, location) {
            Err(Error::NoNode { .. }) => return Ok(false),
            set => set?,
        };
        let only_read = set.only_read().is_some();
        set.each_array(&mut |array| {
            match array {
                Ok(array) => {
                    self.sum(|summary| summary.arrays += 1);
                    if self.checks_objects(array.location().path.as_ref()) {
                        self.shared_array(&array, only_read)?;
                    }
                }
                Err(error) => {
                    let (kind, at) = (FindingKind::NotChecked, location.path.clone());
                    self.note(Finding::new(kind, at, error.to_string()));
                }
            }
            Ok(())
        })?;
        Ok(true)
    }

    /// Checks the objects of an array whose chunks share them.
    fn shared_array(&self, array: &Array, only_read: bool) -> Result<(), Error> {
        let folder = array.location().path.as_ref();
        self.begin(folder)?;
        let Some(shared) = array.chunks.packing.shared() else {
            let message = "chunks of this format are not checked".to_owned();
            self.note(Finding::new(FindingKind::NotChecked, folder.cloned(), message));
            return Ok(());
        };
        let objects = array.possible_objects()?;
        if objects.iter().any(|object| object.listed.is_none()) {
            self.sum(|summary| summary.unlisted = true);
        }
        let is_inside = |object: &PossibleObject| shared.object_at(&object.cell).is_some();
        for object in objects.iter().filter(|object| !is_inside(object)) {
            let message = "belongs to a part of the grid outside the array".to_owned();
            let kind = FindingKind::ObjectOutsideArray;
            self.note(Finding::new(kind, Some(object.key.clone()), message).shard(&object.cell));
        }
        let inside =
            objects.into_iter().filter(|object| is_inside(object) && self.takes(&object.key));
        let inside: Vec<PossibleObject> = inside.collect();
        self.expect(inside.len() as u64);
        for objects in inside.chunks(BATCH) {
            let crew = self.crew(array, self.pace(array, objects.len()), objects.len());
            let look = |object: &PossibleObject, _, _: &mut Context| {
                self.shared_object(array, shared, object)
            };
            self.batch(crew, objects, |object| &object.key, &look, &mut |_, seen: Seen| {
                self.sum(|summary| {
                    summary.bytes += seen.len;
                    summary.chunks += seen.chunks;
                    summary.chunks_decoded += seen.decoded;
                    summary.gap_bytes += seen.gap_bytes;
                });
                self.tell(seen.findings.into_iter().map(|found| Finding { only_read, ..found }));
            })?;
        }
        Ok(())
    }

    /// Checks an object; `None` if it does not exist.
    fn shared_object(
        &self,
        array: &Array,
        shared: &dyn SharedPacking,
        stored: &PossibleObject,
    ) -> Option<Seen> {
        let key = &stored.key;
        let open = || array.chunks.store.open(key, None);
        let look = &mut |object: &Arc<dyn Object>| {
            let seen = match shared.entries(self.engine, &stored.cell) {
                Ok(Some(entries)) => self.shared_entries(array, stored, &entries, object)?,
                Ok(None) => {
                    return Err(StoreError::NotFound {
                        key: key.clone(),
                        store: array.chunks.store.name(),
                    });
                }
                Err(EngineError::Store(StoreError::Damaged { reason, .. })) => {
                    let finding = Finding::new(FindingKind::Index, Some(key.clone()), reason);
                    let findings = vec![finding.shard(&stored.cell)];
                    Seen { findings, len: object.len().unwrap_or(0), ..Seen::default() }
                }
                Err(EngineError::Store(error)) => return Err(error),
                Err(error) => {
                    let (kind, message) = (FindingKind::NotChecked, error.to_string());
                    let finding = Finding::new(kind, Some(key.clone()), message);
                    Seen { findings: vec![finding.shard(&stored.cell)], ..Seen::default() }
                }
            };
            let is_damaged = !seen.findings.is_empty();
            Ok((seen, is_damaged))
        };
        match settled(key, &open, look) {
            Settled::Seen(seen) => Some(seen),
            Settled::Gone => None,
            Settled::Failed(kind, message) => {
                let finding = Finding::new(kind, Some(key.clone()), message).shard(&stored.cell);
                Some(Seen { findings: vec![finding], ..Seen::default() })
            }
        }
    }

    /// Checks the chunks of an object whose index is readable.
    fn shared_entries(
        &self,
        array: &Array,
        stored: &PossibleObject,
        entries: &ShardEntries,
        object: &Arc<dyn Object>,
    ) -> Result<Seen, StoreError> {
        let (key, mut findings) = (&stored.key, Vec::new());
        let at = |kind, chunk: &[u64], range: &Range<u64>, message: String| {
            let finding = Finding::new(kind, Some(key.clone()), message).shard(&stored.cell);
            finding.chunk(Some(chunk.to_vec())).range(range.clone())
        };
        let mut chunks = placed(stored, entries);
        chunks.sort_by_key(|(_, range)| range.start);
        let ranges = chunks.iter().enumerate().map(|(i, (_, range))| (range.clone(), i));
        overlapping(ranges, |(first, _), (range, i)| {
            let message = format!("shares bytes with the chunk at {}..{}", first.start, first.end);
            findings.push(at(FindingKind::Overlap, &chunks[i].0, range, message));
        });
        let mut decoded = 0;
        if self.scope.decode {
            let source = Source::Object { object: &**object, held: &[] };
            for (chunk, range) in &chunks {
                let Layout::Chunk(leaf) = array.chunks.layout_of(chunk) else { continue };
                decoded += 1;
                let problem = self.engine.with_context(|context| {
                    decode(context, source, key, &leaf.codec, range.clone())
                })?;
                if let Some((kind, message)) = problem {
                    findings.push(at(kind, chunk, range, message));
                }
            }
        }
        let (len, gap_bytes) = (entries.len, entries.gap_bytes);
        if gap_bytes > 0 {
            let message = gaps(gap_bytes, len);
            let finding = Finding::new(FindingKind::Gap, Some(key.clone()), message);
            findings.push(finding.shard(&stored.cell));
        }
        Ok(Seen { findings, len, chunks: chunks.len() as u64, decoded, gap_bytes })
    }
}

/// The chunks of an object by position in the grid of the array.
fn placed(stored: &PossibleObject, entries: &ShardEntries) -> Vec<Stored> {
    let place = |(i, range): (usize, &Option<Range<u64>>)| {
        let mut rest = i as u64;
        let mut chunk = stored.cell.clone();
        for (at, &n) in chunk.iter_mut().zip(&entries.grid).rev() {
            *at = at.saturating_mul(n).saturating_add(rest % n.max(1));
            rest /= n.max(1);
        }
        Some((chunk, range.clone()?))
    };
    entries.entries.iter().enumerate().filter_map(place).collect()
}
