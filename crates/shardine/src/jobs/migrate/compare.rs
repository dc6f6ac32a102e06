//! Whether documents of the two versions say the same.

use serde_json::{Map, Value};

use super::plan::in_version;
use crate::ome::OmeVersion;
use crate::zarr::metadata::{DIMENSIONS, FILL_VALUE, GroupMetadata, NodeMetadata};

/// What differs between documents of the two versions; `None` if they say the same.
///
/// Dimension names do not count: version 2 has them among the attributes. OME-Zarr metadata counts
/// in the form of `version`. `name` is the last part of the node's path.
pub(super) fn difference(
    v2: &NodeMetadata,
    v3: &NodeMetadata,
    name: &str,
    version: Option<&OmeVersion>,
) -> Option<&'static str> {
    // In version 3 form; dimension names that are still among the attributes do no harm.
    let wanted = match v2 {
        NodeMetadata::Array(array) => NodeMetadata::Array(array.clone().into_v3()),
        NodeMetadata::Group(_) => v2.clone(),
    };
    let attributes = |node: &NodeMetadata| compared(node, &[DIMENSIONS], name, version);
    if attributes(&wanted) != attributes(v3) {
        return Some("the attributes");
    }
    match (v2, v3) {
        (NodeMetadata::Group(_), NodeMetadata::Group(_)) => None,
        (NodeMetadata::Array(old), NodeMetadata::Array(new)) => {
            let checks = [
                (old.shape() == new.shape(), "the shape"),
                (old.chunk_shape() == new.chunk_shape(), "the chunk shape"),
                (old.data_type() == new.data_type(), "the data type"),
                (old.fill() == new.fill(), "the fill value"),
                (old.codecs() == new.codecs(), "the codecs"),
                (old.key_encoding() == new.key_encoding(), "the keys of chunks"),
            ];
            checks.into_iter().find(|(same, _)| !same).map(|(_, what)| what)
        }
        _ => Some("one is a group, the other an array"),
    }
}

/// Whether version 2 attributes that a killed removal has left are those of the node.
pub(super) fn are_those_of(
    zattrs: &[u8],
    node: &NodeMetadata,
    name: &str,
    version: Option<&OmeVersion>,
) -> bool {
    const GROUP: &[u8] = br#"{"zarr_format": 2}"#;
    let Ok(parsed) = GroupMetadata::parse_v2(GROUP, Some(zattrs), None) else { return false };
    // What xarray keeps elsewhere in version 3.
    let moved = [DIMENSIONS, FILL_VALUE];
    compared(&NodeMetadata::Group(parsed), &moved, name, version)
        == compared(node, &moved, name, version)
}

/// The attributes of a node without some of them, and with OME-Zarr metadata in one form.
fn compared(
    node: &NodeMetadata,
    without: &[&str],
    name: &str,
    version: Option<&OmeVersion>,
) -> Map<String, Value> {
    let attributes = node.attributes();
    let formed = version.and_then(|version| in_version(attributes, name, version).ok().flatten());
    let mut attributes = formed.unwrap_or_else(|| attributes.clone());
    without.iter().for_each(|name| drop(attributes.shift_remove(*name)));
    attributes
}
