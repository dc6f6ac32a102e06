//! `verify` finds what is wrong with a store, `repair` mends what follows from what is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use shardine::jobs::{
    Finding, Part, Repair, RepairKind, RepairOptions, RepairSummary, Severity, VerifyOptions,
    repair, verify,
};
use shardine::store::{Condition, Key, MemoryStore, Store, StoreExt};
use shardine::{Array, Elements, ElementsRef, Location, VariableElements};

use crate::golden::{Golden, engine, golden};

const ALL: [&str; 13] = [
    "points",
    "point_objects",
    "point_genes",
    "flat",
    "levels",
    "longer_chunks",
    "lines",
    "polylines",
    "graph",
    "skeleton",
    "pieces",
    "mesh",
    "parametric",
];

fn findings(location: &Location, options: &VerifyOptions) -> Vec<Finding> {
    let mut found = Vec::new();
    verify(&engine(), location, options, &mut |finding| found.push(finding)).unwrap();
    found
}

/// The kinds of what is found, each with the object and the message.
fn told(location: &Location) -> Vec<(String, String)> {
    let found = findings(location, &VerifyOptions::new());
    let tell = |finding: Finding| {
        let object = finding.object.as_ref().map(Key::as_str).unwrap_or_default().to_owned();
        (finding.kind.name().to_owned(), format!("{object}: {}", finding.message))
    };
    found.into_iter().map(tell).collect()
}

#[track_caller]
fn assert_told(location: &Location, kind: &str, words: &[&str]) {
    let found = told(location);
    let is_it = |(name, text): &(String, String)| {
        name == kind && words.iter().all(|words| text.contains(words))
    };
    assert!(found.iter().any(is_it), "no {kind} with {words:?} in {found:#?}");
}

fn open(location: &Location, array: &str) -> Array {
    Array::open(location.join(array).unwrap()).unwrap()
}

/// The stored cells of an array, with their bytes.
fn cells(golden: &Golden, location: &Location, array: &str) -> Vec<(Vec<u64>, Vec<u8>)> {
    let prefix = format!("{array}/c/");
    let opened = open(location, array);
    let keys = golden.files.keys().filter_map(|key| key.strip_prefix(&prefix));
    keys.map(|key| {
        let cell: Vec<u64> = key.split('/').map(|part| part.parse().unwrap()).collect();
        let region = shardine::Region::of_box(&cell, &vec![1; cell.len()]);
        let Elements::Variable(bytes) = opened.read_elements(&region).unwrap() else { panic!() };
        (cell, bytes.get(0).unwrap().to_vec())
    })
    .collect()
}

fn put(location: &Location, array: &str, cell: &[u64], bytes: &[u8]) {
    let region = shardine::Region::of_box(cell, &vec![1; cell.len()]);
    let elements: VariableElements = [bytes].into_iter().collect();
    let array = open(location, array);
    array.write_elements(&region, ElementsRef::Variable(&elements), &Default::default()).unwrap();
}

/// Changes the attributes of a node.
fn change(location: &Location, node: &str, change: impl FnOnce(&mut Value)) {
    let name = if node.is_empty() { "zarr.json".to_owned() } else { format!("{node}/zarr.json") };
    let key = Key::new(&name).unwrap();
    let text = location.store.get(&key).unwrap().unwrap();
    let mut document: Value = serde_json::from_slice(&text).unwrap();
    change(&mut document["attributes"]);
    location.store.put(&key, document.to_string().as_bytes(), Condition::None).unwrap();
}

fn attributes(location: &Location, node: &str) -> Value {
    let name = if node.is_empty() { "zarr.json".to_owned() } else { format!("{node}/zarr.json") };
    let text = location.store.get(&Key::new(&name).unwrap()).unwrap().unwrap();
    serde_json::from_slice::<Value>(&text).unwrap()["attributes"].take()
}

fn repaired(location: &Location, dry_run: bool) -> (RepairSummary, Vec<Repair>) {
    let aside = Location::root(Arc::new(MemoryStore::new())).join("aside").unwrap();
    let options = RepairOptions::new(aside).dry_run(dry_run);
    let mut all = Vec::new();
    let summary = repair(&engine(), location, &options, &mut |repair| all.push(repair)).unwrap();
    (summary, all)
}

