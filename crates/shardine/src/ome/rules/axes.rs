//! The axes of images and coordinate systems.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::judge::{At, Judge, and, count, quoted};
use super::{OmeRelease, RuleKind};
use crate::ome::units::{is_length_of_specification, is_time_of_specification};

const KIND: RuleKind = RuleKind::Axes;

/// How many axes an image may have.
const RANKS: std::ops::RangeInclusive<usize> = 2..=5;

/// The order of the axes of 0.3.
const ORDER: [&str; 5] = ["t", "c", "z", "y", "x"];

/// What an axis is, in the order in which they must be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Time,
    /// Channels, or a type of the user's own; `bool` is whether there is no type at all.
    Other {
        untyped: bool,
    },
    Space,
    /// Coordinates of an array, from 0.6 on.
    Array,
}

/// How many axes there are.
#[derive(Clone, Copy)]
pub(super) struct Count {
    pub all: usize,
    /// Those of space.
    pub space: usize,
}

/// Judges the axes of an image of 0.3; their number if they can be counted.
pub(super) fn judge_names(axes: &Value, at: &At<'_>, judge: &mut Judge) -> Option<Count> {
    let axes = judge.list(KIND, axes, at)?;
    number(axes.len(), at, judge);
    let mut places = Vec::new();
    for (number, axis) in axes.iter().enumerate() {
        let at = at.item(number);
        let Some(name) = judge.string(KIND, axis, &at) else { continue };
        match ORDER.iter().position(|known| *known == name) {
            None => judge.must(KIND, &at, format!("is {}, not one of t, c, z, y, x", quoted(name))),
            Some(place) if places.contains(&place) => {
                judge.must(KIND, &at, format!("names {} again", quoted(name)));
            }
            Some(place) => places.push(place),
        }
    }
    if !places.is_sorted() {
        judge.must(KIND, at, "are not in the order t, c, z, y, x");
    }
    let space = places.iter().filter(|place| **place >= 2).count();
    Some(Count { all: axes.len(), space })
}

/// Judges axes that are objects, from 0.4 on; their number if they can be counted.
pub(super) fn judge(axes: &Value, at: &At<'_>, judge: &mut Judge) -> Option<Count> {
    let axes = judge.list(KIND, axes, at)?;
    number(axes.len(), at, judge);
    let mut names = HashSet::new();
    let mut roles = Vec::new();
    let mut unitless = Vec::new();
    for (number, axis) in axes.iter().enumerate() {
        let at = at.item(number);
        let Some(axis) = judge.object(KIND, axis, &at) else { continue };
        let name = judge.required_string(KIND, axis, "name", &at);
        if let Some(name) = name {
            named(name, &mut names, &at, judge);
        }
        let role = role(axis, &at, judge);
        roles.extend(role);
        unit(axis, role, &at, judge);
        if role == Some(Role::Space) && !axis.contains_key("unit") {
            unitless.extend(name.map(quoted));
        }
        if judge.release >= OmeRelease::V0_6 {
            judge.strings(KIND, axis, &["longName"], &at);
            if axis.get("discrete").is_some_and(|discrete| !discrete.is_boolean()) {
                judge.must(KIND, &at.member("discrete"), "is neither true nor false");
            }
        }
    }
    if !unitless.is_empty() {
        let names: Vec<&str> = unitless.iter().take(RANKS.end() + 1).map(String::as_str).collect();
        let has = if names.len() == 1 { "has" } else { "have" };
        judge.should(KIND, at, format!("{} {has} no unit, which is recommended", and(&names)));
    }
    if roles.len() == axes.len() {
        kinds(&roles, at, judge);
        usual_order(axes, &roles, at, judge);
    }
    let space = roles.iter().filter(|role| **role == Role::Space).count();
    Some(Count { all: axes.len(), space })
}

fn number(axes: usize, at: &At<'_>, judge: &mut Judge) {
    if !RANKS.contains(&axes) {
        let message = format!("has {}, where 2 to 5 belong", count(axes, "axis"));
        judge.must(KIND, at, message);
    }
}

fn named<'v>(name: &'v str, names: &mut HashSet<&'v str>, at: &At<'_>, judge: &mut Judge) {
    let at = at.member("name");
    if !names.insert(name) {
        judge.must(KIND, &at, format!("{} is the name of another axis too", quoted(name)));
    } else if name.is_empty() && judge.release >= OmeRelease::V0_6 {
        judge.must(KIND, &at, "is empty");
    } else if name.is_empty() {
        judge.doubt(KIND, &at, "is empty");
    }
}

