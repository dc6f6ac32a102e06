//! OME-Zarr hierarchies that are migrated: all of it says the same in another version, and nothing
//! else changes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use shardine::jobs::{
    MigrateError, MigrateOptions, MigrateSummary, VerifyOptions, migrate, verify,
};
use shardine::ome::{OmeMetadata, OmeRelease, OmeVersion};
use shardine::store::{Condition, CountingStore, FileStore, Key, MemoryStore, Store, StoreExt};
use shardine::{ArrayNode, Error, Location};

use crate::common::engine;
use crate::common::odd_store::OddStore;
use crate::common::ome::{Files, image, join};

/// Writes the files of a hierarchy into a store.
pub fn fill(files: &Files, store: &dyn Store) {
    for (name, bytes) in &files.0 {
        store.put(&Key::new(name).unwrap(), bytes, Condition::None).unwrap();
    }
}

fn stored(files: &Files) -> Location {
    let store = Arc::new(MemoryStore::new());
    fill(files, &*store);
    Location::root(store)
}

/// The same in a folder.
fn on_files(files: &Files) -> (tempfile::TempDir, Location) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FileStore::new(folder.path().join("h.zarr")));
    fill(files, &*store);
    (folder, Location::root(store))
}

fn run(location: &Location, options: &MigrateOptions) -> Result<MigrateSummary, Error> {
    migrate(&engine(), location, options, &mut |_| {})
}

fn get(location: &Location, name: &str) -> Option<Vec<u8>> {
    location.store.get(&location.key(name).unwrap()).unwrap().map(|bytes| bytes.to_vec())
}

fn document(location: &Location, path: &str) -> Value {
    let name = join(path, "zarr.json");
    serde_json::from_slice(&get(location, &name).unwrap_or_else(|| panic!("no {name}"))).unwrap()
}

/// Everything in a store.
fn contents(location: &Location) -> BTreeMap<String, Vec<u8>> {
    let (mut all, mut folders) = (BTreeMap::new(), vec![None]);
    while let Some(folder) = folders.pop() {
        let listing = location.store.list(folder.as_ref()).unwrap();
        assert!(listing.unlisted.is_empty(), "{:?}", listing.unlisted);
        assert!(location.store.leftovers(folder.as_ref()).unwrap().is_empty());
        for (key, _) in listing.objects {
            let bytes = location.store.get(&key).unwrap().unwrap().to_vec();
            all.insert(key.as_str().to_owned(), bytes);
        }
        folders.extend(listing.folders.into_iter().map(Some));
    }
    all
}

fn in_version(version: &str) -> MigrateOptions {
    MigrateOptions::new().ome_version(version.parse::<OmeVersion>().unwrap())
}

/// What OME-Zarr metadata says, whatever its version.
fn meaning(attributes: &Map<String, Value>) -> Option<String> {
    let metadata = OmeMetadata::read(attributes).unwrap()?;
    let images: Vec<_> = (metadata.images.iter())
        .map(|image| {
            let levels = image.levels.iter().enumerate().map(|(number, level)| {
                (&level.path, image.placement(number).unwrap(), &level.other)
            });
            let levels: Vec<_> = levels.collect();
            format!("{:?} {:?} {levels:?} {:?}", image.name, image.axes, image.other)
        })
        .collect();
    let OmeMetadata { omero, labels, image_label, plate, well, series, .. } = &metadata;
    // The version is stated elsewhere.
    let without_version = |value: Value| -> Value {
        let mut value = value;
        if let Some(members) = value.as_object_mut() {
            members.shift_remove("version");
        }
        value
    };
    let [omero, image_label, plate, well] =
        [json!(omero), json!(image_label), json!(plate), json!(well)].map(without_version);
    let layout = &metadata.bioformats2raw_layout;
    Some(format!(
        "{images:?} {omero} {labels:?} {image_label} {plate} {well} {series:?} {layout:?} {:?}",
        metadata.other
    ))
}

/// Attributes that are not OME-Zarr's.
fn foreign(attributes: &Map<String, Value>) -> Map<String, Value> {
    let ome = [
        "ome",
        "multiscales",
        "omero",
        "labels",
        "image-label",
        "plate",
        "well",
        "series",
        "bioformats2raw.layout",
    ];
    let mut attributes = attributes.clone();
    ome.iter().for_each(|name| drop(attributes.shift_remove(*name)));
    attributes
}

