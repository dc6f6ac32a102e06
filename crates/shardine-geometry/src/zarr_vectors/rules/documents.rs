//! The documents of a store and of its levels.

use serde_json::{Map, Value};

use super::{RuleKind, Violation};
use crate::zarr_vectors::anchor::chunk_scales;
use crate::zarr_vectors::{Level, Root, STORE_ATTRIBUTE};

/// Whether the attributes are those of a store of another version, which has other rules.
pub fn is_other_version(attributes: &Map<String, Value>) -> bool {
    let version = attributes.get(STORE_ATTRIBUTE).and_then(|block| block.get("zv_version"));
    let Some(version) = version.and_then(Value::as_str) else { return false };
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) != (0, 9),
        _ => false,
    }
}

/// Judges the root of a store.
pub fn judge_root(root: &Root, out: &mut Vec<Violation>) {
    if let Some([low, high]) = &root.bounds
        && low.iter().zip(high).any(|(low, high)| low > high)
    {
        let message = format!("zarr_vectors.bounds: {low:?} is not below {high:?}");
        out.push(Violation::new(RuleKind::Bounds, message));
    }
}

/// The names of what is in a level.
#[derive(Debug, Clone, Default)]
pub struct LevelNames {
    /// The families of arrays: `vertices`, `links`.
    pub families: Vec<String>,
    /// The numbers of all levels.
    pub levels: Vec<u64>,
}

/// Judges the document of a level, with what is in it.
pub fn judge_level(level: &Level, root: &Root, names: &LevelNames, out: &mut Vec<Violation>) {
    let member = |name: &str| format!("zarr_vectors_level.{name}");
    if let Some(shape) = &level.chunk_shape
        && chunk_scales(shape, &root.chunk_shape).is_none()
    {
        let (name, base) = (member("chunk_shape"), &root.chunk_shape);
        let message = format!("{name}: {shape:?} is no multiple of the store's {base:?}");
        out.push(Violation::new(RuleKind::Metadata, message));
    }
    if let Some(parent) = level.parent
        && (parent == level.level || !names.levels.contains(&parent))
    {
        let message = format!("{}: there is no level {parent} above it", member("parent_level"));
        out.push(Violation::new(RuleKind::Doubtful, message));
    }
    let absent = |name: &&String| !names.families.contains(name);
    if let Some(name) = level.arrays.iter().find(absent) {
        let message = format!("{}: there is no {name:?}", member("arrays_present"));
        out.push(Violation::new(RuleKind::Doubtful, message));
    }
}
