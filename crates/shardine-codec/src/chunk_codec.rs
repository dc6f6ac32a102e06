use std::sync::Arc;

use crate::strided::{self, Axes, Placement};
use crate::{
    ArraySpec, ArrayToArray, ArrayToBytes, BytesToBytes, Codec, CodecError, Context, ElementSize,
    Elements, ElementsRef, EncodedSize, Endian,
};

/// The most bytes that a chunk of a variable-length type may decode to.
///
/// Its metadata implies no size, so this is what stands between a few hostile bytes and all memory.
pub const VARIABLE_LIMIT: usize = 1 << 30;

/// The codec chain of a chunk that is not a shard, bound to the chunk's shape and type.
///
/// Leading codecs that only permute axes are not executed: elements enter and leave in
/// *stored order*, the order of axes [`axis_order`](Self::axis_order), and callers fold the
/// permutation into the strides of the copy that they make anyway.
#[derive(Debug, Clone)]
pub struct ChunkCodec {
    spec: ArraySpec,
    order: Vec<usize>,
    /// The spec behind the leading permutations.
    stored: ArraySpec,
    stages: Vec<Stage>,
    packer: Arc<dyn ArrayToBytes>,
    packed: ArraySpec,
    bytes: ByteStages,
}

/// An array-to-array codec with the spec of what it decodes to.
#[derive(Debug, Clone)]
struct Stage {
    codec: Arc<dyn ArrayToArray>,
    decoded: ArraySpec,
}

/// A chain of bytes-to-bytes codecs that knows how large each stage can be.
#[derive(Debug, Clone)]
pub struct ByteStages {
    codecs: Vec<Arc<dyn BytesToBytes>>,
    /// `sizes[i]` is what enters `codecs[i]` on encoding; the last is the size of the whole.
    sizes: Vec<EncodedSize>,
}

/// Decoded elements: a view of the encoded bytes where nothing had to be done, else owned.
#[derive(Debug)]
pub enum Decoded<'a> {
    /// The encoded bytes are the elements.
    Borrowed(&'a [u8]),
    /// From the context's buffers; give it back with [`Context::give_buffer`].
    Owned(Vec<u8>),
}

impl AsRef<[u8]> for Decoded<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Decoded<'_> {
    /// Gives an owned buffer back to the context.
    pub fn recycle(self, context: &mut Context) {
        if let Self::Owned(buffer) = self {
            context.give_buffer(buffer);
        }
    }
}

impl ByteStages {
    /// Binds codecs to the size of what enters the first of them, for elements of `element` bytes.
    pub fn new(codecs: &[Arc<dyn BytesToBytes>], input: EncodedSize, element: usize) -> Self {
        let codecs: Vec<_> = codecs
            .iter()
            .map(|codec| codec.with_element_size(element).unwrap_or_else(|| Arc::clone(codec)))
            .collect();
        let mut sizes = vec![input];
        for codec in &codecs {
            let last = sizes[sizes.len() - 1];
            sizes.push(last.then(|n| codec.encoded_size(n)));
        }
        Self { codecs, sizes }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.codecs.is_empty()
    }

    /// The size after the last codec.
    pub fn encoded_size(&self) -> EncodedSize {
        self.sizes[self.sizes.len() - 1]
    }

    /// Appends the encoded form of `input` to `out`.
    pub fn encode(
        &self,
        context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let Some((last, first)) = self.codecs.split_last() else {
            out.extend_from_slice(input);
            return Ok(());
        };
        let mut current: Option<Vec<u8>> = None;
        for codec in first {
            let mut next = context.take_buffer();
            codec.encode(context, current.as_deref().unwrap_or(input), &mut next)?;
            if let Some(done) = current.replace(next) {
                context.give_buffer(done);
            }
        }
        last.encode(context, current.as_deref().unwrap_or(input), out)?;
        if let Some(done) = current {
            context.give_buffer(done);
        }
        Ok(())
    }

