//! Puts a level that was built in the place of an old one.
//!
//! The new level is built in the job's folder beside the old one, as `.shardine-NAME.job/new`. When
//! all levels are complete and the image names none of them any more, the old one is renamed to `old`
//! in that folder, and the new one gets its name. Which of the folders exist shows how far a killed
//! run has come:
//!
//! | the level | `new` | `old` | then |
//! |---|---|---|---|
//! | is the old one | exists, or not yet | missing | the new one is being built |
//! | is missing | exists | exists | the second rename is missing |
//! | is the new one | missing | exists | the old one has to be removed |

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use shardine_store::JobLock;

use super::places::BuiltLevel;
use crate::jobs::JobContext;
use crate::jobs::frame::{Exchange, Replacing, WAIT};
use crate::zarr::array_document;
use crate::zarr::metadata::ZarrFormat;
use crate::{Error, Location};

/// An old level, and the folder in which the new one is built.
pub(super) struct Replaced {
    job: Exchange,
    document: &'static str,
    lock: Mutex<Option<JobLock>>,
    is_switched: bool,
}

impl Replaced {
    /// The old level at a location; `None` if there is none. `listed` says whether the image names
    /// it; if not, only a job that has come far enough shows that there was one.
    pub fn of(home: &Location, format: ZarrFormat, listed: bool) -> Result<Option<Self>, Error> {
        let Some(exchange) = home.store.exchange() else { return Ok(None) };
        let Some((beside, name)) = exchange.beside_missing(home.path.as_ref()) else {
            return Ok(None);
        };
        let document = array_document(format);
        let job = Exchange::on(beside, name, home.to_string(), document)?;
        if !listed && !job.beside.has_folder(&job.work)? {
            return Ok(None);
        }
        let is_switched = job.beside.has_folder(&job.old)?;
        Ok(Some(Self { job, document, lock: Mutex::default(), is_switched }))
    }

    /// Where the new level is built.
    pub fn place(&self) -> Result<Location, Error> {
        let Exchange { beside, name, new, .. } = &self.job;
        let document = name.join(self.document)?;
        // New files look like the old ones to other users.
        let store = match beside.has_name(&document)? {
            true => beside.with_modes(beside.modes_of(&document)?),
            false => beside.clone(),
        };
        Ok(Location::root(Arc::new(store)).at(Some(new.clone())))
    }

    /// Looks again, when another level of the image is in its place: then all have been built, and
    /// one that no longer lies beside its place is in it, even if its old level is removed already.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.is_switched = self.is_switched || !self.job.beside.has_folder(&self.job.new)?;
        Ok(())
    }

    /// Whether the old level has been renamed.
    pub fn is_switched(&self) -> bool {
        self.is_switched
    }

    /// Marks the folder as that of this job, and keeps other jobs on the level out. `surplus` are
    /// levels that the image has no longer in the end; returns those that an earlier run knew of.
    pub fn begin(
        &self,
        context: &JobContext,
        request: &Value,
        level: &BuiltLevel<'_>,
        surplus: &[String],
    ) -> Result<Vec<String>, Error> {
        let Self { job, .. } = self;
        let lock = job.lock()?;
        let mut known = Vec::new();
        if let Some(marker) = job.marker()? {
            if marker.request["pyramid"] != *request {
                return Err(job.refuse("it is that of another job"));
            }
            let paths = marker.request["surplus"].as_array().cloned().unwrap_or_default();
            known.extend(paths.iter().filter_map(Value::as_str).map(str::to_owned));
        } else {
            if job.has_data()? {
                return Err(job.refuse("it is missing"));
            }
            if job.beside.has_folder(&job.name)? {
                job.beside.check_movable(&job.name, &job.work)?;
                job.check_locks(false)?;
            }
            let from = job.document(&job.name)?.unwrap_or_default();
            let to = level.plan.documents.last().map(|(_, text)| text.clone()).unwrap_or_default();
            let to = String::from_utf8_lossy(&to).into_owned();
            let request = json!({ "pyramid": request, "surplus": surplus });
            Replacing::new(request, from, to, None).begun_by(context.begun_by()).put(job)?;
        }
        if !self.is_switched {
            job.beside.make_folder_at(&job.new)?;
        }
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock);
        Ok(known)
    }

    /// Removes what was built of the new level.
    pub fn clear(&self) -> Result<(), Error> {
        match self.is_switched {
            true => Ok(()),
            false => Ok(self.job.beside.remove_tree(&self.job.new)?),
        }
    }

    /// Puts the new level in the place of the old one, unless it is there already.
    pub fn switch(&self) -> Result<(), Error> {
        let Exchange { beside, name, new, old, .. } = &self.job;
        if !beside.has_folder(new)? {
            return Ok(());
        }
        let mut alone = None;
        if beside.has_folder(name)? {
            alone = self.job.alone(false, WAIT)?;
            beside.rename(name, old)?;
        }
        beside.rename(new, name)?;
        drop(alone);
        Ok(())
    }

    /// Removes the old level and the job.
    pub fn end(&self) -> Result<(), Error> {
        self.job.clean_up()?;
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    }
}