#[test]
fn what_zarr_vectors_wrote_is_in_order() {
    for name in ALL {
        let location = golden(name).location();
        // It does not count vertices that are written chunk by chunk.
        let uncounted = "0/zarr.json: vertex_count is 0, but 6 are stored".to_owned();
        let expected = match name {
            "pieces" => vec![("vectors-counts".to_owned(), uncounted)],
            _ => Vec::new(),
        };
        assert_eq!(told(&location), expected, "{name}");
        let decoded = VerifyOptions::new().decode(true);
        assert_eq!(findings(&location, &decoded).len(), expected.len(), "{name}");
        let documents = VerifyOptions::new().metadata_only(true);
        assert_eq!(findings(&location, &documents), [], "{name}");
    }
}

#[test]
fn damage_in_a_cell_is_found_with_its_array_and_chunk() {
    let golden = golden("graph");
    for (array, change, kind, words) in [
        ("0/vertices", cut as fn(&mut Vec<u8>), "vectors-vertices", "no whole number of rows"),
        ("0/vertices", |bytes| far_away(bytes), "vectors-vertices", "which is in chunk"),
        ("0/vertex_fragments", cut, "vectors-fragments", "needs"),
        ("0/vertex_fragments", |bytes| bytes[0] ^= 1, "vectors-fragments", "the magic"),
        ("0/vertex_fragments", Vec::clear, "vectors-fragments", "there are no fragments for"),
        ("0/vertex_attributes/v", cut, "vectors-attributes", "vertices"),
        ("0/vertex_attributes/v", Vec::clear, "vectors-attributes", "it has 0 rows for"),
        ("0/links/0/0.0.0", |bytes| nowhere(bytes), "vectors-links", "link 0 has vertex"),
        ("0/links/0/0.0.0", cut, "vectors-links", "no whole number of rows"),
        ("0/link_fragments", cut, "vectors-links", "needs"),
        ("0/link_attributes/weight/0/0.0.0", cut, "vectors-attributes", "links"),
    ] {
        let location = golden.location();
        let (cell, mut bytes) = cells(&golden, &location, array).swap_remove(0);
        change(&mut bytes);
        put(&location, array, &cell, &bytes);
        let object = cell.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
        let at = if bytes.is_empty() { format!("{array}/") } else { format!("{array}/c/{object}") };
        assert_told(&location, kind, &[words, &at]);
    }
}

fn cut(bytes: &mut Vec<u8>) {
    bytes.pop();
}

/// The first coordinate of the first vertex.
fn far_away(bytes: &mut [u8]) {
    bytes[..4].copy_from_slice(&1e6f32.to_le_bytes());
}

/// The first end of the first link.
fn nowhere(bytes: &mut [u8]) {
    bytes[..8].copy_from_slice(&100_000i64.to_le_bytes());
}

#[test]
fn links_between_chunks_and_levels_to_missing_vertices_are_found() {
    for (name, within) in [("graph", "0/links/0"), ("mesh", "0/links/0"), ("levels", "/links/")] {
        let golden = golden(name);
        let is_across = |key: &&String| {
            let (array, _) = key.split_once("/c/").unwrap_or(("", ""));
            let between_levels = array.contains("/links/+") || array.contains("/links/-");
            key.contains(within) && (between_levels || array.contains('+'))
        };
        let key = golden.files.keys().find(is_across).unwrap();
        let array = key.split_once("/c/").unwrap().0;
        let location = golden.location();
        let (cell, mut bytes) = cells(&golden, &location, array).swap_remove(0);
        let end = bytes.len();
        bytes[end - 8..].copy_from_slice(&100_000i64.to_le_bytes());
        put(&location, array, &cell, &bytes);
        assert_told(&location, "vectors-links", &["has vertex 100000 of", array]);
        if name == "mesh" {
            let place = end - 8 * 4;
            bytes[place..place + 8].copy_from_slice(&77i64.to_le_bytes());
            put(&location, array, &cell, &bytes);
            assert_told(&location, "vectors-links", &["has 77, which is no permutation", array]);
        }
    }
}

/// The links of `longer_chunks`, from each level to each other one. A vertex has one in all of them.
const BETWEEN_LEVELS: [(u64, &str); 6] =
    [(0, "+1"), (0, "+2"), (1, "-1"), (1, "+1"), (2, "-1"), (2, "-2")];

