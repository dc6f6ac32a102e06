//! How often a store is asked.

use std::sync::Arc;

use shardine::store::{Call, CountingStore, MemoryStore};
use shardine::vectors::{VectorQuery, VectorStore};
use shardine::{Engine, EngineOptions, Location};

use crate::golden::{ask, golden};

fn chunk_reads(store: &CountingStore<MemoryStore>) -> usize {
    let is_chunk = |call: &Call| matches!(call, Call::Read { key, .. } if !key.as_str().ends_with("zarr.json"));
    store.calls().iter().filter(|call| is_chunk(call)).count()
}

#[test]
fn one_cell_of_a_cold_shard_costs_at_most_two_reads_and_of_a_warm_one_one() {
    let mut golden = golden("points");
    // Positions alone, so that there is one array to read.
    golden.files.retain(|key, _| !key.contains("vertex_attributes/"));
    let files = MemoryStore::new();
    golden.put_into(&files);
    let counting = Arc::new(CountingStore::new(files));
    let engine = Engine::new(&EngineOptions::default().threads(2)).unwrap();
    let store = VectorStore::open_in(&engine, Location::root(counting.clone())).unwrap();
    let point = golden.positions()[3].clone();
    let query = VectorQuery::new().bounds(point.clone(), point.clone());
    counting.reset();
    let mut rows = store.query(&query).unwrap();
    assert_eq!(chunk_reads(&counting), 0);
    assert_eq!(rows.read_batch().unwrap().unwrap().vertices.num_rows(), 1);
    // The index and the cell; a shard as small as this may be read whole.
    assert!((1..=2).contains(&chunk_reads(&counting)));
    counting.reset();
    assert_eq!(ask(&store, &query).unwrap().positions(), [point]);
    assert_eq!(chunk_reads(&counting), 1);
    // Nor is a document read again.
    assert_eq!(counting.counts().reads, 1);
}