    /// Undoes all codecs.
    pub fn decode<'a>(
        &self,
        context: &mut Context,
        encoded: &'a [u8],
    ) -> Result<Decoded<'a>, CodecError> {
        self.decode_down_to(context, encoded, 0)
    }

    /// Undoes the codecs from the last down to number `first`.
    fn decode_down_to<'a>(
        &self,
        context: &mut Context,
        encoded: &'a [u8],
        first: usize,
    ) -> Result<Decoded<'a>, CodecError> {
        // A framing codec's payload is a range of its input; `view` is that range of `current`.
        let mut current = Decoded::Borrowed(encoded);
        let mut view = 0..encoded.len();
        for (codec, size) in self.codecs.iter().zip(&self.sizes).skip(first).rev() {
            let input = &current.as_ref()[view.clone()];
            if let Some(payload) = codec.payload(input) {
                let payload = payload?;
                let start = view.start + (payload.as_ptr().addr() - input.as_ptr().addr());
                view = start..start + payload.len();
                check_size(codec.name(), *size, payload.len())?;
                continue;
            }
            let mut next = context.take_buffer();
            let limit = match *size {
                EncodedSize::Exact(n) | EncodedSize::AtMost(n) => {
                    usize::try_from(n).unwrap_or(usize::MAX)
                }
                EncodedSize::Unbounded => VARIABLE_LIMIT,
            };
            codec.decode(context, input, limit, &mut next)?;
            check_size(codec.name(), *size, next.len())?;
            view = 0..next.len();
            current.recycle(context);
            current = Decoded::Owned(next);
        }
        Ok(match current {
            Decoded::Borrowed(bytes) => Decoded::Borrowed(&bytes[view]),
            Decoded::Owned(mut bytes) => {
                bytes.truncate(view.end);
                bytes.drain(..view.start);
                Decoded::Owned(bytes)
            }
        })
    }

    /// Undoes all codecs, the last step straight into `out`, which has the exact decoded length.
    fn decode_exact(
        &self,
        context: &mut Context,
        encoded: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        let Some(first) = self.codecs.first() else {
            return copy_exact("bytes", encoded, out);
        };
        let input = self.decode_down_to(context, encoded, 1)?;
        let result = match first.payload(input.as_ref()) {
            Some(payload) => payload.and_then(|p| copy_exact(first.name(), p, out)),
            None => first.decode_exact(context, input.as_ref(), out),
        };
        input.recycle(context);
        result
    }
}

fn copy_exact(codec: &'static str, from: &[u8], to: &mut [u8]) -> Result<(), CodecError> {
    if from.len() != to.len() {
        return Err(CodecError::Size { codec, expected: to.len(), actual: from.len() });
    }
    to.copy_from_slice(from);
    Ok(())
}

fn check_size(codec: &'static str, size: EncodedSize, actual: usize) -> Result<(), CodecError> {
    match size {
        EncodedSize::Exact(n) if n != actual as u64 => Err(CodecError::Size {
            codec,
            expected: usize::try_from(n).unwrap_or(usize::MAX),
            actual,
        }),
        EncodedSize::AtMost(n) if n < actual as u64 => Err(CodecError::TooLarge {
            codec,
            limit: usize::try_from(n).unwrap_or(usize::MAX),
        }),
        _ => Ok(()),
    }
}

impl ChunkCodec {
    /// Binds a chain to a chunk's shape and type.
    ///
    /// The codecs must be any number of array-to-array ones, exactly one array-to-bytes one and
    /// any number of bytes-to-bytes ones, in this order, and each must fit what comes before it.
    pub fn new(codecs: &[Codec], spec: ArraySpec) -> Result<Self, CodecError> {
        let (arrays, packer, bytes) = split(codecs)?;
        Self::from_parts(&arrays, packer, &bytes, spec)
    }

    /// As [`new`](Self::new), from codecs that are already sorted by kind.
    pub fn from_parts(
        arrays: &[Arc<dyn ArrayToArray>],
        packer: Arc<dyn ArrayToBytes>,
        bytes: &[Arc<dyn BytesToBytes>],
        spec: ArraySpec,
    ) -> Result<Self, CodecError> {
        let mut order: Vec<usize> = (0..spec.shape.len()).collect();
        let mut stages: Vec<Stage> = Vec::new();
        let mut stored = spec.clone();
        let mut packed = spec.clone();
        for codec in arrays {
            let encoded = codec.encoded_spec(&packed)?;
            match codec.permutation() {
                Some(permutation) if stages.is_empty() => {
                    order = permutation.iter().map(|&k| order[k]).collect();
                    stored = encoded.clone();
                }
                _ => {
                    if stored.data_type.size() == ElementSize::Variable {
                        let name = stored.data_type.name();
                        return Err(CodecError::unsupported(
                            "array -> array",
                            format!("elements of type {name} have no fixed size"),
                        ));
                    }
                    stages.push(Stage { codec: Arc::clone(codec), decoded: packed });
                }
            }
            packed = encoded;
        }
        if packed.data_type.size() != ElementSize::Variable && packed.byte_len().is_none() {
            return Err(CodecError::unsupported(
                "bytes",
                format!("a chunk of shape {:?} is larger than memory can be", packed.shape),
            ));
        }
        packer.check(&packed)?;
        let element = match packed.data_type.size() {
            ElementSize::Fixed(n) => n,
            ElementSize::Variable => 1,
        };
        let bytes = ByteStages::new(bytes, packer.encoded_size(&packed), element);
        Ok(Self { spec, order, stored, stages, packer, packed, bytes })
    }

