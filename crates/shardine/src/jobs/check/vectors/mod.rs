//! Arrays of Zarr Vectors as `verify` and `repair` look at them: what is stored in which cell,
//! whatever the documents say, and cells that are read although others are damaged.

mod cell_array;
mod follows;
mod manifest;
mod stored;

pub(in crate::jobs) use cell_array::{CellArray, unread};
pub(in crate::jobs) use follows::follows;
pub(in crate::jobs) use manifest::each_block;
