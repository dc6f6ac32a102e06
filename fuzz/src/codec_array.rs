//! `array -> array` and `array -> bytes` codecs: hostile chunks of small arrays.
//!
//! Input: the codec's choice, the data type's choice, the number of dimensions, one byte for each of them, the chunk.

use serde_json::Value;
use shardine_codec::{
    ArraySpec, ArrayToArray, ArrayToBytes, Codec, Context, DataType, ElementSize, Elements,
    EncodedSize,
};

use crate::codecs::{self, CONFIGURATIONS};
use crate::memory;

/// Types that the input chooses from: every width, every kind that a codec treats in its own way.
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
];

pub fn run(input: &[u8]) {
    let Some((codec, rest)) = codecs::choose(input) else { return };
    let Some((spec, chunk)) = spec(rest) else { return };
    match codec {
        Codec::ArrayToArray(codec) => array_to_array(&*codec, &spec, chunk),
        Codec::ArrayToBytes(codec) => array_to_bytes(&*codec, &spec, chunk),
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
        // As many as are due.
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
fn array_to_bytes(codec: &dyn ArrayToBytes, spec: &ArraySpec, chunk: &[u8]) {
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
            // What was stored may hold an element that may not be written (a bool of 2).
            let result = codec.encode(&mut context, spec, elements.as_ref(), &mut encoded);
            let Ok(()) = result else { return };
            let size = encoded.len() as u64;
            match codec.encoded_size(spec) {
                EncodedSize::Exact(expected) => assert_eq!(size, expected, "not the promised size"),
                EncodedSize::AtMost(bound) => assert!(size <= bound, "past the promised size"),
                EncodedSize::Unbounded => {}
            }
            let again = codec.decode(&mut context, spec, &encoded);
            assert_eq!(again.as_ref(), Ok(&elements), "the elements changed");
        });
    });
}

/// The chunk as it came, and cut or padded to the size that is due, where one is.
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
        // Three strings behind the count and the lengths of the vlen codecs.
        for t in 0..TYPES.len() {
            let head = [codecs::choice(i), t as u8, 1, 3];
            let body = b"\x03\0\0\0\x02\0\0\0ab\0\0\0\0\x03\0\0\0xyz";
            seeds.push([&head[..], body].concat());
        }
    }
    seeds
}
