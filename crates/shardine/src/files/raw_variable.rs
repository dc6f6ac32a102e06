//! Variable-length elements in raw files: strings joined by NUL, bytes preceded by their length.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;

use shardine_codec::strided::Placement;
use shardine_codec::{DataType, Kind, VariableElements};

use super::{FileError, elements};
use crate::source::{Source, SourceError};

/// How elements are delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A NUL between one string and the next.
    Nul,
    /// A little-endian u32 before each.
    Length,
}

impl Framing {
    pub fn of(data_type: &DataType) -> Self {
        match data_type.kind() {
            Kind::Text => Self::Nul,
            _ => Self::Length,
        }
    }
}

/// Writes elements in the raw form, part after part.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    framing: Framing,
    written: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W, framing: Framing) -> Self {
        Self { out, framing, written: 0 }
    }

    /// Adds elements; `failed` says which output an error belongs to.
    pub fn add(
        &mut self,
        elements: &VariableElements,
        failed: &dyn Fn(io::Error) -> FileError,
    ) -> Result<(), FileError> {
        for element in elements.iter() {
            match self.framing {
                Framing::Nul => {
                    if element.contains(&0) {
                        return Err(FileError::Nul { element: self.written });
                    }
                    if self.written > 0 {
                        self.out.write_all(&[0]).map_err(failed)?;
                    }
                }
                Framing::Length => {
                    let len = u32::try_from(element.len())
                        .map_err(|_| FileError::TooLong { bytes: element.len() })?;
                    self.out.write_all(&len.to_le_bytes()).map_err(failed)?;
                }
            }
            self.out.write_all(element).map_err(failed)?;
            self.written += 1;
        }
        Ok(())
    }

    /// The output, with all elements in it.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// What is wrong with a raw file of variable-length elements.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RawError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It has too many.
    #[error("holds more than the {wanted} elements of the region")]
    More {
        /// The number of elements expected.
        wanted: u64,
    },
    /// It has too few.
    #[error("holds {found} elements, but the region has {wanted}")]
    Fewer {
        /// The number of elements found.
        found: u64,
        /// The number of elements expected.
        wanted: u64,
    },
    /// It ends where a length should be.
    #[error("ends inside the length of element {element}")]
    InLength {
        /// The number of the element.
        element: u64,
    },
    /// It ends before an element does.
    #[error("ends inside element {element}, which has {bytes} bytes")]
    InElement {
        /// The number of the element.
        element: u64,
        /// Its length.
        bytes: u32,
    },
}

/// A raw file as the source of a write. Keeps the positions of the elements in memory, not the
/// elements.
#[derive(Debug)]
pub struct VariableFile {
    file: File,
    /// Where each element begins and ends.
    places: Vec<(u64, u64)>,
    shape: Vec<u64>,
}

impl VariableFile {
    /// Finds the elements of a region of this shape; the error says what is wrong with the file.
    pub fn new(file: File, framing: Framing, shape: &[u64]) -> Result<Self, RawError> {
        let wanted = elements(shape);
        let mut places = Vec::new();
        // Stops after as many as are wanted, so that memory is bounded by the region and not by the
        // file.
        let mut take = |start, end| {
            if places.len() as u64 >= wanted {
                return Err(RawError::More { wanted });
            }
            places.push((start, end));
            Ok(())
        };
        match framing {
            Framing::Nul => split_strings(&file, wanted > 0, &mut take)?,
            Framing::Length => split_lengths(&file, &mut take)?,
        }
        if places.len() as u64 != wanted {
            return Err(RawError::Fewer { found: places.len() as u64, wanted });
        }
        Ok(Self { file, places, shape: shape.to_vec() })
    }
}

/// Called with the start and end of each element found; an error ends the search.
type Take<'a> = &'a mut dyn FnMut(u64, u64) -> Result<(), RawError>;

/// The number of elements in the rest of a file. A file without bytes has none.
pub fn count(file: &File, framing: Framing) -> Result<u64, RawError> {
    let mut found = 0;
    let mut take = |_, _| {
        found += 1;
        Ok(())
    };
    match framing {
        Framing::Nul => split_strings(file, false, &mut take)?,
        Framing::Length => split_lengths(file, &mut take)?,
    }
    Ok(found)
}

/// `some` says whether a file without bytes is one empty string or none.
fn split_strings(file: &File, some: bool, take: Take<'_>) -> Result<(), RawError> {
    let (mut start, mut at) = (0, 0);
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut block = vec![0; 1 << 16];
    loop {
        let n = reader.read(&mut block)?;
        if n == 0 {
            break;
        }
        for &byte in &block[..n] {
            if byte == 0 {
                take(start, at)?;
                start = at + 1;
            }
            at += 1;
        }
    }
    // What follows the last NUL is a string too.
    if at > 0 || some {
        take(start, at)?;
    }
    Ok(())
}

