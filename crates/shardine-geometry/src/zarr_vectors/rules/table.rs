//! What is known of all chunks of a level: how many rows and fragments each has, and which of the
//! fragments belong to objects.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::zarr_vectors::{Block, ChunkCoords, FragmentIndex, FragmentRef, chunk_key};

/// The chunks of a level. Takes some dozens of bytes for each chunk, and a bit for each fragment.
#[derive(Debug, Default)]
pub struct ChunkTable {
    chunks: HashMap<ChunkCoords, Chunk, FixedState>,
    fragments: u64,
    /// Whether there may be chunks that are not in it.
    partial: bool,
    /// The fragments that have rows and that no object has had so far; `None` if nothing has to
    /// belong to an object, or there are too many.
    unowned: Option<Vec<u64>>,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    rows: Option<u64>,
    /// How many fragments, and the number of the first among all; `None` if that is not known.
    fragments: Option<(u64, u64)>,
}

/// The fragments of a chunk.
#[derive(Debug, Clone, Copy)]
pub enum ChunkFragments<'a> {
    /// These.
    Known(&'a FragmentIndex<'a>),
    /// None.
    Missing,
    /// Some that could not be read.
    Unknown,
}

/// Fragments that belong to no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unowned {
    /// How many.
    pub count: u64,
    /// The first: its chunk, and its number there.
    pub first: (ChunkCoords, u64),
}

impl ChunkTable {
    /// A table of no chunks. With `owners`, it is known in the end which fragments have none.
    pub fn new(owners: bool) -> Self {
        Self { unowned: owners.then(Vec::new), ..Self::default() }
    }

    /// Adds a chunk with as many rows, `None` if that could not be found out, and its fragments.
    pub fn add(&mut self, chunk: ChunkCoords, rows: Option<u64>, fragments: ChunkFragments<'_>) {
        let first = self.fragments;
        let fragments = match fragments {
            ChunkFragments::Unknown => None,
            ChunkFragments::Missing => Some((0, first)),
            ChunkFragments::Known(index) => {
                self.add_fragments(index);
                Some((index.len() as u64, first))
            }
        };
        self.chunks.insert(chunk, Chunk { rows, fragments });
    }

    fn add_fragments(&mut self, index: &FragmentIndex<'_>) {
        let end = self.fragments + index.len() as u64;
        if let Some(unowned) = &mut self.unowned {
            unowned.resize(usize::try_from(end.div_ceil(64)).unwrap_or(usize::MAX), 0);
            for (bit, fragment) in (self.fragments..).zip(index.iter()) {
                if !fragment.is_empty()
                    && let Some(word) = unowned.get_mut((bit / 64) as usize)
                {
                    *word |= 1 << (bit % 64);
                }
            }
        }
        self.fragments = end;
    }

    /// Says that some chunks could not be looked at, so that one that is not in the table may be
    /// there.
    pub fn set_partial(&mut self) {
        self.partial = true;
    }

    /// How many rows a chunk has: 0 if there is no such chunk, `None` if that is not known.
    pub fn rows(&self, chunk: &ChunkCoords) -> Option<u64> {
        let missing = if self.partial { None } else { Some(0) };
        self.chunks.get(chunk).map_or(missing, |chunk| chunk.rows)
    }

    /// How many fragments all chunks have.
    pub fn fragments(&self) -> u64 {
        self.fragments
    }

    /// Forgets which fragments have owners, so that nothing is said of it.
    pub fn forget_owners(&mut self) {
        self.unowned = None;
    }

    /// Takes the fragments of a block for an object; what is wrong with it, in words. A range costs
    /// a 64th of its fragments, as many blocks may have all of them.
    pub fn take(&mut self, block: &Block<'_>) -> Result<(), String> {
        let name = || chunk_key(&block.chunk);
        let Some(chunk) = self.chunks.get(&block.chunk) else {
            if self.partial {
                return Ok(());
            }
            return Err(format!("it has chunk {}, which is not stored", name()));
        };
        // Damage of the fragments is reported where they are.
        let Some((count, first)) = chunk.fragments else { return Ok(()) };
        let wrong = |fragment: u64| {
            Err(format!("it has fragment {fragment} of chunk {}, which has {count}", name()))
        };
        let words = self.unowned.as_deref_mut().unwrap_or_default();
        match block.fragments {
            FragmentRef::Range { count: 0, .. } => Ok(()),
            FragmentRef::Range { start, count: len } => match start.checked_add(len) {
                Some(end) if end <= count => {
                    take_bits(words, first + start, first + end);
                    Ok(())
                }
                _ => wrong(start.max(count)),
            },
            fragments => fragments.try_for_each(|fragment| match fragment < count {
                true => {
                    take_bits(words, first + fragment, first + fragment + 1);
                    Ok(())
                }
                false => wrong(fragment),
            }),
        }
    }

    /// The fragments with rows that were not taken; `None` if all were, or it is not known.
    pub fn unowned(&self) -> Option<Unowned> {
        let words = self.unowned.as_ref()?;
        let count = words.iter().map(|word| u64::from(word.count_ones())).sum();
        let (at, word) = (0u64..).zip(words).find(|(_, word)| **word != 0)?;
        let bit = at * 64 + u64::from(word.trailing_zeros());
        let of = self.chunks.iter().find_map(|(chunk, facts)| {
            let (count, first) = facts.fragments?;
            (first..first + count).contains(&bit).then(|| (chunk.clone(), bit - first))
        });
        Some(Unowned { count, first: of? })
    }
}

/// Clears the bits from `start` to before `end`.
fn take_bits(words: &mut [u64], start: u64, end: u64) {
    let place = |bit: u64| usize::try_from(bit / 64).unwrap_or(usize::MAX);
    let (first, last) = (place(start), place(end));
    // The bits of a word that come before a bit.
    let before = |bit: u64| (1u64 << (bit % 64)) - 1;
    if first == last {
        if let Some(word) = words.get_mut(first) {
            *word &= before(start) | !before(end);
        }
        return;
    }
    if let Some(word) = words.get_mut(first) {
        *word &= before(start);
    }
    if let Some(word) = words.get_mut(last) {
        *word &= !before(end);
    }
    let last = last.min(words.len());
    if let Some(between) = words.get_mut(first.saturating_add(1)..last) {
        between.fill(0);
    }
}
