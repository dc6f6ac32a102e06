//! The bytes of webknossos-wrap files: a header, a jump table if blocks are compressed, and blocks.
//!
//! ```text
//!  0  "WKW"          magic
//!  3  1              version
//!  4  log2           low half: voxels along a block's edge; high half: blocks along a file's
//!  5  block type     1 raw, 2 LZ4, 3 LZ4 high compression
//!  6  voxel type     1..=10: u8 u16 u32 u64 f32 f64 i8 i16 i32 i64
//!  7  voxel size     bytes of a voxel, with all its channels
//!  8  data offset    u64: where the first block starts; 0 in `header.wkw`, which has no blocks
//! 16  jump table     compressed only: a u64 per block, where it ends
//!     blocks         in Morton order, x fastest; all with the same number of voxels
//! ```
//!
//! All numbers are little-endian. Within a block x runs fastest, and the channels of a voxel lie
//! together.

use std::ops::Range;

/// Bytes before the jump table, or before the blocks if there is none.
pub const WKW_HEADER: usize = 16;

const MAGIC: &[u8; 3] = b"WKW";
const VERSION: u8 = 1;

/// Bytes of a jump table entry.
const ENTRY: u64 = 8;

/// The most blocks along an edge of a file, as a power of two: 2^24 blocks, whose jump table takes
/// 128 MiB. Files usually have 2^5.
const MOST_BLOCKS_LOG2: u8 = 8;

/// The most voxels along an edge of a block, as a power of two. Blocks usually have 2^5.
const MOST_VOXELS_LOG2: u8 = 9;

/// Bytes that contradict the format.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WkwError {
    /// There are fewer bytes than the header and the jump table need.
    #[error("it has {actual} bytes, but header and jump table need {needed}")]
    Truncated {
        /// Bytes present.
        actual: u64,
        /// Bytes required.
        needed: u64,
    },
    /// The magic bytes are wrong.
    #[error("it starts with {found:02x?}, not with \"WKW\"")]
    Magic {
        /// Its first bytes.
        found: [u8; 3],
    },
    /// A header field has an unknown value, or one that is too large.
    #[error("its {member} is {value}, which is not supported")]
    Member {
        /// Which field.
        member: &'static str,
        /// Its value.
        value: u64,
    },
    /// The size of a voxel is not a multiple of a channel's.
    #[error("voxels of {voxel} bytes cannot have channels of {channel} bytes")]
    VoxelSize {
        /// Bytes of a voxel.
        voxel: u8,
        /// Bytes of a channel.
        channel: u8,
    },
    /// The stated start of the first block lies inside the header or jump table, or past the end of
    /// the file.
    #[error("its blocks are recorded at byte {offset}, but its jump table ends at byte {head}")]
    DataOffset {
        /// The stated start.
        offset: u64,
        /// The earliest possible start.
        head: u64,
    },
    /// It does not match its data set.
    #[error("its header says {member} {found}, but that of the data set says {expected}")]
    Differs {
        /// Which field.
        member: &'static str,
        /// Its own value.
        found: u64,
        /// The data set's value.
        expected: u64,
    },
    /// According to the jump table a block ends at or before its start, or past the end of the
    /// file.
    #[error("block {block} is recorded at bytes {start}..{end} of {len}")]
    Block {
        /// Its number.
        block: u64,
        /// Its stated start.
        start: u64,
        /// Its stated end.
        end: u64,
        /// Bytes of the file.
        len: u64,
    },
}

/// How blocks are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WkwBlocks {
    /// Uncompressed.
    Raw,
    /// As one LZ4 block each, without a frame.
    Lz4,
    /// The same, compressed with more effort.
    Lz4Hc,
}

/// The type of a voxel's channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are what they are called")]
pub enum WkwVoxel {
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
}

/// In the order of their numbers, from 1.
const VOXELS: [WkwVoxel; 10] = [
    WkwVoxel::U8,
    WkwVoxel::U16,
    WkwVoxel::U32,
    WkwVoxel::U64,
    WkwVoxel::F32,
    WkwVoxel::F64,
    WkwVoxel::I8,
    WkwVoxel::I16,
    WkwVoxel::I32,
    WkwVoxel::I64,
];

impl WkwVoxel {
    /// Bytes of one channel.
    pub fn size(self) -> u8 {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The name of the data type in Zarr.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::U16 => "uint16",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::I8 => "int8",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
        }
    }
}

