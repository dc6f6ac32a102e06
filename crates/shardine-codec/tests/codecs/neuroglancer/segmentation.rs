use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use shardine_codec::{CodecError, Context, ElementsRef, EncodedSize};

use super::{bytes, decode, encode, golden};
use crate::support::{array_to_bytes, chunk, codec};

const NAME: &str = "neuroglancer_compressed_segmentation";

fn blocks(x: usize, y: usize, z: usize) -> Value {
    json!({ "block_size": [x, y, z] })
}

/// A chunk of words.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn chunks_of_other_writers_are_read() {
    let count = golden(NAME, |case, spec, elements| {
        let configuration = &case["configuration"];
        let encoded = encode(NAME, configuration.clone(), spec, elements).unwrap();
        assert_eq!(decode(NAME, configuration.clone(), spec, &encoded).unwrap(), elements);
        // As small as theirs: tables are shared, and indices have no extra bits.
        let theirs = super::file(&format!("{}.chunk", case["name"].as_str().unwrap()));
        assert!(encoded.len() <= theirs.len(), "{}: {}", case["name"], encoded.len());
    });
    assert_eq!(count, 13);
}

#[test]
fn a_block_of_one_label_has_no_values() {
    let spec = chunk("uint64", &[1, 2, 2, 2]);
    let encoded = encode(NAME, blocks(8, 8, 8), &spec, &bytes("uint64", &[5 << 40; 8])).unwrap();
    assert_eq!(encoded, words(&[1, 2, 4, 0, 5 << 8]));
}

#[test]
fn blocks_with_the_same_labels_share_a_table() {
    let spec = chunk("uint32", &[1, 1, 1, 4]);
    let encoded = encode(NAME, blocks(2, 1, 1), &spec, &bytes("uint32", &[7, 3, 3, 7])).unwrap();
    assert_eq!(encoded, words(&[1, 4 | 1 << 24, 6, 4 | 1 << 24, 7, 3, 7, 0b01, 0b10]));
    // A table that shares only some labels with another is stored separately.
    let encoded = encode(NAME, blocks(2, 1, 1), &spec, &bytes("uint32", &[7, 3, 7, 9])).unwrap();
    assert_eq!(encoded.len(), words(&[0; 11]).len());
}

#[test]
fn tables_may_lie_anywhere() {
    let spec = chunk("uint32", &[1, 1, 1, 4]);
    // After the values, and that of the second block in the middle of the first one's.
    let chunk = words(&[1, 5 | 1 << 24, 4, 6, 0, 0b10, 10, 20]);
    let decoded = decode(NAME, blocks(2, 1, 1), &spec, &chunk).unwrap();
    assert_eq!(decoded, bytes("uint32", &[10, 20, 20, 20]));
}

#[test]
fn every_width_of_index_is_read() {
    let spec = chunk("uint32", &[1, 1, 1, 3]);
    for (bits, values) in [
        (1, vec![0b101]),
        (2, vec![0b01_00_01]),
        (4, vec![0x101]),
        (8, vec![0x01_00_01]),
        (16, vec![1, 1]),
        (32, vec![1, 0, 1]),
    ] {
        let table = 3 + values.len() as u32;
        let head = [1, (table - 1) | (bits << 24), 2];
        let chunk = words(&[&head[..], &values, &[10, 20]].concat());
        let decoded = decode(NAME, blocks(3, 1, 1), &spec, &chunk).unwrap();
        assert_eq!(decoded, bytes("uint32", &[20, 10, 20]), "{bits} bits");
    }
    for bits in [3, 5, 6, 7, 9, 24, 31, 33, 64, 255] {
        let chunk = words(&[1, 2 | bits << 24, 2, 0, 10, 20]);
        let error = decode(NAME, blocks(3, 1, 1), &spec, &chunk).unwrap_err().to_string();
        assert!(error.contains(&format!("{bits} bits")), "{error}");
    }
}

