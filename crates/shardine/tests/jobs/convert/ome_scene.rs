//! OME-Zarr images, written document by document, and conversions of them.

use serde_json::{Map, Value, json};
use shardine::jobs::{ConvertOptions, FindingKind, OmeForm, convert_to_ome};
use shardine::ome::{Image, OmeMetadata, OmeRelease};
use shardine::store::{Condition, Key, StoreExt};
use shardine::zarr::attributes;
use shardine::{ArrayNode, DataSet, Error, Group, Location, Node};

use crate::common::findings::check_at;
use crate::common::*;
use crate::convert::scene::{Told, fill};

pub fn to_ome(
    source: &Location,
    target: &Location,
    form: &OmeForm,
    options: &ConvertOptions,
) -> Result<Told, Error> {
    let mut told = Vec::new();
    let tell = &mut |level| told.push(level);
    let summary = convert_to_ome(&engine(), source, target, form, options, tell)?;
    Ok((told, summary))
}

/// The same, of a version, as the source is.
pub fn to_version(source: &Location, target: &Location, release: OmeRelease) -> Told {
    to_ome(source, target, &OmeForm::new().version(release), &ConvertOptions::new()).unwrap()
}

pub fn put(place: &Location, name: &str, document: &Value) {
    let key = match &place.path {
        Some(path) => path.join(name).unwrap(),
        None => Key::new(name).unwrap(),
    };
    place.store.put(&key, document.to_string().as_bytes(), Condition::None).unwrap();
}

/// How an image is made.
#[derive(Debug, Clone)]
pub struct Scene {
    pub release: OmeRelease,
    /// Letters of `tczyx`, in this order.
    pub axes: String,
    pub shape: Vec<u64>,
    pub chunk: Vec<u64>,
    /// Chunks per shard along each axis; none in 0.4.
    pub shard: Option<u64>,
    pub data_type: &'static str,
    /// `none`, `gzip`, `zstd` or `blosc`.
    pub codec: &'static str,
    pub levels: usize,
    /// Where the centre of the first voxel is, in voxels of the finest level.
    pub first: f64,
    /// What is written of each level; empty for all of it.
    pub region: &'static str,
}

impl Scene {
    pub fn new(release: OmeRelease, axes: &str, shape: &[u64], chunk: &[u64]) -> Self {
        Self {
            release,
            axes: axes.to_owned(),
            shape: shape.to_vec(),
            chunk: chunk.to_vec(),
            shard: None,
            data_type: "uint16",
            codec: "zstd",
            levels: 2,
            first: 0.0,
            region: "",
        }
    }

    pub fn shape_of(&self, level: usize) -> Vec<u64> {
        let length = |(axis, &len): (char, &u64)| match "zyx".contains(axis) {
            true => len.div_ceil(1 << level),
            false => len,
        };
        self.axes.chars().zip(&self.shape).map(length).collect()
    }

    /// The scale of a level and where its first centre is: a quarter of a micrometre along z, a tenth
    /// along y and x.
    pub fn placement(&self, level: usize) -> (Vec<f64>, Vec<f64>) {
        let factor = f64::from(1 << level);
        let along = |axis: char| match axis {
            'z' => 0.25,
            'y' | 'x' => 0.1,
            _ => 1.0,
        };
        let is_space = |axis: char| "zyx".contains(axis);
        let scale = |axis| if is_space(axis) { along(axis) * factor } else { 1.0 };
        let first = |axis| match is_space(axis) {
            true => along(axis) * (self.first + (factor - 1.0) / 2.0),
            false => 0.0,
        };
        (self.axes.chars().map(scale).collect(), self.axes.chars().map(first).collect())
    }

    fn axes_json(&self) -> Value {
        let axis = |name: char| match name {
            't' => json!({"name": "t", "type": "time", "unit": "second"}),
            'c' => json!({"name": "c", "type": "channel"}),
            name => json!({"name": name.to_string(), "type": "space", "unit": "micrometer"}),
        };
        self.axes.chars().map(axis).collect()
    }

