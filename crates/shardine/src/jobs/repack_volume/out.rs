//! Plans a repacked volume, or folder of values by key, at another location.

use super::volume::Scales;
use super::{Packed, RepackVolumeOptions, RepackedScale};
use crate::jobs::frame::JobContext;
use crate::jobs::frame::place::check_apart;
use crate::jobs::losses::refuse_data_set;
use crate::jobs::rebuild::{Document, OutPlan, PartOutcome, StepDone, make};
use crate::jobs::repack::REPACK;
use crate::jobs::whole::check_whole;
use crate::precomputed::INFO;
use crate::{Error, Location};

/// Plans the new data set.
fn plan<P: Packed + 'static>(
    context: &JobContext,
    target: &Location,
    wanted: &P,
) -> Result<OutPlan<'static>, Error> {
    wanted.check_names()?;
    let engine = context.engine().clone();
    let steps = wanted.steps(&engine, target)?;
    let (others, checked, at) = (wanted.clone(), wanted.clone(), target.clone());
    Ok(OutPlan {
        kind: &REPACK,
        source_name: None,
        request: wanted.request(),
        steps,
        documents: vec![Document { key: target.key(INFO)?, bytes: wanted.info() }],
        others: Some(Box::new(move |path, is_folder| others.part(path, is_folder))),
        others_required: true,
        last_check: Box::new(move || checked.recount(&engine, &at).map(drop)),
    })
}

/// Plans a volume at a target, with a report of each scale as far as known.
pub(in crate::jobs) fn plan_repack_volume(
    context: &JobContext,
    source: &Location,
    target: &Location,
    options: &RepackVolumeOptions,
) -> Result<(OutPlan<'static>, Vec<RepackedScale>), Error> {
    check_apart(source, target)?;
    check_whole(source, Some(target))?;
    refuse_data_set(context.engine(), source)?;
    let wanted = Scales::open(context.engine(), source, options)?;
    wanted.check_inside()?;
    Ok((plan(context, target, &wanted)?, wanted.reports(false)))
}

pub(super) fn repack<P: Packed + 'static>(
    context: &JobContext,
    source: &Location,
    target: &Location,
    mut wanted: P,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<PartOutcome, Error> {
    wanted.check_inside()?;
    if options.dry_run {
        wanted.reports(false).into_iter().for_each(tell);
        return Ok(PartOutcome::Complete);
    }
    let plan = plan(context, target, &wanted)?;
    let mut done: Vec<StepDone> = Vec::new();
    let tell_step = &mut |_, step| done.push(step);
    let outcome = make(context, source, target, plan, &options.out(), tell_step)?;
    if outcome == PartOutcome::Complete {
        let counts: Vec<_> = done.iter().map(|step| step.counts).collect();
        wanted.count(&counts);
        let resumed = done.iter().any(|step| step.resumed);
        wanted.reports(resumed).into_iter().for_each(tell);
    }
    Ok(outcome)
}