#[test]
fn a_vertex_that_is_lost_is_missed_by_levels_with_longer_and_shorter_chunks() {
    let golden = golden("longer_chunks");
    for lost in 0..3 {
        let array = format!("{lost}/vertices");
        let all = cells(&golden, &golden.location(), &array);
        assert!(all.len() > 2, "{}", all.len());
        for (cell, mut bytes) in all {
            let location = golden.location();
            bytes.truncate(bytes.len() - 8);
            put(&location, &array, &cell, &bytes);
            let words = match bytes.is_empty() {
                true => "leads to a chunk without vertices".to_owned(),
                false => format!("has vertex {} of {}", bytes.len() / 8, bytes.len() / 8),
            };
            let found = told(&location);
            for (level, delta) in BETWEEN_LEVELS {
                let other = level as i64 + delta.parse::<i64>().unwrap();
                let family = format!("{level}/links/{delta}/");
                let of_it: Vec<&(String, String)> =
                    found.iter().filter(|(_, text)| text.contains(&family)).collect();
                if level != lost && other != lost as i64 {
                    assert_eq!(of_it, Vec::<&(String, String)>::new(), "vertex of level {lost}");
                    continue;
                }
                let is_it = |(kind, text): &&&(String, String)| {
                    kind == "vectors-links" && text.contains(&words)
                };
                assert!(of_it.iter().any(|found| is_it(&found)), "no {words} in {found:#?}");
            }
        }
    }
}

#[test]
fn a_link_that_leads_nowhere_is_found_in_levels_with_longer_and_shorter_chunks() {
    let golden = golden("longer_chunks");
    for (level, delta) in BETWEEN_LEVELS {
        let family = format!("{level}/links/{delta}/");
        let array = golden.files.keys().find_map(|key| {
            let (array, _) = key.strip_prefix(&family)?.split_once("/c/")?;
            Some(format!("{family}{array}"))
        });
        let array = array.unwrap();
        let location = golden.location();
        let (cell, bytes) = cells(&golden, &location, &array).swap_remove(0);
        for end in [8, 16] {
            let mut bytes = bytes.clone();
            let at = bytes.len() - end;
            bytes[at..at + 8].copy_from_slice(&100_000i64.to_le_bytes());
            put(&location, &array, &cell, &bytes);
            assert_told(&location, "vectors-links", &["has vertex 100000 of", &array]);
        }
        // The same links under a name that says another chunk.
        let (location, elsewhere) = (golden.location(), format!("{family}+40.+40"));
        for key in golden.files.keys() {
            let Some(rest) = key.strip_prefix(&format!("{array}/")) else { continue };
            let (old, new) = (Key::new(key).unwrap(), format!("{elsewhere}/{rest}"));
            let bytes = location.store.get(&old).unwrap().unwrap();
            location.store.put(&Key::new(&new).unwrap(), &bytes, Condition::None).unwrap();
            location.store.delete(&old, &Condition::None).unwrap();
        }
        let words = ["leads to a chunk without vertices", &elsewhere];
        assert_told(&location, "vectors-links", &words);
    }
}

#[test]
fn manifests_of_missing_fragments_and_fragments_of_no_object_are_found() {
    let golden = golden("polylines");
    let manifest = |location: &Location, bytes: &[u8]| {
        let rows: VariableElements = [bytes].into_iter().collect();
        let array = open(location, "0/object_index/manifests");
        array.write_elements(0..1, ElementsRef::Variable(&rows), &Default::default()).unwrap();
    };
    let block = |chunk: i64, fragment: i64| {
        let mut bytes = 1u32.to_le_bytes().to_vec();
        [chunk, 0, 0].iter().for_each(|at| bytes.extend(at.to_le_bytes()));
        bytes.push(0);
        bytes.extend(fragment.to_le_bytes());
        bytes
    };
    let location = golden.location();
    manifest(&location, &block(0, 99));
    let words = ["row 0: it has fragment 99 of chunk 0.0.0", "object_index/manifests"];
    assert_told(&location, "vectors-objects", &words);
    manifest(&location, &block(500, 0));
    assert_told(&location, "vectors-objects", &["chunk 500.0.0, which is not stored"]);
    manifest(&location, &block(0, 0)[..20]);
    assert_told(&location, "vectors-objects", &["row 0: ", "needs"]);
    // An object that has nothing any more: its fragments belong to none.
    manifest(&location, &[]);
    assert_told(&location, "vectors-objects", &["belong to no object"]);
    assert_told(&location, "vectors-missing", &["num_present"]);
    let before = attributes(&location, "0/object_index");
    assert!(repaired(&location, false).0.left > 0);
    assert_eq!(attributes(&location, "0/object_index"), before);
}

