//! What follows from the rest of a hierarchy, and what does not.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::*;
use crate::ome::OmeRelease;
use crate::ome::rules::tests::{object, yx};
use crate::ome::rules::{ArrayFacts, GroupFacts, NodeFacts, violations};

fn array(shape: &[u64], names: Option<&[Option<&str>]>) -> NodeFacts {
    let owned = |name: &Option<&str>| name.map(str::to_owned);
    NodeFacts::Array(Arc::new(ArrayFacts {
        shape: shape.to_vec(),
        data_type: "uint8".to_owned(),
        dimension_names: names.map(|names| names.iter().map(owned).collect()),
        has_nested_keys: true,
    }))
}

/// Levels with these scales, at paths from 0 on.
fn levels(scales: &[f64]) -> Value {
    let level = |(number, scale): (usize, &f64)| {
        json!({"path": number.to_string(), "kept": number, "coordinateTransformations": [
            {"type": "scale", "scale": [scale, scale]}]})
    };
    scales.iter().enumerate().map(level).collect()
}

fn image(version: &str, scales: &[f64]) -> Map<String, Value> {
    let images = json!([{"axes": yx(), "datasets": levels(scales), "mine": 1}]);
    object(match version {
        "0.4" => json!({"multiscales": images}),
        version => json!({"ome": {"version": version, "multiscales": images}}),
    })
}

fn order_of(attributes: &Map<String, Value>, sides: &[u64]) -> Vec<Correction> {
    level_orders(attributes, &mut |path| {
        let side = path.parse::<usize>().ok().and_then(|number| sides.get(number));
        side.map_or(NodeFacts::Missing, |side| array(&[*side, *side], None))
    })
}

#[test]
fn levels_are_put_in_the_order_of_their_sizes() {
    for version in ["0.4", "0.5"] {
        let mut attributes = image(version, &[4.0, 1.0, 2.0]);
        let found = order_of(&attributes, &[2, 8, 4]);
        let [Correction::Order { order, .. }] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(order, &[1, 2, 0]);
        assert!(found[0].apply(&mut attributes));
        let members = attributes.get("ome").map_or(Value::Object(attributes.clone()), Clone::clone);
        let datasets = members["multiscales"][0]["datasets"].clone();
        assert_eq!(members["multiscales"][0]["mine"], 1);
        let kept: Vec<&Value> =
            datasets.as_array().unwrap().iter().map(|one| &one["kept"]).collect();
        assert_eq!(kept, [1, 2, 0]);
        let found = violations(&attributes, None).unwrap();
        assert!(!found.list.iter().any(is_about_order), "{found:?}");
        // Somebody else has corrected it by now.
        let changed = attributes.clone();
        assert!(!order_of(&image(version, &[4.0, 1.0, 2.0]), &[2, 8, 4])[0].apply(&mut attributes));
        assert_eq!(attributes, changed);
    }
}

#[test]
fn an_order_that_scales_contradict_is_not_changed() {
    // The paths may be wrong instead.
    assert_eq!(order_of(&image("0.5", &[1.0, 2.0]), &[4, 8]), []);
    // Right as it is, an array that is missing, and sizes without an order.
    assert_eq!(order_of(&image("0.5", &[1.0, 2.0]), &[8, 4]), []);
    assert_eq!(order_of(&image("0.5", &[2.0, 1.0]), &[4]), []);
    let mut find = |path: &str| match path {
        "0" => array(&[4, 8], None),
        _ => array(&[8, 4], None),
    };
    assert_eq!(level_orders(&image("0.5", &[2.0, 1.0]), &mut find), []);
    // Without a scale nothing agrees.
    let mut attributes = image("0.5", &[2.0, 1.0]);
    attributes["ome"]["multiscales"][0]["datasets"][0]
        .as_object_mut()
        .unwrap()
        .shift_remove("coordinateTransformations");
    assert_eq!(order_of(&attributes, &[4, 8]), []);
}

fn names_of(version: &str, names: Option<&[Option<&str>]>) -> Option<Vec<String>> {
    let mut attributes = image("0.5", &[1.0]);
    if version == "0.6" {
        let image = &mut attributes["ome"]["multiscales"][0];
        image["coordinateSystems"] = json!([{"name": "p", "axes": yx()}]);
        image["datasets"][0]["coordinateTransformations"][0]["output"] = json!({"name": "p"});
        attributes["ome"]["version"] = json!("0.6");
    }
    let found = dimension_names(&attributes, &mut |_| array(&[8, 8], names));
    found.into_values().next().map(|found| match found {
        Correction::DimensionNames { names, .. } => names,
        other => panic!("{other:?}"),
    })
}

