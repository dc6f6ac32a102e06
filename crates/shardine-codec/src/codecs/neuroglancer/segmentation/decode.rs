use super::blocks::{Block, Grid};
use super::{HEADER, Label, NAME, WORD};
use crate::CodecError;

/// The number of elements looked up together.
const GROUP: usize = 8;

/// An error if the headers alone need more bytes than there are.
pub(super) fn check_length(grid: &Grid, encoded: &[u8]) -> Result<(), CodecError> {
    // Channels may share a location, so only one is sure to have bytes of its own.
    let channels = grid.sides.channels;
    let headers = grid.blocks().checked_mul(HEADER * channels.min(1));
    let offsets = channels.checked_mul(WORD);
    match headers.zip(offsets).and_then(|(a, b)| a.checked_add(b)) {
        Some(least) if least <= encoded.len() => Ok(()),
        _ => {
            let reason = format!("too short for the headers of {} blocks", grid.blocks());
            Err(CodecError::corrupt(NAME, encoded.len(), reason))
        }
    }
}

/// Decodes all channels to `out`, which has room for exactly their elements.
pub(super) fn decode<L: Label>(grid: &Grid, encoded: &[u8], out: &mut [u8]) -> Result<(), String> {
    let elements = grid.elements();
    if elements == 0 {
        return Ok(());
    }
    for (c, out) in L::split_mut(out).chunks_exact_mut(elements).enumerate() {
        let start = word(encoded, c).map(|words| bytes_before(words as usize));
        let channel = start
            .and_then(|start| encoded.get(start..))
            .ok_or_else(|| format!("channel {c} begins past the end"))?;
        decode_channel::<L>(grid, channel, out)
            .map_err(|(block, reason)| format!("block {block} of channel {c}: {reason}"))?;
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.as_chunks().0.get(at).map(|word| u32::from_le_bytes(*word))
}

fn bytes_before(words: usize) -> usize {
    words.saturating_mul(WORD)
}

fn decode_channel<L: Label>(
    grid: &Grid,
    channel: &[u8],
    out: &mut [L::Bytes],
) -> Result<(), (usize, String)> {
    let headers = channel.as_chunks::<HEADER>().0;
    if headers.len() < grid.blocks() {
        return Err((headers.len(), "its header is cut short".into()));
    }
    for ((i, block), header) in grid.iter().enumerate().zip(headers) {
        let header = u64::from_le_bytes(*header);
        let table = bytes_before((header & 0xff_ffff) as usize);
        // An offset that overflowed its 24 bits but was written anyway points anywhere.
        if table < grid.blocks() * HEADER {
            return Err((i, "its table is recorded inside the headers".into()));
        }
        let table = channel.get(table..).unwrap_or_default();
        let values = channel.get(bytes_before((header >> 32) as usize)..).unwrap_or_default();
        let part = Part { grid, block, table: L::split(table), values };
        let bits = (header >> 24) as u8;
        let decoded = match bits {
            0 => part.fill(out),
            1 => part.decode_narrow::<1, 2>(out),
            2 => part.decode_narrow::<2, 4>(out),
            4 => part.decode_narrow::<4, 16>(out),
            8 => part.decode_narrow::<8, 256>(out),
            16 => part.decode_wide::<2>(out),
            32 => part.decode_wide::<4>(out),
            _ => return Err((i, format!("{bits} bits for each value"))),
        };
        decoded.map_err(|error| {
            let reason = match error {
                Missing::Values => "its values are past the end",
                Missing::Label => "a label of its table is past the end",
            };
            (i, reason.into())
        })?;
    }
    Ok(())
}

enum Missing {
    Values,
    Label,
}

/// What is needed to decode a block: `table` and `values` start where the header says.
struct Part<'a, B> {
    grid: &'a Grid,
    block: Block,
    table: &'a [B],
    values: &'a [u8],
}

