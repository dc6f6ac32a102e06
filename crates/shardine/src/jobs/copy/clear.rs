//! Removes the data set that a copy replaces.

use std::sync::{Mutex, PoisonError};

use shardine_store::{Condition, Key};

use super::keys::{KeySource, Listed};
use super::queue::{Queue, Work, Worker};
use crate::dataset::is_document;
use crate::jobs::whole::check_removable;
use crate::{Error, Location};

struct Remover<'a> {
    target: &'a Location,
    keys: &'a Listed<'a>,
    queue: &'a Queue<Option<Key>, Key>,
    folders: &'a Mutex<Vec<Key>>,
    marker: &'a Key,
}

impl Worker<Option<Key>, Key> for Remover<'_> {
    fn work(&mut self, work: Work<Option<Key>, Key>) -> Result<(), Error> {
        match work {
            Work::Expand(folder) => {
                let found = self.keys.expand(folder)?;
                let folders = found.branches.iter().flatten().cloned();
                self.folders.lock().unwrap_or_else(PoisonError::into_inner).extend(folders);
                let keys = found.objects.into_iter().map(|object| object.key);
                let keys = keys.filter(|key| key != self.marker).collect();
                self.queue.add(found.branches, keys);
                Ok(())
            }
            Work::Do(key) => Ok(self.target.store.delete(&key, &Condition::None)?),
        }
    }

    fn idle(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Removes all objects but the marker, the metadata of the root first, then links and whatever else
/// is left, and then the empty folders. Links are not followed.
pub(in crate::jobs) fn clear(target: &Location, threads: usize, marker: &str) -> Result<(), Error> {
    check_removable(target)?;
    let marker = target.key(marker)?;
    let listing = target.store.list(target.path.as_ref())?;
    for (key, _) in listing.objects.iter().filter(|(key, _)| is_document(key)) {
        target.store.delete(key, &Condition::None)?;
    }
    let folders = Mutex::default();
    let keys = Listed::new(target);
    let queue = Queue::new(keys.first(), Vec::new());
    queue.run(threads, || Remover {
        target,
        keys: &keys,
        queue: &queue,
        folders: &folders,
        marker: &marker,
    })?;
    let mut folders = folders.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(on_disk) = target.store.folders() {
        // Links too, which are removed and not followed: the new data set would be written through
        // them.
        on_disk.remove_unlisted(target.path.as_ref())?;
        folders.iter().try_for_each(|folder| on_disk.remove_unlisted(Some(folder)))?;
    }
    // From the inside out, so that a folder of empty ones is empty when its turn comes.
    folders.sort();
    for folder in folders.iter().rev() {
        target.store.remove_empty_folder(folder)?;
    }
    Ok(())
}
