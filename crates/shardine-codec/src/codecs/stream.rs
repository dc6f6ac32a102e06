//! Drives the decoders that only exist as streams: `bz2` and `lzma`.

use super::output;
use crate::CodecError;

/// The first guess at how much room a stream needs, and the least it is given.
const LEAST_ROOM: usize = 1 << 14;

/// The progress of one step of a stream.
pub(super) struct Step {
    /// How many bytes of its input it has read.
    pub(super) read: usize,
    /// Whether the stream is at its end.
    pub(super) ended: bool,
}

/// Runs `step` over `input` until the stream ends, and returns how much of the input it read.
///
/// A step appends to the spare capacity of the vector it gets and to nothing else. The room doubles
/// as the stream fills it, so memory follows what is actually decoded. A stream that would produce
/// more than `limit` bytes is an error.
pub(super) fn run(
    codec: &'static str,
    input: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
    mut step: impl FnMut(&[u8], &mut Vec<u8>) -> Result<Step, CodecError>,
) -> Result<usize, CodecError> {
    let (start, mut from) = (out.len(), 0);
    loop {
        let made = out.len() - start;
        if made > limit {
            return Err(CodecError::TooLarge { codec, limit });
        }
        // One byte past the limit lets a stream that is exactly full report its end, and exposes
        // one that is not.
        let most = (limit - made).saturating_add(1);
        output::reserve(codec, out, made.max(LEAST_ROOM).min(most))?;
        let before = out.len();
        let done = step(input.get(from..).unwrap_or_default(), out)?;
        from += done.read;
        if done.ended {
            output::check_limit(codec, out.len() - start, limit)?;
            return Ok(from);
        }
        if done.read == 0 && out.len() == before {
            return Err(CodecError::corrupt(codec, input.len(), "the stream is cut short"));
        }
    }
}
