//! Writes and replaces documents, and has the old ones removed, so that a reader who opens the
//! outermost node finds the old hierarchy or the new one.

use shardine_store::{Condition, CreateOptions, Key, ReadRange, StoreError, StoreExt};

use super::old::OldDocuments;
use super::plan::{Action, Plan, PlannedNode};
use super::{MigrateError, MigrateSummary, Migrated, MigratedChange};
use crate::engine::tuning::{self, JOB_BATCH, REMOTE_WRITES};
use crate::jobs::frame::switch::{DocumentChange, Switch, Switched};
use crate::jobs::frame::{JobContext, JobProgress};
use crate::zarr::metadata::NodeMetadata;
use crate::zarr::{DOCUMENT, read_v3};
use crate::{Error, Location};

/// One attempt to follow a plan.
pub(super) struct Apply<'a> {
    pub context: &'a JobContext,
    pub plan: &'a Plan,
    pub dry_run: bool,
    /// Whether the documents of version 2 go.
    pub remove_v2: bool,
    pub summary: &'a mut MigrateSummary,
    pub report: &'a mut dyn FnMut(&Migrated),
}

/// How documents that exist are replaced.
enum Replacing {
    /// One after the other: nobody who opens the outermost node can see a mixture.
    InTurn,
    /// In one step.
    Together(Box<Switch>),
}

impl Apply<'_> {
    /// Follows the plan; `false` if it is out of date.
    pub fn run(mut self, location: &Location) -> Result<bool, Error> {
        let replacing = self.replacing(location)?;
        let old = OldDocuments { context: self.context, plan: self.plan, dry_run: self.dry_run };
        if self.remove_v2 {
            old.check_planned()?;
        }
        let _hold = if self.dry_run { None } else { location.hold()? };
        self.tell_progress();
        self.write_below()?;
        let is_done = match replacing {
            Replacing::InTurn => self.replace_in_turn()?,
            Replacing::Together(switch) => self.replace_together(&switch)?,
        };
        if !is_done {
            return Ok(false);
        }
        self.write(&[0])?;
        if self.remove_v2 {
            self.remove(&old)?;
        }
        Ok(true)
    }

    /// How documents that exist can be replaced.
    ///
    /// As long as the outermost node has no document of version 3, those below it do not count. A
    /// single group can change in one step anyway; what changes in arrays holds in any version.
    fn replacing(&self, location: &Location) -> Result<Replacing, Error> {
        let groups = self.plan.replaced_groups();
        let begins = self.plan.root().is_some_and(|root| root.documents.v3.is_none());
        if begins || groups <= 1 {
            return Ok(Replacing::InTurn);
        }
        match Switch::of(location)? {
            Some(switch) => Ok(Replacing::Together(Box::new(switch))),
            None => Err(MigrateError::NotTogether { at: location.to_string(), groups }.into()),
        }
    }

    fn tell_progress(&self) {
        let plan = self.plan;
        let changed = plan.nodes.len() - plan.count(Action::Keep);
        let total = changed + if self.remove_v2 { plan.nodes.len() } else { 0 };
        let done = self.summary.written + self.summary.replaced + self.summary.visited;
        self.context.report(JobProgress::steps("", done, total as u64));
    }

    fn is_local(&self) -> bool {
        self.plan.root().is_none_or(|root| root.location.store.read_cost().local)
    }

    /// Nodes of each depth, without the outermost.
    fn levels(&self) -> Vec<Vec<usize>> {
        let mut levels: Vec<Vec<usize>> = Vec::new();
        for (i, node) in self.plan.nodes.iter().enumerate().skip(1) {
            levels.resize_with(levels.len().max(node.depth), Vec::new);
            if let Some(level) = levels.get_mut(node.depth - 1) {
                level.push(i);
            }
        }
        levels
    }

    /// Writes the new documents below the outermost node, the innermost first.
    fn write_below(&mut self) -> Result<(), Error> {
        for level in self.levels().iter().rev() {
            self.write(level)?;
        }
        Ok(())
    }

    /// Writes the documents of those among these nodes that have none.
    fn write(&mut self, nodes: &[usize]) -> Result<(), Error> {
        let plan = self.plan;
        let new = nodes.iter().filter_map(|&i| plan.nodes.get(i));
        let new: Vec<&PlannedNode> = new.filter(|node| node.action == Action::Write).collect();
        let (context, is_local) = (self.context, self.is_local());
        for batch in new.chunks(if is_local { JOB_BATCH } else { 8 * REMOTE_WRITES }) {
            context.check()?;
            match (self.dry_run, is_local) {
                (true, _) => {}
                (false, true) => put_together(batch)?,
                (false, false) => context.engine().each_waiting(
                    tuning::DOCUMENT,
                    REMOTE_WRITES,
                    batch.iter(),
                    &|node| put(node),
                )?,
            }
            for node in batch {
                self.summary.written += 1;
                self.told(&node.location.key(DOCUMENT)?, MigratedChange::Written);
            }
            self.tell_progress();
        }
        Ok(())
    }

    fn told(&mut self, key: &Key, change: MigratedChange) {
        (self.report)(&Migrated { object: key.as_str().to_owned(), change });
    }

    fn replaced(&self) -> impl Iterator<Item = &PlannedNode> {
        // Groups after what is in them.
        self.plan.nodes.iter().rev().filter(|node| node.action == Action::Replace)
    }

    fn count_replaced(&mut self) -> Result<(), Error> {
        let keys: Result<Vec<Key>, Error> =
            self.replaced().map(|node| node.location.key(DOCUMENT)).collect();
        for key in keys? {
            self.summary.replaced += 1;
            self.told(&key, MigratedChange::Replaced);
        }
        self.tell_progress();
        Ok(())
    }

    /// Replaces documents one after the other; `false` if one of them has changed since.
    fn replace_in_turn(&mut self) -> Result<bool, Error> {
        for node in self.replaced().filter(|_| !self.dry_run) {
            self.context.check()?;
            if !replace(node)? {
                return Ok(false);
            }
        }
        self.count_replaced()?;
        Ok(true)
    }

    /// Replaces documents in one step; `false` if one of them has changed since.
    fn replace_together(&mut self, switch: &Switch) -> Result<bool, Error> {
        if !self.dry_run {
            self.context.check()?;
            let change = |node: &PlannedNode| {
                let before = node.documents.v3.as_ref().map(|v3| v3.text.clone());
                let path = match node.path.as_str() {
                    "" => DOCUMENT.to_owned(),
                    path => format!("{path}/{DOCUMENT}"),
                };
                let before = before.unwrap_or_default();
                DocumentChange { path, before, after: node.target.to_bytes() }
            };
            let changes: Vec<DocumentChange> = self.replaced().map(change).collect();
            if switch.run(self.context, &changes)? == Switched::Changed {
                return Ok(false);
            }
        }
        self.count_replaced()?;
        Ok(true)
    }

    /// Removes the documents of version 2, if all of version 3 say the same. The outermost go
    /// first, so that nobody finds a hierarchy of version 2 that is only half there.
    fn remove(&mut self, old: &OldDocuments<'_>) -> Result<(), Error> {
        let all: Vec<usize> = (0..self.plan.nodes.len()).collect();
        old.check_all(&all)?;
        self.remove_of(old, &[0])?;
        for level in self.levels() {
            self.remove_of(old, &level)?;
        }
        Ok(())
    }

    fn remove_of(&mut self, old: &OldDocuments<'_>, nodes: &[usize]) -> Result<(), Error> {
        for key in old.remove(nodes)? {
            self.summary.removed += 1;
            self.told(&key, MigratedChange::Removed);
        }
        self.summary.visited += nodes.len() as u64;
        self.tell_progress();
        Ok(())
    }
}

