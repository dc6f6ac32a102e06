//! Files whose elements go into an array: `.npy`, or raw bytes.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::path::Path;

use shardine::{Array, ElementSize, Source};

use crate::array_file::{ArrayFile, FileLayout, Neighbours};
use crate::failure::Failure;
use crate::npy::{self, Header};
use crate::raw_variable::{self, Framing, VariableFile};
use crate::stored_type::{self, Conversion};
use crate::units;

/// A file that is open, and whose head has been read if it has one.
#[derive(Debug)]
pub struct Input {
    file: File,
    name: String,
    /// Of a `.npy` file.
    header: Option<Header>,
    /// As it was found; `None` if it is a copy of a stream.
    pub found: Option<Metadata>,
}

/// Whether a name says that the file is a `.npy` one.
pub fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "npy")
}

impl Input {
    /// Opens a file; `-` is standard input. What cannot be read box by box is copied to a temporary file first.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            let file = copied(&mut io::stdin().lock())?;
            return Ok(Self { file, name: "standard input".to_owned(), header: None, found: None });
        }
        let mut file = File::open(path).map_err(|error| Failure::file(path, &error))?;
        let metadata = file.metadata().map_err(|error| Failure::file(path, &error))?;
        if metadata.is_dir() {
            return Err(Failure::new(format!("{}: is a folder", path.display())));
        }
        let found = metadata.is_file().then_some(metadata);
        if found.is_none() {
            file = copied(&mut file)?;
        }
        let name = path.display().to_string();
        let header = match is_npy(path) {
            true => Some(
                Header::read(&mut io::BufReader::new(&mut file))
                    .map_err(|error| Failure::new(format!("{name}: {error}")))?,
            ),
            false => None,
        };
        Ok(Self { file, name, header, found })
    }

    /// The same with the last axis, of one channel, that a `.npy` file of a volume may leave out: an axis of length 1 changes nothing
    /// in memory, in either order.
    pub fn with_channel(mut self, shape: &[u64]) -> Self {
        if let (Some(header), [rest @ .., 1]) = (&mut self.header, shape)
            && header.shape == rest
        {
            header.shape.push(1);
        }
        self
    }

    /// What the head of a `.npy` file says; `None` of raw bytes.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// The same file once more, for another source.
    pub fn again(&self) -> Result<Self, Failure> {
        let file = self.file.try_clone().map_err(|error| failed(&self.name, &error))?;
        Ok(Self { file, name: self.name.clone(), header: self.header.clone(), found: None })
    }

    /// How many planes across `axis` of an array it holds. `plane` is the array's shape with 1 along the axis.
    pub fn planes(&mut self, array: &Array, axis: usize, plane: &[u64]) -> Result<u64, Failure> {
        if let Some(header) = &self.header {
            let mut across = header.shape.clone();
            let count = across.get_mut(axis).map(|count| std::mem::replace(count, 1));
            return count.filter(|_| across == plane).ok_or_else(|| {
                Failure::new(format!(
                    "{}: has the shape {}, planes of the array {}",
                    self.name,
                    units::shape(&header.shape),
                    units::shape(plane)
                ))
            });
        }
        let elements = units::elements(plane);
        let (unit, what, len) = match array.data_type().size() {
            ElementSize::Fixed(size) => {
                (elements.saturating_mul(size as u64), "bytes", length(&self.file, &self.name)?)
            }
            ElementSize::Variable => {
                let count = raw_variable::count(&self.file, Framing::of(array.data_type()));
                let count =
                    count.map_err(|reason| Failure::new(format!("{}: {reason}", self.name)))?;
                self.file.rewind().map_err(|error| failed(&self.name, &error))?;
                (elements, "elements", count)
            }
        };
        match len.checked_rem(unit) {
            Some(0) => Ok(len / unit),
            over => {
                let over = over.unwrap_or(len);
                let failure = Failure::new(format!(
                    "{}: has {len} {what}, which are {} and {over} {what} over; a plane ({} of {}) has {unit}",
                    self.name,
                    units::count(len.checked_div(unit).unwrap_or(0), "plane"),
                    units::shape(plane),
                    array.data_type().name(),
                ));
                Err(with_npy_hint(failure, &self.file, &self.name)?)
            }
        }
    }

    /// The elements as those of a region of this shape. With `memory`, what is read along with a chunk of the array is kept
    /// for those beside it.
    pub fn source(
        self,
        array: &Array,
        shape: &[u64],
        cast: bool,
        memory: u64,
    ) -> Result<Box<dyn Source>, Failure> {
        match self.header {
            Some(header) => numpy(self.file, &self.name, &header, array, shape, cast, memory),
            None => raw(self.file, &self.name, array, shape, cast, memory),
        }
    }
}

