//! The rules of OME-Zarr in `verify`: in parts, where nothing can be listed, and what it costs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::{fs, io};

use serde_json::Value;
use shardine::Location;
use shardine::jobs::{Finding, FindingKind, Part, VerifyOptions, VerifySummary, verify};
use shardine::store::{
    Call, CountingStore, DiskLook, DiskObserver, DiskStep, FileStore, MemoryStore, Store, Verdict,
};
use tempfile::TempDir;

use crate::common::engine;
use crate::common::ome5::{Documents, mendable};
use crate::common::wrapped_store::{Tricks, WrappedStore};

fn check(at: &Location, options: &VerifyOptions) -> (VerifySummary, Vec<Finding>) {
    let mut found = Vec::new();
    let summary = verify(&engine(), at, options, &mut |finding| found.push(finding)).unwrap();
    (summary, found)
}

fn place<S: Store + 'static>(store: S) -> Location {
    Location::root(Arc::new(store)).join("p").unwrap()
}

fn is_rule(finding: &Finding) -> bool {
    finding.kind.name().starts_with("ome-")
}

#[test]
fn the_first_part_tells_all_rules_that_are_broken() {
    let store = MemoryStore::new();
    mendable().put_into(&store);
    let at = place(store);
    for metadata_only in [false, true] {
        let options = VerifyOptions::new().metadata_only(metadata_only);
        let (whole, expected) = check(&at, &options);
        assert!(whole.damage > 5, "{whole:?}");
        for count in [1, 3] {
            let mut objects = 0;
            for index in 1..=count {
                let part = options.clone().part(Some(Part::Of { index, count }));
                let (summary, found) = check(&at, &part);
                objects += summary.objects;
                match index {
                    1 => assert_eq!(found, expected),
                    _ => assert_eq!((found, summary.is_ok()), (Vec::new(), true)),
                }
            }
            assert_eq!(objects, whole.objects);
        }
    }
}

#[test]
fn a_store_that_cannot_list_is_judged_by_the_same_rules() {
    let mut all = mendable();
    // The copies are of the documents as they are.
    all.change("p/zarr.json", |plate| {
        plate.as_object_mut().unwrap().shift_remove("consolidated_metadata");
    });
    all.consolidate("p");
    let store = MemoryStore::new();
    all.put_into(&store);
    let tricks = Tricks { no_list: true, ..Tricks::default() };
    let unlisted = place(WrappedStore::new(store.clone(), tricks));
    for metadata_only in [false, true] {
        let options = VerifyOptions::new().metadata_only(metadata_only);
        let (_, expected) = check(&place(store.clone()), &options);
        let (summary, found) = check(&unlisted, &options);
        assert!(summary.unlisted);
        let rules = |found: &[Finding]| -> Vec<(FindingKind, String, String)> {
            let rules = found.iter().filter(|finding| is_rule(finding));
            let told = rules.map(|finding| {
                let object = finding.object.as_ref().unwrap().to_string();
                (finding.kind, object, finding.message.clone())
            });
            told.collect()
        };
        assert_eq!(rules(&found), rules(&expected));
        assert!(!rules(&found).is_empty());
        // Nothing can be repaired there.
        let names_repair =
            |finding: &Finding| finding.hint().is_some_and(|hint| hint.contains("repair"));
        assert!(!found.iter().any(names_repair), "{found:?}");
        assert!(expected.iter().any(names_repair));
    }
}

/// How often each document was read, and how many other requests there were.
fn reads<S: Store + 'static>(
    store: CountingStore<S>,
    options: &VerifyOptions,
) -> (BTreeMap<u64, u64>, usize) {
    let store = Arc::new(store);
    let at = Location::root(store.clone()).join("p").unwrap();
    store.reset();
    let (summary, found) = check(&at, options);
    assert!(summary.is_ok() && found.is_empty(), "{found:?}");
    assert_eq!((summary.arrays, summary.groups), (768, 489));
    let mut documents: BTreeMap<String, u64> = BTreeMap::new();
    let mut others = 0;
    for call in store.calls() {
        match call {
            Call::Read { key, .. } if key.as_str().ends_with("zarr.json") => {
                *documents.entry(key.to_string()).or_default() += 1;
            }
            Call::Read { .. } => others += 1,
            _ => {}
        }
    }
    assert_eq!(documents.len(), 768 + 489);
    let mut times = BTreeMap::new();
    documents.into_values().for_each(|count| *times.entry(count).or_default() += 1);
    (times, others)
}

/// A plate of 96 wells with 4 fields of 2 levels each.
fn plate() -> Documents {
    let mut all = Documents::default();
    all.plate("p", 8, 12, 4);
    all
}

#[test]
fn each_document_of_a_plate_is_read_once() {
    let store = MemoryStore::new();
    plate().put_into(&store);
    for metadata_only in [true, false] {
        let options = VerifyOptions::new().metadata_only(metadata_only);
        let (times, others) = reads(CountingStore::new(store.clone()), &options);
        assert_eq!(times, [(1, 768 + 489)].into(), "metadata only: {metadata_only}");
        assert_eq!(others, 0);
    }
}

/// Counts how often each document is opened.
#[derive(Debug, Default)]
struct Opened(Mutex<BTreeMap<PathBuf, u64>>);

impl DiskObserver for Opened {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        panic!("verify writes: {step:?}")
    }

    fn before_look(&self, look: DiskLook<'_>) -> io::Result<()> {
        if let DiskLook::Open { path } = look
            && path.ends_with("zarr.json")
        {
            *self.0.lock().unwrap().entry(path.to_owned()).or_default() += 1;
        }
        Ok(())
    }
}

#[test]
fn on_files_the_documents_of_arrays_are_read_again_while_they_are_held() {
    let folder = TempDir::new().unwrap();
    plate().put_into(&FileStore::new(folder.path()));
    for (metadata_only, of_arrays) in [(true, 1), (false, 2)] {
        let opened = Arc::new(Opened::default());
        let at = place(FileStore::observed(folder.path(), opened.clone()));
        check(&at, &VerifyOptions::new().metadata_only(metadata_only));
        let opened = opened.0.lock().unwrap();
        assert_eq!(opened.len(), 768 + 489);
        for (path, times) in &*opened {
            let document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            let most = if document["node_type"] == "array" { of_arrays } else { 1 };
            assert!(*times <= most, "{}: {times} times", path.display());
        }
    }
}
