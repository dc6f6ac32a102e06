//! The result of checking a shard, and its findings.

use shardine_store::{Key, Object, ReadRange, StoreError};

use super::super::{Finding, FindingKind, Limit, Severity, Untold, gaps};
use super::fault::Fault;
use super::folder::Folder;
use super::survey::{Form, Survey};
use super::values::Look;
use crate::Engine;
use crate::shard::uint64::Encoding;

/// How many values, or indexes, are stored in each form.
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

    /// The form of all of them, if all differ from what `info` says.
    pub fn all_other(&self) -> Option<Encoding> {
        match self.looked {
            0 => None,
            n if n == self.raw => Some(Encoding::Raw),
            n if n == self.gzip => Some(Encoding::Gzip),
            _ => None,
        }
    }

    pub fn plus(self, other: Self) -> Self {
        Self {
            looked: self.looked + other.looked,
            raw: self.raw + other.raw,
            gzip: self.gzip + other.gzip,
            zlib: self.zlib + other.zlib,
        }
    }
}

/// A checked shard.
pub(crate) struct Checked {
    pub survey: Survey,
    pub values: Forms,
    pub indexes: Forms,
    pub gap_bytes: u64,
    pub decoded: u64,
}

/// What has to be done about a shard.
pub(crate) enum ToMend {
    Damaged,
    /// Its keys are not in order, as the message says; nothing else.
    Unsorted(String),
}

/// Checks an open shard.
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
    // The bytes before values of an unknown kind may belong to them.
    let known = folder.is_mesh() || !folder.keeps_before();
    let gap_bytes = match &looked.fragments {
        Some(fragments) if known => survey.gap_bytes(fragments),
        _ => 0,
    };
    Ok(Checked { survey, values, indexes, gap_bytes, decoded: looked.decoded })
}

impl Checked {
    /// All findings except for how values are stored, which may concern the whole folder.
    ///
    /// At most `max_of_kind` of each kind are returned; the others are counted.
    pub fn findings(
        &self,
        folder: &Folder,
        number: u64,
        key: &Key,
        max_of_kind: u64,
    ) -> (Vec<Finding>, Untold) {
        let survey = &self.survey;
        let mut limit = Limit::new(max_of_kind);
        let new = |kind, message| Finding::new(kind, Some(key.clone()), message).shard(&[number]);
        let mut findings = Vec::new();
        for fault in &survey.faults {
            if !limit.admits(fault.kind()) {
                continue;
            }
            let (kind, range, message) = fault.tell(survey.len);
            let finding = new(kind, message);
            findings.push(match range {
                Some(range) => finding.range(range),
                None => finding,
            });
        }
        for surveyed in &survey.entries {
            let Some(fault) = &surveyed.fault else { continue };
            if !limit.admits(fault.kind()) {
                continue;
            }
            let message = fault.tell(surveyed, &folder.shards.sharding, survey.len);
            let cell = folder.cell(surveyed.entry.key);
            let finding = new(fault.kind(), message).range(surveyed.range());
            findings.push(finding.chunk(cell.map(|[x, y, z]| vec![x, y, z, 0])));
        }
        if self.values.zlib + self.indexes.zlib > 0 {
            let message = format!(
                "{} of {} values and {} of {} indexes are zlib, not gzip: only the program that \
                 wrote them can read them",
                self.values.zlib, self.values.looked, self.indexes.zlib, self.indexes.looked
            );
            findings.push(new(FindingKind::Zlib, message));
        }
        let is_damaged = self.has_other_forms()
            || findings.iter().any(|finding| finding.severity == Severity::Damage);
        if let (false, Some(message)) = (is_damaged, self.unsorted()) {
            findings.push(new(FindingKind::UnsortedKeys, message));
        }
        if self.gap_bytes > 0 && !is_damaged {
            findings.push(new(FindingKind::Gap, gaps(self.gap_bytes, survey.len)));
        }
        (findings, limit.untold)
    }

    fn has_other_forms(&self) -> bool {
        self.values.raw + self.values.gzip + self.indexes.raw + self.indexes.gzip > 0
    }

    /// The message about keys that are not in order.
    fn unsorted(&self) -> Option<String> {
        let Survey { unsorted, index_count, .. } = &self.survey;
        (*unsorted > 0).then(|| {
            format!(
                "in {unsorted} of {index_count} minishards the keys or their values are out of \
                 order"
            )
        })
    }

    /// What `repair` does about the shard itself: keys of other shards are moved once all shards
    /// are sound. `forms` is whether values are re-encoded as `info` says.
    pub fn to_mend(&self, number: u64, forms: bool) -> Option<ToMend> {
        let is_damage = |kind: FindingKind| kind.severity() == Severity::Damage;
        let entries = || self.survey.entries.iter().filter_map(|s| s.fault.as_deref());
        let here = |fault: &Fault| match fault {
            Fault::Misplaced { place } => place.shard == number,
            fault => is_damage(fault.kind()),
        };
        let is_damaged = self.survey.faults.iter().any(|fault| is_damage(fault.kind()))
            || entries().any(here)
            || self.values.zlib + self.indexes.zlib > 0
            || (forms && self.has_other_forms());
        let is_whole = !is_damaged && !self.has_other_forms();
        let unsorted = self.unsorted();
        match unsorted.filter(|_| is_whole && !entries().any(|fault| is_damage(fault.kind()))) {
            Some(message) => Some(ToMend::Unsorted(message)),
            None => is_damaged.then_some(ToMend::Damaged),
        }
    }

    /// The finding about values and indexes that are not stored as `info` says.
    pub fn other_forms(&self, number: u64, key: &Key) -> Option<Finding> {
        other_forms(self.values, self.indexes).map(|message| {
            Finding::new(FindingKind::DataEncoding, Some(key.clone()), message).shard(&[number])
        })
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
