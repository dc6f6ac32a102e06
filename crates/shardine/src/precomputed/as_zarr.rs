//! The scales of a volume in the terms of Zarr, for jobs that turn one into the other.

use serde_json::{Map, Value};

use super::volume::axis_names;
use super::{INFO, Scale, Volume};
use crate::Error;
use crate::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding, NewArray};

impl Volume {
    /// The metadata that a Zarr array with the chunks of a scale would have.
    pub(crate) fn metadata(&self, scale: &Scale) -> Result<ArrayMetadata, Error> {
        let mut attributes = Map::new();
        attributes.insert("resolution".into(), Value::from(scale.resolution.to_vec()));
        attributes.insert("voxel_offset".into(), Value::from(scale.voxel_offset.to_vec()));
        let new = NewArray {
            shape: self.with_channels(scale.size),
            chunk_shape: self.with_channels(scale.chunk_size()),
            data_type: self.info().data_type().clone(),
            fill: None,
            codecs: self.codecs(scale)?,
            key_encoding: ChunkKeyEncoding::default(),
            dimension_names: Some(axis_names()),
            attributes,
        };
        ArrayMetadata::new(new).map_err(|source| match self.location().key(INFO) {
            Ok(object) => Error::Metadata { object, source: Box::new(source) },
            Err(error) => error,
        })
    }
}
