//! Levels are renewed where the level before each has changed, and nowhere else.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use proptest::prelude::*;
use shardine::Region;
use shardine::jobs::{PyramidError, PyramidOptions};

use super::*;
use crate::common::data_set::{dump, memory};

/// The inode and time of each file: changes when it is rewritten.
fn stamps(folder: &Path) -> BTreeMap<String, (u64, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(at) = waiting.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let m = std::fs::metadata(&path).unwrap();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            found.insert(name, (m.ino(), m.mtime(), m.mtime_nsec()));
        }
    }
    found
}

/// The shards that lie above a box of level 0, for shards of 16 and factors of 2.
fn above(region: &[(u64, u64)], levels: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut region = region.to_vec();
    for level in 1..=levels {
        region = region.iter().map(|&(a, b)| (a / 2, b.div_ceil(2))).collect();
        let shard = |i: usize| region[i].0 / 16..region[i].1.div_ceil(16);
        for z in shard(0) {
            for y in shard(1) {
                for x in shard(2) {
                    found.push(format!("{level}/c/{z}/{y}/{x}"));
                }
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_update_equals_a_rebuild_and_touches_only_what_it_must(
        start in prop::collection::vec(0u64..40, 3),
        len in prop::collection::vec(1u64..12, 3),
        seed in any::<u64>(),
        by_region in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (_, place) = on_files(&folder, "image");
        let array = image(&place, &sharded(&[50, 45, 41], &[16, 16, 16], &[4, 4, 4]));
        write(&array, "...", noise(50 * 45 * 41 * 2, 3));
        run(&place, &PyramidOptions::new().packing(shardine::Packing::Shard(vec![16; 3]))).unwrap();
        let files = folder.path().join("image");
        let before = stamps(&files);
        let update = PyramidOptions::new().update(true);
        // Nothing has changed yet.
        assert!(run(&place, &update).unwrap().unchanged);
        assert_eq!(stamps(&files), before);
        let region: Vec<(u64, u64)> = start
            .iter()
            .zip(&len)
            .zip(array.shape())
            .map(|((&start, &len), &n)| (start, (start + len).min(n)))
            .collect();
        let count: u64 = region.iter().map(|(a, b)| b - a).product();
        let text: Vec<String> = region.iter().map(|(a, b)| format!("{a}:{b}")).collect();
        let text = text.join(",");
        write(&array, &text, noise(count as usize * 2, seed));
        let options = match by_region {
            true => update.clone().region(text.parse::<Region>().unwrap()),
            false => update.clone(),
        };
        let dry = run(&place, &options.clone().dry_run(true)).unwrap();
        let summary = run(&place, &options).unwrap();
        assert!(!summary.unchanged);
        check(&place, &summary);
        let after = stamps(&files);
        let changed = after.iter().filter(|(name, stamp)| before.get(*name) != Some(stamp));
        let changed: Vec<String> =
            changed.map(|(name, _)| name.clone()).filter(|name| !name.starts_with("0/")).collect();
        // Whole shards of level 0 are newer, so what lies above all of a shard may be renewed.
        let allowed = match by_region {
            true => above(&region, 4),
            false => {
                let shards: Vec<(u64, u64)> =
                    region.iter().map(|&(a, b)| (a / 16 * 16, b.div_ceil(16) * 16)).collect();
                let mut wider = shards;
                let mut all = Vec::new();
                for level in 1..=4 {
                    wider = wider.iter().map(|&(a, b)| (a / 2, b.div_ceil(2))).collect();
                    let of_level = above(&wider.iter().map(|&(a, b)| (2 * a, 2 * b)).collect::<Vec<_>>(), 1);
                    all.extend(of_level.iter().map(|name| name.replacen('1', &level.to_string(), 1)));
                    wider = wider.iter().map(|&(a, b)| (a / 16 * 16, b.div_ceil(16) * 16)).collect();
                }
                assert_eq!(dry.levels[0].counts.objects, summary.levels[0].counts.objects);
                all
            }
        };
        assert!(changed.iter().all(|name| allowed.contains(name)), "{changed:?} {allowed:?}");
        assert!(changed.iter().any(|name| name.starts_with("1/")));
        // A second run finds nothing to do.
        let summary = run(&place, &update).unwrap();
        if !by_region {
            assert!(summary.unchanged, "{summary:?}");
        }
        check(&place, &summary);
    }
}

#[test]
fn what_was_removed_from_the_finest_level_is_removed_from_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (_, place) = on_files(&folder, "image");
    let array = usual(&place);
    run(&place, &PyramidOptions::new()).unwrap();
    write(&array, "...", vec![0; 50 * 45 * 41 * 2]);
    assert!(array.objects().unwrap().is_empty());
    let summary = run(&place, &PyramidOptions::new().update(true)).unwrap();
    check(&place, &summary);
    for level in 1..5 {
        let array = Array::open(place.join(&level.to_string()).unwrap()).unwrap();
        assert!(array.objects().unwrap().is_empty(), "level {level}");
    }
}

#[test]
fn a_store_without_times_wants_a_region() {
    let place = Location::root(memory());
    let array = usual(&place);
    run(&place, &PyramidOptions::new()).unwrap();
    let update = PyramidOptions::new().update(true);
    let refused = run(&place, &update).unwrap_err();
    assert!(matches!(refused, Error::Pyramid(PyramidError::NoTimes { .. })), "{refused}");
    write(&array, "30:40,0:5,7:9", noise(10 * 5 * 2 * 2, 8));
    let before = dump(&*place.store);
    let region: Region = "30:40,0:5,7:9".parse().unwrap();
    let summary = run(&place, &update.region(region)).unwrap();
    check(&place, &summary);
    assert!(dump(&*place.store) != before);
}

#[test]
fn levels_of_other_tools_are_renewed_if_their_shapes_and_method_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let (_, place) = on_files(&folder, "image");
    let array = image(&place, &sharded(&[21, 16], &[8, 8], &[4, 4]));
    write(&array, "...", noise(21 * 16 * 2, 8));
    let set = |levels: &[(&str, [f64; 2])], kind: Option<&str>| {
        shardine::zarr::change_attributes(&place, &|attributes| {
            let image = &mut attributes["ome"]["multiscales"][0];
            image["datasets"].as_array_mut().unwrap().truncate(1);
            for (path, scale) in levels {
                let scale = json!([{"type": "scale", "scale": scale}]);
                let level = json!({"path": path, "coordinateTransformations": scale});
                image["datasets"].as_array_mut().unwrap().push(level);
            }
            match kind {
                Some(kind) => image["type"] = json!(kind),
                None => drop(image.as_object_mut().unwrap().remove("type")),
            }
        })
        .unwrap();
    };
    let level = |name: &str, shape: &[u64], chunk: &[u64]| {
        let mut document = document(shape, chunk, "uint16".into(), 0.into(), json!([bytes()]));
        document["dimension_names"] = json!(["y", "x"]);
        ArrayNode::create(&engine(), &place.join(name).unwrap(), metadata(&document)).unwrap();
    };
    // Unsharded, in other chunks, by other factors.
    level("a", &[7, 8], &[3, 5]);
    level("b", &[7, 4], &[7, 4]);
    level("floor", &[10, 8], &[5, 4]);
    set(&[("a", [3.0, 2.0]), ("b", [3.0, 4.0])], Some("gaussian"));
    let update = PyramidOptions::new().update(true);
    let refused = run(&place, &update).unwrap_err();
    assert!(matches!(refused, Error::Pyramid(PyramidError::UnknownMethod { .. })), "{refused}");
    let summary = run(&place, &update.clone().method(DownsampleMethod::Max)).unwrap();
    let factors: Vec<_> = summary.levels.iter().map(|level| level.factors.clone()).collect();
    assert_eq!(factors, [[3, 2], [1, 2]]);
    let first = Elements::of(&array).reduced(DownsampleMethod::Max, &[3, 2]);
    let open = |name: &str| Array::open(place.join(name).unwrap()).unwrap();
    assert_eq!(Elements::of(&open("a")), first);
    assert_eq!(Elements::of(&open("b")), first.reduced(DownsampleMethod::Max, &[1, 2]));
    set(&[("floor", [2.0, 2.0])], None);
    let refused = run(&place, &update).unwrap_err();
    assert!(matches!(refused, Error::Pyramid(PyramidError::Unrelated { .. })), "{refused}");
}
