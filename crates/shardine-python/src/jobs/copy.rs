//! `copy`, `migrate` and `consolidate`.

use pyo3::prelude::*;
use serde_json::json;
use shardine::jobs::{
    CopyCheck, CopyOptions, MigrateOptions, MigrateSummary, Migrated, MigratedChange, PartOutcome,
    copy as copy_all, migrate as migrate_all,
};
use shardine::ome::{OmeRelease, OmeVersion};
use shardine::zarr::{consolidate as consolidate_all, remove_consolidated};

use super::{Job, Report, report};

pub fn copy(job: &Job<'_>) -> PyResult<Report> {
    let options = &job.options;
    let source = options.location("source", "source_options")?;
    let target = options.location("target", "target_options")?;
    let engine = job.engine()?;
    let mut asked = CopyOptions::new().overwrite(options.flag("overwrite")?);
    if let Some(requests) = options.get::<usize>("requests")? {
        if !(1..=1024).contains(&requests) {
            return Err(options.wrong("requests", format!("{requests} is not from 1 to 1024")));
        }
        asked = asked.requests(requests);
    }
    asked.threads = options.get("threads")?.unwrap_or(0);
    asked.memory = options.size("memory")?.unwrap_or(asked.memory);
    let checks =
        [("none", CopyCheck::None), ("size", CopyCheck::Size), ("content", CopyCheck::Content)];
    asked.check = options.word("verify", &checks)?.unwrap_or_default();
    asked.part = options.part()?;
    asked.take_over = options.flag("take_over")?;
    let done = job.run(&engine, |context| copy_all(&source, &target, &asked.context(context)))?;
    let mut report = done.to_json();
    job.add_part(&mut report, &done.outcome)?;
    job.renew(&mut report, &target, &done.outcome)?;
    Ok(report)
}

pub fn migrate(job: &Job<'_>) -> PyResult<Report> {
    let options = &job.options;
    let location = options.location("url", "source_options")?;
    let mut asked = MigrateOptions::new().dry_run(options.flag("dry_run")?);
    let (keep, remove) = (options.flag("keep_v2")?, options.flag("remove_v2")?);
    if keep && remove {
        return Err(options.wrong("keep_v2", "cannot be combined with remove_v2"));
    }
    if keep || remove {
        asked = asked.remove_v2(remove);
    }
    match options.get::<String>("ome_version")?.as_deref() {
        None => {}
        Some("none") => asked = asked.leave_ome(true),
        Some(_) => {
            if let Some(version) = options.parsed::<OmeVersion>("ome_version")? {
                if version.release() < OmeRelease::V0_5 {
                    let reason = "OME-Zarr before 0.5 is Zarr v2; shardine.convert can write 0.4";
                    return Err(options.wrong("ome_version", reason));
                }
                asked = asked.ome_version(version);
            }
        }
    }
    let engine = job.engine()?;
    let (changes, summary) = job.run(&engine, |context| {
        let mut changes = Vec::new();
        let tell = &mut |done: &Migrated| changes.push(done.clone());
        let summary = migrate_all(context, &location, &asked, tell)?;
        Ok((changes, summary))
    })?;
    let of = |change: MigratedChange| {
        let of = changes.iter().filter(|done| done.change == change);
        json!(of.map(|done| done.object.as_str()).collect::<Vec<_>>())
    };
    let mut report = report([
        ("dry_run", json!(asked.dry_run)),
        ("written", of(MigratedChange::Written)),
        ("replaced", of(MigratedChange::Replaced)),
        ("removed", of(MigratedChange::Removed)),
        ("summary", MigrateSummary::to_json(&summary)),
    ]);
    job.renew(&mut report, &location, &PartOutcome::Complete)?;
    Ok(report)
}

pub fn consolidate(job: &Job<'_>) -> PyResult<Report> {
    let location = job.options.location("url", "source_options")?;
    if job.options.flag("remove")? {
        let removed = job.short(|| remove_consolidated(&location))?;
        return Ok(report([("removed", json!(removed))]));
    }
    let nodes = job.short(|| consolidate_all(&location))?;
    Ok(report([("nodes", json!(nodes))]))
}
