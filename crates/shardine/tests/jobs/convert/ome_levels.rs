//! Conversions to OME-Zarr that make the lower levels which the source does not have, and imports of
//! files into images.

use std::fs;
use std::sync::Arc;

use serde_json::json;
use shardine::files::Input;
use shardine::jobs::{
    ConvertOptions, FindingKind, ImportOptions, JobError, LevelCount, OmeForm, Part, PyramidError,
    PyramidOptions, RepackOutcome, VolumeForm, import_to_ome, pyramid,
};
use shardine::ome::OmeRelease;
use shardine::plan::ArrayLayout;
use shardine::store::{Call, CountingStore, FaultStore, FileStore, MemoryStore, Operation};
use shardine::zarr::CONVERT_MARKER;
use shardine::{DataType, DownsampleMethod, Error, Location, Packing};

use crate::common::data_set::dump;
use crate::common::ome::Files;
use crate::common::*;
use crate::convert::ome_scene::*;
use crate::convert::scene::*;
use crate::migrate::fill as fill_store;

fn with_levels(levels: usize) -> OmeForm {
    OmeForm::new().levels(LevelCount::Number(levels))
}

fn convert(source: &Location, target: &Location, form: &OmeForm) -> Result<Told, Error> {
    to_ome(source, target, form, &ConvertOptions::new())
}

/// An image with labels, with so many levels each.
fn labelled(place: &Location, release: OmeRelease, levels: [usize; 2]) {
    let mut scene = Scene::new(release, "czyx", &[2, 20, 21, 22], &[1, 4, 4, 4]);
    scene.levels = levels[0];
    scene.make(place);
    let labels = place.join("labels").unwrap();
    group(
        &labels,
        release,
        &match release {
            OmeRelease::V0_4 => json!({"labels": ["a"]}),
            release => json!({"ome": {"version": release.number(), "labels": ["a"]}}),
        },
    );
    let mut scene = Scene::new(release, "zyx", &[20, 21, 22], &[4, 4, 4]);
    scene.levels = levels[1];
    scene.make_with(&labels.join("a").unwrap(), &json!({"image-label": {}}));
}

fn on_files(folder: &std::path::Path) -> Location {
    Location::root(Arc::new(FileStore::new(folder)))
}

#[test]
fn levels_are_those_that_a_pyramid_job_makes_afterwards() {
    for (release, version) in [
        (OmeRelease::V0_4, OmeRelease::V0_5),
        (OmeRelease::V0_4, OmeRelease::V0_4),
        (OmeRelease::V0_5, OmeRelease::V0_6),
    ] {
        let source = memory();
        labelled(&source, release, [1, 1]);
        let (one, two) = (memory(), memory());
        let (told, _) = convert(&source, &one, &with_levels(3).version(version)).unwrap();
        to_version(&source, &two, version);
        let options = PyramidOptions::new().levels(3);
        for image in [two.clone(), two.join("labels/a").unwrap()] {
            pyramid(&engine(), &image, &options, &mut |_| ()).unwrap();
        }
        assert_eq!(dump(&*one.store), dump(&*two.store), "{release:?}");
        check_ome(&one, version);
        let methods: Vec<_> = told.iter().map(|level| (&*level.target, level.method)).collect();
        let (mean, mode) = (Some(DownsampleMethod::Mean), Some(DownsampleMethod::Mode));
        assert_eq!(
            methods,
            [
                ("0", None),
                ("labels/a/0", None),
                ("labels/a/1", mode),
                ("labels/a/2", mode),
                ("1", mean),
                ("2", mean),
            ]
        );
        let made = told.iter().filter(|level| level.method.is_some());
        assert!(made.clone().all(|level| level.chunks_recoded > 0 && level.chunks_moved == 0));
    }
}

#[test]
fn too_few_levels_are_made_anew_and_enough_are_kept() {
    let source = memory();
    labelled(&source, OmeRelease::V0_4, [2, 4]);
    let target = memory();
    let form = with_levels(3).method(DownsampleMethod::Max);
    let (told, _) = convert(&source, &target, &form).unwrap();
    let made: Vec<&str> =
        told.iter().filter(|level| level.method.is_some()).map(|level| &*level.target).collect();
    assert_eq!(made, ["1", "2"]);
    assert_eq!((image(&target).levels.len(), level(&target, 0)), (3, level(&source, 0)));
    assert_ne!(level(&target, 1), level(&source, 1));
    let labels = |place: &Location| place.join("labels/a").unwrap();
    for number in 0..4 {
        assert_eq!(level(&labels(&target), number), level(&labels(&source), number));
    }
    // The labels have more levels than the image, as they had.
    check_ome_but(&target, OmeRelease::V0_5, &[FindingKind::OmeLabels]);
    // Nothing is asked of images that have lower levels.
    let target = memory();
    let (told, _) = convert(&source, &target, &OmeForm::new().levels(LevelCount::Auto)).unwrap();
    assert!(told.len() == 6 && told.iter().all(|level| level.method.is_none()));
}