    /// The shape, type and fill value of the chunk.
    pub fn spec(&self) -> &ArraySpec {
        &self.spec
    }

    /// Stored axis `i` is axis `axis_order()[i]` of the array.
    pub fn axis_order(&self) -> &[usize] {
        &self.order
    }

    /// The spec in stored order.
    pub fn stored(&self) -> &ArraySpec {
        &self.stored
    }

    /// The size of an encoded chunk.
    pub fn encoded_size(&self) -> EncodedSize {
        self.bytes.encoded_size()
    }

    /// If an encoded chunk is its elements as they lie in memory: their byte order.
    ///
    /// Any element of such a chunk can be read alone.
    pub fn plain(&self) -> Option<Endian> {
        if self.bytes.is_empty() { self.unpacked() } else { None }
    }

    /// As [`plain`](Self::plain), of what the bytes-to-bytes codecs decode to.
    fn unpacked(&self) -> Option<Endian> {
        if self.stages.is_empty() { self.packer.plain(&self.packed) } else { None }
    }

    /// Appends the encoded form of a chunk whose elements are in stored order to `out`.
    pub fn encode(
        &self,
        context: &mut Context,
        elements: ElementsRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        if let (Some(Endian::Little), ElementsRef::Fixed(elements)) = (self.unpacked(), elements) {
            self.check_input(elements.len())?;
            return self.bytes.encode(context, elements, out);
        }
        let mut staged: Option<Vec<u8>> = None;
        if let ElementsRef::Fixed(elements) = elements {
            self.check_input(elements.len())?;
            for stage in &self.stages {
                let mut next = context.take_buffer();
                let input = staged.as_deref().unwrap_or(elements);
                stage.encode(context, input, &mut next)?;
                if let Some(done) = staged.replace(next) {
                    context.give_buffer(done);
                }
            }
        }
        let elements = staged.as_deref().map_or(elements, ElementsRef::Fixed);
        if self.bytes.is_empty() {
            self.packer.encode(context, &self.packed, elements, out)?;
        } else {
            let mut packed = context.take_buffer();
            self.packer.encode(context, &self.packed, elements, &mut packed)?;
            self.bytes.encode(context, &packed, out)?;
            context.give_buffer(packed);
        }
        if let Some(done) = staged {
            context.give_buffer(done);
        }
        Ok(())
    }

    fn check_input(&self, actual: usize) -> Result<(), CodecError> {
        match self.stored.byte_len() {
            Some(expected) if expected == actual => Ok(()),
            expected => Err(CodecError::Encode {
                codec: "bytes",
                reason: format!(
                    "{actual} bytes of elements for a chunk of {}",
                    expected.unwrap_or_default()
                ),
            }),
        }
    }

    /// Decodes fixed-size elements, in stored order.
    ///
    /// A chunk that is stored as it lies in memory is not copied.
    pub fn decode<'a>(
        &self,
        context: &mut Context,
        encoded: &'a [u8],
    ) -> Result<Decoded<'a>, CodecError> {
        let expected = self.fixed_len()?;
        match self.unpacked() {
            Some(Endian::Little) => {
                let decoded = if self.bytes.is_empty() {
                    Decoded::Borrowed(encoded)
                } else if self.bytes.codecs[0].payload(&[]).is_some() {
                    self.bytes.decode(context, encoded)?
                } else {
                    let mut out = context.take_filled(expected);
                    self.bytes.decode_exact(context, encoded, &mut out)?;
                    Decoded::Owned(out)
                };
                let actual = decoded.as_ref().len();
                if actual != expected {
                    return Err(CodecError::Size { codec: "bytes", expected, actual });
                }
                Ok(decoded)
            }
            Some(Endian::Big) => {
                let mut out = context.take_filled(expected);
                self.decode_into(context, encoded, &mut out)?;
                Ok(Decoded::Owned(out))
            }
            None => {
                let unpacked = self.bytes.decode(context, encoded)?;
                let elements = self.packer.decode(context, &self.packed, unpacked.as_ref());
                unpacked.recycle(context);
                let Elements::Fixed(mut elements) = elements? else {
                    return Err(self.not_fixed());
                };
                for stage in self.stages.iter().rev() {
                    let mut next = context.take_buffer();
                    stage.decode(context, &elements, &mut next)?;
                    context.give_buffer(std::mem::replace(&mut elements, next));
                }
                if elements.len() != expected {
                    let actual = elements.len();
                    return Err(CodecError::Size { codec: "array -> array", expected, actual });
                }
                Ok(Decoded::Owned(elements))
            }
        }
    }

    /// Decodes fixed-size elements, in stored order, into a slice of exactly their length.
    ///
    /// The decompressor writes to `out` itself where the rest of the chain allows it.
    pub fn decode_into(
        &self,
        context: &mut Context,
        encoded: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        let expected = self.fixed_len()?;
        if out.len() != expected {
            return Err(CodecError::Size { codec: "bytes", expected, actual: out.len() });
        }
        let Some(endian) = self.unpacked() else {
            let decoded = self.decode(context, encoded)?;
            out.copy_from_slice(decoded.as_ref());
            decoded.recycle(context);
            return Ok(());
        };
        self.bytes.decode_exact(context, encoded, out)?;
        if endian == Endian::Big
            && let ElementSize::Fixed(element) = self.packed.data_type.size()
        {
            strided::swap_units(out, element, self.packed.data_type.swap_units());
        }
        Ok(())
    }

    /// Decodes the elements of a variable-length type, in stored order.
    pub fn decode_variable(
        &self,
        context: &mut Context,
        encoded: &[u8],
    ) -> Result<crate::VariableElements, CodecError> {
        let unpacked = self.bytes.decode(context, encoded)?;
        let elements = self.packer.decode(context, &self.packed, unpacked.as_ref());
        unpacked.recycle(context);
        match elements? {
            Elements::Variable(elements) => Ok(elements),
            Elements::Fixed(_) => Err(CodecError::unsupported(
                "array -> bytes",
                "the type has a fixed size, the decoded elements have not",
            )),
        }
    }

    fn fixed_len(&self) -> Result<usize, CodecError> {
        self.stored.byte_len().ok_or_else(|| self.not_fixed())
    }

    fn not_fixed(&self) -> CodecError {
        let name = self.stored.data_type.name();
        CodecError::unsupported("bytes", format!("elements of type {name} have no fixed size"))
    }
}

