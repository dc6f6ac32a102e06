//! What a URL stands for: a node of a Zarr hierarchy, or a precomputed volume.

use std::sync::Arc;

use clap::Args;
use shardine::precomputed::Volume;
use shardine::{Array, Engine, Error, Location, Node};

use crate::failure::Failure;

/// Which level of a data set with levels.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Level {
    /// Of a data set with levels, such as a precomputed volume: which one; 0 is the finest [default: 0]
    #[arg(long, value_name = "N")]
    level: Option<usize>,
}

/// A data set.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum DataSet {
    Node(Node),
    Volume(Volume),
}

impl DataSet {
    /// Opens what is at a place. Zarr metadata goes before that of a volume.
    pub fn open(engine: &Arc<Engine>, location: &Location) -> Result<Self, Failure> {
        match Node::open(engine, location) {
            Ok(node) => Ok(Self::Node(node)),
            Err(error @ Error::NoNode { .. }) => match Volume::open(engine, location) {
                Ok(volume) => Ok(Self::Volume(volume)),
                Err(Error::NoVolume { .. }) => Err(error.into()),
                Err(error) => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }
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
            DataSet::Node(Node::Array(_)) if self.level.is_some_and(|level| level > 0) => {
                Err(Failure::new(format!("{location} is one array, which has no levels"))
                    .hint("leave --level out"))
            }
            DataSet::Node(Node::Array(_)) if gzip.is_some() => Err(Failure::new(format!(
                "{location} is a Zarr array, whose metadata says how hard gzip tries"
            ))
            .hint("leave --gzip-level out")),
            DataSet::Node(Node::Array(array)) => Ok(array.into_array()),
            DataSet::Node(Node::Group(_)) => {
                Err(Error::NotAnArray { at: location.to_string() }.into())
            }
        }
    }
}