#[test]
fn a_conversion_with_levels_that_fails_anywhere_is_resumed_and_there_is_no_image_before() {
    let folder = tempfile::tempdir().unwrap();
    let source = on_files(folder.path());
    labelled(&source, OmeRelease::V0_4, [1, 1]);
    let form = with_levels(3);
    let clean = memory();
    convert(&source, &clean, &form).unwrap();
    for operation in [Operation::Publish, Operation::Create] {
        for call in 1.. {
            let store = FaultStore::new(MemoryStore::new());
            let target = Location::root(Arc::new(store.clone()));
            store.fail(operation, call);
            let result = convert(&source, &target, &form);
            if store.waiting() > 0 {
                result.unwrap();
                assert!(call > 8, "only {call} calls");
                break;
            }
            result.unwrap_err();
            let left = dump(&store);
            assert!(!left.contains_key("zarr.json"), "{operation:?} {call}: {:?}", left.keys());
            assert!(left.is_empty() || left.contains_key(CONVERT_MARKER), "{:?}", left.keys());
            // Another number of levels is another job.
            if !left.is_empty() {
                convert(&source, &target, &with_levels(2)).unwrap_err();
                assert_eq!(dump(&store), left);
            }
            convert(&source, &target, &form).unwrap();
            assert_eq!(dump(&store), dump(&*clean.store), "{operation:?} {call}");
        }
    }
}

#[test]
fn levels_of_a_source_that_changed_in_between_are_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = on_files(folder.path());
    labelled(&source, OmeRelease::V0_4, [1, 1]);
    let clean = memory();
    convert(&source, &clean, &with_levels(3)).unwrap();
    let all = dump(&*clean.store).len() as u64;
    let (store, form) = (FaultStore::new(MemoryStore::new()), with_levels(3));
    let target = Location::root(Arc::new(store.clone()));
    // The last group is all that is missing.
    store.fail(Operation::Create, all);
    convert(&source, &target, &form).unwrap_err();
    let place = source.join("0").unwrap();
    fill(&shardine::ArrayNode::open(&engine(), &place).unwrap(), "", 77);
    let (told, _) = convert(&source, &target, &form).unwrap();
    let clean = memory();
    convert(&source, &clean, &form).unwrap();
    assert_eq!(dump(&store), dump(&*clean.store));
    // The labels were kept.
    let kept = told.iter().filter(|level| level.target.starts_with("labels"));
    assert!(kept.clone().all(|level| level.outcome == RepackOutcome::Resumed));
    assert_eq!(kept.map(|level| level.objects_written).sum::<u64>(), 0);
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is() {
    let source = memory();
    labelled(&source, OmeRelease::V0_4, [1, 1]);
    let target = memory();
    let parts = ConvertOptions::new().part(Part::Of { index: 1, count: 2 });
    let refused = to_ome(&source, &target, &with_levels(2), &parts).unwrap_err();
    assert!(matches!(refused, Error::Job(JobError::NotInParts { .. })), "{refused}");
    assert!(refused.to_string().contains("shardine pyramid"), "{refused}");
    convert(&source, &target, &with_levels(0)).unwrap_err();
    convert(&source, &target, &with_levels(40)).unwrap_err();
    convert(&source, &target, &with_levels(2).factors(&[1, 2])).unwrap_err();
    put(&source.join("1").unwrap(), ".zgroup", &json!({"zarr_format": 2}));
    let refused = convert(&source, &target, &with_levels(2)).unwrap_err();
    assert!(matches!(refused, Error::Pyramid(PyramidError::InTheWay { .. })), "{refused}");
    assert!(dump(&*target.store).is_empty());
}

