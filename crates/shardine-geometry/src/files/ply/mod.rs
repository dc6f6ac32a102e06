//! Vertices, faces and edges in `.ply` files.

mod header;
mod read;
mod rows;
mod write;

pub use read::PlyReader;
pub use write::PlyWriter;

pub(super) use write::holds;

const PLY: &str = ".ply";
