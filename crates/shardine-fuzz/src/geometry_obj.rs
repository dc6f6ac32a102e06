//! The reader of a Wavefront file.

use shardine_geometry::files::FileFormat;

use crate::geometry::{self, seed};

pub fn run(input: &[u8]) {
    geometry::run(FileFormat::Obj, input);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let square = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1/1 2//2 \\\n3 4\nf -1 -2 -3\nl 1 2 3\n";
    vec![seed(5, square), seed(4, square), seed(0, square)]
}
