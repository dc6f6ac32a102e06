//! Converts between formats: encoded chunks are moved wherever their bytes mean the same on both
//! sides.

mod described;
mod error;
mod hierarchy;
mod images;
mod level_array;
mod lower_levels;
mod new_info;
mod new_nodes;
mod nodes;
mod ome_form;
mod options;
mod planned;
mod positions;
mod restored;
mod to_ome;
mod to_volume;
mod to_zarr;
mod undescribed;
mod view;

use super::frame::JobKind;
use crate::zarr::CONVERT_MARKER;

pub use error::ConvertError;
pub use ome_form::{LevelCount, OmeForm};
pub use options::{ConvertOptions, ConvertSummary, ConvertedLevel, VolumeForm, ZarrForm};
pub use to_ome::convert_to_ome;
pub(super) use to_ome::plan_to_ome;
pub use to_volume::convert_to_volume;
pub(super) use to_volume::plan_to_volume;
pub use to_zarr::convert_to_zarr;
pub(super) use to_zarr::plan_to_zarr;

pub(super) const CONVERT: JobKind = JobKind { marker: CONVERT_MARKER, member: "shardine_convert" };
