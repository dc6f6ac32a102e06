//! Files of elements that become arrays, and arrays that become files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use shardine::files::{FileError, IfExists, Input, OutputFile};
use shardine::jobs::{
    AppendError, AppendFrom, AppendOptions, CancelToken, ExportOptions, ImportError, ImportOptions,
    JobContext, JobError, PartOutcome, append, export_to_file, export_to_stream, import,
};
use shardine::plan::ArrayLayout;
use shardine::zarr::{APPEND_MARKER, CONVERT_MARKER};
use shardine::{
    ArrayNode, CodecChoice, DataType, Elements, Engine, Error, Location, Packing, Region,
};

fn engine() -> Arc<Engine> {
    Engine::shared().unwrap()
}

fn at(path: &Path) -> Location {
    Location::parse(path.to_str().unwrap()).unwrap()
}

fn uint8() -> DataType {
    DataType::parse_name("uint8").unwrap()
}

/// No two chunks are alike.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn layout(chunk: &[u64], packing: Packing) -> ArrayLayout {
    let mut layout = ArrayLayout::default();
    layout.chunk = Some(chunk.to_vec());
    layout.packing = packing;
    layout.codecs = Some(CodecChoice::Words(vec!["none".to_owned()]));
    layout
}

/// 64 planes of 8 x 8, each a chunk and an object.
fn planes() -> ImportOptions {
    let layout = layout(&[1, 8, 8], Packing::Unsharded);
    ImportOptions::new().raw(&[64, 8, 8], uint8()).layout(layout)
}

fn all(location: &Location) -> Vec<u8> {
    match ArrayNode::open(&engine(), location).unwrap().read_elements(Region::all()).unwrap() {
        Elements::Fixed(bytes) => bytes,
        _ => panic!("elements of fixed size"),
    }
}

/// Stops at the first progress report.
fn impatient() -> JobContext {
    let token = CancelToken::new();
    let own = token.clone();
    JobContext::new(&engine()).progress(move |_| own.cancel()).cancel(&token)
}

#[test]
fn an_import_that_was_stopped_is_resumed_by_the_same_call_only() {
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (folder.path().join("a.raw"), folder.path().join("b.raw"));
    fs::write(&file, bytes(4096)).unwrap();
    fs::write(&other, bytes(4096)).unwrap();
    let target = at(&folder.path().join("a.zarr"));
    let marker = folder.path().join("a.zarr").join(CONVERT_MARKER);

    let stopped = import(impatient(), Input::open(&file).unwrap(), &target, &planes());
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert!(marker.exists());

    let refused = import(&engine(), Input::open(&other).unwrap(), &target, &planes());
    assert!(matches!(refused, Err(Error::Import(ImportError::OtherFile { .. }))), "{refused:?}");
    let sharded = planes().layout(layout(&[1, 8, 8], Packing::ChunksPerShard(vec![2])));
    let refused = import(&engine(), Input::open(&file).unwrap(), &target, &sharded);
    assert!(matches!(refused, Err(Error::Import(ImportError::OtherOptions { .. }))), "{refused:?}");

    let before = ArrayNode::open(&engine(), &target).unwrap().objects().unwrap().len() as u64;
    let report = import(&engine(), Input::open(&file).unwrap(), &target, &planes()).unwrap();
    assert_eq!((report.resumed, report.objects_kept), (true, before));
    assert_eq!(report.written.objects_written, 64 - before);
    assert_eq!(all(&target), bytes(4096));
    assert!(!marker.exists());
}

