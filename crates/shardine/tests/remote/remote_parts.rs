//! Processes that share a job on an object store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::data_set::dump;
use common::*;
use shardine::jobs::{CancelToken, JobContext, JobError, Part, PartOutcome, RepackOptions, repack};
use shardine::{Error, Location, Packing, StoreOptions};
use shardine_testbed::SeaweedFs;

const BUCKET: &str = "parts";

fn s3(name: &str) -> Location {
    let server = SeaweedFs::shared().unwrap();
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| server.create_bucket(BUCKET).unwrap());
    let options = StoreOptions::new()
        .with("aws_endpoint", &format!("http://{}", server.addr()))
        .with("aws_access_key_id", SeaweedFs::ACCESS_KEY)
        .with("aws_secret_access_key", SeaweedFs::SECRET_KEY)
        .with("aws_region", SeaweedFs::REGION);
    Location::with_options(&format!("s3://{BUCKET}/{name}"), &options).unwrap()
}

fn source(name: &str) -> Location {
    let place = s3(name);
    let array = shardine::ArrayNode::create(
        &engine(),
        &place,
        metadata(&sharded(&[64, 64, 16], &[16, 16, 16], &[8, 8, 8])),
    )
    .unwrap();
    write(&array, "0:60,:,:", noise(60 * 64 * 16 * 2, 3));
    place
}

fn options() -> RepackOptions {
    RepackOptions::new().packing(Packing::ChunksPerShard(vec![4, 2, 1]))
}

#[test]
fn parts_on_s3_of_which_one_is_stopped_make_the_bytes_of_one_process() {
    let (from, one, many) = (source("a"), s3("one"), s3("many"));
    let context = JobContext::new(&engine());
    repack(&context, &from, Some(&one), &options(), &mut |_| ()).unwrap();
    let run = |context: &JobContext, index: u32| {
        let options = options().part(Part::Of { index, count: 4 });
        repack(context, &from, Some(&many), &options, &mut |_| ())
    };
    // One is stopped on the way, while others work at the same time.
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| {
            let token = CancelToken::new();
            let (stop, told) = (token.clone(), AtomicUsize::new(0));
            let context = JobContext::new(&engine()).cancel(&token).progress(move |_| {
                if told.fetch_add(1, Ordering::SeqCst) == 1 {
                    stop.cancel();
                }
            });
            run(&context, 2)
        });
        for index in [1, 3] {
            scope.spawn(move || run(&JobContext::new(&engine()), index).unwrap());
        }
        assert!(matches!(stopped.join().unwrap(), Err(Error::Cancelled)));
    });
    let finish = options().part(Part::Finish);
    let missing = repack(&context, &from, Some(&many), &finish, &mut |_| ()).unwrap_err();
    assert!(matches!(missing, Error::Job(JobError::PartsMissing { .. })), "{missing}");
    let waits = PartOutcome::Waiting { missing: vec![4] };
    assert_eq!(run(&context, 2).unwrap(), waits);
    assert_eq!(run(&context, 4).unwrap(), PartOutcome::Complete);
    assert_eq!(dump(&*many.store), dump(&*one.store));
}

#[test]
fn a_target_that_a_process_elsewhere_has_begun_is_taken_over_only_when_asked() {
    let (from, to) = (source("b"), s3("taken"));
    let token = CancelToken::new();
    let stop = token.clone();
    let context = JobContext::new(&engine()).cancel(&token).progress(move |_| stop.cancel());
    let stopped = repack(&context, &from, Some(&to), &options(), &mut |_| ());
    assert!(matches!(stopped, Err(Error::Cancelled)));
    // As left by a process on another machine that was killed.
    use shardine::store::{Condition, Key, StoreExt};
    let marker = Key::new(shardine::jobs::REPACK_MARKER).unwrap();
    let bytes = to.store.get(&marker).unwrap().unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert!(json.get("owner").is_none(), "one that ends gives its target back: {json}");
    json["owner"] =
        serde_json::json!({"id": "x", "process": "elsewhere 7 8", "host": "far", "pid": 7});
    to.store.put(&marker, json.to_string().as_bytes(), Condition::None).unwrap();
    let context = JobContext::new(&engine());
    let refused = repack(&context, &from, Some(&to), &options(), &mut |_| ()).unwrap_err();
    assert!(refused.to_string().contains("process 7 on far"), "{refused}");
    let mut options = options();
    options.take_over = true;
    repack(&context, &from, Some(&to), &options, &mut |_| ()).unwrap();
    let clean = s3("clean");
    repack(&context, &from, Some(&clean), &options, &mut |_| ()).unwrap();
    assert_eq!(dump(&*to.store), dump(&*clean.store));
}
