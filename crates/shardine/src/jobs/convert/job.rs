//! How a conversion begins, and how it ends.

use std::cell::RefCell;
use std::sync::Arc;

use serde_json::Value;
use shardine_store::{Key, LeftoverKind, StoreExt};

use super::super::copy::clear::clear;
use super::super::copy::marker::{JobKind, Marker, Start};
use super::super::copy::place::check_apart;
use super::super::repack::{RepackCheck, RepackError};
use super::super::whole::check_whole;
use super::options::ConvertOptions;
use crate::zarr::CONVERT_MARKER;
use crate::zarr::MAX_DEPTH;
use crate::{Engine, Error, Location};

const CONVERT: JobKind = JobKind { marker: CONVERT_MARKER, member: "shardine_convert_volume" };

/// One job.
pub(super) struct Job<'a> {
    source: &'a Location,
    target: &'a Location,
    marker: RefCell<Marker>,
    /// Whether an earlier run has left something.
    pub resumed: bool,
    /// How the result is checked.
    pub check: RepackCheck,
    /// What the source was.
    before: Option<u64>,
}

impl<'a> Job<'a> {
    /// Marks the target, and makes room in it.
    pub fn begin(
        engine: &Arc<Engine>,
        source: &'a Location,
        target: &'a Location,
        options: &ConvertOptions,
        request: Value,
    ) -> Result<Self, Error> {
        check_apart(source, target)?;
        check_whole(source, Some(target))?;
        let mut marker = Marker::new(&CONVERT, source, request)?;
        let overwrite = options.overwrite || options.restart && marker.is_at(target)?;
        let mut start = marker.begin(source, target, overwrite)?;
        let before = fingerprint(source)?;
        if start == Start::Resumed && !before.is_some_and(|state| marker.is_begun("", state)) {
            // What an earlier run has made is of a source that has changed since, or may have.
            start = Start::Clear;
        }
        if start == Start::Clear {
            clear(target, engine.threads(), CONVERT_MARKER)?;
            marker.cleared(target)?;
        }
        if let Some(state) = before
            && !marker.is_begun("", state)
        {
            marker.begin_part(target, "", state)?;
        }
        let resumed = start == Start::Resumed;
        if resumed {
            remove_leftovers(target, target.path.clone(), 0)?;
        }
        let local = target.store.read_cost().local;
        let default = if local { RepackCheck::Bytes } else { RepackCheck::None };
        let check = options.check.unwrap_or(default);
        Ok(Self { source, target, marker: RefCell::new(marker), resumed, check, before })
    }

    /// Whether an earlier run has put this document there, which comes after all that it describes.
    pub fn is_finished(&self, document: &Key, text: &[u8]) -> Result<bool, Error> {
        let found = || self.target.store.get(document);
        Ok(self.resumed && found()?.is_some_and(|found| *found == *text))
    }

    /// An error if the source has changed meanwhile.
    pub fn check_source(&self) -> Result<(), Error> {
        if fingerprint(self.source)? == self.before {
            return Ok(());
        }
        Err(RepackError::Changed { at: self.source.to_string() }.into())
    }

    /// The result is whole.
    pub fn end(self) -> Result<(), Error> {
        self.marker.into_inner().end(self.target)
    }
}

/// What changes when somebody writes to a data set, where that can be told.
fn fingerprint(location: &Location) -> Result<Option<u64>, Error> {
    let Some(exchange) = location.store.exchange() else { return Ok(None) };
    Ok(Some(exchange.fingerprint(location.path.as_ref())?))
}

/// Removes temporary files of a run that was killed.
fn remove_leftovers(target: &Location, folder: Option<Key>, depth: usize) -> Result<(), Error> {
    let store = &target.store;
    if depth > MAX_DEPTH || !store.has_folders() {
        return Ok(());
    }
    for leftover in store.leftovers(folder.as_ref())? {
        if leftover.kind == LeftoverKind::Temporary {
            store.remove_leftover(folder.as_ref(), &leftover.name)?;
        }
    }
    for inside in store.list(folder.as_ref())?.folders {
        remove_leftovers(target, Some(inside), depth + 1)?;
    }
    Ok(())
}
