//! Scenes: how images are placed relative to each other, from 0.6 on.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::facts::NodeFacts;
use super::image::NAME;
use super::judge::{At, Judge, is_below, quoted};
use super::systems::{self, End, Systems};
use super::transformations::{self, Ranks};
use super::{OmeRelease, RuleKind, Violations, metadata_members};

const KIND: RuleKind = RuleKind::Scene;

/// Judges `scene` on its own.
pub(super) fn judge(scene: &Value, at: &At<'_>, judge: &mut Judge) {
    let Some(scene) = judge.object(KIND, scene, at) else { return };
    let systems = match scene.get("coordinateSystems") {
        Some(value) => systems::judge(value, &at.member("coordinateSystems"), judge),
        None => Systems::new(),
    };
    let Some(all) = judge.required(KIND, scene, NAME, at) else { return };
    let at_all = at.member(NAME);
    let Some(all) = judge.filled_list(KIND, all, &at_all) else { return };
    let mut graph = Graph::default();
    let mut is_complete = true;
    for (number, one) in all.iter().enumerate() {
        let at = at_all.item(number);
        let Some(one) = judge.object(KIND, one, &at) else {
            is_complete = false;
            continue;
        };
        let input = end(one, "input", &systems, &at, judge);
        let output = end(one, "output", &systems, &at, judge);
        let rank = |end: &Option<End<'_>>| {
            let end = end.as_ref().filter(|end| end.path.is_none())?;
            systems.get(end.name).copied().flatten().map(|axes| axes.all)
        };
        let ranks = Ranks { input: rank(&input), output: rank(&output) };
        transformations::judge(one, ranks, &at, judge);
        match (input, output) {
            (Some(input), Some(output)) => graph.link(&input, &output),
            _ => is_complete = false,
        }
    }
    for name in systems.keys() {
        graph.number(None, name);
    }
    // What could not be read may be the missing link.
    if is_complete && graph.parts() > 1 {
        judge.must(KIND, &at_all, "do not link all images and coordinate systems to each other");
    }
}

/// Where a transformation begins or ends; a system of the scene must exist.
fn end<'v>(
    one: &'v Map<String, Value>,
    side: &str,
    systems: &Systems<'_>,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<End<'v>> {
    let end = systems::end(one, side, at, judge)?;
    let at = at.member(side);
    let members = one.get(side).and_then(Value::as_object);
    let unknown = members.into_iter().flatten().map(|(name, _)| name);
    if let Some(name) = unknown.into_iter().find(|name| !["name", "path"].contains(&name.as_str()))
    {
        judge.must(KIND, &at, format!("has {}, beside name and path", quoted(name)));
    }
    match end.path {
        None if !systems.contains_key(end.name) => {
            let message = format!("{} is not a coordinate system of the scene", quoted(end.name));
            judge.must(KIND, &at.member("name"), message);
        }
        Some(path) => judge.path(KIND, path, &at.member("path")),
        None => {}
    }
    Some(end)
}

/// Which images and systems of the scene are linked. All systems of an image count as one: the
/// image links them.
#[derive(Default)]
struct Graph {
    numbers: HashMap<(Option<String>, String), usize>,
    /// For each, one that it is linked to; itself at the end of the chain.
    leads_to: Vec<usize>,
}

impl Graph {
    fn number(&mut self, path: Option<&str>, name: &str) -> usize {
        let key = match path {
            Some(path) => (Some(path.to_owned()), String::new()),
            None => (None, name.to_owned()),
        };
        let next = self.leads_to.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.leads_to.push(next);
        }
        number
    }

    fn last(&mut self, mut number: usize) -> usize {
        while self.leads_to[number] != number {
            // Halves the way for the next one.
            self.leads_to[number] = self.leads_to[self.leads_to[number]];
            number = self.leads_to[number];
        }
        number
    }

    fn link(&mut self, input: &End<'_>, output: &End<'_>) {
        let input = self.number(input.path, input.name);
        let output = self.number(output.path, output.name);
        let (input, output) = (self.last(input), self.last(output));
        self.leads_to[input] = output;
    }

    fn parts(&mut self) -> usize {
        let ends: BTreeSet<usize> =
            (0..self.leads_to.len()).map(|number| self.last(number)).collect();
        ends.len()
    }
}

/// Judges what a scene says about images below its group. `find` is asked once for each path.
pub fn scene_relations(
    attributes: &Map<String, Value>,
    find: &mut dyn FnMut(&str) -> NodeFacts,
) -> Violations {
    let mut judge = Judge::new(OmeRelease::V0_6);
    let scene = metadata_members(attributes).and_then(|members| members.get("scene"));
    let all = scene.and_then(|scene| scene.get(NAME)).and_then(Value::as_array);
    let mut images: BTreeMap<&str, NodeFacts> = BTreeMap::new();
    let at = At::new("scene");
    let at = at.member(NAME);
    for (number, one) in all.into_iter().flatten().enumerate() {
        let at = at.item(number);
        for side in ["input", "output"] {
            let Some(end) = one.get(side) else { continue };
            let Some(path) = end.get("path").and_then(Value::as_str) else { continue };
            if !is_below(path) {
                continue;
            }
            let at = at.member(side);
            let is_new = !images.contains_key(path);
            let image = images.entry(path).or_insert_with(|| find(path));
            match image {
                NodeFacts::Unknown => {}
                NodeFacts::Group(group) if group.image.is_some() => {
                    let name = end.get("name").and_then(Value::as_str);
                    let systems = group.image.iter().flat_map(|image| &image.systems);
                    if let Some(name) = name.filter(|name| !systems.clone().any(|own| own == name))
                    {
                        let message =
                            format!("the image has no coordinate system {}", quoted(name));
                        judge.must(KIND, &at.member("name"), message);
                    }
                }
                _ if is_new => {
                    judge.must(
                        KIND,
                        &at.member("path"),
                        format!("{} is not an image", quoted(path)),
                    );
                }
                _ => {}
            }
        }
    }
    judge.finish()
}
