//! Checks a folder of shards: every one of them, and what is among them by mistake.

use std::sync::Arc;

use shardine_codec::Context;
use shardine_store::{Key, Object, StoreError};

use super::fill::{Filling, Presence, ShardFill};
use crate::jobs::check::keyed::{Folder, Forms, NamedShard, Names, check_open};
use crate::jobs::check::{
    BATCH, Correction, Finding, FindingKind, Place, Run, Settled, Severity, settled,
};
use crate::shard::uint64::Encoding;
use crate::{Error, Location};

/// Findings of one shard that are buffered while others are reported.
const PENDING: usize = 256;

/// The most shards requested one by one where a store cannot list.
const MOST_UNLISTED: u64 = 1 << 20;

/// The result for one shard.
#[derive(Default)]
struct Outcome {
    findings: Vec<Finding>,
    other: Option<Finding>,
    values: Forms,
    indexes: Forms,
    fill: Option<ShardFill>,
}

impl Run<'_> {
    /// Checks a folder of shards. The first part reads all of them, as it compares them.
    pub(super) fn shards(&self, Place { folder, known }: &Place<'_>) -> Result<Filling, Error> {
        let shards = &folder.shards;
        self.begin(shards.folder.as_ref())?;
        let mut filling = Filling::of(folder);
        let path = shards.folder.as_ref();
        let location = Location::root(Arc::clone(&shards.store)).at(path.cloned());
        let listed = self.leftovers(&location, path).and_then(|()| Ok(shards.store.list(path)?));
        let names = match listed {
            Ok(listing) => Names::new(&shards.sharding, listing, known),
            Err(Error::Store(StoreError::Unsupported { .. })) => match self.possible(folder) {
                Some(names) => names,
                None => return Ok(filling),
            },
            Err(error) => {
                self.unreadable(path, &error);
                filling.unknown = true;
                return Ok(filling);
            }
        };
        self.other_names(&names);
        let mut looked_at = names.shards;
        looked_at.retain(|shard| self.is_first() || self.takes(&shard.key));
        self.expect(looked_at.len() as u64);
        let (mut values, mut indexes) = (Forms::default(), Forms::default());
        let mut others = Vec::new();
        for batch in looked_at.chunks(BATCH) {
            for outcome in self.shard_batch(folder, &filling.presence, batch)? {
                values = values.plus(outcome.values);
                indexes = indexes.plus(outcome.indexes);
                others.extend(outcome.other);
                match outcome.fill {
                    Some(fill) => filling.add(fill),
                    None => filling.unknown = true,
                }
            }
        }
        filling.unknown |= !names.wrapped.is_empty()
            || !names.wrapped_too.is_empty()
            || !names.misnamed.is_empty();
        self.tell_forms(folder, values, indexes, others);
        if names.has_record {
            self.keyed_losses(folder);
        }
        Ok(filling)
    }

    /// The shards that keys can be in, for a store that cannot list.
    fn possible(&self, folder: &Folder) -> Option<Names> {
        self.sum(|summary| summary.unlisted = true);
        let (sharding, path) = (&folder.shards.sharding, folder.shards.folder.as_ref());
        let count = 1u64.checked_shl(sharding.shard_bits).unwrap_or(u64::MAX);
        if count > MOST_UNLISTED {
            let message = format!("there may be {count} shards, and the store cannot list them");
            self.note(Finding::new(FindingKind::NotChecked, path.cloned(), message));
            return None;
        }
        let shard = |number| {
            let key = folder.shards.shard_key(number).ok()?;
            Some(NamedShard { number, key, is_older: false })
        };
        Some(Names {
            shards: (0..count).filter_map(shard).collect(),
            has_record: true,
            ..Names::default()
        })
    }

    fn other_names(&self, names: &Names) {
        let tell = |kind, key: &Key, message: &str| {
            self.note(Finding::new(kind, Some(key.clone()), message.to_owned()));
        };
        for (_, key) in &names.wrapped {
            let message = "is a shard that was compressed as a file: no reader finds it";
            tell(FindingKind::WrappedShard, key, message);
        }
        for (_, key) in &names.wrapped_too {
            let message = "is a shard that was compressed as a file, and may be newer than the one that readers find";
            tell(FindingKind::WrappedShard, key, message);
        }
        for key in &names.misnamed {
            let message =
                "is named like a shard, but is not one of this sharding: no reader opens it";
            tell(FindingKind::MisnamedShard, key, message);
        }
        for key in &names.blocked {
            tell(FindingKind::BlockedKey, key, "is a folder where a shard belongs");
        }
        for key in &names.strays {
            tell(FindingKind::StrayObject, key, "is not part of what is stored here");
        }
    }

    /// Reports how values are stored: once for all, if none is stored as `info` says.
    fn tell_forms(&self, folder: &Folder, values: Forms, indexes: Forms, mut others: Vec<Finding>) {
        let about = [("data_encoding", values), ("minishard_index_encoding", indexes)];
        let all: Vec<_> = about.iter().filter_map(|(m, f)| Some((*m, f.all_other()?))).collect();
        let partly = |forms: Forms| forms.all_other().is_none() && forms.raw + forms.gzip > 0;
        if !all.is_empty() && !partly(values) && !partly(indexes) {
            others.clear();
            for (member, encoding) in all {
                let count = if member == "data_encoding" { values.looked } else { indexes.looked };
                let said = match encoding {
                    Encoding::Raw => Encoding::Gzip,
                    Encoding::Gzip => Encoding::Raw,
                };
                let message = format!(
                    "\"{}/{member}\" is {}, but all {count} examined in \"{}\" are {}",
                    folder.pointer.trim_start_matches('/'),
                    said.name(),
                    folder.shards.folder.as_ref().map_or(".", |key| key.as_str()),
                    encoding.name()
                );
                let info = Some(folder.info.clone());
                let mut finding = Finding::new(FindingKind::DataEncoding, info, message);
                let pointer = folder.pointer.clone();
                finding.correction = Some(Correction { pointer, member, value: encoding.name() });
                others.push(finding);
            }
        }
        others.into_iter().for_each(|finding| self.note(finding));
    }

    /// Checks some shards, and reports their findings in order.
    fn shard_batch(
        &self,
        folder: &Folder,
        presence: &Presence,
        batch: &[NamedShard],
    ) -> Result<Vec<Outcome>, Error> {
        let crew = folder.crew(self.engine, batch.len(), self.scope.decode);
        let look = |shard: &NamedShard, is_own: bool, _: &mut Context| {
            self.shard(folder, presence, shard, is_own)
        };
        let mut outcomes = Vec::new();
        self.batch(crew, batch, |shard| &shard.key, &look, &mut |_, mut outcome| {
            self.tell(outcome.findings.drain(..));
            outcomes.push(outcome);
        })?;
        Ok(outcomes)
    }

    /// Checks a shard; `None` if it does not exist. For one that belongs to another part, only
    /// gathers what all shards are compared by.
    fn shard(
        &self,
        folder: &Folder,
        presence: &Presence,
        NamedShard { number, key, is_older }: &NamedShard,
        is_own: bool,
    ) -> Option<Outcome> {
        let shards = &folder.shards;
        let open = || match is_older {
            true => shards.open_older(*number)?.ok_or_else(|| StoreError::NotFound {
                key: key.clone(),
                store: shards.store.name(),
            }),
            false => shards.store.open(key, None),
        };
        let (decode, most) = (is_own && self.scope.decode, self.scope.max_of_kind);
        let look = &mut |object: &Arc<dyn Object>| {
            let checked = check_open(self.engine, folder, (*number, key), &**object, decode)?;
            let (findings, untold) = checked.findings(folder, *number, key, most);
            let other = checked.other_forms(*number, key);
            let is_damaged =
                other.is_some() || findings.iter().any(|f| f.severity == Severity::Damage);
            Ok(((checked, findings, untold, other), is_damaged))
        };
        let finding = |kind, message: String| {
            Finding::new(kind, Some(key.clone()), message).shard(&[*number])
        };
        let (checked, mut findings, untold, other) = match settled(key, &open, look) {
            Settled::Seen(seen) => seen,
            Settled::Gone => return None,
            Settled::Failed(kind, message) => {
                let findings = is_own.then(|| finding(kind, message)).into_iter().collect();
                return Some(Outcome { findings, ..Outcome::default() });
            }
        };
        let fill = Some(ShardFill::of(&checked, folder, *number, presence));
        let (values, indexes) = (checked.values, checked.indexes);
        if !is_own {
            return Some(Outcome { findings: Vec::new(), other, values, indexes, fill });
        }
        if *is_older {
            let message =
                "a shard in the older form of two objects, which most readers do not support";
            findings.push(finding(FindingKind::OlderForm, message.to_owned()));
        }
        if findings.len() > PENDING {
            self.tell(findings.drain(..));
        }
        self.count(&untold);
        self.sum(|summary| {
            summary.bytes += checked.survey.len;
            summary.chunks += checked.survey.entries.len() as u64;
            summary.chunks_decoded += checked.decoded;
            summary.gap_bytes += checked.gap_bytes;
        });
        Some(Outcome { findings, other, values, indexes, fill })
    }
}
