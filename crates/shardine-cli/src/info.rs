//! `shardine info`: what is at a location.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Map, Value, json};
use shardine::jobs::{UnfinishedJob, unfinished_job};
use shardine::precomputed::{KeyFolders, Volume};
use shardine::store::StoreError;
use shardine::vectors::VectorStore;
use shardine::zarr::formats_at;
use shardine::zarr::metadata::{
    ArrayMetadata, ChunkKeyEncoding, codec_specs_from_json, codec_specs_to_json,
};
use shardine::zarr::{OpaqueArray, ZarrFormat};
use shardine::{
    Array, ArrayNode, Child, CodecSpec, DataType, ElementSize, Group, Node, codec_words, open_in,
};

use crate::cli::Machine;
use crate::failure::{Failure, quoted};
use crate::ome::Look;
use crate::progress::Progress;
use crate::value_folders::Description;
use crate::{data_set, ome, opaque, units, vectors, volume};

const EXAMPLES: &str = "\
Examples:
  shardine info image.zarr
  shardine info image.zarr --fast
  shardine info image.zarr --attributes
  shardine info image.zarr --json | jq .stored.ratio
  shardine info ome.zarr --json | jq .ome.levels[0].scale

Codecs are shown in the form that `shardine create --codec` takes. Only the metadata, the names and
sizes of the stored objects, and the indexes of shards are read, no chunks. If an array uses an
unknown codec or data type, everything else is shown, with what is unsupported.

Of an OME-Zarr image, the axes, levels, channels and label images are shown, of a plate its wells.

Folders of precomputed meshes, skeletons and annotations are described too, on their own and with
the volume that refers to them.";

/// Describe an array, group, image, plate, volume or other data set
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Info {
    /// Path or URL of the data set
    url: String,
    /// Read only the metadata, not the stored objects
    #[arg(long)]
    fast: bool,
    /// Print the values of attributes too, not only their names
    #[arg(long)]
    attributes: bool,
    /// Print the description as JSON
    #[arg(long)]
    json: bool,
}

/// A summary of the stored objects of an array.
#[derive(Debug, Default)]
pub struct Stored {
    pub objects: u64,
    pub bytes: u64,
    /// Entries present in their indexes: chunks, or for nested shards the inner shards. `None`
    /// where that is unknown without decoding a shard.
    pub entries: Option<u64>,
    /// Bytes of shards that no entry refers to.
    pub gap_bytes: u64,
    /// Shards whose index is damaged, and what is wrong with the first.
    pub damaged: u64,
    pub damage: Option<String>,
    /// Whether the store cannot list, so that each object was probed. Bytes of damaged shards are
    /// not counted then.
    pub asked: bool,
    /// Whether there may be too many objects to probe: then nothing above is known.
    pub unknown: bool,
}

