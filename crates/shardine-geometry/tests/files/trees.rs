//! `.swc`.

use std::io::Cursor;

use arrow_schema::DataType;
use shardine_geometry::GeometryKind;
use shardine_geometry::files::{
    CsvReader, EdgeReader, FileFormat, ReadOptions, SwcObjects, WithEdges,
};

use crate::{read, refused, survives_damage, written};

const KIND: GeometryKind = GeometryKind::Skeletons;

/// Two trees that are mixed, in which a node comes before its parent.
const FOREST: &str = "\
# ORIGINAL_SOURCE by hand
1 1 0 0 0 2.5 -1
10 1 5 5 5 1 -1   # the second soma
3 3 2 0 0 0.5 2
2 3 1 0 0 0.5 1

11 2 6 5 5 1e-3 10 and more
";

#[test]
fn the_trees_of_a_forest_are_objects() {
    for rows in [1, 2, 100] {
        let options = ReadOptions::new(KIND).batch_rows(rows);
        let found = read(FileFormat::Swc, FOREST.as_bytes(), &options).unwrap();
        assert_eq!(
            found.rows,
            [
                "x,y,z,object_id,type,radius",
                "0.0,0.0,0.0,0,1,2.5",
                "2.0,0.0,0.0,0,3,0.5",
                "1.0,0.0,0.0,0,3,0.5",
                "5.0,5.0,5.0,1,1,1.0",
                "6.0,5.0,5.0,1,2,0.001",
            ]
        );
        // Child and parent.
        assert_eq!(found.links, [[1, 2], [2, 0], [4, 3]]);
    }
    survives_damage(FileFormat::Swc, FOREST.as_bytes(), KIND);
}

#[test]
fn a_forest_can_be_one_object() {
    let options =
        ReadOptions::new(KIND).swc_objects(SwcObjects::One(77)).coordinate(DataType::Float32);
    let found = read(FileFormat::Swc, FOREST.as_bytes(), &options).unwrap();
    assert_eq!(found.rows[2], "5.0,5.0,5.0,77,1,1.0");
    assert_eq!(found.links, [[2, 3], [3, 0], [4, 1]]);
    let options = ReadOptions::new(KIND).swc_objects(SwcObjects::PerTree(5));
    assert!(read(FileFormat::Swc, FOREST.as_bytes(), &options).unwrap().rows[5].contains(",6,2,"));
}

#[test]
fn errors_name_the_line() {
    for (text, message) in [
        ("1 1 0 0 0 1\n", "line 1: a node has 7 columns, and this line has 6"),
        ("1 1 0 0 0 1 -1\n1 1 0 0 0 1 -1\n", "line 2: node 1 is also in line 1"),
        ("1 1 0 0 0 1 5\n", "line 1: its parent 5 is not in the file"),
        ("1 1 0 0 0 1 2\n2 1 0 0 0 1 1\n", "its ancestors form a ring"),
        ("a 1 0 0 0 1 -1\n", "line 1: \"a\" is not the number of a node"),
        ("1 1 0 far 0 1 -1\n", "line 1: \"far\" in column y"),
    ] {
        let error = refused(FileFormat::Swc, text.as_bytes(), KIND);
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }
    assert!(refused(FileFormat::Swc, b"", GeometryKind::Mesh).contains("cannot hold mesh"));
    // A parent of 0 is that of a root, if there is no node 0.
    let options = ReadOptions::new(KIND);
    let root = read(FileFormat::Swc, b"1 1 0 0 0 1 0\n", &options).unwrap();
    assert_eq!((root.rows.len(), root.links.len()), (2, 0));
    let node = read(FileFormat::Swc, b"0 1 0 0 0 1 -1\n1 1 0 0 0 1 0\n", &options).unwrap();
    assert_eq!(node.links, [[1, 0]]);
}

#[test]
fn several_roots_are_written_as_such_and_parents_first() {
    for objects in [SwcObjects::PerTree(0), SwcObjects::One(0)] {
        let options = ReadOptions::new(KIND).swc_objects(objects).batch_rows(2);
        let mut source = FileFormat::Swc.open(Cursor::new(FOREST), &options).unwrap();
        let text = String::from_utf8(written(FileFormat::Swc, &mut *source).unwrap()).unwrap();
        assert_eq!(
            text,
            "# id type x y z radius parent\n\
             1 1 0.0 0.0 0.0 2.5 -1\n\
             2 3 1.0 0.0 0.0 0.5 1\n\
             3 3 2.0 0.0 0.0 0.5 2\n\
             4 1 5.0 5.0 5.0 1.0 -1\n\
             5 2 6.0 5.0 5.0 0.001 4\n"
        );
    }
}

#[test]
fn a_graph_without_rings_is_a_forest_whatever_its_directions() {
    let graph = |edges: &'static str| {
        let options = ReadOptions::new(GeometryKind::Graph);
        let vertices = "x,y,z\n0,0,0\n1,0,0\n2,0,0\n9,0,0\n";
        let vertices = CsvReader::open(Cursor::new(vertices), &options).unwrap();
        let edges = EdgeReader::open(Cursor::new(edges), GeometryKind::Graph, 10).unwrap();
        written(FileFormat::Swc, &mut WithEdges::new(vertices, edges).unwrap())
    };
    // The middle would have two parents.
    let text = String::from_utf8(graph("a,b\n1,0\n1,2\n").unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "1 0 0.0 0.0 0.0 0 -1",
            "2 0 1.0 0.0 0.0 0 1",
            "3 0 2.0 0.0 0.0 0 2",
            "4 0 9.0 0.0 0.0 0 -1"
        ]
    );
    let error = graph("a,b\n0,1\n1,2\n2,0\n").unwrap_err().to_string();
    assert!(error.contains("a ring, which the edge from row 2 to row 0 closes"), "{error}");
}
