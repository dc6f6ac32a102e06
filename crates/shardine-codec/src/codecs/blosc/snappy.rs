//! Frames with snappy streams, which the linked c-blosc does not support.
//!
//! The header is followed by the starts of the blocks, a `u32` each. A block is one stream, or as
//! many as an element has bytes; a stream is its length, a `u32`, followed by raw snappy or, if
//! that would be no shorter, the uncompressed bytes.

use snap::raw::{Decoder, Encoder, max_compress_len};

use super::filter::Filter;
use super::header::{BIT_SHUFFLED, BYTE_SHUFFLED, COPIED, HEADER, Header, LZ4};
use super::header::{MAX_BLOCK, SNAPPY, UNSPLIT, can_split};
use super::{NAME, decompress, output};
use crate::{CodecError, Context};

/// Bytes of a number between the streams.
const WORD: usize = 4;

/// What precedes the bytes of a frame of one block that is one stored stream.
const STORED: usize = HEADER + 2 * WORD;

/// Shorter input is not worth compressing.
const MIN_INPUT: usize = 128;

/// Decodes `input`, which starts with `header`, to `out`, which has the length given there.
///
/// Takes scratch memory for one block from `context` if elements are shuffled.
pub(super) fn decode(
    context: &mut Context,
    header: Header,
    input: &[u8],
    out: &mut [u8],
) -> Result<(), CodecError> {
    if out.is_empty() {
        return Ok(());
    }
    let corrupt = |reason: String| CodecError::corrupt(NAME, input.len(), reason);
    let blocks = out.len().div_ceil(header.block);
    let table = input.get(HEADER..).unwrap_or_default();
    let Some(table) = blocks.checked_mul(WORD).and_then(|len| table.get(..len)) else {
        return Err(corrupt(format!("there is no room for the starts of {blocks} blocks")));
    };
    let mut frame = match header.flags & (BYTE_SHUFFLED | BIT_SHUFFLED) {
        0 => None,
        _ => Some(context.take_filled(STORED + header.block)?),
    };
    let result = out.chunks_mut(header.block).zip(table.as_chunks().0).enumerate().try_for_each(
        |(i, (block, start))| {
            let start = u32::from_le_bytes(*start) as usize;
            let streams = input
                .get(start..)
                .filter(|_| start >= HEADER + table.len())
                .ok_or_else(|| corrupt(format!("block {i} starts at {start}")))?;
            match &mut frame {
                None => decode_streams(header, streams, block),
                Some(frame) => decode_shuffled(header, streams, frame, block),
            }
            .map_err(|reason| corrupt(format!("block {i} at {start}: {reason}")))
        },
    );
    if let Some(frame) = frame {
        context.give_buffer(frame);
    }
    result
}

/// Decodes the streams of a block and has c-blosc reassemble the elements.
///
/// It gets the block as a frame with one stored stream, so it does what it would do with a block of
/// its own compressors.
fn decode_shuffled(
    header: Header,
    streams: &[u8],
    frame: &mut [u8],
    block: &mut [u8],
) -> Result<(), String> {
    let too_long = || format!("{} bytes are too many", block.len());
    let frame = frame.get_mut(..STORED + block.len()).ok_or_else(too_long)?;
    let shuffle = header.flags & (BYTE_SHUFFLED | BIT_SHUFFLED);
    let stored = Header {
        flags: shuffle | UNSPLIT | LZ4 << 5,
        decoded: block.len(),
        block: block.len(),
        ..header
    };
    let head = stored.to_bytes(frame.len()).ok_or_else(too_long)?;
    let len = u32::try_from(block.len()).map_err(|_| too_long())?;
    let (start, bytes) = frame.split_at_mut(STORED);
    start[..HEADER].copy_from_slice(&head);
    start[HEADER..HEADER + WORD].copy_from_slice(&((HEADER + WORD) as u32).to_le_bytes());
    start[HEADER + WORD..].copy_from_slice(&len.to_le_bytes());
    decode_streams(header, streams, bytes)?;
    decompress(frame, output::as_uninit(block)).map_err(|_| "it cannot be unshuffled".into())
}

/// Decodes the streams of a block at the start of `input` to `block`.
fn decode_streams(header: Header, mut input: &[u8], block: &mut [u8]) -> Result<(), String> {
    let count = header.streams(block.len());
    let len = block.len() / count;
    if len * count != block.len() {
        return Err(format!("{} bytes are not {count} streams of equal length", block.len()));
    }
    for stream in block.chunks_exact_mut(len) {
        let (size, rest) = input.split_first_chunk().ok_or("a stream has no length")?;
        let size = u32::from_le_bytes(*size) as usize;
        let (encoded, rest) = rest
            .split_at_checked(size)
            .ok_or_else(|| format!("a stream of {size} bytes in {}", rest.len()))?;
        if size == len {
            stream.copy_from_slice(encoded);
        } else {
            match Decoder::new().decompress(encoded, stream) {
                Ok(decoded) if decoded == len => {}
                Ok(decoded) => return Err(format!("a stream of {decoded} bytes, not {len}")),
                Err(error) => return Err(error.to_string()),
            }
        }
        input = rest;
    }
    Ok(())
}

