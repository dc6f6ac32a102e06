//! Jobs that several processes share: in any order, any number of times, and a part never passes
//! for the whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use crate::common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use shardine::jobs::{
    CancelToken, ConvertOptions, CopyOptions, JobContext, JobError, OmeForm, Part, PartOutcome,
    RebuildJob, RebuildPlan, RebuildTask, RepackOptions, RepackVolumeOptions, VolumeForm, ZarrForm,
    convert_to_ome, convert_to_volume, convert_to_zarr, copy, repack, repack_keys, repack_volume,
};
use shardine::ome::OmeRelease;
use shardine::plan::VolumePacking;
use shardine::precomputed::{KeyValueStore, KeyValues};
use shardine::store::{FaultStore, FileStore, MemoryStore, Operation, Store, StoreError, layer};
use shardine::zarr::ZarrFormat;
use shardine::{ArrayNode, CodecChoice, Error, Location, Packing};

use common::data_set::{dump, hierarchy, memory, put, zarr_only};
use common::volumes::{scale, sharding, volume_at};
use common::*;

use crate::convert::ome_scene::Scene;

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Reshard,
    Unshard,
    Recode,
    VolumeToZarr,
    ZarrToVolume,
    ReshardVolume,
    UnshardVolume,
    ReshardKeys,
    ToOme,
    ToOldOme,
    ToZarr2,
}

const JOBS: [Job; 11] = [
    Job::Reshard,
    Job::Unshard,
    Job::Recode,
    Job::VolumeToZarr,
    Job::ZarrToVolume,
    Job::ReshardVolume,
    Job::UnshardVolume,
    Job::ReshardKeys,
    Job::ToOme,
    Job::ToOldOme,
    Job::ToZarr2,
];

fn at(store: &Arc<dyn Store>) -> Location {
    Location::root(Arc::clone(store))
}

impl Job {
    /// Puts the input of the job into an empty store.
    fn prepare(self, store: &Arc<dyn Store>) {
        match self {
            Self::ToOme | Self::ToOldOme => {
                let release = match self {
                    Self::ToOme => OmeRelease::V0_4,
                    _ => OmeRelease::V0_5,
                };
                let scene = Scene::new(release, "czyx", &[2, 9, 20, 18], &[1, 4, 4, 4]);
                let shard = (release == OmeRelease::V0_5).then_some(2);
                Scene { shard, ..scene }.make(&at(store));
                put(store, "notes.txt", b"not Zarr at all");
            }
            Self::Reshard | Self::Unshard | Self::Recode | Self::ToZarr2 => {
                zarr_only(store);
                put(store, "notes.txt", b"not Zarr at all");
                put(store, "g/sharded/pictures/1.png", b"nor is this");
            }
            Self::ZarrToVolume => {
                let mut document = sharded(&[40, 33, 17], &[32, 32, 16], &[8, 8, 8]);
                document["dimension_names"] = json!(["x", "y", "z"]);
                let array = create_in(Arc::clone(store), &document);
                write(&array, "0:30,5:33,:", noise(30 * 28 * 17 * 2, 5));
            }
            Self::VolumeToZarr | Self::ReshardVolume | Self::UnshardVolume => {
                let shards = sharding(0, 1, 4, "gzip", "raw");
                let volume = volume_at(&at(store), &[scale("8", [70, 40, 33], Some(&shards))]);
                common::volumes::fill(&volume, 0);
                put(store, "notes/a.txt", b"kept with the data");
            }
            Self::ReshardKeys => {
                let shards = sharding(0, 1, 3, "gzip", "raw");
                let info = json!({ "@type": "neuroglancer_skeletons", "sharding": shards });
                put(store, "info", info.to_string().as_bytes());
                let values = KeyValueStore::open(&engine(), &at(store)).unwrap();
                let all = (0..60).fold(KeyValues::new(), |all, key| {
                    all.put(key * 7, noise(20 + key as usize, key))
                });
                values.update(&all).unwrap();
            }
        }
    }

