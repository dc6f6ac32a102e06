//! CSV, edges and `.npy`.

use std::io::Cursor;

use arrow_schema::DataType;
use proptest::prelude::*;
use shardine_geometry::files::{
    CsvReader, EdgeReader, EdgeWriter, FileFormat, ReadOptions, WithEdges,
};
use shardine_geometry::{Axis, GeometryKind, GeometrySink, GeometrySource};

use crate::{Endless, Output, all, converted, read, refused, survives_damage};

const POINTS: &str = "\
x,y,z,object_id,count,weight,big,inside,label,note
1,2,3,7,-4,1,18446744073709551615,true,left,
4.5,5,6,7,,2.5,0,False,\"right, far\",\" said \"\"no\"\"\"
7,8,9,-9,12,nan,3,TRUE,left,x
";

fn points() -> ReadOptions {
    ReadOptions::new(GeometryKind::Points)
}

#[test]
fn types_follow_from_all_values_however_the_file_is_cut() {
    let whole = read(FileFormat::Csv, POINTS.as_bytes(), &points()).unwrap();
    let types: Vec<String> =
        whole.schema.vertex_attributes.iter().map(|f| f.data_type().to_string()).collect();
    let text = "Dictionary(Int32, Utf8)";
    assert_eq!(types, ["Int64", "Float64", "UInt64", "Boolean", text, text]);
    assert_eq!(whole.schema.coordinate, DataType::Float64);
    assert!(whole.schema.objects);
    assert_eq!(whole.rows[1], "1.0,2.0,3.0,7,-4,1.0,18446744073709551615,true,left,");
    assert_eq!(whole.rows[2], "4.5,5.0,6.0,7,,2.5,0,false,\"right, far\",\" said \"\"no\"\"\"");
    for rows in [0, 1, 2] {
        let cut = read(FileFormat::Csv, POINTS.as_bytes(), &points().batch_rows(rows)).unwrap();
        assert_eq!((&cut.schema, &cut.rows), (&whole.schema, &whole.rows));
        assert_eq!(cut.batches, 3usize.div_ceil(rows.max(1)));
    }
}

#[test]
fn what_is_written_reads_back_the_same() {
    let first = read(FileFormat::Csv, POINTS.as_bytes(), &points()).unwrap();
    let again = converted(POINTS.as_bytes(), FileFormat::Csv, FileFormat::Csv, &points()).unwrap();
    assert_eq!(read(FileFormat::Csv, &again, &points()).unwrap(), first);
}

#[test]
fn a_given_type_needs_one_pass_and_leaves_other_columns_out() {
    let fields = vec![arrow_schema::Field::new("count", DataType::Int16, true)].into();
    let mut reader = CsvReader::with_attributes(POINTS.as_bytes(), &points(), &fields).unwrap();
    let rows = all(&mut reader).unwrap().rows;
    assert_eq!(
        rows,
        ["x,y,z,object_id,count", "1.0,2.0,3.0,7,-4", "4.5,5.0,6.0,7,", "7.0,8.0,9.0,-9,12"]
    );
}

#[test]
fn axes_have_any_names_and_separators_may_differ() {
    let axes = ["t", "w"].map(|name| Axis { name: name.into(), unit: None }).to_vec();
    let options = points().axes(axes).coordinate(DataType::Float32);
    let found = read(FileFormat::Csv, b"\xef\xbb\xbfw;x;t\r\n 1 ;2;0.1\r\n", &options).unwrap();
    assert_eq!(found.rows, ["t,w,x", "0.1,1.0,2"]);
    let found = read(FileFormat::Csv, b"y\tx\n1\t2\n", &points()).unwrap();
    assert_eq!(found.rows, ["x,y", "2.0,1.0"]);
    assert_eq!(read(FileFormat::Csv, b"x,y\n", &points()).unwrap().batches, 0);
}

