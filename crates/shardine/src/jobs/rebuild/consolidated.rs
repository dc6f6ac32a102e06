//! The copies of array metadata in the groups above (consolidated metadata).
//!
//! Between the exchange of an array and the update of such a copy, a reader that trusts the copy
//! would look for chunks that are gone. So the copy is removed before the first exchange, which
//! makes readers open the arrays themselves, and put back after the last one. Other jobs may
//! exchange other arrays below the same group meanwhile, and find no copy to update: so when it is
//! put back, all arrays in it are read.
//!
//! A removed copy is kept in the folder of a job on an array below the group, so that resuming that
//! job restores it.

use std::collections::HashMap;
use std::path::Path;

use shardine_store::{
    Condition, DocumentStamp, FileStore, Key, LeftoverKind, MAX_SMALL_OBJECT, Object, ReadRange,
    Store, StoreError, StoreExt,
};

use crate::jobs::frame::Exchange;
use crate::zarr::metadata::{GroupMetadata, NodeMetadata, check_node_name};
use crate::zarr::{DOCUMENT, MAX_DEPTH};
use crate::{Error, Location};

/// Attempts to update a group whose document other processes keep changing.
const ATTEMPTS: usize = 16;

/// The groups above arrays that are exchanged one after the other.
#[derive(Default)]
pub(in crate::jobs) struct Copies {
    groups: Vec<GroupAbove>,
}

/// A group that may have a copy of the metadata of arrays below it.
struct GroupAbove {
    store: FileStore,
    /// Its document as last seen, raw and parsed.
    text: Vec<u8>,
    metadata: GroupMetadata,
    arrays: Vec<ArrayBelow>,
    /// The array whose job folder keeps the removed copy.
    taken: Option<usize>,
}

/// An exchanged array, as seen from a group above it.
struct ArrayBelow {
    /// Its path below the group.
    path: String,
    /// Where the copy of the group may be kept: in the folder of the job on the array.
    beside: FileStore,
    kept: Key,
}

impl Copies {
    /// Removes the copies that groups above an array have of its metadata, unless they are removed
    /// already. Call before each exchange: another job may have put a copy back since.
    ///
    /// Costs a read for each group, and two writes if there is a copy.
    pub fn take_away(&mut self, job: &Exchange, place: &Location) -> Result<(), Error> {
        for (group, array) in self.add(job, place)? {
            if let Some(group) = self.groups.get_mut(group) {
                group.take_away(array)?;
            }
        }
        Ok(())
    }

    /// Registers an array, so that the copies of its metadata are updated with the others. Returns
    /// the groups above it, and its number in each.
    ///
    /// Those are the folders above it as far as they are groups. If the array was reached by links,
    /// also those above the linking path.
    pub fn add(&mut self, job: &Exchange, place: &Location) -> Result<Vec<(usize, usize)>, Error> {
        let mut places = vec![job.beside.root().join(job.name.as_str())];
        if let Some(folders) = place.store.folders() {
            places.push(folders.path_of(place.path.as_ref()));
            places.dedup();
        }
        let mut found = Vec::new();
        for (number, place) in places.iter().enumerate() {
            let mut path = String::new();
            for (depth, folder) in place.ancestors().skip(1).take(MAX_DEPTH).enumerate() {
                let below = place.ancestors().nth(depth).and_then(Path::file_name);
                let below = below.map(|name| name.to_string_lossy()).unwrap_or_default();
                path = if path.is_empty() { below.into() } else { format!("{below}/{path}") };
                let Some(group) = self.group(&job.beside, folder)? else { break };
                let Some(above) = self.groups.get_mut(group) else { break };
                let kept = job.work.join(&format!("group-{number}-{depth}.json"))?;
                found.push((group, above.arrays.len()));
                let beside = job.beside.clone();
                above.arrays.push(ArrayBelow { path: path.clone(), beside, kept });
            }
        }
        Ok(found)
    }

    /// The number of the group in a folder; `None` if the folder is not a group.
    fn group(&mut self, beside: &FileStore, folder: &Path) -> Result<Option<usize>, Error> {
        let known = self.groups.iter().position(|group| group.store.root() == folder);
        if known.is_some() {
            return Ok(known);
        }
        let store = beside.elsewhere(folder);
        let Some(text) = store.get(&Key::new(DOCUMENT)?)? else { return Ok(None) };
        let Ok(NodeMetadata::Group(metadata)) = NodeMetadata::parse(&text) else {
            return Ok(None);
        };
        let (text, arrays) = (text.to_vec(), Vec::new());
        self.groups.push(GroupAbove { store, text, metadata, arrays, taken: None });
        Ok(Some(self.groups.len() - 1))
    }

    /// Puts the copies back with the current metadata of the arrays, including copies that an
    /// earlier run of the jobs removed, and updates those that another job has put back meanwhile.
    /// A copy that cannot be put back stays with its job, and does not stop the others.
    ///
    /// Costs a read and a `stat` for each array that a copy names, and a write for each group.
    pub fn put_back(&self) -> Result<(), Error> {
        let all: Vec<Result<(), Error>> = self.groups.iter().map(GroupAbove::put_back).collect();
        all.into_iter().collect()
    }
}

