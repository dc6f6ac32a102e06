//! Reports of parts: which have finished, and who finishes the job.

use serde_json::{Value, json};
use shardine_store::{Condition, StoreExt};

use super::Marker;
use crate::jobs::frame::{JobError, Part};
use crate::{Error, Location};

/// What remains to be done when a part has finished its own tasks.
#[derive(Debug)]
pub(in crate::jobs) enum PartEnd {
    /// Nothing: another process has finished the job.
    Finished,
    /// Nothing yet: these parts have not finished.
    Waiting(Vec<u32>),
    /// All parts have finished and left these reports: this process finishes the job.
    Last(Vec<Value>),
}

impl Marker {
    /// Withdraws the report of an earlier run of a part, which is now run again.
    pub fn remove_report(&self, target: &Location, part: Part) -> Result<(), Error> {
        let Part::Of { index, count } = part else { return Ok(()) };
        let key = target.key(&report_name(index, count))?;
        if target.store.get(&key)?.is_some() {
            target.store.delete(&key, &Condition::None)?;
        }
        Ok(())
    }

    /// Whether the job is still under way: its marker exists and says so.
    pub fn is_under_way(&self, target: &Location) -> Result<bool, Error> {
        let found = self.find(target)?;
        let state = found.and_then(|found| Self::parse(self.kind, &found.bytes));
        Ok(state.is_some_and(|(.., state, _)| state.id == self.state.id && !state.finishing))
    }

    /// Ends a part that has finished its own tasks: leaves its report, and returns what comes next.
    ///
    /// Several processes may find that they are the last; finishing the job is idempotent.
    pub fn end_part(
        &self,
        target: &Location,
        part: Part,
        report: &Value,
    ) -> Result<PartEnd, Error> {
        if !self.is_under_way(target)? {
            return Ok(PartEnd::Finished);
        }
        self.put_report(target, part, report)?;
        match self.reports(target)? {
            Ok(reports) => Ok(PartEnd::Last(reports)),
            Err(_) if !self.is_under_way(target)? => {
                self.remove_report(target, part)?;
                Ok(PartEnd::Finished)
            }
            Err(missing) if part == Part::Finish => {
                Err(JobError::PartsMissing { at: target.to_string(), missing }.into())
            }
            Err(missing) => Ok(PartEnd::Waiting(missing)),
        }
    }

    /// Writes the report of a part, for the process that finishes the job.
    fn put_report(&self, target: &Location, part: Part, report: &Value) -> Result<(), Error> {
        let Part::Of { index, count } = part else { return Ok(()) };
        let (part, job) = (part.to_string(), &self.state.id);
        let json = json!({ "shardine_part": part, "job": job, "report": report });
        let key = target.key(&report_name(index, count))?;
        target.store.put(&key, format!("{json:#}\n").as_bytes(), Condition::None)?;
        Ok(())
    }

    /// The reports of all parts, or the numbers of those that have not finished. One read each.
    fn reports(&self, target: &Location) -> Result<Result<Vec<Value>, Vec<u32>>, Error> {
        let count = self.state.parts.unwrap_or(0);
        let (mut reports, mut missing) = (Vec::new(), Vec::new());
        for index in 1..=count {
            let key = target.key(&report_name(index, count))?;
            let Some(bytes) = target.store.get(&key)? else {
                missing.push(index);
                continue;
            };
            let damaged = || JobError::Report { report: key.to_string() };
            let mut json: Value = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
            if json.get("job").and_then(Value::as_str) != Some(&self.state.id) {
                // From another job that was here before.
                missing.push(index);
                continue;
            }
            reports.push(json.get_mut("report").ok_or_else(damaged)?.take());
        }
        Ok(if missing.is_empty() { Ok(reports) } else { Err(missing) })
    }
}

/// The name of a part's report.
pub(super) fn report_name(index: u32, count: u32) -> String {
    format!(".shardine-part-{index}-of-{count}.json")
}

/// Whether a name is that of a part's report.
pub(in crate::jobs) fn is_report(name: &str) -> bool {
    let rest = name.strip_prefix(".shardine-part-").and_then(|rest| rest.strip_suffix(".json"));
    let numbers = rest.and_then(|rest| rest.split_once("-of-"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    numbers.is_some_and(|(index, count)| is_number(index) && is_number(count))
}
