//! The encodings of precomputed volumes: chunks that others wrote
//! (`tests/golden/neuroglancer/make.py` made them), and what each codec promises.

mod compresso;
mod images;
mod segmentation;

use std::path::PathBuf;

use serde_json::Value;
use shardine_codec::{ArraySpec, CodecError, Context, ElementsRef};

use crate::support::{array_to_bytes, chunk};

fn file(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/neuroglancer");
    std::fs::read(folder.join(name)).unwrap()
}

/// Reads every chunk of a codec, calls `f` with its contents, and returns how many there were.
fn golden(codec: &str, f: impl Fn(&Value, &ArraySpec, &[u8])) -> usize {
    let cases: Vec<Value> = serde_json::from_slice(&file("cases.json")).unwrap();
    let cases = cases.iter().filter(|case| case["codec"] == codec);
    cases
        .inspect(|case| {
            let name = case["name"].as_str().unwrap();
            let shape: Vec<u64> =
                case["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
            let spec = chunk(case["data_type"].as_str().unwrap(), &shape);
            let elements = file(case["elements"].as_str().unwrap());
            let encoded = file(&format!("{name}.chunk"));
            let decoded = decode(codec, case["configuration"].clone(), &spec, &encoded).unwrap();
            let tolerance = case["tolerance"].as_u64().unwrap() as u8;
            assert_eq!(decoded.len(), elements.len());
            for (i, (a, b)) in decoded.iter().zip(&elements).enumerate() {
                assert!(a.abs_diff(*b) <= tolerance, "{name}: byte {i} is {a}, not {b}");
            }
            f(case, &spec, &elements);
        })
        .count()
}

fn decode(
    name: &str,
    configuration: Value,
    spec: &ArraySpec,
    encoded: &[u8],
) -> Result<Vec<u8>, CodecError> {
    let codec = array_to_bytes(name, configuration);
    codec.check(spec)?;
    let decoded = codec.decode(&mut Context::new(), spec, encoded)?;
    Ok(decoded.into_fixed().unwrap())
}

fn encode(
    name: &str,
    configuration: Value,
    spec: &ArraySpec,
    elements: &[u8],
) -> Result<Vec<u8>, CodecError> {
    let codec = array_to_bytes(name, configuration);
    codec.check(spec)?;
    let mut out = b"before".to_vec();
    let fixed = ElementsRef::Fixed(elements);
    let result = codec.encode(&mut Context::new(), spec, fixed, &mut out);
    assert!(out.starts_with(b"before"));
    assert!(result.is_ok() || out == b"before", "a failure leaves bytes behind");
    result.map(|()| out.split_off(6))
}

/// Labels as the bytes of this type.
fn bytes(data_type: &str, labels: &[u64]) -> Vec<u8> {
    let size = data_type.trim_start_matches("uint").parse::<usize>().unwrap() / 8;
    labels.iter().flat_map(|label| label.to_le_bytes().into_iter().take(size)).collect()
}