    fn as_data(self) -> RebuildJob {
        let convert = ConvertOptions::new();
        let volume = |sharding: Option<serde_json::Value>| {
            let sharding =
                sharding.map(|json| shardine::shard::uint64::Sharding::from_json(&json).unwrap());
            RebuildJob::RepackVolume(RepackVolumeOptions::new(sharding))
        };
        match self {
            Self::Reshard => {
                RebuildJob::Repack(RepackOptions::new().packing(Packing::ChunksPerShard(vec![2])))
            }
            Self::Unshard => RebuildJob::Repack(RepackOptions::new().packing(Packing::Unsharded)),
            Self::Recode => {
                let words = ["zstd:1", "crc32c"].map(str::to_owned).to_vec();
                RebuildJob::Repack(RepackOptions::new().codecs(CodecChoice::Words(words)))
            }
            Self::VolumeToZarr => {
                let form = ZarrForm::new().packing(Packing::ChunksPerShard(vec![2]));
                RebuildJob::ToZarr(form, convert)
            }
            Self::ZarrToVolume => {
                let form = VolumeForm::new().packing(VolumePacking::Chunks([2, 2, 2]));
                RebuildJob::ToVolume(form, convert)
            }
            Self::ReshardVolume => volume(Some(sharding(1, 1, 5, "raw", "gzip"))),
            Self::UnshardVolume => volume(None),
            Self::ToOme => RebuildJob::ToOme(self.ome(), convert),
            Self::ToOldOme => RebuildJob::ToOme(self.ome(), convert),
            Self::ToZarr2 => {
                RebuildJob::ToZarr(ZarrForm::new().zarr_format(ZarrFormat::V2), convert)
            }
            Self::ReshardKeys => panic!("values by key are moved by one process"),
        }
    }

    /// The image that is made.
    fn ome(self) -> OmeForm {
        match self {
            Self::ToOldOme => OmeForm::new().version(OmeRelease::V0_4),
            _ => OmeForm::new().packing(Packing::ChunksPerShard(vec![2])),
        }
    }

    fn run(
        self,
        context: &JobContext,
        source: &Location,
        target: &Location,
        part: Option<Part>,
    ) -> Result<PartOutcome, Error> {
        let repacked = |options: RepackOptions| {
            let options = match part {
                Some(part) => options.part(part),
                None => options,
            };
            repack(context, source, Some(target), &options, &mut |_| ())
        };
        let volume = |sharding: Option<serde_json::Value>| {
            let sharding =
                sharding.map(|json| shardine::shard::uint64::Sharding::from_json(&json).unwrap());
            let mut options = RepackVolumeOptions::new(sharding);
            options.part = part;
            options
        };
        let mut convert = ConvertOptions::new();
        convert.part = part;
        match self {
            Self::Reshard => {
                repacked(RepackOptions::new().packing(Packing::ChunksPerShard(vec![2])))
            }
            Self::Unshard => repacked(RepackOptions::new().packing(Packing::Unsharded)),
            Self::Recode => {
                let words = ["zstd:1", "crc32c"].map(str::to_owned).to_vec();
                repacked(RepackOptions::new().codecs(CodecChoice::Words(words)))
            }
            Self::VolumeToZarr => {
                let form = ZarrForm::new().packing(Packing::ChunksPerShard(vec![2]));
                Ok(convert_to_zarr(context, source, target, &form, &convert, &mut |_| ())?.outcome)
            }
            Self::ZarrToVolume => {
                let form = VolumeForm::new().packing(VolumePacking::Chunks([2, 2, 2]));
                Ok(convert_to_volume(context, source, target, &form, &convert, &mut |_| ())?
                    .outcome)
            }
            Self::ToOme | Self::ToOldOme => {
                let form = self.ome();
                Ok(convert_to_ome(context, source, target, &form, &convert, &mut |_| ())?.outcome)
            }
            Self::ToZarr2 => {
                let form = ZarrForm::new().zarr_format(ZarrFormat::V2);
                Ok(convert_to_zarr(context, source, target, &form, &convert, &mut |_| ())?.outcome)
            }
            Self::ReshardVolume => {
                let options = volume(Some(sharding(1, 1, 5, "raw", "gzip")));
                repack_volume(context, source, Some(target), &options, &mut |_| ())
            }
            Self::UnshardVolume => {
                repack_volume(context, source, Some(target), &volume(None), &mut |_| ())
            }
            Self::ReshardKeys => {
                let sharding = sharding(0, 0, 4, "raw", "gzip");
                let sharding = shardine::shard::uint64::Sharding::from_json(&sharding).unwrap();
                let options = volume(None);
                repack_keys(context, source, Some(target), &sharding, &options, &mut |_| ())
            }
        }
    }
}

