//! Bytes that no encoder wrote: an error or other data, never a panic, and never more than
//! requested.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;
use shardine_codec::{CodecError, Context};

use crate::round_trip::data;
use crate::support::{all_bytes_to_bytes, array_to_bytes, bytes_to_bytes, chunk};

#[derive(Debug, Clone)]
enum Damage {
    Flip(Index, u8),
    Cut(Index),
    Grow(Vec<u8>),
    Overwrite(Index, Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<Index>(), 1u8..).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        any::<Index>().prop_map(Damage::Cut),
        vec(any::<u8>(), 1..40).prop_map(Damage::Grow),
        (any::<Index>(), vec(any::<u8>(), 1..20)).prop_map(|(at, new)| Damage::Overwrite(at, new)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    match damage {
        Damage::Flip(at, bits) => bytes[at.index(len)] ^= bits,
        Damage::Cut(at) => bytes.truncate(at.index(len)),
        Damage::Grow(more) => bytes.extend_from_slice(more),
        Damage::Overwrite(at, new) => {
            let at = at.index(len);
            let end = (at + new.len()).min(len);
            bytes[at..end].copy_from_slice(&new[..end - at]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn damaged_bytes_are_an_error_or_other_data(data in data(), damage in damage()) {
        let context = &mut Context::new();
        for (label, codec) in all_bytes_to_bytes() {
            let mut encoded = Vec::new();
            if codec.encode(context, &data, &mut encoded).is_err() {
                continue;
            }
            apply(&mut encoded, &damage);
            let limit = data.len() + 100;
            let mut decoded = Vec::new();
            if codec.decode(context, &encoded, limit, &mut decoded).is_ok() {
                prop_assert!(decoded.len() <= limit, "{} passed its limit", label);
            }
            let mut exact = vec![0; data.len()];
            let result = codec.decode_exact(context, &encoded, &mut exact);
            if let Damage::Flip(..) = damage && codec.payload(&encoded).is_some() {
                prop_assert!(result.is_err(), "{} missed a flipped bit", label);
            }
        }
    }

    #[test]
    fn noise_is_an_error_or_data(noise in vec(any::<u8>(), 0..200), limit in 0usize..5000) {
        let context = &mut Context::new();
        for (label, codec) in all_bytes_to_bytes() {
            let mut decoded = Vec::new();
            if codec.decode(context, &noise, limit, &mut decoded).is_ok() {
                prop_assert!(decoded.len() <= limit, "{} passed its limit", label);
            }
            prop_assert!(codec.decode_exact(context, &noise, &mut vec![0; limit]).is_err()
                || label.contains("shuffle {"), "{} made data of noise", label);
        }
    }

    #[test]
    fn a_wrong_length_is_an_error(data in data(), other in 0usize..4000) {
        let context = &mut Context::new();
        let other = if other == data.len() { other + 1 } else { other };
        for (label, codec) in all_bytes_to_bytes() {
            let mut encoded = Vec::new();
            if codec.encode(context, &data, &mut encoded).is_err() {
                continue;
            }
            let result = codec.decode_exact(context, &encoded, &mut vec![0; other]);
            let fits = matches!(
                result, Err(CodecError::Size { .. } | CodecError::TooLarge { .. })
            );
            prop_assert!(fits, "{}: {:?}", label, result);
            if other < data.len() {
                let result = codec.decode(context, &encoded, other, &mut Vec::new());
                let fits = matches!(result, Err(CodecError::TooLarge { limit, .. }) if limit == other);
                prop_assert!(fits, "{}: {:?}", label, result);
            }
        }
    }

    #[test]
    fn elements_are_not_made_of_noise(noise in vec(any::<u8>(), 0..200)) {
        let context = &mut Context::new();
        for (name, configuration, data_type) in [
            ("vlen-utf8", json!({}), "string"),
            ("vlen-bytes", json!({}), "bytes"),
            ("packbits", json!({"padding_encoding": "first_byte"}), "bool"),
            ("packbits", json!({"padding_encoding": "last_byte"}), "int4"),
            ("bytes", json!({"endian": "big"}), "int4"),
        ] {
            let codec = array_to_bytes(name, configuration);
            let spec = chunk(data_type, &[9]);
            if let Ok(elements) = codec.decode(context, &spec, &noise) {
                // Whatever was accepted can be written again.
                codec.encode(context, &spec, elements.as_ref(), &mut Vec::new()).unwrap();
            }
        }
    }
}

#[test]
fn a_bomb_stops_at_its_limit() {
    let context = &mut Context::new();
    let zeros = vec![0; 4 << 20];
    for (label, codec) in all_bytes_to_bytes() {
        if label.contains("crc") || label.contains("32") || label.contains("shuffle {") {
            continue;
        }
        let mut bomb = Vec::new();
        codec.encode(context, &zeros, &mut bomb).unwrap();
        let mut out = Vec::new();
        let result = codec.decode(context, &bomb, 1000, &mut out);
        assert!(
            matches!(result, Err(CodecError::TooLarge { limit: 1000, .. })),
            "{label}: {result:?}"
        );
        assert!(out.capacity() <= 1 << 20, "{label} took {} bytes", out.capacity());
    }
}

#[test]
fn a_header_that_lies_takes_no_memory() {
    let context = &mut Context::new();
    // zstd frames that claim 2^40 and 2^62 bytes, and hold none.
    for size in [1u64 << 40, 1 << 62] {
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x50];
        frame.extend(size.to_le_bytes());
        frame.extend([1, 0, 0]);
        let zstd = bytes_to_bytes("zstd", json!({"level": 0}));
        let mut out = Vec::new();
        assert!(zstd.decode(context, &frame, usize::MAX, &mut out).is_err());
        assert!(out.capacity() <= 4 << 20, "{}", out.capacity());
    }
    // A blosc header with lz4 that claims 2 GB in one block.
    let mut frame = vec![2, 1, 0x20, 1];
    frame.extend([0x7000_0000u32, 0x1000_0000, 40].map(u32::to_le_bytes).concat());
    frame.resize(40, 20);
    let blosc = bytes_to_bytes("numcodecs.blosc", json!({}));
    let mut out = Vec::new();
    assert!(blosc.decode(context, &frame, usize::MAX, &mut out).is_err());
    assert_eq!(out.capacity(), 0);

    let lz4 = bytes_to_bytes("lz4", json!({}));
    let mut out = Vec::new();
    assert!(lz4.decode(context, &[0, 0, 0, 0x70, 0], usize::MAX, &mut out).is_err());
    assert_eq!(out.capacity(), 0);
}

#[test]
fn every_lie_in_a_blosc_header_is_named() {
    let context = &mut Context::new();
    let codec = bytes_to_bytes(
        "blosc",
        json!({"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}),
    );
    let data: Vec<u8> = (0..2000u32).map(|i| (i / 7) as u8).collect();
    let mut good = Vec::new();
    codec.encode(context, &data, &mut good).unwrap();
    let mut lie = |at: usize, value: u32| {
        let mut bad = good.clone();
        bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
        codec.decode(context, &bad, 10_000, &mut Vec::new()).unwrap_err().to_string()
    };
    assert!(lie(0, 0).contains("format version 0"), "{}", lie(0, 0));
    assert!(lie(4, 20_000).contains("more than the limit of 10000 bytes"), "{}", lie(4, 20_000));
    assert!(lie(4, u32::MAX).contains("4294967295 decoded bytes"), "{}", lie(4, u32::MAX));
    assert!(lie(8, 0).contains("blocks of 0"), "{}", lie(8, 0));
    assert!(lie(8, 2001).contains("blocks of 2001"), "{}", lie(8, 2001));
    assert!(lie(12, 5).contains("5 encoded bytes"), "{}", lie(12, 5));
    let mut snappy = good.clone();
    snappy[2] = snappy[2] & 0x1f | 2 << 5;
    let refused = codec.decode(context, &snappy, 10_000, &mut Vec::new()).unwrap_err();
    assert!(matches!(refused, CodecError::Corrupt { .. }), "{refused}");
    let short = codec.decode(context, &good[..15], 10_000, &mut Vec::new()).unwrap_err();
    assert!(short.to_string().contains("the header alone has 16 bytes"), "{short}");
}
