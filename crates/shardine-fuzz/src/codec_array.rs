//! `array -> array` and `array -> bytes` codecs: hostile chunks of small arrays.
//!
//! Input: the choice of codec, the choice of data type, the number of dimensions, one byte for each
//! of them, the chunk.

use serde_json::Value;
use shardine_codec::{
    ArraySpec, ArrayToArray, ArrayToBytes, Codec, Context, DataType, ElementSize, Elements,
    EncodedSize,
};

use crate::codecs::{self, CONFIGURATIONS};
use crate::memory;

macro_rules! golden {
    ($codec:literal, $data_type:literal, $shape:expr, $file:literal) => {
        (
            concat!("\"neuroglancer_", $codec, "\""),
            concat!("\"", $data_type, "\""),
            $shape,
            include_bytes!(concat!("../../../tests/golden/neuroglancer/", $file, ".chunk")),
        )
    };
}

/// Types that the input chooses from: every width, and every kind that a codec treats specially.
pub const TYPES: &[&str] = &[
    r#""bool""#,
    r#""int2""#,
    r#""uint4""#,
    r#""uint8""#,
    r#""int16""#,
    r#""uint32""#,
    r#""int64""#,
    r#""float16""#,
    r#""float32""#,
    r#""float64""#,
    r#""bfloat16""#,
    r#""float6_e2m3fn""#,
    r#""complex64""#,
    r#""complex_float4_e2m1fn""#,
    r#""r24""#,
    r#""string""#,
    r#""bytes""#,
    r#"{"name":"struct","configuration":{"fields":[{"name":"a","data_type":"int16"},{"name":"b","data_type":"float32"}]}}"#,
    r#""uint16""#,
    r#""uint64""#,
];

/// Chunks of codecs that nothing here writes, or that others write differently: the codec, and what
/// follows it.
const GOLDEN: &[(&str, &str, [u8; 4], &[u8])] = &[
    golden!("compressed_segmentation", "uint64", [1, 5, 9, 11], "segmentation_ts_odd"),
    golden!("compressed_segmentation", "uint32", [3, 4, 6, 5], "segmentation_ts_channels"),
    golden!("compressed_segmentation", "uint32", [1, 4, 9, 8], "segmentation_cs_16_bits"),
    golden!("compresso", "uint8", [1, 4, 9, 13], "compresso_cells_uint8_4_4_1"),
    golden!("compresso", "uint16", [1, 3, 6, 7], "compresso_noise_uint16_4_4_0"),
    golden!("compresso", "uint64", [1, 2, 6, 7], "compresso_top_uint64_8_4_1"),
    golden!("compresso", "uint64", [1, 4, 9, 13], "compresso_cells_uint64_4_6_0"),
    golden!("jpeg", "uint8", [1, 4, 12, 20], "jpeg_pil_1_240"),
    golden!("jpeg", "uint8", [3, 4, 12, 20], "jpeg_pil_3_20"),
    golden!("jpeg", "uint8", [3, 4, 12, 20], "jpeg_progressive_3"),
    golden!("png", "uint8", [4, 3, 7, 8], "png_pil_4"),
    golden!("png", "uint16", [2, 2, 5, 6], "png_deep_2"),
    golden!("jxl", "uint8", [1, 4, 12, 20], "jxl_lossless_1"),
    golden!("jxl", "uint8", [3, 4, 12, 20], "jxl_lossy_3"),
];

pub fn run(input: &[u8]) {
    let Some((document, rest)) = codecs::choose_document(input) else { return };
    let Some(codec) = codecs::parse(document) else { return };
    let Some((spec, chunk)) = spec(rest) else { return };
    match codec {
        Codec::ArrayToArray(codec) => array_to_array(&*codec, &spec, chunk),
        Codec::ArrayToBytes(codec) => {
            array_to_bytes(&*codec, &spec, chunk, codecs::is_lossy(document))
        }
        Codec::BytesToBytes(_) => {}
    }
}

/// The array that the first bytes describe, and the rest.
pub fn spec(input: &[u8]) -> Option<(ArraySpec, &[u8])> {
    let (&[choice, dimensions], rest) = input.split_first_chunk()?;
    let json: Value = serde_json::from_str(TYPES[usize::from(choice) % TYPES.len()]).ok()?;
    let data_type = DataType::from_json(&json).ok()?;
    let dimensions = usize::from(dimensions % 5);
    let shape = rest.get(..dimensions)?.iter().map(|&d| u64::from(d % 24)).collect();
    let fill = data_type.default_fill();
    let spec = ArraySpec { shape, data_type, fill };
    (spec.elements()? <= 1 << 14).then_some((spec, &rest[dimensions..]))
}

