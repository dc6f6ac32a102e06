//! Lists of chunks that are wrong: the answer comes from what is stored, and says so.

use serde_json::{Value, json};
use shardine::store::{Condition, Key};
use shardine::vectors::{VectorQuery, VectorStore};
use shardine::{Array, ElementsRef, Location, VariableElements};

use crate::golden::{Golden, ask, engine, golden};

/// The lists of level 0 that are changed: those of vertices, fragments and attributes, or all.
fn change_lists(golden: &mut Golden, path: &str, change: &dyn Fn(&mut Vec<Value>)) {
    for (key, content) in &mut golden.files {
        let list = content.pointer_mut("/attributes/nonempty_chunks");
        if let (true, Some(Value::Array(list))) = (key.starts_with(path), list) {
            change(list);
        }
    }
}

fn open(location: &Location) -> VectorStore {
    VectorStore::open_in(&engine(), location).unwrap()
}

fn strict(store: &VectorStore) -> String {
    ask(store, &VectorQuery::new().strict(true)).unwrap_err().to_string()
}

/// Adds a chunk that the grid has room for and no array stores.
fn empty_chunk(golden: &Golden) -> String {
    let document = &golden.files["0/vertices/zarr.json"];
    let listed = document["attributes"]["nonempty_chunks"].as_array().unwrap();
    let shape: Vec<u64> = serde_json::from_value(document["shape"].clone()).unwrap();
    let origin = document["attributes"].get("chunk_grid_origin");
    let origin: Vec<i64> = origin
        .map(|origin| serde_json::from_value(origin.clone()).unwrap())
        .unwrap_or_else(|| vec![0; shape.len()]);
    let count: u64 = shape.iter().product();
    let key = |mut at: u64| {
        let mut parts = Vec::new();
        for (len, origin) in shape.iter().zip(&origin).rev() {
            parts.push(((at % len) as i64 + origin).to_string());
            at /= len;
        }
        parts.reverse();
        json!(parts.join("."))
    };
    let free = (0..count).map(key).find(|key| !listed.contains(key)).unwrap();
    free.as_str().unwrap().to_owned()
}

#[test]
fn a_listed_chunk_for_which_no_array_has_anything_is_passed_over_and_named() {
    for name in ["points", "point_genes"] {
        let mut golden = golden(name);
        let whole = ask(&golden.open(), &VectorQuery::new()).unwrap();
        assert_eq!(whole.notes, [""; 0], "{name}");
        let chunk = empty_chunk(&golden);
        change_lists(&mut golden, "0/", &|list| list.push(json!(chunk)));
        let store = golden.open();
        let mut rows = store.query(&VectorQuery::new()).unwrap();
        let mut count = 0;
        while let Some(batch) = rows.read_batch().unwrap() {
            count += batch.vertices.num_rows();
        }
        assert_eq!(count, whole.rows.len(), "{name}");
        let absent = rows.absent_chunks();
        assert_eq!((absent[0].array.as_str(), &absent[0].chunk), ("0/vertices", &chunk), "{name}");
        assert_eq!(absent.len(), 1, "{name}");
        let said = format!("0/vertices lists 1 chunk for which nothing is stored: {chunk}");
        assert_eq!(rows.notes(), [said], "{name}");
        let error = strict(&store);
        assert!(error.contains(&format!("0/vertices lists chunk {chunk}, for which")), "{error}");
    }
}

#[test]
fn vertices_that_are_gone_are_an_error_if_anything_says_that_they_were_there() {
    let golden = golden("points");
    let empty = |location: &Location, array: &str| {
        let array = Array::open(location.join(array).unwrap()).unwrap();
        let cells = array.shape().iter().product::<u64>();
        let nothing: VariableElements = (0..cells).map(|_| b"").collect();
        array.write_elements(.., ElementsRef::Variable(&nothing), &Default::default()).unwrap();
    };
    let location = golden.location();
    empty(&location, "0/vertices");
    let error = ask(&open(&location), &VectorQuery::new()).unwrap_err().to_string();
    assert!(error.contains("rows for 0 vertices"), "{error}");
    // Without attributes only the fragments know.
    for key in golden.files.keys().filter(|key| key.contains("vertex_attributes/")) {
        location.store.delete(&Key::new(key).unwrap(), &Condition::None).unwrap();
    }
    let error = ask(&open(&location), &VectorQuery::new()).unwrap_err().to_string();
    assert!(error.contains("vertices are not stored, only their fragments"), "{error}");
    // Without those nothing knows but the number of vertices, which is said.
    empty(&location, "0/vertex_fragments");
    let answer = ask(&open(&location), &VectorQuery::new()).unwrap();
    assert_eq!(answer.rows.len(), 0);
    let notes = answer.notes.join("\n");
    assert!(notes.contains("0/vertices lists"), "{notes}");
    assert!(notes.contains("level 0 says that it has 40 vertices; 0 were found"), "{notes}");
    assert!(strict(&open(&location)).contains("for which nothing is stored"));
}

