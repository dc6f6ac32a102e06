use serde_json::{Map, Value, json};

use super::*;

pub(super) fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

/// What is wrong with a document, as `level kind member`.
pub(super) fn judged(document: Value) -> Vec<String> {
    let found = violations(&object(document), None).unwrap();
    found.list.iter().map(short).collect()
}

pub(super) fn short(violation: &Violation) -> String {
    format!("{:?} {:?} {}", violation.level, violation.kind, violation.member)
}

pub(super) fn image4(axes: Value, scale: Value) -> Value {
    json!({"multiscales": [{
        "version": "0.4", "name": "n", "type": "mean", "metadata": {}, "axes": axes,
        "datasets": [{"path": "0", "coordinateTransformations": [
            {"type": "scale", "scale": scale}]}],
    }]})
}

pub(super) fn axis(name: &str, kind: &str, unit: &str) -> Value {
    match unit {
        "" => json!({"name": name, "type": kind}),
        unit => json!({"name": name, "type": kind, "unit": unit}),
    }
}

pub(super) fn yx() -> Value {
    json!([axis("y", "space", "micrometer"), axis("x", "space", "micrometer")])
}

#[test]
fn axes_have_types_in_an_order_and_units_of_a_list() {
    assert_eq!(judged(image4(yx(), json!([1, 1]))), [""; 0]);
    let axes = "multiscales[0].axes";
    let t = || axis("t", "time", "second");
    let c = || axis("c", "channel", "");
    let [z, y, x] = ["z", "y", "x"].map(|name| axis(name, "space", "micrometer"));
    for (order, expected) in [
        (vec![&y], format!("Must Axes {axes}")),
        (vec![&c(), &t(), &y, &x], format!("Must Axes {axes}")),
        (vec![&y, &x, &c()], format!("Must Axes {axes}")),
        (vec![&t(), &t(), &y, &x], format!("Must Axes {axes}[1].name")),
        (vec![&c(), &axis("angle", "angle", ""), &y, &x], format!("Must Axes {axes}")),
        (vec![&z, &z, &y, &x], format!("Must Axes {axes}")),
        (vec![&x, &y, &z], format!("Should Axes {axes}")),
        (vec![&axis("t", "time", "micrometer"), &y, &x], format!("Should Axes {axes}[0].unit")),
        (vec![&y, &axis("x", "space", "micron")], format!("Should Axes {axes}[1].unit")),
        (vec![&y, &axis("x", "space", "")], format!("Should Axes {axes}")),
        (vec![&json!({"name": "a"}), &y, &x], format!("Should Axes {axes}[0]")),
        (vec![&axis("a", "angle", ""), &y, &x], format!("Should Axes {axes}[0].type")),
        (vec![&json!({"name": "y"}), &x], format!("Doubtful Axes {axes}")),
        (vec![&json!({"name": "y", "type": null}), &x], format!("Must Axes {axes}[0].type")),
        (
            vec![&json!({"name": "", "type": "space", "unit": "meter"}), &x],
            format!("Doubtful Axes {axes}[0].name"),
        ),
        (vec![&json!("y"), &x], format!("Must Axes {axes}[0]")),
    ] {
        let found = judged(image4(json!(order), json!(vec![1; order.len()])));
        assert!(found.contains(&expected), "{order:?}: {found:?} lacks {expected}");
    }
}

#[test]
fn a_level_has_one_scale_and_at_most_one_translation_after_it() {
    let place = "multiscales[0].datasets[0].coordinateTransformations";
    let scale = || json!({"type": "scale", "scale": [1, 1]});
    let translation = || json!({"type": "translation", "translation": [1, 1]});
    for (all, expected) in [
        (json!([]), format!("Must Transformations {place}")),
        (json!([translation()]), format!("Must Transformations {place}")),
        (json!([scale(), scale()]), format!("Must Transformations {place}")),
        (json!([scale(), translation(), translation()]), format!("Must Transformations {place}")),
        (json!([translation(), scale()]), format!("Must Transformations {place}[1]")),
        (json!([{"type": "identity"}]), format!("Must Transformations {place}[0].type")),
        (json!([{"type": "scale", "path": "s"}]), format!("Must Transformations {place}[0].scale")),
        (
            json!([{"type": "scale", "scale": [1, "1"]}]),
            format!("Must Transformations {place}[0].scale"),
        ),
        (
            json!([{"type": "scale", "scale": [1, -1]}]),
            format!("Doubtful Transformations {place}[0].scale"),
        ),
        (
            json!([{"type": "scale", "scale": [1]}]),
            format!("Must Transformations {place}[0].scale"),
        ),
    ] {
        let mut document = image4(yx(), json!([1, 1]));
        document["multiscales"][0]["datasets"][0]["coordinateTransformations"] = all.clone();
        let found = judged(document.clone());
        assert!(found.contains(&expected), "{all}: {found:?} lacks {expected}");
        // For all levels the same rules apply.
        document["multiscales"][0]["coordinateTransformations"] = all.clone();
        let expected = expected.replace("datasets[0].", "");
        let found = judged(document);
        assert!(found.contains(&expected), "{all}: {found:?} lacks {expected}");
    }
    let good = json!([scale(), translation()]);
    let mut document = image4(yx(), json!([1, 1]));
    document["multiscales"][0]["coordinateTransformations"] = good;
    assert_eq!(judged(document), [""; 0]);
}

