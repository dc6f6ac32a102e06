//! What all members of a metadata document that name an extension have in common.

use serde_json::{Map, Value};

use crate::error::ExtensionError;

/// An extension: a name alone, or an object with a name and a configuration.
#[derive(Debug)]
pub struct Extension<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its configuration, if it has one.
    pub configuration: Option<&'a Map<String, Value>>,
    /// Whether a reader that does not know it must refuse the array.
    pub must_understand: bool,
}

impl<'a> Extension<'a> {
    /// Parses an extension from the member with this name.
    pub fn from_json(json: &'a Value, member: &str) -> Result<Self, ExtensionError> {
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
                return Err(ExtensionError::invalid(member, reason));
            }
        };
        let place = |name: &str| format!("{member}.{name}");
        let (mut name, mut configuration, mut must_understand) = (None, None, true);
        for (key, value) in members {
            match (key.as_str(), value) {
                ("name", Value::String(found)) => name = Some(checked_name(found, member)?),
                ("name", _) => {
                    return Err(ExtensionError::invalid(place("name"), "must be a string"));
                }
                ("configuration", Value::Object(found)) => configuration = Some(found),
                ("configuration", _) => {
                    return Err(ExtensionError::invalid(
                        place("configuration"),
                        "must be an object",
                    ));
                }
                ("must_understand", Value::Bool(found)) => must_understand = *found,
                ("must_understand", _) => {
                    let reason = "must be true or false";
                    return Err(ExtensionError::invalid(place("must_understand"), reason));
                }
                (other, _) => return Err(ExtensionError::UnknownMember { member: place(other) }),
            }
        }
        let name = name.ok_or_else(|| ExtensionError::missing(place("name")))?;
        Ok(Self { name, configuration, must_understand })
    }

    /// Like [`Self::from_json`], for a member that no reader can ignore.
    pub fn needed(json: &'a Value, member: &str) -> Result<Self, ExtensionError> {
        let extension = Self::from_json(json, member)?;
        if extension.must_understand {
            Ok(extension)
        } else {
            Err(ExtensionError::invalid(
                format!("{member}.must_understand"),
                "can only be true, since no chunk can be found without this member",
            ))
        }
    }

    /// Refuses members of the configuration other than `known`.
    pub fn check_configuration(&self, member: &str, known: &[&str]) -> Result<(), ExtensionError> {
        let unknown = self
            .configuration
            .into_iter()
            .flat_map(Map::keys)
            .find(|key| !known.contains(&key.as_str()));
        match unknown {
            Some(key) => Err(ExtensionError::UnknownMember {
                member: format!("{member}.configuration.{key}"),
            }),
            None => Ok(()),
        }
    }
}

fn checked_name<'a>(name: &'a str, member: &str) -> Result<&'a str, ExtensionError> {
    if name.is_empty() {
        return Err(ExtensionError::invalid(member, "has an empty name"));
    }
    Ok(name)
}

/// A JSON value for a message, truncated.
pub fn shown(json: &Value) -> String {
    const MOST: usize = 60;
    let text = json.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
