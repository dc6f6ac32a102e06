//! `convert`.

use std::path::Path;

use pyo3::prelude::*;
use serde_json::{Value, json};
use shardine::files::{IfExists, Input, OutputFile, foreign_file, is_element_file, is_npy};
use shardine::jobs::{
    ConvertOptions, ConvertSummary, ConvertedLevel, ExportOptions, ImportOptions, JobContext,
    LevelCount, OmeForm, PartOutcome, RepackedArray, VolumeForm, ZarrForm, convert_to_ome,
    convert_to_volume, convert_to_zarr, describe_written, export_to_file, import, import_to_ome,
    repack,
};
use shardine::plan::{ArrayLayout, VolumePacking};
use shardine::precomputed::{ChunkEncoding, Volume};
use shardine::shard::uint64::Encoding;
use shardine::zarr::ZarrFormat;
use shardine::zarr::metadata::Separator;
use shardine::{DownsampleMethod, Error, Location, Packing, Region, SetKind, open_in};

use super::pyramid::{OF_IMAGES, image_form};
use super::repack::repack_options;
use super::{Job, Report, report};

/// Keywords that only volumes have.
const OF_VOLUMES: [&str; 7] =
    ["encoding", "resolution", "voxel_offset", "type", "sharding", "data_encoding", "store_empty"];

/// Keywords that only images have, beside those that `pyramid` has too.
const OF_LEVELS: [&str; 4] = ["levels", "factors", "method", "keep_codecs"];

/// Keywords that only files have.
const OF_FILES: [&str; 3] = ["shape", "dtype", "cast"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Zarr3,
    Zarr2,
    OmeZarr,
    Precomputed,
}

pub fn run(job: &Job<'_>) -> PyResult<Report> {
    let options = &job.options;
    let targets = [
        ("zarr3", Target::Zarr3),
        ("zarr2", Target::Zarr2),
        ("ome-zarr", Target::OmeZarr),
        ("precomputed", Target::Precomputed),
    ];
    let to = options.word("to", &targets)?.unwrap_or(Target::Zarr3);
    let source = options.get::<String>("source")?.unwrap_or_default();
    let target = options.get::<String>("target")?.unwrap_or_default();
    if let Some(foreign) = foreign_file(&target) {
        let message = format!("{target}: {} files cannot be written", foreign.format);
        return Err(job.wrong(message, Some(foreign.advice)));
    }
    if to != Target::OmeZarr {
        options.refuse(&OF_IMAGES, "only applies to=\"ome-zarr\"")?;
        options.refuse(&OF_LEVELS, "only applies to=\"ome-zarr\"")?;
    }
    let described = options.value("shape")?.is_some() && options.value("dtype")?.is_some();
    let from_file = is_element_file(&source) || (described && !source.contains("://"));
    match (from_file, is_element_file(&target)) {
        (true, true) => Err(job.wrong(
            format!("{source} and {target} are both files, but one must be an array"),
            Some("give the array a name that does not end in .npy, .raw or .bin"),
        )),
        (true, false) => from_elements(job, to, &source),
        (false, true) => to_elements(job, &target),
        (false, false) => between(job, to),
    }
}

/// From a file of elements to a new array or image.
fn from_elements(job: &Job<'_>, to: Target, source: &str) -> PyResult<Report> {
    let options = &job.options;
    options.refuse(&OF_VOLUMES, "only applies between Zarr and precomputed volumes")?;
    if !matches!(to, Target::Zarr3 | Target::OmeZarr) {
        let hint = "convert the file to an array first";
        return Err(job.wrong("to: a file becomes zarr3 or ome-zarr", Some(hint)));
    }
    let between = ["restart", "exclusive", "wait", "dry_run", "verify"];
    options.refuse(&between, "only applies from one data set to another")?;
    let target = options.location("target", "target_options")?;
    let mut layout = ArrayLayout::default();
    layout.codecs = options.codecs()?;
    layout.packing = options.packing()?.unwrap_or_default();
    layout.chunk = options.numbers("chunk")?;
    layout.index = options.index()?;
    layout.dimension_names = match to {
        Target::OmeZarr => None,
        _ => options.get("dims")?,
    };
    if let Some(attributes) = options.document("attributes")? {
        let Value::Object(members) = attributes else {
            return Err(options.wrong("attributes", "must be a dict"));
        };
        layout.attributes = members;
    }
    let mut asked = ImportOptions::new().layout(layout).cast(options.flag("cast")?);
    asked.shape = options.numbers("shape")?;
    asked.data_type = options.data_type()?;
    asked.overwrite = options.flag("overwrite")?;
    asked.take_over = options.flag("take_over")?;
    asked.part = options.part()?;
    let engine = job.engine()?;
    if to == Target::OmeZarr {
        let form = whole_form(job)?;
        let version = form.version.to_string();
        return levels_report(job, &target, Some(version), |context, tell| {
            let input = Input::open(Path::new(source))?;
            import_to_ome(context, input, &target, &form, &asked, tell)
        });
    }
    let done = job.run(&engine, |context| {
        import(context, Input::open(Path::new(source))?, &target, &asked)
    })?;
    let mut report = report([
        ("shape", json!(done.shape)),
        ("dtype", done.data_type.to_json()),
        ("chunk_shape", json!(done.chunk_shape)),
        ("shard_shape", json!(done.shard_shape)),
        ("resumed", json!(done.resumed)),
        ("objects_kept", json!(done.objects_kept)),
    ]);
    report.extend(describe_written(&done.written));
    job.add_part(&mut report, &done.outcome)?;
    job.renew(&mut report, &target, &done.outcome)?;
    Ok(report)
}

