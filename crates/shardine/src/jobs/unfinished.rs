//! Jobs in place that were interrupted, seen from the data set that they work on.

use std::io::ErrorKind;

use shardine_store::StoreError;

use super::frame::switch::Switch;
use super::frame::{Exchange, JobContext};
use super::rebuild::Settled;
use super::repack::settle_array;
use super::repack_volume::settle_volume;
use crate::precomputed::INFO;
use crate::zarr::DOCUMENT;
use crate::{Error, Location};

/// A job that rebuilds a data set in its place, or changes its documents together, and has not
/// ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedJob {
    /// The folder in which it works: beside the data set, or in it if only documents change.
    pub folder: String,
    /// The command that has begun it, if that is known.
    pub command: Option<String>,
    /// Whether a process is at work on it, or may be.
    pub in_use: bool,
}

/// The job that works on the data set at a place, or did so when it was interrupted; `None` if
/// there is none.
///
/// Until such a job has ended the data set is the old one, or the new one, whole in either case.
/// Some `stat`, and one read if there is a job. Nothing for stores other than files.
pub fn unfinished_job(location: &Location) -> Result<Option<UnfinishedJob>, Error> {
    match unfinished_rebuild(location)? {
        None => unfinished_switch(location),
        rebuild => Ok(rebuild),
    }
}

/// A change of several documents of the hierarchy at a place that has not ended.
pub(super) fn unfinished_switch(location: &Location) -> Result<Option<UnfinishedJob>, Error> {
    let Some(switch) = Switch::of(location)? else { return Ok(None) };
    if !switch.is_begun()? {
        return Ok(None);
    }
    let (folder, command) = (switch.folder(), switch.command()?);
    Ok(Some(UnfinishedJob { folder, command, in_use: switch.is_in_use() }))
}

/// A job that rebuilds the data set at a place, in a folder beside it.
pub(super) fn unfinished_rebuild(location: &Location) -> Result<Option<UnfinishedJob>, Error> {
    let Some(job) = job_at(location)? else { return Ok(None) };
    let command = match job.marker() {
        Ok(marker) => marker.and_then(|marker| marker.command),
        Err(error @ Error::Store(_)) => return Err(error),
        // What cannot be understood is unfinished all the same.
        Err(_) => None,
    };
    let folder = job.beside.root().join(job.work.as_str()).display().to_string();
    Ok(Some(UnfinishedJob { folder, command, in_use: job.beside.is_job_in_use(&job.work) }))
}

/// The place of a job on a data set, if there is its folder.
fn job_at(location: &Location) -> Result<Option<Exchange>, Error> {
    if location.store.exchange().is_none() {
        return Ok(None);
    }
    let job = match Exchange::of(location, DOCUMENT) {
        Ok(job) => job,
        // Nothing can lie beside the root of a file system, nor beside a name that is no text.
        Err(Error::Store(StoreError::Key { .. })) => return Ok(None),
        // Where there is nothing, nothing is being rebuilt.
        Err(Error::Store(StoreError::Io { source, .. }))
            if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    Ok(job.beside.has_folder(&job.work)?.then_some(job))
}

/// Ends the job that was interrupted at a place: finishes it if the new data set is in its place
/// already, and otherwise removes what it has built. `None` if there is none, or a process is at
/// work on it.
pub(super) fn settle(context: &JobContext, location: &Location) -> Result<Option<Settled>, Error> {
    if let Some(switch) = Switch::of(location)?
        && switch.is_begun()?
    {
        return if switch.is_in_use() { Ok(None) } else { switch.settle() };
    }
    let Some(job) = job_at(location)? else { return Ok(None) };
    if job.beside.is_job_in_use(&job.work) {
        return Ok(None);
    }
    let is_volume =
        job.document(&job.name)?.is_none() && job.beside.has_name(&job.name.join(INFO)?)?;
    match is_volume {
        true => settle_volume(context, location),
        false => settle_array(context, location),
    }
}
