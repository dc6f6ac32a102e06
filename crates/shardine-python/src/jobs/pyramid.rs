//! `pyramid`.

use pyo3::prelude::*;
use serde_json::{Value, json};
use shardine::jobs::{
    OmeForm, PartOutcome, PyramidLevel, PyramidOptions, PyramidVectorsLevel, PyramidVectorsOptions,
    describe_written, pyramid, pyramid_to, pyramid_vectors,
};
use shardine::ome::{OmeRelease, OmeVersion};
use shardine::vectors::VectorStore;
use shardine::{DownsampleMethod, Group, Location, Packing, RegionText, open_in};

use super::{Job, Report, report};

/// Keywords that only new images have.
pub const OF_IMAGES: [&str; 5] = ["ome_version", "axes", "scale", "unit", "name"];

/// Keywords that only stores of Zarr Vectors have.
const OF_VECTORS: [&str; 5] = ["coarsen", "sparsity", "chunk_scale", "seed", "spool"];

pub fn run(job: &Job<'_>) -> PyResult<Report> {
    let location = job.options.location("url", "source_options")?;
    let engine = job.engine()?;
    // What cannot be opened is told by the job, which opens it in its own way.
    let is_vectors = job.short(|| {
        let set = open_in(&engine, &location).ok();
        let group = set.as_ref().and_then(|set| set.downcast_ref::<Group>());
        Ok(group.is_some_and(VectorStore::is_store))
    })?;
    match is_vectors {
        true => of_vectors(job, &location),
        false => of_image(job, &location),
    }
}

fn of_image(job: &Job<'_>, location: &Location) -> PyResult<Report> {
    let options = &job.options;
    options.refuse(&OF_VECTORS, "only applies to Zarr Vectors")?;
    let update = options.flag("update")?;
    if update {
        let packing = ["chunks_per_shard", "shard", "target_size", "index", "chunk", "codec"];
        options
            .refuse(&packing, "cannot be combined with update, which leaves chunks as they are")?;
    }
    let target = options.location_if_given("output", "target_options")?;
    if target.is_none() {
        options.refuse(&OF_IMAGES, "only applies with output")?;
    }
    let mut asked = PyramidOptions::new()
        .overwrite(options.flag("overwrite")?)
        .restart(options.flag("restart")?)
        .dry_run(options.flag("dry_run")?)
        .part(options.part()?)
        .update(update);
    asked.levels = options.unless_auto("levels", || options.get("levels"))?;
    asked.factors = options.unless_auto("factors", || options.numbers("factors"))?;
    asked.method = options.parsed::<DownsampleMethod>("method")?;
    asked.take_over = options.flag("take_over")?;
    asked.task_size = options.size("task_size")?;
    let engine = job.engine()?;
    if let Some(text) = options.parsed::<RegionText>("region")? {
        let region = job.short(|| open_in(&engine, location)?.region(0, &text, false))?;
        asked = asked.region(region);
    }
    let (index, codecs) = (options.index()?, options.codecs()?);
    let packing = options.packing()?.unwrap_or(Packing::Keep);
    asked.chunk = options.numbers("chunk")?;
    let form = image_form(job)?;
    let summary = match &target {
        None => {
            (asked.packing, asked.index, asked.codecs) = (packing, index, codecs);
            job.run(&engine, |context| pyramid(context, location, &asked, &mut |_| ()))?
        }
        Some(target) => {
            // The other levels are stored like the finest.
            let mut form = form.packing(packing);
            (form.index, form.codecs) = (index, codecs);
            job.run(&engine, |context| {
                pyramid_to(context, location, target, &form, &asked, &mut |_| ())
            })?
        }
    };
    let levels: Vec<Value> = summary.levels.iter().map(PyramidLevel::to_json).collect();
    let mut report = report([
        ("dry_run", json!(asked.dry_run)),
        ("method", json!(summary.method)),
        ("levels", json!(levels)),
        ("passes", json!(summary.passes)),
        ("resumed", json!(summary.resumed)),
        ("unchanged", json!(summary.unchanged)),
    ]);
    job.add_part(&mut report, &summary.outcome)?;
    if !update {
        job.renew(&mut report, target.as_ref().unwrap_or(location), &summary.outcome)?;
    }
    Ok(report)
}

fn of_vectors(job: &Job<'_>, location: &Location) -> PyResult<Report> {
    let options = &job.options;
    let alone = [
        "factors",
        "method",
        "update",
        "region",
        "output",
        "part",
        "task_size",
        "chunks_per_shard",
        "shard",
        "target_size",
        "index",
        "chunk",
        "codec",
        "codecs",
    ];
    options.refuse(&alone, "cannot be used with Zarr Vectors")?;
    options.refuse(&OF_IMAGES, "only applies to images")?;
    let mut asked = PyramidVectorsOptions::new()
        .overwrite(options.flag("overwrite")?)
        .restart(options.flag("restart")?)
        .dry_run(options.flag("dry_run")?);
    asked.levels = options.unless_auto("levels", || options.get("levels"))?;
    asked.take_over = options.flag("take_over")?;
    asked.coarsen = options.numbers("coarsen")?.unwrap_or(asked.coarsen);
    asked.sparsity = options.numbers("sparsity")?.unwrap_or(asked.sparsity);
    asked.chunk_scale = options.numbers("chunk_scale")?.unwrap_or(asked.chunk_scale);
    asked.seed = options.get("seed")?.unwrap_or(0);
    asked.spool = options.get("spool")?;
    let engine = job.engine()?;
    let done = job.run(&engine, |context| pyramid_vectors(context, location, &asked))?;
    let levels: Vec<Value> = done.levels.iter().map(PyramidVectorsLevel::to_json).collect();
    let mut report = report([
        ("format", json!("zarr-vectors")),
        ("dry_run", json!(asked.dry_run)),
        ("levels", json!(levels)),
        ("left_out", json!(done.left_out)),
        ("resumed", json!(done.resumed)),
        ("unchanged", json!(done.unchanged)),
    ]);
    report.extend(describe_written(&done.written));
    let first = job.short(|| location.join("0"))?;
    job.renew(&mut report, &first, &PartOutcome::Complete)?;
    Ok(report)
}

/// The form of new images, as far as it does not concern how they are stored.
pub fn image_form(job: &Job<'_>) -> PyResult<OmeForm> {
    let options = &job.options;
    let mut form = OmeForm::new();
    if let Some(version) = options.parsed::<OmeVersion>("ome_version")? {
        if version.release() < OmeRelease::V0_4 {
            return Err(options.wrong("ome_version", "versions before 0.4 are only read"));
        }
        form.version = version;
    }
    form.axes = match options.value("axes")? {
        None => None,
        // Names of one letter each.
        Some(axes) => match axes.extract::<String>() {
            Ok(letters) => Some(letters.chars().map(String::from).collect()),
            Err(_) => options.get("axes")?,
        },
    };
    form.scale = options.numbers::<f64>("scale")?;
    if form.scale.iter().flatten().any(|n| !n.is_finite() || *n <= 0.0) {
        return Err(options.wrong("scale", "needs numbers above 0"));
    }
    form.unit = options.get("unit")?;
    form.name = options.get("name")?;
    Ok(form)
}
