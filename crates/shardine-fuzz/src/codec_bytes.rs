//! `bytes -> bytes` codecs: hostile bytes to decode, arbitrary bytes to round-trip.
//!
//! Input: the choice of codec, a byte for the size limit, the payload.

use shardine_codec::{BytesToBytes, Codec, Context, EncodedSize};

use crate::codecs::{self, CONFIGURATIONS};
use crate::memory;

pub fn run(input: &[u8]) {
    let Some((Codec::BytesToBytes(codec), rest)) = codecs::choose(input) else { return };
    let Some((&limit, payload)) = rest.split_first() else { return };
    let limit = 1usize << (limit % 20);
    decode(&*codec, payload, limit);
    round_trip(&*codec, &payload[..payload.len().min(1 << 14)]);
}

/// Decoding returns at most `limit` bytes, or an error, and the same bytes both ways.
fn decode(codec: &dyn BytesToBytes, payload: &[u8], limit: usize) {
    let mut context = Context::new();
    let mut out = vec![0xab; 3];
    let result = memory::bounded(4 * limit + 8 * payload.len() + (1 << 22), || {
        codec.decode(&mut context, payload, limit, &mut out)
    });
    let Ok(()) = result else { return };
    assert_eq!(out[..3], [0xab; 3], "decode overwrote what was there");
    let decoded = &out[3..];
    assert!(decoded.len() <= limit, "{} bytes past a limit of {limit}", decoded.len());
    let mut exact = vec![0xcd; decoded.len()];
    assert_eq!(codec.decode_exact(&mut context, payload, &mut exact), Ok(()));
    assert!(exact == decoded, "decode and decode_exact differ");
    let mut longer = vec![0; decoded.len() + 1];
    assert!(
        codec.decode_exact(&mut context, payload, &mut longer).is_err(),
        "a short chunk passed"
    );
    if let Some(shorter) = decoded.len().checked_sub(1) {
        longer.truncate(shorter);
        assert!(
            codec.decode_exact(&mut context, payload, &mut longer).is_err(),
            "a long chunk passed"
        );
    }
    if let Some(framed) = codec.payload(payload) {
        assert_eq!(framed, Ok(decoded), "decode and payload differ");
    }
}

/// Encoded data decodes to the original, within the size that the codec promised.
fn round_trip(codec: &dyn BytesToBytes, data: &[u8]) {
    let mut context = Context::new();
    let mut encoded = Vec::new();
    // A codec may refuse data that it cannot hold, but may not lose it.
    let Ok(()) = codec.encode(&mut context, data, &mut encoded) else { return };
    let size = encoded.len() as u64;
    match codec.encoded_size(data.len() as u64) {
        EncodedSize::Exact(expected) => assert_eq!(size, expected, "not the promised size"),
        EncodedSize::AtMost(bound) => assert!(size <= bound, "{size} past the promised {bound}"),
        EncodedSize::Unbounded => {}
    }
    let mut decoded = Vec::new();
    assert_eq!(codec.decode(&mut context, &encoded, data.len(), &mut decoded), Ok(()));
    assert!(decoded == data, "the data changed");
}

pub fn seeds() -> Vec<Vec<u8>> {
    let samples: [Vec<u8>; 4] = [
        Vec::new(),
        vec![7; 300],
        (0..1000u32).flat_map(|i| (i / 3).to_le_bytes()).collect(),
        (0..500u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect(),
    ];
    let mut seeds = Vec::new();
    for (i, json) in CONFIGURATIONS.iter().enumerate() {
        let Some(Codec::BytesToBytes(codec)) = codecs::parse(json.as_bytes()) else { continue };
        for sample in &samples {
            let mut seed = vec![codecs::choice(i), 13];
            if codec.encode(&mut Context::new(), sample, &mut seed).is_ok() {
                seeds.push(seed);
            }
        }
    }
    seeds
}