fn attributes_of_v2(files: &Files, path: &str) -> Map<String, Value> {
    let name = join(path, ".zattrs");
    let found = files.0.iter().find(|(key, _)| *key == name);
    found.map_or_else(Map::new, |(_, bytes)| serde_json::from_slice(bytes).unwrap())
}

/// Checks that a hierarchy says in a version what these files of 0.4 say.
fn check(files: &Files, location: &Location, version: &str) {
    let now = contents(location);
    for path in files.nodes() {
        let document = document(location, &path);
        let before = attributes_of_v2(files, &path);
        let after = document["attributes"].as_object().cloned().unwrap_or_default();
        assert_eq!(meaning(&before), meaning(&after), "{path}");
        assert_eq!(foreign(&before), foreign(&after), "{path}");
        if meaning(&before).is_some() {
            assert_eq!(document["attributes"]["ome"]["version"], version, "{path}");
        }
        if document["node_type"] == "array" {
            assert_eq!(document["dimension_names"], json!(["c", "y", "x"]), "{path}");
            let array = ArrayNode::open(&engine(), &location.join(&path).unwrap()).unwrap();
            let elements = array.read_elements("...").unwrap().into_fixed().unwrap();
            let chunk = files.0.iter().find(|(key, _)| *key == join(&path, "0/0/0")).unwrap();
            assert_eq!(elements, chunk.1, "{path}");
        }
    }
    // All that is not a document is where it was.
    let documents: Vec<&String> = files.documents().map(|(name, _)| name).collect();
    for (name, bytes) in files.0.iter().filter(|(name, _)| !documents.contains(&name)) {
        assert_eq!(now.get(name), Some(bytes), "{name}");
    }
    let findings = findings(location);
    assert!(findings.is_empty(), "{findings:?}");
}

fn findings(location: &Location) -> Vec<String> {
    let mut messages = Vec::new();
    let options = VerifyOptions::new().decode(true);
    verify(&engine(), location, &options, &mut |finding| messages.push(finding.message.clone()))
        .unwrap();
    messages
}

fn cases() -> Vec<(&'static str, Files)> {
    let mut cases = Vec::new();
    let mut add = |name: &'static str, make: &dyn Fn(&mut Files)| {
        let mut files = Files::default();
        make(&mut files);
        cases.push((name, files));
    };
    add("image", &|files| files.image("", 3, &json!({})));
    add("image with labels", &|files| files.labelled("", 2));
    add("plate", &|files| files.plate("", &["A", "B"], &["1", "2"], 2, 2));
    add("consolidated plate", &|files| {
        files.plate("", &["A"], &["1", "2"], 1, 2);
        files.consolidated("");
    });
    add("bioformats2raw", &|files| files.bioformats2raw(""));
    add("nested", &|files| {
        files.group("", &json!({"note": "images"}));
        files.group("x", &json!({}));
        files.labelled("x/first", 2);
        files.image("second", 1, &json!({}));
        files.consolidated("");
    });
    cases
}

#[test]
fn hierarchies_of_every_kind_go_from_0_4_to_0_5_and_to_0_6() {
    for (name, files) in cases() {
        println!("{name}");
        let nodes = files.nodes().len() as u64;
        let old = files.documents().count() as u64;
        for version in ["0.5", "0.6", "0.6rc0"] {
            let location = stored(&files);
            let summary = run(&location, &in_version(version)).unwrap();
            let counted = (summary.arrays + summary.groups, summary.written, summary.replaced);
            assert_eq!(counted, (nodes, nodes, 0), "{name}");
            assert_eq!((summary.removed, summary.resumed), (old, false), "{name}");
            check(&files, &location, version);
            let before = contents(&location);
            assert!(!before.keys().any(|name| name.contains("/.z") || name.starts_with(".z")));
            let again = run(&location, &in_version(version)).unwrap();
            assert_eq!((again.written, again.replaced, again.removed), (0, 0, 0), "{name}");
            assert!(!again.resumed);
            assert_eq!(contents(&location), before, "{name}");
        }
        // And on from 0.5, where the documents are there already.
        let (_folder, location) = on_files(&files);
        run(&location, &MigrateOptions::new()).unwrap();
        check(&files, &location, "0.5");
        let summary = run(&location, &in_version("0.6")).unwrap();
        assert_eq!((summary.written, summary.removed), (0, 0), "{name}");
        assert!(summary.replaced >= summary.converted && summary.converted > 0, "{name}");
        check(&files, &location, "0.6");
        let direct = stored(&files);
        run(&direct, &in_version("0.6")).unwrap();
        for path in files.nodes() {
            assert_eq!(document(&location, &path), document(&direct, &path), "{name}: {path}");
        }
        // The newest version that is there stays, and the way back is open while it can be.
        assert_eq!(run(&location, &MigrateOptions::new()).unwrap().replaced, 0, "{name}");
        run(&location, &in_version("0.5")).unwrap();
        check(&files, &location, "0.5");
    }
}

