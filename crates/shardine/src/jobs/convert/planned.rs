//! A conversion that is planned.

use super::super::frame::JobContext;
use super::super::rebuild::{OutPlan, make};
use super::options::{ConvertOptions, ConvertSummary, ConvertedLevel};
use crate::{Error, Location};

/// A conversion of which everything is known but what its chunks are.
pub(in crate::jobs) struct Planned {
    pub plan: OutPlan<'static>,
    /// For each step, the levels that it makes.
    pub reports: Vec<Vec<ConvertedLevel>>,
    pub summary: ConvertSummary,
}

impl Planned {
    /// Does it, or with [`ConvertOptions::dry_run`] only tells of it. `tell` is called with each
    /// level when it is done.
    pub fn run(
        self,
        context: &JobContext,
        source: &Location,
        target: &Location,
        options: &ConvertOptions,
        tell: &mut dyn FnMut(ConvertedLevel),
    ) -> Result<ConvertSummary, Error> {
        let Self { plan, mut reports, summary } = self;
        if options.dry_run {
            reports.into_iter().flatten().for_each(tell);
            return Ok(summary);
        }
        let outcome = make(context, source, target, plan, &options.out(), &mut |i, done| {
            let levels = reports.get_mut(i).map(std::mem::take).unwrap_or_default();
            for (number, level) in levels.into_iter().enumerate() {
                tell(level.done(&done, number));
            }
        })?;
        Ok(ConvertSummary { outcome, ..summary })
    }
}
