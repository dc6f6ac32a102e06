//! A whole array with hostile objects, verified, repaired and compacted: whatever is reported sound
//! can be read, and whatever was repaired is sound.
//!
//! Input: the choice of document, then one object's bytes.

use std::sync::Arc;

use shardine::jobs::{
    CompactOptions, FindingKind, RepairOptions, VerifyOptions, VerifySummary, compact, repair,
    verify,
};
use shardine::store::{Condition, Key, MemoryStore, StoreExt};
use shardine::zarr::metadata::NodeMetadata;
use shardine::{ArrayNode, Elements, Engine, Error, Location, Region};

use crate::memory;
use crate::read_array::{DOCUMENTS, engine, keys, written};

/// With a checksum, so that an index can be searched for.
const CHECKED: &str = r#"{"zarr_format":3,"node_type":"array","shape":[12,9],"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[8,8]}},"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":[{"name":"sharding_indexed","configuration":{"chunk_shape":[4,4],"codecs":[{"name":"bytes"},{"name":"crc32c"}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}},{"name":"crc32c"}],"index_location":"end"}}]}"#;

fn document(choice: u8) -> Option<&'static str> {
    DOCUMENTS.iter().copied().chain([CHECKED]).nth(usize::from(choice))
}

pub fn run(input: &[u8]) {
    let Some((&choice, object)) = input.split_first() else { return };
    let Some(document) = document(choice) else { return };
    memory::bounded((256 << 20) + (256 << 10) * object.len(), || check(document, object));
}

/// What `verify` reports, and whether there was anything it could not check.
fn verified(engine: &Arc<Engine>, location: &Location) -> (VerifySummary, bool) {
    let mut unchecked = false;
    let options = VerifyOptions::new().decode(true);
    let summary = verify(engine, location, &options, &mut |finding| {
        unchecked |= finding.kind == FindingKind::NotChecked;
    });
    match summary {
        Ok(summary) => (summary, unchecked),
        Err(error) => panic!("nothing could be checked: {error}"),
    }
}

fn read(engine: &Arc<Engine>, location: &Location) -> Result<Elements, Error> {
    ArrayNode::open(engine, location)?.read_elements(Region::all())
}

fn check(document: &str, object: &[u8]) {
    let Ok(NodeMetadata::Array(metadata)) = NodeMetadata::parse(document.as_bytes()) else {
        return;
    };
    let (store, aside) = (MemoryStore::new(), MemoryStore::new());
    let put = |key: &str, data: &[u8]| {
        if let Ok(key) = Key::new(key) {
            let _ = store.put(&key, data, Condition::None);
        }
    };
    put("zarr.json", document.as_bytes());
    keys(&metadata).iter().for_each(|key| put(key, object));
    let engine = engine();
    let location = Location::root(Arc::new(store.clone()));
    let (before, unchecked) = verified(engine, &location);
    let answer = read(engine, &location);
    if before.is_ok() && !unchecked {
        assert!(answer.is_ok(), "no damage, and yet: {answer:?}");
    }
    let mut left = 0;
    let options =
        RepairOptions::new(Location::root(Arc::new(aside))).decode(true).accept_loss(true);
    match repair(engine, &location, &options, &mut |_| {}) {
        Ok(summary) => left += summary.left,
        Err(error) => panic!("repair: {error}"),
    }
    let (after, unchecked) = verified(engine, &location);
    assert!(after.is_ok() || left > 0, "{after:?} after a repair that left nothing");
    if before.is_ok()
        && let Ok(answer) = &answer
    {
        assert!(read(engine, &location).is_ok_and(|again| again == *answer), "repair changed it");
    }
    if !after.is_ok() || unchecked {
        return;
    }
    let mended = match read(engine, &location) {
        Ok(mended) => mended,
        Err(error) => panic!("mended, and yet: {error}"),
    };
    if let Err(error) = compact(engine, &location, &CompactOptions::new(), &mut |result| {
        if let Err(error) = result {
            panic!("sound, and cannot be compacted: {error}");
        }
    }) {
        panic!("compact: {error}");
    }
    assert!(read(engine, &location).is_ok_and(|again| again == mended), "compact changed it");
}

pub fn seeds() -> Vec<Vec<u8>> {
    (0..=u8::MAX)
        .map_while(|choice| document(choice).map(|text| (choice, text)))
        .filter_map(|(choice, text)| Some([&[choice][..], &written(text)?].concat()))
        .collect()
}
