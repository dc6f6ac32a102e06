//! webknossos-wrap data sets, written byte by byte.

use serde_json::json;
use shardine::store::Store;
use shardine_codec::{Codec, CodecSpec, Context, from_spec};

use super::data_set::put;

/// Files of 2 blocks of 4 voxels along each edge.
pub const EDGE: u64 = 8;
pub const LOG2: u8 = 0x12;

pub const TYPES: [(&str, u8); 10] = [
    ("uint8", 1),
    ("uint16", 2),
    ("uint32", 4),
    ("uint64", 8),
    ("float32", 4),
    ("float64", 8),
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("int64", 8),
];

/// The parameters of a data set.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// 1 raw, 2 LZ4, 3 LZ4HC.
    pub blocks: u8,
    /// From 1.
    pub voxel: u8,
    pub channels: u8,
}

impl Form {
    pub fn size(self) -> u8 {
        TYPES[usize::from(self.voxel) - 1].1
    }

    pub fn header(self, offset: u64) -> Vec<u8> {
        let size = self.size() * self.channels;
        let mut header = vec![b'W', b'K', b'W', 1, LOG2, self.blocks, self.voxel, size];
        header.extend_from_slice(&offset.to_le_bytes());
        header
    }

    /// The bytes of a channel of a voxel.
    pub fn value(self, [x, y, z]: [u64; 3], channel: u64) -> Vec<u8> {
        let mixed = (x * 7 + y * 31 + z * 101 + channel * 17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Runs of equal bytes, so that there is something to compress.
        (mixed >> 60).to_le_bytes()[..self.size().into()].to_vec()
    }

    /// The file at a position.
    pub fn cube(self, place: [u64; 3]) -> Vec<u8> {
        let mut blocks = Vec::new();
        for number in 0..8u64 {
            let mut block = Vec::new();
            for voxel in 0..64u64 {
                let inside = [voxel % 4, voxel / 4 % 4, voxel / 16];
                let at =
                    std::array::from_fn(|k| place[k] * EDGE + (number >> k & 1) * 4 + inside[k]);
                for channel in 0..u64::from(self.channels) {
                    block.extend(self.value(at, channel));
                }
            }
            blocks.push(if self.blocks == 1 { block } else { lz4(&block) });
        }
        let offset = if self.blocks == 1 { 16 } else { 16 + 8 * 8 };
        let mut file = self.header(offset);
        if self.blocks > 1 {
            let mut end = offset;
            for block in &blocks {
                end += block.len() as u64;
                file.extend_from_slice(&end.to_le_bytes());
            }
        }
        file.extend(blocks.concat());
        file
    }

    /// The elements of a box of the data set, in C order.
    pub fn expected(self, start: [u64; 3], end: [u64; 3], stored: &[[u64; 3]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for x in start[0]..end[0] {
            for y in start[1]..end[1] {
                for z in start[2]..end[2] {
                    let there = stored.contains(&[x, y, z].map(|at| at / EDGE));
                    for channel in 0..u64::from(self.channels) {
                        match there {
                            true => bytes.extend(self.value([x, y, z], channel)),
                            false => bytes.extend(vec![0; self.size().into()]),
                        }
                    }
                }
            }
        }
        bytes
    }
}

pub fn lz4(block: &[u8]) -> Vec<u8> {
    let name = "wkw.lz4_block".to_owned();
    let spec = CodecSpec { name, configuration: Default::default(), must_understand: true };
    let Codec::BytesToBytes(codec) = from_spec(&spec).unwrap() else { panic!() };
    let mut out = Vec::new();
    codec.encode(&mut Context::default(), block, &mut out).unwrap();
    out
}

pub const STORED: [[u64; 3]; 3] = [[0, 0, 0], [1, 0, 0], [0, 1, 1]];

/// Some files of an array, and its header.
pub fn put_array(store: &dyn Store, folder: &str, form: Form) {
    put(store, &format!("{folder}/header.wkw"), &form.header(0));
    for [x, y, z] in STORED {
        put(store, &format!("{folder}/z{z}/y{y}/x{x}.wkw"), &form.cube([x, y, z]));
    }
}

pub const LZ4: Form = Form { blocks: 2, voxel: 2, channels: 1 };

/// A data set with two magnifications of one layer.
pub fn put_set(store: &dyn Store) {
    let properties = json!({
        "id": { "name": "ds", "team": "" },
        "dataLayers": [{
            "name": "color", "category": "color", "dataFormat": "wkw", "elementClass": "uint16",
            "boundingBox": { "topLeft": [1, 2, 3], "width": 12, "height": 11, "depth": 6 },
            "wkwResolutions": [{ "resolution": [2, 2, 1] }, { "resolution": 1 }],
        }, {
            "name": "labels", "dataFormat": "zarr3",
            "boundingBox": { "topLeft": [0, 0, 0], "width": 1, "height": 1, "depth": 1 },
        }],
        "scale": { "factor": [11.5, 11.5, 25], "unit": "nanometer" },
    });
    put(store, "ds/datasource-properties.json", properties.to_string().as_bytes());
    put_array(store, "ds/color/1", LZ4);
    put_array(store, "ds/color/2-2-1", LZ4);
}
