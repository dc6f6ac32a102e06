//! `shardine ls`: what is inside.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Value, json};
use shardine::precomputed::Volume;
use shardine::stored::{PossibleObject, ShardEntries};
use shardine::zarr::OpaqueArray;
use shardine::{Array, SetKind, open_in};

use crate::cli::Machine;
use crate::dataset::{Level, no_array};
use crate::failure::Failure;
use crate::tree::{Seen, Tree};
use crate::{info, units, volume};

const EXAMPLES: &str = "\
Examples:
  shardine ls images.zarr -r
  shardine ls image.zarr
  shardine ls image.zarr --shards
  shardine ls ome.zarr --level 2 --shards
  shardine ls image.zarr --chunks --json | jq -s 'map(.length) | add'

With -r, of three or more nodes that look alike only the first is shown with what is below it:
--all shows all. --json always has all.";

/// List the nodes of a group, the levels of a volume, or the objects of an array or a level
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ls {
    /// Path or URL of the group, image, volume or array
    url: String,
    /// List groups recursively
    #[arg(short, long)]
    recursive: bool,
    /// With -r, also list each of several nodes that look alike, such as the wells of a plate
    #[arg(long)]
    all: bool,
    /// List the shards of an array: bytes, chunks (or inner shards), gaps
    #[arg(long, conflicts_with = "chunks")]
    shards: bool,
    /// List the chunks of an array and where each is stored; for nested shards, the inner shards
    #[arg(long)]
    chunks: bool,
    #[command(flatten)]
    level: Level,
    /// Print the listing as JSON; with --chunks, one document per line
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Ls, machine: &Machine) -> Result<(), Failure> {
    let location = machine.location(&args.url)?;
    let set = open_in(&machine.engine()?, &location)?;
    if let Some(opened) = set.downcast_ref::<Volume>() {
        let list = volume::List { shards: args.shards, chunks: args.chunks, json: args.json };
        return volume::ls(opened, args.level, &list);
    }
    let of_array = args.shards || args.chunks;
    let of_level = of_array || args.level.given().is_some();
    let tree = match set.kind() {
        SetKind::KeyValues => return Err(no_array(&*set, &location)),
        SetKind::Group if of_level && (!of_array || !set.levels()?.is_empty()) => false,
        SetKind::Group if of_array => {
            return Err(Failure::new(format!("{} is a group; only arrays have chunks", args.url))
                .hint(format!("run `shardine ls {}` to list its arrays", args.url)));
        }
        SetKind::Levels => !of_level,
        kind => kind == SetKind::Group,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let shown = Tree { recursive: args.recursive, all: args.all };
    if tree && args.json {
        let mut seen = Seen::default();
        writeln!(out, "{:#}", shown.describe(&*set, &mut seen)?)?;
        seen.note();
    } else if tree {
        let seen = shown.write(&mut out, &args.url, &*set)?;
        out.flush()?;
        seen.note();
    } else {
        let opened;
        let array = match set.downcast_ref::<OpaqueArray>() {
            Some(opaque) => opaque.listing()?,
            None => {
                opened = args.level.of(&*set, &location, None)?;
                &opened
            }
        };
        match (args.chunks, args.shards) {
            (true, _) => chunks(&mut out, array, args.json)?,
            (_, true) => shards(&mut out, array, args.json)?,
            _ => objects(&mut out, array, args.json)?,
        }
    }
    out.flush()?;
    Ok(())
}

/// The stored objects, by position in the grid.
fn objects(out: &mut dyn Write, array: &Array, as_json: bool) -> Result<(), Failure> {
    let objects = array.objects()?;
    if as_json {
        let listed: Vec<Value> = objects
            .iter()
            .map(|object| json!({ "key": object.key.as_str(), "cell": object.cell, "bytes": object.len }))
            .collect();
        writeln!(out, "{:#}", Value::Array(listed))?;
        return Ok(());
    }
    let rows = objects.iter().map(|object| [object.key.to_string(), object.len.to_string()]);
    write_table(out, ["object", "bytes"], &rows.collect::<Vec<_>>())?;
    Ok(())
}

/// Reads the indexes of all shards, and passes them on with their positions in the grid.
fn each_shard(
    array: &Array,
    objects: &[PossibleObject],
    write: &mut dyn FnMut(&PossibleObject, ShardEntries) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut result = Ok(());
    array.each_shard(objects, &mut |object, shard| {
        result = match shard {
            Ok(Some(shard)) => write(object, shard).map_err(Failure::from),
            Ok(None) if array.entry_shape().is_none() => Err(Failure::new(
                "the index of a shard cannot be read separately: a codec encodes the whole shard",
            )),
            // Missing, or removed since it was listed.
            Ok(None) => Ok(()),
            Err(error) => Err(error.into()),
        };
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    result
}

fn shards(out: &mut dyn Write, array: &Array, as_json: bool) -> Result<(), Failure> {
    let mut listed = Vec::new();
    let mut rows = Vec::new();
    if array.shard_shape().is_none() {
        return Err(Failure::new("the array is not sharded")
            .hint("omit --shards to list its stored chunks"));
    }
    let nested = info::inner_shard(array).is_some();
    let (name, possible) = match nested {
        true => ("inner_shards", "inner_shards_possible"),
        false => ("chunks", "chunks_possible"),
    };
    each_shard(array, &array.possible_objects()?, &mut |object, shard| {
        let present = shard.entries.iter().flatten().count();
        let (all, index) = (shard.entries.len(), &shard.index_range);
        if as_json {
            listed.push(json!({
                "key": shard.key.as_str(),
                "cell": object.cell,
                "bytes": shard.len,
                name: present,
                possible: all,
                "gap_bytes": shard.gap_bytes,
                "index": { "offset": index.start, "length": index.end - index.start },
            }));
        } else {
            rows.push([
                shard.key.to_string(),
                shard.len.to_string(),
                format!("{present} of {all}"),
                shard.gap_bytes.to_string(),
                format!("{}..{}", index.start, index.end),
            ]);
        }
        Ok(())
    })?;
    if as_json {
        writeln!(out, "{:#}", Value::Array(listed))?;
    } else {
        let name = if nested { "inner shards" } else { "chunks" };
        write_table(out, ["shard", "bytes", name, "gap bytes", "index"], &rows)?;
    }
    Ok(())
}

/// Entry by entry, shard after shard: nothing is kept, so there may be any number.
fn chunks(out: &mut dyn Write, array: &Array, as_json: bool) -> Result<(), Failure> {
    let (plain, sharded) = match array.shard_shape() {
        None => (array.objects()?, Vec::new()),
        Some(_) => (Vec::new(), array.possible_objects()?),
    };
    let keys = plain.iter().map(|o| &o.key).chain(sharded.iter().map(|o| &o.key));
    let key_width = keys.map(|key| key.as_str().len()).max().unwrap_or(0).max(6);
    let grid: Vec<u64> = array
        .shape()
        .iter()
        .zip(array.entry_shape().unwrap_or(array.chunk_shape()))
        .map(|(&n, &c)| n.div_ceil(c.max(1)))
        .collect();
    let (name, member) = match info::inner_shard(array) {
        Some(_) => ("inner shard", "inner_shard"),
        None => ("chunk", "chunk"),
    };
    let cell_width = units::shape_argument(&grid).len().max(name.len());
    if !as_json {
        writeln!(
            out,
            "{:<cell_width$}  {:<key_width$}  {:>12}  {:>10}",
            name, "object", "offset", "length"
        )?;
    }
    let mut write = |chunk: &[u64], key: &str, offset: u64, length: u64| -> io::Result<()> {
        if as_json {
            let entry = json!({ member: chunk, "key": key, "offset": offset, "length": length });
            return writeln!(out, "{entry}");
        }
        let chunk = units::shape_argument(chunk);
        writeln!(out, "{chunk:<cell_width$}  {key:<key_width$}  {offset:>12}  {length:>10}")
    };
    for object in plain {
        write(&object.cell, object.key.as_str(), 0, object.len)?;
    }
    each_shard(array, &sharded, &mut |object, shard| {
        for (i, range) in shard.entries.iter().enumerate() {
            let Some(range) = range else { continue };
            let mut i = i as u64;
            let mut chunk = object.cell.clone();
            for (at, &n) in chunk.iter_mut().zip(&shard.grid).rev() {
                *at = at.saturating_mul(n).saturating_add(i % n.max(1));
                i /= n.max(1);
            }
            write(&chunk, shard.key.as_str(), range.start, range.end - range.start)?;
        }
        Ok(())
    })
}

/// Columns as wide as needed; the first left-aligned, the others right-aligned.
pub fn write_table<const N: usize>(
    out: &mut dyn Write,
    head: [&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let width = |k: usize| {
        rows.iter().map(|row| row[k].chars().count()).max().unwrap_or(0).max(head[k].len())
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut write = |cells: [&str; N]| {
        let mut line = format!("{:<width$}", cells[0], width = widths[0]);
        for k in 1..N {
            line.push_str(&format!("  {:>width$}", cells[k], width = widths[k]));
        }
        writeln!(out, "{}", line.trim_end())
    };
    write(head)?;
    rows.iter().try_for_each(|row| write(std::array::from_fn(|k| row[k].as_str())))
}
