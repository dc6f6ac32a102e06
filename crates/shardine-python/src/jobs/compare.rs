//! `compare`.

use std::fs;
use std::path::Path;

use pyo3::prelude::*;
use serde_json::{Value, json};
use shardine::files::{Input, is_npy};
use shardine::jobs::{Comparand, CompareOptions, compare as compare_sets, compare_objects};

use super::{Job, Report, report};

pub fn run(job: &Job<'_>) -> PyResult<Report> {
    let options = &job.options;
    let most = options.get::<u64>("max_differences")?.unwrap_or(10_000);
    let mut told = Told { differences: Vec::new(), count: 0, most };
    let engine = job.engine()?;
    if options.flag("bytes")? {
        options.refuse(&["level", "data_only"], "cannot be combined with bytes")?;
        let a = options.location("a", "source_options")?;
        let b = options.location("b", "target_options")?;
        let (told, summary) = job.run(&engine, |context| {
            let tell = &mut |difference: shardine::jobs::ObjectDifference| {
                told.add(|| difference.to_json());
            };
            let summary = compare_objects(context, &a, &b, tell)?;
            Ok((told, summary))
        })?;
        let totals = json!({
            "objects": summary.objects,
            "bytes": summary.bytes,
            "differences": summary.differences,
        });
        return Ok(told.report(summary.is_equal(), totals));
    }
    let a = comparand(job, "a", "source_options")?;
    let b = comparand(job, "b", "target_options")?;
    let asked =
        CompareOptions::new().data_only(options.flag("data_only")?).level(options.get("level")?);
    let (told, summary) = job.run(&engine, |context| {
        let tell = &mut |difference: shardine::jobs::Difference| {
            told.add(|| difference.to_json());
        };
        let summary = compare_sets(context, a, b, &asked, tell)?;
        Ok((told, summary))
    })?;
    let totals = json!({
        "arrays": summary.arrays,
        "elements": summary.elements,
        "differing": summary.differing,
        "chunks_not_decoded": summary.chunks_not_decoded,
        "differences": summary.differences,
    });
    Ok(told.report(summary.is_equal(), totals))
}

/// A data set, or a `.npy` file.
fn comparand(job: &Job<'_>, name: &str, own: &str) -> PyResult<Comparand> {
    let url = job.options.get::<String>(name)?.unwrap_or_default();
    let path = Path::new(&url);
    let is_file = !url.contains("://")
        && is_npy(path)
        && !fs::metadata(path).is_ok_and(|found| found.is_dir());
    match is_file {
        true => Ok(job.short(|| Ok(Input::open(path)?))?.into()),
        false => Ok(job.options.location(name, own)?.into()),
    }
}

/// Differences as they come.
struct Told {
    differences: Vec<Value>,
    count: u64,
    most: u64,
}

impl Told {
    fn add(&mut self, difference: impl FnOnce() -> Value) {
        self.count += 1;
        if self.count <= self.most {
            self.differences.push(difference());
        }
    }

    fn report(self, equal: bool, summary: Value) -> Report {
        report([
            ("equal", json!(equal)),
            ("differences", json!(self.differences)),
            ("untold", json!(self.count.saturating_sub(self.most))),
            ("summary", summary),
        ])
    }
}
