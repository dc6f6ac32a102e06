//! Which objects of an array exist.

use std::ops::ControlFlow;

use shardine_store::{Key, Object, ReadRange, StoreError};

use super::ChunkSet;
use crate::{Cells, Error, StoredObject, in_order};

/// An object of an array's grid that is stored, or may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PossibleObject {
    /// Its key.
    pub key: Key,
    /// Its position in the grid.
    pub cell: Vec<u64>,
    /// Its length in bytes when it was listed. `None` if the store cannot list: then the object may
    /// not exist.
    pub listed: Option<u64>,
}

/// The most objects of a grid that are probed one by one if the store cannot list them.
const MOST_ASKED: u64 = 10_000;

impl PossibleObject {
    /// An object at a position in the grid, with its listed length, or `None` if it may not exist.
    pub fn new(key: Key, cell: Vec<u64>, listed: Option<u64>) -> Self {
        Self { key, cell, listed }
    }
}

impl ChunkSet {
    /// The objects of the grid that are stored, in the order of their cells.
    ///
    /// One listing per folder. If the store cannot list, every object the grid has room for is
    /// probed: one request each, many in parallel, and [`Error::Unlisted`] if there may be more
    /// than 10,000.
    pub fn objects(&self) -> Result<Vec<StoredObject>, Error> {
        let possible = self.possible_objects()?;
        let most = match possible.first() {
            Some(PossibleObject { listed: None, .. }) => self.engine.at_once(&*self.store, 1),
            _ => 1,
        };
        let mut objects = Vec::with_capacity(possible.len());
        let mut failed = None;
        let ask = |i: usize| match possible[i].listed {
            Some(len) => Ok(Some(len)),
            None => self.length(&possible[i].key),
        };
        in_order(most, possible.len(), &ask, &mut |i, len| {
            match len {
                Ok(None) => {}
                Ok(Some(len)) => {
                    let PossibleObject { key, cell, .. } = possible[i].clone();
                    objects.push(StoredObject::new(key, cell, len));
                }
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        failed.map_or(Ok(objects), |error| Err(error.into()))
    }

    /// The objects of the grid that are stored, in the order of their cells: those that are listed
    /// or, if the store cannot list, all that may exist.
    ///
    /// One listing per folder, several in parallel in a remote store. [`Error::Unlisted`] if the
    /// store cannot list and the grid has room for more than 10,000 objects.
    pub fn possible_objects(&self) -> Result<Vec<PossibleObject>, Error> {
        let objects = match self.packing.list(&self.engine, &*self.store) {
            Err(Error::Store(StoreError::Unsupported { .. })) => return self.asked_objects(),
            listed => listed?,
        };
        // Shards by key are listed only if they have room for a cell.
        let shares = self.packing.shared().is_some();
        let inside = |object: &StoredObject| {
            let axes = object.cell.iter().zip(self.cell_shape()).zip(&self.shape);
            shares || axes.clone().all(|((&i, &n), &len)| i < len.div_ceil(n))
        };
        let objects = objects.into_iter().filter(inside);
        Ok(objects
            .map(|StoredObject { key, cell, len, .. }| PossibleObject {
                key,
                cell,
                listed: Some(len),
            })
            .collect())
    }

    /// All objects that may exist, for stores that cannot list.
    fn asked_objects(&self) -> Result<Vec<PossibleObject>, Error> {
        let packing = &self.packing;
        let too_many = |objects| Error::Unlisted { objects };
        let Some(shared) = packing.shared() else {
            let cells = self.cells();
            if cells.count > MOST_ASKED {
                return Err(too_many(cells.count));
            }
            let object = |cell: Vec<u64>| {
                Ok(PossibleObject { key: packing.key(&cell)?, cell, listed: None })
            };
            return cells.map(object).collect();
        };
        let places: Vec<Vec<u64>> = shared.places().take(MOST_ASKED as usize + 1).collect();
        if places.len() as u64 > MOST_ASKED {
            return Err(too_many(places.len() as u64));
        }
        let object = |cell: Vec<u64>| {
            let Some(object) = shared.object_at(&cell) else { return Ok(None) };
            Ok(Some(PossibleObject { key: shared.object_key(object)?, cell, listed: None }))
        };
        places.into_iter().filter_map(|place| object(place).transpose()).collect()
    }

    /// All cells of the grid.
    pub fn cells(&self) -> Cells {
        let axes = self.shape.iter().zip(self.cell_shape());
        Cells::new(axes.map(|(&len, &n)| len.div_ceil(n.max(1))).collect())
    }

    /// The stored size of a cell in bytes; `None` if it is not stored.
    pub fn cell_length(&self, cell: &[u64]) -> Result<Option<u64>, StoreError> {
        let Some(found) = self.find(cell)? else { return Ok(None) };
        match found.range.map_or_else(|| ask_length(&*found.object), |r| Ok(r.end - r.start)) {
            Ok(len) => Ok(Some(len)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The length of an object; `None` if it does not exist.
    pub fn length(&self, key: &Key) -> Result<Option<u64>, StoreError> {
        let asked = self.store.open(key, None).and_then(|object| ask_length(&*object));
        match asked {
            Ok(len) => Ok(Some(len)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The length of an open object, if necessary by a request for none of its bytes.
pub(super) fn ask_length(object: &dyn Object) -> Result<u64, StoreError> {
    if let Some(len) = object.len() {
        return Ok(len);
    }
    object.read(ReadRange::Bounded(0..0))?;
    told_length(object)
}

/// The length of an object that has been read from.
pub(super) fn told_length(object: &dyn Object) -> Result<u64, StoreError> {
    object.len().ok_or_else(|| StoreError::Unsupported {
        store: format!("{object:?}"),
        operation: "report its length",
    })
}
