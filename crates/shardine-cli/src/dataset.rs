//! Which array of the data set at a URL is meant.

use clap::Args;
use shardine::{Array, DataSet, Error, Location};

use crate::failure::Failure;

/// Which level of a data set with levels.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Level {
    /// Of a data set with levels, such as a precomputed volume: which one; 0 is the finest [default: 0]
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
    /// `gzip` is how hard gzip tries in shards of volumes, if that is said.
    pub fn of(self, set: DataSet, location: &Location, gzip: Option<u8>) -> Result<Array, Failure> {
        match set {
            DataSet::Volume(volume) => {
                let volume = match gzip {
                    Some(level) => volume.gzip_level(level),
                    None => volume,
                };
                Ok(volume.array(self.number())?)
            }
            DataSet::Array(_) if self.level.is_some_and(|level| level > 0) => {
                Err(Failure::new(format!("{location} is one array, which has no levels"))
                    .hint("leave --level out"))
            }
            DataSet::Array(_) if gzip.is_some() => Err(Failure::new(format!(
                "{location} is a Zarr array, whose metadata says how hard gzip tries"
            ))
            .hint("leave --gzip-level out")),
            DataSet::Array(array) => Ok(array.into_array()),
            DataSet::Group(_) => Err(Error::NotAnArray { at: location.to_string() }.into()),
            other => Err(unexpected(&other, location)),
        }
    }
}

/// The error for a data set that is neither Zarr nor a volume.
pub fn unexpected(found: &DataSet, location: &Location) -> Failure {
    match found {
        DataSet::KeyValues(folders) => folders.not_a_volume().into(),
        _ => Error::NoNode { at: location.to_string() }.into(),
    }
}