#[test]
fn a_line_has_both_ends_in_a_row_or_two_rows() {
    let options = ReadOptions::new(GeometryKind::Lines).batch_rows(1);
    let ends = b"x0,y0,x1,y1,label\n1,2,3,4,a\n5,6,7,8,b\n";
    let found = read(FileFormat::Csv, ends, &options).unwrap();
    let rows = ["x,y,object_id,label", "1.0,2.0,0,a", "3.0,4.0,0,a", "5.0,6.0,1,b", "7.0,8.0,1,b"];
    assert_eq!(found.rows, rows);
    // What is written has a row for each end.
    let again = read(FileFormat::Csv, found.rows.join("\n").as_bytes(), &options).unwrap();
    assert_eq!(again.rows, rows);
    let named = b"x0,x1,object_id\n1,2,-5\n";
    assert_eq!(read(FileFormat::Csv, named, &options).unwrap().rows[2], "2.0,-5");
}

#[test]
fn errors_name_line_and_column() {
    let points = GeometryKind::Points;
    for (text, kind, message) in [
        ("x,y\n1,2\n3,far\n", points, "line 3, column y: \"far\" is not of type Float64"),
        ("x,y\n1,\n", points, "line 2, column y: the value is missing"),
        ("x,y\n1,2,3\n", points, "line 2: it has 3 cells, and the header has 2"),
        ("x,object_id\n1,0.5\n", points, "line 2, column object_id"),
        ("a,b\n1,2\n", points, "there is no column x; name the axes, which are among: a, b"),
        ("x,x\n1,2\n", points, "two columns have this name"),
        ("x,y\n1,2\n", GeometryKind::Polylines, "column object_id: it is missing"),
        ("x0,y0,x1\n1,2,3\n", GeometryKind::Lines, "column y1"),
        ("x0,x1,x\n1,2,3\n", GeometryKind::Lines, "column x: it would be both"),
        ("", points, "there is no column x"),
    ] {
        let error = refused(FileFormat::Csv, text.as_bytes(), kind);
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }
    assert!(refused(FileFormat::Csv, b"x,y\n1,\xff\n", points).contains("line 2, column y"));
    let wide = format!("x{}\n", ",".repeat(10_000));
    assert!(refused(FileFormat::Csv, wide.as_bytes(), points).contains("it has 10001 columns"));
}

#[test]
fn a_row_without_end_is_refused_before_it_fills_the_memory() {
    let mut text = b"x,label\n1,\"never closed\n".to_vec();
    text.resize(4 << 20, b'a');
    let error = refused(FileFormat::Csv, &text, GeometryKind::Points);
    assert!(error.contains("line 2: a row is longer than"), "{error}");
    let fields = Default::default();
    let Err(error) = CsvReader::with_attributes(Endless, &points(), &fields) else { panic!() };
    assert!(error.to_string().contains("longer than"), "{error}");
}

#[test]
fn edges_join_rows_of_another_file() {
    let vertices = || {
        let options = ReadOptions::new(GeometryKind::Graph).batch_rows(2);
        CsvReader::open(Cursor::new("x,y\n0,0\n1,0\n1,1\n"), &options).unwrap()
    };
    let open = |text: &'static str| EdgeReader::open(Cursor::new(text), GeometryKind::Graph, 2);
    let edges = |text: &'static str| open(text).unwrap();
    let text = "b,weight,a\n1,0.5,0\n2,1,1\n0,2,2\n";
    let mut graph = WithEdges::new(vertices(), edges(text)).unwrap();
    let found = all(&mut graph).unwrap();
    assert_eq!(found.links, [[0, 1], [1, 2], [2, 0]]);
    assert_eq!(found.link_attributes, ["a,b,weight", "0,1,0.5", "1,2,1.0", "2,0,2.0"]);
    assert_eq!(found.batches, 4);

    let mut wrong = WithEdges::new(vertices(), edges("a,b\n0,1\n1,2\n2,3\n")).unwrap();
    let error = all(&mut wrong).unwrap_err().to_string();
    assert!(error.contains("edges, line 4: there is no row 3"), "{error}");
    let Err(error) = open("a,c\n0,1\n") else { panic!() };
    assert!(error.to_string().contains("column b"), "{error}");
    let points = CsvReader::open(Cursor::new("x\n0\n"), &points()).unwrap();
    assert!(WithEdges::new(points, edges("a,b\n")).is_err());
}