#[test]
fn a_list_that_leaves_chunks_out_costs_no_rows() {
    for name in ["points", "point_objects", "point_genes"] {
        let mut short = golden(name);
        let whole = ask(&short.open(), &VectorQuery::new()).unwrap().sorted_positions();
        // All lists alike: the number of vertices, or the objects, tell.
        change_lists(&mut short, "0/", &|list| list.truncate(1));
        let answer = ask(&short.open(), &VectorQuery::new()).unwrap();
        assert_eq!(answer.sorted_positions(), whole, "{name}");
        assert!(answer.notes[0].contains("lists of chunks (nonempty_chunks) are wrong"), "{name}");
        assert!(strict(&short.open()).contains("does not list chunk"), "{name}");
        // One list alone: the others tell, before anything is read.
        let mut short = golden(name);
        change_lists(&mut short, "0/vertices/", &|list| list.truncate(1));
        let everywhere = VectorQuery::new().bounds([-1e9; 3], [1e9; 3]);
        let answer = ask(&short.open(), &everywhere).unwrap();
        assert_eq!(answer.sorted_positions(), whole, "{name}");
        assert!(answer.notes[0].contains("are wrong"), "{name}: {:?}", answer.notes);
    }
}

#[test]
fn lists_of_links_that_leave_chunks_out_cost_no_links() {
    for name in ["graph", "mesh", "skeleton", "pieces"] {
        let whole = ask(&golden(name).open(), &VectorQuery::new()).unwrap();
        assert_eq!(whole.notes, [""; 0], "{name}");
        for path in ["0/links/", "0/link", "0/"] {
            let mut short = golden(name);
            change_lists(&mut short, path, &|list| list.truncate(0));
            let answer = ask(&short.open(), &VectorQuery::new()).unwrap();
            assert_eq!(answer.linked_positions(), whole.linked_positions(), "{name} {path}");
            assert!(answer.notes[0].contains("are wrong"), "{name} {path}: {:?}", answer.notes);
        }
    }
}

#[test]
fn lost_cells_of_links_are_an_error_or_said() {
    let golden = golden("graph");
    let whole = ask(&golden.open(), &VectorQuery::new()).unwrap().links.len();
    let mut said = 0;
    for key in
        golden.files.keys().filter(|key| key.starts_with("0/links/0/") && key.contains("/c/"))
    {
        let location = golden.location();
        // The attributes of these links are lost with them.
        let own = key.replace("0/links/0/", "0/link_attributes/weight/0/");
        for key in [key, &own] {
            location.store.delete(&Key::new(key).unwrap(), &Condition::None).unwrap();
        }
        match ask(&open(&location), &VectorQuery::new()) {
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("links are not stored, only their fragments"), "{error}");
            }
            Ok(answer) => {
                let notes = answer.notes.join("\n");
                assert!(answer.links.len() < whole && notes.contains("were found"), "{notes}");
                assert!(notes.contains("for which nothing is stored"), "{notes}");
                said += 1;
            }
        }
    }
    assert!(said > 0);
}

#[test]
fn a_list_that_is_none_is_done_without() {
    let whole = ask(&golden("points").open(), &VectorQuery::new()).unwrap().sorted_positions();
    for wrong in [json!(["1.2"]), json!([3]), json!("0.0.0"), json!(["0.0.0", "0.0.0"])] {
        let mut golden = golden("points");
        let document = golden.files.get_mut("0/vertices/zarr.json").unwrap();
        document["attributes"]["nonempty_chunks"] = wrong.clone();
        let answer = ask(&golden.open(), &VectorQuery::new()).unwrap();
        assert_eq!(answer.sorted_positions(), whole, "{wrong}");
        assert!(answer.notes[0].contains("has a list of its chunks that is none"), "{wrong}");
        assert!(strict(&golden.open()).contains("is none"), "{wrong}");
    }
}

#[test]
fn an_object_whose_chunk_is_gone_is_named() {
    let golden = golden("point_objects");
    let location = golden.location();
    for array in ["0/vertices", "0/vertex_fragments"] {
        let prefix = format!("{array}/c/");
        let key = golden.files.keys().find(|key| key.starts_with(&prefix)).unwrap();
        location.store.delete(&Key::new(key).unwrap(), &Condition::None).unwrap();
    }
    for key in golden.files.keys().filter(|key| key.contains("0/vertex_attributes/")) {
        location.store.delete(&Key::new(key).unwrap(), &Condition::None).unwrap();
    }
    let error = ask(&open(&location), &VectorQuery::new()).unwrap_err().to_string();
    assert!(error.contains("nothing is stored for chunk"), "{error}");
}
