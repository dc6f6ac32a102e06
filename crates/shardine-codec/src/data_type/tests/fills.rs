use super::*;

fn fill(data_type: &DataType, json: Value) -> Result<Vec<u8>, String> {
    data_type.fill_from_json(&json).map(|fill| fill.0).map_err(|error| error.to_string())
}

#[track_caller]
fn gives(name: &str, json: Value, bytes: &[u8]) {
    assert_eq!(fill(&named(name), json.clone()).as_deref(), Ok(bytes), "{name} {json}");
}

#[track_caller]
fn refuses(name: &str, json: Value, why: &str) {
    let refusal = fill(&named(name), json).unwrap_err();
    assert!(refusal.contains(why), "{refusal}");
}

#[test]
fn zarr_python_and_we_agree_on_every_fill_value_it_writes() {
    let text = include_str!("../../../../../tests/golden/data_type/zarr_python.json");
    let cases: Vec<Value> = serde_json::from_str(text).unwrap();
    assert!(cases.len() > 20);
    for case in cases {
        let data_type = DataType::from_json(&case["data_type"]).unwrap();
        let fill = data_type.fill_from_json(&case["fill_value"]).unwrap();
        let hex: String = fill.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, case["bytes"], "{case}");
        assert_eq!(data_type.numpy_descr().as_deref(), case["descr"].as_str());
        let ours = data_type.fill_to_json(&fill);
        assert_eq!(data_type.fill_from_json(&ours).unwrap(), fill);
    }
}

#[test]
fn null_is_refused_for_every_type() {
    for data_type in every_type() {
        let refusal = fill(&data_type, Value::Null).unwrap_err();
        assert!(refusal.contains("null is not a value"), "{refusal}");
    }
}

#[test]
fn integers_are_in_range_and_without_fraction() {
    gives("int8", json!(-128), &[0x80]);
    gives("int4", json!(-8), &[0xf8]);
    gives("int2", json!(-1), &[0xff]);
    gives("uint4", json!(15), &[15]);
    gives("uint16", json!(0x0102), &[2, 1]);
    gives("uint64", json!(u64::MAX), &[0xff; 8]);
    gives("int64", json!(i64::MIN), &[0, 0, 0, 0, 0, 0, 0, 0x80]);
    refuses("int8", json!(128), "-128..=127");
    refuses("int4", json!(8), "-8..=7");
    refuses("uint8", json!(-1), "0..=255");
    refuses("int64", json!(u64::MAX), "-9223372036854775808..=");
    refuses("uint8", json!(1.0), "without fraction");
    refuses("uint64", json!(18446744073709551616.0), "without fraction");
    refuses("uint8", json!("1"), "integer");
    refuses("uint8", json!(true), "integer");
    refuses("bool", json!(1), "true or false");
    gives("bool", json!(true), &[1]);
}

#[test]
fn floats_come_as_numbers_as_names_and_as_bits() {
    gives("float32", json!(1), &1_f32.to_le_bytes());
    gives("float32", json!(-0.0), &(-0_f32).to_le_bytes());
    gives("float32", json!("NaN"), &0x7fc0_0000_u32.to_le_bytes());
    gives("float32", json!("0x7fc00001"), &0x7fc0_0001_u32.to_le_bytes());
    gives("float32", json!("0xFFC0ABCD"), &0xffc0_abcd_u32.to_le_bytes());
    gives("float32", json!(1e300), &f32::INFINITY.to_le_bytes());
    gives("float64", json!("-Infinity"), &f64::NEG_INFINITY.to_le_bytes());
    gives("float64", json!("0x7ff8000000000001"), &0x7ff8_0000_0000_0001_u64.to_le_bytes());
    gives("float16", json!("NaN"), &[0x00, 0x7e]);
    gives("bfloat16", json!("NaN"), &[0xc0, 0x7f]);
    gives("float8_e3m4", json!("NaN"), &[0x78]);
    gives("float8_e4m3", json!("NaN"), &[0x7c]);
    gives("float8_e5m2", json!("NaN"), &[0x7e]);
    gives("float8_e4m3fnuz", json!("NaN"), &[0x80]);
    gives("float8_e8m0fnu", json!("NaN"), &[0xff]);
    gives("float8_e5m2", json!("Infinity"), &[0x7c]);
    gives("float4_e2m1fn", json!("0xf"), &[0xf]);
    gives("float6_e2m3fn", json!("0x3f"), &[0x3f]);
    // Integers past 2^53 round once, not twice.
    gives("float32", json!((1_u64 << 60) + (1 << 36) + 1), &[1, 0, 0x80, 0x5d]);
    gives("complex64", json!([1, "NaN"]), &[0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f]);
    gives("complex_float8_e5m2", json!(["-Infinity", 1.0]), &[0xfc, 0x3c]);
}

#[test]
fn floats_without_a_special_value_say_so() {
    for name in ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"] {
        refuses(name, json!("NaN"), "no NaN");
        refuses(name, json!("Infinity"), "no infinity");
        refuses(name, json!(1e10), "outside the range");
    }
    for name in ["float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"] {
        refuses(name, json!("-Infinity"), "no infinity");
        refuses(name, json!(1e300), "outside the range");
    }
    refuses("float8_e8m0fnu", json!(0), "outside the range");
    refuses("float8_e8m0fnu", json!(-1.0), "outside the range");
    gives("float8_e4m3fnuz", json!(-0.0), &[0]);
}

