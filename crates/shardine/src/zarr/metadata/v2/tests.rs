use serde_json::{Value, json};

use crate::zarr::metadata::*;

fn zarray() -> Value {
    json!({
        "zarr_format": 2, "shape": [4, 5], "chunks": [2, 5], "dtype": "<u2", "order": "C",
        "fill_value": 7, "filters": null, "compressor": null,
    })
}

/// The document with some members replaced.
fn with(members: Value) -> Value {
    let mut document = zarray();
    for (name, value) in members.as_object().unwrap() {
        document[name] = value.clone();
    }
    document
}

fn parse(document: &Value) -> Result<ArrayMetadata, MetadataError> {
    ArrayMetadata::parse_v2(document.to_string().as_bytes(), None)
}

fn array(members: Value) -> ArrayMetadata {
    parse(&with(members)).unwrap()
}

fn codecs(members: Value) -> Value {
    codec_specs_to_json(array(members).codecs())
}

#[test]
fn a_plain_array_is_one_of_version_3_under_keys_of_version_2() {
    let array = array(json!({}));
    assert_eq!((array.shape(), array.chunk_shape()), (&[4, 5][..], &[2, 5][..]));
    assert_eq!(array.data_type().name(), "uint16");
    assert_eq!(array.fill().0, [7, 0]);
    assert_eq!(array.key_encoding().key(&[1, 2]), "1.2");
    assert_eq!(array.zarr_format(), ZarrFormat::V2);
    let again = NodeMetadata::parse(&array.to_bytes()).unwrap();
    assert_eq!(again, NodeMetadata::Array(array.into_v3()));
}

#[test]
fn the_separator_is_that_of_the_document() {
    let slash = array(json!({"dimension_separator": "/"}));
    assert_eq!(slash.key_encoding().key(&[1, 2]), "1/2");
}

#[test]
fn fortran_order_is_a_transposition_before_the_filters() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let transposed = json!([{"name": "transpose", "configuration": {"order": [1, 0]}}, little]);
    assert_eq!(codecs(json!({"order": "F"})), transposed);
    let flat = codecs(json!({"order": "F", "shape": [4], "chunks": [2]}));
    assert_eq!(flat, json!([little]));
}

#[test]
fn the_byte_order_that_is_stored_is_that_of_the_last_type() {
    let delta = |astype: &str| json!([{"id": "delta", "dtype": ">i4", "astype": astype}]);
    for (astype, endian) in [(">i4", "big"), ("<i2", "little"), (">i8", "big")] {
        let chain = codecs(json!({"dtype": ">i4", "filters": delta(astype)}));
        assert_eq!(chain[0]["name"], "numcodecs.delta");
        assert_eq!(chain[1], json!({"name": "bytes", "configuration": {"endian": endian}}));
    }
    let single = codecs(json!({"dtype": ">i4", "filters": delta("|i1")}));
    assert_eq!(single[1], json!({"name": "bytes"}));
}

#[test]
fn blosc_names_its_shuffle_and_the_size_of_what_enters_it() {
    let blosc = |shuffle: i64| json!({"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": shuffle, "blocksize": 0});
    let configured = |dtype: &str, shuffle| {
        let chain = codecs(json!({"dtype": dtype, "fill_value": 0, "compressor": blosc(shuffle)}));
        let configuration = &chain[1]["configuration"];
        (configuration["typesize"].as_u64().unwrap(), configuration["shuffle"].clone())
    };
    assert_eq!(configured(">f8", -1), (8, json!("shuffle")));
    assert_eq!(configured("|u1", -1), (1, json!("bitshuffle")));
    assert_eq!(configured("<U3", 0), (12, json!("noshuffle")));
    assert_eq!(configured("<i2", 2), (2, json!("bitshuffle")));
    // blosc treats larger elements as single bytes.
    assert_eq!(configured("|S300", 1), (1, json!("shuffle")));
}

#[test]
fn filters_of_bytes_come_after_the_bytes() {
    let filters = json!([{"id": "shuffle"}, {"id": "crc32"}]);
    let chain = codecs(json!({"filters": filters, "compressor": {"id": "zlib", "level": 1}}));
    let names: Vec<&str> =
        chain.as_array().unwrap().iter().map(|codec| codec["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bytes", "numcodecs.shuffle", "numcodecs.crc32", "numcodecs.zlib"]);
    assert_eq!(chain[1]["configuration"], json!({"elementsize": 4}));
    // zarr-python does not read the codec without it.
    assert_eq!(chain[2]["configuration"], json!({}));
}