/// The first 16 bytes of `header.wkw`, or of a file of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WkwHeader {
    block_log2: u8,
    file_log2: u8,
    /// How blocks are encoded.
    pub blocks: WkwBlocks,
    /// The type of a voxel's channel.
    pub voxel: WkwVoxel,
    voxel_size: u8,
    data_offset: u64,
}

impl WkwHeader {
    /// Parses a header. Anything after its 16 bytes is ignored.
    pub fn parse(bytes: &[u8]) -> Result<Self, WkwError> {
        let Some((header, _)) = bytes.split_first_chunk::<WKW_HEADER>() else {
            let (actual, needed) = (bytes.len() as u64, WKW_HEADER as u64);
            return Err(WkwError::Truncated { actual, needed });
        };
        let [m0, m1, m2, version, log2, blocks, voxel, voxel_size, offset @ ..] = *header;
        if &[m0, m1, m2] != MAGIC {
            return Err(WkwError::Magic { found: [m0, m1, m2] });
        }
        let unknown = |member, value: u8| WkwError::Member { member, value: value.into() };
        if version != VERSION {
            return Err(unknown("version", version));
        }
        let (block_log2, file_log2) = (log2 & 15, log2 >> 4);
        if block_log2 > MOST_VOXELS_LOG2 {
            return Err(unknown("power of two of voxels along a block", block_log2));
        }
        if file_log2 > MOST_BLOCKS_LOG2 {
            return Err(unknown("power of two of blocks along a file", file_log2));
        }
        let blocks = match blocks {
            1 => WkwBlocks::Raw,
            2 => WkwBlocks::Lz4,
            3 => WkwBlocks::Lz4Hc,
            other => return Err(unknown("block type", other)),
        };
        let found = usize::from(voxel).checked_sub(1).and_then(|i| VOXELS.get(i).copied());
        let voxel = found.ok_or_else(|| unknown("voxel type", voxel))?;
        if voxel_size == 0 || voxel_size % voxel.size() != 0 {
            return Err(WkwError::VoxelSize { voxel: voxel_size, channel: voxel.size() });
        }
        let data_offset = u64::from_le_bytes(offset);
        Ok(Self { block_log2, file_log2, blocks, voxel, voxel_size, data_offset })
    }

    /// Channels per voxel.
    pub fn channels(&self) -> u64 {
        u64::from(self.voxel_size / self.voxel.size())
    }

    /// Voxels along an edge of a block.
    pub fn block_edge(&self) -> u64 {
        1 << self.block_log2
    }

    /// Blocks along an edge of a file.
    pub fn file_edge(&self) -> u64 {
        1 << self.file_log2
    }

    /// Blocks per file.
    pub fn count(&self) -> u64 {
        1 << (3 * self.file_log2)
    }

    /// Bytes of a block, decoded.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.voxel_size) << (3 * self.block_log2)
    }

    /// Whether blocks vary in length, which the jump table records.
    pub fn is_compressed(&self) -> bool {
        self.blocks != WkwBlocks::Raw
    }

    /// Bytes of a file's header and jump table.
    pub fn head_len(&self) -> u64 {
        let table = if self.is_compressed() { self.count() * ENTRY } else { 0 };
        WKW_HEADER as u64 + table
    }

    /// Refuses the header of a file whose blocks differ from what the data set's header says. The
    /// LZ4 effort makes no difference to a reader.
    pub fn check_same(&self, set: &Self) -> Result<(), WkwError> {
        let compared = [
            ("voxels along a block", self.block_edge(), set.block_edge()),
            ("blocks along a file", self.file_edge(), set.file_edge()),
            ("compression", self.is_compressed().into(), set.is_compressed().into()),
            ("voxel type", self.voxel as u64 + 1, set.voxel as u64 + 1),
            ("voxel size", self.voxel_size.into(), set.voxel_size.into()),
        ];
        match compared.into_iter().find(|(_, found, expected)| found != expected) {
            Some((member, found, expected)) => Err(WkwError::Differs { member, found, expected }),
            None => Ok(()),
        }
    }
}

/// Where the blocks of a file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WkwTable {
    header: WkwHeader,
    /// Where each block ends, as stored; empty if blocks are uncompressed.
    ends: Vec<u8>,
}

