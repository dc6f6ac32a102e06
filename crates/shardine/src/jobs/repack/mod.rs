//! Repacks chunks into shards, out of shards, and into other shards: encoded chunks are moved
//! wherever they need not be re-encoded.

mod error;
mod in_place;
mod options;
mod out;
mod target;

use super::frame::place::below;
use super::frame::{JobContext, JobError};
use super::span::job_span;
use super::walk::each_array;
use super::whole::check_walked;
use crate::{Error, Location};

pub(super) use super::rebuild::PartOutcome;
use super::rebuild::recover_missing;
pub use error::RepackError;
pub(super) use error::is_stale;
use in_place::InPlaceJob;
pub(super) use in_place::settle_array;
pub use options::{CodecChoice, Packing, RepackCheck, RepackOptions, RepackOutcome, RepackedArray};
pub use out::REPACK_MARKER;
pub(super) use out::{REPACK, plan_repack};

pub(super) use target::{Shards, Stored, default_index_codecs, shard_shape, wanted};

/// Repacks the chunks of an array, or of all arrays below a group; in place, or at `target`.
///
/// An encoded chunk is the same in a shard, in another shard and as an object of its own. So chunks
/// are moved without decoding, in the kernel between local files, unless the options ask for other
/// chunks or codecs: then they are re-encoded, in one pass over the data where the two chunk shapes
/// allow it. Of nested shards the innermost chunks are moved. A chunk that is not stored stays
/// absent, and a stored one that holds only the fill value stays stored. Apart from the packing,
/// the metadata stays as it is.
///
/// **In place**, each array is rebuilt in a folder beside it, checked, made durable, and exchanged
/// with the old one in one step; the old one is removed last. Readers that open the array find the
/// old or the new one at every moment, and whatever else lies in its folder is carried over. That
/// needs room for a copy. The same call resumes a run that was killed; a different request is
/// refused. Copies of the metadata in groups above are updated, once for many small arrays, which
/// wait until they are exchanged together. Only for files.
///
/// **At a target**, which may be in another store, the whole hierarchy is made, with everything
/// that lies in it. The metadata of each node comes after everything it describes, and until then
/// [`REPACK_MARKER`] says that the result is unfinished.
///
/// The old array must not be written to meanwhile. Where a change can be detected, chunks are moved
/// again, or the job fails, and the old array is not removed.
///
/// `tell` is called with each array when it is done. In place, an array that cannot be repacked
/// does not stop the others; the first error is returned at the end.
///
/// Costs one open for each chunk of an array without shards, one read for each index, and one read
/// of the bytes; the check reads them twice more, mostly from memory. Memory is the indexes of some
/// shards, and the chunks in flight if they are re-encoded.
///
/// ```
/// use shardine::jobs::{RepackOptions, repack};
/// use shardine::{Array, Engine, Location, Packing};
///
/// let (source, target) = (Location::memory(), Location::memory());
/// let array = Array::builder([4], "uint8").chunks([1]).unsharded().create(&source)?;
/// array.write(.., &[1u8, 2, 0, 4])?;
/// let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![2]));
/// repack(&Engine::shared()?, &source, Some(&target), &options, &mut |array| {
///     assert_eq!((array.chunks_moved, array.chunks_empty, array.objects_written), (3, 1, 2));
/// })?;
/// assert_eq!(Array::open(&target)?.read::<u8>(..)?, [1, 2, 0, 4]);
/// # Ok::<(), shardine::Error>(())
/// ```
pub fn repack(
    context: impl Into<JobContext>,
    source: &Location,
    target: Option<&Location>,
    options: &RepackOptions,
    tell: &mut dyn FnMut(RepackedArray),
) -> Result<PartOutcome, Error> {
    let _span = job_span("repack", source);
    let context = &context.into();
    let engine = context.engine();
    if let Some(target) = target {
        return out::repack(context, source, target, options, tell);
    }
    if options.part.is_some() {
        let reason = "a data set is replaced by one process";
        return Err(JobError::NotInParts { option: JobError::IN_PLACE, reason }.into());
    }
    if !options.dry_run {
        recover_missing(engine, source, 0)?;
    }
    check_walked(source)?;
    let context = &context.of_steps(whole_size(context, source)?);
    let mut job = InPlaceJob::new(context, options, tell);
    let walked = each_array(engine, source, &mut |array, role| {
        context.check()?;
        let added = array.and_then(|array| job.add(&array, role, below(source, array.location())));
        match added {
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(error) => job.fail(error),
            Ok(()) => {}
        }
        Ok(())
    });
    match walked {
        // What is built waits for the run that resumes the job.
        Err(Error::Cancelled) => return Err(Error::Cancelled),
        Err(error) => job.fail(error),
        Ok(()) => {}
    }
    job.exchange();
    job.finish()?;
    Ok(PartOutcome::Complete)
}

/// The bytes of all elements to repack, if there is a progress callback.
fn whole_size(context: &JobContext, source: &Location) -> Result<u64, Error> {
    let mut size = 0u64;
    if context.is_watched() {
        each_array(context.engine(), source, &mut |array, _| {
            size = size.saturating_add(array.map_or(0, |array| array.decoded_len()));
            Ok(())
        })?;
    }
    Ok(size)
}
