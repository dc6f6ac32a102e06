//! The levels of an image and their arrays.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::facts::{self, ArrayFacts, ImageFacts, NodeFacts};
use super::image::NAME;
use super::judge::{At, Judge, count, is_below, quoted};
use super::transformations::wrong_length;
use super::{OmeRelease, RuleKind, Violations, metadata_members, release};

const KIND: RuleKind = RuleKind::Levels;

/// The data types that a label image may have.
pub(super) const LABEL_TYPES: [&str; 8] =
    ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"];

/// How the message begins about a level that should be before another one.
pub(super) const LARGER: &str = "is larger than the level before it";

/// The most dimensions of an array of an image.
const MAX_RANK: usize = 5;

/// Judges the images of a group against the arrays of their levels, and returns what is known of
/// the first image. `find` is asked once for each level, with its path below the group.
///
/// `is_label` is whether the group is known to be a label image by where it is.
pub fn levels(
    attributes: &Map<String, Value>,
    is_label: bool,
    find: &mut dyn FnMut(&str) -> NodeFacts,
) -> (Violations, Option<ImageFacts>) {
    let release = release(attributes).unwrap_or(OmeRelease::V0_5);
    let mut judge = Judge::new(release);
    let mut first = None;
    let Some(members) = metadata_members(attributes) else { return (judge.finish(), None) };
    let is_label = is_label || members.contains_key("image-label");
    let at = At::new("multiscales");
    let images = members.get("multiscales").and_then(Value::as_array);
    for (number, image) in images.into_iter().flatten().enumerate() {
        let Some(image) = image.as_object() else { continue };
        let arrays = judge_image(image, is_label, &at.item(number), &mut judge, find);
        if number == 0 {
            judge_channels(members, image, &arrays, &mut judge);
            first = Some(ImageFacts { levels: arrays, ..ImageFacts::read(image, release) });
        }
    }
    (judge.finish(), first)
}

fn judge_image(
    image: &Map<String, Value>,
    is_label: bool,
    at: &At<'_>,
    judge: &mut Judge,
    find: &mut dyn FnMut(&str) -> NodeFacts,
) -> Vec<Option<Arc<ArrayFacts>>> {
    let axes = facts::axis_names(image, judge.release);
    let at = at.member("datasets");
    let mut arrays: Vec<Option<Arc<ArrayFacts>>> = Vec::new();
    let levels = image.get("datasets").and_then(Value::as_array);
    for (number, level) in levels.into_iter().flatten().enumerate() {
        let at = at.item(number);
        let path = level.get("path").and_then(Value::as_str).filter(|path| is_below(path));
        // Any other path is wrong in itself.
        let array = path.and_then(|path| match find(path) {
            NodeFacts::Array(array) => Some(array),
            NodeFacts::Unknown => None,
            NodeFacts::Missing => {
                judge.must(KIND, &at.member("path"), format!("there is no array {}", quoted(path)));
                None
            }
            NodeFacts::Group(_) => {
                let message = format!("{} is a group, not an array", quoted(path));
                judge.must(KIND, &at.member("path"), message);
                None
            }
        });
        if let Some(array) = &array {
            judge_rank(array, axes.as_deref(), &at, judge);
            judge_names(array, axes.as_deref(), &at, judge);
            judge_keys(array, &at, judge);
            judge_lengths(array, level, &at, judge);
            if is_label {
                judge_label_type(array, &at, judge);
            }
            if let Some(Some(before)) = arrays.last() {
                judge_order(before, array, &at, judge);
            }
            if let Some(first) = arrays.iter().flatten().next()
                && first.data_type != array.data_type
            {
                let message =
                    format!("is {}, but finer levels are {}", array.data_type, first.data_type);
                match judge.release >= OmeRelease::V0_6 {
                    true => judge.must(KIND, &at, message),
                    false => judge.doubt(KIND, &at, message),
                }
            }
        }
        arrays.push(array);
    }
    arrays
}

fn judge_rank(array: &ArrayFacts, axes: Option<&[String]>, at: &At<'_>, judge: &mut Judge) {
    let rank = array.shape.len();
    match axes {
        Some(axes) if axes.len() != rank => {
            let message = format!(
                "its array has {} for {}",
                count(rank, "dimension"),
                count(axes.len(), "axis")
            );
            judge.must(RuleKind::Axes, at, message);
        }
        _ if rank > MAX_RANK => {
            let message = format!("its array has {rank} dimensions, where at most 5 belong");
            judge.must(RuleKind::Axes, at, message);
        }
        _ => {}
    }
}

/// From 0.5 on, the dimensions of an array have the names of the axes. The text of 0.6 no longer
/// says so, but readers rely on it.
fn judge_names(array: &ArrayFacts, axes: Option<&[String]>, at: &At<'_>, judge: &mut Judge) {
    let Some(axes) = axes.filter(|axes| axes.len() == array.shape.len()) else { return };
    if !judge.release.is_zarr3() {
        return;
    }
    let message = match &array.dimension_names {
        None => "its array has no dimension_names".to_owned(),
        Some(names) => {
            let same = names.iter().zip(axes).all(|(name, axis)| name.as_ref() == Some(axis));
            if same {
                return;
            }
            let shown = |name: &Option<String>| match name {
                Some(name) => name.clone(),
                None => "null".to_owned(),
            };
            let names: Vec<String> = names.iter().map(shown).collect();
            let (names, axes) = (names.join(", "), axes.join(", "));
            format!(
                "the dimensions of its array are {}, the axes {}",
                quoted(&names),
                quoted(&axes)
            )
        }
    };
    match judge.release {
        OmeRelease::V0_5 => judge.must(RuleKind::DimensionNames, at, message),
        _ => judge.doubt(RuleKind::DimensionNames, at, message),
    }
}

