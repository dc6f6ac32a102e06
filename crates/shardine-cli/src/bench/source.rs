//! Where the arrays that are measured come from.

use std::sync::Arc;

use shardine::{Array, DataSet, Engine, Location, open_in};

use crate::failure::Failure;

/// Creates arrays without cached indexes.
#[derive(Debug)]
pub struct Source {
    set: Box<dyn DataSet>,
    level: usize,
}

impl Source {
    /// A level of the data set at a location.
    pub fn open(engine: &Arc<Engine>, location: &Location, level: usize) -> Result<Self, Failure> {
        Ok(Self { set: open_in(engine, location)?, level })
    }

    /// An array without cached indexes.
    pub fn array(&self) -> Result<Array, Failure> {
        Ok(self.set.array(self.level)?)
    }
}