/// A stream in a file without a name, which can be read box by box and is gone with the process.
fn copied(from: &mut dyn Read) -> Result<File, Failure> {
    let failed = |error: io::Error| {
        Failure::new(format!("cannot keep the input in a temporary file: {error}"))
            .hint("TMPDIR names the folder for temporary files")
    };
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
) -> Result<Box<dyn Source>, Failure> {
    if header.shape != shape {
        return Err(Failure::new(format!(
            "{name}: has the shape {}, the region {}",
            units::shape(&header.shape),
            units::shape(shape)
        )));
    }
    let data_type = array.data_type();
    let conversion = stored_type::conversion(&header.descr, data_type, cast)
        .map_err(|reason| Failure::new(format!("{name}: {reason}")))?;
    let element = match (conversion, data_type.size()) {
        (Conversion::Cast(cast), _) => cast.from.bytes(),
        (_, ElementSize::Fixed(size)) => size,
        (_, ElementSize::Variable) => 0,
    };
    let expected = units::elements(shape)
        .checked_mul(element as u64)
        .and_then(|bytes| bytes.checked_add(header.data_start));
    check_length(&file, name, expected, None)?;
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
) -> Result<Box<dyn Source>, Failure> {
    check_cast(name, cast)?;
    let ElementSize::Fixed(size) = array.data_type().size() else {
        let framing = Framing::of(array.data_type());
        return VariableFile::new(file, framing, shape)
            .map(|file| Box::new(file) as Box<dyn Source>)
            .map_err(|reason| Failure::new(format!("{name}: {reason}")));
    };
    let expected = units::elements(shape).checked_mul(size as u64);
    check_length(&file, name, expected, Some((shape, array)))?;
    let layout = FileLayout { data_start: 0, shape, fortran: false, conversion: Conversion::None };
    fixed(file, name, layout, array, memory)
}

/// Refuses `--cast` for raw bytes.
pub fn check_cast(name: &str, cast: bool) -> Result<(), Failure> {
    if !cast {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{name}: raw bytes do not tell their type, so --cast cannot convert them"
    ))
    .hint("give a .npy file, or leave --cast out"))
}

fn fixed(
    file: File,
    name: &str,
    layout: FileLayout<'_>,
    array: &Array,
    memory: u64,
) -> Result<Box<dyn Source>, Failure> {
    let chunk = array.chunk_shape();
    let object = array.cell_shape().iter();
    let per_shard: Vec<u64> = object.zip(chunk).map(|(&n, &c)| n / c.max(1)).collect();
    let neighbours = Neighbours { chunk, per_shard: &per_shard, memory };
    match ArrayFile::new(file, layout, array.data_type()) {
        Some(file) => Ok(Box::new(file.keeping(neighbours))),
        None => Err(Failure::new(format!(
            "{name}: {} elements of {} are not in a file",
            units::shape(layout.shape),
            array.data_type().name()
        ))),
    }
}

fn failed(name: &str, error: &io::Error) -> Failure {
    Failure::new(format!("{name}: {error}"))
}

fn length(file: &File, name: &str) -> Result<u64, Failure> {
    Ok(file.metadata().map_err(|error| failed(name, &error))?.len())
}

/// Refuses a file that does not have exactly the bytes that are due.
fn check_length(
    file: &File,
    name: &str,
    expected: Option<u64>,
    raw: Option<(&[u64], &Array)>,
) -> Result<(), Failure> {
    let actual = length(file, name)?;
    if expected == Some(actual) {
        return Ok(());
    }
    let expected = expected.map_or("more than 2^64".to_owned(), |bytes| bytes.to_string());
    let Some((shape, array)) = raw else {
        return Err(Failure::new(format!(
            "{name}: has {actual} bytes, its header says {expected}"
        )));
    };
    let (shape, data_type) = (units::shape(shape), array.data_type().name());
    let failure = Failure::new(format!(
        "{name}: has {actual} bytes, the region ({shape} of {data_type}) {expected}"
    ));
    Err(with_npy_hint(failure, file, name)?)
}

/// Says so if a file that is not read as `.npy` looks like one.
fn with_npy_hint(failure: Failure, mut file: &File, name: &str) -> Result<Failure, Failure> {
    let mut beginning = [0; 8];
    file.rewind().map_err(|error| failed(name, &error))?;
    if file.read_exact(&mut beginning).is_ok() && npy::is_npy(&beginning) {
        return Ok(failure
            .hint("it begins like a .npy file; only names that end in .npy are read as such"));
    }
    Ok(failure)
}
