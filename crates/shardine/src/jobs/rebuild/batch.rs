//! Exchanges finished data sets for the old ones, several in one go.
//!
//! Around an exchange, the copies that groups above keep of an array's metadata are removed, and
//! putting them back means reading every array they name (`consolidated.rs`). With many small
//! arrays below one group that would be most of the work, so it is done once for many of them. Each
//! array is still exchanged by itself, and others are kept out only while it is exchanged.
//!
//! A job ends when the copies are back: until then, its folder identifies the job to a run that
//! resumes it, and keeps any copy that was removed.

use std::time::Duration;

use shardine_store::{FolderAlone, JobLock};

use super::RepackError;
use super::consolidated::Copies;
use super::in_place::{InPlace, InPlaceOptions, Ready, Replaced, Replacement, count};
use crate::Error;
use crate::jobs::frame::{Exchange, JobContext, WAIT};

/// Limits of a batch, which is exchanged when it reaches one: data sets, each with an open file;
/// bytes, which are stored twice until then; and files to remove while the copies are away.
const MOST_SETS: usize = 128;
const MOST_BYTES: u64 = 256 << 20;
const MOST_FILES: u64 = 64 << 10;

/// How long others get to release one data set of a batch. One that takes longer is exchanged
/// alone, after the batch.
const BRIEFLY: Duration = Duration::from_millis(100);

/// A data set that is built beside the old one and waits to be exchanged. Nobody else works on it
/// meanwhile. Without [`commit`](Self::commit) it stays built, and the same job resumes it.
pub(in crate::jobs) struct WaitingSet {
    job: Exchange,
    _lock: JobLock,
    ready: Ready,
    /// Keeps others out of the data set from the exchange until its end.
    alone: Option<FolderAlone>,
}

/// The result of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exchanged {
    /// It is done.
    Done,
    /// The new data set is in place, but not all copies are updated. The next run does that.
    Unsettled,
    /// The old data set is no longer the one the new one was built from.
    Changed,
}

impl WaitingSet {
    pub(super) fn new(job: Exchange, lock: JobLock, ready: Ready) -> Self {
        Self { job, _lock: lock, ready, alone: None }
    }

    /// Exchanges the data set, rebuilding it as long as the old one keeps changing.
    pub fn commit(
        mut self,
        context: &JobContext,
        data_set: &mut dyn Replacement,
        options: &InPlaceOptions,
    ) -> Result<Replaced, Error> {
        let wait = options.wait.unwrap_or(WAIT);
        loop {
            let this = std::iter::once((&mut self, &*data_set));
            let exchanged = exchange_all(context, options, wait, this);
            if exchanged.into_iter().next().transpose()? != Some(Exchanged::Changed) {
                return Ok(self.ready.outcome);
            }
            let in_place = InPlace { context, job: &self.job, options };
            match in_place.make_ready(data_set, self.ready.attempt)? {
                Some(ready) => self.ready = ready,
                None => return Ok(Replaced::Unchanged),
            }
        }
    }

    /// Puts the new data set in the place of the old one, with the copies removed. From then on
    /// others are kept out until [`end`](Self::end).
    fn exchange(
        &mut self,
        context: &JobContext,
        data_set: &dyn Replacement,
        options: &InPlaceOptions,
        wait: Duration,
        copies: &mut Copies,
    ) -> Result<Exchanged, Error> {
        let Self { job, ready: Ready { marker, is_exchanged, .. }, .. } = self;
        if *is_exchanged {
            if let Some(place) = data_set.copied_from() {
                copies.add(job, place)?;
            }
            return Ok(Exchanged::Done);
        }
        context.check()?;
        let alone = job.alone(options.exclusive, wait)?;
        // A writer may have come between the last check and the lock. From here on none can.
        if job.document(&job.name)?.as_ref() != Some(&marker.from)
            || Some(job.beside.fingerprint(&job.name)?) != marker.fingerprint
        {
            return Ok(Exchanged::Changed);
        }
        // Whatever this keeps from starting would be lost with the old data set.
        let _claim = if options.exclusive { None } else { data_set.claim()? };
        if let Some(place) = data_set.copied_from() {
            copies.take_away(job, place)?;
        }
        job.exchange()?;
        (self.alone, *is_exchanged) = (alone, true);
        Ok(Exchanged::Done)
    }

    /// Removes the old data set, and lets others in.
    fn end(&mut self, data_set: &dyn Replacement) -> Result<(), Error> {
        let Self { job, ready: Ready { marker, .. }, .. } = self;
        job.end_alone(self.alone.take(), marker, &|| count(job, data_set, marker))
    }