#[test]
fn faces_join_rows_of_another_file() {
    let vertices = || {
        let options = ReadOptions::new(GeometryKind::Mesh).batch_rows(2);
        CsvReader::open(Cursor::new("x,y,z\n0,0,0\n1,0,0\n1,1,0\n0,1,0\n"), &options).unwrap()
    };
    let open = |text: &'static str| EdgeReader::open(Cursor::new(text), GeometryKind::Mesh, 2);
    let mut mesh = WithEdges::new(vertices(), open("a,b,c,area\n0,1,2,1\n3,2,0,2\n").unwrap());
    let found = all(mesh.as_mut().unwrap()).unwrap();
    assert_eq!(found.links, [[0, 1, 2], [3, 2, 0]]);
    assert_eq!(found.link_attributes, ["a,b,c,area", "0,1,2,1", "3,2,0,2"]);
    let mut wrong = WithEdges::new(vertices(), open("a,b,c\n0,1,4\n").unwrap()).unwrap();
    let error = all(&mut wrong).unwrap_err().to_string();
    assert!(error.contains("edges, line 2: there is no row 4"), "{error}");
    let Err(error) = open("a,b\n0,1\n") else { panic!() };
    assert!(error.to_string().contains("faces have columns a, b and c"), "{error}");
    let graph = ReadOptions::new(GeometryKind::Graph);
    let graph = CsvReader::open(Cursor::new("x,y\n0,0\n"), &graph).unwrap();
    assert!(WithEdges::new(graph, open("a,b,c\n").unwrap()).is_err());
}

#[test]
fn the_edges_of_paths_join_what_follows_in_an_object() {
    let text = "x,object_id\n0,3\n1,3\n2,3\n0,1\n0,2\n1,2\n";
    let options = ReadOptions::new(GeometryKind::Polylines).batch_rows(2);
    let mut source = CsvReader::open(Cursor::new(text), &options).unwrap();
    let output = Output::default();
    let mut sink = Box::new(EdgeWriter::create(output.clone(), source.schema()).unwrap());
    while let Some(batch) = source.next_batch().unwrap() {
        sink.push(&batch).unwrap();
    }
    sink.finish().unwrap();
    assert_eq!(output.text(), "a,b\n0,1\n1,2\n4,5\n");
}

#[test]
fn points_have_no_edges_and_faces_have_three_corners() {
    let write = |mut source: Box<dyn GeometrySource>| {
        let output = Output::default();
        let mut sink = Box::new(EdgeWriter::create(output.clone(), source.schema()).unwrap());
        while let Some(batch) = source.next_batch().unwrap() {
            sink.push(&batch).unwrap();
        }
        sink.finish().unwrap();
        output.text()
    };
    let points = CsvReader::open(Cursor::new("x\n0\n1\n"), &points()).unwrap();
    assert_eq!(write(Box::new(points)), "a,b\n");
    let text = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 2 4 3\n";
    let options = ReadOptions::new(GeometryKind::Mesh);
    let mesh = FileFormat::Obj.open(Cursor::new(text.as_bytes().to_vec()), &options).unwrap();
    assert_eq!(write(mesh), "a,b,c\n0,1,2\n1,3,2\n");
}

fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn npy_is_read_in_either_order() {
    let options = points().batch_rows(2);
    let expected = ["x,y", "1,-2", "3,4", "5,6"];
    let numbers = |values: [i16; 6]| values.map(i16::to_be_bytes).concat();
    let rows = npy(">i2", false, "(3, 2)", &numbers([1, -2, 3, 4, 5, 6]));
    let columns = npy(">i2", true, "(3, 2)", &numbers([1, 3, 5, -2, 4, 6]));
    for bytes in [rows, columns] {
        let found = read(FileFormat::Npy, &bytes, &options).unwrap();
        assert_eq!((found.batches, found.schema.coordinate), (2, DataType::Int16));
        assert_eq!(found.rows, expected);
    }
    let bytes = npy("<f4", false, "(2, 1)", &[1.5f32, 2.5].map(f32::to_le_bytes).concat());
    let lines = ReadOptions::new(GeometryKind::Lines).coordinate(DataType::Float64);
    assert_eq!(
        read(FileFormat::Npy, &bytes, &lines).unwrap().rows,
        ["x,object_id", "1.5,0", "2.5,0"]
    );
    survives_damage(FileFormat::Npy, &bytes, GeometryKind::Points);
}

