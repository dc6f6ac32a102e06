//! The codecs that operate on elements.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use shardine_codec::{
    ArraySpec, Context, Elements, ElementsRef, EncodedSize, Endian, VariableElements,
};

use crate::support::{array_to_array, array_to_bytes, chunk};

fn encode_fixed(name: &str, configuration: Value, spec: &ArraySpec, elements: &[u8]) -> Vec<u8> {
    let codec = array_to_bytes(name, configuration);
    codec.check(spec).unwrap();
    let mut out = Vec::new();
    codec.encode(&mut Context::new(), spec, ElementsRef::Fixed(elements), &mut out).unwrap();
    assert_eq!(codec.encoded_size(spec), EncodedSize::Exact(out.len() as u64));
    out
}

fn decode_fixed(name: &str, configuration: Value, spec: &ArraySpec, encoded: &[u8]) -> Vec<u8> {
    let codec = array_to_bytes(name, configuration);
    codec.decode(&mut Context::new(), spec, encoded).unwrap().into_fixed().unwrap()
}

fn round(name: &str, configuration: Value, spec: &ArraySpec, elements: &[u8]) -> Vec<u8> {
    let (codec, context) = (array_to_array(name, configuration), &mut Context::new());
    let encoded_spec = codec.encoded_spec(spec).unwrap();
    let (mut encoded, mut decoded) = (vec![1], vec![1]);
    codec.encode(context, spec, elements, &mut encoded).unwrap();
    assert_eq!(encoded_spec.byte_len(), Some(encoded.len()));
    codec.decode(context, spec, &encoded, &mut decoded).unwrap();
    decoded
}

