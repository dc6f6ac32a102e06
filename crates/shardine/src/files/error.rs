use std::io;
use std::path::Path;

use super::npy::NpyError;
use super::raw_variable::RawError;
use super::stored_type::TypeError;

/// Why a file of elements cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system failed on a file.
    #[error("{name}: {source}")]
    Io {
        /// Which file.
        name: String,
        /// What it said.
        source: io::Error,
    },
    /// A stream that elements were written to has failed, or nobody reads from it any more.
    #[error("the elements cannot be written: {source}")]
    Stream {
        /// What it said.
        source: io::Error,
    },
    /// A stream could not be copied to a temporary file, from which it can be read box by box.
    #[error("cannot keep the input in a temporary file: {source}")]
    Spool {
        /// What the system said.
        source: io::Error,
    },
    /// There is a folder.
    #[error("{name}: is a folder")]
    Folder {
        /// Where.
        name: String,
    },
    /// A path that ends in nothing a file can be called by.
    #[error("{name}: is not the name of a file")]
    NoName {
        /// The path.
        name: String,
    },
    /// There is something already, and it is not to be replaced.
    #[error("{name} exists already")]
    Exists {
        /// What.
        name: String,
    },
    /// All names that were tried for a temporary file are taken.
    #[error("{name}: no temporary file can be made beside it")]
    NoTemporary {
        /// The file that it was to become.
        name: String,
    },
    /// The head of a `.npy` file is not legal.
    #[error("{name}: {source}")]
    Npy {
        /// Which file.
        name: String,
        /// What is wrong with it.
        source: NpyError,
    },
    /// The file has another shape than the region it is for.
    #[error("{name}: has the shape {}, the region {}", shown(found), shown(wanted))]
    Shape {
        /// Which file.
        name: String,
        /// Its shape.
        found: Vec<u64>,
        /// The shape of the region.
        wanted: Vec<u64>,
    },
    /// The file does not hold planes of an array.
    #[error("{name}: has the shape {}, planes of the array {}", shown(found), shown(plane))]
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
    #[error("{name}: raw bytes do not tell their type, so they cannot be converted")]
    CastOfRaw {
        /// Which file.
        name: String,
    },
    /// The file is shorter or longer than its head says.
    #[error("{name}: has {actual} bytes, its header says {}", counted(*expected))]
    HeaderLength {
        /// Which file.
        name: String,
        /// Its bytes.
        actual: u64,
        /// Those that are due; `None` if they cannot be counted.
        expected: Option<u64>,
    },
    /// The file is shorter or longer than the region it is for.
    #[error(
        "{name}: has {actual} bytes, the region ({} of {data_type}) {}", shown(shape), counted(*expected)
    )]
    RawLength {
        /// Which file.
        name: String,
        /// Its bytes.
        actual: u64,
        /// Those that are due; `None` if they cannot be counted.
        expected: Option<u64>,
        /// The shape of the region.
        shape: Vec<u64>,
        /// The type of its elements.
        data_type: String,
        /// Whether it begins like a `.npy` file, although it is not called like one.
        looks_like_npy: bool,
    },
    /// The file does not hold whole planes.
    #[error(
        "{name}: has {found} {unit}, which are {} and {} {unit} over; a plane ({} of {data_type}) has {plane_has}",
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
        /// Whether it begins like a `.npy` file, although it is not called like one.
        looks_like_npy: bool,
    },
    /// The elements of variable length in a file are not those of the region.
    #[error("{name}: {source}")]
    Raw {
        /// Which file.
        name: String,
        /// How they differ.
        source: RawError,
    },
    /// So many elements are in no file.
    #[error("{name}: {} elements of {data_type} are not in a file", shown(shape))]
    TooMany {
        /// Which file.
        name: String,
        /// The shape of the region.
        shape: Vec<u64>,
        /// The type of its elements.
        data_type: String,
    },
    /// A `.npy` file cannot hold elements of variable length.
    #[error("a .npy file cannot hold {data_type}, whose elements vary in length")]
    VariableInNpy {
        /// The type of the elements.
        data_type: String,
    },
    /// No file could hold a region.
    #[error("a region of {} elements is larger than a file can be", shown(shape))]
    TooLarge {
        /// Its shape.
        shape: Vec<u64>,
    },
    /// More memory is to be used for elements than there can be.
    #[error("a buffer of {bytes} bytes is larger than memory can be")]
    Memory {
        /// As asked for.
        bytes: u64,
    },
    /// Strings are joined by NUL in a raw file, so none may have one in it.
    #[error(
        "string {element} of the region holds a NUL, which the raw form cannot tell from the end of a string"
    )]
    Nul {
        /// The number of the string, in C order.
        element: u64,
    },
    /// The length of an element stands before it in a raw file, and has 32 bits.
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

    /// What to do next, where there is something to be said.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Spool { .. } => "TMPDIR names the folder for temporary files",
            Self::Exists { .. } => "choose another name, or overwrite the file that is there",
            Self::CastOfRaw { .. } => "give a .npy file, or do not convert",
            Self::RawLength { looks_like_npy: true, .. }
            | Self::Planes { looks_like_npy: true, .. } => {
                "it begins like a .npy file; only names that end in .npy are read as such"
            }
            Self::VariableInNpy { .. } => {
                "give the output another name, such as out.raw, to get raw bytes"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// A shape for people: `512 x 1024`.
pub(crate) fn shown(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "()".to_owned();
    }
    let lengths: Vec<String> = shape.iter().map(u64::to_string).collect();
    lengths.join(" x ")
}

/// The number of elements, or the highest number there is.
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
