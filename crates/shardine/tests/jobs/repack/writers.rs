//! Someone writes to the array while it is repacked, or the disk gives up: nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use shardine::jobs::{RepackError, RepackOptions, RepackOutcome};
use shardine::store::FileStore;
use shardine::{ArrayNode, Error, Location, Packing};

use crate::common::deaths::{AtStep, Deaths, Meanwhile, dies};
use crate::common::findings::check_at;
use crate::common::trees::restore;
use crate::common::*;
use crate::repack::scene::*;

/// A scene for a kill: an array, sharded or not, with holes and a stray, below a group that knows
/// its metadata.
fn hierarchy(root: &Path, codecs: Value, outer: &[u64]) {
    let mut array = document(&[12, 20], outer, "uint16".into(), 0.into(), codecs);
    array["attributes"] = json!({"a": 1});
    let place = at(root).join("g/a").unwrap();
    let made = create_at(&place, &array);
    write(&made, "0:9,0:14", noise(9 * 14 * 2, 1));
    fs::write(root.join("g/a/notes.txt"), b"stray").unwrap();
    let stored: Value =
        serde_json::from_slice(&fs::read(root.join("g/a/zarr.json")).unwrap()).unwrap();
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    fs::write(root.join("g/zarr.json"), group.to_string()).unwrap();
    let mut outer = group.clone();
    outer["consolidated_metadata"] = json!({"kind": "inline", "must_understand": false,
        "metadata": {"g": group, "g/a": stored}});
    fs::write(root.join("zarr.json"), outer.to_string()).unwrap();
}

/// Kills a job at each of its disk steps; the same call must finish what any of them left.
fn killed_at_every_step(codecs: Value, outer: &[u64], options: &RepackOptions) {
    let folder = folder();
    let origin = folder.path().join("origin");
    fs::create_dir(&origin).unwrap();
    hierarchy(&origin, codecs, outer);
    let array = PathBuf::from("g/a");
    let old = elements(&at(&origin.join(&array)));
    let resumed = AtomicUsize::new(0);
    let deaths = Deaths {
        old: &tree(&origin),
        stride: 1,
        run: &|root| {
            let told = repack(root, None, options)?;
            assert_eq!(told.len(), 1);
            let is_resumed = told[0].outcome == RepackOutcome::Resumed;
            resumed.fetch_add(usize::from(is_resumed), Ordering::SeqCst);
            Ok(())
        },
        check: &|root, step| {
            assert_eq!(elements(&at(&root.join(&array))), old, "dead at step {step}");
            let (summary, findings) = check_at(&at(root), true);
            assert_eq!(summary.damage, 0, "dead at step {step}: {findings:?}");
        },
    };
    let steps = deaths.everywhere();
    assert!(steps > 30, "{steps}");
    let resumed = resumed.into_inner();
    assert!(resumed > steps / 4, "{resumed} of {steps} runs were resumed");
}

#[test]
fn sharding_that_dies_at_any_step_leaves_the_array_and_is_finished_by_the_same_call() {
    let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![2, 3]));
    killed_at_every_step(json!([bytes(), zstd()]), &[3, 4], &options);
}

#[test]
fn unsharding_that_dies_at_any_step_leaves_the_array_and_is_finished_by_the_same_call() {
    let options = RepackOptions::new().packing(Packing::Unsharded);
    killed_at_every_step(json!([sharding(&[3, 4], json!([bytes()]))]), &[6, 8], &options);
}

#[test]
fn recoding_that_dies_at_any_step_leaves_the_array_and_is_finished_by_the_same_call() {
    let options = RepackOptions::new().chunk(&[2, 5]).packing(Packing::ChunksPerShard(vec![2]));
    killed_at_every_step(json!([sharding(&[3, 4], json!([bytes(), zstd()]))]), &[6, 8], &options);
}

#[test]
fn another_job_in_place_is_refused_until_the_first_is_given_up() {
    let folder = folder();
    let origin = folder.path().join("origin");
    fs::create_dir(&origin).unwrap();
    hierarchy(&origin, json!([bytes(), zstd()]), &[3, 4]);
    let old = elements(&at(&origin.join("g/a")));
    let first = RepackOptions::new().packing(Packing::ChunksPerShard(vec![2]));
    let (dying, _) = dies(&origin, 20);
    repack(&dying, None, &first).unwrap_err();
    let second = RepackOptions::new().packing(Packing::ChunksPerShard(vec![3]));
    let error = refused(&at(&origin), None, &second);
    assert!(matches!(error, RepackError::OtherJob { .. }), "{error}");
    assert_eq!(elements(&at(&origin.join("g/a"))), old);
    let told = one(&at(&origin), None, &second.restart(true));
    assert_eq!(told.shard_shape.as_deref(), Some(&[9, 12][..]));
    assert_eq!(names(&origin.join("g")), ["a", "zarr.json"]);
    assert_eq!(elements(&at(&origin.join("g/a"))), old);
}

