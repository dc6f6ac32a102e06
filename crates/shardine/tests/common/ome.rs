//! Small OME-Zarr hierarchies of 0.4 and before, as documents of Zarr version 2 and a chunk each.

use serde_json::{Map, Value, json};

/// The files of a hierarchy, by key.
#[derive(Debug, Default, Clone)]
pub struct Files(pub Vec<(String, Vec<u8>)>);

/// A path below another one.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

impl Files {
    pub fn put(&mut self, path: &str, name: &str, bytes: &[u8]) {
        self.0.push((join(path, name), bytes.to_vec()));
    }

    pub fn json(&mut self, path: &str, name: &str, document: &Value) {
        self.put(path, name, document.to_string().as_bytes());
    }

    pub fn group(&mut self, path: &str, attributes: &Value) {
        self.json(path, ".zgroup", &json!({"zarr_format": 2}));
        if *attributes != json!({}) {
            self.json(path, ".zattrs", attributes);
        }
    }

    /// An array of one chunk.
    pub fn array(&mut self, path: &str, shape: &[u64]) {
        let document = json!({
            "zarr_format": 2, "shape": shape, "chunks": shape, "dtype": "|u1", "order": "C",
            "fill_value": 0, "filters": null, "compressor": null, "dimension_separator": "/",
        });
        self.json(path, ".zarray", &document);
        let len: u64 = shape.iter().product();
        let chunk: Vec<u8> = (0..len).map(|i| (i % 251) as u8 | 1).collect();
        self.put(path, &vec!["0"; shape.len()].join("/"), &chunk);
    }

    /// An image of three axes with this many levels, and other attributes.
    pub fn image(&mut self, path: &str, levels: u32, others: &Value) {
        let mut attributes = image(levels);
        attributes.extend(others.as_object().cloned().unwrap());
        self.group(path, &Value::Object(attributes));
        for level in 0..levels {
            self.array(&join(path, &level.to_string()), &[2, 8 >> level, 8 >> level]);
        }
    }

    /// An image with two label images.
    pub fn labelled(&mut self, path: &str, levels: u32) {
        self.image(path, levels, &omero());
        let labels = join(path, "labels");
        self.group(&labels, &json!({"labels": ["cells", "nuclei"]}));
        for name in ["cells", "nuclei"] {
            let label = json!({"image-label": {
                "version": "0.4", "source": {"image": "../../"},
                "colors": [{"label-value": 1, "rgba": [255, 0, 0, 128]}],
                "properties": [{"label-value": 1, "area": 12}],
            }});
            self.image(&join(&labels, name), levels, &label);
        }
    }

    /// A plate with these rows and columns, and two fields with labels in each well.
    pub fn plate(&mut self, path: &str, rows: &[&str], columns: &[&str], fields: u32, levels: u32) {
        let named = |names: &[&str]| -> Value {
            names.iter().map(|name| json!({ "name": name })).collect()
        };
        let mut wells = Vec::new();
        for (row, row_name) in rows.iter().enumerate() {
            for (column, column_name) in columns.iter().enumerate() {
                let well = format!("{row_name}/{column_name}");
                wells.push(json!({"path": well, "rowIndex": row, "columnIndex": column}));
            }
        }
        self.group(
            path,
            &json!({"plate": {
                "version": "0.4", "name": "trial", "field_count": fields, "rows": named(rows),
                "columns": named(columns), "wells": wells,
                "acquisitions": [{"id": 0, "name": "first", "maximumfieldcount": fields}],
            }, "operator": "someone"}),
        );
        for row in rows {
            self.group(&join(path, row), &json!({}));
            for column in columns {
                let well = join(path, &format!("{row}/{column}"));
                let images: Vec<Value> = (0..fields)
                    .map(|field| json!({"path": field.to_string(), "acquisition": 0}))
                    .collect();
                self.group(&well, &json!({"well": {"version": "0.4", "images": images}}));
                for field in 0..fields {
                    self.labelled(&join(&well, &field.to_string()), levels);
                }
            }
        }
    }

    /// What bioformats2raw makes of a file with two images.
    pub fn bioformats2raw(&mut self, path: &str) {
        self.group(path, &json!({"bioformats2raw.layout": 3}));
        self.group(&join(path, "OME"), &json!({"series": ["0", "1"]}));
        self.put(&join(path, "OME"), "METADATA.ome.xml", b"<OME/>");
        for series in ["0", "1"] {
            self.image(&join(path, series), 2, &omero());
        }
    }

    /// A copy of all documents, in the outermost group.
    pub fn consolidated(&mut self, path: &str) {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let is_document = |name: &str| {
            [".zgroup", ".zarray", ".zattrs"].contains(&name.rsplit('/').next().unwrap())
        };
        let all: Map<String, Value> = (self.0.iter())
            .filter(|(name, _)| is_document(name))
            .filter_map(|(name, bytes)| {
                let json = serde_json::from_slice(bytes).unwrap();
                Some((name.strip_prefix(&prefix)?.to_owned(), json))
            })
            .collect();
        let document = json!({"zarr_consolidated_format": 1, "metadata": all});
        self.json(path, ".zmetadata", &document);
    }

    /// The documents of version 2 among them.
    pub fn documents(&self) -> impl Iterator<Item = &(String, Vec<u8>)> {
        self.0.iter().filter(|(name, _)| name.rsplit('/').next().unwrap().starts_with(".z"))
    }

    /// The paths of its nodes.
    pub fn nodes(&self) -> Vec<String> {
        let node = |(name, _): &(String, Vec<u8>)| {
            let (path, name) = name.rsplit_once('/').unwrap_or(("", name));
            [".zgroup", ".zarray"].contains(&name).then(|| path.to_owned())
        };
        self.0.iter().filter_map(node).collect()
    }
}

/// The attributes of an image with this many levels.
pub fn image(levels: u32) -> Map<String, Value> {
    let level = |level: u32| {
        let factor = f64::from(1 << level);
        let mut all = vec![json!({"type": "scale", "scale": [1.0, 0.5 * factor, 0.25 * factor]})];
        if level > 0 {
            let by = [0.0, 0.25 * (factor - 1.0), 0.125 * (factor - 1.0)];
            all.push(json!({"type": "translation", "translation": by}));
        }
        json!({"path": level.to_string(), "coordinateTransformations": all})
    };
    let image = json!({
        "version": "0.4", "name": "trial",
        "axes": [
            {"name": "c", "type": "channel"},
            {"name": "y", "type": "space", "unit": "micrometer"},
            {"name": "x", "type": "space", "unit": "micrometer"},
        ],
        "datasets": (0..levels).map(level).collect::<Vec<_>>(),
        "type": "gaussian", "metadata": {"method": "unknown"},
    });
    let all = json!({"multiscales": [image], "mine": {"kept": [1, 2.5, "three"]}});
    all.as_object().cloned().unwrap()
}

pub fn omero() -> Value {
    let channel = |label: &str, color: &str| {
        json!({"label": label, "color": color, "active": true,
            "window": {"min": 0, "max": 255, "start": 10, "end": 200.5}})
    };
    let channels = [channel("a", "00FF00"), channel("b", "FF0000")];
    json!({"omero": {"channels": channels, "rdefs": {"model": "color"}, "version": "0.4"}})
}
