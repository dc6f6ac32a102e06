//! What an array that is a scale of a volume needs from the volume.

use std::sync::Arc;

use super::Volume;
use crate::array::ArrayFormat;
use crate::{Array, Engine, Error, Location};

/// The scale that an array is.
#[derive(Debug)]
pub(super) struct VolumeScale {
    /// Identifies the scale in another volume at the same location.
    pub resolution: [f64; 3],
    pub gzip_level: u8,
    /// The number of copies of its data.
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
