//! `datasource-properties.json`: the layers of a webknossos data set, and their extents.

use serde_json::{Map, Value};

/// What is wrong with the document.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("\"{member}\" {reason}")]
pub struct PropertiesError {
    /// Which member of the document.
    pub member: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Properties {
    pub layers: Vec<Layer>,
    pub voxel_size: Option<VoxelSize>,
}

/// How large a voxel is at magnification 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VoxelSize {
    pub factor: [f64; 3],
    pub unit: String,
}

/// A layer of the data set.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layer {
    pub name: String,
    /// `color` or `segmentation`.
    pub category: Option<String>,
    /// `wkw`, or another format that its arrays are stored in.
    pub format: String,
    pub bounds: Bounds,
    /// The finest first.
    pub mags: Vec<Mag>,
}

/// The bounding box of a layer, in voxels of magnification 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub top_left: [i64; 3],
    pub size: [u64; 3],
}

impl Bounds {
    /// Voxels from zero to the end of the box at a magnification.
    pub fn end(&self, mag: [u64; 3]) -> [u64; 3] {
        std::array::from_fn(|axis| {
            let end = self.top_left[axis].saturating_add_unsigned(self.size[axis]);
            u64::try_from(end).unwrap_or(0).div_ceil(mag[axis].max(1))
        })
    }
}

/// A magnification of a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mag {
    /// Voxels of magnification 1 per voxel, along each axis.
    pub mag: [u64; 3],
    /// The folder, relative to the document's; `None` if it follows from the magnification.
    path: Option<String>,
}

impl Mag {
    /// Whether it lies outside the data set: its path is a URL.
    pub fn is_elsewhere(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.contains("://"))
    }

    /// The folders that it may be in, relative to the document's.
    pub fn folders(&self, layer: &str) -> Vec<String> {
        if let Some(path) = &self.path {
            return vec![path.trim_start_matches("./").trim_end_matches('/').to_owned()];
        }
        let [x, y, z] = self.mag;
        let each = format!("{layer}/{x}-{y}-{z}");
        if x == y && y == z { vec![format!("{layer}/{x}"), each] } else { vec![each] }
    }
}

fn wrong(member: &str, reason: &str) -> PropertiesError {
    PropertiesError { member: member.to_owned(), reason: reason.to_owned() }
}

impl Properties {
    pub fn parse(bytes: &[u8]) -> Result<Self, PropertiesError> {
        let document: Value = serde_json::from_slice(bytes).map_err(|error| {
            wrong("datasource-properties.json", &format!("is not JSON: {error}"))
        })?;
        let layers = document.get("dataLayers").and_then(Value::as_array);
        let layers = layers.ok_or_else(|| wrong("dataLayers", "is not a list"))?;
        let layers = layers.iter().enumerate().map(|(i, layer)| {
            let at = format!("dataLayers[{i}]");
            match layer {
                Value::Object(layer) => Layer::parse(layer, &at),
                _ => Err(wrong(&at, "is not an object")),
            }
        });
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { layers, voxel_size: document.get("scale").and_then(voxel_size) })
    }

    pub fn layer(&self, name: &str) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.name == name)
    }
}

/// A list of three lengths, or in newer documents an object with a unit.
fn voxel_size(scale: &Value) -> Option<VoxelSize> {
    let (factor, unit) = match scale {
        Value::Object(members) => (members.get("factor")?, members.get("unit")),
        list => (list, None),
    };
    let factor: Vec<f64> = factor.as_array()?.iter().map(Value::as_f64).collect::<Option<_>>()?;
    let unit = unit.and_then(Value::as_str).unwrap_or("nanometer").to_owned();
    Some(VoxelSize { factor: factor.try_into().ok()?, unit })
}

/// Three numbers.
fn three<T>(value: &Value, number: impl Fn(&Value) -> Option<T>) -> Option<[T; 3]> {
    let list: Vec<T> = value.as_array()?.iter().map(number).collect::<Option<_>>()?;
    list.try_into().ok()
}

impl Layer {
    /// Whether its arrays are stored in this format.
    pub fn is_wkw(&self) -> bool {
        self.format == "wkw"
    }

