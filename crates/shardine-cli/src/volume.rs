//! Describes and lists precomputed volumes.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use serde_json::{Value, json};
use shardine::Engine;
use shardine::jobs::UnfinishedJob;
use shardine::precomputed::{Scale, Volume};
use shardine::shard::uint64::Sharding;

use crate::dataset::Level;
use crate::failure::Failure;
use crate::info::{cells, job_json, line, raw_bytes, write_job};
use crate::ls::write_table;
use crate::units;
use crate::value_folders::Beside;

/// What is stored of a scale.
#[derive(Default)]
struct Stored {
    objects: u64,
    chunks: u64,
    bytes: u64,
    /// Entries and objects that are not chunks of the volume.
    others: u64,
}

impl Stored {
    fn scan(volume: &Volume, level: usize) -> Result<Self, Failure> {
        let mut stored = Self::default();
        let mut last = None;
        volume.stored_chunks(level, |chunk| {
            match chunk.cell {
                Some(_) => {
                    stored.chunks += 1;
                    let bytes = chunk.range.end.saturating_sub(chunk.range.start);
                    stored.bytes = stored.bytes.saturating_add(bytes);
                }
                None => stored.others += 1,
            }
            if last.as_ref() != Some(&chunk.object) {
                stored.objects += 1;
                last = Some(chunk.object);
            }
        })?;
        Ok(stored)
    }
}

/// Describes a volume.
pub fn info(
    engine: &Arc<Engine>,
    url: &str,
    volume: &Volume,
    fast: bool,
    as_json: bool,
    job: Option<&UnfinishedJob>,
) -> Result<(), Failure> {
    let mut stored = Vec::new();
    for level in 0..volume.info().scales().len() {
        stored.push(if fast { None } else { Some(Stored::scan(volume, level)?) });
    }
    let folders = volume.folders_beside();
    let beside = Beside::of(engine, &folders, fast);
    let mut out = BufWriter::new(io::stdout().lock());
    if as_json {
        let mut description = describe(volume, &stored, &beside);
        description["unfinished_job"] = job_json(job);
        writeln!(out, "{description:#}")?;
    } else {
        write_volume(&mut out, url, volume, &stored, &beside)?;
        write_job(&mut out, url, job)?;
    }
    out.flush()?;
    Ok(())
}

fn with_channels(volume: &Volume, shape: [u64; 3]) -> Vec<u64> {
    let mut shape = shape.to_vec();
    shape.push(volume.info().channels());
    shape
}

fn describe(volume: &Volume, stored: &[Option<Stored>], beside: &Beside<'_>) -> Value {
    let info = volume.info();
    let levels: Vec<Value> = info
        .scales()
        .iter()
        .zip(stored)
        .enumerate()
        .map(|(level, (scale, stored))| {
            let (shape, chunk) =
                (with_channels(volume, scale.size), with_channels(volume, scale.chunk_size()));
            let stored = stored.as_ref().map(|stored| {
                json!({
                    "objects": stored.objects,
                    "chunks": stored.chunks,
                    "chunks_possible": cells(&shape, &chunk),
                    "bytes": stored.bytes,
                    "others": stored.others,
                })
            });
            json!({
                "key": scale.key,
                "shape": shape,
                "resolution": scale.resolution,
                "voxel_offset": scale.voxel_offset,
                "chunk_shape": chunk,
                "chunk_sizes": scale.chunk_sizes,
                "encoding": scale.encoding.name(),
                "unsupported": Vec::from_iter(volume.array(level).err().map(|e| e.to_string())),
                "sharding": scale.sharding.as_ref().map(Sharding::to_json),
                "array_bytes": raw_bytes(&shape, info.data_type()),
                "stored": stored,
            })
        })
        .collect();
    json!({
        "kind": "volume",
        "format": "precomputed",
        "formats": ["precomputed"],
        "url": volume.location().to_string(),
        "dtype": info.data_type().to_json(),
        "dimension_names": ["x", "y", "z", "channel"],
        "channels": info.channels(),
        "type": info.document().get("type"),
        "levels": levels,
        "beside": beside.describe(),
    })
}

