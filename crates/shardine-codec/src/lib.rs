//! Data types and codecs: pure bytes in, bytes out.
//!
//! Nothing here touches a file, a thread or a clock. Encoded bytes are hostile until decoded: a
//! decoder never panics, never allocates based on an unchecked number, and returns exactly the size
//! that its caller requested or an error.
//!
//! **Elements in memory** are little-endian and in C order, whatever the codecs do. Types narrower
//! than a byte take one byte each (signed ones are sign-extended); variable-length types are an
//! offset table over one run of bytes ([`VariableElements`]).

mod array_stages;
mod byte_stages;
mod chunk_codec;
mod codecs;
mod context;
mod data_type;
mod downsample;
mod elements;
mod error;
mod extension;
mod registry;
mod spec_json;
pub mod strided;
mod traits;

pub use array_stages::ArrayStages;
pub use byte_stages::{ByteStages, Decoded, VARIABLE_LIMIT};
pub use chunk_codec::ChunkCodec;
pub use codecs::{gzip_for_zlib, prefix_between, zlib_to_gzip};
pub use context::Context;
pub use data_type::{
    DataType, DataTypeError, Distance, Element, ElementDifferences, ElementSize, FillValue,
    InvalidElement, Kind, SwapUnit,
};
pub use downsample::{Downsample, DownsampleError, DownsampleMethod};
pub use elements::{Elements, ElementsRef, VariableElements};
pub use error::{CodecError, ExtensionError};
pub use extension::{Extension, shown};
pub use registry::{Codec, CodecSpec, from_spec, means_same, names};
pub use spec_json::{codec_specs_from_json, codec_specs_to_json};
pub use traits::{ArraySpec, ArrayToArray, ArrayToBytes, BytesToBytes, EncodedSize, Endian};