#[test]
fn ids_are_as_many_as_manifests_and_unique_and_sorted() {
    let golden = golden("point_objects");
    let write = |ids: &[i64]| {
        let location = golden.location();
        let array = open(&location, "0/object_index/object_ids");
        let mut all = array.read::<i64>(..).unwrap();
        all[..ids.len()].copy_from_slice(ids);
        array.write(.., &all).unwrap();
        location
    };
    let location = golden.location();
    let first = open(&location, "0/object_index/object_ids").read::<i64>(..).unwrap();
    let twice = write(&[first[1]]);
    assert_told(&twice, "vectors-objects", &["two objects have the id", "object_ids"]);
    let swapped = write(&[first[1], first[0]]);
    change(&swapped, "0/object_index", |index| index["object_ids_sorted"] = json!(true));
    assert_told(&swapped, "vectors-objects", &["ids do not ascend"]);
    let key = Key::new("0/object_index/object_ids/zarr.json").unwrap();
    let text = location.store.get(&key).unwrap().unwrap();
    let mut document: Value = serde_json::from_slice(&text).unwrap();
    document["shape"] = json!([first.len() - 1]);
    location.store.put(&key, document.to_string().as_bytes(), Condition::None).unwrap();
    assert_told(&location, "vectors-objects", &["ids for", "object_index"]);
}

#[test]
fn a_code_of_no_word_is_found() {
    let location = golden("points").location();
    change(&location, "0/vertex_attributes/rgb", |of| {
        of["encoding"] = json!("dictionary");
        of["categories"] = json!(["only"]);
    });
    let words = ["of a dictionary of 1 words", "0/vertex_attributes/rgb"];
    assert_told(&location, "vectors-attributes", &words);
}

#[test]
fn groups_of_objects_that_do_not_exist_are_found() {
    let group = |location: &Location, row: u64, bytes: &[u8]| {
        let rows: VariableElements = [bytes].into_iter().collect();
        let array = open(location, "0/groups");
        let place = row..row + 1;
        array.write_elements(place, ElementsRef::Variable(&rows), &Default::default()).unwrap();
    };
    let ids = |ids: &[i64]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
    // Three paths, 0 to 2: the first two are a group by their range.
    let polylines = golden("polylines");
    let location = polylines.location();
    group(&location, 1, &ids(&[2, 99, -1]));
    let words = ["0/groups/c/0", "group 1: it has object 99 and 1 more that do not exist"];
    assert_told(&location, "vectors-objects", &words);
    group(&location, 1, &ids(&[2])[..7]);
    assert_told(&location, "vectors-objects", &["group 1: its 7 bytes are no whole number of ids"]);
    for (ranges, kind, words) in [
        (json!({"0": [0, 9]}), "vectors-objects", "the objects 0 to 8, 6 of which do not exist"),
        (json!({"9": [0, 1]}), "vectors-metadata", "group 9: there are 2 groups"),
        (json!({"0": [0]}), "vectors-metadata", "are not two ids"),
        (json!([0]), "vectors-metadata", "must name groups"),
    ] {
        let location = polylines.location();
        change(&location, "0/groups", |of| of["group_ranges"] = ranges);
        assert_told(&location, kind, &[words, "0/groups/zarr.json"]);
    }
    let location = polylines.location();
    change(&location, "0/groups", |of| of["num_groups"] = json!(5));
    assert_told(&location, "vectors-missing", &["num_groups is 5, but 2 are stored"]);
    // The ids are 0, 7, 14 and 21.
    let location = golden("point_objects").location();
    group(&location, 2, &ids(&[14, 21]));
    assert_eq!(told(&location), []);
    group(&location, 2, &ids(&[14, 8]));
    assert_told(&location, "vectors-objects", &["group 2: it has object 8, which does not exist"]);
}

