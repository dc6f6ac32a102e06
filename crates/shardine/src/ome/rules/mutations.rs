//! Valid documents of every version stay valid, each change of a table is found, and nothing makes
//! the rules panic.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::documents::{Kind, Recipe, arbitrary, pointers, recipe};
use super::*;
use crate::ome::OmeMetadata;

/// A change of a document.
enum Change {
    Remove,
    Set(&'static str),
    /// The first item once more at the end.
    Repeat,
}
use Change::{Remove, Repeat, Set};

/// Since when, in which kind, where (in short, see [`spelled`]) and how a document is changed, and what that breaks.
type Mutation = (OmeRelease, Kind, &'static str, Change, RuleLevel, RuleKind);

const M: RuleLevel = RuleLevel::Must;
const S: RuleLevel = RuleLevel::Should;
const V1: OmeRelease = OmeRelease::V0_1;
const V2: OmeRelease = OmeRelease::V0_2;
const V3: OmeRelease = OmeRelease::V0_3;
const V4: OmeRelease = OmeRelease::V0_4;
const V5: OmeRelease = OmeRelease::V0_5;
const V6: OmeRelease = OmeRelease::V0_6;

#[rustfmt::skip]
fn table() -> Vec<Mutation> {
    use Kind::*;
    use RuleKind as R;
    vec![
        (V5, Image, "/version", Remove, M, R::Version),
        (V5, Image, "/version", Set("\"0.4\""), M, R::Version),
        (V5, Layout, "/version", Set("\"1.0\""), M, R::Version),
        (V1, Image, "/multiscales", Set("{}"), M, R::Metadata),
        (V1, Image, "/multiscales", Set("[]"), M, R::Metadata),
        (V1, Image, "/multiscales", Repeat, M, R::Metadata),
        (V1, Image, "/multiscales/0", Set("5"), M, R::Metadata),
        (V1, Image, "@I/name", Set("5"), M, R::Metadata),
        (V2, Image, "@I/name", Remove, S, R::Metadata),
        (V2, Image, "@I/type", Remove, S, R::Metadata),
        (V2, Image, "@I/metadata", Remove, S, R::Metadata),
        (V1, Image, "@I/datasets", Remove, M, R::Levels),
        (V1, Image, "@I/datasets", Set("[]"), M, R::Levels),
        (V1, Image, "@I/datasets/0", Set("\"0\""), M, R::Levels),
        (V1, Image, "@I/datasets/0/path", Remove, M, R::Levels),
        (V1, Image, "@I/datasets/0/path", Set("0"), M, R::Levels),
        (V1, Image, "@I/datasets/0/path", Set("\"a/../b\""), M, R::Levels),
        (V1, Image, "@I/datasets/0/path", Set("\"/a\""), M, R::Levels),
        (V3, Image, "@I/axes", Remove, M, R::Axes),
        (V3, Image, "@I/axes", Set("[]"), M, R::Axes),
        (V3, Image, "@I/axes", Repeat, M, R::Axes),
        (V3, Image, "@I/axes/0", Set("7"), M, R::Axes),
        (V4, Image, "@I/axes/0/name", Remove, M, R::Axes),
        (V4, Image, "@I/axes/0/name", Set("[\"y\"]"), M, R::Axes),
        (V4, Image, "@I/axes/0/type", Remove, S, R::Axes),
        (V4, Image, "@I/axes/0/type", Set("0"), M, R::Axes),
        (V6, Image, "@I/coordinateSystems", Remove, M, R::Axes),
        (V6, Image, "@I/coordinateSystems", Set("[]"), M, R::Axes),
        (V6, Image, "@I/coordinateSystems", Repeat, M, R::Axes),
        (V6, Image, "@I/coordinateSystems/0/name", Set("\"\""), M, R::Axes),
        (V6, Image, "@I/coordinateSystems/0/axes", Remove, M, R::Axes),
        (V6, Image, "@I/coordinateSystems/1/axes/0/name", Set("\"\""), M, R::Axes),
        (V6, Image, "@I/coordinateSystems/1/axes/0/discrete", Set("1"), M, R::Axes),
        (V6, Image, "@I/coordinateTransformations", Set("[]"), M, R::Transformations),
        (V6, Image, "@I/coordinateTransformations/0/input", Remove, M, R::Transformations),
        (V6, Image, "@I/coordinateTransformations/0/output/name", Set("\"q\""), M, R::Transformations),
        (V6, Image, "@I/coordinateTransformations/0/scale", Set("[1]"), M, R::Transformations),
        (V6, Image, "@T/0/output", Remove, M, R::Transformations),
        (V6, Image, "@T/0/output", Set("\"physical\""), M, R::Transformations),
        (V6, Image, "@T/0/input/path", Remove, M, R::Transformations),
        (V6, Image, "@T/0/input/name", Set("\"x\""), S, R::Transformations),
        (V4, Image, "@T", Remove, M, R::Transformations),
        (V4, Image, "@T", Set("[]"), M, R::Transformations),
        (V4, Image, "@T", Repeat, M, R::Transformations),
        (V4, Image, "@T/0", Set("7"), M, R::Transformations),
        (V4, Image, "@T/0/type", Remove, M, R::Transformations),
        (V4, Image, "@T/0/type", Set("\"affine\""), M, R::Transformations),
        (V1, Image, "/omero", Set("[]"), M, R::Channels),
        (V1, Image, "/omero/channels", Remove, M, R::Channels),
        (V1, Image, "/omero/channels/0/color", Remove, M, R::Channels),
        (V1, Image, "/omero/channels/0/color", Set("255"), M, R::Channels),
        (V1, Image, "/omero/channels/0/color", Set("\"xyzxyz\""), M, R::Channels),
        (V1, Image, "/omero/channels/0/window", Remove, M, R::Channels),
        (V1, Image, "/omero/channels/0/window/end", Remove, M, R::Channels),
        (V1, Image, "/omero/channels/0/window/end", Set("\"9\""), M, R::Channels),
        (V1, Image, "/omero/channels/0/window/end", Set("5"), RuleLevel::Doubtful, R::Channels),
        (V1, Image, "/omero/channels/0/active", Set("\"yes\""), M, R::Channels),
        (V1, Label, "/image-label", Set("7"), M, R::Labels),
        (V1, Label, "/image-label/colors", Remove, S, R::Labels),
        (V1, Label, "/image-label/colors", Set("[]"), M, R::Labels),
        (V1, Label, "/image-label/colors", Repeat, M, R::Labels),
        (V1, Label, "/image-label/colors/0/label-value", Remove, M, R::Labels),
        (V1, Label, "/image-label/colors/0/label-value", Set("0.5"), M, R::Labels),
        (V1, Label, "/image-label/colors/0/rgba", Set("[0,0,0]"), M, R::Labels),
        (V1, Label, "/image-label/colors/0/rgba/3", Set("256"), M, R::Labels),
        (V1, Label, "/image-label/properties", Set("[]"), M, R::Labels),
        (V1, Label, "/image-label/properties", Repeat, M, R::Labels),
        (V1, Label, "/image-label/source", Set("\"../../\""), M, R::Labels),
        (V1, Label, "/image-label/source/image", Set("0"), M, R::Labels),
        (V1, Labels, "/labels/0", Set("\"../x\""), M, R::Labels),
        (V1, Plate, "/plate", Set("7"), M, R::Plate),
        (V1, Plate, "/plate/rows", Remove, M, R::Plate),
        (V1, Plate, "/plate/rows", Set("[]"), M, R::Plate),
        (V1, Plate, "/plate/rows", Repeat, M, R::Plate),
        (V1, Plate, "/plate/columns", Remove, M, R::Plate),
        (V1, Plate, "/plate/columns/0/name", Remove, M, R::Plate),
        (V4, Plate, "/plate/columns/0/name", Set("\"A-1\""), M, R::Plate),
        (V4, Plate, "/plate/columns/0", Set("{\"name\": \"\"}"), M, R::Plate),
        (V1, Plate, "/plate/wells", Remove, M, R::Plate),
        (V1, Plate, "/plate/wells", Set("{}"), M, R::Plate),
        (V1, Plate, "/plate/wells", Repeat, M, R::Plate),
        (V1, Plate, "/plate/wells/0/path", Remove, M, R::Plate),
        (V1, Plate, "/plate/wells/0/path", Set("\"../..\""), M, R::Plate),
        (V4, Plate, "/plate/wells/0/path", Set("\"a/b/c\""), M, R::Plate),
        (V4, Plate, "/plate/wells/0/rowIndex", Remove, M, R::Plate),
        (V4, Plate, "/plate/wells/0/rowIndex", Set("1"), M, R::Plate),
        (V4, Plate, "/plate/wells/0/columnIndex", Set("-1"), M, R::Plate),
        (V4, Plate, "/plate/wells/0/columnIndex", Set("18446744073709551615"), M, R::Plate),
        (V4, Plate, "/plate/name", Remove, S, R::Plate),
        (V4, Plate, "/plate/field_count", Set("0"), M, R::Plate),
        (V1, Plate, "/plate/acquisitions", Repeat, M, R::Plate),
        (V1, Plate, "@A/id", Remove, M, R::Plate),
        (V4, Plate, "@A/id", Set("-1"), M, R::Plate),
        (V1, Plate, "@A/id", Set("\"0\""), M, R::Plate),
        (V1, Plate, "@A/name", Remove, S, R::Plate),
        (V4, Plate, "@A/maximumfieldcount", Set("0"), M, R::Plate),
        (V4, Plate, "@A/starttime", Set("-1"), M, R::Plate),
        (V1, Plate, "@A/endtime", Set("\"now\""), M, R::Plate),
        (V1, Well, "/well", Set("[]"), M, R::Well),
        (V1, Well, "/well/images", Remove, M, R::Well),
        (V1, Well, "/well/images", Set("[]"), M, R::Well),
        (V1, Well, "/well/images", Repeat, M, R::Well),
        (V1, Well, "/well/images/0/path", Remove, M, R::Well),
        (V1, Well, "/well/images/0/path", Set("\"..\""), M, R::Well),
        (V1, Well, "/well/images/0/acquisition", Set("\"0\""), M, R::Well),
        (V1, Layout, "/bioformats2raw.layout", Set("2"), M, R::Layout),
        (V1, Layout, "/bioformats2raw.layout", Set("\"3\""), M, R::Layout),
        (V5, Series, "/series/0", Set("0"), M, R::Layout),
        (V5, Series, "/series", Set("\"0\""), M, R::Layout),
        (V1, Series, "/series/0", Set("\"../x\""), M, R::Layout),
        (V6, Scene, "/scene", Set("[]"), M, R::Scene),
        (V6, Scene, "@S", Remove, M, R::Scene),
        (V6, Scene, "@S", Set("[]"), M, R::Scene),
        (V6, Scene, "@S/0/output/name", Set("\"q\""), M, R::Scene),
        (V6, Scene, "@S/0/output/extra", Set("0"), M, R::Scene),
        (V6, Scene, "/scene/coordinateSystems", Repeat, M, R::Axes),
    ]
}

/// Whether a document has what a mutation changes.
fn applies(recipe: &Recipe, (since, kind, place, ..): &Mutation) -> bool {
    let is_elsewhere = match recipe.release {
        // Axes are names.
        V3 => place.starts_with("@I/axes/0/"),
        // Axes are in coordinate systems.
        V6 => place.starts_with("@I/axes"),
        _ => false,
    };
    recipe.release >= *since && recipe.kind == *kind && !is_elsewhere
}

/// A place in full.
fn spelled(place: &str, release: OmeRelease) -> String {
    let full = place
        .replace("@T", "@I/datasets/0/coordinateTransformations")
        .replace("@I", "/multiscales/0")
        .replace("@A", "/plate/acquisitions/0")
        .replace("@S", "/scene/coordinateTransformations");
    if release.is_zarr3() { format!("/ome{full}") } else { full }
}

fn change(document: &mut Value, place: &str, change: &Change) {
    let (parent, name) = place.rsplit_once('/').unwrap();
    match change {
        Repeat => {
            let list = document.pointer_mut(place).and_then(Value::as_array_mut).unwrap();
            list.push(list[0].clone());
        }
        Set(value) => {
            let value: Value = serde_json::from_str(value).unwrap();
            match document.pointer_mut(parent).unwrap() {
                Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
                parent => parent[name] = value,
            }
        }
        Remove => {
            let parent = document.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
            parent.shift_remove(name).unwrap();
        }
    }
}

/// Everything that is done to a document, with any answers about other nodes.
fn judge_all(attributes: &Map<String, Value>) {
    let array = ArrayFacts {
        shape: vec![4, 4],
        data_type: "uint8".to_owned(),
        dimension_names: None,
        has_nested_keys: false,
    };
    let facts = GroupFacts::read(attributes);
    let answers = [
        NodeFacts::Array(Arc::new(array)),
        NodeFacts::Group(Arc::new(facts.clone())),
        NodeFacts::Missing,
        NodeFacts::Unknown,
    ];
    let mut next = 0;
    let mut find = |_: &str| {
        next += 1;
        answers[next % answers.len()].clone()
    };
    let _ = violations(attributes, Some(3));
    let (_, image) = levels(attributes, true, &mut find);
    let _ = relations(attributes, &mut find);
    let _ = scene_relations(attributes, &mut find);
    let _ = well_relations(attributes, attributes);
    let _ = version_relations(&facts, &facts);
    if let Some(image) = image {
        let _ = label_relations(&facts, &image);
    }
}

proptest! {
    #[test]
    fn a_valid_document_stays_valid_and_each_change_is_found(recipe in recipe()) {
        let attributes = recipe.attributes();
        let zarr_format = if recipe.release.is_zarr3() { 3 } else { 2 };
        let found = violations(&attributes, Some(zarr_format)).unwrap();
        prop_assert_eq!(&found.list, &[][..]);
        prop_assert!(OmeMetadata::read(&attributes).is_ok_and(|read| read.is_some()));

        for mutation in table().iter().filter(|mutation| applies(&recipe, mutation)) {
            let (_, _, place, how, level, kind) = mutation;
            let mut document = Value::Object(attributes.clone());
            let place = spelled(place, recipe.release);
            change(&mut document, &place, how);
            let found = violations(document.as_object().unwrap(), Some(zarr_format));
            let found = found.map(|found| found.list).unwrap_or_default();
            let is_found = found.iter().any(|found| found.level == *level && found.kind == *kind);
            prop_assert!(is_found, "{place} of {document}: {found:?}");
        }
    }

    #[test]
    fn no_json_makes_the_rules_panic(document in arbitrary(), name in "[a-z]{0,3}") {
        let mut attributes = Map::new();
        attributes.insert(name, document.clone());
        for wrapped in [json!({"ome": document}), document] {
            attributes.extend(wrapped.as_object().cloned().unwrap_or_default());
            judge_all(&attributes);
        }
    }

    #[test]
    fn a_valid_document_with_a_piece_of_another_does_not_panic(
        recipe in recipe(), at in any::<prop::sample::Index>(), piece in arbitrary()
    ) {
        let mut document = Value::Object(recipe.attributes());
        let mut places = Vec::new();
        pointers(&document, String::new(), &mut places);
        let place: &String = at.get(&places);
        *document.pointer_mut(place).unwrap() = piece;
        if let Some(attributes) = document.as_object() {
            judge_all(attributes);
        }
    }
}
