//! Lines of text files, of bounded length.

use std::io::{self, BufRead, BufReader, Read};

use super::invalid;
use crate::GeometryError;

/// The longest line, or row with quoted line breaks, that is read: far above any real one.
pub(super) const MAX_LINE: usize = 1 << 20;

/// The lines of a text file.
pub(super) struct Lines<R> {
    format: &'static str,
    input: BufReader<R>,
    line: Vec<u8>,
    number: u64,
}

impl<R: Read> Lines<R> {
    pub fn new(format: &'static str, input: R) -> Self {
        Self {
            format,
            input: BufReader::with_capacity(1 << 16, input),
            line: Vec::new(),
            number: 0,
        }
    }

    /// The number of the last line, counted from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// An error in the last line.
    pub fn wrong(&self, reason: impl Into<String>) -> GeometryError {
        invalid(self.format, format!("line {}", self.number), reason)
    }

    /// The next line without white space around it; `None` after the last.
    pub fn next(&mut self) -> Result<Option<&str>, GeometryError> {
        self.line.clear();
        let taken =
            (&mut self.input).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut self.line)?;
        if taken == 0 {
            return Ok(None);
        }
        self.number += 1;
        if taken > MAX_LINE {
            return Err(self.wrong(format!("it is longer than {MAX_LINE} bytes")));
        }
        match std::str::from_utf8(&self.line) {
            Ok(line) => Ok(Some(line.trim())),
            Err(_) => Err(self.wrong("it is not text in UTF-8")),
        }
    }

    /// What follows the last line, as bytes.
    pub fn rest(&mut self) -> &mut BufReader<R> {
        &mut self.input
    }
}

/// Gives bytes until a row takes more than [`MAX_LINE`].
///
/// A quote that is never closed would otherwise take the rest of the file into one row.
pub(super) struct BoundedRows<R> {
    pub input: R,
    left: usize,
}

impl<R> BoundedRows<R> {
    pub fn new(input: R) -> Self {
        Self { input, left: MAX_LINE }
    }

    /// A row has ended.
    pub fn reset(&mut self) {
        self.left = MAX_LINE;
    }
}

impl<R: Read> Read for BoundedRows<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let reason = format!("a row is longer than {MAX_LINE} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let wanted = buffer.len().min(self.left);
        let taken = self.input.read(&mut buffer[..wanted])?;
        self.left -= taken;
        Ok(taken)
    }
}
