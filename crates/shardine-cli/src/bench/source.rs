//! Where the arrays that are measured come from.

use std::sync::Arc;

use shardine::precomputed::Volume;
use shardine::{Array, ArrayNode, Engine, Location};

use crate::failure::Failure;

/// What arrays without known indexes are made of.
#[derive(Debug)]
pub enum Source {
    /// A Zarr array.
    Node(Arc<Engine>, Location),
    /// A level of a volume.
    Volume(Volume, usize),
}

impl Source {
    /// What is at a place, of which it is known what it is. Of a volume one read.
    pub fn open(
        engine: &Arc<Engine>,
        location: &Location,
        level: Option<usize>,
    ) -> Result<Self, Failure> {
        Ok(match level {
            Some(level) => Self::Volume(Volume::open(engine, location)?, level),
            None => Self::Node(Arc::clone(engine), location.clone()),
        })
    }

    /// An array that knows no index. One read, or of a volume none.
    pub fn array(&self) -> Result<Array, Failure> {
        Ok(match self {
            Self::Node(engine, location) => ArrayNode::open(engine, location)?.into_array(),
            Self::Volume(volume, level) => volume.array(*level)?,
        })
    }
}
