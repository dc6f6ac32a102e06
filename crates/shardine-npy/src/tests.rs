use proptest::prelude::*;

use super::*;

fn file(version: u8, text: &str) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([version, 0]);
    let length = text.len() as u32;
    bytes.extend(&length.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
    bytes.extend(text.as_bytes());
    bytes
}

fn read(bytes: &[u8]) -> Result<Header, String> {
    Header::read(&mut &bytes[..]).map_err(|error| error.to_string())
}

fn plain(name: &str) -> Descr {
    Descr::Plain(name.into())
}

#[test]
fn every_version_is_read() {
    let text = "{'descr': '<u2', 'fortran_order': True, 'shape': (3, 4), }   \n";
    for version in 1..=3 {
        let bytes = file(version, text);
        let data_start = bytes.len() as u64;
        let header = Header { descr: plain("<u2"), fortran: true, shape: vec![3, 4], data_start };
        assert_eq!(read(&bytes), Ok(header));
    }
}

#[test]
fn the_header_of_numpy_itself_is_written() {
    let bytes = Header::bytes("<u2", &[3, 4]);
    assert_eq!(bytes.len(), 128);
    assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00v\x00");
    let text = b"{'descr': '<u2', 'fortran_order': False, 'shape': (3, 4), }";
    assert_eq!(&bytes[10..10 + text.len()], text);
    assert_eq!(bytes.last(), Some(&b'\n'));
}

#[test]
fn shapes_are_tuples_of_any_length() {
    for shape in [vec![], vec![7], vec![0, 5], vec![1, 2, 3]] {
        let bytes = Header::bytes("|u1", &shape);
        assert_eq!(bytes.len() % 64, 0);
        assert_eq!(read(&bytes).unwrap().shape, shape);
    }
}

#[test]
fn the_header_of_a_growing_array_keeps_its_length() {
    let first = Header::bytes_of_growing("<f8", &[0, 3]);
    for rows in [9, 10, 123_456, u64::MAX] {
        let bytes = Header::bytes_of_growing("<f8", &[rows, 3]);
        assert_eq!(bytes.len(), first.len());
        assert_eq!(read(&bytes).unwrap().shape, [rows, 3]);
    }
}

#[test]
fn a_struct_is_a_list_of_fields() {
    let descr = "[('x', '<f4'), ('it\\'s', [('y', '>i2')])]";
    let fields = Descr::Fields(vec![
        ("x".into(), plain("<f4")),
        ("it's".into(), Descr::Fields(vec![("y".into(), plain(">i2"))])),
    ]);
    assert_eq!(read(&Header::bytes(descr, &[2])).unwrap().descr, fields);
    assert_eq!(Descr::parse(descr).unwrap(), fields);
}

#[test]
fn a_header_too_long_for_version_1_is_version_2() {
    let fields: Vec<String> = (0..5000).map(|i| format!("('field{i}', '<f4')")).collect();
    let bytes = Header::bytes(&format!("[{}]", fields.join(", ")), &[2]);
    assert_eq!(bytes[6], 2);
    assert!(matches!(read(&bytes).unwrap().descr, Descr::Fields(fields) if fields.len() == 5000));
}

#[test]
fn damage_is_named() {
    let good = "{'descr': '<u2', 'fortran_order': False, 'shape': (3,)}";
    for (bytes, message) in [
        (b"\x93NUMPX\x01\x00".to_vec(), "does not start like one"),
        (b"\x93NUM".to_vec(), "ends inside"),
        (file(1, good)[..40].to_vec(), "ends inside"),
        (file(9, good), "version 9.0"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "too long"),
        (file(1, "{'descr': '<u2', 'fortran_order': False}"), "no 'shape'"),
        (file(1, "{'shape': (), 'shape': (), 'fortran_order': True}"), "'shape' twice"),
        (file(1, "{'shape': 3, 'fortran_order': True}"), "not a tuple"),
        (file(1, "{'shape': (3), 'fortran_order': True}"), "not a tuple"),
        (file(1, "{'shape': (-3,), 'fortran_order': True}"), "'-'"),
        (file(1, "{'shape': (), 'fortran_order': 1}"), "neither True nor False"),
        (file(1, "{'shape': (99999999999999999999,)}"), "too large"),
        (file(1, &"[".repeat(40_000)), "too deeply"),
        (file(1, "{'a': 'b"), "unterminated string"),
        (file(1, "{} {}"), "after the end"),
        (file(1, "{'descr': 'O', 'fortran_order': False, 'shape': ('a',)}"), "other than lengths"),
        (
            file(1, "{'descr': [('x', '<f4', (3,))], 'fortran_order': False, 'shape': ()}"),
            "not a name and a type",
        ),
    ] {
        let error = read(&bytes).unwrap_err();
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
        let mut headed = b"\x93NUMPY\x01\x00\x80\x00".to_vec();
        headed.extend(&bytes);
        let _ = read(&headed);
    }

    #[test]
    fn any_text_is_answered(text in "[{}()\\[\\]',:<u2TrueFalsdchp \\\\x0-9L\"]{0,120}") {
        let _ = read(&file(1, &text));
        let _ = read(&file(3, &text));
    }

    #[test]
    fn what_is_written_is_read_back(shape in proptest::collection::vec(any::<u64>(), 0..6)) {
        let bytes = Header::bytes("<f8", &shape);
        let header = read(&bytes).unwrap();
        prop_assert_eq!(header.data_start, bytes.len() as u64);
        prop_assert_eq!(header.shape, shape);
        prop_assert_eq!(header.descr, plain("<f8"));
    }
}
