//! The arrays and files whose elements are compared.

use shardine_codec::strided::Placement;
use shardine_codec::{DataType, Elements, FillValue, VariableElements};

use super::CompareError;
use super::axes::AxesOf;
use super::report::ElementPlace;
use crate::engine::StoredBytes;
use crate::files::{Input, InputOptions, type_of_npy};
use crate::jobs::rebuild::{AxisMap, ChunkFinder};
use crate::source::SourceError;
use crate::store::{ReadRange, StoreError};
use crate::{Array, Error, Location, Region, Source};

/// A file of elements.
pub(super) struct ElementFile {
    pub name: String,
    pub shape: Vec<u64>,
    pub data_type: DataType,
    source: Box<dyn Source>,
}

/// What elements are read from.
#[derive(Clone, Copy)]
pub(super) enum Operand<'a> {
    Array(&'a Array),
    File(&'a ElementFile),
}

impl ElementFile {
    pub fn new(input: Input, memory: u64) -> Result<Self, Error> {
        let name = input.name().to_owned();
        let Some(header) = input.header() else {
            return Err(CompareError::RawFile { name }.into());
        };
        let shape = header.shape.clone();
        let Some(data_type) = type_of_npy(&header.descr) else {
            let descr = format!("{:?}", header.descr);
            return Err(CompareError::FileType { name, descr }.into());
        };
        // The file is asked as the source of a write to an array like this one.
        let like = Array::builder(shape.clone(), &data_type).create(Location::memory())?;
        let source = input.source(&like, &shape, &InputOptions::new().memory(memory))?;
        Ok(Self { name, shape, data_type, source })
    }

    fn failed(&self, error: SourceError) -> Error {
        CompareError::File { name: self.name.clone(), reason: error.to_string() }.into()
    }
}

impl<'a> Operand<'a> {
    pub fn shape(self) -> &'a [u64] {
        match self {
            Self::Array(array) => array.shape(),
            Self::File(file) => &file.shape,
        }
    }

    pub fn data_type(self) -> &'a DataType {
        match self {
            Self::Array(array) => array.data_type(),
            Self::File(file) => &file.data_type,
        }
    }

    pub fn axes(self) -> AxesOf<'a> {
        let names = self.array().and_then(Array::axis_names);
        AxesOf { shape: self.shape(), names }
    }

    pub fn array(self) -> Option<&'a Array> {
        match self {
            Self::Array(array) => Some(array),
            Self::File(_) => None,
        }
    }

    /// The value of elements that are not stored; `None` of a file, which has all.
    pub fn fill(self) -> Option<&'a FillValue> {
        self.array().map(Array::fill)
    }

    /// The shape of what is decoded as a whole; `None` of a file.
    pub fn chunk_shape(self) -> Option<&'a [u64]> {
        self.array().map(Array::chunk_shape)
    }

    /// How many boxes of so many bytes may be read at the same time; `None` if it is on this machine.
    pub fn in_flight(self, bytes: u64) -> Option<usize> {
        let array = self.array().filter(|array| !array.chunks.store.read_cost().local)?;
        Some(array.engine().at_once(&*array.chunks.store, bytes))
    }

    /// Reads a box of fixed-size elements, whose coordinates and places are along the axes that
    /// `axes` maps its own to.
    pub fn read(
        self,
        axes: &AxisMap,
        start: &[u64],
        shape: &[u64],
        out: &mut [u8],
        place: &Placement,
    ) -> Result<(), Error> {
        let is_identity = axes.is_identity();
        let (start, shape) = (axes.to_old(start, 0), axes.to_old(shape, 1));
        let strides = axes.to_old(&place.strides, 0);
        let place = Placement { start: place.start, strides: strides.into_iter().collect() };
        match self {
            Self::Array(array) if is_identity => {
                array.read_bytes_into(Region::of_box(&start, &shape), out)
            }
            Self::Array(array) => {
                array.read_bytes_placed(Region::of_box(&start, &shape), out, &place)
            }
            Self::File(file) => file
                .source
                .copy_box(&start, &shape, out, &place)
                .map_err(|error| file.failed(error)),
        }
    }

    /// Reads a box of variable-length elements, in C order of its own axes.
    pub fn read_variable(self, start: &[u64], shape: &[u64]) -> Result<VariableElements, Error> {
        match self {
            Self::Array(array) => match array.read_elements(Region::of_box(start, shape))? {
                Elements::Variable(elements) => Ok(elements),
                Elements::Fixed(_) => Ok(VariableElements::new()),
            },
            Self::File(file) => {
                file.source.variable_box(start, shape).map_err(|error| file.failed(error))
            }
        }
    }

    /// Where an element is stored.
    pub fn place(self, at: &[u64], value: &[u8]) -> Result<ElementPlace, Error> {
        let data_type = self.data_type();
        let mut place = ElementPlace {
            at: at.to_vec(),
            text: data_type.format_element(value),
            value: data_type.fill_to_json(&FillValue(value.to_vec())),
            chunk: None,
            shard: None,
            object: String::new(),
            stored: true,
        };
        match self {
            Self::File(file) => place.object.clone_from(&file.name),
            Self::Array(array) => {
                let in_boxes = |shape: &[u64]| -> Vec<u64> {
                    at.iter().zip(shape).map(|(&at, &n)| at / n.max(1)).collect()
                };
                let (chunk, cell) = (in_boxes(array.chunk_shape()), in_boxes(array.cell_shape()));
                let key = array.chunks.packing.key(&cell)?;
                place.object = array.location().at(Some(key)).to_string();
                place.shard = array.shard_shape().map(in_boxes);
                place.stored = is_stored(array, &chunk, &cell)?;
                place.chunk = Some(chunk);
            }
        }
        Ok(place)
    }
}

/// Whether a chunk is stored; where a codec encodes whole shards, whether its shard is.
fn is_stored(array: &Array, chunk: &[u64], cell: &[u64]) -> Result<bool, Error> {
    let found = match array.chunks.layout.is_addressable_throughout() {
        true => ChunkFinder::new(array).find(chunk)?,
        false => array.chunks.find(cell)?,
    };
    match found {
        None => Ok(false),
        Some(StoredBytes { range: Some(_), .. }) => Ok(true),
        // Of a remote store only a read tells whether it is there.
        Some(StoredBytes { object, range: None }) => match object.read(ReadRange::Bounded(0..0)) {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        },
    }
}
