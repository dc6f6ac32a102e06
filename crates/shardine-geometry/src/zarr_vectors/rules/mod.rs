//! The rules of Zarr Vectors: what of a cell, a list or a document contradicts the format or the
//! rest of the store. Nothing here reads a store.
//!
//! Each function appends what it finds to a list. One cell gives at most one violation of each
//! sort, with the number of places and the first of them, so that a damaged cell with a million
//! links costs one line.

mod attributes;
mod corrections;
mod documents;
mod links;
mod lists;
mod table;
mod vertices;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

pub use attributes::{AttributeRules, attribute};
pub use corrections::Correction;
pub use documents::{LevelNames, is_other_version, judge_level, judge_root};
pub use links::{LinkRules, judge_links, judge_sidecar};
pub use lists::{ChunkList, judge_list};
pub use table::{ChunkFragments, ChunkTable, Unowned};
pub use vertices::{Extent, VertexRules, judge_fragments};

/// What a broken rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleKind {
    /// A document that contradicts the format, or an array that must be there and is not.
    Metadata,
    /// `nonempty_chunks`, which is not what is stored.
    ChunkList,
    /// Positions that are cut off, or lie in another chunk.
    Vertices,
    /// Fragments of rows that do not exist, or rows of no fragment.
    Fragments,
    /// Attributes with another number of rows than what they describe, or unknown codes.
    Attributes,
    /// Links that are cut off, or lead to nothing.
    Links,
    /// Ids and manifests that contradict each other or the fragments.
    Objects,
    /// A list of chunks that is missing.
    NoList,
    /// A count that is lower than what is stored.
    Counts,
    /// A count that is higher than what is stored: something may be lost.
    Missing,
    /// Bounds that leave vertices out.
    Bounds,
    /// What is allowed, but looks wrong.
    Doubtful,
}

/// A rule that is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What it is about.
    pub kind: RuleKind,
    /// What is wrong, with numbers; does not name the array or the chunk.
    pub message: String,
}

impl Violation {
    /// A count that says another number than is stored; `None` if it does not.
    pub fn of_count(what: &str, said: u64, stored: u64) -> Option<Self> {
        let kind = match said.cmp(&stored) {
            Ordering::Less => RuleKind::Counts,
            Ordering::Equal => return None,
            Ordering::Greater => RuleKind::Missing,
        };
        Some(Self::new(kind, format!("{what} is {said}, but {stored} are stored")))
    }

    /// A violation of a rule.
    pub fn new(kind: RuleKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// Counts places of one sort, and keeps the first in words.
#[derive(Debug, Default)]
struct Places {
    count: u64,
    first: String,
}

impl Places {
    fn add(&mut self, first: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = first();
        }
        self.count += 1;
    }

    /// Appends a violation if there is a place: the first, and how many more there are.
    fn tell(self, kind: RuleKind, out: &mut Vec<Violation>) {
        let message = match self.count {
            0 => return,
            1 => self.first,
            count => format!("{}; and {} more like it", self.first, count - 1),
        };
        out.push(Violation::new(kind, message));
    }
}
