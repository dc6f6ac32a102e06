//! Which objects a data set has: by listing its folders, or by what its metadata says.

use std::sync::{Mutex, PoisonError};

use shardine_store::{Key, Listing, StoreError, StoreExt};

use super::CopyError;
use super::info_keys::check_inside;
use crate::dataset::read_info;
use crate::jobs::frame::place;
use crate::jobs::whole::refuse;
use crate::precomputed::INFO;
use crate::zarr::metadata::{ArrayMetadata, NodeMetadata};
use crate::zarr::{DOCUMENT, LOSS_RECORD, consolidated_name, node_documents};
use crate::{Error, Location};

/// Deeper than any hierarchy with its chunks that is not a loop of links.
const MAX_DEPTH: usize = 128;

/// Keys of a grid that are made at once.
pub(super) const CELLS: usize = 1024;

/// Bytes of an `info` up to which it is asked for folders outside of the source. Larger ones hold the properties of segments,
/// and those name no folders.
const LARGEST_INFO: u64 = 4 << 20;

/// An object of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundObject {
    pub key: Key,
    /// As a listing told it; the object may have changed since.
    pub len: Option<u64>,
    /// What may be there instead of it, if it is not there.
    pub instead: Vec<FoundObject>,
}

impl FoundObject {
    /// One that may be missing.
    pub fn possible(key: Key) -> Self {
        Self { key, len: None, instead: Vec::new() }
    }
}

/// What came of looking at a branch.
#[derive(Debug)]
pub(super) struct Found<B> {
    pub objects: Vec<FoundObject>,
    pub branches: Vec<B>,
}

/// Where the keys of a data set come from.
///
/// It is a tree of branches, and each is looked at by itself, so that they can be looked at side by side and no more
/// of them than is needed next.
pub(super) trait KeySource: Sync {
    type Branch: Send;

    /// Where to begin.
    fn first(&self) -> Vec<Self::Branch>;

    /// The folder that a branch is, if it is one that is listed.
    fn folder(&self, branch: &Self::Branch) -> Option<Location>;

    /// The objects of a branch and the branches inside it.
    fn expand(&self, branch: Self::Branch) -> Result<Found<Self::Branch>, Error>;
}

/// The rank of metadata among that of one folder; the highest one makes the data set visible. `None` for other objects.
pub(super) fn document_rank(key: &Key) -> Option<u8> {
    match key.as_str().rsplit('/').next()? {
        ".zattrs" => Some(0),
        DOCUMENT | ".zarray" | ".zgroup" | INFO => Some(1),
        ".zmetadata" => Some(2),
        _ => None,
    }
}

/// Whether an object describes others.
pub(in crate::jobs) fn is_document(key: &Key) -> bool {
    document_rank(key).is_some()
}

/// The folder that a key lies in; `None` is the root.
pub(in crate::jobs) fn parent(key: &Key) -> Option<Key> {
    let (folder, _) = key.as_str().rsplit_once('/')?;
    Key::new(folder).ok()
}

/// All objects below a place, by listing. One listing for each folder.
#[derive(Debug)]
pub(super) struct Listed<'a> {
    location: &'a Location,
    /// The first listing, if it has been made already.
    root: Mutex<Option<Listing>>,
    /// Whether what is left out of a listing is an error.
    whole: bool,
    /// Whether it is to be copied, so that what an `info` tells of has to lie in it.
    copied: bool,
}

impl<'a> Listed<'a> {
    /// Of a place that is to be emptied.
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

    fn expand(&self, folder: Self::Branch) -> Result<Found<Self::Branch>, Error> {
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
        // That of the root has been looked at.
        if self.copied && folder != self.location.path {
            check_listed(self.location, &self.location.at(folder), &listing)?;
        }
        let object = |(key, len)| FoundObject { len: Some(len), ..FoundObject::possible(key) };
        Ok(Found {
            objects: listing.objects.into_iter().map(object).collect(),
            branches: listing.folders.into_iter().map(Some).collect(),
        })
    }
}

/// The objects that Zarr metadata tells of, each of which may be missing, for stores that cannot list.
#[derive(Debug)]
pub(super) struct FromMetadata {
    nodes: Vec<(Location, NodeMetadata)>,
}

/// A part of a node.
#[derive(Debug)]
pub(super) enum NodePart {
    /// Its document, and of an array the beginning of its grid.
    Node(usize),
    /// The grid of an array from this cell on.
    Cells { node: usize, from: Vec<u64> },
}

impl FromMetadata {
    /// The document of a place: an array, or a group with consolidated metadata.
    pub fn of(location: &Location, root: NodeMetadata) -> Result<Self, Error> {
        let unlisted =
            |reason| Error::from(CopyError::Unlisted { at: location.to_string(), reason });
        let mut nodes = Vec::new();
        if let NodeMetadata::Group(group) = &root {
            let Some(entries) = group.consolidated() else {
                return Err(unlisted("the group has no consolidated metadata that tells them"));
            };
            for (path, node) in entries {
                let at = location.join(path)?;
                let name = consolidated_name(group.zarr_format());
                let refused = |source| {
                    Ok::<_, Error>(Error::Metadata { object: location.key(name)?, source })
                };
                match node {
                    Ok(node) => nodes.push((at, node.clone())),
                    Err(error) => return Err(refused(Box::new(error.clone()))?),
                }
            }
        }
        nodes.push((location.clone(), root));
        Ok(Self { nodes })
    }

