//! `shard`, `unshard` and `reshard`.

use pyo3::prelude::*;
use serde_json::{Value, json};
use shardine::jobs::{
    RepackOptions, RepackVolumeOptions, RepackedArray, RepackedScale, Subject, recover, repack,
    repack_keys, repack_volume, subject,
};
use shardine::plan::{DEFAULT_SHARD_BYTES, ShardingRequest, Unsaid, VolumePacking};
use shardine::precomputed::KeyValueStore;
use shardine::shard::uint64::{Encoding, KeyHash};
use shardine::{Location, Packing, WriteOrder, open_in};

use super::{Job, Report, report};

/// Keywords that only precomputed data has.
const OF_VOLUMES: [&str; 7] = [
    "sharding",
    "preshift_bits",
    "minishard_bits",
    "shard_bits",
    "hash",
    "data_encoding",
    "minishard_index_encoding",
];

/// Keywords that only Zarr has.
const OF_ZARR: [&str; 6] = ["index", "order", "chunk", "codec", "codecs", "objects"];

pub fn run(job: &Job<'_>, verb: &str) -> PyResult<Report> {
    let options = &job.options;
    let source = options.location("url", "source_options")?;
    let target = options.location_if_given("output", "target_options")?;
    if target.is_none() && !options.flag("dry_run")? {
        // A killed job may have left it without its name.
        job.short(|| recover(&source))?;
    }
    let engine = job.engine()?;
    match job.short(|| subject(&engine, &source))? {
        Subject::Volume => volume(job, verb, &source, target.as_ref()),
        Subject::Values => values(job, &source, target.as_ref()),
        _ => zarr(job, verb, &source, target.as_ref()),
    }
}

fn zarr(
    job: &Job<'_>,
    verb: &str,
    source: &Location,
    target: Option<&Location>,
) -> PyResult<Report> {
    let options = &job.options;
    options.refuse(&OF_VOLUMES, "only applies to precomputed volumes")?;
    let mut asked = repack_options(job)?;
    let given = options.given(&[
        "chunks_per_shard",
        "shard",
        "target_size",
        "index",
        "chunk",
        "codec",
        "codecs",
    ])?;
    let packing = options.packing()?;
    asked.packing = match verb {
        "unshard" => Packing::Unsharded,
        "shard" => packing.unwrap_or(Packing::TargetSize(DEFAULT_SHARD_BYTES)),
        _ if given.is_none() => {
            let hint = "give chunks_per_shard, shard, target_size, index, chunk or codec; \
                        shardine.plan recommends a packing";
            return Err(job.wrong("no change requested", Some(hint)));
        }
        _ => packing.unwrap_or(Packing::Keep),
    };
    let engine = job.engine()?;
    let source = match options.get::<usize>("level")? {
        None => source.clone(),
        Some(level) => {
            job.short(|| Ok(open_in(&engine, source)?.array(level)?.location().clone()))?
        }
    };
    let (arrays, outcome) = job.run(&engine, |context| {
        let mut arrays = Vec::new();
        let outcome = repack(context, &source, target, &asked, &mut |array| arrays.push(array))?;
        Ok((arrays, outcome))
    })?;
    let arrays: Vec<Value> = arrays.iter().map(RepackedArray::to_json).collect();
    let mut report = report([("dry_run", json!(asked.dry_run)), ("arrays", json!(arrays))]);
    job.add_part(&mut report, &outcome)?;
    if let Some(target) = target {
        job.renew(&mut report, target, &outcome)?;
    }
    Ok(report)
}

/// What is asked for, except for the packing.
pub fn repack_options(job: &Job<'_>) -> PyResult<RepackOptions> {
    let options = &job.options;
    let mut asked = RepackOptions::new()
        .overwrite(options.flag("overwrite")?)
        .restart(options.flag("restart")?)
        .dry_run(options.flag("dry_run")?)
        .exclusive(options.flag("exclusive")?)
        .objects(options.flag("objects")?)
        .order(options.parsed::<WriteOrder>("order")?.unwrap_or_default());
    asked.index = options.index()?;
    asked.chunk = options.numbers("chunk")?;
    asked.codecs = options.codecs()?;
    asked.check = options.check()?;
    asked.wait = options.wait()?;
    asked.take_over = options.flag("take_over")?;
    asked.part = options.part()?;
    Ok(asked)
}