    fn parse(layer: &Map<String, Value>, at: &str) -> Result<Self, PropertiesError> {
        let member = |name: &str| format!("{at}.{name}");
        let word = |name: &str| layer.get(name).and_then(Value::as_str).map(str::to_owned);
        let name = word("name").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| wrong(&member("name"), "is missing"))?;
        let bounds = layer.get("boundingBox").and_then(bounds).ok_or_else(|| {
            wrong(&member("boundingBox"), "is not a topLeft with width, height and depth")
        })?;
        let mut mags = Vec::new();
        for (list, mag) in [("mags", "mag"), ("wkwResolutions", "resolution")] {
            let Some(Value::Array(found)) = layer.get(list) else { continue };
            for found in found {
                let unknown = || wrong(&member(list), "has one without a magnification above 0");
                let mag = found.get(mag).and_then(magnification).ok_or_else(unknown)?;
                let path = found.get("path").and_then(Value::as_str).map(str::to_owned);
                mags.push(Mag { mag, path });
            }
            break;
        }
        mags.sort_by_key(|Mag { mag, .. }| (mag.iter().copied().max(), *mag));
        let format = word("dataFormat").unwrap_or_else(|| "wkw".to_owned());
        Ok(Self { name, category: word("category"), format, bounds, mags })
    }
}

fn magnification(value: &Value) -> Option<[u64; 3]> {
    let mag = match value.as_u64() {
        Some(all) => [all; 3],
        None => three(value, Value::as_u64)?,
    };
    (!mag.contains(&0)).then_some(mag)
}

fn bounds(value: &Value) -> Option<Bounds> {
    let top_left = three(value.get("topLeft")?, Value::as_i64)?;
    let length = |name: &str| value.get(name).and_then(Value::as_u64);
    Some(Bounds { top_left, size: [length("width")?, length("height")?, length("depth")?] })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layer(members: Value) -> Value {
        let mut layer = json!({
            "name": "color", "category": "color", "dataFormat": "wkw",
            "boundingBox": { "topLeft": [3, 5, 7], "width": 100, "height": 50, "depth": 20 },
        });
        if let (Value::Object(layer), Value::Object(members)) = (&mut layer, members) {
            layer.extend(members);
        }
        layer
    }

    fn parse(layer: Value) -> Result<Properties, PropertiesError> {
        Properties::parse(
            json!({ "dataLayers": [layer], "scale": [4, 4, 28.5] }).to_string().as_bytes(),
        )
    }

    #[test]
    fn magnifications_of_both_generations_of_documents_are_in_order() {
        let old = json!({ "wkwResolutions": [
            { "resolution": [4, 4, 2], "cubeLength": 1024 }, { "resolution": 1 }, { "resolution": 2 },
        ]});
        let found = parse(layer(old)).unwrap();
        let mags: Vec<_> = found.layers[0].mags.iter().map(|mag| mag.folders("color")).collect();
        assert_eq!(
            mags,
            [vec!["color/1", "color/1-1-1"], vec!["color/2", "color/2-2-2"], vec!["color/4-4-2"]]
        );
        assert_eq!(found.voxel_size.unwrap().factor, [4.0, 4.0, 28.5]);
        let new = json!({ "mags": [
            { "mag": [2, 2, 1], "path": "./color/2-2-1/" }, { "mag": [1, 1, 1], "path": "raw/fine" },
        ]});
        let found = parse(layer(new)).unwrap();
        let mags: Vec<_> = found.layers[0].mags.iter().map(|mag| mag.folders("color")).collect();
        assert_eq!(mags, [["raw/fine"], ["color/2-2-1"]]);
    }

    #[test]
    fn an_extent_ends_where_the_box_does_rounded_up() {
        let bounds = parse(layer(json!({}))).unwrap().layers[0].bounds;
        assert_eq!(bounds.end([1, 1, 1]), [103, 55, 27]);
        assert_eq!(bounds.end([2, 2, 4]), [52, 28, 7]);
        let before = Bounds { top_left: [-10, i64::MAX, 0], size: [4, u64::MAX, 0] };
        assert_eq!(before.end([1, 1, 1]), [0, i64::MAX as u64, 0]);
    }

    #[test]
    fn a_document_that_says_nothing_of_extents_is_refused_by_its_member() {
        for (members, member) in [
            (json!({ "name": "" }), "dataLayers[0].name"),
            (
                json!({ "boundingBox": { "topLeft": [0, 0], "width": 1 } }),
                "dataLayers[0].boundingBox",
            ),
            (json!({ "mags": [{ "mag": [1, 0, 1] }] }), "dataLayers[0].mags"),
            (json!({ "wkwResolutions": [{}] }), "dataLayers[0].wkwResolutions"),
        ] {
            assert_eq!(parse(layer(members)).unwrap_err().member, member);
        }
        for document in ["{", "[]", "{}", r#"{"dataLayers": [7]}"#] {
            assert!(Properties::parse(document.as_bytes()).is_err(), "{document}");
        }
    }
}
