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
