//! How best to pack the scales of a precomputed volume into shards.

use std::io::{self, BufWriter, Write};

use serde_json::{Value, json};
use shardine::plan::{
    ShardingPlan, chunk_bytes, chunk_shape, element_bytes, recommended_sharding, sharding_for_size,
};
use shardine::precomputed::Volume;
use shardine::shard::uint64::{Encoding, Sharding};

use super::{Plan, Shape};
use crate::failure::{self, Failure, quoted};
use crate::info::line;
use crate::{units, volume};

/// What is recommended for one scale.
struct Advice {
    name: String,
    size: [u64; 3],
    chunk: [u64; 3],
    current: Option<Option<Sharding>>,
    plan: ShardingPlan,
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
    let advice = scales.map(|(level, scale)| {
        let (size, chunk) = (scale.size, scale.chunk_size());
        let plan = plan(args, size, chunk, chunk_bytes(info, scale));
        let command = format!(
            "shardine {} {} --level {level} --shard {}",
            if scale.sharding.is_some() { "reshard" } else { "shard" },
            quoted(url),
            units::shape_argument(&plan.shard_box)
        );
        let name = format!("{url}, level {level} ({})", scale.key);
        Advice { name, size, chunk, current: Some(scale.sharding.clone()), plan, command }
    });
    tell(&advice.collect::<Vec<_>>(), args.json)
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
    let plan = plan(args, size, chunk, bytes);
    let command = format!(
        "shardine create NEW --to precomputed --shape {} --dtype {} --chunk {} --shard {}",
        units::shape_argument(shape),
        quoted(dtype),
        units::shape_argument(&chunk),
        units::shape_argument(&plan.shard_box)
    );
    let name = "a new volume".to_owned();
    tell(&[Advice { name, size, chunk, current: None, plan, command }], args.json)
}

fn plan(args: &Plan, size: [u64; 3], chunk: [u64; 3], bytes: u64) -> ShardingPlan {
    match args.target_size {
        Some(target) => sharding_for_size(size, chunk, bytes, target),
        None => recommended_sharding(size, chunk, bytes),
    }
}

impl Advice {
    /// The recommended sharding: compressed as it is now, or as usual.
    fn sharding(&self) -> Sharding {
        let (data, index) = match &self.current {
            Some(Some(current)) => (current.data_encoding, current.minishard_index_encoding),
            _ => (Encoding::Gzip, Encoding::Gzip),
        };
        self.plan.sharding.clone().data_encoding(data).minishard_index_encoding(index)
    }

    fn is_there(&self) -> bool {
        self.current.as_ref().and_then(Option::as_ref) == Some(&self.sharding())
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "size": self.size,
            "chunk": self.chunk,
            "current": self.current.as_ref().map(|now| now.as_ref().map(Sharding::to_json)),
            "sharding": self.sharding().to_json(),
            "shard_box": self.plan.shard_box,
            "chunks_per_shard": self.plan.chunks_per_shard,
            "shards": self.plan.shards,
            "reasons": self.plan.reasons,
            "command": (!self.is_there()).then_some(&self.command),
        })
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        line(out, "volume", &self.name)?;
        let (size, chunk) = (units::shape(&self.size), units::shape(&self.chunk));
        line(out, "shape", format!("{size} in chunks {chunk}"))?;
        match &self.current {
            Some(Some(now)) => line(out, "now", volume::sharding_words(now))?,
            Some(None) => line(out, "now", "no shards: each chunk is its own object")?,
            None => {}
        }
        line(out, "advised", volume::sharding_words(&self.sharding()))?;
        line(
            out,
            "shards",
            format!(
                "{}{} of {} voxels, each with up to {}",
                // Those without a chunk are not stored.
                if self.current.is_some() { "up to " } else { "" },
                self.plan.shards,
                units::shape(&self.plan.shard_box),
                units::count(self.plan.chunks_per_shard, "chunk")
            ),
        )?;
        for reason in &self.plan.reasons {
            line(out, "because", reason)?;
        }
        if self.is_there() { line(out, "do", "nothing") } else { line(out, "do", &self.command) }
    }
}

fn tell(advice: &[Advice], as_json: bool) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    if as_json {
        let scales: Vec<Value> = advice.iter().map(Advice::to_json).collect();
        let due = advice.iter().filter(|advice| !advice.is_there());
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