/// Decodes bytes as if they were elements: right sizes or an error.
fn array_to_array(codec: &dyn ArrayToArray, decoded: &ArraySpec, chunk: &[u8]) {
    let Some(decoded_len) = decoded.byte_len() else { return };
    let Ok(encoded) = codec.encoded_spec(decoded) else { return };
    let Some(encoded_len) = encoded.byte_len() else { return };
    let bound = 8 * (decoded_len + encoded_len + chunk.len()) + (1 << 20);
    memory::bounded(bound, || {
        let mut context = Context::new();
        let mut out = Vec::new();
        // As many bytes as the chunk happens to have.
        if codec.decode(&mut context, decoded, chunk, &mut out).is_ok() {
            assert_eq!(chunk.len(), encoded_len, "a chunk of the wrong size passed");
            assert_eq!(out.len(), decoded_len);
        }
        // The right number of bytes.
        let mut due = chunk.to_vec();
        due.resize(encoded_len, 0);
        if codec.decode(&mut context, decoded, &due, &mut out).is_ok() {
            assert_eq!(out.len(), decoded_len);
            let mut again = Vec::new();
            if codec.permutation().is_some() {
                assert_eq!(codec.encode(&mut context, decoded, &out, &mut again), Ok(()));
                assert!(again == due, "a permutation that is not undone");
            }
        }
        let mut elements = chunk.to_vec();
        elements.resize(decoded_len, 0);
        if codec.encode(&mut context, decoded, &elements, &mut out).is_ok() {
            assert_eq!(out.len(), encoded_len);
        }
    });
}

/// Decodes any bytes; what decodes has the right number of elements and encodes to an equal chunk.
fn array_to_bytes(codec: &dyn ArrayToBytes, spec: &ArraySpec, chunk: &[u8], lossy: bool) {
    let Ok(()) = codec.check(spec) else { return };
    let Some(count) = spec.elements() else { return };
    let plain = spec.byte_len().unwrap_or(count * size_of::<usize>());
    memory::bounded(8 * (plain + chunk.len()) + (1 << 20), || {
        let mut context = Context::new();
        for_each_length(codec, spec, chunk, |chunk| {
            let Ok(elements) = codec.decode(&mut context, spec, chunk) else { return };
            match &elements {
                Elements::Fixed(bytes) => assert_eq!(Some(bytes.len()), spec.byte_len()),
                Elements::Variable(variable) => {
                    assert_eq!(variable.len(), count);
                    assert_eq!(spec.data_type.size(), ElementSize::Variable);
                }
            }
            let mut encoded = Vec::new();
            // The stored bytes may hold an element that may not be written (a bool of 2).
            let result = codec.encode(&mut context, spec, elements.as_ref(), &mut encoded);
            let Ok(()) = result else { return };
            let size = encoded.len() as u64;
            match codec.encoded_size(spec) {
                EncodedSize::Exact(expected) => assert_eq!(size, expected, "not the promised size"),
                EncodedSize::AtMost(bound) => assert!(size <= bound, "past the promised size"),
                EncodedSize::Unbounded => {}
            }
            match codec.decode(&mut context, spec, &encoded) {
                Ok(again) => assert!(lossy || again == elements, "the elements changed"),
                Err(error) => panic!("what was encoded does not decode: {error}"),
            }
        });
    });
}

/// The chunk as it came, and truncated or padded to the expected size, if there is one.
fn for_each_length(
    codec: &dyn ArrayToBytes,
    spec: &ArraySpec,
    chunk: &[u8],
    mut f: impl FnMut(&[u8]),
) {
    f(chunk);
    if let EncodedSize::Exact(size) = codec.encoded_size(spec)
        && let Ok(size) = usize::try_from(size)
    {
        let mut due = chunk.to_vec();
        due.resize(size, 0);
        f(&due);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (i, json) in CONFIGURATIONS.iter().enumerate() {
        if matches!(codecs::parse(json.as_bytes()), None | Some(Codec::BytesToBytes(_))) {
            continue;
        }
        for t in 0..TYPES.len() {
            let head = [codecs::choice(i), t as u8];
            seeds.push([&head[..], &[2, 3, 4], &[1; 96]].concat());
            seeds.push([&head[..], &[3, 2, 3, 2], &[0xff; 96]].concat());
        }
        // Three strings as the vlen codecs store them, after a count and lengths.
        for t in 0..TYPES.len() {
            let head = [codecs::choice(i), t as u8, 1, 3];
            let body = b"\x03\0\0\0\x02\0\0\0ab\0\0\0\0\x03\0\0\0xyz";
            seeds.push([&head[..], body].concat());
        }
        for (codec, data_type, shape, chunk) in GOLDEN {
            let t = TYPES.iter().position(|known| known == data_type);
            if let Some(t) = t.filter(|_| json.contains(codec)) {
                let head = [codecs::choice(i), t as u8, 4];
                seeds.push([&head[..], shape, chunk].concat());
            }
        }
    }
    seeds
}
