//! The lower levels of images.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use shardine::jobs::{PyramidOptions, pyramid};
use shardine::zarr::metadata::GroupMetadata;
use shardine::{ArrayNode, DownsampleMethod, Elements, Group, Node, Region, WriteOptions};

use crate::common::{bytes, document, metadata, noise};
use crate::disk::{State, Verb, at, engine};
use crate::verbs::told;

/// An image of one level, in shards of 2 x 2 chunks.
fn set_up(root: &Path) {
    let place = at(root).join("i").unwrap();
    let attributes = json!({"ome": {"version": "0.5", "multiscales": [{
        "axes": [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}],
        "datasets": [{"path": "0", "coordinateTransformations": [
            {"type": "scale", "scale": [1.0, 1.0]}]}],
    }]}});
    let attributes = attributes.as_object().unwrap().clone();
    Group::create(&engine(), &place, GroupMetadata::new(attributes)).unwrap();
    let codecs = json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [4, 4], "codecs": ["bytes", "crc32c"],
        "index_codecs": [bytes(), "crc32c"]}}]);
    let document = document(&[20, 20], &[8, 8], "uint8".into(), 0.into(), codecs);
    let level = place.join("0").unwrap();
    let array = ArrayNode::create(&engine(), &level, metadata(&document)).unwrap();
    write(&array, "...", 3);
}

fn write(array: &ArrayNode, region: &str, seed: u64) {
    let region: Region = region.parse().unwrap();
    let count: u64 = region.resolve(array.shape()).unwrap().shape().iter().product();
    let elements = Elements::Fixed(noise(count as usize, seed));
    array.write_elements(&region, elements.as_ref(), &WriteOptions::new()).unwrap();
}

/// The same with lower levels.
fn set_up_levels(root: &Path) {
    set_up(root);
    let place = at(root).join("i").unwrap();
    pyramid(&engine(), &place, &PyramidOptions::new(), &mut |_| ()).unwrap();
}

/// The same when a part of the finest level has changed since.
fn set_up_changed(root: &Path) {
    set_up_levels(root);
    let level = at(root).join("i/0").unwrap();
    write(&ArrayNode::open(&engine(), &level).unwrap(), CHANGED, 8);
}

/// The elements of each level that the image names.
fn levels(root: &Path) -> Result<Vec<Vec<u8>>, String> {
    let place = at(root).join("i").unwrap();
    let Node::Group(group) = Node::open(&engine(), &place).map_err(told)? else {
        return Err("no image".to_owned());
    };
    let metadata = group.ome().map_err(told)?.ok_or("no image")?;
    let levels = &metadata.image().ok_or("no image")?.levels;
    let read = |path: &str| -> State {
        let array = ArrayNode::open(&engine(), &place.join(path).unwrap()).map_err(told)?;
        Ok(array.read_elements(Region::all()).map_err(told)?.into_fixed().unwrap())
    };
    levels.iter().map(|level| read(&level.path)).collect()
}

/// What the update by times writes to first.
const CHANGED: &str = "3:9,2:5";

/// The finest level outside of what is written, if all levels that the image names can be read.
fn unchanged(root: &Path) -> State {
    let mut elements = finest(root)?;
    for row in 3..9 {
        elements[row * 20 + 2..row * 20 + 5].fill(0);
    }
    Ok(elements)
}

/// The finest level, if all levels that the image names can be read.
fn finest(root: &Path) -> State {
    Ok(levels(root)?.remove(0))
}

/// All levels, and the names in the image: nothing is left beside them.
fn all(root: &Path) -> State {
    let mut state = levels(root)?.concat();
    let mut names: Vec<String> = fs::read_dir(root.join("i"))
        .map_err(|error| error.to_string())?
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    state.extend(names.join(" ").into_bytes());
    let document = fs::read(root.join("i/zarr.json")).map_err(|error| error.to_string())?;
    let document: Value = serde_json::from_slice(&document).map_err(|error| error.to_string())?;
    state.extend(document["attributes"].to_string().into_bytes());
    Ok(state)
}

pub fn pyramids() -> Vec<Verb> {
    vec![
        Verb {
            name: "pyramid",
            set_up,
            run: |engine, root| {
                let place = root.join("i").unwrap();
                let options = PyramidOptions::new().task_size(1);
                pyramid(engine, &place, &options, &mut |_| ()).map_err(told)?;
                Ok(String::new())
            },
            kept: finest,
            done: all,
            again: true,
        },
        Verb {
            name: "pyramid over levels that exist",
            set_up: set_up_levels,
            run: |engine, root| {
                let place = root.join("i").unwrap();
                let options =
                    PyramidOptions::new().method(DownsampleMethod::Max).levels(3).overwrite(true);
                pyramid(engine, &place, &options, &mut |_| ()).map_err(told)?;
                Ok(String::new())
            },
            kept: finest,
            done: all,
            again: true,
        },
        Verb {
            name: "update of a pyramid",
            set_up: set_up_changed,
            run: |engine, root| {
                let place = root.join("i").unwrap();
                let region: Region = CHANGED.parse().unwrap();
                let options = PyramidOptions::new().update(true).region(region);
                pyramid(engine, &place, &options, &mut |_| ()).map_err(told)?;
                Ok(String::new())
            },
            kept: finest,
            done: all,
            again: true,
        },
        Verb {
            // The files of the scene have any times, so that the change comes first.
            name: "update of a pyramid by times",
            set_up: set_up_levels,
            run: |engine, root| {
                let place = root.join("i").unwrap();
                let array = ArrayNode::open(engine, &place.join("0").unwrap()).map_err(told)?;
                let region: Region = CHANGED.parse().unwrap();
                let elements = Elements::Fixed(noise(6 * 3, 8));
                array
                    .write_elements(&region, elements.as_ref(), &WriteOptions::new())
                    .map_err(told)?;
                let options = PyramidOptions::new().update(true);
                pyramid(engine, &place, &options, &mut |_| ()).map_err(told)?;
                Ok(String::new())
            },
            kept: unchanged,
            done: all,
            again: true,
        },
    ]
}
