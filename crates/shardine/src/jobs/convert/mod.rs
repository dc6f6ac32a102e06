//! Converts between Zarr and Neuroglancer's precomputed format: by moving encoded chunks as they are, wherever their bytes mean
//! the same on both sides.

mod alike;
mod as_zarr;
mod error;
mod job;
mod kept;
mod level;
mod multiscale;
mod new_info;
mod objects;
mod options;
mod source;
mod to_volume;
mod to_zarr;
mod view;

pub use error::ConvertError;
pub use options::{ConvertOptions, ConvertSummary, ConvertedLevel, VolumeForm, ZarrForm};
pub use to_volume::convert_to_volume;
pub use to_zarr::convert_to_zarr;
