use std::sync::Arc;

use crate::strided;
use crate::{
    ArraySpec, ArrayStages, ArrayToArray, ArrayToBytes, ByteStages, BytesToBytes, Codec,
    CodecError, Context, Decoded, ElementSize, Elements, ElementsRef, EncodedSize, Endian,
};

/// The codec chain of a chunk that is not a shard, bound to the chunk's shape and type.
///
/// Leading codecs that only permute axes are not executed: elements enter and leave in *stored
/// order*, the order of axes [`axis_order`](Self::axis_order), and callers fold the permutation
/// into the strides of the copy that they make anyway.
#[derive(Debug, Clone)]
pub struct ChunkCodec {
    spec: ArraySpec,
    order: Vec<usize>,
    /// The spec after the leading permutations.
    stored: ArraySpec,
    stages: ArrayStages,
    packer: Arc<dyn ArrayToBytes>,
    packed: ArraySpec,
    bytes: ByteStages,
}

impl ChunkCodec {
    /// Binds a chain to a chunk's shape and type.
    ///
    /// The codecs must be any number of array-to-array codecs, exactly one array-to-bytes codec and
    /// any number of bytes-to-bytes codecs, in this order, and each must accept the output of the
    /// previous one.
    pub fn new(codecs: &[Codec], spec: ArraySpec) -> Result<Self, CodecError> {
        let (arrays, packer, bytes) = split(codecs)?;
        Self::from_parts(&arrays, packer, &bytes, spec)
    }

    /// Like [`new`](Self::new), from codecs already sorted by kind.
    pub fn from_parts(
        arrays: &[Arc<dyn ArrayToArray>],
        packer: Arc<dyn ArrayToBytes>,
        bytes: &[Arc<dyn BytesToBytes>],
        spec: ArraySpec,
    ) -> Result<Self, CodecError> {
        let mut order: Vec<usize> = (0..spec.shape.len()).collect();
        let mut stored = spec.clone();
        let mut rest = arrays;
        while let [codec, tail @ ..] = rest
            && let Some(permutation) = codec.permutation()
        {
            stored = codec.encoded_spec(&stored)?;
            order = permutation.iter().map(|&k| order[k]).collect();
            rest = tail;
        }
        let stages = ArrayStages::new(rest, stored.clone())?;
        let packed = stages.encoded().clone();
        if packed.data_type.size() != ElementSize::Variable && packed.byte_len().is_none() {
            return Err(CodecError::unsupported(
                "bytes",
                format!("a chunk of shape {:?} exceeds the address space", packed.shape),
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

    /// Whether a checksum guarantees that bytes that decode are those that were encoded.
    pub fn has_checksum(&self) -> bool {
        self.bytes.has_checksum()
    }

    /// The size of an encoded chunk.
    pub fn encoded_size(&self) -> EncodedSize {
        self.bytes.encoded_size()
    }

    /// The byte order of an encoded chunk that is its elements as they lie in memory; `None` for
    /// any other.
    ///
    /// Any element of such a chunk can be read alone.
    pub fn plain(&self) -> Option<Endian> {
        if self.bytes.is_empty() { self.unpacked() } else { None }
    }

    /// Like [`plain`](Self::plain), for what the bytes-to-bytes codecs decode to.
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
        let mut staged = None;
        if let ElementsRef::Fixed(elements) = elements {
            self.check_input(elements.len())?;
            staged = self.stages.encode(context, elements)?;
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
            Some(endian) => {
                let decoded = if self.bytes.is_empty() {
                    Decoded::Borrowed(encoded)
                } else if self.bytes.first_only_frames() || expected > believable(encoded.len()) {
                    self.bytes.decode(context, encoded)?
                } else {
                    let mut out = context.take_filled(expected)?;
                    self.bytes.decode_exact(context, encoded, &mut out)?;
                    Decoded::Owned(out)
                };
                let actual = decoded.as_ref().len();
                if actual != expected {
                    return Err(CodecError::Size { codec: "bytes", expected, actual });
                }
                if endian == Endian::Little {
                    return Ok(decoded);
                }
                let mut elements = match decoded {
                    Decoded::Owned(elements) => elements,
                    Decoded::Borrowed(bytes) => {
                        let mut elements = context.take_buffer();
                        elements.extend_from_slice(bytes);
                        elements
                    }
                };
                self.swap(&mut elements);
                Ok(Decoded::Owned(elements))
            }
            None => {
                let unpacked = self.bytes.decode(context, encoded)?;
                let elements = self.packer.decode(context, &self.packed, unpacked.as_ref());
                unpacked.recycle(context);
                let Elements::Fixed(elements) = elements? else {
                    return Err(self.not_fixed());
                };
                let elements = self.stages.decode(context, elements)?;
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
    /// The decompressor writes directly to `out` if the rest of the chain allows it.
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
        if endian == Endian::Big {
            self.swap(out);
        }
        Ok(())
    }

    /// Swaps the byte order of unpacked elements.
    fn swap(&self, elements: &mut [u8]) {
        if let ElementSize::Fixed(size) = self.packed.data_type.size() {
            strided::swap_units(elements, size, self.packed.data_type.swap_units());
        }
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

/// How many bytes to allocate up front for a chunk of `encoded` bytes; more are added as it is
/// decoded.
///
/// The metadata may lie about the size of a chunk. Most chunks are smaller than this, however well
/// they compress.
fn believable(encoded: usize) -> usize {
    encoded.saturating_mul(64).max(64 << 20)
}

type Sorted = (Vec<Arc<dyn ArrayToArray>>, Arc<dyn ArrayToBytes>, Vec<Arc<dyn BytesToBytes>>);

fn split(codecs: &[Codec]) -> Result<Sorted, CodecError> {
    let refuse = |reason: &str| CodecError::configuration("codecs", reason);
    let (mut arrays, mut packer, mut bytes) = (Vec::new(), None, Vec::new());
    for codec in codecs {
        match codec {
            Codec::ArrayToArray(codec) if packer.is_none() => arrays.push(Arc::clone(codec)),
            Codec::ArrayToArray(_) => {
                return Err(refuse("an array -> array codec comes after the array -> bytes codec"));
            }
            Codec::ArrayToBytes(codec) => {
                if packer.replace(Arc::clone(codec)).is_some() {
                    return Err(refuse("there is more than one array -> bytes codec"));
                }
            }
            Codec::BytesToBytes(codec) if packer.is_some() => bytes.push(Arc::clone(codec)),
            Codec::BytesToBytes(_) => {
                return Err(refuse("a bytes -> bytes codec comes before the array -> bytes codec"));
            }
        }
    }
    let packer = packer.ok_or_else(|| refuse("there is no array -> bytes codec"))?;
    Ok((arrays, packer, bytes))
}
