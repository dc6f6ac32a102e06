//! Where the arrays that are measured come from.

use std::sync::Arc;

use shardine::{Array, DataSet, Engine, Location, open_in};

use crate::failure::Failure;

/// What arrays without known indexes are made of.
#[derive(Debug)]
pub struct Source {
    set: Box<dyn DataSet>,
    level: usize,
}

impl Source {
    /// A level of the data set at a place.
    pub fn open(engine: &Arc<Engine>, location: &Location, level: usize) -> Result<Self, Failure> {
        Ok(Self { set: open_in(engine, location)?, level })
    }

    /// An array that knows no index.
    pub fn array(&self) -> Result<Array, Failure> {
        Ok(self.set.array(self.level)?)
    }
}
