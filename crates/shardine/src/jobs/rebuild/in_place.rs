//! Replaces a data set on files with one that is built beside it.
//!
//! Everything happens in a folder beside the data set, `.shardine-NAME.job`: `job.json` says what
//! is being done, `new` is what is being built. Once that is complete, checked and durable, the two
//! exchange names in one step; then the old one is removed. Several finished data sets may be
//! exchanged together (`batch.rs`). What is on disk shows how far a killed job had come:
//!
//! | the data set is | `new` | then |
//! |---|---|---|
//! | the old one | has no document | it is still being built |
//! | the old one | has one | it is complete, and only has to be exchanged |
//! | the new one | is the old one | it has to be removed |
//! | the new one | is missing | the copies in groups above have to be put back, and the job removed |
//! | missing | has a document | the second of two renames is missing, where folders cannot be exchanged |

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use shardine_store::{Condition, FolderExchange, FolderState, Key, LeftoverKind, StoreExt};

use super::batch::WaitingSet;
use super::consolidated::Copies;
use super::out::{Others, Step, Work};
use super::transfer::{Counts, Sides, Transfer, TransferOptions};
use super::{RepackCheck, RepackError, is_stale};
use crate::jobs::frame::{Built, Exchange, JobContext, Replacing};
use crate::precomputed::INFO;
use crate::zarr::{AppendClaim, DOCUMENT, MAX_DEPTH};
use crate::{Engine, Error, Location, Node};

/// Attempts to rebuild what changed meanwhile.
const ATTEMPTS: usize = 3;

/// A data set on files, and its replacement.
pub(in crate::jobs) trait Replacement {
    /// The name of its root document.
    fn document(&self) -> &'static str;

    /// The error if there is no such document, after checking why.
    fn missing(&self) -> Error;

    /// What is requested: equal requests have equal results.
    fn request(&mut self) -> Result<Value, Error>;

    /// Its new document, given the current one; `None` if it is already as requested.
    fn wanted(&mut self, current: &str) -> Result<Option<String>, Error>;

    /// Adopts the new document that an earlier run has planned.
    fn resumes(&mut self, to: &str) -> Result<(), Error>;

    /// Whether two documents describe data sets whose objects have the same names and meaning.
    fn fits(&self, one: &str, other: &str) -> Result<bool, Error>;

    /// Whether a new document describes less than the one that was being built.
    fn shrinks(&self, before: &str, after: &str) -> Result<bool, Error>;

    /// Keeps others from starting something that the exchange would undo. An error if they have
    /// started already.
    fn claim(&self) -> Result<Option<AppendClaim>, Error>;

    /// The location by which groups above may know it and keep copies of its document; `None` if
    /// nobody keeps copies of such documents.
    fn copied_from(&self) -> Option<&Location>;

    /// The steps that build it at another location, except for the document.
    fn steps(&mut self, from: &str, to: &str, place: &Location) -> Result<Vec<Step>, Error>;

    /// A last check of what was built, before it is exchanged; returns the number of chunks or
    /// values, if counted.
    fn check_built(&self, place: &Location) -> Result<Option<u64>, Error>;

    /// What happens to the contents of its folder: what is built is left out, everything else
    /// carried over.
    fn others<'a>(&'a self, from: &str, to: &str) -> Result<Others<'a>, Error>;

    /// Records what the steps have done, and how they were checked.
    fn counted(&mut self, counts: &[Counts], check: RepackCheck);

    /// Counts what is stored of it at a location.
    fn count(&self, from: &str, to: &str, place: &Location) -> Result<Built, Error>;
}

/// How a data set is replaced.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::jobs) struct InPlaceOptions {
    pub restart: bool,
    pub exclusive: bool,
    pub wait: Option<Duration>,
    pub dry_run: bool,
    pub transfer: TransferOptions,
}

/// What happened to a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jobs) enum Replaced {
    /// It was already as requested.
    Unchanged,
    /// It is as requested, or in a dry run would be.
    Done,
    /// The same; an earlier run had begun on it.
    Resumed,
}

/// What remains to be done with a data set.
pub(in crate::jobs) enum Prepared {
    /// Nothing; in a dry run, what would be done.
    Done(Replaced),
    /// It is built, and has to be exchanged.
    Waiting(Box<WaitingSet>),
}

