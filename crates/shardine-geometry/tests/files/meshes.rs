//! `.obj` and `.ply`.

use arrow_schema::DataType;
use shardine_geometry::GeometryKind;
use shardine_geometry::files::{FileFormat, ReadOptions};

use crate::{converted, read, refused, survives_damage};

const MESH: GeometryKind = GeometryKind::Mesh;

const OBJ: &str = "\
# a square and a triangle
mtllib none.mtl
v 0 0 0 0.5 0.5 0.5
v 1 0 0
v 1 1 0
v 0 1e0 0
vn 0 0 1
f 1/1/1 2//1 \\
  3/2 4
l 1 2 3
v 0.5 0.5 -2.25
f -1 -5 -4
";

#[test]
fn obj_polygons_become_fans() {
    for rows in [1, 3, 100] {
        let options = ReadOptions::new(MESH).batch_rows(rows);
        let found = read(FileFormat::Obj, OBJ.as_bytes(), &options).unwrap();
        assert_eq!(found.links, [[0, 1, 2], [0, 2, 3], [4, 0, 1]]);
        assert_eq!(found.rows.len(), 6);
        assert_eq!(found.rows[5], "0.5,0.5,-2.25");
    }
    let graph = ReadOptions::new(GeometryKind::Graph);
    assert_eq!(read(FileFormat::Obj, OBJ.as_bytes(), &graph).unwrap().links, [[0, 1], [1, 2]]);
    let points = ReadOptions::new(GeometryKind::Points);
    assert_eq!(read(FileFormat::Obj, OBJ.as_bytes(), &points).unwrap().links.len(), 0);
    survives_damage(FileFormat::Obj, OBJ.as_bytes(), MESH);
}

#[test]
fn obj_faces_may_come_first() {
    let text = b"f 1 2 3\nv 0 0 0\nv 1 0 0\nv 0 1 0\n";
    for rows in [1, 100] {
        let options = ReadOptions::new(MESH).batch_rows(rows);
        assert_eq!(read(FileFormat::Obj, text, &options).unwrap().links, [[0, 1, 2]]);
    }
}

#[test]
fn obj_errors_name_the_line() {
    for (text, message) in [
        ("v 0 0 0\nv 0 0\n", "line 2: a vertex has three coordinates"),
        ("v 0 0 x\n", "line 1"),
        ("v 0 0 0\nf 1 1\n", "line 2: it names 2 vertices"),
        ("v 0 0 0\nf 1 2 3\nv 0 0 0\n", "line 2: there is no vertex 3: there are 2"),
        ("v 0 0 0\nf 0 1 1\n", "line 2: \"0\" is not a vertex"),
        ("v 0 0 0\nf -2 1 1\n", "line 2: \"-2\" is not a vertex"),
        ("v 0 0 0\nf 1 1 9223372036854775807\n", "there is no vertex 9223372036854775807"),
    ] {
        let error = refused(FileFormat::Obj, text.as_bytes(), MESH);
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }
    let long = vec![b' '; 2 << 20];
    assert!(refused(FileFormat::Obj, &long, MESH).contains("line 1: it is longer"));
}

#[test]
fn obj_holds_three_axes_only() {
    let csv = b"x,y,z,t\n1,2,3,4\n";
    let axes = ["x", "y", "z", "t"].map(|n| shardine_geometry::Axis { name: n.into(), unit: None });
    let options = ReadOptions::new(GeometryKind::Points).axes(axes.to_vec());
    let error = converted(csv, FileFormat::Csv, FileFormat::Obj, &options).unwrap_err();
    assert_eq!(error.to_string(), ".obj cannot hold positions with 4 axes");
    assert!(converted(csv, FileFormat::Csv, FileFormat::Ply, &options).is_ok());
}

#[test]
fn obj_and_ply_hold_the_same_mesh() {
    let options = ReadOptions::new(MESH).batch_rows(2).coordinate(DataType::Float32);
    let first = read(FileFormat::Obj, OBJ.as_bytes(), &options).unwrap();
    let ply = converted(OBJ.as_bytes(), FileFormat::Obj, FileFormat::Ply, &options).unwrap();
    let found = read(FileFormat::Ply, &ply, &ReadOptions::new(MESH)).unwrap();
    assert_eq!((&found.schema, &found.rows), (&first.schema, &first.rows));
    assert_eq!(found.links, first.links);
    let obj = converted(&ply, FileFormat::Ply, FileFormat::Obj, &options).unwrap();
    let found = read(FileFormat::Obj, &obj, &options).unwrap();
    assert_eq!((&found.rows, &found.links), (&first.rows, &first.links));
}

