//! Jobs on whole data sets. The functions that users call, with their signatures and reports, are
//! in `shardine/_jobs.py`; each hands its keywords to [`run_job`] and gets a report as plain data.

mod check;
mod compare;
mod convert;
mod copy;
mod json;
mod options;
mod plan;
mod pyramid;
mod repack;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value, json};
use shardine::jobs::{JobContext, PartOutcome};
use shardine::zarr::renew_consolidated_above;
use shardine::{Engine, Error, Location};

use crate::error;
use crate::run;

pub use json::to_python;
pub use options::Options;

/// A member of a report that is not for the user: copies of metadata that could not be renewed.
const STALE: &str = "stale_copies";

/// Runs a job by the name of its function, with all its keywords.
#[pyfunction]
#[pyo3(signature = (name, options, progress=None))]
pub fn run_job(
    py: Python<'_>,
    name: &str,
    options: Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let job = Job { py, options: Options::new(options), progress };
    let start = Instant::now();
    let mut report = match name {
        "shard" | "unshard" | "reshard" => repack::run(&job, name)?,
        "convert" => convert::run(&job)?,
        "verify" => check::verify(&job)?,
        "repair" => check::repair(&job)?,
        "compact" => check::compact(&job)?,
        "copy" => copy::copy(&job)?,
        "migrate" => copy::migrate(&job)?,
        "consolidate" => copy::consolidate(&job)?,
        "compare" => compare::run(&job)?,
        "pyramid" => pyramid::run(&job)?,
        "plan" => plan::run(&job)?,
        _ => return Err(error::request(py, &format!("there is no job {name}"), None)),
    };
    report.insert("seconds".to_owned(), json!(start.elapsed().as_secs_f64()));
    to_python(py, &Value::Object(report)).map(Bound::unbind)
}

/// A report, by name.
pub type Report = Map<String, Value>;

/// A report with these members.
pub fn report<const N: usize>(members: [(&str, Value); N]) -> Report {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A job that was asked for.
pub struct Job<'py> {
    pub py: Python<'py>,
    pub options: Options<'py>,
    progress: Option<Py<PyAny>>,
}

impl Job<'_> {
    /// An error in what was asked for.
    pub fn wrong(&self, message: impl AsRef<str>, hint: Option<&str>) -> PyErr {
        error::request(self.py, message.as_ref(), hint)
    }

    /// The engine that was asked for, or the shared one.
    pub fn engine(&self) -> PyResult<Arc<Engine>> {
        self.options.engine(self.py)
    }

    /// Runs it without the interpreter lock, with progress reports, until Ctrl-C.
    pub fn run<T: Send>(
        &self,
        engine: &Arc<Engine>,
        work: impl FnOnce(&JobContext) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        run_with_progress(self.py, engine, self.progress.as_ref(), work)
    }

    /// Runs what needs no progress reports.
    pub fn short<T: Send>(&self, work: impl FnOnce() -> Result<T, Error> + Send) -> PyResult<T> {
        run::long(self.py, |_| work())
    }

    /// The members of a report that say which part it is for, and which are missing.
    pub fn add_part(&self, report: &mut Report, outcome: &PartOutcome) -> PyResult<()> {
        let part = self.options.part()?.map(|part| part.to_string());
        report.insert("part".to_owned(), json!(part));
        report.insert("parts_missing".to_owned(), json!(outcome.missing()));
        Ok(())
    }

    /// Renews the copies of metadata above what was made, unless nothing was made.
    pub fn renew(
        &self,
        report: &mut Report,
        target: &Location,
        outcome: &PartOutcome,
    ) -> PyResult<()> {
        if self.options.flag("dry_run")? || *outcome != PartOutcome::Complete {
            return Ok(());
        }
        let stale = self.short(|| Ok(renew_consolidated_above(target)))?;
        let stale: Vec<Value> = stale
            .iter()
            .map(|copy| json!({ "at": copy.at, "reason": copy.reason.to_string() }))
            .collect();
        report.insert(STALE.to_owned(), Value::Array(stale));
        Ok(())
    }
}

/// How far a job is, as its threads say it and the calling thread tells it.
#[derive(Default)]
struct Seen {
    latest: Mutex<Option<(u64, u64)>>,
}

impl Seen {
    fn put(&self, done: u64, total: u64) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some((done, total));
    }

    fn take(&self) -> Option<(u64, u64)> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Calls `progress` if something is new.
    fn tell(&self, py: Python<'_>, progress: &Py<PyAny>) -> PyResult<()> {
        match self.take() {
            Some(now) => progress.call1(py, now).map(drop),
            None => Ok(()),
        }
    }
}

/// Runs a job without the interpreter lock. `progress` is called on the calling thread with what is
/// done and the total; if it raises, the job is cancelled.
pub fn run_with_progress<T: Send>(
    py: Python<'_>,
    engine: &Arc<Engine>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&JobContext) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let seen = Arc::new(Seen::default());
    let mut context = JobContext::new(engine);
    if progress.is_some() {
        let seen = Arc::clone(&seen);
        context = context.progress(move |now| seen.put(now.job_done, now.job_total));
    }
    let look = |py: Python<'_>| progress.map_or(Ok(()), |progress| seen.tell(py, progress));
    let result = run::watched(py, look, |token| work(&context.cancel(token)))?;
    look(py)?;
    Ok(result)
}
