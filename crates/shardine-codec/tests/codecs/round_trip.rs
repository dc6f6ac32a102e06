use proptest::collection::vec;
use proptest::prelude::*;
use shardine_codec::{Context, EncodedSize};

use crate::support::all_bytes_to_bytes;

/// Bytes typical of chunks: noise, runs, or slow ramps of two-byte elements.
pub fn data() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..3000),
        (any::<u8>(), 0usize..30_000).prop_map(|(byte, len)| vec![byte; len]),
        (any::<u16>(), 0u16..5000).prop_map(|(start, len)| {
            (0..len).flat_map(|i| start.wrapping_add(i / 3).to_le_bytes()).collect()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn bytes_come_back_as_they_were(data in data(), before in vec(any::<u8>(), 0..5)) {
        let context = &mut Context::new();
        for (label, codec) in all_bytes_to_bytes() {
            if data.len() % 4 != 0 && label.contains("shuffle {") {
                continue;
            }
            let mut encoded = before.clone();
            codec.encode(context, &data, &mut encoded).unwrap();
            prop_assert_eq!(&encoded[..before.len()], &before[..], "{} overwrote", label);
            let encoded = &encoded[before.len()..];

            match codec.encoded_size(data.len() as u64) {
                EncodedSize::Exact(size) => prop_assert_eq!(size, encoded.len() as u64),
                EncodedSize::AtMost(size) => prop_assert!(size >= encoded.len() as u64, "{}", label),
                EncodedSize::Unbounded => {}
            }

            let mut decoded = before.clone();
            codec.decode(context, encoded, data.len(), &mut decoded).unwrap();
            prop_assert_eq!(&decoded[..before.len()], &before[..], "{} overwrote", label);
            prop_assert!(decoded[before.len()..] == data, "{} decodes to something else", label);

            let mut exact = vec![0; data.len()];
            codec.decode_exact(context, encoded, &mut exact).unwrap();
            prop_assert!(exact == data, "{} decodes exactly to something else", label);

            if let Some(payload) = codec.payload(encoded) {
                prop_assert_eq!(payload.unwrap(), &data[..]);
            }
        }
    }
}
