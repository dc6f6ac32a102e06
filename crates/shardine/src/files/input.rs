//! Files whose elements go into an array: `.npy`, or raw bytes.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use shardine_codec::ElementSize;

use super::Header;
use super::array_file::{ArrayFile, FileLayout, Neighbours};
use super::raw_variable::{self, Framing, VariableFile};
use super::stored_type::{self, Conversion};
use super::{FileError, elements};
use crate::Array;
use crate::source::Source;

/// An open file, whose header has been read if it has one.
#[derive(Debug)]
pub struct Input {
    file: File,
    name: String,
    /// Of a `.npy` file.
    header: Option<Header>,
    /// Its path and metadata when it was opened; `None` for a spooled stream.
    found: Option<(PathBuf, Metadata)>,
}

/// Identifies a file, and detects that it has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FoundFile {
    /// Its path, with links resolved.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was last modified: seconds since 1970, with all digits.
    pub modified: String,
}

impl FoundFile {
    /// The file at a path, as it is now.
    pub fn of(path: &Path) -> Result<Self, FileError> {
        let metadata = path.metadata().map_err(FileError::at(path))?;
        Self::with(path, &metadata)
    }

    /// The file at a path, with this metadata.
    pub(crate) fn with(path: &Path, metadata: &Metadata) -> Result<Self, FileError> {
        let failed = FileError::at(path);
        let name = path.canonicalize().map_err(&failed)?.display().to_string();
        // A time before 1970 distinguishes files as well as any other.
        let modified = match metadata.modified().map_err(&failed)?.duration_since(UNIX_EPOCH) {
            Ok(after) => format!("{}.{:09}", after.as_secs(), after.subsec_nanos()),
            Err(before) => format!("-{}", before.duration().as_nanos()),
        };
        Ok(Self { name, bytes: metadata.len(), modified })
    }
}

/// Whether a file is `.npy` by its name.
pub fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "npy")
}

/// Whether a name is that of a file of elements: `.npy`, or raw bytes in `.raw` or `.bin`; `-`
/// stands for a stream of them. A URL never is.
pub fn is_element_file(name: &str) -> bool {
    let path = Path::new(name);
    let is_raw = || path.extension().is_some_and(|ending| ending == "raw" || ending == "bin");
    name == "-" || (!name.contains("://") && (is_npy(path) || is_raw()))
}

/// How the elements of a file become those of an array.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct InputOptions {
    /// Whether numbers of another type are converted.
    pub cast: bool,
    /// Up to this many bytes read along with a chunk are kept for its neighbours.
    pub memory: u64,
}

impl InputOptions {
    /// Converts nothing and keeps nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether numbers of another type are converted.
    pub fn cast(mut self, cast: bool) -> Self {
        self.cast = cast;
        self
    }

    /// Sets how many bytes are kept for neighbouring chunks.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }
}

impl Input {
    /// Opens a file: `.npy` by its name, otherwise raw bytes. Anything that cannot be read box by
    /// box, such as a pipe, is copied to a temporary file first.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let failed = FileError::at(path);
        let name = path.display().to_string();
        let mut file = File::open(path).map_err(&failed)?;
        let metadata = file.metadata().map_err(&failed)?;
        if metadata.is_dir() {
            return Err(FileError::Folder { name });
        }
        let found = metadata.is_file().then(|| (path.to_owned(), metadata));
        if found.is_none() {
            file = spooled(&mut file)?;
        }
        let header = match is_npy(path) {
            true => Some(
                Header::read(&mut io::BufReader::new(&mut file))
                    .map_err(|source| FileError::Npy { name: name.clone(), source })?,
            ),
            false => None,
        };
        Ok(Self { file, name, header, found })
    }

    /// Raw bytes from a stream, which is read to its end and kept in a temporary file. `name` is
    /// for messages.
    pub fn from_reader(from: &mut dyn Read, name: impl Into<String>) -> Result<Self, FileError> {
        let file = spooled(from)?;
        Ok(Self { file, name: name.into(), header: None, found: None })
    }

    /// Adds the last axis, of one channel, that the `.npy` file of a volume may omit: an axis of
    /// length 1 changes nothing in memory, in either order.
    pub fn with_channel(mut self, shape: &[u64]) -> Self {
        if let (Some(header), [rest @ .., 1]) = (&mut self.header, shape)
            && header.shape == rest
        {
            header.shape.push(1);
        }
        self
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The header of a `.npy` file; `None` for raw bytes.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// The path of the file as it was opened; `None` for a stream, which cannot be read again.
    pub fn path(&self) -> Option<&Path> {
        self.found.as_ref().map(|(path, _)| path.as_path())
    }

    /// Identifies the file as it was when opened; `None` for a stream, which cannot be read again.
    pub fn found(&self) -> Result<Option<FoundFile>, FileError> {
        let found = self.found.as_ref();
        found.map(|(path, metadata)| FoundFile::with(path, metadata)).transpose()
    }

    /// The same file again, for another source.
    pub(crate) fn again(&self) -> Result<Self, FileError> {
        let file = self.file.try_clone().map_err(|error| FileError::io(&self.name, error))?;
        Ok(Self { file, name: self.name.clone(), header: self.header.clone(), found: None })
    }

    /// The number of planes across `axis` of an array that it holds. `plane` is the array's shape
    /// with 1 along that axis.
    ///
    /// Reads all of a raw file if its elements vary in length.
    pub fn planes(&mut self, array: &Array, axis: usize, plane: &[u64]) -> Result<u64, FileError> {
        let name = || self.name.clone();
        if let Some(header) = &self.header {
            let mut across = header.shape.clone();
            let count = across.get_mut(axis).map(|count| std::mem::replace(count, 1));
            return count.filter(|_| across == plane).ok_or_else(|| FileError::PlaneShape {
                name: name(),
                found: header.shape.clone(),
                plane: plane.to_vec(),
            });
        }
        let failed = |error| FileError::io(name(), error);
        let (plane_has, unit, found) = match array.data_type().size() {
            ElementSize::Fixed(size) => {
                let length = self.file.metadata().map_err(failed)?.len();
                (elements(plane).saturating_mul(size as u64), "bytes", length)
            }
            ElementSize::Variable => {
                let count = raw_variable::count(&self.file, Framing::of(array.data_type()))
                    .map_err(|source| FileError::Raw { name: name(), source })?;
                self.file.rewind().map_err(failed)?;
                (elements(plane), "elements", count)
            }
        };
        match found.checked_rem(plane_has) {
            Some(0) => Ok(found / plane_has),
            _ => Err(FileError::Planes {
                name: name(),
                found,
                unit,
                plane_has,
                plane: plane.to_vec(),
                data_type: array.data_type().name().to_string(),
                looks_like_npy: looks_like_npy(&self.file, &self.name)?,
            }),
        }
    }

    /// The elements as the source of a region of this shape.
    pub fn source(
        self,
        array: &Array,
        shape: &[u64],
        options: &InputOptions,
    ) -> Result<Box<dyn Source>, FileError> {
        let InputOptions { cast, memory } = *options;
        match self.header {
            Some(header) => numpy(self.file, &self.name, &header, array, shape, cast, memory),
            None => raw(self.file, &self.name, array, shape, cast, memory),
        }
    }
}

