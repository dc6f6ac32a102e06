//! Repairs what can be repaired, and keeps what it removes.

mod agreement;
mod documents;
mod last_index;
mod object;
mod report;
mod set_aside;
mod volume;
mod volume_moves;
mod volume_shard;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use shardine_store::{Edit, Key, Recovery, StoreError};

use super::check::{Finding, FindingKind, InfoSet, Origin, Scope, Severity};
use super::frame::JobContext;
use super::rebuild::{Settled, recover};
use super::span::job_span;
use super::unfinished;
use super::verify::{refusal, verify_in};
use crate::jobs::losses::{self, ObjectLosses};
use crate::stored::PossibleObject;
use crate::zarr::DOCUMENT;
use crate::{Array, ArrayNode, Engine, Error, Location, open_in};

use documents::ToCorrect;
pub use report::{Repair, RepairKind, RepairOptions, RepairSummary};
pub(super) use set_aside::SetAside;

/// The most repairs reported one by one.
const MAX_TOLD: u64 = 10_000;

/// The most findings of one kind in one object collected before the object is checked by itself.
const LOOKED_AT: u64 = 20;

/// The most findings of one kind handled in one object at a time.
const MAX_OF_KIND: u64 = 1 << 16;

/// Repairs an array, or a group with all nodes below it, as far as possible.
///
/// Interrupted in-place updates are finished or undone, and the leftovers of killed writers are
/// removed. A shard without its index gets the last one back that is found in it, valid and with
/// consistent entries: chunks go back where it says, and count as
/// [`unproved`](RepairSummary::unproved), as it is an older one. A damaged chunk is kept at
/// [`set_aside`](RepairOptions::set_aside) and its entry emptied, so that it reads as the fill
/// value and the rest of the shard can be read and written; a shard or chunk object of which
/// nothing is readable is kept there whole. What is lost that way is recorded beside the data
/// ([`LOSS_RECORD`](crate::jobs::LOSS_RECORD)) before it is removed, and `verify` reports it until
/// it is written again or [accepted](RepairOptions::accept_loss). Nothing that is damaged is
/// deleted. Each object is replaced atomically under its lock, after it was checked again, so that
/// changes by other writers count.
///
/// In a precomputed volume, or a folder of meshes, skeletons or annotations, keys are moved to the
/// shards where readers look for them, values are re-encoded as `info` says, and shards in forms
/// that readers do not find are converted to the usual one; `info` itself is corrected where it
/// disagrees with every value. A scale is left alone if most of its chunks do not have the sizes
/// that `info` says.
///
/// OME-Zarr metadata is corrected where the rest of the hierarchy leaves no doubt: names of
/// dimensions that are not those of the axes, a version that all other documents state, the order of
/// levels, the list of label images, and the rows and columns of wells. Consolidated metadata that
/// does not match a node is renewed. Each document is replaced in one step, if it is still the one
/// that was read; members that are not known stay. Where something in it is replaced or removed,
/// the old document is set aside.
///
/// Any other damaged metadata is left alone, and so is damage inside a shard that a codec has encoded as a
/// whole, and all damage in a data set whose format Shardine only reads
/// ([`only_read`](RepairSummary::only_read)).
///
/// A repair that `context` stops ends before its next object; what it has repaired stays repaired.
///
/// Costs what [`verify`](crate::jobs::verify) costs, and for each damaged shard one read of its
/// bytes.
pub fn repair(
    context: impl Into<JobContext>,
    location: &Location,
    options: &RepairOptions,
    tell: &mut (dyn FnMut(Repair) + Send),
) -> Result<RepairSummary, Error> {
    let _span = job_span("repair", location);
    let context = &context.into();
    context.check()?;
    if !options.dry_run {
        // A job that was killed may have left it without its name.
        recover(location)?;
    }
    let aside = SetAside::new(options.set_aside.clone());
    let mut repairing = Repairing {
        context,
        engine: context.engine(),
        location,
        options,
        aside,
        tell,
        summary: RepairSummary::default(),
        left: HashSet::new(),
        handled: BTreeSet::new(),
        done: 0,
        told: 0,
        records: BTreeSet::new(),
        is_held: false,
    };
    // A volume is checked, repaired and checked again while held in place. Arrays are held one by
    // one.
    let is_data_set = repairing.is_data_set()?;
    let hold = if is_data_set { location.hold()? } else { None };
    repairing.is_held = hold.is_some();
    let mut found = repairing.look()?;
    let jobs = std::mem::take(&mut found.jobs);
    if !jobs.is_empty() {
        repairing.jobs(jobs)?;
        if !options.dry_run {
            found = repairing.look()?;
            found.jobs.clear();
        }
    }
    if !found.leftovers.is_empty() {
        repairing.leftovers(std::mem::take(&mut found.leftovers))?;
        if !options.dry_run {
            found = repairing.look()?;
        }
    }
    repairing.documents(std::mem::take(&mut found.documents))?;
    // Reported, but not counted as damage.
    for finding in std::mem::take(&mut found.left_out) {
        (repairing.tell)(Repair::of(RepairKind::Left, &finding));
    }
    repairing.summary.lost = found.lost;
    repairing.summary.unproved = found.unproved;
    repairing.records.append(&mut found.records);
    let settled = std::mem::take(&mut found.settled);
    if is_data_set {
        repairing.data_set(found)?;
    } else {
        repairing.damage(found)?;
    }
    repairing.records(&settled)?;
    let mut summary = repairing.summary;
    summary.bytes_set_aside = repairing.aside.bytes;
    Ok(summary)
}

