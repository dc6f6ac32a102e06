//! The lower levels of images: each is the one before it, reduced; whatever the shapes, and however
//! the work was cut.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod beside;
mod deaths;
mod links;
mod refusals;
mod replaced;
mod resume;
mod to;
mod update;
mod values;

use std::sync::Arc;

use serde_json::{Value, json};
use shardine::jobs::{FindingKind, PyramidOptions, PyramidSummary, VerifyOptions, pyramid, verify};
use shardine::store::{FileStore, Store};
use shardine::zarr::metadata::GroupMetadata;
use shardine::{Array, ArrayNode, DownsampleMethod, Engine, EngineOptions, Error, Group, Location};

use crate::common::trees::leftovers;
use crate::common::*;

/// The elements of a small array, as numbers.
#[derive(Debug, Clone, PartialEq)]
struct Elements {
    shape: Vec<u64>,
    values: Vec<i64>,
}

impl Elements {
    fn of(array: &Array) -> Self {
        let bytes = read(array, "...");
        let values = match array.data_type().name() {
            "uint8" => bytes.iter().map(|&b| i64::from(b)).collect(),
            "uint16" => {
                bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b).into()).collect()
            }
            "int32" => {
                bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b).into()).collect()
            }
            name => panic!("{name}"),
        };
        Self { shape: array.shape().to_vec(), values }
    }

    fn indexes(shape: &[u64]) -> Vec<Vec<u64>> {
        shape.iter().fold(vec![Vec::new()], |all, &n| {
            all.iter().flat_map(|at| (0..n).map(move |i| [&at[..], &[i]].concat())).collect()
        })
    }

    fn get(&self, at: &[u64]) -> i64 {
        let offset = at.iter().zip(&self.shape).fold(0, |n, (&i, &d)| n * d + i);
        self.values[offset as usize]
    }

    /// The next level, element by element.
    fn reduced(&self, method: DownsampleMethod, factors: &[u64]) -> Self {
        let shape: Vec<u64> =
            self.shape.iter().zip(factors).map(|(&n, &f)| n.div_ceil(f)).collect();
        let value = |at: &Vec<u64>| {
            let window: Vec<u64> =
                (0..at.len()).map(|k| factors[k].min(self.shape[k] - at[k] * factors[k])).collect();
            let mut values: Vec<i64> = Self::indexes(&window)
                .iter()
                .map(|inside| {
                    let at: Vec<u64> =
                        (0..at.len()).map(|k| at[k] * factors[k] + inside[k]).collect();
                    self.get(&at)
                })
                .collect();
            let (first, count) = (values[0], values.len() as i64);
            values.sort_unstable();
            let frequency = |value: i64| values.iter().filter(|v| **v == value).count();
            match method {
                DownsampleMethod::Stride => first,
                DownsampleMethod::Min => values[0],
                DownsampleMethod::Max => values[values.len() - 1],
                DownsampleMethod::Median => values[(values.len() - 1) / 2],
                DownsampleMethod::Mode => {
                    let most = values.iter().map(|v| frequency(*v)).max().unwrap();
                    *values.iter().find(|v| frequency(**v) == most).unwrap()
                }
                DownsampleMethod::Mean => {
                    let sum: i64 = values.iter().sum();
                    let (below, rest) = (sum.div_euclid(count), sum.rem_euclid(count));
                    let up = 2 * rest > count || 2 * rest == count && below % 2 != 0;
                    below + i64::from(up)
                }
                method => panic!("{method}"),
            }
        };
        let values = Self::indexes(&shape).iter().map(value).collect();
        Self { shape, values }
    }
}

fn axes(rank: usize) -> Vec<&'static str> {
    ["t", "c", "z", "y", "x"][5 - rank..].to_vec()
}

/// The attributes of an image with one level, version 0.5.
fn attributes(rank: usize, scale: &[f64]) -> Value {
    let kind = |name: &str| match name {
        "t" => "time",
        "c" => "channel",
        _ => "space",
    };
    let axes: Vec<Value> =
        axes(rank).iter().map(|name| json!({"name": name, "type": kind(name)})).collect();
    json!({"ome": {"version": "0.5", "multiscales": [{
        "axes": axes,
        "name": "kept",
        "datasets": [{"path": "0", "coordinateTransformations": [
            {"type": "scale", "scale": scale},
            {"type": "translation", "translation": vec![10.0; rank]},
        ]}],
    }]}, "mine": "too"})
}

/// An image whose finest level has this document.
fn image(place: &Location, document: &Value) -> ArrayNode {
    let rank = document["shape"].as_array().unwrap().len();
    let attributes = attributes(rank, &vec![1.0; rank]);
    image_with(place, document, &attributes)
}

fn image_with(place: &Location, document: &Value, attributes: &Value) -> ArrayNode {
    let rank = document["shape"].as_array().unwrap().len();
    let attributes = attributes.as_object().unwrap().clone();
    Group::create(&engine(), place, GroupMetadata::new(attributes)).unwrap();
    let mut document = document.clone();
    document["dimension_names"] = json!(axes(rank));
    ArrayNode::create(&engine(), &place.join("0").unwrap(), metadata(&document)).unwrap()
}

/// A folder with an image in it.
fn on_files(folder: &tempfile::TempDir, name: &str) -> (Arc<dyn Store>, Location) {
    let store: Arc<dyn Store> = Arc::new(FileStore::new(folder.path()));
    let root = Location::root(Arc::clone(&store));
    let place = if name.is_empty() { root } else { root.join(name).unwrap() };
    (store, place)
}