#[test]
fn fill_values_are_read_in_all_forms_that_writers_have_used() {
    for (dtype, fill, bytes) in [
        ("<i2", json!(null), vec![0, 0]),
        (">i2", json!(-2.0), vec![254, 255]),
        ("|b1", json!(1), vec![1]),
        ("|b1", json!(false), vec![0]),
        ("<f4", json!("Infinity"), f32::INFINITY.to_le_bytes().to_vec()),
        (">f4", json!(1.5), 1.5f32.to_le_bytes().to_vec()),
        ("<c8", json!([1.0, "NaN"]), [1f32.to_le_bytes(), f32::NAN.to_le_bytes()].concat()),
        ("<c8", json!(2), [2f32.to_le_bytes(), [0; 4]].concat()),
        (">c8", json!("P4AAAAAAAAA="), [1f32.to_le_bytes(), [0; 4]].concat()),
        ("|S3", json!("YWI="), b"ab\0".to_vec()),
        ("|S3", json!(0), vec![0; 3]),
        ("|S3", json!(""), vec![0; 3]),
        ("|V2", json!("AQI="), vec![1, 2]),
        ("<U2", json!("x"), vec![b'x', 0, 0, 0, 0, 0, 0, 0]),
        ("<U1", json!(0), vec![0; 4]),
        ("<M8[ns]", json!(5), 5i64.to_le_bytes().to_vec()),
        ("<M8[ns]", json!(null), i64::MIN.to_le_bytes().to_vec()),
        (">m8[10ms]", json!("NaT"), i64::MIN.to_le_bytes().to_vec()),
    ] {
        let document = json!({"dtype": dtype, "fill_value": fill});
        assert_eq!(array(document.clone()).fill().0, bytes, "{document}");
    }
    let nan = br#"{"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "<f8", "order": "C",
        "fill_value": NaN, "filters": null, "compressor": null}"#;
    let nan = ArrayMetadata::parse_v2(nan, None).unwrap();
    assert_eq!(nan.fill().0, f64::NAN.to_le_bytes());
}

#[test]
fn objects_are_what_their_first_filter_makes_of_them() {
    for (id, name) in [("vlen-utf8", "string"), ("vlen-bytes", "bytes")] {
        let members = json!({"dtype": "|O", "fill_value": 0, "filters": [{"id": id}]});
        let array = array(members);
        assert_eq!(array.data_type().name(), name);
        assert_eq!(array.codecs()[0].name, id);
        assert_eq!(array.fill().0, b"");
    }
}

#[test]
fn what_has_no_equivalent_is_refused_by_its_place() {
    let filter = |id: &str| json!({"filters": [{"id": id}]});
    for (members, why) in [
        (json!({"zarr_format": 3}), "zarr_format: is 3"),
        (json!({"dtype": [["a", "<i4"]]}), "structured"),
        (json!({"dtype": "|O"}), "dtype \"|O\" is not supported: objects"),
        (json!({"dtype": "|O", "filters": [{"id": "pickle"}]}), "vlen-utf8"),
        (json!({"dtype": "|O", "filters": [{"id": "json2"}]}), "vlen-utf8"),
        (json!({"dtype": "u2"}), "starts with its byte order"),
        (json!({"dtype": "|u2"}), "need a byte order"),
        (json!({"dtype": "<f16"}), "dtype \"<f16\""),
        (json!({"dtype": "|S0"}), "positive"),
        (json!({"dtype": "<U99999999999999999999"}), "dtype"),
        (json!({"dtype": "\u{e9}\u{e9}"}), "dtype"),
        (json!({"dtype": "<\u{e9}1"}), "dtype"),
        (json!({"dtype": "<"}), "dtype"),
        (json!({"dtype": "<M8[fortnight]"}), "unit"),
        (json!({"order": "K"}), "order: is \"K\""),
        (json!({"dimension_separator": "-"}), "dimension_separator: is \"-\""),
        (json!({"chunks": [2]}), "has 1 lengths"),
        (json!({"chunks": [0, 5]}), "chunks[0]: is 0"),
        (json!({"fill_value": 1.5}), "fill_value"),
        (json!({"fill_value": "x"}), "fill_value"),
        (json!({"filters": {}}), "filters: is {}"),
        (json!({"filters": [5]}), "filters[0]: is 5"),
        (json!({"compressor": {}}), "compressor.id is missing"),
        (json!({"compressor": {"id": "zfpy"}}), "compressor \"zfpy\" is not supported"),
        (filter("categorize"), "filters[0] \"categorize\" is not supported"),
        (filter("astype"), "filters[0] \"astype\" is not supported"),
        (filter("vlen-utf8"), "for objects"),
        (filter("bitround"), "floating-point"),
        (filter("delta"), "filters[0].dtype is missing"),
        (json!({"filters": [{"id": "delta", "dtype": ">u2"}]}), "filters[0].dtype \"delta\""),
        (json!({"filters": [{"id": "delta", "dtype": "<u4"}]}), "not that of its input"),
        (
            json!({"filters": [{"id": "zlib"}, {"id": "delta", "dtype": "<u2"}]}),
            "filters[1] \"delta\" is not supported: it comes after",
        ),
        (json!({"compressor": {"id": "blosc", "shuffle": 3}}), "compressor.shuffle"),
    ] {
        let refusal = parse(&with(members.clone())).unwrap_err().to_string();
        assert!(refusal.contains(why), "{members}: {refusal}");
    }
}

