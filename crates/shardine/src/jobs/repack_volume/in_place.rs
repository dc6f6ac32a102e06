//! Replaces a volume of files by one that is built beside it: see the job that does so with arrays.

use std::sync::Arc;

use shardine_store::{Condition, Store, StoreExt};

use super::{Packed, RepackVolumeOptions, RepackedScale};
use crate::jobs::frame::JobContext;
use crate::jobs::repack::{Built, Job, Marker, RepackError, WAIT, recover};
use crate::jobs::whole::check_walked;
use crate::precomputed::INFO;
use crate::{Engine, Error, Location, RepackOutcome};

/// How often a volume is built that was changed meanwhile.
const ATTEMPTS: usize = 3;

/// What comes after a step.
enum Next {
    /// Nothing: all is done.
    Done,
    /// An earlier job is out of the way, and this one can begin.
    Begin,
}

pub(super) fn repack<P: Packed>(
    context: &JobContext,
    location: &Location,
    open: &dyn Fn() -> Result<P, Error>,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<(), Error> {
    if !options.dry_run {
        recover(location)?;
    }
    check_walked(location)?;
    let job = Job::of(location, INFO)?;
    loop {
        if options.dry_run || job.is_empty()? {
            let wanted = open()?;
            let remains = job.beside.has_folder(&job.work)?;
            if options.dry_run || wanted.is_unchanged() && !remains {
                wanted.reports(false).into_iter().for_each(tell);
                return Ok(());
            }
        }
        let _lock = job.lock()?;
        let done = locked(context, &job, open, options, tell);
        // A job that is refused, or has nothing to do, leaves nothing.
        if job.is_empty()? {
            job.beside.remove_tree(&job.work)?;
        }
        match done? {
            Next::Done => return Ok(()),
            // With a lock of its own: that of the earlier job went with its folder.
            Next::Begin => {}
        }
    }
}

/// The same by who has the lock.
fn locked<P: Packed>(
    context: &JobContext,
    job: &Job,
    open: &dyn Fn() -> Result<P, Error>,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<Next, Error> {
    let engine = context.engine();
    if options.restart && !job.is_empty()? {
        match (job.marker(), job.document(&job.name)?) {
            (Err(error @ Error::Store(_)), _) => return Err(error),
            (Ok(Some(marker)), Some(current))
                if current == marker.to || job.is_exchanged(&marker)? =>
            {
                job.end(&marker, &|| count(engine, job, &marker))?;
            }
            // Without its `info` nobody can tell whether it is the old one that waits in the job's folder.
            (_, None) => return Err(Error::NoVolume { at: job.at.clone() }),
            _ => job.give_up()?,
        }
        return Ok(Next::Begin);
    }
    let Some(current) = job.document(&job.name)? else {
        return Err(Error::NoVolume { at: job.at.clone() });
    };
    let mut wanted = open()?;
    let mut resumed = false;
    let mut marker = match job.marker()? {
        Some(marker) => {
            resumed = true;
            marker
        }
        None if !job.is_empty()? => return Err(job.refuse("it is missing")),
        None => {
            if wanted.is_unchanged() {
                wanted.reports(false).into_iter().for_each(tell);
                return Ok(Next::Done);
            }
            let to = String::from_utf8_lossy(&wanted.info()).into_owned();
            let (request, from) = (wanted.request(), current.clone());
            // What cannot be replaced, or cannot be looked at, is told before anything is begun.
            job.beside.check_movable(&job.name, &job.work)?;
            let fingerprint = Some(job.beside.fingerprint(&job.name)?);
            let marker = Marker { request, from, to, fingerprint, built: None };
            marker.put(job)?;
            marker
        }
    };
    if current == marker.to || job.is_exchanged(&marker)? {
        // All that was missing is that the old volume is removed.
        job.end(&marker, &|| count(engine, job, &marker))?;
        if wanted.request() != marker.request {
            return Ok(Next::Begin);
        }
        wanted.reports(true).into_iter().for_each(|mut scale| {
            scale.outcome = RepackOutcome::Resumed;
            tell(scale);
        });
        return Ok(Next::Done);
    }
    if current != marker.from {
        return Err(job.refuse("the info of the volume was changed since"));
    }
    if wanted.request() != marker.request {
        let (at, request) = (job.at.clone(), marker.request.to_string());
        return Err(RepackError::OtherJob { at, request }.into());
    }
    job.check_locks(options.exclusive)?;
    let unchanged = |marker: &Marker| -> Result<bool, Error> {
        Ok(job.document(&job.name)?.as_ref() == Some(&marker.from)
            && Some(job.beside.fingerprint(&job.name)?) == marker.fingerprint)
    };
    let mut made = make(context, job, options, &mut wanted, &mut marker, resumed);
    for _ in 1..ATTEMPTS {
        // What is wrong counts only if nobody has changed the volume meanwhile.
        if unchanged(&marker)? {
            break;
        }
        wanted = open()?;
        made = make(context, job, options, &mut wanted, &mut marker, true);
    }
    let changed = || Error::from(RepackError::Changed { at: job.at.clone() });
    if let Err(error) = made {
        return Err(if unchanged(&marker)? { error } else { changed() });
    }
    let alone = job.alone(options.exclusive, options.wait.unwrap_or(WAIT))?;
    // A writer may have come between the last look and the lock. From here on none can.
    if !unchanged(&marker)? {
        return Err(changed());
    }
    job.exchange()?;
    job.end_alone(alone, &marker, &|| count(engine, job, &marker))?;
    wanted.reports(resumed).into_iter().for_each(tell);
    Ok(Next::Done)
}

/// Builds the new volume, with its `info` last.
fn make(
    context: &JobContext,
    job: &Job,
    options: &RepackVolumeOptions,
    wanted: &mut impl Packed,
    marker: &mut Marker,
    resumed: bool,
) -> Result<(), Error> {
    let engine = context.engine();
    let (fingerprint, modes) = job.beside.state_of(&job.name)?;
    let mut resumed = resumed;
    if resumed && marker.fingerprint != Some(fingerprint) {
        // Nobody can tell which of the objects were made from what is there no more.
        job.beside.remove_tree(&job.new)?;
        resumed = false;
    }
    marker.fingerprint = Some(fingerprint);
    marker.put(job)?;
    let document = job.new.join(INFO)?;
    job.beside.make_folder_at(&job.new)?;
    job.beside.remove_tree(&document)?;
    job.beside.copy_mode(&job.name, &job.new)?;
    job.beside.remove_temporaries(&job.new)?;
    let store: Arc<dyn Store> = Arc::new(job.beside.with_modes(modes));
    let place = Location::root(store).at(Some(job.new.clone()));
    wanted.build(context, &place, options, resumed)?;
    let part = |path: &str, is_folder| wanted.part(path, is_folder);
    job.beside.carry_over(&job.name, &job.new, &part)?;
    let moved = wanted.recount(engine, &place)?;
    if job.beside.fingerprint(&job.name)? != fingerprint {
        return Err(RepackError::Changed { at: job.at.clone() }.into());
    }
    marker.built = Some(Built { objects: 0, chunks: Some(moved) });
    marker.put(job)?;
    let modes = job.beside.modes_of(&job.name.join(INFO)?)?;
    job.beside.with_modes(modes).put(&document, marker.to.as_bytes(), Condition::None)?;
    Ok(())
}

/// What is stored of the new volume, where the old one was.
fn count(engine: &Arc<Engine>, job: &Job, marker: &Marker) -> Result<Built, Error> {
    let store: Arc<dyn Store> = Arc::new(job.beside.clone());
    let place = Location::root(store).at(Some(job.name.clone()));
    let found = super::count_packed(engine, &place, &marker.from, &marker.to)?;
    Ok(Built { objects: 0, chunks: Some(found) })
}
