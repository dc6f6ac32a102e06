//! Which objects a data set has: by listing its folders, or from its documents.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use shardine_store::{Key, Listing, StoreError, StoreExt};

use super::CopyError;
use crate::dataset::{check_inside, document_names, is_document};
use crate::format::{Contents, ContentsError, KeyStream, PossibleKey};
use crate::jobs::frame::place;
use crate::jobs::losses::LOSS_RECORD;
use crate::jobs::whole::refuse;
use crate::{Error, Location};

/// Deeper than any hierarchy with its chunks that is not a loop of links.
const MAX_DEPTH: usize = 128;

/// Keys of a grid generated at a time.
const CELLS: usize = 1024;

/// An object of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundObject {
    pub key: Key,
    /// From a listing; the object may have changed since.
    pub len: Option<u64>,
    /// Whether it must exist.
    pub needed: bool,
    /// What may exist instead of it, if it does not.
    pub instead: Vec<FoundObject>,
}

impl From<PossibleKey> for FoundObject {
    fn from(PossibleKey { key, needed, instead }: PossibleKey) -> Self {
        let instead = instead.into_iter().map(Self::from).collect();
        Self { key, len: None, needed, instead }
    }
}

/// The contents of a branch.
#[derive(Debug)]
pub(super) struct Expanded<B> {
    pub objects: Vec<FoundObject>,
    pub branches: Vec<B>,
}

/// Where the keys of a data set come from.
///
/// It is a tree of branches, each expanded by itself, so that they can be expanded in parallel and
/// no more of them than needed next.
pub(super) trait KeySource: Sync {
    type Branch: Send;

    /// The branches to begin with.
    fn first(&self) -> Vec<Self::Branch>;

    /// The folder of a branch, if it is one that is listed.
    fn folder(&self, branch: &Self::Branch) -> Option<Location>;

    /// The objects of a branch and the branches inside it.
    fn expand(&self, branch: Self::Branch) -> Result<Expanded<Self::Branch>, Error>;
}

/// The folder of a key; `None` for the root.
pub(in crate::jobs) fn parent(key: &Key) -> Option<Key> {
    let (folder, _) = key.as_str().rsplit_once('/')?;
    Key::new(folder).ok()
}

/// All objects below a location, by listing. One listing for each folder.
#[derive(Debug)]
pub(super) struct Listed<'a> {
    location: &'a Location,
    /// The first listing, if it has been made already.
    root: Mutex<Option<Listing>>,
    /// Whether something left out of a listing is an error.
    whole: bool,
    /// Whether it is copied, so that folders named by documents have to lie in it.
    copied: bool,
}

impl<'a> Listed<'a> {
    /// For a location that is to be emptied.
    pub fn new(location: &'a Location) -> Self {
        // What listings of files leave out can be removed all the same.
        let whole = !location.store.has_folders();
        Self { location, root: Mutex::new(None), whole, copied: false }
    }
}

impl KeySource for Listed<'_> {
    type Branch = Option<Key>;

    fn first(&self) -> Vec<Self::Branch> {
        vec![self.location.path.clone()]
    }

    fn folder(&self, branch: &Self::Branch) -> Option<Location> {
        Some(self.location.at(branch.clone()))
    }

    fn expand(&self, folder: Self::Branch) -> Result<Expanded<Self::Branch>, Error> {
        let depth = |key: &Key| key.as_str().split('/').count();
        let above = self.location.path.as_ref().map_or(0, depth);
        if let Some(folder) = &folder
            && depth(folder) > above + MAX_DEPTH
        {
            return Err(CopyError::TooDeep { folder: folder.clone() }.into());
        }
        let known = match folder == self.location.path {
            true => self.root.lock().unwrap_or_else(PoisonError::into_inner).take(),
            false => None,
        };
        let listing = match known {
            Some(listing) => listing,
            None => self.location.store.list(folder.as_ref())?,
        };
        if self.whole {
            refuse(self.location, &listing.unlisted, listing.more_unlisted)?;
        }
        // The root has been checked already.
        if self.copied && folder != self.location.path {
            check_inside(self.location, &self.location.at(folder), &listing)
                .map_err(|error| refusal(self.location, error))?;
        }
        let object = |(key, len)| {
            let needed = is_document(&key);
            FoundObject { key, len: Some(len), needed, instead: Vec::new() }
        };
        Ok(Expanded {
            objects: listing.objects.into_iter().map(object).collect(),
            branches: listing.folders.into_iter().map(Some).collect(),
        })
    }
}

/// The objects that documents describe, each of which may be missing, for stores that cannot list.
pub(super) struct Told {
    /// Taken at the start.
    branches: Mutex<Vec<ToldBranch>>,
}

/// A part of such objects.
pub(super) enum ToldBranch {
    Objects(Vec<FoundObject>),
    Grid(KeyStream),
}

