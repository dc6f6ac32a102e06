//! The coordinate systems of 0.6, and the transformations between them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::axes::Count;
use super::image::{NAME, finer, levels};
use super::judge::{At, Judge, count, quoted};
use super::transformations::{self, Ranks, Vectors, judge_length, vector};
use super::{RuleKind, axes};

const KIND: RuleKind = RuleKind::Transformations;

/// What the specification calls the system that all levels lead to, whatever its name. Official
/// cases refer to it by this word.
const INTRINSIC: &str = "intrinsic";

/// The systems of a document by name, with the number of their axes where it is known.
pub(super) type Systems<'v> = HashMap<&'v str, Option<Count>>;

/// Judges a list of coordinate systems.
pub(super) fn judge<'v>(value: &'v Value, at: &At<'_>, judge: &mut Judge) -> Systems<'v> {
    let mut systems = Systems::new();
    let kind = RuleKind::Axes;
    for (number, system) in judge.list(kind, value, at).unwrap_or_default().iter().enumerate() {
        let at = at.item(number);
        let Some(system) = judge.object(kind, system, &at) else { continue };
        let axes = judge.required(kind, system, "axes", &at);
        let axes = axes.and_then(|axes| axes::judge(axes, &at.member("axes"), judge));
        let Some(name) = judge.required_string(kind, system, "name", &at) else { continue };
        let at = at.member("name");
        if name.is_empty() {
            judge.must(kind, &at, "is empty");
        }
        if systems.insert(name, axes).is_some() {
            judge.must(kind, &at, format!("{} is the name of another system too", quoted(name)));
        }
    }
    systems
}

/// Judges the systems, levels and transformations of an image.
pub(super) fn judge_image(image: &Map<String, Value>, at: &At<'_>, judge: &mut Judge) {
    let systems = judge.required(RuleKind::Axes, image, "coordinateSystems", at);
    let systems = systems.map(|value| {
        let at = at.member("coordinateSystems");
        if value.as_array().is_some_and(Vec::is_empty) {
            judge.must(RuleKind::Axes, &at, "is empty, but needs at least one item");
        }
        self::judge(value, &at, judge)
    });
    let systems = systems.unwrap_or_default();
    let of_levels = image.get("datasets").and_then(Value::as_array).into_iter().flatten();
    let paths: HashSet<&str> = of_levels.filter_map(|level| level.get("path")?.as_str()).collect();
    let mut intrinsic: Option<String> = None;
    let mut before: Option<Vectors> = None;
    levels(image, at, judge, &mut |level, path, at, judge| {
        let all = judge.required(KIND, level, NAME, at);
        let Some(one) = all.and_then(|all| only(all, &at.member(NAME), judge)) else { return };
        let all = at.member(NAME);
        let at = all.item(0);
        judge.strings(KIND, one, &["name"], &at);
        begins(one, path, &paths, &at, judge);
        let axes = ends(one, &systems, &mut intrinsic, &at, judge);
        let vectors = level_transformation(one, axes, &at, judge);
        finer(before.as_ref(), vectors.as_ref(), &at, judge);
        before = vectors;
    });
    let mut linked: Vec<(String, String)> = Vec::new();
    if let Some(all) = image.get(NAME) {
        let at = at.member(NAME);
        for (number, one) in
            judge.filled_list(KIND, all, &at).unwrap_or_default().iter().enumerate()
        {
            let at = at.item(number);
            let Some(one) = judge.object(KIND, one, &at) else { continue };
            linked.extend(between(one, &systems, intrinsic.as_deref(), &at, judge));
        }
    }
    if let Some(intrinsic) = intrinsic.as_deref() {
        unlinked(&systems, intrinsic, &linked, &at.member("coordinateSystems"), judge);
    }
}

/// The transformation of a level, of which there must be one.
fn only<'v>(all: &'v Value, at: &At<'_>, judge: &mut Judge) -> Option<&'v Map<String, Value>> {
    let all = judge.list(KIND, all, at)?;
    if all.len() != 1 {
        let message = format!("has {}, where 1 belongs", count(all.len(), "transformation"));
        judge.must(KIND, at, message);
    }
    judge.object(KIND, all.first()?, &at.item(0))
}

