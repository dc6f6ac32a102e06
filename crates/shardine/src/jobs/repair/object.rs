//! Repairs one object of a grid.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use shardine_codec::Context;
use shardine_store::{CreateOptions, Edit, Object, ReadRange, Staged};

use super::last_index::find_last_index;
use super::{Repair, RepairKind, Repairing, is_mendable};
use crate::engine::{IndexedFrame, NewObject};
use crate::jobs::check::indexed::{Indexed, NoIndex, Source, check_object, decode, read_index};
use crate::jobs::check::{Finding, FindingKind, Severity, overlapping};
use crate::jobs::losses::{Fingerprint, ObjectLosses, chunks_below, fingerprints};
use crate::layout::{Layout, ShardLayout};
use crate::shard::{IndexLocation, ShardIndex};
use crate::stored::PossibleObject;
use crate::{Array, EngineError, Error};

/// How often an object is checked again after a repair: a restored index may have damaged chunks,
/// and problems behind overlapping entries show once they are separated.
const ROUNDS: usize = 32;

impl Repairing<'_> {
    /// Repairs an object. Nobody else changes it meanwhile, where the store has locks.
    pub(super) fn object(&mut self, array: &Array, stored: &PossibleObject) -> Result<(), Error> {
        let mut scope = self.scope(super::MAX_OF_KIND, true);
        for round in 0..ROUNDS {
            let edit = array.chunks.store.edit(&stored.key)?;
            let mut findings = check_object(self.context, array, stored, scope);
            findings.retain(|finding| finding.severity == Severity::Damage);
            if findings.is_empty() {
                return Ok(());
            }
            // If the storage does not return the bytes, nothing is known about them.
            if round + 1 == ROUNDS || !findings.iter().all(is_mendable) {
                findings.iter().for_each(|f| self.tell(Repair::of(RepairKind::Left, f)));
                return Ok(());
            }
            let lost = ObjectLosses::default();
            let mut mend = Mend { repairing: self, array, stored, edit, lost, restored: false };
            let again = match array.chunks.layout.addressable() {
                Some(shard) => mend.shard(shard, &findings)?,
                None => mend.opaque(&findings)?,
            };
            // What an older index leads to may have been overwritten since.
            scope.decode |= mend.restored;
            if !again || self.options.dry_run {
                return Ok(());
            }
        }
        Ok(())
    }
}

struct Mend<'a, 'r> {
    repairing: &'a mut Repairing<'r>,
    array: &'a Array,
    stored: &'a PossibleObject,
    edit: Edit,
    /// What is lost of the object.
    lost: ObjectLosses,
    /// Whether it has an older index now.
    restored: bool,
}

/// What happens to an entry.
enum Outcome {
    /// It is emptied.
    Dropped,
    /// It gets these bytes.
    Replaced(Vec<u8>),
}

impl Mend<'_, '_> {
    fn dry_run(&self) -> bool {
        self.repairing.options.dry_run
    }

    fn len(&self) -> u64 {
        self.edit.object.len().unwrap_or(0)
    }

    /// Repairs an object that is a chunk, or a shard encoded as a whole.
    fn opaque(&mut self, findings: &[Finding]) -> Result<bool, Error> {
        let whole = |finding: &&Finding| finding.origin.as_ref().is_some_and(|o| o.path.is_empty());
        match findings.iter().find(whole) {
            Some(finding) => self.set_object_aside(finding),
            None => {
                for finding in findings {
                    self.repairing.tell(Repair::of(RepairKind::Left, finding));
                }
                Ok(false)
            }
        }
    }

