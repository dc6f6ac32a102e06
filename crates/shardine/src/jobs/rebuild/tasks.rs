//! A job as data: a plan, its tasks, and their reports, so that another process or a cluster can
//! run it.
//!
//! A plan holds the complete documents of the target, so a task needs nothing but the plan and the
//! storage. Tasks do not depend on each other: each makes one object, or a box of small ones, with
//! the same result in any order and any number of times.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shardine_store::StoreExt;

use super::axes::AxisMap;
use super::out::{OutOptions, OutPlan, Stage, Step, Work, make};
use super::transfer::{Counts, Sides, Transfer, TransferOptions};
use super::{PartOutcome, RepackCheck, TaskObject};
use crate::jobs::convert::{
    ConvertOptions, OmeForm, VolumeForm, ZarrForm, plan_to_ome, plan_to_volume, plan_to_zarr,
};
use crate::jobs::frame::{JobContext, JobError};
use crate::jobs::repack::{RepackOptions, plan_repack};
use crate::jobs::repack_volume::{RepackVolumeOptions, plan_repack_volume};
use crate::location::LocationSpec;
use crate::precomputed::{Volume, VolumeInfo};
use crate::zarr::metadata::{ArrayMetadata, NodeMetadata};
use crate::{Array, ArrayNode, Engine, Error, Location, open_in};

/// The version of plans that is written and read.
const VERSION: u32 = 1;

/// What is made at a target.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RebuildJob {
    /// A Zarr hierarchy, repacked: see [`repack`](crate::jobs::repack).
    Repack(RepackOptions),
    /// A volume, repacked: see [`repack_volume`](crate::jobs::repack_volume).
    RepackVolume(RepackVolumeOptions),
    /// Zarr from another format: see [`convert_to_zarr`](crate::jobs::convert_to_zarr).
    ToZarr(ZarrForm, ConvertOptions),
    /// OME-Zarr from any format: see [`convert_to_ome`](crate::jobs::convert_to_ome).
    ToOme(OmeForm, ConvertOptions),
    /// A volume from another format: see [`convert_to_volume`](crate::jobs::convert_to_volume).
    ToVolume(VolumeForm, ConvertOptions),
}

/// The source array of a step, by the location of its data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::jobs) struct SourceRef {
    /// The path of the data set below the source.
    pub path: String,
    pub level: usize,
    /// Whether its chunks are only moved, and never decoded.
    pub packed: bool,
}

/// The array that a step makes, by its documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::jobs) enum TargetRef {
    Zarr {
        path: String,
        document: Value,
    },
    /// `zattrs` is null if there are no attributes.
    ZarrV2 {
        path: String,
        zarray: Value,
        zattrs: Value,
    },
    Volume {
        info: Value,
        level: usize,
        packed: bool,
    },
    /// Values by key, which one process moves.
    Keys,
    /// The levels of an image, which one process makes.
    Levels,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StepPlan {
    name: String,
    source: SourceRef,
    axes: AxisMap,
    target: TargetRef,
}

/// A job with a target that any processes can share, task by task.
///
/// ```no_run
/// use shardine::jobs::{RebuildJob, RebuildPlan, RebuildTask, RepackOptions};
/// use shardine::{Engine, Location, Packing};
///
/// let engine = Engine::shared()?;
/// let (source, target) = (Location::parse("a.zarr")?, Location::parse("b.zarr")?);
/// let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![8]));
/// let plan = RebuildPlan::begin(&engine, &source, &target, RebuildJob::Repack(options))?;
/// let (plan, tasks) =
///     (serde_json::to_string(&plan)?, serde_json::to_string(&plan.tasks(&engine)?)?);
///
/// // Anywhere else, for each of the tasks:
/// let plan: RebuildPlan = serde_json::from_str(&plan)?;
/// let tasks: Vec<RebuildTask> = serde_json::from_str(&tasks)?;
/// let reports = tasks.iter().map(|task| plan.run(&engine, task)).collect::<Result<Vec<_>, _>>()?;
///
/// // And in the end:
/// plan.finish(&engine, &reports)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RebuildPlan {
    version: u32,
    source: LocationSpec,
    target: LocationSpec,
    job: RebuildJob,
    options: TransferOptions,
    /// The object that marks the target as unfinished.
    marker: String,
    steps: Vec<StepPlan>,
}

/// One object to be made, or a box of small ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RebuildTask {
    step: usize,
    object: TaskObject,
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    task: RebuildTask,
    counts: Counts,
}

