//! Which objects of a grid exist.

use std::collections::HashMap;
use std::ops::ControlFlow;

use shardine_store::{Key, Listing, Store, StoreError, Unlisted};

use super::metadata::{ChunkKeyEncoding, Separator};
use crate::engine::tuning::LISTING;
use crate::engine::{StoredObject, in_order};
use crate::{Engine, Error, Location};

/// Listings of folders, each before those of its subfolders. For a remote store some are
/// prefetched.
#[derive(Debug)]
pub(crate) struct Listings<'a> {
    store: &'a dyn Store,
    most: usize,
    /// Popped from the end.
    waiting: Vec<Option<Key>>,
    ready: HashMap<Option<Key>, Result<Listing, StoreError>>,
}

impl<'a> Listings<'a> {
    pub fn new(engine: &Engine, location: &'a Location) -> Self {
        let store = &*location.store;
        let most = engine.at_once(store, LISTING);
        Self { store, most, waiting: vec![location.path.clone()], ready: HashMap::new() }
    }

    /// Adds folders to list next, in this order.
    pub fn push(&mut self, folders: impl DoubleEndedIterator<Item = Key>) {
        self.waiting.extend(folders.rev().map(Some));
    }

    /// The next folder to list.
    pub fn folder(&mut self) -> Option<Option<Key>> {
        self.waiting.pop()
    }

    /// The listing of a folder returned by [`folder`](Self::folder).
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

/// The contents of a grid below a location.
#[derive(Debug, Default)]
pub(super) struct GridContents {
    /// The objects whose keys name cells, by cell.
    pub objects: Vec<StoredObject>,
    /// The folders in the path of such keys, each before its subfolders.
    pub folders: Vec<Key>,
    /// Anything in place of such an object or folder that is neither: a link to a folder, say.
    pub unlisted: Vec<Unlisted>,
}

impl GridContents {
    /// Finds them by name alone: one listing for the location and one for each folder.
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

    /// The objects, or an error if something among them may hide more.
    pub fn into_objects(self) -> Result<Vec<StoredObject>, Error> {
        match self.unlisted.into_iter().next() {
            // What is behind it can be read by key, but cannot be listed.
            Some(unlisted) => Err(StoreError::from(unlisted).into()),
            None => Ok(self.objects),
        }
    }
}

/// Whether keys of cells with `rank` numbers can go through a folder of this name.
fn is_grid_folder(encoding: &ChunkKeyEncoding, name: &str, rank: usize) -> bool {
    grid_folder(encoding, name, rank).is_some()
}

/// The numbers that a folder of this name has in common with the cells whose keys go through it;
/// `None` if none do.
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
    // The folder has at least one number fewer than the key.
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
