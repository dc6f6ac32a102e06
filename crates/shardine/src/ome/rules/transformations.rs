//! Coordinate transformations: the scales and translations of 0.4 and 0.5, and the kinds of 0.6.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::axes::Count;
use super::judge::{At, Judge, count, integer, quoted};
use super::{OmeRelease, RuleKind};

const KIND: RuleKind = RuleKind::Transformations;

/// How deeply transformations may be nested in each other.
const MAX_DEPTH: usize = 32;

/// How far the matrix of a rotation may be from one: documents round their numbers.
const ROTATION: f64 = 1e-2;

/// The most axes that a coordinate system of 0.6 can have.
const MAX_AXES: usize = 5;

/// The numbers of a scale, where they were readable.
#[derive(Default)]
pub(super) struct Vectors {
    pub scale: Vec<f64>,
}

/// Judges the transformations of a level or an image of 0.4 and 0.5: one scale, and maybe a
/// translation after it.
pub(super) fn judge_simple(
    all: &Value,
    axes: Option<Count>,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<Vectors> {
    let all = judge.filled_list(KIND, all, at)?;
    let (mut scales, mut translations) = (0, 0);
    let mut vectors = None;
    for (number, one) in all.iter().enumerate() {
        let at = at.item(number);
        let Some(one) = judge.object(KIND, one, &at) else { continue };
        let Some(name) = judge.required_string(KIND, one, "type", &at) else { continue };
        match name {
            "scale" => {
                scales += 1;
                if translations > 0 && scales == 1 {
                    judge.must(KIND, &at, "is a scale after the translation");
                }
            }
            "translation" => translations += 1,
            name => {
                let message = format!("{} is neither scale nor translation", quoted(name));
                judge.must(KIND, &at.member("type"), message);
                continue;
            }
        }
        let Some(numbers) = vector(one, name, &at, judge) else { continue };
        match axes {
            Some(axes) => judge_length(name, numbers.len(), axes, &at.member(name), judge),
            None if numbers.len() < 2 => {
                let message =
                    format!("has {}, where at least 2 belong", count(numbers.len(), "number"));
                judge.must(KIND, &at.member(name), message);
            }
            _ => {}
        }
        if name == "scale" {
            if numbers.iter().any(|number| *number <= 0.0) {
                judge.doubt(KIND, &at.member(name), "has a number that is not above 0");
            }
            vectors = Some(Vectors { scale: numbers });
        }
    }
    if !all.is_empty() && scales != 1 {
        judge.must(KIND, at, format!("has {}, where exactly 1 belongs", count(scales, "scale")));
    }
    if translations > 1 {
        let message =
            format!("has {}, where at most 1 belongs", count(translations, "translation"));
        judge.must(KIND, at, message);
    }
    vectors
}

/// A vector of a level has a number for each axis. Official cases of 0.4 and 0.6 accept a scale for
/// those of space alone, so there it is a must only where the array is known.
pub(super) fn judge_length(
    name: &str,
    numbers: usize,
    axes: Count,
    at: &At<'_>,
    judge: &mut Judge,
) {
    if numbers == axes.all {
        return;
    }
    let message = wrong_length(numbers, axes.all);
    match name == "scale" && numbers == axes.space && judge.release != OmeRelease::V0_5 {
        true => judge.doubt(KIND, at, message),
        false => judge.must(KIND, at, message),
    }
}

pub(super) fn wrong_length(numbers: usize, axes: usize) -> String {
    format!("has {} for {}", count(numbers, "number"), count(axes, "axis"))
}

/// A list of numbers.
pub(super) fn vector(
    one: &Map<String, Value>,
    name: &str,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<Vec<f64>> {
    let numbers = judge.required(KIND, one, name, at)?;
    let at = at.member(name);
    let numbers = judge.list(KIND, numbers, &at)?;
    let read: Option<Vec<f64>> = numbers.iter().map(Value::as_f64).collect();
    if read.is_none() {
        judge.must(KIND, &at, "has an item that is not a number");
    }
    read
}

/// How many axes a transformation has on each side, where that is known.
#[derive(Clone, Copy, Default)]
pub(super) struct Ranks {
    pub input: Option<usize>,
    pub output: Option<usize>,
}

/// Judges a transformation of 0.6, without what it leads from and to; how many axes its output has,
/// if that follows from its input.
pub(super) fn judge(
    one: &Map<String, Value>,
    ranks: Ranks,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<usize> {
    judge.strings(KIND, one, &["name"], at);
    nested(one, ranks, 0, at, judge)
}

fn nested(
    one: &Map<String, Value>,
    ranks: Ranks,
    depth: usize,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<usize> {
    if depth > MAX_DEPTH {
        judge.must(KIND, at, format!("is nested more than {MAX_DEPTH} transformations deep"));
        return None;
    }
    let name = judge.required_string(KIND, one, "type", at)?;
    let same = ranks.input;
    match name {
        "identity" => {
            if ranks.input.zip(ranks.output).is_some_and(|(input, output)| input != output) {
                judge.must(KIND, at, "is an identity between different numbers of axes");
            }
            same
        }
        "scale" => {
            let numbers = vector(one, name, at, judge)?;
            if numbers.iter().any(|number| *number <= 0.0) {
                judge.must(KIND, &at.member(name), "has a number that is not above 0");
            }
            fits(numbers.len(), ranks, name, at, judge)
        }
        "translation" => {
            let numbers = vector(one, name, at, judge)?;
            fits(numbers.len(), ranks, name, at, judge)
        }
        "mapAxis" => map_axis(one, ranks, at, judge),
        "projectAxis" => project_axis(one, ranks, at, judge),
        "affine" => affine(one, ranks, at, judge),
        "rotation" => rotation(one, ranks, at, judge),
        "sequence" => sequence(one, ranks, depth, at, judge),
        "byDimension" => by_dimension(one, ranks, depth, at, judge),
        "bijection" => {
            for (name, ranks) in [
                ("forward", ranks),
                ("inverse", Ranks { input: ranks.output, output: ranks.input }),
            ] {
                let inner = judge.required(KIND, one, name, at);
                inside(inner, ranks, depth, &at.member(name), judge);
            }
            if ranks.input.zip(ranks.output).is_some_and(|(input, output)| input != output) {
                judge.must(KIND, at, "is a bijection between different numbers of axes");
            }
            ranks.output
        }
        "displacements" | "coordinates" => {
            judge.required_string(KIND, one, "path", at);
            if let Some(word) = one.get("interpolation") {
                let at = at.member("interpolation");
                let word = judge.string(KIND, word, &at);
                let known = ["nearest", "linear", "cubic", "bspline-cubic"];
                if let Some(word) = word.filter(|word| !known.contains(word)) {
                    judge.doubt(KIND, &at, format!("{} is not known", quoted(word)));
                }
            }
            if name == "displacements" { same } else { ranks.output }
        }
        name => {
            judge.must(KIND, &at.member("type"), format!("{} is not known", quoted(name)));
            None
        }
    }
}

/// Judges a transformation inside another.
fn inside(
    value: Option<&Value>,
    ranks: Ranks,
    depth: usize,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<usize> {
    let one = judge.object(KIND, value?, at)?;
    nested(one, ranks, depth + 1, at, judge)
}

/// A vector has a number for each axis, on both sides.
fn fits(numbers: usize, ranks: Ranks, name: &str, at: &At<'_>, judge: &mut Judge) -> Option<usize> {
    let wrong = [ranks.input, ranks.output].into_iter().flatten().find(|rank| *rank != numbers);
    if let Some(rank) = wrong {
        judge.must(KIND, &at.member(name), wrong_length(numbers, rank));
    }
    Some(numbers)
}

/// A list of different numbers of axes.
fn axis_numbers(
    value: &Value,
    rank: Option<usize>,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<Vec<usize>> {
    let list = judge.list(KIND, value, at)?;
    let most = rank.unwrap_or(MAX_AXES);
    let mut numbers: Vec<usize> = Vec::new();
    let mut seen = HashSet::new();
    for (number, axis) in list.iter().enumerate() {
        let axis = integer(axis).and_then(|axis| usize::try_from(axis).ok());
        match axis.filter(|axis| *axis < most) {
            None => {
                let message =
                    format!("is not the number of an axis: 0 to {}", most.saturating_sub(1));
                judge.must(KIND, &at.item(number), message);
                return None;
            }
            Some(axis) if !seen.insert(axis) => {
                judge.must(KIND, &at.item(number), format!("has axis {axis} again"));
                return None;
            }
            Some(axis) => numbers.push(axis),
        }
    }
    Some(numbers)
}

fn map_axis(
    one: &Map<String, Value>,
    ranks: Ranks,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<usize> {
    let value = judge.required(KIND, one, "mapAxis", at)?;
    let numbers = axis_numbers(value, ranks.input, &at.member("mapAxis"), judge)?;
    if !(2..=MAX_AXES).contains(&numbers.len()) {
        let message = format!("has {}, where 2 to 5 belong", count(numbers.len(), "number"));
        judge.must(KIND, &at.member("mapAxis"), message);
    }
    fits(numbers.len(), ranks, "mapAxis", at, judge)
}

fn project_axis(
    one: &Map<String, Value>,
    ranks: Ranks,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<usize> {
    let sides = [("droppedInputs", ranks.input), ("createdOutputs", ranks.output)];
    if sides.iter().all(|(name, _)| !one.contains_key(*name)) {
        judge.must(KIND, at, "has neither droppedInputs nor createdOutputs");
        return None;
    }
    let mut numbers = [0usize; 2];
    for ((name, rank), number) in sides.into_iter().zip(&mut numbers) {
        let Some(value) = one.get(name) else { continue };
        let at = at.member(name);
        *number = axis_numbers(value, rank, &at, judge)?.len();
        if !(1..=3).contains(number) {
            judge.must(KIND, &at, format!("has {}, where 1 to 3 belong", count(*number, "number")));
        }
    }
    let [dropped, created] = numbers;
    let output = ranks.input?.checked_sub(dropped)?.checked_add(created)?;
    if let Some(rank) = ranks.output.filter(|rank| *rank != output) {
        let message = format!("makes {} of {} axes", count(output, "axis"), ranks.input?);
        judge.must(KIND, at, format!("{message}, but its output has {rank}"));
    }
    Some(output)
}

/// The matrix of a transformation, if it is in the document; it must be there, or in an array.
fn matrix(
    one: &Map<String, Value>,
    name: &str,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<Vec<Vec<f64>>> {
    match (one.get(name), one.get("path")) {
        (None, None) => judge.must(KIND, at, format!("has neither {name} nor path")),
        (Some(_), Some(_)) => judge.must(KIND, at, format!("has both {name} and path")),
        (None, Some(path)) => {
            judge.string(KIND, path, &at.member("path"));
        }
        (Some(matrix), None) => {
            let at = at.member(name);
            let rows = judge.list(KIND, matrix, &at)?;
            let row = |row: &Value| row.as_array()?.iter().map(Value::as_f64).collect();
            let rows: Option<Vec<Vec<f64>>> = rows.iter().map(row).collect();
            let Some(rows) = rows else {
                judge.must(KIND, &at, "is not a list of lists of numbers");
                return None;
            };
            let columns = rows.first().map_or(0, Vec::len);
            if columns == 0 || rows.iter().any(|row| row.len() != columns) {
                judge.must(KIND, &at, "is not a matrix: its rows differ in length, or are empty");
                return None;
            }
            return Some(rows);
        }
    }
    None
}

fn affine(one: &Map<String, Value>, ranks: Ranks, at: &At<'_>, judge: &mut Judge) -> Option<usize> {
    let Some(rows) = matrix(one, "affine", at, judge) else { return ranks.output };
    let columns = rows.first().map_or(0, Vec::len);
    let (output, input) = (rows.len(), columns.saturating_sub(1));
    let differs = |rank: Option<usize>, now: usize| rank.is_some_and(|rank| rank != now);
    if differs(ranks.input, input) || differs(ranks.output, output) {
        let message = format!("is {output} by {columns}, which does not fit its input and output");
        judge.must(KIND, &at.member("affine"), message);
    }
    Some(output)
}

fn rotation(
    one: &Map<String, Value>,
    ranks: Ranks,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<usize> {
    let Some(rows) = matrix(one, "rotation", at, judge) else { return ranks.input };
    let rank = rows.len();
    let at = at.member("rotation");
    let columns = rows.first().map_or(0, Vec::len);
    if columns != rank || !(2..=MAX_AXES).contains(&rank) {
        judge.must(KIND, &at, format!("is {rank} by {columns}, not square with 2 to 5 rows"));
        return None;
    }
    if let Some(wanted) = ranks.input.or(ranks.output).filter(|wanted| *wanted != rank) {
        judge.must(KIND, &at, format!("is {rank} by {rank} for {}", count(wanted, "axis")));
    }
    if !is_rotation(&rows) {
        judge.must(KIND, &at, "is not a rotation: its rows are not orthonormal, or it mirrors");
    }
    Some(rank)
}

fn is_rotation(rows: &[Vec<f64>]) -> bool {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let is_orthonormal = rows.iter().enumerate().all(|(i, a)| {
        rows.iter().enumerate().all(|(j, b)| {
            let wanted = if i == j { 1.0 } else { 0.0 };
            (dot(a, b) - wanted).abs() <= ROTATION
        })
    });
    is_orthonormal && determinant(rows.to_vec()) > 0.0
}

/// By elimination; exact enough to tell its sign for a matrix that is nearly orthonormal.
fn determinant(mut rows: Vec<Vec<f64>>) -> f64 {
    let size = rows.len();
    let mut determinant = 1.0;
    for column in 0..size {
        let largest = (column..size)
            .max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))
            .unwrap_or(column);
        if rows[largest][column] == 0.0 {
            return 0.0;
        }
        if largest != column {
            rows.swap(largest, column);
            determinant = -determinant;
        }
        let pivot = rows[column].clone();
        determinant *= pivot[column];
        for row in &mut rows[column + 1..] {
            let factor = row[column] / pivot[column];
            row.iter_mut().zip(&pivot).for_each(|(value, by)| *value -= factor * by);
        }
    }
    determinant
}

fn sequence(
    one: &Map<String, Value>,
    ranks: Ranks,
    depth: usize,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<usize> {
    let steps = judge.required(KIND, one, "transformations", at)?;
    let at = at.member("transformations");
    let steps = judge.filled_list(KIND, steps, &at)?;
    let mut rank = ranks.input;
    for (number, step) in steps.iter().enumerate() {
        let is_last = number + 1 == steps.len();
        let output = if is_last { ranks.output } else { None };
        rank = inside(Some(step), Ranks { input: rank, output }, depth, &at.item(number), judge);
    }
    rank
}

fn by_dimension(
    one: &Map<String, Value>,
    ranks: Ranks,
    depth: usize,
    at: &At<'_>,
    judge: &mut Judge,
) -> Option<usize> {
    let steps = judge.required(KIND, one, "transformations", at)?;
    let at = at.member("transformations");
    let steps = judge.list(KIND, steps, &at)?;
    let mut covered = HashSet::new();
    for (number, step) in steps.iter().enumerate() {
        let at = at.item(number);
        let Some(step) = judge.object(KIND, step, &at) else { continue };
        let axes = |name: &str, rank: Option<usize>, judge: &mut Judge| {
            let value = judge.required(KIND, step, name, &at)?;
            axis_numbers(value, rank, &at.member(name), judge)
        };
        let input = axes("inputAxes", ranks.input, judge);
        let output = axes("outputAxes", ranks.output, judge);
        for axis in output.iter().flatten() {
            if !covered.insert(*axis) {
                let message = format!("has axis {axis}, which another transformation has too");
                judge.must(KIND, &at.member("outputAxes"), message);
            }
        }
        let ranks =
            Ranks { input: input.map(|axes| axes.len()), output: output.map(|axes| axes.len()) };
        let inner = judge.required(KIND, step, "transformation", &at);
        inside(inner, ranks, depth, &at.member("transformation"), judge);
    }
    let missing = ranks.output.and_then(|rank| (0..rank).find(|axis| !covered.contains(axis)));
    if let Some(axis) = missing {
        let message = format!("lead to all axes but axis {axis}");
        // An official case has that inside a sequence.
        match depth {
            0 => judge.must(KIND, &at, message),
            _ => judge.doubt(KIND, &at, message),
        }
    }
    ranks.output
}
