//! From a file of elements to a new array.

mod chunks;
mod missing;

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};
use shardine::plan::chunks_per_shard_for;
use shardine::store::{FileStore, Folders};
use shardine::zarr::metadata::ArrayMetadata;
use shardine::{
    Array, ArrayNode, Axis, DataType, ElementSize, Engine, Packing, Region, Selection, Source,
    WriteOptions, WriteReport,
};

use super::Convert;
use super::marker::{self, Marker, Start};
use crate::cli::Machine;
use crate::create::{self, Shape, ShardArgument};
use crate::failure::Failure;
use crate::input::Input;
use crate::progress::Progress;
use crate::write::describe;
use crate::{consolidate, stored_type, units};

pub fn run(args: &Convert, machine: &Machine) -> Result<(), Failure> {
    let start = Instant::now();
    let location = machine.location(&args.target)?;
    let mut input = Input::open(Path::new(&args.source))?;
    if let (Some(folders), true) = (location.store.folders(), input.found.is_some()) {
        refuse_inside(folders, Path::new(&args.source), &args.target)?;
    }
    let (shape, data_type) = described(args, &input)?;
    let (engine, memory) = machine.engine_and_buffer()?;
    let found = input.found.take();
    let metadata = packed(args, &engine, &shape, &data_type, &input)?;
    // How the file is read is told by the array, which is not to be there before all is known to be well.
    let unseen = chunks::in_memory(&engine, metadata.clone())?;
    let source = input.source(&unseen, &shape, args.cast, memory)?;
    drop(unseen);
    let marker = Marker::new(Path::new(&args.source), found.as_ref(), args.cast, &metadata)?;
    let array = match marker.begin(&location, &engine, args.job.overwrite)? {
        Start::Fresh => {
            let array = ArrayNode::create(&engine, &location, metadata, true)?;
            marker.cleared(&location)?;
            (array, None)
        }
        Start::Resumed(array) => {
            let objects = array.objects()?;
            (array, Some(objects))
        }
    };
    let (array, kept) = array;
    let resumed = kept.is_some();
    let cells: Vec<Vec<u64>> =
        kept.unwrap_or_default().into_iter().map(|object| object.cell).collect();
    let bytes = match data_type.size() {
        ElementSize::Fixed(size) => units::elements(&shape).saturating_mul(size as u64),
        ElementSize::Variable => 0,
    };
    let progress = Progress::bytes("converting", bytes);
    let result = write(&array, &cells, &*source, &progress, bytes);
    progress.finish();
    let report = result?;
    marker::end(&location)?;
    consolidate::renew_above(&location);
    tell(args, &array, &report, resumed.then_some(cells.len()), start.elapsed().as_secs_f64())
}

/// Refuses a file in the folder that is to become an array: what is there is removed.
fn refuse_inside(target: &dyn Folders, source: &Path, name: &str) -> Result<(), Failure> {
    let resolved = source.canonicalize().map_err(|error| Failure::file(source, &error))?;
    let above = FileStore::new(resolved.parent().unwrap_or(&resolved));
    let ids = |folders: &dyn Folders| folders.folder_ids(None).map_err(shardine::Error::from);
    let ((above, _), (target, exists)) = (ids(&above)?, ids(target)?);
    if exists && target.first().is_some_and(|target| above.contains(target)) {
        return Err(Failure::new(format!("{} lies in {name}", source.display()))
            .hint("move it out of the array that is to be made"));
    }
    Ok(())
}

/// The shape and type of what is in the file.
fn described(args: &Convert, input: &Input) -> Result<(Vec<u64>, DataType), Failure> {
    let asked =
        args.dtype.as_deref().map(DataType::parse_name).transpose().map_err(Failure::new)?;
    let shape = args.shape.as_ref().map(|Shape(shape)| shape);
    let source = &args.source;
    let Some(header) = input.header() else {
        return match (shape, asked) {
            (Some(shape), Some(data_type)) => Ok((shape.clone(), data_type)),
            _ => Err(Failure::new(format!("{source}: raw bytes do not tell their shape and type"))
                .hint("give --shape and --dtype")),
        };
    };
    if let Some(shape) = shape.filter(|&shape| *shape != header.shape) {
        return Err(Failure::new(format!(
            "{source}: has the shape {}, --shape says {}",
            units::shape(&header.shape),
            units::shape(shape)
        )));
    }
    let data_type = match asked {
        Some(data_type) => data_type,
        None => stored_type::from_descr(&header.descr).ok_or_else(|| {
            Failure::new(format!("{source}: no array can hold its type, {}", header.descr))
        })?,
    };
    Ok((header.shape.clone(), data_type))
}

