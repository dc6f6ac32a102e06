//! Pieces of paths: the rows of an object that follow each other in a chunk.

use super::cells::RowForm;
use super::invalid;
use super::objects::{Limits, id_of, key_of, too_many_pieces};
use crate::GeometryError;
use crate::sort::{Merge, Sorter, Spool};

/// Bytes of a run: its chunk and its number.
const RUN: usize = 24;

/// Numbers runs of rows as they come: a new one with each object and each chunk.
///
/// Rows of other objects may come between those of a path, so that a piece of it may be several
/// runs.
pub(super) struct PathRuns<'a> {
    last: Option<(i64, u128)>,
    run: u64,
    /// Whether no object can have come twice, because ids never got smaller.
    ascending: bool,
    /// By object: the chunk of a run, and its number.
    runs: Sorter<'a>,
    spool: &'a dyn Spool,
    memory: u64,
}

impl<'a> PathRuns<'a> {
    pub fn new(spool: &'a dyn Spool, memory: u64) -> Self {
        let runs = Sorter::new(spool, RUN, memory);
        Self { last: None, run: 0, ascending: true, runs, spool, memory }
    }

    /// The run that the next row belongs to.
    pub fn next(&mut self, object: i64, chunk: u128) -> Result<u64, GeometryError> {
        if self.last == Some((object, chunk)) {
            return Ok(self.run);
        }
        if let Some((before, _)) = self.last.replace((object, chunk)) {
            self.run += 1;
            self.ascending &= before <= object;
        }
        let mut record = [0; RUN];
        record[..16].copy_from_slice(&chunk.to_le_bytes());
        record[16..].copy_from_slice(&self.run.to_le_bytes());
        self.runs.push(key_of(object), &record)?;
        Ok(self.run)
    }

    /// Which runs belong to an earlier one; `None` if all are pieces of their own.
    pub fn join(self, limits: &Limits<'_>) -> Result<Option<JoinedRuns>, GeometryError> {
        if self.ascending {
            return Ok(None);
        }
        let mut joined = Sorter::new(self.spool, 16, self.memory);
        let (mut merge, mut records) = (self.runs.merge(), Vec::new());
        while let Some(object) = next_runs(&mut merge, &mut records, limits)? {
            (limits.check)()?;
            let mut piece: Option<(u128, u64)> = None;
            for record in records.chunks_exact(RUN) {
                let (chunk, run) = (first(record), last(record));
                match piece {
                    Some((same, begin)) if same == chunk => {
                        let mut record = [0; 16];
                        record[..8].copy_from_slice(&run.to_le_bytes());
                        record[8..].copy_from_slice(&begin.to_le_bytes());
                        joined.push(chunk, &record)?;
                    }
                    _ => piece = Some((chunk, run)),
                }
            }
            if piece.is_none() {
                return Err(invalid(format!("object {object}"), "has no rows"));
            }
        }
        drop(merge);
        let mut joined = JoinedRuns { merge: joined.merge(), chunk: None, records: Vec::new() };
        joined.advance(limits)?;
        Ok(Some(joined))
    }
}

fn next_runs(
    merge: &mut Merge,
    records: &mut Vec<u8>,
    limits: &Limits<'_>,
) -> Result<Option<i64>, GeometryError> {
    let next = merge.next_group(records, limits.most).map_err(too_many_pieces)?;
    Ok(next.map(id_of))
}

fn first(record: &[u8]) -> u128 {
    record.first_chunk::<16>().map_or(0, |bytes| u128::from_le_bytes(*bytes))
}

fn last(record: &[u8]) -> u64 {
    record.last_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// By chunk: the runs that belong to an earlier one.
pub(super) struct JoinedRuns {
    merge: Merge,
    /// The next chunk that has any, and its runs with the first one of each.
    chunk: Option<u128>,
    records: Vec<u8>,
}

impl JoinedRuns {
    fn advance(&mut self, limits: &Limits<'_>) -> Result<(), GeometryError> {
        self.chunk = self.merge.next_group(&mut self.records, limits.most)?;
        Ok(())
    }

    /// Gives the rows of a chunk the number of the first run of their piece. Chunks ascend.
    pub fn apply(
        &mut self,
        chunk: u128,
        rows: &mut [u8],
        form: &RowForm,
        limits: &Limits<'_>,
    ) -> Result<(), GeometryError> {
        if self.chunk != Some(chunk) {
            return Ok(());
        }
        let run_of = |record: &[u8; 16]| {
            (record.first_chunk::<8>().map_or(0, |run| u64::from_le_bytes(*run)), last(record))
        };
        let mut runs: Vec<(u64, u64)> =
            self.records.as_chunks::<16>().0.iter().map(run_of).collect();
        runs.sort_unstable();
        for row in rows.chunks_exact_mut(form.width.max(1)) {
            if let Ok(at) = runs.binary_search_by_key(&form.segment(row), |(run, _)| *run) {
                form.set_segment(row, runs[at].1);
            }
        }
        self.advance(limits)
    }
}