#[test]
fn parametric_shapes_are_of_their_types() {
    let golden = golden("parametric");
    // A sphere and a line.
    let write = |column: u64, value: f64| {
        let location = golden.location();
        let array = open(&location, "parametric/objects");
        let region = shardine::Region::of_box(&[1, column], &[1, 1]);
        array.write(&region, &[value]).unwrap();
        location
    };
    assert_eq!(told(&write(3, -2.5)), []);
    let words = ["shape 1: its type is 9, which is not declared", "parametric/objects/c/0/0"];
    assert_told(&write(0, 9.0), "vectors-objects", &words);
    assert_told(&write(0, f64::NAN), "vectors-objects", &["shape 1: its type is NaN"]);
    assert_told(&write(0, 0.5), "vectors-objects", &["shape 1: its type is 0.5"]);
    let words = "shape 1: the coefficient dz of this line is not a number";
    assert_told(&write(6, f64::NAN), "vectors-doubtful", &[words]);
    let location = golden.location();
    change(&location, "parametric", |of| {
        of["parametric_types"]["2"]["coefficients"] = json!(["a", "b", "c", "d", "e", "f", "g"]);
    });
    let words = "shape 0: a sphere has 7 coefficients, and there is room for 6";
    assert_told(&location, "vectors-objects", &[words]);
    let location = golden.location();
    change(&location, "parametric/objects", |of| of["num_objects"] = json!(3));
    assert_told(&location, "vectors-missing", &["num_objects is 3, but 2 are stored"]);
    let key = Key::new("parametric/names/zarr.json").unwrap();
    let location = golden.location();
    let mut names: Value =
        serde_json::from_slice(&location.store.get(&key).unwrap().unwrap()).unwrap();
    names["shape"] = json!([3]);
    location.store.put(&key, names.to_string().as_bytes(), Condition::None).unwrap();
    assert_told(&location, "vectors-attributes", &["must be a name for each of 2 shapes"]);
}

#[test]
fn lists_are_compared_with_what_is_stored_and_repaired() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str, &str); 4] = [
        (
            |of| drop(of["nonempty_chunks"].as_array_mut().unwrap().pop()),
            "vectors-chunk-list",
            "is stored, but not listed",
        ),
        (
            |of| of["nonempty_chunks"].as_array_mut().unwrap().push(json!("900.0.0")),
            "vectors-chunk-list",
            "chunk 900.0.0 is listed in nonempty_chunks, but nothing is stored",
        ),
        (
            |of| of["nonempty_chunks"].as_array_mut().unwrap().push(json!("1.x")),
            "vectors-chunk-list",
            "is no chunk with 3 coordinates",
        ),
        (
            |of| drop(of.as_object_mut().unwrap().remove("nonempty_chunks")),
            "vectors-no-list",
            "has no list of its chunks",
        ),
    ];
    // With shards and without.
    let names = ["points", "point_objects"];
    for (name, (damage, kind, words)) in
        names.iter().flat_map(|name| cases.map(|case| (name, case)))
    {
        let location = golden(name).location();
        let sound = attributes(&location, "0/vertices");
        change(&location, "0/vertices", damage);
        let damaged = attributes(&location, "0/vertices");
        assert_told(&location, kind, &[words, "0/vertices"]);
        let found = findings(&location, &VerifyOptions::new());
        assert!(found.iter().all(|found| found.hint().unwrap().contains("repair")), "{found:?}");
        let (_, planned) = repaired(&location, true);
        assert_eq!(planned[0].kind, RepairKind::MetadataCorrected);
        assert_eq!(attributes(&location, "0/vertices"), damaged, "a dry run wrote");
        let (summary, _) = repaired(&location, false);
        assert_eq!((summary.mended, summary.left), (1, 0));
        assert_eq!(told(&location), []);
        assert_eq!(attributes(&location, "0/vertices"), sound);
    }
}

