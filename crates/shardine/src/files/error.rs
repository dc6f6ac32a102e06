use std::io;
use std::path::Path;

use super::NpyError;
use super::raw_variable::RawError;
use super::stored_type::TypeError;

/// Why a file of elements cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// An I/O error on a file.
    #[error("{name}: {source}")]
    Io {
        /// Which file.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Writing elements to a stream failed, or its reader has gone away.
    #[error("cannot write the elements: {source}")]
    Stream {
        /// The error of the system.
        source: io::Error,
    },
    /// A stream could not be copied to a temporary file, from which it can be read box by box.
    #[error("cannot keep the input in a temporary file: {source}")]
    Spool {
        /// The error of the system.
        source: io::Error,
    },
    /// The path is a folder.
    #[error("{name}: is a folder")]
    Folder {
        /// Where.
        name: String,
    },
    /// A path that does not end in a file name.
    #[error("{name}: is not the name of a file")]
    NoName {
        /// The path.
        name: String,
    },
    /// Something already exists there and must not be replaced.
    #[error("{name} already exists")]
    Exists {
        /// What.
        name: String,
    },
    /// All candidate names for a temporary file are taken.
    #[error("{name}: cannot create a temporary file next to it")]
    NoTemporary {
        /// The file that it was to become.
        name: String,
    },
    /// The header of a `.npy` file is not legal.
    #[error("{name}: {source}")]
    Npy {
        /// Which file.
        name: String,
        /// What is wrong with it.
        source: NpyError,
    },
    /// The shape of the file is not that of the region.
    #[error("{name}: has shape {}, but the region has {}", shown(found), shown(wanted))]
    Shape {
        /// Which file.
        name: String,
        /// Its shape.
        found: Vec<u64>,
        /// The shape of the region.
        wanted: Vec<u64>,
    },
    /// The file does not hold planes of an array.
    #[error("{name}: has shape {}, but planes of the array have {}", shown(found), shown(plane))]
    PlaneShape {
        /// Which file.
        name: String,
        /// Its shape.
        found: Vec<u64>,
        /// The shape of a plane.
        plane: Vec<u64>,
    },
    /// The elements of the file are not those of the array.
    #[error("{name}: {source}")]
    Type {
        /// Which file.
        name: String,
        /// How they differ.
        source: TypeError,
    },
    /// Raw bytes do not say what they are, so they cannot be converted.
    #[error("{name}: raw bytes have no recorded type, so they cannot be converted")]
    CastOfRaw {
        /// Which file.
        name: String,
    },
    /// The file is shorter or longer than its header says.
    #[error("{name}: has {actual} bytes, but its header says {}", counted(*expected))]
    HeaderLength {
        /// Which file.
        name: String,
        /// Its bytes.
        actual: u64,
        /// The bytes expected; `None` if the number overflows.
        expected: Option<u64>,
    },
    /// The file is shorter or longer than the region.
    #[error(
        "{name}: has {actual} bytes, but the region ({} of {data_type}) has {}", shown(shape), counted(*expected)
    )]
    RawLength {
        /// Which file.
        name: String,
        /// Its bytes.
        actual: u64,
        /// The bytes expected; `None` if the number overflows.
        expected: Option<u64>,
        /// The shape of the region.
        shape: Vec<u64>,
        /// The type of its elements.
        data_type: String,
        /// Whether it begins like a `.npy` file although its name does not say so.
        looks_like_npy: bool,
    },
    /// The file does not hold whole planes.
    #[error(
        "{name}: has {found} {unit}, which is {} with {} {unit} left over; a plane ({} of \
         {data_type}) has {plane_has}",
        planes(*found, *plane_has),
        found.checked_rem(*plane_has).unwrap_or(*found),
        shown(plane)
    )]
    Planes {
        /// Which file.
        name: String,
        /// What it has.
        found: u64,
        /// Bytes or elements.
        unit: &'static str,
        /// What a plane has.
        plane_has: u64,
        /// The shape of a plane.
        plane: Vec<u64>,
        /// The type of its elements.
        data_type: String,
        /// Whether it begins like a `.npy` file although its name does not say so.
        looks_like_npy: bool,
    },
    /// The variable-length elements of a file do not match the region.
    #[error("{name}: {source}")]
    Raw {
        /// Which file.
        name: String,
        /// How they differ.
        source: RawError,
    },
    /// No file can hold this many elements.
    #[error("{name}: no file can hold {} elements of {data_type}", shown(shape))]
    TooMany {
        /// Which file.
        name: String,
        /// The shape of the region.
        shape: Vec<u64>,
        /// The type of its elements.
        data_type: String,
    },
    /// A `.npy` file cannot hold variable-length elements.
    #[error("a .npy file cannot hold {data_type}, whose elements vary in length")]
    VariableInNpy {
        /// The type of the elements.
        data_type: String,
    },
    /// The region is too large for any file.
    #[error("a region of {} elements is too large for a file", shown(shape))]
    TooLarge {
        /// Its shape.
        shape: Vec<u64>,
    },
    /// More memory was requested for elements than can be addressed.
    #[error("a buffer of {bytes} bytes exceeds the address space")]
    Memory {
        /// The bytes requested.
        bytes: u64,
    },
    /// Strings in a raw file are separated by NUL, so none may contain one.
    #[error(
        "string {element} of the region contains a NUL, which would end the string in the raw form"
    )]
    Nul {
        /// The number of the string, in C order.
        element: u64,
    },
    /// In a raw file, each element is preceded by its length in 32 bits.
    #[error("an element of {bytes} bytes is too long for the raw form")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
}

impl FileError {
    pub(crate) fn io(name: impl Into<String>, source: io::Error) -> Self {
        Self::Io { name: name.into(), source }
    }

    pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        let name = path.display().to_string();
        move |source| Self::io(name.clone(), source)
    }

    /// What to do next, if there is anything to suggest.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Spool { .. } => "set TMPDIR to choose the folder for temporary files",
            Self::Exists { .. } => "choose another name, or overwrite the existing file",
            Self::CastOfRaw { .. } => "use a .npy file, or do not convert",
            Self::RawLength { looks_like_npy: true, .. }
            | Self::Planes { looks_like_npy: true, .. } => {
                "it starts like a .npy file; only files whose names end in .npy are read as one"
            }
            Self::VariableInNpy { .. } => {
                "give the output another name, such as out.raw, to get raw bytes"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// A shape for display: `512 x 1024`.
pub(crate) fn shown(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "()".to_owned();
    }
    let lengths: Vec<String> = shape.iter().map(u64::to_string).collect();
    lengths.join(" x ")
}

/// The number of elements, saturating.
pub(crate) fn elements(shape: &[u64]) -> u64 {
    if shape.contains(&0) {
        return 0;
    }
    shape.iter().fold(1u64, |n, &length| n.saturating_mul(length))
}

fn counted(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "more than 2^64".to_owned(), |bytes| bytes.to_string())
}

fn planes(found: u64, plane: u64) -> String {
    match found.checked_div(plane).unwrap_or(0) {
        1 => "1 plane".to_owned(),
        n => format!("{n} planes"),
    }
}
