//! How the encoded bytes of a chunk in one array relate to those in another.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use shardine_codec::{BytesToBytes, Codec, ElementSize, from_spec, prefix_between};

use super::axes::AxisMap;
use crate::{Array, CodecSpec};

/// The codec by which shards of volumes with and without compressed values differ.
const GZIP: &str = "gzip";

/// How a chunk becomes the chunk at the same position of another array.
#[derive(Debug)]
pub(super) enum Relation {
    /// Its bytes are the same.
    Same,
    /// Its bytes are the same after this prefix.
    Prefixed(Vec<u8>),
    /// Its bytes are the same once compressed or decompressed.
    Recompressed {
        /// Decodes the old bytes first.
        decode: Option<Arc<dyn BytesToBytes>>,
        /// Encodes them then.
        encode: Option<Arc<dyn BytesToBytes>>,
    },
    /// Its elements have to be decoded and re-encoded.
    Recoded,
}

/// How the chunks of an array are stored, independent of the order of its axes.
#[derive(Debug, PartialEq)]
struct Form {
    /// The shape of chunks, by axis of the new array.
    chunk: Vec<u64>,
    /// The axes along which chunks have more than one element, slowest first.
    order: Vec<usize>,
    /// The codecs applied to the elements in this order.
    codecs: Vec<(String, Map<String, Value>)>,
}

impl Relation {
    /// For the chunks that lie wholly inside both arrays.
    pub fn of(old: &Array, axes: &AxisMap, new: &Array) -> Self {
        let reachable = |array: &Array| array.chunks.layout.is_addressable_throughout();
        if !(reachable(old) && reachable(new)) || old.data_type() != new.data_type() {
            return Self::Recoded;
        }
        let identity = AxisMap::identity(new.shape().len());
        // Between two Zarr arrays, a different compression level is requested on purpose.
        let levels = !(old.cuts_edges() || new.cuts_edges());
        let (Some(from), Some(to)) = (form(old, axes, levels), form(new, &identity, levels)) else {
            return Self::Recoded;
        };
        if from == to {
            return Self::Same;
        }
        if (&from.chunk, &from.order) != (&to.chunk, &to.order) {
            return Self::Recoded;
        }
        let prefixed = || prefix(&from, old, &to, new).map(Self::Prefixed);
        prefixed().or_else(|| recompressed(&from, old, &to, new)).unwrap_or(Self::Recoded)
    }

    /// Whether elements are never decoded.
    pub fn keeps_elements_encoded(&self) -> bool {
        !matches!(self, Self::Recoded)
    }
}

/// The prefix of a chunk's bytes in the new array, if nothing else differs.
fn prefix(from: &Form, old: &Array, to: &Form, new: &Array) -> Option<Vec<u8>> {
    let (_, rest) = from.codecs.split_last()?;
    let (_, other) = to.codecs.split_last()?;
    let plain = rest.iter().all(|(name, _)| name == "bytes");
    let ElementSize::Fixed(element) = old.data_type().size() else { return None };
    let elements = from.chunk.iter().try_fold(1u64, |n, &len| n.checked_mul(len))?;
    let len = elements.checked_mul(element as u64).filter(|_| plain && rest == other)?;
    prefix_between(old.codecs().last()?, new.codecs().last()?, len)
}

/// The relation of chunks that differ only by a gzip around them.
fn recompressed(from: &Form, old: &Array, to: &Form, new: &Array) -> Option<Relation> {
    // Re-encoding omits chunks that hold only the fill value, as if never written; recompressing
    // keeps them. That makes no difference only where chunks are stored as they come.
    if !(old.cuts_edges() && new.cuts_edges()) {
        return None;
    }
    let bare = |form: &Form| -> Option<Vec<(String, Map<String, Value>)>> {
        let (last, rest) = form.codecs.split_last()?;
        (last.0 == GZIP).then(|| rest.to_vec())
    };
    let codec = |array: &Array| match array.codecs().last().map(from_spec) {
        Some(Ok(Codec::BytesToBytes(codec))) => Some(codec),
        _ => None,
    };
    if bare(from).as_ref() == Some(&to.codecs) {
        return Some(Relation::Recompressed { decode: Some(codec(old)?), encode: None });
    }
    if bare(to).as_ref() == Some(&from.codecs) {
        return Some(Relation::Recompressed { decode: None, encode: Some(codec(new)?) });
    }
    None
}

/// `levels` says whether compression levels matter.
fn form(array: &Array, axes: &AxisMap, levels: bool) -> Option<Form> {
    let shape = array.chunk_shape();
    let chunk = axes.to_new(shape, 1);
    let mut order: Vec<usize> = (0..shape.len()).collect();
    let mut rest = array.codecs();
    while let Some((first, after)) = rest.split_first()
        && let Ok(Codec::ArrayToArray(codec)) = from_spec(first)
        && let Some(permutation) = codec.permutation()
    {
        order = permutation.iter().map(|&k| order.get(k).copied()).collect::<Option<_>>()?;
        rest = after;
    }
    // A chunk longer than 1 along a dropped axis has more than the new array takes.
    let is_left_out = |axis: usize| axes.new_axis(axis).is_none();
    if (0..shape.len()).any(|axis| is_left_out(axis) && shape[axis] != 1) {
        return None;
    }
    let one_byte = array.data_type().size() == ElementSize::Fixed(1);
    let order = order.into_iter().filter_map(|axis| axes.new_axis(axis));
    let order: Vec<usize> = order.filter(|&axis| chunk[axis] > 1).collect();
    let codecs = rest.iter().map(|codec| plain(codec, one_byte, levels)).collect();
    Some(Form { order, codecs, chunk })
}

/// A codec without the settings that do not matter to a reader.
fn plain(codec: &CodecSpec, one_byte: bool, levels: bool) -> (String, Map<String, Value>) {
    let mut configuration = codec.configuration.clone();
    match codec.name.as_str() {
        GZIP if !levels => configuration.clear(),
        "bytes" if one_byte => configuration.clear(),
        "bytes" => {
            configuration.entry("endian").or_insert_with(|| json!("little"));
        }
        _ => {}
    }
    (codec.name.clone(), configuration)
}

/// The bytes of a whole chunk, if the same for all chunks.
pub(super) fn fixed_len(array: &Array) -> Option<u64> {
    let ElementSize::Fixed(element) = array.data_type().size() else { return None };
    let plain = array.codecs().iter().all(|codec| matches!(&*codec.name, "transpose" | "bytes"));
    let elements = array.chunk_shape().iter().try_fold(1u64, |n, &len| n.checked_mul(len))?;
    elements.checked_mul(element as u64).filter(|_| plain)
}

/// Whether whole chunks of an array can become those of another without decoding elements.
pub(in crate::jobs) fn relates(old: &Array, axes: &AxisMap, new: &Array) -> bool {
    Relation::of(old, axes, new).keeps_elements_encoded()
}

/// The same for an array with the same axes.
pub(in crate::jobs) fn moves(old: &Array, new: &Array) -> bool {
    relates(old, &AxisMap::identity(old.shape().len()), new)
}

/// Whether whole chunks of an array are those of another one as they are, byte for byte.
pub(in crate::jobs) fn has_same_bytes(old: &Array, axes: &AxisMap, new: &Array) -> bool {
    matches!(Relation::of(old, axes, new), Relation::Same)
}
