//! Where in a document one is, and what was found there.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::{RuleKind, RuleLevel, Violation, Violations};
use crate::ome::OmeRelease;

/// The most violations of one kind and level that are told one by one.
const MOST: u64 = 100;

/// A place in a document. Its text is made only if something is wrong there.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    up: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Member(&'a str),
    Item(usize),
}

impl<'a> At<'a> {
    /// The document.
    pub const ROOT: At<'static> = At { up: None, step: Step::Root };

    /// A member of the document.
    pub fn new(name: &'a str) -> Self {
        Self { up: None, step: Step::Member(name) }
    }

    pub fn member<'b>(&'b self, name: &'b str) -> At<'b> {
        At { up: Some(self), step: Step::Member(name) }
    }

    pub fn item(&self, number: usize) -> At<'_> {
        At { up: Some(self), step: Step::Item(number) }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = Vec::new();
        let mut at = Some(self);
        while let Some(here) = at {
            steps.push(here.step);
            at = here.up;
        }
        let mut first = true;
        for step in steps.into_iter().rev() {
            match step {
                Step::Root => continue,
                Step::Member(name) if first => f.write_str(name)?,
                Step::Member(name) => write!(f, ".{name}")?,
                Step::Item(number) => write!(f, "[{number}]")?,
            }
            first = false;
        }
        Ok(())
    }
}

/// Collects what is wrong with a document.
pub(super) struct Judge {
    /// Whose rules apply.
    pub release: OmeRelease,
    list: Vec<Violation>,
    counts: BTreeMap<(RuleLevel, RuleKind), u64>,
}

impl Judge {
    pub fn new(release: OmeRelease) -> Self {
        Self { release, list: Vec::new(), counts: BTreeMap::new() }
    }

    pub fn finish(self) -> Violations {
        let more = self.counts.into_iter().filter(|(_, count)| *count > MOST);
        let more = more.map(|((level, kind), count)| (level, kind, count - MOST)).collect();
        Violations { list: self.list, more }
    }

    fn found(&mut self, level: RuleLevel, kind: RuleKind, at: &At<'_>, message: String) {
        let count = self.counts.entry((level, kind)).or_default();
        *count = count.saturating_add(1);
        if *count <= MOST {
            self.list.push(Violation { level, kind, member: at.to_string(), message });
        }
    }

    pub fn must(&mut self, kind: RuleKind, at: &At<'_>, message: impl Into<String>) {
        self.found(RuleLevel::Must, kind, at, message.into());
    }

    pub fn should(&mut self, kind: RuleKind, at: &At<'_>, message: impl Into<String>) {
        self.found(RuleLevel::Should, kind, at, message.into());
    }

    pub fn doubt(&mut self, kind: RuleKind, at: &At<'_>, message: impl Into<String>) {
        self.found(RuleLevel::Doubtful, kind, at, message.into());
    }

