//! Plates and wells.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::judge::{At, Judge, count, integer, quoted};
use super::{OmeRelease, RuleKind};

const PLATE: RuleKind = RuleKind::Plate;
const WELL: RuleKind = RuleKind::Well;

/// Judges `plate`.
pub(super) fn judge(plate: &Value, at: &At<'_>, judge: &mut Judge) {
    let Some(plate) = judge.object(PLATE, plate, at) else { return };
    let is_strict = judge.release >= OmeRelease::V0_4;
    judge.strings(PLATE, plate, &["name"], at);
    match judge.release {
        OmeRelease::V0_4 => {
            judge.recommended(RuleKind::Version, plate, &["version"], at);
            judge.recommended(PLATE, plate, &["name"], at);
        }
        release if release.is_zarr3() => judge.recommended(PLATE, plate, &["name"], at),
        _ => {
            judge.required(RuleKind::Version, plate, "version", at);
        }
    }
    if is_strict {
        judge.integer(PLATE, plate, "field_count", Some(1), at);
        // The text recommends it, the strict schemas do not.
        if !plate.contains_key("field_count") {
            judge.doubt(PLATE, at, "has no field_count");
        }
    }
    let columns = names(plate, "columns", at, judge);
    let rows = names(plate, "rows", at, judge);
    if let Some(acquisitions) = plate.get("acquisitions") {
        judge_acquisitions(acquisitions, &at.member("acquisitions"), judge);
    }
    let Some(wells) = judge.required(PLATE, plate, "wells", at) else { return };
    let at = at.member("wells");
    let Some(wells) = judge.filled_list(PLATE, wells, &at) else { return };
    let mut paths = HashSet::new();
    for (number, well) in wells.iter().enumerate() {
        let at = at.item(number);
        let Some(well) = judge.object(PLATE, well, &at) else { continue };
        let path = judge.required_string(PLATE, well, "path", &at);
        if let Some(path) = path
            && !paths.insert(path)
        {
            judge.must(PLATE, &at.member("path"), format!("{} is listed before", quoted(path)));
        }
        match is_strict {
            true => judge_place(well, path, &rows, &columns, &at, judge),
            false => path.into_iter().for_each(|path| {
                judge.path(PLATE, path, &at.member("path"));
            }),
        }
    }
}

/// Judges the rows or columns; their names, `None` where one has none.
fn names<'v>(
    plate: &'v Map<String, Value>,
    side: &str,
    at: &At<'_>,
    judge: &mut Judge,
) -> Vec<Option<&'v str>> {
    let Some(list) = judge.required(PLATE, plate, side, at) else { return Vec::new() };
    let at = at.member(side);
    let list = judge.filled_list(PLATE, list, &at).unwrap_or_default();
    let mut seen: HashMap<String, &str> = HashMap::new();
    let mut names = Vec::new();
    for (number, one) in list.iter().enumerate() {
        let at = at.item(number);
        let one = judge.object(PLATE, one, &at);
        let name = one.and_then(|one| judge.required_string(PLATE, one, "name", &at));
        names.push(name);
        let Some(name) = name else { continue };
        let at = at.member("name");
        if judge.release >= OmeRelease::V0_4 && !is_alphanumeric(name) {
            let message = format!("{} is not made of letters and digits alone", quoted(name));
            judge.must(PLATE, &at, message);
        }
        match seen.insert(name.to_lowercase(), name) {
            None => {}
            Some(other) if other == name => {
                judge.must(PLATE, &at, format!("{} is listed before", quoted(name)));
            }
            Some(other) => {
                let message =
                    format!("{} differs from {} only in case", quoted(name), quoted(other));
                judge.should(PLATE, &at, message);
            }
        }
    }
    names
}

