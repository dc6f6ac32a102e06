use super::*;

#[test]
fn every_type_gives_back_the_form_that_was_read() {
    for data_type in every_type() {
        let json = data_type.to_json();
        assert_eq!(DataType::from_json(&json).unwrap(), data_type);
        assert_eq!(DataType::from_json(&json).unwrap().to_json(), json);
    }
    let object = json!({"name": "uint8", "configuration": {}});
    assert_eq!(DataType::from_json(&object).unwrap().to_json(), object);
    assert_eq!(DataType::from_json(&object).unwrap(), named("uint8"));
}

#[test]
fn aliases_are_resolved_but_written_as_they_were() {
    for alias in ["bytes", "variable_length_bytes", "binary"] {
        assert_eq!(named(alias).name(), "bytes");
        assert_eq!(named(alias).to_json(), alias);
        assert_eq!(named(alias), named("bytes"));
    }
    assert_eq!(named("complex_float32").name(), "complex_float32");
}

#[test]
fn no_fixed_size_is_zero_and_units_lie_inside_the_element_in_order() {
    for data_type in every_type() {
        let ElementSize::Fixed(size) = data_type.size() else {
            assert!(data_type.swap_units().is_empty());
            continue;
        };
        assert!(size > 0);
        let mut end = 0;
        for unit in data_type.swap_units() {
            assert!(unit.offset >= end && unit.len >= 2, "{data_type:?}");
            end = unit.offset + unit.len;
        }
        assert!(end <= size);
    }
}

#[test]
fn sizes_bits_and_kinds_are_those_of_the_elements_in_memory() {
    for (name, size, bits, kind) in [
        ("bool", 1, 1, Kind::Bool),
        ("int4", 1, 4, Kind::Int),
        ("uint2", 1, 2, Kind::UInt),
        ("uint64", 8, 64, Kind::UInt),
        ("float16", 2, 16, Kind::Float),
        ("bfloat16", 2, 16, Kind::SmallFloat),
        ("float6_e3m2fn", 1, 6, Kind::SmallFloat),
        ("float8_e8m0fnu", 1, 8, Kind::SmallFloat),
        ("complex64", 8, 32, Kind::Complex),
        ("complex_float4_e2m1fn", 2, 4, Kind::Complex),
        ("r24", 3, 24, Kind::Raw),
    ] {
        let data_type = named(name);
        assert_eq!(
            (data_type.size(), data_type.bits(), data_type.kind()),
            (ElementSize::Fixed(size), bits, kind),
            "{name}",
        );
    }
    assert_eq!(named("string").size(), ElementSize::Variable);
}

#[test]
fn the_units_of_a_struct_are_those_of_its_fields_all_the_way_down() {
    let record = every_type().pop().unwrap();
    assert_eq!(record.name(), "struct");
    assert_eq!(record.size(), ElementSize::Fixed(1 + 4 + 8 + 1));
    let units: Vec<_> = record.swap_units().iter().map(|unit| (unit.offset, unit.len)).collect();
    assert_eq!(units, [(1, 4), (5, 4), (9, 4)]);
    // Complex parts are swapped one by one; opaque bytes are not swapped.
    assert_eq!(named("complex128").swap_units().len(), 2);
    assert_eq!(named("r32").swap_units(), []);
    assert_eq!(named("complex_float8_e5m2").swap_units(), []);
}

#[test]
fn old_documents_list_the_fields_of_a_struct_in_pairs() {
    let pairs = json!({"name": "structured", "configuration": {"fields": [
        ["x", "float32"], ["y", {"name": "structured", "configuration": {"fields": [["z", "r8"]]}}],
    ]}});
    let data_type = DataType::from_json(&pairs).unwrap();
    assert_eq!(data_type.size(), ElementSize::Fixed(5));
    assert_eq!(data_type.to_json(), pairs);
}

