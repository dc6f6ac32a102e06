//! Creating an array.

use std::sync::Arc;

use shardine_store::{Condition, Key, StoreError, StoreExt};

use super::consolidated::renew_consolidated_above;
use super::metadata::{ArrayMetadata, NodeMetadata};
use super::node::{ARRAY_DOCUMENTS, DOCUMENT, V2_DOCUMENTS, read_document};
use super::stored::GridContents;
use super::{ArrayNode, LOSS_RECORD};
use crate::anchor::Anchor;
use crate::{Engine, Error, Location};

/// How an array is created.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Whether an existing array is replaced.
    pub overwrite: bool,
}

impl CreateOptions {
    /// Replaces nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether an existing array is replaced.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }
}

impl ArrayNode {
    /// Creates an array from metadata. The location must be empty. See also
    /// [`Array::builder`](crate::Array::builder).
    ///
    /// Costs a listing and a write. Consolidated metadata of groups above is updated; see
    /// [`stale_copies`](Self::stale_copies).
    pub fn create(
        engine: &Arc<Engine>,
        location: &Location,
        metadata: ArrayMetadata,
    ) -> Result<Self, Error> {
        Self::create_with(engine, location, metadata, &CreateOptions::new())
    }

    /// Creates an array, and replaces an existing one if the options say so.
    ///
    /// Without `overwrite` the location must be empty. With it the old array's metadata is removed
    /// first and then its chunks, so that no reader mistakes them for the new one's; folders that
    /// this leaves empty go last. Groups are never replaced, nor are nodes with version 2
    /// documents. Costs what [`create`](Self::create) costs, and to replace an array, a listing for
    /// each of its folders and a removal for each of its objects and folders.
    pub fn create_with(
        engine: &Arc<Engine>,
        location: &Location,
        metadata: ArrayMetadata,
        options: &CreateOptions,
    ) -> Result<Self, Error> {
        let CreateOptions { overwrite } = *options;
        let mut array = Self::from_metadata(engine, location, metadata.into_v3())?;
        let exists = || Error::Exists { at: location.to_string() };
        let _hold = location.hold()?;
        let listing = location.store.list(location.path.as_ref())?;
        if !listing.is_empty() {
            if overwrite {
                refuse_v2(location, listing.objects.iter().map(|(key, _)| key))?;
            }
            match read_document(&location.clone().with_format(None)) {
                Ok(NodeMetadata::Group(_)) => {
                    return Err(Error::GroupExists { at: location.to_string() });
                }
                _ if !overwrite => return Err(exists()),
                Ok(NodeMetadata::Array(old)) => array.clear(Some(&old))?,
                Err(Error::NoNode { .. }) => array.clear(None)?,
                Err(error) => return Err(error),
            }
        }
        array.put_document()?;
        Ok(array.anchored(Anchor::of(location, &ARRAY_DOCUMENTS)?))
    }

    /// Writes the metadata of an array that a job has made, if it does not exist yet.
    pub(crate) fn publish(&mut self) -> Result<(), Error> {
        let _hold = self.location().hold()?;
        match self.put_document() {
            Err(Error::Exists { .. }) => Ok(()),
            put => put,
        }
    }

    /// Writes the metadata, on the condition that there is none.
    fn put_document(&mut self) -> Result<(), Error> {
        let (store, document) = (&self.location().store, self.location().key(DOCUMENT)?);
        match store.put(&document, &self.metadata.to_bytes(), Condition::Absent) {
            Ok(_) => {
                self.stale = renew_consolidated_above(self.location());
                Ok(())
            }
            Err(StoreError::Conflict { .. }) => {
                Err(Error::Exists { at: self.location().to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the array that this one replaces, and whatever could be mistaken for chunks of this
    /// one.
    fn clear(&self, old: Option<&ArrayMetadata>) -> Result<(), Error> {
        let store = &self.location().store;
        store.delete(&self.location().key(DOCUMENT)?, &Condition::None)?;
        // A reader that trusts a copy of the document would take the missing chunks for empty ones.
        // Copies that cannot be updated are reported once the new array exists.
        renew_consolidated_above(self.location());
        // Losses of the old array do not concern the new one.
        store.delete(&self.location().key(LOSS_RECORD)?, &Condition::None)?;
        // The keys of an old array are known even if its codecs are not.
        for metadata in [old, Some(&self.metadata)].into_iter().flatten() {
            let rank = metadata.shape().len();
            let found =
                GridContents::list(self.engine(), self.location(), metadata.key_encoding(), rank)?;
            for object in &found.objects {
                store.delete(&object.key, &Condition::None)?;
            }
            if let Some(folders) = store.folders() {
                // Links are removed, not followed: the new array would be read and written through
                // them.
                let keys = found.unlisted.iter().filter_map(|unlisted| unlisted.key.as_ref());
                keys.into_iter().try_for_each(|key| folders.remove_unlisted_at(key))?;
            }
            // From the inside out, so that a folder of empty folders is empty when its turn comes.
            for folder in found.folders.iter().rev() {
                store.remove_empty_folder(folder)?;
            }
        }
        Ok(())
    }
}

/// Refuses to replace a node that has version 2 documents: they would then describe another array.
fn refuse_v2<'a>(
    location: &Location,
    objects: impl IntoIterator<Item = &'a Key>,
) -> Result<(), Error> {
    for key in objects {
        let name = key.as_str().rsplit('/').next().unwrap_or_default();
        if V2_DOCUMENTS.contains(&name) {
            return Err(Error::ZarrV2 { at: location.to_string(), object: key.clone() });
        }
    }
    Ok(())
}