/// Whether something can be done about damage of this kind.
fn is_mendable(finding: &Finding) -> bool {
    !matches!(
        finding.kind,
        FindingKind::Metadata | FindingKind::Unreadable | FindingKind::BlockedKey
    )
}

struct Repairing<'a> {
    context: &'a JobContext,
    engine: &'a Arc<Engine>,
    location: &'a Location,
    options: &'a RepairOptions,
    aside: SetAside,
    tell: &'a mut (dyn FnMut(Repair) + Send),
    summary: RepairSummary,
    /// What was left of the current object.
    left: HashSet<Repair>,
    /// Objects that were repaired, or would be.
    handled: BTreeSet<Key>,
    /// How many repairs were made, or would be.
    done: u64,
    /// How many were reported.
    told: u64,
    /// The records of losses.
    records: BTreeSet<Key>,
    /// Whether the whole data set is held in place.
    is_held: bool,
}

/// Findings to repair, or to report.
#[derive(Default)]
struct ToRepair {
    leftovers: Vec<Finding>,
    /// Jobs in place that were interrupted.
    jobs: Vec<Finding>,
    damaged: BTreeMap<Key, Origin>,
    /// Damage that cannot be repaired.
    left: Vec<Finding>,
    /// What was lost earlier, and the records of it.
    lost: u64,
    unproved: u64,
    records: BTreeSet<Key>,
    /// Records of what has been written again.
    settled: BTreeSet<Key>,
    /// What is not checked.
    left_out: Vec<Finding>,
    /// Documents that can be corrected.
    documents: ToCorrect,
}

