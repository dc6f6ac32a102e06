//! What the demo stores: a bright ball in the dark, and a label image that tells its core from its
//! shell.

use serde_json::{Map, Value, json};
use shardine::ome::{Image, Level, LevelPlacement, OmeAxis, OmeMetadata, OmeRelease};
use shardine::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding, NewArray, codec_specs_to_json};
use shardine::{DataType, codec_words};

use crate::failure::Failure;

/// Voxels of the finest level.
pub const SHAPE: [u64; 3] = [256, 256, 256];
const SHARD: [u64; 3] = [128, 128, 128];
const CHUNK: [u64; 3] = [32, 32, 32];

/// Levels of the image and of its labels.
pub const LEVELS: usize = 3;

/// Micrometers from one voxel to the next.
const SCALE: [f64; 3] = [0.5, 0.25, 0.25];

/// Where the label image is.
pub const LABELS: &str = "labels";
pub const LABEL: &str = "labels/ball";

/// The attribute by which a later run recognizes a folder that it may replace.
pub const MARK: &str = "made_by";
pub const MARK_VALUE: &str = "shardine demo";

/// The shape of a level.
pub fn level_shape(level: usize) -> Vec<u64> {
    SHAPE.iter().map(|length| length >> level).collect()
}

/// How far from the centre a voxel is, squared.
fn from_centre([z, y, x]: [u64; 3]) -> u64 {
    [z, y, x].map(|i| i.abs_diff(SHAPE[0] / 2).pow(2)).iter().sum()
}

/// The radius of the ball.
const RADIUS: u64 = SHAPE[0] * 3 / 8;

/// A voxel of the image, with camera noise: the same on every run and in any order.
pub fn voxel([z, y, x]: [u64; 3]) -> u16 {
    let squared = from_centre([z, y, x]);
    if squared > RADIUS.pow(2) {
        return 0;
    }
    let light = 200 + (RADIUS.pow(2) - squared) / 16;
    // A hash of the position: a few bits of it are noise.
    let mixed = ((z << 16) ^ (y << 8) ^ x).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (light + (mixed >> 60)) as u16
}

/// A voxel of the label image: 1 in the shell of the ball, 2 in its core.
pub fn label(place: [u64; 3]) -> u16 {
    match from_centre(place) {
        squared if squared > RADIUS.pow(2) => 0,
        squared if squared > (RADIUS / 2).pow(2) => 1,
        _ => 2,
    }
}

/// Fills a box of voxels, little-endian.
pub fn fill_box(of: fn([u64; 3]) -> u16, start: &[u64], shape: &[u64], out: &mut [u8]) {
    for (i, element) in out.chunks_exact_mut(2).enumerate() {
        let i = i as u64;
        let place = [i / shape[2] / shape[1], i / shape[2] % shape[1], i % shape[2]];
        let place = std::array::from_fn(|k| start[k] + place[k]);
        element.copy_from_slice(&of(place).to_le_bytes());
    }
}

/// The metadata of the finest level.
pub fn array() -> Result<ArrayMetadata, Failure> {
    let data_type = DataType::parse_name("uint16").map_err(Failure::new)?;
    let words = [codec_words::DEFAULT.to_owned()];
    let codecs = codec_words::chain(&words, &data_type).map_err(Failure::new)?;
    let codecs = codec_specs_to_json(&codecs);
    ArrayMetadata::new(NewArray {
        shape: SHAPE.to_vec(),
        chunk_shape: SHARD.to_vec(),
        data_type,
        fill: None,
        // At the start, so that an update need not rewrite a shard.
        codecs: vec![codec_words::sharding(&CHUNK, &codecs, None, "start")],
        key_encoding: ChunkKeyEncoding::default(),
        dimension_names: Some(["z", "y", "x"].map(|name| Some(name.to_owned())).to_vec()),
        attributes: Map::new(),
    })
    .map_err(Failure::new)
}

/// An image with its levels, which have half of the voxels of the one before along each axis.
fn image(name: &str, levels: usize) -> OmeMetadata {
    let mut image = Image::default();
    image.name = Some(name.to_owned());
    for axis in ["z", "y", "x"] {
        let mut axis = OmeAxis::named(axis);
        axis.unit = Some("micrometer".to_owned());
        image.axes.push(axis);
    }
    let finest = LevelPlacement::new(SCALE.to_vec(), vec![0.0; 3]);
    for number in 0..levels {
        let mut level = Level::default();
        level.path = number.to_string();
        image.levels.push(level);
        image.set_placement(number, &finest.downsampled(&[1 << number; 3]));
    }
    let mut metadata = OmeMetadata::new(OmeRelease::V0_5.into());
    metadata.images.push(image);
    metadata
}

/// The attributes of the group of the image, with so many levels.
pub fn image_attributes(levels: usize) -> Result<Map<String, Value>, Failure> {
    let mut metadata = image("ball", levels);
    let window = json!({ "min": 0, "max": 65535, "start": 0, "end": 800 });
    let channel = json!({ "label": "light", "color": "FFFFFF", "window": window });
    metadata.omero =
        serde_json::from_value(json!({ "channels": [channel] })).map_err(Failure::new)?;
    let mut attributes = Map::new();
    attributes.insert(MARK.to_owned(), json!(MARK_VALUE));
    written(&metadata, attributes)
}

/// The attributes of the group of labels.
pub fn labels_attributes() -> Result<Map<String, Value>, Failure> {
    let mut metadata = OmeMetadata::new(OmeRelease::V0_5.into());
    metadata.labels = LABEL.strip_prefix("labels/").map(|name| vec![name.to_owned()]);
    written(&metadata, Map::new())
}

/// The attributes of the group of the label image, with so many levels.
pub fn label_attributes(levels: usize) -> Result<Map<String, Value>, Failure> {
    let mut metadata = image("ball", levels);
    let label = json!({
        "colors": [
            { "label-value": 1, "rgba": [0, 128, 255, 128] },
            { "label-value": 2, "rgba": [255, 64, 0, 255] },
        ],
        "properties": [
            { "label-value": 1, "class": "shell" },
            { "label-value": 2, "class": "core" },
        ],
        "source": { "image": "../../" },
    });
    metadata.image_label = serde_json::from_value(label).map_err(Failure::new)?;
    written(&metadata, Map::new())
}

fn written(
    metadata: &OmeMetadata,
    mut attributes: Map<String, Value>,
) -> Result<Map<String, Value>, Failure> {
    let version = metadata.version.clone();
    metadata.write(&version, &mut attributes).map_err(Failure::new)?;
    Ok(attributes)
}
