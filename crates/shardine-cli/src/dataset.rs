//! Which array of the data set at a URL is meant.

use clap::Args;
use shardine::precomputed::Volume;
use shardine::{Array, DataSet, Error, Location, SetKind};

use crate::failure::Failure;

/// Which level of a data set with levels.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Level {
    /// Use this level of an OME-Zarr image or a precomputed volume; 0 is the finest [default: 0]
    #[arg(long, value_name = "N")]
    level: Option<usize>,
}

impl Level {
    /// Its number, if one is given.
    pub fn given(self) -> Option<usize> {
        self.level
    }

    /// Its number.
    pub fn number(self) -> usize {
        self.level.unwrap_or(0)
    }

    /// The array that a data set is, or one level of a data set that has several.
    ///
    /// `gzip` is the gzip level in shards of volumes, if given.
    pub fn of(
        self,
        set: &dyn DataSet,
        location: &Location,
        gzip: Option<u8>,
    ) -> Result<Array, Failure> {
        if set.kind() == SetKind::Array && self.level.is_some_and(|level| level > 0) {
            return Err(Failure::new(format!("{location} is a single array, which has no levels"))
                .hint("omit --level"));
        }
        match (gzip, set.downcast_ref::<Volume>()) {
            (None, _) => Ok(set.array(self.number())?),
            (Some(level), Some(volume)) => {
                Ok(volume.clone().gzip_level(level).array(self.number())?)
            }
            (Some(_), None) if matches!(set.format(), "zarr2" | "zarr3") => {
                Err(Failure::new(format!("{location} is Zarr, whose metadata sets the gzip level"))
                    .hint("omit --gzip-level"))
            }
            (Some(_), None) => Ok(set.array(self.number())?),
        }
    }
}

/// The error for a data set that has no arrays.
pub fn no_array(set: &dyn DataSet, location: &Location) -> Failure {
    match set.array(0) {
        Err(error) => error.into(),
        Ok(_) => Error::NoNode { at: location.to_string() }.into(),
    }
}
