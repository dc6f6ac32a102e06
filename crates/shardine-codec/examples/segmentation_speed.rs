//! Measures the speed of `neuroglancer_compressed_segmentation` on chunks of 64^3 labels.
//!
//! `cargo run --release -p shardine-codec --example segmentation_speed [FOLDER]`; with a folder,
//! the elements and the encoded chunks are written there, so that other implementations can be
//! measured on the same data.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use shardine_codec::{
    ArraySpec, ArrayToBytes, Codec, CodecSpec, Context, DataType, ElementsRef, from_spec,
};

const SIDE: usize = 64;

/// Pseudorandom numbers that are the same on every machine.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 20
    }
}

/// Cells around this many points, shaped like neurons.
fn cells(points: usize) -> Vec<u64> {
    let mut numbers = Numbers(points as u64);
    let points: Vec<([i64; 3], u64)> = (0..points)
        .map(|_| {
            let place = [0; 3].map(|_: i64| (numbers.next() % SIDE as u64) as i64);
            (place, 720_575_940_000_000_000 + numbers.next())
        })
        .collect();
    let side = SIDE as i64;
    (0..side * side * side)
        .map(|i| {
            let at = [i / side / side, i / side % side, i % side];
            let distance = |point: &[i64; 3]| -> i64 {
                point.iter().zip(at).map(|(a, b)| (a - b) * (a - b)).sum()
            };
            points.iter().min_by_key(|(point, _)| distance(point)).unwrap().1
        })
        .collect()
}

fn codec() -> std::sync::Arc<dyn ArrayToBytes> {
    let configuration = json!({"block_size": [8, 8, 8]}).as_object().cloned().unwrap();
    let name = "neuroglancer_compressed_segmentation".to_owned();
    match from_spec(&CodecSpec { name, configuration, must_understand: true }).unwrap() {
        Codec::ArrayToBytes(codec) => codec,
        other => panic!("{other:?}"),
    }
}

/// Megabytes of elements per second, for the fastest run.
fn speed(bytes: usize, mut f: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed());
    }
    bytes as f64 / 1e6 / best.as_secs_f64()
}

fn main() {
    let folder = std::env::args().nth(1).map(PathBuf::from);
    let (codec, context) = (codec(), &mut Context::new());
    let mut numbers = Numbers(7);
    let cases = [
        ("one_label", vec![42; SIDE * SIDE * SIDE]),
        ("10_cells", cells(10)),
        ("100_cells", cells(100)),
        ("1000_cells", cells(1000)),
        ("noise_of_8", (0..SIDE * SIDE * SIDE).map(|_| numbers.next() % 8).collect()),
        ("noise", (0..SIDE * SIDE * SIDE).map(|_| numbers.next()).collect()),
    ];
    println!("{:12} {:>10} {:>12} {:>12}", "labels", "bytes", "encode MB/s", "decode MB/s");
    for (name, labels) in cases {
        for data_type in ["uint64", "uint32"] {
            let elements: Vec<u8> = match data_type {
                "uint64" => labels.iter().flat_map(|label| label.to_le_bytes()).collect(),
                _ => labels.iter().flat_map(|label| (*label as u32).to_le_bytes()).collect(),
            };
            let side = SIDE as u64;
            let data_type_of = DataType::from_json(&json!(data_type)).unwrap();
            let fill = data_type_of.default_fill();
            let shape = vec![1, side, side, side];
            let spec = ArraySpec { shape, data_type: data_type_of, fill };
            let mut encoded = Vec::new();
            let encode = speed(elements.len(), || {
                encoded.clear();
                let elements = ElementsRef::Fixed(black_box(&elements));
                codec.encode(context, &spec, elements, &mut encoded).unwrap();
            });
            let decode = speed(elements.len(), || {
                let decoded = codec.decode(context, &spec, black_box(&encoded)).unwrap();
                context.give_buffer(black_box(decoded.into_fixed().unwrap()));
            });
            let decoded = codec.decode(context, &spec, &encoded).unwrap().into_fixed().unwrap();
            assert!(decoded == elements, "{name}: the elements changed");
            let label = format!("{name}.{data_type}");
            println!("{label:18} {:>10} {encode:>12.0} {decode:>12.0}", encoded.len());
            if let Some(folder) = &folder {
                std::fs::write(folder.join(format!("{label}.elements")), &elements).unwrap();
                std::fs::write(folder.join(format!("{label}.encoded")), &encoded).unwrap();
            }
        }
    }
}
