//! What a compressor's format allows beyond one plain stream.

use serde_json::json;
use shardine_codec::{BytesToBytes, Context};

use crate::support::bytes_to_bytes;

fn encode(codec: &dyn BytesToBytes, data: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    codec.encode(&mut Context::new(), data, &mut encoded).unwrap();
    encoded
}

#[track_caller]
fn decodes_to(codec: &dyn BytesToBytes, encoded: &[u8], data: &[u8]) {
    let context = &mut Context::new();
    let mut decoded = Vec::new();
    codec.decode(context, encoded, data.len(), &mut decoded).unwrap();
    assert_eq!(decoded, data);
    let mut exact = vec![0; data.len()];
    codec.decode_exact(context, encoded, &mut exact).unwrap();
    assert_eq!(exact, data);
}

#[track_caller]
fn is_refused(codec: &dyn BytesToBytes, encoded: &[u8]) {
    let context = &mut Context::new();
    assert!(codec.decode(context, encoded, 1 << 20, &mut Vec::new()).is_err());
    assert!(codec.decode_exact(context, encoded, &mut [0; 10]).is_err());
}

#[test]
fn zstd_takes_frames_in_a_row_and_skips_skippable_ones() {
    let zstd = bytes_to_bytes("zstd", json!({"level": 3}));
    let skippable = [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let (first, second) = (encode(&*zstd, b"hello "), encode(&*zstd, b"world"));
    decodes_to(&*zstd, &[&first[..], &second].concat(), b"hello world");
    decodes_to(&*zstd, &[&skippable[..], &first, &skippable, &second].concat(), b"hello world");
    decodes_to(&*zstd, &encode(&*zstd, b""), b"");
    is_refused(&*zstd, &[&first[..], b"x"].concat());
    is_refused(&*zstd, &first[..first.len() - 1]);
}

#[test]
fn zstd_takes_frames_that_do_not_say_their_size() {
    let zstd = bytes_to_bytes("zstd", json!({"level": 3}));
    // No content size, a window of 2^30 bytes, one raw block of 5 bytes.
    let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3, 0x29, 0, 0][..], b"hello"].concat();
    decodes_to(&*zstd, &frame, b"hello");
    // A run of 100,000 bytes, more than is guessed for 13 bytes of input.
    let run = |size: u32| ((size << 3) | 2).to_le_bytes()[..3].to_vec();
    let last = |size: u32| ((size << 3) | 3).to_le_bytes()[..3].to_vec();
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3];
    for _ in 0..40 {
        frame.extend([&run(100_000)[..], b"a"].concat());
    }
    frame.extend([&last(100_000)[..], b"b"].concat());
    let data = [vec![b'a'; 4_000_000], vec![b'b'; 100_000]].concat();
    decodes_to(&*zstd, &frame, &data);
}

#[test]
fn zstd_checks_its_checksum() {
    let zstd = bytes_to_bytes("zstd", json!({"level": 3, "checksum": true}));
    let plain = bytes_to_bytes("zstd", json!({"level": 3}));
    let mut encoded = encode(&*zstd, b"0123456789");
    assert_eq!(encoded.len(), encode(&*plain, b"0123456789").len() + 4);
    decodes_to(&*plain, &encoded, b"0123456789");
    *encoded.last_mut().unwrap() ^= 1;
    is_refused(&*plain, &encoded);
}

#[test]
fn gzip_takes_members_in_a_row_and_padding() {
    let gzip = bytes_to_bytes("gzip", json!({"level": 6}));
    let long = vec![7; 50_000];
    let (first, second) = (encode(&*gzip, &long), encode(&*gzip, b"world"));
    decodes_to(&*gzip, &[&first[..], &second].concat(), &[&long[..], b"world"].concat());
    decodes_to(&*gzip, &[&second[..], &[0; 9]].concat(), b"world");
    // The header fields that Python and gzip(1) write: a name, a comment, extra data.
    let flagged = [
        &[0x1f, 0x8b, 8, 0b1_1100, 0, 0, 0, 0, 0, 3, 2, 0, 9, 9][..],
        b"name\0comment\0",
        &second[10..],
    ]
    .concat();
    decodes_to(&*gzip, &flagged, b"world");
    is_refused(&*gzip, &[&second[..], b"trailing"].concat());
    is_refused(&*gzip, &[&second[..], &first[..20]].concat());
    is_refused(&*gzip, b"");
}

