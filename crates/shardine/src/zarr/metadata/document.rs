//! A document that is preserved as read, including numbers that JSON or its parser cannot
//! represent.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::MetadataError;
use super::deviations::{correct_array, correct_node};

/// The most bytes that a document may have.
pub const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// The most numbers beyond the parser's range that a document may have.
const MAX_KEPT: usize = 1 << 16;

/// The prefix of a string that, between text and parser, stands for a number the parser cannot
/// hold.
const MARK: &str = "\0number:";
/// The same prefix in JSON text.
const MARK_IN_JSON: &str = "\"\\u0000number:";

static NO_ATTRIBUTES: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// The members of a document, in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    members: Map<String, Value>,
    /// Numbers that are represented here by something else.
    kept: Vec<KeptNumber>,
}

/// A number that is written as it was read unless it was changed.
#[derive(Debug, Clone, PartialEq)]
struct KeptNumber {
    /// Where it is, as a JSON pointer.
    pointer: String,
    text: String,
}

/// The attributes in a document: in version 3 a member of it, in version 2 the whole of their own
/// document.
pub(crate) fn attributes_in(text: &[u8], is_v3: bool) -> Result<Map<String, Value>, MetadataError> {
    let document = Document::parse(text)?;
    Ok(if is_v3 { document.attributes().clone() } else { document.members })
}

/// The same document with other attributes; `None` if `change` changes nothing.
pub(crate) fn with_attributes(
    text: &[u8],
    is_v3: bool,
    change: &dyn Fn(&mut Map<String, Value>),
) -> Result<Option<Vec<u8>>, MetadataError> {
    let mut document = Document::parse(text)?;
    let before = if is_v3 { document.attributes().clone() } else { document.members.clone() };
    let mut after = before.clone();
    change(&mut after);
    if after == before {
        return Ok(None);
    }
    if is_v3 {
        match document.get("node_type").and_then(Value::as_str) {
            Some("array") => drop(correct_array(&mut document)),
            _ => drop(correct_node(&mut document)),
        }
        document.set("attributes", Some(Value::Object(after)));
    } else {
        let (removed, kept): (Vec<_>, Vec<_>) =
            document.members.keys().cloned().partition(|name| !after.contains_key(name));
        removed.iter().for_each(|name| document.set(name, None));
        for (name, value) in after {
            if !kept.contains(&name) || document.get(&name) != Some(&value) {
                document.set(&name, Some(value));
            }
        }
    }
    Ok(Some(document.to_bytes()))
}

/// The same document of an array with other names of its dimensions; `None` if it has them, or is
/// not of an array.
pub(crate) fn with_dimension_names(
    text: &[u8],
    names: &[String],
) -> Result<Option<Vec<u8>>, MetadataError> {
    let mut document = Document::parse(text)?;
    let names = Value::from(names);
    let is_array = document.get("node_type").and_then(Value::as_str) == Some("array");
    if !is_array || document.get("dimension_names") == Some(&names) {
        return Ok(None);
    }
    correct_array(&mut document);
    document.set("dimension_names", Some(names));
    Ok(Some(document.to_bytes()))
}

/// Whether a list of this name, anywhere in a document, has numbers that the parser cannot hold:
/// they would not survive if its items moved.
pub(crate) fn has_kept_numbers_in(text: &[u8], list: &str) -> Result<bool, MetadataError> {
    let part = format!("/{}/", escaped(list));
    Ok(Document::parse(text)?.kept.iter().any(|number| number.pointer.contains(&part)))
}

