use crate::support::{Folder, npy, split_npy, u16s};

fn array(folder: &Folder, shape: &str, dtype: &str) {
    folder.ok(&["create", "a", "--shape", shape, "--dtype", dtype, "--overwrite"]);
}

#[test]
fn fortran_order_is_turned_into_c_order() {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "2,3,4", "--dtype", "uint16", "--chunk", "2,2,2", "--shard",
        "2,4,4",
    ]);
    // Element (i, j, k) is 100 i + 10 j + k.
    let mut data = Vec::new();
    for k in 0..4 {
        for j in 0..3 {
            for i in 0..2 {
                data.push(100 * i + 10 * j + k);
            }
        }
    }
    folder.put("in.npy", &npy(1, "'<u2'", true, "(2, 3, 4)", &u16s(data)));
    folder.ok(&["write", "a", "in.npy"]);
    let expected =
        (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| 100 * i + 10 * j + k)));
    assert_eq!(folder.ok(&["read", "a", "-o", "-"]), u16s(expected));
}

#[test]
fn big_endian_files_of_every_version() {
    let folder = Folder::new();
    for version in 1..=3 {
        array(&folder, "3", "int32");
        let data: Vec<u8> = [1i32, -2, 70_000].iter().flat_map(|v| v.to_be_bytes()).collect();
        folder.put("in.npy", &npy(version, "'>i4'", false, "(3,)", &data));
        folder.ok(&["write", "a", "in.npy"]);
        assert_eq!(folder.text(&["read", "a"]), "    1    -2 70000\n");
    }
}

#[test]
fn types_with_parts_are_turned_round_part_by_part() {
    let folder = Folder::new();
    array(&folder, "1", "complex64");
    let data = [1.5f32.to_be_bytes(), 2.5f32.to_be_bytes()].concat();
    folder.put("in.npy", &npy(1, "'>c8'", false, "(1,)", &data));
    folder.ok(&["write", "a", "in.npy"]);
    assert_eq!(folder.text(&["read", "a"]), "1.5+2.5i\n");
}

#[test]
fn numbers_are_converted_only_when_asked_for_and_only_if_they_fit() {
    let folder = Folder::new();
    array(&folder, "2,2", "uint8");
    let data: Vec<u8> = [0.0f64, 1.9, 254.2, 255.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    folder.put("in.npy", &npy(1, "'<f8'", false, "(2, 2)", &data));
    let errors = folder.refused(&["write", "a", "in.npy"]);
    assert!(
        errors.contains("the file holds <f8, but the array holds uint8; use --cast to convert"),
        "{errors}"
    );
    folder.ok(&["write", "a", "--cast", "in.npy"]);
    assert_eq!(folder.text(&["read", "a"]), "  0   1\n254 255\n");
    let data: Vec<u8> = [0i16, 1, 256, 3].iter().flat_map(|v| v.to_be_bytes()).collect();
    folder.put("in.npy", &npy(1, "'>i2'", false, "(2, 2)", &data));
    let errors = folder.refused(&["write", "a", "--cast", "in.npy"]);
    assert!(errors.contains("element [1, 0] is 256"), "{errors}");
    // What was there is still there.
    assert_eq!(folder.text(&["read", "a"]), "  0   1\n254 255\n");
}

#[test]
fn types_that_numpy_lacks_are_views_and_come_back() {
    let folder = Folder::new();
    array(&folder, "2", "bfloat16");
    folder.put("in.raw", &[0x80, 0x3f, 0x00, 0xc0]);
    folder.ok(&["write", "a", "in.raw"]);
    assert_eq!(folder.text(&["read", "a"]), " 1.0 -2.0\n");
    let output = folder.run(&["read", "a", "-o", "out.npy"]);
    assert_eq!(output.status.code(), Some(0));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("numpy has no bfloat16; the file stores each element as <u2"),
        "{errors}"
    );
    let file = folder.get("out.npy");
    let (header, data) = split_npy(&file);
    assert!(header.contains("'<u2'"));
    assert_eq!(data, [0x80, 0x3f, 0x00, 0xc0]);
    folder.ok(&["write", "a", "out.npy"]);
}

#[test]
fn a_struct_has_a_list_of_fields() {
    let folder = Folder::new();
    let dtype = r#"{"name": "struct", "configuration": {"fields": [
        {"name": "x", "data_type": "uint8"}, {"name": "y", "data_type": "int16"}]}}"#;
    array(&folder, "2", dtype);
    folder.put(
        "in.npy",
        &npy(1, "[('x', '|u1'), ('y', '>i2')]", false, "(2,)", &[1, 0, 2, 3, 0xff, 0xff]),
    );
    folder.ok(&["write", "a", "in.npy"]);
    folder.ok(&["read", "a", "-o", "out.npy"]);
    let file = folder.get("out.npy");
    let (header, data) = split_npy(&file);
    assert!(header.contains("'descr': [('x', '|u1'), ('y', '<i2')],"), "{header}");
    assert_eq!(data, [1, 2, 0, 3, 0xff, 0xff]);
}

#[test]
fn hostile_files_are_refused() {
    let folder = Folder::new();
    array(&folder, "2", "uint8");
    let good = npy(1, "'|u1'", false, "(2,)", &[1, 2]);
    for (bytes, message) in [
        (&b""[..], "ends inside its .npy header"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", "too long"),
        (b"not a numpy file", "is not a .npy file"),
        (&good[..good.len() - 1], "its header says"),
        (&[&good[..], &[0]].concat(), "its header says"),
        (&npy(1, "'|O'", false, "(2,)", &[1, 2]), "holds |O"),
        (&npy(1, "'|u1'", false, "(18446744073709551615, 18446744073709551615)", &[]), "has shape"),
    ] {
        folder.put("in.npy", bytes);
        let errors = folder.refused(&["write", "a", "in.npy"]);
        assert!(errors.contains(message), "{errors}");
    }
}
