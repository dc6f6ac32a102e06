//! Which objects of a grid there are.

use std::collections::HashMap;
use std::ops::ControlFlow;

use shardine_store::{Key, Listing, Object, ReadRange, Store, StoreError, Unlisted};

use super::Array;
use super::metadata::{ChunkKeyEncoding, Separator};
use crate::engine::{Cells, StoredObject, in_order};
use crate::{Engine, EngineError, Error, Location};

/// An object of an array's grid that is stored, or may be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PossibleObject {
    /// Its key.
    pub key: Key,
    /// Its place in the grid.
    pub cell: Vec<u64>,
    /// Its length in bytes when it was listed. `None` if the store cannot list: then it may not be there at all.
    pub listed: Option<u64>,
}

/// Objects of a grid that are asked for one by one where a store cannot list them.
const MOST_ASKED: u64 = 10_000;

/// Memory that is reckoned for a listing.
const LISTING: u64 = 256 << 10;

impl Array {
    /// The objects of the grid that are stored, in the order of their cells.
    ///
    /// A listing for each folder. Where the store cannot list, every object that the grid has room for is asked for: one request
    /// each, many at once, and [`Error::UnlistedObjects`] if there may be more than 10,000.
    pub fn objects(&self) -> Result<Vec<StoredObject>, Error> {
        let possible = self.possible_objects()?;
        let most = match possible.first() {
            Some(PossibleObject { listed: None, .. }) => self.engine.at_once(&*self.grid.store, 1),
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

    /// The objects of the grid that are stored, in the order of their cells: those that are listed, or where the store cannot
    /// list, all that may be there.
    ///
    /// A listing for each folder, some at once in a far store. [`Error::UnlistedObjects`] if the store cannot list
    /// and the grid has room for more than 10,000.
    pub fn possible_objects(&self) -> Result<Vec<PossibleObject>, Error> {
        let objects = match self.grid.packing.list(&self.engine, &*self.grid.store) {
            Err(EngineError::Store(StoreError::Unsupported { .. })) => return self.asked_objects(),
            listed => listed?,
        };
        // Of shards by key only those are listed that have room for a cell.
        let shares = self.grid.packing.shared().is_some();
        let inside = |object: &StoredObject| {
            let axes = object.cell.iter().zip(self.metadata.chunk_shape()).zip(self.shape());
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

    /// All objects that there may be, where the store cannot list them.
    fn asked_objects(&self) -> Result<Vec<PossibleObject>, Error> {
        let packing = &self.grid.packing;
        let too_many = |objects| Error::UnlistedObjects { at: self.location.to_string(), objects };
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
    pub(crate) fn cells(&self) -> Cells {
        let axes = self.shape().iter().zip(self.metadata.chunk_shape());
        Cells::new(axes.map(|(&len, &n)| len.div_ceil(n.max(1))).collect())
    }

    /// Bytes that a cell of the grid takes; `None` if it is not stored.
    pub(crate) fn cell_length(&self, cell: &[u64]) -> Result<Option<u64>, StoreError> {
        let Some(found) = self.grid.find(cell)? else { return Ok(None) };
        match found.range.map_or_else(|| ask_length(&*found.object), |r| Ok(r.end - r.start)) {
            Ok(len) => Ok(Some(len)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The length of an object that may not be there.
    pub(crate) fn length(&self, key: &Key) -> Result<Option<u64>, StoreError> {
        let asked = self.grid.store.open(key, None).and_then(|object| ask_length(&*object));
        match asked {
            Ok(len) => Ok(Some(len)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The length of an open object, if need be by a request for none of its bytes.
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
        operation: "tell its length",
    })
}

/// Listings of folders, each before those of the folders inside it. Of a far store some are made ahead.
#[derive(Debug)]
pub(crate) struct Listings<'a> {
    store: &'a dyn Store,
    most: usize,
    /// The last one is next.
    waiting: Vec<Option<Key>>,
    ready: HashMap<Option<Key>, Result<Listing, StoreError>>,
}

impl<'a> Listings<'a> {
    pub fn new(engine: &Engine, location: &'a Location) -> Self {
        let store = &*location.store;
        let most = engine.at_once(store, LISTING);
        Self { store, most, waiting: vec![location.path.clone()], ready: HashMap::new() }
    }

    /// Adds folders that are to come next, in this order.
    pub fn push(&mut self, folders: impl DoubleEndedIterator<Item = Key>) {
        self.waiting.extend(folders.rev().map(Some));
    }

    /// The folder that is listed next.
    pub fn folder(&mut self) -> Option<Option<Key>> {
        self.waiting.pop()
    }

    /// The listing of a folder that came from [`folder`](Self::folder).
    pub fn list(&mut self, folder: Option<&Key>) -> Result<Listing, StoreError> {
        if self.most < 2 {
            return self.store.list(folder);
        }
        let folder = folder.cloned();
        if let Some(listing) = self.ready.remove(&folder) {
            return listing;
        }
        let soon = self.waiting.iter().rev().take_while(|folder| !self.ready.contains_key(*folder));
        let soon = soon.take(self.most - 1).cloned();
        let folders: Vec<Option<Key>> = std::iter::once(folder.clone()).chain(soon).collect();
        in_order(
            self.most,
            folders.len(),
            &|i| self.store.list(folders[i].as_ref()),
            &mut |i, listing| {
                self.ready.insert(folders[i].clone(), listing);
                ControlFlow::Continue(())
            },
        );
        self.ready.remove(&folder).unwrap_or_else(|| self.store.list(folder.as_ref()))
    }
}

/// What there is of a grid below a place.
#[derive(Debug, Default)]
pub(super) struct GridContents {
    /// The objects whose keys name cells, by cell.
    pub objects: Vec<StoredObject>,
    /// The folders that such keys go through, each before those inside it.
    pub folders: Vec<Key>,
    /// What stands where such an object or folder belongs, and is neither: a link to a folder, say.
    pub unlisted: Vec<Unlisted>,
}

impl GridContents {
    /// Finds them by names alone: a listing for the place and one for each folder.
    pub fn list(
        engine: &Engine,
        location: &Location,
        encoding: &ChunkKeyEncoding,
        rank: usize,
    ) -> Result<Self, Error> {
        let skip = location.path.as_ref().map_or(0, |path| path.as_str().len() + 1);
        let mut found = Self::default();
        let mut listings = Listings::new(engine, location);
        while let Some(folder) = listings.folder() {
            let listing = listings.list(folder.as_ref())?;
            for (key, len) in listing.objects {
                if let Some(cell) = encoding.parse(&key.as_str()[skip..], rank) {
                    found.objects.push(StoredObject::new(key, cell, len));
                }
            }
            found.unlisted.extend(listing.unlisted.into_iter().filter(|unlisted| {
                let name = unlisted.name.get(skip..).unwrap_or_default();
                encoding.parse(name, rank).is_some() || is_grid_folder(encoding, name, rank)
            }));
            let inside = listing.folders.into_iter();
            listings
                .push(inside.filter(|key| is_grid_folder(encoding, &key.as_str()[skip..], rank)));
            found.folders.extend(folder.filter(|folder| Some(folder) != location.path.as_ref()));
        }
        found.objects.sort_by(|a, b| a.cell.cmp(&b.cell));
        Ok(found)
    }

    /// The objects, or an error if something stands among them behind which there may be more.
    pub fn into_objects(self) -> Result<Vec<StoredObject>, Error> {
        match self.unlisted.into_iter().next() {
            // What is behind it can be read by key, and nobody can tell what there is.
            Some(unlisted) => Err(StoreError::from(unlisted).into()),
            None => Ok(self.objects),
        }
    }
}

/// Whether keys of cells of `rank` numbers can go through a folder of this name.
fn is_grid_folder(encoding: &ChunkKeyEncoding, name: &str, rank: usize) -> bool {
    grid_folder(encoding, name, rank).is_some()
}

/// The numbers that a folder of this name has in common with the cells whose keys go through it; `None` if none do.
pub(crate) fn grid_folder(
    encoding: &ChunkKeyEncoding,
    name: &str,
    rank: usize,
) -> Option<Vec<u64>> {
    let numbers = match encoding {
        ChunkKeyEncoding::Default { separator: Separator::Slash } if name == "c" => {
            return (rank > 0).then(Vec::new);
        }
        ChunkKeyEncoding::Default { separator: Separator::Slash } => name.strip_prefix("c/"),
        ChunkKeyEncoding::V2 { separator: Separator::Slash } => Some(name),
        _ => None,
    }?;
    // As many numbers as the folder has are one axis less than the key, or more.
    let parts = numbers.split('/').count();
    let v2 = ChunkKeyEncoding::V2 { separator: Separator::Slash };
    if parts < rank { v2.parse(numbers, parts) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_keys_go_through_are_of_the_grid() {
        let slash = ChunkKeyEncoding::default();
        for name in ["c", "c/0", "c/0/18446744073709551615"] {
            assert!(is_grid_folder(&slash, name, 3), "{name}");
        }
        for name in ["0", "c/0/0/0", "c/x", "c/00", "c/+1", "c/-1", "c/", "d", "c/c", "c0"] {
            assert!(!is_grid_folder(&slash, name, 3), "{name}");
        }
        assert!(!is_grid_folder(&slash, "c", 0));
        let v2 = ChunkKeyEncoding::V2 { separator: Separator::Slash };
        assert!(is_grid_folder(&v2, "1/2", 3) && !is_grid_folder(&v2, "1/2/3", 3));
        assert!(!is_grid_folder(&v2, "c", 3));
        let separator = Separator::Dot;
        assert!(!is_grid_folder(&ChunkKeyEncoding::Default { separator }, "c", 3));
        assert!(!is_grid_folder(&ChunkKeyEncoding::V2 { separator }, "1", 3));
    }
}