#[test]
fn both_versions_stay_side_by_side_if_asked() {
    let mut files = Files::default();
    files.labelled("", 2);
    files.consolidated("");
    let location = stored(&files);
    let summary = run(&location, &MigrateOptions::new().remove_v2(false)).unwrap();
    assert_eq!(summary.removed, 0);
    check(&files, &location, "0.5");
    let now = contents(&location);
    files.documents().for_each(|(name, bytes)| assert_eq!(now.get(name), Some(bytes), "{name}"));
    // Later they go, as those of version 3 say the same.
    let summary = run(&location, &MigrateOptions::new()).unwrap();
    assert_eq!((summary.written, summary.removed), (0, files.documents().count() as u64));
    check(&files, &location, "0.5");
    // Unless they do not.
    let location = stored(&files);
    run(&location, &MigrateOptions::new().remove_v2(false)).unwrap();
    let mut changed = document(&location, "labels/cells");
    changed["attributes"]["ome"]["image-label"]["colors"] = json!([]);
    let key = Key::new("labels/cells/zarr.json").unwrap();
    location.store.put(&key, changed.to_string().as_bytes(), Condition::None).unwrap();
    let before = contents(&location);
    let refused = run(&location, &MigrateOptions::new()).unwrap_err();
    assert!(refused.to_string().contains("labels/cells differs"), "{refused}");
    assert_eq!(contents(&location), before);
}

#[test]
fn consolidated_metadata_is_renewed_where_it_was() {
    let mut files = Files::default();
    files.plate("", &["A"], &["1"], 1, 1);
    files.consolidated("");
    let (_folder, location) = on_files(&files);
    for version in ["0.5", "0.6"] {
        run(&location, &in_version(version)).unwrap();
        let root = document(&location, "");
        let copies = root["consolidated_metadata"]["metadata"].as_object().unwrap();
        assert_eq!(copies.len(), files.nodes().len() - 1);
        for (path, copy) in copies {
            assert_eq!(*copy, document(&location, path), "{path}");
        }
        assert_eq!(document(&location, "A/1").get("consolidated_metadata"), None);
    }
}

#[test]
fn older_versions_get_the_axes_and_scales_that_they_mean() {
    for (version, axes, shape, names) in [
        ("0.1", None, vec![1, 1, 1, 4, 4], vec!["t", "c", "z", "y", "x"]),
        ("0.2", None, vec![1, 1, 1, 4, 4], vec!["t", "c", "z", "y", "x"]),
        ("0.3", Some(json!(["z", "y", "x"])), vec![2, 4, 4], vec!["z", "y", "x"]),
    ] {
        let mut image = json!({"version": version, "datasets": [{"path": "0"}]});
        if let Some(axes) = axes {
            image["axes"] = axes;
        }
        let mut files = Files::default();
        files.group("", &json!({ "multiscales": [image] }));
        files.array("0", &shape);
        let location = stored(&files);
        run(&location, &MigrateOptions::new()).unwrap();
        assert_eq!(document(&location, "0")["dimension_names"], json!(names), "{version}");
        let root = document(&location, "");
        let image = &root["attributes"]["ome"]["multiscales"][0];
        let found: Vec<&str> = (image["axes"].as_array().unwrap().iter())
            .map(|axis| axis["name"].as_str().unwrap())
            .collect();
        assert_eq!(found, names, "{version}");
        let scale = &image["datasets"][0]["coordinateTransformations"][0]["scale"];
        assert_eq!(*scale, json!(vec![1.0; names.len()]), "{version}");
    }
}