#[test]
fn a_chunk_that_is_listed_and_lost_stays_on_the_list() {
    let golden = golden("point_objects");
    let location = golden.location();
    let (cell, _) = cells(&golden, &location, "0/vertices").swap_remove(0);
    let cell = cell.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
    let key = Key::new(&format!("0/vertices/c/{cell}")).unwrap();
    location.store.delete(&key, &Condition::None).unwrap();
    let before = attributes(&location, "0/vertices");
    assert_told(&location, "vectors-chunk-list", &["but nothing is stored", "0/vertices"]);
    assert_told(&location, "vectors-fragments", &["0/vertex_fragments"]);
    let (summary, _) = repaired(&location, false);
    assert!(summary.left > 0, "{summary:?}");
    assert_eq!(attributes(&location, "0/vertices"), before);
}

#[test]
fn counts_and_bounds_become_what_is_stored() {
    let golden = golden("graph");
    let location = golden.location();
    let sound: Vec<Value> =
        ["", "0", "0/links/0", "0/object_index"].map(|node| attributes(&location, node)).to_vec();
    change(&location, "", |root| {
        root["zarr_vectors"]["bounds"][1] = root["zarr_vectors"]["bounds"][0].clone();
    });
    change(&location, "0", |level| level["zarr_vectors_level"]["vertex_count"] = json!(2));
    change(&location, "0/links/0", |links| links["num_links"] = json!(1));
    change(&location, "0/object_index", |index| {
        index["num_objects"] = json!(0);
        index.as_object_mut().unwrap().remove("sid_ndim").unwrap();
    });
    assert_told(&location, "vectors-bounds", &["vertices lie from"]);
    assert_told(&location, "vectors-counts", &["vertex_count is 2, but"]);
    assert_told(&location, "vectors-counts", &["num_links is 1, but"]);
    assert_told(&location, "vectors-counts", &["num_objects is 0, but"]);
    let found = findings(&location, &VerifyOptions::new());
    assert!(found.iter().all(|found| found.severity == Severity::Notice), "{found:?}");
    let (summary, all) = repaired(&location, false);
    assert_eq!((summary.mended, summary.left), (4, 0), "{all:?}");
    assert!(all.iter().all(|repair| repair.set_aside.is_some()), "{all:?}");
    assert_eq!(told(&location), []);
    let now: Vec<Value> =
        ["0", "0/links/0", "0/object_index"].map(|node| attributes(&location, node)).to_vec();
    assert_eq!(now[..2], sound[1..3]);
    assert_eq!(now[2]["num_objects"], sound[3]["num_objects"]);
    assert_eq!(now[2]["num_present"], sound[3]["num_present"]);
}

#[test]
fn a_count_that_is_too_high_is_damage_and_stays() {
    let golden = golden("graph");
    let cases: [(&str, &[&str], &str); 4] = [
        ("0", &["zarr_vectors_level", "vertex_count"], "vertex_count is 123456, but"),
        ("0/links/0", &["num_links"], "num_links is 123456, but"),
        ("0/object_index", &["num_objects"], "num_objects is 123456, but"),
        ("0/object_index", &["num_present"], "num_present is 123456, but"),
    ];
    for (node, path, words) in cases {
        let location = golden.location();
        change(&location, node, |of| {
            *path.iter().fold(of, |of, name| &mut of[*name]) = json!(123_456);
        });
        let before = attributes(&location, node);
        assert_told(&location, "vectors-missing", &[words]);
        let found = findings(&location, &VerifyOptions::new());
        assert!(found.iter().any(|found| found.severity == Severity::Damage), "{found:?}");
        let (summary, all) = repaired(&location, false);
        assert_eq!((summary.mended, summary.left), (0, 1), "{all:?}");
        assert_eq!(attributes(&location, node), before);
    }
}

/// Removes all objects below a folder; how many there were.
fn remove(golden: &Golden, location: &Location, folder: &str) -> usize {
    let keys = golden.files.keys().filter(|key| key.starts_with(&format!("{folder}/")));
    keys.map(|key| location.store.delete(&Key::new(key).unwrap(), &Condition::None).unwrap())
        .count()
}

#[test]
fn links_that_are_gone_are_missed() {
    let golden = golden("graph");
    let across = golden.files.keys().find_map(|key| {
        let (array, _) = key.strip_prefix("0/links/0/")?.split_once("/c/")?;
        array.contains('+').then(|| format!("0/links/0/{array}"))
    });
    let across = across.unwrap();
    let no_links = ("vectors-links", "there are fragments of links, but no links");
    for (lost, (kind, words)) in [
        ("0/links", no_links),
        ("0/links/0", no_links),
        ("0/links/0/0.0.0", no_links),
        ("0/links/0/0.0.0/c", no_links),
        (&across, ("vectors-missing", "num_links is")),
    ] {
        let location = golden.location();
        assert!(remove(&golden, &location, lost) > 0, "{lost}");
        assert_told(&location, kind, &[words]);
        let (summary, all) = repaired(&location, false);
        assert!(summary.left > 0 && summary.mended == 0, "{lost}: {all:?}");
    }
}

