//! From one format to another.

use std::io::{self, Write as _};
use std::time::Instant;

use serde_json::{Value, json};
use shardine::jobs::{
    ConvertOptions, ConvertSummary, ConvertedLevel, OmeForm, RepackCheck, RepackOutcome,
    VolumeForm, ZarrForm, convert_to_ome, convert_to_volume, convert_to_zarr,
};
use shardine::plan::VolumePacking;
use shardine::shard::uint64::Sharding;
use shardine::{Location, Packing};

use super::Convert;
use crate::cli::Machine;
use crate::consolidate;
use crate::create::{Triple, parse_sharding};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{said, sharding, units, volume};

/// What is made.
pub enum Form {
    Zarr(ZarrForm),
    Ome(OmeForm),
    Volume(VolumeForm),
}

impl Form {
    /// Whether levels are told one by one how they were made.
    fn counts_each(&self) -> bool {
        match self {
            Self::Zarr(form) => form.zarr_format.is_some(),
            Self::Ome(_) => true,
            Self::Volume(_) => false,
        }
    }
}

/// From a volume to a group of arrays.
pub fn to_zarr(args: &Convert, source: &Location, machine: &Machine) -> Result<(), Failure> {
    if let Some(name) = args.volume.given() {
        return Err(Failure::new(format!("{name}: only applies with --to precomputed")));
    }
    let asked = args.layout.asked(args.packing());
    let options = asked.options(Packing::Keep)?;
    let mut form = ZarrForm::new().packing(options.packing);
    form.index = options.index;
    form.codecs = options.codecs;
    run(args, source, machine, &Form::Zarr(form), options.chunk.as_deref())
}

/// From an array, or a group of levels, to a volume.
pub fn to_volume(args: &Convert, source: &Location, machine: &Machine) -> Result<(), Failure> {
    let asked = args.layout.asked(args.packing());
    let of_zarr = [
        ("--index", asked.index.is_some()),
        ("--codec", !asked.codec.is_empty()),
        ("--codecs", asked.codecs.is_some()),
    ];
    if let Some((name, _)) = of_zarr.into_iter().find(|(_, given)| *given) {
        return Err(Failure::new(format!("{name}: does not apply to precomputed volumes"))
            .hint("use --encoding and --data-encoding to set how its chunks are encoded"));
    }
    let chunk = asked.chunk.map(<[u64]>::to_vec);
    let given = &args.volume;
    let mut form = VolumeForm::new();
    form.kind = given.kind.clone();
    form.resolution = given.resolution.map(|Triple(values)| values);
    form.voxel_offset = given.voxel_offset.map(|Triple(values)| values);
    form.data_encoding = given.data_encoding;
    form.encoding = given.chunk_encoding()?;
    form.packing = match (&given.sharding, asked.packing) {
        (Some(_), Some(_)) => {
            return Err(Failure::new("--sharding cannot be combined with another packing option"));
        }
        (Some(text), None) => Some(VolumePacking::Sharding(parse_sharding(text)?)),
        (None, Some(packing)) => Some(VolumePacking::try_from(&packing).map_err(Failure::new)?),
        (None, None) => None,
    };
    run(args, source, machine, &Form::Volume(form), chunk.as_deref())
}

