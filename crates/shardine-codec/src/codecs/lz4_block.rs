//! One bare LZ4 block, as in webknossos-wrap files.
//!
//! The name is our own: no registered codec has it, and no other reader would understand a Zarr
//! array that uses it. `numcodecs.lz4` is the same block preceded by its decoded size, as a
//! little-endian `u32`.

use std::sync::Arc;

use super::config::Config;
use super::{lz4, output};
use crate::{BytesToBytes, Codec, CodecError, CodecSpec, Context, EncodedSize};

const NAME: &str = "wkw.lz4_block";

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&[])?;
    Ok(Codec::BytesToBytes(Arc::new(Lz4Block)))
}

#[derive(Debug)]
struct Lz4Block;

/// The bytes to put before what one codec has encoded to turn it into what another one encodes,
/// given its decoded length; `None` if the two are not related this way.
///
/// ```
/// use shardine_codec::{CodecSpec, prefix_between};
/// let codec = |name: &str| CodecSpec {
///     name: name.to_owned(),
///     configuration: Default::default(),
///     must_understand: true,
/// };
/// let prefix = prefix_between(&codec("wkw.lz4_block"), &codec("numcodecs.lz4"), 32_768);
/// assert_eq!(prefix, Some(vec![0, 128, 0, 0]));
/// assert_eq!(prefix_between(&codec("gzip"), &codec("numcodecs.lz4"), 1), None);
/// ```
pub fn prefix_between(from: &CodecSpec, to: &CodecSpec, decoded_len: u64) -> Option<Vec<u8>> {
    let is_block = from.name == NAME;
    let has_length = matches!(&*to.name, "lz4" | "numcodecs.lz4");
    // The length is a C int.
    let len = i32::try_from(decoded_len).ok().filter(|_| is_block && has_length)?;
    Some(len.to_le_bytes().to_vec())
}

/// The decoded length of a block, from the lengths of its sequences alone; `None` if it ends within
/// one. One pass that skips the literals.
fn decoded_len(block: &[u8]) -> Option<usize> {
    let mut rest = block.iter();
    let mut total = 0usize;
    loop {
        let token = usize::from(*rest.next()?);
        let literals = length(&mut rest, token >> 4)?;
        total = total.checked_add(literals)?;
        if literals > 0 {
            rest.nth(literals - 1)?;
        }
        if rest.as_slice().is_empty() {
            // The last sequence has literals only.
            return Some(total);
        }
        // The offset of the match.
        rest.nth(1)?;
        total = total.checked_add(length(&mut rest, token & 15)?)?.checked_add(4)?;
    }
}

/// A length that starts in a token and, if it does not fit there, continues after it.
fn length(rest: &mut std::slice::Iter<'_, u8>, in_token: usize) -> Option<usize> {
    let mut length = in_token;
    if in_token == 15 {
        loop {
            let more = *rest.next()?;
            length = length.checked_add(more.into())?;
            if more < u8::MAX {
                break;
            }
        }
    }
    Some(length)
}

impl BytesToBytes for Lz4Block {
    fn name(&self) -> &'static str {
        NAME
    }

    fn encode(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        if input.len() > lz4::MAX_INPUT {
            let reason = format!("{} bytes, at most {} are possible", input.len(), lz4::MAX_INPUT);
            return Err(CodecError::Encode { codec: NAME, reason });
        }
        lz4::compress(NAME, 1, input, out)
    }

    fn decode(
        &self,
        _context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let size = decoded_len(input).ok_or_else(|| {
            CodecError::corrupt(NAME, input.len(), "the block is damaged or cut short")
        })?;
        output::check_limit(NAME, size, limit)?;
        // SAFETY: on success, `decompress` has written all of the slice.
        unsafe {
            output::append(NAME, out, size, |spare| {
                lz4::decompress(NAME, input, spare).map(|()| size)
            })
        }
    }

    fn decode_exact(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        let expected = out.len();
        // What went wrong is determined only on failure: a valid block is walked once.
        lz4::decompress(NAME, input, output::as_uninit(out)).map_err(|corrupt| {
            match decoded_len(input) {
                Some(actual) if actual != expected => {
                    CodecError::Size { codec: NAME, expected, actual }
                }
                _ => corrupt,
            }
        })
    }

    fn encoded_size(&self, input: u64) -> EncodedSize {
        match usize::try_from(input) {
            Ok(input) if input <= lz4::MAX_INPUT => EncodedSize::AtMost(lz4::bound(input) as u64),
            _ => EncodedSize::Unbounded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_as_long_as_its_sequences_say() {
        // 5 literals; "ab" repeated for another 8 bytes, then 12 literals; 300 literals.
        let long: Vec<u8> = [0xf0, 255, 30].into_iter().chain([7; 300]).collect();
        for (block, decoded) in [
            (&b"\x50hello"[..], 5),
            (b"\x24ab\x02\x00\xc0cccccccccccc", 22),
            (&long[..], 300),
            (&[0x00], 0),
        ] {
            assert_eq!(decoded_len(block), Some(decoded), "{block:?}");
            let mut out = Vec::new();
            Lz4Block.decode(&mut Context::default(), block, 300, &mut out).unwrap();
            assert_eq!(out.len(), decoded);
        }
        for block in [&b""[..], b"\x50hell", &[0x24, b'a', b'b', 2], &[0xf0, 255], &long[..302]] {
            assert_eq!(decoded_len(block), None, "{block:?}");
        }
    }
}