impl RebuildJob {
    fn plan(
        &self,
        context: &JobContext,
        source: &Location,
        target: &Location,
    ) -> Result<(OutPlan<'static>, OutOptions), Error> {
        Ok(match self {
            Self::Repack(options) => {
                let (plan, _) = plan_repack(context, source, target, options)?;
                (plan, options.out())
            }
            Self::RepackVolume(options) => {
                let (plan, _) = plan_repack_volume(context, source, target, options)?;
                (plan, options.out())
            }
            Self::ToZarr(form, options) => {
                (plan_to_zarr(context, source, target, form, options)?.plan, options.out())
            }
            Self::ToOme(form, options) => {
                form.check_parts()?;
                (plan_to_ome(context, source, target, form, options)?.plan, options.out())
            }
            Self::ToVolume(form, options) => {
                (plan_to_volume(context, source, target, form, options)?.plan, options.out())
            }
        })
    }
}

impl RebuildPlan {
    /// Plans a job, and marks its target: from then on tasks may be run, and other jobs are
    /// refused.
    ///
    /// A target that an earlier plan of the same job has marked is resumed. Both locations need
    /// URLs without secrets ([`Location::spec`]), as the plan holds them.
    pub fn begin(
        context: impl Into<JobContext>,
        source: &Location,
        target: &Location,
        job: RebuildJob,
    ) -> Result<Self, Error> {
        let context = &context.into();
        let (source_spec, target_spec) = (source.spec()?, target.spec()?);
        let (plan, mut how) = job.plan(context, source, target)?;
        let steps = plan.steps.iter().map(StepPlan::of).collect();
        let local = target.store.read_cost().local;
        let check = if local { RepackCheck::Bytes } else { RepackCheck::None };
        let check = how.check.unwrap_or(check);
        let options = TransferOptions { order: how.order, store_empty: how.store_empty, check };
        how.stage = Stage::Begin;
        let marker = plan.kind.marker.to_owned();
        let outcome = make(context, source, target, plan, &how, &mut |_, _| ())?;
        if !matches!(outcome, PartOutcome::Waiting { .. }) {
            return Err(Error::Exists { at: target.to_string() });
        }
        let (source, target) = (source_spec, target_spec);
        Ok(Self { version: VERSION, source, target, job, options, marker, steps })
    }

    /// All tasks. Costs a walk over the grid; for a large one, a listing of the source.
    pub fn tasks(&self, context: impl Into<JobContext>) -> Result<Vec<RebuildTask>, Error> {
        let context = &context.into();
        let mut tasks = Vec::new();
        for step in 0..self.steps.len() {
            self.with_step(context, step, |transfer| {
                let objects = transfer.objects()?;
                tasks.extend(objects.into_iter().map(|object| RebuildTask { step, object }));
                Ok(())
            })?;
        }
        Ok(tasks)
    }

    /// Runs one task. Objects that exist and are right are kept.
    pub fn run(
        &self,
        context: impl Into<JobContext>,
        task: &RebuildTask,
    ) -> Result<TaskReport, Error> {
        let context = &context.into();
        let target = Location::from_spec(&self.target)?;
        if target.store.get(&target.key(&self.marker)?)?.is_none() {
            // It was finished or abandoned, and must not be written to any more.
            return Err(JobError::NothingBegun { at: target.to_string() }.into());
        }
        let counts = self.with_step(context, task.step, |transfer| {
            if !task.object.has_axes(transfer.rank()) {
                let (at, reason) = (target.to_string(), "a task has different axes".to_owned());
                return Err(JobError::Plan { at, reason }.into());
            }
            transfer.run_object(&task.object)?;
            Ok(transfer.counts())
        })?;
        Ok(TaskReport { task: task.clone(), counts })
    }

    /// Finishes the job: checks that each task has a report, carries over the rest of the data set,
    /// writes its documents, and removes the marker.
    ///
    /// Fails with [`JobError::TasksMissing`] if some task was not run.
    pub fn finish(
        &self,
        context: impl Into<JobContext>,
        reports: &[TaskReport],
    ) -> Result<(), Error> {
        let context = &context.into();
        let (source, target) =
            (Location::from_spec(&self.source)?, Location::from_spec(&self.target)?);
        let done: BTreeSet<&RebuildTask> = reports.iter().map(|report| &report.task).collect();
        let tasks = self.tasks(context)?;
        let missing = tasks.iter().filter(|task| !done.contains(task)).count() as u64;
        if missing > 0 {
            let (at, of) = (target.to_string(), tasks.len() as u64);
            return Err(JobError::TasksMissing { at, missing, of }.into());
        }
        let (plan, mut how) = self.job.plan(context, &source, &target)?;
        how.stage = Stage::Finish;
        match make(context, &source, &target, plan, &how, &mut |_, _| ())? {
            PartOutcome::Complete | PartOutcome::AlreadyThere => Ok(()),
            PartOutcome::Waiting { missing } => {
                Err(JobError::PartsMissing { at: target.to_string(), missing }.into())
            }
        }
    }

