//! What documents say about each other.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::facts::{GroupFacts, ImageFacts, NodeFacts};
use super::judge::{At, Judge, count, is_below, quoted};
use super::{OmeRelease, RuleKind, Violations, metadata_members, plate, release};
use crate::ome::OmeVersion;

/// Judges what the metadata of a group says about the nodes below it, apart from the levels of its
/// images: label images that are listed, wells of a plate, images of a well, the layout of
/// bioformats2raw. `find` is asked once for each path.
pub fn relations(
    attributes: &Map<String, Value>,
    find: &mut dyn FnMut(&str) -> NodeFacts,
) -> Violations {
    let mut judge = Judge::new(release(attributes).unwrap_or(OmeRelease::V0_5));
    let Some(members) = metadata_members(attributes) else { return judge.finish() };
    let list = |object: &str, name: &str| members.get(object)?.get(name)?.as_array();
    if let Some(labels) = members.get("labels").and_then(Value::as_array) {
        let at = At::new("labels");
        for (number, path) in labels.iter().enumerate() {
            judge_label(path, &at.item(number), &mut judge, find);
        }
    }
    if members.contains_key("image-label") && !members.contains_key("multiscales") {
        let message = "belongs to an image, but there is no multiscales";
        judge.must(RuleKind::Labels, &At::new("image-label"), message);
    }
    let (plate, well) = (At::new("plate"), At::new("well"));
    let wells = list("plate", "wells");
    let fields = list("well", "images");
    let of_plate = (wells, plate.member("wells"), RuleKind::Plate, "well");
    let of_well = (fields, well.member("images"), RuleKind::Well, "image");
    for (nodes, at, kind, what) in [of_plate, of_well] {
        for (number, node) in nodes.into_iter().flatten().enumerate() {
            let Some(path) = node.get("path").and_then(Value::as_str) else { continue };
            let at = at.item(number);
            let is_right = |group: &GroupFacts| match kind {
                RuleKind::Plate => group.is_well,
                _ => group.image.is_some(),
            };
            judge_node(path, kind, what, &is_right, &at.member("path"), &mut judge, find);
        }
    }
    if members.contains_key("bioformats2raw.layout") && !members.contains_key("plate") {
        judge_layout(&mut judge, find);
    }
    judge.finish()
}

/// Judges a node that a document names: it must be a group with certain metadata.
fn judge_node(
    path: &str,
    kind: RuleKind,
    what: &str,
    is_right: &dyn Fn(&GroupFacts) -> bool,
    at: &At<'_>,
    judge: &mut Judge,
    find: &mut dyn FnMut(&str) -> NodeFacts,
) {
    // Any other path is wrong in itself.
    if !is_below(path) {
        return;
    }
    let message = match find(path) {
        NodeFacts::Unknown => return,
        NodeFacts::Group(group) if is_right(&group) => return,
        NodeFacts::Missing => format!("there is no {what} {}", quoted(path)),
        NodeFacts::Group(_) => format!("the group {} is no {what}", quoted(path)),
        NodeFacts::Array(_) => format!("{} is an array, not a group with the {what}", quoted(path)),
    };
    judge.must(kind, at, message);
}

fn judge_label(
    path: &Value,
    at: &At<'_>,
    judge: &mut Judge,
    find: &mut dyn FnMut(&str) -> NodeFacts,
) {
    let Some(path) = path.as_str() else { return };
    let mut found = NodeFacts::Unknown;
    let mut keep = |path: &str| {
        found = find(path);
        found.clone()
    };
    let is_image = |group: &GroupFacts| group.image.is_some();
    judge_node(path, RuleKind::Labels, "image", &is_image, at, judge, &mut keep);
    if let NodeFacts::Group(group) = found
        && group.image.is_some()
        && !group.has_image_label
    {
        let message =
            format!("the label image {} has no image-label, which is recommended", quoted(path));
        judge.should(RuleKind::Labels, at, message);
    }
}

/// The images that bioformats2raw made are those of the series, else numbered from 0.
fn judge_layout(judge: &mut Judge, find: &mut dyn FnMut(&str) -> NodeFacts) {
    let kind = RuleKind::Layout;
    let series = match find("OME") {
        NodeFacts::Unknown => return,
        NodeFacts::Group(group) => group.series.clone(),
        NodeFacts::Array(_) | NodeFacts::Missing => None,
    };
    let is_image = |group: &GroupFacts| group.image.is_some();
    let at = At::new("bioformats2raw.layout");
    match series {
        None => judge_node("0", kind, "image", &is_image, &at, judge, find),
        Some(series) => {
            for path in &series {
                judge_node(path, kind, "image", &is_image, &at, judge, find);
            }
        }
    }
}

/// Judges the acquisitions of a well against those of its plate. Both are attributes of groups.
pub fn well_relations(well: &Map<String, Value>, of_plate: &Map<String, Value>) -> Violations {
    let mut judge = Judge::new(release(well).unwrap_or(OmeRelease::V0_5));
    let member = |attributes, name: &str| metadata_members(attributes)?.get(name)?.as_object();
    if let Some(well) = member(well, "well")
        && let Some(plate) = member(of_plate, "plate")
        && let Some(known) = plate::acquisitions(plate)
    {
        plate::judge_acquired(well, &known, &mut judge);
    }
    judge.finish()
}

/// Judges a label image against the image that it belongs to.
pub fn label_relations(label: &GroupFacts, image: &ImageFacts) -> Violations {
    let mut judge = Judge::new(label.release.unwrap_or(OmeRelease::V0_5));
    let Some(own) = &label.image else { return judge.finish() };
    let at = At::new("multiscales");
    let at = at.item(0);
    let at = at.member("datasets");
    if own.levels.len() != image.levels.len() {
        let message = format!(
            "has {}, but its image has {}",
            count(own.levels.len(), "level"),
            image.levels.len()
        );
        judge.must(RuleKind::Labels, &at, message);
        return judge.finish();
    }
    let places: HashMap<&str, usize> =
        image.axes.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
    for (number, (level, of_image)) in own.levels.iter().zip(&image.levels).enumerate() {
        let (Some(level), Some(of_image)) = (level, of_image) else { continue };
        for (size, axis) in level.shape.iter().zip(&own.axes) {
            let wanted = places.get(axis.as_str()).and_then(|place| of_image.shape.get(*place));
            if let Some(wanted) = wanted.filter(|wanted| *wanted != size && *size != 1) {
                let message =
                    format!("has {size} elements along {axis}, but its image has {wanted}");
                judge.should(RuleKind::Labels, &at.item(number), message);
            }
        }
    }
    judge.finish()
}

/// Judges the version of a group against that of a group above it.
pub fn version_relations(inner: &GroupFacts, outer: &GroupFacts) -> Violations {
    let (Some(release), Some(above)) = (inner.release, outer.release) else {
        return Violations::default();
    };
    let mut judge = Judge::new(release);
    let (Some(version), Some(outer)) = (&inner.version, &outer.version) else {
        return judge.finish();
    };
    let parse = |text: &str| text.parse::<OmeVersion>().ok();
    // What cannot be read is wrong in itself.
    if let (Some(own), Some(of_outer)) = (parse(version), parse(outer))
        && own != of_outer
    {
        let message = format!("OME-Zarr {own} is below a group of version {of_outer}");
        let is_draft = own.release() == of_outer.release();
        match (release.is_zarr3() || above.is_zarr3()) && !is_draft {
            true => judge.must(RuleKind::Version, &At::ROOT, message),
            false => judge.doubt(RuleKind::Version, &At::ROOT, message),
        }
    }
    judge.finish()
}