/// From an array to a file of elements, which appears whole or not at all.
fn to_elements(job: &Job<'_>, target: &str) -> PyResult<Report> {
    let options = &job.options;
    options.refuse(&OF_FILES, "only applies to files that are converted")?;
    let location = options.location("source", "source_options")?;
    let path = Path::new(target);
    let overwrite = options.flag("overwrite")?;
    let engine = job.engine()?;
    let (shape, data_type, bytes) = job.run(&engine, |context| {
        let array = open_in(context.engine(), &location)?.array(0)?;
        let output = OutputFile::create(path, IfExists::replaced(overwrite))?;
        let asked = ExportOptions::new().npy(is_npy(path));
        let bytes = export_to_file(context, &array, &Region::all(), &output, &asked)?;
        output.finish()?;
        Ok((array.shape().to_vec(), array.data_type().to_json(), bytes))
    })?;
    Ok(report([("shape", json!(shape)), ("dtype", data_type), ("bytes", json!(bytes))]))
}

/// From one data set to another.
fn between(job: &Job<'_>, to: Target) -> PyResult<Report> {
    let options = &job.options;
    options.refuse(&OF_FILES, "only applies to files")?;
    let source = options.location("source", "source_options")?;
    let target = options.location("target", "target_options")?;
    let engine = job.engine()?;
    let (is_zarr, is_volume) = job.short(|| match open_in(&engine, &source) {
        Ok(set) if set.kind() == SetKind::KeyValues => Err(match set.array(0) {
            Err(error) => error,
            Ok(_) => Error::NoNode { at: source.to_string() },
        }),
        Ok(set) => Ok((set.format().starts_with("zarr"), set.is::<Volume>())),
        // Anything else that is wrong is reported by the conversion, which looks closer.
        Err(Error::NoNode { .. } | Error::Metadata { .. } | Error::Layout { .. }) => {
            Ok((true, false))
        }
        Err(error) => Err(error),
    })?;
    match to {
        Target::Zarr3 if is_zarr => to_same(job, &source, &target),
        Target::Zarr3 => to_zarr(job, &source, &target, None),
        Target::Zarr2 => to_zarr(job, &source, &target, Some(ZarrFormat::V2)),
        Target::OmeZarr => to_ome(job, &source, &target),
        Target::Precomputed if is_volume => {
            let hint = "use shardine.reshard with output to repack its chunks, or shardine.copy";
            Err(job.wrong(format!("{source} is already a precomputed volume"), Some(hint)))
        }
        Target::Precomputed => to_volume(job, &source, &target),
    }
}

fn to_same(job: &Job<'_>, source: &Location, target: &Location) -> PyResult<Report> {
    job.options.refuse(&OF_VOLUMES, "only applies between Zarr and precomputed volumes")?;
    let mut asked = repack_options(job)?;
    asked.packing = job.options.packing()?.unwrap_or(Packing::Keep);
    let engine = job.engine()?;
    let (arrays, outcome) = job.run(&engine, |context| {
        let mut arrays = Vec::new();
        let tell = &mut |array| arrays.push(array);
        let outcome = repack(context, source, Some(target), &asked, tell)?;
        Ok((arrays, outcome))
    })?;
    let arrays: Vec<Value> = arrays.iter().map(RepackedArray::to_json).collect();
    let mut report = report([("dry_run", json!(asked.dry_run)), ("arrays", json!(arrays))]);
    job.add_part(&mut report, &outcome)?;
    job.renew(&mut report, target, &outcome)?;
    Ok(report)
}

fn convert_options(job: &Job<'_>) -> PyResult<ConvertOptions> {
    let options = &job.options;
    let mut asked = ConvertOptions::new()
        .overwrite(options.flag("overwrite")?)
        .restart(options.flag("restart")?)
        .dry_run(options.flag("dry_run")?)
        .store_empty(options.flag("store_empty")?);
    asked.check = options.check()?;
    asked.take_over = options.flag("take_over")?;
    asked.part = options.part()?;
    asked.chunk = options.numbers("chunk")?;
    Ok(asked)
}