/// Writes a region at each step of a job. The write may fail the job, but a finished job includes
/// it, and otherwise the kept array does.
fn written_to_at_every_step(
    codecs: Value,
    outer: &[u64],
    options: &RepackOptions,
    region: &'static str,
    data: &[u8],
) {
    let folder = folder();
    let origin = folder.path().join("origin");
    fs::create_dir(&origin).unwrap();
    hierarchy(&origin, codecs, outer);
    let scene = folder.path().join("scene");
    let files = tree(&origin);
    restore(&files, &scene);
    let array = scene.join("g/a");
    let (watched, count) = dies(&scene, usize::MAX);
    repack(&watched, None, options).unwrap();
    let steps = count.steps();
    // What the writer leaves.
    fs::remove_dir_all(&scene).unwrap();
    restore(&files, &scene);
    write(&ArrayNode::open(&engine(), &at(&array)).unwrap(), region, data.to_vec());
    let wanted = elements(&at(&array));
    let (mut noticed, mut kept) = (0, 0);
    for step in 0..steps {
        fs::remove_dir_all(&scene).unwrap();
        restore(&files, &scene);
        let (writer, data) = (array.clone(), data.to_vec());
        let meanwhile = Arc::new(Meanwhile::default());
        let running = Arc::clone(&meanwhile);
        // A writer that comes at the moment of the exchange is let in after it.
        let observer = AtStep::new(step, move || {
            let (writer, data) = (writer.clone(), data.clone());
            running.begin(move || {
                let writer = ArrayNode::open(&engine(), &at(&writer)).unwrap();
                write(&writer, region, data);
            });
        });
        let store = FileStore::observed(&scene, Arc::clone(&observer) as _);
        let done = repack(&Location::root(Arc::new(store)), None, options);
        meanwhile.end();
        if !observer.is_reached() {
            // If workers share the steps differently they may need fewer of them.
            continue;
        }
        match done {
            Ok(_) => {
                assert_eq!(elements(&at(&array)), wanted, "written to at step {step} of {steps}")
            }
            Err(Error::Repack(RepackError::Changed { .. })) => {
                noticed += 1;
                assert_eq!(elements(&at(&array)), wanted, "written to at step {step} of {steps}");
                repack(&at(&scene), None, options).unwrap();
                assert_eq!(elements(&at(&array)), wanted, "written to at step {step} of {steps}");
            }
            Err(Error::Repack(RepackError::ChangedAtCommit { kept: place, .. })) => {
                kept += 1;
                let place = Location::parse(&place).unwrap();
                assert_eq!(elements(&place), wanted, "written to at step {step} of {steps}");
            }
            // Removed after the exchange: there are fewer than were moved, and it cannot be
            // determined why.
            Err(Error::Repack(RepackError::Lost { .. })) => {
                kept += 1;
                assert_eq!(elements(&at(&array)), wanted, "written to at step {step} of {steps}");
            }
            Err(error) => panic!("written to at step {step} of {steps}: {error}"),
        }
    }
    println!("{steps} steps, noticed at {noticed}, kept at {kept}");
}

#[test]
fn a_chunk_that_is_written_meanwhile_is_not_lost() {
    let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![2, 3]));
    written_to_at_every_step(json!([bytes(), zstd()]), &[3, 4], &options, "4,5", &[9, 9]);
    let options = RepackOptions::new().packing(Packing::Unsharded);
    let codecs = json!([sharding(&[3, 4], json!([bytes()]))]);
    written_to_at_every_step(codecs, &[6, 8], &options, "4,5", &[9, 9]);
}

#[test]
fn a_new_chunk_that_is_written_meanwhile_is_not_lost() {
    let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![2, 3]));
    written_to_at_every_step(json!([bytes(), zstd()]), &[3, 4], &options, "11,19", &[9, 9]);
    let options = RepackOptions::new().chunk(&[2, 5]);
    let codecs = json!([sharding(&[3, 4], json!([bytes()]))]);
    written_to_at_every_step(
        codecs,
        &[6, 20],
        &options.packing(Packing::Unsharded),
        "11,19",
        &[9, 9],
    );
}

#[test]
fn a_chunk_that_is_removed_meanwhile_does_not_come_back() {
    let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![2, 3]));
    let (region, fill) = ("3:6,4:8", [0; 24]);
    written_to_at_every_step(json!([bytes(), zstd()]), &[3, 4], &options, region, &fill);
    let options = RepackOptions::new().packing(Packing::Unsharded);
    let codecs = json!([sharding(&[3, 4], json!([bytes()]))]);
    written_to_at_every_step(codecs, &[6, 8], &options, region, &fill);
    let options = RepackOptions::new().chunk(&[3, 2]).packing(Packing::Unsharded);
    let codecs = json!([sharding(&[3, 4], json!([bytes()]))]);
    written_to_at_every_step(codecs, &[6, 8], &options, region, &fill);
}

#[test]
fn an_array_of_more_chunks_than_anyone_can_count_is_packed_by_what_is_stored() {
    let codecs = json!([bytes(), zstd()]);
    let shape = [1 << 40, 1 << 52];
    let document = document(&shape, &[3, 4], "uint16".into(), 0.into(), codecs);
    for (options, moves) in [
        (RepackOptions::new().packing(Packing::ChunksPerShard(vec![2, 3])), true),
        (RepackOptions::new().chunk(&[2, 2]).packing(Packing::Unsharded), false),
    ] {
        let folder = folder();
        let place = at(&folder.path().join("a"));
        let array = create_at(&place, &document);
        write(&array, "5:8,1000000:1000009", noise(54, 1));
        write(&array, "1099511627775,4503599627370495", vec![7, 7]);
        let target = at(&folder.path().join("b"));
        for target in [Some(&target), None] {
            let told =
                one(&place, target, &options.clone().check(shardine::jobs::RepackCheck::Elements));
            assert_eq!((told.moves, told.chunks_empty > 1 << 60), (moves, true));
            let array = ArrayNode::open(&engine(), target.unwrap_or(&place)).unwrap();
            assert_eq!(read(&array, "5:8,1000000:1000009"), noise(54, 1));
            assert_eq!(read(&array, "1099511627775,4503599627370495"), [7, 7]);
            let stored = told.chunks_moved + told.chunks_recoded;
            assert_eq!(stored, crate::repack::chunks::encoded(&array).len() as u64);
        }
    }
}