#[test]
fn hostile_sizes_are_refused_before_anything_is_allocated() {
    for name in
        ["r0", "r7", "r12", "r08", "r134217736", "r18446744073709551616", "r1e3", "r", "r+8"]
    {
        assert!(DataType::from_json(&Value::from(name)).is_err(), "{name}");
    }
    assert_eq!(named("r134217728").size(), ElementSize::Fixed(16 << 20));
    for name in ["fixed_length_utf32", "raw_bytes", "null_terminated_bytes"] {
        for length in [json!(0), json!(-4), json!(4.5), json!(u64::MAX), json!("4"), json!(null)] {
            let json = json!({"name": name, "configuration": {"length_bytes": length}});
            assert!(DataType::from_json(&json).is_err(), "{json}");
        }
    }
    let text = |length: u64| json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": length}});
    assert!(refusal(&text(6)).contains("multiple of 4"));
    assert!(DataType::from_json(&text(1 << 20)).is_ok());
    assert!(refusal(&text((1 << 20) + 4)).contains("characters"));

    let fields = |count: usize, data_type: Value| {
        let fields: Vec<_> =
            (0..count).map(|i| json!({"name": i.to_string(), "data_type": data_type})).collect();
        json!({"name": "struct", "configuration": {"fields": fields}})
    };
    assert!(refusal(&fields(3, json!("r67108864"))).contains("at most 16777216 bytes"));
    assert!(refusal(&fields(2, text(1 << 20))).contains("at most 262144"));
}

#[test]
fn a_struct_nested_past_the_limit_is_refused() {
    let mut json = json!("uint8");
    for depth in 0..DataType::MAX_STRUCT_DEPTH + 1 {
        assert!(DataType::from_json(&json).is_ok(), "{depth}");
        json = json!({"name": "struct", "configuration": {"fields": [
            {"name": "x", "data_type": json},
        ]}});
    }
    assert!(refusal(&json).contains("nested deeper than 16 levels"));
}

#[test]
fn fields_that_cannot_be_laid_out_are_refused() {
    let with = |fields: Value| json!({"name": "struct", "configuration": {"fields": fields}});
    for (fields, why) in [
        (json!([]), "at least one field"),
        (json!({}), "at least one field"),
        (json!([{"name": "x", "data_type": "string"}]), "fixed size"),
        (json!([{"name": "", "data_type": "int8"}]), "field 0"),
        (json!([{"name": "x"}]), "field 0"),
        (json!([{"name": "x", "data_type": "int8", "offset": 4}]), "field 0"),
        (json!([["x", "int8"], ["x", "int8"]]), "occurs twice"),
        (json!([["x", "int9"]]), "unknown data type \"int9\""),
    ] {
        let refusal = refusal(&with(fields));
        assert!(refusal.contains(why), "{refusal}");
    }
}

#[test]
fn what_is_not_understood_in_a_type_is_refused() {
    for (json, why) in [
        (json!("int7"), "unknown data type \"int7\""),
        (json!("complex_int8"), "unknown"),
        (json!(""), "unknown"),
        (json!(5), "unknown data type 5"),
        (json!(null), "unknown"),
        (json!({"configuration": {}}), "unknown"),
        (json!({"name": "uint8", "endian": "big"}), "unknown member \"endian\""),
        (json!({"name": "uint8", "configuration": {"endian": "big"}}), "unknown member"),
        (json!({"name": "uint8", "configuration": []}), "must be an object"),
        (json!({"name": "uint8", "must_understand": false}), "must_understand"),
        (json!("numpy.datetime64"), "must have \"unit\""),
        (json!("fixed_length_utf32"), "must have \"length_bytes\""),
    ] {
        let refusal = refusal(&json);
        assert!(refusal.contains(why), "{json}: {refusal}");
    }
    assert!(DataType::from_json(&json!({"name": "uint8", "must_understand": true})).is_ok());
    // A message stays short whatever the document contains.
    assert!(refusal(&json!("é".repeat(10_000))).len() < 300);
}

#[test]
fn dates_need_a_known_unit_and_a_scale_in_range() {
    let with = |unit: Value, scale: Value| {
        DataType::from_json(&json!({
            "name": "numpy.datetime64", "configuration": {"unit": unit, "scale_factor": scale},
        }))
    };
    assert!(with(json!("ns"), json!(i32::MAX)).is_ok());
    for scale in [json!(0), json!(-1), json!(1u32 << 31), json!(1.5), json!("1")] {
        assert!(with(json!("ns"), scale).is_err());
    }
    assert!(with(json!("fortnight"), json!(1)).is_err());
    assert_eq!(with(json!("us"), json!(1)), with(json!("\u{b5}s"), json!(1)));
}
