use serde_json::{Map, Value, json};

use super::*;

fn attributes(json: Value) -> Map<String, Value> {
    json.as_object().cloned().unwrap()
}

fn read(json: Value) -> OmeMetadata {
    OmeMetadata::read(&attributes(json)).unwrap().unwrap()
}

/// The same metadata in the form of a version, among attributes that are not OME-Zarr's.
fn written(metadata: &OmeMetadata, version: &str) -> Result<Value, OmeError> {
    let mut all = attributes(json!({"mine": 1}));
    metadata.write(&version.parse().unwrap(), &mut all)?;
    Ok(Value::Object(all))
}

fn axes() -> Value {
    json!([
        {"name": "c", "type": "channel"},
        {"name": "y", "type": "space", "unit": "micrometer", "orientation": {"value": "up"}},
        {"name": "x", "type": "space", "unit": "micrometer"},
    ])
}

fn level(path: &str, scale: [f64; 3], translation: Option<[f64; 3]>) -> Value {
    let mut all = vec![json!({"type": "scale", "scale": scale})];
    all.extend(translation.map(|by| json!({"type": "translation", "translation": by})));
    json!({"path": path, "coordinateTransformations": all, "note": path})
}

/// An image of 0.4 with everything that one can have.
fn image_04() -> Value {
    json!({
        "multiscales": [{
            "version": "0.4",
            "name": "cells",
            "axes": axes(),
            "datasets": [
                level("0", [1.0, 0.5, 0.25], None),
                level("1", [1.0, 1.0, 0.5], Some([0.0, 0.25, 0.125])),
            ],
            "coordinateTransformations": [{"type": "scale", "scale": [1.0, 10.0, 10.0]}],
            "type": "gaussian",
            "metadata": {"method": "m"},
        }],
        "omero": {
            "channels": [{
                "color": "00FF00", "label": "nuclei", "active": true,
                "window": {"min": 0, "max": 65535, "start": 10, "end": 1500.5, "unknown": []},
            }],
            "rdefs": {"model": "color"},
        },
        "image-label": {
            "colors": [{"label-value": 1, "rgba": [255, 0, 0, 128], "name": "a"}],
            "properties": [{"label-value": 1, "area": 12}],
            "source": {"image": "../../"},
            "version": "0.4",
        },
    })
}

#[test]
fn a_document_survives_being_read_and_written_in_its_own_version() {
    let mut expected = image_04();
    expected["mine"] = json!(1);
    assert_eq!(written(&read(image_04()), "0.4").unwrap(), expected);

    let image = json!({
        "coordinateSystems": [
            {"name": "world", "axes": [{"name": "b"}, {"name": "a"}]},
            {"name": "physical", "axes": [{"name": "y", "type": "space"}, {"name": "x"}], "k": 1},
        ],
        "datasets": [{"path": "s0", "coordinateTransformations": [{
            "type": "sequence", "input": {"path": "s0"}, "output": {"name": "physical"},
            "transformations": [
                {"type": "scale", "scale": [2.0, 2.0]},
                {"type": "translation", "translation": [1.0, 0.0]},
            ],
        }]}],
        "coordinateTransformations": [{
            "type": "rotation", "rotation": [[0.0, -1.0], [1.0, 0.0]],
            "input": {"name": "physical"}, "output": {"name": "world"},
        }],
    });
    let document =
        json!({"ome": {"version": "0.6rc0", "multiscales": [image], "future": {"a": 1}}});
    let metadata = read(document.clone());
    assert_eq!(metadata.image().unwrap().system.as_deref(), Some("physical"));
    assert_eq!(metadata.image().unwrap().placement(0).unwrap().translation, [1.0, 0.0]);
    let again = written(&metadata, "0.6rc0").unwrap();
    let back = read(again.clone());
    assert_eq!(back, metadata);
    assert_eq!(again["ome"]["future"], json!({"a": 1}));
    for version in ["0.4", "0.5"] {
        let refused = written(&metadata, version).unwrap_err();
        assert!(matches!(refused, OmeError::NotExpressible { .. }), "{refused}");
    }
}