fn of(index: u32, count: u32) -> Option<Part> {
    Some(Part::Of { index, count })
}

/// What one process makes.
fn whole(job: Job, source: &Arc<dyn Store>) -> BTreeMap<String, Vec<u8>> {
    let target = memory();
    let context = JobContext::new(&engine());
    job.run(&context, &at(source), &at(&target), None).unwrap();
    dump(&*target)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn parts_in_any_order_and_any_number_of_times_make_the_same_bytes_as_one_process(
        job in proptest::sample::select(&JOBS[..]),
        count in 1u32..6,
        order in proptest::collection::vec(0u32..6, 0..8),
        on_files: bool,
        threads in 1usize..4,
    ) {
        let (folder, source) = (tempfile::tempdir().unwrap(), memory());
        job.prepare(&source);
        let expected = whole(job, &source);
        let target: Arc<dyn Store> = match on_files {
            true => Arc::new(FileStore::new(folder.path().join("t"))),
            false => memory(),
        };
        // Some parts in any order, then all of them.
        let order: Vec<u32> = order.into_iter().map(|i| i % count + 1).chain(1..=count).collect();
        let mut ended = std::collections::BTreeSet::new();
        for index in order {
            // Machines differ.
            let options = shardine::EngineOptions::new().threads(threads + index as usize % 2)
                .memory(8 << (18 + index % 3));
            let context = JobContext::new(&shardine::Engine::new(&options).unwrap());
            let outcome = job.run(&context, &at(&source), &at(&target), of(index, count)).unwrap();
            ended.insert(index);
            let missing: Vec<u32> = (1..=count).filter(|i| !ended.contains(i)).collect();
            if missing.is_empty() {
                let done = matches!(outcome, PartOutcome::Complete | PartOutcome::AlreadyThere);
                prop_assert!(done, "{outcome:?}");
                prop_assert_eq!(&dump(&*target), &expected);
            } else {
                prop_assert_eq!(outcome, PartOutcome::Waiting { missing });
                // Some parts never pass for the whole.
                let root = dump(&*target);
                let makes = |name: &str| ["zarr.json", "info", ".zgroup", ".zmetadata"].contains(&name);
                prop_assert!(!root.keys().any(|key| makes(key)), "{:?}", root.keys());
            }
        }
        // Once it is complete nothing more is done.
        let again = job.run(&JobContext::new(&engine()), &at(&source), &at(&target), of(1, count));
        prop_assert_eq!(again.unwrap(), PartOutcome::AlreadyThere);
        prop_assert_eq!(dump(&*target), expected);
        if on_files {
            let left = std::fs::read_dir(folder.path().join("t")).unwrap();
            let left: Vec<String> = left.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            prop_assert!(left.iter().all(|name| !name.starts_with(".shardine")), "{left:?}");
        }
    }
}