#[test]
fn a_vector_of_the_wrong_length_is_a_must_in_0_5() {
    let mut image = image4(yx(), json!([1, 1, 1]))["multiscales"].take();
    image[0].as_object_mut().unwrap().shift_remove("version");
    let found = judged(json!({"ome": {"version": "0.5", "multiscales": image}}));
    let place = "multiscales[0].datasets[0].coordinateTransformations[0].scale";
    assert_eq!(found, [format!("Must Transformations {place}")]);
}

#[test]
fn a_scale_for_the_axes_of_space_alone_is_doubtful_as_in_official_cases() {
    let axes = json!([axis("t", "time", "second"), yx()[0], yx()[1]]);
    let place = "Transformations multiscales[0].datasets[0].coordinateTransformations[0].scale";
    assert_eq!(judged(image4(axes.clone(), json!([1, 1]))), [format!("Doubtful {place}")]);
    assert_eq!(judged(image4(axes, json!([1]))), [format!("Must {place}")]);
}

#[test]
fn a_level_does_not_begin_at_the_array_of_another() {
    let mut document = image6(between(json!({"type": "identity"})));
    let levels = &mut document["ome"]["multiscales"][0]["datasets"];
    let mut second = levels[0].clone();
    second["path"] = json!("1");
    levels.as_array_mut().unwrap().push(second);
    let place = "multiscales[0].datasets[1].coordinateTransformations[0].input.path";
    assert_eq!(judged(document), [format!("Must Transformations {place}")]);
}

#[test]
fn what_is_known_to_be_a_list_of_labels_is_judged_as_one() {
    for wrong in [json!({"labels": 5}), json!({"labels": [5]}), json!({"series": "0"})] {
        assert_eq!(violations(&object(wrong.clone()), None), None);
        assert!(!sure_violations(&object(wrong), None).unwrap().is_valid());
    }
    assert_eq!(sure_violations(&object(json!({"a": 1})), None), None);
}

#[test]
fn the_version_is_known_and_where_it_belongs() {
    let image = |version: Value| {
        let mut document = image4(yx(), json!([1, 1]));
        document["multiscales"][0]["version"] = version;
        document
    };
    let version = "Must Version multiscales[0].version";
    assert_eq!(judged(image(json!("0.5"))), [version]);
    assert_eq!(judged(image(json!("4"))), [version]);
    assert_eq!(judged(image(json!(0.4))), [version]);
    // 0.3 has other axes.
    assert!(judged(image(json!("0.3"))).contains(&"Must Axes multiscales[0].axes[0]".to_owned()));
    let ome = |version: Value| json!({"ome": {"version": version, "series": ["0"]}});
    assert_eq!(judged(ome(json!("0.5"))), [""; 0]);
    assert_eq!(judged(ome(json!("0.6.dev2"))), [""; 0]);
    for wrong in [json!("0.4"), json!("0.7"), json!(5), json!(null)] {
        assert_eq!(judged(ome(wrong)), ["Must Version version"]);
    }
    assert_eq!(judged(json!({"ome": {"series": ["0"]}})), ["Must Version version"]);
    assert_eq!(judged(json!({"ome": 5})), ["Must Metadata ome"]);
    let draft = json!({"https://ngff.openmicroscopy.org/0.6": {"series": ["0"]}});
    assert_eq!(judged(draft), ["Doubtful Version "]);
    let mut both = image4(yx(), json!([1, 1]));
    both["ome"] = json!({"version": "0.5", "series": ["0"]});
    assert_eq!(judged(both), ["Doubtful Version "]);
}

