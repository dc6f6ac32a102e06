//! The list of label images.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Correction, members_mut};
use crate::ome::rules::judge::is_below;
use crate::ome::rules::levels::LABEL_TYPES;
use crate::ome::rules::{GroupFacts, metadata_members, release};

/// What is known of the nodes below a group of labels.
pub(crate) struct LabelNodes<'a> {
    /// The images there, by path.
    pub images: Vec<(&'a str, &'a GroupFacts)>,
    /// Whether there is nothing at all at a path, not even a folder without a document.
    pub is_free: &'a dyn Fn(&str) -> bool,
}

/// Lists label images that are there, and no others; each once.
///
/// From 0.5 on all label images should be listed. An image whose elements are not known to be
/// integers is not taken for one.
pub(crate) fn labels(
    attributes: &Map<String, Value>,
    nodes: &LabelNodes<'_>,
) -> Option<Correction> {
    let is_zarr3 = release(attributes)?.is_zarr3();
    let list = metadata_members(attributes)?.get("labels")?.as_array()?;
    let mut listed = HashSet::new();
    let mut removed = Vec::new();
    for (number, path) in list.iter().enumerate() {
        // Anything else than a path is wrong in another way, and stays.
        let Some(path) = path.as_str().filter(|path| is_below(path)) else { continue };
        if !listed.insert(path) || (nodes.is_free)(path) {
            removed.push((number, path.to_owned()));
        }
    }
    let is_new = |(path, group): &&(&str, &GroupFacts)| is_label(group) && !listed.contains(path);
    let new = nodes.images.iter().filter(|_| is_zarr3).filter(is_new);
    let added: Vec<String> = new.map(|(path, _)| (*path).to_owned()).collect();
    let is_something = !added.is_empty() || !removed.is_empty();
    is_something.then_some(Correction::Labels { added, removed })
}

/// Whether all levels of an image are known to be of integers.
pub(super) fn is_label(group: &GroupFacts) -> bool {
    let Some(image) = &group.image else { return false };
    let is_integer = |data_type: &str| LABEL_TYPES.contains(&data_type);
    let mut levels = image.levels.iter();
    !image.levels.is_empty()
        && levels.all(|level| level.as_ref().is_some_and(|level| is_integer(&level.data_type)))
}

pub(super) fn apply(
    attributes: &mut Map<String, Value>,
    added: &[String],
    removed: &[(usize, String)],
) -> bool {
    let list = members_mut(attributes).and_then(|members| members.get_mut("labels"));
    let Some(list) = list.and_then(Value::as_array_mut) else { return false };
    let text = |number: usize| list.get(number).and_then(Value::as_str);
    let is_same = removed.iter().all(|(number, path)| text(*number) == Some(path));
    let listed: HashSet<&str> = list.iter().filter_map(Value::as_str).collect();
    if !is_same || added.iter().any(|path| listed.contains(path.as_str())) {
        return false;
    }
    let gone: HashSet<usize> = removed.iter().map(|(number, _)| *number).collect();
    let mut numbers = 0..;
    list.retain(|_| numbers.next().is_none_or(|number| !gone.contains(&number)));
    list.extend(added.iter().map(|path| Value::from(path.as_str())));
    true
}
