//! Packs the chunks of volumes, and other values by key, anew: encoded chunks are moved as they are.

mod in_place;
mod options;
mod out;
mod values;
mod write;

use std::sync::Arc;

use serde_json::Value;

use super::repack::RepackError;
use crate::precomputed::{Volume, VolumeInfo};
use crate::{Engine, Error, Location, RepackOutcome};

pub use options::{RepackVolumeOptions, RepackedScale, ShardingChoice};
use values::Values;
use write::{check, write};

/// Packs the chunks of the scales of a volume anew; in their place, or at `target`.
///
/// What is stored of a chunk is moved as it is. Where the shards of the two packings compress their values differently, it is
/// compressed or decompressed; it is never decoded to voxels. All that `info` says beside the packing stays.
///
/// **In place** the volume is built anew in a folder beside it, with all else that lies in its folder carried over, checked, made
/// durable, and exchanged with the old one in one step; the old one is removed last. That needs room for a copy of the
/// scales that change. A run that was killed is gone on with by the same call. Only for files.
///
/// **At a target** the whole volume is made, with all that lies in its folder; `info` comes last.
///
/// `tell` hears of each scale when it is done.
///
/// Costs a listing, a read for each index, and the bytes once; the check reads them twice more. Memory is that of the values in
/// flight, and some bytes for each key, of which no more are in memory at once than fit into a quarter of the engine's.
pub fn repack_volume(
    engine: &Arc<Engine>,
    source: &Location,
    target: Option<&Location>,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<(), Error> {
    match target {
        Some(target) => out::repack(engine, source, target, options, tell),
        None => in_place::repack(engine, source, options, tell),
    }
}

/// What a volume is to become.
struct Wanted {
    info: VolumeInfo,
    /// What becomes of each scale; those that stay as they are come with the outcome `Unchanged`.
    scales: Vec<RepackedScale>,
}

impl Wanted {
    fn of(volume: &Volume, options: &RepackVolumeOptions) -> Result<Self, Error> {
        let refuse = |reason: String| {
            Error::from(RepackError::Layout { at: volume.location().to_string(), reason })
        };
        let mut info = volume.info().clone();
        if let Some(level) = options.level {
            volume.scale(level)?;
        }
        let mut scales = Vec::new();
        for (level, scale) in volume.info().scales().iter().enumerate() {
            let asked = options.level.is_none_or(|only| only == level);
            let sharding = if asked {
                (options.sharding)(volume.info(), scale).map_err(refuse)?
            } else {
                scale.sharding.clone()
            };
            let outcome = if sharding == scale.sharding {
                RepackOutcome::Unchanged
            } else {
                RepackOutcome::Done
            };
            if outcome == RepackOutcome::Done {
                if scale.chunk_sizes.len() > 1 {
                    return Err(refuse(format!(
                        "scale \"{}\" has chunks of several shapes, which cannot be packed",
                        scale.key
                    )));
                }
                info = info
                    .with_sharding(level, sharding.as_ref())
                    .map_err(|error| refuse(error.to_string()))?;
            }
            scales.push(RepackedScale::new(level, &scale.key, sharding, outcome));
        }
        Ok(Self { info, scales })
    }

    fn is_unchanged(&self) -> bool {
        self.scales.iter().all(|scale| scale.outcome == RepackOutcome::Unchanged)
    }

    /// What is asked for, to tell one job from another.
    fn request(&self) -> Value {
        Value::Object(self.info.document().clone())
    }
}

/// Builds the scales that change, from one volume in another.
fn build(
    engine: &Arc<Engine>,
    old: &Volume,
    new: &Volume,
    options: &RepackVolumeOptions,
    scales: &mut [RepackedScale],
    resumed: bool,
) -> Result<(), Error> {
    for report in scales.iter_mut().filter(|scale| scale.outcome != RepackOutcome::Unchanged) {
        let from = Values::of_scale(old, report.level)?;
        let to = Values::of_scale(new, report.level)?;
        let tally = write(engine, &from, &to, resumed, options)?;
        report.add(&tally);
        if options.check || resumed {
            check(engine, &from, &to)?;
        }
    }
    Ok(())
}