#[test]
fn a_version_belongs_to_a_version_of_zarr() {
    let of = |document: Value, zarr_format: u8| {
        let found = violations(&object(document), Some(zarr_format)).unwrap();
        found.list.iter().map(short).collect::<Vec<_>>()
    };
    let new = || json!({"ome": {"version": "0.5", "series": ["0"]}});
    assert_eq!(of(new(), 3), [""; 0]);
    assert_eq!(of(new(), 2), ["Must Version "]);
    let old = || image4(yx(), json!([1, 1]));
    assert_eq!(of(old(), 2), [""; 0]);
    assert_eq!(of(old(), 3), ["Must Version "]);
    let older = json!({"well": {"version": "0.2", "images": [{"path": "0"}]}});
    assert_eq!(of(older, 3), ["Doubtful Version "]);
}

#[test]
fn attributes_without_metadata_are_not_judged() {
    for other in [json!({}), json!({"a": 1}), json!({"labels": 5}), json!({"scene": {}})] {
        assert_eq!(violations(&object(other), Some(3)), None);
    }
    assert_eq!(judged(json!({"ome": {"version": "0.5"}})), ["Doubtful Metadata ome"]);
    let orphan = json!({"ome": {"version": "0.6", "coordinateSystems": []}});
    assert_eq!(judged(orphan), ["Must Metadata ome"]);
}

#[test]
fn a_window_is_in_order_and_a_colour_has_six_digits() {
    let omero = |channel: Value| {
        let mut document = image4(yx(), json!([1, 1]));
        document["omero"] = json!({"channels": [channel]});
        judged(document)
    };
    let window = json!({"min": 0, "max": 9, "start": 1, "end": 5});
    let place = "omero.channels[0]";
    assert_eq!(omero(json!({"color": "00fF00", "window": window})), [""; 0]);
    for color in ["00FF0", "#00FF00", "00FF00FF", "green!"] {
        let found = omero(json!({"color": color, "window": window}));
        assert_eq!(found, [format!("Must Channels {place}.color")]);
    }
    let late = json!({"min": 0, "max": 9, "start": 6, "end": 5});
    let found = omero(json!({"color": "00FF00", "window": late}));
    assert_eq!(found, [format!("Doubtful Channels {place}.window")]);
    let found = omero(json!({"color": "00FF00", "window": {"min": "0", "max": 9, "start": 0}}));
    let expected = ["min", "end"].map(|name| format!("Must Channels {place}.window.{name}"));
    assert_eq!(found, expected);
}

#[test]
fn the_path_and_the_numbers_of_a_well_agree() {
    let plate = |version: &str, well: Value| {
        let plate = json!({
            "name": "p", "field_count": 1,
            "rows": [{"name": "A"}, {"name": "B"}], "columns": [{"name": "1"}],
            "wells": [well],
        });
        match version {
            "0.4" => {
                let mut plate = plate;
                plate["version"] = json!(version);
                judged(json!({"plate": plate}))
            }
            version => judged(json!({"ome": {"version": version, "plate": plate}})),
        }
    };
    let well = |path: &str, row: i64| json!({"path": path, "rowIndex": row, "columnIndex": 0});
    for version in ["0.4", "0.5", "0.6"] {
        assert_eq!(plate(version, well("B/1", 1)), [""; 0]);
        let path = "Must Plate plate.wells[0].path";
        assert_eq!(plate(version, well("A/1", 1)), [path]);
        assert_eq!(plate(version, well("A/1/0", 0)), [path]);
        assert_eq!(plate(version, well("../A", 0)), [path]);
        assert_eq!(plate(version, well("A/1", 2)), ["Must Plate plate.wells[0].rowIndex"]);
        assert_eq!(plate(version, well("A/1", -1)), ["Must Plate plate.wells[0].rowIndex"]);
        assert_eq!(plate(version, well("1/A", 0)), [path]);
    }
    // As in the official cases.
    for (version, expected) in [("0.4", "Doubtful"), ("0.5", "Must"), ("0.6", "Doubtful")] {
        let mut plate = json!({
            "name": "p", "rows": [{"name": "1"}], "columns": [{"name": "A"}], "field_count": 1,
            "wells": [well("A/1", 0)]});
        plate["version"] = json!(version);
        let found = match version {
            "0.4" => judged(json!({"plate": plate})),
            version => judged(json!({"ome": {"version": version, "plate": plate}})),
        };
        assert_eq!(found, [format!("{expected} Plate plate.wells[0].path")]);
    }
}