/// The bits, the hash and the encodings that are given.
fn request(job: &Job<'_>, unsaid: Unsaid) -> PyResult<ShardingRequest> {
    let options = &job.options;
    let encodings = [("raw", Encoding::Raw), ("gzip", Encoding::Gzip)];
    let mut request = ShardingRequest::default();
    request.preshift_bits = options.get("preshift_bits")?;
    request.minishard_bits = options.get("minishard_bits")?;
    request.shard_bits = options.get("shard_bits")?;
    request.hash = match options.get::<String>("hash")? {
        None => None,
        Some(name) => Some(KeyHash::from_name(&name).ok_or_else(|| {
            options.wrong("hash", format!("\"{name}\" is not identity or murmurhash3_x86_128"))
        })?),
    };
    request.data_encoding = options.word("data_encoding", &encodings)?;
    request.minishard_index_encoding = options.word("minishard_index_encoding", &encodings)?;
    request.unsaid = unsaid;
    Ok(request)
}

fn volume(
    job: &Job<'_>,
    verb: &str,
    source: &Location,
    target: Option<&Location>,
) -> PyResult<Report> {
    let options = &job.options;
    options.refuse(&OF_ZARR, "does not apply to a precomputed volume")?;
    let sharding = match (verb, options.sharding()?) {
        ("unshard", _) => ShardingRequest::from(None),
        (_, Some(sharding)) => Some(sharding).into(),
        (verb, None) => {
            let unsaid = if verb == "shard" { Unsaid::Recommended } else { Unsaid::Kept };
            let mut request = request(job, unsaid)?;
            let packing = options.packing()?;
            if unsaid == Unsaid::Kept && packing.is_none() && !request.changes_something() {
                let hint = "give sharding, shard, target_size, data_encoding or numbers of bits; \
                            shardine.plan recommends a packing";
                return Err(job.wrong("no change requested", Some(hint)));
            }
            let packing = packing.as_ref().map(VolumePacking::try_from).transpose();
            request.packing = packing.map_err(|error| job.wrong(error, None))?;
            request
        }
    };
    let mut asked = volume_options(job, sharding, target.unwrap_or(source))?;
    asked.level = options.get("level")?;
    let engine = job.engine()?;
    let done = job.run(&engine, |context| {
        let mut scales = Vec::new();
        let tell = &mut |scale| scales.push(scale);
        let outcome = repack_volume(context, source, target, &asked, tell)?;
        Ok((scales, outcome))
    })?;
    scales_report(job, &asked, &done)
}

fn values(job: &Job<'_>, source: &Location, target: Option<&Location>) -> PyResult<Report> {
    let options = &job.options;
    options.refuse(&OF_ZARR, "does not apply to values by key")?;
    let request = request(job, Unsaid::Kept)?;
    let engine = job.engine()?;
    let sharding = match options.sharding()? {
        Some(sharding) => sharding,
        None if !request.changes_something() => {
            let hint = "give sharding, data_encoding or numbers of bits";
            return Err(job.wrong("no change requested", Some(hint)));
        }
        None => {
            let now = job.short(|| Ok(KeyValueStore::open(&engine, source)?.sharding().clone()))?;
            request.change(now).map_err(|error| job.wrong(error, None))?
        }
    };
    let asked = volume_options(job, ShardingRequest::from(None), target.unwrap_or(source))?;
    let done = job.run(&engine, |context| {
        let mut scales = Vec::new();
        let tell = &mut |scale| scales.push(scale);
        let outcome = repack_keys(context, source, target, &sharding, &asked, tell)?;
        Ok((scales, outcome))
    })?;
    scales_report(job, &asked, &done)
}

fn volume_options(
    job: &Job<'_>,
    sharding: ShardingRequest,
    written: &Location,
) -> PyResult<RepackVolumeOptions> {
    let options = &job.options;
    options.refuse(&["overwrite"], "a volume cannot be replaced by another; remove it first")?;
    let mut asked = RepackVolumeOptions::new(sharding);
    asked.dry_run = options.flag("dry_run")?;
    asked.restart = options.flag("restart")?;
    asked.exclusive = options.flag("exclusive")?;
    asked.wait = options.wait()?;
    asked.take_over = options.flag("take_over")?;
    asked.part = options.part()?;
    asked.check = match options.check()? {
        None => written.store.read_cost().local,
        Some(check) => check.as_str() != "none",
    };
    Ok(asked)
}

fn scales_report(
    job: &Job<'_>,
    asked: &RepackVolumeOptions,
    (scales, outcome): &(Vec<RepackedScale>, shardine::jobs::PartOutcome),
) -> PyResult<Report> {
    let scales: Vec<Value> = scales.iter().map(RepackedScale::to_json).collect();
    let mut report = report([("dry_run", json!(asked.dry_run)), ("scales", json!(scales))]);
    job.add_part(&mut report, outcome)?;
    Ok(report)
}
