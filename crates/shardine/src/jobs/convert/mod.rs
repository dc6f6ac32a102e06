//! Converts between Zarr and Neuroglancer's precomputed format: by moving encoded chunks as they are, wherever their bytes mean
//! the same on both sides.

mod error;
mod job;
mod kept;
mod multiscale;
mod new_info;
mod options;
mod to_volume;
mod to_zarr;
mod view;

pub use error::ConvertError;
pub use options::{
    ConvertOptions, ConvertSummary, ConvertedLevel, VolumeForm, VolumePacking, ZarrForm,
};
pub use to_volume::convert_to_volume;
pub use to_zarr::convert_to_zarr;
