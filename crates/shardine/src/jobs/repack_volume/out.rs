//! Plans a volume, or a folder of values by key, packed in another way at another place.

use super::{Packed, RepackVolumeOptions, RepackedScale};
use crate::jobs::frame::JobContext;
use crate::jobs::rebuild::{Document, OutOptions, OutPlan, PartOutcome, StepDone, make};
use crate::jobs::repack::{REPACK, RepackCheck};
use crate::precomputed::INFO;
use crate::{Error, Location};

pub(super) fn repack(
    context: &JobContext,
    source: &Location,
    target: &Location,
    wanted: impl Packed,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<PartOutcome, Error> {
    wanted.check_inside()?;
    if options.dry_run {
        wanted.reports(false).into_iter().for_each(tell);
        return Ok(PartOutcome::Complete);
    }
    wanted.check_names()?;
    let (engine, steps) = (context.engine(), wanted.steps(context.engine(), target)?);
    let plan = OutPlan {
        kind: &REPACK,
        request: wanted.request(),
        steps,
        documents: vec![Document { key: target.key(INFO)?, bytes: wanted.info() }],
        others: Some(Box::new(|path, is_folder| wanted.part(path, is_folder))),
        last_check: Box::new(|| wanted.recount(engine, target).map(drop)),
    };
    let how = OutOptions {
        restart: options.restart,
        take_over: options.take_over,
        part: options.part,
        check: Some(if options.check { RepackCheck::Bytes } else { RepackCheck::None }),
        ..OutOptions::default()
    };
    let mut done: Vec<StepDone> = Vec::new();
    let outcome = make(context, source, target, plan, &how, &mut |_, step| done.push(step))?;
    let resumed = done.iter().any(|step| step.resumed);
    let counts: Vec<_> = done.iter().map(|step| step.counts).collect();
    if outcome == PartOutcome::Complete {
        wanted.counted(&counts).reports(resumed).into_iter().for_each(tell);
    }
    Ok(outcome)
}
