//! Runs in one order.

use super::growing::GrowingRun;
use super::run::{Group, RunReader, SpilledRun};
use crate::GeometryError;

/// The least and the most bytes read of a run at a time.
const LEAST_BUFFER: usize = 64 << 10;
const MOST_BUFFER: usize = 1 << 20;

/// Rows in the order of their keys; those with the same key in the order in which they came.
pub struct Merge {
    /// In the order in which their rows came, each with the group that comes next.
    runs: Vec<(RunReader, Option<Group>)>,
    begun: bool,
}

impl Merge {
    pub(super) fn new(spilled: Vec<SpilledRun>, last: GrowingRun, memory: usize) -> Self {
        let share = memory / 2 / spilled.len().max(1);
        let buffer = share.clamp(LEAST_BUFFER, MOST_BUFFER);
        let files = spilled.into_iter().map(|run| RunReader::of_file(run, buffer));
        let last = RunReader::of_memory(last.sort());
        let runs = files.chain([last]).map(|run| (run, None)).collect();
        Self { runs, begun: false }
    }

    /// Replaces the contents of `rows` with the rows of the next key; `None` after the last.
    ///
    /// Rows of more than `most` bytes are refused before they are read.
    pub fn next_group(
        &mut self,
        rows: &mut Vec<u8>,
        most: u64,
    ) -> Result<Option<u128>, GeometryError> {
        rows.clear();
        if !self.begun {
            self.begun = true;
            for (run, next) in &mut self.runs {
                *next = run.next_group()?;
            }
        }
        let next = self.runs.iter().filter_map(|(_, next)| next.as_ref());
        let Some(key) = next.map(|group| group.key).min() else { return Ok(None) };
        let of_key = |next: &Option<Group>| next.filter(|group| group.key == key);
        let bytes = self.runs.iter().filter_map(|(run, next)| {
            of_key(next).map(|group| group.rows.saturating_mul(run.width() as u64))
        });
        let bytes = bytes.fold(0u64, u64::saturating_add);
        if bytes > most {
            return Err(GeometryError::GroupTooLarge { key, bytes, most });
        }
        for (run, next) in &mut self.runs {
            if let Some(group) = of_key(next) {
                run.take_rows(group.rows, rows)?;
                *next = run.next_group()?;
            }
        }
        Ok(Some(key))
    }
}