impl WkwTable {
    /// Parses what precedes the blocks of a file: the header, and the jump table if there is one.
    ///
    /// Entries are checked when used, so that a wrong one costs only its block.
    pub fn parse(bytes: &[u8]) -> Result<Self, WkwError> {
        let header = WkwHeader::parse(bytes)?;
        let head = header.head_len();
        let ends = usize::try_from(head).ok().and_then(|head| bytes.get(WKW_HEADER..head));
        let Some(ends) = ends else {
            return Err(WkwError::Truncated { actual: bytes.len() as u64, needed: head });
        };
        if header.data_offset < head {
            return Err(WkwError::DataOffset { offset: header.data_offset, head });
        }
        Ok(Self { header, ends: ends.to_vec() })
    }

    /// The header of the file.
    pub fn header(&self) -> &WkwHeader {
        &self.header
    }

    /// Bytes of memory used.
    pub fn memory(&self) -> usize {
        self.ends.len()
    }

    /// Where a block ends; for the one before the first, where the first one starts.
    fn end(&self, block: Option<u64>) -> Option<u64> {
        let Some(block) = block else { return Some(self.header.data_offset) };
        if !self.header.is_compressed() {
            let bytes = block.checked_add(1)?.checked_mul(self.header.block_bytes())?;
            return self.header.data_offset.checked_add(bytes);
        }
        let at = usize::try_from(block.checked_mul(ENTRY)?).ok()?;
        let entry = self.ends.get(at..)?.first_chunk::<{ ENTRY as usize }>()?;
        Some(u64::from_le_bytes(*entry))
    }

    /// The bytes of a block in a file of `len` bytes.
    pub fn block(&self, block: u64, len: u64) -> Result<Range<u64>, WkwError> {
        let start = self.end(block.checked_sub(1)).unwrap_or(u64::MAX);
        let end = self.end(Some(block)).unwrap_or(0);
        let known = block < self.header.count();
        if !known || start >= end || start < self.header.data_offset || end > len {
            return Err(WkwError::Block { block, start, end, len });
        }
        Ok(start..end)
    }

    /// Where the last block ends.
    pub fn data_end(&self) -> u64 {
        self.end(self.header.count().checked_sub(1)).unwrap_or(u64::MAX)
    }
}

/// The number of a block, from its position in the file.
pub fn wkw_block_number(place: [u64; 3]) -> u64 {
    // Files have at most 2^8 blocks along an edge.
    let bits = u64::from(MOST_BLOCKS_LOG2);
    (0..bits).flat_map(|bit| (0..3).map(move |axis| (bit, axis))).fold(0, |number, (bit, axis)| {
        number | (place[axis as usize] >> bit & 1) << (3 * bit + axis)
    })
}

