//! `compressed_segmentation`: blocks of labels, each an index into a table of the block's labels.
//!
//! ```text
//! chunk    u32 per channel: where it starts | channels
//! channel  8 bytes per block, x fastest | tables and values in any order
//! block    u32: table | bits << 24, u32: values
//! ```
//!
//! Offsets are in 32-bit words, those of a block relative to the start of its channel.

mod blocks;
mod decode;
mod encode;
mod labels;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use serde_json::Value;

use super::{Sides, fixed};
use crate::codecs::config::Config;
use crate::{
    ArraySpec, ArrayToBytes, Codec, CodecError, Context, Elements, ElementsRef, EncodedSize,
};
use blocks::Grid;

const NAME: &str = "neuroglancer_compressed_segmentation";

/// Bytes of a word, the unit of all offsets.
const WORD: usize = 4;

/// Bytes of a block's header.
const HEADER: usize = 2 * WORD;

/// The most elements that a block may have when writing.
///
/// A block is stored whole even if little of it is inside the chunk, so its size alone could
/// exhaust memory.
const LARGEST_BLOCK: usize = 1 << 21;

pub(in crate::codecs) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["block_size"])?;
    let sides = config.required("block_size")?.as_array().filter(|sides| sides.len() == 3);
    let side = |value: &Value| {
        let side = value.as_u64().filter(|side| (1..=1 << 20).contains(side))?;
        usize::try_from(side).ok()
    };
    let sides: Option<Vec<usize>> = sides.and_then(|sides| sides.iter().map(side).collect());
    match sides.as_deref() {
        Some(&[x, y, z]) => Ok(Codec::ArrayToBytes(Arc::new(Segmentation { block: [z, y, x] }))),
        _ => Err(config.wrong("block_size", "three integers from 1 to 1048576")),
    }
}

/// Labels in blocks.
#[derive(Debug)]
struct Segmentation {
    /// The sides of a block: z, y, x.
    block: [usize; 3],
}

/// A label of 4 or 8 bytes, as it lies in memory.
trait Label: Copy + Eq + Ord + Hash + Default + Debug + Send + 'static {
    /// The bytes of a label.
    const SIZE: usize;

    /// As many bytes as a label has.
    type Bytes: Copy + Eq + Default + AsRef<[u8]>;

    /// Splits bytes into labels; bytes past the last whole one are left out.
    fn split(bytes: &[u8]) -> &[Self::Bytes];

    /// Like [`split`](Self::split), but mutable.
    fn split_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];

    /// The label with these bytes.
    fn get(bytes: Self::Bytes) -> Self;

    /// Its bytes.
    fn put(self) -> Self::Bytes;

    /// As a number.
    fn number(self) -> u64;
}

macro_rules! label {
    ($type:ty, $size:literal) => {
        impl Label for $type {
            const SIZE: usize = $size;
            type Bytes = [u8; $size];

            fn split(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }

            fn split_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
                bytes.as_chunks_mut().0
            }

            #[inline]
            fn get(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }

            #[inline]
            fn put(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline]
            fn number(self) -> u64 {
                u64::from(self)
            }
        }
    };
}

label!(u32, 4);
label!(u64, 8);

impl Segmentation {
    fn grid(&self, spec: &ArraySpec) -> Result<Grid, CodecError> {
        Ok(Grid::new(Sides::new(NAME, spec, &[32, 64])?, self.block))
    }
}

impl ArrayToBytes for Segmentation {
    fn check(&self, spec: &ArraySpec) -> Result<(), CodecError> {
        self.grid(spec).map(drop)
    }

    fn encode(
        &self,
        context: &mut Context,
        spec: &ArraySpec,
        elements: ElementsRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let grid = self.grid(spec)?;
        let elements = fixed(NAME, spec, elements)?;
        if spec.data_type.bits() == 32 {
            encode::encode::<u32>(context, &grid, elements, out)
        } else {
            encode::encode::<u64>(context, &grid, elements, out)
        }
    }

    fn decode(
        &self,
        context: &mut Context,
        spec: &ArraySpec,
        encoded: &[u8],
    ) -> Result<Elements, CodecError> {
        let grid = self.grid(spec)?;
        // A chunk of many blocks has many bytes, whatever it contains.
        decode::check_length(&grid, encoded)?;
        let mut elements = context.take_filled(spec.byte_len().unwrap_or_default())?;
        let decoded = if spec.data_type.bits() == 32 {
            decode::decode::<u32>(&grid, encoded, &mut elements)
        } else {
            decode::decode::<u64>(&grid, encoded, &mut elements)
        };
        match decoded {
            Ok(()) => Ok(Elements::Fixed(elements)),
            Err(reason) => {
                context.give_buffer(elements);
                Err(CodecError::corrupt(NAME, encoded.len(), reason))
            }
        }
    }

    /// Enough for blocks that share nothing and have 32-bit indices.
    fn encoded_size(&self, spec: &ArraySpec) -> EncodedSize {
        let bound = || {
            let grid = self.grid(spec).ok()?;
            let size = u64::from(spec.data_type.bits() / 8) + WORD as u64;
            let elements: u64 =
                self.block.iter().try_fold(size, |n, &side| n.checked_mul(side as u64))?;
            let channel = elements.checked_add(HEADER as u64)?.checked_mul(grid.blocks() as u64)?;
            channel.checked_add(WORD as u64)?.checked_mul(grid.sides.channels as u64)
        };
        bound().map_or(EncodedSize::Unbounded, EncodedSize::AtMost)
    }
}