    /// Repairs a shard, whether its index is readable or has to be searched for.
    fn shard(&mut self, shard: &ShardLayout, findings: &[Finding]) -> Result<bool, Error> {
        let whole = findings
            .iter()
            .find(|finding| finding.origin.as_ref().is_none_or(|origin| origin.path.is_empty()));
        if let Some(finding) = whole {
            return match find_last_index(shard, &*self.edit.object, self.len())? {
                Some(at) => self.restore_index(shard, at, finding),
                None => self.set_object_aside(finding),
            };
        }
        let object = std::sync::Arc::clone(&self.edit.object);
        let read = |range| object.read(ReadRange::Bounded(range));
        let indexed = read_index(shard, &(0..self.len()), &mut Context::new(), read)?;
        let Indexed { index: old, range } = indexed.map_err(|e| self.damaged(e))?;
        let outcomes = self.entries(shard, &old, &*object, 0, findings, 0)?;
        if findings.iter().any(|finding| finding.kind == FindingKind::Overlap) {
            self.overlapping(shard, &old, &*object, &outcomes)?;
        }
        if self.dry_run() || outcomes.is_empty() {
            return Ok(false);
        }
        self.record()?;
        let staged = self.with_entries(shard, &old, range, outcomes)?;
        self.publish(staged)
    }

    /// Records chunks that share bytes as unproved, unless they have a checksum.
    fn overlapping(
        &mut self,
        shard: &ShardLayout,
        index: &ShardIndex,
        object: &dyn Object,
        outcomes: &[(usize, Outcome)],
    ) -> Result<(), Error> {
        if !matches!(&shard.inner, Layout::Chunk(leaf) if !leaf.codec.has_checksum()) {
            return Ok(());
        }
        let dropped = |outcome: &&(usize, Outcome)| matches!(outcome.1, Outcome::Dropped);
        let dropped: BTreeSet<usize> = outcomes.iter().filter(dropped).map(|(e, _)| *e).collect();
        let range = |entry: usize| {
            Some((index.get(entry).ok()??, entry)).filter(|(range, _)| !range.is_empty())
        };
        let mut ranges: Vec<(Range<u64>, usize)> = (0..index.len()).filter_map(range).collect();
        ranges.sort_unstable_by_key(|(range, entry)| (range.start, range.end, *entry));
        let mut shared = BTreeMap::new();
        overlapping(ranges, |first, next| {
            if first.0 != next.0 {
                shared.extend([first, next].map(|(range, entry)| (entry, range.clone())));
            }
        });
        let kept = shared.into_iter().filter(|(entry, _)| !dropped.contains(entry));
        let mut unproved = Vec::new();
        for (entry, range) in kept.take(super::MAX_OF_KIND as usize) {
            unproved.push(Fingerprint::of(object, vec![entry as u32], range)?);
        }
        self.lost.add(ObjectLosses { unproved, ..Default::default() });
        Ok(())
    }

    /// Decides on the damaged entries of a shard that begins at `base` of the object; `depth`
    /// entries lead to it.
    fn entries(
        &mut self,
        shard: &ShardLayout,
        index: &ShardIndex,
        object: &dyn Object,
        base: u64,
        findings: &[Finding],
        depth: usize,
    ) -> Result<Vec<(usize, Outcome)>, Error> {
        let mut by_entry: BTreeMap<u32, Vec<&Finding>> = BTreeMap::new();
        for finding in findings {
            if let Some(&entry) = finding.origin.as_ref().and_then(|o| o.path.get(depth)) {
                by_entry.entry(entry).or_default().push(finding);
            }
        }
        let mut outcomes = Vec::new();
        for (entry, found) in by_entry {
            let entry = entry as usize;
            let here = |f: &&&Finding| f.origin.as_ref().is_some_and(|o| o.path.len() == depth + 1);
            if let Some(finding) = found.iter().find(here) {
                let outcome = self.entry(shard, index, object, base, entry, finding)?;
                outcomes.push((entry, outcome));
                continue;
            }
            let (inner, place) = match (&shard.inner, index.get(entry)) {
                (Layout::Shard(inner), Ok(Some(range))) if inner.after.is_empty() => (inner, range),
                // What is encoded as a whole is not taken apart.
                _ => {
                    found.iter().for_each(|f| self.repairing.tell(Repair::of(RepairKind::Left, f)));
                    continue;
                }
            };
            let owned: Vec<Finding> = found.into_iter().cloned().collect();
            let start = base + place.start;
            let bytes = object.read(ReadRange::Bounded(start..base + place.end))?;
            if let Some(bytes) =
                self.inner_shard(inner, object, start, &bytes, &owned, depth + 1)?
            {
                outcomes.push((entry, Outcome::Replaced(bytes)));
            }
        }
        Ok(outcomes)
    }

