//! OME-Zarr of one version becomes one of another, and a volume, and comes back.

use proptest::prelude::*;
use serde_json::{Value, json};
use shardine::jobs::{Comparand, CompareOptions, ConvertOptions, OmeForm, VolumeForm, compare};
use shardine::ome::OmeRelease;
use shardine::{Location, Packing};

use crate::common::data_set::dump;
use crate::common::*;
use crate::convert::ome_scene::*;
use crate::convert::scene::*;

/// What `compare` finds of two data sets.
fn differences(a: &Location, b: &Location) -> Vec<String> {
    let mut found = Vec::new();
    let tell = &mut |difference| found.push(format!("{difference:?}"));
    let (a, b) = (Comparand::Place(a.clone()), Comparand::Place(b.clone()));
    compare(&engine(), a, b, &CompareOptions::new(), tell).unwrap();
    found
}

fn scenes() -> impl Strategy<Value = Scene> {
    let axes = prop_oneof![
        Just("zyx"),
        Just("yx"),
        Just("cyx"),
        Just("czyx"),
        Just("tczyx"),
        Just("tzyx"),
        Just("tcyx"),
    ];
    let codec = prop_oneof![Just("none"), Just("gzip"), Just("zstd"), Just("blosc")];
    let data_type =
        prop_oneof![Just("uint8"), Just("uint16"), Just("int16"), Just("uint32"), Just("float32")];
    let release =
        prop_oneof![Just(OmeRelease::V0_4), Just(OmeRelease::V0_5), Just(OmeRelease::V0_6)];
    let numbers = (
        proptest::collection::vec(1u64..20, 5),
        proptest::collection::vec(1u64..7, 5),
        proptest::option::of(2u64..4),
        1usize..4,
        prop_oneof![Just(0.0), Just(0.5), Just(2.5), Just(16.5), Just(7.0), Just(0.3)],
        prop_oneof![Just(""), Just("...,0:1")],
    );
    (axes, codec, data_type, release, numbers).prop_map(
        |(
            axes,
            codec,
            data_type,
            release,
            (mut shape, mut chunk, shard, levels, first, region),
        )| {
            shape.truncate(axes.len());
            chunk.truncate(axes.len());
            for (at, axis) in axes.chars().enumerate() {
                if axis == 't' {
                    // A volume has one time point.
                    (shape[at], chunk[at]) = (1, 1);
                }
                if axis == 'c' {
                    shape[at] = shape[at].min(3);
                    chunk[at] = chunk[at].min(shape[at]);
                }
            }
            let shard = shard.filter(|_| release != OmeRelease::V0_4);
            let scene = Scene::new(release, axes, &shape, &chunk);
            Scene { shard, data_type, codec, levels, first, region, ..scene }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn images_go_through_all_versions_and_a_volume_and_stay_what_they_are(scene in scenes()) {
        let first = memory();
        scene.make(&first);
        let expected: Vec<Vec<u8>> = (0..scene.levels).map(|n| level(&first, n)).collect();
        let (mut last, what) = (first.clone(), said(&first));
        for release in [
            OmeRelease::V0_4, OmeRelease::V0_5, OmeRelease::V0_6, OmeRelease::V0_4,
        ] {
            let next = memory();
            let (told, _) = to_version(&last, &next, release);
            for (n, report) in told.iter().enumerate() {
                prop_assert_eq!(report.chunks_recoded, 0, "{}", report.target);
                prop_assert!(report.chunks_moved > 0 && report.moves);
                if scene.region.is_empty() {
                    prop_assert_eq!(report.chunks_moved, scene.chunks(n).0);
                }
                prop_assert_eq!(report.shard_shape.is_some(), release.is_zarr3());
                prop_assert_eq!(&level(&next, n), &expected[n]);
            }
            check_ome(&next, release);
            prop_assert_eq!(&said(&next), &what);
            prop_assert_eq!(differences(&last, &next), Vec::<String>::new());
            last = next;
        }
        if !scene.axes.contains('z') {
            return Ok(());
        }
        let (volume, back) = (memory(), memory());
        let (told, _) =
            to_volume(&last, &volume, &VolumeForm::new(), &ConvertOptions::new()).unwrap();
        let channels = scene.axes.find('c').map(|at| (scene.shape[at], scene.chunk[at]));
        let whole = channels.is_none_or(|(all, chunk)| all == chunk);
        for (n, report) in told.iter().enumerate() {
            // Where the volume has gzip, too, all channels are in a chunk, and no chunk is cut off by
            // a volume that is shorter.
            let fits = scene.shape_of(n).iter().zip(&scene.chunk).all(|(len, chunk)| chunk <= len);
            let moves = scene.codec == "gzip" && whole && fits;
            prop_assert_eq!(report.moves, moves);
            if moves && scene.region.is_empty() {
                prop_assert_eq!(report.chunks_moved, scene.chunks(n).1);
            }
        }
        prop_assert_eq!(differences(&last, &volume), Vec::<String>::new());
        let (told, summary) = to_ome(&volume, &back, &OmeForm::new(), &ConvertOptions::new()).unwrap();
        prop_assert!(summary.image_kept, "{:?}", summary.image_not_kept);
        for (n, report) in told.iter().enumerate() {
            prop_assert!(report.moves);
            if whole && scene.region.is_empty() {
                // Chunks of a volume are no longer than it.
                let axes = scene.shape_of(n).into_iter().zip(&scene.chunk);
                let whole: u64 = axes.map(|(len, &chunk)| len / chunk.min(len)).product();
                prop_assert_eq!(report.chunks_moved, whole);
            }
            prop_assert_eq!(&level(&back, n), &expected[n]);
        }
        check_ome(&back, OmeRelease::V0_5);
        prop_assert_eq!(&said(&back), &what);
    }
}

#[test]
fn every_level_has_shards_of_its_own() {
    let old = memory();
    let scene = Scene::new(OmeRelease::V0_4, "czyx", &[2, 20, 40, 40], &[1, 4, 8, 8]);
    Scene { levels: 3, codec: "none", ..scene }.make(&old);
    let shards = |packing: Packing| -> Vec<Option<Vec<u64>>> {
        let new = memory();
        let form = OmeForm::new().packing(packing);
        let (told, _) = to_ome(&old, &new, &form, &ConvertOptions::new()).unwrap();
        check_ome(&new, OmeRelease::V0_5);
        told.into_iter().map(|level| level.shard_shape).collect()
    };
    let some = |shapes: [[u64; 4]; 3]| shapes.map(|shape| Some(shape.to_vec())).to_vec();
    // All of a level fits: one shard.
    let whole = some([[2, 20, 40, 40], [2, 12, 24, 24], [2, 8, 16, 16]]);
    assert_eq!(shards(Packing::Keep), whole);
    assert_eq!(shards(Packing::ChunksPerShard(vec![100])), whole);
    assert_eq!(shards(Packing::Unsharded), vec![None; 3]);
    assert_eq!(shards(Packing::ChunksPerShard(vec![1])), vec![None; 3]);
    // Numbers for fewer axes are those of the last, and no shard is longer than its level.
    let expected = some([[1, 8, 16, 32], [1, 8, 16, 24], [1, 8, 16, 16]]);
    assert_eq!(shards(Packing::Shard(vec![8, 16, 32])), expected);
    assert_eq!(shards(Packing::ChunksPerShard(vec![2, 2, 4])), expected);
    // Eight chunks of 512 bytes.
    let expected = some([[1, 8, 16, 16], [1, 8, 16, 16], [1, 8, 16, 16]]);
    assert_eq!(shards(Packing::TargetSize(4096)), expected);
}

#[test]
fn shards_of_the_source_are_kept_unless_others_are_asked_for() {
    let (old, new) = (memory(), memory());
    let scene = Scene::new(OmeRelease::V0_5, "zyx", &[20, 40, 40], &[4, 8, 8]);
    Scene { shard: Some(2), ..scene }.make(&old);
    let (told, _) = to_version(&old, &new, OmeRelease::V0_6);
    assert!(told.iter().all(|level| level.shard_shape == Some(vec![8, 16, 16])));
}

#[test]
fn chunks_and_codecs_are_those_asked_for() {
    let (old, new) = (memory(), memory());
    Scene::new(OmeRelease::V0_4, "tczyx", &[1, 2, 9, 20, 30], &[1, 1, 4, 8, 8]).make(&old);
    let form = OmeForm::new().codecs(shardine::CodecChoice::Words(vec!["gzip:5".to_owned()]));
    let options = ConvertOptions::new().chunk(&[5, 16, 16]);
    let (told, _) = to_ome(&old, &new, &form, &options).unwrap();
    let chunks: Vec<&[u64]> = told.iter().map(|level| &*level.chunk_shape).collect();
    assert_eq!(chunks, [&[1, 1, 5, 16, 16][..], &[1, 1, 5, 10, 15]]);
    assert!(told.iter().all(|level| level.chunks_moved == 0));
    assert_eq!(level(&new, 1), level(&old, 1));
    check_ome(&new, OmeRelease::V0_5);
    for (form, options) in [
        (OmeForm::new(), ConvertOptions::new().chunk(&[1, 1, 1, 1, 1, 1])),
        (OmeForm::new(), ConvertOptions::new().chunk(&[0, 1])),
        (OmeForm::new().packing(Packing::Shard(vec![5])), ConvertOptions::new()),
        (
            OmeForm::new().version(OmeRelease::V0_4).packing(Packing::Shard(vec![8])),
            ConvertOptions::new(),
        ),
        (OmeForm::new().version(OmeRelease::V0_3), ConvertOptions::new()),
        (OmeForm::new().unit("parrot"), ConvertOptions::new()),
    ] {
        let target = memory();
        to_ome(&old, &target, &form, &options).unwrap_err();
        assert!(dump(&*target.store).is_empty());
    }
}

/// A label image, and a group and an array of somebody's own beside the levels.
fn furnish(place: &Location, release: OmeRelease) {
    let image = Scene::new(release, "czyx", &[2, 9, 10, 11], &[1, 4, 4, 4]);
    image.make(place);
    let labels = place.join("labels").unwrap();
    let list = json!({"labels": ["nuclei"]});
    match release {
        OmeRelease::V0_4 => group(&labels, release, &list),
        _ => group(
            &labels,
            release,
            &json!({"ome": {"version": release.number(), "labels": ["nuclei"]}}),
        ),
    }
    let scene = Scene::new(release, "zyx", &[9, 10, 11], &[4, 4, 4]);
    let scene = Scene { data_type: "uint32", ..scene };
    let label = json!({"image-label": {
        "colors": [{"label-value": 1, "rgba": [1, 2, 3, 255]}], "source": {"image": "../../"},
    }});
    scene.make_with(&labels.join("nuclei").unwrap(), &label);
    let tables = place.join("tables").unwrap();
    group(&tables, release, &json!({"tables": 7}));
    let own = Scene { levels: 1, ..Scene::new(release, "yx", &[5, 6], &[2, 3]) };
    let own_place = tables.join("measured").unwrap();
    group(&own_place, release, &json!({}));
    put(&own_place, "notes.json", &json!("not Zarr"));
    own.make(&tables.join("more").unwrap());
}

#[test]
fn labels_and_everything_else_in_the_hierarchy_go_along() {
    for release in [OmeRelease::V0_4, OmeRelease::V0_5] {
        let (old, new, back) = (memory(), memory(), memory());
        furnish(&old, release);
        let (told, _) = to_version(&old, &new, OmeRelease::V0_6);
        assert_eq!(told.len(), 2 + 2 + 1);
        assert!(told.iter().all(|level| level.chunks_recoded == 0 && level.chunks_moved > 0));
        check_ome(&new, OmeRelease::V0_6);
        assert_eq!(differences(&old, &new), Vec::<String>::new());
        let label = ome(&new.join("labels/nuclei").unwrap());
        assert_eq!(label.image_label.unwrap().colors.unwrap().len(), 1);
        assert_eq!(ome(&new.join("labels").unwrap()).labels, Some(vec!["nuclei".to_owned()]));
        let stored = dump(&*new.store);
        assert_eq!(stored["tables/measured/notes.json"], b"\"not Zarr\"");
        assert!(!stored.keys().any(|key| key.contains(".z") || key.contains("shardine")));
        to_version(&new, &back, OmeRelease::V0_4);
        check_ome(&back, OmeRelease::V0_4);
        assert_eq!(differences(&old, &back), Vec::<String>::new());
        let stored = dump(&*back.store);
        assert!(!stored.keys().any(|key| key.ends_with("zarr.json")), "{:?}", stored.keys());
    }
}

/// A plate of some wells with two fields each, under a root with consolidated metadata.
fn plate(place: &Location, rows: usize, columns: usize) {
    let release = OmeRelease::V0_4;
    let names = |count: usize, first: u8| -> Vec<Value> {
        (0..count).map(|n| json!({"name": char::from(first + n as u8).to_string()})).collect()
    };
    let mut wells = Vec::new();
    for row in 0..rows {
        let row_name = char::from(b'A' + row as u8).to_string();
        group(&place.join(&row_name).unwrap(), release, &json!({}));
        for column in 0..columns {
            let path = format!("{row_name}/{}", char::from(b'1' + column as u8));
            let well = place.join(&path).unwrap();
            let images = json!({"version": "0.4", "images": [{"path": "0"}, {"path": "1"}]});
            group(&well, release, &json!({"well": images}));
            for field in ["0", "1"] {
                let scene = Scene::new(release, "cyx", &[2, 12, 10], &[1, 8, 8]);
                scene.make(&well.join(field).unwrap());
            }
            wells.push(json!({"path": path, "rowIndex": row, "columnIndex": column}));
        }
    }
    let plate = json!({"version": "0.4", "name": "test", "field_count": 2, "wells": wells,
        "rows": names(rows, b'A'), "columns": names(columns, b'1')});
    group(place, release, &json!({"plate": plate}));
    shardine::zarr::consolidate(place).unwrap();
}

#[test]
fn plates_are_converted_with_all_wells_and_their_consolidated_metadata() {
    let (old, new, back) = (memory(), memory(), memory());
    plate(&old, 3, 4);
    let (told, _) = to_version(&old, &new, OmeRelease::V0_5);
    assert_eq!(told.len(), 3 * 4 * 2 * 2);
    check_ome(&new, OmeRelease::V0_5);
    assert_eq!(differences(&old, &new), Vec::<String>::new());
    let names = |place: &Location| -> usize {
        let group = shardine::Node::open(&engine(), place).unwrap();
        let shardine::Node::Group(group) = group else { panic!("an array") };
        let known = group.metadata().consolidated().unwrap();
        assert!(known.iter().all(|(_, node)| node.is_ok()));
        known.len()
    };
    // Rows, wells, fields and their levels.
    let nodes = 3 + 12 + 24 + 48;
    assert_eq!((names(&old), names(&new)), (nodes, nodes));
    assert_eq!(ome(&new).plate.unwrap().wells.len(), 12);
    to_version(&new, &back, OmeRelease::V0_4);
    assert_eq!(names(&back), nodes);
    check_ome(&back, OmeRelease::V0_4);
    assert_eq!(differences(&old, &back), Vec::<String>::new());
}

#[test]
fn the_layout_of_bioformats2raw_keeps_its_series_and_its_xml() {
    let (old, new) = (memory(), memory());
    let release = OmeRelease::V0_4;
    group(&old, release, &json!({"bioformats2raw.layout": 3}));
    group(&old.join("OME").unwrap(), release, &json!({"series": ["0", "1"]}));
    put(&old, "OME/METADATA.ome.xml", &json!("xml"));
    for series in ["0", "1"] {
        Scene::new(release, "yx", &[10, 12], &[4, 4]).make(&old.join(series).unwrap());
    }
    to_version(&old, &new, OmeRelease::V0_5);
    check_ome(&new, OmeRelease::V0_5);
    assert_eq!(ome(&new).bioformats2raw_layout, Some(3.into()));
    let inner = ome(&new.join("OME").unwrap());
    assert_eq!(inner.series, Some(vec!["0".to_owned(), "1".to_owned()]));
    assert!(dump(&*new.store).contains_key("OME/METADATA.ome.xml"));
    assert_eq!(differences(&old, &new), Vec::<String>::new());
}

#[test]
fn versions_before_0_4_get_the_transformations_that_follow_from_their_sizes() {
    for (version, axes) in [("0.1", Value::Null), ("0.3", json!(["t", "c", "z", "y", "x"]))] {
        let (old, new) = (memory(), memory());
        let scene = Scene::new(OmeRelease::V0_4, "tczyx", &[1, 1, 7, 10, 12], &[1, 1, 4, 4, 4]);
        scene.make(&old);
        let mut image =
            json!({"version": version, "datasets": [{"path": "0"}, {"path": "1"}], "name": "x"});
        if !axes.is_null() {
            image["axes"] = axes;
        }
        group(&old, OmeRelease::V0_4, &json!({"multiscales": [image]}));
        to_version(&old, &new, OmeRelease::V0_5);
        check_ome(&new, OmeRelease::V0_5);
        let found = super::ome_scene::image(&new);
        let placement = found.placement(1).unwrap();
        assert_eq!(placement.scale, [1.0, 1.0, 2.0, 2.0, 2.0]);
        assert_eq!(placement.translation, [0.0, 0.0, 0.5, 0.5, 0.5]);
        let kinds: Vec<&str> = found.axes.iter().filter_map(|a| a.kind.as_deref()).collect();
        assert_eq!(kinds, ["time", "channel", "space", "space", "space"]);
        assert_eq!(differences(&old, &new), Vec::<String>::new());
    }
}

#[test]
fn what_a_version_cannot_express_is_refused_by_its_node() {
    let scene = Scene::new(OmeRelease::V0_6, "yx", &[10, 12], &[4, 4]);
    let old = memory();
    scene.make(&old.join("a").unwrap());
    let mut attributes = scene.attributes(&json!({}));
    attributes["ome"]["multiscales"][0]["coordinateSystems"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "stage", "axes": [{"name": "y"}, {"name": "x"}]}));
    group(&old.join("a").unwrap(), OmeRelease::V0_6, &attributes);
    group(&old, OmeRelease::V0_6, &json!({}));
    let target = memory();
    let form = OmeForm::new();
    let error = to_ome(&old, &target, &form, &ConvertOptions::new()).unwrap_err().to_string();
    assert!(error.contains("a: OME-Zarr 0.5 cannot express") && error.contains("stage"), "{error}");
    assert!(dump(&*target.store).is_empty());
    // A level that is not there.
    let old = memory();
    Scene::new(OmeRelease::V0_5, "yx", &[10, 12], &[4, 4]).make(&old);
    let mut attributes =
        Scene { levels: 3, ..Scene::new(OmeRelease::V0_5, "yx", &[10, 12], &[4, 4]) }
            .attributes(&json!({}));
    group(&old, OmeRelease::V0_5, &attributes);
    let error = to_ome(&old, &target, &form, &ConvertOptions::new()).unwrap_err().to_string();
    assert!(error.contains("its level \"2\" is not an array"), "{error}");
    attributes["ome"]["multiscales"] = json!(7);
    group(&old, OmeRelease::V0_5, &attributes);
    let error = to_ome(&old, &target, &form, &ConvertOptions::new()).unwrap_err().to_string();
    assert!(error.contains("multiscales"), "{error}");
}

#[test]
fn members_of_ome_that_nobody_knows_are_attributes_in_0_4() {
    let (old, new) = (memory(), memory());
    let scene = Scene::new(OmeRelease::V0_5, "yx", &[10, 12], &[4, 4]);
    scene.make_with(&old, &json!({"_creator": {"name": "a tool"}}));
    to_version(&old, &new, OmeRelease::V0_4);
    let found = shardine::zarr::attributes(&new).unwrap();
    assert_eq!(found["_creator"], json!({"name": "a tool"}));
    assert_eq!(differences(&old, &new), Vec::<String>::new());
    let mut attributes = scene.attributes(&json!({"acquired": 1}));
    attributes["acquired"] = json!(2);
    group(&old, OmeRelease::V0_5, &attributes);
    let form = OmeForm::new().version(OmeRelease::V0_4);
    let error = to_ome(&old, &memory(), &form, &ConvertOptions::new()).unwrap_err().to_string();
    assert!(error.contains("acquired"), "{error}");
}
