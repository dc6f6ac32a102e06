//! The names of the objects of a Zarr array.

use shardine_store::{Key, Store, StoreError};

use super::metadata::ChunkKeyEncoding;
use super::stored::{GridContents, grid_folder};
use crate::engine::{GridKey, Packing, StoredObject};
use crate::{Engine, EngineError, Location};

/// The keys of an array's objects.
#[derive(Debug)]
pub(super) struct ArrayKeys {
    pub location: Location,
    pub encoding: ChunkKeyEncoding,
    pub rank: usize,
}

impl Packing for ArrayKeys {
    fn key(&self, cell: &[u64]) -> Result<Key, StoreError> {
        let name = self.encoding.key(cell);
        match &self.location.path {
            Some(path) => path.join(&name),
            None => Key::new(&name),
        }
    }

    fn named(&self, key: &Key) -> GridKey {
        let skip = self.location.path.as_ref().map_or(0, |path| path.as_str().len() + 1);
        let Some(name) = key.as_str().get(skip..) else { return GridKey::Other };
        if let Some(cell) = self.encoding.parse(name, self.rank) {
            return GridKey::Object(cell);
        }
        grid_folder(&self.encoding, name, self.rank).map_or(GridKey::Other, GridKey::Folder)
    }

    fn list(&self, engine: &Engine, _: &dyn Store) -> Result<Vec<StoredObject>, EngineError> {
        let found = GridContents::list(engine, &self.location, &self.encoding, self.rank)?;
        Ok(found.into_objects()?)
    }
}
