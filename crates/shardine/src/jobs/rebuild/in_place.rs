//! Replaces a data set of files by one that is built beside it.
//!
//! Everything is done in a folder beside the data set, `.shardine-NAME.job`: `job.json` says what is
//! being done, `new` is what is being built. When that is whole, checked and durable, the two
//! exchange their names in one step; then the old one is removed. Several that are built may be
//! exchanged together (`batch.rs`). What is there says how far a job that was killed had come:
//!
//! | the data set is | `new` | then |
//! |---|---|---|
//! | the old one | has no document | it is still being built |
//! | the old one | has one | it is whole, and only has to be exchanged |
//! | the new one | is the old one | it has to be removed |
//! | the new one | is missing | what is around it has to be settled, and the job be removed |
//! | missing | has a document | the second of the two renames is missing, where folders cannot be exchanged |

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

/// How often what was changed meanwhile is moved again.
const ATTEMPTS: usize = 3;

/// A data set of files, and what it is to become.
pub(in crate::jobs) trait Replacement {
    /// The name of the document that makes it.
    fn document(&self) -> &'static str;

    /// The error if there is no such document, after a look at why.
    fn missing(&self) -> Error;

    /// What is asked for, the same for the same result.
    fn request(&mut self) -> Result<Value, Error>;

    /// Its new document, given the one that it has; `None` if it is as asked for already.
    fn wanted(&mut self, current: &str) -> Result<Option<String>, Error>;

    /// Takes note of what it becomes, as an earlier run has planned it.
    fn resumes(&mut self, to: &str) -> Result<(), Error>;

    /// Whether two documents describe data sets whose objects have the same names and mean the same.
    fn fits(&self, one: &str, other: &str) -> Result<bool, Error>;

    /// Whether a new document describes less than the one that was being built.
    fn shrinks(&self, before: &str, after: &str) -> Result<bool, Error>;

    /// Keeps others from beginning with something that the exchange would undo. An error if it is
    /// under way.
    fn claim(&self) -> Result<Option<AppendClaim>, Error>;

    /// The place by which groups above may know it that keep copies of its document; `None` if
    /// nobody keeps copies of such documents.
    fn copied_from(&self) -> Option<&Location>;

    /// What makes it at another place, all but the document.
    fn steps(&mut self, from: &str, to: &str, place: &Location) -> Result<Vec<Step>, Error>;

    /// A last check of what was built at a place, before it is exchanged; tells how many chunks or
    /// values there are, if they were counted.
    fn check_built(&self, place: &Location) -> Result<Option<u64>, Error>;

    /// What becomes of something in its folder: what is built is left, all else carried over.
    fn others<'a>(&'a self, from: &str, to: &str) -> Result<Others<'a>, Error>;

    /// Takes note of what the steps have done, and how they were checked.
    fn counted(&mut self, counts: &[Counts], check: RepackCheck);

    /// What is stored of it at a place.
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

/// What became of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jobs) enum Replaced {
    /// It was so already.
    Unchanged,
    /// It is as asked for, or in a dry run would be.
    Done,
    /// The same; an earlier run had begun with it.
    Resumed,
}

/// What there is to do with a data set.
pub(in crate::jobs) enum Prepared {
    /// Nothing, or in a dry run what would be done.
    Done(Replaced),
    /// It is built, and has to be exchanged.
    Waiting(Box<WaitingSet>),
}

/// Replaces the data set at a place.
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