#[test]
fn another_number_of_parts_or_none_is_refused() {
    for job in JOBS {
        let (source, target, context) = (memory(), memory(), JobContext::new(&engine()));
        job.prepare(&source);
        let run = |part| job.run(&context, &at(&source), &at(&target), part);
        run(of(2, 3)).unwrap();
        for other in [of(2, 4), of(1, 1), None] {
            let refused = run(other).unwrap_err();
            let expected = Error::Job(JobError::OtherParts { at: "memory".into(), parts: Some(3) });
            assert_eq!(refused.to_string(), expected.to_string(), "{job:?} {other:?}");
        }
        let missing = run(Some(Part::Finish)).unwrap_err();
        assert!(
            matches!(&missing, Error::Job(JobError::PartsMissing { missing, .. }) if *missing == [1, 3]),
            "{job:?}: {missing}"
        );
        run(of(1, 3)).unwrap();
        assert_eq!(run(of(3, 3)).unwrap(), PartOutcome::Complete, "{job:?}");
        assert_eq!(run(Some(Part::Finish)).unwrap(), PartOutcome::AlreadyThere, "{job:?}");
        assert_eq!(dump(&*target), whole(job, &source), "{job:?}");
    }
}

#[test]
fn tasks_that_went_through_json_make_the_same_bytes_in_any_order() {
    for (i, job) in JOBS.into_iter().filter(|job| *job != Job::ReshardKeys).enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Location::parse(folder.path().join(name).to_str().unwrap()).unwrap();
        let (source, target) = (at("s"), at("t"));
        job.prepare(&source.store);
        let rebuild = job.as_data();
        let plan = RebuildPlan::begin(&engine(), &source, &target, rebuild.clone()).unwrap();
        // Neither another job nor the same one without its plan can interfere.
        let context = JobContext::new(&engine());
        job.run(&context, &source, &target, None).unwrap_err();
        let plan: RebuildPlan =
            serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
        let mut tasks = plan.tasks(&engine()).unwrap();
        tasks.reverse();
        let half = tasks.len() / (i % 3 + 1);
        tasks.rotate_left(half);
        let tasks = serde_json::to_string(&tasks).unwrap();
        let tasks: Vec<RebuildTask> = serde_json::from_str(&tasks).unwrap();
        assert!(tasks.len() > 1, "{job:?}");
        let mut reports = Vec::new();
        for (n, task) in tasks.iter().enumerate() {
            if n + 1 == tasks.len() {
                let missing = plan.finish(&engine(), &reports).unwrap_err();
                assert!(matches!(missing, Error::Job(JobError::TasksMissing { .. })), "{missing}");
            }
            let report = plan.run(&engine(), task).unwrap();
            // A worker may have died after finishing it.
            plan.run(&engine(), task).unwrap();
            let report = serde_json::to_string(&report).unwrap();
            reports.push(serde_json::from_str(&report).unwrap());
        }
        plan.finish(&engine(), &reports).unwrap();
        assert_eq!(dump(&*target.store), whole(job, &source.store), "{job:?}");
        // A worker that comes late does not write to a finished result, and does not turn an empty
        // location into a data set.
        let late = plan.run(&engine(), &tasks[0]).unwrap_err();
        assert!(matches!(late, Error::Job(JobError::NothingBegun { .. })), "{late}");
        std::fs::remove_dir_all(folder.path().join("t")).unwrap();
        let nothing = plan.finish(&engine(), &reports).unwrap_err();
        assert!(matches!(nothing, Error::Job(JobError::NothingBegun { .. })), "{nothing}");
        assert!(dump(&*target.store).is_empty());
    }
}

