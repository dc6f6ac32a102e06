//! Makes the lower levels of an image, alone or as one of several processes.
//!
//! Levels that the image does not have yet are made in their places: nothing refers to them before
//! the image's own document does, which is written last. Levels that it has are built beside them
//! and exchanged in the end (`replace.rs`).

use std::collections::HashSet;

use serde_json::{Value, json};
use shardine_store::{Condition, StoreExt};

use super::image::{LevelPlan, Plan, PyramidImage};
use super::output::LevelCounts;
use super::pass::{Pass, PassLevel};
use super::replace::Replaced;
use super::{PyramidError, PyramidLevel, PyramidOptions, PyramidSummary, PyramidTask};
use crate::jobs::JobContext;
use crate::jobs::frame::marker::is_report;
use crate::jobs::frame::{
    Beginning, JobError, JobKind, Marker, Part, PartEnd, Start, remove_leftovers_below,
    source_state, stable_hash,
};
use crate::jobs::rebuild::PartOutcome;
use crate::jobs::repack::is_stale;
use crate::ome::OmeMetadata;
use crate::zarr::metadata::{GroupMetadata, ZarrFormat};
use crate::zarr::{change_attributes, formats_at, renew_consolidated_above};
use crate::{Array, ArrayNode, Error, Location};

/// The object in an image that says which levels are being made.
pub const PYRAMID_MARKER: &str = ".shardine-pyramid.json";

pub(super) const PYRAMID: JobKind = JobKind { marker: PYRAMID_MARKER, member: "shardine_pyramid" };

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