fn split_lengths(file: &File, take: Take<'_>) -> Result<(), RawError> {
    let end = file.metadata()?.len();
    let (mut at, mut number) = (0, 0_u64);
    let mut reader = BufReader::with_capacity(1 << 16, file);
    while at < end {
        let mut length = [0; 4];
        reader.read_exact(&mut length).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => RawError::InLength { element: number },
            _ => RawError::Io(error),
        })?;
        let length = u32::from_le_bytes(length);
        let start = at + 4;
        at = start + u64::from(length);
        if at > end {
            return Err(RawError::InElement { element: number, bytes: length });
        }
        reader.seek_relative(i64::from(length))?;
        take(start, at)?;
        number += 1;
    }
    Ok(())
}

impl Source for VariableFile {
    fn copy_box(
        &self,
        _: &[u64],
        _: &[u64],
        _: &mut [u8],
        _: &Placement,
    ) -> Result<(), SourceError> {
        Err("the file holds elements of variable length".into())
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        let mut out = VariableElements::new();
        let count = elements(shape);
        // Rows of the last axis are contiguous in the file and are read in one call.
        let row = shape.last().copied().unwrap_or(1).max(1);
        let mut bytes = Vec::new();
        for i in (0..count).step_by(usize::try_from(row)?) {
            let (mut i, mut at, mut stride) = (i, 0u64, 1u64);
            for k in (0..shape.len()).rev() {
                at += (start[k] + i % shape[k]) * stride;
                i /= shape[k];
                stride *= self.shape[k];
            }
            let places = usize::try_from(at)?..usize::try_from(at + row)?;
            let places = self.places.get(places).ok_or("the box lies outside the region")?;
            let (Some(&(first, _)), Some(&(_, last))) = (places.first(), places.last()) else {
                continue;
            };
            bytes.resize(usize::try_from(last - first)?, 0);
            self.file.read_exact_at(&mut bytes, first)?;
            for &(from, to) in places {
                out.push(&bytes[(from - first) as usize..(to - first) as usize]);
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> File {
        use std::io::Seek;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    fn all(framing: Framing, bytes: &[u8], shape: &[u64]) -> Result<VariableElements, RawError> {
        let source = VariableFile::new(file(bytes), framing, shape)?;
        Ok(source.variable_box(&vec![0; shape.len()], shape).unwrap())
    }

    fn written(framing: Framing, elements: &[&str]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), framing);
        for part in elements.chunks(2) {
            writer.add(&part.iter().collect(), &|source| FileError::Stream { source }).unwrap();
        }
        writer.into_inner()
    }

    #[test]
    fn what_is_written_part_by_part_is_read_back() {
        let elements = ["a", "", "ccc", "dd", "", ""];
        assert_eq!(written(Framing::Nul, &elements), b"a\0\0ccc\0dd\0\0");
        for framing in [Framing::Nul, Framing::Length] {
            let bytes = written(framing, &elements);
            let expected: VariableElements = elements.iter().collect();
            assert_eq!(all(framing, &bytes, &[2, 3]).unwrap(), expected);
            let source = VariableFile::new(file(&bytes), framing, &[2, 3]).unwrap();
            let column = source.variable_box(&[0, 2], &[2, 1]).unwrap();
            assert_eq!(column, ["ccc", ""].iter().collect());
        }
    }

    #[test]
    fn one_empty_string_and_none_at_all_are_both_an_empty_file() {
        assert_eq!(all(Framing::Nul, b"", &[1]).unwrap(), [""].iter().collect());
        assert_eq!(all(Framing::Nul, b"", &[0]).unwrap(), VariableElements::new());
    }

    #[test]
    fn a_wrong_number_of_elements_is_refused() {
        for (framing, bytes, shape) in [
            (Framing::Nul, &b"a\0b"[..], [3]),
            (Framing::Nul, b"a\0b\0c", [2]),
            (Framing::Nul, b"a", [0]),
            (Framing::Length, b"\x01\0\0\0a", [2]),
            (Framing::Length, b"\x01\0\0\0a", [0]),
            (Framing::Length, b"\xff\xff\xff\xffa", [1]),
            (Framing::Length, b"\x01\0\0", [1]),
        ] {
            assert!(all(framing, bytes, &shape).is_err(), "{bytes:?} {shape:?}");
        }
    }

    #[test]
    fn a_string_with_a_nul_in_it_is_refused() {
        let mut writer = Writer::new(Vec::new(), Framing::Nul);
        let elements = ["a\0b"].iter().collect();
        assert!(writer.add(&elements, &|source| FileError::Stream { source }).is_err());
    }
}