/// From 0.2 to 0.4 chunks are in folders.
fn judge_keys(array: &ArrayFacts, at: &At<'_>, judge: &mut Judge) {
    let nested = [OmeRelease::V0_2, OmeRelease::V0_3, OmeRelease::V0_4];
    if nested.contains(&judge.release) && !array.has_nested_keys && array.shape.len() > 1 {
        let message = "the keys of its chunks have dots; slashes are recommended";
        judge.should(RuleKind::Layout, at, message);
    }
}

/// The transformations of a level have a number for each dimension of its array. Those of 0.5 are
/// compared with the axes.
fn judge_lengths(array: &ArrayFacts, level: &Value, at: &At<'_>, judge: &mut Judge) {
    if judge.release == OmeRelease::V0_5 || judge.release < OmeRelease::V0_4 {
        return;
    }
    let all = level.get(NAME).and_then(Value::as_array);
    for one in all.into_iter().flatten().take(2) {
        let steps = one.get("transformations").and_then(Value::as_array);
        for step in std::iter::once(one).chain(steps.into_iter().flatten().take(2)) {
            for name in ["scale", "translation"] {
                let numbers = step.get(name).and_then(Value::as_array).map(Vec::len);
                if let Some(numbers) = numbers.filter(|numbers| *numbers != array.shape.len()) {
                    let message =
                        format!("the {name} {}", wrong_length(numbers, array.shape.len()));
                    judge.must(RuleKind::Transformations, &at.member(NAME), message);
                }
            }
        }
    }
}

fn judge_label_type(array: &ArrayFacts, at: &At<'_>, judge: &mut Judge) {
    if LABEL_TYPES.contains(&array.data_type.as_str()) {
        return;
    }
    let message =
        format!("is {}, but labels are integers of 8 to 64 bits", quoted(&array.data_type));
    match judge.release.is_zarr3() {
        true => judge.must(RuleKind::Labels, at, message),
        false => judge.should(RuleKind::Labels, at, message),
    }
}

fn judge_order(before: &ArrayFacts, array: &ArrayFacts, at: &At<'_>, judge: &mut Judge) {
    if before.shape.len() != array.shape.len() {
        return;
    }
    let shape = |array: &ArrayFacts| format!("{:?}", array.shape);
    let (was, is) = (shape(before), shape(array));
    if array.shape.iter().zip(&before.shape).any(|(now, before)| now > before) {
        judge.must(KIND, at, format!("{LARGER}: {is} after {was}"));
    } else if before.shape == array.shape {
        judge.doubt(KIND, at, format!("has the shape of the level before it: {is}"));
    }
}

/// There is one entry for each channel.
fn judge_channels(
    members: &Map<String, Value>,
    image: &Map<String, Value>,
    arrays: &[Option<Arc<ArrayFacts>>],
    judge: &mut Judge,
) {
    let channels = members.get("omero").and_then(|omero| omero.get("channels"));
    let Some(channels) = channels.and_then(Value::as_array) else { return };
    let Some(Some(array)) = arrays.first() else { return };
    let Some(names) = facts::axis_names(image, judge.release) else { return };
    if names.len() != array.shape.len() {
        return;
    }
    let typed = facts::axes(image, judge.release).and_then(|axes| {
        axes.iter().position(|axis| axis.get("type").and_then(Value::as_str) == Some("channel"))
    });
    let axis = typed.or_else(|| names.iter().position(|name| name == "c"));
    let size = match axis {
        Some(axis) => array.shape.get(axis).copied().unwrap_or(1),
        None => 1,
    };
    if size != channels.len() as u64 {
        let message = format!("has {} for an image of {size}", count(channels.len(), "channel"));
        let at = At::new("omero");
        judge.doubt(RuleKind::Channels, &at.member("channels"), message);
    }
}

/// The order in which levels of these shapes should be; `None` if they are in order, or if no order
/// makes each no larger than the one before.
pub fn order_by_size(shapes: &[Vec<u64>]) -> Option<Vec<usize>> {
    let fits = |before: &[u64], after: &[u64]| {
        before.len() == after.len() && before.iter().zip(after).all(|(a, b)| a >= b)
    };
    let is_in_order = |order: &[usize]| {
        order.windows(2).all(|pair| match pair {
            [a, b] => fits(&shapes[*a], &shapes[*b]),
            _ => true,
        })
    };
    let mut order: Vec<usize> = (0..shapes.len()).collect();
    if is_in_order(&order) {
        return None;
    }
    // If there is an order, it is that of the sums; equal ones stay as they are.
    let sum = |number: &usize| shapes[*number].iter().map(|size| u128::from(*size)).sum::<u128>();
    order.sort_by_key(|number| std::cmp::Reverse(sum(number)));
    is_in_order(&order).then_some(order)
}