/// A level in the place where it is built.
pub(super) struct BuiltLevel<'p> {
    pub plan: &'p LevelPlan,
    /// Where it is in the end.
    pub home: Location,
    /// Where it is built.
    pub array: ArrayNode,
    /// The old level, if there is one.
    pub replaced: Option<Replaced>,
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
                (summary.unchanged, summary.outcome) = (true, PartOutcome::AlreadyThere);
                return Ok(summary);
            }
            self.check_free()?;
        }
        if part.is_some() {
            self.check_parts()?;
        }
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
            let begun = marker.begun(&finest);
            if part.is_some() && begun != state {
                let at = image.finest.location().to_string();
                return Err(JobError::SourceChanged { at }.into());
            }
            if part.is_none() && (state.is_none() || begun != state) {
                // What was made from another state, or from an unknown one, is of no use.
                self.clear(&levels, &[])?;
                levels = self.places()?;
                if let Some(state) = state {
                    marker.record_sources(at, [(finest.as_str(), state)])?;
                }
            }
            if part.is_none() {
                for level in &levels {
                    remove_leftovers_below(level.array.location())?;
                }
            }
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
        let level = |level: &LevelPlan, grid: &super::geometry::Grid| PyramidLevel {
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

    /// Whether a level has its documents at a location, which come after everything else.
    fn is_documented(&self, level: &LevelPlan, place: &Location) -> Result<bool, Error> {
        for (name, document) in &level.documents {
            let found = place.store.get(&place.key(name)?)?;
            if found.is_none_or(|found| *found != **document) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn home(&self, level: &LevelPlan) -> Result<Location, Error> {
        self.image.place(&level.path)
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
    pub fn state(&self, for_parts: bool) -> Result<Option<u64>, Error> {
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

    /// The levels in the places where they are built.
    pub fn places(&self) -> Result<Vec<BuiltLevel<'_>>, Error> {
        let image = self.image.image()?;
        let mut levels = Vec::new();
        for plan in &self.plan.levels {
            let home = self.home(plan)?;
            let listed = image.levels.iter().any(|old| old.path == plan.path);
            let replaced = Replaced::of(&home, self.image.format, listed)?;
            let place = match &replaced {
                Some(replaced) => replaced.place()?,
                None => home.clone(),
            };
            let engine = self.context.engine();
            let array = ArrayNode::from_metadata(engine, &place, plan.metadata.clone())?;
            levels.push(BuiltLevel { plan, home, array, replaced });
        }
        if levels.iter().any(BuiltLevel::is_switched) {
            levels
                .iter_mut()
                .filter_map(|level| level.replaced.as_mut())
                .try_for_each(Replaced::settle)?;
        }
        Ok(levels)
    }

    /// Removes everything that was made so far.
    fn clear(&self, levels: &[BuiltLevel<'_>], abandoned: &[String]) -> Result<(), Error> {
        for level in levels {
            match &level.replaced {
                Some(replaced) => replaced.clear()?,
                None => remove_all(&level.home)?,
            }
        }
        let image = self.image.image()?;
        let at = &self.image.location;
        for (key, _) in at.store.list(at.path.as_ref())?.objects {
            let name = key.as_str().rsplit('/').next().unwrap_or_default();
            if is_report(name) {
                at.store.delete(&key, &Condition::None)?;
            }
        }
        for path in abandoned {
            let listed = image.levels.iter().any(|old| old.path == *path);
            if !listed && !levels.iter().any(|level| level.plan.path == *path) {
                remove_all(&self.image.place(path)?)?;
            }
        }
        Ok(())
    }

    /// Whether all levels are complete, down to their documents.
    fn are_built(&self, levels: &[BuiltLevel<'_>]) -> Result<bool, Error> {
        for level in levels {
            if !self.is_documented(level.plan, level.array.location())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs the tasks of some stages that belong to this part.
    pub fn passes(
        &self,
        levels: &[BuiltLevel<'_>],
        stages: std::ops::Range<usize>,
        part: Option<Part>,
        kept: bool,
        counts: &mut [LevelCounts],
        (before, for_parts): (Option<u64>, bool),
    ) -> Result<(), Error> {
        let sizes: Vec<u64> = stages.clone().map(|stage| self.stage_size(levels, stage)).collect();
        let context = self.context.of_steps(sizes.iter().copied().fold(0, u64::saturating_add));
        let _hold = self.image.finest.hold_same()?;
        let mut bytes = 0;
        for (stage, size) in stages.zip(sizes) {
            context.begin_step(size, bytes);
            let done = self.pass(&context, levels, stage, kept, |pass| {
                for at in pass.tasks() {
                    let task = PyramidTask { stage, at };
                    if part.is_none_or(|part| part.takes(task.name().as_bytes())) {
                        let of_task = pass.run(&task.at)?;
                        let first = self.plan.stages[stage].source;
                        counts[first..].iter_mut().zip(&of_task).for_each(|(a, b)| a.add(b));
                    }
                }
                Ok(())
            });
            let changed = || -> Result<bool, Error> { Ok(self.state(for_parts)? != before) };
            let at = || self.image.finest.location().to_string();
            match done {
                Err(error) if is_stale(&error) && changed()? => {
                    return Err(PyramidError::Changed { at: at() }.into());
                }
                Err(error) => return Err(error),
                Ok(()) if changed()? => return Err(PyramidError::Changed { at: at() }.into()),
                Ok(()) => {}
            }
            bytes = counts.iter().map(|counts| counts.bytes).sum();
        }
        Ok(())
    }

    /// How much a stage reads, in bytes.
    fn stage_size(&self, levels: &[BuiltLevel<'_>], stage: usize) -> u64 {
        self.source(levels, stage).decoded_len()
    }

    /// The array that a stage reads.
    fn source<'l>(&'l self, levels: &'l [BuiltLevel<'_>], stage: usize) -> &'l Array {
        match self.plan.stages[stage].source.checked_sub(1).and_then(|i| levels.get(i)) {
            Some(level) => &level.array,
            None => &self.image.finest,
        }
    }

    /// Calls `work` with the pass of a stage.
    fn pass<T>(
        &self,
        context: &JobContext,
        levels: &[BuiltLevel<'_>],
        stage: usize,
        kept: bool,
        work: impl FnOnce(&Pass<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let of_stage = &self.plan.stages[stage];
        let range = of_stage.source..of_stage.source + of_stage.blocks.len();
        let mut made = Vec::new();
        for (level, grid) in levels[range.clone()].iter().zip(&self.plan.grids[range]) {
            let kept = if kept { stored_cells(&level.array)? } else { HashSet::new() };
            made.push(PassLevel { array: &level.array, grid, kept });
        }
        let source = self.source(levels, stage);
        let name = levels.get(of_stage.source).map_or("", |level| level.plan.path.as_str());
        let pass = Pass::new(context, of_stage, source, made, self.plan.method, name)?;
        work(&pass)
    }

    /// All tasks that processes can share.
    pub fn tasks(&self) -> Result<Vec<PyramidTask>, Error> {
        let levels = self.places()?;
        self.pass(self.context, &levels, 0, false, |pass| {
            Ok(pass.tasks().into_iter().map(|at| PyramidTask { stage: 0, at }).collect())
        })
    }

    /// Runs one task.
    pub fn run_task(&self, task: &PyramidTask) -> Result<Vec<LevelCounts>, Error> {
        let at = &self.image.location;
        if at.store.get(&at.key(PYRAMID_MARKER)?)?.is_none() {
            // It was finished or abandoned, and must not be written to any more.
            return Err(JobError::NothingBegun { at: at.to_string() }.into());
        }
        if task.stage != 0 || task.at.len() != self.image.finest.shape().len() {
            let reason = "a task has different axes".to_owned();
            return Err(JobError::Plan { at: at.to_string(), reason }.into());
        }
        let levels = self.places()?;
        let _hold = self.image.finest.hold_same()?;
        self.pass(self.context, &levels, 0, true, |pass| pass.run(&task.at))
    }

    /// Declares the levels when all objects are there.
    fn finish(
        &self,
        levels: &[BuiltLevel<'_>],
        surplus: &[String],
        in_parts: bool,
        marker: Marker,
    ) -> Result<(), Error> {
        let at = &self.image.location;
        if in_parts && !marker.is_under_way(at)? {
            // Another process has finished it, and others may have changed it since.
            return Ok(());
        }
        for level in levels.iter().filter(|level| !level.is_switched()) {
            if level.replaced.is_none() {
                self.make_groups(&level.plan.path)?;
            }
            let place = level.array.location();
            for (name, document) in &level.plan.documents {
                place.store.put(&place.key(name)?, document, Condition::None)?;
            }
        }
        if levels.iter().any(|level| level.replaced.is_some()) {
            // Until the new levels are in place, the image has none but the finest.
            self.declare(&[])?;
        }
        for level in levels {
            if let Some(replaced) = &level.replaced {
                replaced.switch()?;
            }
            if self.image.format == ZarrFormat::V3 {
                // What cannot be renewed is out of date, and `verify` says so.
                let _ = renew_consolidated_above(&level.home);
            }
        }
        self.declare(&self.plan.levels)?;
        for path in surplus {
            remove_all(&self.image.place(path)?)?;
        }
        for level in levels {
            if let Some(replaced) = &level.replaced {
                replaced.end()?;
            }
        }
        marker.end(at)
    }

    /// The paths of old levels that the image no longer has.
    fn surplus(&self) -> Result<Vec<String>, Error> {
        let images = &self.image.metadata.images;
        let old = self.image.image()?.levels.iter().skip(1).map(|level| level.path.clone());
        let elsewhere = |path: &String| {
            images.iter().skip(1).any(|image| image.levels.iter().any(|level| level.path == *path))
        };
        let stays = |path: &String| {
            self.plan.levels.iter().any(|level| level.path == *path) || elsewhere(path)
        };
        Ok(old.filter(|path| !stays(path)).collect())
    }

    /// Makes the groups between the image and a level, if there are any.
    fn make_groups(&self, path: &str) -> Result<(), Error> {
        let names: Vec<&str> = path.split('/').collect();
        for depth in 1..names.len() {
            let group = self.image.place(&names[..depth].join("/"))?;
            if !formats_at(&group)?.is_empty() {
                continue;
            }
            let (name, document) = match self.image.format {
                ZarrFormat::V3 => {
                    (crate::zarr::DOCUMENT, GroupMetadata::new(serde_json::Map::new()).to_bytes())
                }
                ZarrFormat::V2 => (".zgroup", b"{\n  \"zarr_format\": 2\n}\n".to_vec()),
            };
            group.store.put(&group.key(name)?, &document, Condition::None)?;
        }
        Ok(())
    }

    /// Lets the image have these levels below the finest.
    fn declare(&self, levels: &[LevelPlan]) -> Result<(), Error> {
        let failed = std::cell::RefCell::new(None);
        let method = self.plan.method;
        let at = self.image.location.clone().with_format(Some(self.image.format));
        change_attributes(&at, &|attributes| {
            if let Err(error) = declare_in(attributes, levels, method) {
                *failed.borrow_mut() = Some(error);
            }
        })?;
        match failed.into_inner() {
            None => Ok(()),
            Some(source) => {
                Err(Error::Ome { at: self.image.location.to_string(), source: Box::new(source) })
            }
        }
    }
}

impl BuiltLevel<'_> {
    /// Whether it is in the place of the old level already, or on the way there.
    fn is_switched(&self) -> bool {
        self.replaced.as_ref().is_some_and(Replaced::is_switched)
    }
}

/// Changes the attributes of an image to name these levels below the finest.
pub(super) fn declare_in(
    attributes: &mut serde_json::Map<String, Value>,
    levels: &[LevelPlan],
    method: shardine_codec::DownsampleMethod,
) -> Result<(), crate::ome::OmeError> {
    let Some(mut metadata) = OmeMetadata::read(attributes)? else {
        return Err(crate::ome::OmeError::member("multiscales", "it is gone"));
    };
    let Some(image) = metadata.images.first_mut() else {
        return Err(crate::ome::OmeError::member("multiscales", "there is no image any more"));
    };
    let had_levels = image.levels.len() > 1;
    let old = image.levels.split_off(1.min(image.levels.len()));
    for (i, plan) in levels.iter().enumerate() {
        let mut level = old.iter().find(|old| old.path == plan.path).cloned().unwrap_or_default();
        level.path.clone_from(&plan.path);
        image.levels.push(level);
        image.set_placement(i + 1, &plan.placement);
    }
    if !levels.is_empty() {
        image.other.insert("type".to_owned(), json!(method));
    }
    if had_levels || levels.is_empty() {
        // It says how the old levels were made.
        image.other.shift_remove("metadata");
    }
    let version = metadata.version.clone();
    metadata.write(&version, attributes)
}

/// The cells of the objects that an array has.
fn stored_cells(array: &Array) -> Result<HashSet<Vec<u64>>, Error> {
    match array.possible_objects() {
        Err(Error::UnlistedObjects { .. }) => Ok(HashSet::new()),
        objects => {
            let objects = objects?.into_iter().filter(|object| object.listed.is_some());
            Ok(objects.map(|object| object.cell).collect())
        }
    }
}

/// Removes everything below a location that this job has made, or has replaced.
pub(super) fn remove_all(location: &Location) -> Result<(), Error> {
    if let Some(exchange) = location.store.exchange()
        && let Some((beside, name)) = exchange.beside_missing(location.path.as_ref())
    {
        return Ok(beside.remove_tree(&name)?);
    }
    let mut folders = vec![location.path.clone()];
    while let Some(folder) = folders.pop() {
        let listing = location.store.list(folder.as_ref())?;
        for (key, _) in &listing.objects {
            location.store.delete(key, &Condition::None)?;
        }
        folders.extend(listing.folders.into_iter().map(Some));
    }
    Ok(())
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