#[test]
fn bytes_swaps_each_part_of_an_element() {
    let spec = chunk("uint32", &[2]);
    let big = json!({"endian": "big"});
    let elements = [1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(encode_fixed("bytes", big.clone(), &spec, &elements), [4, 3, 2, 1, 8, 7, 6, 5]);
    assert_eq!(encode_fixed("endian", big.clone(), &spec, &elements), [4, 3, 2, 1, 8, 7, 6, 5]);
    assert_eq!(encode_fixed("bytes", json!({}), &spec, &elements), elements);
    let spec = chunk("complex64", &[1]);
    assert_eq!(encode_fixed("bytes", big.clone(), &spec, &elements), [4, 3, 2, 1, 8, 7, 6, 5]);
    let spec = chunk("uint8", &[8]);
    assert_eq!(encode_fixed("bytes", big.clone(), &spec, &elements), elements);
    assert_eq!(array_to_bytes("bytes", big).plain(&spec), Some(Endian::Big));
}

#[test]
fn bytes_refuses_chunks_of_another_size() {
    let codec = array_to_bytes("bytes", json!({"endian": "little"}));
    let (spec, context) = (chunk("uint16", &[2, 2]), &mut Context::new());
    for len in [0, 7, 9, 16] {
        assert!(codec.decode(context, &spec, &vec![0; len]).is_err());
        let elements = vec![0; len];
        let fixed = ElementsRef::Fixed(&elements);
        assert!(codec.encode(context, &spec, fixed, &mut Vec::new()).is_err());
    }
    assert!(codec.check(&chunk("string", &[2])).is_err());
    assert!(codec.check(&chunk("uint16", &[u64::MAX, 2])).is_err());
}

#[test]
fn unused_bits_of_narrow_elements_are_ignored() {
    let read = |data_type: &str, byte: u8| {
        decode_fixed("bytes", json!({}), &chunk(data_type, &[1]), &[byte])[0]
    };
    assert_eq!(read("int4", 0x5f), 0xff);
    assert_eq!(read("int4", 0xf7), 0x07);
    assert_eq!(read("uint4", 0xf7), 0x07);
    assert_eq!(read("int2", 0x02), 0xfe);
    assert_eq!(read("uint2", 0xfe), 0x02);
    assert_eq!(read("float6_e2m3fn", 0xff), 0x3f);
    let codec = array_to_bytes("bytes", json!({}));
    assert_eq!(codec.plain(&chunk("int4", &[1])), None);
    assert_eq!(codec.plain(&chunk("bool", &[1])), Some(Endian::Little));
    assert_eq!(codec.plain(&chunk("int8", &[1])), Some(Endian::Little));
}

#[test]
fn transpose_moves_elements_as_its_order_says() {
    let spec = chunk("uint16", &[2, 3]);
    let elements = [0u16, 1, 2, 10, 11, 12].map(u16::to_le_bytes).concat();
    let (codec, context) =
        (array_to_array("transpose", json!({"order": [1, 0]})), &mut Context::new());
    assert_eq!(codec.permutation(), Some(&[1, 0][..]));
    assert_eq!(codec.encoded_spec(&spec).unwrap().shape, [3, 2]);
    let mut out = Vec::new();
    codec.encode(context, &spec, &elements, &mut out).unwrap();
    assert_eq!(out, [0u16, 10, 1, 11, 2, 12].map(u16::to_le_bytes).concat());
    assert!(codec.encoded_spec(&chunk("uint16", &[2, 3, 4])).is_err());

    // Early drafts named the order instead.
    let mut legacy = Vec::new();
    let codec = array_to_array("transpose", json!({"order": "F"}));
    codec.encode(context, &spec, &elements, &mut legacy).unwrap();
    assert_eq!(legacy, out);
    assert_eq!(round("transpose", json!({"order": "C"}), &spec, &elements), elements);
}

proptest! {
    #[test]
    fn transpose_comes_back(
        shape in vec(1u64..6, 0..5),
        keys in vec(any::<u8>(), 5),
        data_type in prop_oneof![Just("uint8"), Just("int16"), Just("complex128")],
    ) {
        let spec = chunk(data_type, &shape);
        let mut order: Vec<usize> = (0..shape.len()).collect();
        order.sort_by_key(|&axis| keys[axis]);
        let elements: Vec<u8> = (0..spec.byte_len().unwrap()).map(|i| (i % 251) as u8).collect();
        prop_assert_eq!(round("transpose", json!({"order": order}), &spec, &elements), &elements[..]);

        // Element by element, by the definition.
        let codec = array_to_array("transpose", json!({"order": order}));
        let encoded_spec = codec.encoded_spec(&spec).unwrap();
        let mut encoded = Vec::new();
        codec.encode(&mut Context::new(), &spec, &elements, &mut encoded).unwrap();
        let count = spec.elements().unwrap();
        let size = elements.len() / count;
        for to in 0..count {
            let (mut rest, mut position) = (to, vec![0; shape.len()]);
            for (axis, &len) in encoded_spec.shape.iter().enumerate().rev() {
                position[order[axis]] = rest % len as usize;
                rest /= len as usize;
            }
            let from = shape.iter().zip(&position).fold(0, |at, (&len, &i)| at * len as usize + i);
            prop_assert_eq!(
                &encoded[to * size..(to + 1) * size], &elements[from * size..(from + 1) * size]
            );
        }
    }

    #[test]
    fn packed_bits_come_back(
        values in vec(any::<u64>(), 0..50),
        padding in prop_oneof![Just("none"), Just("first_byte"), Just("last_byte")],
    ) {
        for (data_type, bytes, bits, signed) in [
            ("bool", 1, 1, false), ("uint2", 1, 2, false), ("int2", 1, 2, true),
            ("int4", 1, 4, true), ("uint4", 1, 4, false), ("float6_e3m2fn", 1, 6, false),
            ("int8", 1, 8, true), ("uint16", 2, 16, false), ("int32", 4, 32, true),
            ("float64", 8, 64, false),
        ] {
            let elements: Vec<u8> = values
                .iter()
                .flat_map(|&value| {
                    let shift = 64 - bits;
                    let value = if signed {
                        ((value << shift) as i64 >> shift) as u64
                    } else {
                        value << shift >> shift
                    };
                    value.to_le_bytes()[..bytes].to_vec()
                })
                .collect();
            let spec = chunk(data_type, &[values.len() as u64]);
            let configuration = json!({"padding_encoding": padding});
            let encoded = encode_fixed("packbits", configuration.clone(), &spec, &elements);
            let packed = (values.len() * bits).div_ceil(8);
            prop_assert_eq!(encoded.len(), packed + usize::from(padding != "none"));
            let decoded = decode_fixed("packbits", configuration, &spec, &encoded);
            prop_assert_eq!(decoded, elements, "{}", data_type);
        }
    }

    #[test]
    fn differences_of_integers_come_back(values in vec(any::<[u8; 8]>(), 0..40)) {
        for (data_type, size, astype) in [
            ("uint8", 1, "|u1"), ("int16", 2, "<i2"), ("uint32", 4, "<u4"), ("int64", 8, "<i8"),
            ("uint64", 8, "<i8"), ("uint8", 1, "<i4"), ("int16", 2, "<u2"),
        ] {
            let elements: Vec<u8> = values.iter().flat_map(|v| v[..size].to_vec()).collect();
            let spec = chunk(data_type, &[values.len() as u64]);
            let configuration = json!({"dtype": data_type, "astype": astype});
            prop_assert_eq!(round("delta", configuration, &spec, &elements), elements);
        }
    }

    #[test]
    fn text_comes_back(words in vec(".{0,20}", 0..20)) {
        let (spec, context) = (chunk("string", &[words.len() as u64]), &mut Context::new());
        let elements: VariableElements = words.iter().collect();
        let codec = array_to_bytes("vlen-utf8", json!({}));
        let mut encoded = Vec::new();
        codec.encode(context, &spec, ElementsRef::Variable(&elements), &mut encoded).unwrap();
        prop_assert_eq!(
            codec.decode(context, &spec, &encoded).unwrap(), Elements::Variable(elements)
        );
        for len in 0..encoded.len() {
            prop_assert!(codec.decode(context, &spec, &encoded[..len]).is_err());
        }
    }
}

#[test]
fn packbits_puts_the_first_element_lowest() {
    let none = json!({});
    let spec = chunk("bool", &[11]);
    let elements = [1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0];
    assert_eq!(encode_fixed("packbits", none.clone(), &spec, &elements), [1, 3]);
    let first = json!({"padding_encoding": "first_byte"});
    assert_eq!(encode_fixed("packbits", first.clone(), &spec, &elements), [5, 1, 3]);
    let last = json!({"padding_encoding": "last_byte", "first_bit": null});
    assert_eq!(encode_fixed("packbits", last, &spec, &elements), [1, 3, 5]);

    let spec = chunk("int4", &[3]);
    assert_eq!(encode_fixed("packbits", none.clone(), &spec, &[1, 0xff, 0xf8]), [0xf1, 0x08]);
    assert_eq!(decode_fixed("packbits", none.clone(), &spec, &[0xf1, 0x08]), [1, 0xff, 0xf8]);
    let spec = chunk("complex_float4_e2m1fn", &[1]);
    assert_eq!(encode_fixed("packbits", none, &spec, &[0x3, 0xa]), [0xa3]);

    let codec = array_to_bytes("packbits", first);
    let wrong = codec.decode(&mut Context::new(), &chunk("bool", &[11]), &[4, 1, 3]).unwrap_err();
    assert!(wrong.to_string().contains("4 padding bits, 5 expected"), "{wrong}");
}

#[test]
fn packbits_stores_the_bits_it_is_told_to() {
    let some = json!({"first_bit": 4, "last_bit": 11});
    let spec = chunk("uint16", &[2]);
    let elements = [0x1234u16, 0xfeed].map(u16::to_le_bytes).concat();
    assert_eq!(encode_fixed("packbits", some.clone(), &spec, &elements), [0x23, 0xee]);
    let back = [0x0230u16, 0x0ee0].map(u16::to_le_bytes).concat();
    assert_eq!(decode_fixed("packbits", some.clone(), &spec, &[0x23, 0xee]), back);
    // Signed numbers are extended from the last bit that is stored.
    let spec = chunk("int16", &[2]);
    let back = [0x0230u16, 0xfee0].map(u16::to_le_bytes).concat();
    assert_eq!(decode_fixed("packbits", some.clone(), &spec, &[0x23, 0xee]), back);
    assert!(array_to_bytes("packbits", some.clone()).check(&chunk("uint8", &[2])).is_err());
    assert!(array_to_bytes("packbits", some).check(&chunk("string", &[2])).is_err());
}

#[test]
fn bitround_rounds_integers_from_their_highest_bit() {
    let keep = |bits: u32, data_type: &str, elements: &[u8]| {
        let spec = chunk(data_type, &[elements.len() as u64]);
        round("bitround", json!({"keepbits": bits}), &spec, elements)
    };
    assert_eq!(keep(1, "uint8", &[0, 1, 2, 3, 4, 5, 6, 7]), [0, 1, 2, 4, 4, 4, 8, 8]);
    assert_eq!(
        keep(3, "uint8", &[0b1011_0101, 0b1001_0000]),
        [0b1010_0000 + 0b0010_0000, 0b1000_0000]
    );
    // Anything that would carry past the top, or into the sign, is truncated instead.
    assert_eq!(keep(1, "uint8", &[255]), [128]);
    assert_eq!(keep(1, "int8", &[127, 0x80]), [64, 0x80]);
    assert_eq!(keep(8, "int8", &[127, 0xff, 3]), [127, 0xff, 3]);
}

#[test]
fn bitround_leaves_nan_and_infinity_what_they_are() {
    let spec = chunk("float32", &[4]);
    let values = [0x7f80_0001u32, 0xffff_ffff, 0x7f80_0000, 0x7fff_ffff];
    let elements = values.map(u32::to_le_bytes).concat();
    let back = round("bitround", json!({"keepbits": 2}), &spec, &elements);
    let back: Vec<f32> =
        back.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    assert!(back[0].is_nan() && back[1].is_nan() && back[3].is_nan());
    assert_eq!(back[2], f32::INFINITY);
}

#[test]
fn bitround_knows_every_type_of_its_list() {
    let codec = array_to_array("bitround", json!({"keepbits": 3}));
    for name in [
        "float16",
        "float32",
        "float64",
        "bfloat16",
        "complex_float16",
        "complex_float32",
        "complex_float64",
        "complex_bfloat16",
        "complex64",
        "complex128",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    ] {
        let spec = chunk(name, &[3]);
        let elements = vec![0x5a; spec.byte_len().unwrap()];
        codec.encoded_spec(&spec).unwrap();
        codec.encode(&mut Context::new(), &spec, &elements, &mut Vec::new()).unwrap();
    }
    assert!(codec.encoded_spec(&chunk("bool", &[3])).is_err());
    // bfloat16 has 7 bits of mantissa: 1.1010110 keeps 3.
    let spec = chunk("bfloat16", &[1]);
    let bits = 0x3fd6u16.to_le_bytes();
    assert_eq!(round("bitround", json!({"keepbits": 3}), &spec, &bits), 0x3fd0u16.to_le_bytes());
}

#[test]
fn lossy_codecs_encode_the_fill_value_too() {
    let mut spec = chunk("float32", &[1]);
    spec.fill.0 = 10.3f32.to_le_bytes().to_vec();
    let configuration = json!({"offset": 10, "scale": 10.0, "dtype": "<f4", "astype": "|u1"});
    let encoded = array_to_array("fixedscaleoffset", configuration).encoded_spec(&spec).unwrap();
    assert_eq!((encoded.data_type.name(), &encoded.fill.0[..]), ("uint8", &[3][..]));
    let encoded = array_to_array("bitround", json!({"keepbits": 1})).encoded_spec(&spec).unwrap();
    assert_eq!(encoded.fill.0, 12f32.to_le_bytes());
    let narrow = json!({"dtype": "<f4", "astype": "<f8"});
    let encoded = array_to_array("delta", narrow).encoded_spec(&spec).unwrap();
    assert_eq!(encoded.fill.0, f64::from(10.3f32).to_le_bytes());
}

#[test]
fn a_dtype_that_is_not_the_arrays_is_refused() {
    for name in ["delta", "fixedscaleoffset"] {
        let mut configuration = json!({"dtype": "<i4"});
        if name == "fixedscaleoffset" {
            configuration["offset"] = json!(0);
            configuration["scale"] = json!(1);
        }
        let codec = array_to_array(name, configuration);
        assert!(codec.encoded_spec(&chunk("int32", &[3])).is_ok());
        for other in ["uint32", "float32", "int16", "bool", "complex64", "string"] {
            let refused = codec.encoded_spec(&chunk(other, &[3])).unwrap_err();
            assert!(refused.to_string().contains(other), "{refused}");
        }
    }
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let (codec, context) = (array_to_bytes("vlen-utf8", json!({})), &mut Context::new());
    let spec = chunk("string", &[2]);
    let encoded = [&[2, 0, 0, 0, 1, 0, 0, 0][..], b"a", &[2, 0, 0, 0], &[0xc3, 0x28]].concat();
    let error = codec.decode(context, &spec, &encoded).unwrap_err();
    assert!(error.to_string().contains("element 1 is not UTF-8"), "{error}");
    let elements: VariableElements = [&b"a"[..], &[0xff]].iter().collect();
    let elements = ElementsRef::Variable(&elements);
    assert!(codec.encode(context, &spec, elements, &mut Vec::new()).is_err());
    let bytes = array_to_bytes("vlen-bytes", json!({}));
    assert!(bytes.decode(context, &chunk("bytes", &[2]), &encoded).is_ok());
    assert!(bytes.check(&spec).is_err());
    assert!(codec.check(&chunk("uint8", &[2])).is_err());
}

#[test]
fn a_chunk_of_text_says_how_many_elements_it_has() {
    let (codec, context) = (array_to_bytes("vlen-bytes", json!({})), &mut Context::new());
    let one = [1, 0, 0, 0, 1, 0, 0, 0, b'x'];
    assert!(codec.decode(context, &chunk("bytes", &[1]), &one).is_ok());
    assert!(codec.decode(context, &chunk("bytes", &[2]), &one).is_err());
    assert!(codec.decode(context, &chunk("bytes", &[1]), &[&one[..], &[0]].concat()).is_err());
    // Four billion elements in four bytes.
    let spec = chunk("bytes", &[u64::from(u32::MAX)]);
    assert!(codec.decode(context, &spec, &[0xff; 4]).is_err());
}
