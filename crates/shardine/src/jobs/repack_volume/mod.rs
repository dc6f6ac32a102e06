//! Repacks the chunks of volumes, and other values by key: encoded chunks are moved without
//! decoding.

mod folder;
mod in_place;
mod options;
mod out;
mod survey;
mod values;
mod volume;
mod write;

use std::sync::Arc;

use serde_json::Value;
use shardine_store::FolderPart;

use super::span::job_span;
use crate::jobs::frame::place::check_apart;
use crate::jobs::frame::{JobContext, JobError};
use crate::jobs::losses::refuse_data_set;
use crate::jobs::rebuild::{Counts, PartOutcome, Step};
use crate::jobs::whole::check_whole;
use crate::precomputed::{Volume, VolumeInfo};
use crate::shard::uint64::Sharding;
use crate::{Engine, Error, Location};
use folder::Folder;
use values::count_chunks;
use volume::Scales;

pub(super) use in_place::settle_volume;
pub(super) use out::plan_repack_volume;
pub(super) use values::KeyFolderValues;

pub use options::{RepackVolumeOptions, RepackedScale};

/// Repacks the chunks of the scales of a volume; in place, or at `target`.
///
/// The stored bytes of a chunk are moved unchanged. Where the two packings compress the values in
/// their shards differently, they are compressed or decompressed; voxels are never decoded. Apart
/// from the packing, `info` stays as it is.
///
/// **In place**, the volume is rebuilt in a folder beside it, with everything else in its folder
/// carried over, checked, made durable, and exchanged with the old one in one step; the old one is
/// removed last. That needs room for a copy of the scales that change. The same call resumes a run
/// that was killed. Only for files.
///
/// **At a target**, the whole volume is made, with everything that lies in its folder; `info` comes
/// last.
///
/// `tell` is called with each scale when it is done.
///
/// Costs a listing, a read for each index, and one read of the bytes; the check reads them twice
/// more. Memory is the values in flight, and some bytes for each key, limited to a quarter of the
/// engine's memory at a time.
pub fn repack_volume(
    context: impl Into<JobContext>,
    source: &Location,
    target: Option<&Location>,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<PartOutcome, Error> {
    let _span = job_span("repack_volume", source);
    let context = &context.into();
    let engine = context.engine();
    refuse_data_set(engine, source)?;
    let open = || Scales::open(engine, source, options);
    run(context, source, target, &open, options, tell)
}

/// Repacks the values of a folder whose own `info` says how it is sharded, such as meshes or
/// skeletons; in place, or at `target`. Otherwise like [`repack_volume`]; the fragments of meshes
/// stay with their manifests.
///
/// The options' sharding and level are ignored.
pub fn repack_keys(
    context: impl Into<JobContext>,
    source: &Location,
    target: Option<&Location>,
    sharding: &Sharding,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<PartOutcome, Error> {
    let _span = job_span("repack_keys", source);
    let context = &context.into();
    let engine = context.engine();
    refuse_data_set(engine, source)?;
    let open = || Folder::open(engine, source, sharding);
    run(context, source, target, &open, options, tell)
}

fn run<P: Packed + 'static>(
    context: &JobContext,
    source: &Location,
    target: Option<&Location>,
    open: &dyn Fn() -> Result<P, Error>,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<PartOutcome, Error> {
    match target {
        Some(target) => {
            let _hold = source.hold()?;
            check_apart(source, target)?;
            check_whole(source, Some(target))?;
            out::repack(context, source, target, open()?, options, tell)
        }
        None if options.part.is_some() => {
            let reason = "a data set is replaced by one process";
            Err(JobError::NotInParts { option: JobError::IN_PLACE, reason }.into())
        }
        None => {
            in_place::repack(context, source, open, options, tell)?;
            Ok(PartOutcome::Complete)
        }
    }
}

/// Counts the values at a location that a job from one `info` to the other repacks.
fn count_packed(
    engine: &Arc<Engine>,
    place: &Location,
    from: &str,
    to: &str,
) -> Result<u64, Error> {
    let infos = (VolumeInfo::parse(from.as_bytes()), VolumeInfo::parse(to.as_bytes()));
    let (Ok(from), Ok(to)) = infos else {
        let mut found = 0;
        Folder::values_at(place, to)?.each_key(engine, &mut |_| found += 1)?;
        return Ok(found);
    };
    let volume = Volume::bind(engine, place, to.clone());
    let pairs = from.scales().iter().zip(to.scales()).enumerate();
    let mut changed = pairs.filter(|(_, (from, to))| from.sharding != to.sharding);
    changed.try_fold(0u64, |all, (level, _)| Ok(all + count_chunks(engine, &volume, level)?))
}

/// A data set in a folder with an `info`, and its replacement.
trait Packed: Clone {
    /// Its new `info`.
    fn info(&self) -> Vec<u8>;

    /// What is requested, to distinguish jobs.
    fn request(&self) -> Value;

    /// Whether it is already as requested.
    fn is_unchanged(&self) -> bool;

    /// An error if parts of it lie outside its folder, which a copy of the folder would lack.
    fn check_inside(&self) -> Result<(), Error>;

    /// Refuses objects that would be lost, as they look like values and no reader finds them.
    fn check_names(&self) -> Result<(), Error>;

    /// The steps that make it at another location, except for the `info`.
    fn steps(&self, engine: &Arc<Engine>, place: &Location) -> Result<Vec<Step>, Error>;

    /// Records what the steps have done.
    fn count(&mut self, counts: &[Counts]);

    /// What happens to something in the folder, by its path below it: what is built is left out,
    /// everything else carried over.
    fn part(&self, path: &str, is_folder: bool) -> FolderPart;

    /// The number of values at the location where it was built; an error unless that is the number
    /// moved there.
    fn recount(&self, engine: &Arc<Engine>, place: &Location) -> Result<u64, Error>;

    /// What was done, or has to be done.
    fn reports(&self, resumed: bool) -> Vec<RepackedScale>;
}