/// A sharding in words.
pub fn sharding_words(sharding: &Sharding) -> String {
    format!(
        "{}, preshift {} + minishard {} + shard {} bits, data {}, index {}",
        sharding.hash.name(),
        sharding.preshift_bits,
        sharding.minishard_bits,
        sharding.shard_bits,
        sharding.data_encoding.name(),
        sharding.minishard_index_encoding.name()
    )
}

fn write_volume(
    out: &mut dyn Write,
    url: &str,
    volume: &Volume,
    stored: &[Option<Stored>],
    beside: &Beside<'_>,
) -> io::Result<()> {
    let info = volume.info();
    line(out, "volume", url)?;
    let kind = info.document().get("type").and_then(Value::as_str).unwrap_or("no type given");
    line(out, "format", format!("Neuroglancer precomputed, {kind}"))?;
    line(out, "type", info.data_type().name())?;
    line(out, "axes", format!("x, y, z, channel ({})", units::count(info.channels(), "channel")))?;
    beside.write(out)?;
    for (level, (scale, stored)) in info.scales().iter().zip(stored).enumerate() {
        writeln!(out)?;
        write_scale(out, volume, level, scale, stored.as_ref())?;
    }
    Ok(())
}

fn write_scale(
    out: &mut dyn Write,
    volume: &Volume,
    level: usize,
    scale: &Scale,
    stored: Option<&Stored>,
) -> io::Result<()> {
    let numbers = |values: &[f64; 3]| values.map(|value| value.to_string()).join(" x ");
    line(out, &format!("level {level}"), &scale.key)?;
    let shape = with_channels(volume, scale.size);
    let bytes = raw_bytes(&shape, volume.info().data_type()).unwrap_or(0);
    line(out, "shape", format!("{}, {}", units::shape(&shape), units::size(bytes)))?;
    line(out, "resolution", format!("{} nm", numbers(&scale.resolution)))?;
    if scale.voxel_offset != [0; 3] {
        let offset = scale.voxel_offset.map(|voxel| voxel.to_string()).join(", ");
        line(out, "offset", format!("{offset} (regions start at 0, or here with --offset)"))?;
    }
    let chunk = with_channels(volume, scale.chunk_size());
    line(out, "chunk", format!("{}, {}", units::shape(&chunk), scale.encoding.name()))?;
    if let Err(error) = volume.array(level) {
        let limits = "it can be copied and its chunks listed, but its elements cannot be read";
        line(out, "unsupported", format!("{error}; {limits}"))?;
    }
    if scale.chunk_sizes.len() > 1 {
        let copies = scale.chunk_sizes.len();
        line(out, "copies", format!("{copies}, in chunks of different shapes; the first is read"))?;
    }
    match &scale.sharding {
        Some(sharding) => line(out, "sharding", sharding_words(sharding))?,
        None => line(out, "sharding", "none: each chunk is its own object")?,
    }
    if let Some(stored) = stored {
        let possible = units::count(cells(&shape, &chunk), "chunk");
        let mut text = format!(
            "{} of {possible} in {}, {}",
            stored.chunks,
            units::count(stored.objects, "object"),
            units::size(stored.bytes)
        );
        if stored.others > 0 {
            text.push_str(&format!("; {} others that are not its chunks", stored.others));
        }
        line(out, "stored", text)?;
    }
    Ok(())
}

/// How a volume is listed.
pub struct List {
    pub shards: bool,
    pub chunks: bool,
    pub json: bool,
}

