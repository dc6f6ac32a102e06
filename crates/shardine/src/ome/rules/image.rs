//! Images: `multiscales`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::axes::Count;
use super::judge::{At, Judge, quoted};
use super::transformations::{Vectors, judge_simple};
use super::{OmeRelease, RuleKind, axes, systems};

/// Judges `multiscales`.
pub(super) fn judge(images: &Value, at: &At<'_>, judge: &mut Judge) {
    let Some(images) = judge.filled_list(RuleKind::Metadata, images, at) else { return };
    let mut seen = HashSet::new();
    for (number, image) in images.iter().enumerate() {
        let at = at.item(number);
        if images.len() > 1 && !seen.insert(image.to_string()) {
            judge.must(RuleKind::Metadata, &at, "repeats another image");
        }
        if let Some(image) = judge.object(RuleKind::Metadata, image, &at) {
            judge_image(image, &at, judge);
        }
    }
}

fn judge_image(image: &Map<String, Value>, at: &At<'_>, judge: &mut Judge) {
    judge.strings(RuleKind::Metadata, image, &["name"], at);
    // 0.1 refers to a convention that asks for none of them.
    if judge.release > OmeRelease::V0_1 {
        if !judge.release.is_zarr3() {
            judge.recommended(RuleKind::Version, image, &["version"], at);
        }
        judge.recommended(RuleKind::Metadata, image, &["name", "type", "metadata"], at);
    }
    if judge.release >= OmeRelease::V0_6 {
        systems::judge_image(image, at, judge);
        return;
    }
    let axes = match judge.release {
        OmeRelease::V0_1 | OmeRelease::V0_2 => Some(Count { all: 5, space: 3 }),
        OmeRelease::V0_3 => {
            let axes = judge.required(RuleKind::Axes, image, "axes", at);
            axes.and_then(|axes| axes::judge_names(axes, &at.member("axes"), judge))
        }
        _ => {
            let axes = judge.required(RuleKind::Axes, image, "axes", at);
            axes.and_then(|axes| axes::judge(axes, &at.member("axes"), judge))
        }
    };
    let has_transformations = judge.release >= OmeRelease::V0_4;
    let mut before: Option<Vectors> = None;
    levels(image, at, judge, &mut |level, _, at, judge| {
        if !has_transformations {
            return;
        }
        let all = judge.required(RuleKind::Transformations, level, NAME, at);
        let Some(all) = all else { return };
        let vectors = judge_simple(all, axes, &at.member(NAME), judge);
        finer(before.as_ref(), vectors.as_ref(), at, judge);
        before = vectors;
    });
    if has_transformations && let Some(all) = image.get(NAME) {
        // A scale of the whole image has a number for each axis.
        let all_axes = axes.map(|axes| Count { space: axes.all, ..axes });
        judge_simple(all, all_axes, &at.member(NAME), judge);
    }
}

/// The member with transformations.
pub(super) const NAME: &str = "coordinateTransformations";

/// Judges `datasets`, and passes each level with its path on.
#[expect(clippy::type_complexity, reason = "a callback with what it judges")]
pub(super) fn levels(
    image: &Map<String, Value>,
    at: &At<'_>,
    judge: &mut Judge,
    judge_level: &mut dyn FnMut(&Map<String, Value>, Option<&str>, &At<'_>, &mut Judge),
) {
    let kind = RuleKind::Levels;
    let Some(levels) = judge.required(kind, image, "datasets", at) else { return };
    let at = at.member("datasets");
    let Some(levels) = judge.filled_list(kind, levels, &at) else { return };
    let mut paths = HashSet::new();
    for (number, level) in levels.iter().enumerate() {
        let at = at.item(number);
        let Some(level) = judge.object(kind, level, &at) else { continue };
        let path = judge.required_string(kind, level, "path", &at);
        if let Some(path) = path {
            judge.path(kind, path, &at.member("path"));
            if !paths.insert(path) {
                let message = format!("{} is another level too", quoted(path));
                judge.doubt(kind, &at.member("path"), message);
            }
        }
        judge_level(level, path, &at, judge);
    }
}

/// How the message begins about a level that should be before another one.
pub(super) const FINER: &str = "is finer";

/// A level that is finer than the one before it.
pub(super) fn finer(
    before: Option<&Vectors>,
    now: Option<&Vectors>,
    at: &At<'_>,
    judge: &mut Judge,
) {
    let (Some(before), Some(now)) = (before, now) else { return };
    let finer = |(before, now): (&f64, &f64)| now.abs() < before.abs() * (1.0 - 1e-6);
    let axis = before.scale.iter().zip(&now.scale).position(finer);
    if let Some(axis) = axis.filter(|_| before.scale.len() == now.scale.len()) {
        let (before, now) = (before.scale[axis], now.scale[axis]);
        let message =
            format!("{FINER} along axis {axis} than the level before it: {now} after {before}");
        judge.doubt(RuleKind::Levels, at, message);
    }
}
