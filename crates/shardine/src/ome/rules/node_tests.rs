//! The rules that need to know other nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::tests::{axis, between, image4, image6, judged, object, short, yx};
use super::*;

fn array(shape: &[u64], data_type: &str, names: Option<&[&str]>) -> NodeFacts {
    let names = names.map(|names| names.iter().map(|name| Some((*name).to_owned())).collect());
    NodeFacts::Array(Arc::new(ArrayFacts {
        shape: shape.to_vec(),
        data_type: data_type.to_owned(),
        dimension_names: names,
        has_nested_keys: true,
    }))
}

/// An image with as many levels as there are arrays, judged with them.
fn with_arrays(version: &str, arrays: &[NodeFacts], label: bool) -> Vec<String> {
    let level = |number: usize| {
        json!({"path": number.to_string(), "coordinateTransformations": [
            {"type": "scale", "scale": [1 << number, 1 << number]}]})
    };
    let all: Vec<Value> = (0..arrays.len()).map(level).collect();
    let image = json!([{"axes": yx(), "datasets": all}]);
    let mut document = match version {
        "0.4" => json!({"multiscales": image}),
        version => json!({"ome": {"version": version, "multiscales": image}}),
    };
    if version.starts_with("0.6") {
        let image = &mut document["ome"]["multiscales"][0];
        image["coordinateSystems"] = json!([{"name": "p", "axes": yx()}]);
        for level in image["datasets"].as_array_mut().unwrap() {
            level["coordinateTransformations"][0]["output"] = json!({"name": "p"});
        }
    }
    let mut find = |path: &str| arrays[path.parse::<usize>().unwrap()].clone();
    let (found, facts) = levels(&object(document), label, &mut find);
    assert_eq!(facts.unwrap().levels.len(), arrays.len());
    found.list.iter().map(short).collect()
}

#[test]
fn levels_are_arrays_from_the_largest_to_the_smallest() {
    let names: Option<&[&str]> = Some(&["y", "x"]);
    let [large, middle, small] =
        [[8, 8], [4, 8], [4, 4]].map(|shape| array(&shape, "uint8", names));
    let all = [large.clone(), middle.clone(), small.clone()];
    for version in ["0.4", "0.5", "0.6"] {
        assert_eq!(with_arrays(version, &all, false), [""; 0]);
        let wrong = [middle.clone(), large.clone(), small.clone()];
        let level = "Must Levels multiscales[0].datasets[1]";
        assert_eq!(with_arrays(version, &wrong, false), [level]);
        let missing = [large.clone(), NodeFacts::Missing];
        assert_eq!(with_arrays(version, &missing, false), [format!("{level}.path")]);
        let group = [large.clone(), NodeFacts::Group(Arc::default())];
        assert_eq!(with_arrays(version, &group, false), [format!("{level}.path")]);
        assert_eq!(with_arrays(version, &[large.clone(), NodeFacts::Unknown], false), [""; 0]);
        let same = [large.clone(), large.clone()];
        let found = with_arrays(version, &same, false);
        assert_eq!(found, ["Doubtful Levels multiscales[0].datasets[1]"]);
        let deep = [array(&[8, 8, 8], "uint8", Some(&["z", "y", "x"]))];
        let found = with_arrays(version, &deep, false);
        assert!(found.contains(&"Must Axes multiscales[0].datasets[0]".to_owned()), "{found:?}");
    }
}

