use super::Label;
use super::blocks::{Block, Grid};

/// The number of hash slots that a block starts with; most blocks have few labels.
const SLOTS: usize = 64;

/// The number of indices packed together.
const GROUP: usize = 8;

/// The labels of one block and the index of each element among them.
///
/// Indices are bytes as long as that suffices; only a block of noise needs more.
#[derive(Default)]
pub(super) struct BlockLabels<L> {
    /// In the order in which they were found, later sorted.
    labels: Vec<L>,
    bytes: Vec<u8>,
    words: Vec<u32>,
    /// Positions of labels by their hash, plus one.
    slots: Vec<u32>,
    order: Vec<(L, u32)>,
    ranks: Vec<u32>,
}

/// An index of a label.
trait Index: Copy + Default {
    /// How many labels can be distinguished.
    const MOST: usize;

    fn from_usize(index: usize) -> Self;

    /// Replaces each index by its rank.
    fn rank(indices: &mut [Self], ranks: &[u32]);
}

impl Index for u8 {
    const MOST: usize = 256;

    fn from_usize(index: usize) -> Self {
        index as u8
    }

    fn rank(indices: &mut [Self], ranks: &[u32]) {
        if ranks.len() == 2 {
            return indices.iter_mut().for_each(|index| *index ^= 1);
        }
        // One entry for every byte value, so that no index needs a check.
        let mut all = [0; 256];
        all.iter_mut().zip(ranks).for_each(|(to, &rank)| *to = rank as u8);
        indices.iter_mut().for_each(|index| *index = all[usize::from(*index)]);
    }
}

impl Index for u32 {
    const MOST: usize = u32::MAX as usize;

    fn from_usize(index: usize) -> Self {
        index as u32
    }

    fn rank(indices: &mut [Self], ranks: &[u32]) {
        indices.iter_mut().for_each(|index| *index = ranks[*index as usize]);
    }
}

