//! OME-Zarr metadata: any attributes are judged, read, and written in every version.

use serde_json::{Map, Value, json};
use shardine::ome::{OmeMetadata, OmeRelease, OmeVersion, rules};

use crate::memory;

pub fn run(input: &[u8]) {
    memory::bounded(4096 * input.len() + (1 << 20), || check(input));
}

fn check(input: &[u8]) {
    let Ok(attributes) = serde_json::from_slice::<Map<String, Value>>(input) else { return };
    for zarr_format in [None, Some(2), Some(3)] {
        rules::violations(&attributes, zarr_format);
    }
    let Ok(Some(metadata)) = OmeMetadata::read(&attributes) else { return };
    for image in &metadata.images {
        for level in 0..image.levels.len().min(8) {
            let _ = image.placement(level);
        }
    }
    for release in [OmeRelease::V0_4, OmeRelease::V0_5, OmeRelease::V0_6] {
        let version = OmeVersion::from(release);
        let mut once = attributes.clone();
        if metadata.write(&version, &mut once).is_err() {
            continue;
        }
        // Nothing is left of metadata that says nothing.
        let Ok(again) = OmeMetadata::read(&once) else { panic!("what was written is refused") };
        let Some(again) = again else { continue };
        let mut twice = once.clone();
        again.write(&version, &mut twice).expect("what was read is written again");
        assert_eq!(once, twice, "it changes each time it is written");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let axes = json!([{"name": "c", "type": "channel"}, {"name": "x", "type": "space"}]);
    let scale = json!([{"type": "scale", "scale": [1, 0.5]},
        {"type": "translation", "translation": [0, 0.0]}]);
    let image = json!({"version": "0.4", "axes": axes, "name": "a",
        "datasets": [{"path": "0", "coordinateTransformations": scale}],
        "coordinateTransformations": [{"type": "scale", "scale": [1, 2]}]});
    let systems = json!([{"name": "p", "axes": axes}, {"name": "w", "axes": axes}]);
    let newer = json!({"coordinateSystems": systems, "datasets": [{"path": "0",
        "coordinateTransformations": [{"type": "sequence", "transformations": scale,
            "input": {"path": "0"}, "output": {"name": "p"}}]}],
        "coordinateTransformations": [{"type": "affine", "affine": [[1, 0, 0], [0, 1, 0]],
            "input": {"name": "p"}, "output": {"name": "w"}}]});
    let channel = json!({"color": "00FF00", "label": "a",
        "window": {"min": 0, "max": 255, "start": 1, "end": 9.5}});
    let plate = json!({"rows": [{"name": "A"}], "columns": [{"name": "1"}], "version": "0.4",
        "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}], "field_count": 1});
    [
        json!({"multiscales": [image], "omero": {"channels": [channel]}, "mine": 1}),
        json!({"multiscales": [{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]}),
        json!({"ome": {"version": "0.6rc0", "multiscales": [newer]}}),
        json!({"ome": {"version": "0.6", "scene": {"coordinateTransformations": [
            {"type": "bijection", "forward": {"type": "identity"}, "inverse": {"type": "identity"},
                "input": {"path": "a", "name": "p"}, "output": {"path": "b", "name": "p"}}]}}}),
        json!({ "plate": plate }),
        json!({"ome": {"version": "0.5", "well": {"images": [{"path": "0", "acquisition": 1}]}}}),
        json!({"labels": ["cells"]}),
        json!({"ome": {"version": "0.5", "image-label": {"colors": [
            {"label-value": 1, "rgba": [255, 0, 0, 255]}], "source": {"image": "../../"}}}}),
        json!({"bioformats2raw.layout": 3, "series": ["0", "1"]}),
    ]
    .iter()
    .map(|document| document.to_string().into_bytes())
    .collect()
}