    fn cells(&self, node: usize, from: Vec<u64>) -> Result<Found<NodePart>, Error> {
        let mut found = Found { objects: Vec::new(), branches: Vec::new() };
        let Some((location, NodeMetadata::Array(array))) = self.nodes.get(node) else {
            return Ok(found);
        };
        let grid = grid(array);
        let mut cell = Some(from);
        while let Some(at) = cell {
            if found.objects.len() == CELLS {
                found.branches.push(NodePart::Cells { node, from: at });
                break;
            }
            let key = location.key(&array.key_encoding().key(&at))?;
            found.objects.push(FoundObject::possible(key));
            cell = next_cell(at, &grid);
        }
        Ok(found)
    }
}

/// How many objects the grid of an array has along each axis.
fn grid(array: &ArrayMetadata) -> Vec<u64> {
    let axes = array.shape().iter().zip(array.chunk_shape());
    axes.map(|(&len, &chunk)| len.div_ceil(chunk.max(1))).collect()
}

/// The cell after this one in C order.
fn next_cell(mut cell: Vec<u64>, grid: &[u64]) -> Option<Vec<u64>> {
    for (i, &n) in cell.iter_mut().zip(grid).rev() {
        *i += 1;
        if *i < n {
            return Some(cell);
        }
        *i = 0;
    }
    None
}

impl KeySource for FromMetadata {
    type Branch = NodePart;

    fn first(&self) -> Vec<NodePart> {
        (0..self.nodes.len()).map(NodePart::Node).collect()
    }

    fn folder(&self, _: &NodePart) -> Option<Location> {
        None
    }

    fn expand(&self, part: NodePart) -> Result<Found<NodePart>, Error> {
        match part {
            NodePart::Cells { node, from } => self.cells(node, from),
            NodePart::Node(node) => {
                let Some((location, metadata)) = self.nodes.get(node) else {
                    return Ok(Found { objects: Vec::new(), branches: Vec::new() });
                };
                let mut objects = Vec::new();
                for (i, name) in node_documents(metadata).iter().enumerate() {
                    let key = location.key(name)?;
                    // All but the first may be missing.
                    if i == 0 || location.store.get(&key)?.is_some() {
                        objects.push(FoundObject::possible(key));
                    }
                }
                if let NodeMetadata::Array(_) = metadata {
                    // The copy has to say what is missing in it.
                    objects.push(FoundObject::possible(location.key(LOSS_RECORD)?));
                }
                let branches = match metadata {
                    NodeMetadata::Array(array) if !grid(array).contains(&0) => {
                        vec![NodePart::Cells { node, from: vec![0; array.shape().len()] }]
                    }
                    _ => Vec::new(),
                };
                Ok(Found { objects, branches })
            }
        }
    }
}

/// The objects of a source by listing, `None` if it cannot be listed; an error if there is nothing, or no data set.
pub(super) fn list(source: &Location) -> Result<Option<Listed<'_>>, Error> {
    let _hold = source.hold()?;
    let listing = match source.store.list(source.path.as_ref()) {
        Ok(listing) => listing,
        Err(StoreError::Unsupported { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !listing.is_empty() {
        check_listed(source, source, &listing)?;
        // Files are listed once more when they are held in their place.
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

/// Refuses a folder with an `info` that tells of what lies outside of the source. One read if there
/// is one.
fn check_listed(source: &Location, folder: &Location, listing: &Listing) -> Result<(), Error> {
    let info = folder.key(INFO)?;
    let is_looked_at = |(key, len): &(Key, u64)| *key == info && *len <= LARGEST_INFO;
    if !listing.objects.iter().any(is_looked_at) {
        return Ok(());
    }
    let checked = match read_info(folder) {
        Ok(Some(info)) => check_inside(source, folder, &info),
        read => read.map(drop),
    };
    match checked {
        // One that makes no sense tells of nothing, and is copied as it is.
        Err(Error::Info { .. } | Error::Store(StoreError::Key { .. })) => Ok(()),
        checked => checked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_in_c_order_and_end() {
        let mut cells = vec![vec![0, 0]];
        while let Some(next) = next_cell(cells.last().unwrap().clone(), &[2, 3]) {
            cells.push(next);
        }
        assert_eq!(cells, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
        assert_eq!(next_cell(Vec::new(), &[]), None);
    }

    #[test]
    fn metadata_is_known_by_its_name_alone() {
        let key = |text| Key::new(text).unwrap();
        for text in ["zarr.json", "a/.zarray", "a/b/.zattrs", ".zmetadata", "mesh/info"] {
            assert!(is_document(&key(text)), "{text}");
        }
        for text in ["c/0/0", "zarr.json.bak", "info/0", "azarr.json"] {
            assert!(!is_document(&key(text)), "{text}");
        }
        assert_eq!(parent(&key("a/b/c")), Some(key("a/b")));
        assert_eq!(parent(&key("a")), None);
    }
}
