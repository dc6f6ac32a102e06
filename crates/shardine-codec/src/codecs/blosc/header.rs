//! The 16 bytes before the blocks.

use std::ffi::c_int;

use super::NAME;
use crate::CodecError;

/// Bytes before the blocks, and the most that encoding can add.
pub(super) const HEADER: usize = 16;

/// c-blosc counts in `int`, header included.
pub(super) const MAX_INPUT: usize = c_int::MAX as usize - HEADER;

/// The longest block that c-blosc takes: with its scratch memory, an `int` can still count it.
pub(super) const MAX_BLOCK: usize = (c_int::MAX as usize - u8::MAX as usize * 4) / 3;

const VERSION: u8 = 2;

/// Flags: the bytes of elements are shuffled, the data follows as it is, the bits of elements are
/// shuffled, a later format, each block is one stream.
pub(super) const BYTE_SHUFFLED: u8 = 1;
pub(super) const COPIED: u8 = 2;
pub(super) const BIT_SHUFFLED: u8 = 4;
const RESERVED: u8 = 8;
pub(super) const UNSPLIT: u8 = 16;

/// The compressors as the upper bits of the flags number them; all are at their format version 1.
const BLOSCLZ: u8 = 0;
pub(super) const LZ4: u8 = 1;
pub(super) const SNAPPY: u8 = 2;
const ZLIB: u8 = 3;
const ZSTD: u8 = 4;
const COMPRESSOR_VERSION: u8 = 1;

/// What one byte of snappy can become, rounded up: the best tag makes 64 bytes of 3.
const SNAPPY_RATIO: usize = 22;

/// A header, without the length of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub flags: u8,
    pub type_size: u8,
    /// How many bytes there were before encoding.
    pub decoded: usize,
    /// How many of them are in each block but the last.
    pub block: usize,
}

impl Header {
    /// The header of `input`, once it agrees with itself and with the length of `input`.
    ///
    /// c-blosc trusts its header as to how long its input is, so this comes first.
    pub(super) fn read(input: &[u8]) -> Result<Self, CodecError> {
        let corrupt = |reason: String| CodecError::corrupt(NAME, input.len(), reason);
        let Some(header) = input.first_chunk::<HEADER>() else {
            return Err(corrupt(format!("the header alone has {HEADER} bytes")));
        };
        let [version, compressor_version, flags, type_size, sizes @ ..] = *header;
        let [n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3] = sizes;
        let decoded = u32::from_le_bytes([n0, n1, n2, n3]) as usize;
        let block = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
        let encoded = u32::from_le_bytes([c0, c1, c2, c3]) as usize;
        if version != VERSION {
            return Err(corrupt(format!("format version {version}, only {VERSION} is known")));
        }
        if encoded != input.len() {
            return Err(corrupt(format!("the header says {encoded} encoded bytes")));
        }
        if decoded > MAX_INPUT {
            return Err(corrupt(format!("the header says {decoded} decoded bytes")));
        }
        if decoded > 0 && (block == 0 || block > decoded.min(MAX_BLOCK) || type_size == 0) {
            return Err(corrupt(format!(
                "the header says blocks of {block} and elements of {type_size} bytes in {decoded}"
            )));
        }
        if flags & RESERVED != 0 {
            return Err(corrupt(format!("flags {flags:#04x} are of a later format")));
        }
        // How much one byte can become: past it the header lies, and is not worth any memory.
        let ratio = match (flags & COPIED != 0, flags >> 5) {
            (true, _) => 1,
            (_, BLOSCLZ | LZ4) => 256,
            (_, SNAPPY) if compressor_version != COMPRESSOR_VERSION => {
                return Err(corrupt(format!("version {compressor_version} of snappy")));
            }
            (_, SNAPPY) => SNAPPY_RATIO,
            (_, ZLIB) => 1032,
            (_, ZSTD) => 1 << 16,
            (_, format) => return Err(corrupt(format!("compressor {format} is not known"))),
        };
        if decoded / ratio > encoded {
            return Err(corrupt(format!("the header says {decoded} decoded bytes")));
        }
        Ok(Self { flags, type_size, decoded, block })
    }

    /// The bytes of this header where `encoded` bytes are the whole, header included.
    ///
    /// `None` if a number is past what the format can say.
    pub(super) fn to_bytes(self, encoded: usize) -> Option<[u8; HEADER]> {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&[VERSION, COMPRESSOR_VERSION, self.flags, self.type_size]);
        for (place, number) in
            bytes[4..].chunks_exact_mut(4).zip([self.decoded, self.block, encoded])
        {
            place.copy_from_slice(&u32::try_from(number).ok()?.to_le_bytes());
        }
        Some(bytes)
    }

    /// Whether the blocks are streams of snappy, which c-blosc is built without.
    pub(super) fn is_snappy(self) -> bool {
        self.flags & COPIED == 0 && self.flags >> 5 == SNAPPY
    }

    /// How many streams of equal length a block of `len` bytes is.
    pub(super) fn streams(self, len: usize) -> usize {
        let type_size = usize::from(self.type_size);
        // A writer from before the flag was there has it unset, and splits by the same rule.
        if len == self.block && self.flags & UNSPLIT == 0 && can_split(type_size, len) {
            type_size
        } else {
            1
        }
    }
}

/// Whether a block is worth a stream for each byte of its elements.
pub(super) fn can_split(type_size: usize, block: usize) -> bool {
    type_size <= 16 && block / type_size.max(1) >= 128
}
