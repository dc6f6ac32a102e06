//! Every kind of store, as zarr-vectors 0.9.2 writes it.

use std::collections::BTreeMap;

use serde_json::json;
use shardine::vectors::{GeometryKind, VectorQuery, VectorStore};
use shardine::{Group, SetKind, open};

use crate::golden::{Answer, Golden, ask, engine, golden, sorted};

fn all(golden: &Golden) -> Answer {
    let answer = ask(&golden.open(), &VectorQuery::new()).unwrap();
    assert_eq!(answer.notes, [""; 0]);
    answer
}

/// The rows of each object, in order.
fn by_id(answer: &Answer) -> BTreeMap<i64, Vec<Vec<f64>>> {
    let mut objects: BTreeMap<i64, Vec<Vec<f64>>> = BTreeMap::new();
    for row in &answer.rows {
        objects.entry(row.id.unwrap()).or_default().push(row.position.clone());
    }
    objects
}

fn given_by_id(golden: &Golden) -> BTreeMap<i64, Vec<Vec<f64>>> {
    let mut objects: BTreeMap<i64, Vec<Vec<f64>>> = BTreeMap::new();
    for (id, position) in golden.ids().into_iter().zip(golden.positions()) {
        objects.entry(id).or_default().push(position);
    }
    objects
}

/// The attribute of each vertex beside its position, in a fixed order.
fn beside_positions(answer: &Answer, name: &str) -> Vec<(Vec<f64>, Vec<f64>)> {
    sorted(answer.rows.iter().map(|row| (row.position.clone(), row.values[name].clone())).collect())
}

fn given_beside(golden: &Golden, name: &str) -> Vec<(Vec<f64>, Vec<f64>)> {
    let values = golden.given["attributes"][name].as_array().unwrap().clone();
    let value = |value: &serde_json::Value| match value {
        serde_json::Value::Array(_) => serde_json::from_value(value.clone()).unwrap(),
        one => vec![one.as_f64().unwrap()],
    };
    sorted(golden.positions().into_iter().zip(values.iter().map(value)).collect())
}

fn given_links(golden: &Golden) -> Vec<Vec<Vec<f64>>> {
    sorted(serde_json::from_value(golden.given["links"].clone()).unwrap())
}

#[test]
fn points_come_with_attributes_of_one_and_of_several_columns() {
    let golden = golden("points");
    let answer = all(&golden);
    assert_eq!(answer.sorted_positions(), sorted(golden.positions()));
    for name in ["i", "rgb", "ok"] {
        assert_eq!(beside_positions(&answer, name), given_beside(&golden, name), "{name}");
    }
    assert!(answer.rows.iter().all(|row| row.id.is_none()));
}

#[test]
fn points_of_objects_have_their_ids_and_the_attributes_of_these() {
    let golden = golden("point_objects");
    let answer = all(&golden);
    let mut given: Vec<(Vec<f64>, i64)> =
        golden.positions().into_iter().zip(golden.ids()).collect();
    given.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let found = answer.rows.iter().map(|row| (row.position.clone(), row.id.unwrap())).collect();
    assert_eq!(sorted(found), given);
    for row in &answer.rows {
        let size = &golden.given["size"][row.id.unwrap().to_string()];
        // An object without a value has none, not a number that stands for that.
        let expected = size.as_f64().unwrap_or(f64::NEG_INFINITY);
        assert_eq!(row.values["size"], [expected], "{row:?}");
    }
}

#[test]
fn points_in_chunks_by_an_attribute_have_it_as_a_column() {
    let golden = golden("point_genes");
    let answer = all(&golden);
    let genes: Vec<String> = serde_json::from_value(golden.given["gene"].clone()).unwrap();
    let given: Vec<(Vec<f64>, String)> = golden.positions().into_iter().zip(genes).collect();
    let found = answer
        .rows
        .iter()
        .map(|row| (row.position.clone(), row.words["gene"].clone().unwrap()))
        .collect();
    assert_eq!(sorted(found), sorted(given));
}

#[test]
fn coordinates_may_be_integers_in_two_dimensions() {
    let golden = golden("flat");
    assert_eq!(all(&golden).sorted_positions(), sorted(golden.positions()));
}

#[test]
fn lines_have_their_two_ends_in_order() {
    let golden = golden("lines");
    assert_eq!(by_id(&all(&golden)), given_by_id(&golden));
}

#[test]
fn paths_are_put_together_across_chunks() {
    let golden = golden("polylines");
    let answer = all(&golden);
    assert_eq!(by_id(&answer), given_by_id(&golden));
    assert_eq!(beside_positions(&answer, "step"), given_beside(&golden, "step"));
}