#[test]
fn dimensions_get_the_names_of_axes_unless_the_axes_may_be_wrong() {
    let yx = Some(vec!["y".to_owned(), "x".to_owned()]);
    for version in ["0.5", "0.6"] {
        for names in [None, Some(&[None, None][..]), Some(&[Some("y"), None])] {
            assert_eq!(names_of(version, names), yx, "{version} {names:?}");
        }
        for names in [&[Some("y"), Some("x")], &[Some("x"), Some("y")], &[Some("x"), None]] {
            assert_eq!(names_of(version, Some(names)), None, "{version} {names:?}");
        }
    }
    let others: &[Option<&str>] = &[Some("dim_0"), Some("x")];
    assert_eq!(names_of("0.5", Some(others)), yx);
    // Not forbidden, and maybe meant.
    assert_eq!(names_of("0.6", Some(others)), None);
}

#[test]
fn an_array_of_two_images_is_named_only_if_they_agree() {
    let mut attributes = image("0.5", &[1.0]);
    let mut second = attributes["ome"]["multiscales"][0].clone();
    attributes["ome"]["multiscales"].as_array_mut().unwrap().push(second.clone());
    let find = &mut |_: &str| array(&[8, 8], None);
    let found: Vec<Correction> = dimension_names(&attributes, find).into_values().collect();
    let [Correction::DimensionNames { levels, .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(levels.len(), 2);
    second["axes"] = json!([{"name": "z", "type": "space"}, {"name": "x", "type": "space"}]);
    attributes["ome"]["multiscales"][1] = second;
    assert!(dimension_names(&attributes, find).is_empty());
    // Axes that cannot be told apart, and those of 0.4.
    let mut attributes = image("0.5", &[1.0]);
    attributes["ome"]["multiscales"][0]["axes"] = json!([{"name": "x"}, {"name": "x"}]);
    assert!(dimension_names(&attributes, find).is_empty());
    assert!(dimension_names(&image("0.4", &[1.0]), find).is_empty());
}

fn versioned(attributes: Value, version: &str) -> Option<Value> {
    let mut attributes = object(attributes);
    let missing = missing_versions(&attributes);
    let version: OmeVersion = version.parse().unwrap();
    let zarr = if version.release().is_zarr3() { 3 } else { 2 };
    if !fitting_releases(&attributes, zarr, &missing).contains(&version.release()) {
        return None;
    }
    let correction = Correction::Version { version, members: missing };
    assert!(correction.apply(&mut attributes));
    assert_eq!(missing_versions(&attributes), [""; 0]);
    assert!(!correction.apply(&mut attributes));
    Some(Value::Object(attributes))
}

#[test]
fn a_version_goes_where_it_is_missing_and_nowhere_else() {
    let labels = json!({"ome": {"labels": ["a"], "mine": 1}, "other": 2});
    let expected = json!({"ome": {"version": "0.5", "labels": ["a"], "mine": 1}, "other": 2});
    assert_eq!(versioned(labels, "0.5"), Some(expected));
    let mut old = image("0.4", &[1.0]);
    old.insert("image-label".to_owned(), json!({"version": "0.4", "colors": []}));
    let done = versioned(Value::Object(old), "0.4").unwrap();
    assert_eq!(done["multiscales"][0]["version"], "0.4");
    assert_eq!(done["image-label"], json!({"version": "0.4", "colors": []}));
    let well = json!({"well": {"images": [{"path": "0"}]}});
    assert_eq!(versioned(well, "0.4").unwrap()["well"]["version"], "0.4");
    // It would break rules that it keeps, or have its metadata in the wrong place.
    let Value::Object(new) = json!({"ome": image("0.4", &[1.0])}) else { panic!("an object") };
    assert!(versioned(Value::Object(new.clone()), "0.5").is_some());
    assert_eq!(versioned(Value::Object(new), "0.6"), None);
    assert_eq!(versioned(Value::Object(image("0.4", &[1.0])), "0.5"), None);
    assert_eq!(versioned(Value::Object(image("0.4", &[1.0])), "0.3"), None);
    // Nothing is missing.
    assert_eq!(missing_versions(&object(json!({"ome": {"version": 5}}))), [""; 0]);
    assert_eq!(missing_versions(&object(json!({"mine": {}}))), [""; 0]);
}

fn label(data_type: &str) -> GroupFacts {
    let mut group = GroupFacts::read(&image("0.5", &[1.0]));
    let NodeFacts::Array(facts) = array(&[8, 8], None) else { panic!("an array") };
    let facts = ArrayFacts { data_type: data_type.to_owned(), ..(*facts).clone() };
    group.image.as_mut().unwrap().levels = vec![Some(Arc::new(facts))];
    group
}

#[test]
fn the_list_of_labels_names_what_is_there() {
    let (whole, float, unknown) = (label("uint8"), label("float32"), GroupFacts::default());
    let nodes = LabelNodes {
        images: vec![
            ("a", &whole),
            ("b/c", &whole),
            ("new", &whole),
            ("f", &float),
            ("u", &unknown),
        ],
        is_free: &|path| path == "gone",
    };
    let list = json!(["gone", "a", 3, "../x", "damaged", "a", "b/c"]);
    let mut attributes = object(json!({"ome": {"version": "0.5", "labels": list, "mine": 1}}));
    let found = labels(&attributes, &nodes).unwrap();
    assert!(found.removes());
    let told = "labels: \"new\" added, \"gone\" removed, \"a\" removed";
    assert_eq!(found.to_string(), told);
    assert!(found.apply(&mut attributes));
    let list = json!(["a", 3, "../x", "damaged", "b/c", "new"]);
    assert_eq!(attributes["ome"], json!({"version": "0.5", "labels": list, "mine": 1}));
    assert_eq!(labels(&attributes, &nodes), None);
    let changed = attributes.clone();
    assert!(!found.apply(&mut attributes));
    assert_eq!(attributes, changed);
    // 0.4 does not say that all are listed.
    let old = object(json!({"labels": ["a"]}));
    assert_eq!(labels(&old, &nodes), None);
}

#[test]
fn wells_get_the_numbers_that_their_paths_name() {
    let plate = json!({"ome": {"version": "0.5", "plate": {
        "name": "p", "field_count": 1, "rows": [{"name": "A"}, {"name": "B"}, {"name": "D"}, {"name": "D"}],
        "columns": [{"name": "1"}, {"name": "2"}],
        "wells": [{"path": "B/2", "mine": 1}, {"path": "A/2", "rowIndex": 0}, {"path": "C/1"},
            {"path": "A/1", "rowIndex": 1}, {"path": "D/1"}, {"path": "A"}, 7]}}});
    let mut attributes = object(plate);
    let found = places(&attributes).unwrap();
    assert!(!found.removes());
    let broken = violations(&attributes, None).unwrap().list;
    let mended: Vec<&str> = broken
        .iter()
        .filter(|violation| may_be_mended(violation) && found.mends(violation))
        .map(|violation| violation.member.as_str())
        .collect();
    let members = ["wells[0].rowIndex", "wells[0].columnIndex", "wells[1].columnIndex"];
    assert_eq!(mended, members.map(|member| format!("plate.{member}")));
    assert!(found.apply(&mut attributes));
    let wells = &attributes["ome"]["plate"]["wells"];
    assert_eq!(wells[0], json!({"path": "B/2", "mine": 1, "rowIndex": 1, "columnIndex": 1}));
    assert_eq!(wells[1], json!({"path": "A/2", "rowIndex": 0, "columnIndex": 1}));
    // It is not known whether the path or the number is wrong, or which row is meant.
    assert_eq!(wells[3], json!({"path": "A/1", "rowIndex": 1}));
    assert_eq!(wells[4], json!({"path": "D/1"}));
    assert_eq!(places(&attributes), None);
}

#[test]
fn a_long_list_is_told_in_part() {
    let removed = (0..20).map(|number| (number, format!("l{number}"))).collect();
    let told = Correction::Labels { added: Vec::new(), removed }.to_string();
    assert!(told.ends_with("\"l7\" removed and 12 more"), "{told}");
    let version = OmeVersion::from(OmeRelease::V0_4);
    let members = vec!["multiscales[0]".to_owned(), "image-label".to_owned()];
    let told = Correction::Version { version, members }.to_string();
    assert!(told.starts_with("version of multiscales[0], image-label: 0.4"), "{told}");
}