#[test]
fn a_part_that_is_run_again_and_fails_does_not_count_as_done() {
    let (source, target) = (FaultStore::new(MemoryStore::new()), memory());
    let store: Arc<dyn Store> = Arc::new(source.clone());
    Job::Reshard.prepare(&store);
    let context = JobContext::new(&engine());
    let run = |part| Job::Reshard.run(&context, &at(&store), &at(&target), part);
    run(of(1, 2)).unwrap();
    let before = dump(&*target);
    let mut failed = 0;
    for call in 1..60 {
        source.fail(Operation::Read, call);
        if run(of(1, 2)).is_err() {
            failed += 1;
            // What was made stays, and the other part does not finish without this one.
            let reports = |dump: &BTreeMap<String, Vec<u8>>| {
                dump.keys().filter(|key| !key.starts_with(".shardine")).cloned().collect::<Vec<_>>()
            };
            assert_eq!(reports(&dump(&*target)), reports(&before), "call {call}");
        }
        source.clear();
        run(of(1, 2)).unwrap();
    }
    assert!(failed > 0);
    assert_eq!(run(of(2, 2)).unwrap(), PartOutcome::Complete);
    assert_eq!(dump(&*target), whole(Job::Reshard, &store));
}

#[test]
fn no_level_of_a_source_that_was_changed_is_kept() {
    for published in 1..40 {
        let folder = tempfile::tempdir().unwrap();
        let source: Arc<dyn Store> = Arc::new(FileStore::new(folder.path().join("s")));
        let shards = sharding(0, 1, 4, "gzip", "raw");
        let scales = [
            scale("8", [40, 33, 17], Some(&shards)),
            scale("16", [20, 17, 9], Some(&shards)),
            scale("32", [10, 9, 5], Some(&shards)),
        ];
        let volume = volume_at(&at(&source), &scales);
        (0..3).for_each(|level| common::volumes::fill(&volume, level));
        let store = FaultStore::new(MemoryStore::new());
        let target: Arc<dyn Store> = Arc::new(store.clone());
        store.fail(Operation::Publish, published);
        let context = JobContext::new(&engine());
        let run = || Job::VolumeToZarr.run(&context, &at(&source), &at(&target), None);
        let first = run();
        if store.waiting() > 0 {
            first.unwrap();
            break;
        }
        first.unwrap_err();
        // Now every level is changed.
        for level in 0..3 {
            common::volumes::write(&volume, level, "0:3,0:3,0:3");
        }
        run().unwrap();
        assert_eq!(dump(&*target), whole(Job::VolumeToZarr, &source), "{published}");
    }
}

#[test]
fn a_part_of_a_job_that_one_process_does_is_refused() {
    let (source, target) = (memory(), memory());
    Job::Reshard.prepare(&source);
    let token = CancelToken::new();
    let stop = token.clone();
    let context = JobContext::new(&engine()).cancel(&token).progress(move |_| stop.cancel());
    let stopped = Job::Reshard.run(&context, &at(&source), &at(&target), None);
    assert!(matches!(stopped, Err(Error::Cancelled)));
    let context = JobContext::new(&engine());
    let refused = Job::Reshard.run(&context, &at(&source), &at(&target), of(1, 2)).unwrap_err();
    assert!(matches!(refused, Error::Job(JobError::OtherParts { parts: None, .. })), "{refused}");
    Job::Reshard.run(&context, &at(&source), &at(&target), None).unwrap();
    assert_eq!(dump(&*target), whole(Job::Reshard, &source));
}

