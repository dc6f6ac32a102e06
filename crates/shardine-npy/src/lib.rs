//! The header of a `.npy` file: the type and shape of the data, and where it begins.

mod literal;

use std::io::{self, Read};

use literal::Literal;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Far above any real header; enough for a type with thousands of fields.
const MAX_HEADER: usize = 1 << 20;

/// numpy itself stops at 64.
const MAX_RANK: usize = 64;

/// What a `.npy` file says about its elements.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The type of its elements.
    pub descr: Descr,
    /// Whether the first axis varies fastest.
    pub fortran: bool,
    /// The length of each axis.
    pub shape: Vec<u64>,
    /// Where the elements begin.
    pub data_start: u64,
}

/// numpy's name of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Descr {
    /// `<u2`
    Plain(String),
    /// The named fields of a struct.
    Fields(Vec<(String, Descr)>),
}

/// Why a file cannot be read as `.npy`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// It cannot be read.
    #[error("{0}")]
    Io(io::Error),
    /// It ends before its first element.
    #[error("ends inside its .npy header")]
    Truncated,
    /// It is something else, or damaged.
    #[error("is not a .npy file: {0}")]
    Format(String),
}

impl From<io::Error> for NpyError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Io(error),
        }
    }
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, NpyError> {
    Err(NpyError::Format(reason.into()))
}

/// Whether a file that begins like this is meant to be `.npy`.
pub fn is_npy(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC)
}

impl Header {
    /// Reads the header, of any version, and stops at the first element.
    pub fn read(file: &mut dyn Read) -> Result<Self, NpyError> {
        let mut start = [0; 8];
        file.read_exact(&mut start)?;
        let [magic @ .., major, minor] = start;
        if magic != *MAGIC {
            return refuse("it does not start like one");
        }
        let mut length = [0; 4];
        let length_bytes = match major {
            1 => 2,
            2 | 3 => 4,
            _ => return refuse(format!("its version {major}.{minor} is not supported")),
        };
        file.read_exact(&mut length[..length_bytes])?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_HEADER {
            return refuse(format!("its header of {length} bytes is too long"));
        }
        let mut text = vec![0; length];
        file.read_exact(&mut text)?;
        let text = match String::from_utf8(text) {
            Ok(text) => text,
            // Before version 3 the header was Latin-1.
            Err(error) if major < 3 => error.as_bytes().iter().map(|&b| char::from(b)).collect(),
            Err(_) => return refuse("its header is not UTF-8"),
        };
        let header = literal::parse(&text).map_err(NpyError::Format)?;
        Self::from_literal(&header, (8 + length_bytes + length) as u64)
    }

    fn from_literal(header: &Literal, data_start: u64) -> Result<Self, NpyError> {
        let Literal::Dict(members) = header else { return refuse("its header is not a dict") };
        let member = |name: &str| {
            let mut found = members.iter().filter(|(key, _)| key == name);
            match (found.next(), found.next()) {
                (Some((_, value)), None) => Ok(value),
                (None, _) => refuse(format!("its header has no '{name}'")),
                (Some(_), Some(_)) => refuse(format!("its header has '{name}' twice")),
            }
        };
        let Literal::Bool(fortran) = *member("fortran_order")? else {
            return refuse("'fortran_order' is neither True nor False");
        };
        let Literal::Sequence(lengths) = member("shape")? else {
            return refuse("'shape' is not a tuple");
        };
        if lengths.len() > MAX_RANK {
            return refuse(format!("it has {} dimensions", lengths.len()));
        }
        let mut shape = Vec::with_capacity(lengths.len());
        for length in lengths {
            let Literal::Integer(length) = *length else {
                return refuse("'shape' holds something other than lengths");
            };
            shape.push(length);
        }
        Ok(Self { descr: descr(member("descr")?)?, fortran, shape, data_start })
    }

    /// The bytes of a version 1.0 header (2.0 if the type's name is very long) in C order.
    ///
    /// Its length is a multiple of 64, so that the elements are aligned when the file is mapped.
    pub fn bytes(descr: &str, shape: &[u64]) -> Vec<u8> {
        Self::bytes_with_room(descr, shape, 0)
    }

    /// The same for an array that grows: the header is as long for any length of the first axis, so
    /// it can be written first and replaced once that length is known.
    pub fn bytes_of_growing(descr: &str, shape: &[u64]) -> Vec<u8> {
        let digits = |n: u64| n.checked_ilog10().map_or(1, |log| log as usize + 1);
        let room = shape.first().map_or(0, |&rows| digits(u64::MAX) - digits(rows));
        Self::bytes_with_room(descr, shape, room)
    }

    fn bytes_with_room(descr: &str, shape: &[u64], room: usize) -> Vec<u8> {
        let mut lengths: String = shape.iter().map(|n| format!("{n}, ")).collect();
        // A tuple of one needs its comma, others need none at the end.
        lengths.truncate(lengths.len().saturating_sub(if shape.len() == 1 { 1 } else { 2 }));
        let quote = if descr.starts_with('[') { "" } else { "'" };
        let text = format!(
            "{{'descr': {quote}{descr}{quote}, 'fortran_order': False, 'shape': ({lengths}), }}"
        );
        let (major, length_bytes) = if text.len() + room < 65_000 { (1, 2) } else { (2, 4) };
        let before = MAGIC.len() + 2 + length_bytes;
        let padded = (before + text.len() + room + 1).next_multiple_of(64) - before;
        let mut bytes = MAGIC.to_vec();
        bytes.extend([major, 0]);
        bytes.extend(&(padded as u32).to_le_bytes()[..length_bytes]);
        bytes.extend(text.as_bytes());
        bytes.resize(before + padded - 1, b' ');
        bytes.push(b'\n');
        bytes
    }
}

impl Descr {
    /// The name as it stands in a header: `<u2`, or a list of fields.
    pub fn parse(text: &str) -> Result<Self, NpyError> {
        if text.starts_with('[') {
            return descr(&literal::parse(text).map_err(NpyError::Format)?);
        }
        Ok(Self::Plain(text.to_owned()))
    }
}

impl std::fmt::Display for Descr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(name) => f.write_str(name),
            Self::Fields(fields) => {
                f.write_str("[")?;
                for (i, (name, descr)) in fields.iter().enumerate() {
                    write!(f, "{}{name}: {descr}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Recursion is bounded by the nesting of the literal.
fn descr(literal: &Literal) -> Result<Descr, NpyError> {
    match literal {
        Literal::Text(name) => Ok(Descr::Plain(name.clone())),
        Literal::Sequence(fields) => fields
            .iter()
            .map(|field| match field {
                Literal::Sequence(parts) => match &parts[..] {
                    [Literal::Text(name), inner] => Ok((name.clone(), descr(inner)?)),
                    _ => refuse("a field of its type is not a name and a type"),
                },
                _ => refuse("a field of its type is not a pair"),
            })
            .collect::<Result<_, _>>()
            .map(Descr::Fields),
        _ => refuse("'descr' is not the name of a type"),
    }
}

#[cfg(test)]
mod tests;
