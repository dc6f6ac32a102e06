//! Changing the shape of an array.

use shardine_store::{MAX_SMALL_OBJECT, ReadRange, StoreError, StoreExt};

use super::ArrayNode;
use super::consolidated::renew_consolidated_above;
use super::metadata::NodeMetadata;
use super::node::{DOCUMENT, read_v3};
use crate::{Error, Location};

impl ArrayNode {
    /// Changes the shape, not the number of axes. All other members of the metadata stay as they
    /// were read.
    ///
    /// The new document replaces the one that was read when the array was opened or last resized;
    /// if another writer has changed it since, even just an attribute, nothing is written and this
    /// fails with [`Error::MetadataChanged`]. Other handles to the array keep the shape that they
    /// were opened with. Consolidated metadata of groups above is updated; a failure there is not
    /// an error, and [`stale_copies`](Self::stale_copies) lists the groups. Version 2 arrays are
    /// refused with [`Error::ZarrV2`].
    ///
    /// No chunk is written, moved or removed. What an array loses by shrinking stays in its objects
    /// and reappears if it grows; so an element that a resize uncovers is the fill value only if it
    /// was never written. Costs one small write.
    pub fn resize(&mut self, shape: &[u64]) -> Result<(), Error> {
        let object = self.location().key(DOCUMENT)?;
        let mut metadata = self.metadata.clone();
        if let Err(source) = metadata.set_shape(shape) {
            return Err(Error::Metadata { object, source: Box::new(source) });
        }
        if shape == self.shape() {
            return Ok(());
        }
        self.check_changeable()?;
        let Location { store, .. } = self.location();
        let changed = || Error::MetadataChanged { at: self.location().to_string() };
        let edit = match store.edit(&object) {
            Ok(edit) => edit,
            Err(StoreError::NotFound { .. }) => return Err(changed()),
            Err(error) => return Err(error.into()),
        };
        let stored = NodeMetadata::parse(&edit.object.read(ReadRange::AtMost(MAX_SMALL_OBJECT))?);
        if !matches!(stored, Ok(NodeMetadata::Array(stored)) if stored == self.metadata) {
            return Err(changed());
        }
        match store.put(&object, &metadata.to_bytes(), edit.condition()) {
            Ok(_) => {}
            Err(StoreError::Conflict { .. } | StoreError::Changed { .. }) => return Err(changed()),
            Err(error) => return Err(error.into()),
        }
        drop(edit);
        self.metadata = metadata;
        self.array.set_shape(shape);
        // The shape has changed, even if its copies could not be updated.
        self.stale = renew_consolidated_above(self.location());
        Ok(())
    }

    /// [`Error::MetadataChanged`] if the stored document is not the one that was read. One read.
    pub(super) fn check_current(&self) -> Result<(), Error> {
        match read_v3(self.location())? {
            Some(NodeMetadata::Array(stored)) if stored == self.metadata => Ok(()),
            _ => Err(Error::MetadataChanged { at: self.location().to_string() }),
        }
    }
}
