//! Blosc with snappy: frames that tensorstore wrote, all our own variants, and hostile ones.
//!
//! `tests/golden/codec/blosc_snappy/make.py` made the frames.

use std::path::PathBuf;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use shardine_codec::{BytesToBytes, CodecError, Context};

use crate::support::bytes_to_bytes;

fn golden(name: &str) -> Vec<u8> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/codec/blosc_snappy");
    std::fs::read(folder.join(name)).unwrap()
}

/// The twin of `elements` in `make.py`.
fn elements(pattern: &str, size: usize, type_size: usize) -> Vec<u8> {
    let ramp = |i: usize| match i % type_size {
        byte @ 0..2 => ((i / type_size / 301) >> (8 * byte)) as u8,
        byte => byte as u8,
    };
    let noise =
        |i: usize| ((i as u32 + 1).wrapping_mul(2_654_435_761).wrapping_mul(40_503) >> 24) as u8;
    (0..size)
        .map(|i| match pattern {
            "ramp" => ramp(i),
            "noise" => noise(i),
            _ if i < size / 3 => noise(i),
            _ => ramp(i),
        })
        .collect()
}

fn blosc(
    clevel: &Value,
    shuffle: &Value,
    typesize: &Value,
    blocksize: &Value,
) -> Arc<dyn BytesToBytes> {
    bytes_to_bytes(
        "blosc",
        json!({
            "cname": "snappy", "clevel": clevel, "shuffle": shuffle, "typesize": typesize,
            "blocksize": blocksize,
        }),
    )
}

/// Decodes both ways, which must agree.
fn decode(codec: &dyn BytesToBytes, frame: &[u8], size: usize) -> Result<Vec<u8>, CodecError> {
    let context = &mut Context::new();
    let (mut decoded, mut exact) = (vec![], vec![0; size]);
    let result = codec.decode(context, frame, size, &mut decoded);
    let exactly = codec.decode_exact(context, frame, &mut exact);
    match (&result, &exactly) {
        (Ok(()), Ok(())) => assert!(decoded == exact),
        // The exact way also refuses what is shorter.
        (Ok(()), Err(_)) => assert_ne!(decoded.len(), size),
        (Err(_), _) => assert!(exactly.is_err() && decoded.is_empty()),
    }
    exactly.and(result).map(|()| exact)
}

#[test]
fn frames_of_tensorstore_are_read_and_laid_out_alike() {
    let (cases, frames) = (golden("cases.json"), golden("frames.bin"));
    let cases: Vec<Value> = serde_json::from_slice(&cases).unwrap();
    let context = &mut Context::new();
    for case in &cases {
        let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
        let (start, len) = (number(&case["frame"][0]), number(&case["frame"][1]));
        let frame = &frames[start..start + len];
        let (size, pattern) = (number(&case["size"]), case["pattern"].as_str().unwrap());
        let data = elements(pattern, size, number(&case["typesize"]));
        let codec = blosc(&case["clevel"], &case["shuffle"], &case["typesize"], &case["blocksize"]);
        assert!(decode(&*codec, frame, size).unwrap() == data, "{case}");

        let mut ours = vec![];
        codec.encode(context, &data, &mut ours).unwrap();
        assert!(ours.len() <= frame.len(), "{case} takes {} bytes here", ours.len());
        assert!(decode(&*codec, &ours, size).unwrap() == data, "{case}");
        // Versions, flags but for "copied", sizes of elements, data and blocks.
        let layout = |frame: &[u8]| {
            let mut header: [u8; 12] = *frame.first_chunk().unwrap();
            header[2] &= !2;
            header
        };
        assert_eq!(layout(&ours), layout(frame), "{case}");
    }
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    let size = prop_oneof![0usize..600, 0usize..40_000, 60_000usize..200_000];
    (size, select(&["ramp", "noise", "both"][..]), select(&[1, 2, 4, 8, 17][..]))
        .prop_map(|(size, pattern, type_size)| elements(pattern, size, type_size))
}

