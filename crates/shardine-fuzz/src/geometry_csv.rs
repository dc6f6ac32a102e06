//! The reader of comma-separated rows.

use shardine_geometry::files::FileFormat;

use crate::geometry::{self, seed};

pub fn run(input: &[u8]) {
    geometry::run(FileFormat::Csv, input);
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        seed(0, "x,y,z,object_id,n,w,b,s\n1,2,3,7,-4,1.5,true,\"a, b\"\n4,5e-3,6,7,,nan,False,c\n"),
        seed(1, "x0,y0,x1,y1\n1,2,3,4\n5,6,7,8\n"),
        seed(2, "x;object_id\n1;5\n2;5\n3;6\n"),
    ]
}