#[test]
fn a_form_of_0_4_in_version_3_is_corrected() {
    let mut files = Files::default();
    files.labelled("", 1);
    let (_folder, location) = on_files(&files);
    let summary = run(&location, &MigrateOptions::new().leave_ome(true)).unwrap();
    assert_eq!((summary.ome, summary.removed), (0, 0));
    assert_eq!(document(&location, "")["attributes"]["multiscales"][0]["version"], "0.4");
    let summary = run(&location, &MigrateOptions::new()).unwrap();
    assert_eq!((summary.written, summary.converted, summary.named), (0, 4, 3));
    assert_eq!(summary.removed, files.documents().count() as u64);
    check(&files, &location, "0.5");
}

#[test]
fn what_was_kept_of_a_killed_run_is_known_and_what_is_another_one_is_replaced() {
    let mut files = Files::default();
    files.plate("", &["A"], &["1"], 1, 1);
    let whole = stored(&files);
    run(&whole, &in_version("0.6")).unwrap();
    let half = stored(&files);
    run(&half, &MigrateOptions::new().remove_v2(false)).unwrap();
    // As a run to 0.5 leaves it that was killed before its last document.
    half.store.delete(&Key::new("zarr.json").unwrap(), &Condition::None).unwrap();
    let before = contents(&half);
    let finished = run(&half, &MigrateOptions::new().dry_run(true)).unwrap();
    assert_eq!((finished.written, finished.replaced), (1, 0));
    assert_eq!(contents(&half), before);
    // Nobody sees these documents from the outermost node, so any store will do.
    let summary = run(&half, &in_version("0.6")).unwrap();
    assert_eq!((summary.written, summary.replaced), (1, summary.ome - 1));
    assert_eq!(contents(&half), contents(&whole));
}

/// The reasons why a hierarchy is refused.
fn reasons(files: &Files, options: &MigrateOptions) -> Vec<String> {
    let location = stored(files);
    let before = contents(&location);
    let Err(Error::Migrate(MigrateError::Refused { nodes })) = run(&location, options) else {
        panic!("not refused");
    };
    assert_eq!(contents(&location), before);
    nodes.into_iter().map(|node| node.reason).collect()
}

#[test]
fn what_cannot_be_said_is_refused_before_anything_is_written() {
    let mut files = Files::default();
    files.image("", 1, &json!({}));
    files.group("bad", &json!({"multiscales": [{"version": "0.4", "axes": []}]}));
    files.group("strange", &json!({"multiscales": [{"version": "9.9"}]}));
    let found = reasons(&files, &MigrateOptions::new());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("multiscales[0].datasets: is missing"), "{found:?}");
    assert!(found[1].contains("9.9"), "{found:?}");
    // As plain Zarr it can be migrated.
    run(&stored(&files), &MigrateOptions::new().leave_ome(true)).unwrap();

    // An array that is a level of two images with other axes, and one with other dimensions.
    let mut files = Files::default();
    files.image("a", 1, &json!({}));
    let mut other = image(1);
    other["multiscales"][0]["axes"][1]["name"] = json!("v");
    other["multiscales"][0]["datasets"][0]["path"] = json!("../a/0");
    files.group("", &json!({}));
    files.group("b", &Value::Object(other.clone()));
    let found = reasons(&files, &MigrateOptions::new());
    assert!(found[0].contains("has the axes c, v, x here and c, y, x in"), "{found:?}");
    other["multiscales"][0]["datasets"][0]["path"] = json!("../../0");
    let mut files = Files::default();
    files.group("", &json!({}));
    files.group("b", &Value::Object(other));
    let found = reasons(&files, &MigrateOptions::new());
    assert!(found[0].contains("level \"../../0\" is not below it"), "{found:?}");
    let mut files = Files::default();
    files.group("", &Value::Object(image(1)));
    files.array("0", &[4, 4]);
    let found = reasons(&files, &MigrateOptions::new());
    assert!(found[0].contains("has 3 axes") && found[0].contains("dimension_names"), "{found:?}");

    // What only 0.6 can say.
    let scene = json!({"zarr_format": 3, "node_type": "group", "attributes": {"ome": {
        "version": "0.6", "scene": {"coordinateTransformations": []}}}});
    let mut files = Files::default();
    files.json("", "zarr.json", &scene);
    let found = reasons(&files, &in_version("0.5"));
    assert!(found[0].contains("0.5 cannot express a scene"), "{found:?}");
    let refused = run(&stored(&files), &in_version("0.4")).unwrap_err();
    assert!(matches!(refused, Error::Migrate(MigrateError::Version { .. })), "{refused}");
}

