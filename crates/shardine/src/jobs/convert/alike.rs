//! Whether the bytes of a chunk mean the same in two arrays.

use serde_json::{Map, json};
use shardine_codec::{Codec, ElementSize, from_spec};

use super::super::repack::Stored;
use super::view::View;
use crate::zarr::metadata::ArrayMetadata;
use crate::{Array, ArrayNode, CodecSpec};

/// How the chunks of an array are stored, in terms that do not depend on the order of its axes.
#[derive(Debug, PartialEq)]
struct Form {
    /// The shape of chunks, by axis of a volume.
    chunk: Vec<u64>,
    /// The axes along which chunks have more than one element, the slowest first.
    order: Vec<usize>,
    /// What happens to the elements in this order.
    codecs: Vec<(String, Map<String, serde_json::Value>)>,
}

/// An array, and how Zarr would describe what its chunks are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    pub array: &'a Array,
    pub metadata: &'a ArrayMetadata,
}

impl<'a> Side<'a> {
    /// Of an array that Zarr does describe.
    pub fn of(node: &'a ArrayNode) -> Self {
        Self { array: node, metadata: node.metadata() }
    }
}

fn form(Side { array, metadata }: Side<'_>, view: &View) -> Option<Form> {
    let stored = Stored::of(metadata).ok()?;
    let chunk = view.to_volume(&stored.chunk_shape);
    let mut order: Vec<usize> = (0..stored.chunk_shape.len()).collect();
    let mut rest = stored.codecs.as_slice();
    while let Some((first, after)) = rest.split_first()
        && let Ok(Codec::ArrayToArray(codec)) = from_spec(first)
        && let Some(permutation) = codec.permutation()
    {
        order = permutation.iter().map(|&k| order.get(k).copied()).collect::<Option<_>>()?;
        rest = after;
    }
    let one_byte = array.data_type().size() == ElementSize::Fixed(1);
    // A chunk that is longer along time has more than the volume takes of it.
    let of_time = |axis: &usize| view.volume_axis(*axis).is_none();
    if order
        .iter()
        .filter(|axis| of_time(axis))
        .any(|&axis| stored.chunk_shape.get(axis) != Some(&1))
    {
        return None;
    }
    let order = order.into_iter().filter_map(|axis| view.volume_axis(axis));
    let order: Vec<usize> = order.filter(|&axis| chunk[axis] > 1).collect();
    Some(Form { order, codecs: rest.iter().map(|codec| plain(codec, one_byte)).collect(), chunk })
}

/// A codec without what does not matter to who decodes.
fn plain(codec: &CodecSpec, one_byte: bool) -> (String, Map<String, serde_json::Value>) {
    let mut configuration = codec.configuration.clone();
    match codec.name.as_str() {
        "gzip" => configuration.clear(),
        "bytes" if one_byte => configuration.clear(),
        "bytes" => {
            configuration.entry("endian").or_insert_with(|| json!("little"));
        }
        _ => {}
    }
    (codec.name.clone(), configuration)
}

/// Whether a chunk that lies wholly inside of both arrays is the same bytes in both, at the same place of the grid.
pub(super) fn have_same_chunks(old: Side<'_>, view: &View, new: Side<'_>) -> bool {
    old.array.chunks.layout.is_addressable_throughout()
        && match (form(old, view), form(new, &View::straight())) {
            (Some(old), Some(new)) => old == new,
            _ => false,
        }
}

/// The bytes of a whole chunk, where all chunks have the same.
pub(super) fn fixed_len(Side { array, metadata }: Side<'_>) -> Option<u64> {
    let ElementSize::Fixed(element) = array.data_type().size() else { return None };
    let stored = Stored::of(metadata).ok()?;
    let plain = stored.codecs.iter().all(|codec| matches!(&*codec.name, "transpose" | "bytes"));
    let elements = stored.chunk_shape.iter().try_fold(1u64, |n, &len| n.checked_mul(len))?;
    elements.checked_mul(element as u64).filter(|_| plain)
}
