//! The scales of a volume in the terms of Zarr, for jobs that turn one into the other.

use serde_json::{Map, Value};

use crate::Error;
use crate::precomputed::{INFO, Scale, Volume, axis_names};
use crate::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding, NewArray};

/// The metadata that a Zarr array with the chunks of a scale would have.
pub(super) fn scale_metadata(volume: &Volume, scale: &Scale) -> Result<ArrayMetadata, Error> {
    let mut attributes = Map::new();
    attributes.insert("resolution".into(), Value::from(scale.resolution.to_vec()));
    attributes.insert("voxel_offset".into(), Value::from(scale.voxel_offset.to_vec()));
    let new = NewArray {
        shape: volume.with_channels(scale.size),
        chunk_shape: volume.with_channels(scale.chunk_size()),
        data_type: volume.info().data_type().clone(),
        fill: None,
        codecs: volume.codecs(scale)?,
        key_encoding: ChunkKeyEncoding::default(),
        dimension_names: Some(axis_names()),
        attributes,
    };
    ArrayMetadata::new(new).map_err(|source| match volume.location().key(INFO) {
        Ok(object) => Error::Metadata { object, source: Box::new(source) },
        Err(error) => error,
    })
}