#[test]
fn a_part_of_a_hierarchy_does_not_get_a_version_of_its_own() {
    let mut files = Files::default();
    files.plate("", &["A"], &["1"], 1, 1);
    let location = stored(&files);
    for part in ["A", "A/1", "A/1/0", "A/1/0/labels/cells"] {
        let refused = run(&location.join(part).unwrap(), &MigrateOptions::new()).unwrap_err();
        assert!(matches!(refused, Error::Migrate(MigrateError::PartOf { .. })), "{refused}");
    }
    assert_eq!(contents(&location).len(), files.0.len());
    // Where the groups above say nothing, every image is a hierarchy.
    let mut files = Files::default();
    files.group("", &json!({}));
    files.image("a", 1, &json!({}));
    files.image("b", 1, &json!({}));
    let location = stored(&files);
    run(&location.join("a").unwrap(), &MigrateOptions::new()).unwrap();
    assert!(get(&location, "b/zarr.json").is_none() && get(&location, "a/.zgroup").is_none());
}

#[test]
fn what_cannot_change_in_one_step_is_refused() {
    let mut files = Files::default();
    files.labelled("", 1);
    let location = stored(&files);
    run(&location, &MigrateOptions::new()).unwrap();
    let before = contents(&location);
    for options in [in_version("0.6"), in_version("0.6").dry_run(true)] {
        let refused = run(&location, &options).unwrap_err();
        let Error::Migrate(MigrateError::NotTogether { groups, .. }) = refused else {
            panic!("{refused}");
        };
        assert_eq!(groups, 4);
    }
    assert_eq!(contents(&location), before);
    // One document changes in one step anywhere, and an array may get its names before.
    let mut files = Files::default();
    files.image("", 2, &json!({}));
    let location = stored(&files);
    run(&location, &MigrateOptions::new()).unwrap();
    let mut nameless = document(&location, "0");
    nameless.as_object_mut().unwrap().shift_remove("dimension_names");
    let key = Key::new("0/zarr.json").unwrap();
    location.store.put(&key, nameless.to_string().as_bytes(), Condition::None).unwrap();
    let mut order = Vec::new();
    migrate(&engine(), &location, &in_version("0.6"), &mut |done| order.push(done.object.clone()))
        .unwrap();
    assert_eq!(order, ["0/zarr.json", "zarr.json"]);
    check(&files, &location, "0.6");
}

#[test]
fn numbers_and_members_that_nobody_knows_survive() {
    let mut attributes = image(1);
    attributes["multiscales"][0]["future"] = json!({"a": [1, 2]});
    attributes["multiscales"][0]["axes"][1]["orientation"] = json!("up");
    let text = Value::Object(attributes).to_string();
    let text = text.replacen(
        '{',
        r#"{"image-label":{"properties":[{"label-value":1,"area":NaN}]},"other":Infinity,"#,
        1,
    );
    let mut files = Files::default();
    files.group("", &json!({}));
    files.put("", ".zattrs", text.as_bytes());
    files.array("0", &[2, 8, 8]);
    let location = stored(&files);
    run(&location, &MigrateOptions::new()).unwrap();
    let now = String::from_utf8(get(&location, "zarr.json").unwrap()).unwrap();
    assert!(now.contains("\"area\": NaN") && now.contains("\"other\": Infinity"), "{now}");
    assert!(now.contains("\"future\"") && now.contains("\"orientation\": \"up\""), "{now}");
    // An empty list of labels is OME-Zarr's in a group of that name.
    let mut files = Files::default();
    files.image("", 1, &json!({}));
    files.group("labels", &json!({"labels": []}));
    let location = stored(&files);
    run(&location, &MigrateOptions::new()).unwrap();
    let labels = document(&location, "labels");
    assert_eq!(labels["attributes"], json!({"ome": {"version": "0.5", "labels": []}}));
}

