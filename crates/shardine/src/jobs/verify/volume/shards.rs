//! A folder of shards: every one of them, and what is among them by mistake.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shardine_store::{Key, Object, ReadRange, StoreError};

use super::super::{Correction, Finding, FindingKind, Run, Severity, add};
use super::fault::Fault;
use super::fill::{Filling, Presence, ShardFill};
use super::folder::Folder;
use super::names::Names;
use super::survey::{Form, Survey};
use super::values::Look;
use crate::engine::in_order;
use crate::shard::uint64::Encoding;
use crate::{Engine, Error, Location};

/// How often a shard that changes is looked at again.
const ATTEMPTS: u64 = 8;

/// Findings of one shard that are kept until others have been told.
const PENDING: usize = 256;

/// Shards that are checked before their findings are told in order.
const BATCH: usize = 256;

/// Memory that is reckoned for the indexes of a shard on its way.
const IN_FLIGHT: u64 = 4 << 20;

/// Shards that are asked for one by one where a store cannot list.
const MOST_UNLISTED: u64 = 1 << 20;

/// Values, or indexes, that are stored in each way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Forms {
    pub looked: u64,
    pub raw: u64,
    pub gzip: u64,
    pub zlib: u64,
}

impl Forms {
    fn count(&mut self, form: Form, n: u64) {
        match form {
            Form::AsSaid => {}
            Form::Raw => self.raw += n,
            Form::Gzip => self.gzip += n,
            Form::Zlib => self.zlib += n,
        }
    }

    /// How all of them are stored, if all are stored in the other way than `info` says.
    fn all_other(&self) -> Option<Encoding> {
        match self.looked {
            0 => None,
            n if n == self.raw => Some(Encoding::Raw),
            n if n == self.gzip => Some(Encoding::Gzip),
            _ => None,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            looked: self.looked + other.looked,
            raw: self.raw + other.raw,
            gzip: self.gzip + other.gzip,
            zlib: self.zlib + other.zlib,
        }
    }
}

/// A shard that was looked at.
pub(crate) struct Checked {
    pub survey: Survey,
    pub values: Forms,
    pub indexes: Forms,
    gap_bytes: u64,
    decoded: u64,
}

/// Looks at a shard that is open.
pub(crate) fn check_open(
    engine: &Engine,
    folder: &Folder,
    (number, key): (u64, &Key),
    object: &dyn Object,
    decode: bool,
) -> Result<Checked, StoreError> {
    let len = match object.len() {
        Some(len) => len,
        None => {
            object.read(ReadRange::Bounded(0..0))?;
            object.len().ok_or_else(|| StoreError::Changed { key: key.clone() })?
        }
    };
    let sharding = &folder.shards.sharding;
    let read = |context: &mut _| Survey::read(sharding, number, object, len, context);
    let mut survey = engine.with_context(read)?;
    let threads = engine.threads();
    let affordable = engine.memory_in_flight() / folder.memory();
    let workers = usize::try_from(affordable).unwrap_or(threads).clamp(1, threads);
    let looked = Look { engine, folder, key, object, decode, workers }.values(&mut survey)?;
    object.check_unchanged()?;
    let mut values = Forms { looked: looked.looked, ..Forms::default() };
    survey.entries.iter().for_each(|surveyed| values.count(surveyed.form, 1));
    let mut indexes = Forms { looked: survey.index_count, ..Forms::default() };
    indexes.count(survey.index_form, survey.other_indexes);
    // What lies before values of an unknown kind may belong to them.
    let known = folder.is_mesh() || !folder.keeps_before();
    let gap_bytes = match &looked.fragments {
        Some(fragments) if known => survey.gap_bytes(fragments),
        _ => 0,
    };
    Ok(Checked { survey, values, indexes, gap_bytes, decoded: looked.decoded })
}

impl Checked {
    /// Findings of everything but how values are stored, by which the whole folder may be meant.
    pub fn findings(&self, folder: &Folder, number: u64, key: &Key) -> Vec<Finding> {
        let survey = &self.survey;
        let new = |kind, message| Finding::new(kind, Some(key.clone()), message).shard(&[number]);
        let mut findings = Vec::new();
        for fault in &survey.faults {
            let (kind, range, message) = fault.tell(survey.len);
            let finding = new(kind, message);
            findings.push(match range {
                Some(range) => finding.range(range),
                None => finding,
            });
        }
        for surveyed in &survey.entries {
            let Some(fault) = &surveyed.fault else { continue };
            let message = fault.tell(surveyed, &folder.shards.sharding, survey.len);
            let cell = folder.cell(surveyed.entry.key);
            let finding = new(fault.kind(), message).range(surveyed.range());
            findings.push(finding.chunk(cell.map(|[x, y, z]| vec![x, y, z, 0])));
        }
        if self.values.zlib + self.indexes.zlib > 0 {
            let message = format!(
                "{} of {} values and {} of {} indexes are zlib, not gzip: only the program that wrote them reads them",
                self.values.zlib, self.values.looked, self.indexes.zlib, self.indexes.looked
            );
            findings.push(new(FindingKind::Zlib, message));
        }
        let damaged = findings.iter().any(|finding| finding.severity == Severity::Damage)
            || self.values.raw + self.values.gzip + self.indexes.raw + self.indexes.gzip > 0;
        if survey.unsorted > 0 && !damaged {
            let message = format!(
                "in {} of {} minishards the keys, or their values, are not in order",
                survey.unsorted, survey.index_count
            );
            findings.push(new(FindingKind::UnsortedKeys, message));
        }
        if self.gap_bytes > 0 && !damaged {
            let share = self.gap_bytes as f64 / survey.len as f64 * 100.0;
            let message = format!(
                "{} of {} bytes ({share:.1} %) are gaps that no entry refers to",
                self.gap_bytes, survey.len
            );
            findings.push(new(FindingKind::Gap, message));
        }
        findings
    }