/// What a transformation of a level begins from: the array of the level.
fn begins(
    one: &Map<String, Value>,
    path: Option<&str>,
    paths: &HashSet<&str>,
    at: &At<'_>,
    judge: &mut Judge,
) {
    let Some(input) = judge.required(KIND, one, "input", at) else { return };
    let at = at.member("input");
    let Some(input) = judge.object(KIND, input, &at) else { return };
    let from = judge.required_string(KIND, input, "path", &at);
    if let (Some(from), Some(path)) = (from, path)
        && from != path
    {
        let message = format!("is {}, but the level is {}", quoted(from), quoted(path));
        // Readers are to take the path of the level, and official cases name what is not there.
        match paths.contains(from) {
            true => judge.must(KIND, &at.member("path"), message),
            false => judge.doubt(KIND, &at.member("path"), message),
        }
    }
    if input.contains_key("name") {
        judge.should(
            KIND,
            &at.member("name"),
            "names a system, though a level begins at its array",
        );
    }
}

/// What a transformation of a level leads to: one system for all of them. Returns the number of its
/// axes.
fn ends(
    one: &Map<String, Value>,
    systems: &Systems<'_>,
    intrinsic: &mut Option<String>,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<Count> {
    let output = judge.required(KIND, one, "output", at)?;
    let at = at.member("output");
    let output = judge.object(KIND, output, &at)?;
    if output.get("path").is_some_and(|path| !path.is_null()) {
        judge.should(
            KIND,
            &at.member("path"),
            "names a path, though a level leads to its own image",
        );
    }
    let name = judge.required_string(KIND, output, "name", &at)?;
    let at = at.member("name");
    match intrinsic {
        None => *intrinsic = Some(name.to_owned()),
        Some(first) if first != name => {
            let message =
                format!("is {}, but that of another level {}", quoted(name), quoted(first));
            judge.must(KIND, &at, message);
        }
        Some(_) => {}
    }
    match systems.get(name) {
        Some(axes) => *axes,
        None => {
            judge.must(
                KIND,
                &at,
                format!("{} is not a coordinate system of the image", quoted(name)),
            );
            None
        }
    }
}

/// Judges the transformation of a level: a scale, an identity, or a scale and a translation.
fn level_transformation(
    one: &Map<String, Value>,
    axes: Option<Count>,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<Vectors> {
    match judge.required_string(KIND, one, "type", at)? {
        "identity" => None,
        "scale" => step(one, "scale", axes, at, judge),
        "sequence" => {
            let steps = judge.required(KIND, one, "transformations", at)?;
            let at = at.member("transformations");
            let steps = judge.list(KIND, steps, &at)?;
            let kind = |step: &Value| Some(step.get("type")?.as_str()?.to_owned());
            let kinds: Option<Vec<String>> = steps.iter().take(3).map(kind).collect();
            if kinds.is_none_or(|kinds| kinds != ["scale", "translation"]) {
                judge.must(KIND, &at, "is not one scale and one translation after it");
                return None;
            }
            let mut vectors = None;
            for (number, (one, name)) in steps.iter().zip(["scale", "translation"]).enumerate() {
                let at = at.item(number);
                let Some(one) = judge.object(KIND, one, &at) else { continue };
                vectors = vectors.or(step(one, name, axes, &at, judge));
            }
            vectors
        }
        name => {
            let message = format!(
                "is {}; a level has a scale, an identity, or a sequence of scale and translation",
                quoted(name)
            );
            judge.must(KIND, &at.member("type"), message);
            None
        }
    }
}

/// A scale or a translation of a level; the numbers of a scale.
fn step(
    one: &Map<String, Value>,
    name: &str,
    axes: Option<Count>,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<Vectors> {
    let numbers = vector(one, name, at, judge)?;
    let at = at.member(name);
    if let Some(axes) = axes {
        judge_length(name, numbers.len(), axes, &at, judge);
    }
    if name != "scale" {
        return None;
    }
    if numbers.iter().any(|number| *number <= 0.0) {
        judge.must(KIND, &at, "has a number that is not above 0");
    }
    Some(Vectors { scale: numbers })
}

/// Where a transformation between systems begins or ends.
pub(super) struct End<'v> {
    pub path: Option<&'v str>,
    pub name: &'v str,
}

/// Reads the `input` or `output` of a transformation between systems.
pub(super) fn end<'v>(
    one: &'v Map<String, Value>,
    side: &str,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<End<'v>> {
    let value = judge.required(KIND, one, side, at)?;
    let at = at.member(side);
    let value = judge.object(KIND, value, &at)?;
    let path = match value.get("path") {
        None | Some(Value::Null) => None,
        Some(path) => Some(judge.string(KIND, path, &at.member("path"))?),
    };
    let name = judge.required_string(KIND, value, "name", &at)?;
    Some(End { path, name })
}

/// Judges a transformation between systems of an image; which ones it links.
fn between(
    one: &Map<String, Value>,
    systems: &Systems<'_>,
    intrinsic: Option<&str>,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<(String, String)> {
    let input = end(one, "input", at, judge);
    let output = end(one, "output", at, judge);
    let rank = |end: &Option<End<'_>>, side: &str, judge: &mut Judge| {
        let end = end.as_ref().filter(|end| end.path.is_none())?;
        match systems.get(end.name) {
            Some(axes) => axes.map(|axes| axes.all),
            None => {
                let at = at.member(side);
                let message =
                    format!("{} is not a coordinate system of the image", quoted(end.name));
                match end.name == INTRINSIC {
                    true => judge.doubt(KIND, &at.member("name"), message),
                    false => judge.must(KIND, &at.member("name"), message),
                }
                None
            }
        }
    };
    let ranks =
        Ranks { input: rank(&input, "input", judge), output: rank(&output, "output", judge) };
    transformations::judge(one, ranks, at, judge);
    let (input, output) = (input?, output?);
    let resolved = |end: &End<'_>| match (end.path, end.name) {
        (None, INTRINSIC) if !systems.contains_key(INTRINSIC) => {
            intrinsic.unwrap_or(INTRINSIC).to_owned()
        }
        (None, name) => name.to_owned(),
        (Some(path), name) => format!("{path}\0{name}"),
    };
    let ends = (resolved(&input), resolved(&output));
    if let Some(intrinsic) = intrinsic
        && ends.0 != intrinsic
        && ends.1 != intrinsic
    {
        let message =
            format!("leads neither from nor to {}, the system of the levels", quoted(intrinsic));
        judge.must(KIND, at, message);
    }
    if input.path.or(output.path).is_some() {
        of_labels(one, at, judge);
    }
    Some(ends)
}

