//! How the encoded bytes of a chunk in one array relate to those in another.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use shardine_codec::{
    BytesToBytes, Codec, ElementSize, from_spec, gzip_for_zlib, means_same, prefix_between,
};

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
    /// Its bytes are a zlib stream on the old side and a gzip stream on the new one.
    Rewrapped { zlib: Arc<dyn BytesToBytes>, gzip: Arc<dyn BytesToBytes> },
    /// Its elements have to be decoded and re-encoded.
    Recoded,
}

/// How the chunks of an array are stored, independent of the order of its axes.
#[derive(Debug)]
struct Form {
    /// The shape of chunks, by axis of the new array.
    chunk: Vec<u64>,
    /// The axes along which chunks have more than one element, slowest first.
    order: Vec<usize>,
    /// The codecs applied to the elements in this order.
    codecs: Vec<CodecSpec>,
}

impl Form {
    fn has_same_layout(&self, other: &Self) -> bool {
        (&self.chunk, &self.order) == (&other.chunk, &other.order)
    }
}

/// Whether codecs mean the same, one by one.
fn same(one: &[CodecSpec], other: &[CodecSpec]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| means_same(a, b))
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
        if !from.has_same_layout(&to) {
            return Self::Recoded;
        }
        if same(&from.codecs, &to.codecs) {
            return Self::Same;
        }
        let prefixed = || prefix(&from, old, &to, new).map(Self::Prefixed);
        prefixed()
            .or_else(|| rewrapped(&from, old, &to, new))
            .or_else(|| recompressed(&from, old, &to, new))
            .unwrap_or(Self::Recoded)
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
    let plain = rest.iter().all(|codec| codec.name == "bytes");
    let ElementSize::Fixed(element) = old.data_type().size() else { return None };
    let elements = from.chunk.iter().try_fold(1u64, |n, &len| n.checked_mul(len))?;
    let len = elements.checked_mul(element as u64).filter(|_| plain && same(rest, other))?;
    prefix_between(old.codecs().last()?, new.codecs().last()?, len)
}

/// The last codec of an array, if it encodes bytes.
fn last_codec(array: &Array) -> Option<Arc<dyn BytesToBytes>> {
    match array.codecs().last().map(from_spec) {
        Some(Ok(Codec::BytesToBytes(codec))) => Some(codec),
        _ => None,
    }
}

/// The relation of chunks of zlib to those of gzip of the same level.
fn rewrapped(from: &Form, old: &Array, to: &Form, new: &Array) -> Option<Relation> {
    let ((zlib, rest), (gzip, other)) = (from.codecs.split_last()?, to.codecs.split_last()?);
    let is_same = means_same(&gzip_for_zlib(zlib)?, gzip) && same(rest, other);
    let (zlib, gzip) = (last_codec(old)?, last_codec(new)?);
    is_same.then_some(Relation::Rewrapped { zlib, gzip })
}

/// The relation of chunks that differ only by a gzip around them.
fn recompressed(from: &Form, old: &Array, to: &Form, new: &Array) -> Option<Relation> {
    // Re-encoding omits chunks that hold only the fill value, as if never written; recompressing
    // keeps them. That makes no difference only where chunks are stored as they come.
    if !(old.cuts_edges() && new.cuts_edges()) {
        return None;
    }
    let bare = |form: &Form, other: &Form| match form.codecs.split_last() {
        Some((last, rest)) => last.name == GZIP && same(rest, &other.codecs),
        None => false,
    };
    if bare(from, to) {
        return Some(Relation::Recompressed { decode: Some(last_codec(old)?), encode: None });
    }
    if bare(to, from) {
        return Some(Relation::Recompressed { decode: None, encode: Some(last_codec(new)?) });
    }
    None
}

/// `levels` says whether compression levels matter.
fn form(array: &Array, axes: &AxisMap, levels: bool) -> Option<Form> {
    let shape = array.chunk_shape();
    let chunk = axes.to_new(shape, 1);
    let (order, rest) = stored_order(array)?;
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

/// The axes of an array in the order in which the elements of a chunk are stored, slowest first, and
/// the codecs after those that order them.
fn stored_order(array: &Array) -> Option<(Vec<usize>, &[CodecSpec])> {
    let mut order: Vec<usize> = (0..array.shape().len()).collect();
    let mut rest = array.codecs();
    while let Some((first, after)) = rest.split_first()
        && let Ok(Codec::ArrayToArray(codec)) = from_spec(first)
        && let Some(permutation) = codec.permutation()
    {
        order = permutation.iter().map(|&k| order.get(k).copied()).collect::<Option<_>>()?;
        rest = after;
    }
    Some((order, rest))
}

/// The codecs with which the chunks of an array are, byte for byte, those of another one with these
/// axes; `None` if there are none.
pub(in crate::jobs) fn codecs_along(old: &Array, axes: &AxisMap) -> Option<Vec<CodecSpec>> {
    if axes.is_identity() {
        return Some(old.codecs().to_vec());
    }
    let shape = old.chunk_shape();
    let is_left_out = |axis: usize| axes.new_axis(axis).is_none() && shape[axis] != 1;
    if (0..shape.len()).any(is_left_out) {
        return None;
    }
    let (order, rest) = stored_order(old)?;
    let chunk = axes.to_new(shape, 1);
    let is_new = |axis: &usize| !(0..shape.len()).any(|old| axes.new_axis(old) == Some(*axis));
    let order: Vec<usize> = (0..chunk.len())
        .filter(is_new)
        .chain(order.into_iter().filter_map(|axis| axes.new_axis(axis)))
        .collect();
    // Another order of axes in the middle would be one of other axes.
    let orders_axes = |codec: &CodecSpec| match from_spec(codec) {
        Ok(Codec::ArrayToArray(codec)) => codec.permutation().is_some(),
        _ => false,
    };
    if chunk.len() != shape.len() && rest.iter().any(orders_axes) {
        return None;
    }
    let mut codecs = Vec::with_capacity(rest.len() + 1);
    // Where axes of one element are does not matter.
    if !order.iter().filter(|axis| chunk[**axis] > 1).is_sorted() {
        let configuration = Map::from_iter([("order".to_owned(), json!(order))]);
        let name = "transpose".to_owned();
        codecs.push(CodecSpec { name, configuration, must_understand: true });
    }
    codecs.extend_from_slice(rest);
    Some(codecs)
}

/// A codec without the settings that do not matter to a reader.
fn plain(codec: &CodecSpec, one_byte: bool, levels: bool) -> CodecSpec {
    let mut plain = codec.clone();
    let configuration = &mut plain.configuration;
    match codec.name.as_str() {
        GZIP if !levels => drop(configuration.insert("level".to_owned(), json!(1))),
        "bytes" if one_byte => configuration.clear(),
        "bytes" => {
            configuration.entry("endian").or_insert_with(|| json!("little"));
        }
        // Each chunk says of which size its elements are.
        "blosc" => drop(configuration.insert("typesize".to_owned(), json!(1))),
        "numcodecs.blosc" => {
            let words = ["noshuffle", "shuffle", "bitshuffle"];
            let shuffle = configuration.get("shuffle").map_or(Some(1), Value::as_u64);
            if let Some(word) = shuffle.and_then(|n| words.get(usize::try_from(n).ok()?)) {
                plain.name = "blosc".to_owned();
                for (member, usual) in [("cname", json!("lz4")), ("clevel", json!(5))] {
                    configuration.entry(member).or_insert(usual);
                }
                configuration.insert("shuffle".to_owned(), json!(word));
                configuration.insert("typesize".to_owned(), json!(1));
            }
        }
        _ => {}
    }
    plain
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