/// Converts, and reports.
pub fn run(
    args: &Convert,
    source: &Location,
    machine: &Machine,
    form: &Form,
    chunk: Option<&[u64]>,
) -> Result<(), Failure> {
    let job = &args.job;
    let target = args.places.target(machine, &args.target)?;
    let engine = machine.engine()?;
    let progress = Progress::things("converting", 0);
    let mut options = ConvertOptions::new()
        .overwrite(job.overwrite)
        .restart(job.restart)
        .dry_run(job.dry_run)
        .store_empty(args.store_empty);
    options.check = job.check();
    options.take_over = job.take_over;
    options.part = job.part;
    options.chunk = chunk.map(<[u64]>::to_vec);
    let context = progress.context(&engine);
    let start = Instant::now();
    let mut levels = Vec::new();
    let mut written = Ok(());
    let tell = &mut |level: ConvertedLevel| {
        if !job.json && written.is_ok() {
            let mut line = describe(&level, &args.target, job.dry_run);
            if form.counts_each() && !job.dry_run {
                line += &counts(&level);
            }
            written = progress.suspend(|| writeln!(said::words(), "{line}"));
        }
        levels.push(level);
    };
    let result = match form {
        Form::Zarr(form) => convert_to_zarr(&context, source, &target, form, &options, tell),
        Form::Ome(form) => convert_to_ome(&context, source, &target, form, &options, tell),
        Form::Volume(form) => convert_to_volume(&context, source, &target, form, &options, tell),
    };
    progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    if job.json {
        let summary = result.as_ref().ok();
        let (part, missing) = job.describe_part(summary.map(|summary| &summary.outcome));
        let mut report = json!({
            "dry_run": job.dry_run,
            "part": part,
            "parts_missing": missing,
            "levels": levels.iter().map(to_json).collect::<Vec<_>>(),
            "info": summary.map(|summary| if summary.info_kept { "kept" } else { "new" }),
            "info_not_kept": summary.and_then(|summary| summary.info_not_kept.as_ref()),
            "failed": result.as_ref().err().map(ToString::to_string),
            "seconds": seconds,
        });
        match form {
            Form::Ome(form) => {
                report["ome_version"] = json!(form.version.to_string());
                let image = summary.map(|of| if of.image_kept { "kept" } else { "new" });
                report["image"] = json!(image);
                let reason = summary.and_then(|summary| summary.image_not_kept.as_ref());
                report["image_not_kept"] = json!(reason);
            }
            Form::Volume(_) => {
                let shift = summary.and_then(|summary| summary.position_shift);
                report["position_shift"] = json!(shift);
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
        consolidate::renew_above(&target);
    }
    if !job.json {
        tell_all(form, &levels, &summary, job.dry_run, seconds)?;
    }
    Ok(())
}

fn tell_all(
    form: &Form,
    levels: &[ConvertedLevel],
    summary: &ConvertSummary,
    dry_run: bool,
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
    if dry_run {
        return Ok(());
    }
    let sum = |of: fn(&ConvertedLevel) -> u64| levels.iter().map(of).sum::<u64>();
    writeln!(
        out,
        "{}: {} moved, {} re-encoded, {} absent; {} written, {} in {}",
        units::count(levels.len() as u64, "level"),
        units::count(sum(|level| level.chunks_moved), "chunk"),
        sum(|level| level.chunks_recoded),
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

/// What was done to the chunks of a level.
fn counts(level: &ConvertedLevel) -> String {
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
            let how = if level.moves { "moved where they are complete" } else { "re-encoded" };
            format!("{name}: would have {packing}; its chunks would be {how}")
        }
        false => format!("{name}: {packing}"),
    };
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
    if !dry_run {
        line += match level.check {
            RepackCheck::None => "; not checked",
            RepackCheck::Elements => "; all elements compared",
            _ if level.moves => "; all moved bytes compared",
            _ => "",
        };
    }
    line
}

fn to_json(level: &ConvertedLevel) -> Value {
    json!({
        "level": level.level,
        "source": level.source,
        "target": level.target,
        "outcome": if level.outcome == RepackOutcome::Resumed { "resumed" } else { "done" },
        "shape": level.shape,
        "chunk": level.chunk_shape,
        "shard": level.shard_shape,
        "sharding": level.sharding.as_ref().map(Sharding::to_json),
        "measured": sharding::measured_json(level.measured.as_ref()),
        "axes": level.axes,
        "axes_assumed": level.axes_assumed,
        "moves": level.moves,
        "chunks_moved": level.chunks_moved,
        "chunks_recoded": level.chunks_recoded,
        "chunks_absent": level.chunks_absent,
        "objects_written": level.objects_written,
        "bytes_written": level.bytes_written,
        "objects_kept": level.objects_kept,
        "verified": level.check.as_str(),
        "position_error": level.position_error,
    })
}