fn is_alphanumeric(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Judges where a well is: its path and its numbers must agree.
fn judge_place(
    well: &Map<String, Value>,
    path: Option<&str>,
    rows: &[Option<&str>],
    columns: &[Option<&str>],
    at: &At<'_>,
    judge: &mut Judge,
) {
    let mut named = |side: &str, names: &[Option<&str>]| {
        judge.required(PLATE, well, side, at)?;
        let number = judge.integer(PLATE, well, side, Some(0), at)?;
        let known = usize::try_from(number).ok().and_then(|number| names.get(number));
        if known.is_none() && !names.is_empty() {
            let message = format!("is {number}, but there are {}", names.len());
            judge.must(PLATE, &at.member(side), message);
        }
        known.copied().flatten().map(str::to_owned)
    };
    let row = named("rowIndex", rows);
    let column = named("columnIndex", columns);
    let Some(path) = path else { return };
    let at = at.member("path");
    let Some((first, second)) = path
        .split_once('/')
        .filter(|(row, column)| is_alphanumeric(row) && is_alphanumeric(column))
    else {
        judge.must(PLATE, &at, format!("{} is not a row, a slash and a column", quoted(path)));
        return;
    };
    let (Some(row), Some(column)) = (row, column) else { return };
    if (first, second) == (&row, &column) {
        return;
    }
    let message = format!("is {}, but its row and column are {row} and {column}", quoted(path));
    // The official cases of 0.4 and 0.6 have rows with the names of columns and the other way round.
    let are_named_so = first.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_swapped = (first, second) == (&column, &row);
    match is_swapped && are_named_so && judge.release != OmeRelease::V0_5 {
        true => judge.doubt(PLATE, &at, message),
        false => judge.must(PLATE, &at, message),
    }
}

fn judge_acquisitions(list: &Value, at: &At<'_>, judge: &mut Judge) {
    let is_strict = judge.release >= OmeRelease::V0_4;
    let mut ids = HashSet::new();
    for (number, one) in judge.list(PLATE, list, at).unwrap_or_default().iter().enumerate() {
        let at = at.item(number);
        let Some(one) = judge.object(PLATE, one, &at) else { continue };
        judge.required(PLATE, one, "id", &at);
        judge.strings(PLATE, one, &["name", "description"], &at);
        judge.recommended(PLATE, one, &["name", "maximumfieldcount"], &at);
        let least = |least: i128| is_strict.then_some(least);
        if let Some(id) = judge.integer(PLATE, one, "id", least(0), &at)
            && !ids.insert(id)
        {
            judge.must(PLATE, &at.member("id"), format!("{id} is listed before"));
        }
        judge.integer(PLATE, one, "maximumfieldcount", least(1), &at);
        judge.integer(PLATE, one, "starttime", least(0), &at);
        judge.integer(PLATE, one, "endtime", least(0), &at);
    }
}

/// Judges `well`.
pub(super) fn judge_well(well: &Value, at: &At<'_>, judge: &mut Judge) {
    let Some(well) = judge.object(WELL, well, at) else { return };
    if !judge.release.is_zarr3() {
        judge.recommended(RuleKind::Version, well, &["version"], at);
    }
    let Some(images) = judge.required(WELL, well, "images", at) else { return };
    let at = at.member("images");
    let mut paths = HashSet::new();
    for (number, image) in
        judge.filled_list(WELL, images, &at).unwrap_or_default().iter().enumerate()
    {
        let at = at.item(number);
        let Some(image) = judge.object(WELL, image, &at) else { continue };
        judge.integer(WELL, image, "acquisition", None, &at);
        let Some(path) = judge.required_string(WELL, image, "path", &at) else { continue };
        let at = at.member("path");
        if !paths.insert(path) {
            judge.must(WELL, &at, format!("{} is listed before", quoted(path)));
        }
        match judge.release {
            OmeRelease::V0_4 | OmeRelease::V0_5 if !is_alphanumeric(path) => {
                let message = format!("{} is not made of letters and digits alone", quoted(path));
                judge.must(WELL, &at, message);
            }
            OmeRelease::V0_6 if !is_node_name(path) => {
                judge.must(WELL, &at, format!("{} is not the name of a node", quoted(path)));
            }
            _ => judge.path(WELL, path, &at),
        }
    }
}

/// Whether a node may have this name, and every storage can store it.
fn is_node_name(name: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.bytes().all(is_safe) && !name.bytes().all(|byte| byte == b'.') && !name.starts_with("__")
}

/// The acquisitions that a plate names; `None` if it names none.
pub(super) fn acquisitions(plate: &Map<String, Value>) -> Option<HashSet<i128>> {
    let list = plate.get("acquisitions")?.as_array()?;
    Some(list.iter().filter_map(|one| integer(one.get("id")?)).collect())
}

/// Judges the acquisitions of a well's images against those of its plate.
pub(super) fn judge_acquired(well: &Map<String, Value>, known: &HashSet<i128>, judge: &mut Judge) {
    let at = At::new("well");
    let at = at.member("images");
    let images = well.get("images").and_then(Value::as_array);
    for (number, image) in images.into_iter().flatten().enumerate() {
        let at = at.item(number);
        match image.get("acquisition") {
            None if known.len() > 1 => {
                let message = format!(
                    "is missing, though the plate has {}",
                    count(known.len(), "acquisition")
                );
                judge.must(WELL, &at.member("acquisition"), message);
            }
            Some(id) => {
                if let Some(id) = integer(id).filter(|id| !known.contains(id)) {
                    let message = format!("is {id}, which the plate does not have");
                    judge.must(WELL, &at.member("acquisition"), message);
                }
            }
            None => {}
        }
    }
}