    /// Findings of values and indexes that are stored in the other way.
    pub fn other_forms(&self, number: u64, key: &Key) -> Option<Finding> {
        other_forms(self.values, self.indexes).map(|message| {
            Finding::new(FindingKind::DataEncoding, Some(key.clone()), message).shard(&[number])
        })
    }

    /// Which chunks are there: those that a reader looks for where they are.
    fn fill(&self, folder: &Folder, number: u64, presence: &Presence) -> ShardFill {
        let mut fill = ShardFill::new(number, self.survey.faults.is_empty());
        for surveyed in &self.survey.entries {
            let fault = surveyed.fault.as_deref();
            if matches!(fault, Some(Fault::Misplaced { .. } | Fault::Duplicate)) {
                continue;
            }
            if let Some(cell) = folder.cell(surveyed.entry.key) {
                presence.set(cell);
                fill.add(cell);
            }
        }
        fill
    }
}

fn other_forms(values: Forms, indexes: Forms) -> Option<String> {
    let say = |forms: Forms, what: &str| {
        [(forms.raw, "gzip", "raw"), (forms.gzip, "raw", "gzip")]
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, said, are)| {
                format!("`info` says {said}, but {count} of {} {what} are {are}", forms.looked)
            })
            .collect::<Vec<_>>()
    };
    let all = [say(values, "values"), say(indexes, "indexes")].concat();
    (!all.is_empty()).then(|| all.join("; "))
}

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
        filling.unknown |= !names.wrapped.is_empty() || !names.misnamed.is_empty();
        self.tell_forms(folder, values, indexes, others);
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
        Some(Names { shards: (0..count).filter_map(shard).collect(), ..Names::default() })
    }

    fn other_names(&self, names: &Names) {
        let tell = |kind, key: &Key, message: &str| {
            self.tell([Finding::new(kind, Some(key.clone()), message.to_owned())]);
        };
        for (_, key) in &names.wrapped {
            let message = "is a shard that was compressed as a file: no reader finds it";
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
        let mut take = |outcome: Option<Outcome>| {
            if let Some(mut outcome) = outcome {
                self.tell(outcome.findings.drain(..));
                outcomes.push(outcome);
            }
        };
        let store = &*folder.shards.store;
        if store.read_cost().local && batch.len() >= self.engine.threads() {
            let slots: Vec<Mutex<Option<Outcome>>> =
                batch.iter().map(|_| Mutex::default()).collect();
            let memory = folder.memory().saturating_add(IN_FLIGHT);
            let threads = self.engine.threads();
            let workers = usize::try_from(self.engine.memory_in_flight() / memory);
            let workers = workers.unwrap_or(threads).clamp(1, threads);
            self.engine.share(workers, batch.len(), &|i, _| {
                *slots[i].lock().unwrap_or_else(PoisonError::into_inner) = check(i);
            });
            for slot in slots {
                take(slot.into_inner().unwrap_or_else(PoisonError::into_inner));
            }
        } else {
            let piece = if self.options.decode { self.engine.max_merged_read() } else { 0 };
            let most = self.engine.at_once(store, IN_FLIGHT.saturating_add(piece));
            in_order(most, batch.len(), &check, &mut |_, outcome| {
                take(outcome);
                ControlFlow::Continue(())
            });
        }
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
        for attempt in 0..ATTEMPTS {
            match self.shard_attempt(folder, presence, (*number, key), *older) {
                Ok(outcome) => return Some(outcome),
                Err(StoreError::NotFound { .. }) => return None,
                Err(StoreError::Changed { .. }) => {
                    std::thread::sleep(Duration::from_millis(attempt * 5));
                }
                Err(error) => return Some(failed(FindingKind::Unreadable, error.to_string())),
            }
        }
        let message = format!("it kept changing, and was given up after {ATTEMPTS} attempts");
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
        let mut findings = checked.findings(folder, number, key);
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