/// Replaces the data set at a location.
pub(in crate::jobs) fn replace(
    context: &JobContext,
    location: &Location,
    data_set: &mut dyn Replacement,
    options: &InPlaceOptions,
) -> Result<Replaced, Error> {
    match prepare(context, location, data_set, options)? {
        Prepared::Done(replaced) => Ok(replaced),
        Prepared::Waiting(waiting) => waiting.commit(context, data_set, options),
    }
}

/// Builds the replacement of the data set at a location: checked, durable, and ready to be
/// exchanged.
pub(in crate::jobs) fn prepare(
    context: &JobContext,
    location: &Location,
    data_set: &mut dyn Replacement,
    options: &InPlaceOptions,
) -> Result<Prepared, Error> {
    let job = Exchange::of(location, data_set.document())?;
    loop {
        context.check()?;
        if options.dry_run || job.is_empty()? {
            // Nothing is created when there is nothing to do, or when it cannot be done.
            if let Some(marker) = job.marker()? {
                data_set.resumes(&marker.to)?;
                return Ok(Prepared::Done(Replaced::Resumed));
            }
            let current = job.document(&job.name)?.ok_or_else(|| data_set.missing())?;
            let wanted = data_set.wanted(&current)?;
            let remains = job.beside.has_folder(&job.work)?;
            match wanted {
                None if options.dry_run || !remains => {
                    return Ok(Prepared::Done(Replaced::Unchanged));
                }
                Some(_) if options.dry_run => return Ok(Prepared::Done(Replaced::Done)),
                _ => {}
            }
        }
        let lock = job.lock()?;
        let next = InPlace { context, job: &job, options }.run(data_set);
        // A job that is refused, or has nothing to do, leaves nothing behind.
        if job.is_empty()? {
            job.beside.remove_tree(&job.work)?;
        }
        match next? {
            Next::Done => return Ok(Prepared::Done(Replaced::Unchanged)),
            Next::Begin => {}
            Next::Ready(ready) => {
                return Ok(Prepared::Waiting(Box::new(WaitingSet::new(job, lock, *ready))));
            }
        }
    }
}

/// What became of a job that was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jobs) enum Settled {
    /// The new data set was in its place already, and the old one is removed.
    Finished,
    /// The data set is the old one, and what the job had built is removed.
    Undone,
}

/// Ends a job on a data set that was interrupted, without doing what it was to do. `None` if there
/// is none.
pub(in crate::jobs) fn settle(
    context: &JobContext,
    location: &Location,
    data_set: &dyn Replacement,
) -> Result<Option<Settled>, Error> {
    let job = Exchange::of(location, data_set.document())?;
    if !job.beside.has_folder(&job.work)? {
        return Ok(None);
    }
    let _lock = job.lock()?;
    let exchanged = match job.marker() {
        Err(error @ Error::Store(_)) => return Err(error),
        marker => match marker.ok().flatten() {
            Some(marker) => {
                let current = job.document(&job.name)?;
                current.as_ref() == Some(&marker.to) || job.is_exchanged(&marker)?
            }
            None => false,
        },
    };
    InPlace { context, job: &job, options: &InPlaceOptions::default() }.give_up(data_set)?;
    if job.is_empty()? {
        job.beside.remove_tree(&job.work)?;
    }
    Ok(Some(if exchanged { Settled::Finished } else { Settled::Undone }))
}

/// What comes after a step.
enum Next {
    /// There is nothing to do.
    Done,
    /// An earlier job is out of the way, and this one can begin, with a lock of its own: the
    /// earlier job's lock went with its folder.
    Begin,
    Ready(Box<Ready>),
}

/// What remains to be done when a data set is built.
pub(super) struct Ready {
    pub marker: Replacing,
    pub outcome: Replaced,
    /// Whether it is already in the place of the old one, because an earlier run got that far.
    pub is_exchanged: bool,
    /// How many times it was built.
    pub attempt: usize,
    /// Files of the old data set, and bytes of the old or the new one, whichever has more.
    pub files: u64,
    pub bytes: u64,
}

/// One job, run by the process that holds its lock.
pub(super) struct InPlace<'a> {
    pub context: &'a JobContext,
    pub job: &'a Exchange,
    pub options: &'a InPlaceOptions,
}