#[test]
fn a_list_of_links_stays_where_nothing_says_how_many_there_were() {
    let golden = golden("graph");
    let location = golden.location();
    change(&location, "0/links/0", |of| {
        of.as_object_mut().unwrap().remove("num_links");
        of.as_object_mut().unwrap().remove("num_physical_records");
    });
    let array = "0/links/0/0.0.0";
    let (cell, _) = cells(&golden, &location, array).swap_remove(0);
    let cell = cell.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
    let key = Key::new(&format!("{array}/c/{cell}")).unwrap();
    location.store.delete(&key, &Condition::None).unwrap();
    let before = attributes(&location, array);
    assert_told(&location, "vectors-chunk-list", &["but nothing is stored", array]);
    repaired(&location, false);
    assert_eq!(attributes(&location, array), before);
}

#[test]
fn a_vertex_chunk_that_is_lost_without_a_list_lowers_no_count() {
    let golden = golden("point_objects");
    let location = golden.location();
    change(&location, "0/vertices", |of| {
        of.as_object_mut().unwrap().remove("nonempty_chunks");
    });
    let (cell, _) = cells(&golden, &location, "0/vertices").swap_remove(0);
    let cell = cell.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
    let key = Key::new(&format!("0/vertices/c/{cell}")).unwrap();
    location.store.delete(&key, &Condition::None).unwrap();
    let before = attributes(&location, "0");
    assert_told(&location, "vectors-missing", &["vertex_count is"]);
    repaired(&location, false);
    assert_eq!(attributes(&location, "0"), before);
}

#[test]
fn a_damaged_index_of_vertices_is_no_damage_of_what_describes_them() {
    let mut sharded = 0;
    for name in ["points", "point_objects", "point_genes", "flat", "levels"] {
        let golden = golden(name);
        let location = golden.location();
        if open(&location, "0/vertices").shard_shape().is_none() {
            continue;
        }
        sharded += 1;
        let is_shard = |key: &&String| key.starts_with("0/vertices/c/");
        let key = Key::new(golden.files.keys().find(is_shard).unwrap()).unwrap();
        let mut shard = location.store.get(&key).unwrap().unwrap().to_vec();
        *shard.last_mut().unwrap() ^= 1;
        location.store.put(&key, &shard, Condition::None).unwrap();
        let found = told(&location);
        let other = |(kind, _): &&(String, String)| kind.starts_with("vectors-");
        assert!(found.iter().any(|(kind, _)| kind == "index"), "{name}: {found:#?}");
        assert_eq!(found.iter().find(other), None, "{name}");
    }
    assert!(sharded > 0);
}

#[test]
fn parts_find_together_what_one_run_finds() {
    let golden = golden("graph");
    let location = golden.location();
    for array in ["0/vertices", "0/vertex_attributes/v", "0/links/0/0.0.0", "0/vertex_fragments"] {
        for (cell, mut bytes) in cells(&golden, &location, array) {
            bytes.pop();
            put(&location, array, &cell, &bytes);
        }
    }
    change(&location, "0/vertices", |of| {
        of["nonempty_chunks"].as_array_mut().unwrap().pop();
    });
    let count = |options: &VerifyOptions, all: &mut BTreeMap<String, u64>| {
        for finding in findings(&location, options) {
            *all.entry(format!("{finding:?}")).or_default() += 1;
        }
    };
    let (mut whole, mut parts) = (BTreeMap::new(), BTreeMap::new());
    count(&VerifyOptions::new(), &mut whole);
    for index in 1..=3 {
        let part = Some(Part::Of { index, count: 3 });
        count(&VerifyOptions::new().part(part), &mut parts);
    }
    assert!(whole.len() > 8, "{whole:#?}");
    assert_eq!(whole, parts);
}

