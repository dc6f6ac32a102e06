//! The layout of bioformats2raw.

use std::collections::HashSet;

use serde_json::Value;

use super::RuleKind;
use super::judge::{At, Judge, integer, quoted};

const KIND: RuleKind = RuleKind::Layout;

/// Judges `bioformats2raw.layout`.
pub(super) fn judge(layout: &Value, at: &At<'_>, judge: &mut Judge) {
    if integer(layout) != Some(3) {
        judge.must(KIND, at, "is not 3");
    }
}

/// Judges `series`: the paths of images.
pub(super) fn judge_series(series: &Value, at: &At<'_>, judge: &mut Judge) {
    let mut seen = HashSet::new();
    for (number, path) in judge.list(KIND, series, at).unwrap_or_default().iter().enumerate() {
        let at = at.item(number);
        let Some(path) = judge.string(KIND, path, &at) else { continue };
        judge.path(KIND, path, &at);
        if !seen.insert(path) {
            judge.doubt(KIND, &at, format!("{} is listed before", quoted(path)));
        }
    }
}
