use proptest::prelude::*;

use super::*;

fn attributes() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
        "[NI\0]number:NaN".prop_map(Value::from),
    ];
    let value = value.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("\\PC{0,4}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    prop::collection::hash_map("\\PC{0,4}", value, 0..4)
        .prop_map(|members| members.into_iter().collect())
}

fn new_array() -> impl Strategy<Value = NewArray> {
    let dimension = (any::<u64>(), 1..1000_u64, prop::option::of("\\PC{0,5}"));
    let dimensions = prop::collection::vec(dimension, 0..5);
    let types = prop::sample::select(vec!["uint8", "float32", "complex64", "r24", "string"]);
    (dimensions, types, any::<[u8; 8]>(), any::<bool>(), any::<bool>(), attributes()).prop_map(
        |(dimensions, name, bytes, slash, v2, attributes)| {
            let data_type = DataType::parse_name(name).unwrap();
            // Arbitrary bytes, turned into an element by way of JSON.
            let json = data_type.fill_to_json(&FillValue(bytes.to_vec()));
            let fill = data_type.fill_from_json(&json).unwrap();
            let separator = if slash { Separator::Slash } else { Separator::Dot };
            NewArray {
                shape: dimensions.iter().map(|(length, ..)| *length).collect(),
                chunk_shape: dimensions.iter().map(|(_, length, _)| *length).collect(),
                data_type,
                fill: Some(fill),
                codecs: vec![codec("bytes"), CodecSpec { must_understand: v2, ..codec("x") }],
                key_encoding: if v2 {
                    ChunkKeyEncoding::V2 { separator }
                } else {
                    ChunkKeyEncoding::Default { separator }
                },
                dimension_names: slash
                    .then(|| dimensions.into_iter().map(|(.., name)| name).collect()),
                attributes,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(new in new_array()) {
        let array = ArrayMetadata::new(new.clone()).unwrap();
        prop_assert_eq!(Some(array.fill()), new.fill.as_ref());
        prop_assert_eq!(array.codecs(), &new.codecs[..]);
        let again = NodeMetadata::parse(&array.to_bytes());
        prop_assert_eq!(again, Ok(NodeMetadata::Array(array)));
    }

    #[test]
    fn a_group_is_read_again(attributes in attributes()) {
        let group = GroupMetadata::new(attributes);
        let again = NodeMetadata::parse(&group.to_bytes());
        prop_assert_eq!(again, Ok(NodeMetadata::Group(group)));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = NodeMetadata::parse(&bytes);
    }

    #[test]
    fn a_spoiled_document_never_panics(
        cut in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        word in prop::sample::select(vec!["NaN", "-Infinity", "99999999999999999999", "null", "-1",
            "{}", "[]", "\"\"", "1e9", "{\"must_understand\":false}"]),
    ) {
        let text = document().to_string().into_bytes();
        let at = cut.index(text.len());
        let _ = NodeMetadata::parse(&text[..at]);
        let mut spoiled = text.clone();
        spoiled[at] = byte;
        let _ = NodeMetadata::parse(&spoiled);
        for pointer in
            ["/shape", "/codecs/0", "/chunk_grid", "/fill_value", "/data_type", "/chunk_key_encoding"]
        {
            let marked = with(pointer, json!("HERE")).to_string().replace("\"HERE\"", word);
            if let Ok(node) = NodeMetadata::parse(marked.as_bytes()) {
                assert_eq!(NodeMetadata::parse(&node.to_bytes()), Ok(node));
            }
        }
    }
}
