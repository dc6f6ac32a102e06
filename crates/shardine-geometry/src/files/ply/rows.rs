//! The values of elements, one after the other, in text or bytes.

use std::io::Read;

use super::PLY;
use super::header::{Encoding, Property, Scalar};
use crate::GeometryError;
use crate::files::columns::ColumnBuilder;
use crate::files::invalid;
use crate::files::lines::Lines;

/// Reads elements one by one.
pub(super) struct Rows<R> {
    lines: Lines<R>,
    encoding: Encoding,
    /// The line of the element, if it is text, and how much of it has been read.
    line: String,
    read: usize,
}

/// Where a value is: the name of its element, and its number among them from 0 on.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub element: &'a str,
    pub row: u64,
}

impl<R: Read> Rows<R> {
    pub fn new(lines: Lines<R>, encoding: Encoding) -> Self {
        Self { lines, encoding, line: String::new(), read: 0 }
    }

    /// An error in an element.
    pub fn wrong(&self, place: Place<'_>, reason: impl Into<String>) -> GeometryError {
        match self.encoding {
            Encoding::Ascii => self.lines.wrong(reason),
            _ => invalid(PLY, format!("{} {}", place.element, place.row), reason),
        }
    }

    /// Goes to the next element.
    pub fn begin(&mut self, place: Place<'_>) -> Result<(), GeometryError> {
        if self.encoding != Encoding::Ascii {
            return Ok(());
        }
        self.line.clear();
        self.read = 0;
        loop {
            match self.lines.next()? {
                Some("") => {}
                Some(line) => {
                    self.line.push_str(line);
                    return Ok(());
                }
                None => {
                    let place = format!("{} {}", place.element, place.row);
                    return Err(invalid(PLY, place, "the file ends before it"));
                }
            }
        }
    }

    /// An element has been read.
    pub fn end(&mut self, place: Place<'_>) -> Result<(), GeometryError> {
        match self.line[self.read..].trim_ascii().is_empty() {
            true => Ok(()),
            false => Err(self.wrong(place, "it has more values than properties")),
        }
    }

    fn word(&mut self) -> &str {
        let rest = &self.line[self.read..];
        let start = self.read + rest.len() - rest.trim_ascii_start().len();
        let rest = &self.line[start..];
        let length = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        self.read = start + length;
        &self.line[start..start + length]
    }

    fn bytes(&mut self, scalar: Scalar, place: Place<'_>) -> Result<[u8; 8], GeometryError> {
        let mut bytes = [0; 8];
        match self.lines.rest().read_exact(&mut bytes[..scalar.size()]) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.wrong(place, "the file ends inside it"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Adds the next value to a column.
    pub fn value(
        &mut self,
        scalar: Scalar,
        builder: &mut ColumnBuilder,
        place: Place<'_>,
    ) -> Result<(), GeometryError> {
        if self.encoding == Encoding::Ascii {
            let word = self.word();
            if builder.push_text(word) {
                return Ok(());
            }
            let reason = match word {
                "" => "it has fewer values than properties".to_owned(),
                word => format!("{word:?} is not of type {}", scalar.data_type()),
            };
            return Err(self.wrong(place, reason));
        }
        let bytes = self.bytes(scalar, place)?;
        builder.push_bytes(&bytes[..scalar.size()], self.encoding == Encoding::BigEndian);
        Ok(())
    }

    /// The next value, which must be an integer.
    fn integer(&mut self, scalar: Scalar, place: Place<'_>) -> Result<i64, GeometryError> {
        if self.encoding == Encoding::Ascii {
            let word = self.word();
            return match word.parse() {
                Ok(integer) => Ok(integer),
                Err(_) => {
                    let reason = format!("{word:?} is not an integer");
                    Err(self.wrong(place, reason))
                }
            };
        }
        let mut bytes = self.bytes(scalar, place)?;
        let size = scalar.size();
        if self.encoding == Encoding::BigEndian {
            bytes[..size].reverse();
        }
        let [a, b, c, d, ..] = bytes;
        Ok(match scalar {
            Scalar::Int8 => i8::from_le_bytes([a]).into(),
            Scalar::UInt8 => a.into(),
            Scalar::Int16 => i16::from_le_bytes([a, b]).into(),
            Scalar::UInt16 => u16::from_le_bytes([a, b]).into(),
            Scalar::Int32 => i32::from_le_bytes([a, b, c, d]).into(),
            Scalar::UInt32 => u32::from_le_bytes([a, b, c, d]).into(),
            Scalar::Float32 | Scalar::Float64 => {
                return Err(self.wrong(place, "a number of a vertex is a float"));
            }
        })
    }

    /// The next value, which is the number of one of so many vertices.
    pub fn vertex(
        &mut self,
        scalar: Scalar,
        vertices: u64,
        place: Place<'_>,
    ) -> Result<u64, GeometryError> {
        let number = self.integer(scalar, place)?;
        match u64::try_from(number).ok().filter(|row| *row < vertices) {
            Some(row) => Ok(row),
            None => {
                let reason = format!("there is no vertex {number}: there are {vertices}");
                Err(self.wrong(place, reason))
            }
        }
    }

    /// The length of the list that comes next.
    pub fn length(&mut self, scalar: Scalar, place: Place<'_>) -> Result<u64, GeometryError> {
        let length = self.integer(scalar, place)?;
        let reason = || self.wrong(place, format!("a list has {length} values"));
        u64::try_from(length).map_err(|_| reason())
    }

    /// Leaves a property out.
    pub fn skip(&mut self, property: &Property, place: Place<'_>) -> Result<(), GeometryError> {
        let count = match property.list {
            Some(length) => self.length(length, place)?,
            None => 1,
        };
        for _ in 0..count {
            if self.encoding != Encoding::Ascii {
                self.bytes(property.scalar, place)?;
            } else if self.word().is_empty() {
                return Err(self.wrong(place, "it has fewer values than properties"));
            }
        }
        Ok(())
    }
}
