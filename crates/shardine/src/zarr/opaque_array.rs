//! An array whose elements cannot be read here.

use std::sync::Arc;

use shardine_codec::{CodecError, DataTypeError};
use shardine_store::{Key, StoreExt};

use super::ArrayNode;
use super::metadata::{MetadataError, OpaqueMetadata, Unsupported, ZarrFormat};
use super::node::{DOCUMENT, V2_ARRAY, V2_ATTRIBUTES, array_document};
use crate::layout::LayoutError;
use crate::{Array, Engine, Error, Location};

/// A Zarr array that names a codec, a data type or another extension which is not supported here.
///
/// Its metadata can be read, its objects, shards and chunks be listed as far as their names and
/// indexes allow, and it can be copied. Its elements cannot be read or written:
/// [`DataSet::array`](crate::DataSet::array) is [`Error::Unsupported`].
#[derive(Debug)]
pub struct OpaqueArray {
    location: Location,
    metadata: OpaqueMetadata,
    listing: Option<Array>,
}

impl OpaqueArray {
    /// The array at a place that could not be opened because of `error`; `None` if that is not for
    /// want of support. One read; of version 2, three.
    pub(crate) fn open(
        engine: &Arc<Engine>,
        location: &Location,
        error: &Error,
    ) -> Result<Option<Self>, Error> {
        let Some(metadata) = opaque_metadata(location, error)? else { return Ok(None) };
        let mut stand_ins = metadata.stand_ins().iter();
        let listing = stand_ins
            .find_map(|metadata| ArrayNode::from_metadata(engine, location, metadata.clone()).ok());
        let listing = listing.map(ArrayNode::into_array);
        Ok(Some(Self { location: location.clone(), metadata, listing }))
    }

    /// Its metadata.
    pub fn metadata(&self) -> &OpaqueMetadata {
        &self.metadata
    }

    /// An array with the same objects, shards and entries, by which they can be listed. Its
    /// elements are nothing: they are neither to be read nor written.
    ///
    /// [`Error::Unsupported`] if it is not known where chunks are.
    pub fn listing(&self) -> Result<&Array, Error> {
        self.listing.as_ref().ok_or_else(|| self.error())
    }

    pub(super) fn location(&self) -> &Location {
        &self.location
    }

    /// The key of the document that makes it an array.
    pub(crate) fn document_key(&self) -> Result<Key, Error> {
        self.location.key(array_document(self.metadata.zarr_format()))
    }

    /// Why its elements cannot be read.
    pub(crate) fn error(&self) -> Error {
        Error::Unsupported { at: self.location.to_string(), reason: self.metadata.reason() }
    }
}

/// The metadata of an array that could not be opened because of `error`; `None` if that is not for
/// want of support.
pub(super) fn opaque_metadata(
    location: &Location,
    error: &Error,
) -> Result<Option<OpaqueMetadata>, Error> {
    if !error.is_unsupported() {
        return Ok(None);
    }
    let get = |name: &str| Ok::<_, Error>(location.store.get(&location.key(name)?)?);
    if location.format != Some(ZarrFormat::V2)
        && let Some(zarr) = get(DOCUMENT)?
    {
        return Ok(OpaqueMetadata::parse(&zarr));
    }
    let Some(unsupported) = unsupported_v2(error) else { return Ok(None) };
    let Some(zarray) = get(V2_ARRAY)? else { return Ok(None) };
    Ok(OpaqueMetadata::parse_v2(&zarray, get(V2_ATTRIBUTES)?.as_deref(), unsupported))
}

/// What an error of documents of version 2 says is not supported.
fn unsupported_v2(error: &Error) -> Option<Unsupported> {
    let (member, name) = match error {
        Error::Metadata { source, .. } => match &**source {
            MetadataError::Unsupported { member, name, .. } => (member, name),
            MetadataError::DataType { member, reason: DataTypeError::Unknown { name } } => {
                (member, name)
            }
            _ => return None,
        },
        Error::Layout { source, .. } => match &**source {
            LayoutError::Codec { at, source: CodecError::Unknown { name } } => (at, name),
            _ => return None,
        },
        _ => return None,
    };
    let kind = if member.starts_with("dtype") { "data type" } else { "codec" };
    Some(Unsupported { member: member.clone(), kind, name: name.clone() })
}