#[test]
fn data_types_and_dimension_names_are_judged_as_their_version_says() {
    let names: Option<&[&str]> = Some(&["y", "x"]);
    let types = [array(&[8, 8], "uint8", names), array(&[4, 4], "uint16", names)];
    let level = "Levels multiscales[0].datasets[1]";
    for (version, expected) in [("0.4", "Doubtful"), ("0.5", "Doubtful"), ("0.6", "Must")] {
        assert_eq!(with_arrays(version, &types, false), [format!("{expected} {level}")]);
    }
    for names in [None, Some(&["x", "y"][..])] {
        let named = [array(&[8, 8], "uint8", names)];
        let level = "DimensionNames multiscales[0].datasets[0]";
        assert_eq!(with_arrays("0.4", &named, false), [""; 0]);
        assert_eq!(with_arrays("0.5", &named, false), [format!("Must {level}")]);
        assert_eq!(with_arrays("0.6", &named, false), [format!("Doubtful {level}")]);
    }
    let float = [array(&[8, 8], "float32", names)];
    for (version, expected) in [("0.4", "Should"), ("0.5", "Must"), ("0.6", "Must")] {
        let found = with_arrays(version, &float, true);
        assert_eq!(found, [format!("{expected} Labels multiscales[0].datasets[0]")]);
    }
}

#[test]
fn chunks_are_in_folders_up_to_0_4() {
    let NodeFacts::Array(facts) = array(&[8, 8], "uint8", Some(&["y", "x"])) else { return };
    let flat = ArrayFacts { has_nested_keys: false, ..(*facts).clone() };
    let flat = [NodeFacts::Array(Arc::new(flat))];
    let found = with_arrays("0.4", &flat, false);
    assert_eq!(found, ["Should Layout multiscales[0].datasets[0]"]);
    assert_eq!(with_arrays("0.5", &flat, false), [""; 0]);
}

#[test]
fn there_is_an_entry_for_each_channel() {
    let window = json!({"min": 0, "max": 9, "start": 1, "end": 5});
    let channel = json!({"color": "00FF00", "window": window});
    let axes = json!([axis("c", "channel", ""), yx()[0], yx()[1]]);
    let mut document = image4(axes, json!([1, 1, 1]));
    document["omero"] = json!({"channels": [channel, channel]});
    let found = |shape: &[u64]| {
        let (found, _) =
            levels(&object(document.clone()), false, &mut |_| array(shape, "uint8", None));
        found.list.iter().map(short).collect::<Vec<_>>()
    };
    assert_eq!(found(&[2, 8, 8]), [""; 0]);
    assert_eq!(found(&[3, 8, 8]), ["Doubtful Channels omero.channels"]);
}

fn group(attributes: Value) -> NodeFacts {
    NodeFacts::Group(Arc::new(GroupFacts::read(&object(attributes))))
}

fn related(document: Value, nodes: &[(&str, NodeFacts)]) -> Vec<String> {
    let nodes: BTreeMap<&str, &NodeFacts> =
        nodes.iter().map(|(path, node)| (*path, node)).collect();
    let mut find = |path: &str| nodes.get(path).map_or(NodeFacts::Missing, |node| (*node).clone());
    let found = relations(&object(document), &mut find);
    found.list.iter().map(short).collect()
}

#[test]
fn what_documents_name_exists_and_is_what_they_say() {
    let image = || group(image4(yx(), json!([1, 1])));
    let plain = || group(json!({}));
    let labels = json!({"ome": {"version": "0.5", "labels": ["a", "b/c", "d", "../e", "f"]}});
    let mut label = image4(yx(), json!([1, 1]));
    label["image-label"] = json!({});
    let nodes = [
        ("a", group(label.clone())),
        ("b/c", image()),
        ("d", plain()),
        ("f", array(&[1], "uint8", None)),
    ];
    // A path that leads elsewhere is wrong in itself.
    let found = related(labels, &nodes);
    assert_eq!(
        found,
        ["Should Labels labels[1]", "Must Labels labels[2]", "Must Labels labels[4]"]
    );

    let plate = json!({"plate": {"wells": [{"path": "A/1"}, {"path": "A/2"}, {"path": "A/3"}]}});
    let well = || json!({"well": {"images": [{"path": "0"}, {"path": "1"}]}});
    let nodes = [("A/1", group(well())), ("A/2", plain()), ("A/3", NodeFacts::Unknown)];
    assert_eq!(related(plate, &nodes), ["Must Plate plate.wells[1].path"]);
    assert_eq!(related(well(), &[("1", image())]), ["Must Well well.images[0].path"]);

    let alone = json!({"image-label": {}});
    assert_eq!(related(alone, &[]), ["Must Labels image-label"]);
}