/// Builds what is to replace the data set at a place: checked, durable, and all but exchanged.
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
            // Nothing is made for what needs nothing, or cannot be done.
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
        // A job that is refused, or has nothing to do, leaves nothing.
        if job.is_empty()? {
            job.beside.remove_tree(&job.work)?;
        }
        match next? {
            Next::Done => return Ok(Prepared::Done(Replaced::Unchanged)),
            Next::Begin => {}
            Next::Ready(ready) => {
                return Ok(Prepared::Waiting(Box::new(WaitingSet::new(job, lock, ready))));
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

/// Ends a job on a data set that was interrupted, without doing what it was to do. `None` if there is none.
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
    /// An earlier job is out of the way, and this one can begin, with a lock of its own: that of the
    /// earlier job went with its folder.
    Begin,
    Ready(Ready),
}

/// What is left to do when a data set is built.
pub(super) struct Ready {
    pub marker: Replacing,
    pub outcome: Replaced,
    /// Whether it is in the place of the old one already, because an earlier run has come so far.
    pub is_exchanged: bool,
    /// How often it was built.
    pub attempt: usize,
    /// Files of the old data set, and bytes of the old or the new one, whichever are more.
    pub files: u64,
    pub bytes: u64,
}

/// One job, by the process that has its lock.
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
        Ok(Next::Ready(ready))
    }

    /// Builds the new data set until it fits the old one, which was built from so many times before.
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
                // All that was missing is that the old one is removed, and nobody knows how much is
                // left of it.
                data_set.resumes(&marker.to)?;
                let files = if job.has_data()? { u64::MAX } else { 0 };
                return ready(marker, Replaced::Resumed, true, (files, 0));
            }
            let Some((marker, state)) = self.begin(data_set, &current)? else { return Ok(None) };
            let outcome = if resumed { Replaced::Resumed } else { Replaced::Done };
            job.check_locks(options.exclusive)?;
            if !options.exclusive {
                // What is under way now is not waited for after all the work.
                drop(data_set.claim()?);
            }
            match self.build(data_set, marker, state, resumed) {
                Ok((marker, size)) => return ready(marker, outcome, false, size),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                // What is wrong counts only if the data set is still the one that was being read.
                Err(_) if job.document(&job.name)?.as_ref() != Some(&current) => resumed = true,
                Err(error) => return Err(error),
            }
        }
        Err(RepackError::Changed { at: job.at.clone() }.into())
    }

    /// What the job is to do: what an earlier run has said, or a new plan, which is recorded. `None`
    /// if there is nothing to do.
    fn begin(
        &self,
        data_set: &mut dyn Replacement,
        current: &str,
    ) -> Result<Option<(Replacing, Option<FolderState>)>, Error> {
        let job = self.job;
        let known = job.marker()?;
        match &known {
            Some(marker) => {
                // It may have grown, or its attributes may be others. Anything else is another data
                // set, and nothing says what that has to do with what was built.
                if current != marker.from && !data_set.fits(current, &marker.from)? {
                    return Err(job.refuse("the metadata of the data set was changed since"));
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
            // What was built is of another grid.
            job.beside.remove_tree(&job.new)?;
        }
        // What cannot be replaced, or cannot be looked at, is told before anything is begun.
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

    /// Gives up an earlier job; if it had come so far that the data set is what it was to be, ends
    /// it.
    fn give_up(&self, data_set: &dyn Replacement) -> Result<(), Error> {
        let job = self.job;
        // Without its document nothing says whether it is the old one that waits in the job's folder.
        let current = job.document(&job.name)?.ok_or_else(|| data_set.missing())?;
        let marker = match job.marker() {
            Err(error @ Error::Store(_)) => return Err(error),
            // What cannot be understood is given up all the same.
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

    /// Builds the new data set, with its document last. It is durable then, and fits the old one as
    /// that is. Tells the files of the old one, and the bytes of either.
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
                // What an earlier run or attempt has made is compared in any case.
                check = RepackCheck::Bytes;
            }
            if resumed && !moves && marker.fingerprint.is_some_and(|before| before != fingerprint) {
                // Nobody can tell which of the objects were made from what is there no more.
                job.beside.remove_tree(&job.new)?;
            }
            marker.fingerprint = Some(fingerprint);
            marker.put(job)?;
            if attempt == ATTEMPTS {
                return Err(RepackError::Changed { at: job.at.clone() }.into());
            }
            if resumed && job.document(&job.new)?.is_some() {
                // Whole already; but the old one may have been changed since.
                job.beside.remove_tree(&document)?;
            }
            job.beside.make_folder_at(&job.new)?;
            job.beside.copy_mode(&job.name, &job.new)?;
            if resumed {
                job.beside.remove_temporaries(&job.new)?;
            }
            let made: Result<Vec<Counts>, Error> =
                steps.iter().map(|step| self.step(step, check, resumed)).collect();
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

    fn step(&self, step: &Step, check: RepackCheck, resumed: bool) -> Result<Counts, Error> {
        match &step.work {
            Work::Array { old, axes, new } => {
                let options = TransferOptions { check, ..self.options.transfer };
                let sides = Sides { old, axes, new };
                let transfer = Transfer::new(self.context, sides, options, resumed, &step.name);
                transfer.run()?;
                Ok(transfer.counts())
            }
            Work::Keys { from, to } => {
                from.move_to(self.context, to, resumed, check != RepackCheck::None, None)
            }
        }
    }

    /// The new data set is in its place: removes the old one and the job, unless it was changed at the
    /// last moment.
    fn end(&self, data_set: &dyn Replacement, marker: &Replacing) -> Result<(), Error> {
        self.settle(data_set)?;
        let ended = self.job.end_alone(None, marker, &|| count(self.job, data_set, marker));
        if !self.job.has_data()? {
            self.job.clean_up()?;
        }
        ended
    }

    /// Brings back what an exchange that was interrupted has taken away.
    fn settle(&self, data_set: &dyn Replacement) -> Result<(), Error> {
        let mut copies = Copies::default();
        if let Some(place) = data_set.copied_from() {
            copies.add(self.job, place)?;
        }
        copies.put_back()
    }
}

/// What is stored of the new data set, where the old one was.
pub(super) fn count(
    job: &Exchange,
    data_set: &dyn Replacement,
    marker: &Replacing,
) -> Result<Built, Error> {
    let store = Arc::new(job.beside.clone());
    let place = Location::root(store).at(Some(job.name.clone()));
    data_set.count(&marker.from, &marker.to, &place)
}

/// Ends jobs that were interrupted when the array at this place, or one below the group there, had no
/// name: between two renames, where folders cannot be exchanged.
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
        // What cannot be read could hold anything.
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

/// Gives an array or a precomputed volume its name back, if a job on it was stopped between two
/// renames, where folders cannot be exchanged: then nothing has that name, and nothing can be opened.
///
/// A job in place does this itself; call it to look at what is there first. Does nothing for stores
/// other than files. Some `stat` if there is nothing to do.
pub fn recover(location: &Location) -> Result<(), Error> {
    let Some(exchange) = location.store.exchange() else { return Ok(()) };
    recover_at(exchange, location.path.as_ref())
}

/// The same for what was in this folder.
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
    // The document comes last: what has one is whole.
    for document in [DOCUMENT, INFO] {
        if job.beside.get(&job.new.join(document)?)?.is_some() {
            return Ok(job.beside.rename(&job.new, &job.name)?);
        }
    }
    Ok(())
}
