//! Which elements of an array are meant.

use clap::Args;
use shardine::physical::PhysicalBox;
use shardine::{DataSet, Region, RegionText};

use crate::dataset::Level;
use crate::failure::Failure;

/// A region, by position or by the names of the axes, or a box in physical coordinates.
#[derive(Debug, Clone, Default, Args)]
pub struct RegionArgs {
    /// Select a region of elements, such as 0:64,:,7:8 or z=10:20,x=5 [default: all]
    #[arg(long, value_name = "REGION", allow_hyphen_values = true)]
    region: Option<RegionText>,
    /// Select the elements with their centres in a box, such as z=0:20um,y=1.5mm:,c=1
    #[arg(long = "box", value_name = "BOX", conflicts_with_all = ["region", "offset"])]
    physical: Option<PhysicalBox>,
    /// Interpret the region in coordinates of the data set, which begin at the voxel_offset of a
    /// precomputed volume
    #[arg(long, requires = "region")]
    offset: bool,
}

impl RegionArgs {
    /// The region of the array that a data set is, or of one of its levels.
    pub fn of(&self, set: &dyn DataSet, level: Level) -> Result<Region, Failure> {
        if let Some(physical) = &self.physical {
            return Ok(set.region_in_box(level.number(), physical)?);
        }
        let Some(text) = &self.region else { return Ok(Region::all()) };
        match set.region(level.number(), text, self.offset) {
            Err(error @ shardine::Error::NoOrigin { .. }) => {
                Err(Failure::from(error).hint("omit --offset"))
            }
            region => Ok(region?),
        }
    }

    /// Whether it is a box, of which only the data set knows the elements.
    pub fn is_box(&self) -> bool {
        self.physical.is_some()
    }
}
