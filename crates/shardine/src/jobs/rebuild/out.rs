//! Makes a data set at another location: its arrays from those of the source, then whatever else
//! lies in the source's folder, and its documents last.
//!
//! Several processes may share the work, each with a part of the objects. A part needs nothing but
//! the source and the plan, so parts may run in any order and any number of times. Each leaves a
//! report; the process that finds all reports finishes the job.

use std::sync::{Mutex, PoisonError};

use shardine_codec::ElementSize;
use shardine_store::{Condition, FolderPart, Key, StoreExt};

use serde_json::Value;

use super::tasks::{SourceRef, TargetRef};
use super::transfer::{Counts, Sides, Transfer, TransferOptions};
use super::{AxisMap, RepackCheck, RepackError, is_stale};
use crate::jobs::copy::clear::clear;
use crate::jobs::frame::place::check_apart;
use crate::jobs::frame::{
    Beginning, JobContext, JobError, JobKind, JobProgress, Marker, Part, PartEnd, Start,
    carry_over, remove_leftovers_below, source_state, stable_hash,
};
use crate::jobs::import::FileOfElements;
use crate::jobs::pyramid::{LevelCounts, LowerLevels};
use crate::jobs::repack_volume::KeyFolderValues;
use crate::jobs::whole::check_whole;
use crate::shard::WriteOrder;
use crate::{Array, Error, Location};

/// How a data set is made at another location.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::jobs) struct OutOptions {
    pub overwrite: bool,
    pub restart: bool,
    pub take_over: bool,
    pub part: Option<Part>,
    pub check: Option<RepackCheck>,
    pub order: WriteOrder,
    pub store_empty: bool,
    pub stage: Stage,
}

/// The stage of a job to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::jobs) enum Stage {
    /// All the work, or a part of it.
    #[default]
    All,
    /// Mark the target for tasks that are run one by one.
    Begin,
    /// What comes after all tasks.
    Finish,
}

/// The part that tasks run one by one count as.
const TASKS: Part = Part::Of { index: 1, count: 1 };

/// A document of the new data set.
#[derive(Debug, Clone)]
pub(in crate::jobs) struct Document {
    pub key: Key,
    pub bytes: Vec<u8>,
}

/// What happens to something in a source's folder, by its path below it and whether it is a folder.
pub(in crate::jobs) type Others<'a> = Box<dyn Fn(&str, bool) -> FolderPart + 'a>;

/// The work of one step.
#[expect(clippy::large_enum_variant, reason = "there is one for each array")]
pub(in crate::jobs) enum Work {
    /// Make an array from another one.
    Array { old: Array, axes: AxisMap, new: Array },
    /// Make a folder of values by key from another one.
    Keys { from: KeyFolderValues, to: KeyFolderValues },
    /// Fill an array from a file.
    File { from: FileOfElements, new: Array },
    /// Make the lower levels of an image whose finest level an earlier step has made. `state` is
    /// that of the file which the finest is made from, if it is not an array.
    Levels { levels: LowerLevels, state: Option<u64> },
}

/// A part of the new data set.
pub(in crate::jobs) struct Step {
    /// Its path below the target.
    pub name: String,
    /// The folder it is made from.
    pub folder: Location,
    pub work: Work,
    /// The two arrays, for another process.
    pub source: SourceRef,
    pub target: TargetRef,
    /// Written in this order when everything they describe exists; the root's documents come last,
    /// with the others.
    pub documents: Vec<Document>,
}

/// Everything that is made at a target.
pub(in crate::jobs) struct OutPlan<'a> {
    pub kind: &'static JobKind,
    /// The name of the source in the marker, if it is not a data set.
    pub source_name: Option<String>,
    /// What is requested: equal requests have equal results.
    pub request: Value,
    pub steps: Vec<Step>,
    /// Documents written after all steps, in this order.
    pub documents: Vec<Document>,
    /// What happens to the contents of the source's folder; `None` if nothing is carried over.
    pub others: Option<Others<'a>>,
    /// Whether all of it must be carried over, so that a source that cannot be listed is refused.
    pub others_required: bool,
    /// A last check, before a root document declares the data set.
    pub last_check: Box<dyn Fn() -> Result<(), Error> + 'a>,
}

/// What one step has done.
#[derive(Debug, Clone, Default)]
pub(in crate::jobs) struct StepDone {
    pub counts: Counts,
    /// The counts of each level that it has made, if it makes levels.
    pub levels: Vec<LevelCounts>,
    /// Whether an earlier run had begun on it.
    pub resumed: bool,
    pub check: RepackCheck,
}

