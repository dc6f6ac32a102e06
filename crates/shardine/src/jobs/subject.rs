//! What a job that repacks has before it.

use std::sync::Arc;

use crate::precomputed::{KeyFolders, Volume};
use crate::{Engine, Error, Location, open_in};

/// What is to be repacked, which decides the job: [`repack`](super::repack),
/// [`repack_volume`](super::repack_volume) or [`repack_keys`](super::repack_keys).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// Zarr, or anything that only the job can identify.
    Zarr,
    /// A precomputed volume.
    Volume,
    /// A folder of values by key with an `info` of its own.
    Values,
}

/// Looks at what is at a location.
///
/// An error only if there is something that cannot be read, or an `info` that contradicts itself:
/// whatever else is wrong is reported by the job, which looks closer.
pub fn subject(engine: &Arc<Engine>, location: &Location) -> Result<Subject, Error> {
    match open_in(engine, location) {
        Ok(set) if set.is::<Volume>() => Ok(Subject::Volume),
        Ok(set) => match set.downcast_ref::<KeyFolders>().map(|set| set.key_values(engine)) {
            Some(Ok(_)) => Ok(Subject::Values),
            None | Some(Err(Error::NoKeyValues { .. })) => Ok(Subject::Zarr),
            Some(Err(error)) => Err(error),
        },
        // The job would only say that there is no Zarr; and what cannot be read may be anything.
        Err(error @ (Error::Info { .. } | Error::Store(_))) => Err(error),
        Err(_) => Ok(Subject::Zarr),
    }
}