pub fn run(args: &Info, machine: &Machine) -> Result<(), Failure> {
    let engine = machine.engine()?;
    let location = machine.location(&args.url)?;
    let set = open_in(&engine, &location)?;
    let job = unfinished_job(&location)?;
    if let Some(opened) = set.downcast_ref::<Volume>() {
        return volume::info(&engine, &args.url, opened, args.fast, args.json, job.as_ref());
    }
    if let Some(folders) = set.downcast_ref::<KeyFolders>() {
        let description = Description::of(&engine, folders, args.fast)?;
        // Else it is an `info` of something else, and the reason why it is no volume is all there is.
        if description.is_known() {
            let mut out = BufWriter::new(io::stdout().lock());
            match args.json {
                true => writeln!(out, "{:#}", description.describe())?,
                false => description.write(&mut out, &args.url)?,
            }
            return Ok(out.flush()?);
        }
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if let Some(array) = set.downcast_ref::<OpaqueArray>() {
        let stored = match array.listing() {
            Ok(listing) => args.stored(listing)?,
            Err(_) => None,
        };
        match args.json {
            true => writeln!(out, "{:#}", opaque::describe(array, stored.as_ref()))?,
            false => opaque::write(&mut out, &args.url, array, stored.as_ref(), args.attributes)?,
        }
        return Ok(out.flush()?);
    }
    // Zarr also has attributes, consolidated metadata and documents of two versions to describe.
    let node = match (set.downcast_ref::<ArrayNode>(), set.downcast_ref::<Group>()) {
        (Some(array), _) => ZarrNode::Array(array),
        (_, Some(group)) => ZarrNode::Group(group),
        (None, None) if args.json => {
            writeln!(out, "{:#}", data_set::describe(&*set, &|array| args.stored(array))?)?;
            return Ok(out.flush()?);
        }
        (None, None) => {
            data_set::write(&mut out, &args.url, &*set, &|array| args.stored(array))?;
            return Ok(out.flush()?);
        }
    };
    // A store may refuse to say that there is nothing; then this is all that is known.
    let formats = formats_at(&location).unwrap_or_else(|_| match node {
        ZarrNode::Array(array) => vec![array.zarr_format()],
        ZarrNode::Group(group) => vec![group.zarr_format()],
    });
    let geometry = match node {
        ZarrNode::Group(group) if VectorStore::is_store(group) => {
            Some(VectorStore::of_group(group).and_then(|store| store.info()))
        }
        _ => None,
    };
    if let Some(Ok(info)) = &geometry {
        if args.json {
            let mut description = info.to_json();
            description["unfinished_job"] = job_json(job.as_ref());
            writeln!(out, "{description:#}")?;
        } else {
            vectors::info::write(&mut out, &args.url, info)?;
            write_job(&mut out, &args.url, job.as_ref())?;
        }
        return Ok(out.flush()?);
    }
    let look = match node {
        ZarrNode::Group(group) => Look::at(&engine, group, &|array| args.stored(array), args.json)?,
        ZarrNode::Array(_) => Look::Plain,
    };
    if args.json {
        let mut description = match (node, &look) {
            (ZarrNode::Array(array), _) => describe(array, args.stored(array)?.as_ref()),
            (ZarrNode::Group(group), Look::Ome(info)) => info.describe(group),
            (ZarrNode::Group(group), _) => describe_group(group, Some(&group.children()?)),
        };
        if let Look::NotUnderstood(reason) = &look {
            description["ome"] = json!({ "message": reason });
        }
        if let Some(Err(error)) = &geometry {
            description["zarr_vectors"] = json!({ "message": error.to_string() });
        }
        if let Value::Object(members) = &mut description {
            let formats: Vec<&str> = formats.iter().map(|&format| format_id(format)).collect();
            members.insert("formats".to_owned(), json!(formats));
            members.insert("unfinished_job".to_owned(), job_json(job.as_ref()));
        }
        writeln!(out, "{description:#}")?;
    } else {
        match (node, &look) {
            (ZarrNode::Array(array), _) => {
                write_array(&mut out, &args.url, array, args.stored(array)?.as_ref())?;
            }
            (ZarrNode::Group(group), Look::Ome(info)) => info.write(&mut out, &args.url, group)?,
            (ZarrNode::Group(group), _) => write_group(&mut out, &args.url, group)?,
        }
        if let Look::NotUnderstood(reason) = &look {
            line(&mut out, "OME-Zarr", format!("cannot be understood: {reason}"))?;
        }
        if let Some(Err(error)) = &geometry {
            line(&mut out, "Zarr Vectors", format!("cannot be read: {error}"))?;
        }
        if formats.len() > 1 {
            let other =
                "metadata of both Zarr v2 and Zarr v3; v3 is used unless --zarr-format 2 is given";
            line(&mut out, "versions", other)?;
        }
        write_job(&mut out, &args.url, job.as_ref())?;
        if args.attributes {
            let attributes = match node {
                ZarrNode::Array(array) => array.metadata().attributes(),
                ZarrNode::Group(group) => group.metadata().attributes(),
            };
            write_attributes(&mut out, attributes)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Says that a job on the data set has not ended.
pub fn write_job(out: &mut dyn Write, url: &str, job: Option<&UnfinishedJob>) -> io::Result<()> {
    let Some(job) = job else { return Ok(()) };
    let begun = job.command.as_ref().map(|command| format!(", `{command}`"));
    let begun = begun.unwrap_or_default();
    let text = match job.in_use {
        true => format!("a job is rebuilding it{begun}"),
        false => format!(
            "a job that rebuilds it was interrupted{begun}; run it again to resume, or `shardine repair {}` to undo it",
            quoted(url)
        ),
    };
    line(out, "unfinished", text)
}

/// The same for programs.
pub fn job_json(job: Option<&UnfinishedJob>) -> Value {
    job.map_or(
        Value::Null,
        |job| json!({ "folder": job.folder, "command": job.command, "in_use": job.in_use }),
    )
}

/// The values of attributes.
pub fn write_attributes(out: &mut dyn Write, attributes: &Map<String, Value>) -> io::Result<()> {
    attributes.iter().try_for_each(|(name, value)| writeln!(out, "\n{name}\n{value:#}"))
}

/// A Zarr node that is described with its metadata.
#[derive(Clone, Copy)]
enum ZarrNode<'a> {
    Array(&'a ArrayNode),
    Group(&'a Group),
}

impl Info {
    fn stored(&self, array: &Array) -> Result<Option<Stored>, Failure> {
        if self.fast {
            return Ok(None);
        }
        match array.possible_objects() {
            // Its metadata can be described all the same.
            Err(shardine::Error::Store(
                error @ (StoreError::Unlisted { .. } | StoreError::LinkedFolder { .. }),
            )) => {
                eprintln!("note: stored objects were not counted: {error}");
                Ok(None)
            }
            _ => Stored::scan(array).map(Some),
        }
    }
}

/// A version for programs.
pub fn format_id(format: ZarrFormat) -> &'static str {
    match format {
        ZarrFormat::V2 => "zarr2",
        ZarrFormat::V3 => "zarr3",
    }
}

/// A version for display.
pub fn format_name(format: ZarrFormat) -> &'static str {
    match format {
        ZarrFormat::V2 => "Zarr v2",
        ZarrFormat::V3 => "Zarr v3",
    }
}

impl Stored {
    /// Looks at every stored object: one listing for each folder, and a read of its index for each
    /// shard.
    pub fn scan(array: &Array) -> Result<Self, Failure> {
        let possible = match array.possible_objects() {
            Err(shardine::Error::UnlistedObjects { .. }) => {
                return Ok(Self { unknown: true, ..Self::default() });
            }
            possible => possible?,
        };
        let asked = possible.iter().any(|object| object.listed.is_none());
        let mut stored = Self { asked, ..Self::default() };
        if array.entry_shape().is_none() {
            let objects = if asked { array.objects()? } else { Vec::new() };
            stored.objects = if asked { objects.len() } else { possible.len() } as u64;
            stored.bytes = objects.iter().map(|object| object.len).sum::<u64>()
                + possible.iter().filter_map(|object| object.listed).sum::<u64>();
            if array.shard_shape().is_none() {
                stored.entries = Some(stored.objects);
            }
            return Ok(stored);
        }
        let (mut entries, mut failed) = (0, None);
        let progress = Progress::things("reading indexes", possible.len() as u64);
        array.each_shard(&possible, &mut |object, shard| {
            progress.add(1);
            match shard {
                Ok(Some(shard)) => {
                    stored.objects += 1;
                    stored.bytes += shard.len;
                    entries += shard.entries.iter().flatten().count() as u64;
                    stored.gap_bytes += shard.gap_bytes;
                }
                // Missing, or removed since it was listed.
                Ok(None) => {}
                Err(
                    error @ (shardine::Error::Engine(shardine::EngineError::Shard { .. })
                    | shardine::Error::Store(StoreError::Damaged { .. })),
                ) => {
                    stored.objects += 1;
                    stored.bytes += object.listed.unwrap_or_default();
                    stored.damaged += 1;
                    stored.damage.get_or_insert(error.to_string());
                }
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        progress.finish();
        if let Some(error) = failed {
            return Err(error.into());
        }
        stored.entries = Some(entries);
        Ok(stored)
    }
}

/// Bytes of all elements of a shape, uncompressed; `None` for variable-length types.
pub fn raw_bytes(shape: &[u64], data_type: &DataType) -> Option<u64> {
    match data_type.size() {
        ElementSize::Fixed(size) => Some(units::elements(shape).saturating_mul(size as u64)),
        ElementSize::Variable => None,
    }
}

/// Cells of a grid over a shape.
pub fn cells(shape: &[u64], cell: &[u64]) -> u64 {
    let counts: Vec<u64> = shape.iter().zip(cell).map(|(&n, &c)| n.div_ceil(c.max(1))).collect();
    units::elements(&counts)
}

/// Chunks along each axis of a shard.
pub fn chunks_in(array: &Array, shard: &[u64]) -> Vec<u64> {
    shard.iter().zip(array.chunk_shape()).map(|(&s, &c)| s / c.max(1)).collect()
}

/// The shape of the inner shards that the indexes of stored objects refer to, if shards are nested.
pub fn inner_shard(array: &Array) -> Option<&[u64]> {
    array.entry_shape().filter(|&entry| entry != array.chunk_shape())
}

/// Decoded bytes of everything that the indexes refer to; `None` for variable-length types.
fn decoded_bytes(array: &Array, stored: &Stored) -> Option<u64> {
    let object = array.cell_shape();
    let (count, shape) = match stored.entries {
        Some(entries) => (entries, array.entry_shape().unwrap_or(object)),
        None => (stored.objects, object),
    };
    raw_bytes(shape, array.data_type()).map(|bytes| bytes.saturating_mul(count))
}

/// The compression ratio. Chunks that are not stored do not count: the codecs get no credit for a
/// hole.
fn ratio(decoded: Option<u64>, stored: u64) -> Option<f64> {
    decoded.filter(|_| stored > 0).map(|decoded| decoded as f64 / stored as f64)
}

/// The parts of a shard's description.
pub struct Sharding {
    pub codecs: Vec<CodecSpec>,
    pub index_codecs: Vec<CodecSpec>,
    pub index_location: String,
}

/// The outermost sharding codec; the array is open, so it is well-formed.
pub fn sharding(codecs: &[CodecSpec]) -> Option<Sharding> {
    let codec = codecs.iter().find(|codec| codec.name == "sharding_indexed")?;
    let chain = |member: &str| codec_specs_from_json(codec.configuration.get(member)?).ok();
    let location = codec.configuration.get("index_location").and_then(Value::as_str);
    Some(Sharding {
        codecs: chain("codecs")?,
        index_codecs: chain("index_codecs")?,
        index_location: location.unwrap_or("end").to_owned(),
    })
}

/// An array in JSON.
pub fn describe(array: &ArrayNode, stored: Option<&Stored>) -> Value {
    let metadata = array.metadata();
    let (shape, data_type) = (array.shape(), array.data_type());
    let sharding = sharding(metadata.codecs());
    let index = sharding.as_ref().map(|sharding| {
        json!({
            "location": sharding.index_location,
            "codecs": codec_specs_to_json(&sharding.index_codecs),
        })
    });
    let chunk_codecs = sharding.as_ref().map_or(metadata.codecs(), |sharding| &sharding.codecs);
    let mut description = json!({
        "kind": "array",
        "format": format_id(array.zarr_format()),
        "url": array.location().to_string(),
        "shape": shape,
        "dtype": data_type.to_json(),
        "dimension_names": metadata.dimension_names(),
        "fill_value": data_type.fill_to_json(metadata.fill()),
        "chunk_shape": array.chunk_shape(),
        "shard_shape": array.shard_shape(),
        "chunks_per_shard": array.shard_shape().map(|shard| chunks_in(array, shard)),
        "inner_shard_shape": inner_shard(array),
        "codecs": codec_specs_to_json(metadata.codecs()),
        "chunk_codecs": codec_words::show_chain(chunk_codecs),
        "index": index,
        "chunk_key_encoding": metadata.key_encoding().to_json(),
        "attributes": metadata.attributes(),
        "unsupported": [],
    });
    if let (Some(stored), Value::Object(members)) = (stored, &mut description) {
        members.insert("stored".to_owned(), describe_stored(array, stored));
    }
    description
}

/// The stored objects of an array in JSON.
pub fn describe_stored(array: &Array, stored: &Stored) -> Value {
    let (shape, data_type) = (array.shape(), array.data_type());
    let objects_possible = cells(shape, array.shard_shape().unwrap_or(array.cell_shape()));
    if stored.unknown {
        return json!({
            "listed": false,
            "objects": null,
            "objects_possible": objects_possible,
            "chunks_possible": cells(shape, array.chunk_shape()),
            "array_bytes": raw_bytes(shape, data_type),
        });
    }
    let decoded = decoded_bytes(array, stored);
    let inner = inner_shard(array);
    json!({
        "listed": !stored.asked,
        "objects": stored.objects,
        "objects_possible": objects_possible,
        "chunks": stored.entries.filter(|_| inner.is_none()),
        "chunks_possible": cells(shape, array.chunk_shape()),
        "inner_shards": stored.entries.filter(|_| inner.is_some()),
        "inner_shards_possible": inner.map(|inner| cells(shape, inner)),
        "bytes": stored.bytes,
        "decoded_bytes": decoded,
        "ratio": ratio(decoded, stored.bytes),
        "array_bytes": raw_bytes(shape, data_type),
        "gap_bytes": stored.gap_bytes,
        "damaged_shards": stored.damaged,
    })
}

/// One line of a description.
pub fn line(out: &mut dyn Write, name: &str, value: impl std::fmt::Display) -> io::Result<()> {
    writeln!(out, "{name:<12} {value}")
}

/// An array for display.
pub fn write_array(
    out: &mut dyn Write,
    url: &str,
    array: &ArrayNode,
    stored: Option<&Stored>,
) -> io::Result<()> {
    let metadata = array.metadata();
    let (shape, data_type) = (array.shape(), array.data_type());
    let sharded = if sharding(metadata.codecs()).is_some() { ", sharded" } else { "" };
    line(out, "array", url)?;
    line(out, "format", format!("{}{sharded}", format_name(array.zarr_format())))?;
    line(out, "shape", format!("{}{}", units::shape(shape), axis_names(metadata)))?;
    line(out, "type", type_line(data_type))?;
    line(out, "fill value", data_type.format_element(&metadata.fill().0))?;
    write_packing(out, array, Some(data_type))?;
    write_codecs(out, metadata.codecs())?;
    line(out, "keys", format!("like {}", example_key(metadata)))?;
    if let Some(stored) = stored {
        write_stored(out, array, stored)?;
    }
    line(out, "attributes", summary(metadata.attributes().keys()))
}

/// The shapes of chunks and shards, with their sizes if the type is known.
pub fn write_packing(
    out: &mut dyn Write,
    array: &Array,
    data_type: Option<&DataType>,
) -> io::Result<()> {
    let size = |shape: &[u64]| match data_type.and_then(|data_type| raw_bytes(shape, data_type)) {
        Some(bytes) => format!("{}, {}", units::shape(shape), units::size(bytes)),
        None => units::shape(shape),
    };
    line(out, "chunk", size(array.chunk_shape()))?;
    for (name, shard) in [("inner shard", inner_shard(array)), ("shard", array.shard_shape())] {
        let Some(shard) = shard else { continue };
        let chunks = chunks_in(array, shard);
        let count = units::count(units::elements(&chunks), "chunk");
        line(out, name, format!("{}, {count} ({})", size(shard), units::shape(&chunks)))?;
    }
    Ok(())
}

/// The codecs of chunks, and of shards the index.
pub fn write_codecs(out: &mut dyn Write, codecs: &[CodecSpec]) -> io::Result<()> {
    let Some(sharding) = sharding(codecs) else {
        return line(out, "codecs", codec_words::show_chain(codecs));
    };
    line(out, "codecs", codec_words::show_chain(&sharding.codecs))?;
    let chain = codec_words::show_chain(&sharding.index_codecs);
    line(out, "index", format!("at the {}, {chain}", sharding.index_location))?;
    if codecs.len() > 1 {
        line(out, "of shards", codec_words::show_chain(codecs))?;
    }
    Ok(())
}

pub fn write_stored(out: &mut dyn Write, array: &Array, stored: &Stored) -> io::Result<()> {
    let shape = array.shape();
    let possible = cells(shape, array.shard_shape().unwrap_or(array.cell_shape()));
    let sharded = array.shard_shape().is_some();
    let what = if sharded { "shard" } else { "chunk" };
    if stored.unknown {
        let possible = units::count(possible, what);
        return line(
            out,
            "stored",
            format!("unknown: this store cannot list, and there may be {possible}"),
        );
    }
    let mut text = format!("{} of {}", stored.objects, units::count(possible, what));
    let entry = match (stored.entries, inner_shard(array)) {
        (None, _) => what,
        (Some(_), Some(_)) => "inner shard",
        (Some(_), None) => "chunk",
    };
    if let (Some(entries), Some(shape_of_entry)) = (stored.entries, array.entry_shape()) {
        let possible = cells(shape, shape_of_entry);
        text.push_str(&format!(", {entries} of {}", units::count(possible, entry)));
    }
    if stored.asked {
        text.push_str("; each was requested, because this store cannot list");
    }
    line(out, "stored", text)?;
    let mut text = units::size(stored.bytes);
    let decoded = decoded_bytes(array, stored);
    if let (Some(decoded), Some(ratio)) = (decoded, ratio(decoded, stored.bytes)) {
        let decoded = units::size(decoded);
        text.push_str(&format!(" for {decoded} in these {entry}s, ratio {ratio:.2}"));
    }
    if let Some(whole) = raw_bytes(shape, array.data_type()) {
        text.push_str(&format!("; the whole array is {}", units::size(whole)));
    }
    line(out, "bytes", text)?;
    if sharded && stored.entries.is_some() {
        let share = 100.0 * stored.gap_bytes as f64 / stored.bytes.max(1) as f64;
        let text = match stored.gap_bytes {
            0 => "none".to_owned(),
            gaps => format!("{}, {share:.1} %", units::size(gaps)),
        };
        line(out, "gaps", text)?;
    }
    if let Some(damage) = &stored.damage {
        line(out, "damaged", format!("{}: {damage}", units::count(stored.damaged, "shard")))?;
    }
    Ok(())
}

fn axis_names(metadata: &ArrayMetadata) -> String {
    match metadata.dimension_names() {
        None => String::new(),
        Some(names) => {
            let names: Vec<&str> =
                names.iter().map(|name| name.as_deref().unwrap_or("-")).collect();
            format!(" ({})", names.join(", "))
        }
    }
}

pub fn type_line(data_type: &DataType) -> String {
    match data_type.size() {
        ElementSize::Fixed(size) => {
            format!("{}, {}", data_type.name(), units::count(size as u64, "byte"))
        }
        ElementSize::Variable => format!("{}, of variable length", data_type.name()),
    }
}

fn example_key(metadata: &ArrayMetadata) -> String {
    let encoding: &ChunkKeyEncoding = metadata.key_encoding();
    encoding.key(&(0..metadata.shape().len() as u64).collect::<Vec<_>>())
}

/// The number of names, and the first few.
pub fn summary<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    const MOST: usize = 8;
    let count = names.len();
    if count == 0 {
        return "none".to_owned();
    }
    let names: Vec<&str> = names.take(MOST).map(String::as_str).collect();
    let more = if count > MOST { ", ..." } else { "" };
    format!("{count}: {}{more}", names.join(", "))
}

/// An array on one line.
pub fn one_line(array: &Array) -> String {
    let (shape, name) = (units::shape(array.shape()), array.data_type().name());
    let packing = match array.shard_shape() {
        Some(shard) => format!("shards of {}", units::shape(shard)),
        None => format!("chunks of {}", units::shape(array.chunk_shape())),
    };
    format!("array, {shape} {name}, {packing}")
}

fn write_group(out: &mut dyn Write, url: &str, group: &Group) -> Result<(), Failure> {
    let metadata = group.metadata();
    line(out, "group", url)?;
    line(out, "format", format_name(group.zarr_format()))?;
    line(out, "attributes", summary(metadata.attributes().keys()))?;
    line(out, "consolidated", consolidated_words(group))?;
    let children = group.children()?;
    let mut text = if children.is_empty() { "none".to_owned() } else { children.len().to_string() };
    if children.iter().any(|child| !child.listed) {
        text.push_str(", from consolidated metadata: this store cannot list");
    }
    line(out, "children", text)?;
    let width = children.iter().map(|child| child.name.chars().count()).max().unwrap_or(0);
    for child in &children {
        writeln!(out, "  {:<width$}  {}", child.name, child_words(child))?;
    }
    Ok(())
}

/// The consolidated metadata of a group in words.
pub fn consolidated_words(group: &Group) -> String {
    match group.metadata().consolidated() {
        Some(nodes) => format!("metadata of {}", units::count(nodes.len() as u64, "node")),
        None => "none".to_owned(),
    }
}

/// A node below a group on one line.
pub fn child_words(child: &Child) -> String {
    match &child.node {
        Ok(Node::Array(array)) => one_line(array),
        Ok(Node::Group(group)) => match ome::metadata_of(group) {
            Some(metadata) => ome::words(&metadata),
            None => "group".to_owned(),
        },
        Err(error) => format!("cannot be read: {error}"),
    }
}

/// A group in JSON; without children if the store cannot list.
pub fn describe_group(group: &Group, children: Option<&[Child]>) -> Value {
    let listed = children.is_some_and(|children| children.iter().all(|child| child.listed));
    let children: Vec<Value> = children
        .unwrap_or_default()
        .iter()
        .map(|Child { name, node, .. }| match node {
            Ok(Node::Group(_)) => json!({ "name": name, "path": name, "kind": "group" }),
            Ok(Node::Array(array)) => json!({
                "name": name,
                "path": name,
                "kind": "array",
                "shape": array.shape(),
                "dtype": array.data_type().to_json(),
            }),
            Err(error) => {
                let message = error.to_string();
                json!({ "name": name, "path": name, "kind": "error", "message": message })
            }
        })
        .collect();
    json!({
        "kind": "group",
        "format": format_id(group.zarr_format()),
        "url": group.location().to_string(),
        "consolidated": group.metadata().consolidated().is_some(),
        "listed": listed,
        "children": children,
        "attributes": group.metadata().attributes(),
    })
}