#[test]
fn what_a_npy_file_cannot_hold_is_told() {
    let data = [0; 24];
    for (bytes, message) in [
        (npy("<f8", false, "(4, 1)", &data), "too short for 4 x 1"),
        (npy("<f8", false, "(4611686018427387904, 4)", &data), "too short"),
        (npy("<f8", false, "(3,)", &data), "its shape [3]"),
        (npy("<c16", false, "(1, 1)", &data), "type <c16"),
        (npy("<f8", false, "(3, 0)", &data), "0 numbers"),
        (b"x,y\n1,2\n".to_vec(), "does not start like one"),
    ] {
        let error = refused(FileFormat::Npy, &bytes, GeometryKind::Points);
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }
    let one = npy("<f8", false, "(3, 1)", &data);
    assert!(refused(FileFormat::Npy, &one, GeometryKind::Polylines).contains("objects"));
    assert!(refused(FileFormat::Npy, &one, GeometryKind::Lines).contains("3 rows"));
}

#[test]
fn npy_is_written_as_it_comes() {
    let options = points().batch_rows(2).coordinate(DataType::Float32);
    let bytes = converted(POINTS.as_bytes(), FileFormat::Csv, FileFormat::Npy, &options).unwrap();
    let found = read(FileFormat::Npy, &bytes, &points()).unwrap();
    assert_eq!(found.schema.coordinate, DataType::Float32);
    assert_eq!(found.rows, ["x,y,z", "1.0,2.0,3.0", "4.5,5.0,6.0", "7.0,8.0,9.0"]);
}

#[test]
fn what_a_format_loses_is_named() {
    let schema = read(FileFormat::Csv, POINTS.as_bytes(), &points()).unwrap().schema;
    assert_eq!(FileFormat::Csv.loses(&schema), [""; 0]);
    assert_eq!(FileFormat::Ply.loses(&schema), ["attribute label", "attribute note"]);
    assert_eq!(FileFormat::Npy.loses(&schema).len(), 7);
    let graph = shardine_geometry::GeometrySchema { kind: GeometryKind::Graph, ..schema };
    assert_eq!(FileFormat::Parquet.loses(&graph), ["edges"]);
}

#[test]
fn damaged_csv_is_answered() {
    survives_damage(FileFormat::Csv, POINTS.as_bytes(), GeometryKind::Points);
}

proptest! {
    #[test]
    fn floats_read_back_bit_for_bit(bits in proptest::collection::vec(any::<(u64, u32)>(), 1..20)) {
        let mut text = "x,y\n".to_owned();
        let mut expected = Vec::new();
        for (wide, narrow) in bits {
            let (wide, narrow) = (f64::from_bits(wide), f32::from_bits(narrow));
            prop_assume!(!wide.is_nan() && !narrow.is_nan());
            text.push_str(&format!("{wide:e},{}\n", f64::from(narrow)));
            expected.push((wide, narrow));
        }
        for (column, coordinate) in [(0, DataType::Float64), (1, DataType::Float32)] {
            let options = points().coordinate(coordinate);
            let all = read(FileFormat::Csv, text.as_bytes(), &options).unwrap();
            for (row, (wide, narrow)) in all.rows[1..].iter().zip(&expected) {
                let cell = row.split(',').nth(column).unwrap();
                if column == 0 {
                    prop_assert_eq!(cell.parse::<f64>().unwrap().to_bits(), wide.to_bits());
                } else {
                    prop_assert_eq!(cell.parse::<f32>().unwrap().to_bits(), narrow.to_bits());
                }
            }
        }
    }
}