#[test]
fn all_versions_place_the_voxels_of_an_image_alike() {
    let metadata = read(image_04());
    let places: Vec<LevelPlacement> =
        (0..2).map(|level| metadata.image().unwrap().placement(level).unwrap()).collect();
    assert_eq!(places[1].scale, [1.0, 10.0, 5.0]);
    assert_eq!(places[1].translation, [0.0, 2.5, 1.25]);
    for version in ["0.5", "0.6", "0.6.dev1", "0.4"] {
        let other = read(written(&metadata, version).unwrap());
        assert_eq!(other.version.to_string(), version);
        assert!(other.states_version);
        let image = other.image().unwrap();
        for (level, place) in places.iter().enumerate() {
            assert_eq!(image.placement(level).unwrap(), *place, "{version}");
        }
        assert_eq!(image.axes, metadata.image().unwrap().axes, "{version}");
        assert_eq!(image.other, metadata.image().unwrap().other, "{version}");
        assert_eq!(other.omero, metadata.omero, "{version}");
        // And back, with nothing lost but what 0.6 has no place for.
        let back = read(written(&other, "0.4").unwrap());
        assert_eq!(back.image().unwrap().placement(1).unwrap(), places[1], "{version}");
    }
}

#[test]
fn a_document_that_was_written_stays_the_same_when_it_is_written_again() {
    let mut image = image_04();
    let zero = json!({"type": "translation", "translation": [0.0, 0.0, 0.0]});
    let transformations = &mut image["multiscales"][0]["datasets"][0]["coordinateTransformations"];
    transformations.as_array_mut().unwrap().push(zero);
    for version in ["0.4", "0.5", "0.6", "0.6rc0"] {
        let once = written(&read(image.clone()), version).unwrap();
        assert_eq!(written(&read(once.clone()), version).unwrap(), once);
    }
}

#[test]
fn versions_after_0_4_state_the_version_once() {
    let document = written(&read(image_04()), "0.5").unwrap();
    assert_eq!(document["ome"]["version"], "0.5");
    assert_eq!(document["ome"]["multiscales"][0].get("version"), None);
    assert_eq!(document["ome"]["image-label"].get("version"), None);
    assert_eq!(document.get("multiscales"), None);
    assert_eq!(document["mine"], 1);
}

#[test]
fn older_versions_and_other_spellings_are_read() {
    let old = read(json!({"multiscales": [{"version": "0.1", "datasets": [{"path": "0"}]}]}));
    let names = |metadata: &OmeMetadata| -> Vec<String> {
        metadata.image().unwrap().axes.iter().map(|axis| axis.name.clone()).collect()
    };
    assert_eq!(names(&old), ["t", "c", "z", "y", "x"]);
    assert_eq!(old.image().unwrap().placement(0).unwrap(), LevelPlacement::identity(5));
    let named = json!({"multiscales": [{"axes": ["y", "x"], "datasets": [{"path": "0"}]}]});
    let named = read(named);
    assert_eq!(named.version.release(), OmeRelease::V0_3);
    assert!(!named.states_version);
    assert_eq!(named.image().unwrap().axes[1].role(), AxisRole::Space);

    // As the first draft of RFC-2 had it.
    let early = json!({"https://ngff.openmicroscopy.org/0.6": {"multiscales": [{
        "coordinateSystems": [{"name": "root", "axes": [{"name": "x", "type": "space"}]}],
        "datasets": [{"path": "1", "coordinateTransformations": [
            {"type": "scale", "scale": [11.24], "input": "/1", "output": "root"}]}],
    }]}});
    let metadata = read(early.clone());
    assert_eq!(metadata.version.release(), OmeRelease::V0_6);
    assert_eq!(metadata.image().unwrap().placement(0).unwrap().scale, [11.24]);
    let mut all = attributes(early);
    metadata.write(&OmeRelease::V0_6.into(), &mut all).unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["ome"]);
}