#[test]
fn strings_that_are_no_float_are_refused() {
    for text in ["nan", "inf", "0x", "0x+1", "0x1_0", "7fc00000", "0x100000000", "1.0", "0xg"] {
        refuses("float32", json!(text), "hex digits of 32 bits");
    }
    refuses("float6_e2m3fn", json!("0x40"), "hex digits of 6 bits");
    refuses("float32", json!([1.0]), "number or a string");
    refuses("complex64", json!([1.0]), "real and imaginary");
    refuses("complex64", json!(1.0), "real and imaginary");
}

#[test]
fn opaque_bytes_come_as_numbers_and_as_base64() {
    gives("r24", json!([0, 1, 255]), &[0, 1, 255]);
    gives("r24", json!("AAH/"), &[0, 1, 255]);
    refuses("r24", json!([0, 1]), "2 bytes, but an element has 3");
    refuses("r24", json!([0, 1, 256]), "0..=255");
    refuses("r24", json!("AAH"), "base64");
    refuses("r8", json!(0), "base64 or a list");
    gives("bytes", json!([1, 2, 3]), &[1, 2, 3]);
    gives("bytes", json!("AQID"), &[1, 2, 3]);
    gives("binary", json!(""), &[]);
    gives("bytes", json!([]), &[]);
    for text in ["A", "AQ", "AQI", "AQ=", "A===", "====", "AR==", "AQJ=", "AQID\n", "AQ=I", "-_=="]
    {
        refuses("bytes", json!(text), "not base64");
    }
}

#[test]
fn text_is_bounded_by_its_characters_not_by_its_bytes() {
    let two = DataType::parse_name(
        r#"{"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}"#,
    )
    .unwrap();
    assert_eq!(fill(&two, json!("é")), Ok(vec![0xe9, 0, 0, 0, 0, 0, 0, 0]));
    assert!(fill(&two, json!("😀😀")).is_ok());
    assert!(fill(&two, json!("abc")).unwrap_err().contains("3 characters, but only 2 fit"));
    gives("string", json!("é"), "é".as_bytes());
    refuses("string", json!(0), "string");
}

#[test]
fn a_date_is_a_number_or_nat() {
    let date = DataType::parse_name("numpy.datetime64[ns]").unwrap();
    assert_eq!(fill(&date, json!("NaT")), fill(&date, json!(i64::MIN)));
    assert_eq!(fill(&date, json!(-1)), Ok(vec![0xff; 8]));
    assert_eq!(date.fill_to_json(&FillValue(i64::MIN.to_le_bytes().into())), "NaT");
    assert!(fill(&date, json!("2024-01-01")).unwrap_err().contains("or must be \"NaT\""));
}

#[test]
fn a_struct_names_every_field_or_is_base64() {
    let record = DataType::from_json(&json!({"name": "struct", "configuration": {"fields": [
        {"name": "x", "data_type": "uint16"}, {"name": "y", "data_type": "float32"},
    ]}}))
    .unwrap();
    let bytes = vec![2, 1, 0, 0, 0x80, 0x3f];
    assert_eq!(fill(&record, json!({"y": 1.0, "x": 258})), Ok(bytes.clone()));
    assert_eq!(fill(&record, json!("AgEAAIA/")), Ok(bytes.clone()));
    assert_eq!(record.fill_to_json(&FillValue(bytes)), json!({"x": 258, "y": 1.0}));
    for (json, why) in [
        (json!({"x": 1}), "field \"y\": is missing"),
        (json!({"x": 1, "y": 1, "z": 1}), "not fields of the struct"),
        (json!({"x": -1, "y": 1}), "field \"x\": it must be in"),
        (json!({"x": 1, "y": null}), "field \"y\": null"),
        (json!("AgE="), "2 bytes"),
        (json!(0), "object"),
    ] {
        let refusal = fill(&record, json).unwrap_err();
        assert!(refusal.contains(why), "{refusal}");
    }
}

#[test]
fn bytes_that_are_no_element_are_refused_and_never_panic() {
    let check = |name: &str, bytes: &[u8]| named(name).check_fill(&FillValue(bytes.into()));
    for (name, good, bad) in [
        ("bool", &[1][..], &[2][..]),
        ("int4", &[0xf8], &[0x08]),
        ("uint4", &[15], &[16]),
        ("float4_e2m1fn", &[0xf], &[0x1f]),
        ("uint16", &[1, 2], &[1]),
        ("float64", &[0; 8], &[0; 9]),
        ("r24", &[0; 3], &[]),
        ("string", b"abc", &[0xff]),
    ] {
        assert_eq!(check(name, good), Ok(()), "{name}");
        assert!(check(name, bad).is_err(), "{name}");
    }
    for data_type in every_type() {
        assert_eq!(data_type.check_fill(&data_type.default_fill()), Ok(()), "{data_type:?}");
        for len in 0..40 {
            let fill = FillValue(vec![0xff; len]);
            data_type.fill_to_json(&fill);
            data_type.format_element(&fill.0);
        }
    }
}