#[test]
fn paths_in_obj_are_lines() {
    let csv = b"x,y,z,object_id\n0,0,0,1\n1,0,0,1\n0,0,0,2\n0,1,0,2\n0,2,0,2\n";
    let options = ReadOptions::new(GeometryKind::Polylines).batch_rows(2);
    let obj = converted(csv, FileFormat::Csv, FileFormat::Obj, &options).unwrap();
    let graph = ReadOptions::new(GeometryKind::Graph);
    let found = read(FileFormat::Obj, &obj, &graph).unwrap();
    assert_eq!(found.links, [[0, 1], [2, 3], [3, 4]]);
}

const ASCII: &str = "\
ply
format ascii 1.0
comment made by hand
element vertex 4
property float x
property float y
property float z
property uchar red
property int object_id
element face 2
property uchar quality
property list uchar int vertex_indices
property list uchar float texcoord
element other 1
property list int double many
end_header
0 0 0 255 5
1 0 0 0 5
1 1 0.1 7 5

0 1 0 8 5
9 4 0 1 2 3 2 0.5 0.5
8 3 0 1 3 0
3 1 2 3
";

/// The same file in bytes.
fn binary(big_endian: bool) -> Vec<u8> {
    let (header, _) = ASCII.split_at(ASCII.find("end_header\n").unwrap() + 11);
    let name = if big_endian { "binary_big_endian" } else { "binary_little_endian" };
    let mut bytes = header.replace("ascii", name).into_bytes();
    let number = |bytes: &mut Vec<u8>, mut value: Vec<u8>| {
        if big_endian {
            value.reverse();
        }
        bytes.extend(value);
    };
    for (position, red) in
        [([0.0, 0.0, 0.0], 255u8), ([1.0, 0.0, 0.0], 0), ([1.0, 1.0, 0.1], 7), ([0.0, 1.0, 0.0], 8)]
    {
        position.iter().for_each(|x: &f32| number(&mut bytes, x.to_le_bytes().to_vec()));
        bytes.push(red);
        number(&mut bytes, 5i32.to_le_bytes().to_vec());
    }
    for (quality, corners, texture) in [(9u8, &[0i32, 1, 2, 3][..], 2u8), (8, &[0, 1, 3], 0)] {
        bytes.extend([quality, corners.len() as u8]);
        corners.iter().for_each(|c| number(&mut bytes, c.to_le_bytes().to_vec()));
        bytes.push(texture);
        (0..texture).for_each(|_| number(&mut bytes, 0.5f32.to_le_bytes().to_vec()));
    }
    number(&mut bytes, 3i32.to_le_bytes().to_vec());
    (0..3).for_each(|i| number(&mut bytes, f64::from(i).to_le_bytes().to_vec()));
    bytes
}

#[test]
fn ply_is_read_from_text_and_from_bytes_of_both_orders() {
    for bytes in [ASCII.as_bytes().to_vec(), binary(false), binary(true)] {
        for rows in [1, 2, 100] {
            let options = ReadOptions::new(MESH).batch_rows(rows);
            let found = read(FileFormat::Ply, &bytes, &options).unwrap();
            assert_eq!(found.rows[0], "x,y,z,object_id,red");
            assert_eq!(found.rows[3], "1.0,1.0,0.1,5,7");
            assert_eq!(found.links, [[0, 1, 2], [0, 2, 3], [0, 1, 3]]);
            let attributes = ["a,b,c,quality", "0,1,2,9", "0,2,3,9", "0,1,3,8"];
            assert_eq!(found.link_attributes, attributes);
            assert_eq!(found.schema.coordinate, DataType::Float32);
        }
        survives_damage(FileFormat::Ply, &bytes, MESH);
    }
}

#[test]
fn ply_keeps_attributes_of_vertices_and_faces() {
    let options = ReadOptions::new(MESH);
    let first = read(FileFormat::Ply, ASCII.as_bytes(), &options).unwrap();
    let small = ReadOptions::new(MESH).batch_rows(1);
    let bytes = converted(ASCII.as_bytes(), FileFormat::Ply, FileFormat::Ply, &small).unwrap();
    let found = read(FileFormat::Ply, &bytes, &options).unwrap();
    assert_eq!(found.schema, first.schema);
    assert_eq!((found.rows, found.links), (first.rows, first.links));
    assert_eq!(found.link_attributes, first.link_attributes);
}