#[test]
fn offsets_past_the_end_are_named() {
    let spec = chunk("uint32", &[1, 1, 1, 3]);
    let good = [1, 3 | 1 << 24, 2, 0b101, 10, 20];
    let with = |at: usize, word: u32| {
        let mut words = good;
        words[at] = word;
        words
    };
    let read = |chunk: &[u32]| decode(NAME, blocks(3, 1, 1), &spec, &words(chunk));
    assert_eq!(read(&good).unwrap(), bytes("uint32", &[20, 10, 20]));
    for (bad, reason) in [
        (with(0, 7), "channel 0 begins past the end"),
        (with(0, u32::MAX), "channel 0 begins past the end"),
        (with(0, 5), "header is cut short"),
        (with(1, 4 | 1 << 24), "label"),
        (with(1, 5), "label"),
        (with(1, 0xff_ffff | 1 << 24), "label"),
        (with(2, 5), "values"),
        (with(2, u32::MAX), "values"),
    ] {
        let error = read(&bad).unwrap_err();
        assert!(matches!(error, CodecError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert!(read(&good[..2]).unwrap_err().to_string().contains("headers of 1 blocks"));
    assert!(read(&[]).is_err());
}

#[test]
fn a_shape_that_the_bytes_cannot_have_takes_no_memory() {
    let spec = chunk("uint32", &[1, 1 << 12, 1 << 12, 1 << 12]);
    let error = decode(NAME, blocks(1, 1, 1), &spec, &words(&[1, 0, 0, 0])).unwrap_err();
    assert!(error.to_string().contains("headers"), "{error}");
    let spec = chunk("uint32", &[1 << 40, 1, 1, 1]);
    assert!(decode(NAME, blocks(1, 1, 1), &spec, &words(&[1, 0, 0, 0])).is_err());
}

#[test]
fn labels_past_the_24_bits_of_an_offset_are_refused() {
    // 9 blocks of 2^20 distinct labels are 18 * 2^20 words of tables.
    let spec = chunk("uint64", &[1, 9, 1 << 10, 1 << 10]);
    let labels: Vec<u64> = (0..9 << 20).collect();
    let error = encode(NAME, blocks(1 << 10, 1 << 10, 1), &spec, &bytes("uint64", &labels));
    let error = error.unwrap_err();
    assert!(matches!(error, CodecError::Encode { .. }), "{error:?}");
    assert!(error.to_string().contains("24 bits"), "{error}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let configured = array_to_bytes(NAME, blocks(8, 8, 8));
    for (data_type, shape) in [
        ("uint16", vec![1, 2, 2, 2]),
        ("int32", vec![1, 2, 2, 2]),
        ("float64", vec![1, 2, 2, 2]),
        ("uint32", vec![2, 2, 2]),
        ("uint32", vec![1, 1, 2, 2, 2]),
        ("uint32", vec![u64::MAX, 2, 2, 2]),
    ] {
        let error = configured.check(&chunk(data_type, &shape)).unwrap_err();
        assert!(matches!(error, CodecError::Unsupported { .. }), "{error:?}");
    }
    for wrong in [json!([8, 8]), json!([8, 8, 0]), json!([8, 8, -1]), json!(8), json!([8, 8, 1e9])]
    {
        let error = codec(NAME, json!({ "block_size": wrong })).unwrap_err().to_string();
        assert!(error.contains("\"block_size\" must be three integers"), "{error}");
    }
    let spec = chunk("uint32", &[1, 1, 1, 2]);
    let error = encode(NAME, blocks(1 << 20, 1 << 20, 1), &spec, &[0; 8]).unwrap_err();
    assert!(error.to_string().contains("more than"), "{error}");
    assert!(encode(NAME, blocks(8, 8, 8), &spec, &[0; 7]).is_err());
}

#[test]
fn chunks_without_elements_are_headers() {
    for (shape, expected) in
        [([0, 2, 2, 2], vec![]), ([2, 0, 2, 2], vec![2, 2]), ([1, 2, 2, 0], vec![1])]
    {
        let spec = chunk("uint32", &shape);
        let encoded = encode(NAME, blocks(8, 8, 8), &spec, &[]).unwrap();
        assert_eq!(encoded, words(&expected));
        assert!(decode(NAME, blocks(8, 8, 8), &spec, &encoded).unwrap().is_empty());
    }
}

/// Labels in runs, of as many kinds as there are in `kinds`.
fn labels(count: usize) -> impl Strategy<Value = Vec<u64>> {
    let run = (1usize..40, any::<Index>());
    (vec(any::<u64>(), 1..400), 1usize..400, vec(run, 1..200)).prop_map(
        move |(kinds, most, runs)| {
            let kinds = &kinds[..most.min(kinds.len())];
            let runs = runs.iter().cycle();
            runs.flat_map(|(n, kind)| vec![kinds[kind.index(kinds.len())]; *n])
                .take(count)
                .collect()
        },
    )
}

fn case() -> impl Strategy<Value = ([u64; 4], [usize; 3], Vec<u64>)> {
    let shape = (1u64..3, 1u64..12, 1u64..12, 1u64..20);
    (shape, [1usize..12, 1usize..12, 1usize..18]).prop_flat_map(|((c, z, y, x), block)| {
        (Just([c, z, y, x]), Just(block), labels((c * z * y * x) as usize))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn labels_come_back((shape, [x, y, z], labels) in case(), wide in any::<bool>()) {
        let data_type = if wide { "uint64" } else { "uint32" };
        let (spec, elements) = (chunk(data_type, &shape), bytes(data_type, &labels));
        let encoded = encode(NAME, blocks(x, y, z), &spec, &elements).unwrap();
        let EncodedSize::AtMost(most) = array_to_bytes(NAME, blocks(x, y, z)).encoded_size(&spec)
        else { panic!("no bound") };
        prop_assert!(encoded.len() as u64 <= most);
        prop_assert!(decode(NAME, blocks(x, y, z), &spec, &encoded).unwrap() == elements);
    }

    #[test]
    fn damage_is_an_error_or_other_labels(
        (shape, [x, y, z], labels) in case(),
        damage in vec((any::<Index>(), any::<u8>()), 1..8),
        cut in any::<Index>(),
    ) {
        let (spec, context) = (chunk("uint64", &shape), &mut Context::new());
        let codec = array_to_bytes(NAME, blocks(x, y, z));
        let (mut encoded, elements) = (Vec::new(), bytes("uint64", &labels));
        codec.encode(context, &spec, ElementsRef::Fixed(&elements), &mut encoded).unwrap();
        prop_assert!(codec.decode(context, &spec, &encoded[..cut.index(encoded.len())]).is_err()
            || cut.index(encoded.len()) + 4 * x * y * z >= encoded.len());
        for (at, byte) in damage {
            let at = at.index(encoded.len());
            encoded[at] = byte;
        }
        if let Ok(decoded) = codec.decode(context, &spec, &encoded) {
            prop_assert_eq!(decoded.into_fixed().unwrap().len(), elements.len());
        }
    }
}