/// A stream in an unnamed file, which can be read box by box and disappears with the process.
fn spooled(from: &mut dyn Read) -> Result<File, FileError> {
    let failed = |source| FileError::Spool { source };
    let mut file = tempfile::tempfile().map_err(failed)?;
    io::copy(from, &mut file).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok(file)
}

fn numpy(
    file: File,
    name: &str,
    header: &Header,
    array: &Array,
    shape: &[u64],
    cast: bool,
    memory: u64,
) -> Result<Box<dyn Source>, FileError> {
    let name_owned = || name.to_owned();
    if header.shape != shape {
        let (found, wanted) = (header.shape.clone(), shape.to_vec());
        return Err(FileError::Shape { name: name_owned(), found, wanted });
    }
    let data_type = array.data_type();
    let conversion = stored_type::conversion(&header.descr, data_type, cast)
        .map_err(|source| FileError::Type { name: name_owned(), source })?;
    let element = match (conversion, data_type.size()) {
        (Conversion::Cast(cast), _) => cast.from.bytes(),
        (_, ElementSize::Fixed(size)) => size,
        (_, ElementSize::Variable) => 0,
    };
    let expected = elements(shape)
        .checked_mul(element as u64)
        .and_then(|bytes| bytes.checked_add(header.data_start));
    let actual = file.metadata().map_err(|error| FileError::io(name, error))?.len();
    if expected != Some(actual) {
        return Err(FileError::HeaderLength { name: name_owned(), actual, expected });
    }
    let layout =
        FileLayout { data_start: header.data_start, shape, fortran: header.fortran, conversion };
    fixed(file, name, layout, array, memory)
}

fn raw(
    file: File,
    name: &str,
    array: &Array,
    shape: &[u64],
    cast: bool,
    memory: u64,
) -> Result<Box<dyn Source>, FileError> {
    check_cast_of_raw(name, cast)?;
    let name_owned = || name.to_owned();
    let ElementSize::Fixed(size) = array.data_type().size() else {
        let framing = Framing::of(array.data_type());
        return VariableFile::new(file, framing, shape)
            .map(|file| Box::new(file) as Box<dyn Source>)
            .map_err(|source| FileError::Raw { name: name_owned(), source });
    };
    let expected = elements(shape).checked_mul(size as u64);
    let actual = file.metadata().map_err(|error| FileError::io(name, error))?.len();
    if expected != Some(actual) {
        return Err(FileError::RawLength {
            name: name_owned(),
            actual,
            expected,
            shape: shape.to_vec(),
            data_type: array.data_type().name().to_string(),
            looks_like_npy: looks_like_npy(&file, name)?,
        });
    }
    let layout = FileLayout { data_start: 0, shape, fortran: false, conversion: Conversion::None };
    fixed(file, name, layout, array, memory)
}

/// Refuses to convert raw bytes.
pub(crate) fn check_cast_of_raw(name: &str, cast: bool) -> Result<(), FileError> {
    if cast { Err(FileError::CastOfRaw { name: name.to_owned() }) } else { Ok(()) }
}

fn fixed(
    file: File,
    name: &str,
    layout: FileLayout<'_>,
    array: &Array,
    memory: u64,
) -> Result<Box<dyn Source>, FileError> {
    let chunk = array.chunk_shape();
    let object = array.cell_shape().iter();
    let per_shard: Vec<u64> = object.zip(chunk).map(|(&n, &c)| n / c.max(1)).collect();
    let neighbours = Neighbours { chunk, per_shard: &per_shard, memory };
    match ArrayFile::new(file, layout, array.data_type()) {
        Some(file) => Ok(Box::new(file.keeping(neighbours))),
        None => Err(FileError::TooMany {
            name: name.to_owned(),
            shape: layout.shape.to_vec(),
            data_type: array.data_type().name().to_string(),
        }),
    }
}

/// Whether a file that is not read as `.npy` begins like one.
fn looks_like_npy(mut file: &File, name: &str) -> Result<bool, FileError> {
    let mut beginning = [0; 8];
    file.rewind().map_err(|error| FileError::io(name, error))?;
    match file.read_exact(&mut beginning) {
        Ok(()) => Ok(shardine_npy::is_npy(&beginning)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(FileError::io(name, error)),
    }
}
