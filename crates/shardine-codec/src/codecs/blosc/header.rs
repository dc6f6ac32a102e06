//! The 16 bytes before the blocks.

use std::ffi::c_int;

use super::NAME;
use crate::CodecError;

/// Bytes before the blocks, and the most that encoding can add.
pub(super) const HEADER: usize = 16;

/// c-blosc counts in `int`, including the header.
pub(super) const MAX_INPUT: usize = c_int::MAX as usize - HEADER;

/// The longest block that c-blosc accepts: including its scratch memory, its size still fits an
/// `int`.
pub(super) const MAX_BLOCK: usize = (c_int::MAX as usize - u8::MAX as usize * 4) / 3;

const VERSION: u8 = 2;

/// Flags: bytes of elements are shuffled, data is stored uncompressed, bits of elements are
/// shuffled, a later format, each block is one stream.
pub(super) const BYTE_SHUFFLED: u8 = 1;
pub(super) const COPIED: u8 = 2;
pub(super) const BIT_SHUFFLED: u8 = 4;
const RESERVED: u8 = 8;
pub(super) const UNSPLIT: u8 = 16;

/// The compressors as numbered in the upper bits of the flags; all are at format version 1.
const BLOSCLZ: u8 = 0;
pub(super) const LZ4: u8 = 1;
pub(super) const SNAPPY: u8 = 2;
const ZLIB: u8 = 3;
const ZSTD: u8 = 4;
const COMPRESSOR_VERSION: u8 = 1;

/// The most bytes that one byte of snappy can decode to, rounded up: the best tag turns 3 bytes
/// into 64.
const SNAPPY_RATIO: usize = 22;

/// A header, without the total length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub flags: u8,
    pub type_size: u8,
    /// The number of bytes before encoding.
    pub decoded: usize,
    /// The number of these in each block but the last.
    pub block: usize,
}

impl Header {
    /// The header of `input`, checked for consistency with itself and with the length of `input`.
    ///
    /// c-blosc trusts its header about the length of its input, so this comes first.
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
        // How much one byte can decode to: beyond that the header lies, and deserves no memory.
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

    /// The bytes of this header for a total of `encoded` bytes, including the header.
    ///
    /// `None` if a number does not fit the format.
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

    /// Whether the blocks are snappy streams, which c-blosc is built without.
    pub(super) fn is_snappy(self) -> bool {
        self.flags & COPIED == 0 && self.flags >> 5 == SNAPPY
    }

    /// The number of streams of equal length in a block of `len` bytes.
    pub(super) fn streams(self, len: usize) -> usize {
        let type_size = usize::from(self.type_size);
        // Writers that predate the flag leave it unset, and split by the same rule.
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
