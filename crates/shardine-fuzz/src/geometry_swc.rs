//! The reader of a `.swc` file.

use shardine_geometry::files::FileFormat;

use crate::geometry::{self, seed};

pub fn run(input: &[u8]) {
    geometry::run(FileFormat::Swc, input);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let trees =
        "# two\n1 1 0 0 0 1 -1\n2 3 1 0 0 0.5 1\n4 1 9 9 9 1e-3 -1\n5 2 8 9 9 1 4\n3 3 2 0 0 1 2\n";
    vec![seed(3, trees), seed(4, trees)]
}