/// What an axis is; `None` if its type is not a string.
fn role(axis: &Map<String, Value>, at: &At<'_>, judge: &mut Judge) -> Option<Role> {
    match axis.get("type") {
        None => {
            judge.should(KIND, at, "has no type, which is recommended");
            Some(Role::Other { untyped: true })
        }
        Some(Value::String(kind)) => Some(match kind.as_str() {
            "time" => Role::Time,
            "space" => Role::Space,
            "channel" => Role::Other { untyped: false },
            "array" if judge.release >= OmeRelease::V0_6 => Role::Array,
            "coordinate" | "displacement" if judge.release >= OmeRelease::V0_6 => {
                Role::Other { untyped: false }
            }
            kind => {
                let message = format!("{} is not among the recommended types", quoted(kind));
                judge.should(KIND, &at.member("type"), message);
                Role::Other { untyped: false }
            }
        }),
        // The text allows null for an axis of the user's own, the schemas do not.
        Some(_) => {
            judge.must(KIND, &at.member("type"), "is not a string");
            None
        }
    }
}

fn unit(axis: &Map<String, Value>, role: Option<Role>, at: &At<'_>, judge: &mut Judge) {
    let at = at.member("unit");
    match axis.get("unit") {
        None => {}
        Some(Value::String(unit)) => match role {
            Some(Role::Space) if !is_length_of_specification(unit) => {
                let message =
                    format!("{} is not among the recommended units of space", quoted(unit));
                judge.should(KIND, &at, message);
            }
            Some(Role::Time) if !is_time_of_specification(unit) => {
                let message =
                    format!("{} is not among the recommended units of time", quoted(unit));
                judge.should(KIND, &at, message);
            }
            _ => {}
        },
        Some(_) if judge.release >= OmeRelease::V0_6 => judge.must(KIND, &at, "is not a string"),
        Some(_) => judge.should(KIND, &at, "is not a string"),
    }
}

/// How many axes of each type there may be, and in which order.
fn kinds(roles: &[Role], at: &At<'_>, judge: &mut Judge) {
    let number = |wanted: fn(&Role) -> bool| roles.iter().filter(|role| wanted(role)).count();
    let space = number(|role| *role == Role::Space);
    let untyped = number(|role| *role == Role::Other { untyped: true });
    let array = number(|role| *role == Role::Array);
    let is_space = (2..=3).contains(&space);
    if array >= 2 && !is_space {
        return;
    }
    if array >= 2 {
        judge.must(KIND, at, "mixes axes of space with axes of an array");
        return;
    }
    if !is_space {
        let message = format!("has {} of space, where 2 or 3 belong", count(space, "axis"));
        // The schemas count axes without a type.
        match (2..=3).contains(&(space + untyped)) && judge.release < OmeRelease::V0_6 {
            true => judge.doubt(KIND, at, message),
            false => judge.must(KIND, at, message),
        }
        return;
    }
    if number(|role| *role == Role::Time) > 1 {
        judge.must(KIND, at, "has more than one axis of time");
    }
    if number(|role| matches!(role, Role::Other { .. })) > 1 {
        judge.must(KIND, at, "has more than one axis that is neither of space nor of time");
    }
    let group = |role: &Role| match role {
        Role::Time => 0,
        Role::Other { .. } => 1,
        Role::Space | Role::Array => 2,
    };
    if !roles.is_sorted_by_key(group) {
        judge.must(KIND, at, "are not in the order time, channel or other, space");
    }
}

/// Three axes of space should be z, y, x.
fn usual_order(axes: &[Value], roles: &[Role], at: &At<'_>, judge: &mut Judge) {
    let space = axes.iter().zip(roles).filter(|(_, role)| **role == Role::Space);
    let names: Vec<&str> =
        space.filter_map(|(axis, _)| axis.get("name")?.as_str()).take(4).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    if sorted == ["x", "y", "z"] && names != ["z", "y", "x"] {
        let message =
            format!("has its space in the order {}; z, y, x is recommended", names.join(", "));
        judge.should(KIND, at, message);
    }
}
