use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use shardine_codec::CodecError;

use super::{decode, encode, file, golden};
use crate::support::{array_to_bytes, chunk, codec};

const JPEG: &str = "neuroglancer_jpeg";
const PNG: &str = "neuroglancer_png";

/// The largest difference between elements.
fn distance(a: &[u8], b: &[u8]) -> u8 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or_default()
}

#[test]
fn jpegs_of_other_writers_are_read() {
    let count = golden(JPEG, |case, spec, elements| {
        let configuration = json!({"quality": 95});
        let encoded = encode(JPEG, configuration.clone(), spec, elements).unwrap();
        let decoded = decode(JPEG, configuration, spec, &encoded).unwrap();
        let away = decoded.iter().zip(elements).map(|(a, b)| f64::from(a.abs_diff(*b)));
        let mean = away.sum::<f64>() / elements.len() as f64;
        assert!(mean <= 2.0, "{}: {mean} away", case["name"]);
    });
    assert_eq!(count, 10);
}

#[test]
fn pngs_of_other_writers_are_read() {
    let count = golden(PNG, |case, spec, elements| {
        for level in [json!({}), json!({"level": 0}), json!({"level": 1}), json!({"level": 9})] {
            let encoded = encode(PNG, level.clone(), spec, elements).unwrap();
            let decoded = decode(PNG, level, spec, &encoded).unwrap();
            assert!(decoded == elements, "{}", case["name"]);
        }
    });
    assert_eq!(count, 13);
}

#[test]
fn the_lowest_quality_is_taken_too() {
    let spec = chunk("uint8", &[1, 2, 8, 8]);
    for quality in [0, 1, 100] {
        let encoded = encode(JPEG, json!({"quality": quality}), &spec, &[100; 128]).unwrap();
        let decoded = decode(JPEG, json!({}), &spec, &encoded).unwrap();
        assert!(distance(&decoded, &[100; 128]) <= 8);
    }
}

#[test]
fn an_image_of_another_size_is_named_before_it_is_decoded() {
    for (name, file, wrong) in [
        (JPEG, file("jpeg_pil_1_240.chunk"), "an image of 240 by 4, 959 pixels expected"),
        (PNG, file("png_pil_1.chunk"), "an image of 56 by 3, 959 pixels expected"),
    ] {
        let error = decode(name, json!({}), &chunk("uint8", &[1, 1, 1, 959]), &file).unwrap_err();
        assert!(error.to_string().contains(wrong), "{error}");
    }
    // An image that claims to be 65535 by 65535 takes no memory.
    let mut bomb = file("jpeg_pil_1_240.chunk");
    let frame = bomb.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    bomb[frame + 5..frame + 9].fill(0xff);
    let error = decode(JPEG, json!({}), &chunk("uint8", &[1, 4, 12, 20]), &bomb).unwrap_err();
    assert!(error.to_string().contains("an image of 65535 by 65535"), "{error}");
}

