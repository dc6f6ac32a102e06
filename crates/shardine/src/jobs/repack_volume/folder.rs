//! Repacks the values of a folder of meshes or skeletons.

use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_store::{FolderPart, StoreExt};

use super::survey::survey;
use super::values::KeyFolderValues;
use super::{Packed, RepackedScale};
use crate::jobs::RepackOutcome;
use crate::jobs::rebuild::{Counts, SourceRef, Step, TargetRef, Work};
use crate::jobs::repack::RepackError;
use crate::keyed::KeyedShards;
use crate::precomputed::key_values::{KeyValueStore, PayloadKind};
use crate::precomputed::{INFO, ValueNames};
use crate::shard::uint64::Sharding;
use crate::{Engine, Error, Location};

/// A folder of values by key, and its replacement.
#[derive(Clone)]
pub(super) struct Folder {
    location: Location,
    old: KeyFolderValues,
    document: Map<String, Value>,
    /// How the shards are named, before and after.
    names: [ValueNames; 2],
    report: RepackedScale,
}

impl Folder {
    pub fn open(
        engine: &Arc<Engine>,
        location: &Location,
        sharding: &Sharding,
    ) -> Result<Self, Error> {
        let values = KeyValueStore::open(engine, location)?;
        let no_store = || Error::NoKeyValues { at: location.to_string() };
        let bytes = location.store.get(&location.key(INFO)?)?.ok_or_else(no_store)?;
        let mut document: Map<String, Value> =
            serde_json::from_slice(&bytes).map_err(|_| no_store())?;
        let outcome = if values.sharding() == sharding {
            RepackOutcome::Unchanged
        } else {
            document.insert("sharding".into(), sharding.to_json());
            RepackOutcome::Done
        };
        let report = RepackedScale::new(0, "", Some(sharding.clone()), outcome);
        let names = |sharding: &Sharding| ValueNames::Shards(sharding.clone());
        let names = [values.sharding(), sharding].map(names);
        let old = KeyFolderValues { shards: values.shards(), kind: values.kind() };
        Ok(Self { location: location.clone(), old, document, names, report })
    }

    /// The values at a location with this `info`.
    pub fn values_at(place: &Location, info: &str) -> Result<KeyFolderValues, Error> {
        let no_store = || Error::NoKeyValues { at: place.to_string() };
        let document: Map<String, Value> = serde_json::from_str(info).map_err(|_| no_store())?;
        let sharding = Sharding::from_json(document.get("sharding").ok_or_else(no_store)?);
        let object = place.key(INFO)?;
        let sharding = sharding.map_err(|source| Error::Sharding { object, source })?;
        let (store, folder) = (Arc::clone(&place.store), place.path.clone());
        let shards = Arc::new(KeyedShards::new(store, folder, sharding));
        let kind = PayloadKind::from_info(&document);
        Ok(KeyFolderValues { shards, kind })
    }

    /// The values at the location where they are built.
    fn new_values(&self, place: &Location) -> Option<KeyFolderValues> {
        let sharding = self.report.sharding.clone()?;
        let (store, folder) = (Arc::clone(&place.store), place.path.clone());
        let shards = Arc::new(KeyedShards::new(store, folder, sharding));
        Some(KeyFolderValues { shards, kind: self.old.kind })
    }
}

impl Packed for Folder {
    fn info(&self) -> Vec<u8> {
        // A map of JSON values always serializes.
        serde_json::to_vec_pretty(&self.document).unwrap_or_default()
    }

    fn request(&self) -> Value {
        Value::Object(self.document.clone())
    }

    fn is_unchanged(&self) -> bool {
        self.report.outcome == RepackOutcome::Unchanged
    }

    fn check_inside(&self) -> Result<(), Error> {
        Ok(())
    }

    fn check_names(&self) -> Result<(), Error> {
        let [old, new] = &self.names;
        let from = &self.old.shards;
        survey(&*from.store, from.folder.as_ref(), old, new)
    }

    fn steps(&self, _: &Arc<Engine>, place: &Location) -> Result<Vec<Step>, Error> {
        let Some(to) = self.new_values(place).filter(|_| !self.is_unchanged()) else {
            return Ok(Vec::new());
        };
        let work = Work::Keys { from: self.old.clone(), to };
        let folder = self.location.clone();
        let (source, target) = (SourceRef::new("", 0), TargetRef::Keys);
        let name = String::new();
        Ok(vec![Step { name, folder, work, source, target, documents: Vec::new() }])
    }

    fn count(&mut self, counts: &[Counts]) {
        counts.iter().for_each(|counts| self.report.add(counts));
    }

    fn part(&self, path: &str, is_folder: bool) -> FolderPart {
        if path == INFO || !is_folder && self.names.iter().any(|names| names.has(path)) {
            FolderPart::Left
        } else {
            FolderPart::Carried
        }
    }

    fn recount(&self, engine: &Arc<Engine>, place: &Location) -> Result<u64, Error> {
        let Some(to) = self.new_values(place).filter(|_| !self.is_unchanged()) else {
            return Ok(0);
        };
        let (mut before, mut after) = (0, 0);
        self.old.each_key(engine, &mut |_| before += 1)?;
        to.each_key(engine, &mut |_| after += 1)?;
        if before != after {
            return Err(RepackError::Count { before, after }.into());
        }
        Ok(after)
    }

    fn reports(&self, resumed: bool) -> Vec<RepackedScale> {
        let mut report = self.report.clone();
        if resumed && report.outcome == RepackOutcome::Done {
            report.outcome = RepackOutcome::Resumed;
        }
        vec![report]
    }
}