    /// The bytes of an inner shard without its damaged entries, at the same length.
    fn inner_shard(
        &mut self,
        shard: &ShardLayout,
        object: &dyn Object,
        base: u64,
        bytes: &[u8],
        findings: &[Finding],
        depth: usize,
    ) -> Result<Option<Vec<u8>>, Error> {
        let at = 0..bytes.len() as u64;
        let mut context = Context::new();
        let places = |range: Range<u64>| range.start as usize..range.end as usize;
        let indexed = read_index(shard, &at, &mut context, |range| Ok(&bytes[places(range)]))?;
        let Indexed { mut index, range } = indexed.map_err(|e| self.damaged(e))?;
        let outcomes = self.entries(shard, &index, object, base, findings, depth)?;
        if outcomes.is_empty() {
            return Ok(None);
        }
        let mut new = bytes.to_vec();
        for (entry, outcome) in outcomes {
            match (outcome, index.get(entry)) {
                (Outcome::Replaced(inner), Ok(Some(at)))
                    if inner.len() as u64 == at.end - at.start =>
                {
                    new[places(at)].copy_from_slice(&inner);
                }
                _ => index.set_absent(entry),
            }
        }
        let encoded = shard.index.encode(&mut context, &index);
        let encoded = encoded.map_err(|source| {
            EngineError::encode(&self.stored.key, &self.stored.cell, source.into())
        })?;
        new[places(range)].copy_from_slice(&encoded);
        Ok(Some(new))
    }

    /// Sets the bytes of a damaged entry aside; or gives it bytes of its own, if its only problem
    /// is that it shares them.
    fn entry(
        &mut self,
        shard: &ShardLayout,
        index: &ShardIndex,
        object: &dyn Object,
        base: u64,
        entry: usize,
        finding: &Finding,
    ) -> Result<Outcome, Error> {
        let place = index.get(entry).ok().flatten();
        // An inner shard keeps its length, so it has no room for more bytes.
        let outermost = finding.origin.as_ref().is_some_and(|origin| origin.path.len() == 1);
        if let (FindingKind::Overlap, Some(place), Layout::Chunk(leaf), true) =
            (finding.kind, &place, &shard.inner, outermost)
        {
            let bytes = object.read(ReadRange::Bounded(base + place.start..base + place.end))?;
            let (source, at) = (Source::Decoded(&bytes), 0..bytes.len() as u64);
            let problem = decode(&mut Context::new(), source, &self.stored.key, &leaf.codec, at)?;
            if problem.is_none() {
                let mut repair = Repair::of(RepairKind::Separated, finding);
                repair.message.push_str("; both can be decoded, and each has its own bytes now");
                if !leaf.codec.has_checksum() {
                    repair
                        .message
                        .push_str(", but any bytes can: one has overwritten part of the other");
                    repair.unproved = 1;
                }
                self.repairing.tell(repair);
                return Ok(Outcome::Replaced(bytes.to_vec()));
            }
        }
        let mut repair = Repair::of(RepairKind::ChunkSetAside, finding);
        let path = finding.origin.as_ref().map_or(&[][..], |origin| &origin.path);
        repair.lost = self.chunks_below(path);
        if repair.lost > 0 {
            self.lost.entries.push(path.to_vec());
        }
        // If an entry reaches past the end, keep what exists.
        let (offset, len) = index.raw(entry).unwrap_or_default();
        let end = base.saturating_add(offset).saturating_add(len).min(self.len());
        let start = base.saturating_add(offset);
        if start < end && !self.dry_run() {
            repair.set_aside = Some(self.repairing.aside.keep(object, start..end, &repair)?);
        }
        self.repairing.tell(repair);
        Ok(Outcome::Dropped)
    }

