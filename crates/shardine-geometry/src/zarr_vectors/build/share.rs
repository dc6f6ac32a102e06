//! The chunks of one process, of several that build a store together.
//!
//! Each sees all rows, and keeps those of its own chunks. Of the others it keeps what objects and
//! links need: the number of a row, its object, the piece of its path. Without any of these, only
//! the chunk counts.

use foldhash::HashMap;

use super::cells::RowForm;
use super::objects::Limits;
use super::space::Space;
use crate::GeometryError;
use crate::sort::{Merge, Sorter, Spool};

/// Whether a chunk is put together by this process.
type Own<'a> = dyn Fn(&[i64]) -> bool + 'a;

/// Which chunks are put together.
pub(super) struct Share<'a> {
    own: Box<Own<'a>>,
    /// Every chunk so far, and whether it is one of them.
    known: HashMap<u128, bool>,
    /// The rows of other chunks, without coordinates and attributes.
    others: Option<Sorter<'a>>,
    last: Option<(u128, bool)>,
}

impl<'a> Share<'a> {
    pub fn new(own: Box<Own<'a>>, form: &RowForm, spool: &'a dyn Spool, memory: u64) -> Self {
        let others = (form.coordinates > 0).then(|| Sorter::new(spool, form.coordinates, memory));
        Self { own, known: HashMap::default(), others, last: None }
    }

    /// Whether a chunk is one of this process's; remembers that there is such a chunk.
    pub fn takes(&mut self, key: u128, space: &Space) -> bool {
        if let Some((_, own)) = self.last.filter(|(last, _)| *last == key) {
            return own;
        }
        let own = *self.known.entry(key).or_insert_with(|| (self.own)(&space.chunk(key)));
        self.last = Some((key, own));
        own
    }

    /// Adds a row of a chunk that another process puts together.
    pub fn push_other(&mut self, key: u128, row: &[u8]) -> Result<(), GeometryError> {
        match &mut self.others {
            Some(others) => others.push(key, row.get(..others.width()).unwrap_or(row)),
            None => Ok(()),
        }
    }

    /// The rows of other chunks, and what is known of all chunks.
    pub fn finish(self) -> (Option<Merge>, AllChunks) {
        (self.others.map(Sorter::merge), AllChunks(self.known))
    }
}

/// All chunks that have vertices, and whether each is put together here.
pub(super) struct AllChunks(HashMap<u128, bool>);

impl AllChunks {
    /// In ascending order.
    pub fn keys(&self) -> Vec<u128> {
        let mut keys: Vec<u128> = self.0.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    pub fn is_own(&self, key: u128) -> bool {
        self.0.get(&key) == Some(&true)
    }
}

/// The rows of a chunk.
pub(super) struct ChunkRows {
    pub key: u128,
    pub rows: Vec<u8>,
    /// Whether they are whole: those of a chunk that is put together here.
    pub own: bool,
}

/// The rows of all chunks, chunk by chunk in ascending order.
pub(super) struct EachChunk {
    own: Ahead,
    others: Option<Ahead>,
}

/// Rows with those of the next chunk at hand.
struct Ahead {
    merge: Merge,
    key: Option<u128>,
    rows: Vec<u8>,
}

/// Reads the rows of the next chunk.
type NextChunk<'n> =
    dyn Fn(&mut Merge, &mut Vec<u8>, &Limits<'_>) -> Result<Option<u128>, GeometryError> + 'n;

impl Ahead {
    fn new(merge: Merge) -> Self {
        Self { merge, key: None, rows: Vec::new() }
    }

    fn step(&mut self, limits: &Limits<'_>, next: &NextChunk<'_>) -> Result<(), GeometryError> {
        self.key = next(&mut self.merge, &mut self.rows, limits)?;
        Ok(())
    }
}

impl EachChunk {
    pub fn new(
        own: Merge,
        others: Option<Merge>,
        limits: &Limits<'_>,
        next: &NextChunk<'_>,
    ) -> Result<Self, GeometryError> {
        let mut chunks = Self { own: Ahead::new(own), others: others.map(Ahead::new) };
        chunks.own.step(limits, next)?;
        if let Some(others) = &mut chunks.others {
            others.step(limits, next)?;
        }
        Ok(chunks)
    }

    /// Replaces the rows in `chunk` with those of the next chunk; `false` after the last.
    pub fn next(
        &mut self,
        chunk: &mut ChunkRows,
        limits: &Limits<'_>,
        next: &NextChunk<'_>,
    ) -> Result<bool, GeometryError> {
        let other = self.others.as_ref().and_then(|others| others.key);
        // A chunk is the one or the other.
        chunk.own = match (self.own.key, other) {
            (None, None) => return Ok(false),
            (Some(own), Some(other)) => own < other,
            (own, _) => own.is_some(),
        };
        let ahead = match &mut self.others {
            Some(others) if !chunk.own => others,
            _ => &mut self.own,
        };
        chunk.key = ahead.key.unwrap_or_default();
        std::mem::swap(&mut chunk.rows, &mut ahead.rows);
        ahead.step(limits, next)?;
        Ok(true)
    }
}
