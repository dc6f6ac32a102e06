use super::*;

#[test]
fn an_array_is_what_its_document_says() {
    let mut json = with("/dimension_names", json!(["y", null]));
    json["attributes"] = json!({"scale": 2});
    let array = array(&json);
    assert_eq!(array.shape(), [10, 20]);
    assert_eq!(array.chunk_shape(), [5, 6]);
    assert_eq!(array.data_type().name(), "uint16");
    assert_eq!(array.fill(), &FillValue(vec![7, 0]));
    assert_eq!(array.codecs()[0].name, "bytes");
    assert_eq!(array.codecs()[0].configuration["endian"], "little");
    assert_eq!(array.key_encoding(), &ChunkKeyEncoding::default());
    assert_eq!(array.dimension_names(), Some(&[Some("y".into()), None][..]));
    assert_eq!(array.attributes()["scale"], 2);
    assert_eq!(array.to_json(), json);
}

#[test]
fn a_document_without_a_member_says_which() {
    for member in ["shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"]
    {
        let refusal = parse(&with(&format!("/{member}"), Value::Null)).unwrap_err();
        assert_eq!(refusal, MetadataError::missing(member));
    }
    for member in ["zarr_format", "node_type"] {
        refuses(&with(&format!("/{member}"), Value::Null), "missing");
    }
}

#[test]
fn what_is_wrong_is_named_by_its_place() {
    for (pointer, value, why) in [
        ("/zarr_format", json!(4), "zarr_format is 4"),
        ("/zarr_format", json!("3"), "zarr_format is \"3\""),
        ("/node_type", json!("table"), "node_type: is \"table\""),
        ("/shape", json!(5), "shape: is 5"),
        ("/shape/1", json!(-1), "shape[1]: is -1"),
        ("/shape/0", json!(1.5), "shape[0]: is 1.5"),
        ("/shape/0", json!("1"), "shape[0]"),
        ("/data_type", json!("uint17"), "data_type: unknown data type \"uint17\""),
        ("/data_type", json!({"name": "int8", "must_understand": false}), "must_understand"),
        ("/fill_value", json!(-1), "fill_value: fill value -1 is not legal"),
        ("/chunk_grid", json!("regular"), "chunk_grid.configuration.chunk_shape is missing"),
        ("/chunk_grid/name", json!("rectilinear"), "chunk_grid \"rectilinear\" is not supported"),
        ("/chunk_grid/must_understand", json!(false), "chunk_grid.must_understand"),
        ("/chunk_grid/configuration/chunk_shape/1", json!(0), "chunk_shape[1]: is 0"),
        ("/chunk_grid/configuration/chunk_shape", json!([5]), "has 1 lengths"),
        ("/chunk_grid/configuration/offset", json!(1), "chunk_grid.configuration.offset"),
        ("/chunk_grid/configuration/chunk_shape", json!([1u64 << 32, 1u64 << 32]), "2^64"),
        ("/chunk_key_encoding", json!("suffix"), "\"suffix\" is not supported"),
        ("/chunk_key_encoding/must_understand", json!(false), "must_understand"),
        ("/chunk_key_encoding/configuration", json!({"separator": "-"}), "separator: is \"-\""),
        ("/codecs", json!([]), "at least one codec"),
        ("/codecs", json!({}), "at least one codec"),
        ("/codecs/0", json!(5), "codecs[0]: is 5"),
        ("/codecs/0", json!({}), "codecs[0].name is missing"),
        ("/codecs/0/name", json!(5), "codecs[0].name"),
        ("/codecs/0/name", json!(""), "empty name"),
        ("/codecs/0/configuration", json!([]), "codecs[0].configuration"),
        ("/codecs/0/must_understand", json!("no"), "codecs[0].must_understand"),
        ("/codecs/0/level", json!(5), "codecs[0].level is unknown"),
        ("/storage_transformers", json!([{"name": "mirror"}]), "[0] \"mirror\" is not supported"),
        ("/storage_transformers", json!(5), "must be a list"),
        ("/dimension_names", json!(["x"]), "1 names, but shape has 2"),
        ("/dimension_names", json!(["x", 5]), "dimension_names[1]"),
        ("/dimension_names", json!("xy"), "must be a list"),
        ("/attributes", json!([]), "attributes: must be an object"),
    ] {
        refuses(&with(pointer, value), why);
    }
    let mut json = document();
    json["fill_value"] = Value::Null;
    refuses(&json, "null is not a value");
    json["shape"] = json!(vec![1; 65]);
    refuses(&json, "65 dimensions");
}

#[test]
fn a_document_of_version_2_is_told_apart() {
    let old = br#"{"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "<u2"}"#;
    assert_eq!(NodeMetadata::parse(old), Err(MetadataError::ZarrV2));
}

