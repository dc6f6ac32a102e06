//! Repairs of OME-Zarr metadata: what follows from the hierarchy is corrected, what may be meant
//! otherwise is not, and nothing else changes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use shardine::jobs::{
    Finding, FindingKind, Repair, RepairKind, RepairOptions, RepairSummary, VerifyOptions, repair,
    verify,
};
use shardine::store::{
    Condition, Edit, FaultStore, FileStore, Key, MemoryStore, Operation, Store, StoreError,
    StoreExt, layer,
};
use shardine::{Location, Region, open_in};
use tempfile::TempDir;

use crate::common::data_set::dump;
use crate::common::engine;
use crate::common::ome::Files;
use crate::common::ome5::{Documents, mendable};

const HINT: &str = "run `shardine repair`";

fn found(at: &Location) -> Vec<Finding> {
    let mut found = Vec::new();
    verify(&engine(), at, &VerifyOptions::new(), &mut |finding| found.push(finding)).unwrap();
    found
}

fn run(at: &Location, dry_run: bool) -> (RepairSummary, Vec<Repair>) {
    let aside = Location::root(Arc::clone(&at.store)).join("aside").unwrap();
    let options = RepairOptions::new(aside).dry_run(dry_run);
    let mut told = Vec::new();
    let summary = repair(&engine(), at, &options, &mut |repair| told.push(repair)).unwrap();
    (summary, told)
}

fn memory(documents: &Documents) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    documents.put_into(&*store);
    store
}

fn at(store: &Arc<dyn Store>, path: &str) -> Location {
    Location::root(Arc::clone(store)).join(path).unwrap()
}

fn document(all: &BTreeMap<String, Vec<u8>>, key: &str) -> Value {
    serde_json::from_slice(&all[key]).unwrap()
}

fn lines(told: &[Repair]) -> BTreeSet<String> {
    let object =
        |repair: &Repair| repair.object.as_ref().map_or(".", |key| key.as_str()).to_owned();
    told.iter()
        .filter(|repair| repair.kind == RepairKind::MetadataCorrected)
        .map(|repair| format!("{}: {}", object(repair), repair.message))
        .collect()
}

#[test]
fn what_follows_from_the_hierarchy_is_corrected() {
    let folder = TempDir::new().unwrap();
    for store in
        [Arc::new(MemoryStore::new()) as Arc<dyn Store>, Arc::new(FileStore::new(folder.path()))]
    {
        mendable().put_into(&*store);
        let place = at(&store, "p");
        let before = dump(&*store);
        let about = found(&place);
        assert!(about.iter().any(|finding| finding.kind == FindingKind::OmeLevels));
        for finding in &about {
            assert_eq!(finding.hint(), Some(HINT), "{finding:?}");
        }
        let (foreseen_summary, foreseen) = run(&place, true);
        assert_eq!(dump(&*store), before);
        let (summary, told) = run(&place, false);
        assert_eq!(lines(&told), lines(&foreseen));
        assert_eq!(summary.mended, foreseen_summary.mended);
        assert!(summary.is_ok() && foreseen_summary.is_ok(), "{told:?}");
        let version = "version: 0.5, as in the rest of the hierarchy";
        let names = "dimension_names: \"y\", \"x\" instead of";
        let expected = [
            "p/A/1/0/0/zarr.json: dimension_names: \"y\", \"x\" instead of none".to_owned(),
            "p/A/1/0/zarr.json: multiscales[0].datasets: in the order \"0\", \"1\" instead of \
             \"1\", \"0\""
                .to_owned(),
            format!("p/A/1/0/zarr.json: {version}"),
            format!("p/A/1/zarr.json: {version}"),
            format!("p/A/2/0/0/zarr.json: {names} \"a\", \"x\""),
            format!("p/A/2/0/labels/cells/1/zarr.json: {names} none"),
            format!("p/A/2/0/labels/cells/zarr.json: {version}"),
            "p/A/2/0/labels/zarr.json: labels: \"cells\" added, \"gone\" removed".to_owned(),
            format!("p/A/2/0/labels/zarr.json: {version}"),
            format!("p/A/2/0/zarr.json: {version}"),
            "p/zarr.json: plate.wells[1].columnIndex: 1".to_owned(),
            format!("p/zarr.json: {version}"),
        ];
        assert_eq!(lines(&told), expected.into());
        assert_eq!(found(&place), []);

        // Nothing else has changed: chunks, attributes, members that are not known.
        let after = dump(&*store);
        let array = |key: &str| {
            let mut array = document(&before, key);
            array["dimension_names"] = json!(["y", "x"]);
            array
        };
        for key in ["p/A/1/0/0/zarr.json", "p/A/2/0/0/zarr.json"] {
            assert_eq!(document(&after, key), array(key));
        }
        let mut image = document(&before, "p/A/1/0/zarr.json");
        image["attributes"]["ome"]["version"] = json!("0.5");
        let levels = &mut image["attributes"]["ome"]["multiscales"][0]["datasets"];
        levels.as_array_mut().unwrap().reverse();
        assert_eq!(document(&after, "p/A/1/0/zarr.json"), image);
        let (old, new): (Vec<_>, Vec<_>) = (before.keys().collect(), after.keys().collect());
        let (kept, new): (Vec<_>, Vec<_>) = new.into_iter().partition(|key| old.contains(key));
        assert_eq!(kept, old);
        for key in old.iter().filter(|key| !key.ends_with("zarr.json")) {
            assert_eq!(before[*key], after[*key]);
        }
        // What was replaced or removed is kept.
        let kept: Vec<&Vec<u8>> =
            new.iter().filter(|key| key.ends_with(".bytes")).map(|key| &after[*key]).collect();
        let replaced = ["p/A/2/0/0/zarr.json", "p/A/2/0/labels/zarr.json"];
        assert_eq!(kept.len(), replaced.len(), "{new:?}");
        assert!(replaced.iter().all(|key| kept.contains(&&before[*key])));

        // Once more, and nothing is done.
        assert_eq!(run(&place, false), (RepairSummary::default(), Vec::new()));
        assert_eq!(dump(&*store), after);
        let level = open_in(&engine(), at(&store, "p/A/1/0")).unwrap().array(0).unwrap();
        assert_eq!(level.shape(), [8, 8]);
        assert_eq!(level.read_elements(Region::all()).unwrap().into_fixed().unwrap().len(), 64);
    }
}

