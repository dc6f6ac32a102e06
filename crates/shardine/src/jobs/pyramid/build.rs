//! Makes the lower levels of an image, alone or as one of several processes.
//!
//! Levels that the image does not have yet are made in their places: nothing refers to them before
//! the image's own document does, which is written last. Levels that it has are built beside them
//! and exchanged in the end (`replace.rs`).

use serde_json::{Value, json};
use shardine_store::StoreExt;

use super::geometry::Grid;
use super::image::PyramidImage;
use super::output::LevelCounts;
use super::places::BuiltLevel;
use super::plan::{LevelPlan, Plan};
use super::{PyramidError, PyramidLevel, PyramidOptions, PyramidSummary};
use crate::jobs::JobContext;
use crate::jobs::copy::keys::parent;
use crate::jobs::frame::{
    Beginning, JobError, JobKind, Marker, Part, PartEnd, Start, remove_leftovers,
    remove_leftovers_below, source_state, stable_hash,
};
use crate::jobs::rebuild::PartOutcome;
use crate::jobs::whole::{check_walked, refuse};
use crate::{Error, Location};

/// The object in an image that says which levels are being made.
pub const PYRAMID_MARKER: &str = ".shardine-pyramid.json";

pub(in crate::jobs) const PYRAMID: JobKind =
    JobKind { marker: PYRAMID_MARKER, member: "shardine_pyramid" };

/// The part that tasks run one by one count as.
const TASKS: Part = Part::Of { index: 1, count: 1 };

/// What to do of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// All of it, or a part.
    All,
    /// Mark the image for tasks that are run one by one.
    Begin,
    /// What comes after all tasks.
    Finish,
}

/// A job on an image.
pub(super) struct Build<'a> {
    pub context: &'a JobContext,
    pub image: &'a PyramidImage,
    pub plan: &'a Plan,
    pub options: &'a PyramidOptions,
}