#[test]
fn a_second_import_to_the_same_target_is_refused_while_the_first_one_works() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.raw");
    fs::write(&file, bytes(4096)).unwrap();
    let target = at(&folder.path().join("a.zarr"));
    let (again, tried) = (Mutex::new(Vec::new()), (file.clone(), target.clone()));
    let again = Arc::new(again);
    let seen = Arc::clone(&again);
    let context = JobContext::new(&engine()).progress(move |_| {
        let (file, target) = &tried;
        let mut seen = seen.lock().unwrap();
        if seen.is_empty() {
            for overwrite in [false, true] {
                let input = Input::open(file).unwrap();
                let second = import(&engine(), input, target, &planes().overwrite(overwrite));
                seen.push(second.map(drop));
            }
        }
    });
    import(&context, Input::open(&file).unwrap(), &target, &planes()).unwrap();
    assert_eq!(all(&target), bytes(4096));
    let again = again.lock().unwrap();
    assert_eq!(again.len(), 2);
    for second in &*again {
        assert!(matches!(second, Err(Error::Job(JobError::Busy { .. }))), "{second:?}");
    }
}

/// The contents of a folder, with their bytes.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(inside) = waiting.pop() {
        for entry in fs::read_dir(inside).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn parts_of_an_import_in_any_order_and_again_make_what_one_process_makes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.raw");
    fs::write(&file, bytes(20 * 24 * 16)).unwrap();
    let layouts = [
        layout(&[3, 8, 5], Packing::Unsharded),
        layout(&[3, 8, 5], Packing::ChunksPerShard(vec![2])),
        layout(&[20, 24, 16], Packing::Unsharded),
    ];
    for (number, layout) in layouts.into_iter().enumerate() {
        let options = ImportOptions::new().raw(&[20, 24, 16], uint8()).layout(layout);
        let path = |name: &str| folder.path().join(format!("{name}{number}.zarr"));
        let run = |name: &str, part: Option<&str>| {
            let mut options = options.clone();
            options.part = part.map(|part| part.parse().unwrap());
            import(&engine(), Input::open(&file).unwrap(), &at(&path(name)), &options)
        };
        run("whole", None).unwrap();
        let early = run("parts", Some("finish"));
        assert!(matches!(early, Err(Error::Job(JobError::NothingBegun { .. }))), "{early:?}");
        for (part, missing) in [("3/4", &[1, 2, 4][..]), ("1/4", &[2, 4]), ("3/4", &[2, 4])] {
            let waiting = PartOutcome::Waiting { missing: missing.to_vec() };
            assert_eq!(run("parts", Some(part)).unwrap().outcome, waiting, "{part}");
        }
        let early = run("parts", Some("finish"));
        assert!(matches!(early, Err(Error::Job(JobError::PartsMissing { .. }))), "{early:?}");
        let unfinished = ArrayNode::open(&engine(), &at(&path("parts")));
        assert!(matches!(unfinished, Err(Error::NoNode { .. })), "{unfinished:?}");
        for other in [None, Some("2/3")] {
            let refused = run("parts", other);
            let other_parts = matches!(refused, Err(Error::Job(JobError::OtherParts { .. })));
            assert!(other_parts, "{refused:?}");
        }
        let stopped = {
            let mut options = options.clone();
            options.part = Some("4/4".parse().unwrap());
            import(impatient(), Input::open(&file).unwrap(), &at(&path("parts")), &options)
        };
        assert!(stopped.is_ok() || matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
        run("parts", Some("4/4")).unwrap();
        assert_eq!(run("parts", Some("2/4")).unwrap().outcome, PartOutcome::Complete);
        assert_eq!(tree(&path("parts")), tree(&path("whole")), "{number}");
        let again = run("parts", Some("2/4")).unwrap();
        assert_eq!(again.outcome, PartOutcome::AlreadyThere);
    }
}

#[test]
fn parts_of_an_import_of_a_file_that_has_changed_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.raw");
    fs::write(&file, bytes(4096)).unwrap();
    let target = at(&folder.path().join("a.zarr"));
    let mut options = planes();
    let mut part = |part: &str| {
        options.part = Some(part.parse().unwrap());
        import(&engine(), Input::open(&file).unwrap(), &target, &options)
    };
    part("1/2").unwrap();
    fs::write(&file, vec![1; 4096]).unwrap();
    let refused = part("2/2");
    assert!(matches!(refused, Err(Error::Import(ImportError::OtherOptions { .. }))), "{refused:?}");
    let stream = Input::from_reader(&mut &bytes(4096)[..], "stream").unwrap();
    let refused = import(&engine(), stream, &at(&folder.path().join("b.zarr")), &options);
    assert!(matches!(refused, Err(Error::Job(JobError::NotInParts { .. }))), "{refused:?}");
}

