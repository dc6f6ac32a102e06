//! Detecting the data set at a location.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

use crate::common;

use std::sync::Arc;

use common::data_set::{at, memory, put, zarr_only};
use common::engine;
use common::volumes::{scale, sharding, volume_at};
use serde_json::json;
use shardine::precomputed::KeyFolders;
use shardine::precomputed::Volume;
use shardine::store::*;
use shardine::{ArrayNode, DataSet, Error, Group, Location, open_in};

/// What is found at a location, and with how many reads.
fn found(place: &Location) -> (Result<Box<dyn DataSet>, Error>, u64) {
    let counting = CountingStore::new(Arc::clone(&place.store));
    let found = open_in(&engine(), place.clone().with_store(Arc::new(counting.clone())));
    // A missing object is opened but not read.
    (found, counting.counts().opens)
}

fn name(found: &Result<Box<dyn DataSet>, Error>) -> &'static str {
    match found {
        Ok(set) if set.is::<ArrayNode>() => "array",
        Ok(set) if set.is::<Group>() => "group",
        Ok(set) if set.is::<Volume>() => "volume",
        Ok(set) if set.is::<KeyFolders>() => "key values",
        Ok(_) => "something else",
        Err(Error::NoNode { .. }) => "nothing",
        Err(Error::Metadata { .. }) => "bad metadata",
        Err(Error::Info { .. }) => "bad info",
        Err(Error::Store(_)) => "failed",
        Err(_) => "another error",
    }
}

/// One of each kind in the folders of a store.
fn all() -> Arc<dyn Store> {
    let store = memory();
    zarr_only(&store);
    let root = at(&store);
    volume_at(&root.join("volume").unwrap(), &[scale("8", [20, 20, 20], None)]);
    let mesh = json!({
        "@type": "neuroglancer_multilod_draco", "sharding": sharding(0, 0, 0, "raw", "raw"),
    });
    put(&*store, "mesh/info", mesh.to_string().as_bytes());
    put(&*store, "single/info", br#"{"@type": "neuroglancer_legacy_mesh"}"#);
    put(&*store, "two/info", mesh.to_string().as_bytes());
    put(&*store, "two/zarr.json", br#"{"zarr_format": 3, "node_type": "group"}"#);
    let array = json!({
        "zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "|u1", "compressor": null,
        "fill_value": 0, "order": "C", "filters": null,
    });
    put(&*store, "v2/.zarray", array.to_string().as_bytes());
    put(&*store, "broken/zarr.json", b"{");
    put(&*store, "nonsense/info", b"[]");
    put(&*store, "wrong/info", br#"{"scales": 7}"#);
    put(&*store, "other/file", b"x");
    store
}

#[test]
fn each_kind_of_data_set_is_told_and_each_document_read_once() {
    let store = all();
    for (place, expected, reads) in [
        ("plain", "array", 1),
        ("g", "group", 1),
        ("two", "group", 1),
        ("v2", "array", 3),
        ("volume", "volume", 4),
        ("mesh", "key values", 4),
        ("single", "key values", 4),
        // It may be a webknossos layer, so the document above is read too.
        ("other", "nothing", 7),
        ("nowhere", "nothing", 7),
        ("broken", "bad metadata", 1),
        ("nonsense", "bad info", 4),
        ("wrong", "bad info", 4),
    ] {
        let (found, opens) = found(&at(&store).join(place).unwrap());
        assert_eq!((name(&found), opens), (expected, reads), "{place}");
    }
}

#[test]
fn what_cannot_be_read_is_never_nothing() {
    let store = all();
    for place in ["plain", "v2", "volume", "mesh", "nowhere"] {
        for operation in [Operation::Open, Operation::Read] {
            for after in 0.. {
                let faults = FaultStore::new(Arc::clone(&store));
                faults.fail(operation, after);
                let faulty: Arc<dyn Store> = Arc::new(faults.clone());
                let found = open_in(&engine(), at(&faulty).join(place).unwrap());
                if faults.waiting() > 0 {
                    break;
                }
                assert_eq!(name(&found), "failed", "{place} {operation:?} {after}");
            }
        }
    }
}

#[test]
fn a_folder_of_values_is_opened_by_what_was_read() {
    let store = all();
    let open_at = |place: &str| match open_in(&engine(), at(&store).join(place).unwrap()) {
        Ok(set) => set.downcast::<KeyFolders>().unwrap(),
        found => panic!("{found:?}"),
    };
    let mesh = open_at("mesh");
    assert_eq!(mesh.document()["@type"], "neuroglancer_multilod_draco");
    assert_eq!(mesh.location().to_string(), "memory/mesh");
    assert_eq!(mesh.key_values(&engine()).unwrap().get(7).unwrap(), None);
    assert!(mesh.not_a_volume().to_string().contains("neuroglancer_multiscale_volume"));
    let single = open_at("single").key_values(&engine());
    assert!(matches!(single, Err(Error::NoKeyValues { .. })));
}