    /// Removes the job, unless the old data set could not be removed.
    fn finish(&self) -> Result<(), Error> {
        if !self.job.has_data()? {
            self.job.clean_up()?;
        }
        Ok(())
    }
}

/// One of the data sets that are exchanged together.
struct Member<'a> {
    waiting: &'a mut WaitingSet,
    data_set: &'a dyn Replacement,
    /// Whether the new data set is in place and registered with `copies` for an update.
    is_in_place: bool,
    result: Result<Exchanged, Error>,
}

impl Member<'_> {
    fn is_done(&self) -> bool {
        matches!(self.result, Ok(Exchanged::Done))
    }

    fn end(&mut self) {
        if self.is_done()
            && let Err(error) = self.waiting.end(self.data_set)
        {
            self.result = Err(error);
        }
    }

    fn finish(&mut self) {
        if self.is_in_place
            && let Err(error) = self.waiting.finish()
            && self.result.is_ok()
        {
            self.result = Err(error);
        }
    }
}

/// Exchanges data sets one after the other, and updates the copies of their metadata once. A
/// failure of one does not stop the others.
fn exchange_all<'a>(
    context: &JobContext,
    options: &InPlaceOptions,
    wait: Duration,
    sets: impl Iterator<Item = (&'a mut WaitingSet, &'a dyn Replacement)>,
) -> Vec<Result<Exchanged, Error>> {
    let mut copies = Copies::default();
    let mut members: Vec<Member<'_>> = Vec::new();
    for (waiting, data_set) in sets {
        if let Some(before) = members.last_mut() {
            before.end();
        }
        let result = waiting.exchange(context, data_set, options, wait, &mut copies);
        let is_in_place = matches!(result, Ok(Exchanged::Done));
        members.push(Member { waiting, data_set, is_in_place, result });
    }
    let settled = copies.put_back();
    // Only after the copies are back: a large data set comes last, and is slow to remove.
    if let Some(last) = members.last_mut() {
        last.end();
    }
    match settled {
        Ok(()) => members.iter_mut().for_each(Member::finish),
        Err(error) => {
            // Reported for one of them only.
            let mut error = Some(error);
            for member in members.iter_mut().filter(|member| member.is_done()) {
                member.result = error.take().map_or(Ok(Exchanged::Unsettled), Err);
            }
        }
    }
    members.into_iter().map(|member| member.result).collect()
}

/// Finished data sets, exchanged together when there are enough of them.
pub(in crate::jobs) struct Batch<R> {
    sets: Vec<(Box<WaitingSet>, R)>,
    files: u64,
    bytes: u64,
}

impl<R: Replacement> Batch<R> {
    pub fn new() -> Self {
        Self { sets: Vec::new(), files: 0, bytes: 0 }
    }

    pub fn push(&mut self, waiting: Box<WaitingSet>, data_set: R) {
        self.files = self.files.saturating_add(waiting.ready.files);
        self.bytes = self.bytes.saturating_add(waiting.ready.bytes);
        self.sets.push((waiting, data_set));
    }

    /// Whether it must be exchanged before anything else is built.
    pub fn is_full(&self) -> bool {
        self.sets.len() >= MOST_SETS || self.bytes >= MOST_BYTES || self.files >= MOST_FILES
    }

    /// Exchanges all of it, and calls `done` with each data set once its result is known. Those
    /// that others use, or that have changed since they were built, come last, each by itself.
    pub fn commit(
        &mut self,
        context: &JobContext,
        options: &InPlaceOptions,
        done: &mut dyn FnMut(R, Result<Replaced, Error>),
    ) {
        let mut sets = std::mem::replace(self, Self::new()).sets;
        let members = sets.iter_mut().map(|(waiting, data_set)| (&mut **waiting, &*data_set as _));
        let wait = options.wait.unwrap_or(WAIT).min(BRIEFLY);
        let results = exchange_all(context, options, wait, members);
        let mut alone = Vec::new();
        for ((waiting, data_set), result) in sets.into_iter().zip(results) {
            match result {
                Ok(Exchanged::Done) => done(data_set, Ok(waiting.ready.outcome)),
                Ok(Exchanged::Unsettled) => {}
                Ok(Exchanged::Changed) | Err(Error::Repack(RepackError::InUse { .. })) => {
                    alone.push((waiting, data_set));
                }
                Err(error) => done(data_set, Err(error)),
            }
        }
        for (waiting, mut data_set) in alone {
            let result = waiting.commit(context, &mut data_set, options);
            done(data_set, result);
        }
    }
}
