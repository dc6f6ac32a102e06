//! Sources that respond slowly.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;
use shardine::jobs::{ConvertOptions, RepackCheck, ZarrForm};
use shardine::store::{Condition, CountingStore, Key, Store, StoreExt};
use shardine::{Location, Packing};

use crate::common::data_set::dump;
use crate::common::odd_store::OddStore;
use crate::convert::scene::*;

#[test]
fn chunks_of_a_far_store_are_read_once_and_many_at_once() {
    let near = memory();
    let scales = [
        scale("a", [64, 64, 64], [8, 8, 8], uint64([3, 2, 4], "identity", "gzip")),
        scale("b", [64, 32, 32], [8, 8, 8], Value::Null),
    ];
    volume(&near, info("uint8", 1, &scales), "");
    let odd = OddStore::new();
    for (name, bytes) in dump(&*near.store) {
        odd.put(&Key::new(&name).unwrap(), &bytes, Condition::None).unwrap();
    }
    odd.latency.store(10, Ordering::SeqCst);
    let store = Arc::new(CountingStore::new(Arc::clone(&odd)));
    let far = Location::root(Arc::clone(&store) as Arc<dyn Store>);
    let options = ConvertOptions::new().check(RepackCheck::None);
    for packing in [Packing::Keep, Packing::Unsharded, Packing::ChunksPerShard(vec![4])] {
        let form = ZarrForm::new().packing(packing);
        let (new, expected) = (memory(), memory());
        to_zarr(&near, &expected, &form, &options).unwrap();
        store.reset();
        odd.peak.store(0, Ordering::SeqCst);
        to_zarr(&far, &new, &form, &options).unwrap();
        assert_eq!(dump(&*new.store), dump(&*expected.store));
        let peak = odd.peak.load(Ordering::SeqCst);
        assert!(peak >= 4, "{form:?}: {peak} requests at once");
        // 640 chunks, the tables and indexes of 16 shards, and the `info`.
        let reads = store.counts().reads;
        assert!(reads <= 640 + 16 * 6 + 4, "{form:?}: {reads} reads");
    }
}
