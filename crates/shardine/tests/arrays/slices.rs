//! Planes that are written one after another: what is committed is there, whatever the shapes and
//! whatever dies.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::cell::Cell;
use std::sync::Arc;

use common::*;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use serde_json::{Value, json};
use shardine::store::{
    Call, Condition, FaultStore, FileStore, Key, MemoryStore, Operation, Store, StoreExt,
};
use shardine::{
    ArrayNode, Elements, Error, GeneratorSource, Location, Region, SliceError, SliceOptions,
    SliceWriter, Strategy as WriteStrategy, VariableElements, WriteOptions,
};

/// The coordinates of element `i` of a box, in C order.
fn place(mut i: u64, shape: &[u64]) -> Vec<u64> {
    let mut at = vec![0; shape.len()];
    for (at, &n) in at.iter_mut().zip(shape).rev() {
        *at = i % n;
        i /= n;
    }
    at
}

/// A number for an element that a run writes; now and then the fill value.
fn value(at: &[u64], run: u64) -> u16 {
    let mixed = at.iter().fold(run + 1, |n, &i| (n ^ i).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    if mixed >> 62 == 0 { 0 } else { (mixed >> 40) as u16 }
}

/// Planes from number `first` on, by the runs that wrote them, in C order.
fn planes(shape: &[u64], axis: usize, first: u64, runs: &[u64], text: bool) -> Elements {
    let mut part = shape.to_vec();
    part[axis] = runs.len() as u64;
    let values = (0..part.iter().product()).map(|i| {
        let mut at = place(i, &part);
        let run = runs[at[axis] as usize];
        at[axis] += first;
        value(&at, run)
    });
    if text {
        let words = values.map(|n| if n == 0 { String::new() } else { format!("w{n}") });
        return Elements::Variable(words.collect::<VariableElements>());
    }
    Elements::Fixed(values.flat_map(u16::to_le_bytes).collect())
}

#[derive(Debug, Clone)]
struct Config {
    document: Value,
    shape: Vec<u64>,
    axis: usize,
    /// The extent of a chunk along the axis.
    layer: u64,
    text: bool,
}

fn config(only_sharded: bool) -> impl Strategy<Value = Config> {
    (1usize..4)
        .prop_flat_map(|rank| {
            let axes = prop::collection::vec((1u64..6, 1u64..4, 1u64..4), rank);
            (axes, 0..rank, any::<bool>(), any::<bool>(), any::<bool>())
        })
        .prop_map(move |(axes, axis, sharded, text, start)| {
            let (sharded, text) = (sharded || only_sharded, text && !only_sharded);
            let mut shape: Vec<u64> = axes.iter().map(|a| a.0).collect();
            shape[axis] = 0;
            let chunk: Vec<u64> = axes.iter().map(|a| a.1).collect();
            let shard: Vec<u64> = axes.iter().map(|a| a.1 * a.2).collect();
            let inner = if text { json!(["vlen-utf8"]) } else { json!([bytes(), zstd()]) };
            let (cell, mut codecs) = match sharded {
                true => (&shard, json!([sharding(&chunk, inner)])),
                false => (&chunk, inner),
            };
            if sharded && start {
                codecs[0]["configuration"]["index_location"] = json!("start");
            }
            let (data_type, fill) =
                if text { (json!("string"), json!("")) } else { (json!("uint16"), json!(0)) };
            let document = document(&shape, cell, data_type, fill, codecs);
            Config { document, layer: chunk[axis], shape, axis, text }
        })
}

/// One life of a writer.
#[derive(Debug, Clone)]
struct Run {
    commit_every: Option<u64>,
    pushes: Vec<Push>,
    finished: bool,
    strategy: WriteStrategy,
}

#[derive(Debug, Clone)]
struct Push {
    count: u64,
    from_source: bool,
    commit: bool,
}

fn run() -> impl Strategy<Value = Run> {
    let push = (0u64..9, prop::bool::weighted(0.2), prop::bool::weighted(0.3))
        .prop_map(|(count, from_source, commit)| Push { count, from_source, commit });
    let strategy = prop::sample::select(vec![
        WriteStrategy::Auto,
        WriteStrategy::Rewrite,
        WriteStrategy::InPlace,
        WriteStrategy::Append,
    ]);
    (prop::option::of(1u64..7), prop::collection::vec(push, 0..7), any::<bool>(), strategy)
        .prop_map(|(commit_every, pushes, finished, strategy)| Run {
            commit_every,
            pushes,
            finished,
            strategy,
        })
}

/// The reopened array has these planes and no others.
fn check(location: &Location, config: &Config, runs: &[u64]) -> TestCaseResult {
    let array = ArrayNode::open(&engine(), location).unwrap();
    prop_assert_eq!(array.shape()[config.axis], runs.len() as u64);
    let expected = planes(&config.shape, config.axis, 0, runs, config.text);
    prop_assert_eq!(array.read_elements(Region::all()).unwrap(), expected);
    Ok(())
}

fn live(store: Arc<dyn Store>, config: &Config, runs: &[Run], named: bool) -> TestCaseResult {
    let location = create_in(store, &config.document).location().clone();
    // Which run wrote each committed plane.
    let mut model: Vec<u64> = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let number = number as u64;
        let array = ArrayNode::open(&engine(), &location).unwrap();
        let mut write = WriteOptions::new();
        if named {
            write = write.strategy(run.strategy);
        }
        let mut options = SliceOptions::new().write(write);
        options.commit_every = run.commit_every;
        let mut writer = SliceWriter::new(array, config.axis, options).unwrap();
        prop_assert_eq!(writer.position(), model.len() as u64);
        for push in &run.pushes {
            let first = model.len() as u64;
            model.extend((0..push.count).map(|_| number));
            let given = &model[first as usize..];
            let elements = planes(&config.shape, config.axis, first, given, config.text);
            match &elements {
                Elements::Fixed(_) if push.from_source => {
                    let axis = config.axis;
                    let source = GeneratorSource::new(2, |start: &[u64], shape: &[u64], out| {
                        let out: &mut [u8] = out;
                        for (i, element) in out.chunks_exact_mut(2).enumerate() {
                            let mut at = place(i as u64, shape);
                            at.iter_mut().zip(start).for_each(|(i, s)| *i += s);
                            at[axis] = at[axis] + first - 3;
                            element.copy_from_slice(&value(&at, number).to_le_bytes());
                        }
                        Ok(())
                    });
                    writer.push_from(3..3 + push.count, &source).unwrap();
                }
                _ => writer.push_elements(elements.as_ref()).unwrap(),
            }
            let total = model.len() as u64;
            prop_assert_eq!(writer.position(), total);
            if push.commit {
                writer.commit().unwrap();
                prop_assert_eq!(writer.committed(), total);
            }
            match run.commit_every {
                Some(planes) => prop_assert!(total - writer.committed() < planes),
                None => prop_assert!(total - writer.committed() < config.layer),
            }
            check(&location, config, &model[..writer.committed() as usize])?;
        }
        if run.finished {
            let array = writer.finish().unwrap();
            prop_assert_eq!(array.shape()[config.axis], model.len() as u64);
        } else {
            model.truncate(writer.committed() as usize);
            drop(writer);
        }
        check(&location, config, &model)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_is_committed_is_there_and_the_next_run_goes_on(
        config in config(false),
        runs in prop::collection::vec(run(), 1..4),
    ) {
        live(Arc::new(MemoryStore::new()), &config, &runs, false)?;
    }
}

/// Writes planes to a store in which one operation fails; returns whether it got that far.
fn fail_once(
    config: &Config,
    (operation, after): (Operation, u64),
    counts: &[u64],
    commit_every: Option<u64>,
) -> Result<bool, TestCaseError> {
    let store = FaultStore::new(MemoryStore::new());
    let sound = Location::root(Arc::new(store.inner().clone()));
    let array = create_in(Arc::new(store.clone()), &config.document);
    let model = vec![0; counts.iter().sum::<u64>() as usize];
    let mut options = SliceOptions::new();
    options.commit_every = commit_every;
    let mut writer = SliceWriter::new(array, config.axis, options).unwrap();
    store.fail(operation, after);
    let mut failures = 0;
    let mut ends: Vec<u64> = counts
        .iter()
        .scan(0, |end, count| {
            *end += count;
            Some(*end)
        })
        .collect();
    ends.push(model.len() as u64);
    // The fault happens once, and after it the writer continues where it stopped.
    for end in ends {
        let mut attempt = |writer: &mut SliceWriter| {
            let first = writer.position();
            let part = &model[first as usize..end as usize];
            let elements = planes(&config.shape, config.axis, first, part, config.text);
            let result = writer.push_elements(elements.as_ref());
            let result = result.and_then(|()| match end as usize == model.len() {
                true => writer.commit(),
                false => Ok(()),
            });
            failures += u64::from(result.is_err());
            result.is_ok()
        };
        if !attempt(&mut writer) {
            check(&sound, config, &model[..writer.committed() as usize])?;
            prop_assert!(attempt(&mut writer));
        }
        check(&sound, config, &model[..writer.committed() as usize])?;
    }
    // A fault that happened was reported, and nothing else was.
    let fired = store.waiting() == 0;
    prop_assert_eq!(failures, u64::from(fired));
    check(&sound, config, &model)?;
    Ok(fired)
}

#[test]
fn an_operation_that_fails_loses_no_committed_plane() {
    let operation = prop::sample::select(vec![
        Operation::Open,
        Operation::Read,
        Operation::Create,
        Operation::Append,
        Operation::Finish,
        Operation::Publish,
        Operation::Delete,
    ]);
    let counts = prop::collection::vec(1u64..6, 1..5);
    let cases = (config(false), (operation, 0u64..12), counts, prop::option::of(1u64..4));
    let runner = ProptestConfig { cases: 24, ..ProptestConfig::with_source_file(file!()) };
    let fired = Cell::new(0);
    TestRunner::new(runner)
        .run(&cases, |(config, fault, counts, commit_every)| {
            let has_fired = fail_once(&config, fault, &counts, commit_every)?;
            fired.set(fired.get() + u32::from(has_fired));
            Ok(())
        })
        .unwrap();
    assert!(fired.get() > 3, "only {} operations failed", fired.get());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_strategy_gives_the_same_planes(
        config in config(true),
        runs in prop::collection::vec(run(), 1..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        live(Arc::new(FileStore::new(folder.path().join("a"))), &config, &runs, true)?;
    }

    #[test]
    fn an_array_that_has_its_shape_is_filled_plane_by_plane(
        config in config(false),
        len in 1u64..14,
        start in 0u64..14,
        pushes in prop::collection::vec((1u64..6, any::<bool>()), 0..5),
    ) {
        let start = start.min(len);
        let mut document = config.document.clone();
        document["shape"][config.axis] = json!(len);
        let array = create(&document);
        let mut model = vec![7; len as usize];
        let old = planes(&config.shape, config.axis, 0, &model, config.text);
        array.write_elements(Region::all(), old.as_ref(), &WriteOptions::new()).unwrap();
        let location = array.location().clone();
        let mut writer =
            SliceWriter::new(array, config.axis, SliceOptions::new().start(start)).unwrap();
        for (count, commit) in pushes {
            let first = writer.position();
            let runs = vec![8; count as usize];
            let elements = planes(&config.shape, config.axis, first, &runs, config.text);
            let pushed = writer.push_elements(elements.as_ref());
            if first + count > len {
                let refused = matches!(pushed, Err(Error::Slices(SliceError::PastEnd { .. })));
                prop_assert!(refused && writer.position() == first);
                continue;
            }
            pushed.unwrap();
            model[first as usize..(first + count) as usize].fill(8);
            if commit {
                writer.commit().unwrap();
                check(&location, &config, &model)?;
            }
        }
        writer.finish().unwrap();
        check(&location, &config, &model)?;
    }
}

#[test]
fn a_resize_keeps_the_rest_of_the_document() {
    let mut document = sharded(&[4, 6], &[4, 4], &[2, 2]);
    document["attributes"] = json!({"b": 1, "a": [1.5, null]});
    document["extra"] = json!({"must_understand": false, "x": [1]});
    document["dimension_names"] = json!(["y", null]);
    let mut array = create(&document);
    write(&array, "", noise(48, 1));
    let before = read(&array, ":,:6");
    array.resize(&[9, 6]).unwrap();
    document["shape"] = json!([9, 6]);
    let reopened = reopen(&array);
    assert_eq!(reopened.metadata().to_json(), document);
    assert_eq!((array.shape(), reopened.shape()), (&[9, 6][..], &[9, 6][..]));
    for array in [&array, &reopened] {
        assert_eq!(read(array, ":4"), before);
        assert_eq!(read(array, "4:"), [0; 60]);
    }
    write(&array, "8", noise(12, 2));
    assert_eq!(read(&reopened, "8"), noise(12, 2));
}

#[test]
fn what_is_cut_off_stays_and_comes_back() {
    let mut array = create(&sharded(&[8], &[4], &[2]));
    write(&array, "", noise(16, 1));
    array.resize(&[3]).unwrap();
    assert_eq!(read(&array, ""), noise(16, 1)[..6]);
    assert!(array.read_elements("3").is_err());
    array.resize(&[8]).unwrap();
    assert_eq!(read(&array, ""), noise(16, 1));
}

#[test]
fn a_resize_does_not_undo_what_somebody_else_did() {
    let mut array = create(&sharded(&[8], &[4], &[2]));
    let mut other = reopen(&array);
    other.resize(&[9]).unwrap();
    assert!(matches!(array.resize(&[10]), Err(Error::MetadataChanged { .. })));
    assert_eq!(array.shape(), [8]);
    other.resize(&[11]).unwrap();
    assert_eq!(reopen(&array).shape(), [11]);
    // An attribute counts, too.
    let mut array = reopen(&array);
    let key = Key::new("zarr.json").unwrap();
    let mut document = array.metadata().to_json();
    document["attributes"] = json!({"a": 1});
    let text = document.to_string();
    array.location().store.put(&key, text.as_bytes(), Condition::None).unwrap();
    assert!(matches!(array.resize(&[12]), Err(Error::MetadataChanged { .. })));
    assert_eq!(reopen(&array).metadata().to_json(), document);
}

#[test]
fn a_resize_to_another_rank_is_refused() {
    let mut array = create(&sharded(&[8], &[4], &[2]));
    assert!(matches!(array.resize(&[8, 1]), Err(Error::Metadata { .. })));
    assert_eq!(reopen(&array).shape(), [8]);
}

#[test]
fn a_second_writer_is_refused_before_it_has_written_a_byte() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(MemoryStore::new()), Arc::new(FileStore::new(folder.path()))];
    for store in stores {
        let array = create_in(store.clone(), &sharded(&[0, 4], &[4, 4], &[1, 4]));
        let new = || SliceWriter::new(reopen(&array), 0, SliceOptions::new());
        let before = reopen(&array);
        let mut first = new().unwrap();
        assert!(matches!(new(), Err(Error::AppendUnderWay { .. })));
        first.push_elements(Elements::Fixed(noise(8, 1)).as_ref()).unwrap();
        assert!(matches!(new(), Err(Error::AppendUnderWay { .. })));
        first.push_elements(Elements::Fixed(noise(8, 2)).as_ref()).unwrap();
        first.finish().unwrap();
        // A handle opened before would overwrite what was appended.
        let stale = SliceWriter::new(before, 0, SliceOptions::new());
        assert!(matches!(stale, Err(Error::MetadataChanged { .. })));
        // A writer that is dropped blocks nobody.
        drop(new().unwrap());
        let mut third = new().unwrap();
        third.push_elements(Elements::Fixed(noise(8, 3)).as_ref()).unwrap();
        third.finish().unwrap();
        let all = [noise(8, 1), noise(8, 2), noise(8, 3)].concat();
        assert_eq!(read(&reopen(&array), ""), all);
        let listing = store.list(None).unwrap();
        let left = listing.objects.iter().filter(|(key, _)| key.as_str().contains(".shardine"));
        assert_eq!(left.count(), 0);
    }
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.starts_with(".shardine")), "{names:?}");
}

