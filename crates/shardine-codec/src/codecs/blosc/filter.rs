//! Reorders elements before compression, as c-blosc does.

use super::header::{BIT_SHUFFLED, BYTE_SHUFFLED};
use super::output;
use crate::codecs::shuffle::shuffle;

/// How the elements of a block are reordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    None,
    /// The first bytes of all elements, then the second bytes, and so on.
    Bytes,
    /// The lowest bits of the first bytes of all elements, then the next bits, and so on.
    Bits,
}

impl Filter {
    /// Its flags in a header.
    pub(super) fn flags(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Bytes => BYTE_SHUFFLED,
            Self::Bits => BIT_SHUFFLED,
        }
    }

    /// The reordered bytes of `block`: in `scratch`, which is at least as long, or `block`
    /// unchanged.
    ///
    /// Bytes of `block` after its last whole element stay in place. Bits are not shuffled if the
    /// number of elements is not a multiple of 8.
    pub(super) fn apply<'a>(
        self,
        block: &'a [u8],
        type_size: usize,
        scratch: &'a mut [u8],
    ) -> &'a [u8] {
        let count = block.len() / type_size.max(1);
        let unchanged = match self {
            Self::None => true,
            Self::Bytes => type_size <= 1,
            Self::Bits => !count.is_multiple_of(8),
        };
        let (elements, rest) = block.split_at(count * type_size);
        let Some(scratch) = scratch.get_mut(..block.len()) else { return block };
        if unchanged || elements.is_empty() {
            return block;
        }
        let (out, end) = scratch.split_at_mut(elements.len());
        end.copy_from_slice(rest);
        match self {
            Self::Bits => bit_shuffle(elements, type_size, out),
            _ => shuffle(elements, type_size, output::as_uninit(out)),
        }
        scratch
    }
}

/// Gathers the bits of the elements in `input`, a multiple of 8, by their position in the element.
fn bit_shuffle(input: &[u8], type_size: usize, out: &mut [u8]) {
    let count = input.len() / type_size;
    for (byte, plane) in out.chunks_exact_mut(count).enumerate() {
        let mut rows = plane.chunks_exact_mut(count / 8);
        let mut rows: [&mut [u8]; 8] = std::array::from_fn(|_| rows.next().unwrap_or_default());
        for (i, elements) in input.chunks_exact(8 * type_size).enumerate() {
            let column = std::array::from_fn(|element| elements[element * type_size + byte]);
            for (row, bits) in rows.iter_mut().zip(transpose(column)) {
                row[i] = bits;
            }
        }
    }
}

/// Bit `i` of byte `j` becomes bit `j` of byte `i`.
fn transpose(bytes: [u8; 8]) -> [u8; 8] {
    let mut bits = u64::from_le_bytes(bytes);
    // Squares of 1, 2 and 4 bits on a side are swapped across the diagonal.
    for (shift, squares) in
        [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)]
    {
        let moved = (bits ^ (bits >> shift)) & squares;
        bits ^= moved ^ (moved << shift);
    }
    bits.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_of_bits_is_mirrored() {
        for i in 0..64 {
            let mut bytes = [0; 8];
            bytes[i / 8] = 1 << (i % 8);
            let mut mirrored = [0; 8];
            mirrored[i % 8] = 1 << (i / 8);
            assert_eq!(transpose(bytes), mirrored);
        }
    }

    #[test]
    fn bits_of_a_number_of_elements_that_is_no_multiple_of_8_stay() {
        let block: Vec<u8> = (0..65).collect();
        let mut scratch = [0; 65];
        assert_eq!(Filter::Bits.apply(&block[..26], 2, &mut scratch), &block[..26]);
        assert_ne!(Filter::Bits.apply(&block, 4, &mut scratch), block);
        assert_eq!(scratch[64], 64, "what is left keeps its place");
    }
}