#[test]
fn a_plate_is_marked_once_whatever_the_number_of_its_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Files::default();
    files.plate("", &["A", "B"], &["1", "2"], 2, 2);
    fill_store(&files, &FileStore::new(folder.path()));
    let store = Arc::new(CountingStore::new(MemoryStore::new()));
    let target = Location::root(store.clone());
    convert(&on_files(folder.path()), &target, &OmeForm::new()).unwrap();
    let is_marker = |call: &&Call| match call {
        Call::Create { key, .. } => key.as_str() == CONVERT_MARKER,
        _ => false,
    };
    let marks = store.calls().iter().filter(is_marker).count();
    // When it begins, and as its owner's.
    assert!((1..=2).contains(&marks), "{marks}");
}

/// A file of elements, and how it is read.
fn raw(folder: &std::path::Path, shape: &[u64]) -> (std::path::PathBuf, Vec<u8>, ImportOptions) {
    let path = folder.join("elements.raw");
    let elements = noise(shape.iter().product::<u64>() as usize, 5);
    fs::write(&path, &elements).unwrap();
    let mut layout = ArrayLayout::default();
    layout.chunk = Some(vec![4; shape.len()]);
    layout.packing = Packing::ChunksPerShard(vec![2]);
    let options = ImportOptions::new().raw(shape, DataType::parse_name("uint8").unwrap());
    (path, elements, options.layout(layout))
}

fn import_image(
    path: &std::path::Path,
    target: &Location,
    form: &OmeForm,
    options: &ImportOptions,
) -> Result<usize, Error> {
    let (input, mut levels) = (Input::open(path).unwrap(), 0);
    import_to_ome(&engine(), input, target, form, options, &mut |_| levels += 1)?;
    Ok(levels)
}

#[test]
fn a_file_becomes_an_image_that_an_array_of_it_would_become() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elements, options) = raw(folder.path(), &[9, 10, 11]);
    for version in [OmeRelease::V0_4, OmeRelease::V0_5] {
        let form = with_levels(3).version(version).axes(["z", "y", "x"]).unit("micrometer");
        let form = form.scale(&[2.0, 1.0, 1.0]).name("a file");
        let (array, one, two) = (memory(), memory(), memory());
        let input = Input::open(&path).unwrap();
        shardine::jobs::import(&engine(), input, &array, &options).unwrap();
        convert(&array, &two, &form).unwrap();
        assert_eq!(import_image(&path, &one, &form, &options).unwrap(), 3);
        assert_eq!(dump(&*one.store), dump(&*two.store));
        assert_eq!(level(&one, 0), elements);
        check_ome(&one, version);
        assert_eq!(image(&one).name.as_deref(), Some("a file"));
        let again = import_image(&path, &one, &form, &options).unwrap_err();
        assert!(matches!(again, Error::Exists { .. }), "{again}");
    }
}

#[test]
fn the_axes_of_a_file_are_put_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elements, options) = raw(folder.path(), &[5, 6, 7, 2]);
    let target = memory();
    import_image(&path, &target, &OmeForm::new().axes(["x", "y", "z", "c"]), &options).unwrap();
    let mut expected = Vec::new();
    for c in 0..2 {
        for z in 0..7 {
            for y in 0..6 {
                expected.extend((0..5).map(|x| elements[((x * 6 + y) * 7 + z) * 2 + c]));
            }
        }
    }
    let names: Vec<String> = image(&target).axes.iter().map(|axis| axis.name.clone()).collect();
    assert_eq!(names, ["c", "z", "y", "x"]);
    assert!(level(&target, 0) == expected);
    check_ome(&target, OmeRelease::V0_5);
}

#[test]
fn an_import_of_an_image_that_fails_anywhere_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, options) = raw(folder.path(), &[17, 18]);
    let form = OmeForm::new().levels(LevelCount::Auto);
    let clean = memory();
    import_image(&path, &clean, &form, &options).unwrap();
    for operation in [Operation::Publish, Operation::Create] {
        for call in 1.. {
            let store = FaultStore::new(MemoryStore::new());
            let target = Location::root(Arc::new(store.clone()));
            store.fail(operation, call);
            let result = import_image(&path, &target, &form, &options);
            if store.waiting() > 0 {
                result.unwrap();
                assert!(call > 5, "only {call} calls");
                break;
            }
            result.unwrap_err();
            assert!(!dump(&store).contains_key("zarr.json"));
            import_image(&path, &target, &form, &options).unwrap();
            assert_eq!(dump(&store), dump(&*clean.store), "{operation:?} {call}");
        }
    }
}