#[test]
fn what_may_be_meant_otherwise_is_left_alone() {
    type Spoil = fn(&mut Documents);
    let cases: [(&str, FindingKind, Spoil); 7] = [
        ("an axis or a dimension may be wrong", FindingKind::OmeDimensionNames, |all| {
            all.change("i/0/zarr.json", |array| array["dimension_names"] = json!(["x", "y"]));
        }),
        ("the scales say that the order is right", FindingKind::OmeLevels, |all| {
            all.change_ome("i", |ome| {
                let levels = ome["multiscales"][0]["datasets"].as_array_mut().unwrap();
                levels[0]["path"] = json!("1");
                levels[1]["path"] = json!("0");
            });
        }),
        ("nobody states a version", FindingKind::OmeVersion, |all| {
            ["i", "i/labels", "i/labels/cells"].iter().for_each(|group| all.forget_version(group));
        }),
        ("versions differ", FindingKind::OmeVersion, |all| {
            all.forget_version("i/labels/cells");
            all.change_ome("i/labels", |ome| ome["version"] = json!("0.6"));
        }),
        ("another version would not fit", FindingKind::OmeVersion, |all| {
            all.forget_version("i");
            for group in ["i/labels", "i/labels/cells"] {
                all.change_ome(group, |ome| ome["version"] = json!("0.6"));
            }
        }),
        ("the document of a label image is gone", FindingKind::OmeLabels, |all| {
            all.0.remove("i/labels/cells/zarr.json");
        }),
        ("a path that no node can have", FindingKind::OmeLabels, |all| {
            all.change_ome("i/labels", |ome| ome["labels"] = json!(["cells", "a/../b"]));
        }),
    ];
    for (name, kind, spoil) in cases {
        let mut all = Documents::default();
        all.labelled("i");
        spoil(&mut all);
        let store = memory(&all);
        let place = at(&store, "i");
        let about: Vec<Finding> =
            found(&place).into_iter().filter(|finding| finding.kind == kind).collect();
        assert!(!about.is_empty(), "{name}: {:?}", found(&place));
        for finding in &about {
            assert_ne!(finding.hint(), Some(HINT), "{name}: {finding:?}");
        }
        let before = dump(&*store);
        let (summary, told) = run(&place, false);
        assert!(summary.left > 0, "{name}: {told:?}");
        assert_eq!(lines(&told), [].into(), "{name}");
        assert_eq!(dump(&*store), before, "{name}");
    }
}

