//! Data types and fill values: any JSON, and any element as a fill value.
//!
//! Input: the type, a zero byte, the fill value, a zero byte, one element's bytes.

use serde_json::Value;
use shardine_codec::{DataType, ElementSize, FillValue, Kind};

use crate::{joined, memory, split};

pub fn run(input: &[u8]) {
    memory::bounded(256 * input.len() + (1 << 20), || check(input));
}

fn check(input: &[u8]) {
    let (type_json, rest) = split(input);
    let (fill_json, element) = split(rest);
    let Ok(type_json) = serde_json::from_slice::<Value>(type_json) else { return };
    let Ok(data_type) = DataType::from_json(&type_json) else { return };
    assert_eq!(DataType::from_json(&data_type.to_json()).as_ref(), Ok(&data_type), "type changed");
    for unit in data_type.swap_units() {
        let ElementSize::Fixed(size) = data_type.size() else {
            panic!("a variable-length element has no fixed units");
        };
        assert!(unit.len >= 2 && unit.offset.checked_add(unit.len).is_some_and(|end| end <= size));
    }
    // A type may be valid but have elements too large to test here.
    if matches!(data_type.size(), ElementSize::Fixed(size) if size > 1 << 12) {
        return;
    }
    keeps(&data_type, &data_type.default_fill());
    if let Ok(json) = serde_json::from_slice::<Value>(fill_json)
        && let Ok(fill) = data_type.fill_from_json(&json)
    {
        keeps(&data_type, &fill);
    }
    if any_bytes_are_legal(&data_type) {
        let mut element = element.to_vec();
        if let ElementSize::Fixed(size) = data_type.size() {
            element.resize(size, 0);
        }
        keeps(&data_type, &FillValue(element));
    }
}

/// A fill value has the element's size and round-trips bit for bit, including NaN payloads.
fn keeps(data_type: &DataType, fill: &FillValue) {
    if let ElementSize::Fixed(size) = data_type.size() {
        assert_eq!(fill.0.len(), size, "fill value of another size");
    }
    let json = data_type.fill_to_json(fill);
    assert_eq!(data_type.fill_from_json(&json).as_ref(), Ok(fill), "fill value changed in {json}");
}

/// Whether any bytes form an element: not for narrow types, text and booleans.
pub fn any_bytes_are_legal(data_type: &DataType) -> bool {
    match data_type.kind() {
        Kind::Float | Kind::Raw | Kind::DateTime | Kind::TimeDelta | Kind::Bytes => true,
        Kind::Int | Kind::UInt | Kind::SmallFloat | Kind::Complex => {
            data_type.bits().is_multiple_of(8)
        }
        _ => false,
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let cases = [
        (r#""bool""#, "true"),
        (r#""int2""#, "-2"),
        (r#""uint4""#, "15"),
        (r#""int8""#, "-128"),
        (r#""int64""#, "-9223372036854775808"),
        (r#""uint64""#, "18446744073709551615"),
        (r#""float16""#, r#""0x7e01""#),
        (r#""float32""#, r#""NaN""#),
        (r#""float32""#, r#""-Infinity""#),
        (r#""float64""#, "1e-320"),
        (r#""float64""#, r#""0x7ff8000000000001""#),
        (r#""bfloat16""#, "1.5"),
        (r#""float4_e2m1fn""#, "6"),
        (r#""float6_e3m2fn""#, "-0.0"),
        (r#""float8_e4m3fnuz""#, r#""NaN""#),
        (r#""float8_e8m0fnu""#, "2"),
        (r#""complex64""#, r#"[1.5, "NaN"]"#),
        (r#""complex128""#, r#"["0x7ff8000000000001", -0.0]"#),
        (r#""complex_float8_e5m2""#, r#"["Infinity", 1]"#),
        (r#""r24""#, "[1, 2, 255]"),
        (r#""string""#, r#""fill \ud83d\ude00""#),
        (r#""bytes""#, "[0, 255]"),
        (r#""bytes""#, r#""AP8=""#),
        (r#"{"name":"fixed_length_utf32","configuration":{"length_bytes":8}}"#, r#""aé""#),
        (
            r#"{"name":"numpy.datetime64","configuration":{"unit":"ms","scale_factor":10}}"#,
            r#""NaT""#,
        ),
        (r#"{"name":"numpy.timedelta64","configuration":{"unit":"s","scale_factor":1}}"#, "-3"),
        (
            r#"{"name":"struct","configuration":{"fields":[{"name":"a","data_type":"int16"},{"name":"b","data_type":"float32"}]}}"#,
            r#"{"a":1,"b":"NaN"}"#,
        ),
        (
            r#"{"name":"structured","configuration":{"fields":[["a","uint8"],["b","int16"]]}}"#,
            r#""AQID""#,
        ),
    ];
    cases.iter().map(|(t, f)| joined(&[t.as_bytes(), f.as_bytes(), b"\x01\x80\xff\x7f"])).collect()
}
