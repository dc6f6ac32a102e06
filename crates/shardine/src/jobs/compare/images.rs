//! OME-Zarr metadata, compared by what it says, whatever its version.

use serde_json::{Map, Value};

use crate::ome::{Image, OmeMetadata, OmeRelease, Other};

/// The names of the axes of each level that the attributes of a group list, by its path below the
/// group.
pub(super) fn level_axes(attributes: &Map<String, Value>) -> Vec<(String, Vec<Option<String>>)> {
    let Ok(Some(metadata)) = OmeMetadata::read(attributes) else { return Vec::new() };
    let of_image = |image: &Image| {
        let names: Vec<Option<String>> =
            image.axes.iter().map(|axis| Some(axis.name.clone())).collect();
        let level = |path: &String| (path.clone(), names.clone());
        image.levels.iter().map(|level| &level.path).map(level).collect::<Vec<_>>()
    };
    metadata.images.iter().flat_map(of_image).collect()
}

/// The attributes of two groups, in forms that are equal if they say the same.
pub(super) fn alike(
    a: Map<String, Value>,
    b: Map<String, Value>,
) -> (Map<String, Value>, Map<String, Value>) {
    let (Ok(Some(mut in_a)), Ok(Some(mut in_b))) = (OmeMetadata::read(&a), OmeMetadata::read(&b))
    else {
        return (a, b);
    };
    settle(&mut in_a);
    settle(&mut in_b);
    for (a, b) in in_a.images.iter_mut().zip(&mut in_b.images) {
        // Before 0.4 no level says where it is.
        let says_nothing =
            |image: &Image| image.levels.iter().all(|level| level.transformations.is_empty());
        if says_nothing(a) != says_nothing(b) {
            for level in a.levels.iter_mut().chain(&mut b.levels) {
                level.transformations.clear();
            }
        }
    }
    match (plain(&in_a, &a), plain(&in_b, &b)) {
        (Some(a), Some(b)) => (a, b),
        _ => (a, b),
    }
}

/// Leaves out what only some versions say, and what says nothing.
fn settle(metadata: &mut OmeMetadata) {
    let forget = |other: Option<&mut Other>| {
        if let Some(other) = other {
            other.shift_remove("version");
        }
    };
    forget(metadata.omero.as_mut().map(|of| &mut of.other));
    forget(metadata.image_label.as_mut().map(|of| &mut of.other));
    forget(metadata.plate.as_mut().map(|of| &mut of.other));
    forget(metadata.well.as_mut().map(|of| &mut of.other));
    for image in &mut metadata.images {
        let has_systems = !image.other_systems.is_empty() || !image.transformations.is_empty();
        if image.system.is_some() && has_systems {
            continue;
        }
        let says = image.levels.iter().any(|level| !level.transformations.is_empty());
        let placed: Result<Vec<_>, _> =
            (0..image.levels.len()).map(|level| image.placement(level)).collect();
        let Ok(placed) = placed else { continue };
        if says || !image.transformations.is_empty() {
            for (level, placement) in placed.iter().enumerate() {
                image.set_placement(level, placement);
            }
        }
        image.system = None;
        image.transformations.clear();
    }
}

/// All attributes, with those of OME-Zarr in one form; `None` if there is none.
fn plain(metadata: &OmeMetadata, attributes: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut all = attributes.clone();
    // Every transformation has a form there.
    metadata.write(&OmeRelease::V0_6.into(), &mut all).ok()?;
    let Some(Value::Object(mut ome)) = all.shift_remove("ome") else { return None };
    ome.shift_remove("version");
    // Up to 0.4 what is not known is an attribute like any other.
    all.extend(ome);
    Some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(json: Value) -> Map<String, Value> {
        json.as_object().cloned().unwrap()
    }

    #[test]
    fn versions_that_say_the_same_are_alike() {
        let axes = json!([{"name": "y", "type": "space"}, {"name": "x", "type": "space"}]);
        let scale = |n: f64| json!({"type": "scale", "scale": [n, n]});
        let old = object(json!({
            "multiscales": [{
                "version": "0.4", "axes": axes, "name": "a",
                "datasets": [{"path": "0", "coordinateTransformations": [scale(2.0)]}],
                "coordinateTransformations": [scale(3.0)],
            }],
            "omero": {"channels": [], "version": "0.4"}, "note": 1, "more": true,
        }));
        let new = |factor: f64| {
            object(json!({
                "ome": {
                    "version": "0.5", "more": true, "omero": {"channels": []},
                    "multiscales": [{
                        "axes": axes, "name": "a",
                        "datasets": [
                            {"path": "0", "coordinateTransformations": [scale(factor)]},
                        ],
                    }],
                },
                "note": 1,
            }))
        };
        let (a, b) = alike(old.clone(), new(6.0));
        assert_eq!(a, b);
        let (a, b) = alike(old.clone(), new(5.0));
        assert_eq!((a["note"] == b["note"], a["multiscales"] == b["multiscales"]), (true, false));
        // Without metadata on one side, everything else is compared as it is.
        let (a, b) = alike(old.clone(), object(json!({"note": 1})));
        assert_eq!((a, b.len()), (old, 1));
        let names = level_axes(&new(1.0));
        assert_eq!(names, [("0".to_owned(), vec![Some("y".to_owned()), Some("x".to_owned())])]);
    }
}
