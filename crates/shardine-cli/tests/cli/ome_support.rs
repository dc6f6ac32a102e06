//! Small OME-Zarr hierarchies, made of documents.

use serde_json::{Value, json};

use crate::support::{Folder, u16s};

/// How the hierarchies of a version are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Zarr v2.
    V04,
    /// Zarr v3, sharded.
    V05,
}

impl Version {
    pub fn name(self) -> &'static str {
        match self {
            Self::V04 => "0.4",
            Self::V05 => "0.5",
        }
    }

    /// Writes the metadata of a group: `members` as this version has them.
    pub fn group(self, folder: &Folder, path: &str, members: Value) {
        std::fs::create_dir_all(folder.path(path)).unwrap();
        match self {
            Self::V04 => {
                folder.put(&format!("{path}/.zgroup"), br#"{"zarr_format": 2}"#);
                folder.put(&format!("{path}/.zattrs"), members.to_string().as_bytes());
            }
            Self::V05 => {
                let mut ome = json!({ "version": "0.5" });
                ome.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
                let group =
                    json!({ "zarr_format": 3, "node_type": "group", "attributes": { "ome": ome } });
                folder.put(&format!("{path}/zarr.json"), group.to_string().as_bytes());
            }
        }
    }

    /// Creates an array of uint16 with chunks of 4 along z, y and x; in version 3 with shards of 8.
    fn array(self, folder: &Folder, path: &str, axes: &str, shape: &[u64]) {
        let along = |space: u64| -> Vec<u64> {
            axes.chars().map(|axis| if "zyx".contains(axis) { space } else { 1 }).collect()
        };
        let words = |list: &[u64]| list.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::V04 => {
                let document = json!({
                    "zarr_format": 2, "shape": shape, "chunks": along(4), "dtype": "<u2",
                    "order": "C", "fill_value": 0, "filters": null, "compressor": null,
                    "dimension_separator": "/",
                });
                std::fs::create_dir_all(folder.path(path)).unwrap();
                folder.put(&format!("{path}/.zarray"), document.to_string().as_bytes());
            }
            Self::V05 => {
                let dims: Vec<String> = axes.chars().map(String::from).collect();
                folder.ok(&[
                    "create",
                    path,
                    "--shape",
                    &words(shape),
                    "--dtype",
                    "uint16",
                    "--chunk",
                    &words(&along(4)),
                    "--shard",
                    &words(&along(8)),
                    "--codec",
                    "none",
                    "--dims",
                    &dims.join(","),
                ]);
            }
        }
    }

    /// An image of `levels` levels, each half as long in space as the one before, whose elements
    /// are numbered. Voxels are 2 x 0.5 x 0.5 micrometers, frames 1.5 seconds apart.
    pub fn image(self, folder: &Folder, path: &str, axes: &str, shape: &[u64], levels: u32) {
        self.image_with(folder, path, axes, shape, levels, json!({}));
    }

    /// The same with other members beside `multiscales`.
    pub fn image_with(
        self,
        folder: &Folder,
        path: &str,
        axes: &str,
        shape: &[u64],
        levels: u32,
        more: Value,
    ) {
        let is_space = |axis: char| "zyx".contains(axis);
        let described: Vec<Value> = axes
            .chars()
            .map(|axis| match axis {
                't' => json!({ "name": "t", "type": "time", "unit": "second" }),
                'c' => json!({ "name": "c", "type": "channel" }),
                axis => {
                    json!({ "name": axis.to_string(), "type": "space", "unit": "micrometer" })
                }
            })
            .collect();
        let scale = |axis: char| match axis {
            't' => 1.5,
            'c' => 1.0,
            'z' => 2.0,
            _ => 0.5,
        };
        let datasets: Vec<Value> = (0..levels)
            .map(|level| {
                let factor = |axis: char| if is_space(axis) { f64::from(1 << level) } else { 1.0 };
                let scales: Vec<f64> =
                    axes.chars().map(|axis| scale(axis) * factor(axis)).collect();
                let first: Vec<f64> =
                    axes.chars().map(|axis| scale(axis) * (factor(axis) - 1.0) / 2.0).collect();
                let mut steps = vec![json!({ "type": "scale", "scale": scales })];
                if level > 0 {
                    steps.push(json!({ "type": "translation", "translation": first }));
                }
                json!({ "path": level.to_string(), "coordinateTransformations": steps })
            })
            .collect();
        let mut image = json!({ "name": "cells", "axes": described, "datasets": datasets });
        if self == Self::V04 {
            image["version"] = json!("0.4");
        }
        let mut members = json!({ "multiscales": [image] });
        members.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.group(folder, path, members);
        for level in 0..levels {
            let shape: Vec<u64> = axes
                .chars()
                .zip(shape)
                .map(|(axis, n)| if is_space(axis) { (n >> level).max(1) } else { *n })
                .collect();
            let array = format!("{path}/{level}");
            self.array(folder, &array, axes, &shape);
            let count: u64 = shape.iter().product();
            folder.put("elements.raw", &u16s((0..count).map(|n| n as u16)));
            folder.ok(&["-q", "write", &array, "elements.raw"]);
        }
    }

    /// An image of t, c, z, y and x with three levels, two channels and a label image.
    pub fn labelled(self, folder: &Folder, path: &str) {
        let channel = |label: &str, color: &str| {
            let window = json!({ "min": 0, "max": 65535, "start": 10, "end": 900 });
            json!({ "label": label, "color": color, "window": window })
        };
        let omero = json!({ "omero": { "channels": [channel("DAPI", "0000FF"), channel("GFP", "00FF00")] } });
        self.image_with(folder, path, "tczyx", &[2, 2, 8, 16, 16], 3, omero);
        self.group(folder, &format!("{path}/labels"), json!({ "labels": ["nuclei"] }));
        let label = json!({ "image-label": {
            "colors": [{ "label-value": 1, "rgba": [255, 0, 0, 255] }],
            "properties": [{ "label-value": 1, "class": "a" }, { "label-value": 2, "class": "b" }],
            "source": { "image": "../../" },
        } });
        let nuclei = format!("{path}/labels/nuclei");
        self.image_with(folder, &nuclei, "tczyx", &[2, 1, 8, 16, 16], 3, label);
    }

    /// The metadata of a plate of 8 rows and 12 columns with these wells. Nothing else is made.
    pub fn plate(self, folder: &Folder, path: &str, wells: &[(usize, usize)]) {
        let name = |name: String| json!({ "name": name });
        let row = |row: usize| char::from(b'A' + row as u8).to_string();
        let wells: Vec<Value> = wells
            .iter()
            .map(|&(r, c)| {
                let path = format!("{}/{}", row(r), c + 1);
                json!({ "path": path, "rowIndex": r, "columnIndex": c })
            })
            .collect();
        let mut plate = json!({
            "name": "screen",
            "rows": (0..8).map(row).map(name).collect::<Vec<_>>(),
            "columns": (1..=12).map(|n: u32| name(n.to_string())).collect::<Vec<_>>(),
            "wells": wells,
            "field_count": 2,
            "acquisitions": [{ "id": 0, "name": "first" }, { "id": 1 }],
        });
        if self == Self::V04 {
            plate["version"] = json!("0.4");
        }
        self.group(folder, path, json!({ "plate": plate }));
    }

    /// A well with two small fields.
    pub fn well(self, folder: &Folder, path: &str) {
        let mut well = json!({ "images": [
            { "path": "0", "acquisition": 0 }, { "path": "1", "acquisition": 1 },
        ] });
        if self == Self::V04 {
            well["version"] = json!("0.4");
        }
        self.group(folder, path, json!({ "well": well }));
        for field in ["0", "1"] {
            self.image(folder, &format!("{path}/{field}"), "yx", &[4, 4], 1);
        }
    }
}

pub const BOTH: [Version; 2] = [Version::V04, Version::V05];