fn codec() -> impl Strategy<Value = Arc<dyn BytesToBytes>> {
    let shuffle = select(&["noshuffle", "shuffle", "bitshuffle"][..]);
    let type_size = prop_oneof![1..20, select(&[32, 255, 256, 1000][..])];
    let block_size = prop_oneof![Just(0), 1..3000, 3000..i32::MAX];
    (0..10, shuffle, type_size, block_size).prop_map(|(level, shuffle, type_size, block_size)| {
        blosc(&json!(level), &json!(shuffle), &json!(type_size), &json!(block_size))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn bytes_come_back_whatever_the_configuration(codec in codec(), data in data()) {
        let mut frame = vec![];
        codec.encode(&mut Context::new(), &data, &mut frame).unwrap();
        prop_assert!(frame.len() <= data.len() + 16);
        prop_assert_eq!(u32::from_le_bytes(*frame[12..].first_chunk().unwrap()) as usize, frame.len());
        prop_assert!(decode(&*codec, &frame, data.len()).unwrap() == data);
    }

    #[test]
    fn damage_is_an_error_or_other_data_of_the_same_length(
        codec in codec(),
        data in data(),
        // Most of the numbers that matter come early.
        places in vec((prop_oneof![0usize..64, any::<usize>()], any::<u8>()), 1..4),
        cut in proptest::option::of(any::<Index>()),
    ) {
        let mut frame = vec![];
        codec.encode(&mut Context::new(), &data, &mut frame).unwrap();
        if let Some(cut) = cut {
            frame.truncate(16.max(cut.index(frame.len())));
            let len = frame.len() as u32;
            frame[12..16].copy_from_slice(&len.to_le_bytes());
        }
        for (place, byte) in places {
            // Not the total length: it is checked first, and hides what comes after.
            let place = place % frame.len();
            if !(12..16).contains(&place) {
                frame[place] = byte;
            }
        }
        let _ = decode(&*codec, &frame, data.len());
    }

    #[test]
    fn a_frame_of_any_numbers_is_an_error_or_data(
        flags in select(&[0x40u8, 0x41, 0x44, 0x45, 0x50, 0x51, 0x54][..]),
        type_size in 0u8..20,
        size in 0u32..3000,
        block in 0u32..3000,
        words in vec(prop_oneof![0u32..100, any::<u32>()], 0..200),
    ) {
        let mut frame = vec![2, 1, flags, type_size];
        let len = 16 + 4 * words.len() as u32;
        for word in [size, block, len].into_iter().chain(words) {
            frame.extend(word.to_le_bytes());
        }
        let codec = blosc(&json!(5), &json!("noshuffle"), &json!(1), &json!(0));
        let _ = decode(&*codec, &frame, size as usize);
    }
}

/// A frame of two blocks of 300 bytes in elements of 2: the first two streams, the second one.
fn two_blocks() -> Vec<u8> {
    let words = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
    let mut frame = [vec![2, 1, 0x40, 2], words(&[400, 300, 0, 24, 0])].concat();
    // 150 bytes of 7: their number, one literal, two copies of 64 and one of 21 from 1 back.
    let sevens = [&[0x96, 1, 0, 7][..], &[0xfe, 1, 0, 0xfe, 1, 0, 0x52, 1, 0]].concat();
    for _ in 0..2 {
        frame.extend(words(&[13]));
        frame.extend(&sevens);
    }
    let second = frame.len() as u32;
    frame[20..24].copy_from_slice(&second.to_le_bytes());
    // 100 bytes uncompressed.
    frame.extend(words(&[100]));
    frame.extend([9; 100]);
    let len = frame.len() as u32;
    frame[12..16].copy_from_slice(&len.to_le_bytes());
    frame
}

#[test]
fn every_lie_in_a_snappy_frame_is_named() {
    let codec = blosc(&json!(5), &json!("shuffle"), &json!(2), &json!(0));
    let good = two_blocks();
    let expected = [vec![7; 300], vec![9; 100]].concat();
    assert!(decode(&*codec, &good, 400).unwrap() == expected);
    for flag in [1, 4] {
        // All bytes of a block are the same, so they are also the same shuffled.
        let mut shuffled = good.clone();
        shuffled[2] |= flag;
        assert!(decode(&*codec, &shuffled, 400).unwrap() == expected);
    }
    for (place, value, reason) in [
        (0, 0x0240_0202, "version 2 of snappy"),
        (0, 0x0248_0102, "flags 0x48"),
        (0, 0x0040_0102, "elements of 0 bytes"),
        (0, 0x0340_0102, "block 0 at 24"),
        (4, 600, "decoded to 600 bytes, but 400 were expected"),
        (8, 299, "299"),
        (8, 1, "no room for the starts of 400 blocks"),
        (16, 23, "block 0 starts at 23"),
        (16, 1000, "block 0 starts at 1000"),
        (20, u32::MAX, "block 1 starts at 4294967295"),
        (24, 1000, "a stream of 1000 bytes in 134"),
        (24, 12, "block 0 at 24"),
        (24, 0, "block 0 at 24"),
        (28, 0x0700_0195, "block 0 at 24"),
        (28, 0x0700_0197, "block 0 at 24"),
        (28, 0xffff_ffff, "block 0 at 24"),
        (58, 101, "block 1 at 58: a stream of 101 bytes in 100"),
    ] {
        let mut bad = good.clone();
        bad[place..place + 4].copy_from_slice(&u32::to_le_bytes(value));
        let error = decode(&*codec, &bad, 400).unwrap_err().to_string();
        assert!(error.contains(reason), "{place} {value:#x}: {error}");
    }
}

#[test]
fn a_snappy_header_that_lies_takes_no_memory() {
    let codec = blosc(&json!(5), &json!("shuffle"), &json!(2), &json!(0));
    let mut frame = two_blocks();
    frame[4..8].copy_from_slice(&(1u32 << 30).to_le_bytes());
    let mut out = vec![];
    let error = codec.decode(&mut Context::new(), &frame, usize::MAX, &mut out).unwrap_err();
    assert!(error.to_string().contains("1073741824 decoded bytes"), "{error}");
    assert_eq!(out.capacity(), 0);
}

#[test]
fn blocks_may_come_in_any_order() {
    // c-blosc with several threads writes them as they are ready.
    let codec = blosc(&json!(5), &json!("noshuffle"), &json!(2), &json!(0));
    let good = two_blocks();
    let (head, blocks) = good.split_at(24);
    let (first, second) = blocks.split_at(34);
    let mut frame = [head, second, first].concat();
    frame[16..20].copy_from_slice(&(24 + second.len() as u32).to_le_bytes());
    frame[20..24].copy_from_slice(&24u32.to_le_bytes());
    assert_eq!(decode(&*codec, &frame, 400), decode(&*codec, &good, 400));
}