#[test]
fn the_images_of_bioformats2raw_exist() {
    let image = || group(image4(yx(), json!([1, 1])));
    let layout = || json!({"bioformats2raw.layout": 3});
    let series = |paths: Value| {
        let NodeFacts::Group(facts) = group(json!({"series": paths})) else { unreachable!() };
        NodeFacts::Group(Arc::new(GroupFacts { has_xml: Some(true), ..(*facts).clone() }))
    };
    let no_xml = "Should Layout bioformats2raw.layout";
    let missing = ["Must Layout bioformats2raw.layout"];
    assert_eq!(related(layout(), &[("0", image())]), [no_xml]);
    assert_eq!(related(layout(), &[]), [no_xml, missing[0]]);
    let ome = series(json!(["a", "b"]));
    assert_eq!(related(layout(), &[("OME", ome.clone()), ("a", image())]), missing);
    assert_eq!(related(layout(), &[("OME", ome), ("a", image()), ("b", image())]), [""; 0]);
    let mut plate = layout();
    plate["plate"] = json!({});
    assert_eq!(related(plate, &[]), [no_xml]);
    assert_eq!(judged(json!({"bioformats2raw.layout": 2})), ["Must Layout bioformats2raw.layout"]);
}

#[test]
fn an_acquisition_of_a_well_is_one_of_its_plate() {
    let plate = |ids: &[u64]| {
        let all: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
        object(json!({"ome": {"version": "0.5", "plate": {"acquisitions": all}}}))
    };
    let well = object(json!({"ome": {"version": "0.5", "well": {"images": [
        {"path": "0", "acquisition": 1}, {"path": "1"}]}}}));
    let found = |ids: &[u64]| {
        let found = well_relations(&well, &plate(ids)).list;
        found.iter().map(short).collect::<Vec<_>>()
    };
    let [first, second] =
        [0, 1].map(|number| format!("Must Well well.images[{number}].acquisition"));
    assert_eq!(found(&[1]), [""; 0]);
    assert_eq!(found(&[2]), [first]);
    assert_eq!(found(&[1, 2]), [second]);
}

#[test]
fn a_label_image_fits_its_image() {
    let facts = |shapes: &[[u64; 2]]| {
        let level = |shape: &[u64; 2]| match array(shape, "uint8", None) {
            NodeFacts::Array(array) => Some(array),
            _ => None,
        };
        let axes = ["y", "x"].map(str::to_owned).to_vec();
        ImageFacts { axes, systems: Vec::new(), levels: shapes.iter().map(level).collect() }
    };
    let label = |shapes: &[[u64; 2]]| GroupFacts {
        image: Some(facts(shapes)),
        release: Some(OmeRelease::V0_5),
        ..GroupFacts::default()
    };
    let image = facts(&[[8, 6], [4, 3]]);
    let found = |shapes: &[[u64; 2]]| {
        let found = label_relations(&label(shapes), &image).list;
        found.iter().map(short).collect::<Vec<_>>()
    };
    assert_eq!(found(&[[8, 6], [4, 3]]), [""; 0]);
    assert_eq!(found(&[[8, 1], [4, 1]]), [""; 0]);
    assert_eq!(found(&[[8, 6]]), ["Must Labels multiscales[0].datasets"]);
    assert_eq!(found(&[[8, 6], [4, 2]]), ["Should Labels multiscales[0].datasets[1]"]);
}