#[test]
fn a_graph_has_its_edges_in_their_direction_with_their_attributes() {
    let golden = golden("graph");
    let answer = all(&golden);
    assert_eq!(answer.linked_positions(), given_links(&golden));
    assert_eq!(beside_positions(&answer, "v"), given_beside(&golden, "v"));
    let mut owners: BTreeMap<i64, usize> = BTreeMap::new();
    answer.rows.iter().for_each(|row| *owners.entry(row.id.unwrap()).or_default() += 1);
    assert_eq!(owners, BTreeMap::from([(0, 12), (5, 12)]));
    let links: Vec<Vec<Vec<f64>>> = serde_json::from_value(golden.given["links"].clone()).unwrap();
    for (link, values) in &answer.links {
        let ends: Vec<Vec<f64>> =
            link.iter().map(|row| answer.rows[*row].position.clone()).collect();
        let weight = values["weight"][0] as usize;
        assert_eq!(links[weight], ends);
    }
}

#[test]
fn trees_have_the_parent_of_each_vertex() {
    for name in ["skeleton", "pieces"] {
        let golden = golden(name);
        let answer = all(&golden);
        assert_eq!(answer.sorted_positions(), sorted(golden.positions()), "{name}");
        assert_eq!(answer.linked_positions(), given_links(&golden), "{name}");
    }
    let golden = golden("pieces");
    assert_eq!(beside_positions(&all(&golden), "radius"), given_beside(&golden, "radius"));
}

#[test]
fn faces_keep_their_winding_across_chunks() {
    let golden = golden("mesh");
    let answer = all(&golden);
    // A face may begin at any of its vertices, but not run the other way.
    let turned = |face: &Vec<Vec<f64>>| {
        let first = (0..3).min_by(|a, b| face[*a].partial_cmp(&face[*b]).unwrap()).unwrap();
        (0..3).map(|at| face[(first + at) % 3].clone()).collect::<Vec<_>>()
    };
    let faces = |all: Vec<Vec<Vec<f64>>>| sorted(all.iter().map(turned).collect::<Vec<_>>());
    assert_eq!(faces(answer.linked_positions()), faces(given_links(&golden)));
    let normal =
        |row: &(Vec<f64>, Vec<f64>)| row.1.iter().map(|one| *one as f32).collect::<Vec<_>>();
    let found: Vec<_> = beside_positions(&answer, "normal").iter().map(normal).collect();
    let given: Vec<_> = given_beside(&golden, "normal").iter().map(normal).collect();
    assert_eq!(found, given);
}

#[test]
fn a_coarser_level_is_read_like_the_finest() {
    let golden = golden("levels");
    let store = golden.open();
    assert_eq!(store.levels(), [0, 1]);
    assert_eq!(by_id(&ask(&store, &VectorQuery::new()).unwrap()), given_by_id(&golden));
    let coarse = ask(&store, &VectorQuery::new().level(1)).unwrap();
    let info = store.info().unwrap();
    assert!(coarse.rows.len() >= info.levels[1].vertices as usize && !coarse.rows.is_empty());
    assert!(coarse.rows.len() < golden.positions().len());
    let error = ask(&store, &VectorQuery::new().level(2)).unwrap_err().to_string();
    assert!(error.ends_with("there is no level 2: it has 0, 1"), "{error}");
}

#[test]
fn parametric_objects_are_rows_of_numbers() {
    let golden = golden("parametric");
    let store = golden.open();
    assert_eq!(store.kind(), GeometryKind::Parametric);
    let mut rows = store.query(&VectorQuery::new()).unwrap();
    let batch = rows.read_batch().unwrap().unwrap();
    assert!(rows.read_batch().unwrap().is_none());
    let names: Vec<String> =
        batch.vertices.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["object_id", "type", "name", "c0", "c1", "c2", "c3", "c4", "c5"]);
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;
    let types = batch.vertices.column(1).as_string::<i32>();
    assert_eq!((types.value(0), types.value(1)), ("sphere", "line"));
    assert_eq!(batch.vertices.column(2).as_string::<i32>().value(0), "ball");
    let last = batch.vertices.column(8).as_primitive::<Float64Type>();
    // A sphere has four numbers, a line six.
    assert!(last.is_null(0) && last.is_valid(1));
    assert_eq!(batch.vertices.column(6).as_primitive::<Float64Type>().value(0), 4.5);
}

