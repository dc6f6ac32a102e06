//! Sorted rows, in memory or in a file.

use super::growing::SortedRun;
use super::spool::{Spool, SpoolFile};
use crate::GeometryError;

/// Bytes of a group in a file: its key and the number of its rows.
const GROUP: usize = 24;

/// Bytes written at a time.
const WRITTEN: usize = 1 << 20;

/// The rows of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    pub key: u128,
    pub rows: u64,
}

/// A run in a file: the rows, then the groups that they form.
pub(super) struct SpilledRun {
    pub width: usize,
    pub file: Box<dyn SpoolFile>,
    pub groups_at: u64,
    pub end: u64,
}

impl SortedRun {
    /// Appends rows `at..at + count` of the order to `out`.
    pub fn copy(&self, at: usize, count: usize, out: &mut Vec<u8>) {
        let width = self.width;
        let Some(order) = &self.order else {
            out.extend_from_slice(&self.rows[at * width..(at + count) * width]);
            return;
        };
        for &row in &order[at..at + count] {
            let start = row as usize * width;
            out.extend_from_slice(&self.rows[start..start + width]);
        }
    }

    pub fn spill(self, spool: &dyn Spool) -> Result<SpilledRun, GeometryError> {
        let mut file = spool.create().map_err(GeometryError::Spool)?;
        let count = self.rows.len().checked_div(self.width).unwrap_or(0);
        let step = (WRITTEN / self.width.max(1)).max(1);
        let mut buffer = Vec::with_capacity(WRITTEN + self.width);
        for at in (0..count).step_by(step) {
            buffer.clear();
            self.copy(at, step.min(count - at), &mut buffer);
            file.append(&buffer).map_err(GeometryError::Spool)?;
        }
        for groups in self.groups.chunks(WRITTEN / GROUP) {
            buffer.clear();
            for group in groups {
                buffer.extend(group.key.to_le_bytes());
                buffer.extend(group.rows.to_le_bytes());
            }
            file.append(&buffer).map_err(GeometryError::Spool)?;
        }
        let groups_at = self.rows.len() as u64;
        let end = groups_at + (self.groups.len() * GROUP) as u64;
        Ok(SpilledRun { width: self.width, file, groups_at, end })
    }
}

/// A part of a file that is read from its beginning to its end.
pub(super) struct Window {
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    used: usize,
    size: usize,
}

impl Window {
    fn new(at: u64, end: u64, size: usize) -> Self {
        Self { at, end, buffer: Vec::new(), used: 0, size }
    }

    fn is_empty(&self) -> bool {
        self.used == self.buffer.len() && self.at == self.end
    }

    /// Appends the next `len` bytes to `out`.
    fn take(
        &mut self,
        file: &dyn SpoolFile,
        mut len: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), GeometryError> {
        while len > 0 {
            if self.used == self.buffer.len() {
                let next = (self.size as u64).min(self.end - self.at) as usize;
                if next == 0 {
                    let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                    return Err(GeometryError::Spool(short));
                }
                self.buffer.resize(next, 0);
                file.read_at(self.at, &mut self.buffer).map_err(GeometryError::Spool)?;
                self.at += next as u64;
                self.used = 0;
            }
            let left = &self.buffer[self.used..];
            let taken = &left[..left.len().min(usize::try_from(len).unwrap_or(usize::MAX))];
            out.extend_from_slice(taken);
            self.used += taken.len();
            len -= taken.len() as u64;
        }
        Ok(())
    }
}

/// Reads a run from its beginning to its end.
pub(super) enum RunReader {
    Memory { run: SortedRun, group: usize, row: usize },
    File { width: usize, file: Box<dyn SpoolFile>, rows: Window, groups: Window },
}

impl RunReader {
    pub fn of_file(run: SpilledRun, buffer: usize) -> Self {
        let SpilledRun { width, file, groups_at, end } = run;
        // A whole number of groups, so that none is split.
        let groups = Window::new(groups_at, end, (buffer / 4 / GROUP).max(1) * GROUP);
        let rows = Window::new(0, groups_at, buffer.max(width));
        Self::File { width, file, rows, groups }
    }

    pub fn of_memory(run: SortedRun) -> Self {
        Self::Memory { run, group: 0, row: 0 }
    }

    /// The next group; `None` after the last.
    pub fn next_group(&mut self) -> Result<Option<Group>, GeometryError> {
        match self {
            Self::Memory { run, group, .. } => {
                let found = run.groups.get(*group).copied();
                *group += 1;
                Ok(found)
            }
            Self::File { groups, .. } if groups.is_empty() => Ok(None),
            Self::File { file, groups, .. } => {
                let mut bytes = Vec::with_capacity(GROUP);
                groups.take(&**file, GROUP as u64, &mut bytes)?;
                let key = bytes.first_chunk::<16>().copied().unwrap_or_default();
                let rows = bytes.last_chunk::<8>().copied().unwrap_or_default();
                Ok(Some(Group { key: u128::from_le_bytes(key), rows: u64::from_le_bytes(rows) }))
            }
        }
    }

    /// Appends the rows of the group that was read last.
    pub fn take_rows(&mut self, count: u64, out: &mut Vec<u8>) -> Result<(), GeometryError> {
        match self {
            Self::Memory { run, row, .. } => {
                // No more than there are rows in memory.
                run.copy(*row, count as usize, out);
                *row += count as usize;
                Ok(())
            }
            Self::File { width, file, rows, .. } => rows.take(&**file, count * *width as u64, out),
        }
    }

    pub fn width(&self) -> usize {
        match self {
            Self::Memory { run, .. } => run.width,
            Self::File { width, .. } => *width,
        }
    }
}
