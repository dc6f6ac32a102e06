//! Reports what `repair` could not save, and is still missing.

use shardine_store::{Key, Store, StoreError};

use crate::jobs::check::indexed::at_cell;
use crate::jobs::check::keyed::Folder;
use crate::jobs::check::{Finding, FindingKind, Run};
use crate::jobs::losses::{self, KeyedLoss, Losses, StoredLosses};
use crate::{Array, Error};

impl Run<'_> {
    /// Reports what is still lost of an array that has a record of losses.
    pub(super) fn array_losses(&self, array: &Array) {
        let location = array.location();
        self.with_record(&*location.store, location.path.as_ref(), |record, losses| {
            if !losses.is_of(Some(&losses::grid_of(array))) {
                let message = "chunks of a shape that the array no longer has were lost";
                self.sum(|summary| summary.lost_chunks += 1);
                self.note(lost(record, None, message.to_owned()));
                return Ok(false);
            }
            let found = losses::in_array(array, losses)?;
            let layout = &array.chunks.layout;
            for loss in &found {
                self.sum(|summary| {
                    summary.lost_chunks += loss.lost;
                    summary.unproved_chunks += loss.unproved;
                });
                let place = layout.chunk_coordinates(&loss.cell, &loss.path);
                let mut finding = match (loss.unproved, loss.path.is_empty()) {
                    (0, false) if loss.lost == 1 => {
                        let message = "it was lost, and reads as the fill value";
                        lost(record, Some(loss.object.clone()), message.to_owned())
                    }
                    (0, is_whole) => {
                        let of = if is_whole { String::new() } else { format!(" of {place:?}") };
                        let message = format!(
                            "{} chunks{of} were lost, or never written, and read as the fill value",
                            loss.lost
                        );
                        lost(record, Some(loss.object.clone()), message)
                    }
                    (unproved, _) => {
                        let message = format!(
                            "{unproved} chunks were restored from an older index, or share bytes \
                             with others: they may be old, and chunks first written after that \
                             index are lost"
                        );
                        let mut finding = lost(record, Some(loss.object.clone()), message);
                        finding.kind = FindingKind::UnprovedChunk;
                        finding
                    }
                };
                finding = at_cell(array, finding, &loss.cell);
                finding.origin = None;
                if loss.unproved == 0 && loss.lost == 1 && !loss.path.is_empty() {
                    finding = finding.chunk(Some(place));
                }
                self.note(finding);
            }
            Ok(found.is_empty())
        });
    }

    /// Reports what is still lost of a folder of shards that has a record of losses.
    pub(super) fn keyed_losses(&self, folder: &Folder) {
        let (store, path) = (&*folder.shards.store, folder.shards.folder.as_ref());
        self.with_record(store, path, |record, losses| {
            let found = losses::in_folder(self.engine, folder, losses)?;
            self.tell_keyed(record, &found, |key| {
                folder.cell(key).map(|[x, y, z]| vec![x, y, z, 0])
            });
            Ok(found.is_empty())
        });
    }

    /// Reports what is still lost of a scale whose chunks are single objects.
    pub(super) fn box_losses(&self, store: &dyn Store, folder: Option<&Key>) {
        self.with_record(store, folder, |record, losses| {
            let found = losses::in_objects(store, folder, losses)?;
            self.tell_keyed(record, &found, |_| None);
            Ok(found.is_empty())
        });
    }

    fn tell_keyed(
        &self,
        record: &Key,
        found: &[KeyedLoss],
        cell: impl Fn(u64) -> Option<Vec<u64>>,
    ) {
        self.sum(|summary| summary.lost_chunks += losses::total(found).lost);
        for loss in found {
            let message = format!("{}, and reads as absent", loss.what);
            let mut finding = lost(record, Some(loss.object.clone()), message);
            finding.shard = loss.shard.map(|shard| vec![shard]);
            finding.chunk = loss.key.and_then(&cell);
            self.note(finding);
        }
    }

    /// Reads the record of a folder, if there is one, and reports what `check` does not: that
    /// everything in it has been written again, or that it cannot be read.
    fn with_record(
        &self,
        store: &dyn Store,
        folder: Option<&Key>,
        check: impl FnOnce(&Key, &Losses) -> Result<bool, Error>,
    ) {
        if !self.is_first() {
            return;
        }
        let Ok(record) = losses::record_key(folder) else { return };
        let settled = match losses::read_record(store, folder) {
            Ok(None) => return,
            Ok(Some(StoredLosses::Losses(losses))) => check(&record, &losses),
            Ok(Some(StoredLosses::Malformed(reason))) => {
                let message = format!("the record of lost chunks cannot be read: {reason}");
                self.sum(|summary| summary.lost_chunks += 1);
                self.note(lost(&record, None, message));
                return;
            }
            Err(error) => Err(error.into()),
        };
        match settled {
            Ok(false) => {}
            Ok(true) => {
                let message = "everything lost here has been rewritten".to_owned();
                let key = Some(record.clone());
                let mut finding = Finding::new(FindingKind::SettledLoss, key, message);
                finding.record = Some(record);
                self.note(finding);
            }
            Err(Error::Store(StoreError::NotFound { .. })) => {}
            Err(error) => self.unreadable(Some(&record), &error),
        }
    }
}

/// A finding about a recorded loss; about the record itself, if no object is given.
fn lost(record: &Key, object: Option<Key>, message: String) -> Finding {
    let object = object.unwrap_or_else(|| record.clone());
    let mut finding = Finding::new(FindingKind::LostChunk, Some(object), message);
    finding.record = Some(record.clone());
    finding
}
