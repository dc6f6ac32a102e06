use std::fmt::Debug;

use crate::{CodecError, Context, DataType, ElementSize, Elements, ElementsRef, FillValue};

/// The input or output of a stage of the codec chain: a chunk's shape, type and fill value.
#[derive(Debug, Clone, PartialEq)]
pub struct ArraySpec {
    /// The chunk's shape; empty for a 0-d array.
    pub shape: Vec<u64>,
    /// The type of its elements.
    pub data_type: DataType,
    /// The value of absent elements.
    pub fill: FillValue,
}

impl ArraySpec {
    /// The number of elements, or `None` if it does not fit in `usize`.
    pub fn elements(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?))
    }

    /// The bytes of all elements in memory; `None` if variable or past `isize::MAX`.
    pub fn byte_len(&self) -> Option<usize> {
        match self.data_type.size() {
            ElementSize::Fixed(size) => {
                self.elements()?.checked_mul(size).filter(|&n| isize::try_from(n).is_ok())
            }
            ElementSize::Variable => None,
        }
    }
}

/// How many bytes a stage produces, as far as known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodedSize {
    /// Always this many.
    Exact(u64),
    /// Never more than this many.
    AtMost(u64),
    /// Depends on the data.
    Unbounded,
}

impl EncodedSize {
    /// The size after one more stage, given how that stage maps sizes.
    ///
    /// `stage` must be monotonic: a larger input never has a smaller bound.
    pub fn then(self, stage: impl FnOnce(u64) -> EncodedSize) -> EncodedSize {
        match self {
            Self::Exact(n) => stage(n),
            Self::AtMost(n) => match stage(n) {
                Self::Exact(n) | Self::AtMost(n) => Self::AtMost(n),
                Self::Unbounded => Self::Unbounded,
            },
            Self::Unbounded => Self::Unbounded,
        }
    }
}

/// The byte order of a multi-byte unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first; how elements lie in memory here.
    Little,
    /// Most significant byte first.
    Big,
}

/// An `array -> array` codec, such as `transpose` or `bitround`.
///
/// Only fixed-size elements reach [`encode`](Self::encode) and [`decode`](Self::decode). A codec
/// that only permutes axes returns them from [`permutation`](Self::permutation); its callers then
/// fold it into their strides and never call the other two.
pub trait ArrayToArray: Debug + Send + Sync {
    /// The shape, type and fill value after encoding; an error if the codec cannot encode
    /// `decoded`.
    fn encoded_spec(&self, decoded: &ArraySpec) -> Result<ArraySpec, CodecError>;

    /// Replaces the content of `out` with the encoded form of `elements`.
    fn encode(
        &self,
        context: &mut Context,
        decoded: &ArraySpec,
        elements: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError>;

    /// Replaces the content of `out` with the decoded form of `encoded`.
    fn decode(
        &self,
        context: &mut Context,
        decoded: &ArraySpec,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError>;

    /// If encoding only permutes the axes: encoded axis `i` is decoded axis `order[i]`.
    fn permutation(&self) -> Option<&[usize]> {
        None
    }

    /// Whether each encoded element depends only on the decoded element at the same index.
    ///
    /// Parts of a shard behind such a codec can be read without the rest.
    fn is_elementwise(&self) -> bool {
        false
    }
}

/// An `array -> bytes` codec other than sharding, such as `bytes` or `vlen-utf8`.
pub trait ArrayToBytes: Debug + Send + Sync {
    /// An error if the codec cannot encode arrays of this type.
    fn check(&self, spec: &ArraySpec) -> Result<(), CodecError>;

    /// Appends the encoded form of `elements` to `out`.
    fn encode(
        &self,
        context: &mut Context,
        spec: &ArraySpec,
        elements: ElementsRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError>;

    /// Decodes all elements of a chunk; the result has exactly `spec.elements()` of them.
    fn decode(
        &self,
        context: &mut Context,
        spec: &ArraySpec,
        encoded: &[u8],
    ) -> Result<Elements, CodecError>;

    /// The size of an encoded chunk.
    fn encoded_size(&self, spec: &ArraySpec) -> EncodedSize;

    /// The byte order, if the encoded form is the elements as they lie in memory apart from that
    /// order.
    ///
    /// Such a chunk is decompressed directly into place.
    fn plain(&self, spec: &ArraySpec) -> Option<Endian> {
        let _ = spec;
        None
    }
}

/// A `bytes -> bytes` codec, such as `zstd` or `crc32c`.
pub trait BytesToBytes: Debug + Send + Sync {
    /// The name for messages, as the specification spells it.
    fn name(&self) -> &'static str;

    /// Appends the encoded form of `input` to `out`.
    fn encode(
        &self,
        context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError>;

    /// Appends the decoded form of `input` to `out`, or fails if it is longer than `limit`.
    ///
    /// Memory grows with what is actually decoded, never with what a header claims.
    fn decode(
        &self,
        context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError>;

    /// Decodes into a slice of exactly the decoded length; any other length is an error.
    fn decode_exact(
        &self,
        context: &mut Context,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        let mut scratch = context.take_buffer();
        let result = self.decode(context, input, out.len(), &mut scratch);
        let result = result.and_then(|()| {
            if scratch.len() != out.len() {
                return Err(CodecError::Size {
                    codec: self.name(),
                    expected: out.len(),
                    actual: scratch.len(),
                });
            }
            out.copy_from_slice(&scratch);
            Ok(())
        });
        context.give_buffer(scratch);
        result
    }

    /// For a codec that only frames its input (a checksum): the payload inside `input`, checked.
    ///
    /// `None` means that decoding has to produce new bytes.
    fn payload<'a>(&self, input: &'a [u8]) -> Option<Result<&'a [u8], CodecError>> {
        let _ = input;
        None
    }

    /// The size that [`encode`](Self::encode) makes of `input` bytes; other encoders may make more.
    fn encoded_size(&self, input: u64) -> EncodedSize;

    /// For a codec that depends on the element size and was not given one: a copy with this size.
    fn with_element_size(&self, size: usize) -> Option<std::sync::Arc<dyn BytesToBytes>> {
        let _ = size;
        None
    }
}
