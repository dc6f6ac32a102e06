//! A folder of shards: every one of them, and what is among them by mistake.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use shardine_store::{Key, ReadRange, StoreError};

use super::super::{Correction, Finding, FindingKind, Run, Severity, add};
use super::checked::{Forms, check_open};
use super::fill::{Filling, Presence, ShardFill};
use super::folder::Folder;
use super::names::Names;
use crate::engine::Crew;
use crate::engine::tuning::REREADS;
use crate::shard::uint64::Encoding;
use crate::{Error, Location};

/// Findings of one shard that are kept until others have been told.
const PENDING: usize = 256;

/// Shards that are checked before their findings are told in order.
const BATCH: usize = 256;

/// Memory that is reckoned for the indexes of a shard on its way.
const IN_FLIGHT: u64 = 4 << 20;

/// Shards that are asked for one by one where a store cannot list.
const MOST_UNLISTED: u64 = 1 << 20;

/// What came of one shard.
struct Outcome {
    findings: Vec<Finding>,
    other: Option<Finding>,
    values: Forms,
    indexes: Forms,
    fill: Option<ShardFill>,
}

impl Run<'_> {
    /// Checks a folder of shards. `known` are names in it that are something else.
    pub(super) fn shards(&self, folder: &Folder, known: &dyn Fn(&Key) -> bool) -> Filling {
        let shards = &folder.shards;
        let mut filling = Filling::of(folder);
        let path = shards.folder.as_ref();
        let location = Location::root(Arc::clone(&shards.store)).at(path.cloned());
        let listed = self.leftovers(&location, path).and_then(|()| Ok(shards.store.list(path)?));
        let names = match listed {
            Ok(listing) => Names::new(&shards.sharding, listing, known),
            Err(Error::Store(StoreError::Unsupported { .. })) => match self.possible(folder) {
                Some(names) => names,
                None => return filling,
            },
            Err(error) => {
                self.unreadable(path, &error);
                filling.unknown = true;
                return filling;
            }
        };
        self.other_names(&names);
        let (mut values, mut indexes) = (Forms::default(), Forms::default());
        let mut others = Vec::new();
        for batch in names.shards.chunks(BATCH) {
            for outcome in self.shard_batch(folder, &filling.presence, batch) {
                values = values.plus(outcome.values);
                indexes = indexes.plus(outcome.indexes);
                others.extend(outcome.other);
                match outcome.fill {
                    Some(fill) => filling.add(fill),
                    None => filling.unknown = true,
                }
            }
        }
        filling.unknown |= !names.wrapped.is_empty()
            || !names.wrapped_too.is_empty()
            || !names.misnamed.is_empty();
        self.tell_forms(folder, values, indexes, others);
        if names.has_record {
            self.keyed_losses(folder);
        }
        filling
    }

    /// The shards that keys can be in, for a store that cannot list them.
    fn possible(&self, folder: &Folder) -> Option<Names> {
        self.unlisted.store(true, Ordering::Relaxed);
        let (sharding, path) = (&folder.shards.sharding, folder.shards.folder.as_ref());
        let count = 1u64.checked_shl(sharding.shard_bits).unwrap_or(u64::MAX);
        if count > MOST_UNLISTED {
            let message = format!("there may be {count} shards, and the store cannot list them");
            self.tell([Finding::new(FindingKind::NotChecked, path.cloned(), message)]);
            return None;
        }
        let shard = |number| Some((number, folder.shards.shard_key(number).ok()?, false));
        Some(Names {
            shards: (0..count).filter_map(shard).collect(),
            has_record: true,
            ..Names::default()
        })
    }

    fn other_names(&self, names: &Names) {
        let tell = |kind, key: &Key, message: &str| {
            self.tell([Finding::new(kind, Some(key.clone()), message.to_owned())]);
        };
        for (_, key) in &names.wrapped {
            let message = "is a shard that was compressed as a file: no reader finds it";
            tell(FindingKind::WrappedShard, key, message);
        }
        for (_, key) in &names.wrapped_too {
            let message = "is a shard that was compressed as a file, and may be newer than the one that readers find";
            tell(FindingKind::WrappedShard, key, message);
        }
        for key in &names.misnamed {
            let message =
                "is called like a shard, but is none of this sharding: no reader opens it";
            tell(FindingKind::MisnamedShard, key, message);
        }
        for key in &names.blocked {
            tell(FindingKind::BlockedKey, key, "is a folder where a shard belongs");
        }
        for key in &names.strays {
            tell(FindingKind::StrayObject, key, "is no part of what is stored here");
        }
    }

    /// Tells how values are stored: once for all, if all are stored otherwise than `info` says.
    fn tell_forms(&self, folder: &Folder, values: Forms, indexes: Forms, mut others: Vec<Finding>) {
        let about = [("data_encoding", values), ("minishard_index_encoding", indexes)];
        let all: Vec<_> = about.iter().filter_map(|(m, f)| Some((*m, f.all_other()?))).collect();
        let partly = |forms: Forms| forms.all_other().is_none() && forms.raw + forms.gzip > 0;
        if !all.is_empty() && !partly(values) && !partly(indexes) {
            others.clear();
            for (member, encoding) in all {
                let count = if member == "data_encoding" { values.looked } else { indexes.looked };
                let said = match encoding {
                    Encoding::Raw => Encoding::Gzip,
                    Encoding::Gzip => Encoding::Raw,
                };
                let message = format!(
                    "\"{}/{member}\" is {}, but all {count} that were looked at in \"{}\" are {}",
                    folder.pointer.trim_start_matches('/'),
                    said.name(),
                    folder.shards.folder.as_ref().map_or(".", |key| key.as_str()),
                    encoding.name()
                );
                let info = Some(folder.info.clone());
                let mut finding = Finding::new(FindingKind::DataEncoding, info, message);
                let pointer = folder.pointer.clone();
                finding.correction = Some(Correction { pointer, member, value: encoding.name() });
                others.push(finding);
            }
        }
        self.tell(others);
    }

    /// Checks some shards, and tells what was found in their order.
    fn shard_batch(
        &self,
        folder: &Folder,
        presence: &Presence,
        batch: &[(u64, Key, bool)],
    ) -> Vec<Outcome> {
        add(&self.counters.found, batch.len() as u64);
        let check = |i: usize| {
            let outcome = self.shard(folder, presence, &batch[i]);
            match &outcome {
                Some(_) => add(&self.counters.objects, 1),
                None => _ = self.counters.found.fetch_sub(1, Ordering::Relaxed),
            }
            self.progress();
            outcome
        };
        let mut outcomes = Vec::new();
        let store = &*folder.shards.store;
        let crew = if store.read_cost().local && batch.len() >= self.engine.threads() {
            Crew::Workers(self.engine.workers_within(folder.memory().saturating_add(IN_FLIGHT)))
        } else {
            let piece = if self.options.decode { self.engine.max_merged_read() } else { 0 };
            Crew::Waiting(self.engine.at_once(store, IN_FLIGHT.saturating_add(piece)))
        };
        self.engine.batch_in_order(crew, batch.len(), &|i, _| check(i), &mut |_, outcome| {
            if let Some(mut outcome) = outcome {
                self.tell(outcome.findings.drain(..));
                outcomes.push(outcome);
            }
        });
        outcomes
    }

    /// Checks a shard; `None` if it is not there.
    fn shard(
        &self,
        folder: &Folder,
        presence: &Presence,
        (number, key, older): &(u64, Key, bool),
    ) -> Option<Outcome> {
        let failed = |kind, message: String| Outcome {
            findings: vec![Finding::new(kind, Some(key.clone()), message).shard(&[*number])],
            other: None,
            values: Forms::default(),
            indexes: Forms::default(),
            fill: None,
        };
        for attempt in 0..REREADS as u64 {
            match self.shard_attempt(folder, presence, (*number, key), *older) {
                Ok(outcome) => return Some(outcome),
                Err(StoreError::NotFound { .. }) => return None,
                Err(StoreError::Changed { .. }) => {
                    std::thread::sleep(Duration::from_millis(attempt * 5));
                }
                Err(error) => return Some(failed(FindingKind::Unreadable, error.to_string())),
            }
        }
        let message = format!("it kept changing, and was given up after {REREADS} attempts");
        Some(failed(FindingKind::NotChecked, message))
    }

    fn shard_attempt(
        &self,
        folder: &Folder,
        presence: &Presence,
        (number, key): (u64, &Key),
        older: bool,
    ) -> Result<Outcome, StoreError> {
        let shards = &folder.shards;
        let open = || {
            let object = match older {
                true => shards.open_older(number)?,
                false => Some(shards.store.open(key, None)?),
            };
            let missing = || StoreError::NotFound { key: key.clone(), store: shards.store.name() };
            object.ok_or_else(missing)
        };
        let object = open()?;
        let about = (number, key);
        let checked = check_open(self.engine, folder, about, &*object, self.options.decode)?;
        let most = self.options.max_of_kind;
        let (mut findings, untold) = checked.findings(folder, number, key, most);
        let other = checked.other_forms(number, key);
        // What was read is one version, but damage counts only in the version that is there now.
        if other.is_some() || findings.iter().any(|f| f.severity == Severity::Damage) {
            let now = open()?;
            if now.version().is_none() {
                now.read(ReadRange::Bounded(0..0))?;
            }
            if now.version() != object.version() {
                return Err(StoreError::Changed { key: key.clone() });
            }
        }
        if older {
            let message = "a shard in its older form, of two objects: most readers do not know it";
            let finding =
                Finding::new(FindingKind::OlderForm, Some(key.clone()), message.to_owned());
            findings.push(finding.shard(&[number]));
        }
        if findings.len() > PENDING {
            self.tell(findings.drain(..));
        }
        self.count(&untold);
        let fill = checked.fill(folder, number, presence);
        let survey = &checked.survey;
        add(&self.counters.bytes, survey.len);
        add(&self.counters.chunks, survey.entries.len() as u64);
        add(&self.counters.chunks_decoded, checked.decoded);
        add(&self.counters.gap_bytes, checked.gap_bytes);
        let (values, indexes) = (checked.values, checked.indexes);
        Ok(Outcome { findings, other, values, indexes, fill: Some(fill) })
    }
}
