//! Small OME-Zarr hierarchies of 0.5, as documents of Zarr version 3 with a chunk each.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shardine::store::{Condition, Key, Store, StoreExt};

use super::ome::join;

/// The objects of a hierarchy, by key.
#[derive(Debug, Default, Clone)]
pub struct Documents(pub BTreeMap<String, Vec<u8>>);

impl Documents {
    pub fn json(&mut self, key: &str, document: &Value) {
        self.0.insert(key.to_owned(), document.to_string().into_bytes());
    }

    /// A group; `ome` is its metadata, or null.
    pub fn group(&mut self, path: &str, ome: &Value) {
        let mut document = json!({"zarr_format": 3, "node_type": "group",
            "attributes": {"mine": {"kept": [1, "two"]}}});
        if !ome.is_null() {
            document["attributes"]["ome"] = ome.clone();
        }
        self.json(&join(path, "zarr.json"), &document);
    }

    /// An array of one chunk.
    pub fn array(&mut self, path: &str, shape: &[u64], names: &[&str]) {
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
            "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": ["bytes"],
            "attributes": {"mine": 12}, "dimension_names": names,
        });
        self.json(&join(path, "zarr.json"), &document);
        let len: u64 = shape.iter().product();
        let chunk = (0..len).map(|i| (i % 251) as u8 | 1).collect();
        self.0.insert(join(path, &format!("c/{}", vec!["0"; shape.len()].join("/"))), chunk);
    }

    /// An image of two axes and two levels, 0 and 1.
    pub fn image(&mut self, path: &str, others: &Value) {
        let level = |number: u32| {
            json!({"path": number.to_string(), "kept": number, "coordinateTransformations": [
                {"type": "scale", "scale": [1 << number, 1 << number]}]})
        };
        let axis = |name: &str| json!({"name": name, "type": "space", "unit": "micrometer"});
        let mut ome = json!({"version": "0.5", "multiscales": [{
            "name": "trial", "type": "mean", "metadata": {}, "mine": "kept",
            "axes": [axis("y"), axis("x")], "datasets": [level(0), level(1)],
        }]});
        ome.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
        self.group(path, &ome);
        self.array(&join(path, "0"), &[8, 8], &["y", "x"]);
        self.array(&join(path, "1"), &[4, 4], &["y", "x"]);
    }

    /// An image with a label image.
    pub fn labelled(&mut self, path: &str) {
        self.image(path, &json!({}));
        let labels = join(path, "labels");
        self.group(&labels, &json!({"version": "0.5", "labels": ["cells"]}));
        let label = json!({"image-label": {"colors": [{"label-value": 1}]}});
        self.image(&join(&labels, "cells"), &label);
    }

    /// A plate with these many rows and columns, and fields in each well.
    pub fn plate(&mut self, path: &str, rows: usize, columns: usize, fields: usize) {
        let row = |number: usize| char::from(b'A' + number as u8).to_string();
        let named = |names: Vec<String>| -> Value {
            names.iter().map(|name| json!({ "name": name })).collect()
        };
        let wells: Vec<Value> = (0..rows * columns)
            .map(|well| {
                let (r, c) = (well / columns, well % columns);
                let path = format!("{}/{}", row(r), c + 1);
                json!({"path": path, "rowIndex": r, "columnIndex": c})
            })
            .collect();
        let plate = json!({
            "name": "trial", "field_count": fields, "rows": named((0..rows).map(row).collect()),
            "columns": named((1..=columns).map(|c| c.to_string()).collect()), "wells": wells,
        });
        self.group(path, &json!({"version": "0.5", "plate": plate}));
        for r in 0..rows {
            self.group(&join(path, &row(r)), &Value::Null);
            for c in 1..=columns {
                let well = join(path, &format!("{}/{c}", row(r)));
                let images: Vec<Value> =
                    (0..fields).map(|field| json!({"path": field.to_string()})).collect();
                self.group(&well, &json!({"version": "0.5", "well": {"images": images}}));
                for field in 0..fields {
                    self.image(&join(&well, &field.to_string()), &json!({}));
                }
            }
        }
    }

    /// A document.
    pub fn get(&self, key: &str) -> Value {
        serde_json::from_slice(&self.0[key]).unwrap()
    }

    /// Changes a document.
    pub fn change(&mut self, key: &str, change: impl FnOnce(&mut Value)) {
        let mut document = self.get(key);
        change(&mut document);
        self.json(key, &document);
    }

    /// Changes the OME-Zarr metadata of a group.
    pub fn change_ome(&mut self, group: &str, change: impl FnOnce(&mut Value)) {
        self.change(&join(group, "zarr.json"), |document| {
            change(&mut document["attributes"]["ome"]);
        });
    }

    /// Removes the version of a group.
    pub fn forget_version(&mut self, group: &str) {
        self.change_ome(group, |ome| {
            ome.as_object_mut().unwrap().shift_remove("version").unwrap();
        });
    }

    /// Gives a group a copy of the metadata of all nodes below it.
    pub fn consolidate(&mut self, group: &str) {
        let prefix = if group.is_empty() { String::new() } else { format!("{group}/") };
        let mut copies = serde_json::Map::new();
        for key in self.0.keys() {
            let path = key.strip_prefix(&prefix).and_then(|key| key.strip_suffix("/zarr.json"));
            copies.extend(path.map(|path| (path.to_owned(), self.get(key))));
        }
        self.change(&format!("{prefix}zarr.json"), |document| {
            document["consolidated_metadata"] =
                json!({"kind": "inline", "must_understand": false, "metadata": copies});
        });
    }

    pub fn put_into(&self, store: &dyn Store) {
        for (key, bytes) in &self.0 {
            store.put(&Key::new(key).unwrap(), bytes, Condition::None).unwrap();
        }
    }
}

/// A plate of two wells with everything wrong that can be corrected without a guess.
pub fn mendable() -> Documents {
    let mut all = Documents::default();
    all.plate("p", 1, 2, 1);
    all.labelled("p/A/2/0");
    all.consolidate("p");
    let datasets = |ome: &mut Value| {
        let datasets = ome["multiscales"][0]["datasets"].as_array_mut().unwrap();
        datasets.reverse();
    };
    // Levels, dimensions and versions, of which only that of one well is left.
    all.change_ome("p/A/1/0", datasets);
    for (group, array) in [("p/A/1/0", "0"), ("p/A/2/0/labels/cells", "1")] {
        all.forget_version(group);
        all.change(&format!("{group}/{array}/zarr.json"), |array| {
            array.as_object_mut().unwrap().shift_remove("dimension_names");
        });
    }
    all.change("p/A/2/0/0/zarr.json", |array| array["dimension_names"] = json!(["a", "x"]));
    for group in ["p", "p/A/1", "p/A/2/0", "p/A/2/0/labels"] {
        all.forget_version(group);
    }
    // Labels, and where wells are.
    all.change_ome("p/A/2/0/labels", |ome| ome["labels"] = json!(["gone"]));
    all.change_ome("p", |ome| {
        ome["plate"]["wells"][1].as_object_mut().unwrap().shift_remove("columnIndex");
    });
    all
}