/// The metadata with the shards that were asked for by number or size.
fn packed(
    args: &Convert,
    engine: &Arc<Engine>,
    shape: &[u64],
    data_type: &DataType,
    input: &Input,
) -> Result<ArrayMetadata, Failure> {
    if args.chunks_per_shard.is_none() && args.target_size.is_none() {
        return create::metadata(&args.layout, shape, data_type.clone());
    }
    let flat = args.layout.with_shard(ShardArgument::None);
    let unsharded = create::metadata(&flat, shape, data_type.clone())?;
    let chunk = unsharded.chunk_shape().to_vec();
    let per_shard = match (args.chunks_per_shard.as_ref().map(|per| &per.0), args.target_size) {
        (Some(Packing::ChunksPerShard(counts)), _) => match counts.as_slice() {
            [all] => vec![*all; shape.len()],
            counts if counts.len() == shape.len() => counts.to_vec(),
            counts => {
                return Err(Failure::new(format!(
                    "--chunks-per-shard {}: needs one number for each of the {} axes",
                    units::shape_argument(counts),
                    shape.len()
                )));
            }
        },
        (Some(_), _) => return Ok(unsharded),
        (None, target) => {
            let unseen = chunks::in_memory(engine, unsharded.clone())?;
            let source = input.again()?.source(&unseen, shape, args.cast, 0)?;
            let each = chunks::encoded_bytes(&unseen, &*source)?;
            let grid: Vec<u64> = shape.iter().zip(&chunk).map(|(&n, &c)| n.div_ceil(c)).collect();
            chunks_per_shard_for(&grid, each, target.unwrap_or_default())
        }
    };
    if per_shard.iter().all(|&n| n == 1) {
        return Ok(unsharded);
    }
    let shard = per_shard.iter().zip(&chunk).map(|(&n, &c)| n.checked_mul(c));
    let shard = shard.collect::<Option<Vec<u64>>>().ok_or_else(|| {
        Failure::new("--chunks-per-shard: such a shard is longer than can be counted")
    })?;
    let layout = args.layout.with_chunk(chunk).with_shard(ShardArgument::Shape(shard));
    create::metadata(&layout, shape, data_type.clone())
}

/// Writes all that is not there yet.
fn write(
    array: &Array,
    kept: &[Vec<u64>],
    source: &dyn Source,
    progress: &Progress,
    bytes: u64,
) -> Result<WriteReport, Failure> {
    let options = || {
        let bar = progress.clone();
        WriteOptions::new().progress(Arc::new(move |done| bar.add(done)))
    };
    if array.shape().contains(&0) {
        return Ok(WriteReport::default());
    }
    if kept.is_empty() {
        return Ok(array.write_from(&Region::all(), source, &options())?);
    }
    let cell = array.cell_shape();
    let grid: Vec<u64> = array.shape().iter().zip(cell).map(|(&n, &c)| n.div_ceil(c)).collect();
    let boxes = missing::boxes(&grid, kept);
    let all = units::elements(array.shape()).max(1);
    let mut left = 0;
    let regions: Vec<Selection> = boxes
        .iter()
        .map(|cells| {
            let axes = cells.iter().zip(cell).zip(array.shape()).map(|((range, &n), &length)| {
                // Inside the array, so nothing overflows.
                let start = range.start * n;
                Axis { start, step: 1, count: (range.end.saturating_mul(n)).min(length) - start }
            });
            Selection { axes: axes.collect() }
        })
        .inspect(|region| left += units::elements(&region.shape()))
        .collect();
    progress.add((bytes as f64 * (1.0 - left as f64 / all as f64)) as u64);
    let mut report = WriteReport::default();
    for region in regions {
        let start = region.axes.iter().map(|axis| axis.start).collect();
        let part = chunks::Part { source, start };
        let more = array.write_from(&Region::from(&region), &part, &options())?;
        report.objects_written += more.objects_written;
        report.objects_removed += more.objects_removed;
        report.chunks_encoded += more.chunks_encoded;
        report.chunks_kept += more.chunks_kept;
        report.chunks_empty += more.chunks_empty;
        report.bytes_written += more.bytes_written;
    }
    Ok(report)
}

fn tell(
    args: &Convert,
    array: &Array,
    report: &WriteReport,
    kept: Option<usize>,
    seconds: f64,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if args.job.json {
        let mut members = Map::new();
        members.insert("shape".to_owned(), json!(array.shape()));
        members.insert("dtype".to_owned(), array.data_type().to_json());
        members.insert("chunk_shape".to_owned(), json!(array.chunk_shape()));
        members.insert("shard_shape".to_owned(), json!(array.shard_shape()));
        members.insert("resumed".to_owned(), json!(kept.is_some()));
        members.insert("objects_kept".to_owned(), json!(kept.unwrap_or(0)));
        members.extend(describe(report, seconds));
        writeln!(out, "{}", Value::Object(members))?;
        return Ok(());
    }
    let packing = match array.shard_shape() {
        Some(shard) => {
            format!(
                "chunks {} in shards {}",
                units::shape(array.chunk_shape()),
                units::shape(shard)
            )
        }
        None => format!("chunks {}", units::shape(array.chunk_shape())),
    };
    let (shape, name) = (units::shape(array.shape()), array.data_type().name());
    let kept = kept
        .map_or(String::new(), |n| format!(", {} were there", units::count(n as u64, "object")));
    let written = units::size(report.bytes_written);
    writeln!(out, "made {}: {shape} {name}, {packing}; {written} written{kept}", args.target)?;
    Ok(())
}