impl InPlace<'_> {
    fn run(&self, data_set: &mut dyn Replacement) -> Result<Next, Error> {
        let Self { job, options, .. } = self;
        if options.restart && !job.is_empty()? {
            self.give_up(data_set)?;
            return Ok(Next::Begin);
        }
        let Some(ready) = self.make_ready(data_set, 0)? else { return Ok(Next::Done) };
        if ready.is_exchanged && ready.marker.request != data_set.request()? {
            self.end(data_set, &ready.marker)?;
            return Ok(Next::Begin);
        }
        Ok(Next::Ready(Box::new(ready)))
    }

    /// Builds the new data set until it matches the old one; `built` attempts were made before.
    /// `None` if there is nothing to do.
    pub fn make_ready(
        &self,
        data_set: &mut dyn Replacement,
        built: usize,
    ) -> Result<Option<Ready>, Error> {
        let Self { job, options, .. } = self;
        let mut resumed = job.marker()?.is_some();
        for attempt in built + 1..=ATTEMPTS {
            let ready = |marker, outcome, is_exchanged, (files, bytes)| {
                Ok(Some(Ready { marker, outcome, is_exchanged, attempt, files, bytes }))
            };
            let current = job.document(&job.name)?.ok_or_else(|| data_set.missing())?;
            if let Some(marker) = job.marker()?
                && (current == marker.to || job.is_exchanged(&marker)?)
            {
                // Only the removal of the old one is missing, and it is unknown how much of it is
                // left.
                data_set.resumes(&marker.to)?;
                let files = if job.has_data()? { u64::MAX } else { 0 };
                return ready(marker, Replaced::Resumed, true, (files, 0));
            }
            let Some((marker, state)) = self.begin(data_set, &current)? else { return Ok(None) };
            let outcome = if resumed { Replaced::Resumed } else { Replaced::Done };
            job.check_locks(options.exclusive)?;
            if !options.exclusive {
                // If something is under way already, fail now rather than after all the work.
                drop(data_set.claim()?);
            }
            match self.build(data_set, marker, state, resumed) {
                Ok((marker, size)) => return ready(marker, outcome, false, size),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                // An error only counts if the data set is still the one that was being read.
                Err(_) if job.document(&job.name)?.as_ref() != Some(&current) => resumed = true,
                Err(error) => return Err(error),
            }
        }
        Err(RepackError::Changed { at: job.at.clone() }.into())
    }

    /// The job's marker: from an earlier run, or newly planned and recorded. `None` if there is
    /// nothing to do.
    fn begin(
        &self,
        data_set: &mut dyn Replacement,
        current: &str,
    ) -> Result<Option<(Replacing, Option<FolderState>)>, Error> {
        let job = self.job;
        let known = job.marker()?;
        match &known {
            Some(marker) => {
                // It may have grown, or its attributes may have changed. Anything else is another
                // data set, with no known relation to what was built.
                if current != marker.from && !data_set.fits(current, &marker.from)? {
                    return Err(job.refuse("the metadata of the data set has changed since"));
                }
                if marker.request != data_set.request()? {
                    let (at, request) = (job.at.clone(), marker.request.to_string());
                    let command = marker.command.clone();
                    return Err(RepackError::OtherJob { at, request, command }.into());
                }
                if current == marker.from {
                    data_set.resumes(&marker.to)?;
                    return Ok(known.map(|marker| (marker, None)));
                }
            }
            None if !job.is_empty()? => return Err(job.refuse("it is missing")),
            None => {}
        }
        let Some(to) = data_set.wanted(current)? else {
            if known.is_some() {
                self.settle(data_set)?;
                job.clean_up()?;
            }
            return Ok(None);
        };
        let fits = match &known {
            None => true,
            Some(marker) => {
                data_set.fits(&to, &marker.to)? && !data_set.shrinks(&marker.to, &to)?
            }
        };
        if !fits {
            // What was built has a different grid.
            job.beside.remove_tree(&job.new)?;
        }
        // Report what cannot be replaced or read before anything is begun.
        job.beside.check_movable(&job.name, &job.work)?;
        let mut state = None;
        let fingerprint = match known {
            Some(known) => known.fingerprint,
            None => Some(state.insert(job.beside.state_of(&job.name)?).fingerprint),
        };
        let marker = Replacing::new(data_set.request()?, current.to_owned(), to, fingerprint)
            .begun_by(self.context.begun_by());
        marker.put(job)?;
        Ok(Some((marker, state)))
    }

    /// Abandons an earlier job, or ends it if its data set is already in place.
    fn give_up(&self, data_set: &dyn Replacement) -> Result<(), Error> {
        let job = self.job;
        // Without its document, the old one may be what waits in the job's folder.
        let current = job.document(&job.name)?.ok_or_else(|| data_set.missing())?;
        let marker = match job.marker() {
            Err(error @ Error::Store(_)) => return Err(error),
            // An unreadable marker is abandoned all the same.
            marker => marker.ok().flatten(),
        };
        if let Some(marker) = marker
            && (marker.to == current || job.is_exchanged(&marker)?)
        {
            return self.end(data_set, &marker);
        }
        self.settle(data_set)?;
        job.give_up()
    }

    /// Builds the new data set, with its document last. It is then durable, and matches the old
    /// one's current state. Returns the files of the old one, and the larger of both sizes in
    /// bytes.
    fn build(
        &self,
        data_set: &mut dyn Replacement,
        mut marker: Replacing,
        found: Option<FolderState>,
        mut resumed: bool,
    ) -> Result<(Replacing, (u64, u64)), Error> {
        let job = self.job;
        let document = job.new.join(data_set.document())?;
        let old = match found {
            Some(found) => found,
            None => job.beside.state_of(&job.name)?,
        };
        let mut fingerprint = old.fingerprint;
        let place = Location::root(Arc::new(job.beside.with_modes(old.modes)));
        let place = place.at(Some(job.new.clone()));
        let steps = data_set.steps(&marker.from, &marker.to, &place)?;
        let moves = steps.iter().all(Step::can_be_compared);
        let (mut counts, mut check) = (Vec::new(), self.options.transfer.check);
        let mut found = None;
        for attempt in 0..=ATTEMPTS {
            if resumed && check == RepackCheck::None {
                // What an earlier run or attempt has made is always compared.
                check = RepackCheck::Bytes;
            }
            if resumed && !moves && marker.fingerprint.is_some_and(|before| before != fingerprint) {
                // It is unknown which objects were made from what no longer exists.
                job.beside.remove_tree(&job.new)?;
            }
            marker.fingerprint = Some(fingerprint);
            marker.put(job)?;
            if attempt == ATTEMPTS {
                return Err(RepackError::Changed { at: job.at.clone() }.into());
            }
            if resumed && job.document(&job.new)?.is_some() {
                // Complete already; but the old one may have changed since.
                job.beside.remove_tree(&document)?;
            }
            job.beside.make_folder_at(&job.new)?;
            job.beside.copy_mode(&job.name, &job.new)?;
            if resumed {
                job.beside.remove_temporaries(&job.new)?;
            }
            let context =
                self.context.of_steps(steps.iter().map(Step::size).fold(0, u64::saturating_add));
            let mut bytes = 0;
            let step = |step: &Step| {
                context.begin_step(step.size(), bytes);
                let counts = self.step(&context, step, check, resumed)?;
                bytes = counts.bytes;
                Ok(counts)
            };
            let made: Result<Vec<Counts>, Error> = steps.iter().map(step).collect();
            let made = made.and_then(|made| {
                let others = data_set.others(&marker.from, &marker.to)?;
                job.beside.carry_over(&job.name, &job.new, &*others)?;
                found = data_set.check_built(&place)?;
                Ok(made)
            });
            let now = job.beside.fingerprint(&job.name)?;
            match made {
                Ok(made) if now == fingerprint => {
                    counts = made;
                    break;
                }
                Err(error) if now == fingerprint || !is_stale(&error) => return Err(error),
                _ => {}
            }
            (fingerprint, resumed) = (now, true);
        }
        data_set.counted(&counts, check);
        let chunks: u64 = counts.iter().map(|counts| counts.moved + counts.recompressed).sum();
        let objects = counts.iter().map(|counts| counts.written + counts.kept).sum();
        marker.built = Some(Built { objects, chunks: found.or(moves.then_some(chunks)) });
        marker.put(job)?;
        let modes = job.beside.modes_of(&job.name.join(data_set.document())?)?;
        job.beside.with_modes(modes).put(&document, marker.to.as_bytes(), Condition::None)?;
        let written: u64 = counts.iter().map(|counts| counts.bytes).sum();
        Ok((marker, (old.files, old.bytes.max(written))))
    }

    fn step(
        &self,
        context: &JobContext,
        step: &Step,
        check: RepackCheck,
        resumed: bool,
    ) -> Result<Counts, Error> {
        match &step.work {
            Work::Array { old, axes, new } => {
                let options = TransferOptions { check, ..self.options.transfer };
                let sides = Sides { old, axes, new };
                let transfer = Transfer::new(context, sides, options, resumed, &step.name);
                transfer.run()?;
                Ok(transfer.counts())
            }
            Work::Keys { from, to } => {
                from.move_to(context, to, resumed, check != RepackCheck::None, None)
            }
            Work::File { .. } | Work::Levels { .. } => {
                let reason = "only a new data set is made like this".to_owned();
                Err(crate::jobs::JobError::Plan { at: step.folder.to_string(), reason }.into())
            }
        }
    }

    /// Ends a job whose new data set is in place: removes the old one and the job, unless the old
    /// one was changed at the last moment.
    fn end(&self, data_set: &dyn Replacement, marker: &Replacing) -> Result<(), Error> {
        self.settle(data_set)?;
        let ended = self.job.end_alone(None, marker, &|| count(self.job, data_set, marker));
        if !self.job.has_data()? {
            self.job.clean_up()?;
        }
        ended
    }

    /// Restores the copies that an interrupted exchange has removed.
    fn settle(&self, data_set: &dyn Replacement) -> Result<(), Error> {
        let mut copies = Copies::default();
        if let Some(place) = data_set.copied_from() {
            copies.add(self.job, place)?;
        }
        copies.put_back()
    }
}