impl Stage {
    fn encode(
        &self,
        context: &mut Context,
        elements: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        match self.codec.permutation() {
            Some(order) => permute(&self.decoded, order, elements, out, false),
            None => self.codec.encode(context, &self.decoded, elements, out),
        }
    }

    fn decode(
        &self,
        context: &mut Context,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        match self.codec.permutation() {
            Some(order) => permute(&self.decoded, order, encoded, out, true),
            None => self.codec.decode(context, &self.decoded, encoded, out),
        }
    }
}

/// Carries out a permutation of axes that could not be folded into anybody's strides.
fn permute(
    decoded: &ArraySpec,
    order: &[usize],
    input: &[u8],
    out: &mut Vec<u8>,
    inverse: bool,
) -> Result<(), CodecError> {
    let refuse = || CodecError::unsupported("transpose", "the chunk does not fit its shape");
    let ElementSize::Fixed(element) = decoded.data_type.size() else { return Err(refuse()) };
    let plain = Placement::contiguous(&decoded.shape, element).ok_or_else(refuse)?;
    let encoded_shape: Vec<u64> = order.iter().map(|&k| decoded.shape[k]).collect();
    let permuted = Placement::contiguous(&encoded_shape, element).ok_or_else(refuse)?;
    // The encoded box seen along the decoded axes.
    let mut strides: Axes<usize> = plain.strides.clone();
    for (i, &k) in order.iter().enumerate() {
        strides[k] = permuted.strides[i];
    }
    let permuted = Placement { start: 0, strides };
    let shape: Axes<usize> = decoded.shape.iter().map(|&n| n as usize).collect();
    out.clear();
    out.resize(input.len(), 0);
    let (from, to) = if inverse { (&permuted, &plain) } else { (&plain, &permuted) };
    strided::copy(&shape, element, input, from, out, to).map_err(|_| refuse())
}

type Sorted =
    (Vec<Arc<dyn ArrayToArray>>, Arc<dyn ArrayToBytes>, Vec<Arc<dyn BytesToBytes>>);

fn split(codecs: &[Codec]) -> Result<Sorted, CodecError> {
    let refuse = |reason: &str| CodecError::configuration("codecs", reason);
    let (mut arrays, mut packer, mut bytes) = (Vec::new(), None, Vec::new());
    for codec in codecs {
        match codec {
            Codec::ArrayToArray(codec) if packer.is_none() => arrays.push(Arc::clone(codec)),
            Codec::ArrayToArray(_) => {
                return Err(refuse("an array -> array codec stands after the array -> bytes codec"));
            }
            Codec::ArrayToBytes(codec) => {
                if packer.replace(Arc::clone(codec)).is_some() {
                    return Err(refuse("there is more than one array -> bytes codec"));
                }
            }
            Codec::BytesToBytes(codec) if packer.is_some() => bytes.push(Arc::clone(codec)),
            Codec::BytesToBytes(_) => {
                return Err(refuse("a bytes -> bytes codec stands before the array -> bytes codec"));
            }
        }
    }
    let packer = packer.ok_or_else(|| refuse("there is no array -> bytes codec"))?;
    Ok((arrays, packer, bytes))
}