#[test]
fn ply_faces_may_come_before_vertices_and_edges_are_read() {
    let text = "ply\nformat ascii 1.0\nelement edge 2\nproperty int vertex1\nproperty int vertex2\n\
                property float weight\nelement vertex 3\nproperty double x\nproperty double y\n\
                end_header\n0 1 0.5\n2 1 0.25\n0 0\n1 0\n2 0\n";
    let options = ReadOptions::new(GeometryKind::Graph).batch_rows(1);
    let found = read(FileFormat::Ply, text.as_bytes(), &options).unwrap();
    assert_eq!(found.links, [[0, 1], [2, 1]]);
    assert_eq!(found.link_attributes, ["a,b,weight", "0,1,0.5", "2,1,0.25"]);
    let bytes = converted(text.as_bytes(), FileFormat::Ply, FileFormat::Ply, &options).unwrap();
    let again = read(FileFormat::Ply, &bytes, &options).unwrap();
    assert_eq!((again.rows, again.links), (found.rows, found.links));
    assert_eq!(again.link_attributes, found.link_attributes);
}

#[test]
fn ply_headers_are_not_trusted() {
    let head = "ply\nformat binary_little_endian 1.0\n";
    let vertex = "element vertex 1\nproperty float x\n";
    for (text, message) in [
        ("plx\n".to_owned(), "line 1"),
        ("ply\nformat binary 1.0\n".to_owned(), "line 2: there is no format"),
        (format!("{head}element vertex -1\n"), "line 3: \"-1\""),
        (format!("{head}property float x\n"), "line 3: a property comes before"),
        (format!("{head}{vertex}property float x\n"), "line 5: two properties"),
        (format!("{head}{vertex}element vertex 2\n"), "line 5: two elements"),
        (format!("{head}{vertex}property quad y\n"), "line 5: there is no type \"quad\""),
        (format!("{head}{vertex}end_header\n"), "element vertex: the file is too short for 1"),
        (
            format!(
                "{head}element vertex 18446744073709551615\nproperty float x\nend_header\n...."
            ),
            "element vertex: the file is too short for 18446744073709551615",
        ),
        (format!("{head}element vertex 99999999999\nend_header\n"), "it has no properties"),
        (format!("{head}{vertex}end_header\n...."), "element face: there is none"),
        (
            format!("{head}{vertex}element face 0\nend_header\n...."),
            "element face: it does not say",
        ),
        (head.to_owned(), "ends inside its header"),
    ] {
        let error = refused(FileFormat::Ply, text.as_bytes(), MESH);
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }
    let damaged = ASCII.replace("8 3 0 1 3 0", "8 3 0 1 4 0");
    let error = refused(FileFormat::Ply, damaged.as_bytes(), MESH);
    assert_eq!(error, ".ply, line 23: there is no vertex 4: there are 4");
    let damaged = ASCII.replace("8 3 0 1 3 0", "8 2 0 1 0");
    assert!(refused(FileFormat::Ply, damaged.as_bytes(), MESH).contains("a face has three"));
    let mut bytes = binary(false);
    let end = bytes.len();
    bytes[end - 40] = 9;
    assert!(refused(FileFormat::Ply, &bytes, MESH).contains("face 1: "));
}

#[test]
fn what_ply_cannot_hold_is_told() {
    let options = ReadOptions::new(GeometryKind::Points);
    let large = b"x,id\n1,9007199254740993\n";
    let error = converted(large, FileFormat::Csv, FileFormat::Ply, &options).unwrap_err();
    assert!(error.to_string().contains("column id in row 0"), "{error}");
    let absent = b"x,n\n1,5\n2,\n";
    let error = converted(absent, FileFormat::Csv, FileFormat::Ply, &options).unwrap_err();
    assert!(error.to_string().contains("an absent value: column n, row 1"), "{error}");
    let named = b"x,object_id,flag\n1,-7,true\n";
    let bytes = converted(named, FileFormat::Csv, FileFormat::Ply, &options).unwrap();
    let rows = read(FileFormat::Ply, &bytes, &options).unwrap().rows;
    assert_eq!(rows, ["x,object_id,flag", "1.0,-7,1"]);
}