    fn multiscales(&self) -> Value {
        let system = json!({"name": "physical"});
        let level = |level: usize| {
            let (scale, translation) = self.placement(level);
            let mut all = vec![json!({"type": "scale", "scale": scale})];
            if translation.iter().any(|n| *n != 0.0) {
                all.push(json!({"type": "translation", "translation": translation}));
            }
            if self.release == OmeRelease::V0_6 {
                let mut one = match all.len() {
                    1 => all.remove(0),
                    _ => json!({"type": "sequence", "transformations": all}),
                };
                one["input"] = json!({"path": level.to_string()});
                one["output"] = system.clone();
                all = vec![one];
            }
            json!({"path": level.to_string(), "coordinateTransformations": all})
        };
        let levels: Vec<Value> = (0..self.levels).map(level).collect();
        let mut image = json!({"name": "an image", "type": "mean", "datasets": levels});
        match self.release {
            OmeRelease::V0_6 => {
                let axes = self.axes_json();
                image["coordinateSystems"] = json!([{"name": "physical", "axes": axes}]);
            }
            _ => image["axes"] = self.axes_json(),
        }
        if self.release == OmeRelease::V0_4 {
            image["version"] = json!("0.4");
        }
        json!([image])
    }

    /// All attributes of the image's group, with more members.
    pub fn attributes(&self, more: &Value) -> Value {
        let mut members = json!({"multiscales": self.multiscales()});
        if let Some(at) = self.axes.find('c') {
            let channel = json!({"color": "FF8800", "label": "DAPI", "active": true,
                "window": {"min": 0, "max": 65535, "start": 3, "end": 900}});
            let channels = vec![channel; usize::try_from(self.shape[at]).unwrap()];
            members["omero"] = json!({"channels": channels, "rdefs": {"model": "color"}});
        }
        for (name, value) in more.as_object().unwrap() {
            members[name] = value.clone();
        }
        let mut attributes = json!({"acquired": {"by": "somebody", "n": [1, 2.5]}});
        match self.release {
            OmeRelease::V0_4 => {
                attributes.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            }
            release => {
                members["version"] = json!(release.number());
                attributes["ome"] = members;
            }
        }
        attributes
    }

    /// Makes the image at a location.
    pub fn make(&self, place: &Location) {
        self.make_with(place, &json!({}));
    }

    pub fn make_with(&self, place: &Location, more: &Value) {
        group(place, self.release, &self.attributes(more));
        for level in 0..self.levels {
            let place = place.join(&level.to_string()).unwrap();
            let array = self.array(&place, &self.shape_of(level));
            fill(&array, self.region, level as u64);
        }
    }

    fn array(&self, place: &Location, shape: &[u64]) -> ArrayNode {
        if self.release == OmeRelease::V0_4 {
            let numpy = match self.data_type {
                "uint8" => "|u1",
                "uint16" => "<u2",
                "int16" => "<i2",
                "uint32" => "<u4",
                "float32" => "<f4",
                other => panic!("{other}"),
            };
            let compressor = match self.codec {
                "none" => Value::Null,
                "gzip" => json!({"id": "gzip", "level": 1}),
                "zstd" => json!({"id": "zstd", "level": 2}),
                _ => json!({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1,
                    "blocksize": 0}),
            };
            let zarray = json!({
                "zarr_format": 2, "shape": shape, "chunks": self.chunk, "dtype": numpy,
                "compressor": compressor, "fill_value": 0, "order": "C", "filters": null,
                "dimension_separator": "/",
            });
            put(place, ".zarray", &zarray);
            return ArrayNode::open(&engine(), place).unwrap();
        }
        let size = match self.data_type {
            "uint8" => 1,
            "uint16" | "int16" => 2,
            _ => 4,
        };
        let mut codecs = vec![bytes()];
        codecs.extend(match self.codec {
            "none" => None,
            "gzip" => Some(json!({"name": "gzip", "configuration": {"level": 1}})),
            "zstd" => Some(zstd()),
            _ => Some(json!({"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5,
                "shuffle": "shuffle", "typesize": size, "blocksize": 0}})),
        });
        let (chunk, codecs) = match self.shard {
            None => (self.chunk.clone(), json!(codecs)),
            Some(per) => {
                let shard = self.chunk.iter().map(|n| n * per).collect();
                (shard, json!([sharding(&self.chunk, json!(codecs))]))
            }
        };
        let mut document = document(shape, &chunk, self.data_type.into(), 0.into(), codecs);
        let names: Vec<String> = self.axes.chars().map(String::from).collect();
        document["dimension_names"] = json!(names);
        ArrayNode::create(&engine(), place, metadata(&document)).unwrap()
    }

    /// Chunks of a level that are stored, and those of them that lie wholly inside.
    pub fn chunks(&self, level: usize) -> (u64, u64) {
        let shape = self.shape_of(level);
        let axes = || shape.iter().zip(&self.chunk);
        let all = axes().map(|(len, n)| len.div_ceil(*n)).product();
        (all, axes().map(|(len, n)| len / n).product())
    }
}