#[test]
fn a_store_is_still_a_group() {
    let location = golden("points").location();
    let set = open(&location).unwrap();
    assert_eq!((set.format(), set.kind()), ("zarr3", SetKind::Group));
    let group = set.downcast_ref::<Group>().unwrap();
    // Its attributes look like those of an image, and it is none.
    assert!(group.ome().unwrap().is_none());
    assert!(set.levels().unwrap().is_empty());
    assert!(VectorStore::is_store(group));
    let names: Vec<String> = set.parts().unwrap().into_iter().map(|part| part.name).collect();
    assert_eq!(names, ["0"]);
    let mut arrays = 0;
    set.each_array(&mut |array| {
        arrays += 1;
        array.map(drop)
    })
    .unwrap();
    assert_eq!(arrays, 5);
}

#[test]
fn info_says_what_there_is() {
    let info = golden("points").open().info().unwrap();
    assert_eq!((info.kind.name(), info.axes.len()), ("points", 3));
    assert_eq!(info.shard_shape, Some(vec![2, 2, 2]));
    assert_eq!(info.levels[0].vertices, 40);
    assert_eq!(info.levels[0].objects, None);
    let attributes: Vec<(&str, &str, &str)> =
        info.attributes.iter().map(|one| (one.name.as_str(), one.dtype.as_str(), one.of)).collect();
    let vertex = "vertex";
    assert_eq!(
        attributes,
        [("i", "float32", vertex), ("ok", "bool", vertex), ("rgb", "uint8", vertex)]
    );
    let info = golden("graph").open().info().unwrap();
    assert_eq!(info.levels[0].objects, Some(2));
    let of: Vec<(&str, &str)> =
        info.attributes.iter().map(|one| (one.name.as_str(), one.of)).collect();
    assert_eq!(of, [("v", "vertex"), ("weight", "link")]);
}

#[test]
fn other_versions_and_unknown_needs_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut golden = golden("points");
        let root = golden.files.get_mut("zarr.json").unwrap();
        change(&mut root["attributes"]["zarr_vectors"]);
        VectorStore::open_in(&engine(), golden.location()).map(drop)
    };
    for version in ["0.8.1", "0.10.0", "1.0.0", "9", ""] {
        let error = refused(&|block| block["zv_version"] = json!(version)).unwrap_err().to_string();
        assert!(error.contains("only versions 0.9.x can be read"), "{error}");
    }
    for version in ["0.9.0", "0.9.4", "0.9"] {
        refused(&|block| block["zv_version"] = json!(version)).unwrap();
    }
    let needs = json!(["dense_manifests", "additive_levels", "telepathy"]);
    let error = refused(&|block| block["required_capabilities"] = needs.clone()).unwrap_err();
    let words = "reading it takes additive_levels, telepathy, which is not supported";
    assert!(error.to_string().ends_with(words), "{error}");
    let known = json!(["dense_manifests", "fragment_link_groups"]);
    refused(&|block| block["required_capabilities"] = known.clone()).unwrap();
}

#[test]
fn faces_in_draco_streams_are_those_that_another_decoder_finds() {
    let golden = golden("draco");
    let answer = ask(&golden.open(), &VectorQuery::new()).unwrap();
    assert_eq!(answer.sorted_positions(), sorted(golden.positions()));
    let turned = |mut face: Vec<Vec<f64>>| {
        let first = (0..3).min_by(|a, b| face[*a].partial_cmp(&face[*b]).unwrap()).unwrap();
        face.rotate_left(first);
        face
    };
    let given: Vec<Vec<Vec<f64>>> = given_links(&golden).into_iter().map(turned).collect();
    let found = answer.linked_positions().into_iter().map(turned).collect::<Vec<_>>();
    assert_eq!(sorted(found), sorted(given));
    // What cannot be matched with vertices in another order is left out, and said.
    let notes = answer.notes.join("\n");
    assert!(notes.contains("0/vertex_attributes/height is left out"), "{notes}");
    assert!(notes.contains("links between chunks are left out"), "{notes}");
    let error = ask(&golden.open(), &VectorQuery::new().strict(true)).unwrap_err().to_string();
    assert!(error.contains("Draco keeps no order"), "{error}");
}

#[test]
fn strings_are_read_as_they_are_stored() {
    let mut golden = golden("graph");
    // Rows of two float32 are as long as a string of two characters.
    let array = golden.files.get_mut("0/vertex_attributes/v/zarr.json").unwrap();
    array["attributes"]["dtype"] = json!("<U2");
    let error = ask(&golden.open(), &VectorQuery::new()).unwrap_err().to_string();
    assert!(error.contains("its bytes are no text"), "{error}");
    // What nobody can read does not keep the rest from being read.
    let array = golden.files.get_mut("0/vertex_attributes/v/zarr.json").unwrap();
    array["attributes"]["dtype"] = json!("object");
    let answer = ask(&golden.open(), &VectorQuery::new()).unwrap();
    assert_eq!(answer.rows.len(), golden.positions().len());
    assert!(answer.notes[0].contains("values of type \"object\" cannot be read"));
}
