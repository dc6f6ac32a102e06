//! How best to pack the scales of a precomputed volume into shards.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use shardine::plan::{VolumeAdvice, chunk_shape, element_bytes};
use shardine::precomputed::Volume;

use super::{Plan, Shape};
use crate::failure::{self, Failure, quoted};
use crate::info::line;
use crate::{units, volume};

/// What is recommended for one scale.
struct Advice {
    of: VolumeAdvice,
    command: String,
}

/// Advises on all scales of a volume.
pub fn of_volume(args: &Plan, url: &str, volume: &Volume) -> Result<(), Failure> {
    let info = volume.info();
    if let Some(level) = args.level.given() {
        volume.scale(level)?;
    }
    let wanted = |level: usize| args.level.given().is_none_or(|given| given == level);
    let scales = info.scales().iter().enumerate().filter(|(level, _)| wanted(*level));
    let mut advice = Vec::new();
    for (level, scale) in scales {
        let name = format!("{url}, level {level} ({})", scale.key);
        let of = VolumeAdvice::of_scale(&name, volume, level, args.target_size)?;
        let command = format!(
            "shardine {} {} --level {level} --shard {}",
            if scale.sharding.is_some() { "reshard" } else { "shard" },
            quoted(url),
            units::shape_argument(&of.plan.shard_box)
        );
        advice.push(Advice { of, command });
    }
    tell(&advice, args.json)
}

/// Advises on a volume that does not exist yet.
pub fn of_shape(args: &Plan, shape: &[u64], dtype: &str) -> Result<(), Failure> {
    let (size, channels) = match shape {
        [x, y, z] => ([*x, *y, *z], 1),
        [x, y, z, channels] => ([*x, *y, *z], *channels),
        _ => {
            return Err(Failure::new(format!(
                "--shape {}: a volume has the axes x, y, z and, if there are several, channel",
                units::shape_argument(shape)
            )));
        }
    };
    let data_type = failure::data_type(dtype)?;
    let element = element_bytes(&data_type);
    let chunk = match &args.chunk {
        Some(Shape(chunk)) => chunk.clone(),
        None => chunk_shape(&size, element),
    };
    let Ok(chunk) = <[u64; 3]>::try_from(chunk.get(..3).unwrap_or_default()) else {
        return Err(Failure::new("--chunk: needs lengths along x, y and z"));
    };
    let bytes = units::elements(&chunk).saturating_mul(channels).saturating_mul(element);
    let of = VolumeAdvice::of_new("a new volume", size, chunk, bytes, args.target_size);
    let command = format!(
        "shardine create NEW --to precomputed --shape {} --dtype {} --chunk {} --shard {}",
        units::shape_argument(shape),
        quoted(dtype),
        units::shape_argument(&chunk),
        units::shape_argument(&of.plan.shard_box)
    );
    tell(&[Advice { of, command }], args.json)
}

impl Advice {
    fn to_json(&self) -> Value {
        let mut report = self.of.to_json();
        report["command"] = json!((!self.of.is_there()).then_some(&self.command));
        report
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        line(out, "volume", &self.of.name)?;
        let (size, chunk) = (units::shape(&self.of.size), units::shape(&self.of.chunk));
        line(out, "shape", format!("{size} in chunks {chunk}"))?;
        match &self.of.current {
            Some(Some(now)) => line(out, "now", volume::sharding_words(now))?,
            Some(None) => line(out, "now", "no shards: each chunk is its own object")?,
            None => {}
        }
        line(out, "advised", volume::sharding_words(&self.of.sharding()))?;
        line(
            out,
            "shards",
            format!(
                "{}{} of {} voxels, each with up to {}",
                // Those without a chunk are not stored.
                if self.of.current.is_some() { "up to " } else { "" },
                self.of.plan.shards,
                units::shape(&self.of.plan.shard_box),
                units::count(self.of.plan.chunks_per_shard, "chunk")
            ),
        )?;
        for reason in &self.of.plan.reasons {
            line(out, "because", reason)?;
        }
        if self.of.is_there() { line(out, "do", "nothing") } else { line(out, "do", &self.command) }
    }
}

fn tell(advice: &[Advice], as_json: bool) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    if as_json {
        let scales: Vec<Value> = advice.iter().map(Advice::to_json).collect();
        let due = advice.iter().filter(|advice| !advice.of.is_there());
        let commands: Vec<&str> = due.map(|advice| advice.command.as_str()).collect();
        writeln!(out, "{:#}", json!({ "scales": scales, "commands": commands }))?;
    } else {
        for (i, advice) in advice.iter().enumerate() {
            if i > 0 {
                writeln!(out)?;
            }
            advice.write(&mut out)?;
        }
    }
    out.flush()?;
    Ok(())
}
