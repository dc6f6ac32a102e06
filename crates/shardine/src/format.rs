//! What a format knows about a location before a data set is opened there: the names of its
//! documents, and the objects that they describe.

use std::fmt;
use std::sync::Arc;

use shardine_store::{Key, Listing, StoreError};

use crate::set::DataSet;
use crate::{Engine, Error, Location};

/// A data set format; `dataset.rs` lists them all.
pub(crate) trait Format: Sync {
    /// The names of its documents.
    fn documents(&self) -> DocumentNames;

    /// Opens the data set at a location; `None` if none of its documents is there.
    fn open(
        &self,
        engine: &Arc<Engine>,
        location: &Location,
    ) -> Result<Option<Box<dyn DataSet>>, Error>;

    /// The objects that the data set at a location may have; `None` if none of its documents is
    /// there.
    ///
    /// Derived from documents alone, without opening any array: unknown types and codecs do not
    /// matter.
    fn contents(&self, location: &Location) -> Result<Option<Contents>, ContentsError>;

    /// Refuses a folder with documents that name a folder outside `within`. `listing` is the
    /// contents of the folder.
    fn check_inside(
        &self,
        _within: &Location,
        _folder: &Location,
        _listing: &Listing,
    ) -> Result<(), ContentsError> {
        Ok(())
    }

    /// Whether the name of an object says how it is encoded, so that its bytes stay as they are
    /// even where headers that say the same are lost.
    fn names_encoding(&self, _name: &str) -> bool {
        false
    }
}

/// The names of a format's documents, in the order in which those of one folder may appear.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DocumentNames {
    /// Documents that add to one of `making`.
    pub before: &'static [&'static str],
    /// Documents that make a data set; the first one that exists counts.
    pub making: &'static [&'static str],
    /// Documents that describe the data sets below.
    pub after: &'static [&'static str],
}

/// When a document may appear among those of its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DocumentRank {
    Before,
    Making,
    After,
}

impl DocumentNames {
    /// The rank of an object with this name; `None` if it is not a document.
    pub fn rank(self, name: &str) -> Option<DocumentRank> {
        let ranks = [
            (self.before, DocumentRank::Before),
            (self.making, DocumentRank::Making),
            (self.after, DocumentRank::After),
        ];
        ranks.into_iter().find(|(names, _)| names.contains(&name)).map(|(_, rank)| rank)
    }
}

/// All objects that a data set may have.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Documents, and whatever else has a name of its own. Of two with the same key the first
    /// counts.
    pub objects: Vec<PossibleKey>,
    pub grids: Vec<KeyGrid>,
}

/// An object that is or may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PossibleKey {
    pub key: Key,
    /// Whether the data set is incomplete without it.
    pub needed: bool,
    /// What may be there instead if it is missing.
    pub instead: Vec<PossibleKey>,
}

/// Objects whose keys follow from numbers.
pub(crate) struct KeyGrid {
    /// The folder that they belong to.
    pub folder: Location,
    /// Generated lazily: there may be millions.
    pub keys: KeyStream,
}

/// Keys generated lazily.
pub(crate) type KeyStream = Box<dyn Iterator<Item = Result<PossibleKey, Error>> + Send>;

impl fmt::Debug for KeyGrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyGrid").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl PossibleKey {
    /// An object that may be missing.
    pub fn new(key: Key) -> Self {
        Self { key, needed: false, instead: Vec::new() }
    }
}

impl Contents {
    /// Adds an object without which the data set is incomplete.
    pub fn needs(&mut self, key: Key) {
        self.objects.push(PossibleKey { needed: true, ..PossibleKey::new(key) });
    }

    /// Adds an object that may be missing.
    pub fn may_have(&mut self, key: Key) {
        self.objects.push(PossibleKey::new(key));
    }

    /// Adds the objects of a grid that belongs to a folder.
    pub fn grid<E: Into<Error>>(
        &mut self,
        folder: &Location,
        keys: impl Iterator<Item = Result<PossibleKey, E>> + Send + 'static,
    ) {
        let keys = Box::new(keys.map(|key| key.map_err(Into::into)));
        self.grids.push(KeyGrid { folder: folder.clone(), keys });
    }
}

/// Why the objects of a data set cannot be determined.
#[derive(Debug)]
pub(crate) enum ContentsError {
    /// Its documents do not name them all.
    Untold {
        reason: &'static str,
        /// What to do about it.
        advice: Option<&'static str>,
    },
    /// A document names a folder outside the location in question.
    Outside {
        document: Key,
        folder: String,
    },
    Other(Error),
}

impl From<Error> for ContentsError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<StoreError> for ContentsError {
    fn from(error: StoreError) -> Self {
        Self::Other(error.into())
    }
}

/// The folder that a document at a location names by a relative path; [`ContentsError::Outside`] if
/// it is neither `within` nor below it.
pub(crate) fn folder_within(
    within: &Location,
    at: &Location,
    document: &str,
    path: &str,
) -> Result<Location, ContentsError> {
    let is_inside = |folder: &Location| match (&within.path, &folder.path) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(root), Some(path)) => {
            let rest = path.as_str().strip_prefix(root.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
    };
    match at.resolved(path)?.filter(is_inside) {
        Some(folder) => Ok(folder),
        None => {
            let (document, folder) = (at.key(document)?, path.to_owned());
            Err(ContentsError::Outside { document, folder })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shardine_store::MemoryStore;

    use super::*;

    #[test]
    fn a_folder_is_outside_however_its_path_gets_there() {
        let root = Location::root(Arc::new(MemoryStore::new()));
        let (within, at) = (root.join("a/b").unwrap(), root.join("a/b/c").unwrap());
        let found = |path: &str| folder_within(&within, &at, "info", path);
        for (path, expected) in [("d", "a/b/c/d"), ("../d/", "a/b/d"), ("./..", "a/b")] {
            let folder = found(path).unwrap().path.map(|key| key.to_string());
            assert_eq!(folder.as_deref(), Some(expected));
        }
        for path in ["../..", "../../bc", "../../../..", "../../../../../x"] {
            let refused = found(path);
            assert!(
                matches!(&refused, Err(ContentsError::Outside { document, folder })
                    if document.as_str() == "a/b/c/info" && folder == path),
                "{refused:?}"
            );
        }
    }
}
