//! From an array to its objects, and to what is among them by mistake.

use std::sync::atomic::Ordering;

use shardine_store::{Key, StoreError};

use super::finding::Origin;
use super::{Finding, FindingKind, Run, add};
use crate::engine::{Crew, GridKey};
use crate::jobs::losses::LOSS_RECORD;
use crate::layout::Layout;
use crate::precomputed::INFO;
use crate::zarr::{APPEND_MARKER, CONVERT_MARKER, DOCUMENT, Listings, V2_DOCUMENTS};
use crate::{Array, Error, PossibleObject};

/// Objects that are checked before their findings are told in order.
const BATCH: usize = 256;

/// What a name below an array stands for.
enum Place {
    /// A cell of the grid.
    Cell(Vec<u64>),
    /// A cell that would be outside the array.
    Outside(Vec<u64>),
    /// A folder that keys go through; whether some of the array's do.
    Folder { used: bool },
    /// Nothing of the array.
    Unknown,
}

impl Run<'_> {
    /// Checks an array: every object of its grid, and every other name below it.
    pub(super) fn array(&self, array: &Array) {
        let location = array.location();
        let skip = location.path.as_ref().map_or(0, |path| path.as_str().len() + 1);
        let mut batch = Vec::new();
        let mut has_record = false;
        let mut listings = Listings::new(self.engine, location);
        while let Some(folder) = listings.folder() {
            let listed = self
                .leftovers(location, folder.as_ref())
                .and_then(|()| listings.list(folder.as_ref()).map_err(Error::from));
            let listing = match listed {
                Ok(listing) => listing,
                Err(Error::Store(StoreError::Unsupported { .. })) if folder == location.path => {
                    return self.unlisted_array(array);
                }
                Err(error) => {
                    self.unreadable(folder.as_ref(), &error);
                    continue;
                }
            };
            self.left_out_of(location, &listing);
            for (key, len) in listing.objects {
                let name = key.as_str().get(skip..).unwrap_or_default();
                match place(array, &key) {
                    Place::Cell(cell) => {
                        batch.push(PossibleObject::new(key, cell, Some(len)));
                        if batch.len() == BATCH {
                            self.batch(array, &std::mem::take(&mut batch));
                        }
                    }
                    Place::Outside(cell) => {
                        let message = "belongs to a part of the grid that the array does not have";
                        let kind = FindingKind::ObjectOutsideArray;
                        let finding = Finding::new(kind, Some(key), message.to_owned());
                        self.tell([at_cell(array, finding, &cell)]);
                    }
                    Place::Folder { used: true } => {
                        self.blocked(key, "is an object where the keys of chunks need a folder");
                    }
                    _ if name == DOCUMENT || V2_DOCUMENTS.contains(&name) => {}
                    _ if name == INFO => self.two_documents(&key),
                    _ if name == LOSS_RECORD => has_record = true,
                    _ if name == APPEND_MARKER => {
                        let message = "tells of an append that is under way or was interrupted";
                        let kind = FindingKind::UnfinishedAppend;
                        self.tell([Finding::new(kind, Some(key), message.to_owned())]);
                    }
                    _ if name == CONVERT_MARKER => {
                        let message = "tells of a conversion that is under way or was interrupted";
                        let kind = FindingKind::UnfinishedConvert;
                        self.tell([Finding::new(kind, Some(key), message.to_owned())]);
                    }
                    _ => self.stray(key, "is no part of the array"),
                }
            }
            let mut inside = Vec::new();
            for key in listing.folders.into_iter().rev() {
                match place(array, &key) {
                    Place::Folder { .. } => inside.push(key),
                    Place::Cell(_) => {
                        self.blocked(key, "is a folder where an object of the grid belongs");
                    }
                    _ => self.stray(key, "is a folder that is no part of the array"),
                }
            }
            listings.push(inside.into_iter().rev());
        }
        self.batch(array, &batch);
        if has_record {
            self.array_losses(array);
        }
    }

    /// Checks every object that the grid of an array has room for, where the store cannot list them.
    fn unlisted_array(&self, array: &Array) {
        self.unlisted.store(true, Ordering::Relaxed);
        let mut batch = Vec::new();
        for cell in array.cells() {
            match array.chunks.packing.key(&cell) {
                Ok(key) => batch.push(PossibleObject::new(key, cell, None)),
                Err(error) => self.unreadable(array.location().path.as_ref(), &error.into()),
            }
            if batch.len() == BATCH {
                self.batch(array, &std::mem::take(&mut batch));
            }
        }
        self.batch(array, &batch);
        self.array_losses(array);
    }

    fn blocked(&self, key: Key, what: &str) {
        self.tell([Finding::new(FindingKind::BlockedKey, Some(key), what.to_owned())]);
    }

    fn stray(&self, key: Key, what: &str) {
        self.tell([Finding::new(FindingKind::StrayObject, Some(key), what.to_owned())]);
    }

    /// Checks some objects, and tells what was found in their order.
    fn batch(&self, array: &Array, objects: &[PossibleObject]) {
        add(&self.counters.found, objects.len() as u64);
        let pace = self.pace(array, objects.len());
        let check = |i: usize| {
            let findings = self.object(array, &objects[i], pace);
            if findings.is_none() && objects[i].listed.is_none() {
                self.counters.found.fetch_sub(1, Ordering::Relaxed);
            } else {
                add(&self.counters.objects, 1);
            }
            self.progress();
            findings.unwrap_or_default()
        };
        let crew = match pace {
            Some(pace) => Crew::Waiting(pace.objects),
            // The workers are left to the chunks of each.
            None if objects.len() < self.engine.threads() => Crew::Workers(1),
            None => Crew::Workers(self.workers(array)),
        };
        let tell = &mut |_, findings| self.tell(findings);
        self.engine.batch_in_order(crew, objects.len(), &|i, _| check(i), tell);
    }

    /// How many may work at once for the memory of their indexes and chunks to stay in the budget.
    pub(super) fn workers(&self, array: &Array) -> usize {
        self.engine.workers_within(memory(&array.chunks.layout, self.options.decode))
    }
}