impl Build<'_> {
    /// Does the work. `tell` is called with each level when it is made.
    pub fn run(
        &self,
        work: Work,
        tell: &mut dyn FnMut(&PyramidLevel),
    ) -> Result<PyramidSummary, Error> {
        let Self { context, image, plan, options } = self;
        let mut summary = self.summary();
        if options.dry_run {
            return Ok(summary);
        }
        let at = &image.location;
        let part = if work == Work::All { options.part } else { Some(TASKS) };
        let mut marker = Marker::new(&PYRAMID, at, self.request())?.begun_by(context.begun_by());
        let restart = options.restart && marker.is_at(at)?;
        if !marker.is_at(at)? {
            // A rebuild that is asked for is made: the finest level may have changed since.
            if !options.overwrite && self.is_complete()? {
                // A run that was killed at its very end has left the file of its lock.
                remove_leftovers(at, at.path.as_ref())?;
                (summary.unchanged, summary.outcome) = (true, PartOutcome::AlreadyThere);
                return Ok(summary);
            }
            self.check_free()?;
        }
        if part.is_some() {
            self.check_parts()?;
        }
        // What is behind a link may change without anyone seeing it.
        check_walked(image.finest.location())?;
        let state = self.state(part.is_some())?;
        let finest = image.image()?.levels.first().map(|level| level.path.clone());
        let finest = finest.unwrap_or_default();
        if let Some(state) = state {
            marker.expect_source(&finest, state);
        }
        let finishing = (work == Work::Finish).then_some(Part::Finish);
        let how = Beginning {
            overwrite: restart,
            take_over: options.take_over,
            part: finishing.or(part),
            within: true,
        };
        let abandoned = if restart { self.begun_paths()? } else { Vec::new() };
        let start = marker.begin(None, at, how)?;
        if marker.is_finishing() {
            marker.end(at)?;
            return Ok(summary);
        }
        let mut levels = self.places()?;
        if start == Start::Clear {
            self.clear(&levels, &abandoned)?;
            marker.cleared(at)?;
            levels = self.places()?;
        }
        summary.resumed = start == Start::Resumed;
        let is_switching = levels.iter().any(BuiltLevel::is_switched);
        if summary.resumed && !is_switching {
            levels = self.reuse(levels, &mut marker, &finest, state, part)?;
        }
        if let Some(part) = part {
            // This part runs again, and until it is done the job must not be finished.
            marker.remove_report(at, part)?;
        }
        if work == Work::Begin {
            summary.outcome = PartOutcome::Waiting { missing: vec![1] };
            return Ok(summary);
        }
        let mut surplus = self.surplus()?;
        for level in &levels {
            if let Some(replaced) = &level.replaced {
                surplus.extend(replaced.begin(context, &self.request(), level, &surplus)?);
            }
        }
        surplus.sort();
        surplus.dedup();
        let mut counts = vec![LevelCounts::default(); plan.levels.len()];
        if !is_switching && !self.are_built(&levels)? {
            let kept = summary.resumed || part.is_some();
            let before = (state, part.is_some());
            if work == Work::All && part != Some(Part::Finish) {
                self.passes(&levels, 0..1, part, kept, &mut counts, before)?;
            }
            if let Some(part) = part {
                let report = serde_json::to_value(&counts).unwrap_or_default();
                let reports = match marker.end_part(at, part, &report)? {
                    PartEnd::Last(reports) => reports,
                    PartEnd::Finished => return Ok(summary),
                    PartEnd::Waiting(missing) => {
                        summary.outcome = PartOutcome::Waiting { missing };
                        return Ok(self.told(summary, &counts, &mut |_| ()));
                    }
                };
                counts = merged(at, &reports, plan.levels.len())?;
            }
            self.passes(&levels, 1..plan.stages.len(), None, kept, &mut counts, before)?;
        }
        self.finish(&levels, &surplus, part.is_some(), marker)?;
        Ok(self.told(summary, &counts, tell))
    }

    /// Keeps what an earlier run has made from the same state of the finest level, and removes
    /// everything else of it.
    fn reuse<'b>(
        &'b self,
        mut levels: Vec<BuiltLevel<'b>>,
        marker: &mut Marker,
        finest: &str,
        state: Option<u64>,
        part: Option<Part>,
    ) -> Result<Vec<BuiltLevel<'b>>, Error> {
        let begun = marker.begun(finest);
        if part.is_some() {
            if begun != state {
                let at = self.image.finest.location().to_string();
                return Err(JobError::SourceChanged { at }.into());
            }
            return Ok(levels);
        }
        if state.is_none() || begun != state {
            // What was made from another state, or from an unknown one, is of no use.
            self.clear(&levels, &[])?;
            levels = self.places()?;
            if let Some(state) = state {
                marker.record_sources(&self.image.location, [(finest, state)])?;
            }
        }
        for level in &levels {
            remove_leftovers_below(level.array.location())?;
        }
        Ok(levels)
    }

    /// What is requested: equal requests have equal results.
    fn request(&self) -> Value {
        let mut bytes = Vec::new();
        for level in &self.plan.levels {
            bytes.extend_from_slice(level.path.as_bytes());
            bytes.extend_from_slice(format!("{:?}{:?}", level.factors, level.placement).as_bytes());
            for (name, document) in &level.documents {
                bytes.extend_from_slice(name.as_bytes());
                bytes.extend_from_slice(document);
            }
        }
        let paths: Vec<&String> = self.plan.levels.iter().map(|level| &level.path).collect();
        json!({
            "method": self.plan.method,
            "levels": paths,
            "documents": stable_hash(&bytes),
            "tasks": self.plan.stages.iter().map(|stage| &stage.task).collect::<Vec<_>>(),
        })
    }

    /// The paths of the levels that an earlier, maybe different job has begun.
    fn begun_paths(&self) -> Result<Vec<String>, Error> {
        let at = &self.image.location;
        let Some(bytes) = at.store.get(&at.key(PYRAMID_MARKER)?)? else { return Ok(Vec::new()) };
        let marker: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let paths = marker["request"]["levels"].as_array().cloned().unwrap_or_default();
        Ok(paths.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    fn summary(&self) -> PyramidSummary {
        let level = |level: &LevelPlan, grid: &Grid| PyramidLevel {
            path: level.path.clone(),
            shape: level.metadata.shape().to_vec(),
            factors: level.factors.clone(),
            scale: level.placement.scale.clone(),
            translation: level.placement.translation.clone(),
            chunk_shape: grid.piece.clone(),
            shard_shape: (grid.object != grid.piece).then(|| grid.object.clone()),
            counts: LevelCounts::default(),
        };
        PyramidSummary {
            method: self.plan.method,
            levels: self
                .plan
                .levels
                .iter()
                .zip(&self.plan.grids)
                .map(|(l, g)| level(l, g))
                .collect(),
            resumed: false,
            unchanged: false,
            passes: self.plan.stages.len(),
            outcome: PartOutcome::Complete,
        }
    }

    fn told(
        &self,
        mut summary: PyramidSummary,
        counts: &[LevelCounts],
        tell: &mut dyn FnMut(&PyramidLevel),
    ) -> PyramidSummary {
        for (level, counts) in summary.levels.iter_mut().zip(counts) {
            level.counts = *counts;
            tell(level);
        }
        summary
    }

    /// Whether the image already has these levels, made by this method.
    fn is_complete(&self) -> Result<bool, Error> {
        let image = self.image.image()?;
        if image.levels.len() != self.plan.levels.len() + 1
            || image.other.get("type") != Some(&json!(self.plan.method))
        {
            return Ok(false);
        }
        for (old, new) in image.levels.iter().skip(1).zip(&self.plan.levels) {
            let same = image.own_placement(old).is_ok_and(|placement| placement == new.placement);
            if old.path != new.path || !same || !self.is_documented(new, &self.home(new)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Refuses to begin where levels, or other things, already are.
    fn check_free(&self) -> Result<(), Error> {
        let image = self.image.image()?;
        let at = || self.image.location.to_string();
        if image.levels.len() > 1 && !self.options.overwrite {
            return Err(PyramidError::Exists { at: at(), levels: image.levels.len() }.into());
        }
        if image.levels.len() > 1 && self.image.location.store.exchange().is_none() {
            return Err(PyramidError::NeedsFiles { at: at() }.into());
        }
        for level in &self.plan.levels {
            let home = self.home(level)?;
            let listed = image.levels.iter().any(|old| old.path == level.path);
            refuse_unlisted(&home)?;
            if !listed && !home.store.list(home.path.as_ref())?.is_empty() {
                return Err(PyramidError::InTheWay { at: home.to_string() }.into());
            }
        }
        Ok(())
    }

    /// Refuses what processes cannot share.
    fn check_parts(&self) -> Result<(), Error> {
        let reason = "each part would remove what the others have made";
        let replaces = self.image.image()?.levels.len() > 1;
        let (overwrite, restart) = (self.options.overwrite || replaces, self.options.restart);
        let refused = [("--overwrite", overwrite), ("--restart", restart)];
        match refused.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(JobError::NotInParts { option, reason }.into()),
            None => Ok(()),
        }
    }

    /// A number that changes when the finest level is written to; `None` where that cannot be told.
    pub(super) fn state(&self, for_parts: bool) -> Result<Option<u64>, Error> {
        let finest = &self.image.finest;
        if let Some(state) = source_state::of_files(finest.location())? {
            return Ok(Some(state));
        }
        if !for_parts {
            return Ok(None);
        }
        let objects = match finest.possible_objects() {
            Err(Error::UnlistedObjects { .. }) => return Ok(None),
            objects => objects?,
        };
        let objects = objects.iter().map(|object| (&object.key, object.listed));
        Ok(Some(source_state::of_objects(objects)))
    }
}

/// Refuses a link, or something else that is not listed, with the name of a level that is to be
/// made: what is behind it belongs to someone else.
fn refuse_unlisted(home: &Location) -> Result<(), Error> {
    let folder = home.path.as_ref().and_then(parent);
    let mut listing = home.store.list(folder.as_ref())?;
    listing.unlisted.retain(|unlisted| unlisted.key.is_some() && unlisted.key == home.path);
    refuse(&home.at(folder), &listing.unlisted, 0)
}

/// The combined counts of all parts.
fn merged(target: &Location, reports: &[Value], levels: usize) -> Result<Vec<LevelCounts>, Error> {
    let mut all = vec![LevelCounts::default(); levels];
    for report in reports {
        let damaged = |_| JobError::Report { report: target.to_string() };
        let counts: Vec<LevelCounts> = serde_json::from_value(report.clone()).map_err(damaged)?;
        all.iter_mut().zip(&counts).for_each(|(all, counts)| all.add(counts));
    }
    Ok(all)
}
