//! `verify`, `repair` and `compact`.

use std::collections::BTreeMap;
use std::path::Path;

use pyo3::prelude::*;
use serde_json::{Value, json};
use shardine::Location;
use shardine::jobs::{
    CompactOptions, RepairOptions, VerifyOptions, compact as compact_all, repair as repair_all,
    verify as verify_all,
};

use super::{Job, Report, report};

pub fn verify(job: &Job<'_>) -> PyResult<Report> {
    let options = &job.options;
    let location = options.location("url", "source_options")?;
    let mut asked = VerifyOptions::new()
        .decode(options.flag("decode")?)
        .metadata_only(options.flag("metadata_only")?)
        .level(options.get("level")?)
        .part(options.part()?);
    if let Some(most) = options.get("max_findings")? {
        asked = asked.max_findings(most);
    }
    let engine = job.engine()?;
    let (findings, summary) = job.run(&engine, |context| {
        let mut findings = Vec::new();
        let tell = &mut |finding| findings.push(finding);
        let summary = verify_all(context, &location, &asked, tell)?;
        Ok((findings, summary))
    })?;
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for finding in &findings {
        *kinds.entry(finding.kind.name()).or_default() += 1;
    }
    for (kind, count) in summary.untold.kinds() {
        *kinds.entry(kind.name()).or_default() += count;
    }
    let mut totals = summary.to_json(&asked);
    totals["kinds"] = json!(kinds);
    let findings: Vec<Value> = findings.iter().map(|finding| finding.to_json()).collect();
    Ok(report([
        ("ok", json!(summary.is_ok())),
        ("findings", json!(findings)),
        ("part", json!(asked.part.map(|part| part.to_string()))),
        ("summary", totals),
    ]))
}

pub fn repair(job: &Job<'_>) -> PyResult<Report> {
    let options = &job.options;
    let location = options.location("url", "source_options")?;
    let aside = set_aside(job, &location)?;
    let folder = aside.to_string();
    let asked = RepairOptions::new(aside)
        .dry_run(options.flag("dry_run")?)
        .decode(options.flag("decode")?)
        .accept_loss(options.flag("accept_loss")?);
    let engine = job.engine()?;
    let (repairs, summary) = job.run(&engine, |context| {
        let mut repairs = Vec::new();
        let tell = &mut |done| repairs.push(done);
        let summary = repair_all(context, &location, &asked, tell)?;
        Ok((repairs, summary))
    })?;
    let repairs: Vec<Value> = repairs.iter().map(|repair| repair.to_json()).collect();
    Ok(report([
        ("ok", json!(summary.is_ok())),
        ("dry_run", json!(asked.dry_run)),
        ("repairs", json!(repairs)),
        ("set_aside", json!(folder)),
        ("only_read", json!(summary.only_read)),
        ("summary", summary.to_json()),
    ]))
}

/// Where damaged bytes are kept: where the caller says, or beside what is repaired.
fn set_aside(job: &Job<'_>, location: &Location) -> PyResult<Location> {
    let given = job.options.location_if_given("set_aside", "target_options")?;
    let aside = match given {
        Some(aside) => aside,
        None => {
            let beside = job.short(|| location.sibling(".set-aside"))?;
            return beside.ok_or_else(|| {
                let at = format!("{location} is the root of its store");
                let message = format!("{at}, so there is no place beside it");
                job.wrong(message, Some("give set_aside, where damaged bytes go"))
            });
        }
    };
    if let (Some(of), Some(at)) = (location.url(), aside.url())
        && Path::new(&at).starts_with(&of)
    {
        return Err(job.options.wrong("set_aside", "lies inside the data set that is repaired"));
    }
    Ok(aside)
}

pub fn compact(job: &Job<'_>) -> PyResult<Report> {
    let options = &job.options;
    let location = options.location("url", "source_options")?;
    let mut asked = CompactOptions::new().dry_run(options.flag("dry_run")?);
    if let Some(share) = options.share("min_gap")? {
        asked = asked.min_gap(share);
    }
    let engine = job.engine()?;
    let (shards, failed, summary) = job.run(&engine, |context| {
        let (mut shards, mut failed) = (Vec::new(), Vec::new());
        let summary = compact_all(context, &location, &asked, &mut |result| match result {
            Ok(done) => shards.push(done.to_json()),
            Err(error) => failed.push(error.to_string()),
        })?;
        Ok((shards, failed, summary))
    })?;
    Ok(report([
        ("ok", json!(failed.is_empty())),
        ("dry_run", json!(asked.dry_run)),
        ("compacted", json!(shards)),
        ("failed", json!(failed)),
        ("summary", summary.to_json()),
    ]))
}