/// A transformation to the system of a label image.
fn of_labels(one: &Map<String, Value>, at: &At<'_>, judge: &mut Judge) {
    let is_simple = |one: &Value| {
        one.get("type")
            .and_then(Value::as_str)
            .is_some_and(|kind| ["identity", "scale", "translation"].contains(&kind))
    };
    let fine = match one.get("type").and_then(Value::as_str) {
        Some("identity" | "scale" | "translation") | None => true,
        Some("sequence") => {
            let steps = one.get("transformations").and_then(Value::as_array);
            steps.is_some_and(|steps| steps.iter().all(is_simple))
        }
        Some(_) => false,
    };
    if !fine {
        let message = "leads to another image, which only identity, scale and translation may";
        judge.must(KIND, at, message);
    }
}

/// Systems that no transformation links to that of the levels.
fn unlinked(
    systems: &Systems<'_>,
    intrinsic: &str,
    linked: &[(String, String)],
    at: &At<'_>,
    judge: &mut Judge,
) {
    // Every link must touch the system of the levels, so there are no chains.
    let linked: HashSet<&str> =
        linked.iter().flat_map(|(input, output)| [input.as_str(), output.as_str()]).collect();
    let is_alone = |name: &&str| *name != intrinsic && !linked.contains(name);
    let mut names: Vec<&str> = systems.keys().copied().filter(is_alone).collect();
    names.sort_unstable();
    for name in names {
        // A scene further up may link it.
        let message = format!("{} is linked to no other system by a transformation", quoted(name));
        judge.doubt(KIND, at, message);
    }
}
