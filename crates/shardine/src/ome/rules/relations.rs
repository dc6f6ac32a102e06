//! What documents say about each other.

use std::collections::{HashMap, HashSet};

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
    if members.contains_key("bioformats2raw.layout") {
        judge_layout(members.contains_key("plate"), &mut judge, find);
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

/// The images that bioformats2raw made are those of the series, else numbered from 0. A plate says
/// itself where they are.
fn judge_layout(is_plate: bool, judge: &mut Judge, find: &mut dyn FnMut(&str) -> NodeFacts) {
    let kind = RuleKind::Layout;
    let at = At::new("bioformats2raw.layout");
    let (series, has_xml) = match find("OME") {
        NodeFacts::Unknown => return,
        NodeFacts::Group(group) => (group.series.clone(), group.has_xml),
        NodeFacts::Array(_) | NodeFacts::Missing => (None, Some(false)),
    };
    if has_xml == Some(false) {
        judge.should(kind, &at, "there is no OME/METADATA.ome.xml, which is recommended");
    }
    let is_image = |group: &GroupFacts| group.image.is_some();
    match series {
        None if is_plate => {}
        None => judge_node("0", kind, "image", &is_image, &at, judge, find),
        Some(series) => {
            for path in &series {
                judge_node(path, kind, "image", &is_image, &at, judge, find);
            }
        }
    }
}

/// What is said about a label image that is not listed.
pub(super) fn not_listed(path: &str) -> String {
    format!("does not list {}", quoted(path))
}

/// Judges the images below a group of labels, by their paths: from 0.5 on all should be listed.
pub fn unlisted_labels<'a>(
    attributes: &Map<String, Value>,
    images: impl IntoIterator<Item = &'a str>,
) -> Violations {
    let mut judge = Judge::new(release(attributes).unwrap_or(OmeRelease::V0_5));
    let labels = metadata_members(attributes).and_then(|members| members.get("labels"));
    let Some(labels) = labels.and_then(Value::as_array).filter(|_| judge.release.is_zarr3()) else {
        return judge.finish();
    };
    let listed: HashSet<&str> = labels.iter().filter_map(Value::as_str).collect();
    for path in images.into_iter().filter(|path| !listed.contains(path)) {
        judge.should(RuleKind::Labels, &At::new("labels"), not_listed(path));
    }
    judge.finish()
}

/// Judges a group between the labels of an image and a label image: from 0.5 on it has no metadata.
pub fn between_labels(group: &GroupFacts) -> Violations {
    let release = group.release.unwrap_or(OmeRelease::V0_5);
    let mut judge = Judge::new(release);
    if group.release.is_some_and(OmeRelease::is_zarr3)
        && group.image.is_none()
        && !group.has_image_label
    {
        let message = "is between the labels and a label image, where no metadata may be";
        judge.must(RuleKind::Labels, &At::ROOT, message);
    }
    judge.finish()
}

/// The path of the image that a label image says it belongs to; `None` if it does not say.
pub fn label_source(attributes: &Map<String, Value>) -> Option<&str> {
    let label = metadata_members(attributes)?.get("image-label")?;
    label.get("source")?.get("image")?.as_str()
}

/// Judges the source of a label image: what is at [`label_source`].
pub fn source_relations(attributes: &Map<String, Value>, found: &NodeFacts) -> Violations {
    let mut judge = Judge::new(release(attributes).unwrap_or(OmeRelease::V0_5));
    let is_wrong = match found {
        NodeFacts::Unknown => false,
        NodeFacts::Group(group) => group.image.is_none(),
        NodeFacts::Array(_) | NodeFacts::Missing => true,
    };
    if let Some(path) = label_source(attributes).filter(|_| is_wrong) {
        let at = At::new("image-label");
        let at = at.member("source");
        judge.must(
            RuleKind::Labels,
            &at.member("image"),
            format!("{} is not an image", quoted(path)),
        );
    }
    judge.finish()
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
