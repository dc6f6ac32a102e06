//! Replaces a volume of files by one that is built beside it: see the job that does so with arrays.

use std::sync::Arc;

use shardine_store::{Condition, FolderPart, Key, Store, StoreExt};

use super::{RepackVolumeOptions, RepackedScale, Wanted, build};
use crate::jobs::repack::{Job, Marker, RepackError};
use crate::precomputed::{INFO, Volume};
use crate::{Engine, Error, Location, RepackOutcome};

pub(super) fn repack(
    engine: &Arc<Engine>,
    location: &Location,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<(), Error> {
    let job = Job::of(location, INFO)?;
    if options.dry_run || job.is_empty()? {
        let wanted = Wanted::of(&Volume::open(engine, location)?, options)?;
        let remains = job.beside.has_folder(&job.work);
        if options.dry_run || wanted.is_unchanged() && !remains {
            wanted.scales.into_iter().for_each(tell);
            return Ok(());
        }
    }
    let _lock = job.lock()?;
    let done = locked(engine, &job, location, options, tell);
    // A job that is refused, or has nothing to do, leaves nothing.
    if job.is_empty()? {
        job.beside.remove_tree(&job.work)?;
    }
    done
}

/// The same by who has the lock.
fn locked(
    engine: &Arc<Engine>,
    job: &Job,
    location: &Location,
    options: &RepackVolumeOptions,
    tell: &mut dyn FnMut(RepackedScale),
) -> Result<(), Error> {
    if let Some(marker) = job.marker()?
        && options.restart
    {
        match job.document(&job.name)? {
            Some(current) if current == marker.to => job.end(marker.fingerprint)?,
            _ => job.clean_up()?,
        }
        // Gone with its folder, which the rest of the job is in.
        job.beside.make_folder_at(&job.work)?;
    }
    if job.document(&job.name)?.is_none() && job.document(&job.new)?.is_some() {
        // The second of the two renames is missing, where folders cannot be exchanged.
        job.beside.move_folder(&job.new, &job.name)?;
    }
    let Some(current) = job.document(&job.name)? else {
        return Err(Error::NoVolume { at: job.at.clone() });
    };
    let volume = Volume::open(engine, location)?;
    let mut resumed = false;
    let mut marker = match job.marker()? {
        Some(marker) => {
            resumed = true;
            marker
        }
        None if !job.is_empty()? => return Err(job.refuse("it is missing")),
        None => {
            let wanted = Wanted::of(&volume, options)?;
            if wanted.is_unchanged() {
                wanted.scales.into_iter().for_each(tell);
                return Ok(());
            }
            let to = String::from_utf8_lossy(&wanted.info.to_bytes()).into_owned();
            let (request, from) = (wanted.request(), current.clone());
            let marker = Marker { request, from, to, fingerprint: None };
            marker.put(job)?;
            marker
        }
    };
    if current == marker.to {
        // All that was missing is that the old volume is removed.
        let wanted = Wanted::of(&volume, options)?;
        job.end(marker.fingerprint)?;
        wanted.scales.into_iter().for_each(|mut scale| {
            scale.outcome = RepackOutcome::Resumed;
            tell(scale);
        });
        return Ok(());
    }
    if current != marker.from {
        return Err(job.refuse("the info of the volume was changed since"));
    }
    let mut wanted = Wanted::of(&volume, options)?;
    if wanted.request() != marker.request {
        let (at, request) = (job.at.clone(), marker.request.to_string());
        return Err(RepackError::OtherJob { at, request }.into());
    }
    make(engine, job, &volume, options, &mut wanted, &mut marker, resumed)?;
    job.exchange()?;
    job.end(marker.fingerprint)?;
    for mut scale in wanted.scales {
        if resumed && scale.outcome == RepackOutcome::Done {
            scale.outcome = RepackOutcome::Resumed;
        }
        tell(scale);
    }
    Ok(())
}

/// Builds the new volume, with its `info` last.
fn make(
    engine: &Arc<Engine>,
    job: &Job,
    old: &Volume,
    options: &RepackVolumeOptions,
    wanted: &mut Wanted,
    marker: &mut Marker,
    resumed: bool,
) -> Result<(), Error> {
    let fingerprint = job.beside.fingerprint(&job.name)?;
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
    let store: Arc<dyn Store> = Arc::new(job.beside.clone());
    let place = Location { store, path: Some(job.new.clone()), format: None };
    let new = Volume::bind(engine, &place, wanted.info.clone());
    let changed = changed_folders(old, &wanted.scales)?;
    build(engine, old, &new, options, &mut wanted.scales, resumed)?;
    job.beside.carry_over(&job.name, &job.new, &|path, is_folder| {
        if path == INFO || changed.iter().any(|folder| folder == path) {
            FolderPart::Left
        } else if is_folder && changed.iter().any(|folder| folder.starts_with(&format!("{path}/")))
        {
            FolderPart::Inside
        } else {
            FolderPart::Carried
        }
    })?;
    if job.beside.fingerprint(&job.name)? != fingerprint {
        return Err(RepackError::Changed { at: job.at.clone() }.into());
    }
    job.beside.put(&document, marker.to.as_bytes(), Condition::None)?;
    Ok(())
}

/// The folders of the scales that change, relative to the volume's.
pub(super) fn changed_folders(
    volume: &Volume,
    scales: &[RepackedScale],
) -> Result<Vec<String>, Error> {
    let mut folders = Vec::new();
    for scale in scales.iter().filter(|scale| scale.outcome != RepackOutcome::Unchanged) {
        let folder = volume.folder(volume.scale(scale.level)?)?;
        let base = volume.location().path.as_ref().map(Key::as_str).unwrap_or_default();
        let inside = folder.as_ref().map(Key::as_str).unwrap_or_default();
        let inside = match base {
            "" => Some(inside),
            base => inside.strip_prefix(base).and_then(|rest| rest.strip_prefix('/')),
        };
        match inside {
            Some(folder) if !folder.is_empty() => folders.push(folder.to_owned()),
            _ => {
                let reason =
                    format!("the chunks of scale \"{}\" are not in a folder of its own", scale.key);
                return Err(
                    RepackError::Layout { at: volume.location().to_string(), reason }.into()
                );
            }
        }
    }
    Ok(folders)
}
