//! Which elements of an array are meant.

use clap::Args;
use shardine::{DataSet, Region, RegionText};

use crate::dataset::Level;
use crate::failure::Failure;

/// A region, by position or by the names of the axes.
#[derive(Debug, Clone, Default, Args)]
pub struct RegionArgs {
    /// Select a region of elements, such as 0:64,:,7:8 or z=10:20,x=5 [default: all]
    #[arg(long, value_name = "REGION", allow_hyphen_values = true)]
    region: Option<RegionText>,
    /// Interpret the region in coordinates of the data set, which begin at the voxel_offset of a
    /// precomputed volume
    #[arg(long, requires = "region")]
    offset: bool,
}

impl RegionArgs {
    /// The region of the array that a data set is, or of one of its levels.
    pub fn of(&self, set: &dyn DataSet, level: Level) -> Result<Region, Failure> {
        let Some(text) = &self.region else { return Ok(Region::all()) };
        match set.region(level.number(), text, self.offset) {
            Err(error @ shardine::Error::NoOrigin { .. }) => {
                Err(Failure::from(error).hint("omit --offset"))
            }
            region => Ok(region?),
        }
    }
}
