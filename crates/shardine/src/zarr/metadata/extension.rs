//! What all members have in common that name an extension, and the numbers in them.

use serde_json::{Map, Value};

use super::MetadataError;

/// An extension: a name alone, or an object with a name and a configuration.
#[derive(Debug)]
pub(super) struct Extension<'a> {
    pub(super) name: &'a str,
    pub(super) configuration: Option<&'a Map<String, Value>>,
    pub(super) must_understand: bool,
}

impl<'a> Extension<'a> {
    pub(super) fn from_json(json: &'a Value, member: &str) -> Result<Self, MetadataError> {
        let members = match json {
            Value::String(name) => {
                let name = checked_name(name, member)?;
                return Ok(Self { name, configuration: None, must_understand: true });
            }
            Value::Object(members) => members,
            _ => {
                let reason = format!(
                    "is {}, but must be a name or an object with \"name\" and \"configuration\"",
                    shown(json),
                );
                return Err(MetadataError::invalid(member, reason));
            }
        };
        let place = |name: &str| format!("{member}.{name}");
        let (mut name, mut configuration, mut must_understand) = (None, None, true);
        for (key, value) in members {
            match (key.as_str(), value) {
                ("name", Value::String(found)) => name = Some(checked_name(found, member)?),
                ("name", _) => {
                    return Err(MetadataError::invalid(place("name"), "must be a string"));
                }
                ("configuration", Value::Object(found)) => configuration = Some(found),
                ("configuration", _) => {
                    return Err(MetadataError::invalid(
                        place("configuration"),
                        "must be an object",
                    ));
                }
                ("must_understand", Value::Bool(found)) => must_understand = *found,
                ("must_understand", _) => {
                    let reason = "must be true or false";
                    return Err(MetadataError::invalid(place("must_understand"), reason));
                }
                (other, _) => return Err(MetadataError::UnknownMember { member: place(other) }),
            }
        }
        let name = name.ok_or_else(|| MetadataError::missing(place("name")))?;
        Ok(Self { name, configuration, must_understand })
    }

    /// As [`Self::from_json`], of a member that no reader can do without.
    pub(super) fn needed(json: &'a Value, member: &str) -> Result<Self, MetadataError> {
        let extension = Self::from_json(json, member)?;
        if extension.must_understand {
            Ok(extension)
        } else {
            Err(MetadataError::invalid(
                format!("{member}.must_understand"),
                "can only be true, since no chunk can be found without this member",
            ))
        }
    }

    /// Refuses members of the configuration other than `known`.
    pub(super) fn check_configuration(
        &self,
        member: &str,
        known: &[&str],
    ) -> Result<(), MetadataError> {
        let unknown = self
            .configuration
            .into_iter()
            .flat_map(Map::keys)
            .find(|key| !known.contains(&key.as_str()));
        match unknown {
            Some(key) => Err(MetadataError::UnknownMember {
                member: format!("{member}.configuration.{key}"),
            }),
            None => Ok(()),
        }
    }
}

fn checked_name<'a>(name: &'a str, member: &str) -> Result<&'a str, MetadataError> {
    if name.is_empty() {
        return Err(MetadataError::invalid(member, "has an empty name"));
    }
    Ok(name)
}

/// A JSON value for a message, cut short.
pub(super) fn shown(json: &Value) -> String {
    const MOST: usize = 60;
    let text = json.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// A list of integers, none of them below `least`.
pub(super) fn integers(json: &Value, member: &str, least: u64) -> Result<Vec<u64>, MetadataError> {
    let items = json.as_array().ok_or_else(|| {
        let reason = format!("is {}, but must be a list of integers", shown(json));
        MetadataError::invalid(member, reason)
    })?;
    items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            item.as_u64().filter(|&number| number >= least).ok_or_else(|| {
                let reason =
                    format!("is {}, but must be an integer of at least {least}", shown(item));
                MetadataError::invalid(format!("{member}[{index}]"), reason)
            })
        })
        .collect()
}
