//! Replaces a volume, or a folder of values by key, with a repacked one.

use serde_json::Value;

use super::volume::Scales;
use super::{Packed, RepackVolumeOptions, RepackedScale, count_packed};
use crate::jobs::RepackOutcome;
use crate::jobs::frame::{Built, JobContext};
use crate::jobs::rebuild::{
    Counts, InPlaceOptions, Others, Replaced, Replacement, Settled, Step, TransferOptions, recover,
    replace, settle,
};
use crate::jobs::repack::RepackCheck;
use crate::jobs::whole::check_walked;
use crate::precomputed::INFO;
use crate::zarr::AppendClaim;
use crate::{Error, Location};

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
    let check = if options.check { RepackCheck::Bytes } else { RepackCheck::None };
    let how = InPlaceOptions {
        restart: options.restart,
        exclusive: options.exclusive,
        wait: options.wait,
        dry_run: options.dry_run,
        transfer: TransferOptions { check, ..TransferOptions::default() },
    };
    let mut replaced = Repacked { context, location, open, packed: None };
    let outcome = replace(context, location, &mut replaced, &how)?;
    let packed = match replaced.packed.take() {
        Some(packed) => packed,
        None => open()?,
    };
    // If there is nothing left to do, an earlier run has done all of it.
    let all = packed.is_unchanged() && outcome == Replaced::Resumed;
    for mut scale in packed.reports(outcome == Replaced::Resumed) {
        if all {
            scale.outcome = RepackOutcome::Resumed;
        }
        tell(scale);
    }
    Ok(())
}

/// Ends a job on a data set with an `info` that was interrupted.
pub(in crate::jobs) fn settle_volume(
    context: &JobContext,
    location: &Location,
) -> Result<Option<Settled>, Error> {
    // Nothing is packed, so this is not called.
    let open = &|| Err(Error::NoVolume { at: location.to_string() });
    settle(context, location, &Repacked::<Scales> { context, location, open, packed: None })
}

/// A data set with an `info` that is replaced.
struct Repacked<'a, P> {
    context: &'a JobContext,
    location: &'a Location,
    open: &'a dyn Fn() -> Result<P, Error>,
    /// As last read.
    packed: Option<P>,
}

impl<P: Packed> Repacked<'_, P> {
    fn look(&mut self) -> Result<&P, Error> {
        let packed = (self.open)()?;
        Ok(self.packed.insert(packed))
    }
}

impl<P: Packed> Replacement for Repacked<'_, P> {
    fn document(&self) -> &'static str {
        INFO
    }

    fn missing(&self) -> Error {
        Error::NoVolume { at: self.location.to_string() }
    }

    fn request(&mut self) -> Result<Value, Error> {
        Ok(self.look()?.request())
    }

    fn wanted(&mut self, _: &str) -> Result<Option<String>, Error> {
        let packed = self.look()?;
        let info = || String::from_utf8_lossy(&packed.info()).into_owned();
        Ok((!packed.is_unchanged()).then(info))
    }

    fn resumes(&mut self, _: &str) -> Result<(), Error> {
        self.look().map(drop)
    }

    fn fits(&self, one: &str, other: &str) -> Result<bool, Error> {
        Ok(one == other)
    }

    fn shrinks(&self, _: &str, _: &str) -> Result<bool, Error> {
        Ok(false)
    }

    fn claim(&self) -> Result<Option<AppendClaim>, Error> {
        Ok(None)
    }

    fn copied_from(&self) -> Option<&Location> {
        None
    }

    fn steps(&mut self, _: &str, _: &str, place: &Location) -> Result<Vec<Step>, Error> {
        let engine = self.context.engine();
        let packed = self.look()?;
        packed.check_names()?;
        packed.steps(engine, place)
    }

    fn check_built(&self, place: &Location) -> Result<Option<u64>, Error> {
        let recount = |packed: &P| packed.recount(self.context.engine(), place);
        self.packed.as_ref().map(recount).transpose()
    }

    fn others<'a>(&'a self, _: &str, _: &str) -> Result<Others<'a>, Error> {
        let packed = self.packed.as_ref().ok_or_else(|| self.missing())?;
        Ok(Box::new(|path, is_folder| packed.part(path, is_folder)))
    }

    fn counted(&mut self, counts: &[Counts], _: RepackCheck) {
        if let Some(packed) = &mut self.packed {
            packed.count(counts);
        }
    }

    fn count(&self, from: &str, to: &str, place: &Location) -> Result<Built, Error> {
        let found = count_packed(self.context.engine(), place, from, to)?;
        Ok(Built { objects: 0, chunks: Some(found) })
    }
}