/// The position of a block in its file, from its number.
pub fn wkw_block_place(number: u64) -> [u64; 3] {
    let bit = |axis: u64, bit: u64| (number >> (3 * bit + axis) & 1) << bit;
    [0, 1, 2].map(|axis| (0..u64::from(MOST_BLOCKS_LOG2)).map(|at| bit(axis, at)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 2 voxels along an edge, files of 2 blocks, u16 in 3 channels.
    const RAW: [u8; 16] = [b'W', b'K', b'W', 1, 0x11, 1, 2, 6, 16, 0, 0, 0, 0, 0, 0, 0];

    /// The same with LZ4 and a jump table of 8 blocks, 10 bytes each.
    fn packed() -> Vec<u8> {
        let mut bytes = RAW.to_vec();
        (bytes[5], bytes[8]) = (2, 80);
        for block in 1..=8u64 {
            bytes.extend_from_slice(&(80 + 10 * block).to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_members_of_a_header_are_where_they_belong() {
        let header = WkwHeader::parse(&RAW).unwrap();
        assert_eq!((header.block_edge(), header.file_edge(), header.count()), (2, 2, 8));
        assert_eq!((header.channels(), header.block_bytes()), (3, 48));
        assert_eq!((header.blocks, header.voxel), (WkwBlocks::Raw, WkwVoxel::U16));
        assert_eq!(header.head_len(), 16);
        let header = WkwHeader::parse(&packed()).unwrap();
        assert_eq!((header.blocks, header.head_len()), (WkwBlocks::Lz4, 80));
    }

    #[test]
    fn blocks_lie_where_the_header_or_the_jump_table_says() {
        let table = WkwTable::parse(&RAW).unwrap();
        assert_eq!(table.block(0, 400), Ok(16..64));
        assert_eq!(table.block(7, 400), Ok(352..400));
        assert_eq!(table.data_end(), 400);
        let table = WkwTable::parse(&packed()).unwrap();
        assert_eq!(table.block(0, 160), Ok(80..90));
        assert_eq!(table.block(7, 160), Ok(150..160));
        assert_eq!(table.data_end(), 160);
    }

    #[test]
    fn every_number_that_cannot_be_is_refused() {
        for (at, value, expected) in [
            (0, b'X', WkwError::Magic { found: *b"XKW" }),
            (3, 2, WkwError::Member { member: "version", value: 2 }),
            (5, 0, WkwError::Member { member: "block type", value: 0 }),
            (5, 4, WkwError::Member { member: "block type", value: 4 }),
            (6, 0, WkwError::Member { member: "voxel type", value: 0 }),
            (6, 11, WkwError::Member { member: "voxel type", value: 11 }),
            (7, 0, WkwError::VoxelSize { voxel: 0, channel: 2 }),
            (7, 5, WkwError::VoxelSize { voxel: 5, channel: 2 }),
        ] {
            let mut bytes = RAW;
            bytes[at] = value;
            assert_eq!(WkwHeader::parse(&bytes), Err(expected), "byte {at} is {value}");
        }
        for log2 in [0x1a, 0x91, 0xff] {
            let mut bytes = RAW;
            bytes[4] = log2;
            assert!(matches!(WkwHeader::parse(&bytes), Err(WkwError::Member { .. })), "{log2:x}");
        }
    }

    #[test]
    fn a_file_that_ends_in_its_head_is_refused() {
        assert_eq!(
            WkwTable::parse(&packed()[..79]),
            Err(WkwError::Truncated { actual: 79, needed: 80 })
        );
        assert_eq!(
            WkwHeader::parse(&RAW[..15]),
            Err(WkwError::Truncated { actual: 15, needed: 16 })
        );
        let mut bytes = packed();
        bytes[8] = 79;
        assert_eq!(WkwTable::parse(&bytes), Err(WkwError::DataOffset { offset: 79, head: 80 }));
    }

    #[test]
    fn a_wrong_entry_costs_its_block_and_the_next_and_no_other() {
        for end in [0u64, 79, 100, 161, u64::MAX] {
            let mut bytes = packed();
            bytes[16 + 3 * 8..][..8].copy_from_slice(&end.to_le_bytes());
            let table = WkwTable::parse(&bytes).unwrap();
            let wrong: Vec<u64> = (0..8).filter(|&n| table.block(n, 160).is_err()).collect();
            // 110..100 is not a block, but the next one is 100..130.
            let expected = if end == 100 { vec![3] } else { vec![3, 4] };
            assert_eq!(wrong, expected, "{end}");
        }
        let table = WkwTable::parse(&packed()).unwrap();
        assert!(table.block(8, 1000).is_err() && table.block(u64::MAX, 1000).is_err());
        assert!(table.block(7, 159).is_err());
    }

    #[test]
    fn blocks_are_numbered_in_morton_order_with_x_first() {
        for (place, number) in [
            ([0, 0, 0], 0),
            ([1, 0, 0], 1),
            ([0, 1, 0], 2),
            ([0, 0, 1], 4),
            // 3 is 011, 5 is 101 and 6 is 110.
            ([3, 5, 6], 0b110_101_011),
        ] {
            assert_eq!(wkw_block_number(place), number, "{place:?}");
            assert_eq!(wkw_block_place(number), place);
        }
        assert_eq!(wkw_block_number([255, 255, 255]), (1 << 24) - 1);
    }

    #[test]
    fn the_file_of_another_data_set_is_told_by_its_header() {
        let set = WkwHeader::parse(&RAW).unwrap();
        assert_eq!(set.check_same(&set), Ok(()));
        let same = |at: usize, value: u8| {
            let mut bytes = RAW;
            bytes[at] = value;
            WkwHeader::parse(&bytes).unwrap().check_same(&set)
        };
        let expected = WkwError::Differs { member: "voxel size", found: 2, expected: 6 };
        assert_eq!(same(7, 2), Err(expected));
        assert!(same(4, 0x12).is_err() && same(5, 2).is_err() && same(6, 8).is_err());
    }
}
