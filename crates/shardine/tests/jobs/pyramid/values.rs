//! What is in the levels.

use proptest::prelude::*;
use serde_json::json;
use shardine::jobs::{PyramidLevel, PyramidOptions, pyramid};
use shardine::{CodecChoice, Packing};

use super::*;
use crate::common::data_set::{dump, memory};

const METHODS: [DownsampleMethod; 6] = DownsampleMethod::ALL;

/// A case: the finest level, what is written to it, and how the others are made.
#[derive(Debug, Clone)]
struct Case {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    per_shard: Option<Vec<u64>>,
    data_type: &'static str,
    fill: i64,
    /// Where data is written, as parts of the shape.
    written: Vec<Vec<(f64, f64)>>,
    seed: u64,
    factors: Vec<u64>,
    levels: usize,
    method: DownsampleMethod,
    threads: usize,
    memory: u64,
    task_size: u64,
    new_chunk: Option<Vec<u64>>,
    packing: Packing,
}

fn cases() -> impl Strategy<Value = Case> {
    (1usize..=3)
        .prop_flat_map(|rank| {
            let axes = |range: std::ops::Range<u64>| prop::collection::vec(range, rank);
            let part = prop::collection::vec((0.0..1.0f64, 0.0..1.0f64), rank);
            let geometry = (
                axes(1..40),
                axes(1..9),
                prop::option::of(axes(1..4)),
                axes(1..5),
                prop::option::weighted(0.3, axes(1..9)),
                prop_oneof![
                    3 => Just(Packing::Keep),
                    1 => Just(Packing::Unsharded),
                    1 => axes(1..4).prop_map(Packing::ChunksPerShard),
                    1 => Just(Packing::TargetSize(3000)),
                ],
            );
            let contents = (
                prop::sample::select(&["uint8", "uint16", "int32"][..]),
                prop_oneof![Just(0i64), Just(7)],
                prop::collection::vec(part, 0..3),
                any::<u64>(),
            );
            let how = (
                2usize..6,
                prop::sample::select(&METHODS[..]),
                1usize..4,
                prop_oneof![Just(1u64 << 14), Just(1 << 20), Just(56 << 20)],
                prop_oneof![Just(1u64), Just(2000), Just(4 << 30)],
            );
            (geometry, contents, how)
        })
        .prop_map(|(geometry, contents, how)| {
            let (shape, chunk, per_shard, mut factors, new_chunk, packing) = geometry;
            let (data_type, fill, written, seed) = contents;
            let (levels, method, threads, memory, task_size) = how;
            if factors.iter().all(|&f| f == 1) {
                factors[0] = 2;
            }
            Case {
                shape,
                chunk,
                per_shard,
                data_type,
                fill,
                written,
                seed,
                factors,
                levels,
                method,
                threads,
                memory,
                task_size,
                new_chunk,
                packing,
            }
        })
}

impl Case {
    fn prepare(&self, place: &Location) -> ArrayNode {
        let codecs = json!([bytes(), zstd()]);
        let document = match &self.per_shard {
            None => {
                document(&self.shape, &self.chunk, self.data_type.into(), self.fill.into(), codecs)
            }
            Some(per) => {
                let shard: Vec<u64> = self.chunk.iter().zip(per).map(|(a, b)| a * b).collect();
                let codecs = json!([sharding(&self.chunk, codecs)]);
                document(&self.shape, &shard, self.data_type.into(), self.fill.into(), codecs)
            }
        };
        let array = image(place, &document);
        for (i, part) in self.written.iter().enumerate() {
            let region: Vec<(u64, u64)> = part
                .iter()
                .zip(&self.shape)
                .map(|(&(start, len), &n)| {
                    let start = (start * n as f64) as u64;
                    (start, (start + 1 + (len * n as f64) as u64).min(n))
                })
                .collect();
            let count: u64 = region.iter().map(|(start, end)| end - start).product();
            let size = match self.data_type {
                "uint8" => 1,
                "uint16" => 2,
                _ => 4,
            };
            let text: Vec<String> =
                region.iter().map(|(start, end)| format!("{start}:{end}")).collect();
            write(&array, &text.join(","), noise(count as usize * size, self.seed ^ i as u64));
        }
        array
    }

