//! Runs the passes of a pyramid, all of them or task by task.

use std::collections::HashSet;
use std::ops::Range;

use shardine_store::StoreExt;

use super::build::{Build, PYRAMID_MARKER};
use super::output::LevelCounts;
use super::pass::{Pass, PassLevel};
use super::places::BuiltLevel;
use super::{PyramidError, PyramidTask};
use crate::jobs::JobContext;
use crate::jobs::frame::{JobError, Part};
use crate::jobs::repack::is_stale;
use crate::{Array, Error};

impl Build<'_> {
    /// Runs the tasks of some stages that belong to this part.
    pub(super) fn passes(
        &self,
        levels: &[BuiltLevel<'_>],
        stages: Range<usize>,
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