#[test]
fn plates_wells_and_layouts_are_read_and_written() {
    let plate = json!({"plate": {
        "version": "0.4", "name": "p", "field_count": 2,
        "rows": [{"name": "A"}], "columns": [{"name": "1"}, {"name": "2", "more": 1}],
        "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0, "w": 1}],
        "acquisitions": [{"id": 1, "name": "first"}],
    }});
    let metadata = read(plate.clone());
    assert_eq!(metadata.plate.as_ref().unwrap().wells[0].column, Some(0));
    let mut expected = plate;
    expected["mine"] = json!(1);
    assert_eq!(written(&metadata, "0.4").unwrap(), expected);
    for (version, stated) in [("0.5", json!("0.5")), ("0.6", Value::Null)] {
        let plate = written(&metadata, version).unwrap()["ome"]["plate"].clone();
        assert_eq!(plate["version"], stated);
        assert_eq!(plate["acquisitions"], json!([{"id": 1, "name": "first"}]));
    }
    let well =
        json!({"ome": {"version": "0.5", "well": {"images": [{"path": "0", "acquisition": 1}]}}});
    assert_eq!(read(well).well.unwrap().images[0].path, "0");
    let series = json!({"ome": {"version": "0.5", "series": ["0", "1"]}});
    assert_eq!(read(series).series.unwrap(), ["0", "1"]);
    let layout = read(json!({"bioformats2raw.layout": 3}));
    assert_eq!(layout.bioformats2raw_layout, Some(3.into()));
}

#[test]
fn what_is_no_ome_zarr_is_left_alone() {
    for other in [
        json!({}),
        json!({"labels": "none"}),
        json!({"labels": {"a": 1}}),
        json!({"series": 7}),
        json!({"ome": 7}),
        json!({"scene": {}}),
    ] {
        assert_eq!(OmeMetadata::read(&attributes(other.clone())), Ok(None), "{other}");
    }
}

#[test]
fn the_attributes_of_a_user_are_told_from_the_metadata() {
    let own = |document: Value| -> Vec<String> {
        let attributes = attributes(document);
        let own = attributes.keys().filter(|name| !OmeMetadata::is_attribute(&attributes, name));
        own.cloned().collect()
    };
    assert_eq!(own(json!({"ome": {"plate": {}}, "labels": ["a"], "mine": 1})), ["labels", "mine"]);
    assert_eq!(own(json!({"multiscales": [], "omero": {}, "scene": 1})), ["scene"]);
    assert_eq!(own(json!({"https://ngff.openmicroscopy.org/0.6": {}, "ome": 7})), ["ome"]);
    assert_eq!(own(json!({"omero": 1, "labels": "none"})), Vec::<String>::new());
    assert_eq!(own(json!({"labels": "none"})), ["labels"]);
}

#[test]
fn what_cannot_be_understood_is_named() {
    let image = |image: Value| json!({ "multiscales": [image] });
    for (document, expected) in [
        (image(json!({"axes": [], "version": "0.4"})), "multiscales[0].datasets: is missing"),
        (image(json!({"version": "0.4", "datasets": []})), "multiscales[0].axes: is missing"),
        (image(json!({"datasets": [{"path": 7}]})), "multiscales[0].datasets[0].path"),
        (image(json!({"datasets": [{}]})), "datasets[0]: has no path"),
        (image(json!(7)), "is not an object"),
        (json!({"multiscales": 7}), "multiscales: is not a list"),
        (json!({"multiscales": [{"version": "2.0"}]}), "\"2.0\" is not an OME-Zarr version"),
        (json!({"ome": {"version": 5}}), "version: is not a string"),
        (json!({"plate": {"rows": 7}}), "plate"),
        (json!({"ome": {"version": "0.6", "scene": []}}), "scene"),
    ] {
        let refused = OmeMetadata::read(&attributes(document.clone())).unwrap_err().to_string();
        assert!(refused.contains(expected), "{document}: {refused}");
    }
}
