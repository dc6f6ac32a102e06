//! What OME-Zarr says about the levels of an image: their order, their axes, and the size of a
//! voxel.

use serde_json::{Map, Value};

use super::view::RANK;
use crate::precomputed::AXES;
use crate::zarr::metadata::check_node_name;

/// The units of length that OME-Zarr recommends, with their usual abbreviations, in nanometres.
const UNITS: [(&str, f64); 28] = [
    ("angstrom", 1e-1),
    ("attometer", 1e-9),
    ("centimeter", 1e7),
    ("cm", 1e7),
    ("decimeter", 1e8),
    ("femtometer", 1e-6),
    ("foot", 3.048e8),
    ("gigameter", 1e18),
    ("hectometer", 1e11),
    ("inch", 2.54e7),
    ("kilometer", 1e12),
    ("m", 1e9),
    ("megameter", 1e15),
    ("meter", 1e9),
    ("micrometer", 1e3),
    ("micron", 1e3),
    ("mile", 1.609344e12),
    ("millimeter", 1e6),
    ("mm", 1e6),
    ("nanometer", 1.0),
    ("nm", 1.0),
    ("picometer", 1e-3),
    ("pm", 1e-3),
    ("um", 1e3),
    ("\u{b5}m", 1e3),
    ("\u{3bc}m", 1e3),
    ("yard", 9.144e8),
    ("zeptometer", 1e-12),
];

/// An image.
#[derive(Debug)]
pub(in crate::jobs) struct Multiscale {
    /// The names of the axes, with t and c for those of time and channels.
    pub axes: Vec<String>,
    units: Vec<Option<String>>,
    /// Finest first.
    pub levels: Vec<Said>,
}

/// What the metadata says about a level.
#[derive(Debug)]
pub(in crate::jobs) struct Said {
    /// Its path below the group.
    pub path: String,
    scale: Option<Vec<f64>>,
    translation: Option<Vec<f64>>,
}

/// The position and size of a level's voxels.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::jobs) struct Voxels {
    /// Nanometres along x, y and z.
    pub resolution: Option<[f64; 3]>,
    /// The position of the first voxel.
    pub offset: Option<[i64; 3]>,
}

impl Multiscale {
    /// The image that the attributes of a group describe, if any; or why they are invalid.
    pub fn find(attributes: &Map<String, Value>) -> Option<Result<Self, String>> {
        let ome = attributes.get("ome").and_then(|ome| ome.get("multiscales"));
        let images = ome.or_else(|| attributes.get("multiscales"))?;
        Some(match images.as_array().map(Vec::as_slice) {
            Some([image, ..]) => Self::parse(image),
            _ => Err("\"multiscales\" is not a list of images".to_owned()),
        })
    }

    fn parse(image: &Value) -> Result<Self, String> {
        let system = image.get("coordinateSystems").and_then(|systems| systems.get(0));
        let axes = image.get("axes").or_else(|| system?.get("axes"));
        let (mut names, mut units) = (Vec::new(), Vec::new());
        match axes {
            Some(Value::Array(axes)) => {
                for axis in axes {
                    let text = |member: &str| axis.get(member).and_then(Value::as_str);
                    let name = axis.as_str().or_else(|| text("name"));
                    let name = name.ok_or("an axis of \"multiscales\" has no name")?;
                    names.push(match text("type") {
                        Some("channel") => "c".to_owned(),
                        Some("time") => "t".to_owned(),
                        _ => name.to_owned(),
                    });
                    units.push(text("unit").map(str::to_owned));
                }
            }
            Some(_) => return Err("the axes of \"multiscales\" are not a list".to_owned()),
            // Before 0.3 they were always these.
            None => {
                names.extend(["t", "c", "z", "y", "x"].map(str::to_owned));
                units.resize(names.len(), None);
            }
        }
        let datasets = image.get("datasets").and_then(Value::as_array);
        let datasets = datasets.ok_or("\"multiscales\" has no list of datasets")?;
        let (all_scale, all_translation) = transformations(image, names.len())?;
        let mut levels = Vec::new();
        for dataset in datasets {
            let path = dataset.get("path").and_then(Value::as_str);
            let path = path.ok_or("a dataset of \"multiscales\" has no path")?;
            if path.split('/').try_for_each(check_node_name).is_err() {
                let path = path.escape_debug();
                return Err(format!(
                    "\"multiscales\" has the path \"{path}\", which no node can have"
                ));
            }
            let (scale, translation) = transformations(dataset, names.len())?;
            let scale = match (scale, &all_scale) {
                (Some(own), Some(all)) => Some(own.iter().zip(all).map(|(a, b)| a * b).collect()),
                (own, all) => own.or_else(|| all.clone()),
            };
            // The transformation of the whole image comes after that of the level.
            let translation = match (translation, &all_scale, &all_translation) {
                (None, _, None) => None,
                (own, factors, all) => {
                    let of = |list: &Option<Vec<f64>>, axis: usize, default: f64| {
                        list.as_ref().and_then(|list| list.get(axis)).copied().unwrap_or(default)
                    };
                    let along =
                        |axis| of(&own, axis, 0.0) * of(factors, axis, 1.0) + of(all, axis, 0.0);
                    Some((0..names.len()).map(along).collect())
                }
            };
            levels.push(Said { path: path.to_owned(), scale, translation });
        }
        Ok(Self { axes: names, units, levels })
    }

