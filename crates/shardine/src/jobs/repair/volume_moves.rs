//! Moves keys to the shards where readers look for them.

use std::collections::{BTreeMap, BTreeSet};

use shardine_codec::Context;
use shardine_store::{Key, ReadRange, StoreError};

use super::volume_shard::{Held, Kept};
use super::{RepairKind, Repairing};
use crate::engine::Publisher;
use crate::engine::tuning::WRITE_BATCH;
use crate::jobs::check::keyed::{Folder, Form, check_open};
use crate::keyed::{Change, Encoded, OldValue, change_shard};
use crate::{EngineError, Error};

impl Repairing<'_> {
    /// Moves keys of other shards to where readers look for them. An object that is not a shard of
    /// this sharding has only such keys.
    pub(super) fn move_keys(
        &mut self,
        folder: &Folder,
        number: Option<u64>,
        key: &Key,
    ) -> Result<(), Error> {
        // An object not named by a shard number has no keys of its own.
        let about = (number.unwrap_or(u64::MAX), key);
        let edit = match folder.shards.store.edit(key) {
            Ok(edit) => edit,
            Err(StoreError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let survey = match check_open(self.engine, folder, about, &*edit.object, false) {
            Ok(checked) => checked.survey,
            Err(_) => return Ok(()),
        };
        let mut by_shard: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (i, surveyed) in survey.entries.iter().enumerate() {
            if let Some(shard) = surveyed.place_in_another(about.0) {
                by_shard.entry(shard).or_default().push(i);
            }
        }
        // A shard that could not be repaired keeps everything.
        let whole = survey.faults.is_empty()
            && survey.entries.iter().all(|surveyed| surveyed.is_inside(survey.len));
        if number.is_some() && (by_shard.is_empty() || !(whole || self.options.dry_run)) {
            return Ok(());
        }
        let mut held = Held::new(folder, number, key, edit, survey);
        let mut gone = BTreeSet::new();
        for (shard, entries) in by_shard {
            let moved = self.move_to(&held, shard, &entries)?;
            gone.extend(moved);
        }
        if number.is_none() {
            let message = "it is not a shard of this sharding; its values were moved where they \
                           belong, unless something else was there";
            return self.set_shard_aside(&mut held, message.to_owned());
        }
        if gone.is_empty() || self.options.dry_run {
            return Ok(());
        }
        let entries = (0..held.survey.entries.len()).filter(|i| !gone.contains(i));
        let kept = entries.map(|i| Kept { form: Form::AsSaid, ..held.kept(i) }).collect();
        self.rewrite(&held, kept)
    }

    /// Moves values to another shard. Returns those no longer needed here.
    fn move_to(
        &mut self,
        held: &Held<'_>,
        shard: u64,
        entries: &[usize],
    ) -> Result<Vec<usize>, Error> {
        let shards = &held.folder.shards;
        shards.forget(shard);
        let (mut gone, mut moving, mut keys) = (Vec::new(), Vec::new(), BTreeSet::new());
        for &i in entries {
            let key = held.survey.entries[i].entry.key;
            let there = self.engine.with_context(|context| shards.find(key, context));
            match there {
                Ok(None) if keys.insert(key) => moving.push(i),
                // Another value takes precedence; this one is set aside.
                Ok(_) => {
                    self.set_value_aside(held, i, false)?;
                    gone.push(i);
                }
                // The other shard is damaged: that is reported with everything that is left.
                Err(_) => return Ok(gone),
            }
        }
        if !self.options.dry_run && !moving.is_empty() {
            let keys: Vec<u64> = moving.iter().map(|&i| held.survey.entries[i].entry.key).collect();
            let largest = moving.iter().map(|&i| held.kept(i).bytes()).max().unwrap_or(0);
            let object = &*held.edit.object;
            let encode = |_: &mut Context, n: usize, old: OldValue<'_>, out: &mut Vec<u8>| {
                if old.is_some() {
                    return Err(EngineError::Unfinished { object: held.key.clone() });
                }
                let Kept { before, range, .. } = held.kept(moving[n]);
                let bytes = before.end - before.start;
                if bytes > 0 {
                    out.extend_from_slice(&object.read(ReadRange::Bounded(before))?);
                }
                out.extend_from_slice(&object.read(ReadRange::Bounded(range))?);
                Ok(Encoded::Value { before: bytes as usize })
            };
            let change = Change {
                object: shard,
                keys: &keys,
                replaces_all: false,
                keep_before: held.folder.keeps_before(),
                value_bytes: largest,
                inline: true,
                encode: &encode,
                publisher: &Publisher::new(&*shards.store, WRITE_BATCH),
            };
            if change_shard(self.engine, shards, &change).is_err() {
                return Ok(gone);
            }
        }
        for &i in &moving {
            self.tell(held.about(RepairKind::Moved, i));
        }
        gone.extend(moving);
        Ok(gone)
    }
}
