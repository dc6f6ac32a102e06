//! The version of a document, and whether it is where it belongs.

use serde_json::{Map, Value};

use super::judge::{At, Judge, quoted};
use super::{OmeRelease, RuleKind};
use crate::ome::OmeVersion;
use crate::ome::read::{Home, MEMBERS, VERSIONED, guess};

const KIND: RuleKind = RuleKind::Version;

/// The objects that state a version of their own up to 0.4.
const OWN_VERSION: [&str; 3] = ["plate", "well", "image-label"];

/// The release whose rules apply, after judging how the document says so.
pub(super) fn judge(
    home: Home<'_>,
    attributes: &Map<String, Value>,
    members: &Map<String, Value>,
    zarr_format: Option<u8>,
    judge: &mut Judge,
) -> OmeRelease {
    match home {
        Home::Member(name) => in_member(name, attributes, members, judge),
        Home::Attributes => among_attributes(members, judge),
    }
    let release = release(home, members);
    judge.release = release;
    match zarr_format {
        Some(2) if release.is_zarr3() => {
            let message =
                format!("OME-Zarr {release} is Zarr version 3, but this group is version 2");
            judge.must(KIND, &At::ROOT, message);
        }
        Some(3) if release == OmeRelease::V0_4 => {
            let message = "OME-Zarr 0.4 is Zarr version 2, but this group is version 3";
            judge.must(KIND, &At::ROOT, message);
        }
        Some(3) if !release.is_zarr3() => {
            let message =
                format!("OME-Zarr {release} is older than Zarr version 3, which this group is of");
            judge.doubt(KIND, &At::ROOT, message);
        }
        _ => {}
    }
    release
}

/// The release whose rules apply: what the document states, else what it looks like.
pub(super) fn release(home: Home<'_>, members: &Map<String, Value>) -> OmeRelease {
    let is_old = home == Home::Attributes;
    let stated = match home {
        Home::Member(name) => match name.strip_prefix(VERSIONED) {
            Some(version) => parsed(version),
            None => members.get("version").and_then(Value::as_str).and_then(parsed),
        },
        Home::Attributes => stated(members).find_map(|(_, version)| parsed(version.as_str()?)),
    };
    let usual = if is_old { OmeRelease::V0_4 } else { OmeRelease::V0_5 };
    // Where the metadata is tells more than what it says.
    stated.filter(|release| release.is_zarr3() != is_old).unwrap_or_else(|| guess(members, usual))
}

fn parsed(text: &str) -> Option<OmeRelease> {
    text.parse::<OmeVersion>().ok().map(|version| version.release())
}

fn in_member(
    name: &str,
    attributes: &Map<String, Value>,
    members: &Map<String, Value>,
    judge: &mut Judge,
) {
    let at = At::new("version");
    if let Some(version) = name.strip_prefix(VERSIONED) {
        let message = format!("the attribute {} is of a draft; it is now called ome", quoted(name));
        judge.doubt(KIND, &At::ROOT, message);
        known(version, true, &at, judge);
    } else {
        match members.get("version") {
            // ome-zarr-py writes groups of labels without it, and the schemas have none of them.
            None if members.keys().all(|name| name == "labels") => {
                judge.doubt(KIND, &at, "is missing");
            }
            None => judge.must(KIND, &at, "is missing"),
            Some(Value::String(version)) => known(version, true, &at, judge),
            Some(_) => judge.must(KIND, &at, "is not a string"),
        }
    }
    let old = MEMBERS.iter().find(|name| attributes.contains_key(**name) && **name != "labels");
    if let Some(old) = old {
        let message = format!("the attribute {old} is beside the newer metadata, which is used");
        judge.doubt(KIND, &At::ROOT, message);
    }
}

/// Judges the text of a version, for metadata in an attribute of its own or among all others.
fn known(version: &str, is_zarr3: bool, at: &At<'_>, judge: &mut Judge) {
    match version.parse::<OmeVersion>() {
        Err(unknown) => judge.must(KIND, at, unknown.to_string()),
        Ok(version) if version.release().is_zarr3() != is_zarr3 => {
            let message = match is_zarr3 {
                true => format!("{version} has no attribute ome"),
                false => format!("{version} has its metadata in the attribute ome"),
            };
            judge.must(KIND, at, message);
        }
        Ok(_) => {}
    }
}

/// The first version that an object among the attributes states.
pub(super) fn first_stated(members: &Map<String, Value>) -> Option<&str> {
    stated(members).find_map(|(_, version)| version.as_str())
}

/// The versions that the objects among the attributes state.
pub(super) fn stated(members: &Map<String, Value>) -> impl Iterator<Item = (String, &Value)> {
    let images = members.get("multiscales").and_then(Value::as_array);
    let images = images.into_iter().flatten().enumerate();
    let images = images.filter_map(|(number, image)| {
        Some((format!("multiscales[{number}].version"), image.get("version")?))
    });
    let others = OWN_VERSION
        .iter()
        .filter_map(|name| Some((format!("{name}.version"), members.get(*name)?.get("version")?)));
    images.chain(others)
}

fn among_attributes(members: &Map<String, Value>, judge: &mut Judge) {
    let mut first: Option<&str> = None;
    for (member, version) in stated(members) {
        let at = At::new(&member);
        let Some(version) = judge.string(KIND, version, &at) else { continue };
        known(version, false, &at, judge);
        match first {
            None => first = Some(version),
            Some(first) if first != version => {
                judge.doubt(
                    KIND,
                    &at,
                    format!("is {}, elsewhere {}", quoted(version), quoted(first)),
                );
            }
            Some(_) => {}
        }
    }
}
