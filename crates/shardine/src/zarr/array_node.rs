use std::ops::Deref;
use std::sync::Arc;

use shardine_codec::ArraySpec;

use super::array_keys::ArrayKeys;
use super::consolidated::StaleCopy;
use super::flat_codecs::FlatCodecs;
use super::metadata::{ArrayMetadata, DIMENSIONS, NodeMetadata, ZarrFormat};
use super::node::{ARRAY_DOCUMENTS, array_document, read_document};
use super::reopen::{ZarrArray, has_same_chunks};
use crate::anchor::Anchor;
use crate::engine::ChunkSet;
use crate::layout::Layout;
use crate::{Array, Engine, Error, Location};

/// A Zarr array: an [`Array`] with the metadata that describes it.
///
/// It may be of version 3 or 2. Elements of both are read and written; the documents of a version 2
/// array are never changed through it.
///
/// ```
/// use shardine::{Array, Location};
///
/// let mut array = Array::builder([4], "uint8").create(Location::memory())?;
/// array.write(.., &[7u8; 4])?;
/// array.resize(&[6])?;
/// assert_eq!(array.metadata().shape(), [6]);
/// assert_eq!(array.read::<u8>(2..)?, [7, 7, 0, 0]);
/// # Ok::<(), shardine::Error>(())
/// ```
#[derive(Debug)]
pub struct ArrayNode {
    pub(super) array: Array,
    pub(super) metadata: ArrayMetadata,
    /// Groups above whose consolidated metadata is out of date.
    pub(super) stale: Vec<StaleCopy>,
}

impl ArrayNode {
    /// Opens an array. One read; three for version 2.
    pub fn open(engine: &Arc<Engine>, location: &Location) -> Result<Self, Error> {
        let anchor = Anchor::of(location, &ARRAY_DOCUMENTS)?;
        match read_document(location)? {
            NodeMetadata::Array(metadata) => {
                Ok(Self::from_metadata(engine, location, metadata)?.anchored(anchor))
            }
            NodeMetadata::Group(_) => Err(Error::NotAnArray { at: location.to_string() }),
        }
    }

    /// The same array, with `anchor` to detect that it was replaced.
    pub(super) fn anchored(mut self, anchor: Option<Anchor>) -> Self {
        let metadata = self.metadata.clone();
        let is_alike = move |document: &[u8]| has_same_chunks(&metadata, document);
        let anchor = anchor.map(|anchor| Arc::new(anchor.with_alike(is_alike)));
        self.array = self.array.with_anchor(anchor);
        self
    }

    /// Binds metadata to a location.
    pub(crate) fn from_metadata(
        engine: &Arc<Engine>,
        location: &Location,
        metadata: ArrayMetadata,
    ) -> Result<Self, Error> {
        let spec = ArraySpec {
            shape: metadata.chunk_shape().to_vec(),
            data_type: metadata.data_type().clone(),
            fill: metadata.fill().clone(),
        };
        let layout = Layout::new(metadata.codecs(), spec);
        let object = location.key(array_document(metadata.zarr_format()))?;
        let wrong = |source| Error::Layout { object: object.clone(), source: Box::new(source) };
        let layout = layout.map_err(wrong)?;
        let codecs = FlatCodecs::of(metadata.codecs()).map_err(wrong)?.codecs;
        let packing = ArrayKeys {
            location: location.clone(),
            encoding: *metadata.key_encoding(),
            rank: metadata.shape().len(),
        };
        let (store, shape) = (Arc::clone(&location.store), metadata.shape().to_vec());
        let chunks = ChunkSet::new(engine, store, Box::new(packing), shape, layout);
        let array = Array::new(location, chunks, codecs, Box::new(ZarrArray))
            .with_axis_names(axis_names(&metadata));
        Ok(Self { array, metadata, stale: Vec::new() })
    }

    /// Another handle to the same array. Reads nothing.
    pub(super) fn again(&self) -> Result<Array, Error> {
        let (engine, location) = (self.array.engine(), self.array.location());
        let again = Self::from_metadata(engine, location, self.metadata.clone())?.array;
        Ok(again.with_anchor(self.array.shared_anchor()))
    }

    /// The array without its metadata.
    pub fn into_array(self) -> Array {
        self.array
    }

    /// Its metadata.
    pub fn metadata(&self) -> &ArrayMetadata {
        &self.metadata
    }

    /// The version of its documents. Those of version 2 are read-only: see [`Error::ZarrV2`].
    pub fn zarr_format(&self) -> ZarrFormat {
        self.metadata.zarr_format()
    }

    /// Groups above whose consolidated metadata could not be updated when this array was created or
    /// last resized, and so disagrees with its own metadata.
    pub fn stale_copies(&self) -> &[StaleCopy] {
        &self.stale
    }

    /// An error if its metadata is of version 2 and so cannot be changed.
    pub(super) fn check_changeable(&self) -> Result<(), Error> {
        match self.zarr_format() {
            ZarrFormat::V3 => Ok(()),
            format @ ZarrFormat::V2 => Err(Error::ZarrV2 {
                at: self.location().to_string(),
                object: self.location().key(array_document(format))?,
            }),
        }
    }
}

/// The names of an array's axes. xarray's version 2 attribute counts in version 3 arrays as well.
fn axis_names(metadata: &ArrayMetadata) -> Option<Vec<Option<String>>> {
    if let Some(names) = metadata.dimension_names() {
        return Some(names.to_vec());
    }
    let names = metadata.attributes().get(DIMENSIONS)?.as_array()?;
    let names = names.iter().map(|name| name.as_str().map(|name| Some(name.to_owned())));
    let names: Vec<Option<String>> = names.collect::<Option<_>>()?;
    (names.len() == metadata.shape().len()).then_some(names)
}

impl Deref for ArrayNode {
    type Target = Array;

    fn deref(&self) -> &Array {
        &self.array
    }
}