    /// The value as an object; it must be one.
    pub fn object<'v>(
        &mut self,
        kind: RuleKind,
        value: &'v Value,
        at: &At<'_>,
    ) -> Option<&'v Map<String, Value>> {
        let object = value.as_object();
        if object.is_none() {
            self.must(kind, at, "is not an object");
        }
        object
    }

    /// The value as a list; it must be one.
    pub fn list<'v>(
        &mut self,
        kind: RuleKind,
        value: &'v Value,
        at: &At<'_>,
    ) -> Option<&'v [Value]> {
        let list = value.as_array();
        if list.is_none() {
            self.must(kind, at, "is not a list");
        }
        list.map(Vec::as_slice)
    }

    /// The value as a list with at least one item; it must be one.
    pub fn filled_list<'v>(
        &mut self,
        kind: RuleKind,
        value: &'v Value,
        at: &At<'_>,
    ) -> Option<&'v [Value]> {
        let list = self.list(kind, value, at)?;
        if list.is_empty() {
            self.must(kind, at, "is empty, but needs at least one item");
        }
        Some(list)
    }

    /// The value as a string; it must be one.
    pub fn string<'v>(&mut self, kind: RuleKind, value: &'v Value, at: &At<'_>) -> Option<&'v str> {
        let string = value.as_str();
        if string.is_none() {
            self.must(kind, at, "is not a string");
        }
        string
    }

    /// A member that must be there.
    pub fn required<'v>(
        &mut self,
        kind: RuleKind,
        members: &'v Map<String, Value>,
        name: &str,
        at: &At<'_>,
    ) -> Option<&'v Value> {
        let value = members.get(name);
        if value.is_none() {
            self.must(kind, &at.member(name), "is missing");
        }
        value
    }

    /// A member that must be there and a string.
    pub fn required_string<'v>(
        &mut self,
        kind: RuleKind,
        members: &'v Map<String, Value>,
        name: &str,
        at: &At<'_>,
    ) -> Option<&'v str> {
        let value = self.required(kind, members, name, at)?;
        self.string(kind, value, &at.member(name))
    }

    /// Members that must be strings if they are there.
    pub fn strings(
        &mut self,
        kind: RuleKind,
        members: &Map<String, Value>,
        names: &[&str],
        at: &At<'_>,
    ) {
        for name in names {
            if let Some(value) = members.get(*name) {
                self.string(kind, value, &at.member(name));
            }
        }
    }

    /// A member that must be a whole number, and no less than `least`, if it is there.
    pub fn integer(
        &mut self,
        kind: RuleKind,
        members: &Map<String, Value>,
        name: &str,
        least: Option<i128>,
        at: &At<'_>,
    ) -> Option<i128> {
        let value = members.get(name)?;
        let at = at.member(name);
        let Some(number) = integer(value) else {
            self.must(kind, &at, "is not a whole number");
            return None;
        };
        match least.filter(|least| number < *least) {
            None => return Some(number),
            Some(least) => {
                self.must(kind, &at, format!("is {number}, but at least {least} belongs there"))
            }
        }
        None
    }

    /// Members that should be there, in one finding.
    pub fn recommended(
        &mut self,
        kind: RuleKind,
        members: &Map<String, Value>,
        names: &[&str],
        at: &At<'_>,
    ) {
        let missing: Vec<&str> =
            names.iter().copied().filter(|name| !members.contains_key(*name)).collect();
        if !missing.is_empty() {
            self.should(kind, at, format!("has no {}, which is recommended", or(&missing)));
        }
    }

    /// A path that leads down from a group.
    pub fn path(&mut self, kind: RuleKind, path: &str, at: &At<'_>) {
        if !is_below(path) {
            self.must(kind, at, format!("no node can have the path {}", quoted(path)));
        }
    }
}

/// Whether a path leads to a node below a group.
pub(super) fn is_below(path: &str) -> bool {
    path.split('/').all(|name| !name.is_empty() && !name.bytes().all(|byte| byte == b'.'))
}

/// A whole number, also one that is spelled `1.0`.
pub(super) fn integer(value: &Value) -> Option<i128> {
    let number = value.as_number()?;
    if let Some(number) = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from)) {
        return Some(number);
    }
    // Any double below this is a whole number or has a fraction; above, all are whole, but too
    // large to be meant.
    let number = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e18)?;
    Some(number as i128)
}

/// The most of a text from a document that is repeated in a message.
const SHOWN: usize = 60;

/// A text of the document, for a message.
pub(super) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('\u{2026}');
    }
    format!("\"{}\"", shown.escape_debug())
}

/// Words in a row: `a, b or c`.
pub(super) fn or(words: &[&str]) -> String {
    joined(words, " or ")
}

/// Words in a row: `a, b and c`.
pub(super) fn and(words: &[&str]) -> String {
    joined(words, " and ")
}

fn joined(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., end] => format!("{}{last}{end}", most.join(", ")),
    }
}

/// A number of things, in words.
pub(super) fn count(number: usize, of: &str) -> String {
    match number {
        1 => format!("1 {of}"),
        n if of.ends_with("is") => format!("{n} {}es", of.strip_suffix("is").unwrap_or(of)),
        n => format!("{n} {of}s"),
    }
}
