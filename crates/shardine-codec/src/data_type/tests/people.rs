use super::*;

fn shown(name: &str, bytes: &[u8]) -> String {
    DataType::parse_name(name).unwrap().format_element(bytes)
}

#[test]
fn numpy_lacks_what_it_lacks() {
    for name in ["int4", "bfloat16", "float8_e5m2", "complex_float16", "string", "bytes"] {
        assert_eq!(named(name).numpy_descr(), None, "{name}");
    }
    for (name, descr) in [
        ("bool", "|b1"),
        ("uint8", "|u1"),
        ("uint16", "<u2"),
        ("complex_float64", "<c16"),
        ("r24", "|V3"),
        ("numpy.datetime64[10ms]", "<M8[10ms]"),
        ("numpy.timedelta64[generic]", "<m8"),
    ] {
        assert_eq!(DataType::parse_name(name).unwrap().numpy_descr().as_deref(), Some(descr));
    }
    let odd = json!({"name": "struct", "configuration": {"fields": [["it's é", "uint8"]]}});
    let odd = DataType::from_json(&odd).unwrap();
    assert_eq!(odd.numpy_descr().as_deref(), Some(r"[('it\'s \U000000e9', '|u1')]"));
}

#[test]
fn names_on_the_command_line_are_names_or_json() {
    assert_eq!(DataType::parse_name(" uint16 "), Ok(named("uint16")));
    let date = DataType::parse_name("numpy.datetime64[ns]").unwrap();
    assert_eq!(
        date.to_json(),
        json!({"name": "numpy.datetime64", "configuration": {"unit": "ns", "scale_factor": 1}}),
    );
    assert_eq!(DataType::parse_name(&date.to_json().to_string()), Ok(date));
    for bad in [
        "",
        "uint16[ns]",
        "numpy.datetime64",
        "numpy.datetime64[]",
        "{",
        "{}",
        "numpy.datetime64[99999999999999999999ns]",
        "numpy.datetime64[0s]",
        "r24[2]",
    ] {
        assert!(DataType::parse_name(bad).is_err(), "{bad}");
    }
}

#[test]
fn types_have_the_names_that_numpy_gives_them() {
    for (numpy, name) in [
        ("u2", "uint16"),
        ("<u2", "uint16"),
        ("=u2", "uint16"),
        ("|u1", "uint8"),
        ("|b1", "bool"),
        ("i8", "int64"),
        ("f4", "float32"),
        ("<f2", "float16"),
        ("c16", "complex128"),
        ("<M8[10ms]", "numpy.datetime64[10ms]"),
        ("m8", "numpy.timedelta64[generic]"),
        (">u1", "uint8"),
        ("float", "float64"),
        ("half", "float16"),
        ("int", "int64"),
        ("complex", "complex128"),
        ("str", "string"),
    ] {
        let named = DataType::parse_name(name);
        assert_eq!(DataType::parse_name(numpy), named, "{numpy}");
    }
    for name in ["S5", "U3", "V4"] {
        let descr = DataType::parse_name(name).unwrap().numpy_descr().unwrap();
        assert_eq!(&descr[1..], name);
    }
    for bad in [
        "u16",
        "i3",
        "f16",
        "u02",
        "u+2",
        "u",
        "b",
        "b2",
        "S0",
        "S",
        "U4611686018427387904",
        "M4",
        "M8[",
        "<",
        "<<u2",
        "O",
        "<uint16",
        "é2",
    ] {
        assert_eq!(DataType::from_numpy(bad), None, "{bad}");
        assert!(DataType::parse_name(bad).is_err(), "{bad}");
    }
    let refused = DataType::parse_name(">u2").unwrap_err().to_string();
    assert!(refused.contains("uint16") && refused.contains("big endian"), "{refused}");
    assert!(DataType::parse_name(">x").unwrap_err().to_string().contains("unknown"));
}

#[test]
fn elements_read_well() {
    for (name, bytes, text) in [
        ("bool", &[1][..], "true"),
        ("int4", &[0xfd], "-3"),
        ("uint16", &[1, 2], "513"),
        ("float32", &[0xcd, 0xcc, 0xcc, 0x3d], "0.1"),
        ("float32", &[1, 0, 0xc0, 0x7f], "NaN(0x7fc00001)"),
        ("complex64", &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0], "1.0-2.0i"),
        ("complex_float8_e5m2", &[0x3c, 0x7e], "1.0+NaNi"),
        ("r16", &[0, 0xff], "0x00ff"),
        ("string", b"a\"b", "\"a\\\"b\""),
    ] {
        assert_eq!(shown(name, bytes), text, "{name}");
    }
    assert!(shown("bytes", &[0; 100]).ends_with("... (100 bytes)"));
    let record = every_type().pop().unwrap();
    assert_eq!(record.format_element(&[7]), "{a: 7, b: 0.0, c: {a: 0.0+0.0i, é: 0}}",);
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (name, count, text) in [
        ("numpy.datetime64[s]", 0, "1970-01-01T00:00:00"),
        ("numpy.datetime64[s]", -1, "1969-12-31T23:59:59"),
        ("numpy.datetime64[s]", 951_782_400, "2000-02-29T00:00:00"),
        ("numpy.datetime64[D]", 11_016, "2000-02-29"),
        ("numpy.datetime64[D]", -719_528, "0000-01-01"),
        ("numpy.datetime64[W]", 1, "1970-01-08"),
        ("numpy.datetime64[10ms]", 1, "1970-01-01T00:00:00.010"),
        ("numpy.datetime64[ns]", i64::MAX, "2262-04-11T23:47:16.854775807"),
        ("numpy.datetime64[Y]", 54, "2024"),
        ("numpy.datetime64[M]", -1, "1969-12"),
        ("numpy.datetime64[2147483647W]", i64::MAX, ""),
        ("numpy.datetime64[as]", i64::MIN, "NaT"),
        ("numpy.timedelta64[25us]", -3, "-75 us"),
    ] {
        let shown = shown(name, &count.to_le_bytes());
        assert!(shown == text || text.is_empty(), "{name} {count}: {shown}");
    }
}
