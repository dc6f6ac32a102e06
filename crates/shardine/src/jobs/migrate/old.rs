//! The documents of version 2, which go when those of version 3 say the same.

use std::sync::{Mutex, PoisonError};

use shardine_store::{Condition, Key, StoreExt};

use super::MigrateError;
use super::compare::{are_those_of, difference};
use super::plan::{Plan, PlannedNode};
use crate::engine::tuning::{self, REMOTE_WRITES};
use crate::jobs::frame::JobContext;
use crate::zarr::metadata::NodeMetadata;
use crate::zarr::{V2_DOCUMENTS, read_v2, read_v3};
use crate::{Error, Location};

/// The documents of version 2 of a hierarchy.
pub(super) struct OldDocuments<'a> {
    pub context: &'a JobContext,
    pub plan: &'a Plan,
    pub dry_run: bool,
}

impl OldDocuments<'_> {
    /// An error unless what is planned for nodes with documents of both versions agrees with those
    /// of version 2: the rest is made from them.
    pub fn check_planned(&self) -> Result<(), Error> {
        for node in self.plan.nodes.iter().filter(|node| node.documents.v3.is_some()) {
            self.compare(node, node.documents.v2.as_ref(), &node.target)?;
        }
        Ok(())
    }

    /// An error unless the documents of version 3 of these nodes are there and agree with those of
    /// version 2.
    pub fn check_all(&self, nodes: &[usize]) -> Result<(), Error> {
        self.each_of(nodes, &|node| self.check(node).map(|()| Vec::new())).map(drop)
    }

    /// Removes the documents of version 2 of these nodes; returns their keys.
    pub fn remove(&self, nodes: &[usize]) -> Result<Vec<Key>, Error> {
        self.each_of(nodes, &|node| {
            // Once more: all others were checked in between.
            self.check(node)?;
            self.remove_of(node)
        })
    }

    fn check(&self, node: &PlannedNode) -> Result<(), Error> {
        if self.dry_run {
            return self.compare(node, node.documents.v2.as_ref(), &node.target);
        }
        let missing = || Error::NoNode { at: node.location.to_string() };
        let v3 = read_v3(&node.location)?.ok_or_else(missing)?;
        // As they are now: the array may have grown since it was found.
        let v2 = match &node.documents.v2 {
            Some(_) => read_v2(&node.location)?,
            None => None,
        };
        self.compare(node, v2.as_ref(), &v3)
    }

    fn compare(
        &self,
        node: &PlannedNode,
        v2: Option<&NodeMetadata>,
        v3: &NodeMetadata,
    ) -> Result<(), Error> {
        let version = self.plan.version.as_ref();
        match v2.and_then(|v2| difference(v2, v3, node.name(), version)) {
            Some(what) => Err(differs(&node.location, what)),
            None => Ok(()),
        }
    }

    /// Does something with each of these nodes, in a remote store with several in parallel; what it
    /// returns comes back in order.
    fn each_of(
        &self,
        nodes: &[usize],
        work: &(dyn Fn(&PlannedNode) -> Result<Vec<Key>, Error> + Sync),
    ) -> Result<Vec<Key>, Error> {
        let nodes: Vec<&PlannedNode> =
            nodes.iter().filter_map(|&i| self.plan.nodes.get(i)).collect();
        let local = nodes.first().is_none_or(|node| node.location.store.read_cost().local);
        let done: Mutex<Vec<(usize, Vec<Key>)>> = Mutex::new(Vec::new());
        let run = |(i, node): (usize, &PlannedNode)| -> Result<(), Error> {
            self.context.check()?;
            let keys = work(node)?;
            done.lock().unwrap_or_else(PoisonError::into_inner).push((i, keys));
            Ok(())
        };
        let mut all = nodes.into_iter().enumerate();
        let engine = self.context.engine();
        match local {
            true => all.try_for_each(run)?,
            false => engine.each_waiting(tuning::DOCUMENT, REMOTE_WRITES, all, &run)?,
        }
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(i, _)| *i);
        Ok(done.into_iter().flat_map(|(_, keys)| keys).collect())
    }

    fn remove_of(&self, node: &PlannedNode) -> Result<Vec<Key>, Error> {
        let mut removed = Vec::new();
        for name in V2_DOCUMENTS {
            let key = node.location.key(name)?;
            let Some(bytes) = node.location.store.get(&key)? else { continue };
            // Without the document they belong to, they have not been compared yet; or that one was
            // unreadable.
            let version = self.plan.version.as_ref();
            let compared = node.documents.v2.is_some()
                || (name == ".zattrs" && are_those_of(&bytes, &node.target, node.name(), version));
            if !compared {
                continue;
            }
            match (self.dry_run, node.path.is_empty()) {
                (true, _) => {}
                // Everyone has to find that the hierarchy is no longer of version 2; if those below
                // it come back after a power failure, they do not count.
                (false, true) => node.location.store.delete(&key, &Condition::None)?,
                (false, false) => node.location.store.delete_last(&key)?,
            }
            removed.push(key);
        }
        Ok(removed)
    }
}

fn differs(location: &Location, what: &'static str) -> Error {
    MigrateError::Differs { at: location.to_string(), what }.into()
}
