//! The objects that Zarr metadata describes.

use super::array_keys::ArrayKeys;
use super::metadata::NodeMetadata;
use super::opaque_array::opaque_metadata;
use super::{consolidated_name, node_documents, read_document};
use crate::engine::{Cells, Packing};
use crate::format::{Contents, ContentsError, PossibleKey};
use crate::{Error, Location};

/// The objects of an array, or of a group with consolidated metadata; `None` if there is no node.
/// Costs the reads of the node's own documents.
pub(super) fn contents(location: &Location) -> Result<Option<Contents>, ContentsError> {
    let root = match read_document(location) {
        Err(Error::NoNode { .. }) => return Ok(None),
        // Its keys may be known all the same.
        Err(error) => match opaque_metadata(location, &error)?.as_ref().map(|m| m.stand_ins()) {
            Some([.., stand_in]) => NodeMetadata::Array(stand_in.clone()),
            _ => return Err(error.into()),
        },
        Ok(root) => root,
    };
    let mut contents = Contents::default();
    if let NodeMetadata::Group(group) = &root {
        let name = consolidated_name(group.zarr_format());
        let Some(entries) = group.consolidated() else {
            return Err(ContentsError::Untold {
                reason: "the group has no consolidated metadata that lists them",
                advice: Some("consolidate the metadata of the group, copy its arrays one by one"),
            });
        };
        for (path, node) in entries {
            match node {
                Ok(node) => add_node(&mut contents, &location.join(path)?, node)?,
                Err(error) => {
                    let (object, source) = (location.key(name)?, Box::new(error.clone()));
                    return Err(Error::Metadata { object, source }.into());
                }
            }
        }
        contents.needs(location.key(name)?);
    }
    add_node(&mut contents, location, &root)?;
    Ok(Some(contents))
}

fn add_node(
    contents: &mut Contents,
    location: &Location,
    metadata: &NodeMetadata,
) -> Result<(), Error> {
    let mut documents = node_documents(metadata).iter();
    if let Some(name) = documents.next() {
        contents.needs(location.key(name)?);
    }
    for name in documents {
        contents.may_have(location.key(name)?);
    }
    let NodeMetadata::Array(array) = metadata else { return Ok(()) };
    let axes = array.shape().iter().zip(array.chunk_shape());
    let cells = Cells::new(axes.map(|(&len, &chunk)| len.div_ceil(chunk.max(1))).collect());
    let (encoding, rank) = (*array.key_encoding(), array.shape().len());
    let keys = ArrayKeys { location: location.clone(), encoding, rank };
    contents.grid(location, cells.map(move |cell| keys.key(&cell).map(PossibleKey::new)));
    Ok(())
}