#[test]
fn a_store_is_judged_wherever_it_is_in_a_hierarchy() {
    let golden = golden("points");
    let store = MemoryStore::new();
    for (key, content) in &golden.files {
        let key = Key::new(&format!("a/b/{key}")).unwrap();
        store.put(&key, &crate::golden::bytes_of(content), Condition::None).unwrap();
    }
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}}).to_string();
    for key in ["zarr.json", "a/zarr.json"] {
        store.put(&Key::new(key).unwrap(), group.as_bytes(), Condition::None).unwrap();
    }
    let location = Location::root(Arc::new(store));
    assert_eq!(told(&location), []);
    change(&location, "a/b/0", |level| level["zarr_vectors_level"]["vertex_count"] = json!(1));
    assert_told(&location, "vectors-counts", &["a/b/0/zarr.json: vertex_count is 1"]);
    assert_eq!(repaired(&location, false).0.mended, 1);
    assert_eq!(told(&location), []);
}

#[test]
fn what_is_not_known_is_not_checked_and_what_is_wrong_is_damage() {
    let golden = golden("points");
    let judge = |damage: &dyn Fn(&mut Value)| {
        let location = golden.location();
        change(&location, "", |root| damage(&mut root["zarr_vectors"]));
        let documents = VerifyOptions::new().metadata_only(true);
        let found = findings(&location, &documents);
        found.iter().map(|finding| finding.kind.name()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(judge(&|root| root["zv_version"] = json!("0.10.0")), "not-checked");
    assert_eq!(judge(&|root| root["zv_version"] = json!("0.8.1")), "not-checked");
    assert_eq!(judge(&|root| root["required_capabilities"] = json!(["magic"])), "not-checked");
    assert_eq!(judge(&|root| root["zv_version"] = json!(9)), "vectors-metadata");
    assert_eq!(judge(&|root| root["chunk_shape"] = json!([1, 2])), "vectors-metadata");
    assert_eq!(judge(&|root| root["zv_version"] = json!("0.9.4")), "");
    let location = golden.location();
    change(&location, "0", |level| {
        level["zarr_vectors_level"]["chunk_shape"] = json!([7.5, 7.5, 7.5]);
        level["zarr_vectors_level"]["parent_level"] = json!(5);
        level["zarr_vectors_level"]["arrays_present"] = json!(["vertices", "ghosts"]);
    });
    let documents = VerifyOptions::new().metadata_only(true);
    let kinds: Vec<&str> =
        findings(&location, &documents).iter().map(|finding| finding.kind.name()).collect();
    assert_eq!(kinds, ["vectors-metadata", "vectors-doubtful", "vectors-doubtful"]);
}

#[test]
fn values_of_every_type_that_can_be_read_are_in_order() {
    let location = golden("graph").location();
    let array = "0/vertex_attributes/v";
    let size = attributes(&location, array)["dtype"].as_str().map(|name| match name {
        "float64" | "int64" => 8,
        _ => 4,
    });
    let size = size.unwrap();
    let names = [">f{}", "|S{}", "<i{}", "<U1", "datetime64[ns]", "complex64"];
    for name in names.map(|name| name.replace("{}", &size.to_string())) {
        let fits = match name.as_str() {
            "<U1" => size == 4,
            "datetime64[ns]" | "complex64" => size == 8,
            _ => true,
        };
        if fits {
            change(&location, array, |of| of["dtype"] = json!(name));
            assert_eq!(told(&location), [], "{name}");
        }
    }
    change(&location, array, |of| of["dtype"] = json!("object"));
    let found = told(&location);
    assert_eq!(found.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), ["not-checked"]);
    assert_told(&location, "not-checked", &[array, "object"]);
}

#[test]
fn an_array_that_must_be_there_is_missed() {
    let golden = golden("polylines");
    for (node, words) in [
        ("0/vertices", "there is no array of vertices"),
        ("0/vertex_fragments", "there is no array vertex_fragments, which objects consist of"),
        ("0/object_index/manifests", "there are no manifests"),
    ] {
        let location = golden.location();
        for key in golden.files.keys().filter(|key| key.starts_with(&format!("{node}/"))) {
            location.store.delete(&Key::new(key).unwrap(), &Condition::None).unwrap();
        }
        assert_told(&location, "vectors-metadata", &[words]);
    }
}
