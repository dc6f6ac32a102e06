//! Checks the objects of an array, and what is among them by mistake.

use shardine_codec::Context;
use shardine_store::{Key, StoreError};

use crate::engine::GridKey;
use crate::jobs::check::indexed::at_cell;
use crate::jobs::check::{BATCH, Finding, FindingKind, Run};
use crate::jobs::losses::LOSS_RECORD;
use crate::precomputed::INFO;
use crate::stored::PossibleObject;
use crate::zarr::{APPEND_MARKER, CONVERT_MARKER, DOCUMENT, Listings, V2_DOCUMENTS};
use crate::{Array, Error};

/// What a name below an array stands for.
enum Place {
    /// A cell of the grid.
    Cell(Vec<u64>),
    /// A cell that would be outside the array.
    Outside(Vec<u64>),
    /// A folder that keys may go through; whether some of the array's do.
    Folder { used: bool },
    /// Not part of the array.
    Unknown,
}

impl Run<'_> {
    /// Checks an array: every object of its grid, and every other name below it.
    pub(super) fn array(&self, array: &Array) -> Result<(), Error> {
        let location = array.location();
        self.begin(location.path.as_ref())?;
        self.expect(array.cells().count);
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
                        if self.takes(&key) {
                            batch.push(PossibleObject::new(key, cell, Some(len)));
                        }
                        if batch.len() == BATCH {
                            self.objects(array, &mut batch)?;
                        }
                    }
                    Place::Outside(cell) => {
                        let message = "belongs to a part of the grid outside the array";
                        let kind = FindingKind::ObjectOutsideArray;
                        let finding = Finding::new(kind, Some(key), message.to_owned());
                        self.note(at_cell(array, finding, &cell));
                    }
                    Place::Folder { used: true } => {
                        self.blocked(key, "is an object where chunk keys need a folder");
                    }
                    _ if name == DOCUMENT || V2_DOCUMENTS.contains(&name) => {}
                    _ if name == INFO => self.two_documents(&key),
                    _ if name == LOSS_RECORD => has_record = true,
                    _ if name == APPEND_MARKER => {
                        let message = "records an append that is running or was interrupted";
                        let kind = FindingKind::UnfinishedAppend;
                        self.note(Finding::new(kind, Some(key), message.to_owned()));
                    }
                    _ if name == CONVERT_MARKER => {
                        let message = "records a conversion that is running or was interrupted";
                        let kind = FindingKind::UnfinishedConvert;
                        self.note(Finding::new(kind, Some(key), message.to_owned()));
                    }
                    _ => self.stray(key, "is not part of the array"),
                }
            }
            let mut inside = Vec::new();
            for key in listing.folders.into_iter().rev() {
                match place(array, &key) {
                    Place::Folder { .. } => inside.push(key),
                    Place::Cell(_) => {
                        self.blocked(key, "is a folder where an object of the grid belongs");
                    }
                    _ => self.stray(key, "is a folder that is not part of the array"),
                }
            }
            listings.push(inside.into_iter().rev());
        }
        self.objects(array, &mut batch)?;
        if has_record {
            self.array_losses(array);
        }
        Ok(())
    }

    /// Checks every object that the array's grid has room for, where the store cannot list.
    fn unlisted_array(&self, array: &Array) -> Result<(), Error> {
        self.sum(|summary| summary.unlisted = true);
        let mut batch = Vec::new();
        for cell in array.cells() {
            match array.chunks.packing.key(&cell) {
                Ok(key) if self.takes(&key) => batch.push(PossibleObject::new(key, cell, None)),
                Ok(_) => {}
                Err(error) => self.unreadable(array.location().path.as_ref(), &error.into()),
            }
            if batch.len() == BATCH {
                self.objects(array, &mut batch)?;
            }
        }
        self.objects(array, &mut batch)?;
        self.array_losses(array);
        Ok(())
    }

    fn blocked(&self, key: Key, what: &str) {
        self.note(Finding::new(FindingKind::BlockedKey, Some(key), what.to_owned()));
    }

    fn stray(&self, key: Key, what: &str) {
        self.note(Finding::new(FindingKind::StrayObject, Some(key), what.to_owned()));
    }

    /// Checks some objects, and reports their findings in order.
    fn objects(&self, array: &Array, objects: &mut Vec<PossibleObject>) -> Result<(), Error> {
        let objects = std::mem::take(objects);
        let pace = self.pace(array, objects.len());
        let crew = self.crew(array, pace, objects.len());
        let look = |stored: &PossibleObject, _, _: &mut Context| self.object(array, stored, pace);
        self.batch(crew, &objects, |stored| &stored.key, &look, &mut |_, found| self.tell(found))
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
