//! Trees in `.swc` files: a node, its type, position, radius and parent in each line.

mod read;
mod trees;
mod write;

pub use read::SwcReader;
pub use write::SwcWriter;

const SWC: &str = ".swc";

/// The columns beside positions.
const TYPE: &str = "type";
const RADIUS: &str = "radius";
