//! OME-Zarr for display: what a group is, in words and in JSON.

mod image;
mod look;
mod plate;
mod table;

pub use look::Look;

use serde_json::{Map, Value, json};
use shardine::ome::OmeMetadata;
use shardine::{DataSet, Group};

use crate::units;

/// What a group with OME-Zarr metadata is, in one word of JSON.
pub fn kind(metadata: &OmeMetadata) -> &'static str {
    match metadata {
        OmeMetadata { plate: Some(_), .. } => "plate",
        OmeMetadata { well: Some(_), .. } => "well",
        OmeMetadata { images, image_label, .. } if !images.is_empty() => match image_label {
            Some(_) => "label-image",
            None => "image",
        },
        OmeMetadata { scene: Some(_), .. } => "scene",
        OmeMetadata { labels: Some(_), .. } => "labels",
        OmeMetadata { bioformats2raw_layout: Some(_), .. } => "bioformats2raw",
        OmeMetadata { series: Some(_), .. } => "series",
        _ => "group",
    }
}

/// The same in a few words, on one line.
pub fn words(metadata: &OmeMetadata) -> String {
    let count = |list: usize, what: &str| units::count(list as u64, what);
    let listed = |names: &[String]| names.join(", ");
    match kind(metadata) {
        "plate" => {
            let plate = metadata.plate.as_ref();
            let wells = plate.map_or(0, |plate| plate.wells.len());
            let (rows, columns) =
                plate.map_or((0, 0), |plate| (plate.rows.len(), plate.columns.len()));
            format!("plate, {} in {rows} rows and {columns} columns", count(wells, "well"))
        }
        "well" => {
            let fields = metadata.well.as_ref().map_or(0, |well| well.images.len());
            format!("well, {}", count(fields, "field"))
        }
        kind @ ("image" | "label-image") => {
            let (levels, axes) = metadata.image().map_or((0, String::new()), |image| {
                let axes: Vec<String> = image.axes.iter().map(|axis| axis.name.clone()).collect();
                (image.levels.len(), listed(&axes))
            });
            format!("{}, {} ({axes})", kind.replace('-', " "), count(levels, "level"))
        }
        "scene" => {
            let systems = metadata.scene.as_ref().map_or(0, |scene| scene.systems.len());
            format!("scene, {}", count(systems, "coordinate system"))
        }
        "labels" => match metadata.labels.as_deref() {
            Some(names) if !names.is_empty() => format!("labels: {}", listed(names)),
            _ => "labels, none".to_owned(),
        },
        "bioformats2raw" => "images of bioformats2raw".to_owned(),
        "series" => {
            let series = metadata.series.as_ref().map_or(0, Vec::len);
            format!("list of {series} series")
        }
        other => other.to_owned(),
    }
}

/// The OME-Zarr metadata of a data set, if it is a group with some that can be understood.
pub fn metadata_of(set: &dyn DataSet) -> Option<OmeMetadata> {
    set.downcast_ref::<Group>().and_then(|group| group.ome().ok().flatten())
}

/// A node of a listing in JSON.
pub fn describe_node(metadata: &OmeMetadata) -> Value {
    let mut members = Map::new();
    members.insert("kind".to_owned(), json!(kind(metadata)));
    members.insert("version".to_owned(), json!(metadata.version.to_string()));
    if let Some(image) = metadata.image() {
        let paths: Vec<&str> = image.levels.iter().map(|level| level.path.as_str()).collect();
        members.insert("levels".to_owned(), json!(paths));
    }
    if let Some(plate) = &metadata.plate {
        members.insert("wells".to_owned(), json!(plate.wells.len()));
    }
    if let Some(well) = &metadata.well {
        members.insert("fields".to_owned(), json!(well.images.len()));
    }
    if let Some(labels) = &metadata.labels {
        members.insert("labels".to_owned(), json!(labels));
    }
    Value::Object(members)
}