/// Writes the document of a node, unless another process has written the same since.
fn put(node: &PlannedNode) -> Result<(), Error> {
    let key = node.location.key(DOCUMENT)?;
    match node.location.store.put(&key, &node.target.to_bytes(), Condition::Absent) {
        Ok(_) => Ok(()),
        Err(StoreError::Conflict { .. }) => match read_v3(&node.location)? {
            Some(found) if found == node.target => Ok(()),
            _ => Err(MigrateError::Taken { at: node.location.to_string() }.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Writes the documents of some nodes of one store, which are durable before any of them is
/// visible.
fn put_together(nodes: &[&PlannedNode]) -> Result<(), Error> {
    let Some(first) = nodes.first() else { return Ok(()) };
    let stage = |node: &&PlannedNode| -> Result<_, Error> {
        let options = CreateOptions { head: 0, condition: Condition::Absent };
        let writer = node.location.store.create(&node.location.key(DOCUMENT)?, options)?;
        writer.append(&node.target.to_bytes())?;
        Ok(writer.finish(&[])?)
    };
    let staged: Result<Vec<_>, Error> = nodes.iter().map(stage).collect();
    match first.location.store.publish(staged?) {
        // Another process is doing the same: see which of them are there.
        Err(StoreError::Conflict { .. }) => nodes.iter().try_for_each(|node| put(node)),
        published => Ok(published.map(drop)?),
    }
}

/// Replaces the document of a node; `false` if it is no longer the one that was read.
fn replace(node: &PlannedNode) -> Result<bool, Error> {
    let Some(before) = &node.documents.v3 else { return Ok(false) };
    let key = node.location.key(DOCUMENT)?;
    let _hold = match &node.target {
        NodeMetadata::Array(_) => node.location.hold()?,
        // Nobody exchanges a group.
        NodeMetadata::Group(_) => None,
    };
    let edit = match node.location.store.edit(&key) {
        Ok(edit) => edit,
        Err(StoreError::NotFound { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if *edit.object.read(ReadRange::All)? != *before.text {
        return Ok(false);
    }
    match node.location.store.put(&key, &node.target.to_bytes(), edit.condition()) {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict { .. } | StoreError::Changed { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
