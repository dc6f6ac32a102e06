use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::config::Config;
use super::output;
use crate::{BytesToBytes, Codec, CodecError, Context, EncodedSize};

const NAME: &str = "lz4";

/// The decoded size, before the block.
const HEADER: usize = 4;

/// The largest input that liblz4 accepts in one call.
pub(super) const MAX_INPUT: usize = 0x7e00_0000;

/// No block decodes to more than this many times its length.
const MAX_RATIO: usize = 255;

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["acceleration"])?;
    let range = i64::from(c_int::MIN)..=i64::from(c_int::MAX);
    let acceleration = config.integer("acceleration", range)?.unwrap_or(1);
    let acceleration = c_int::try_from(acceleration).unwrap_or(1);
    Ok(Codec::BytesToBytes(Arc::new(Lz4 { acceleration })))
}

/// One LZ4 block preceded by its decoded size, as numcodecs writes it.
#[derive(Debug)]
struct Lz4 {
    acceleration: c_int,
}

/// The maximum size of a block.
pub(super) fn bound(input: usize) -> usize {
    input + input / 255 + 16
}

fn split(input: &[u8]) -> Result<(usize, &[u8]), CodecError> {
    let Some((size, block)) = input.split_first_chunk::<HEADER>() else {
        let reason = "there is no room for the decoded size";
        return Err(CodecError::corrupt(NAME, input.len(), reason));
    };
    let size = u32::from_le_bytes(*size) as usize;
    if size > MAX_INPUT || size > block.len().saturating_mul(MAX_RATIO) {
        let reason =
            format!("its header says {size} decoded bytes, which is impossible for such a block");
        return Err(CodecError::corrupt(NAME, input.len(), reason));
    }
    Ok((size, block))
}

/// Decodes `block` to all of `out`.
pub(super) fn decompress(
    codec: &'static str,
    block: &[u8],
    out: &mut [MaybeUninit<u8>],
) -> Result<(), CodecError> {
    let corrupt = || CodecError::corrupt(codec, block.len(), "the block is damaged or cut short");
    let from = c_int::try_from(block.len()).map_err(|_| corrupt())?;
    let to = c_int::try_from(out.len()).map_err(|_| corrupt())?;
    // SAFETY: both pointers match the lengths of their slices, which do not overlap.
    let written = unsafe {
        lz4_sys::LZ4_decompress_safe(block.as_ptr().cast(), out.as_mut_ptr().cast(), from, to)
    };
    if written == to { Ok(()) } else { Err(corrupt()) }
}

/// Appends `input` to `out` as one block; `input` is no longer than [`MAX_INPUT`].
pub(super) fn compress(
    codec: &'static str,
    acceleration: c_int,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let failed = |reason: String| CodecError::Encode { codec, reason };
    let Ok(from) = c_int::try_from(input.len()) else {
        return Err(failed(format!("{} bytes, at most {MAX_INPUT} are possible", input.len())));
    };
    // SAFETY: liblz4 has written as many bytes as it reports.
    unsafe {
        output::append(codec, out, bound(input.len()), |spare| {
            let to = c_int::try_from(spare.len()).unwrap_or(c_int::MAX);
            // SAFETY: both pointers match the lengths of their slices.
            let written = lz4_sys::LZ4_compress_fast(
                input.as_ptr().cast(),
                spare.as_mut_ptr().cast(),
                from,
                to,
                acceleration,
            );
            let written = usize::try_from(written).ok().filter(|&written| written > 0);
            written.ok_or_else(|| failed("liblz4 failed".to_owned()))
        })
    }
}

impl BytesToBytes for Lz4 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn encode(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let size = u32::try_from(input.len()).ok().filter(|_| input.len() <= MAX_INPUT);
        let Some(size) = size else {
            let reason = format!("{} bytes, at most {MAX_INPUT} are possible", input.len());
            return Err(CodecError::Encode { codec: NAME, reason });
        };
        output::reserve(NAME, out, bound(input.len()) + HEADER)?;
        out.extend_from_slice(&size.to_le_bytes());
        compress(NAME, self.acceleration, input, out)
    }

    fn decode(
        &self,
        _context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let (size, block) = split(input)?;
        output::check_limit(NAME, size, limit)?;
        // SAFETY: on success, `decompress` has written all of the slice.
        unsafe {
            output::append(NAME, out, size, |spare| decompress(NAME, block, spare).map(|()| size))
        }
    }

    fn decode_exact(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        let (size, block) = split(input)?;
        output::check_size(NAME, out.len(), size)?;
        decompress(NAME, block, output::as_uninit(out))
    }

    fn encoded_size(&self, input: u64) -> EncodedSize {
        match usize::try_from(input) {
            Ok(input) if input <= MAX_INPUT => EncodedSize::AtMost((bound(input) + HEADER) as u64),
            _ => EncodedSize::Unbounded,
        }
    }
}
