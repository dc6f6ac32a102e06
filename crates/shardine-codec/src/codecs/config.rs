use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::{CodecError, CodecSpec};

/// Reads the members of a codec's configuration, naming the offending one in each error.
///
/// A member that is `null` counts as absent: numcodecs writes its `None` that way.
pub(super) struct Config<'a> {
    codec: &'a str,
    members: &'a Map<String, Value>,
}

impl<'a> Config<'a> {
    pub(super) fn new(spec: &'a CodecSpec) -> Self {
        Self::of(&spec.name, &spec.configuration)
    }

    /// The members of an object inside a configuration; `part` stands for the codec in errors.
    pub(super) fn of(part: &'a str, members: &'a Map<String, Value>) -> Self {
        Self { codec: part, members }
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> CodecError {
        CodecError::configuration(self.codec, reason)
    }

    /// An error if there is a member other than `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), CodecError> {
        let unknown: Vec<_> = (self.members.keys())
            .filter(|key| !known.contains(&key.as_str()))
            .map(|key| format!("\"{key}\""))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(self.error(format!("unknown configuration member {}", unknown.join(", "))))
    }

    pub(super) fn get(&self, member: &str) -> Option<&'a Value> {
        self.members.get(member).filter(|value| !value.is_null())
    }

    pub(super) fn required(&self, member: &str) -> Result<&'a Value, CodecError> {
        self.get(member).ok_or_else(|| self.error(format!("\"{member}\" is missing")))
    }

    /// The error for a member that is not `wanted`.
    pub(super) fn wrong(&self, member: &str, wanted: &str) -> CodecError {
        let value = self.members.get(member).unwrap_or(&Value::Null);
        self.error(format!("\"{member}\" must be {wanted}, not {value}"))
    }

    pub(super) fn integer(
        &self,
        member: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, CodecError> {
        let Some(value) = self.get(member) else { return Ok(None) };
        match value.as_i64().filter(|value| range.contains(value)) {
            Some(value) => Ok(Some(value)),
            None => {
                let wanted = format!("an integer from {} to {}", range.start(), range.end());
                Err(self.wrong(member, &wanted))
            }
        }
    }

    pub(super) fn required_integer(
        &self,
        member: &str,
        range: RangeInclusive<i64>,
    ) -> Result<i64, CodecError> {
        self.required(member)?;
        self.integer(member, range).map(Option::unwrap_or_default)
    }

    pub(super) fn boolean(&self, member: &str) -> Result<Option<bool>, CodecError> {
        match self.get(member) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.wrong(member, "true or false")),
        }
    }

    pub(super) fn string(&self, member: &str) -> Result<Option<&'a str>, CodecError> {
        match self.get(member) {
            None => Ok(None),
            Some(Value::String(value)) => Ok(Some(value)),
            Some(_) => Err(self.wrong(member, "a string")),
        }
    }

    /// The value that `choices` gives for the string in `member`.
    pub(super) fn choice<T: Copy>(
        &self,
        member: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, CodecError> {
        let Some(value) = self.get(member) else { return Ok(None) };
        match choices.iter().find(|(name, _)| value.as_str() == Some(name)) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
                Err(self.wrong(member, &format!("one of {}", names.join(", "))))
            }
        }
    }
}