/// Lists the levels of a volume, or the shards or chunks of one.
pub fn ls(volume: &Volume, level: Level, list: &List) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    if !list.shards && !list.chunks && level.given().is_none() {
        levels(&mut out, volume, list.json)?;
    } else if list.chunks {
        chunks(&mut out, volume, level.number(), list.json)?;
    } else {
        objects(&mut out, volume, level.number(), list)?;
    }
    out.flush()?;
    Ok(())
}

fn levels(out: &mut dyn Write, volume: &Volume, as_json: bool) -> Result<(), Failure> {
    let scales = volume.info().scales().iter().enumerate();
    if as_json {
        let levels: Vec<Value> = scales
            .map(|(level, scale)| {
                json!({
                    "level": level,
                    "key": scale.key,
                    "kind": "array",
                    "shape": with_channels(volume, scale.size),
                    "dtype": volume.info().data_type().to_json(),
                    "chunk_shape": with_channels(volume, scale.chunk_size()),
                    "sharded": scale.sharding.is_some(),
                })
            })
            .collect();
        writeln!(out, "{:#}", Value::Array(levels))?;
        return Ok(());
    }
    let rows: Vec<[String; 5]> = scales
        .map(|(level, scale)| {
            [
                level.to_string(),
                scale.key.clone(),
                units::shape(&scale.size),
                units::shape(&scale.chunk_size()),
                if scale.sharding.is_some() { "sharded" } else { "" }.to_owned(),
            ]
        })
        .collect();
    write_table(out, ["level", "key", "shape", "chunk", ""], &rows)?;
    Ok(())
}

fn objects(out: &mut dyn Write, volume: &Volume, level: usize, list: &List) -> Result<(), Failure> {
    if list.shards && volume.scale(level)?.sharding.is_none() {
        return Err(
            Failure::new("the scale is not sharded").hint("use --chunks to list its stored chunks")
        );
    }
    let mut found: Vec<(String, u64, u64)> = Vec::new();
    volume.stored_chunks(level, |chunk| {
        let bytes = chunk.range.end.saturating_sub(chunk.range.start);
        match found.last_mut() {
            Some((object, chunks, total)) if *object == chunk.object => {
                *chunks += 1;
                *total = total.saturating_add(bytes);
            }
            _ => found.push((chunk.object, 1, bytes)),
        }
    })?;
    if list.json {
        let listed: Vec<Value> = found
            .iter()
            .map(|(key, chunks, bytes)| json!({ "key": key, "chunks": chunks, "chunk_bytes": bytes }))
            .collect();
        writeln!(out, "{:#}", Value::Array(listed))?;
        return Ok(());
    }
    let rows: Vec<[String; 3]> = found
        .into_iter()
        .map(|(key, chunks, bytes)| [key, chunks.to_string(), bytes.to_string()])
        .collect();
    write_table(out, ["object", "chunks", "bytes of chunks"], &rows)?;
    Ok(())
}

fn chunks(
    out: &mut dyn Write,
    volume: &Volume,
    level: usize,
    as_json: bool,
) -> Result<(), Failure> {
    let mut failed = Ok(());
    if !as_json {
        writeln!(
            out,
            "{:<14}  {:<20}  {:>20}  {:>12}  {:>10}",
            "chunk", "object", "key", "offset", "length"
        )?;
    }
    volume.stored_chunks(level, |chunk| {
        if failed.is_err() {
            return;
        }
        let length = chunk.range.end.saturating_sub(chunk.range.start);
        failed = if as_json {
            writeln!(
                out,
                "{}",
                json!({
                    "chunk": chunk.cell, "object": chunk.object, "key": chunk.key,
                    "offset": chunk.range.start, "length": length,
                })
            )
        } else {
            let cell = chunk.cell.map_or("outside".to_owned(), |cell| units::shape_argument(&cell));
            let key = chunk.key.map_or(String::new(), |key| key.to_string());
            let offset = chunk.range.start;
            writeln!(out, "{cell:<14}  {:<20}  {key:>20}  {offset:>12}  {length:>10}", chunk.object)
        };
    })?;
    Ok(failed?)
}
