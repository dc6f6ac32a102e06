//! Versions that are missing.

use serde_json::{Map, Value, json};

use super::{Correction, item_of, members_mut};
use crate::ome::read::{Home, OME, VERSIONED, home};
use crate::ome::rules::version::stated;
use crate::ome::rules::{RuleKind, RuleLevel, Violation, metadata_members, release, violations};
use crate::ome::{OmeRelease, OmeVersion};

/// The member of metadata from 0.5 on that states its version.
const VERSION: &str = "version";

/// The objects that lack a version where one belongs; from 0.5 on, `version` for all metadata.
pub(crate) fn missing_versions(attributes: &Map<String, Value>) -> Vec<String> {
    let (Some(home), Some(members)) = (home(attributes), metadata_members(attributes)) else {
        return Vec::new();
    };
    match home {
        Home::Member(OME) if !members.contains_key(VERSION) => vec![VERSION.to_owned()],
        Home::Member(_) => Vec::new(),
        Home::Attributes => missing_in(members, release(attributes).unwrap_or(OmeRelease::V0_4)),
    }
}

/// The same up to 0.4, as the rules of a release ask for them.
fn missing_in(members: &Map<String, Value>, release: OmeRelease) -> Vec<String> {
    let lacks = |value: &Value| value.as_object().is_some_and(|value| !value.contains_key(VERSION));
    let images = members.get("multiscales").and_then(Value::as_array);
    let images = images.into_iter().flatten().enumerate();
    let images = images.filter(|(_, image)| release > OmeRelease::V0_1 && lacks(image));
    let mut missing: Vec<String> =
        images.map(|(number, _)| format!("multiscales[{number}]")).collect();
    let named: &[&str] = match release {
        OmeRelease::V0_4 => &["plate", "well", "image-label"],
        _ => &["plate", "well"],
    };
    let named = named.iter().filter(|name| members.get(**name).is_some_and(lacks));
    missing.extend(named.map(|name| (*name).to_owned()));
    missing
}

/// Whether a rule is broken by a version that is missing.
pub(crate) fn is_version_missing(violation: &Violation, missing: &[String]) -> bool {
    let any = OmeVersion::from(OmeRelease::V0_5);
    Correction::Version { version: any, members: missing.to_vec() }.mends(violation)
}

/// All versions that the metadata among the attributes of a group states, as texts.
pub(crate) fn stated_versions(attributes: &Map<String, Value>) -> Vec<String> {
    let (Some(home), Some(members)) = (home(attributes), metadata_members(attributes)) else {
        return Vec::new();
    };
    // What is no text is not a version, but disagrees with all that are.
    let text = |version: &Value| version.as_str().map_or(version.to_string(), str::to_owned);
    match home {
        Home::Member(name) => match name.strip_prefix(VERSIONED) {
            Some(version) => vec![version.to_owned()],
            None => members.get(VERSION).map(text).into_iter().collect(),
        },
        Home::Attributes => stated(members).map(|(_, version)| text(version)).collect(),
    }
}

/// The releases whose version the document can get: it then breaks no rule that it keeps now.
pub(crate) fn fitting_releases(
    attributes: &Map<String, Value>,
    zarr_format: u8,
    missing: &[String],
) -> Vec<OmeRelease> {
    let broken = |attributes: &Map<String, Value>| -> Vec<(RuleKind, String, String)> {
        let found = violations(attributes, Some(zarr_format)).unwrap_or_default().list;
        let must = found.into_iter().filter(|violation| violation.level == RuleLevel::Must);
        must.map(|violation| (violation.kind, violation.member, violation.message)).collect()
    };
    let before = broken(attributes);
    let fits = |release: &OmeRelease| {
        let mut after = attributes.clone();
        apply(&mut after, &(*release).into(), missing)
            && broken(&after).iter().all(|rule| before.contains(rule))
    };
    OmeRelease::ALL.into_iter().filter(fits).collect()
}

pub(super) fn apply(
    attributes: &mut Map<String, Value>,
    version: &OmeVersion,
    missing: &[String],
) -> bool {
    let is_old = home(attributes) == Some(Home::Attributes);
    if missing.is_empty()
        || missing_versions(attributes) != missing
        || version.release().is_zarr3() == is_old
    {
        return false;
    }
    let Some(members) = members_mut(attributes) else { return false };
    let text = json!(version.to_string());
    for member in missing {
        let object = match item_of(member, "multiscales") {
            _ if member == VERSION => Some(&mut *members),
            Some((number, _)) => members
                .get_mut("multiscales")
                .and_then(|images| images.get_mut(number))
                .and_then(Value::as_object_mut),
            None => members.get_mut(member).and_then(Value::as_object_mut),
        };
        if let Some(object) = object {
            object.shift_insert(0, VERSION.to_owned(), text.clone());
        }
    }
    true
}
