//! The rules of each version of OME-Zarr, judged on the JSON itself: a document that breaks them
//! may not be readable as a model.
//!
//! [`violations`] judges the attributes of one group on their own, as the official schemas do.
//! What needs more than one document is in [`levels`], [`relations`] and [`scene_relations`], which
//! are given what is known about the other nodes. Nothing here reads from a store.
//!
//! What is a rule, and how strict it is, follows the text of the specification. Where the official
//! test cases of a version accept what its text forbids, it is only [`RuleLevel::Doubtful`].

mod axes;
pub(crate) mod corrections;
mod facts;
mod image;
mod judge;
mod label;
mod layout;
mod levels;
mod omero;
mod plate;
mod relations;
mod scene;
mod systems;
mod transformations;
mod version;

#[cfg(test)]
mod documents;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod node_tests;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use shardine_geometry::zarr_vectors::STORE_ATTRIBUTE;

use super::OmeRelease;
use super::read::{Home, MEMBERS, OME, home};
use judge::{At, Judge};

pub use facts::{ArrayFacts, GroupFacts, ImageFacts, NodeFacts};
pub use levels::{levels, order_by_size};
pub use relations::{
    between_labels, label_relations, label_source, relations, source_relations, unlisted_labels,
    version_relations, well_relations,
};
pub use scene::scene_relations;

/// How binding a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleLevel {
    /// The specification says MUST.
    Must,
    /// The specification says SHOULD.
    Should,
    /// Not forbidden, or accepted by the official test cases, but readers may stumble over it.
    Doubtful,
}

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RuleKind {
    /// The version, and where it belongs.
    Version,
    /// Axes, and the coordinate systems that they make up.
    Axes,
    /// The resolutions of an image.
    Levels,
    /// Coordinate transformations.
    Transformations,
    /// The names of the dimensions of arrays.
    DimensionNames,
    /// How channels are shown.
    Channels,
    /// Label images, and the group that lists them.
    Labels,
    /// Plates.
    Plate,
    /// Wells.
    Well,
    /// The layout of bioformats2raw, and the form of chunk keys.
    Layout,
    /// Scenes.
    Scene,
    /// Anything else.
    Metadata,
}

impl RuleKind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Version,
        Self::Axes,
        Self::Levels,
        Self::Transformations,
        Self::DimensionNames,
        Self::Channels,
        Self::Labels,
        Self::Plate,
        Self::Well,
        Self::Layout,
        Self::Scene,
        Self::Metadata,
    ];
}

/// A rule that a document breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// How binding the rule is.
    pub level: RuleLevel,
    /// What it is about.
    pub kind: RuleKind,
    /// The member that breaks it, such as `multiscales[0].datasets[1].path`; empty for the whole
    /// document.
    pub member: String,
    /// What is wrong with it: half a sentence that begins where the name of the member ends.
    pub message: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.member.as_str() {
            "" => f.write_str(&self.message),
            member => write!(f, "{member}: {}", self.message),
        }
    }
}

/// The rules that a document breaks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Violations {
    /// Those that are told one by one, in the order of the document; of each kind and level no
    /// more than a hundred.
    pub list: Vec<Violation>,
    /// How many more there are of each kind and level.
    pub more: Vec<(RuleLevel, RuleKind, u64)>,
}

impl Violations {
    /// Whether no rule is broken that the specification calls a must.
    pub fn is_valid(&self) -> bool {
        self.list.iter().all(|violation| violation.level != RuleLevel::Must)
    }
}

/// Judges the OME-Zarr metadata among the attributes of a group, on its own; `None` if there is
/// none.
///
/// `zarr_format` is the version of Zarr of the group, 2 or 3, if that is known.
///
/// ```
/// use serde_json::json;
/// use shardine::ome::rules::{RuleKind, RuleLevel, violations};
///
/// let attributes = json!({"ome": {"version": "0.5", "multiscales": []}});
/// let found = violations(attributes.as_object().ok_or("an object")?, Some(3)).ok_or("none")?;
/// assert_eq!(found.list.len(), 1);
/// assert_eq!((found.list[0].level, found.list[0].kind), (RuleLevel::Must, RuleKind::Metadata));
/// assert_eq!(found.list[0].to_string(), "multiscales: is empty, but needs at least one item");
/// # Ok::<(), &str>(())
/// ```
pub fn violations(attributes: &Map<String, Value>, zarr_format: Option<u8>) -> Option<Violations> {
    // Zarr Vectors borrows the words of OME-Zarr for what is no image.
    if attributes.contains_key(STORE_ATTRIBUTE) {
        return None;
    }
    let is_wrong_ome = attributes.get(OME).is_some_and(|ome| !ome.is_object());
    let home = home(attributes);
    if home.is_none() && !is_wrong_ome {
        return None;
    }
    Some(violations_in(attributes, home.filter(|_| !is_wrong_ome), zarr_format))
}