#[test]
fn a_hierarchy_has_one_version() {
    let facts = |version: &str| {
        GroupFacts::read(&object(match version < "0.5" {
            true => json!({"well": {"version": version}}),
            false => json!({"ome": {"version": version}}),
        }))
    };
    let found = |inner: &str, outer: &str| {
        let found = version_relations(&facts(inner), &facts(outer)).list;
        found.first().map(|found| found.level)
    };
    assert_eq!(found("0.5", "0.5"), None);
    assert_eq!(found("0.4", "0.5"), Some(RuleLevel::Must));
    assert_eq!(found("0.6", "0.5"), Some(RuleLevel::Must));
    assert_eq!(found("0.6", "0.6rc0"), Some(RuleLevel::Doubtful));
    assert_eq!(found("0.3", "0.4"), Some(RuleLevel::Doubtful));
    assert_eq!(found("9", "0.5"), None);
    let unstated = GroupFacts::read(&object(json!({"labels": ["a"]})));
    assert!(version_relations(&unstated, &facts("0.4")).list.is_empty());
}

#[test]
fn an_image_of_a_scene_has_the_system_that_is_named() {
    let end = |path: &str, name: &str| json!({"path": path, "name": name});
    let scene = object(json!({"ome": {"version": "0.6", "scene": {"coordinateTransformations": [
        {"type": "identity", "input": end("a", "world"), "output": end("a", "mars")},
        {"type": "identity", "input": end("b", "world"), "output": end("b", "world")},
    ]}}}));
    let image = group(image6(between(json!({"type": "identity"}))));
    let mut asked = Vec::new();
    let found = scene_relations(&scene, &mut |path| {
        asked.push(path.to_owned());
        if path == "a" { image.clone() } else { NodeFacts::Missing }
    });
    let found: Vec<String> = found.list.iter().map(short).collect();
    let place = "Must Scene scene.coordinateTransformations";
    assert_eq!(found, [format!("{place}[0].output.name"), format!("{place}[1].input.path")]);
    assert_eq!(asked, ["a", "b"]);
}

#[test]
fn levels_are_sorted_by_size_where_that_is_possible() {
    let order = |shapes: &[[u64; 2]]| {
        order_by_size(&shapes.iter().map(|shape| shape.to_vec()).collect::<Vec<_>>())
    };
    assert_eq!(order(&[[8, 8], [4, 4]]), None);
    assert_eq!(order(&[[4, 4], [8, 8], [2, 4]]), Some(vec![1, 0, 2]));
    assert_eq!(order(&[[1, u64::MAX], [u64::MAX, u64::MAX]]), Some(vec![1, 0]));
    // Neither is the larger one.
    assert_eq!(order(&[[4, 8], [8, 4]]), None);
    assert_eq!(order_by_size(&[vec![4], vec![8, 8]]), None);
}

#[test]
fn what_is_among_labels_is_a_label_image_that_is_listed() {
    let labels = |version: &str| match version {
        "0.4" => object(json!({"labels": ["a", "b/c"]})),
        version => object(json!({"ome": {"version": version, "labels": ["a", "b/c"]}})),
    };
    let found = |version: &str| {
        let found = unlisted_labels(&labels(version), ["a", "b/c", "d"]).list;
        found.iter().map(short).collect::<Vec<_>>()
    };
    assert_eq!(found("0.4"), [""; 0]);
    assert_eq!(found("0.5"), ["Should Labels labels"]);
    let between = |document: Value| between_labels(&GroupFacts::read(&object(document))).is_valid();
    assert!(between(json!({})) && between(json!({"labels": ["a"]})));
    assert!(!between(json!({"ome": {"version": "0.5", "labels": ["a"]}})));
    assert!(between(json!({"ome": {"version": "0.5", "image-label": {}}})));
}

#[test]
fn the_source_of_a_label_image_is_an_image() {
    let label = object(json!({"image-label": {"source": {"image": "../../"}}}));
    assert_eq!(label_source(&label), Some("../../"));
    let image = group(image4(yx(), json!([1, 1])));
    assert!(source_relations(&label, &image).is_valid());
    assert!(source_relations(&label, &NodeFacts::Unknown).is_valid());
    for wrong in [NodeFacts::Missing, group(json!({})), array(&[1], "uint8", None)] {
        assert!(!source_relations(&label, &wrong).is_valid());
    }
    assert_eq!(label_source(&object(json!({"image-label": {}}))), None);
}
