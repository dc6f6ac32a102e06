//! Damage is named, and nothing makes a reader panic.

use std::sync::Arc;

use serde_json::{Value, json};
use shardine::store::{FaultStore, MemoryStore, Operation};
use shardine::vectors::{VectorQuery, VectorStore};
use shardine::{Array, ElementsRef, Location, VariableElements};

use crate::golden::{Golden, ask, engine, golden};

const ALL: [&str; 12] = [
    "points",
    "point_objects",
    "point_genes",
    "flat",
    "lines",
    "polylines",
    "graph",
    "skeleton",
    "pieces",
    "mesh",
    "parametric",
    "draco",
];

/// Replaces the bytes of a cell.
fn replace(location: &Location, array: &str, cell: &[u64], bytes: &[u8]) {
    let array = Array::open(location.join(array).unwrap()).unwrap();
    let region = shardine::Region::of_box(cell, &vec![1; cell.len()]);
    let elements: VariableElements = [bytes].into_iter().collect();
    array.write_elements(&region, ElementsRef::Variable(&elements), &Default::default()).unwrap();
}

fn asked(location: &Location) -> Result<usize, String> {
    let wrong = |error: shardine::Error| error.to_string();
    let store = VectorStore::open_in(&engine(), location).map_err(wrong)?;
    store.info().map_err(wrong)?;
    ask(&store, &VectorQuery::new()).map(|answer| answer.rows.len()).map_err(wrong)
}

/// The first stored cell of an array.
fn first_cell(golden: &Golden, array: &str) -> Vec<u64> {
    let prefix = format!("{array}/c/");
    let key = golden.files.keys().find(|key| key.starts_with(&prefix)).unwrap();
    key[prefix.len()..].split('/').map(|part| part.parse().unwrap()).collect()
}

#[test]
fn a_damaged_cell_is_named_with_its_array() {
    let golden = golden("graph");
    for (array, bytes, words) in [
        ("0/vertices", &[0; 13][..], "13 bytes are no whole number of rows of 12 bytes"),
        ("0/vertices", &[], "rows for 0 vertices"),
        ("0/vertex_fragments", &[1; 16], "the magic of a fragment index is 16843009"),
        ("0/vertex_fragments", &[], "there are no fragments for"),
        ("0/vertex_attributes/v", &[0; 9], "9 bytes are no"),
        ("0/link_attributes/weight/0/0.0.0", &[], "rows for"),
    ] {
        let location = golden.location();
        let cell = first_cell(&golden, array);
        replace(&location, array, &cell, bytes);
        let error = asked(&location).unwrap_err();
        let chunk = cell.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
        let known = error.contains(words) && error.contains(&format!(", chunk {chunk}: "));
        assert!(known, "{array}: {error}");
    }
    let (location, array) = (golden.location(), "0/links/0/0.0.0");
    let cell = first_cell(&golden, array);
    let opened = Array::open(location.join(array).unwrap()).unwrap();
    let region = shardine::Region::of_box(&cell, &[1; 3]);
    let shardine::Elements::Variable(bytes) = opened.read_elements(&region).unwrap() else {
        panic!("{array}")
    };
    replace(&location, array, &cell, &vec![0xff; bytes.byte_len()]);
    let error = asked(&location).unwrap_err();
    assert!(error.contains("link 0 has vertex 18446744073709551615 of"), "{error}");
}

#[test]
fn a_manifest_beyond_all_fragments_is_named_with_its_object() {
    let golden = golden("polylines");
    let location = golden.location();
    let manifests = Array::open(location.join("0/object_index/manifests").unwrap()).unwrap();
    let write = |chunk: i64, mode: u8, rest: &[i64]| {
        let mut manifest = 1u32.to_le_bytes().to_vec();
        [chunk, 0, 0].iter().for_each(|at| manifest.extend(at.to_le_bytes()));
        manifest.push(mode);
        rest.iter().for_each(|number| manifest.extend(number.to_le_bytes()));
        let rows: VariableElements = [&manifest].into_iter().collect();
        manifests.write_elements(0..1, ElementsRef::Variable(&rows), &Default::default()).unwrap();
        asked(&location).unwrap_err()
    };
    let error = write(0, 0, &[99]);
    assert!(error.contains("object 0: it has fragment 99 of chunk 0.0.0, which has"), "{error}");
    // However many fragments it claims, the first that does not exist ends it.
    let error = write(0, 1, &[0, i64::MAX]);
    assert!(error.contains("object 0: it has fragment"), "{error}");
    let error = write(i64::MIN, 0, &[0]);
    assert!(error.contains("object 0: chunk -9223372036854775808.0.0 is outside"), "{error}");
    let error = write(0, 7, &[0]);
    assert!(error.contains("object 0: its manifest in 0/object_index: the mode"), "{error}");
}