/// The state of a job after the part that this process does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PartOutcome {
    /// The result is complete.
    #[default]
    Complete,
    /// A data set with the documents of the result exists already, and no job is under way: another
    /// process has finished it, or it was there before. Nothing was done.
    AlreadyThere,
    /// This part has finished; these have not.
    Waiting {
        /// The numbers of the parts.
        missing: Vec<u32>,
    },
}

/// What a folder of values counts as beside arrays: its own size is not known without a listing.
const KEYS_SIZE: u64 = 1 << 20;

/// Steps with more bytes of elements than this use all workers by themselves.
const SMALL_STEP: u64 = 16 << 20;

/// Small steps that run in parallel.
const STEPS_IN_PARALLEL: usize = 16;

/// A step to be run.
struct Due<'a> {
    number: usize,
    step: &'a Step,
    /// The state of its source.
    before: Option<u64>,
    /// Whether what an earlier run has made of it is still right.
    same: bool,
}

impl<'a> Due<'a> {
    fn of((number, ((step, before), same)): (usize, ((&'a Step, Option<u64>), bool))) -> Self {
        Self { number, step, before, same }
    }
}

/// One job.
#[derive(Clone, Copy)]
struct Out<'a> {
    context: &'a JobContext,
    source: &'a Location,
    target: &'a Location,
    options: &'a OutOptions,
    check: RepackCheck,
    resumed: bool,
}

/// Makes the data set; `tell` is called with each step's number and result.
pub(in crate::jobs) fn make(
    context: &JobContext,
    source: &Location,
    target: &Location,
    mut plan: OutPlan<'_>,
    options: &OutOptions,
    tell: &mut dyn FnMut(usize, StepDone),
) -> Result<PartOutcome, Error> {
    check_apart(source, target)?;
    check_whole(source, Some(target))?;
    let context = &context.of_steps(plan.steps.iter().map(Step::size).fold(0, u64::saturating_add));
    let part = match options.stage {
        Stage::All => options.part,
        Stage::Begin | Stage::Finish => Some(TASKS),
    };
    let options = &OutOptions { part, ..*options };
    if options.part.is_some() {
        refuse_with_parts(options)?;
        // Parts that would make different data sets must not mix.
        plan.request["documents"] = document_hash(&plan).into();
    }
    let marker = match &plan.source_name {
        Some(name) => Marker::of_named(plan.kind, name.clone(), plan.request.clone()),
        None => Marker::new(plan.kind, source, plan.request.clone())?,
    };
    let mut marker = marker.begun_by(context.begun_by());
    let mut states = Vec::new();
    for step in &plan.steps {
        let state = state(step, options.part.is_some())?;
        if let Some(state) = state {
            // All at once: a marker that is written for each of thousands of arrays takes longer
            // than the arrays.
            marker.expect_source(&step.name, state);
        }
        states.push(state);
    }
    let overwrite = options.overwrite || options.restart && marker.is_at(target)?;
    // Only what was begun can be finished.
    let part = if options.stage == Stage::Finish { Some(Part::Finish) } else { options.part };
    let how = Beginning { overwrite, take_over: options.take_over, part, within: false };
    let start = marker.begin(Some(source), target, how)?;
    if start == Start::Exists {
        return match is_complete(target, &plan)? {
            true => Ok(PartOutcome::AlreadyThere),
            false => Err(Error::Exists { at: target.to_string() }),
        };
    }
    if marker.is_finishing() {
        marker.end(target)?;
        return Ok(PartOutcome::Complete);
    }
    if start == Start::Clear {
        clear(target, context.engine().threads(), plan.kind.marker)?;
        marker.cleared(target)?;
    }
    let local = target.store.read_cost().local;
    let default = if local { RepackCheck::Bytes } else { RepackCheck::None };
    let check = options.check.unwrap_or(default);
    let resumed = start == Start::Resumed;
    let out = Out { context, source, target, options, check, resumed };
    let mut same = vec![true; plan.steps.len()];
    // Other parts may be at work, and the last one removes what is left.
    if resumed && options.part.is_none() {
        remove_leftovers_below(target)?;
        same = out.discard_changed(&plan.steps, &states, &mut marker)?;
    }
    if let Some(part) = options.part {
        // This part runs again, and until it is done the job must not be finished.
        marker.remove_report(target, part)?;
    }
    if options.stage == Stage::Begin {
        return Ok(PartOutcome::Waiting { missing: vec![1] });
    }
    let mut done: Vec<Counts> = Vec::new();
    let mut bytes = 0;
    let due: Vec<Due<'_>> =
        plan.steps.iter().zip(states).zip(same).enumerate().map(Due::of).collect();
    for together in due.chunk_by(|one, next| one.step.is_small() && next.step.is_small()) {
        context.check()?;
        context.begin_step(together.iter().map(|due| due.step.size()).sum(), bytes);
        bytes = 0;
        let (all, failed) = match together {
            [one] => (vec![(one.number, out.one(one, &marker)?)], Ok(())),
            several => out.in_parallel(several, &marker),
        };
        for (number, one) in all {
            bytes += one.counts.bytes;
            match options.part {
                None => tell(number, one),
                Some(_) => done.push(one.counts),
            }
        }
        failed?;
    }
    if let Some(part) = options.part {
        let report = serde_json::to_value(&done).unwrap_or_default();
        let reports = match marker.end_part(target, part, &report)? {
            PartEnd::Last(reports) => reports,
            PartEnd::Finished => return Ok(PartOutcome::Complete),
            PartEnd::Waiting(missing) => return Ok(PartOutcome::Waiting { missing }),
        };
        for (i, counts) in merged(target, &reports, plan.steps.len())?.into_iter().enumerate() {
            tell(i, StepDone { counts, check, ..StepDone::default() });
        }
    }
    out.finish(&plan, marker)?;
    Ok(PartOutcome::Complete)
}

/// Refuses options that every part would apply again.
fn refuse_with_parts(options: &OutOptions) -> Result<(), Error> {
    let reason = "each part would remove what the others have made";
    let refused = [("--overwrite", options.overwrite), ("--restart", options.restart)];
    match refused.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(JobError::NotInParts { option, reason }.into()),
        None => Ok(()),
    }
}

/// A hash that is the same for the same documents.
pub(in crate::jobs) fn document_hash(plan: &OutPlan<'_>) -> u64 {
    let of_steps = plan.steps.iter().flat_map(|step| &step.documents);
    let mut bytes = Vec::new();
    for document in of_steps.chain(&plan.documents) {
        bytes.extend_from_slice(document.key.as_str().as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&document.bytes);
        bytes.push(0);
    }
    stable_hash(&bytes)
}

/// A number that changes when another program writes to the source of a step; `None` where that
/// cannot be detected. Costs a `stat` for each file; on a remote store a listing, and only for
/// parts, which have no other way to agree.
fn state(step: &Step, for_parts: bool) -> Result<Option<u64>, Error> {
    match &step.work {
        Work::File { from, .. } => return Ok(Some(from.state()?)),
        Work::Levels { state: Some(state), .. } => return Ok(Some(*state)),
        Work::Array { .. } | Work::Keys { .. } | Work::Levels { state: None, .. } => {}
    }
    if let Some(state) = source_state::of_files(&step.folder)? {
        return Ok(Some(state));
    }
    let Work::Array { old, .. } = &step.work else { return Ok(None) };
    if !for_parts {
        return Ok(None);
    }
    let objects = match old.possible_objects() {
        Err(Error::UnlistedObjects { .. }) => return Ok(None),
        objects => objects?,
    };
    let objects = objects.iter().map(|object| (&object.key, object.listed));
    Ok(Some(source_state::of_objects(objects)))
}

/// Whether the target has the documents that the job would write.
pub(in crate::jobs) fn is_complete(target: &Location, plan: &OutPlan<'_>) -> Result<bool, Error> {
    let of_steps = plan.steps.iter().flat_map(|step| &step.documents);
    for document in of_steps.chain(&plan.documents) {
        let found = target.store.get(&document.key)?;
        if found.is_none_or(|found| *found != *document.bytes) {
            return Ok(false);
        }
    }
    Ok(!plan.documents.is_empty())
}

/// The combined counts of all parts.
fn merged(target: &Location, reports: &[Value], steps: usize) -> Result<Vec<Counts>, Error> {
    let mut all = vec![Counts::default(); steps];
    for report in reports {
        let damaged = |_| JobError::Report { report: target.to_string() };
        let counts: Vec<Counts> = serde_json::from_value(report.clone()).map_err(damaged)?;
        all.iter_mut().zip(&counts).for_each(|(all, counts)| all.add(counts));
    }
    Ok(all)
}

impl Out<'_> {
    fn changed(&self, step: &Step) -> Error {
        let at = match &step.work {
            Work::File { from, .. } => from.name().to_owned(),
            _ => step.folder.to_string(),
        };
        RepackError::Changed { at }.into()
    }

