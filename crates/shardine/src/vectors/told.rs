//! What a query found out about a store beside its rows.

use super::error::VectorsError;
use super::store::wrong;
use crate::{Error, Location};

/// A chunk that an array lists, and for which nothing is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbsentChunk {
    /// The array, by its path in the store: `0/vertices`.
    pub array: String,
    /// The chunk: `-1.0.3`.
    pub chunk: String,
}

/// Collects what is worth knowing. In a strict query a contradiction is an error.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) notes: Vec<String>,
    pub(super) absent: Vec<AbsentChunk>,
    pub(super) strict: bool,
    store: Location,
}

impl Told {
    pub(super) fn new(store: &Location, strict: bool) -> Self {
        Self { notes: Vec::new(), absent: Vec::new(), strict, store: store.clone() }
    }

    /// Something that is no fault of the store.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Parts of the store that contradict each other, which the answer makes up for as far as that
    /// is possible.
    pub(super) fn contradiction(&mut self, reason: impl Into<String>) -> Result<(), Error> {
        let reason = reason.into();
        if self.strict {
            return Err(wrong(&self.store, VectorsError::Strict(reason)));
        }
        self.note(reason);
        Ok(())
    }

    /// A chunk that `array` lists, and for which nothing is stored.
    pub(super) fn absent(&mut self, array: &str, chunk: String) -> Result<(), Error> {
        if self.strict {
            let reason = format!("{array} lists chunk {chunk}, for which nothing is stored");
            return Err(wrong(&self.store, VectorsError::Strict(reason)));
        }
        self.absent.push(AbsentChunk { array: array.to_owned(), chunk });
        Ok(())
    }

    /// Notes how many chunks are absent, of each array that lists some.
    pub(super) fn sum_up(&mut self) {
        const NAMED: usize = 3;
        let mut sums = Vec::new();
        for own in self.absent.chunk_by(|a, b| a.array == b.array) {
            let Some(first) = own.first() else { continue };
            let named: Vec<&str> = own.iter().take(NAMED).map(|one| one.chunk.as_str()).collect();
            let more = if own.len() > NAMED { ", …" } else { "" };
            let chunks = if own.len() == 1 { "chunk" } else { "chunks" };
            sums.push(format!(
                "{} lists {} {chunks} for which nothing is stored: {}{more}",
                first.array,
                own.len(),
                named.join(", ")
            ));
        }
        sums.into_iter().for_each(|sum| self.note(sum));
    }
}