/// Counts what is stored of the new data set, in the old one's place.
pub(super) fn count(
    job: &Exchange,
    data_set: &dyn Replacement,
    marker: &Replacing,
) -> Result<Built, Error> {
    let store = Arc::new(job.beside.clone());
    let place = Location::root(store).at(Some(job.name.clone()));
    data_set.count(&marker.from, &marker.to, &place)
}

/// Ends jobs that were interrupted while the array at this location, or one below the group there,
/// had no name: between two renames, where folders cannot be exchanged.
pub(in crate::jobs) fn recover_missing(
    engine: &Arc<Engine>,
    location: &Location,
    depth: usize,
) -> Result<(), Error> {
    let Some(exchange) = location.store.exchange() else { return Ok(()) };
    recover(location)?;
    if depth > MAX_DEPTH {
        return Ok(());
    }
    for leftover in location.store.leftovers(location.path.as_ref())? {
        if let (LeftoverKind::Job, Some(array)) = (leftover.kind, leftover.object) {
            recover_at(exchange, Some(&array))?;
        }
    }
    let group = match Node::open(engine, location) {
        Ok(Node::Group(group)) => group,
        Ok(Node::Array(_)) => return Ok(()),
        // A group that cannot be read may contain anything.
        Err(error @ Error::Store(_)) => return Err(error),
        Err(_) => return Ok(()),
    };
    for child in group.children()? {
        if let Ok(Node::Group(inside)) = child.node {
            recover_missing(engine, inside.location(), depth + 1)?;
        }
    }
    Ok(())
}

