//! The values of a folder of meshes or skeletons, packed anew.

use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_store::{FolderPart, StoreExt};

use super::values::Values;
use super::write::{check, write};
use super::{Packed, RepackVolumeOptions, RepackedScale};
use crate::keyed::{KeyValueStore, KeyedShards, PayloadKind};
use crate::precomputed::INFO;
use crate::shard::uint64::Sharding;
use crate::{Engine, Error, Location, RepackOutcome};

/// A folder of values by key, and what it is to become.
pub(super) struct Folder {
    old: Arc<KeyedShards>,
    kind: PayloadKind,
    document: Map<String, Value>,
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
        Ok(Self { old: values.shards(), kind: values.kind(), document, report })
    }

    /// Whether an object is a part of a shard.
    fn is_shard(&self, name: &str) -> bool {
        let stem = [".shard", ".index", ".data"].iter().find_map(|end| name.strip_suffix(end));
        stem.is_some_and(|stem| self.old.sharding.shard_number(stem).is_some())
    }
}

impl Packed for Folder {
    fn info(&self) -> Vec<u8> {
        // A map of JSON values is always written.
        serde_json::to_vec_pretty(&self.document).unwrap_or_default()
    }

    fn request(&self) -> Value {
        Value::Object(self.document.clone())
    }

    fn is_unchanged(&self) -> bool {
        self.report.outcome == RepackOutcome::Unchanged
    }

    fn build(
        &mut self,
        engine: &Arc<Engine>,
        place: &Location,
        options: &RepackVolumeOptions,
        resumed: bool,
    ) -> Result<(), Error> {
        let Some(sharding) = self.report.sharding.clone() else { return Ok(()) };
        let (store, folder) = (Arc::clone(&place.store), place.path.clone());
        let new = Arc::new(KeyedShards::new(store, folder, sharding));
        let from = Values::Shards { shards: Arc::clone(&self.old), kind: self.kind };
        let to = Values::Shards { shards: new, kind: self.kind };
        self.report.add(&write(engine, &from, &to, resumed, options)?);
        if options.check || resumed {
            check(engine, &from, &to)?;
        }
        Ok(())
    }

    fn part(&self, path: &str, is_folder: bool) -> FolderPart {
        if path == INFO || !is_folder && self.is_shard(path) {
            FolderPart::Left
        } else {
            FolderPart::Carried
        }
    }

    fn reports(mut self, resumed: bool) -> Vec<RepackedScale> {
        if resumed && self.report.outcome == RepackOutcome::Done {
            self.report.outcome = RepackOutcome::Resumed;
        }
        vec![self.report]
    }
}