/// The documents of a group.
pub fn group(place: &Location, release: OmeRelease, attributes: &Value) {
    if release == OmeRelease::V0_4 {
        put(place, ".zattrs", attributes);
        put(place, ".zgroup", &json!({"zarr_format": 2}));
    } else {
        let document = json!({"zarr_format": 3, "node_type": "group", "attributes": attributes});
        put(place, "zarr.json", &document);
    }
}

/// The OME-Zarr metadata at a location.
pub fn ome(place: &Location) -> OmeMetadata {
    OmeMetadata::read(&attributes(place).unwrap()).unwrap().unwrap()
}

pub fn image(place: &Location) -> Image {
    ome(place).images.remove(0)
}

/// The elements of a level.
pub fn level(place: &Location, level: usize) -> Vec<u8> {
    let set = shardine::open_in(&engine(), place).unwrap();
    read(&set.array(level).unwrap(), "")
}

/// What an image says, whatever its version: axes, where levels are, and everything else.
pub fn said(place: &Location) -> Value {
    let mut metadata = ome(place);
    let image = metadata.images.remove(0);
    let placement = |n: usize| {
        let placement = image.placement(n).unwrap();
        json!([image.levels[n].path, placement.scale, placement.translation])
    };
    let levels: Vec<Value> = (0..image.levels.len()).map(placement).collect();
    let mut other: Map<String, Value> = attributes(place).unwrap();
    for name in ["ome", "multiscales", "omero", "image-label", "labels", "shardine"] {
        other.remove(name);
    }
    json!({
        "axes": image.axes, "levels": levels, "name": image.name, "other": image.other,
        "omero": metadata.omero, "label": metadata.image_label, "attributes": other,
    })
}

/// Checks a hierarchy: nothing is damaged, every level has the names of its image's axes, and all
/// groups are of one version.
pub fn check_ome(place: &Location, release: OmeRelease) {
    check_ome_but(place, release, &[]);
}

/// The same for a hierarchy whose source breaks some rules of OME-Zarr, too.
pub fn check_ome_but(place: &Location, release: OmeRelease, broken: &[FindingKind]) {
    let (_, mut findings) = check_at(place, true);
    // The images here lack what is only recommended, and some levels are as small as the next.
    let notices = [FindingKind::OmeRecommended, FindingKind::OmeDoubtful];
    findings.retain(|finding| !notices.contains(&finding.kind) && !broken.contains(&finding.kind));
    assert!(findings.is_empty(), "{findings:?}");
    let Node::Group(root) = Node::open(&engine(), place).unwrap() else { panic!("an array") };
    check_group(&root, release);
}

fn check_group(group: &Group, release: OmeRelease) {
    assert_eq!(group.zarr_format() == shardine::zarr::ZarrFormat::V3, release.is_zarr3());
    if let Some(metadata) = group.ome().unwrap() {
        assert_eq!(metadata.version.release(), release, "{}", Group::location(group));
        for image in &metadata.images {
            for (number, level) in image.levels.iter().enumerate() {
                let array = group.array(number).unwrap();
                assert_eq!(array.shape().len(), image.axes.len());
                if release.is_zarr3() {
                    let names: Vec<Option<String>> =
                        image.axes.iter().map(|axis| Some(axis.name.clone())).collect();
                    assert_eq!(array.axis_names(), Some(&*names), "{}", level.path);
                }
            }
        }
    }
    for child in group.children().unwrap() {
        if let Node::Group(group) = child.node.unwrap() {
            check_group(&group, release);
        }
    }
}
