//! The order of levels, and the names of the dimensions of their arrays.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Correction, members_mut};
use crate::ome::rules::facts::axis_names;
use crate::ome::rules::judge::is_below;
use crate::ome::rules::{NodeFacts, metadata_members, order_by_size, release};
use crate::ome::{Image, OmeMetadata, OmeRelease};

/// How much coarser levels must be, against rounding.
const ROUNDING: f64 = 1e-6;

/// Puts levels in the order of their arrays' sizes, where their scales agree that it is the order
/// that is wrong, and not which array is named.
pub(crate) fn level_orders(
    attributes: &Map<String, Value>,
    find: &mut dyn FnMut(&str) -> NodeFacts,
) -> Vec<Correction> {
    let Ok(Some(metadata)) = OmeMetadata::read(attributes) else { return Vec::new() };
    let release = release(attributes).unwrap_or(OmeRelease::V0_5);
    let mut found = Vec::new();
    for (number, image) in metadata.images.iter().enumerate() {
        let mut shape = |path: &str| match find(path) {
            NodeFacts::Array(array) => Some(array.shape.clone()),
            _ => None,
        };
        let paths: Vec<String> = image.levels.iter().map(|level| level.path.clone()).collect();
        let shapes: Option<Vec<Vec<u64>>> =
            paths.iter().map(|path| is_below(path).then(|| shape(path)).flatten()).collect();
        if let Some(order) = shapes.and_then(|shapes| order_by_size(&shapes))
            && scales_agree(image, release, &order)
        {
            found.push(Correction::Order { image: number, paths, order });
        }
    }
    found
}

/// Whether the levels of an image are from the finest to the coarsest in some order, by what they
/// say themselves.
fn scales_agree(image: &Image, release: OmeRelease, order: &[usize]) -> bool {
    // There are none to compare.
    if release < OmeRelease::V0_4 {
        return true;
    }
    let mut before: Option<Vec<f64>> = None;
    for number in order {
        let Some(level) = image.levels.get(*number) else { return false };
        let Ok(placement) = image.own_placement(level) else { return false };
        if level.transformations.is_empty() {
            return false;
        }
        if let Some(before) = &before {
            let finer = |(before, now): (&f64, &f64)| now.abs() < before.abs() * (1.0 - ROUNDING);
            if before.iter().zip(&placement.scale).any(finer) {
                return false;
            }
        }
        before = Some(placement.scale);
    }
    true
}

pub(super) fn apply_order(
    attributes: &mut Map<String, Value>,
    image: usize,
    paths: &[String],
    order: &[usize],
) -> bool {
    let images = members_mut(attributes).and_then(|members| members.get_mut("multiscales"));
    let image = images.and_then(|images| images.get_mut(image));
    let datasets = image.and_then(|image| image.get_mut("datasets"));
    let Some(datasets) = datasets.and_then(Value::as_array_mut) else { return false };
    let path = |level: &Value| level.get("path").and_then(Value::as_str).map(str::to_owned);
    let now: Option<Vec<String>> = datasets.iter().map(path).collect();
    if now.as_deref() != Some(paths) {
        return false;
    }
    let sorted: Option<Vec<Value>> =
        order.iter().map(|number| datasets.get(*number).cloned()).collect();
    match sorted.filter(|sorted| sorted.len() == datasets.len()) {
        Some(sorted) => {
            *datasets = sorted;
            true
        }
        None => false,
    }
}

/// The names that the dimensions of the arrays of levels should have and do not, by the path of the
/// array.
///
/// Left alone is what may be a mistake of the axes: a dimension with the name of an axis in another
/// place, and an array that belongs to images with different axes. Since 0.6 no longer demands that
/// they agree, there only dimensions without a name get one.
pub(crate) fn dimension_names(
    attributes: &Map<String, Value>,
    find: &mut dyn FnMut(&str) -> NodeFacts,
) -> BTreeMap<String, Correction> {
    let release = release(attributes).unwrap_or(OmeRelease::V0_5);
    let members = metadata_members(attributes).filter(|_| release.is_zarr3());
    let images = members.and_then(|members| members.get("multiscales")).and_then(Value::as_array);
    // `None` for those that are left alone.
    let mut found: BTreeMap<String, Option<Correction>> = BTreeMap::new();
    for (image_number, image) in images.into_iter().flatten().enumerate() {
        let Some(image) = image.as_object() else { continue };
        let axes = axis_names(image, release).filter(|axes| are_names(axes));
        let levels = image.get("datasets").and_then(Value::as_array);
        for (number, level) in levels.into_iter().flatten().enumerate() {
            let path = level.get("path").and_then(Value::as_str).filter(|path| is_below(path));
            let Some(path) = path else { continue };
            let NodeFacts::Array(array) = find(path) else { continue };
            let names = array.dimension_names.as_deref();
            let axes = axes.as_deref().filter(|axes| axes.len() == array.shape.len());
            let axes = axes.filter(|axes| can_be_named(names, axes, release));
            let member = format!("multiscales[{image_number}].datasets[{number}]");
            let now = axes.map(|axes| Correction::DimensionNames {
                names: axes.to_vec(),
                before: names.map(<[_]>::to_vec),
                levels: vec![member.clone()],
            });
            match found.get_mut(path) {
                None => drop(found.insert(path.to_owned(), now)),
                Some(known) => match (&mut *known, axes) {
                    (Some(Correction::DimensionNames { names, levels, .. }), Some(axes))
                        if names == axes =>
                    {
                        levels.push(member);
                    }
                    _ => *known = None,
                },
            }
        }
    }
    let wrong = |correction: &Correction| match correction {
        Correction::DimensionNames { names, before, .. } => {
            let same = |before: &Vec<Option<String>>| {
                before.iter().zip(names).all(|(before, name)| before.as_ref() == Some(name))
            };
            !before.as_ref().is_some_and(same)
        }
        _ => false,
    };
    found.into_iter().filter_map(|(path, found)| Some((path, found.filter(wrong)?))).collect()
}

/// Whether axes can be told apart by their names.
fn are_names(axes: &[String]) -> bool {
    let is_new = |(number, name): (usize, &String)| {
        !name.is_empty() && !axes.iter().take(number).any(|before| before == name)
    };
    axes.len() <= MAX_AXES && axes.iter().enumerate().all(is_new)
}

/// The most axes of an image.
const MAX_AXES: usize = 5;

/// Whether dimensions can get the names of axes.
fn can_be_named(names: Option<&[Option<String>]>, axes: &[String], release: OmeRelease) -> bool {
    let Some(names) = names else { return true };
    names.iter().zip(axes).all(|(name, axis)| match name {
        None => true,
        Some(name) if name == axis => true,
        Some(name) => release < OmeRelease::V0_6 && !axes.contains(name),
    })
}