/// Restores the name of an array or a precomputed volume if a job on it was stopped between two
/// renames, where folders cannot be exchanged: nothing has that name then, so it cannot be opened.
///
/// In-place jobs do this themselves; call it before inspecting what is there. Does nothing on
/// stores other than files. Costs a few `stat` calls if there is nothing to do.
pub fn recover(location: &Location) -> Result<(), Error> {
    let Some(exchange) = location.store.exchange() else { return Ok(()) };
    recover_at(exchange, location.path.as_ref())
}

/// The same for the former contents of this folder.
fn recover_at(exchange: &dyn FolderExchange, folder: Option<&Key>) -> Result<(), Error> {
    let Some((store, name)) = exchange.beside_missing(folder) else { return Ok(()) };
    let at = store.root().join(name.as_str()).display().to_string();
    let job = Exchange::on(store, name, at, DOCUMENT)?;
    let lacks = |job: &Exchange| -> Result<bool, Error> {
        Ok(!job.beside.has_name(&job.name)? && job.beside.has_folder(&job.old)?)
    };
    if !lacks(&job)? {
        return Ok(());
    }
    let _lock = job.lock()?;
    if !lacks(&job)? || job.marker()?.is_none() {
        return Ok(());
    }
    // The document comes last: a folder that has one is complete.
    for document in [DOCUMENT, INFO] {
        if job.beside.get(&job.new.join(document)?)?.is_some() {
            return Ok(job.beside.rename(&job.new, &job.name)?);
        }
    }
    Ok(())
}
