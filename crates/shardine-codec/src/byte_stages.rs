use std::sync::Arc;

use crate::{BytesToBytes, CodecError, Context, EncodedSize};

/// The most bytes that a chunk of a variable-length type may decode to.
///
/// Its metadata implies no size, so this keeps a few hostile bytes from exhausting all memory.
pub const VARIABLE_LIMIT: usize = 1 << 30;

/// A chain of bytes-to-bytes codecs that knows how large each stage can be.
#[derive(Debug, Clone)]
pub struct ByteStages {
    codecs: Vec<Arc<dyn BytesToBytes>>,
    /// `sizes[i]` is the input size of `codecs[i]` when encoding; the last is the size of the
    /// whole.
    sizes: Vec<EncodedSize>,
    /// The most bytes of a stage whose size the metadata does not bound.
    limit: usize,
}

/// Decoded elements: a view of the encoded bytes if nothing had to be done, owned otherwise.
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
    /// Binds codecs to the input size of the first one, for elements of `element` bytes.
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
        Self { codecs, sizes, limit: VARIABLE_LIMIT }
    }

    /// Allows at least this many bytes where the metadata gives no bound.
    pub fn with_limit(mut self, bytes: u64) -> Self {
        self.limit = self.limit.max(usize::try_from(bytes).unwrap_or(usize::MAX));
        self
    }

    /// Whether one of them is a checksum, so that bytes that decode are those that were encoded.
    pub fn has_checksum(&self) -> bool {
        const CHECKED: [&str; 5] = ["crc32c", "crc32", "adler32", "gzip", "zlib"];
        self.codecs.iter().any(|codec| CHECKED.contains(&codec.name()))
    }

    /// Whether there are no codecs.
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
        // Nothing may be written that could not be read back.
        if self.sizes[0] == EncodedSize::Unbounded && input.len() > self.limit {
            return Err(CodecError::TooLarge { codec: self.codecs[0].name(), limit: self.limit });
        }
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
                EncodedSize::Unbounded => self.limit,
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

    /// Whether the codec next to the elements only frames them, so that undoing it needs no memory.
    pub(crate) fn first_only_frames(&self) -> bool {
        self.codecs.first().is_some_and(|codec| codec.payload(&[]).is_some())
    }

    /// Undoes all codecs, the last step directly into `out`, which has the exact decoded length.
    pub(crate) fn decode_exact(
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
        EncodedSize::AtMost(n) if n < actual as u64 => {
            Err(CodecError::TooLarge { codec, limit: usize::try_from(n).unwrap_or(usize::MAX) })
        }
        _ => Ok(()),
    }
}