#[test]
fn documents_of_version_2_get_their_versions_and_their_copies() {
    let mut files = Files::default();
    files.plate("p", &["A"], &["1", "2"], 1, 2);
    files.consolidated("p");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for (name, bytes) in &files.0 {
        store.put(&Key::new(name).unwrap(), bytes, Condition::None).unwrap();
    }
    let place = at(&store, "p");
    let sound: Vec<FindingKind> = found(&place).iter().map(|finding| finding.kind).collect();
    let whole = dump(&*store);
    let spoil = |key: &str, pointer: &str| {
        let mut attributes = document(&dump(&*store), key);
        let members = attributes.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
        members.shift_remove("version").unwrap();
        store
            .put(&Key::new(key).unwrap(), attributes.to_string().as_bytes(), Condition::None)
            .unwrap();
    };
    spoil("p/.zattrs", "/plate");
    spoil("p/A/1/.zattrs", "/well");
    spoil("p/A/2/0/.zattrs", "/multiscales/0");
    spoil("p/A/2/0/labels/cells/.zattrs", "/image-label");
    // Levels in the wrong order, and a label image that is not there.
    let mut image = document(&dump(&*store), "p/A/1/0/.zattrs");
    image["multiscales"][0]["datasets"].as_array_mut().unwrap().reverse();
    store
        .put(&Key::new("p/A/1/0/.zattrs").unwrap(), image.to_string().as_bytes(), Condition::None)
        .unwrap();
    let labels = json!({"labels": ["cells", "gone", "nuclei"]}).to_string();
    store
        .put(&Key::new("p/A/1/0/labels/.zattrs").unwrap(), labels.as_bytes(), Condition::None)
        .unwrap();
    let mendable = |finding: &&Finding| finding.hint() == Some(HINT);
    // Beside these, copies that do not match.
    let rules = |finding: &&Finding| finding.kind != FindingKind::ConsolidatedMetadata;
    assert_eq!(found(&place).iter().filter(mendable).filter(rules).count(), 7);
    let (summary, told) = run(&place, false);
    assert!(summary.is_ok(), "{told:?}");
    assert_eq!(found(&place).iter().map(|finding| finding.kind).collect::<Vec<_>>(), sound);
    let mut repaired = dump(&*store);
    repaired.retain(|key, _| !key.starts_with("aside"));
    for (key, bytes) in &whole {
        let (before, after) = (bytes, &repaired[key]);
        match key.contains(".z") {
            true => assert_eq!(
                serde_json::from_slice::<Value>(after).unwrap(),
                serde_json::from_slice::<Value>(before).unwrap(),
                "{key}"
            ),
            false => assert_eq!(after, before, "{key}"),
        }
    }
    assert_eq!(run(&place, false).0, RepairSummary::default());
}

#[test]
fn a_copy_that_is_all_that_is_left_of_a_node_stays() {
    let mut all = Documents::default();
    all.labelled("i");
    all.consolidate("i");
    all.0.retain(|key, _| !key.starts_with("i/labels/cells/"));
    all.change_ome("i/labels", |ome| ome["labels"] = json!([]));
    let store = memory(&all);
    let place = at(&store, "i");
    let (summary, told) = run(&place, false);
    let kinds: Vec<RepairKind> = told.iter().map(|repair| repair.kind).collect();
    assert_eq!((summary.left, kinds), (0, vec![RepairKind::ConsolidatedRenewed]));
    let copies = &document(&dump(&*store), "i/zarr.json")["consolidated_metadata"]["metadata"];
    assert_eq!(copies["labels"]["attributes"]["ome"]["labels"], json!([]));
    assert_eq!(copies["labels/cells/0"]["shape"], json!([8, 8]));
}

#[test]
fn hundreds_of_wells_are_corrected_though_not_all_are_told() {
    let mut all = Documents::default();
    all.plate("p", 16, 24, 1);
    all.change_ome("p", |ome| {
        for well in ome["plate"]["wells"].as_array_mut().unwrap() {
            well.as_object_mut().unwrap().shift_remove("rowIndex");
        }
    });
    let mut whole = Documents::default();
    whole.plate("p", 16, 24, 1);
    let store = memory(&all);
    let (summary, _) = run(&at(&store, "p"), false);
    assert_eq!((summary.mended, summary.left), (1, 0));
    let plate = document(&dump(&*store), "p/zarr.json");
    assert_eq!(plate["attributes"], whole.get("p/zarr.json")["attributes"]);
}