#[test]
fn fields_have_names_that_their_version_allows() {
    let well = |version: &str, path: &str| {
        judged(json!({"ome": {"version": version, "well": {"images": [{"path": path}]}}}))
            .is_empty()
    };
    for path in ["0", "field1"] {
        assert!(well("0.5", path) && well("0.6", path));
    }
    for path in ["0_a-b.image", "_x"] {
        assert!(!well("0.5", path) && well("0.6", path), "{path}");
    }
    for path in ["", ".", "..", "__x", "a/b", "\u{e4}", "a b"] {
        assert!(!well("0.5", path) && !well("0.6", path), "{path}");
    }
}

/// An image of 0.6 with a system of its levels and another one.
pub(super) fn image6(transformation: Value) -> Value {
    let system = |name: &str| json!({"name": name, "axes": yx()});
    json!({"ome": {"version": "0.6rc0", "multiscales": [{
        "name": "n", "type": "mean", "metadata": {},
        "coordinateSystems": [system("physical"), system("world")],
        "datasets": [{"path": "0", "coordinateTransformations": [{
            "type": "scale", "scale": [1, 1],
            "input": {"path": "0"}, "output": {"name": "physical"}}]}],
        "coordinateTransformations": [transformation],
    }]}})
}

pub(super) fn between(mut transformation: Value) -> Value {
    transformation["input"] = json!({"name": "physical"});
    transformation["output"] = json!({"name": "world"});
    transformation
}

#[test]
fn transformations_of_every_kind_are_judged() {
    let scale = || json!({"type": "scale", "scale": [2, 2]});
    let one = || json!({"type": "scale", "scale": [2]});
    let on = |input: Value, output: Value| json!({"transformation": one(), "inputAxes": input, "outputAxes": output});
    for good in [
        json!({"type": "identity"}),
        scale(),
        json!({"type": "translation", "translation": [-2.5, 0]}),
        json!({"type": "mapAxis", "mapAxis": [1, 0]}),
        json!({"type": "projectAxis", "createdOutputs": [0], "droppedInputs": [1]}),
        json!({"type": "affine", "affine": [[1, 0, 0], [0, 1, 0]]}),
        json!({"type": "affine", "path": "matrix"}),
        json!({"type": "rotation", "rotation": [[0.6, -0.8], [0.8, 0.6]]}),
        json!({"type": "sequence", "transformations": [scale(), scale()]}),
        json!({"type": "bijection", "forward": scale(), "inverse": scale()}),
        json!({"type": "displacements", "path": "field", "interpolation": "linear"}),
        json!({"type": "coordinates", "path": "field"}),
        json!({"type": "byDimension", "transformations": [
            on(json!([0]), json!([1])), on(json!([1]), json!([0]))]}),
    ] {
        assert_eq!(judged(image6(between(good.clone()))), [""; 0], "{good}");
    }
    for bad in [
        json!({}),
        json!({"type": "warp"}),
        json!({"type": "scale", "scale": [2, 0]}),
        json!({"type": "scale", "scale": [2, 2, 2]}),
        json!({"type": "translation", "translation": "no"}),
        json!({"type": "mapAxis", "mapAxis": [0, 0]}),
        json!({"type": "mapAxis", "mapAxis": [0, 2]}),
        json!({"type": "mapAxis", "mapAxis": [0]}),
        json!({"type": "projectAxis"}),
        json!({"type": "projectAxis", "createdOutputs": [0]}),
        json!({"type": "projectAxis", "droppedInputs": []}),
        json!({"type": "affine", "affine": [[1, 0], [0, 1]]}),
        json!({"type": "affine", "affine": [[1, 0, 0], [0, 1]]}),
        json!({"type": "affine", "affine": [[1, 0, 0], [0, 1, 0]], "path": "matrix"}),
        json!({"type": "affine"}),
        json!({"type": "rotation", "rotation": [[1, 1], [0, 1]]}),
        json!({"type": "rotation", "rotation": [[0, 1], [1, 0]]}),
        json!({"type": "rotation", "rotation": [[1]]}),
        json!({"type": "sequence", "transformations": []}),
        json!({"type": "sequence", "transformations": [scale(), one()]}),
        json!({"type": "bijection", "forward": scale()}),
        json!({"type": "displacements"}),
        json!({"type": "byDimension", "transformations": [
            on(json!([0]), json!([0])), on(json!([1]), json!([0]))]}),
        json!({"type": "byDimension", "transformations": [on(json!([0]), json!([2]))]}),
        json!({"type": "byDimension", "transformations": [on(json!([0]), json!([0]))]}),
        json!({"type": "byDimension", "transformations": [on(json!(["y"]), json!(["y"]))]}),
    ] {
        let found = judged(image6(between(bad.clone())));
        assert!(found.iter().any(|found| found.starts_with("Must Transf")), "{bad}: {found:?}");
    }
}