/// A uint16 image of 50 x 45 x 41 elements in shards of 16 x 16 x 16, with a hole.
fn usual(place: &Location) -> ArrayNode {
    let array = image(place, &sharded(&[50, 45, 41], &[16, 16, 16], &[4, 4, 4]));
    write(&array, "0:30,:,:", noise(30 * 45 * 41 * 2, 3));
    write(&array, "40:50,40:45,:", noise(10 * 5 * 41 * 2, 4));
    array
}

fn run(place: &Location, options: &PyramidOptions) -> Result<PyramidSummary, Error> {
    pyramid(&engine(), place, options, &mut |_| ())
}

fn small_engine(threads: usize, memory: u64) -> Arc<Engine> {
    Engine::new(&EngineOptions::new().threads(threads).memory(memory)).unwrap()
}

/// Checks every level against the one before it, and the metadata.
fn check(place: &Location, summary: &PyramidSummary) {
    let mut before = Elements::of(&ArrayNode::open(&engine(), &place.join("0").unwrap()).unwrap());
    let group = match shardine::Node::open(&engine(), place).unwrap() {
        shardine::Node::Group(group) => group,
        shardine::Node::Array(_) => panic!("an array"),
    };
    let metadata = group.ome().unwrap().unwrap();
    let image = metadata.image().unwrap();
    assert_eq!(image.levels.len(), summary.levels.len() + 1);
    assert_eq!(image.other["type"], json!(summary.method));
    let finest = image.placement(0).unwrap();
    let mut total: Vec<u64> = vec![1; before.shape.len()];
    for (i, level) in summary.levels.iter().enumerate() {
        let array = ArrayNode::open(&engine(), &place.join(&level.path).unwrap()).unwrap();
        let wanted = before.reduced(summary.method, &level.factors);
        let found = Elements::of(&array);
        assert_eq!(found.shape, wanted.shape, "level {}", i + 1);
        assert!(
            found == wanted,
            "level {} differs: {:?}",
            i + 1,
            first_difference(&found, &wanted)
        );
        assert_eq!(array.shape(), level.shape);
        total.iter_mut().zip(&level.factors).for_each(|(total, f)| *total *= f);
        let placement = image.placement(i + 1).unwrap();
        for (axis, &factor) in total.iter().enumerate() {
            let (scale, factor) = (finest.scale[axis], factor as f64);
            assert!((placement.scale[axis] - scale * factor).abs() < 1e-9);
            let shift = match summary.method {
                DownsampleMethod::Stride => 0.0,
                _ => (placement.scale[axis] - scale) / 2.0,
            };
            assert!((placement.translation[axis] - finest.translation[axis] - shift).abs() < 1e-9);
        }
        assert_eq!(array.axis_names().unwrap().len(), total.len());
        before = wanted;
    }
    let mut findings = Vec::new();
    let verified = verify(&engine(), place, &VerifyOptions::new().decode(true), &mut |f| {
        findings.push(f.clone())
    });
    verified.unwrap();
    // All images here lack what is only recommended, and those of one axis have too few.
    let is_short = |kind| kind == FindingKind::OmeAxes && total.len() == 1;
    findings.retain(|f| f.kind != FindingKind::OmeRecommended && !is_short(f.kind));
    assert!(findings.is_empty(), "{findings:?}");
}

fn first_difference(a: &Elements, b: &Elements) -> Option<(Vec<u64>, i64, i64)> {
    let all = Elements::indexes(&a.shape);
    all.into_iter().find(|at| a.get(at) != b.get(at)).map(|at| {
        let (x, y) = (a.get(&at), b.get(&at));
        (at, x, y)
    })
}

/// The levels that an image names, and the method.
fn named(place: &Location) -> (Vec<Elements>, Option<DownsampleMethod>) {
    let group = match shardine::Node::open(&engine(), place).unwrap() {
        shardine::Node::Group(group) => group,
        shardine::Node::Array(_) => panic!("an array"),
    };
    let metadata = group.ome().unwrap().unwrap();
    let image = metadata.image().unwrap();
    let open = |path: &str| ArrayNode::open(&engine(), &place.join(path).unwrap()).unwrap();
    let levels = image.levels.iter().map(|level| Elements::of(&open(&level.path))).collect();
    (levels, image.other.get("type").map(|kind| kind.as_str().unwrap().parse().unwrap()))
}

/// Checks the levels that an image names, as made by the method that it names; returns how many
/// there are.
fn check_named(place: &Location) -> usize {
    let (levels, method) = named(place);
    for (i, pair) in levels.windows(2).enumerate() {
        let (before, found) = (&pair[0], &pair[1]);
        let wanted = before.reduced(method.unwrap(), &vec![2; before.shape.len()]);
        assert!(*found == wanted, "{}: {:?}", i + 1, first_difference(found, &wanted));
    }
    let options = VerifyOptions::new().decode(true);
    let verified = verify(&engine(), place, &options, &mut |_| ()).unwrap();
    assert!(verified.is_ok());
    levels.len()
}

/// An image of 20 x 20 elements in shards of 8 x 8, with a hole.
fn small(place: &Location) -> ArrayNode {
    let array = image(place, &sharded(&[20, 20], &[8, 8], &[4, 4]));
    write(&array, "0:11,:", noise(11 * 20 * 2, 3));
    array
}