    /// The shard with changed entries. All other bytes stay where they are.
    fn with_entries(
        &self,
        shard: &ShardLayout,
        old: &ShardIndex,
        index_range: Range<u64>,
        outcomes: Vec<(usize, Outcome)>,
    ) -> Result<Staged, Error> {
        let (object, len) = (&*self.edit.object, self.len());
        let kept = match shard.index.location() {
            IndexLocation::Start => index_range.end..len,
            IndexLocation::End => 0..index_range.start,
        };
        let new = NewObject {
            store: &*self.array.chunks.store,
            key: &self.stored.key,
            condition: self.edit.condition(),
            frame: &IndexedFrame { shard, key: &self.stored.key, cell: &self.stored.cell },
            any_order: false,
        };
        let laid_down = new.lay_down_as_is(|writer| {
            let mut end = kept.end - kept.start + shard.index.head();
            writer.append_from(object, kept)?;
            let mut index = old.clone();
            for (entry, outcome) in outcomes {
                match outcome {
                    Outcome::Dropped => index.set_absent(entry),
                    Outcome::Replaced(bytes) => {
                        let at = writer.append(&bytes)?;
                        end = at + bytes.len() as u64;
                        index.set(entry, at..end);
                    }
                }
            }
            Ok::<_, Error>((index, end))
        })?;
        Ok(laid_down.finish(self.repairing.engine)?.staged)
    }

    /// Cuts the shard off after an index that was found, and keeps what follows it.
    fn restore_index(
        &mut self,
        shard: &ShardLayout,
        at: u64,
        finding: &Finding,
    ) -> Result<bool, Error> {
        let (end, len) = (at + shard.index.len(), self.len());
        let object = std::sync::Arc::clone(&self.edit.object);
        let mut repair = Repair::of(RepairKind::IndexRestored, finding);
        repair.range = Some(at..end);
        let fingerprints = fingerprints(&self.array.chunks.layout, &*object, 0..end)?;
        repair.unproved = match &fingerprints {
            Some(found) => found.len() as u64,
            None => self.chunks_below(&[]),
        };
        repair.message = format!(
            "{}; the last valid index is an older one at bytes {at}..{end}, followed by {} bytes: \
             {} chunks were restored from it and may be old, and chunks first written after it \
             are lost",
            finding.message,
            len - end,
            repair.unproved
        );
        self.lost.add(ObjectLosses {
            all_unproved: fingerprints.is_none(),
            unproved: fingerprints.unwrap_or_default(),
            ..Default::default()
        });
        self.restored = true;
        if !self.dry_run() && end < len {
            repair.set_aside = Some(self.repairing.aside.keep(&*object, end..len, &repair)?);
        }
        self.repairing.tell(repair);
        if self.dry_run() {
            return Ok(false);
        }
        self.record()?;
        let options = CreateOptions { head: 0, condition: self.edit.condition() };
        let writer = self.array.chunks.store.create(&self.stored.key, options)?;
        writer.append_from(&*object, 0..end)?;
        self.publish(writer.finish(&[])?)
    }

    fn set_object_aside(&mut self, finding: &Finding) -> Result<bool, Error> {
        let mut repair = Repair::of(RepairKind::ObjectSetAside, finding);
        repair.lost = self.chunks_below(&[]);
        if repair.lost > 0 {
            self.lost.whole = true;
        }
        if !self.dry_run() {
            self.repairing.keep_whole(&self.edit, &mut repair)?;
            self.record()?;
            self.array.chunks.store.delete(&self.stored.key, &self.edit.condition())?;
        }
        self.repairing.tell(repair);
        Ok(false)
    }

    /// How many chunks inside the array a path of entries leads to.
    fn chunks_below(&self, path: &[u32]) -> u64 {
        let grid = &self.array.chunks;
        chunks_below(&grid.layout, path, &grid.bounds(&self.stored.cell))
    }

    /// Records what is lost, before it is.
    fn record(&mut self) -> Result<(), Error> {
        let lost = std::mem::take(&mut self.lost);
        let folder = self.array.location().path.as_ref();
        self.repairing.record(folder, Some(self.array), &self.stored.key, &lost)
    }

    fn publish(&self, staged: Staged) -> Result<bool, Error> {
        self.array.chunks.store.publish(vec![staged])?;
        Ok(true)
    }

    fn damaged(&self, none: NoIndex) -> Error {
        EngineError::shard(&self.stored.key, &self.stored.cell, none.source()).into()
    }
}