/// Every value in a document, and what is put in its place.
fn each_change(document: &Value, visit: &mut dyn FnMut(Value)) {
    fn paths(value: &Value, path: String, out: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    paths(member, format!("{path}/{name}"), out);
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate().take(3) {
                    paths(item, format!("{path}/{at}"), out);
                }
            }
            _ => {}
        }
        out.push(path);
    }
    let mut all = Vec::new();
    paths(document, String::new(), &mut all);
    let odd = [
        json!(null),
        json!(-1),
        json!(0),
        json!(1e300),
        json!(u64::MAX),
        json!("nonsense"),
        json!([]),
        json!([[1, 2], "x"]),
        json!({}),
        json!(true),
    ];
    // A few for each, and all of them often.
    for (at, path) in all.iter().enumerate() {
        for odd in odd.iter().cycle().skip(3 * at).take(3) {
            let mut changed = document.clone();
            *changed.pointer_mut(path).unwrap() = odd.clone();
            visit(changed);
        }
    }
}

/// Documents of a store that differ in what they describe.
fn each_document(golden: &Golden) -> Vec<(&String, &Value)> {
    let mut seen = std::collections::HashSet::new();
    let is_new = |key: &str, content: &Value| {
        let depth = key.matches('/').count();
        let described = (content["attributes"]["zv_array"].to_string(), depth);
        content.is_object() && seen.insert(described)
    };
    let mut is_new = is_new;
    golden.files.iter().filter(|(key, content)| is_new(key, content)).collect()
}

#[test]
fn no_document_makes_a_reader_panic() {
    for name in ALL {
        let golden = golden(name);
        for (key, document) in each_document(&golden) {
            let attributes = &document["attributes"];
            each_change(attributes, &mut |changed| {
                let mut golden = Golden { files: golden.files.clone(), given: Value::Null };
                golden.files.get_mut(key).unwrap()["attributes"] = changed;
                let _ = asked(&golden.location());
            });
        }
    }
}

#[test]
fn no_bytes_of_a_cell_make_a_reader_panic() {
    for name in ALL {
        let golden = golden(name);
        let arrays: Vec<&str> = each_document(&golden)
            .into_iter()
            .filter(|(_, content)| content["data_type"] == json!("variable_length_bytes"))
            .map(|(key, _)| key.trim_end_matches("/zarr.json"))
            .collect();
        for array in arrays {
            let location = golden.location();
            let opened = Array::open(location.join(array).unwrap()).unwrap();
            let shardine::Elements::Variable(cells) = opened.read_elements(..).unwrap() else {
                panic!("{array}")
            };
            let Some(longest) = cells.iter().max_by_key(|cell| cell.len()) else { continue };
            let longest = longest.to_vec();
            for at in (0..longest.len()).step_by(7) {
                for byte in [0x7f, 0xff] {
                    let mut bytes = longest.clone();
                    bytes[at] = byte;
                    let changed: VariableElements = (0..cells.len())
                        .map(|cell| {
                            let cell = cells.get(cell).unwrap();
                            if cell == longest { bytes.as_slice() } else { cell }
                        })
                        .collect();
                    let elements = ElementsRef::Variable(&changed);
                    opened.write_elements(.., elements, &Default::default()).unwrap();
                    let _ = asked(&location);
                }
            }
        }
    }
}

#[test]
fn a_failing_call_is_an_error_wherever_it_happens() {
    for name in ALL {
        fail_each_call(name, &golden(name));
    }
}

#[test]
fn a_failing_call_is_no_absent_chunk_where_lists_are_wrong() {
    for name in ["points", "point_objects", "graph", "skeleton"] {
        for keep in [0, 1] {
            let mut short = golden(name);
            for content in short.files.values_mut() {
                if let Some(Value::Array(list)) = content.pointer_mut("/attributes/nonempty_chunks")
                {
                    list.truncate(keep);
                }
            }
            fail_each_call(name, &short);
        }
        let mut none = golden(name);
        for content in none.files.values_mut() {
            if let Some(Value::Object(attributes)) = content.get_mut("attributes") {
                attributes.remove("nonempty_chunks");
            }
        }
        fail_each_call(name, &none);
    }
}

/// Fails each call of reading everything, one at a time.
fn fail_each_call(name: &str, changed: &Golden) {
    let inner = MemoryStore::new();
    changed.put_into(&inner);
    let store = FaultStore::new(inner);
    let location = Location::root(Arc::new(store.clone()));
    let whole = asked(&location).unwrap();
    assert_eq!(asked(&golden(name).location()), Ok(whole), "{name}");
    for operation in [Operation::Open, Operation::Read, Operation::List] {
        for after in 0.. {
            store.fail(operation, after);
            let result = asked(&location);
            if store.waiting() > 0 {
                // All calls were made, and none failed.
                store.clear();
                assert_eq!(result, Ok(whole), "{name}");
                assert!(after > 0, "{name}: no {operation:?}");
                break;
            }
            assert!(result.is_err(), "{name}, {operation:?} {after}: {result:?}");
        }
    }
}