/// The same for attributes of which it is known that they are OME-Zarr: up to 0.4, lists of labels
/// and series are then judged whatever they hold.
pub fn sure_violations(
    attributes: &Map<String, Value>,
    zarr_format: Option<u8>,
) -> Option<Violations> {
    let has_list = attributes.contains_key("labels") || attributes.contains_key("series");
    let judged = || violations_in(attributes, Some(Home::Attributes), zarr_format);
    violations(attributes, zarr_format).or_else(|| has_list.then(judged))
}

fn violations_in(
    attributes: &Map<String, Value>,
    home: Option<Home<'_>>,
    zarr_format: Option<u8>,
) -> Violations {
    let mut judge = Judge::new(OmeRelease::V0_5);
    let members = match home {
        Some(Home::Member(name)) => attributes.get(name).and_then(Value::as_object),
        Some(Home::Attributes) => Some(attributes),
        None => None,
    };
    match home.zip(members) {
        None => judge.must(RuleKind::Metadata, &At::new(OME), "is not an object"),
        Some((home, members)) => {
            judge.release = version::judge(home, attributes, members, zarr_format, &mut judge);
            document(home, members, &mut judge);
        }
    }
    judge.finish()
}

/// The release whose rules apply to the metadata among the attributes of a group; `None` if there
/// is none.
pub fn release(attributes: &Map<String, Value>) -> Option<OmeRelease> {
    let home = home(attributes)?;
    Some(version::release(home, metadata_members(attributes)?))
}

/// The members of the metadata among the attributes of a group.
pub(crate) fn metadata_members(attributes: &Map<String, Value>) -> Option<&Map<String, Value>> {
    match home(attributes)? {
        Home::Member(name) => attributes.get(name)?.as_object(),
        Home::Attributes => Some(attributes),
    }
}

fn document(home: Home<'_>, members: &Map<String, Value>, judge: &mut Judge) {
    let root = At::ROOT;
    let get = |name: &'static str| members.get(name).map(|value| (value, root.member(name)));
    if let Some((images, at)) = get("multiscales") {
        image::judge(images, &at, judge);
    }
    if let Some((omero, at)) = get("omero") {
        omero::judge(omero, &at, judge);
    }
    if let Some((labels, at)) = get("labels") {
        label::judge_list(labels, &at, judge);
    }
    if let Some((image_label, at)) = get("image-label") {
        label::judge(image_label, &at, judge);
    }
    if let Some((plate, at)) = get("plate") {
        plate::judge(plate, &at, judge);
    }
    if let Some((well, at)) = get("well") {
        plate::judge_well(well, &at, judge);
    }
    if let Some((layout, at)) = get("bioformats2raw.layout") {
        layout::judge(layout, &at, judge);
    }
    if let Some((series, at)) = get("series") {
        layout::judge_series(series, &at, judge);
    }
    if judge.release >= OmeRelease::V0_6
        && let Some((scene, at)) = get("scene")
    {
        scene::judge(scene, &at, judge);
    }
    if home != Home::Attributes && !MEMBERS.iter().any(|name| members.contains_key(*name)) {
        says_nothing(members, judge);
    }
}

/// Members that belong into an object which is not there.
const ORPHANS: [&str; 7] = [
    "axes",
    "coordinateSystems",
    "coordinateTransformations",
    "datasets",
    "images",
    "wells",
    "channels",
];

/// Metadata without anything that makes it one of an image, a plate and so on.
fn says_nothing(members: &Map<String, Value>, judge: &mut Judge) {
    let (kind, at) = (RuleKind::Metadata, At::new(OME));
    match ORPHANS.iter().find(|name| members.contains_key(**name)) {
        Some(orphan) => {
            let message = format!("has {orphan}, but nothing that it could belong to");
            judge.must(kind, &at, message);
        }
        None => judge.doubt(kind, &at, "says nothing but its version"),
    }
}