#[test]
fn channels_and_depths_are_not_guessed() {
    for (name, file, data_type, channels) in [
        (JPEG, "jpeg_pil_1_240.chunk", "uint8", 3),
        (JPEG, "jpeg_pil_3_240.chunk", "uint8", 1),
        (PNG, "png_pil_1.chunk", "uint8", 2),
        (PNG, "png_pil_4.chunk", "uint8", 3),
        (PNG, "png_pil_1.chunk", "uint16", 1),
        (PNG, "png_deep_1.chunk", "uint8", 1),
    ] {
        let pixels = match (name, file) {
            (JPEG, _) => 960,
            (_, "png_deep_1.chunk") => 60,
            _ => 168,
        };
        let spec = chunk(data_type, &[channels, 1, 1, pixels]);
        let error = decode(name, json!({}), &spec, &super::file(file)).unwrap_err();
        assert!(matches!(error, CodecError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("expected"), "{error}");
    }
}

#[test]
fn images_that_cannot_be_are_refused() {
    let spec = chunk("uint8", &[1, 256, 256, 1]);
    let error = encode(JPEG, json!({}), &spec, &[0; 1 << 16]).unwrap_err();
    assert!(error.to_string().contains("1 by 65536"), "{error}");
    assert!(error.to_string().contains("from 1 to 65535"), "{error}");
    for name in [JPEG, PNG] {
        assert!(encode(name, json!({}), &chunk("uint8", &[1, 0, 2, 2]), &[]).is_err());
    }
    for (name, data_type, channels) in [
        (JPEG, "uint8", 2),
        (JPEG, "uint8", 0),
        (JPEG, "uint16", 1),
        (PNG, "uint8", 5),
        (PNG, "uint32", 1),
        (PNG, "int8", 1),
    ] {
        let spec = chunk(data_type, &[channels, 2, 2, 2]);
        let error = array_to_bytes(name, json!({})).check(&spec).unwrap_err();
        assert!(matches!(error, CodecError::Unsupported { .. }), "{error:?}");
    }
    assert!(codec(JPEG, json!({"quality": 101})).is_err());
    assert!(codec(PNG, json!({"level": 10})).is_err());
}

#[test]
fn a_cut_is_an_error() {
    for (name, shape, files) in [
        (JPEG, [1, 4, 12, 20], ["jpeg_pil_1_20.chunk", "jpeg_progressive_1.chunk"]),
        (PNG, [1, 3, 7, 8], ["png_pil_1.chunk", "png_ts_1.chunk"]),
    ] {
        for file in files {
            let whole = super::file(file);
            let spec = chunk("uint8", &shape);
            decode(name, json!({}), &spec, &whole).unwrap();
            for len in [0, 1, 10, whole.len() / 2, whole.len() - 20] {
                let error = decode(name, json!({}), &spec, &whole[..len]);
                assert!(error.is_err(), "{file}, the first {len} of {} bytes", whole.len());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn pngs_come_back(
        (shape, elements) in (1u64..5, 1u64..6, 1u64..9, 1u64..9).prop_flat_map(|(c, z, y, x)| {
            (Just([c, z, y, x]), vec(any::<u8>(), (2 * c * z * y * x) as usize))
        }),
        deep in any::<bool>(),
        level in proptest::option::of(0u8..10),
    ) {
        let spec = chunk(if deep { "uint16" } else { "uint8" }, &shape);
        let elements = &elements[..spec.byte_len().unwrap()];
        let encoded = encode(PNG, json!({"level": level}), &spec, elements).unwrap();
        let decoded = decode(PNG, json!({}), &spec, &encoded).unwrap();
        prop_assert!(decoded == elements);
    }

    #[test]
    fn jpegs_come_back_nearly(
        (c, z, y, x) in (0u64..2, 1u64..6, 1u64..20, 1u64..20),
        low in 0u8..200,
        slope in 0u64..4,
    ) {
        let c = 1 + 2 * c;
        let spec = chunk("uint8", &[c, z, y, x]);
        let ramp = (0..c * z * y * x).map(|i| low + (i % x * slope / 2) as u8);
        let elements: Vec<u8> = ramp.collect();
        let encoded = encode(JPEG, json!({"quality": 100}), &spec, &elements).unwrap();
        let decoded = decode(JPEG, json!({}), &spec, &encoded).unwrap();
        prop_assert!(distance(&decoded, &elements) <= 4);
    }

    #[test]
    fn damage_is_an_error_or_other_pixels(
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        png in any::<bool>(),
    ) {
        let (name, shape, file) = if png {
            (PNG, [3, 3, 7, 8], super::file("png_pil_3.chunk"))
        } else {
            (JPEG, [3, 4, 12, 20], super::file("jpeg_pil_3_20.chunk"))
        };
        let mut encoded = file;
        for (at, byte) in damage {
            let at = at.index(encoded.len());
            encoded[at] = byte;
        }
        let spec = chunk("uint8", &shape);
        if let Ok(decoded) = decode(name, json!({}), &spec, &encoded) {
            prop_assert_eq!(Some(decoded.len()), spec.byte_len());
        }
    }
}

#[test]
fn jxl_is_not_written() {
    let spec = chunk("uint8", &[1, 2, 2, 2]);
    let error = encode("neuroglancer_jxl", json!({}), &spec, &[0; 8]).unwrap_err();
    assert!(error.to_string().contains("read, but not written"), "{error}");
}

#[cfg(not(feature = "jxl"))]
#[test]
fn jxl_says_what_is_missing() {
    let spec = chunk("uint8", &[1, 4, 12, 20]);
    let file = file("jxl_lossless_1.chunk");
    let error = decode("neuroglancer_jxl", json!({}), &spec, &file).unwrap_err();
    assert!(matches!(error, CodecError::Unsupported { .. }), "{error:?}");
}

#[cfg(feature = "jxl")]
#[test]
fn jxls_of_other_writers_are_read() {
    assert_eq!(golden("neuroglancer_jxl", |_, _, _| ()), 4);
    let whole = file("jxl_lossless_1.chunk");
    let read = |shape: &[u64], encoded: &[u8]| {
        decode("neuroglancer_jxl", json!({}), &chunk("uint8", shape), encoded)
    };
    let error = read(&[1, 4, 12, 21], &whole).unwrap_err();
    assert!(error.to_string().contains("an image of 20 by 48"), "{error}");
    assert!(read(&[3, 4, 12, 20], &whole).is_err());
    for len in [0, 1, 10, whole.len() / 2, whole.len() - 20] {
        assert!(read(&[1, 4, 12, 20], &whole[..len]).is_err(), "{len} bytes");
    }
}