impl Told {
    pub fn new(contents: Contents) -> Result<Self, Error> {
        let mut objects = contents.objects;
        let mut seen = HashSet::new();
        objects.retain(|object| seen.insert(object.key.clone()));
        let mut branches = vec![ToldBranch::Objects(objects.into_iter().map(Into::into).collect())];
        for grid in contents.grids {
            // The copy has to record what it lacks. Grids may share a folder.
            let record = grid.folder.key(LOSS_RECORD)?;
            let record = seen.insert(record.clone()).then(|| Ok(PossibleKey::new(record)));
            branches.push(ToldBranch::Grid(Box::new(record.into_iter().chain(grid.keys))));
        }
        Ok(Self { branches: Mutex::new(branches) })
    }
}

impl KeySource for Told {
    type Branch = ToldBranch;

    fn first(&self) -> Vec<ToldBranch> {
        std::mem::take(&mut self.branches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn folder(&self, _: &ToldBranch) -> Option<Location> {
        None
    }

    fn expand(&self, branch: ToldBranch) -> Result<Expanded<ToldBranch>, Error> {
        let mut keys = match branch {
            ToldBranch::Objects(objects) => return Ok(Expanded { objects, branches: Vec::new() }),
            ToldBranch::Grid(keys) => keys,
        };
        let mut objects = Vec::new();
        for key in keys.by_ref().take(CELLS) {
            objects.push(key?.into());
        }
        let branches = match objects.len() {
            CELLS => vec![ToldBranch::Grid(keys)],
            _ => Vec::new(),
        };
        Ok(Expanded { objects, branches })
    }
}

/// The error for a source whose documents do not name all its objects, or name others.
pub(super) fn refusal(source: &Location, error: ContentsError) -> Error {
    let at = source.to_string();
    match error {
        ContentsError::Untold { reason, advice } => {
            CopyError::Unlisted { at, reason: reason.to_owned(), advice }.into()
        }
        ContentsError::Outside { document, folder } => {
            CopyError::Outside { at, document, folder }.into()
        }
        ContentsError::Other(error) => error,
    }
}

/// The error for a source without documents that cannot be listed.
pub(super) fn nothing_told(source: &Location) -> Error {
    let mut names: Vec<&str> = document_names().flat_map(|names| names.making).copied().collect();
    let last = names.pop().unwrap_or_default();
    let reason = format!("there is no {} or {last} that lists them", names.join(", "));
    CopyError::Unlisted { at: source.to_string(), reason, advice: None }.into()
}

/// The objects of a source by listing; `None` if it cannot be listed. An error if there is nothing,
/// or no data set.
pub(super) fn list(source: &Location) -> Result<Option<Listed<'_>>, Error> {
    let _hold = source.hold()?;
    let listing = match source.store.list(source.path.as_ref()) {
        Ok(listing) => listing,
        Err(StoreError::Unsupported { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !listing.is_empty() {
        check_inside(source, source, &listing).map_err(|error| refusal(source, error))?;
        // Files are listed again once they are held in place.
        let known = if source.store.has_folders() { None } else { Some(listing) };
        let root = Mutex::new(known);
        return Ok(Some(Listed { location: source, root, whole: true, copied: true }));
    }
    let at = source.to_string();
    Err(match place::is_object(source)? {
        true => CopyError::SingleObject { at }.into(),
        false => CopyError::Nothing { at }.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shardine_store::MemoryStore;

    use super::*;

    #[test]
    fn the_keys_of_a_large_grid_are_made_as_they_are_copied() {
        let place = Location::root(Arc::new(MemoryStore::new()));
        let mut contents = Contents::default();
        let (made, counted) = (Arc::new(Mutex::new(0)), 1 << 40);
        let count = Arc::clone(&made);
        let keys = (0..counted).map(move |i: u64| {
            *count.lock().unwrap() += 1;
            Key::new(&i.to_string()).map(PossibleKey::new)
        });
        contents.grid(&place, keys);
        contents.grid(&place, (0..3).map(|i| Key::new(&format!("x/{i}")).map(PossibleKey::new)));
        let told = Told::new(contents).unwrap();
        let mut branches = told.first();
        assert_eq!((branches.len(), *made.lock().unwrap()), (3, 0));
        // The record of losses comes once, though both grids share one folder.
        let small = told.expand(branches.pop().unwrap()).unwrap();
        assert_eq!((small.objects.len(), small.branches.len()), (3, 0));
        let large = told.expand(branches.pop().unwrap()).unwrap();
        assert_eq!(large.objects[0].key.as_str(), LOSS_RECORD);
        assert_eq!((large.objects.len(), large.branches.len()), (CELLS, 1));
        assert_eq!(*made.lock().unwrap(), CELLS - 1);
    }

    #[test]
    fn the_folder_of_a_key_is_what_is_before_its_last_part() {
        let key = |text| Key::new(text).unwrap();
        assert_eq!(parent(&key("a/b/c")), Some(key("a/b")));
        assert_eq!(parent(&key("a")), None);
    }
}