impl GroupAbove {
    /// Removes the copy if it contains an array, and keeps it aside.
    fn take_away(&mut self, array: usize) -> Result<(), Error> {
        let document = Key::new(DOCUMENT)?;
        // Only the copy is removed: concurrent changes to the rest of the document stay.
        loop {
            let object = self.store.open(&document, None)?;
            let text = object.read(ReadRange::AtMost(MAX_SMALL_OBJECT))?;
            if self.text != *text {
                let Ok(NodeMetadata::Group(group)) = NodeMetadata::parse(&text) else {
                    return Ok(());
                };
                (self.text, self.metadata) = (text.to_vec(), group);
            }
            let below = self.arrays.get(array);
            if !below.is_some_and(|below| self.metadata.knows(&below.path)) {
                return Ok(());
            }
            let keeper = *self.taken.get_or_insert(array);
            if let Some(ArrayBelow { beside, kept, .. }) = self.arrays.get(keeper) {
                beside.put(kept, &self.metadata.to_bytes(), Condition::None)?;
            }
            // The contents are unknown until written, or read again.
            self.text.clear();
            self.metadata.remove_consolidated();
            let without = self.metadata.to_bytes();
            match self.store.put(&document, &without, unchanged(&*object)) {
                Ok(_) => {
                    self.text = without;
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn put_back(&self) -> Result<(), Error> {
        let (mut before, mut kept) = (None, Vec::new());
        for (number, ArrayBelow { beside, kept: key, .. }) in self.arrays.iter().enumerate() {
            let Some(text) = beside.get(key)? else { continue };
            kept.push((beside, key));
            // The others were kept by runs that were killed, and are older.
            if before.is_none() || self.taken == Some(number) {
                before = match NodeMetadata::parse(&text) {
                    Ok(NodeMetadata::Group(group)) => Some(group),
                    _ => before,
                };
            }
        }
        if before.is_some() {
            // Leftovers of a run killed here; nothing else says whose they are.
            for leftover in self.store.leftovers(None)? {
                if leftover.kind == LeftoverKind::Temporary && !leftover.in_use {
                    self.store.remove_leftover(None, &leftover.name)?;
                }
            }
        }
        self.renew(before.as_ref())?;
        for (beside, key) in kept {
            beside.remove_tree(key)?;
        }
        Ok(())
    }

    /// Gives the group its copy back, with each array's own metadata; or updates the copy's entries
    /// for the arrays that were exchanged. Another job may be working on other arrays.
    fn renew(&self, before: Option<&GroupMetadata>) -> Result<(), Error> {
        let document = Key::new(DOCUMENT)?;
        let mut nodes = Nodes { store: &self.store, read: HashMap::new() };
        let mut is_back = false;
        for _ in 0..ATTEMPTS {
            let object = self.store.open(&document, None)?;
            let text = object.read(ReadRange::AtMost(MAX_SMALL_OBJECT))?;
            let Ok(NodeMetadata::Group(mut group)) = NodeMetadata::parse(&text) else {
                return Ok(());
            };
            let is_away = group.consolidated().is_none();
            match before {
                // Another job has removed it again, and will put it back.
                _ if is_away && is_back => return Ok(()),
                Some(before) if is_away => group.copy_consolidated(before),
                _ => {}
            }
            match before {
                Some(_) => {
                    let known = group.consolidated().unwrap_or_default().iter();
                    let arrays =
                        known.filter(|(_, node)| !matches!(node, Ok(NodeMetadata::Group(_))));
                    arrays
                        .map(|(path, _)| path.as_str())
                        .try_for_each(|path| nodes.look_at(path))?;
                }
                None => {
                    let arrays = self.arrays.iter().map(|array| array.path.as_str());
                    let mut known = arrays.filter(|path| group.knows(path));
                    known.try_for_each(|path| nodes.look_at(path))?;
                }
            }
            let node = |path: &str| nodes.read.get(path).map(|(_, node)| node);
            let wrong =
                |source| Error::Metadata { object: document.clone(), source: Box::new(source) };
            let is_renewed = group.update_consolidated(node).map_err(wrong)?;
            let comes_back = is_away && before.is_some();
            if !is_renewed && !comes_back {
                return Ok(());
            }
            let renewed = group.to_bytes();
            if renewed == *text {
                return Ok(());
            }
            match self.store.put(&document, &renewed, unchanged(&*object)) {
                // Check again: another job that exchanged an array while its document was read
                // found no copy to update. From here on it finds one.
                Ok(_) if comes_back => is_back = true,
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::MetadataChanged { at: self.store.name() })
    }
}

/// The condition that an object is replaced only if unchanged since it was read.
fn unchanged(object: &dyn Object) -> Condition {
    object.version().map_or(Condition::None, Condition::Unchanged)
}

/// The documents of arrays below a group.
struct Nodes<'a> {
    store: &'a FileStore,
    /// By path, with their stamps from before they were read.
    read: HashMap<String, (Option<DocumentStamp>, NodeMetadata)>,
}

impl Nodes<'_> {
    /// Reads the document of an array, unless it is certainly unchanged since the last read.
    fn look_at(&mut self, path: &str) -> Result<(), Error> {
        // Paths with invalid node names are left alone: the arrays have been exchanged by now, and
        // nobody follows such a path.
        if path.split('/').try_for_each(check_node_name).is_err() {
            return Ok(());
        }
        let Ok(key) = Key::new(&format!("{path}/{DOCUMENT}")) else { return Ok(()) };
        let stamp = self.store.document_stamp(&key)?;
        if let (Some(now), Some((Some(before), _))) = (&stamp, self.read.get(path))
            && now.is_certainly(before)
        {
            return Ok(());
        }
        self.read.remove(path);
        if let Some(text) = self.store.get(&key)?
            && let Ok(node @ NodeMetadata::Array(_)) = NodeMetadata::parse(&text)
        {
            self.read.insert(path.to_owned(), (stamp, node));
        }
        Ok(())
    }
}