/// A store in which somebody else writes documents while they are held for a change.
#[derive(Debug)]
struct Busy {
    inner: MemoryStore,
    /// The document, and how often it changes.
    writes: Mutex<(Key, usize)>,
}

impl layer::StoreLayer for Busy {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    fn edit(&self, key: &Key) -> Result<Edit, StoreError> {
        let edit = self.inner.edit(key)?;
        let mut writes = self.writes.lock().unwrap();
        if writes.0 == *key && writes.1 > 0 {
            writes.1 -= 1;
            let text = self.inner.get(key)?.unwrap();
            let mut document: Value = serde_json::from_slice(&text).unwrap();
            document["attributes"]["writes"] = json!(writes.1);
            self.inner.put(key, document.to_string().as_bytes(), Condition::None)?;
        }
        Ok(edit)
    }
}

fn busy(writes: usize) -> Arc<dyn Store> {
    let inner = MemoryStore::new();
    mendable().put_into(&inner);
    let key = Key::new("p/A/1/0/zarr.json").unwrap();
    Arc::new(Busy { inner, writes: Mutex::new((key, writes)) })
}

#[test]
fn the_change_of_another_writer_is_never_lost() {
    let store = busy(2);
    let place = at(&store, "p");
    let (summary, told) = run(&place, false);
    assert!(summary.is_ok(), "{told:?}");
    let image = document(&dump(&*store), "p/A/1/0/zarr.json");
    assert_eq!(image["attributes"]["writes"], 0);
    assert_eq!(image["attributes"]["ome"]["version"], "0.5");
    assert_eq!(found(&place), []);
}

#[test]
fn a_document_that_keeps_changing_is_left() {
    let store = busy(usize::MAX);
    let place = at(&store, "p");
    let before = document(&dump(&*store), "p/A/1/0/zarr.json");
    let (summary, told) = run(&place, false);
    assert_eq!(summary.left, 1, "{told:?}");
    let left: Vec<&Repair> = told.iter().filter(|one| one.kind == RepairKind::Left).collect();
    assert_eq!(left[0].object.as_ref().unwrap().as_str(), "p/A/1/0/zarr.json");
    assert!(left[0].message.contains("kept changing"), "{left:?}");
    let mut after = document(&dump(&*store), "p/A/1/0/zarr.json");
    after["attributes"].as_object_mut().unwrap().shift_remove("writes").unwrap();
    assert_eq!(after, before);
    // Everything else is corrected.
    assert_eq!(document(&dump(&*store), "p/zarr.json")["attributes"]["ome"]["version"], "0.5");
}

#[test]
fn a_repair_that_dies_at_any_write_is_finished_by_the_next() {
    let expected = {
        let store = memory(&mendable());
        run(&at(&store, "p"), false);
        dump(&*store)
    };
    let of_data_set = |mut all: BTreeMap<String, Vec<u8>>| {
        all.retain(|key, _| !key.starts_with("aside"));
        all
    };
    let mut steps = 0;
    for operation in [Operation::Publish, Operation::PublishAnswer] {
        for step in 0.. {
            let inner = MemoryStore::new();
            let store = Arc::new(FaultStore::new(inner.clone()));
            mendable().put_into(&*store);
            let before = of_data_set(dump(&inner));
            let shared: Arc<dyn Store> = store.clone();
            let place = at(&shared, "p");
            store.fail(operation, step);
            let aside = at(&shared, "aside");
            let died = repair(&engine(), &place, &RepairOptions::new(aside), &mut |_| {});
            if store.waiting() > 0 {
                break;
            }
            steps += 1;
            let is_told = match &died {
                Ok(summary) => summary.left > 0,
                Err(_) => true,
            };
            assert!(is_told, "{operation:?} {step}: {died:?}");
            for (key, bytes) in of_data_set(dump(&inner)) {
                // The copies in the outermost group are renewed last.
                let is_whole =
                    bytes == before[&key] || bytes == expected[&key] || key == "p/zarr.json";
                assert!(is_whole, "{operation:?} {step}: {key}");
            }
            assert!(run(&place, false).0.is_ok());
            assert_eq!(of_data_set(dump(&inner)), of_data_set(expected.clone()));
            assert_eq!(found(&place), []);
        }
    }
    assert!(steps > 20, "{steps}");
}
