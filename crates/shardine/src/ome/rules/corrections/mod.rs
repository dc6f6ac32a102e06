//! What of a document follows from itself and the nodes around it, so that `repair` can correct it
//! without guessing. Nothing here reads from a store.
//!
//! A correction is planned from what is known of other nodes, which is why it is planned again
//! before it is applied: the documents may have changed meanwhile.

mod labels;
mod levels;
mod places;
mod version;

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Map, Value};

use super::judge::quoted;
use super::relations::not_listed;
use super::{RuleKind, Violation};
use crate::ome::OmeVersion;
use crate::ome::read::{Home, home};

pub(crate) use labels::{LabelNodes, labels};
pub(crate) use levels::{dimension_names, level_orders};
pub(crate) use places::places;
pub(crate) use version::{fitting_releases, is_version_missing, missing_versions, stated_versions};

/// The most items of a list that are repeated in a message.
const SHOWN: usize = 8;

/// A change of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Correction {
    /// Objects without a version get the one that the rest of the hierarchy states. They are named
    /// by their place in the metadata; `version` is the one of all of it.
    Version { version: OmeVersion, members: Vec<String> },
    /// The levels of an image are put in the order of their sizes: `order` has the numbers that
    /// they have now, `paths` are those of now.
    Order { image: usize, paths: Vec<String>, order: Vec<usize> },
    /// The list of label images gets some paths, and loses items: of images that are not there, or
    /// are listed before.
    Labels { added: Vec<String>, removed: Vec<(usize, String)> },
    /// Wells get the numbers of the rows and columns that their paths name.
    Places { wells: Vec<WellPlace> },
    /// The dimensions of an array, which is that of these levels, are named like the axes.
    DimensionNames { names: Vec<String>, before: Option<Vec<Option<String>>>, levels: Vec<String> },
}

/// The number of a row or column that a well lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WellPlace {
    pub well: usize,
    /// `rowIndex` or `columnIndex`.
    pub side: &'static str,
    pub number: u64,
}

impl Correction {
    /// Whether the document no longer breaks a rule, once corrected.
    pub fn mends(&self, violation: &Violation) -> bool {
        let Violation { kind, member, message, .. } = violation;
        match self {
            Self::Version { members, .. } => {
                let is_of = |of: &String| {
                    member
                        .strip_prefix(of.as_str())
                        .is_some_and(|rest| matches!(rest, "" | ".version"))
                };
                *kind == RuleKind::Version && members.iter().any(is_of)
            }
            Self::Order { image, .. } => {
                let level = item_of(member, "multiscales");
                let is_level = |rest: &str| rest.starts_with(".datasets[");
                is_about_order(violation)
                    && level.is_some_and(|(number, rest)| number == *image && is_level(rest))
            }
            Self::Labels { added, removed } => {
                let is_removed = |number: usize| {
                    removed.binary_search_by_key(&number, |(number, _)| *number).is_ok()
                };
                let is_added = |path: &String| not_listed(path) == *message;
                *kind == RuleKind::Labels
                    && match item_of(member, "labels") {
                        Some((number, "")) => is_removed(number),
                        _ => member == "labels" && added.iter().any(is_added),
                    }
            }
            Self::Places { wells } => {
                let place = |place: &WellPlace| (place.well, place.side == "columnIndex");
                *kind == RuleKind::Plate
                    && item_of(member, "plate.wells").is_some_and(|(well, side)| match side {
                        ".rowIndex" => wells.binary_search_by_key(&(well, false), place).is_ok(),
                        ".columnIndex" => wells.binary_search_by_key(&(well, true), place).is_ok(),
                        _ => false,
                    })
            }
            Self::DimensionNames { levels, .. } => {
                *kind == RuleKind::DimensionNames && levels.contains(member)
            }
        }
    }

    /// Whether something that the document says is replaced or removed, not only added to or moved.
    pub fn removes(&self) -> bool {
        match self {
            Self::Version { .. } | Self::Order { .. } | Self::Places { .. } => false,
            Self::Labels { removed, .. } => !removed.is_empty(),
            Self::DimensionNames { names, before, .. } => {
                let is_other = |(before, name): (&Option<String>, &String)| {
                    before.as_ref().is_some_and(|before| before != name)
                };
                before.iter().flatten().zip(names).any(is_other)
            }
        }
    }