#[test]
fn a_copy_by_parts_is_the_copy() {
    for (count, on_files) in [(1, false), (3, true), (4, false)] {
        let (folder, source) = (tempfile::tempdir().unwrap(), memory());
        hierarchy(&source);
        let target: Arc<dyn Store> = match on_files {
            true => Arc::new(FileStore::new(folder.path().join("t"))),
            false => memory(),
        };
        let run = |part| copy(&at(&source), &at(&target), &CopyOptions::new().part(part));
        for index in (1..=count).rev() {
            assert!(!dump(&*target).contains_key("zarr.json"));
            let report = run(Part::Of { index, count }).unwrap();
            let missing: Vec<u32> = (1..index).collect();
            match missing.is_empty() {
                true => assert_eq!(report.outcome, PartOutcome::Complete),
                false => assert_eq!(report.outcome, PartOutcome::Waiting { missing }),
            }
            // Another process may do the same again.
            if index == count && count > 1 {
                assert_eq!(run(Part::Of { index, count }).unwrap().objects_copied, 0);
                let refused = run(Part::Of { index, count: count + 1 }).unwrap_err();
                assert!(matches!(refused, Error::Job(JobError::OtherParts { .. })), "{refused}");
                let refused = copy(&at(&source), &at(&target), &CopyOptions::new()).unwrap_err();
                assert!(matches!(refused, Error::Job(JobError::OtherParts { .. })), "{refused}");
                let missing = run(Part::Finish).unwrap_err();
                assert!(matches!(missing, Error::Job(JobError::PartsMissing { .. })), "{missing}");
            }
        }
        assert_eq!(dump(&*target), dump(&*source));
        assert_eq!(run(Part::Of { index: 1, count }).unwrap().outcome, PartOutcome::AlreadyThere);
        assert_eq!(run(Part::Finish).unwrap().outcome, PartOutcome::AlreadyThere);
        assert_eq!(dump(&*target), dump(&*source));
    }
    let (source, target) = (memory(), memory());
    hierarchy(&source);
    let part = |index| CopyOptions::new().part(Part::Of { index, count: 2 });
    copy(&at(&source), &at(&target), &part(1)).unwrap();
    put(&source, "notes.txt", b"something else");
    let refused = copy(&at(&source), &at(&target), &part(2)).unwrap_err();
    assert!(matches!(refused, Error::Job(JobError::SourceChanged { .. })), "{refused}");
}

/// A store in which something happens just before its root is listed for the first time.
struct Interrupted {
    inner: Arc<dyn Store>,
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupted").finish_non_exhaustive()
    }
}

impl layer::StoreLayer for Interrupted {
    type Inner = dyn Store;

    fn inner(&self) -> &(dyn Store + 'static) {
        &*self.inner
    }

    fn before(&self, step: layer::Step<'_>) -> Result<(), StoreError> {
        if matches!(step, layer::Step::List(None)) {
            let meanwhile = self.meanwhile.lock().unwrap().take();
            if let Some(meanwhile) = meanwhile {
                meanwhile();
            }
        }
        Ok(())
    }
}

#[test]
fn a_part_that_begins_while_another_one_does_joins_it() {
    let (source, target) = (memory(), memory());
    hierarchy(&source);
    let part = |index| CopyOptions::new().part(Part::Of { index, count: 2 });
    let (from, to) = (at(&source), at(&target));
    let meanwhile = move || {
        let first = copy(&from, &to, &part(1)).unwrap();
        assert_eq!(first.outcome, PartOutcome::Waiting { missing: vec![2] });
    };
    let meanwhile: Box<dyn FnOnce() + Send> = Box::new(meanwhile);
    let interrupted: Arc<dyn Store> = Arc::new(Interrupted {
        inner: Arc::clone(&target),
        meanwhile: Mutex::new(Some(meanwhile)),
    });
    // It has looked for a marker, found none, and then finds what the other one has made.
    let second = copy(&at(&source), &at(&interrupted), &part(2)).unwrap();
    assert_eq!(second.outcome, PartOutcome::Complete);
    assert_eq!(dump(&*target), dump(&*source));
}

#[test]
fn a_source_that_was_changed_between_two_parts_is_refused() {
    for on_files in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let source: Arc<dyn Store> = match on_files {
            true => Arc::new(FileStore::new(folder.path().join("s"))),
            false => memory(),
        };
        let (target, context) = (memory(), JobContext::new(&engine()));
        Job::ZarrToVolume.prepare(&source);
        let run = |part| Job::ZarrToVolume.run(&context, &at(&source), &at(&target), part);
        run(of(1, 2)).unwrap();
        let array = ArrayNode::open(&engine(), &at(&source)).unwrap();
        write(&array, "0:40,0:33,:", noise(40 * 33 * 17 * 2, 77));
        let refused = run(of(2, 2)).unwrap_err();
        assert!(matches!(refused, Error::Job(JobError::SourceChanged { .. })), "{refused}");
        assert!(!dump(&*target).contains_key("info"));
    }
}

