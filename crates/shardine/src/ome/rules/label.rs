//! Label images, and the group that lists them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::judge::{At, Judge, count, integer, quoted};
use super::{OmeRelease, RuleKind};

const KIND: RuleKind = RuleKind::Labels;

/// Judges `labels`: paths of label images.
pub(super) fn judge_list(labels: &Value, at: &At<'_>, judge: &mut Judge) {
    let mut seen = HashSet::new();
    for (number, path) in judge.list(KIND, labels, at).unwrap_or_default().iter().enumerate() {
        let at = at.item(number);
        let Some(path) = judge.string(KIND, path, &at) else { continue };
        judge.path(KIND, path, &at);
        if !seen.insert(path) {
            judge.doubt(KIND, &at, format!("{} is listed before", quoted(path)));
        }
    }
}

/// Judges `image-label`: what the values of a label image mean.
pub(super) fn judge(label: &Value, at: &At<'_>, judge: &mut Judge) {
    let Some(label) = judge.object(KIND, label, at) else { return };
    if judge.release == OmeRelease::V0_4 {
        judge.recommended(RuleKind::Version, label, &["version"], at);
    }
    judge.recommended(KIND, label, &["colors"], at);
    if let Some(colors) = label.get("colors") {
        let at = at.member("colors");
        values(colors, true, &at, judge, &mut |color, at, judge| {
            if let Some(rgba) = color.get("rgba") {
                judge_rgba(rgba, &at.member("rgba"), judge);
            }
        });
    }
    if let Some(properties) = label.get("properties") {
        values(properties, false, &at.member("properties"), judge, &mut |_, _, _| {});
    }
    if let Some(source) = label.get("source") {
        let at = at.member("source");
        if let Some(source) = judge.object(KIND, source, &at) {
            judge.strings(KIND, source, &["image"], &at);
        }
    }
}

/// Judges a list with one object for each value of a label image.
#[expect(clippy::type_complexity, reason = "a callback with what it judges")]
fn values(
    list: &Value,
    unique: bool,
    at: &At<'_>,
    judge: &mut Judge,
    judge_one: &mut dyn FnMut(&Map<String, Value>, &At<'_>, &mut Judge),
) {
    let mut seen: HashMap<i128, &Map<String, Value>> = HashMap::new();
    for (number, one) in judge.filled_list(KIND, list, at).unwrap_or_default().iter().enumerate() {
        let at = at.item(number);
        let Some(one) = judge.object(KIND, one, &at) else { continue };
        judge_one(one, &at, judge);
        let Some(value) = judge.required(KIND, one, "label-value", &at) else { continue };
        let at = at.member("label-value");
        let Some(value) = integer(value) else {
            judge.must(KIND, &at, "is not a whole number");
            continue;
        };
        match seen.get(&value) {
            None => {
                seen.insert(value, one);
            }
            Some(first) if unique || *first == one => {
                judge.must(KIND, &at, format!("{value} is listed before"));
            }
            Some(_) => judge.doubt(KIND, &at, format!("{value} is listed before")),
        }
    }
}

fn judge_rgba(rgba: &Value, at: &At<'_>, judge: &mut Judge) {
    let Some(rgba) = judge.list(KIND, rgba, at) else { return };
    if rgba.len() != 4 {
        judge.must(KIND, at, format!("has {}, where 4 belong", count(rgba.len(), "number")));
    }
    let is_byte = |value: &Value| integer(value).is_some_and(|value| (0..=255).contains(&value));
    if !rgba.iter().all(is_byte) {
        judge.must(KIND, at, "has an item that is not a whole number from 0 to 255");
    }
}
