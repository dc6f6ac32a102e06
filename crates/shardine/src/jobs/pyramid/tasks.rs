//! A pyramid as data: a plan, its tasks, and their reports, so that another process or a cluster can
//! make it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::build::{Build, Work};
use super::image::PyramidImage;
use super::output::LevelCounts;
use super::{PyramidOptions, PyramidTask};
use crate::jobs::JobContext;
use crate::jobs::frame::JobError;
use crate::jobs::rebuild::PartOutcome;
use crate::location::LocationSpec;
use crate::{Error, Location};

/// The version of plans that is written and read.
const VERSION: u32 = 1;

/// The levels of an image that any processes can make together, task by task.
///
/// Tasks do not depend on each other: each makes all objects of a box, on the levels that one pass
/// makes, with the same result in any order and any number of times. Coarser levels, of which there
/// is little, are made in the end.
///
/// ```no_run
/// use shardine::jobs::{PyramidOptions, PyramidPlan, PyramidTask};
/// use shardine::{Engine, Location};
///
/// let engine = Engine::shared()?;
/// let image = Location::parse("image.zarr")?;
/// let plan = PyramidPlan::begin(&engine, &image, &PyramidOptions::new())?;
/// let (plan, tasks) =
///     (serde_json::to_string(&plan)?, serde_json::to_string(&plan.tasks(&engine)?)?);
///
/// // Anywhere else, for each of the tasks:
/// let plan: PyramidPlan = serde_json::from_str(&plan)?;
/// let tasks: Vec<PyramidTask> = serde_json::from_str(&tasks)?;
/// let reports = tasks.iter().map(|task| plan.run(&engine, task)).collect::<Result<Vec<_>, _>>()?;
///
/// // And in the end:
/// plan.finish(&engine, &reports)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PyramidPlan {
    version: u32,
    image: LocationSpec,
    options: PyramidOptions,
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PyramidReport {
    task: PyramidTask,
    counts: Vec<LevelCounts>,
}

impl PyramidPlan {
    /// Plans the levels of an image, and marks it: from then on tasks may be run, and other jobs of
    /// this kind are refused. An image that an earlier plan of the same job has marked is resumed.
    ///
    /// The location needs a URL without secrets ([`Location::spec`]), as the plan holds it.
    pub fn begin(
        context: impl Into<JobContext>,
        image: &Location,
        options: &PyramidOptions,
    ) -> Result<Self, Error> {
        let context = &context.into();
        let spec = image.spec()?;
        let opened = PyramidImage::open(context, image)?;
        let plan = opened.plan(context, options)?;
        let build = Build { context, image: &opened, plan: &plan, options };
        let summary = build.run(Work::Begin, &mut |_| ())?;
        if !matches!(summary.outcome, PartOutcome::Waiting { .. }) {
            return Err(Error::Exists { at: image.to_string() });
        }
        Ok(Self { version: VERSION, image: spec, options: options.clone() })
    }

    /// All tasks. Costs a listing of the finest level if its grid is large.
    pub fn tasks(&self, context: impl Into<JobContext>) -> Result<Vec<PyramidTask>, Error> {
        self.with(&context.into(), |build| build.tasks())
    }

    /// Runs one task. Objects that exist are kept.
    pub fn run(
        &self,
        context: impl Into<JobContext>,
        task: &PyramidTask,
    ) -> Result<PyramidReport, Error> {
        let counts = self.with(&context.into(), |build| build.run_task(task))?;
        Ok(PyramidReport { task: task.clone(), counts })
    }

    /// Finishes the job: checks that each task has a report, makes the remaining levels, and lets
    /// the image name all of them.
    ///
    /// Fails with [`JobError::TasksMissing`] if some task was not run.
    pub fn finish(
        &self,
        context: impl Into<JobContext>,
        reports: &[PyramidReport],
    ) -> Result<(), Error> {
        self.with(&context.into(), |build| {
            let done: BTreeSet<&PyramidTask> = reports.iter().map(|report| &report.task).collect();
            let tasks = build.tasks()?;
            let missing = tasks.iter().filter(|task| !done.contains(task)).count() as u64;
            if missing > 0 {
                let (at, of) = (build.image.location.to_string(), tasks.len() as u64);
                return Err(JobError::TasksMissing { at, missing, of }.into());
            }
            build.run(Work::Finish, &mut |_| ()).map(drop)
        })
    }

    fn with<T>(
        &self,
        context: &JobContext,
        work: impl FnOnce(&Build<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.version != VERSION {
            return Err(JobError::OtherVersion { version: self.version }.into());
        }
        let image = PyramidImage::open(context, &Location::from_spec(&self.image)?)?;
        let plan = image.plan(context, &self.options)?;
        work(&Build { context, image: &image, plan: &plan, options: &self.options })
    }
}
