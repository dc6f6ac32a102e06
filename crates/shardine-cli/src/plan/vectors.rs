//! Chunks, bins and shards of a store of Zarr Vectors.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use serde_json::{Value, json};
use shardine::plan::{Action, Current, VectorAdvice, VectorFigures, VectorRecommendation};
use shardine::vectors::{GeometryKind, LevelInfo, VectorInfo, VectorStore};
use shardine::{DataType, Engine, Error, Group, Node};

use super::report::{because, line};
use super::{Plan, situation};
use crate::cli::Machine;
use crate::failure::{Failure, quoted};
use crate::units;

/// What is recommended for one level.
struct Advice {
    of: VectorAdvice,
    /// The commands that do it; none if nothing has to be done, or the finest level says it.
    commands: Vec<String>,
}

/// Advises on the levels of a store.
pub fn of_store(args: &Plan, machine: &Machine, url: &str, group: &Group) -> Result<(), Failure> {
    let store = VectorStore::of_group(group)?;
    let info = store.info()?;
    if info.kind == GeometryKind::Parametric {
        return Err(Failure::new(format!("{url}: parametric objects have no chunks to plan")));
    }
    if args.chunk.is_some() {
        return Err(Failure::new("--chunk: a store of Zarr Vectors has chunks of its own")
            .hint("omit --chunk"));
    }
    let groups = has_groups(&machine.engine()?, &store, &info)?;
    let mut all = Vec::new();
    for level in &info.levels {
        if args.level.given().is_some_and(|given| given as u64 != level.level) {
            continue;
        }
        if let Some(advice) = of_level(args, machine, url, &store, &info, groups, level)? {
            all.push(advice);
        }
    }
    if all.is_empty() {
        return Err(Failure::new(format!("{url}: no vertices are stored to plan for")));
    }
    let rewritten = all.iter().any(|one| one.rewrites());
    let lost = if rewritten { not_kept(&info) } else { Vec::new() };
    tell(url, &info, &all, &lost, args.json)
}

