//! `shardine vectors info`: what a store of geometry contains.

use std::io::{self, BufWriter, Write};

use clap::Args;
use shardine::vectors::{VectorInfo, VectorStore};

use crate::cli::Machine;
use crate::failure::Failure;
use crate::info::line;
use crate::units;

const EXAMPLES: &str = "\
Examples:
  shardine vectors info cells.zv
  shardine vectors info s3://bucket/tracts.zv --json | jq .levels";

/// Show kind, bounds, levels and attributes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Info {
    /// Path or URL of the store
    url: String,
    /// Print the description as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Info, machine: &Machine) -> Result<(), Failure> {
    let store = VectorStore::open_in(&machine.engine()?, machine.location(&args.url)?)?;
    let info = store.info()?;
    let mut out = BufWriter::new(io::stdout().lock());
    match args.json {
        true => writeln!(out, "{:#}", info.to_json())?,
        false => write(&mut out, &args.url, &info)?,
    }
    Ok(out.flush()?)
}

/// A store in words.
pub fn write(out: &mut dyn Write, url: &str, info: &VectorInfo) -> io::Result<()> {
    writeln!(out, "{url}")?;
    line(out, "format", format!("Zarr Vectors {}", info.version))?;
    line(out, "kind", info.kind.name())?;
    let axes: Vec<String> = info
        .axes
        .iter()
        .zip(&info.units)
        .map(|(axis, unit)| match unit {
            Some(unit) => format!("{axis} ({unit})"),
            None => axis.clone(),
        })
        .collect();
    line(out, "axes", axes.join(", "))?;
    if let Some([low, high]) = &info.bounds {
        let ranges: Vec<String> =
            low.iter().zip(high).map(|(low, high)| format!("{low}:{high}")).collect();
        line(out, "bounds", ranges.join(", "))?;
    }
    line(out, "chunk", numbers(&info.chunk_shape))?;
    if let Some(bins) = &info.bin_shape {
        line(out, "bin", numbers(bins))?;
    }
    let sharding = info.shard_shape.as_ref().map(|shape| {
        let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
        format!("{} chunks", shape.join(" x "))
    });
    line(out, "shard", sharding.unwrap_or_else(|| "none".to_owned()))?;
    for level in &info.levels {
        let mut text = format!(
            "{} in {}",
            super::vertices(level.vertices),
            units::count(level.chunks, "chunk")
        );
        if let Some(objects) = level.objects {
            text = format!("{text}, {}", units::count(objects, "object"));
        }
        line(out, &format!("level {}", level.level), text)?;
    }
    for one in &info.attributes {
        line(out, "attribute", format!("{}: {} of each {}", one.name, one.dtype, one.of))?;
    }
    info.notes.iter().try_for_each(|note| line(out, "note", note))
}

fn numbers(values: &[f64]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ")
}