#[test]
fn an_import_that_is_stopped_before_it_begins_writes_no_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.raw");
    fs::write(&file, bytes(4096)).unwrap();
    let target = at(&folder.path().join("a.zarr"));
    let token = CancelToken::new();
    token.cancel();
    let context = JobContext::new(&engine()).cancel(&token);
    let stopped = import(&context, Input::open(&file).unwrap(), &target, &planes());
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert!(ArrayNode::open(&engine(), &target).unwrap().objects().unwrap().is_empty());
}

#[test]
fn what_is_left_of_a_stream_is_not_taken_for_its_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let target = at(&folder.path().join("a.zarr"));
    let stream = || Input::from_reader(&mut &bytes(4096)[..], "stream").unwrap();
    assert!(import(impatient(), stream(), &target, &planes()).is_err());
    let refused = import(&engine(), stream(), &target, &planes());
    assert!(matches!(refused, Err(Error::Import(ImportError::LeftByStream { .. }))), "{refused:?}");
    let report = import(&engine(), stream(), &target, &planes().overwrite(true)).unwrap();
    assert!(!report.resumed);
    assert_eq!(all(&target), bytes(4096));
}

#[test]
fn shards_come_near_the_size_that_chunks_of_the_file_fill() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.raw");
    fs::write(&file, bytes(4096)).unwrap();
    let target = at(&folder.path().join("a.zarr"));
    let mut options = planes();
    // A chunk takes 64 bytes and its entry 16.
    options.layout.packing = Packing::TargetSize(16 * 80);
    let report = import(&engine(), Input::open(&file).unwrap(), &target, &options).unwrap();
    assert_eq!((report.chunk_shape, report.shard_shape), (vec![1, 8, 8], Some(vec![16, 8, 8])));
    assert_eq!(all(&target), bytes(4096));
}

#[test]
fn a_file_beside_an_array_is_imported_and_one_inside_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = at(folder.path());
    let target = root.join("a.zarr").unwrap();
    for (path, refused) in [("a.raw", false), ("a.zarr/a.raw", true)] {
        let file = folder.path().join(path);
        fs::write(&file, bytes(4096)).unwrap();
        let options = planes().overwrite(true);
        let result = import(&engine(), Input::open(&file).unwrap(), &target, &options);
        match result {
            Err(Error::Import(ImportError::Inside { .. })) => assert!(refused, "{path}"),
            result => assert!(result.is_ok() && !refused, "{path}: {result:?}"),
        }
        assert_eq!(fs::read(&file).unwrap(), bytes(4096), "{path}");
    }
}

#[test]
fn options_survive_their_journey_as_json() {
    let mut options = planes().cast(true).memory(7);
    options.layout.packing = Packing::TargetSize(9);
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<ImportOptions>(&text).unwrap(), options, "{text}");
    let options = AppendOptions::new().axis(2);
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<AppendOptions>(&text).unwrap(), options, "{text}");
}

#[test]
fn a_file_goes_into_an_array_and_comes_out_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (file, back) = (folder.path().join("a.raw"), folder.path().join("b.npy"));
    fs::write(&file, bytes(4096)).unwrap();
    let target = at(&folder.path().join("a.zarr"));
    import(&engine(), Input::open(&file).unwrap(), &target, &planes()).unwrap();
    let array = ArrayNode::open(&engine(), &target).unwrap();
    // With memory for all, for a few planes, and for less than a row.
    for memory in [1 << 20, 300, 3] {
        let output = OutputFile::create(&back, IfExists::Replace).unwrap();
        let options = ExportOptions::new().npy(true).memory(memory);
        let len = export_to_file(&engine(), &array, &Region::all(), &output, &options).unwrap();
        output.finish().unwrap();
        let found = fs::read(&back).unwrap();
        assert_eq!(found.len() as u64, len, "{memory}");
        let header = Input::open(&back).unwrap().header().unwrap().clone();
        assert_eq!(header.shape, [64, 8, 8]);
        assert_eq!(found[header.data_start as usize..], bytes(4096), "{memory}");
        let mut streamed = Vec::new();
        export_to_stream(&engine(), &array, &Region::all(), &mut streamed, &options).unwrap();
        assert_eq!(streamed, found, "{memory}");
    }
}