/// Whether the finest level has groups of objects.
fn has_groups(
    engine: &Arc<Engine>,
    store: &VectorStore,
    info: &VectorInfo,
) -> Result<bool, Failure> {
    let Some(finest) = info.levels.first().filter(|finest| finest.objects.is_some()) else {
        return Ok(false);
    };
    match Node::open(engine, &store.location().join(&format!("{}/groups", finest.level))?) {
        Ok(_) => Ok(true),
        Err(Error::NoNode { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What a store does not have any more after its rows were written again.
fn not_kept(info: &VectorInfo) -> Vec<String> {
    let lost = info.attributes.iter().filter(|one| matches!(one.of, "fragment" | "group"));
    let lost = lost.map(|one| format!("attribute {} of {}s", one.name, one.of));
    let levels = (info.levels.len() > 1)
        .then(|| "coarser levels, which `shardine pyramid` makes".to_owned());
    lost.chain(levels).collect()
}

fn of_level(
    args: &Plan,
    machine: &Machine,
    url: &str,
    store: &VectorStore,
    info: &VectorInfo,
    groups: bool,
    level: &LevelInfo,
) -> Result<Option<Advice>, Failure> {
    let known = |shape: &[u64], data_type: &DataType| situation(args, machine, shape, data_type);
    let found = VectorAdvice::of_level(&machine.engine()?, store, info, level, &known)?;
    let Some(of) = found.map_err(Failure::new)? else { return Ok(None) };
    // All levels are packed and written by one command.
    let is_finest = info.levels.first().is_some_and(|finest| finest.level == level.level);
    let commands = match is_finest {
        true => {
            commands(url, info, groups, &of.advice, of.situation.cells.current.as_ref(), of.local)
        }
        false => Vec::new(),
    };
    Ok(Some(Advice { of, commands }))
}

fn commands(
    url: &str,
    info: &VectorInfo,
    groups: bool,
    advice: &VectorRecommendation,
    current: Option<&Current>,
    local: bool,
) -> Vec<String> {
    let is_sharded = current.is_some_and(|current| current.shard.is_some());
    let name = url.trim_end_matches('/');
    let new = match name.rsplit_once('.') {
        Some((name, ending)) if !ending.contains('/') => format!("{name}-new.{ending}"),
        _ => format!("{name}-new"),
    };
    let per_shard = advice.chunks_per_shard.as_deref().map(per_axis);
    // Only folders can be exchanged in one step.
    let out = if local { String::new() } else { format!(" -o {}", quoted(&new)) };
    match (advice.action, per_shard) {
        (Action::Rechunk, per_shard) => {
            let has_links = info.kind.link_width() > 0;
            let edges = if has_links { " --edges edges.csv" } else { "" };
            let mut write = format!(
                "shardine vectors write {} rows.parquet --kind {}{edges} --chunk {}",
                quoted(&new),
                info.kind.name(),
                lengths(&advice.chunk)
            );
            if let Some(bin) = &advice.bin {
                write.push_str(&format!(" --bin {}", lengths(bin)));
            }
            if let Some(per_shard) = per_shard {
                write.push_str(&format!(" --shard {per_shard}"));
            }
            // Rows have the attributes of their objects as columns.
            let of_objects = info.attributes.iter().filter(|one| one.of == "object");
            let names: Vec<&str> = of_objects.map(|one| one.name.as_str()).collect();
            if !names.is_empty() {
                write.push_str(&format!(" --object-columns {}", quoted(&names.join(","))));
            }
            let mut query =
                format!("shardine vectors query {} -o rows.parquet{edges}", quoted(url));
            if groups {
                query.push_str(" --groups-table groups.csv");
                write.push_str(" --groups groups.csv");
            }
            vec![query, write]
        }
        (Action::Reshard, Some(per_shard)) => {
            let verb = if is_sharded { "reshard" } else { "shard" };
            vec![format!("shardine {verb} {} --chunks-per-shard {per_shard}{out}", quoted(url))]
        }
        (Action::Unshard, _) => vec![format!("shardine unshard {}{out}", quoted(url))],
        _ => Vec::new(),
    }
}

/// Numbers of chunks as an option takes them: one if all are the same.
fn per_axis(shard: &[u64]) -> String {
    match shard {
        [first, rest @ ..] if rest.iter().all(|len| len == first) => first.to_string(),
        shard => units::shape_argument(shard),
    }
}

/// Lengths as an option takes them.
fn lengths(lengths: &[f64]) -> String {
    lengths.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn tell(
    url: &str,
    info: &VectorInfo,
    all: &[Advice],
    lost: &[String],
    as_json: bool,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let commands: Vec<&String> = all.iter().flat_map(|advice| &advice.commands).collect();
    if as_json {
        let levels: Vec<Value> = all.iter().map(|advice| advice.of.to_json()).collect();
        let told = json!({
            "kind": info.kind.name(), "levels": levels, "commands": commands, "not_kept": lost,
        });
        writeln!(out, "{told:#}")?;
    } else {
        for advice in all {
            advice.write(&mut out, url, info)?;
            writeln!(out)?;
        }
        line(
            &mut out,
            "assumed",
            "a box of two chunks of now along each axis, in one array, with nothing cached",
        )?;
        match commands.as_slice() {
            [] => line(&mut out, "to do", "nothing")?,
            commands => {
                for (at, command) in commands.iter().enumerate() {
                    line(&mut out, if at == 0 { "to do" } else { "" }, command)?;
                }
                if !lost.is_empty() {
                    line(&mut out, "not kept", lost.join("; "))?;
                }
            }
        }
    }
    out.flush()?;
    Ok(())
}

impl Advice {
    /// Whether its commands write the rows again.
    fn rewrites(&self) -> bool {
        self.of.advice.action == Action::Rechunk && !self.commands.is_empty()
    }

    fn write(&self, out: &mut dyn Write, url: &str, info: &VectorInfo) -> io::Result<()> {
        let VectorAdvice { level, situation, advice, measured, .. } = &self.of;
        line(out, "store", format!("{url}, level {} ({})", level.level, info.kind.name()))?;
        let place = if situation.cells.remote { "in an object store" } else { "on a local disk" };
        let (vertices, chunks) = (level.vertices, units::count(level.chunks, "chunk"));
        line(out, "shape", format!("{vertices} vertices in {chunks}, {place}"))?;
        if let Some(sample) = &situation.cells.sample {
            let (mean, max) = (units::size(sample.mean), units::size(sample.max));
            let count = units::count(sample.count, "cell");
            let text = format!("{count} of {}: {mean} on average, largest {max}", measured);
            line(out, "measured", text)?;
        }
        line(out, "chunk", lengths(&advice.chunk))?;
        because(out, &advice.chunk_choice)?;
        line(out, "bin", advice.bin.as_deref().map_or_else(|| "none".to_owned(), lengths))?;
        because(out, &advice.bin_choice)?;
        match &advice.chunks_per_shard {
            Some(shard) => {
                let count = units::count(units::elements(shard), "chunk");
                line(out, "shard", format!("{} chunks, {count}", units::shape(shard)))?;
            }
            None => line(out, "shard", "none: each chunk is its own object")?,
        }
        because(out, &advice.shard_choice)?;
        writeln!(out)?;
        let changes = advice.action != Action::Nothing;
        let row = |out: &mut dyn Write, name: &str, cell: &dyn Fn(&VectorFigures) -> String| {
            match changes {
                true => {
                    let (before, after) = (cell(&advice.before), cell(&advice.after));
                    writeln!(out, "{name:<28} {before:<32} {after}")
                }
                false => writeln!(out, "{name:<28} {}", cell(&advice.before)),
            }
        };
        match changes {
            true => writeln!(out, "{:<28} {:<32} as recommended", "", "as it is")?,
            false => writeln!(out, "{:<28} as it is", "")?,
        }
        row(out, "vertices per chunk", &|f| f.vertices_per_chunk.to_string())?;
        row(out, "objects of an array", &|f| format!("up to {}", f.objects))?;
        row(out, "object size", &|f| format!("up to {}", units::size(f.object_bytes)))?;
        row(out, "box, requests", &|f| match f.requests {
            [least, most] if least == most => most.to_string(),
            [least, most] => format!("{least} to {most}"),
        })?;
        row(out, "writers that do not wait", &|f| format!("up to {}", f.writers))
    }
}