    /// Removes what an earlier run has made of steps whose source has changed since, or may have,
    /// and records the new states. Says for each step whether its source is the same.
    fn discard_changed(
        &self,
        steps: &[Step],
        states: &[Option<u64>],
        marker: &mut Marker,
    ) -> Result<Vec<bool>, Error> {
        let mut same = Vec::with_capacity(steps.len());
        for (step, state) in steps.iter().zip(states) {
            self.context.check()?;
            let is_same = match state {
                Some(state) => marker.is_begun(&step.name, *state),
                // Unknown, unless the existing objects are compared.
                None => step.can_be_compared(),
            };
            if !is_same {
                self.remove_stale(step)?;
            }
            same.push(is_same);
        }
        // Only now: until then, another run would have to remove them too.
        let steps = steps.iter().zip(states).zip(&same).filter(|(_, same)| !**same);
        let changed: Vec<(&str, u64)> =
            steps.filter_map(|((step, state), _)| Some((step.name.as_str(), (*state)?))).collect();
        if !changed.is_empty() {
            marker.record_sources(self.target, changed)?;
        }
        Ok(same)
    }

    /// Runs several small steps in parallel, as most of their time is spent waiting for the storage.
    /// Returns the results of those that are done, in the order of steps, and the first failure.
    fn in_parallel(
        &self,
        steps: &[Due<'_>],
        marker: &Marker,
    ) -> (Vec<(usize, StepDone)>, Result<(), Error>) {
        // Each is done before its own progress would be worth showing.
        let quiet = self.context.unwatched();
        let out = Out { context: &quiet, ..*self };
        let total = steps.iter().map(|due| due.step.size().max(1)).sum();
        let all = Mutex::new((Vec::with_capacity(steps.len()), 0));
        let engine = self.context.engine();
        let failed = engine.each_waiting(0, STEPS_IN_PARALLEL, steps.iter(), &|due| {
            self.context.check()?;
            let one = out.one(due, marker)?;
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.0.push((due.number, one));
            all.1 += due.step.size().max(1);
            // Under the lock, so that progress never goes back.
            self.context.report(JobProgress::steps(&due.step.name, all.1, total));
            Ok(())
        });
        let (mut all, _) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_by_key(|(number, _)| *number);
        (all, failed)
    }

    /// Runs one step, or this part's share of it.
    fn one(&self, due: &Due<'_>, marker: &Marker) -> Result<StepDone, Error> {
        match self.options.part {
            None => self.step(due),
            Some(_) => {
                let counts = self.step_of_part(due.step, due.before, marker)?;
                Ok(StepDone { counts, ..StepDone::default() })
            }
        }
    }

    /// Runs one step.
    fn step(&self, &Due { step, before, same, .. }: &Due<'_>) -> Result<StepDone, Error> {
        let check = self.check;
        // Where that is unknown, the step starts over.
        let resumed = self.resumed && (same || before.is_some());
        // Without a state, only a comparison shows whether it is still right.
        if resumed && before.is_some() && same && self.is_finished(step)? {
            return Ok(StepDone { resumed, check, ..StepDone::default() });
        }
        let (counts, levels) = self.run(step, before)?;
        for Document { key, bytes } in &step.documents {
            self.target.store.put(key, bytes, Condition::None)?;
        }
        Ok(StepDone { counts, levels, resumed, check })
    }

    /// Runs this part's share of a step.
    fn step_of_part(
        &self,
        step: &Step,
        before: Option<u64>,
        marker: &Marker,
    ) -> Result<Counts, Error> {
        let begun = marker.begun(&step.name);
        if begun != before {
            return Err(JobError::SourceChanged { at: step.folder.to_string() }.into());
        }
        if self.options.part == Some(Part::Finish) || self.options.stage == Stage::Finish {
            return Ok(Counts::default());
        }
        Ok(self.run(step, before)?.0)
    }

    /// Runs a step; returns its counts, and those of each level if it makes levels.
    fn run(&self, step: &Step, before: Option<u64>) -> Result<(Counts, Vec<LevelCounts>), Error> {
        let options = TransferOptions {
            order: self.options.order,
            store_empty: self.options.store_empty,
            check: match self.check {
                RepackCheck::None if self.resumed && before.is_none() => RepackCheck::Bytes,
                check => check,
            },
        };
        let part = self.options.part;
        // Another process of this part may have made objects already.
        let resumed = self.resumed || part.is_some();
        let mut levels = Vec::new();
        let done = match &step.work {
            Work::Array { old, axes, new } => {
                let _hold = old.hold_same()?;
                let sides = Sides { old, axes, new };
                let transfer = Transfer::new(self.context, sides, options, resumed, &step.name)
                    .with_part(part);
                transfer.run().map(|()| transfer.counts())
            }
            Work::Keys { from, to } => {
                let _hold = self.source.hold()?;
                from.move_to(self.context, to, resumed, self.check != RepackCheck::None, part)
            }
            Work::File { from, new } => from.fill(self.context, new, resumed, part),
            Work::Levels { levels: of_image, .. } => {
                of_image.make(self.context, resumed).map(|made| {
                    levels = made;
                    Counts::of_levels(&levels)
                })
            }
        };
        match done {
            Err(error) if is_stale(&error) && state(step, part.is_some())? != before => {
                Err(self.changed(step))
            }
            Err(error) => Err(error),
            Ok(_) if state(step, part.is_some())? != before => Err(self.changed(step)),
            Ok(counts) => Ok((counts, levels)),
        }
    }

    /// Whether an earlier run has written the documents of a step, which come after everything they
    /// describe.
    fn is_finished(&self, step: &Step) -> Result<bool, Error> {
        for Document { key, bytes } in &step.documents {
            if self.target.store.get(key)?.is_none_or(|found| *found != **bytes) {
                return Ok(false);
            }
        }
        Ok(!step.documents.is_empty())
    }

    /// Removes what an earlier run has made from a different state of the source.
    fn remove_stale(&self, step: &Step) -> Result<(), Error> {
        let store = &self.target.store;
        for document in step.documents.iter().rev() {
            if store.get(&document.key)?.is_some() {
                store.delete(&document.key, &Condition::None)?;
            }
        }
        match &step.work {
            Work::Array { new, .. } | Work::File { new, .. } => {
                for object in new.possible_objects()? {
                    store.delete(&object.key, &Condition::None)?;
                }
            }
            Work::Levels { levels, .. } => levels.clear()?,
            Work::Keys { to, .. } => {
                for shard in to.shards.stored()? {
                    store.delete(&to.shards.shard_key(shard)?, &Condition::None)?;
                }
            }
        }
        Ok(())
    }

    /// Ends a job whose objects are all there: carries over the rest, and declares the data set.
    fn finish(&self, plan: &OutPlan<'_>, marker: Marker) -> Result<(), Error> {
        if let Some(others) = &plan.others {
            let required = plan.others_required;
            carry_over(self.context, self.source, self.target, &**others, required)?;
        }
        (plan.last_check)()?;
        if self.options.part.is_some() && !marker.is_under_way(self.target)? {
            // Another process has finished it, and others may have changed it since.
            return Ok(());
        }
        let of_steps = plan.steps.iter().flat_map(|step| &step.documents);
        let of_steps = of_steps.filter(|_| self.options.part.is_some());
        for Document { key, bytes } in of_steps.chain(&plan.documents) {
            self.target.store.put(key, bytes, Condition::None)?;
        }
        marker.end(self.target)
    }
}

impl Step {
    /// How much there is to do, relative to other steps: the bytes of an array's elements.
    pub fn size(&self) -> u64 {
        match &self.work {
            Work::Array { new, .. } | Work::File { new, .. } => new.decoded_len(),
            Work::Keys { .. } => KEYS_SIZE,
            Work::Levels { levels, .. } => levels.size(),
        }
    }

    /// Whether it is worth running beside others that are. None of those depends on another.
    fn is_small(&self) -> bool {
        // How much is stored of elements of any length, their number does not tell.
        let is_fixed = |array: &Array| matches!(array.data_type().size(), ElementSize::Fixed(_));
        matches!(&self.work, Work::Array { new, .. } if is_fixed(new)) && self.size() <= SMALL_STEP
    }

    /// Whether what an earlier run has made is compared with the source before it is kept.
    pub fn can_be_compared(&self) -> bool {
        match &self.work {
            // Chunks cut off on one side only are re-encoded.
            Work::Array { old, axes, new } => {
                super::relates(old, axes, new) && old.cuts_edges() == new.cuts_edges()
            }
            Work::Keys { .. } | Work::File { .. } | Work::Levels { .. } => false,
        }
    }
}