    fn options(&self) -> PyramidOptions {
        let mut options = PyramidOptions::new()
            .levels(self.levels)
            .factors(&self.factors)
            .method(self.method)
            .packing(self.packing.clone())
            .task_size(self.task_size);
        options.chunk.clone_from(&self.new_chunk);
        options
    }

    fn run(&self, place: &Location) -> Option<PyramidSummary> {
        let engine = small_engine(self.threads, self.memory);
        match pyramid(&engine, place, &self.options(), &mut |_| ()) {
            // Everything is a single element before there are as many levels, or the shards of the
            // finest level are no multiple of other chunks.
            Err(Error::Pyramid(
                shardine::jobs::PyramidError::Factors { .. }
                | shardine::jobs::PyramidError::Layout { .. },
            )) => None,
            done => Some(done.unwrap()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn each_level_is_the_one_before_reduced_however_the_work_is_cut(case in cases()) {
        let place = Location::root(memory());
        case.prepare(&place);
        if let Some(summary) = case.run(&place) {
            check(&place, &summary);
            // Neither threads nor memory change a byte.
            let again = Location::root(memory());
            case.prepare(&again);
            let other = Case { threads: 1, memory: 56 << 20, ..case.clone() };
            other.run(&again).unwrap();
            assert_eq!(dump(&*place.store), dump(&*again.store));
        }
    }
}

#[test]
fn chunks_in_powers_of_two_lie_in_shards_as_a_write_would_lay_them() {
    let place = Location::root(memory());
    let array = image(&place, &sharded(&[64, 64, 64], &[32, 32, 32], &[4, 4, 4]));
    write(&array, "...", noise(64 * 64 * 64 * 2, 9));
    let summary = run(&place, &PyramidOptions::new()).unwrap();
    assert_eq!(summary.levels.len(), 4);
    check(&place, &summary);
    for level in &summary.levels {
        let made = ArrayNode::open(&engine(), &place.join(&level.path).unwrap()).unwrap();
        let other = Location::root(memory());
        let copy = ArrayNode::create(&engine(), &other, made.metadata().clone()).unwrap();
        write(&copy, "...", read(&made, "..."));
        let objects = |at: &Location, prefix: &str| -> Vec<Vec<u8>> {
            let all = dump(&*at.store).into_iter();
            all.filter(|(key, _)| key.starts_with(prefix) && key.contains("c/"))
                .map(|o| o.1)
                .collect()
        };
        assert_eq!(objects(&place, &format!("{}/", level.path)), objects(&other, "c/"));
    }
}

#[test]
fn what_is_not_stored_costs_nothing_and_stays_so() {
    let place = Location::root(memory());
    // 2^36 chunks.
    let array = image(&place, &sharded(&[1 << 18, 1 << 18, 1 << 18], &[1 << 12; 3], &[1 << 6; 3]));
    write(&array, "70000:70003,5:6,200000:200001", noise(6, 1));
    let summary = run(&place, &PyramidOptions::new().levels(5)).unwrap();
    for level in &summary.levels {
        assert_eq!((level.counts.chunks, level.counts.objects), (1, 1), "{level:?}");
        let array = Array::open(place.join(&level.path).unwrap()).unwrap();
        assert_eq!(array.objects().unwrap().len(), 1);
    }
    let level = Array::open(place.join("1").unwrap()).unwrap();
    let finest = read(&array, "70000:70003,5:6,200000:200001");
    let value = |i: usize| u64::from(u16::from_le_bytes([finest[2 * i], finest[2 * i + 1]]));
    let found: Vec<u16> = level.read((35000..35002, 2, 100_000)).unwrap();
    let rounded = |sum: u64| ((sum + 3 + (sum >> 3 & 1)) >> 3) as u16;
    assert_eq!(found, [rounded(value(0) + value(1)), rounded(value(2))]);
}

#[test]
fn an_image_without_data_gets_levels_without_data() {
    let place = Location::root(memory());
    image(&place, &sharded(&[40, 40], &[16, 16], &[4, 4]));
    let summary = run(&place, &PyramidOptions::new()).unwrap();
    assert!(summary.levels.iter().all(|level| level.counts.objects == 0));
    check(&place, &summary);
}

#[test]
fn axes_without_elements_are_kept() {
    let place = Location::root(memory());
    image(&place, &sharded(&[0, 40], &[16, 16], &[4, 4]));
    let summary = run(&place, &PyramidOptions::new().levels(3)).unwrap();
    let shapes: Vec<_> = summary.levels.iter().map(|level| level.shape.clone()).collect();
    assert_eq!(shapes, [[0, 20], [0, 10]]);
}

#[test]
fn anisotropic_voxels_become_isotropic_and_channels_and_times_stay() {
    let place = Location::root(memory());
    let document = sharded(&[2, 3, 20, 64, 60], &[1, 1, 8, 16, 16], &[1, 1, 4, 8, 8]);
    let array = image_with(&place, &document, &attributes(5, &[1.0, 1.0, 2.0, 0.5, 0.5]));
    write(&array, "...", noise(2 * 3 * 20 * 64 * 60 * 2, 5));
    let summary = run(&place, &PyramidOptions::new()).unwrap();
    let factors: Vec<_> = summary.levels.iter().map(|level| level.factors.clone()).collect();
    assert_eq!(factors[..2], [[1, 1, 1, 2, 2]; 2]);
    assert_eq!(factors[2..], [[1, 1, 2, 2, 2]; 3]);
    assert_eq!(summary.levels[4].shape, [2, 3, 3, 2, 2]);
    assert_eq!(summary.levels[4].scale, [1.0, 1.0, 16.0, 16.0, 16.0]);
    check(&place, &summary);
}

#[test]
fn labels_are_reduced_by_their_mode_and_other_images_by_their_mean() {
    let label = |path: &str, data_type: &str, marked: bool| {
        let place = Location::root(memory()).join(path).unwrap();
        let mut attributes = attributes(2, &[1.0, 1.0]);
        if marked {
            attributes["ome"]["image-label"] = json!({});
        }
        let document = document(&[8, 8], &[4, 4], data_type.into(), 0.into(), json!([bytes()]));
        image_with(&place, &document, &attributes);
        run(&place, &PyramidOptions::new()).unwrap().method
    };
    assert_eq!(label("a", "uint16", false), DownsampleMethod::Mean);
    assert_eq!(label("a", "uint8", true), DownsampleMethod::Mode);
    assert_eq!(label("labels/cells", "uint32", false), DownsampleMethod::Mode);
    assert_eq!(label("labels/cells", "uint16", false), DownsampleMethod::Mean);
    assert_eq!(label("labels/cells", "float32", false), DownsampleMethod::Mean);
}

#[test]
fn levels_are_stored_like_the_finest_or_as_requested() {
    let with = |options: PyramidOptions| {
        let place = Location::root(memory());
        usual(&place);
        let summary = run(&place, &options).unwrap();
        check(&place, &summary);
        let level = |l: &PyramidLevel| (l.chunk_shape.clone(), l.shard_shape.clone());
        (level(&summary.levels[0]), level(summary.levels.last().unwrap()))
    };
    assert_eq!(with(PyramidOptions::new()), ((vec![4; 3], Some(vec![16; 3])), (vec![4; 3], None)));
    let unsharded = with(PyramidOptions::new().packing(Packing::Unsharded));
    assert_eq!(unsharded, ((vec![4; 3], None), (vec![4; 3], None)));
    let packing = Packing::ChunksPerShard(vec![1, 2, 4]);
    let (first, _) = with(PyramidOptions::new().packing(packing));
    assert_eq!(first, (vec![4; 3], Some(vec![4, 8, 16])));
    let chunked = PyramidOptions::new()
        .chunk(&[8, 8, 8])
        .codecs(CodecChoice::Words(vec!["gzip:1".parse().unwrap()]));
    let (first, _) = with(chunked);
    assert_eq!(first, (vec![8; 3], Some(vec![16; 3])));
}

#[test]
fn images_of_version_2_get_levels_of_version_2() {
    use crate::common::data_set::put;
    let place = Location::root(memory());
    let store = &place.store;
    put(&**store, ".zgroup", b"{\"zarr_format\": 2}");
    let attributes = json!({"multiscales": [{"version": "0.4",
        "axes": [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}],
        "datasets": [{"path": "s0", "coordinateTransformations": [
            {"type": "scale", "scale": [1.0, 1.0]}]}]}], "mine": 1});
    put(&**store, ".zattrs", attributes.to_string().as_bytes());
    let zarray = json!({"zarr_format": 2, "shape": [21, 17], "chunks": [5, 4], "dtype": ">u2",
        "compressor": {"id": "zlib", "level": 1}, "fill_value": 3, "order": "F", "filters": null,
        "dimension_separator": "/"});
    put(&**store, "s0/.zarray", zarray.to_string().as_bytes());
    let finest = ArrayNode::open(&engine(), &place.join("s0").unwrap()).unwrap();
    write(&finest, "3:21,:", noise(18 * 17 * 2, 4));
    let summary = run(&place, &PyramidOptions::new()).unwrap();
    let paths: Vec<_> = summary.levels.iter().map(|level| level.path.as_str()).collect();
    assert_eq!(paths, ["s1", "s2", "s3"]);
    let all = dump(&**store);
    assert!(!all.keys().any(|key| key.ends_with("zarr.json") || key.contains(".shardine")));
    let zattrs: Value = serde_json::from_slice(&all[".zattrs"]).unwrap();
    assert_eq!((&zattrs["mine"], &zattrs["multiscales"][0]["version"]), (&json!(1), &json!("0.4")));
    let mut before = Elements::of(&finest);
    for level in &summary.levels {
        let array = ArrayNode::open(&engine(), &place.join(&level.path).unwrap()).unwrap();
        before = before.reduced(DownsampleMethod::Mean, &level.factors);
        assert_eq!(Elements::of(&array), before);
        let written: Value =
            serde_json::from_slice(&all[&format!("{}/.zarray", level.path)]).unwrap();
        assert_eq!((&written["order"], &written["dtype"]), (&json!("F"), &json!(">u2")));
    }
}

#[test]
fn paths_of_levels_follow_those_of_the_finest_through_groups() {
    let place = Location::root(memory());
    let mut attributes = attributes(2, &[1.0, 1.0]);
    attributes["ome"]["multiscales"][0]["datasets"][0]["path"] = json!("scale0/image");
    let group = GroupMetadata::new(attributes.as_object().unwrap().clone());
    Group::create(&engine(), &place, group).unwrap();
    let inner = GroupMetadata::new(serde_json::Map::new());
    Group::create(&engine(), &place.join("scale0").unwrap(), inner).unwrap();
    let document = sharded(&[20, 20], &[8, 8], &[4, 4]);
    let at = place.join("scale0/image").unwrap();
    let array = ArrayNode::create(&engine(), &at, metadata(&document)).unwrap();
    write(&array, "...", noise(800, 2));
    let summary = run(&place, &PyramidOptions::new()).unwrap();
    let paths: Vec<_> = summary.levels.iter().map(|level| level.path.as_str()).collect();
    assert_eq!(paths, ["scale1/image", "scale2/image", "scale3/image"]);
    assert!(dump(&*place.store).contains_key("scale2/zarr.json"));
}

#[test]
fn consolidated_metadata_names_the_new_levels() {
    let place = Location::root(memory());
    usual(&place);
    shardine::zarr::consolidate(&place).unwrap();
    let summary = run(&place, &PyramidOptions::new().levels(3)).unwrap();
    check(&place, &summary);
    let root: Value = serde_json::from_slice(&dump(&*place.store)["zarr.json"]).unwrap();
    let known = root["consolidated_metadata"]["metadata"].as_object().unwrap();
    assert_eq!(known.keys().collect::<Vec<_>>(), ["0", "1", "2"]);
    assert_eq!(root["attributes"]["mine"], "too");
    assert_eq!(root["attributes"]["ome"]["multiscales"][0]["name"], "kept");
}
