use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ArrayToArray, ArrayToBytes, BytesToBytes, CodecError};

/// A codec as named in the metadata; serialized in the same form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct CodecSpec {
    /// The `name` member, or the string itself if the codec is given as one.
    pub name: String,
    /// The `configuration` member; empty if absent.
    pub configuration: Map<String, Value>,
    /// Whether a reader that does not know the codec must refuse the array.
    pub must_understand: bool,
}

/// A codec of one of the three kinds, ready to use.
#[derive(Debug, Clone)]
pub enum Codec {
    /// Changes the elements or their order.
    ArrayToArray(Arc<dyn ArrayToArray>),
    /// Turns elements into bytes.
    ArrayToBytes(Arc<dyn ArrayToBytes>),
    /// Changes bytes.
    BytesToBytes(Arc<dyn BytesToBytes>),
}

/// The codec that `spec` names, configured.
///
/// Does not cover `sharding_indexed`: a shard is made of chunks, not just bytes, and belongs to the
/// layer above.
pub fn from_spec(spec: &CodecSpec) -> Result<Codec, CodecError> {
    crate::codecs::from_spec(spec)
}

/// The names that [`from_spec`] knows, including aliases.
pub fn names() -> impl Iterator<Item = &'static str> {
    crate::codecs::names()
}

/// Whether two members of a list of codecs mean the same, however each is spelled: by an alias, or
/// with defaults left out.
///
/// Codecs that are not known mean the same if they are spelled the same.
pub fn means_same(a: &CodecSpec, b: &CodecSpec) -> bool {
    if a == b {
        return true;
    }
    match (from_spec(a), from_spec(b)) {
        // A codec prints what was made of its configuration, defaults included.
        (Ok(a), Ok(b)) => format!("{a:?}") == format!("{b:?}"),
        _ => false,
    }
}
