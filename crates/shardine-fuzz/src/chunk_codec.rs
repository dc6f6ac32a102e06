//! Whole codec chains on a small chunk: decodes hostile chunks, and re-encodes what was decoded.
//!
//! Input: the choice of chain, then data type, dimensions, shape and chunk as for `codec_array`.

use serde_json::Value;
use shardine_codec::{
    ArraySpec, ChunkCodec, Codec, Context, ElementSize, ElementsRef, EncodedSize,
};

use crate::{codec_array, codecs, data_type, memory};

/// A chain, and whether what it decodes survives encoding and decoding unchanged.
struct Chain {
    codecs: &'static str,
    lossless: bool,
}

const fn lossless(codecs: &'static str) -> Chain {
    Chain { codecs, lossless: true }
}

const fn lossy(codecs: &'static str) -> Chain {
    Chain { codecs, lossless: false }
}

/// Combinations of stages: nothing to do, swapping, permuting, framing, several of each.
const CHAINS: &[Chain] = &[
    lossless(r#"[{"name":"bytes","configuration":{"endian":"little"}}]"#),
    lossless(r#"[{"name":"bytes","configuration":{"endian":"big"}},{"name":"crc32c"}]"#),
    lossless(
        r#"[{"name":"bytes","configuration":{"endian":"little"}},{"name":"zstd","configuration":{"level":1,"checksum":false}},{"name":"crc32c"}]"#,
    ),
    lossless(
        r#"[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"},{"name":"gzip","configuration":{"level":1}}]"#,
    ),
    lossless(
        r#"[{"name":"transpose","configuration":{"order":[2,0,1]}},{"name":"transpose","configuration":{"order":[1,0,2]}},{"name":"bytes","configuration":{"endian":"big"}},{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle","typesize":4,"blocksize":0}}]"#,
    ),
    lossless(
        r#"[{"name":"bytes","configuration":{"endian":"little"}},{"name":"gzip","configuration":{"level":1}},{"name":"zstd","configuration":{"level":1,"checksum":true}}]"#,
    ),
    lossless(
        r#"[{"name":"vlen-utf8"},{"name":"zstd","configuration":{"level":1,"checksum":false}}]"#,
    ),
    lossless(r#"[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"vlen-bytes"}]"#),
    lossless(r#"[{"name":"packbits"},{"name":"crc32c"}]"#),
    lossy(
        r#"[{"name":"bitround","configuration":{"keepbits":4}},{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"big"}},{"name":"gzip","configuration":{"level":1}}]"#,
    ),
    lossy(
        r#"[{"name":"fixedscaleoffset","configuration":{"offset":3,"scale":2,"dtype":"<f4","astype":"<u1"}},{"name":"bytes"},{"name":"crc32c"}]"#,
    ),
    lossless(
        r#"[{"name":"delta","configuration":{"dtype":"<i2","astype":"<i2"}},{"name":"transpose","configuration":{"order":[1,0]}},{"name":"bytes","configuration":{"endian":"big"}},{"name":"shuffle","configuration":{"elementsize":2}},{"name":"lz4","configuration":{"acceleration":1}}]"#,
    ),
    lossless(
        r#"[{"name":"bytes","configuration":{"endian":"little"}},{"name":"fletcher32"},{"name":"zlib","configuration":{"level":1}}]"#,
    ),
    lossless(
        r#"[{"name":"transpose","configuration":{"order":[3,2,1,0]}},{"name":"neuroglancer_compressed_segmentation","configuration":{"block_size":[2,2,3]}},{"name":"gzip","configuration":{"level":1}}]"#,
    ),
    lossless(r#"[{"name":"neuroglancer_png"},{"name":"crc32c"}]"#),
    lossy(
        r#"[{"name":"transpose","configuration":{"order":[3,2,1,0]}},{"name":"neuroglancer_jpeg"}]"#,
    ),
    lossless(r#"[{"name":"neuroglancer_compresso"}]"#),
];

pub fn run(input: &[u8]) {
    let Some((&choice, rest)) = input.split_first() else { return };
    let (chain, lossless, rest) = match CHAINS.get(usize::from(choice)) {
        Some(chain) => (chain.codecs.as_bytes(), chain.lossless, rest),
        None => {
            let (json, rest) = crate::split(rest);
            (json, false, rest)
        }
    };
    let Some(codecs) = parse(chain) else { return };
    let Some((spec, chunk)) = codec_array::spec(rest) else { return };
    let Ok(codec) = ChunkCodec::new(&codecs, spec) else { return };
    match codec.spec().data_type.size() {
        ElementSize::Fixed(_) => fixed(&codec, chunk, lossless),
        ElementSize::Variable => variable(&codec, chunk, lossless),
    }
}

fn parse(chain: &[u8]) -> Option<Vec<Codec>> {
    let value: Value = serde_json::from_slice(chain).ok()?;
    let list = value.as_array().filter(|list| list.len() <= 8)?;
    list.iter().map(codecs::from_value).collect()
}

/// The memory that decoding may use: a few copies of the chunk before and after.
fn bound(spec: &ArraySpec, chunk: &[u8]) -> usize {
    let elements = spec.elements().unwrap_or(0);
    let decoded = spec.byte_len().unwrap_or(elements * size_of::<usize>());
    16 * (decoded + chunk.len()) + (1 << 23)
}

fn fixed(codec: &ChunkCodec, chunk: &[u8], lossless: bool) {
    let Some(len) = codec.stored().byte_len() else { panic!("a fixed-size chunk without a size") };
    let mut context = Context::new();
    let decoded = memory::bounded(bound(codec.spec(), chunk), || {
        codec.decode(&mut context, chunk).map(|decoded| decoded.as_ref().to_vec())
    });
    let mut into = vec![0xcd; len];
    let result = codec.decode_into(&mut context, chunk, &mut into);
    let Ok(decoded) = decoded else {
        assert!(result.is_err(), "decode fails where decode_into does not");
        // Now the bytes as elements.
        let mut elements = chunk.to_vec();
        elements.resize(len, 0);
        let lossless = lossless && data_type::any_bytes_are_legal(&codec.spec().data_type);
        return again(codec, &mut context, &elements, lossless);
    };
    assert_eq!(result, Ok(()), "decode_into fails where decode does not");
    assert!(decoded == into, "decode and decode_into differ");
    again(codec, &mut context, &decoded, lossless);
}

fn again(codec: &ChunkCodec, context: &mut Context, elements: &[u8], lossless: bool) {
    let mut encoded = vec![0xab; 3];
    let Ok(()) = codec.encode(context, ElementsRef::Fixed(elements), &mut encoded) else { return };
    assert_eq!(encoded[..3], [0xab; 3], "encode overwrote what was there");
    check_size(codec, encoded.len() - 3);
    match codec.decode(context, &encoded[3..]) {
        Ok(decoded) => assert!(!lossless || decoded.as_ref() == elements, "the elements changed"),
        Err(error) => panic!("what was encoded does not decode: {error}"),
    };
}

fn variable(codec: &ChunkCodec, chunk: &[u8], lossless: bool) {
    let mut context = Context::new();
    let limit = bound(codec.spec(), chunk) + 4 * shardine_codec::VARIABLE_LIMIT;
    let decoded = memory::bounded(limit, || codec.decode_variable(&mut context, chunk));
    let Ok(decoded) = decoded else { return };
    assert_eq!(Some(decoded.len()), codec.spec().elements());
    let mut encoded = Vec::new();
    let result = codec.encode(&mut context, ElementsRef::Variable(&decoded), &mut encoded);
    let Ok(()) = result else { return };
    check_size(codec, encoded.len());
    let again = codec.decode_variable(&mut context, &encoded);
    assert!(!lossless || again.as_ref() == Ok(&decoded), "the elements changed");
}

fn check_size(codec: &ChunkCodec, actual: usize) {
    match codec.encoded_size() {
        EncodedSize::Exact(expected) => assert_eq!(actual as u64, expected),
        EncodedSize::AtMost(bound) => assert!(actual as u64 <= bound, "past the promised size"),
        EncodedSize::Unbounded => {}
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (i, chain) in CHAINS.iter().enumerate() {
        let Some(codecs) = parse(chain.codecs.as_bytes()) else { continue };
        for (t, shape) in (0..codec_array::TYPES.len() as u8)
            .flat_map(|t| [&[2, 3, 4][..], &[3, 2, 3, 2], &[0], &[1, 0]].map(|shape| (t, shape)))
        {
            let head = [&[i as u8, t], shape].concat();
            let Some((spec, _)) = codec_array::spec(&head[1..]) else { continue };
            let Some(len) = spec.byte_len() else {
                // Two strings as the vlen codecs store them, after a count and lengths.
                let body = b"\x02\0\0\0\x02\0\0\0ab\x03\0\0\0xyz";
                seeds.push([&[i as u8, t, 1, 2][..], body].concat());
                continue;
            };
            let Ok(codec) = ChunkCodec::new(&codecs, spec) else { continue };
            let elements: Vec<u8> = (0..len).map(|k| (k % 2) as u8).collect();
            let mut seed = head;
            let elements = ElementsRef::Fixed(&elements);
            if codec.encode(&mut Context::new(), elements, &mut seed).is_ok() {
                seeds.push(seed);
            }
        }
    }
    seeds
}
