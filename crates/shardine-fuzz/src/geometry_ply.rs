//! The reader of a `.ply` file.

use shardine_geometry::files::FileFormat;

use crate::geometry::{self, seed};

pub fn run(input: &[u8]) {
    geometry::run(FileFormat::Ply, input);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let head = "element vertex 3\nproperty float x\nproperty short object_id\nelement face 1\n\
                property list uchar int vertex_indices\nproperty uchar q\nelement edge 1\n\
                property int vertex1\nproperty int vertex2\nend_header\n";
    let mut seeds = Vec::new();
    for kind in [0, 4, 5] {
        let text = format!("ply\nformat ascii 1.0\n{head}0 1\n1 1\n2 1\n3 0 1 2 9\n0 1\n");
        seeds.push(seed(kind, &text));
        for name in ["binary_little_endian", "binary_big_endian"] {
            let mut bytes = seed(kind, &format!("ply\nformat {name} 1.0\n{head}"));
            bytes.extend([0; 18]);
            bytes.push(3);
            bytes.extend([0; 12]);
            bytes.push(9);
            bytes.extend([0; 8]);
            seeds.push(bytes);
        }
    }
    seeds
}