#[test]
fn zlib_ends_where_its_stream_ends() {
    let zlib = bytes_to_bytes("zlib", json!({}));
    let encoded = encode(&*zlib, b"hello");
    decodes_to(&*zlib, &encoded, b"hello");
    is_refused(&*zlib, &[&encoded[..], &[0]].concat());
}

#[test]
fn bz2_and_xz_take_streams_in_a_row() {
    for (name, configuration) in [("bz2", json!({"level": 3})), ("lzma", json!({"preset": 1}))] {
        let codec = bytes_to_bytes(name, configuration);
        let (first, second) = (encode(&*codec, b"hello "), encode(&*codec, b"world"));
        decodes_to(&*codec, &[&first[..], &second].concat(), b"hello world");
        is_refused(&*codec, &[&first[..], b"trailing"].concat());
        is_refused(&*codec, &first[..first.len() - 1]);
    }
}

#[test]
fn an_lzma_header_may_not_ask_for_all_memory() {
    let big = json!({"filters": [{"id": 33, "preset": 0, "dict_size": 128 << 20}]});
    let lzma = bytes_to_bytes("lzma", big);
    decodes_to(&*lzma, &encode(&*lzma, b"hello"), b"hello");
    // A header that asks for a dictionary of 4 GiB for its 5 bytes.
    let alone = bytes_to_bytes("lzma", json!({"format": 2}));
    let mut encoded = encode(&*alone, b"hello");
    encoded[1..5].copy_from_slice(&u32::MAX.to_le_bytes());
    is_refused(&*alone, &encoded);
}

#[test]
fn blosc_without_a_typesize_takes_that_of_the_data_type() {
    let codec = bytes_to_bytes("numcodecs.blosc", json!({"cname": "zstd", "shuffle": 1}));
    let aware = codec.with_element_size(8).unwrap();
    assert!(aware.with_element_size(4).is_none(), "it is known now");
    let data: Vec<u8> = (0..4000u64).flat_map(|i| (i * 1001).to_le_bytes()).collect();
    let (unaware, aware) = (encode(&*codec, &data), encode(&*aware, &data));
    assert_eq!((unaware[3], aware[3]), (1, 8));
    assert!(aware.len() < unaware.len());
    decodes_to(&*codec, &aware, &data);

    let given = bytes_to_bytes("numcodecs.blosc", json!({"typesize": 2}));
    assert!(given.with_element_size(4).is_none());
    let auto = bytes_to_bytes("numcodecs.blosc", json!({"shuffle": -1, "clevel": 1}));
    let flags = |codec: &dyn BytesToBytes| encode(codec, &data)[2] & 0b101;
    assert_eq!(flags(&*auto.with_element_size(1).unwrap()), 0b100, "bits");
    assert_eq!(flags(&*auto.with_element_size(8).unwrap()), 0b001, "bytes");
}

#[test]
fn shuffle_without_a_size_takes_that_of_the_data_type() {
    let codec = bytes_to_bytes("numcodecs.shuffle", json!({}));
    assert_eq!(encode(&*codec, b"abcdABCD"), b"aAbBcCdD");
    assert_eq!(encode(&*codec.with_element_size(2).unwrap(), b"abcdABCD"), b"acACbdBD");
    assert_eq!(encode(&*codec.with_element_size(1).unwrap(), b"abcdABCD"), b"abcdABCD");
    assert!(codec.encode(&mut Context::new(), b"abc", &mut Vec::new()).is_err());
}
