//! `shardine ls`: what is inside.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use clap::Args;
use serde_json::{Value, json};
use shardine::zarr::MAX_DEPTH;
use shardine::{Array, Child, DataSet, Group, Node, PossibleObject, ShardEntries, open};

use crate::cli::Machine;
use crate::dataset::{Level, unexpected};
use crate::failure::Failure;
use crate::{info, units, volume};

const EXAMPLES: &str = "\
Examples:
  shardine ls images.zarr -r
  shardine ls image.zarr
  shardine ls image.zarr --shards
  shardine ls image.zarr --chunks --json | jq -s 'map(.length) | add'";

/// List the nodes of a group, the levels of a volume, or the stored objects of an array
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ls {
    /// The group, volume or array
    url: String,
    /// Also what is below the groups inside
    #[arg(short, long)]
    recursive: bool,
    /// The shards of an array: bytes, chunks (or inner shards), gaps
    #[arg(long, conflicts_with = "chunks")]
    shards: bool,
    /// The chunks of an array: where each lies. Of shards in shards, where each inner shard lies
    #[arg(long)]
    chunks: bool,
    #[command(flatten)]
    level: Level,
    /// List in JSON; with --chunks one document for each line
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Ls, machine: &Machine) -> Result<(), Failure> {
    let location = machine.location(&args.url)?;
    let node = match open(&machine.engine()?, &location)? {
        DataSet::Array(array) => Node::Array(array),
        DataSet::Group(group) => Node::Group(group),
        DataSet::Volume(opened) => {
            let list = volume::List { shards: args.shards, chunks: args.chunks, json: args.json };
            return volume::ls(&opened, args.level, &list);
        }
        other => return Err(unexpected(&other, &location)),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    match &node {
        Node::Group(_) if args.shards || args.chunks => {
            return Err(Failure::new(format!("{} is a group; only arrays have chunks", args.url))
                .hint(format!("`shardine ls {}` lists its arrays", args.url)));
        }
        Node::Group(group) if args.json => {
            writeln!(out, "{:#}", json_tree(group, args.recursive, 0)?)?;
        }
        Node::Group(group) => {
            let empty = write_tree(&mut out, group, "", args.recursive, 0)?;
            if empty {
                eprintln!("note: the group is empty");
            }
        }
        Node::Array(array) if args.chunks => chunks(&mut out, array, args.json)?,
        Node::Array(array) if args.shards => shards(&mut out, array, args.json)?,
        Node::Array(array) => objects(&mut out, array, args.json)?,
    }
    out.flush()?;
    Ok(())
}

/// Draws what is below a group; tells whether that is nothing.
fn write_tree(
    out: &mut dyn Write,
    group: &Group,
    indent: &str,
    recursive: bool,
    depth: usize,
) -> Result<bool, Failure> {
    let children = group.children()?;
    let mut noted = false;
    children.iter().for_each(|child| note_unlisted(depth, child.listed, &mut noted));
    let width = children.iter().map(|child| child.name.chars().count()).max().unwrap_or(0);
    for (i, Child { name, node, .. }) in children.iter().enumerate() {
        let last = i + 1 == children.len();
        let branch = match (recursive, last) {
            (false, _) => "",
            (true, false) => "├── ",
            (true, true) => "└── ",
        };
        let text = match node {
            Ok(node) => info::one_line(node),
            Err(error) => format!("cannot be read: {error}"),
        };
        writeln!(out, "{indent}{branch}{name:<width$}  {text}")?;
        if let (true, Ok(Node::Group(group))) = (recursive && depth < MAX_DEPTH, node) {
            let indent = format!("{indent}{}", if last { "    " } else { "│   " });
            write_tree(out, group, &indent, recursive, depth + 1)?;
        }
    }
    Ok(children.is_empty())
}

fn json_tree(group: &Group, recursive: bool, depth: usize) -> Result<Value, Failure> {
    let (mut nodes, mut noted) = (Vec::new(), false);
    for Child { name, node, listed } in group.children()? {
        note_unlisted(depth, listed, &mut noted);
        nodes.push(match node {
            Ok(Node::Array(array)) => json!({
                "name": name,
                "kind": "array",
                "shape": array.shape(),
                "dtype": array.data_type().to_json(),
                "chunk_shape": array.chunk_shape(),
                "shard_shape": array.shard_shape(),
            }),
            Ok(Node::Group(group)) if recursive && depth < MAX_DEPTH => json!({
                "name": name,
                "kind": "group",
                "children": json_tree(&group, recursive, depth + 1)?,
            }),
            Ok(Node::Group(_)) => json!({ "name": name, "kind": "group" }),
            Err(error) => json!({ "name": name, "kind": "error", "message": error.to_string() }),
        });
    }
    Ok(Value::Array(nodes))
}

/// The stored objects, by place in the grid.
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

/// Says once where the nodes of a group come from if the store cannot list.
fn note_unlisted(depth: usize, listed: bool, noted: &mut bool) {
    if depth == 0 && !listed && !std::mem::replace(noted, true) {
        eprintln!(
            "note: this store cannot list; these are the nodes that the consolidated metadata names"
        );
    }
}

/// Reads the indexes of all shards, and hands them over by their places in the grid.
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
                "the index of a shard cannot be read by itself: a codec encodes the whole shard",
            )),
            // Not there, or removed since it was listed.
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
            .hint("without --shards its stored chunks are listed"));
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

/// Columns as wide as they need; the first to the left, the others to the right.
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