impl<L: Label> BlockLabels<L> {
    /// Finds the labels of a block that has `volume` elements, including those outside the chunk.
    pub(super) fn collect(
        &mut self,
        grid: &Grid,
        block: Block,
        volume: usize,
        channel: &[L::Bytes],
    ) {
        self.labels.clear();
        let Some(&first) = channel.get(block.start) else { return };
        let first = L::get(first);
        self.labels.push(first);
        let uniform = grid
            .each_row(block, |_, start, width| is_uniform(&channel[start..start + width], first));
        if uniform {
            return;
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        let fits = self.scan(grid, block, volume, channel, &mut bytes);
        self.bytes = bytes;
        if !fits {
            let mut words = std::mem::take(&mut self.words);
            self.scan(grid, block, volume, channel, &mut words);
            self.words = words;
        }
    }

    /// The labels, ascending.
    pub(super) fn table(&self) -> &[L] {
        &self.labels
    }

    /// Bits of an index.
    pub(super) fn bits(&self) -> usize {
        match self.labels.len() {
            0..=1 => 0,
            2 => 1,
            3..=4 => 2,
            5..=16 => 4,
            17..=256 => 8,
            257..=65536 => 16,
            _ => 32,
        }
    }

    /// Writes the indices of all elements to `out`.
    pub(super) fn pack(&self, out: &mut [u8]) {
        match self.bits() {
            0 => {}
            1 => pack_bits::<1>(&self.bytes, out),
            2 => pack_bits::<2>(&self.bytes, out),
            4 => pack_bits::<4>(&self.bytes, out),
            8 => {
                out.iter_mut().zip(&self.bytes).for_each(|(out, &index)| *out = index);
            }
            16 => {
                for (out, &index) in out.as_chunks_mut().0.iter_mut().zip(&self.words) {
                    *out = (index as u16).to_le_bytes();
                }
            }
            _ => {
                for (out, &index) in out.as_chunks_mut().0.iter_mut().zip(&self.words) {
                    *out = index.to_le_bytes();
                }
            }
        }
    }

    /// Finds the labels and the index of each element; `false` if there are too many for such
    /// indices.
    fn scan<I: Index>(
        &mut self,
        grid: &Grid,
        block: Block,
        volume: usize,
        channel: &[L::Bytes],
        indices: &mut Vec<I>,
    ) -> bool {
        indices.clear();
        indices.resize(volume.next_multiple_of(GROUP), I::default());
        self.labels.truncate(1);
        self.hash_again(SLOTS);
        // The two labels seen last: most rows have no others, and need no search.
        let mut last = (self.labels[0], I::default());
        let mut other = last;
        let fits = grid.each_row(block, |in_block, start, width| {
            let from = &channel[start..start + width];
            let to = &mut indices[in_block..in_block + width];
            if index_two(from, to, last, other) {
                return true;
            }
            for (&label, to) in from.iter().zip(to) {
                let label = L::get(label);
                if label != last.0 {
                    let Some(found) = self.find(label, I::MOST) else { return false };
                    other = last;
                    last = (label, I::from_usize(found));
                }
                *to = last.1;
            }
            true
        });
        if fits && !self.labels.is_sorted() {
            self.sort();
            I::rank(&mut indices[..volume], &self.ranks);
        }
        fits
    }

    /// The position of a label, added at the end if it is new; `None` if there are `most` already.
    fn find(&mut self, label: L, most: usize) -> Option<usize> {
        match self.slot(label) {
            Ok(found) => Some(found),
            Err(_) if self.labels.len() == most => None,
            Err(free) => {
                self.labels.push(label);
                self.slots[free] = self.labels.len() as u32;
                if self.labels.len() > self.slots.len() / 4 {
                    self.hash_again(self.slots.len() * 4);
                }
                Some(self.labels.len() - 1)
            }
        }
    }

    /// The position of a known label, or the slot for a new one.
    #[inline]
    fn slot(&self, label: L) -> Result<usize, usize> {
        // The number of slots is a power of two, and some are free.
        let mask = self.slots.len() - 1;
        let hash = label.number().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut at = hash as usize & mask;
        loop {
            match self.slots[at] {
                0 => return Err(at),
                place if self.labels[place as usize - 1] == label => return Ok(place as usize - 1),
                _ => at = (at + 1) & mask,
            }
        }
    }

    fn hash_again(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize(slots, 0);
        for place in 0..self.labels.len() {
            if let Err(free) = self.slot(self.labels[place]) {
                self.slots[free] = place as u32 + 1;
            }
        }
    }

    /// Sorts the labels, and computes the new position of each.
    fn sort(&mut self) {
        self.order.clear();
        self.order.extend(self.labels.iter().copied().zip(0..));
        self.order.sort_unstable();
        self.ranks.clear();
        self.ranks.resize(self.labels.len(), 0);
        for (rank, &(label, place)) in self.order.iter().enumerate() {
            self.ranks[place as usize] = rank as u32;
            self.labels[rank] = label;
        }
    }
}

/// Gives each element of a row the index of one of two labels; `false` if it has others too.
#[inline(always)]
fn index_two<L: Label, I: Index>(
    from: &[L::Bytes],
    to: &mut [I],
    one: (L, I),
    two: (L, I),
) -> bool {
    let mut neither = false;
    for (&label, to) in from.iter().zip(to) {
        let label = L::get(label);
        let is_one = label == one.0;
        neither |= !is_one & (label != two.0);
        *to = if is_one { one.1 } else { two.1 };
    }
    !neither
}

/// Whether a whole row is `label`, without a branch per element.
fn is_uniform<B: Copy, L: Label<Bytes = B>>(row: &[B], label: L) -> bool {
    row.iter().fold(0, |differ, &other| differ | (L::get(other).number() ^ label.number())) == 0
}

/// Packs bytes of which `BITS` bits are used, 8 of them into `BITS` bytes.
fn pack_bits<const BITS: usize>(indices: &[u8], out: &mut [u8]) {
    // Each step joins pairs of fields, which halves their number.
    let field = |width: usize, every: usize| {
        let ones = (1u64 << width) - 1;
        (0..64 / every).fold(0, |mask, i| mask | ones << (i * every))
    };
    let (pairs, fours, all) = (field(2 * BITS, 16), field(4 * BITS, 32), field(8 * BITS % 64, 64));
    for (group, out) in indices.as_chunks::<GROUP>().0.iter().zip(out.chunks_mut(BITS)) {
        let mut fields = u64::from_le_bytes(*group);
        fields = (fields | fields >> (8 - BITS)) & pairs;
        fields = (fields | fields >> (16 - 2 * BITS)) & fours;
        fields = (fields | fields >> (32 - 4 * BITS)) & all;
        let packed = fields.to_le_bytes();
        out.copy_from_slice(&packed[..out.len()]);
    }
}
