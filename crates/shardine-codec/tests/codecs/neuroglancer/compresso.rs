use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;
use shardine_codec::CodecError;

use super::{decode, encode, file, golden};
use crate::support::{array_to_bytes, chunk};

const NAME: &str = "neuroglancer_compresso";
const CELLS: &str = "compresso_cells_uint64_4_4_1.chunk";

#[test]
fn chunks_of_the_only_writer_are_read() {
    assert_eq!(golden(NAME, |_, _, _| ()), 48);
}

#[test]
fn it_is_not_written() {
    let error = encode(NAME, json!({}), &chunk("uint64", &[1, 1, 1, 1]), &[0; 8]).unwrap_err();
    assert!(error.to_string().contains("read, but not written"), "{error}");
}

#[test]
fn what_the_header_says_is_checked() {
    let spec = chunk("uint64", &[1, 4, 9, 13]);
    let good = file(CELLS);
    decode(NAME, json!({}), &spec, &good).unwrap();
    for (at, bytes, reason) in [
        (0, &b"x"[..], "does not begin with"),
        (4, &[2], "format version 2"),
        (5, &[4], "labels of 4 bytes, 8 expected"),
        (6, &[14], "a volume of [14, 9, 4], [13, 9, 4] expected"),
        (11, &[1], "a volume of"),
        (12, &[0], "windows of [0, 4, 1]"),
        (14, &[200], "windows of [4, 4, 200]"),
        (15, &[0xff; 8], "more than there are bytes for"),
        (23, &[0xff; 4], "more than there are bytes for"),
        (27, &[0, 0, 0, 0, 0, 0, 0, 0x20], "more than there are bytes for"),
        (35, &[8], "connectivity 8"),
    ] {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        let error = decode(NAME, json!({}), &spec, &bad).unwrap_err();
        assert!(matches!(error, CodecError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    for len in 0..good.len() / 2 {
        assert!(decode(NAME, json!({}), &spec, &good[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn only_unsigned_labels_of_one_channel_fit() {
    for (data_type, channels) in [("int32", 1), ("float32", 1), ("uint32", 2), ("uint32", 0)] {
        let spec = chunk(data_type, &[channels, 2, 2, 2]);
        let error = array_to_bytes(NAME, json!({})).check(&spec).unwrap_err();
        assert!(matches!(error, CodecError::Unsupported { .. }), "{error:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn damage_is_an_error_or_other_labels(
        damage in vec((any::<Index>(), any::<u8>()), 1..8),
        solid in any::<bool>(),
    ) {
        let name = if solid { "compresso_cells_uint64_4_6_0.chunk" } else { CELLS };
        let mut encoded = file(name);
        for (at, byte) in damage {
            let at = at.index(encoded.len());
            encoded[at] = byte;
        }
        let spec = chunk("uint64", &[1, 4, 9, 13]);
        if let Ok(decoded) = decode(NAME, json!({}), &spec, &encoded) {
            prop_assert_eq!(Some(decoded.len()), spec.byte_len());
        }
    }
}
