//! Repairs what an `info` describes: volumes, and folders of meshes, skeletons and annotations.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use shardine_codec::Context;
use shardine_store::{Condition, CreateOptions, Key, MAX_SMALL_OBJECT, ReadRange, StoreExt};

use super::agreement::Agreement;
use super::volume_shard::Surveys;
use super::{Repair, RepairKind, Repairing, ToRepair};
use crate::engine::tuning::MAX_DECOMPRESSED;
use crate::jobs::check::keyed::{Folder, Form, NamedShard, Names, last_part, unpack};
use crate::jobs::check::{
    Correction, Finding, FindingKind, InfoSet, Place, beside, scale_place, value_places,
};
use crate::jobs::losses::ObjectLosses;
use crate::precomputed::{INFO, unwrapped};
use crate::{Error, Location};

/// How often a folder is checked again after a repair.
const ROUNDS: usize = 5;

impl Repairing<'_> {
    /// Repairs a data set with these findings.
    pub(super) fn data_set(&mut self, found: ToRepair) -> Result<(), Error> {
        let mut corrected = BTreeSet::new();
        for finding in &found.left {
            if let (Some(correction), Some(info)) = (&finding.correction, &finding.object) {
                self.correct(info, correction, finding)?;
                corrected.insert(correction.pointer.clone());
            }
        }
        let Some(set) = InfoSet::read(self.engine, self.location)? else { return Ok(()) };
        let values: Vec<Vec<Folder>> = match &set {
            InfoSet::Folders(folders) => vec![folders.clone()],
            InfoSet::Volume(volume) => {
                let read = |below: Location| match InfoSet::read(self.engine, &below) {
                    Ok(Some(InfoSet::Folders(folders))) => Some(folders),
                    _ => None,
                };
                beside(volume).filter_map(read).collect()
            }
        };
        let mut places: Vec<Place<'_>> = values.iter().flat_map(|f| value_places(f)).collect();
        if let InfoSet::Volume(volume) = &set {
            let scales = volume.info().scales().iter().enumerate();
            let place = |(level, scale)| scale_place(volume, level, scale).ok().flatten();
            places.extend(scales.filter_map(place));
        }
        for place in places {
            // A dry run does not know what `info` would say by then.
            let forms = !(self.options.dry_run && corrected.contains(&place.folder.pointer));
            self.folder(&place, forms)?;
        }
        self.boxes(&set, &found.left)?;
        let left = match self.options.dry_run {
            true => found.left,
            false => self.look()?.left,
        };
        for finding in left {
            let object = finding.object.as_ref();
            if !(self.options.dry_run && object.is_some_and(|key| self.handled.contains(key))) {
                self.tell(Repair::of(RepairKind::Left, &finding));
            }
        }
        Ok(())
    }

    /// Corrects an `info`.
    fn correct(
        &mut self,
        info: &Key,
        correction: &Correction,
        finding: &Finding,
    ) -> Result<(), Error> {
        let store = Arc::clone(&self.location.store);
        let mut repair = Repair::of(RepairKind::InfoCorrected, finding);
        if !self.options.dry_run {
            let edit = store.edit(info)?;
            let bytes = edit.object.read(ReadRange::AtMost(MAX_SMALL_OBJECT))?;
            let Ok(mut document) = serde_json::from_slice::<Value>(&bytes) else { return Ok(()) };
            let Some(Value::Object(members)) = document.pointer_mut(&correction.pointer) else {
                return Ok(());
            };
            members.insert(correction.member.to_owned(), correction.value.into());
            let len = bytes.len() as u64;
            repair.set_aside = Some(self.aside.keep(&*edit.object, 0..len, &repair)?);
            let text = format!("{document:#}\n");
            store.put(info, text.as_bytes(), edit.condition())?;
        }
        self.tell(repair);
        Ok(())
    }

    /// Repairs a folder of shards; `forms` is whether values are re-encoded as `info` says.
    fn folder(&mut self, place: &Place<'_>, forms: bool) -> Result<(), Error> {
        let folder = &place.folder;
        for _ in 0..ROUNDS {
            let before = self.done;
            let names = self.names(place)?;
            let Surveys { damaged, misplaced, agreement } =
                self.survey(folder, &names.shards, forms)?;
            if let Some(message) = agreement.against_info() {
                self.leave(&folder.info, folder.shards.folder.as_ref(), &message);
                return Ok(());
            }
            for (number, key) in &names.wrapped {
                self.unwrap_shard(folder, *number, key)?;
            }
            for NamedShard { number, key, .. } in names.shards.iter().filter(|s| s.is_older) {
                self.join(folder, *number, key)?;
            }
            if !self.options.dry_run && self.done > before {
                // Newly readable shards are checked like the others.
                continue;
            }
            for (number, key) in damaged {
                self.context.check()?;
                self.left.clear();
                self.shard(folder, number, &key, forms)?;
            }
            for (number, key) in misplaced {
                self.context.check()?;
                self.move_keys(folder, Some(number), &key)?;
            }
            for key in &names.misnamed {
                self.move_keys(folder, None, key)?;
            }
            if self.options.dry_run || self.done == before {
                break;
            }
        }
        Ok(())
    }

    /// Reports that the chunks in a folder disagree with `info`, and are left alone.
    fn leave(&mut self, info: &Key, folder: Option<&Key>, message: &str) {
        let message = format!("in \"{}\" {message}", folder.map_or(".", |key| key.as_str()));
        self.tell(Repair::new(RepairKind::Left, info, message));
    }

    fn names(&self, place: &Place<'_>) -> Result<Names, Error> {
        let shards = &place.folder.shards;
        let listing = shards.store.list(shards.folder.as_ref())?;
        Ok(Names::new(&shards.sharding, listing, &place.known))
    }

    /// Decompresses a shard that was compressed as a file.
    fn unwrap_shard(&mut self, folder: &Folder, number: u64, key: &Key) -> Result<(), Error> {
        let store = &folder.shards.store;
        let message = "it was compressed as a file, and was replaced by the shard inside";
        let mut repair = Repair::new(RepairKind::Unwrapped, key, message);
        repair.shard = Some(vec![number]);
        let object = store.open(key, None)?;
        let len = object.len().unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        let unwrapped = key.as_str().ends_with(".gz") && len <= MAX_DECOMPRESSED && {
            let encoded = object.read(ReadRange::All)?;
            let gzip = |context: &mut Context| {
                unpack(Form::Gzip, context, &encoded, MAX_DECOMPRESSED, &mut bytes).is_ok()
            };
            self.engine.with_context(gzip)
        };
        if !unwrapped || (bytes.len() as u64) < folder.shards.sharding.table_len() {
            // Reported with everything that is left.
            return Ok(());
        }
        if !self.options.dry_run {
            repair.set_aside = Some(self.aside.keep(&*object, 0..len, &repair)?);
            store.put(&folder.shards.shard_key(number)?, &bytes, Condition::Absent)?;
            store.delete(key, &Condition::None)?;
        }
        self.tell(repair);
        Ok(())
    }

    /// Joins the two objects of a shard in the older form.
    fn join(&mut self, folder: &Folder, number: u64, key: &Key) -> Result<(), Error> {
        let store = &folder.shards.store;
        let mut repair =
            Repair::new(RepairKind::Joined, key, "its two objects were merged into one");
        repair.shard = Some(vec![number]);
        if !self.options.dry_run {
            let Some(object) = folder.shards.open_older(number)? else { return Ok(()) };
            let len = object
                .len()
                .map_or_else(|| object.read(ReadRange::All).map(|bytes| bytes.len() as u64), Ok)?;
            let options = CreateOptions { head: 0, condition: Condition::Absent };
            let writer = store.create(&folder.shards.shard_key(number)?, options)?;
            writer.append_from(&*object, 0..len)?;
            store.publish(vec![writer.finish(&[])?])?;
            for key in folder.shards.older_keys(number)? {
                store.delete(&key, &Condition::None)?;
            }
        }
        self.tell(repair);
        Ok(())
    }

    /// Sets aside damaged chunks that are single objects.
    fn boxes(&mut self, set: &InfoSet, found: &[Finding]) -> Result<(), Error> {
        let InfoSet::Volume(volume) = set else { return Ok(()) };
        let store = Arc::clone(&self.location.store);
        let damaged = |finding: &&Finding| {
            let kinds = [FindingKind::ChunkSize, FindingKind::Chunk, FindingKind::EmptyObject];
            finding.shard.is_none() && kinds.contains(&finding.kind)
        };
        let mut seen = BTreeSet::new();
        for scale in volume.info().scales().iter().filter(|scale| scale.sharding.is_none()) {
            let (Ok(folder), Ok(names)) = (volume.folder(scale), volume.box_names(scale)) else {
                continue;
            };
            let of_scale = |finding: &&Finding| {
                let parent = finding.object.as_ref().map(|key| key.as_str().rsplit_once('/'));
                let parent = parent.map(|parts| parts.map(|(parent, _)| parent));
                parent == Some(folder.as_ref().map(Key::as_str))
            };
            let damaged: Vec<&Finding> = found.iter().filter(damaged).filter(of_scale).collect();
            if damaged.is_empty() {
                continue;
            }
            let is_chunk = |key: &Key| names.object(last_part(key)).is_some();
            let listing = store.list(folder.as_ref())?;
            let chunks = listing.objects.iter().filter(|(key, _)| is_chunk(key)).count();
            let mut agreement = Agreement::of_objects(chunks as u64);
            damaged.iter().for_each(|finding| agreement.fail(finding.kind));
            if let Some(message) = agreement.against_info() {
                self.leave(&volume.location().key(INFO)?, folder.as_ref(), &message);
                continue;
            }
            for finding in damaged {
                self.context.check()?;
                let Some(key) = &finding.object else { continue };
                // Two scales may share a folder.
                if !seen.insert(key) {
                    continue;
                }
                let mut repair = Repair::of(RepairKind::ObjectSetAside, finding);
                repair.lost = 1;
                if !self.options.dry_run {
                    let edit = store.edit(key)?;
                    self.keep_whole(&edit, &mut repair)?;
                    let lost = ObjectLosses { whole: true, ..Default::default() };
                    let name = last_part(key);
                    let plain = volume.location().at(folder.clone());
                    let plain = plain.key(unwrapped(name).unwrap_or(name))?;
                    self.record(folder.as_ref(), None, &plain, &lost)?;
                    store.delete(key, &edit.condition())?;
                }
                self.tell(repair);
            }
        }
        Ok(())
    }
}