#[test]
fn processes_share_the_import_of_an_image_without_lower_levels() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _, options) = raw(folder.path(), &[17, 18]);
    let (clean, shared) = (memory(), memory());
    import_image(&path, &clean, &OmeForm::new(), &options).unwrap();
    for index in [2, 1, 3] {
        assert!(!dump(&*shared.store).contains_key("zarr.json"));
        let mut options = options.clone();
        options.part = Some(Part::Of { index, count: 3 });
        import_image(&path, &shared, &OmeForm::new(), &options).unwrap();
    }
    assert_eq!(dump(&*shared.store), dump(&*clean.store));
    let mut options = options.clone();
    options.part = Some(Part::Of { index: 1, count: 2 });
    import_image(&path, &memory(), &with_levels(2), &options).unwrap_err();
}

/// An image of 0.4 with another compressor.
fn compressed_by(compressor: serde_json::Value) -> Location {
    let place = memory();
    let mut scene = Scene::new(OmeRelease::V0_4, "zyx", &[9, 10, 11], &[4, 4, 4]);
    scene.levels = 1;
    scene.make(&place);
    let level = place.join("0").unwrap();
    let document = level.store.open(&level.key(".zarray").unwrap(), None).unwrap();
    let document = document.read(shardine::store::ReadRange::All).unwrap();
    let mut document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    document["compressor"] = compressor;
    put(&level, ".zarray", &document);
    fill(&shardine::ArrayNode::open(&engine(), &level).unwrap(), "", 4);
    place
}

fn codec_names(place: &Location) -> Vec<String> {
    let array = shardine::open_in(&engine(), place).unwrap().array(0).unwrap();
    array.codecs().iter().map(|codec| codec.name.clone()).collect()
}

#[test]
fn zlib_becomes_gzip_without_being_compressed_again() {
    let source = compressed_by(json!({"id": "zlib", "level": 3}));
    for check in [shardine::jobs::RepackCheck::Bytes, shardine::jobs::RepackCheck::Elements] {
        let target = memory();
        let options = ConvertOptions::new().check(check);
        let (told, _) = to_ome(&source, &target, &OmeForm::new(), &options).unwrap();
        assert_eq!(codec_names(&target), ["bytes", "gzip"]);
        assert_eq!((told[0].chunks_moved, told[0].chunks_recoded), (27, 0));
        assert_eq!(told[0].codecs_replaced.as_deref(), Some("numcodecs.zlib by gzip"));
        assert_eq!(level(&target, 0), level(&source, 0));
        check_ome(&target, OmeRelease::V0_5);
    }
    // As it is, if that is asked for, and in the version of Zarr that has it.
    let kept = memory();
    let (told, _) = convert(&source, &kept, &OmeForm::new().keep_codecs(true)).unwrap();
    assert_eq!(codec_names(&kept), ["bytes", "numcodecs.zlib"]);
    assert_eq!((told[0].chunks_moved, &told[0].codecs_replaced), (27, &None));
    let old = memory();
    let (told, _) = convert(&kept, &old, &OmeForm::new().version(OmeRelease::V0_4)).unwrap();
    assert_eq!((told[0].chunks_moved, &told[0].codecs_replaced), (27, &None));
    assert_eq!(level(&old, 0), level(&source, 0));
}

#[test]
fn codecs_that_few_readers_know_are_replaced() {
    for (compressor, name) in [
        (json!({"id": "lz4", "acceleration": 1}), "numcodecs.lz4"),
        (json!({"id": "bz2", "level": 1}), "numcodecs.bz2"),
    ] {
        let (source, target) = (compressed_by(compressor), memory());
        let (told, _) = convert(&source, &target, &OmeForm::new()).unwrap();
        assert_eq!(codec_names(&target), ["bytes", "zstd"]);
        assert_eq!(told[0].codecs_replaced, Some(format!("{name} by zstd")));
        assert_eq!((told[0].chunks_moved, told[0].chunks_recoded), (0, 27));
        assert_eq!(level(&target, 0), level(&source, 0));
    }
}

#[test]
fn a_volume_of_an_image_tells_which_labels_it_leaves_out() {
    let source = memory();
    labelled(&source, OmeRelease::V0_5, [1, 1]);
    let (_, summary) =
        to_volume(&source, &memory(), &VolumeForm::new(), &ConvertOptions::new()).unwrap();
    assert_eq!(summary.labels_left_out, ["labels/a"]);
    let label = source.join("labels/a").unwrap();
    let (_, summary) =
        to_volume(&label, &memory(), &VolumeForm::new(), &ConvertOptions::new()).unwrap();
    assert!(summary.labels_left_out.is_empty());
}
