use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::blocks::Grid;
use super::labels::BlockLabels;
use super::{HEADER, LARGEST_BLOCK, Label, NAME, WORD};
use crate::codecs::output;
use crate::{CodecError, Context};

/// What is kept from one block to the next.
#[derive(Default)]
struct Scratch<L> {
    labels: BlockLabels<L>,
    tables: Tables,
}

/// Where tables were written, by the hash of their labels.
type Tables = HashMap<u64, u32, BuildHasherDefault<Hashed>>;

/// Uses a hash as it is.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 << 8 | u64::from(byte)));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

fn failed(reason: String) -> CodecError {
    CodecError::Encode { codec: NAME, reason }
}

/// Appends all channels to `out`; leaves it unchanged on failure.
pub(super) fn encode<L: Label>(
    context: &mut Context,
    grid: &Grid,
    elements: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let volume = grid.block_elements().filter(|&volume| volume <= LARGEST_BLOCK);
    let Some(volume) = volume else {
        let [z, y, x] = grid.block;
        let reason = format!("blocks of {x} by {y} by {z} have more than {LARGEST_BLOCK} elements");
        return Err(failed(reason));
    };
    let start = out.len();
    let result = encode_channels(context.slot::<Scratch<L>>(), grid, volume, elements, out);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

fn encode_channels<L: Label>(
    scratch: &mut Scratch<L>,
    grid: &Grid,
    volume: usize,
    elements: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let start = out.len();
    append_zeros(out, grid.sides.channels.saturating_mul(WORD))?;
    let elements = L::split(elements);
    for c in 0..grid.sides.channels {
        let offset = word_offset(out, start)
            .ok_or_else(|| failed(format!("channel {c} begins past what 32 bits can address")))?;
        put(out, start + c * WORD, &offset.to_le_bytes());
        let channel = elements.get(c * grid.elements()..(c + 1) * grid.elements());
        encode_channel(scratch, grid, volume, channel.unwrap_or_default(), out).map_err(
            |error| match error {
                Stop::Failed(error) => error,
                Stop::TableTooFar => failed(format!(
                    "channel {c} has more labels in its blocks than 24 bits can address; use \
                     smaller chunks"
                )),
                Stop::ValuesTooFar => {
                    failed(format!("channel {c} takes more words than 32 bits can count"))
                }
            },
        )?;
    }
    Ok(())
}

enum Stop {
    Failed(CodecError),
    TableTooFar,
    ValuesTooFar,
}

impl From<CodecError> for Stop {
    fn from(error: CodecError) -> Self {
        Self::Failed(error)
    }
}

fn encode_channel<L: Label>(
    scratch: &mut Scratch<L>,
    grid: &Grid,
    volume: usize,
    channel: &[L::Bytes],
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let base = out.len();
    append_zeros(out, grid.blocks().saturating_mul(HEADER))?;
    scratch.tables.clear();
    for (i, block) in grid.iter().enumerate() {
        let labels = &mut scratch.labels;
        labels.collect(grid, block, volume, channel);
        let table = append_table(&mut scratch.tables, labels.table(), base, out)?;
        let table = Some(table).filter(|&table| table < 1 << 24).ok_or(Stop::TableTooFar)?;
        let values = word_offset(out, base).ok_or(Stop::ValuesTooFar)?;
        let bits = labels.bits();
        let at = out.len();
        append_zeros(out, (volume * bits).div_ceil(32) * WORD)?;
        labels.pack(out.get_mut(at..).unwrap_or_default());
        let header = u64::from(values) << 32 | (bits as u64) << 24 | u64::from(table);
        put(out, base + i * HEADER, &header.to_le_bytes());
    }
    Ok(())
}

/// The offset of a table in words from `base`: of one written before, if it starts with these
/// labels.
fn append_table<L: Label>(
    tables: &mut Tables,
    labels: &[L],
    base: usize,
    out: &mut Vec<u8>,
) -> Result<u32, Stop> {
    let hash = labels.iter().fold(labels.len() as u64, |hash, label| {
        (hash ^ label.number()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    });
    if let Some(&offset) = tables.get(&hash) {
        let written = out.get(base + offset as usize * WORD..).unwrap_or_default();
        let written = L::split(written).get(..labels.len()).unwrap_or_default();
        // Two tables may have the same hash; the later one is then written again.
        if written.len() == labels.len()
            && written.iter().zip(labels).all(|(written, label)| L::get(*written) == *label)
        {
            return Ok(offset);
        }
    }
    let offset = word_offset(out, base).ok_or(Stop::TableTooFar)?;
    output::reserve(NAME, out, labels.len() * L::SIZE)?;
    for label in labels {
        out.extend_from_slice(label.put().as_ref());
    }
    tables.insert(hash, offset);
    Ok(offset)
}

/// The end of `out` in words from `base`, if it fits.
fn word_offset(out: &[u8], base: usize) -> Option<u32> {
    u32::try_from((out.len() - base) / WORD).ok()
}

fn append_zeros(out: &mut Vec<u8>, bytes: usize) -> Result<(), CodecError> {
    output::reserve(NAME, out, bytes)?;
    out.resize(out.len() + bytes, 0);
    Ok(())
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}
