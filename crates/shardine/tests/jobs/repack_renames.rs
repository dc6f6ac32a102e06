//! Where folders cannot be exchanged, an array is replaced by two renames, and a kill between them
//! is recovered from.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shardine::jobs::{RepackOptions, RepackOutcome, repack};
use shardine::store::{DiskObserver, DiskStep, FileStore, Verdict};
use shardine::zarr::metadata::NodeMetadata;
use shardine::{ArrayNode, Elements, Engine, Location, Packing, Region, WriteOptions};

const DOCUMENT: &[u8] = br#"{
    "zarr_format": 3, "node_type": "array", "shape": [9, 10], "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
    "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
    "codecs": ["bytes", {"name": "gzip", "configuration": {"level": 1}}]
}"#;

/// A disk that cannot exchange folders, and may fail when renaming one.
#[derive(Debug)]
struct Renames {
    seen: AtomicUsize,
    fails_at: usize,
}

impl DiskObserver for Renames {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        match step {
            DiskStep::Exchange { .. } => Verdict::Fail(io::ErrorKind::Unsupported.into()),
            DiskStep::Rename { from, .. } if from.is_dir() => {
                match self.seen.fetch_add(1, Ordering::SeqCst) == self.fails_at {
                    true => Verdict::Fail(io::Error::other("killed here")),
                    false => Verdict::Go,
                }
            }
            _ => Verdict::Go,
        }
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_array_is_whole_after_a_kill_between_two_renames() {
    for fails_at in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zarr");
        let engine = Engine::shared().unwrap();
        let plain = Location::root(Arc::new(FileStore::new(&path)));
        let NodeMetadata::Array(metadata) = NodeMetadata::parse(DOCUMENT).unwrap() else {
            panic!("it is an array");
        };
        let elements = Elements::Fixed((0..90).collect());
        let array = ArrayNode::create(&engine, &plain, metadata).unwrap();
        array.write_elements(Region::all(), elements.as_ref(), &WriteOptions::new()).unwrap();

        let watch = Arc::new(Renames { seen: AtomicUsize::new(0), fails_at });
        let watched = Location::root(Arc::new(FileStore::observed(&path, watch.clone())));
        let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![2]));
        let first = repack(&engine, &watched, None, &options, &mut |_| {});
        assert_eq!(first.is_err(), fails_at < 2, "{first:?}");
        // Between the two renames there is no array, which only the next run can fix.
        assert_eq!(path.exists(), fails_at != 1);

        let mut outcome = None;
        repack(&engine, &watched, None, &options, &mut |array| outcome = Some(array.outcome))
            .unwrap();
        let expected = if fails_at < 2 { RepackOutcome::Resumed } else { RepackOutcome::Unchanged };
        assert_eq!(outcome, Some(expected));
        let array = ArrayNode::open(&engine, &plain).unwrap();
        assert_eq!(array.shard_shape(), Some(&[4, 6][..]));
        assert_eq!(array.read_elements(Region::all()).unwrap(), elements);
        assert_eq!(names(folder.path()), ["a.zarr"]);
    }
}