fn to_zarr(
    job: &Job<'_>,
    source: &Location,
    target: &Location,
    format: Option<ZarrFormat>,
) -> PyResult<Report> {
    let options = &job.options;
    let of_volumes = OF_VOLUMES.map(|name| if name == "store_empty" { "sharding" } else { name });
    options.refuse(&of_volumes, "only applies to=\"precomputed\"")?;
    let mut form = ZarrForm::new().packing(options.packing()?.unwrap_or(Packing::Keep));
    form.index = options.index()?;
    form.codecs = options.codecs()?;
    form.zarr_format = format;
    form.separator =
        options.word("separator", &[("/", Separator::Slash), (".", Separator::Dot)])?;
    let asked = convert_options(job)?;
    levels_report(job, target, None, |context, tell| {
        convert_to_zarr(context, source, target, &form, &asked, tell)
    })
}

/// The form of images, with the lower levels that they get.
fn whole_form(job: &Job<'_>) -> PyResult<OmeForm> {
    let options = &job.options;
    let mut form = image_form(job)?;
    form.levels = match options.value("levels")? {
        None => None,
        Some(value) if value.extract::<String>().is_ok_and(|text| text == "auto") => {
            Some(LevelCount::Auto)
        }
        Some(_) => options.get("levels")?.map(LevelCount::Number),
    };
    form.factors = options.unless_auto("factors", || options.numbers("factors"))?;
    form.method = options.parsed::<DownsampleMethod>("method")?;
    form.keep_codecs = options.flag("keep_codecs")?;
    Ok(form)
}

fn to_ome(job: &Job<'_>, source: &Location, target: &Location) -> PyResult<Report> {
    let options = &job.options;
    let of_volumes = OF_VOLUMES.map(|name| if name == "store_empty" { "sharding" } else { name });
    options.refuse(&of_volumes, "only applies to=\"precomputed\"")?;
    let mut form = whole_form(job)?.packing(options.packing()?.unwrap_or(Packing::Keep));
    form.index = options.index()?;
    form.codecs = options.codecs()?;
    let asked = convert_options(job)?;
    let version = form.version.to_string();
    levels_report(job, target, Some(version), |context, tell| {
        convert_to_ome(context, source, target, &form, &asked, tell)
    })
}

fn to_volume(job: &Job<'_>, source: &Location, target: &Location) -> PyResult<Report> {
    let options = &job.options;
    let of_zarr = ["index", "codec", "codecs"];
    options.refuse(&of_zarr, "does not apply to precomputed volumes; use encoding")?;
    let mut form = VolumeForm::new();
    form.kind = options.get("type")?;
    form.resolution = options.get("resolution")?;
    form.voxel_offset = options.get("voxel_offset")?;
    form.data_encoding =
        options.word("data_encoding", &[("raw", Encoding::Raw), ("gzip", Encoding::Gzip)])?;
    form.encoding = match options.get::<String>("encoding")? {
        None => None,
        Some(name) => match ChunkEncoding::from_name(&name) {
            ChunkEncoding::Other { name } => {
                return Err(options.wrong("encoding", format!("\"{name}\" is unknown")));
            }
            encoding => Some(encoding),
        },
    };
    form.packing = match (options.sharding()?, options.packing()?) {
        (Some(_), Some(_)) => {
            return Err(options.wrong("sharding", "cannot be combined with another packing"));
        }
        (Some(sharding), None) => Some(VolumePacking::Sharding(sharding)),
        (None, Some(packing)) => {
            Some(VolumePacking::try_from(&packing).map_err(|error| job.wrong(error, None))?)
        }
        (None, None) => None,
    };
    let asked = convert_options(job)?;
    levels_report(job, target, None, |context, tell| {
        convert_to_volume(context, source, target, &form, &asked, tell)
    })
}

/// A conversion that calls back with each level.
type Levels<'a> = &'a mut dyn FnMut(ConvertedLevel);

/// Converts, and reports.
fn levels_report(
    job: &Job<'_>,
    target: &Location,
    ome_version: Option<String>,
    convert: impl FnOnce(&JobContext, Levels<'_>) -> Result<ConvertSummary, Error> + Send,
) -> PyResult<Report> {
    let engine = job.engine()?;
    let (levels, summary) = job.run(&engine, |context| {
        let mut levels = Vec::new();
        let summary = convert(context, &mut |level| levels.push(level))?;
        Ok((levels, summary))
    })?;
    let levels: Vec<Value> = levels.iter().map(ConvertedLevel::to_json).collect();
    let kept = |kept: bool| json!(if kept { "kept" } else { "new" });
    let mut report = report([
        ("dry_run", json!(job.options.flag("dry_run")?)),
        ("levels", json!(levels)),
        ("info", kept(summary.info_kept)),
        ("info_not_kept", json!(summary.info_not_kept)),
        ("ome_version", json!(ome_version)),
        ("image", kept(summary.image_kept)),
        ("image_not_kept", json!(summary.image_not_kept)),
        ("position_shift", json!(summary.position_shift)),
        ("labels_left_out", json!(summary.labels_left_out)),
    ]);
    job.add_part(&mut report, &summary.outcome)?;
    if summary.outcome == PartOutcome::Complete {
        job.renew(&mut report, target, &summary.outcome)?;
    }
    Ok(report)
}