    fn with_step<T>(
        &self,
        context: &JobContext,
        step: usize,
        work: impl FnOnce(&Transfer<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.version != VERSION {
            return Err(JobError::OtherVersion { version: self.version }.into());
        }
        let engine = context.engine();
        let target = Location::from_spec(&self.target)?;
        let Some(plan) = self.steps.get(step) else {
            return Err(JobError::NoStep { at: target.to_string(), step }.into());
        };
        let old = plan.source.open(engine, &Location::from_spec(&self.source)?)?;
        let new = plan.target.bind(engine, &target)?;
        if !plan.axes.is_between(old.shape().len(), new.shape().len()) {
            let reason = "its axes are not those of the arrays".to_owned();
            return Err(JobError::Plan { at: target.to_string(), reason }.into());
        }
        let sides = Sides { old: &old, axes: &plan.axes, new: &new };
        // An earlier run of the task may have made objects already.
        let transfer = Transfer::new(context, sides, self.options, true, &plan.name);
        let _hold = old.hold_same()?;
        work(&transfer)
    }
}

impl StepPlan {
    fn of(step: &Step) -> Self {
        let axes = match &step.work {
            Work::Array { axes, .. } => axes.clone(),
            Work::Keys { .. } | Work::File { .. } | Work::Levels { .. } => AxisMap::identity(0),
        };
        let (name, source, target) = (step.name.clone(), step.source.clone(), step.target.clone());
        Self { name, source, axes, target }
    }
}

impl SourceRef {
    /// An array of the data set at a path.
    pub fn new(path: &str, level: usize) -> Self {
        Self { path: path.to_owned(), level, packed: false }
    }

    fn open(&self, engine: &Arc<Engine>, source: &Location) -> Result<Array, Error> {
        let place = match self.path.as_str() {
            "" => source.clone(),
            path => source.join(path)?,
        };
        match self.packed {
            true => Volume::open(engine, &place)?.packed_array(self.level),
            false => open_in(engine, &place)?.array(self.level),
        }
    }
}

impl TargetRef {
    fn bind(&self, engine: &Arc<Engine>, target: &Location) -> Result<Array, Error> {
        let wrong = |reason: String| JobError::Plan { at: target.to_string(), reason };
        let place = |path: &str| match path {
            "" => Ok(target.clone()),
            path => target.join(path),
        };
        match self {
            Self::Zarr { path, document } => {
                let place = place(path)?;
                match NodeMetadata::parse(document.to_string().as_bytes()) {
                    Ok(NodeMetadata::Array(metadata)) => {
                        Ok(ArrayNode::from_metadata(engine, &place, metadata)?.into_array())
                    }
                    Ok(NodeMetadata::Group(_)) => {
                        Err(wrong("a group is not an array".into()).into())
                    }
                    Err(error) => Err(wrong(error.to_string()).into()),
                }
            }
            Self::ZarrV2 { path, zarray, zattrs } => {
                let zattrs = (!zattrs.is_null()).then(|| zattrs.to_string());
                let zattrs = zattrs.as_ref().map(String::as_bytes);
                let metadata = ArrayMetadata::parse_v2(zarray.to_string().as_bytes(), zattrs)
                    .map_err(|error| wrong(error.to_string()))?;
                Ok(ArrayNode::from_metadata(engine, &place(path)?, metadata)?.into_array())
            }
            Self::Volume { info, level, packed } => {
                let info = VolumeInfo::parse(info.to_string().as_bytes())
                    .map_err(|error| wrong(error.to_string()))?;
                let volume = Volume::bind(engine, target, info);
                match packed {
                    true => volume.packed_array(*level),
                    false => volume.array(*level),
                }
            }
            Self::Keys => {
                Err(wrong("values by key can only be moved by one process or in parts".into())
                    .into())
            }
            Self::Levels => Err(wrong("levels can only be made by one process".into()).into()),
        }
    }
}
