use proptest::prelude::*;

use super::*;

fn encodings() -> [ChunkKeyEncoding; 4] {
    let (slash, dot) = (Separator::Slash, Separator::Dot);
    [
        ChunkKeyEncoding::Default { separator: slash },
        ChunkKeyEncoding::Default { separator: dot },
        ChunkKeyEncoding::V2 { separator: slash },
        ChunkKeyEncoding::V2 { separator: dot },
    ]
}

#[test]
fn keys_are_those_of_the_specification() {
    let keys = |cell: &[u64]| encodings().map(|encoding| encoding.key(cell));
    assert_eq!(keys(&[1, 23, 45]), ["c/1/23/45", "c.1.23.45", "1/23/45", "1.23.45"]);
    assert_eq!(keys(&[0]), ["c/0", "c.0", "0", "0"]);
    assert_eq!(keys(&[]), ["c", "c", "0", "0"]);
    assert_eq!(encodings()[0].key(&[u64::MAX]), "c/18446744073709551615");
}

#[test]
fn only_the_exact_key_is_a_key() {
    for encoding in encodings() {
        for key in [
            "",
            "c",
            "c/",
            "c.",
            "c/1/",
            "c.1.",
            "/1/2",
            "1/2/",
            "c/01/2",
            "c/1/ 2",
            "c/1/+2",
            "c/1/-2",
            "c/1/2/3",
            "c/1.2",
            "c.1/2",
            "c/18446744073709551616/0",
            "C/1/2",
            "zarr.json",
            "1..2",
            "01.2",
            "1.2.3",
            "٣/1",
            "c/٣/1",
        ] {
            assert_eq!(encoding.parse(key, 2), None, "{encoding:?} {key}");
        }
    }
    assert_eq!(encodings()[0].parse("c/1", 0), None);
    assert_eq!(encodings()[2].parse("1", 0), None);
}

#[test]
fn separators_have_defaults() {
    let of = |json: Value| ChunkKeyEncoding::from_json(&json).unwrap();
    let [default, dotted, slashed, v2] = encodings();
    assert_eq!(of(json!("default")), default);
    assert_eq!(of(json!({"name": "v2"})), v2);
    assert_eq!(of(json!({"name": "v2", "configuration": {}})), v2);
    assert_eq!(of(json!({"name": "v2", "configuration": {"separator": "/"}})), slashed);
    assert_eq!(of(json!({"name": "default", "configuration": {"separator": "."}})), dotted);
    for encoding in encodings() {
        assert_eq!(of(encoding.to_json()), encoding);
    }
}

proptest! {
    #[test]
    fn parsing_is_the_inverse_of_naming(cell in prop::collection::vec(any::<u64>(), 0..6)) {
        for encoding in encodings() {
            prop_assert_eq!(encoding.parse(&encoding.key(&cell), cell.len()), Some(cell.clone()));
        }
    }

    #[test]
    fn a_key_that_parses_is_the_key_of_its_cell(key in "c?[/.]?[0-9]{1,3}([/.][0-9]{1,3}){0,3}") {
        for encoding in encodings() {
            for rank in 0..5 {
                if let Some(cell) = encoding.parse(&key, rank) {
                    prop_assert_eq!(encoding.key(&cell), key.clone());
                }
            }
        }
    }
}