#[test]
fn an_export_that_is_stopped_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let (file, back) = (folder.path().join("a.raw"), folder.path().join("b.raw"));
    fs::write(&file, bytes(4096)).unwrap();
    fs::write(&back, "old").unwrap();
    let target = at(&folder.path().join("a.zarr"));
    import(&engine(), Input::open(&file).unwrap(), &target, &planes()).unwrap();
    let array = ArrayNode::open(&engine(), &target).unwrap();
    let output = OutputFile::create(&back, IfExists::Replace).unwrap();
    let options = ExportOptions::new().memory(64);
    let stopped = export_to_file(impatient(), &array, &Region::all(), &output, &options);
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    drop(output);
    assert_eq!(fs::read(&back).unwrap(), b"old");
}

#[test]
fn an_append_that_was_stopped_is_resumed_by_the_same_call_only() {
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (folder.path().join("a.raw"), folder.path().join("b.raw"));
    fs::write(&file, bytes(4096)).unwrap();
    fs::write(&other, bytes(4096)).unwrap();
    let target = at(&folder.path().join("a.zarr"));
    let metadata = layout(&[1, 8, 8], Packing::Unsharded).metadata(&[0, 8, 8], &uint8()).unwrap();
    ArrayNode::create(&engine(), &target, metadata).unwrap();
    let mut options = AppendOptions::new();
    options.commit_every = Some(4);
    let from = |path: &Path| AppendFrom::File(Box::new(Input::open(path).unwrap()));

    let stopped = append(impatient(), from(&file), &target, &options);
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert!(folder.path().join("a.zarr").join(APPEND_MARKER).exists());
    let refused = append(&engine(), from(&other), &target, &options);
    assert!(matches!(refused, Err(Error::Append(AppendError::Unfinished { .. }))), "{refused:?}");

    let report = append(&engine(), from(&file), &target, &options).unwrap();
    assert_eq!(report.planes + report.planes_before, 64);
    assert!(report.planes > 0, "it was stopped before all was there");
    assert_eq!(all(&target), bytes(4096));
    let report = append(&engine(), from(&other), &target, &options).unwrap();
    assert_eq!((report.planes_before, report.array.shape()), (0, &[128, 8, 8][..]));
}

#[test]
fn a_stream_that_is_stopped_keeps_its_whole_planes() {
    let folder = tempfile::tempdir().unwrap();
    let target = at(&folder.path().join("a.zarr"));
    let metadata = layout(&[1, 8, 8], Packing::Unsharded).metadata(&[0, 8, 8], &uint8()).unwrap();
    ArrayNode::create(&engine(), &target, metadata).unwrap();
    let data = bytes(4096);
    let mut planes = &data[..];
    let from = AppendFrom::Stream { from: &mut planes, name: "stream".to_owned() };
    let stopped = append(impatient(), from, &target, &AppendOptions::new());
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert_eq!(all(&target), data[..64]);
    let from = AppendFrom::Stream { from: &mut planes, name: "stream".to_owned() };
    append(&engine(), from, &target, &AppendOptions::new()).unwrap();
    assert_eq!(all(&target), data);
}

#[test]
fn raw_bytes_that_look_like_npy_are_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.raw");
    fs::write(&file, b"\x93NUMPY\x01\x00 and so on").unwrap();
    let target = at(&folder.path().join("a.zarr"));
    let refused = import(&engine(), Input::open(&file).unwrap(), &target, &planes()).unwrap_err();
    let Error::File(FileError::RawLength { looks_like_npy: true, .. }) = refused else {
        panic!("{refused}");
    };
    assert!(refused.hint().unwrap().contains(".npy"));
    assert!(!folder.path().join("a.zarr").exists());
}
