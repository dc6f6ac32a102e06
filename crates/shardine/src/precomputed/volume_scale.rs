//! What an array that is a scale of a volume needs of the volume.

use std::sync::Arc;

use super::Volume;
use crate::array::ArrayFormat;
use crate::{Array, Engine, Error, Location};

/// The scale that an array is.
#[derive(Debug)]
pub(super) struct VolumeScale {
    /// By which it is found again in another volume at the same place.
    pub resolution: [f64; 3],
    pub gzip_level: u8,
    /// How many copies of its data there are.
    pub copies: usize,
}

impl ArrayFormat for VolumeScale {
    fn reopen(&self, engine: &Arc<Engine>, location: &Location) -> Result<Array, Error> {
        let volume = Volume::open(engine, location)?.gzip_level(self.gzip_level);
        let mut scales = volume.info().scales().iter();
        let level = scales.position(|scale| scale.resolution == self.resolution);
        let replaced = || Error::Replaced { at: location.to_string() };
        volume.array(level.ok_or_else(replaced)?)
    }

    fn check_writable(&self, location: &Location) -> Result<(), Error> {
        match self.copies {
            0 | 1 => Ok(()),
            copies => Err(Error::SeveralCopies { at: location.to_string(), copies }),
        }
    }
}
