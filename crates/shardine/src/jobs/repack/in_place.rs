//! Replaces a Zarr array with a repacked one.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Value;
use shardine_store::{FolderPart, StoreExt};

use super::{RepackCheck, RepackError, RepackOptions, RepackOutcome, RepackedArray, target};
use crate::jobs::frame::{Built, JobContext};
use crate::jobs::losses::refuse_array;
use crate::jobs::rebuild::{
    AxisMap, Batch, Counts, InPlaceOptions, Others, Prepared, Replaced, Replacement, Settled,
    SourceRef, Step, TargetRef, TransferOptions, Work, moves, prepare, settle,
};
use crate::jobs::walk::ArrayRole;
use crate::zarr::metadata::{ArrayMetadata, NodeMetadata};
use crate::zarr::{APPEND_MARKER, AppendClaim, DOCUMENT, grid_folder, has_same_chunks};
use crate::{ArrayNode, Engine, Error, Location};

/// The arrays of a hierarchy, replaced one after the other.
pub(super) struct InPlaceJob<'a> {
    context: &'a JobContext,
    options: &'a RepackOptions,
    how: InPlaceOptions,
    batch: Batch<Repacked<'a>>,
    tell: &'a mut dyn FnMut(RepackedArray),
    /// Bytes that the previous array has written.
    bytes: u64,
    failed: Option<Error>,
}

impl<'a> InPlaceJob<'a> {
    pub fn new(
        context: &'a JobContext,
        options: &'a RepackOptions,
        tell: &'a mut dyn FnMut(RepackedArray),
    ) -> Self {
        let check = options.check.unwrap_or_default();
        let how = InPlaceOptions {
            restart: options.restart,
            exclusive: options.exclusive,
            wait: options.wait,
            dry_run: options.dry_run,
            transfer: TransferOptions { order: options.order, store_empty: false, check },
        };
        Self { context, options, how, batch: Batch::new(), tell, bytes: 0, failed: None }
    }

    /// Builds the replacement of an array, given its path below the hierarchy. It is exchanged now,
    /// or together with those that come after it.
    pub fn add(&mut self, array: &ArrayNode, role: ArrayRole, path: &str) -> Result<(), Error> {
        self.context.begin_step(array.decoded_len(), std::mem::take(&mut self.bytes));
        let mut report = RepackedArray { path: path.to_owned(), ..RepackedArray::default() };
        if role == ArrayRole::Table && !self.options.objects {
            describe(&mut report, array.metadata());
            report.outcome = RepackOutcome::Kept;
            (self.tell)(report);
            return Ok(());
        }
        refuse_array(array)?;
        let (engine, place) = (self.context.engine(), array.location().clone());
        let options = target::for_role(self.options, role, array)?;
        let mut data_set = Repacked { engine, place, options, report };
        let prepared = prepare(self.context, array.location(), &mut data_set, &self.how)?;
        self.bytes = data_set.report.bytes_written;
        match prepared {
            Prepared::Done(replaced) => self.ended(data_set, Ok(replaced)),
            Prepared::Waiting(waiting) => self.batch.push(waiting, data_set),
        }
        if self.batch.is_full() {
            self.exchange();
        }
        Ok(())
    }

    /// Exchanges the arrays that are built.
    pub fn exchange(&mut self) {
        let mut batch = std::mem::replace(&mut self.batch, Batch::new());
        let (context, how) = (self.context, self.how);
        batch.commit(context, &how, &mut |data_set, result| self.ended(data_set, result));
    }

    fn ended(&mut self, data_set: Repacked<'_>, result: Result<Replaced, Error>) {
        let mut report = data_set.report;
        report.outcome = match result {
            Ok(Replaced::Unchanged) => RepackOutcome::Unchanged,
            Ok(Replaced::Done) => RepackOutcome::Done,
            Ok(Replaced::Resumed) => RepackOutcome::Resumed,
            Err(error) => return self.fail(error),
        };
        (self.tell)(report);
    }

    /// Keeps the first error, or the fact that the job was cancelled.
    pub fn fail(&mut self, error: Error) {
        if self.failed.is_none() || matches!(error, Error::Cancelled) {
            self.failed = Some(error);
        }
    }

    /// The error of an array that could not be replaced.
    pub fn finish(self) -> Result<(), Error> {
        self.failed.map_or(Ok(()), Err)
    }
}

/// Ends a job on an array that was interrupted.
pub(in crate::jobs) fn settle_array(
    context: &JobContext,
    location: &Location,
) -> Result<Option<Settled>, Error> {
    let (engine, place) = (context.engine(), location.clone());
    let options = Cow::Owned(RepackOptions::default());
    let report = RepackedArray::default();
    settle(context, location, &Repacked { engine, place, options, report })
}

/// An array that is replaced.
struct Repacked<'a> {
    engine: &'a Arc<Engine>,
    place: Location,
    options: Cow<'a, RepackOptions>,
    report: RepackedArray,
}

