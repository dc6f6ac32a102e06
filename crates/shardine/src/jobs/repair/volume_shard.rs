//! Repairs one shard of values by key: rewrites it without what is damaged, which is set aside.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use shardine_codec::Context;
use shardine_store::{Edit, Key, Object, ReadRange, StoreError};

use super::agreement::Agreement;
use super::{Repair, RepairKind, Repairing};
use crate::Error;
use crate::engine::tuning::{EXPANDS, MAX_DECOMPRESSED};
use crate::engine::{Batch, NewObject, Slots, Uint64Frame};
use crate::jobs::check::keyed::{
    Checked, Fault, Folder, Form, NamedShard, Payload, ShardFault, Survey, Surveyed, ToMend,
    check_open, codec, is_readable, unpack,
};
use crate::jobs::check::{BATCH, Run, settled};
use crate::jobs::losses::{ObjectLosses, cells_of};
use crate::keyed::bytes_before;
use crate::shard::uint64::Encoding;

/// A value in the new shard.
pub(super) struct Kept {
    pub minishard: u64,
    pub key: u64,
    /// The bytes that belong to it without being part of it.
    pub before: Range<u64>,
    pub range: Range<u64>,
    pub form: Form,
}

/// A shard under repair, which nobody else changes meanwhile.
pub(super) struct Held<'a> {
    pub folder: &'a Folder,
    pub number: Option<u64>,
    pub key: &'a Key,
    pub edit: Edit,
    pub survey: Survey,
    /// The unreferenced bytes before each entry's value, where those are kept.
    pub before: Vec<Range<u64>>,
    /// What is lost of it.
    pub lost: ObjectLosses,
}

/// What has to be done about the shards of a folder.
#[derive(Default)]
pub(super) struct Surveys {
    pub damaged: Vec<(u64, Key)>,
    /// Those with keys that belong in other shards.
    pub misplaced: Vec<(u64, Key)>,
    pub agreement: Agreement,
}