/// Encoding parameters, in the terms of c-blosc.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameters {
    pub level: usize,
    pub filter: Filter,
    pub element_size: usize,
    /// 0 to choose automatically.
    pub block_size: usize,
}

/// A worker's compressor, with its table.
struct Compressor(Encoder);

impl Default for Compressor {
    fn default() -> Self {
        Self(Encoder::new())
    }
}

/// Appends the frame of `input` to `out`; it is at most [`HEADER`] bytes longer.
///
/// Takes scratch memory of two blocks from `context`.
pub(super) fn encode(
    context: &mut Context,
    parameters: Parameters,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    // As in c-blosc, elements whose size does not fit a header are treated as bytes.
    let type_size = u8::try_from(parameters.element_size).unwrap_or(1).max(1);
    let block = block_size(parameters, type_size.into(), input.len());
    let unsplit = if can_split(type_size.into(), block) { 0 } else { UNSPLIT };
    let flags = parameters.filter.flags() | unsplit | SNAPPY << 5;
    let header = Header { flags, type_size, decoded: input.len(), block };
    output::reserve(NAME, out, input.len() + HEADER)?;
    let start = out.len();
    let compressed = parameters.level > 0
        && input.len() >= MIN_INPUT
        && encode_blocks(context, parameters.filter, header, input, out)?;
    if !compressed {
        out.truncate(start);
        let header = Header { flags: flags | COPIED, ..header };
        out.extend(header.to_bytes(input.len() + HEADER).ok_or_else(|| too_long(input))?);
        out.extend_from_slice(input);
    }
    Ok(())
}

fn too_long(input: &[u8]) -> CodecError {
    CodecError::Encode { codec: NAME, reason: format!("{} bytes are too many", input.len()) }
}

/// Appends header and blocks; `false` if that is no shorter than the uncompressed bytes.
fn encode_blocks(
    context: &mut Context,
    filter: Filter,
    header: Header,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, CodecError> {
    let (start, room) = (out.len(), input.len() + HEADER);
    let Some(table) = input.len().div_ceil(header.block).checked_mul(WORD) else {
        return Ok(false);
    };
    if HEADER + table >= room {
        return Ok(false);
    }
    out.resize(start + HEADER + table, 0);
    // The last block is not split, so its one stream can be the longest.
    let longest = (header.block / header.streams(header.block)).max(input.len() % header.block);
    let mut shuffled = context.take_filled(header.block)?;
    let mut scratch = context.take_filled(max_compress_len(longest))?;
    let compressor = &mut context.slot::<Compressor>().0;
    let mut fits = true;
    'blocks: for (i, block) in input.chunks(header.block).enumerate() {
        let place = start + HEADER + i * WORD;
        let offset = u32::try_from(out.len() - start).map_err(|_| too_long(input))?;
        out[place..place + WORD].copy_from_slice(&offset.to_le_bytes());
        let bytes = filter.apply(block, header.type_size.into(), &mut shuffled);
        for stream in bytes.chunks_exact(block.len() / header.streams(block.len())) {
            let encoded = match compressor.compress(stream, &mut scratch) {
                Ok(len) if len < stream.len() => &scratch[..len],
                _ => stream,
            };
            if out.len() - start + WORD + encoded.len() >= room {
                fits = false;
                break 'blocks;
            }
            let len = u32::try_from(encoded.len()).map_err(|_| too_long(input))?;
            out.extend(len.to_le_bytes());
            out.extend_from_slice(encoded);
        }
    }
    context.give_buffer(shuffled);
    context.give_buffer(scratch);
    if fits {
        let head = header.to_bytes(out.len() - start).ok_or_else(|| too_long(input))?;
        out[start..start + HEADER].copy_from_slice(&head);
    }
    Ok(fits)
}

/// The length of blocks: as c-blosc chooses it, so that files do not depend on the writer.
///
/// Always a multiple of `type_size`, unless it is shorter.
fn block_size(parameters: Parameters, type_size: usize, input: usize) -> usize {
    let Parameters { level, block_size: wanted, .. } = parameters;
    if input < type_size.max(1) {
        return 1;
    }
    let mut size = match wanted {
        0 if input < 32 << 10 => input,
        0 => 8 << 10 << [0, 1, 2, 3, 4, 4].get(level).copied().unwrap_or(5),
        wanted => wanted.clamp(MIN_INPUT, MAX_BLOCK),
    };
    if level > 0 && can_split(type_size, size) {
        // The streams of a block should be reasonably long, and the block still fit in a cache.
        size = (size.min(1 << 18) * type_size).clamp(1 << 16, 1 << 20);
    }
    size = size.min(input);
    if size > type_size { size - size % type_size } else { size }
}