impl Repacked<'_> {
    fn parsed(&self, text: &str) -> Result<ArrayMetadata, Error> {
        match NodeMetadata::parse(text.as_bytes()) {
            Ok(NodeMetadata::Array(metadata)) => Ok(metadata),
            _ => Err(Error::NotAnArray { at: self.place.to_string() }),
        }
    }

    fn array(&self, text: &str, place: &Location) -> Result<ArrayNode, Error> {
        ArrayNode::from_metadata(self.engine, place, self.parsed(text)?)
    }

    /// Refuses an array that must not be replaced now.
    fn check(&self) -> Result<(), Error> {
        let is_there = |name: &str| -> Result<bool, Error> {
            Ok(self.place.store.get(&self.place.key(name)?)?.is_some())
        };
        let at = || self.place.to_string();
        for name in [".zarray", ".zattrs"] {
            if is_there(name)? {
                return Err(match is_there(DOCUMENT)? {
                    true => RepackError::BothVersions { at: at() }.into(),
                    false => RepackError::ZarrV2 { at: at() }.into(),
                });
            }
        }
        if is_there(APPEND_MARKER)? {
            let reason = "an append to it was interrupted; run that append again first".to_owned();
            return Err(RepackError::Layout { at: at(), reason }.into());
        }
        Ok(())
    }
}

impl Replacement for Repacked<'_> {
    fn document(&self) -> &'static str {
        DOCUMENT
    }

    fn missing(&self) -> Error {
        match self.check() {
            Err(error) => error,
            Ok(()) => Error::NoNode { at: self.place.to_string() },
        }
    }

    fn request(&mut self) -> Result<Value, Error> {
        Ok(self.options.request())
    }

    fn wanted(&mut self, current: &str) -> Result<Option<String>, Error> {
        self.check()?;
        let old = self.array(current, &self.place)?;
        let wanted =
            target::wanted(&old, old.metadata(), &self.options, *old.metadata().key_encoding())?;
        let (unchanged, metadata) = (wanted.unchanged, wanted.metadata);
        let to = String::from_utf8_lossy(&metadata.to_bytes()).into_owned();
        describe(&mut self.report, &metadata);
        let new = ArrayNode::from_metadata(self.engine, &self.place, metadata)?;
        self.report.moves = moves(&old, &new);
        Ok((!unchanged).then_some(to))
    }

    fn resumes(&mut self, to: &str) -> Result<(), Error> {
        let metadata = self.parsed(to)?;
        describe(&mut self.report, &metadata);
        if let Ok(old) = ArrayNode::open(self.engine, &self.place) {
            let new = ArrayNode::from_metadata(self.engine, &self.place, metadata)?;
            self.report.moves = moves(&old, &new);
        }
        Ok(())
    }

    fn fits(&self, one: &str, other: &str) -> Result<bool, Error> {
        Ok(has_same_chunks(&self.parsed(one)?, other.as_bytes()))
    }

    fn shrinks(&self, before: &str, after: &str) -> Result<bool, Error> {
        let (before, after) = (self.parsed(before)?, self.parsed(after)?);
        Ok(before.shape().iter().zip(after.shape()).any(|(before, after)| after < before))
    }

    fn claim(&self) -> Result<Option<AppendClaim>, Error> {
        // Planes that an append has not committed yet would be lost with the old array.
        AppendClaim::at(&self.place, false).map(Some)
    }

    fn copied_from(&self) -> Option<&Location> {
        Some(&self.place)
    }

    fn check_built(&self, _: &Location) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    fn steps(&mut self, from: &str, to: &str, place: &Location) -> Result<Vec<Step>, Error> {
        let (old, new) = (self.array(from, &self.place)?, self.array(to, place)?);
        let axes = AxisMap::identity(old.shape().len());
        let work = Work::Array { old: old.into_array(), axes, new: new.into_array() };
        let (name, folder) = (self.report.path.clone(), self.place.clone());
        // Only one process works in place.
        let (source, target) = (SourceRef::new("", 0), TargetRef::Keys);
        Ok(vec![Step { name, folder, work, source, target, documents: Vec::new() }])
    }

    fn others<'a>(&'a self, from: &str, to: &str) -> Result<Others<'a>, Error> {
        let (from, to) = (self.parsed(from)?, self.parsed(to)?);
        let (rank, encodings) = (from.shape().len(), [*from.key_encoding(), *to.key_encoding()]);
        Ok(Box::new(move |path, is_folder| {
            let of_grid = encodings.iter().any(|encoding| match is_folder {
                true => grid_folder(encoding, path, rank).is_some(),
                false => encoding.parse(path, rank).is_some(),
            });
            match of_grid {
                true if is_folder => FolderPart::Inside,
                true => FolderPart::Left,
                false if path == DOCUMENT => FolderPart::Left,
                false => FolderPart::Carried,
            }
        }))
    }

    fn counted(&mut self, counts: &[Counts], check: RepackCheck) {
        if let Some(counts) = counts.first() {
            self.report.count(counts, check);
        }
    }

    /// Costs a listing, and for shards a read of each index.
    fn count(&self, _: &str, to: &str, place: &Location) -> Result<Built, Error> {
        let array = self.array(to, place)?;
        let objects = array.possible_objects()?;
        let countable = array.chunks.layout.is_addressable_throughout();
        let mut chunks = countable.then_some(objects.len() as u64);
        if chunks.is_some() && array.shard_shape().is_some() {
            let (mut stored, mut failed) = (0, None);
            array.each_shard(&objects, &mut |_, found| match found {
                Ok(found) => {
                    let entries = found.iter().flat_map(|found| &found.entries);
                    stored += entries.filter(|entry| entry.is_some()).count() as u64;
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            chunks = Some(stored);
        }
        Ok(Built { objects: objects.len() as u64, chunks })
    }
}

/// Fills in how an array is packed.
pub(super) fn describe(report: &mut RepackedArray, metadata: &ArrayMetadata) {
    if let Ok(stored) = target::Stored::of(metadata) {
        report.chunk_shape = stored.chunk_shape;
        report.shard_shape = stored.shards.map(|shards| shards.shape);
    }
}
