//! `shardine pyramid` of a Zarr Vectors store: its coarser levels.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde_json::{Map, Value, json};
use shardine::Location;
use shardine::jobs::{
    PyramidVectorsLevel, PyramidVectorsOptions, PyramidVectorsReport, pyramid_vectors,
    pyramid_vectors_to,
};

use crate::cli::Machine;
use crate::failure::Failure;
use crate::packing::waiting;
use crate::progress::Progress;
use crate::write::describe;
use crate::{consolidate, said, units};

/// What only levels of a Zarr Vectors store have.
#[derive(Debug, Args)]
#[command(next_help_heading = "Zarr Vectors")]
pub struct LevelArgs {
    /// Make the edges of bins this many times as long as in the level before: one number for each
    /// level, the last for all further ones [default: 2]
    #[arg(long, value_name = "F,F,..", value_parser = factors)]
    coarsen: Option<Numbers>,
    /// Keep one of this many objects of the level before: one number for each level, the last for
    /// all further ones [default: 1]
    #[arg(long, value_name = "S,S,..", value_parser = factors)]
    sparsity: Option<Numbers>,
    /// Make the edges of chunks this many times as long as in the level before: one number for each
    /// level, the last for all further ones [default: 1]
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    chunk_scale: Vec<u32>,
    /// Draw the objects that are kept by this number, as NumPy does [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Keep vertices that memory has no room for in this folder while they are sorted
    #[arg(long, value_name = "FOLDER")]
    spool: Option<PathBuf>,
}

/// Factors of levels.
#[derive(Debug, Clone)]
struct Numbers(Vec<f64>);

fn factors(text: &str) -> Result<Numbers, String> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    match numbers {
        Ok(numbers) if numbers.iter().all(|number| *number >= 1.0) => Ok(Numbers(numbers)),
        _ => Err(format!("\"{text}\" is not a list of numbers from 1 on, such as 2,2,4")),
    }
}

impl LevelArgs {
    /// An option that was given, by its name.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--coarsen", self.coarsen.is_some()),
            ("--sparsity", self.sparsity.is_some()),
            ("--chunk-scale", !self.chunk_scale.is_empty()),
            ("--seed", self.seed.is_some()),
            ("--spool", self.spool.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The options, with defaults for what is not given.
    pub fn options(&self) -> PyramidVectorsOptions {
        let mut options = PyramidVectorsOptions::new();
        if let Some(Numbers(coarsen)) = &self.coarsen {
            options.coarsen.clone_from(coarsen);
        }
        if let Some(Numbers(sparsity)) = &self.sparsity {
            options.sparsity.clone_from(sparsity);
        }
        if !self.chunk_scale.is_empty() {
            options.chunk_scale.clone_from(&self.chunk_scale);
        }
        options.seed = self.seed.unwrap_or(0);
        options.spool.clone_from(&self.spool);
        options
    }
}

/// Makes the levels of a store, in itself or in a new one. `url` is how the one with the levels was
/// named.
pub fn make(
    url: &str,
    location: &Location,
    target: Option<&Location>,
    mut options: PyramidVectorsOptions,
    json: bool,
    machine: &Machine,
) -> Result<(), Failure> {
    let start = Instant::now();
    let (engine, memory) = machine.engine_and_rows()?;
    options.memory = memory;
    let progress = Progress::things("coarsening", 0);
    let context = progress.context(&engine);
    let result = match target {
        Some(target) => pyramid_vectors_to(&context, location, target, &options),
        None => pyramid_vectors(&context, location, &options),
    };
    progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    if json && let Err(error) = &result {
        let report = json!({ "failed": error.to_string(), "seconds": seconds });
        writeln!(std::io::stdout(), "{report}")?;
    }
    let report = result?;
    if !options.dry_run {
        consolidate::renew_above(&target.unwrap_or(location).join("0")?);
    }
    let mut out = said::out(json);
    if json {
        writeln!(out, "{}", to_json(&report, &options, seconds))?;
        return Ok(());
    }
    if let Some(line) = waiting(options.part, &report.outcome) {
        writeln!(out, "{line}")?;
        return Ok(());
    }
    for level in &report.levels {
        writeln!(out, "{}/{}", url.trim_end_matches('/'), shown(level, options.dry_run))?;
    }
    if !report.left_out.is_empty() && !report.unchanged {
        writeln!(out, "only level 0 has {}", report.left_out.join(", "))?;
    }
    if options.dry_run {
        return Ok(());
    }
    if report.unchanged {
        writeln!(out, "all levels are there already; nothing was done")?;
        return Ok(());
    }
    let resumed = if report.resumed { "; resumed an earlier run" } else { "" };
    writeln!(
        out,
        "{}: {} written, {} in {}{resumed}",
        units::count(report.levels.len() as u64, "level"),
        units::count(report.written.objects_written, "object"),
        units::size(report.written.bytes_written),
        units::duration(seconds),
    )?;
    Ok(())
}

fn lengths(lengths: &[f64]) -> String {
    lengths.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
}

/// A line about a level.
fn shown(level: &PyramidVectorsLevel, dry_run: bool) -> String {
    let (bins, chunks) = (lengths(&level.bin), lengths(&level.chunk));
    if dry_run {
        let kept = match level.sparsity {
            1.0 => String::new(),
            sparsity => format!(", 1 of {sparsity} objects"),
        };
        return format!("{}: would have bins of {bins}, chunks of {chunks}{kept}", level.level);
    }
    let objects = level.objects.map(|objects| format!(" of {}", units::count(objects, "object")));
    let kept = if level.kept { ", already there" } else { "" };
    format!(
        "{}: {}{} in {}, bins of {bins}{kept}",
        level.level,
        super::vertices(level.vertices),
        objects.unwrap_or_default(),
        units::count(level.chunks, "chunk"),
    )
}

fn to_json(report: &PyramidVectorsReport, options: &PyramidVectorsOptions, seconds: f64) -> Value {
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    put("format", json!("zarr-vectors"));
    put("dry_run", json!(options.dry_run));
    put("levels", report.levels.iter().map(PyramidVectorsLevel::to_json).collect());
    put("left_out", json!(report.left_out));
    put("resumed", json!(report.resumed));
    put("unchanged", json!(report.unchanged));
    put("part", json!(options.part.map(|part| part.to_string())));
    put("parts_missing", json!(report.outcome.missing()));
    members.extend(describe(&report.written, seconds));
    Value::Object(members)
}