#[test]
fn nodes_of_a_far_store_are_read_and_written_side_by_side() {
    let mut files = Files::default();
    files.plate("", &["A", "B"], &["1", "2", "3"], 2, 2);
    files.consolidated("");
    let odd = OddStore::new();
    fill(&files, &*odd);
    let counted = Arc::new(CountingStore::new(Arc::clone(&odd)));
    let location = Location::root(Arc::clone(&counted) as Arc<dyn Store>);
    odd.latency.store(1, Ordering::SeqCst);
    odd.peak.store(0, Ordering::SeqCst);
    let mut order = Vec::new();
    migrate(&engine(), &location, &MigrateOptions::new(), &mut |done| {
        order.push(done.object.clone());
    })
    .unwrap();
    let nodes = files.nodes().len();
    odd.latency.store(0, Ordering::SeqCst);
    assert!(odd.peak.load(Ordering::SeqCst) > 4);
    let counts = counted.counts();
    assert_eq!(counts.lists as usize, files.nodes().len() - 6 * 2 * 3 * 2, "one for each group");
    assert_eq!(counts.creates as usize, nodes);
    // Each node is looked at, checked, and looked at once more before its old documents go.
    assert!(counts.opens as usize <= 17 * nodes, "{counts:?} for {nodes} nodes");
    let written: Vec<&String> = order.iter().filter(|name| name.ends_with("zarr.json")).collect();
    assert_eq!(written.last().unwrap().as_str(), "zarr.json");
    let removed: Vec<&String> = order.iter().filter(|name| name.contains(".z")).collect();
    assert_eq!(removed[..3], [".zmetadata", ".zgroup", ".zattrs"]);
    check(&files, &location, "0.5");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn voxels_stay_where_they_are_in_every_version(
        rank in 2usize..=5,
        scales in prop::collection::vec(prop::collection::vec(1e-6..1e6f64, 5), 1..4),
        steps in prop::collection::vec(prop::option::of(prop::collection::vec(-1e6..1e6f64, 5)), 3),
        whole in prop::option::of(prop::collection::vec(1e-3..1e3f64, 5)),
        rest in prop::collection::btree_map("[a-w]{4,6}", any::<i32>(), 0..3),
    ) {
        let axes: Vec<Value> = ["t", "c", "z", "y", "x"][5 - rank..].iter()
            .map(|name| match *name {
                "t" => json!({"name": "t", "type": "time", "unit": "second"}),
                "c" => json!({"name": "c", "type": "channel"}),
                name => json!({"name": name, "type": "space"}),
            })
            .collect();
        let mut files = Files::default();
        let datasets: Vec<Value> = scales.iter().zip(&steps).enumerate().map(|(n, (scale, by))| {
            files.array(&n.to_string(), &vec![2; rank]);
            let mut all = vec![json!({"type": "scale", "scale": scale[..rank]})];
            all.extend(by.as_ref().map(|by| {
                json!({"type": "translation", "translation": by[..rank]})
            }));
            json!({"path": n.to_string(), "coordinateTransformations": all})
        }).collect();
        let mut image = json!({"version": "0.4", "axes": axes, "datasets": datasets});
        if let Some(whole) = &whole {
            image["coordinateTransformations"] =
                json!([{"type": "scale", "scale": whole[..rank]}]);
        }
        rest.iter().for_each(|(name, number)| image[name] = json!(number));
        files.group("", &json!({ "multiscales": [image], "rest": rest }));
        let before = attributes_of_v2(&files, "");
        let old = OmeMetadata::read(&before).unwrap().unwrap();
        let location = stored(&files);
        for version in ["0.5", "0.6"] {
            run(&location, &in_version(version)).unwrap();
            let root = document(&location, "");
            let attributes = root["attributes"].as_object().unwrap();
            prop_assert_eq!(foreign(&before), foreign(attributes));
            let new = OmeMetadata::read(attributes).unwrap().unwrap();
            let (old, new) = (old.image().unwrap(), new.image().unwrap());
            prop_assert_eq!(&old.axes, &new.axes);
            prop_assert_eq!(&old.other, &new.other);
            for level in 0..old.levels.len() {
                let (old, new) = (old.placement(level).unwrap(), new.placement(level).unwrap());
                let pairs = old.scale.iter().chain(&old.translation)
                    .zip(new.scale.iter().chain(&new.translation));
                for (old, new) in pairs {
                    prop_assert!((old - new).abs() <= 1e-12 * old.abs(), "{} {}", old, new);
                }
                let names = &document(&location, &level.to_string())["dimension_names"];
                prop_assert_eq!(names.as_array().unwrap().len(), rank);
            }
        }
        let newest = run(&location, &MigrateOptions::new()).unwrap().ome_version.unwrap();
        prop_assert_eq!(newest.release(), OmeRelease::V0_6);
    }
}