#[test]
fn a_transformation_names_systems_that_exist() {
    let named = |input: Value, output: Value| {
        judged(image6(json!({"type": "identity", "input": input, "output": output})))
    };
    let place = "multiscales[0].coordinateTransformations[0]";
    let [physical, world] = ["physical", "world"].map(|name| json!({"name": name}));
    assert_eq!(named(physical.clone(), world.clone()), [""; 0]);
    let label = json!({"name": "physical", "path": "labels/cells"});
    let alone = "Doubtful Transformations multiscales[0].coordinateSystems".to_owned();
    assert_eq!(named(physical.clone(), label), std::slice::from_ref(&alone));
    let found = named(json!({"name": "mars"}), physical.clone());
    assert_eq!(found, [format!("Must Transformations {place}.input.name"), alone]);
    assert_eq!(named(world.clone(), world.clone()), [format!("Must Transformations {place}")]);
    // As in an official case.
    let found = named(json!({"name": "intrinsic"}), world.clone());
    assert_eq!(found, [format!("Doubtful Transformations {place}.input.name")]);
    let found = named(json!("physical"), world);
    assert!(found.contains(&format!("Must Transformations {place}.input")), "{found:?}");
}

#[test]
fn all_levels_of_0_6_lead_to_one_system_of_the_image() {
    let place = "multiscales[0].datasets[0].coordinateTransformations";
    let change = |pointer: &str, value: Value| {
        let mut document = image6(between(json!({"type": "identity"})));
        let base = "/ome/multiscales/0/datasets/0/coordinateTransformations";
        *document.pointer_mut(&format!("{base}{pointer}")).unwrap() = value;
        judged(document)
    };
    // Official cases name what is not there.
    let found = change("/0/input/path", json!("1"));
    assert_eq!(found, [format!("Doubtful Transformations {place}[0].input.path")]);
    let found = change("/0/output/name", json!("mars"));
    assert!(found.contains(&format!("Must Transformations {place}[0].output.name")));
    let found = change("/0/type", json!("affine"));
    assert_eq!(found, [format!("Must Transformations {place}[0].type")]);
    let found = change("/0/scale", json!([1, 1, 1]));
    assert_eq!(found, [format!("Must Transformations {place}[0].scale")]);
    let found = change("", json!([]));
    assert_eq!(found[0], format!("Must Transformations {place}"));
}

#[test]
fn a_scene_links_all_its_images() {
    let scene = |all: Value| {
        let system = json!({"name": "world", "axes": yx()});
        judged(json!({"ome": {"version": "0.6", "scene": {
            "coordinateSystems": [system], "coordinateTransformations": all}}}))
    };
    let link = |from: Value, to: Value| json!({"type": "identity", "input": from, "output": to});
    let image = |path: &str| json!({"path": path, "name": "physical"});
    let world = || json!({"name": "world"});
    assert_eq!(scene(json!([link(image("a"), world()), link(world(), image("b"))])), [""; 0]);
    let place = "scene.coordinateTransformations";
    let apart = [format!("Must Scene {place}")];
    assert_eq!(scene(json!([link(image("a"), image("b"))])), apart);
    assert_eq!(scene(json!([])), apart);
    let found =
        scene(json!([link(image("a"), json!({"name": "mars"})), link(image("a"), world())]));
    assert_eq!(found, [format!("Must Scene {place}[0].output.name")]);
    let found = scene(json!([link(image("../a"), world())]));
    assert_eq!(found, [format!("Must Scene {place}[0].input.path")]);
}

#[test]
fn thousands_of_violations_are_counted_and_a_hundred_told() {
    let wells = vec![json!({"path": "..", "rowIndex": -1, "columnIndex": 0.5}); 20_000];
    let plate = json!({"rows": [{"name": "A"}], "columns": [{"name": "1"}], "wells": wells});
    let found = violations(&object(json!({"ome": {"version": "0.5", "plate": plate}})), None);
    let found = found.unwrap();
    let told = found.list.iter().filter(|found| found.level == RuleLevel::Must).count();
    assert_eq!(told, 100);
    assert_eq!(found.more, [(RuleLevel::Must, RuleKind::Plate, 79_899)]);
    assert!(!found.is_valid());
}