    /// The position and size of a level's voxels; an error if its unit is unknown.
    pub fn voxels(&self, level: &Said) -> Result<Voxels, String> {
        let Some(scale) = &level.scale else { return Ok(Voxels::default()) };
        let (mut resolution, mut offset) = ([1.0; RANK - 1], [0; RANK - 1]);
        for (axis, name) in self.axes.iter().enumerate() {
            let at = AXES.iter().take(RANK - 1).position(|known| name.eq_ignore_ascii_case(known));
            let (Some(at), Some(&scale)) = (at, scale.get(axis)) else { continue };
            let factor = match self.units.get(axis).and_then(Option::as_deref) {
                None => 1.0,
                Some(unit) => {
                    let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
                    let known = known.ok_or_else(|| {
                        format!("the unit \"{}\" of axis {name} is not known", unit.escape_debug())
                    })?;
                    known.1
                }
            };
            resolution[at] = scale * factor;
            let first = level.translation.as_ref().and_then(|list| list.get(axis));
            // A volume begins at a whole voxel.
            offset[at] = first.map_or(0, |first| (first / scale).round() as i64);
        }
        if !resolution.iter().all(|n| n.is_finite() && *n > 0.0) {
            return Err("a scale is not a number above 0".to_owned());
        }
        let offset = level.translation.as_ref().map(|_| offset);
        Ok(Voxels { resolution: Some(resolution), offset })
    }
}

type Numbers = Option<Vec<f64>>;

/// Scale and translation of an image or of one of its levels.
fn transformations(json: &Value, rank: usize) -> Result<(Numbers, Numbers), String> {
    let (mut scale, mut translation) = (None, None);
    let listed = json.get("coordinateTransformations").and_then(Value::as_array);
    let mut waiting: Vec<&Value> = listed.into_iter().flatten().collect();
    // From 0.6 on they may be a sequence of these.
    if let [only] = waiting[..]
        && let Some(sequence) = only.get("transformations").and_then(Value::as_array)
    {
        waiting = sequence.iter().collect();
    }
    for one in waiting {
        let kind = one.get("type").and_then(Value::as_str).unwrap_or_default();
        let numbers = || {
            let numbers = one.get(kind).and_then(Value::as_array)?.iter().map(Value::as_f64);
            numbers.collect::<Option<Vec<f64>>>().filter(|numbers| numbers.len() == rank)
        };
        let wrong = || format!("a {kind} of \"multiscales\" is not a list of {rank} numbers");
        match kind {
            "scale" => scale = Some(numbers().ok_or_else(wrong)?),
            "translation" => translation = Some(numbers().ok_or_else(wrong)?),
            "identity" => {}
            _ => {
                let kind = kind.escape_debug();
                return Err(format!(
                    "a transformation of \"multiscales\" is \"{kind}\", not a scale or translation"
                ));
            }
        }
    }
    Ok((scale, translation))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn image(image: Value) -> Result<Multiscale, String> {
        let Value::Object(attributes) = json!({ "multiscales": [image] }) else { unreachable!() };
        Multiscale::find(&attributes).unwrap()
    }

    #[test]
    fn scales_become_nanometres_along_x_y_and_z() {
        let found = image(json!({
            "axes": [
                {"name": "t", "type": "time"}, {"name": "ch", "type": "channel"},
                {"name": "z", "type": "space", "unit": "micrometer"},
                {"name": "y", "type": "space", "unit": "nanometer"}, {"name": "x", "type": "space"},
            ],
            "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 2, 1, 1]}],
            "datasets": [{"path": "a/0", "coordinateTransformations": [
                {"type": "scale", "scale": [1, 1, 0.5, 4, 5]},
                {"type": "translation", "translation": [0, 0, 2, 8, -5]},
            ]}],
        }))
        .unwrap();
        assert_eq!(found.axes, ["t", "c", "z", "y", "x"]);
        assert_eq!(found.levels[0].path, "a/0");
        let voxels = found.voxels(&found.levels[0]).unwrap();
        assert_eq!(voxels.resolution, Some([5.0, 4.0, 1000.0]));
        assert_eq!(voxels.offset, Some([-1, 2, 4]));
    }

    #[test]
    fn what_cannot_be_understood_is_told() {
        let axes = json!([{"name": "x", "unit": "parrot"}]);
        let scale = |numbers: Value| json!([{"type": "scale", "scale": numbers}]);
        let dataset =
            |path: &str, of: Value| json!({"path": path, "coordinateTransformations": of});
        for (datasets, expected) in [
            (json!([dataset("../x", scale(json!([1])))]), "no node"),
            (json!([dataset("", scale(json!([1])))]), "no node"),
            (json!([dataset("0", scale(json!([1, 2])))]), "1 numbers"),
            (json!([dataset("0", json!([{"type": "affine"}]))]), "affine"),
            (json!([{}]), "no path"),
            (json!(7), "no list of datasets"),
        ] {
            let refused = image(json!({ "axes": axes, "datasets": datasets })).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        let found = image(json!({"axes": axes, "datasets": [dataset("0", scale(json!([1])))]}));
        let found = found.unwrap();
        assert!(found.voxels(&found.levels[0]).unwrap_err().contains("parrot"));
        let zero = image(json!({"axes": ["x"], "datasets": [dataset("0", scale(json!([0])))]}));
        let zero = zero.unwrap();
        assert!(zero.voxels(&zero.levels[0]).is_err());
    }
}