    /// Changes the attributes of a group; `false`, and nothing is changed, if they are not those
    /// that it was planned from.
    pub fn apply(&self, attributes: &mut Map<String, Value>) -> bool {
        match self {
            Self::Version { version, members } => version::apply(attributes, version, members),
            Self::Order { image, paths, order } => {
                levels::apply_order(attributes, *image, paths, order)
            }
            Self::Labels { added, removed } => labels::apply(attributes, added, removed),
            Self::Places { wells } => places::apply(attributes, wells),
            // It is not an attribute.
            Self::DimensionNames { .. } => false,
        }
    }
}

/// Whether it takes other nodes to tell if a rule, which a document breaks on its own, is broken by
/// something that can be corrected.
pub(crate) fn may_be_mended(violation: &Violation) -> bool {
    let Violation { kind, member, .. } = violation;
    match kind {
        RuleKind::Levels => is_about_order(violation),
        RuleKind::Labels => item_of(member, "labels").is_some(),
        RuleKind::Plate => {
            item_of(member, "plate.wells").is_some_and(|(_, of)| of.ends_with("Index"))
        }
        _ => false,
    }
}

/// Whether a rule is broken by the order of levels.
fn is_about_order(violation: &Violation) -> bool {
    let is_order = |begin: &str| violation.message.starts_with(begin);
    violation.kind == RuleKind::Levels
        && (is_order(super::levels::LARGER) || is_order(super::image::FINER))
}

/// The number of an item of a list that a member is, or is in, and what follows in its name.
fn item_of<'m>(member: &'m str, list: &str) -> Option<(usize, &'m str)> {
    let (number, rest) = member.strip_prefix(list)?.strip_prefix('[')?.split_once(']')?;
    Some((number.parse().ok()?, rest))
}

/// The members of the metadata among the attributes of a group, to be changed.
fn members_mut(attributes: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    let name = match home(attributes)? {
        Home::Attributes => None,
        Home::Member(name) => Some(name.to_owned()),
    };
    match name {
        None => Some(attributes),
        Some(name) => attributes.get_mut(&name)?.as_object_mut(),
    }
}

impl fmt::Display for Correction {
    /// What changes, for a message that follows the name of the document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { version, members } => match members.as_slice() {
                [member] if member == "version" => {
                    write!(f, "version: {version}, as in the rest of the hierarchy")
                }
                members => {
                    let members = listed(members.iter().cloned());
                    write!(f, "version of {members}: {version}, as in the rest of the hierarchy")
                }
            },
            Self::Order { image, paths, order } => {
                let now = listed(paths.iter().map(|path| quoted(path)));
                let then = order.iter().filter_map(|number| paths.get(*number));
                let then = listed(then.map(|path| quoted(path)));
                write!(f, "multiscales[{image}].datasets: in the order {then} instead of {now}")
            }
            Self::Labels { added, removed } => {
                let added = added.iter().map(|path| format!("{} added", quoted(path)));
                let removed = removed.iter().map(|(_, path)| format!("{} removed", quoted(path)));
                write!(f, "labels: {}", listed(added.chain(removed)))
            }
            Self::Places { wells } => {
                let shown = |place: &WellPlace| {
                    format!("plate.wells[{}].{}: {}", place.well, place.side, place.number)
                };
                f.write_str(&listed(wells.iter().map(shown)))
            }
            Self::DimensionNames { names, before, .. } => {
                let shown = |name: &Option<String>| match name {
                    Some(name) => quoted(name),
                    None => "null".to_owned(),
                };
                let names = listed(names.iter().map(|name| quoted(name)));
                let before = match before {
                    Some(before) => listed(before.iter().map(shown)),
                    None => "none".to_owned(),
                };
                write!(f, "dimension_names: {names} instead of {before}")
            }
        }
    }
}

/// Items in a row, up to some number.
fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let shown = items.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