impl Document {
    pub(super) fn new(members: Map<String, Value>) -> Self {
        Self { members, kept: Vec::new() }
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, MetadataError> {
        if bytes.len() > MAX_DOCUMENT_BYTES {
            return Err(MetadataError::TooLarge { len: bytes.len(), limit: MAX_DOCUMENT_BYTES });
        }
        let not_json = |reason: String| MetadataError::NotJson { reason };
        let marked = mark_numbers(bytes).map_err(not_json)?;
        let parsed = match &marked {
            Some(marked) => serde_json::from_slice(marked),
            None => serde_json::from_slice(bytes),
        };
        let mut json: Value = parsed.map_err(|error| not_json(error.to_string()))?;
        let mut kept = Vec::new();
        if marked.is_some() {
            unmark(&mut json, &mut String::new(), &mut kept);
        }
        match json {
            Value::Object(members) => Ok(Self { members, kept }),
            _ => Err(not_json("it is another JSON value".into())),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        Value::Object(self.members.clone())
    }

    /// The text, indented, with a line feed at the end; kept numbers are written as they were read.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut json = self.to_json();
        for number in &self.kept {
            if let Some(value) = json.pointer_mut(&number.pointer) {
                *value = Value::String(format!("{MARK}{}", number.text));
            }
        }
        let mut text = format!("{json:#}\n");
        if !self.kept.is_empty() {
            text = without_marks(&text);
        }
        text.into_bytes()
    }

    /// Inserts another document as a member of this one: at `path`, whose last part is new or
    /// replaced.
    ///
    /// The numbers of `part` are kept as they were read. An error if one of the parts before the
    /// last is not an object.
    pub(super) fn embed(&mut self, path: &[&str], part: &Self) -> Result<(), MetadataError> {
        let Some((last, before)) = path.split_last() else { return Ok(()) };
        let mut members = &mut self.members;
        for name in before {
            members = match members.get_mut(*name) {
                Some(Value::Object(inner)) => inner,
                _ => return Err(MetadataError::invalid(path.join("."), "must be an object")),
            };
        }
        members.insert((*last).into(), part.to_json());
        let mut prefix = String::new();
        for name in path {
            prefix.push('/');
            prefix.push_str(&escaped(name));
        }
        // Drop those of what was there before.
        let inside = |pointer: &str| {
            pointer
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.kept.retain(|number| !inside(&number.pointer));
        self.kept.extend(part.kept.iter().map(|number| KeptNumber {
            pointer: format!("{prefix}{}", number.pointer),
            text: number.text.clone(),
        }));
        Ok(())
    }

    /// A member that is an object, as a document of its own; an empty one if there is none.
    pub(super) fn part(&self, member: &str) -> Self {
        let Some(Value::Object(members)) = self.members.get(member) else {
            return Self::new(Map::new());
        };
        let prefix = format!("/{}/", escaped(member));
        let inside = |number: &KeptNumber| {
            let rest = number.pointer.strip_prefix(prefix.as_str())?;
            Some(KeptNumber { pointer: format!("/{rest}"), text: number.text.clone() })
        };
        let kept = self.kept.iter().filter_map(inside).collect();
        Self { members: members.clone(), kept }
    }

    pub(super) fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// Has numbers in a member that JSON does not have written as the strings that stand for them;
    /// whether there were any.
    pub(super) fn quote(&mut self, member: &str) -> bool {
        let pointer = format!("/{}", escaped(member));
        let before = self.kept.len();
        self.kept.retain(|number| {
            let inside = number.pointer.strip_prefix(pointer.as_str());
            let inside = inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            !(inside && stand_in(&number.text).is_some_and(|value| value.is_string()))
        });
        self.kept.len() < before
    }

    /// All members but these.
    pub(super) fn without(&self, known: &[&str]) -> Map<String, Value> {
        let members = self.members.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        members.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    pub(super) fn attributes(&self) -> &Map<String, Value> {
        match self.members.get("attributes") {
            Some(Value::Object(attributes)) => attributes,
            _ => &NO_ATTRIBUTES,
        }
    }

    pub(super) fn get(&self, member: &str) -> Option<&Value> {
        self.members.get(member)
    }

    /// Sets a member, or removes it; a new one comes last.
    pub(super) fn set(&mut self, member: &str, value: Option<Value>) {
        match value {
            Some(value) => drop(self.members.insert(member.into(), value)),
            None => drop(self.members.shift_remove(member)),
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.retain(|number| self.find(number).is_some());
        self.kept = kept;
    }

    /// Replaces the attributes by others, some of which were moved into the attribute `into`.
    /// Numbers in them are kept there as well.
    pub(super) fn move_attributes(&mut self, attributes: Map<String, Value>, into: &str) {
        let moved = |number: &KeptNumber| {
            let rest = number.pointer.strip_prefix("/attributes/")?;
            let pointer = format!("/attributes/{}/{rest}", escaped(into));
            Some(KeptNumber { pointer, text: number.text.clone() })
        };
        let moved: Vec<KeptNumber> = self.kept.iter().filter_map(moved).collect();
        self.kept.extend(moved);
        self.set("attributes", Some(Value::Object(attributes)));
    }

    /// The value where `number` was read, unless it has been changed.
    fn find(&self, number: &KeptNumber) -> Option<&Value> {
        let (member, rest) = number.pointer.strip_prefix('/').and_then(|pointer| {
            let end = pointer.find('/').unwrap_or(pointer.len());
            pointer.split_at_checked(end)
        })?;
        let member = member.replace("~1", "/").replace("~0", "~");
        let value = self.members.get(&member)?.pointer(rest)?;
        (Some(value) == stand_in(&number.text).as_ref()).then_some(value)
    }

    /// Refuses members that are neither `known` nor may be ignored, and attributes that are not an
    /// object.
    pub(super) fn check_members(&self, known: &[&str]) -> Result<(), MetadataError> {
        for (member, value) in &self.members {
            let ignorable = value.get("must_understand") == Some(&Value::Bool(false));
            if !known.contains(&member.as_str()) && !ignorable {
                return Err(MetadataError::unknown(member));
            }
        }
        match self.members.get("attributes") {
            None | Some(Value::Object(_)) => Ok(()),
            Some(_) => Err(MetadataError::invalid("attributes", "must be an object")),
        }
    }

    pub(super) fn required(&self, member: &str) -> Result<&Value, MetadataError> {
        self.members.get(member).ok_or_else(|| MetadataError::missing(member))
    }
}

/// A name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The in-memory value of a number that the parser cannot hold; `None` if it can.
fn stand_in(text: &str) -> Option<Value> {
    if ["NaN", "Infinity", "-Infinity"].contains(&text) {
        return Some(Value::from(text));
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let integer = digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.starts_with('0');
    // Shorter ones fit; much longer ones do not fit a float either.
    let long = (19..=300).contains(&digits.len());
    if integer && long && text.parse::<i64>().is_err() && text.parse::<u64>().is_err() {
        return text.parse::<f64>().ok().map(Value::from);
    }
    None
}

/// The text with every number that the parser cannot hold replaced by a marked string; `None` if
/// there is none.
fn mark_numbers(bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut marked = Vec::new();
    let (mut copied, mut at, mut count) = (0, 0, 0);
    while let Some(&byte) = bytes.get(at) {
        if byte == b'"' {
            at = string_end(bytes, at);
            continue;
        }
        let token = bytes.get(at..).unwrap_or_default();
        let len = token
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.'))
            .count();
        let text = token.get(..len).and_then(|token| std::str::from_utf8(token).ok());
        // In place of a key it is an error, which is left to the parser.
        let is_key = || {
            token.iter().skip(len).find(|b| !b.is_ascii_whitespace()).is_some_and(|&b| b == b':')
        };
        if let Some(text) = text.filter(|text| stand_in(text).is_some() && !is_key()) {
            count += 1;
            if count > MAX_KEPT {
                return Err(format!("more than {MAX_KEPT} numbers are NaN, infinite or too long"));
            }
            marked.extend_from_slice(bytes.get(copied..at).unwrap_or_default());
            marked.extend_from_slice(format!("{MARK_IN_JSON}{text}\"").as_bytes());
            copied = at + len;
        }
        at += len.max(1);
    }
    if count == 0 {
        return Ok(None);
    }
    marked.extend_from_slice(bytes.get(copied..).unwrap_or_default());
    Ok(Some(marked))
}

/// The end of the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Replaces marked strings by values; recurses as deep as the parser did, which is bounded.
fn unmark(json: &mut Value, pointer: &mut String, kept: &mut Vec<KeptNumber>) {
    let len = pointer.len();
    match json {
        Value::String(text) => {
            let Some(number) = text.strip_prefix(MARK) else { return };
            let Some(value) = stand_in(number) else { return };
            kept.push(KeptNumber { pointer: pointer.clone(), text: number.into() });
            *json = value;
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                pointer.push_str(&format!("/{index}"));
                unmark(item, pointer, kept);
                pointer.truncate(len);
            }
        }
        Value::Object(members) => {
            for (key, value) in members {
                pointer.push('/');
                pointer.push_str(&escaped(key));
                unmark(value, pointer, kept);
                pointer.truncate(len);
            }
        }
        _ => {}
    }
}

/// Turns marked strings in JSON text into the numbers they stand for.
fn without_marks(text: &str) -> String {
    let mut parts = text.split(MARK_IN_JSON);
    let mut out = String::from(parts.next().unwrap_or_default());
    for part in parts {
        match part.split_once('"').filter(|(number, _)| stand_in(number).is_some()) {
            Some((number, rest)) => out.extend([number, rest]),
            // A user's string that happens to begin like this.
            None => out.extend([MARK_IN_JSON, part]),
        }
    }
    out
}
