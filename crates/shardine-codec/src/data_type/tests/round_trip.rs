use proptest::prelude::*;

use super::*;

/// Bytes that are an element of the type, made from arbitrary bytes.
fn element(data_type: &DataType, bytes: &[u8]) -> FillValue {
    let bytes = match data_type.size() {
        ElementSize::Fixed(size) => bytes.iter().copied().cycle().take(size).collect(),
        ElementSize::Variable => bytes.to_vec(),
    };
    FillValue(bytes)
}

proptest! {
    #[test]
    fn every_bit_pattern_of_a_type_without_spare_bits_survives_json(
        bytes in prop::collection::vec(any::<u8>(), 16..24),
    ) {
        for data_type in every_type() {
            let whole = match data_type.kind() {
                Kind::Int | Kind::UInt | Kind::SmallFloat | Kind::Complex => data_type.bits() >= 8,
                Kind::Float | Kind::DateTime | Kind::TimeDelta | Kind::Raw | Kind::Bytes => true,
                _ => false,
            };
            if whole {
                let fill = element(&data_type, &bytes);
                let json = data_type.fill_to_json(&fill).to_string();
                let json: Value = serde_json::from_str(&json).unwrap();
                prop_assert_eq!(data_type.fill_from_json(&json), Ok(fill), "{:?}", data_type);
            }
        }
    }

    #[test]
    fn any_bytes_become_a_legal_fill_value_that_stays_the_same(
        bytes in prop::collection::vec(any::<u8>(), 0..24),
    ) {
        for data_type in every_type() {
            let json = data_type.fill_to_json(&FillValue(bytes.clone()));
            // Arbitrary numbers are rarely characters or UTF-8; the replacement is valid too.
            let fill = data_type.fill_from_json(&json).unwrap();
            prop_assert_eq!(data_type.check_fill(&fill), Ok(()));
            let again = data_type.fill_to_json(&fill);
            prop_assert_eq!(data_type.fill_from_json(&again), Ok(fill));
        }
    }

    #[test]
    fn text_survives_json(text in "\\PC{0,2}") {
        let fixed = json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}});
        for data_type in [named("string"), DataType::from_json(&fixed).unwrap()] {
            let fill = data_type.fill_from_json(&json!(text)).unwrap();
            prop_assert_eq!(data_type.fill_to_json(&fill), json!(text));
        }
    }

    #[test]
    fn base64_is_its_own_inverse(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
        prop_assert_eq!(base64::decode(&base64::encode(&bytes)), Some(bytes));
    }

    #[test]
    fn arbitrary_names_and_fill_values_never_panic(name in "\\PC{0,12}", text in "\\PC{0,12}") {
        let _ = DataType::parse_name(&name);
        for data_type in every_type() {
            let _ = data_type.fill_from_json(&json!(text));
        }
    }
}