impl<B: Copy + Default> Part<'_, B> {
    /// One label for all elements, without values.
    fn fill(&self, out: &mut [B]) -> Result<(), Missing> {
        let label = *self.table.first().ok_or(Missing::Label)?;
        self.each_row(out, |_, row| row.fill(label));
        Ok(())
    }

    /// Indices of `BITS` bits, up to 8, with `LABELS` possible values.
    fn decode_narrow<const BITS: usize, const LABELS: usize>(
        &self,
        out: &mut [B],
    ) -> Result<(), Missing> {
        let values = self.values(BITS)?;
        if let Some(table) = self.table.first_chunk::<LABELS>() {
            self.each_row(out, |first, row| look_up::<B, BITS, LABELS>(values, first, table, row));
            return Ok(());
        }
        // A table at the end of the chunk may have fewer labels than indices can address.
        let mut table = [B::default(); LABELS];
        table[..self.table.len()].copy_from_slice(self.table);
        let mut highest = 0;
        self.each_row(out, |first, row| {
            look_up::<B, BITS, LABELS>(values, first, &table, row);
            let indices = (first..first + row.len()).map(|i| narrow_index::<BITS>(values, i));
            highest = indices.fold(highest, usize::max);
        });
        if highest < self.table.len() { Ok(()) } else { Err(Missing::Label) }
    }

    /// Indices of `BYTES` bytes.
    fn decode_wide<const BYTES: usize>(&self, out: &mut [B]) -> Result<(), Missing> {
        let values = self.values(8 * BYTES)?.as_chunks::<BYTES>().0;
        let mut missing = false;
        self.each_row(out, |first, row| {
            for (out, index) in row.iter_mut().zip(values.get(first..).unwrap_or_default()) {
                let index =
                    index.iter().rev().fold(0, |index, &byte| index << 8 | usize::from(byte));
                match self.table.get(index) {
                    Some(label) => *out = *label,
                    None => missing = true,
                }
            }
        });
        if missing { Err(Missing::Label) } else { Ok(()) }
    }

    /// The bytes of all values inside the chunk.
    ///
    /// Those outside are not needed, and a writer may have omitted them at the end.
    fn values(&self, bits: usize) -> Result<&[u8], Missing> {
        let needed = self.grid.reach(self.block).checked_mul(bits).map(|bits| bits.div_ceil(8));
        needed.and_then(|bytes| self.values.get(..bytes)).ok_or(Missing::Values)
    }

    /// Calls `f` with each row inside the chunk and its first element, as an offset in the block.
    #[inline(always)]
    fn each_row(&self, out: &mut [B], mut f: impl FnMut(usize, &mut [B])) {
        self.grid.each_row(self.block, |first, start, width| {
            f(first, &mut out[start..start + width]);
            true
        });
    }
}

#[inline(always)]
fn narrow_index<const BITS: usize>(values: &[u8], element: usize) -> usize {
    let at = element * BITS;
    usize::from(values[at / 8] >> (at % 8)) & ((1 << BITS) - 1)
}

/// Looks up the labels of the elements from `first` on.
///
/// Groups of 8 indices take whole bytes if the first one is byte-aligned.
#[inline(always)]
fn look_up<B: Copy, const BITS: usize, const LABELS: usize>(
    values: &[u8],
    first: usize,
    table: &[B; LABELS],
    out: &mut [B],
) {
    let mut rest = out;
    let mut next = first;
    if first.is_multiple_of(GROUP) {
        let (groups, tail) = rest.as_chunks_mut::<GROUP>();
        let bytes = &values[first / GROUP * BITS..];
        for (group, bytes) in groups.iter_mut().zip(bytes.as_chunks::<BITS>().0) {
            let indices = bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte));
            for (i, out) in group.iter_mut().enumerate() {
                *out = table[(indices >> (i * BITS)) as usize % LABELS];
            }
            next += GROUP;
        }
        rest = tail;
    }
    for (i, out) in rest.iter_mut().enumerate() {
        *out = table[narrow_index::<BITS>(values, next + i) % LABELS];
    }
}