#[test]
fn what_is_not_understood_is_refused_unless_it_may_be_ignored() {
    let unknown = with("/extra", json!({"name": "x"}));
    assert_eq!(parse(&unknown), Err(MetadataError::unknown("extra")));
    refuses(&with("/extra", json!(5)), "extra is unknown");
    refuses(&with("/extra", json!({"must_understand": true})), "extra is unknown");
    let ignored = with("/extra", json!({"must_understand": false, "b": 1, "a": [2]}));
    assert_eq!(array(&ignored).to_json().to_string(), ignored.to_string());
}

#[test]
fn shapes_may_be_empty_without_dimensions_or_past_any_memory() {
    for shape in [json!([0, 20]), json!([u64::MAX, u64::MAX]), json!([1u64 << 40, 3])] {
        let array = array(&with("/shape", shape.clone()));
        assert_eq!(json!(array.shape()), shape);
    }
    let mut scalar = with("/shape", json!([]));
    scalar["chunk_grid"]["configuration"]["chunk_shape"] = json!([]);
    assert_eq!(array(&scalar).chunk_shape(), [0_u64; 0]);
}

#[test]
fn codecs_come_as_names_and_as_objects_and_may_be_optional() {
    let json = json!(["bytes", {"name": "x", "must_understand": false, "configuration": {"a": 1}}]);
    let codecs = codec_specs_from_json(&json).unwrap();
    assert_eq!(codecs[0], codec("bytes"));
    assert!(!codecs[1].must_understand);
    assert_eq!(codec_specs_from_json(&codec_specs_to_json(&codecs)), Ok(codecs.clone()));
    assert_eq!(codec_specs_to_json(&codecs)[0], json!({"name": "bytes"}));
    // In the document, codecs keep their spelling.
    assert_eq!(array(&with("/codecs", json.clone())).to_json()["codecs"], json);
}

#[test]
fn base64_of_a_struct_is_in_the_byte_order_of_the_codecs() {
    let mut json = with(
        "/data_type",
        json!({"name": "structured", "configuration": {"fields": [["a", "uint8"], ["b", "uint16"]]}}),
    );
    json["fill_value"] = json!("AQID");
    assert_eq!(array(&json).fill().0, [1, 2, 3]);
    json["codecs"] = json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [5, 6],
        "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
    }}]);
    let read = array(&json);
    assert_eq!(read.fill().0, [1, 3, 2]);

    let new = ArrayMetadata::new(NewArray {
        shape: vec![10, 20],
        chunk_shape: vec![5, 6],
        data_type: read.data_type().clone(),
        fill: Some(read.fill().clone()),
        codecs: read.codecs().to_vec(),
        key_encoding: ChunkKeyEncoding::default(),
        dimension_names: None,
        attributes: Map::new(),
    })
    .unwrap();
    assert_eq!(new.fill(), read.fill());
    assert_eq!(new.to_json()["fill_value"], "AQID");
}

fn new_array() -> NewArray {
    NewArray {
        shape: vec![10, 20],
        chunk_shape: vec![5, 6],
        data_type: DataType::parse_name("float32").unwrap(),
        fill: None,
        codecs: vec![codec("bytes"), codec("zstd")],
        key_encoding: ChunkKeyEncoding::V2 { separator: Separator::Slash },
        dimension_names: Some(vec![Some("y".into()), None]),
        attributes: Map::new(),
    }
}

#[test]
fn a_new_array_is_read_as_it_was_asked_for() {
    let new = ArrayMetadata::new(new_array()).unwrap();
    assert_eq!(new.fill().0, [0; 4]);
    assert_eq!(new.dimension_names(), Some(&[Some("y".into()), None][..]));
    assert_eq!(NodeMetadata::parse(&new.to_bytes()), Ok(NodeMetadata::Array(new)));
}

#[test]
fn a_new_array_is_held_to_the_same_rules() {
    let refused = |change: fn(&mut NewArray)| {
        let mut array = new_array();
        change(&mut array);
        assert!(ArrayMetadata::new(array).is_err());
    };
    refused(|array| array.chunk_shape = vec![5, 0]);
    refused(|array| array.chunk_shape = vec![5]);
    refused(|array| array.codecs.clear());
    refused(|array| array.dimension_names = Some(vec![]));
    refused(|array| array.fill = Some(FillValue(vec![0; 3])));
}

#[test]
fn setters_change_one_member_and_leave_the_rest_in_place() {
    let mut array = array(&with("/extra", json!({"must_understand": false})));
    array.set_shape(&[11, 22]).unwrap();
    let mut expected = with("/shape", json!([11, 22]));
    expected["extra"] = json!({"must_understand": false});
    assert_eq!(array.to_json().to_string(), expected.to_string());
    assert_eq!(array.shape(), [11, 22]);
    assert!(array.set_shape(&[1]).is_err());
    assert!(array.attributes().is_empty());
    let attributes = Map::from_iter([("a".into(), json!(1))]);
    array.set_attributes(attributes.clone());
    assert_eq!(array.attributes(), &attributes);
}