#[test]
fn an_owner_of_whom_nobody_knows_whether_he_lives_is_taken_over_on_demand() {
    let array = create(&sharded(&[0, 4], &[4, 4], &[1, 4]));
    let marker = Key::new(".shardine-append.json").unwrap();
    let store = &array.location().store;
    let of_another_machine = json!({
        "shardine_append": 1, "axis": 0,
        "owner": {"id": "1", "process": "elsewhere 7 8", "host": "far", "pid": 7},
    });
    store.put(&marker, of_another_machine.to_string().as_bytes(), Condition::None).unwrap();
    let new = |options| SliceWriter::new(reopen(&array), 0, options);
    let error = new(SliceOptions::new()).unwrap_err();
    assert!(matches!(error, Error::AppendOwned { .. }), "{error}");
    assert!(error.to_string().contains("process 7 on far"), "{error}");
    let mut first = new(SliceOptions::new().take_over(true)).unwrap();
    first.push_elements(Elements::Fixed(noise(8, 1)).as_ref()).unwrap();
    // What was not finished can still be resumed.
    assert!(first.claim().unwrap().note().is_some());
    // Another one takes over in turn, and the first one notices before it writes again.
    let mut second = new(SliceOptions::new().take_over(true)).unwrap();
    let lost = first.push_elements(Elements::Fixed(noise(8, 9)).as_ref());
    assert!(matches!(lost, Err(Error::AppendLost { .. })), "{lost:?}");
    drop(first);
    second.push_elements(Elements::Fixed(noise(8, 2)).as_ref()).unwrap();
    second.finish().unwrap();
    assert_eq!(read(&reopen(&array), ""), [noise(8, 1), noise(8, 2)].concat());
    assert!(store.get(&marker).unwrap().is_none());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let array = create(&sharded(&[3, 4], &[4, 4], &[1, 4]));
    let new = |axis, options| SliceWriter::new(reopen(&array), axis, options);
    let slices = |error: Error| match error {
        Error::Slices(error) => error,
        error => panic!("{error}"),
    };
    let error = new(2, SliceOptions::new()).unwrap_err();
    assert_eq!(slices(error), SliceError::Axis { axis: 2, rank: 2 });
    let error = new(0, SliceOptions::new().commit_every(0)).unwrap_err();
    assert_eq!(slices(error), SliceError::CommitEvery);
    let error = new(0, SliceOptions::new().start(4)).unwrap_err();
    assert_eq!(slices(error), SliceError::PastEnd { plane: 4, len: 3 });
    let mut writer = new(0, SliceOptions::new()).unwrap();
    let error = writer.push_elements(Elements::Fixed(vec![1; 19]).as_ref()).unwrap_err();
    assert_eq!(slices(error), SliceError::PartOfPlane { plane: 8, over: 3 });
    let text = Elements::Variable(["a"; 4].iter().collect());
    assert_eq!(slices(writer.push_elements(text.as_ref()).unwrap_err()), SliceError::Kind);
    assert_eq!(writer.position(), 3);
    let empty = create(&sharded(&[3, 0], &[4, 4], &[1, 4]));
    assert!(matches!(
        SliceWriter::new(empty, 0, SliceOptions::new()),
        Err(Error::Slices(SliceError::EmptyPlane { axis: 0, .. }))
    ));
    let scalar = create(&document(&[], &[], "uint8".into(), 0.into(), json!(["bytes"])));
    assert!(SliceWriter::new(scalar, 0, SliceOptions::new()).is_err());
}

#[test]
fn chunks_of_a_layer_that_was_begun_are_not_read_again() {
    let store = Arc::new(shardine::store::CountingStore::new(MemoryStore::new()));
    let array = create_in(store.clone(), &sharded(&[0, 4], &[4, 4], &[4, 4]));
    let options = SliceOptions::new().commit_every(1);
    let mut writer = SliceWriter::new(array, 0, options).unwrap();
    store.reset();
    for seed in 0..4 {
        writer.push_elements(Elements::Fixed(noise(8, seed)).as_ref()).unwrap();
    }
    let of_chunk =
        |call: &Call| matches!(call, Call::Read { key, .. } if key.as_str().starts_with("c/"));
    assert_eq!(store.calls().iter().find(|call| of_chunk(call)), None);
    let array = writer.finish().unwrap();
    assert_eq!(read(&array, "3"), noise(8, 3));
}
