//! A query beside others that change the tree.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use shardine::jobs::{RepackOptions, repack};
use shardine::vectors::{VectorQuery, VectorStore};
use shardine::{ErrorKind, Location, Packing};

use crate::golden::{Golden, ask, bytes_of, engine, golden};

/// Puts the files of a store into a folder.
fn unpack(golden: &Golden, folder: &Path) -> Location {
    for (key, content) in &golden.files {
        let path = folder.join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes_of(content)).unwrap();
    }
    Location::parse(folder.to_str().unwrap()).unwrap()
}

#[test]
fn a_query_beside_a_repack_in_place_gives_all_rows_and_links() {
    for name in ["points", "point_objects", "polylines", "graph"] {
        let folder = tempfile::tempdir().unwrap();
        let location = unpack(&golden(name), &folder.path().join("store"));
        let store = VectorStore::open_in(&engine(), &location).unwrap();
        let whole = ask(&store, &VectorQuery::new()).unwrap();
        let (positions, links) = (whole.sorted_positions(), whole.linked_positions());
        let done = AtomicBool::new(false);
        let (mut asked, mut kept) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..12 {
                    let packing = match round % 3 {
                        0 => Packing::ChunksPerShard(vec![2]),
                        1 => Packing::ChunksPerShard(vec![4]),
                        _ => Packing::Unsharded,
                    };
                    let options = RepackOptions::new().packing(packing);
                    repack(&engine(), &location, None, &options, &mut |_| {}).unwrap();
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                // Opened now, and one that was open before the first of them.
                let fresh = VectorStore::open_in(&engine(), &location)
                    .and_then(|fresh| ask(&fresh, &VectorQuery::new()));
                for (which, answer) in [&mut asked, &mut kept]
                    .into_iter()
                    .zip([fresh, ask(&store, &VectorQuery::new())])
                {
                    match answer {
                        Ok(answer) => {
                            assert_eq!(answer.sorted_positions(), positions, "{name}");
                            assert_eq!(answer.linked_positions(), links, "{name}");
                            *which += 1;
                        }
                        // The store may have been exchanged under an array: never fewer rows.
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Race, "{error}"),
                    }
                }
            }
        });
        assert!(asked > 0, "{name}");
        let last = VectorStore::open_in(&engine(), &location).unwrap();
        let answer = ask(&last, &VectorQuery::new().strict(true)).unwrap();
        assert_eq!(answer.sorted_positions(), positions, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_in_the_tree_is_an_error_and_not_a_level_or_an_attribute_less() {
    for link in ["1", "0/vertex_attributes/other", "0/links/0/0.0.+1"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let location = unpack(&golden("graph"), &root);
        let _ = std::fs::remove_dir_all(root.join(link));
        std::os::unix::fs::symlink(root.join("0/vertices"), root.join(link)).unwrap();
        let asked = VectorStore::open_in(&engine(), &location)
            .and_then(|store| ask(&store, &VectorQuery::new()));
        let error = asked.unwrap_err().to_string();
        assert!(error.contains(link.rsplit('/').next().unwrap()), "{link}: {error}");
    }
}