impl Repairing<'_> {
    fn tell(&mut self, repair: Repair) {
        match repair.kind {
            // An object is checked again after a repair, which finds again what was left.
            RepairKind::Left if self.left.contains(&repair) => return,
            RepairKind::Left => {
                self.summary.left += 1;
                self.left.insert(repair.clone());
            }
            _ => {
                self.done += 1;
                if repair.lost == 0 && repair.unproved == 0 {
                    self.summary.mended += 1;
                }
                self.summary.lost += repair.lost;
                self.summary.unproved += repair.unproved;
                self.handled.extend(repair.object.clone());
            }
        }
        if self.told < MAX_TOLD {
            self.told += 1;
            (self.tell)(repair);
        } else {
            self.summary.untold += 1;
        }
    }

    /// Records what is about to be lost of an object, before it is removed.
    fn record(
        &mut self,
        folder: Option<&Key>,
        array: Option<&Array>,
        object: &Key,
        lost: &ObjectLosses,
    ) -> Result<(), Error> {
        if lost.is_empty() || self.options.dry_run {
            return Ok(());
        }
        let (store, grid) = (&*self.location.store, array.map(losses::grid_of));
        let key = losses::record(store, folder, grid, object, lost)?;
        self.records.insert(key);
        Ok(())
    }

    /// Removes the records of what has been written again, and if the loss is accepted, all of
    /// them.
    fn records(&mut self, settled: &BTreeSet<Key>) -> Result<(), Error> {
        let again = settled.difference(&self.records).cloned().collect();
        self.remove_records(
            again,
            RepairKind::LeftoverRemoved,
            "everything lost here has been rewritten",
        )?;
        if !self.options.accept_loss {
            return Ok(());
        }
        let all = std::mem::take(&mut self.records);
        let message = "everything lost or possibly old here is accepted";
        self.remove_records(all, RepairKind::LossAccepted, message)?;
        self.summary.accepted = self.summary.lost.saturating_add(self.summary.unproved);
        (self.summary.lost, self.summary.unproved) = (0, 0);
        Ok(())
    }

    /// Sets records aside.
    fn remove_records(
        &mut self,
        records: BTreeSet<Key>,
        kind: RepairKind,
        message: &str,
    ) -> Result<(), Error> {
        for key in records {
            let mut repair = Repair::new(kind, &key, message);
            let store = &self.location.store;
            match (!self.options.dry_run).then(|| store.edit(&key)) {
                None | Some(Err(StoreError::NotFound { .. })) => {}
                Some(edit) => {
                    let edit = edit?;
                    self.keep_whole(&edit, &mut repair)?;
                    store.delete(&key, &edit.condition())?;
                }
            }
            self.tell(repair);
        }
        Ok(())
    }

    /// Keeps all of an object.
    fn keep_whole(&mut self, edit: &Edit, repair: &mut Repair) -> Result<(), Error> {
        let len = edit.object.len().unwrap_or(0);
        repair.set_aside = Some(self.aside.keep(&*edit.object, 0..len, repair)?);
        Ok(())
    }

    /// Whether there is a readable `info` that describes the data set.
    fn is_data_set(&mut self) -> Result<bool, Error> {
        let set = open_in(self.engine, self.location).and_then(|set| {
            self.summary.only_read = set.only_read();
            InfoSet::of(&*set)
        });
        match set {
            Ok(set) => Ok(set.is_some()),
            // A missing or invalid document is reported as damage.
            Err(Error::NoNode { .. }) => Ok(false),
            Err(error) if refusal(&error).is_some() => Ok(false),
            // What could not be read may be anything.
            Err(error) => Err(error),
        }
    }

    /// Looks for problems to repair.
    fn look(&self) -> Result<ToRepair, Error> {
        self.look_at(self.location, self.is_held)
    }

    /// All findings, but only so many of a kind in each object.
    fn scope(&self, max_of_kind: u64, is_held: bool) -> Scope {
        let (decode, max_findings) = (self.options.decode, u64::MAX);
        let (metadata_only, level) = (false, None);
        Scope { decode, part: None, max_findings, max_of_kind, is_held, metadata_only, level }
    }

    /// The same at another location, which the caller may hold.
    fn look_at(&self, location: &Location, is_held: bool) -> Result<ToRepair, Error> {
        let mut found = ToRepair::default();
        let scope = self.scope(LOOKED_AT, is_held);
        let summary =
            verify_in(self.context, location, scope, &mut |finding| match finding.kind {
                FindingKind::LeftoverTemporary | FindingKind::LeftoverJournal => {
                    found.leftovers.push(finding);
                }
                FindingKind::UnfinishedJob => found.jobs.push(finding),
                FindingKind::LostChunk | FindingKind::UnprovedChunk => {
                    found.records.extend(finding.record);
                }
                FindingKind::SettledLoss => found.settled.extend(finding.record),
                FindingKind::LeftOut => found.left_out.push(finding),
                _ if found.documents.take(&finding) => {}
                _ if finding.severity != Severity::Damage => {}
                _ => match (&finding.object, &finding.origin) {
                    (Some(object), Some(origin)) if is_mendable(&finding) => {
                        found.damaged.entry(object.clone()).or_insert_with(|| origin.clone());
                    }
                    _ => found.left.push(finding),
                },
            })?;
        (found.lost, found.unproved) = (summary.lost_chunks, summary.unproved_chunks);
        Ok(found)
    }

    /// Ends jobs in place that were interrupted.
    fn jobs(&mut self, found: Vec<Finding>) -> Result<(), Error> {
        for finding in found {
            self.context.check()?;
            // In a group the folder of the job is named, beside that of the array.
            let path = finding.object.as_ref().map(Key::as_str).unwrap_or_default();
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let of = name.strip_prefix(".shardine-").and_then(|name| name.strip_suffix(".job"));
            let place = match (of, folder) {
                // The job on documents of the group itself.
                (Some(DOCUMENT), "") => self.location.at(None),
                (Some(DOCUMENT), folder) => self.location.at(Some(Key::new(folder)?)),
                (Some(of), "") => self.location.at(Some(Key::new(of)?)),
                (Some(of), folder) => self.location.at(Some(Key::new(folder)?.join(of)?)),
                (None, _) => self.location.clone(),
            };
            let mut repair = Repair::of(RepairKind::Recovered, &finding);
            if !self.options.dry_run {
                let settled = match unfinished::settle(self.context, &place) {
                    Err(Error::Cancelled) => return Err(Error::Cancelled),
                    // The rest can be repaired all the same.
                    Err(error) => {
                        repair.kind = RepairKind::Left;
                        repair.message = error.to_string();
                        self.tell(repair);
                        continue;
                    }
                    Ok(settled) => settled,
                };
                let message = match settled {
                    Some(Settled::Finished) => "an interrupted job was finished",
                    Some(Settled::Undone) => {
                        "an interrupted job was undone: what it had built was removed"
                    }
                    // Its process has come back, or has ended it.
                    None => continue,
                };
                message.clone_into(&mut repair.message);
            }
            self.tell(repair);
        }
        Ok(())
    }

    /// Finishes what killed writers began, and removes their leftovers.
    fn leftovers(&mut self, found: Vec<Finding>) -> Result<(), Error> {
        let store = Arc::clone(&self.location.store);
        for finding in found {
            self.context.check()?;
            let Some(key) = &finding.object else { continue };
            let (folder, name) = match key.as_str().rsplit_once('/') {
                Some((folder, name)) => (Some(Key::new(folder)?), name),
                None => (None, key.as_str()),
            };
            if finding.kind == FindingKind::LeftoverTemporary {
                let gone = self.options.dry_run || store.remove_leftover(folder.as_ref(), name)?;
                if gone {
                    self.tell(Repair::of(RepairKind::LeftoverRemoved, &finding));
                }
                continue;
            }
            // The finding names either the journal, or its object.
            let leftovers = store.leftovers(folder.as_ref())?;
            let journal = leftovers.iter().find(|leftover| leftover.name == name);
            let object = journal.and_then(|leftover| leftover.object.clone());
            let object = object.unwrap_or_else(|| key.clone());
            let mut repair = Repair::of(RepairKind::Recovered, &finding);
            repair.object = Some(object.clone());
            if !self.options.dry_run {
                match store.recover(&object)? {
                    Recovery::Done => {}
                    Recovery::Nothing => {
                        "the journal belongs to another version of its object and was set aside"
                            .clone_into(&mut repair.message);
                    }
                    Recovery::Before(_) => {
                        repair.kind = RepairKind::Left;
                        "its writer is still running, or the folder is not writable"
                            .clone_into(&mut repair.message);
                    }
                }
            }
            self.tell(repair);
        }
        Ok(())
    }

    /// Repairs damaged objects, one after the other.
    fn damage(&mut self, found: ToRepair) -> Result<(), Error> {
        let told: BTreeSet<String> = found.left.iter().map(|f| f.message.clone()).collect();
        for finding in found.left {
            self.tell(Repair::of(RepairKind::Left, &finding));
        }
        let mut arrays: BTreeMap<Option<Key>, BTreeMap<Key, Origin>> = BTreeMap::new();
        for (key, origin) in found.damaged {
            arrays.entry(origin.array.clone()).or_default().insert(key, origin);
        }
        for (path, damaged) in arrays {
            let array = match ArrayNode::open(self.engine, &self.location.at(path.clone())) {
                // Its indexes can be checked, but no chunk can be written again.
                Err(error) if error.is_unsupported() => {
                    let message = format!("is damaged, and was left alone: {error}");
                    for key in damaged.into_keys() {
                        let finding = Finding::new(FindingKind::Index, Some(key), message.clone());
                        self.tell(Repair::of(RepairKind::Left, &finding));
                    }
                    continue;
                }
                array => array?,
            };
            let held = array.hold()?;
            let array = held.array();
            let damaged = match array.location().store.exchange() {
                // The array that was checked may have been exchanged for another one before it was
                // held.
                Some(_) => {
                    let now = self.look_at(array.location(), true)?;
                    for finding in now.left.iter().filter(|f| !told.contains(&f.message)) {
                        self.tell(Repair::of(RepairKind::Left, finding));
                    }
                    now.damaged
                }
                None => damaged,
            };
            for (key, origin) in damaged {
                self.context.check()?;
                let stored = PossibleObject::new(key, origin.cell, None);
                self.left.clear();
                match self.object(array, &stored) {
                    // It is gone, and its problem with it.
                    Err(Error::Store(StoreError::NotFound { .. })) | Ok(()) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
