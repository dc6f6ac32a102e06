//! Volumes and arrays in memory, and jobs on them.

use std::sync::Arc;

use serde_json::{Value, json};
use shardine::jobs::{
    ConvertOptions, ConvertSummary, ConvertedLevel, VolumeForm, ZarrForm, convert_to_volume,
    convert_to_zarr,
};
use shardine::precomputed::{Volume, VolumeInfo};
use shardine::store::MemoryStore;
use shardine::{Array, ArrayNode, Elements, Error, Location, Region, WriteOptions};

use crate::common::*;

pub fn memory() -> Location {
    Location::root(Arc::new(MemoryStore::new()))
}

/// One scale of an `info`.
pub fn scale(key: &str, size: [u64; 3], chunk: [u64; 3], sharding: Value) -> Value {
    let mut scale = json!({
        "key": key, "size": size, "resolution": [8, 8.5, 40], "voxel_offset": [-3, 0, 1000],
        "chunk_sizes": [chunk], "encoding": "raw", "custom": { "z": 1, "a": 2 },
    });
    if !sharding.is_null() {
        scale["sharding"] = sharding;
    }
    scale
}

pub fn uint64(bits: [u32; 3], hash: &str, data: &str) -> Value {
    json!({
        "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": bits[0], "hash": hash,
        "minishard_bits": bits[1], "shard_bits": bits[2],
        "minishard_index_encoding": "gzip", "data_encoding": data,
    })
}

pub fn info(data_type: &str, channels: u64, scales: &[Value]) -> VolumeInfo {
    let document = json!({
        "zebra": [1, 2.0], "type": "image", "data_type": data_type, "num_channels": channels,
        "scales": scales, "mesh": "mesh", "app": null,
    });
    VolumeInfo::parse(document.to_string().as_bytes()).unwrap()
}

/// A volume with the box `region` written at every level.
pub fn volume(location: &Location, info: VolumeInfo, region: &str) -> Volume {
    let volume = Volume::create(&engine(), location, info).unwrap();
    for level in 0..volume.info().scales().len() {
        let array = volume.array(level).unwrap();
        fill(&array, region, level as u64);
    }
    volume
}

pub fn fill(array: &Array, region: &str, seed: u64) {
    let region: Region = region.parse().unwrap();
    let selection = region.resolve(array.shape()).unwrap();
    let count: u64 = selection.shape().iter().product();
    let element = match array.data_type().size() {
        shardine::ElementSize::Fixed(size) => size,
        shardine::ElementSize::Variable => panic!("of a fixed size"),
    };
    let elements = Elements::Fixed(noise(count as usize * element, seed + 1));
    array.write_elements(&region, elements.as_ref(), &WriteOptions::new()).unwrap();
}

pub type Told = (Vec<ConvertedLevel>, ConvertSummary);

pub fn to_zarr(
    source: &Location,
    target: &Location,
    form: &ZarrForm,
    options: &ConvertOptions,
) -> Result<Told, Error> {
    let mut told = Vec::new();
    let tell = &mut |level| told.push(level);
    let summary = convert_to_zarr(&engine(), source, target, form, options, tell)?;
    Ok((told, summary))
}

pub fn to_volume(
    source: &Location,
    target: &Location,
    form: &VolumeForm,
    options: &ConvertOptions,
) -> Result<Told, Error> {
    let mut told = Vec::new();
    let tell = &mut |level| told.push(level);
    let summary = convert_to_volume(&engine(), source, target, form, options, tell)?;
    Ok((told, summary))
}

/// All voxels of a level, in C order of x, y, z and channel.
pub fn voxels(volume: &Location, level: usize) -> Vec<u8> {
    let volume = Volume::open(&engine(), volume).unwrap();
    read(&volume.array(level).unwrap(), "")
}

/// All elements of an array.
pub fn elements(group: &Location, name: &str) -> Vec<u8> {
    let place = if name.is_empty() { group.clone() } else { group.join(name).unwrap() };
    read(&ArrayNode::open(&engine(), &place).unwrap(), "")
}

/// An array with named axes.
pub fn named(mut document: Value, names: &[&str]) -> Value {
    document["dimension_names"] = json!(names);
    document
}