#[test]
fn what_every_part_would_do_again_is_refused() {
    let (source, target, context) = (memory(), memory(), JobContext::new(&engine()));
    Job::Reshard.prepare(&source);
    for options in [RepackOptions::new().overwrite(true), RepackOptions::new().restart(true)] {
        let options = options.packing(Packing::Unsharded).part(Part::Of { index: 1, count: 2 });
        let refused = repack(&context, &at(&source), Some(&at(&target)), &options, &mut |_| ());
        assert!(matches!(refused, Err(Error::Job(JobError::NotInParts { .. }))));
    }
    let in_place = RepackOptions::new().packing(Packing::Unsharded);
    let in_place = in_place.part(Part::Of { index: 1, count: 2 });
    let refused = repack(&context, &at(&source), None, &in_place, &mut |_| ());
    assert!(matches!(refused, Err(Error::Job(JobError::NotInParts { .. }))));
    assert!(dump(&*target).is_empty());
}

#[test]
fn a_second_process_on_the_same_target_is_refused_while_the_first_one_lives() {
    for on_files in [false, true] {
        let (folder, source) = (tempfile::tempdir().unwrap(), memory());
        let target: Arc<dyn Store> = match on_files {
            true => Arc::new(FileStore::new(folder.path().join("t"))),
            false => memory(),
        };
        Job::Reshard.prepare(&source);
        let (begun, is_begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let first = AtomicBool::new(true);
        let may_go_on = std::sync::Mutex::new(may_go_on);
        let context = JobContext::new(&engine()).progress(move |_| {
            if first.swap(false, Ordering::SeqCst) {
                begun.send(()).unwrap();
                may_go_on.lock().unwrap().recv_timeout(Duration::from_secs(60)).unwrap();
            }
        });
        std::thread::scope(|scope| {
            let (source, target) = (&source, &target);
            let job = scope
                .spawn(move || Job::Reshard.run(&context, &at(source), &at(target), None).unwrap());
            is_begun.recv_timeout(Duration::from_secs(60)).unwrap();
            let context = JobContext::new(&engine());
            let refused = Job::Reshard.run(&context, &at(source), &at(target), None).unwrap_err();
            assert!(matches!(refused, Error::Job(JobError::Busy { .. })), "{refused}");
            go_on.send(()).unwrap();
            assert_eq!(job.join().unwrap(), PartOutcome::Complete);
        });
        assert_eq!(dump(&*target), whole(Job::Reshard, &source));
    }
}

#[test]
fn a_job_that_is_cancelled_leaves_what_the_next_run_resumes() {
    for job in JOBS {
        for stop_after in [1, 3, 10] {
            let (source, target) = (memory(), memory());
            job.prepare(&source);
            let token = CancelToken::new();
            let (stop, told) = (token.clone(), std::sync::atomic::AtomicUsize::new(0));
            let context = JobContext::new(&engine()).cancel(&token).progress(move |_| {
                if told.fetch_add(1, Ordering::SeqCst) + 1 == stop_after {
                    stop.cancel();
                }
            });
            match job.run(&context, &at(&source), &at(&target), None) {
                Err(Error::Cancelled) => {
                    let left = dump(&*target);
                    for root in ["zarr.json", "info", ".zgroup", ".zarray"] {
                        assert!(!left.contains_key(root), "{job:?} {stop_after}: {root}");
                    }
                    let context = JobContext::new(&engine());
                    job.run(&context, &at(&source), &at(&target), None).unwrap();
                }
                // It had finished before it was cancelled.
                done => assert_eq!(done.unwrap(), PartOutcome::Complete),
            }
            assert_eq!(dump(&*target), whole(job, &source), "{job:?} {stop_after}");
        }
    }
}