impl Repairing<'_> {
    /// Surveys the shards of a folder: what has to be done about them, and how well their chunks
    /// match `info`. Those in the older form are joined first.
    pub(super) fn survey(
        &self,
        folder: &Folder,
        shards: &[NamedShard],
        forms: bool,
    ) -> Result<Surveys, Error> {
        let (engine, scope) = (self.engine, self.scope(0, true));
        let look = |NamedShard { number, key, is_older }: &NamedShard| {
            let open = || folder.shards.store.open(key, None);
            let look = &mut |object: &Arc<dyn Object>| {
                let checked = check_open(engine, folder, (*number, key), &**object, scope.decode)?;
                let to_mend = checked.to_mend(*number, forms).is_some();
                let survey = &checked.survey;
                let strays = survey.entries.iter().any(|of| of.place_in_another(*number).is_some());
                Ok(((to_mend, strays, Agreement::of(survey)), false))
            };
            match is_older {
                true => None,
                false => settled(key, &open, look).seen(),
            }
        };
        let mut found = Surveys::default();
        let tell = &mut |_| {};
        let run = Run::new(self.context, None, scope, tell);
        for batch in shards.chunks(BATCH) {
            let crew = folder.crew(engine, batch.len(), scope.decode);
            let look = |shard: &NamedShard, _, _: &mut Context| look(shard);
            run.batch(crew, batch, |shard| &shard.key, &look, &mut |shard, seen| {
                let (to_mend, strays, agreement) = seen;
                found.damaged.extend(to_mend.then_some((shard.number, shard.key.clone())));
                found.misplaced.extend(strays.then_some((shard.number, shard.key.clone())));
                found.agreement.add(agreement);
            })?;
        }
        Ok(found)
    }

    /// Repairs a shard, as far as its own keys are concerned.
    pub(super) fn shard(
        &mut self,
        folder: &Folder,
        number: u64,
        key: &Key,
        forms: bool,
    ) -> Result<(), Error> {
        let (store, decode) = (&folder.shards.store, self.options.decode);
        let edit = match store.edit(key) {
            Ok(edit) => edit,
            Err(StoreError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let look =
            |object: &dyn Object| check_open(self.engine, folder, (number, key), object, decode);
        let checked = match look(&*edit.object) {
            Ok(checked) => checked,
            Err(StoreError::Changed { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let Some(to_mend) = checked.to_mend(number, forms) else { return Ok(()) };
        let recoded = self.forms(&checked, number, key, forms);
        let survey = checked.survey;
        if survey.faults.iter().any(ShardFault::is_unsure) {
            return Ok(());
        }
        let mut held = Held::new(folder, Some(number), key, edit, survey);
        if let Some(fault) = held.survey.faults.iter().find(|fault| fault.is_whole()) {
            let message = fault.tell(held.survey.len).2;
            return self.set_shard_aside(&mut held, message);
        }
        if !held.survey.faults.is_empty() {
            self.set_indexes_aside(&mut held)?;
        }
        let kept = self.outcomes(&mut held, forms)?;
        if let ToMend::Unsorted(message) = to_mend {
            self.tell(held.repair(RepairKind::Reordered, message));
        }
        recoded.into_iter().for_each(|repair| self.tell(repair));
        if self.options.dry_run {
            return Ok(());
        }
        self.record_lost(&held)?;
        self.rewrite(&held, kept)
    }

    /// Records what is lost of a shard, before it is.
    fn record_lost(&mut self, held: &Held<'_>) -> Result<(), Error> {
        self.record(held.folder.shards.folder.as_ref(), None, held.key, &held.lost)
    }

    /// The repair to report for values that are re-encoded.
    fn forms(&self, checked: &Checked, number: u64, key: &Key, forms: bool) -> Option<Repair> {
        let other = checked.other_forms(number, key).filter(|_| forms);
        let zlib = checked.values.zlib + checked.indexes.zlib > 0;
        let message = match other {
            Some(finding) => finding.message,
            None if zlib => "zlib was replaced by gzip".to_owned(),
            None => return None,
        };
        let mut repair = Repair::new(RepairKind::Recoded, key, message);
        repair.shard = Some(vec![number]);
        Some(repair)
    }

    /// The values that stay; the others are set aside.
    fn outcomes(&mut self, held: &mut Held<'_>, forms: bool) -> Result<Vec<Kept>, Error> {
        let mut kept = Vec::new();
        let mut lost = Vec::new();
        let survey = &held.survey;
        let taken: BTreeSet<(u64, u64)> = survey
            .entries
            .iter()
            .filter(|surveyed| !matches!(surveyed.fault.as_deref(), Some(Fault::Misplaced { .. })))
            .map(|surveyed| (surveyed.minishard, surveyed.entry.key))
            .collect();
        for (i, surveyed) in survey.entries.iter().enumerate() {
            let mut keep = held.kept(i);
            if !forms && surveyed.form != Form::Zlib {
                keep.form = Form::AsSaid;
            }
            let stays = match surveyed.fault.as_deref() {
                None
                | Some(Fault::OutsideArray | Fault::TooLarge { .. } | Fault::Shared { .. }) => true,
                Some(Fault::Misplaced { place }) if Some(place.shard) != held.number => true,
                Some(Fault::Misplaced { place }) => {
                    keep.minishard = place.minishard;
                    let free = !taken.contains(&(place.minishard, surveyed.entry.key));
                    if free {
                        self.tell(held.about(RepairKind::Moved, i));
                    }
                    free
                }
                Some(Fault::Overlap { .. }) => {
                    let range = surveyed.range();
                    let bytes = held.edit.object.read(ReadRange::Bounded(range))?;
                    let (engine, folder, key) = (self.engine, held.folder, held.key);
                    let sound =
                        is_readable(engine, folder, key, &*held.edit.object, surveyed, &bytes);
                    if sound {
                        self.tell(held.about(RepairKind::Separated, i));
                    }
                    sound
                }
                Some(_) => false,
            };
            if stays {
                kept.push(keep);
            } else {
                let is_lost = held.is_lost(i);
                lost.extend(is_lost.then_some(surveyed.entry.key));
                self.set_value_aside(held, i, is_lost)?;
            }
        }
        held.lost.add(ObjectLosses { keys: lost, ..Default::default() });
        Ok(kept)
    }

    pub(super) fn set_value_aside(
        &mut self,
        held: &Held<'_>,
        i: usize,
        is_lost: bool,
    ) -> Result<(), Error> {
        let mut repair = held.about(RepairKind::ChunkSetAside, i);
        repair.lost = u64::from(is_lost);
        let Kept { before, range, .. } = held.kept(i);
        let start = if before.is_empty() { range.start } else { before.start };
        // If it reaches past the end, keep what exists.
        let range = start..range.end.min(held.survey.len);
        if !range.is_empty() && !self.options.dry_run {
            repair.set_aside = Some(self.aside.keep(&*held.edit.object, range, &repair)?);
        }
        self.tell(repair);
        Ok(())
    }

    /// Keeps the whole shard, since it is unknown which parts of it the unreadable indexes referred
    /// to.
    fn set_indexes_aside(&mut self, held: &mut Held<'_>) -> Result<(), Error> {
        let mut name = None;
        let mut lost = Vec::new();
        for fault in &held.survey.faults {
            let (_, range, message) = fault.tell(held.survey.len);
            let mut repair = held.repair(RepairKind::IndexSetAside, message);
            repair.range = range;
            if let (Some(shard), Some(minishard)) = (held.number, fault.minishard()) {
                repair.lost = room(held.folder, shard, Some(minishard));
                lost.push(minishard);
            }
            if !self.options.dry_run && name.is_none() {
                let all = 0..held.survey.len;
                name = Some(self.aside.keep(&*held.edit.object, all, &repair)?);
            }
            repair.set_aside.clone_from(&name);
            self.tell(repair);
        }
        held.lost.add(ObjectLosses { minishards: lost, ..Default::default() });
        Ok(())
    }

    pub(super) fn set_shard_aside(
        &mut self,
        held: &mut Held<'_>,
        message: String,
    ) -> Result<(), Error> {
        let mut repair = held.repair(RepairKind::ObjectSetAside, message);
        // Readers never saw anything of an object that is not one of its shards.
        if let Some(number) = held.number {
            repair.lost = room(held.folder, number, None);
            held.lost.whole = repair.lost > 0;
        }
        if !self.options.dry_run {
            self.keep_whole(&held.edit, &mut repair)?;
            self.record_lost(held)?;
            held.folder.shards.store.delete(held.key, &held.edit.condition())?;
            if let Some(number) = held.number {
                held.folder.shards.forget(number);
            }
        }
        self.tell(repair);
        Ok(())
    }

    /// Rewrites a shard with these values, atomically; without any it is removed.
    pub(super) fn rewrite(&self, held: &Held<'_>, mut kept: Vec<Kept>) -> Result<(), Error> {
        let (shards, key, object) = (&held.folder.shards, held.key, &held.edit.object);
        // Stable: of several values of a key the first stays.
        kept.sort_by_key(|kept| (kept.minishard, kept.key));
        kept.dedup_by_key(|kept| (kept.minishard, kept.key));
        let condition = held.edit.condition();
        if kept.is_empty() {
            shards.store.delete(key, &condition)?;
            held.number.into_iter().for_each(|number| shards.forget(number));
            return Ok(());
        }
        let values: Vec<(u64, u64)> = kept.iter().map(|kept| (kept.minishard, kept.key)).collect();
        let frame = Uint64Frame { sharding: &shards.sharding, key, values: &values };
        let store = &*shards.store;
        let new = NewObject { store, key, condition, frame: &frame, any_order: false };
        let largest = kept.iter().filter(|kept| kept.form != Form::AsSaid).map(Kept::bytes).max();
        let slots = Slots {
            is_made: &|kept: &Kept| kept.form != Form::AsSaid,
            ..Slots::made(&kept, largest.unwrap_or(0).saturating_mul(EXPANDS))
        };
        let laid_down = new.lay_down(self.engine, slots, &|context, taken| {
            let mut batch = Batch::default();
            for (entry, kept) in (taken.first..).zip(taken.slots) {
                if !kept.before.is_empty() {
                    batch.push_moved(None, object, kept.before.clone());
                }
                match held.recoded(context, kept)? {
                    None => batch.push_moved(Some(entry), object, kept.range.clone()),
                    Some(bytes) => batch.push_bytes(Some(entry), &bytes),
                }
            }
            Ok::<_, Error>(batch)
        })?;
        shards.store.publish(vec![laid_down.finish(self.engine)?.staged])?;
        held.number.into_iter().for_each(|number| shards.forget(number));
        Ok(())
    }
}

/// The capacity of a shard, or of a minishard of it, in chunks; one for values whose keys are
/// unknown.
fn room(folder: &Folder, shard: u64, minishard: Option<u64>) -> u64 {
    cells_of(folder, shard, minishard).map_or(1, |keys| keys.len() as u64)
}

impl Kept {
    pub fn bytes(&self) -> u64 {
        (self.before.end - self.before.start).saturating_add(self.range.end - self.range.start)
    }
}

impl<'a> Held<'a> {
    pub fn new(
        folder: &'a Folder,
        number: Option<u64>,
        key: &'a Key,
        edit: Edit,
        survey: Survey,
    ) -> Self {
        let before = before_values(folder, &survey);
        Self { folder, number, key, edit, survey, before, lost: ObjectLosses::default() }
    }

    /// Whether readers miss a value that is set aside.
    fn is_lost(&self, i: usize) -> bool {
        let surveyed = &self.survey.entries[i];
        let unseen = matches!(
            surveyed.fault.as_deref(),
            Some(Fault::Duplicate | Fault::Misplaced { .. } | Fault::OutsideArray)
        );
        let outside = matches!(self.folder.payload, Payload::Chunks(_))
            && self.folder.cell(surveyed.entry.key).is_none();
        !unseen && !outside
    }

    pub fn kept(&self, i: usize) -> Kept {
        let surveyed: &Surveyed = &self.survey.entries[i];
        Kept {
            minishard: surveyed.minishard,
            key: surveyed.entry.key,
            before: self.before.get(i).cloned().unwrap_or(0..0),
            range: surveyed.range(),
            form: surveyed.form,
        }
    }

    pub fn repair(&self, kind: RepairKind, message: String) -> Repair {
        let mut repair = Repair::new(kind, self.key, message);
        repair.shard = self.number.map(|number| vec![number]);
        repair
    }

    /// A repair of an entry.
    pub fn about(&self, kind: RepairKind, i: usize) -> Repair {
        let surveyed = &self.survey.entries[i];
        let sharding = &self.folder.shards.sharding;
        let message = match surveyed.fault.as_deref() {
            Some(fault) => fault.tell(surveyed, sharding, self.survey.len),
            None => format!("key {}", surveyed.entry.key),
        };
        let mut repair = self.repair(kind, message);
        repair.range = Some(surveyed.range());
        repair.chunk = self.folder.cell(surveyed.entry.key).map(|[x, y, z]| vec![x, y, z, 0]);
        repair
    }

    /// A value re-encoded as `info` says; `None` if it is stored that way already.
    fn recoded(&self, context: &mut Context, kept: &Kept) -> Result<Option<Vec<u8>>, Error> {
        if kept.form == Form::AsSaid {
            return Ok(None);
        }
        let encoded = self.edit.object.read(ReadRange::Bounded(kept.range.clone()))?;
        let mut encode = || {
            let mut value = Vec::new();
            unpack(kept.form, context, &encoded, MAX_DECOMPRESSED, &mut value)?;
            if self.folder.data_encoding() == Encoding::Raw {
                return Ok(value);
            }
            let mut compressed = Vec::new();
            codec("gzip")?.encode(context, &value, &mut compressed)?;
            Ok(compressed)
        };
        let failed = |error: shardine_codec::CodecError| self.damaged(error.to_string());
        encode().map(Some).map_err(failed)
    }

    fn damaged(&self, reason: String) -> Error {
        StoreError::Damaged { key: self.key.clone(), reason }.into()
    }
}

/// The unreferenced bytes before each entry's value, where those stay with it.
fn before_values(folder: &Folder, survey: &Survey) -> Vec<Range<u64>> {
    if !folder.keeps_before() {
        return Vec::new();
    }
    let inside = |surveyed: &Surveyed| match surveyed.is_inside(survey.len) {
        true => surveyed.range(),
        false => 0..0,
    };
    let values: Vec<Range<u64>> = survey.entries.iter().map(inside).collect();
    bytes_before(&values, &survey.indexes, survey.table_len)
}