#[test]
fn attributes_come_along_and_name_the_dimensions() {
    let parse = |attributes: &str| {
        let document = zarray().to_string();
        ArrayMetadata::parse_v2(document.as_bytes(), Some(attributes.as_bytes())).unwrap()
    };
    let array = parse(r#"{"_ARRAY_DIMENSIONS": ["y", "x"], "scale": NaN}"#);
    assert_eq!(array.dimension_names(), Some(&[Some("y".into()), Some("x".into())][..]));
    assert!(array.attributes().contains_key("_ARRAY_DIMENSIONS"));
    let text = String::from_utf8(array.to_bytes()).unwrap();
    assert!(text.contains("\"scale\": NaN"), "{text}");
    assert_eq!(parse(r#"{"_ARRAY_DIMENSIONS": ["y"]}"#).dimension_names(), None);
    assert_eq!(parse(r#"{"_ARRAY_DIMENSIONS": [1, 2]}"#).dimension_names(), None);
}

#[test]
fn consolidated_metadata_names_the_nodes_and_hides_none_for_another() {
    let document = json!({"zarr_consolidated_format": 1, "metadata": {
        ".zgroup": {"zarr_format": 2}, ".zattrs": {"at": "root"},
        "g/.zgroup": {"zarr_format": 2}, "g/.zattrs": {"at": "g"},
        "g/a/.zarray": zarray(), "b/.zarray": with(json!({"dtype": [["x", "<i4"]]})),
        "../c/.zgroup": {"zarr_format": 2}, "lonely/.zattrs": {},
    }});
    let group: &[u8] = br#"{"zarr_format": 2}"#;
    let text = document.to_string();
    let group = GroupMetadata::parse_v2(group, None, Some(text.as_bytes())).unwrap();
    let known = group.consolidated().unwrap();
    let names: Vec<(&str, bool)> =
        known.iter().map(|(path, node)| (path.as_str(), node.is_ok())).collect();
    assert_eq!(names, [("../c", false), ("b", false), ("g", true), ("g/a", true)]);
    assert_eq!(known[2].1.as_ref().unwrap().attributes()["at"], "g");
}

/// The documents of version 2 that an array is written as.
fn written(array: &ArrayMetadata) -> Result<(Value, Option<Value>), MetadataError> {
    let made = array.to_v2(Separator::Slash, true)?;
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    Ok((json(&made.zarray), made.zattrs.as_deref().map(json)))
}

#[test]
fn what_is_read_is_written_again() {
    let blosc = json!({"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 0});
    for members in [
        json!({}),
        json!({"order": "F"}),
        json!({"dtype": ">i4", "fill_value": -1, "compressor": {"id": "zstd", "level": 7}}),
        json!({"dtype": "|u1", "compressor": {"id": "zstd", "level": 7, "checksum": true}}),
        json!({"dtype": "<f4", "fill_value": "NaN", "compressor": blosc}),
        json!({"dtype": "<c16", "fill_value": [1.5, "NaN"], "compressor": {"id": "gzip", "level": 9}}),
        json!({"dtype": "|b1", "fill_value": true, "filters": [{"id": "packbits"}]}),
        json!({"dtype": "|S5", "fill_value": "YWI=", "compressor": {"id": "bz2", "level": 1}}),
        json!({"dtype": "|V2", "fill_value": "AQI=", "compressor": {"id": "lz4", "acceleration": 3}}),
        json!({"dtype": ">U2", "fill_value": "x", "compressor": {"id": "zlib", "level": 2}}),
        json!({"dtype": "<M8[10ms]", "fill_value": 5}),
        json!({"dtype": ">m8", "fill_value": i64::MIN}),
        json!({"dtype": "|O", "fill_value": "", "filters": [{"id": "vlen-utf8"}]}),
        json!({"dtype": "|O", "fill_value": "", "filters": [{"id": "vlen-bytes"}]}),
        json!({"filters": [{"id": "shuffle", "elementsize": 2}], "compressor": {"id": "lzma", "preset": 1}}),
        json!({"filters": [{"id": "delta", "dtype": "<u2", "astype": "<i8"}, {"id": "crc32c"}]}),
        json!({
            "dtype": ">f8", "fill_value": 0.0,
            "filters": [{"id": "fixedscaleoffset", "scale": 10, "offset": 0, "dtype": ">f8", "astype": ">u2"}],
        }),
        json!({"dtype": "<f8", "fill_value": 0.5, "filters": [{"id": "bitround", "keepbits": 4}, {"id": "fletcher32"}]}),
    ] {
        let mut expected = with(members);
        expected["dimension_separator"] = json!("/");
        let array = parse(&expected).unwrap();
        let (zarray, zattrs) = written(&array).unwrap();
        assert_eq!(zarray, expected);
        assert_eq!(zattrs, None);
        // And so is its equivalent in version 3.
        let (again, _) = written(&array.into_v3()).unwrap();
        assert_eq!(again, expected);
    }
}

#[test]
fn names_of_dimensions_are_written_as_xarray_has_them() {
    let attributes = r#"{"_ARRAY_DIMENSIONS": ["y", "x"], "a": NaN, "n": 123456789012345678901}"#;
    let old = ArrayMetadata::parse_v2(zarray().to_string().as_bytes(), Some(attributes.as_bytes()));
    let new = old.unwrap().into_v3();
    assert_eq!(new.attributes()["_FillValue"], 7);
    let made = new.to_v2(Separator::Dot, true).unwrap();
    let text = String::from_utf8(made.zattrs.unwrap()).unwrap();
    assert!(text.contains("NaN") && text.contains("123456789012345678901"), "{text}");
    assert!(text.contains("_ARRAY_DIMENSIONS") && !text.contains("_FillValue"), "{text}");
    assert_eq!(made.metadata.dimension_names(), new.dimension_names());
    let made = new.to_v2(Separator::Dot, false).unwrap();
    let text = String::from_utf8(made.zattrs.unwrap()).unwrap();
    assert!(!text.contains("_ARRAY_DIMENSIONS") && text.contains("_FillValue"), "{text}");
}

#[test]
fn what_version_2_does_not_have_is_refused_by_its_place() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let document = |data_type: Value, chunk: &[u64], codecs: Value| {
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": [4, 5, 6], "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": codecs,
        });
        match NodeMetadata::from_json(document).unwrap() {
            NodeMetadata::Array(array) => array,
            NodeMetadata::Group(_) => panic!("not an array"),
        }
    };
    let turned =
        |order: [u64; 3]| json!([{"name": "transpose", "configuration": {"order": order}}, little]);
    let inner = json!({"chunk_shape": [1, 1, 1], "codecs": [little], "index_codecs": [little]});
    for (array, why) in [
        (document(json!("bfloat16"), &[2, 2, 2], json!([little])), "data_type \"bfloat16\""),
        (document(json!("int4"), &[2, 2, 2], json!(["bytes"])), "data_type \"int4\""),
        (document(json!("uint16"), &[2, 2, 2], turned([1, 2, 0])), "C or in Fortran order"),
        (
            document(
                json!("uint16"),
                &[2, 2, 2],
                json!([{"name": "sharding_indexed", "configuration": inner}]),
            ),
            "codecs[0] \"sharding_indexed\" has no equivalent in Zarr v2",
        ),
        (document(json!("bool"), &[2, 2, 2], json!(["packbits"])), "codecs[0] \"packbits\""),
    ] {
        let refusal = written(&array).unwrap_err().to_string();
        assert!(refusal.contains(why), "{refusal}");
    }
    // Axes along which chunks have one element may be anywhere.
    for (chunk, order, expected) in
        [([2, 2, 1], [2, 0, 1], "C"), ([2, 1, 2], [1, 2, 0], "F"), ([1, 1, 2], [1, 2, 0], "C")]
    {
        let array = document(json!("uint16"), &chunk, turned(order));
        assert_eq!(written(&array).unwrap().0["order"], expected);
    }
}
