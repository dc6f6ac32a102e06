//! Manifests: which fragments of which chunks an object consists of, in order.
//!
//! A row of `object_index/manifests`:
//!
//! ```text
//! u32 blocks B
//! B x: i64 chunk[rank], u8 mode, then
//!   mode 0: i64 fragment
//!   mode 1: i64 first fragment, i64 number of fragments
//!   mode 2: u32 n, i64 fragments[n]
//! ```
//!
//! In the dense form all blocks are rows of one array, `chunk[rank], fragment`, and an object has
//! the number of its first block and how many it has.

use super::bytes::{i64s, natural, take, take_array, take_i64, take_u32};
use super::error::{PayloadError, PayloadResult};
use super::fragments::row_number;
use super::grid::ChunkCoords;

const SINGLE: u8 = 0;
const RANGE: u8 = 1;
const LIST: u8 = 2;

/// The blocks of an object, read one by one from bytes.
#[derive(Debug, Clone)]
pub struct Manifest<'a> {
    rest: &'a [u8],
    left: u32,
    rank: usize,
}

/// Some fragments of one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block<'a> {
    /// The chunk.
    pub chunk: ChunkCoords,
    /// Its fragments.
    pub fragments: FragmentRef<'a>,
}

impl Block<'static> {
    /// A block in the dense form: the chunk, then the fragment.
    pub fn of_row(row: &[i64]) -> PayloadResult<Self> {
        let (fragment, chunk) = row.split_last().map_or((&0, &[][..]), |row| row);
        let fragment = natural(*fragment, || "a fragment of a manifest".to_owned())?;
        Ok(Self { chunk: chunk.into(), fragments: FragmentRef::Single(fragment) })
    }
}

/// Numbers of fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FragmentRef<'a> {
    /// One fragment.
    Single(u64),
    /// `count` fragments from `start` on.
    Range {
        /// The first.
        start: u64,
        /// How many.
        count: u64,
    },
    /// Fragments one by one, as stored: numbers of 64 bits.
    List(&'a [u8]),
}

impl FragmentRef<'_> {
    /// How many fragments these are.
    pub fn len(&self) -> u64 {
        match self {
            Self::Single(_) => 1,
            Self::Range { count, .. } => *count,
            Self::List(bytes) => bytes.len() as u64 / 8,
        }
    }

    /// Whether these are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands the number of each fragment to `each`, in order, as long as it answers `Ok`.
    ///
    /// A range may claim more fragments than exist anywhere: the first that `each` refuses ends it.
    pub fn try_for_each<E>(&self, mut each: impl FnMut(u64) -> Result<(), E>) -> Result<(), E> {
        match self {
            Self::Single(fragment) => each(*fragment),
            Self::Range { start, count } => (*start..start + count).try_for_each(each),
            // Their signs have been checked.
            Self::List(bytes) => i64s(bytes).try_for_each(|fragment| each(fragment as u64)),
        }
    }
}

impl<'a> Manifest<'a> {
    /// Begins to read a row. No bytes at all are a manifest without blocks.
    pub fn parse(bytes: &'a [u8], rank: usize) -> PayloadResult<Self> {
        let mut rest = bytes;
        let left = if bytes.is_empty() { 0 } else { take_u32(&mut rest, "the number of blocks")? };
        Ok(Self { rest, left, rank })
    }

    /// The next block; `None` after the last.
    pub fn next_block(&mut self) -> PayloadResult<Option<Block<'a>>> {
        if self.left == 0 {
            let extra = self.rest.len() as u64;
            return if extra == 0 {
                Ok(None)
            } else {
                Err(PayloadError::Trailing { what: "the blocks of a manifest", extra })
            };
        }
        let rest = &mut self.rest;
        let chunk = take(rest, self.rank as u64 * 8, "the chunk of a block")?;
        let chunk = i64s(chunk).collect();
        let [mode] = take_array(rest, "the mode of a block")?;
        let what = || "a fragment of a manifest".to_owned();
        let fragments = match mode {
            SINGLE => FragmentRef::Single(natural(take_i64(rest, "a block")?, what)?),
            RANGE => {
                let start = natural(take_i64(rest, "a block")?, what)?;
                let count = natural(take_i64(rest, "a block")?, what)?;
                FragmentRef::Range { start, count }
            }
            LIST => {
                let count = take_u32(rest, "a block")?;
                let list = take(rest, u64::from(count) * 8, "the fragments of a block")?;
                i64s(list).try_for_each(|fragment| natural(fragment, what).map(|_| ()))?;
                FragmentRef::List(list)
            }
            _ => {
                return Err(PayloadError::Number {
                    what: "the mode of a block".to_owned(),
                    value: mode.into(),
                    rule: "neither 0, 1 nor 2",
                });
            }
        };
        self.left -= 1;
        Ok(Some(Block { chunk, fragments }))
    }
}

/// Appends a row of `object_index/manifests` to `out`.
pub fn encode_manifest(blocks: &[Block<'_>], out: &mut Vec<u8>) -> PayloadResult<()> {
    let too_many = |what, actual: usize| PayloadError::TooMany {
        what,
        actual: actual as u64,
        limit: u32::MAX.into(),
    };
    let count =
        u32::try_from(blocks.len()).map_err(|_| too_many("blocks of an object", blocks.len()))?;
    out.extend(count.to_le_bytes());
    for block in blocks {
        for coord in &block.chunk {
            out.extend(coord.to_le_bytes());
        }
        match &block.fragments {
            FragmentRef::Single(fragment) => {
                out.push(SINGLE);
                out.extend(row_number(*fragment)?.to_le_bytes());
            }
            FragmentRef::Range { start, count } => {
                out.push(RANGE);
                out.extend(row_number(*start)?.to_le_bytes());
                out.extend(row_number(*count)?.to_le_bytes());
            }
            FragmentRef::List(list) => {
                let fragments = list.len() / 8;
                let count = u32::try_from(fragments)
                    .map_err(|_| too_many("fragments of a block", fragments))?;
                out.push(LIST);
                out.extend(count.to_le_bytes());
                out.extend_from_slice(list);
            }
        }
    }
    Ok(())
}

/// One row of the dense form: which blocks an object has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManifestRows {
    /// The first block.
    pub start: u64,
    /// How many.
    pub count: u64,
}

impl ManifestRows {
    /// Reads a row of `object_index/manifest_spans`, of an index with `blocks` blocks.
    pub fn parse(span: [i64; 2], blocks: u64) -> PayloadResult<Self> {
        let start = natural(span[0], || "the first block of an object".to_owned())?;
        let count = natural(span[1], || "the number of blocks of an object".to_owned())?;
        // Both are below 2^63.
        if start + count > blocks && count > 0 {
            return Err(PayloadError::TooMany {
                what: "blocks up to the last of an object",
                actual: start + count,
                limit: blocks,
            });
        }
        Ok(Self { start, count })
    }
}
