//! What a conversion from one format to another says.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use shardine::jobs::{
    ConvertSummary, ConvertedLevel, JobContext, OmeForm, RepackCheck, RepackOutcome, VolumeForm,
    ZarrForm,
};
use shardine::{Engine, Error, Location};

use super::Convert;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{command, consolidate, said, sharding, units, volume};

/// What is made.
pub enum Form {
    Zarr(ZarrForm),
    Ome { form: OmeForm, from_file: bool },
    Volume(VolumeForm),
}

impl Form {
    /// Whether levels are told one by one how they were made.
    fn counts_each(&self) -> bool {
        match self {
            Self::Zarr(form) => form.zarr_format.is_some(),
            Self::Ome { .. } => true,
            Self::Volume(_) => false,
        }
    }

    /// Whether nothing was encoded before.
    fn is_from_file(&self) -> bool {
        matches!(self, Self::Ome { from_file: true, .. })
    }
}

/// A conversion that calls back with each level.
type Levels<'a> = &'a mut dyn FnMut(ConvertedLevel);

/// Converts, and reports.
pub fn told(
    args: &Convert,
    form: &Form,
    target: &Location,
    engine: &Arc<Engine>,
    convert: impl FnOnce(&JobContext, Levels<'_>) -> Result<ConvertSummary, Error>,
) -> Result<(), Failure> {
    let job = &args.job;
    let progress = Progress::things("converting", 0);
    let context = progress.context(engine);
    let start = Instant::now();
    let mut levels = Vec::new();
    let mut written = Ok(());
    let tell = &mut |level: ConvertedLevel| {
        if !job.json && written.is_ok() {
            let mut line = describe(&level, &args.target, job.dry_run);
            if form.counts_each() && !job.dry_run {
                line += &counts(&level, form);
            }
            written = progress.suspend(|| writeln!(said::words(), "{line}"));
        }
        levels.push(level);
    };
    let result = convert(&context, tell);
    progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    if job.json {
        let summary = result.as_ref().ok();
        let (part, missing) = job.describe_part(summary.map(|summary| &summary.outcome));
        let mut report = json!({
            "dry_run": job.dry_run,
            "part": part,
            "parts_missing": missing,
            "levels": levels.iter().map(ConvertedLevel::to_json).collect::<Vec<_>>(),
            "info": summary.map(|summary| if summary.info_kept { "kept" } else { "new" }),
            "info_not_kept": summary.and_then(|summary| summary.info_not_kept.as_ref()),
            "failed": result.as_ref().err().map(ToString::to_string),
            "seconds": seconds,
        });
        match form {
            Form::Ome { form, .. } => {
                report["ome_version"] = json!(form.version.to_string());
                let image = summary.map(|of| if of.image_kept { "kept" } else { "new" });
                report["image"] = json!(image);
                let reason = summary.and_then(|summary| summary.image_not_kept.as_ref());
                report["image_not_kept"] = json!(reason);
            }
            Form::Volume(_) => {
                let shift = summary.and_then(|summary| summary.position_shift);
                report["position_shift"] = json!(shift);
                let labels = summary.map(|summary| summary.labels_left_out.as_slice());
                let labels = labels.unwrap_or_default().iter();
                let command =
                    |path: &String| json!({ "path": path, "command": label_command(args, path) });
                report["labels_left_out"] = labels.map(command).collect();
            }
            Form::Zarr(_) => {}
        }
        writeln!(io::stdout(), "{report}")?;
    }
    written?;
    let summary = result?;
    if let Some(line) = job.waits(&summary.outcome) {
        if !job.json {
            writeln!(said::words(), "{line}")?;
        }
        return Ok(());
    }
    if !matches!(form, Form::Volume(_)) && !job.dry_run {
        consolidate::renew_above(target);
    }
    if !job.json {
        tell_all(args, form, &levels, &summary, seconds)?;
    }
    Ok(())
}

fn tell_all(
    args: &Convert,
    form: &Form,
    levels: &[ConvertedLevel],
    summary: &ConvertSummary,
    seconds: f64,
) -> Result<(), Failure> {
    let mut out = said::words();
    if let Form::Volume(_) = form {
        match (&summary.info_not_kept, summary.info_kept) {
            (Some(reason), _) => {
                writeln!(out, "info: new; the one stored in the group was not used: {reason}")?;
            }
            (None, true) => writeln!(out, "info: taken unchanged from the group")?,
            (None, false) => {}
        }
    }
    if let Some(shift) = &summary.position_shift {
        let shift = nanometres(shift);
        writeln!(
            out,
            "positions: {shift} further than in the image, as a volume begins at a whole voxel"
        )?;
    }
    match (&summary.image_not_kept, summary.image_kept) {
        (Some(reason), _) => {
            writeln!(out, "metadata: new; that stored in the volume was not used: {reason}")?;
        }
        (None, true) => writeln!(out, "metadata: taken from the volume, which kept it")?,
        (None, false) => {}
    }
    if let Some(command) = summary.labels_left_out.first().map(|label| label_command(args, label)) {
        let labels = summary.labels_left_out.join(", ");
        writeln!(out, "left out: {labels}; to convert label images, use `{command}`")?;
    }
    if args.job.dry_run {
        return Ok(());
    }
    let sum = |of: fn(&ConvertedLevel) -> u64| levels.iter().map(of).sum::<u64>();
    let encoded = if form.is_from_file() { "encoded" } else { "re-encoded" };
    let made = match sum(|level| if is_made(level) { level.chunks_recoded } else { 0 }) {
        0 => String::new(),
        made => format!(", {made} made for lower levels"),
    };
    writeln!(
        out,
        "{}: {} moved, {} {encoded}{made}, {} absent; {} written, {} in {}",
        units::count(levels.len() as u64, "level"),
        units::count(sum(|level| level.chunks_moved), "chunk"),
        sum(|level| if is_made(level) { 0 } else { level.chunks_recoded }),
        sum(|level| level.chunks_absent),
        units::count(sum(|level| level.objects_written), "object"),
        units::size(sum(|level| level.bytes_written)),
        units::duration(seconds),
    )?;
    Ok(())
}

/// Lengths along x, y and z.
fn nanometres(lengths: &[f64]) -> String {
    let lengths: Vec<String> = lengths.iter().map(f64::to_string).collect();
    format!("{} nm", lengths.join(", "))
}

/// Whether the source does not have a level.
fn is_made(level: &ConvertedLevel) -> bool {
    level.method.is_some()
}

/// The command that converts a label image of the source.
fn label_command(args: &Convert, label: &str) -> String {
    let name = label.rsplit('/').next().unwrap_or_default();
    let source = format!("{}/{label}", args.source.trim_end_matches('/'));
    let target = format!("{}-{name}", args.target.trim_end_matches('/'));
    let (source, target) = (command::address(&source), command::address(&target));
    format!("shardine convert {source} {target} --to precomputed")
}

/// What was done to the chunks of a level.
fn counts(level: &ConvertedLevel, form: &Form) -> String {
    if is_made(level) || form.is_from_file() {
        return format!("; {} encoded", units::count(level.chunks_recoded, "chunk"));
    }
    let moved = units::count(level.chunks_moved, "chunk");
    format!("; {moved} moved, {} re-encoded", level.chunks_recoded)
}

/// One line about a level.
fn describe(level: &ConvertedLevel, name: &str, dry_run: bool) -> String {
    let chunks = units::shape(&level.chunk_shape);
    let packing = match (&level.sharding, &level.shard_shape) {
        (_, Some(shard)) => format!("chunks {chunks} in shards {}", units::shape(shard)),
        (Some(sharding), None) => format!("chunks {chunks}, {}", volume::sharding_words(sharding)),
        (None, None) => format!("chunks {chunks}, no shards"),
    };
    let name = format!("{}/{}", name.trim_end_matches('/'), level.target);
    let mut line = match dry_run {
        true => {
            let how = match &level.method {
                Some(method) => format!("made by {method} from the level before"),
                None if level.moves => "moved where they are complete".to_owned(),
                None => "re-encoded".to_owned(),
            };
            format!("{name}: would have {packing}; its chunks would be {how}")
        }
        false => format!("{name}: {packing}"),
    };
    if let Some(method) = level.method.filter(|_| !dry_run) {
        line += &format!("; made by {method} from the level before");
    }
    if let Some(replaced) = &level.codecs_replaced {
        line += &format!("; replaced {replaced}, which every reader of Zarr v3 knows");
    }
    if level.axes_assumed {
        line += &format!("; the axes have no names, assumed to be {}", level.axes.join(", "));
    }
    if let Some(sizes) = &level.measured {
        line += &format!("; {}", sharding::measured(sizes));
    }
    if level.position_error != [0.0; 3] {
        let error = nanometres(&level.position_error);
        line += &format!("; {error} further than in the image, to begin at a whole voxel");
    }
    if level.outcome == RepackOutcome::Resumed {
        line += "; resumed an earlier run";
    }
    if !dry_run && !is_made(level) {
        line += match level.check {
            RepackCheck::None => "; not checked",
            RepackCheck::Elements => "; all elements compared",
            _ if level.moves => "; all moved bytes compared",
            _ => "",
        };
    }
    line
}