/// Memory that the check of an object takes, beside what is read ahead of it.
pub(super) fn memory(layout: &Layout, decode: bool) -> u64 {
    // The index as read, as decoded, and its entries by their places.
    let index = layout.addressable().map_or(0, |shard| shard.index.len().saturating_mul(4));
    let payload = if decode { payload(layout).saturating_mul(2) } else { 0 };
    index.saturating_add(payload).max(1)
}

/// Decoded bytes of what is decoded at a time.
fn payload(layout: &Layout) -> u64 {
    match layout {
        Layout::Shard(shard) if shard.after.is_empty() => payload(&shard.inner),
        Layout::Staged(staged) => payload(&staged.inner),
        layout => layout.decoded_len(),
    }
}

fn place(array: &Array, key: &Key) -> Place {
    let inside = |cell: &[u64]| {
        let axes = cell.iter().zip(array.cell_shape()).zip(array.shape());
        axes.clone().all(|((&i, &n), &len)| i < len.div_ceil(n))
    };
    match array.chunks.packing.named(key) {
        GridKey::Object(cell) if inside(&cell) => Place::Cell(cell),
        GridKey::Object(cell) => Place::Outside(cell),
        GridKey::Folder(numbers) => Place::Folder { used: inside(&numbers) },
        GridKey::Other => Place::Unknown,
    }
}

/// Names the object's place: as a shard, or as the chunk that it is.
pub(super) fn at_cell(array: &Array, mut finding: Finding, cell: &[u64]) -> Finding {
    let array_path = array.location().path.clone();
    finding.origin = Some(Origin { array: array_path, cell: cell.to_vec(), path: Vec::new() });
    match array.shard_shape() {
        Some(_) => finding.shard(cell),
        None => finding.chunk(Some(cell.to_vec())),
    }
}
