//! The levels of a store, made in a new one that gets the finest level too.

use std::collections::HashSet;

use serde_json::Value;
use shardine_geometry::zarr_vectors::parse_delta_segment;
use shardine_store::{Condition, FolderPart, StoreError, StoreExt};

use super::plan::Plan;
use super::{FINEST, Job, PyramidVectorsError, PyramidVectorsOptions, PyramidVectorsReport, unfit};
use crate::jobs::JobContext;
use crate::jobs::frame::{Part, carry_over, place};
use crate::jobs::span::job_span;
use crate::vectors::VectorStore;
use crate::zarr::{DOCUMENT, Node, consolidate};
use crate::{Error, Location};

/// The same as [`pyramid_vectors`](super::pyramid_vectors), in a new store at `target`: it gets the
/// finest level as it is, byte for byte, and what else is in the folder of the store, but not its
/// coarser levels. The source is not changed.
///
/// The first level is made from the source while the finest is copied, so that parts need not wait
/// for each other. The store appears when the finest level is complete. The same call resumes a run
/// that was killed; it copies again, and keeps levels that are complete.
pub fn pyramid_vectors_to(
    context: impl Into<JobContext>,
    source: &Location,
    target: &Location,
    options: &PyramidVectorsOptions,
) -> Result<PyramidVectorsReport, Error> {
    let _span = job_span("pyramid_vectors_to", source);
    let context = &context.into();
    place::check_apart(source, target)?;
    crate::jobs::recover(source)?;
    let store = VectorStore::open_in(context.engine(), source)?;
    let at = source.to_string();
    if let Some(reason) = unfit(&store) {
        return Err(PyramidVectorsError::Unfit { at, reason }.into());
    }
    let plan = Plan::new(store.root(), &at, options)?;
    Job { context, source, location: target, options, plan: &plan }.run(&store)
}

impl Job<'_> {
    /// Copies the finest level to the new store, and what else is not a level; of a part its share.
    pub(super) fn carry(&self, store: &VectorStore) -> Result<(), Error> {
        if self.options.part == Some(Part::Finish) {
            return Ok(());
        }
        let levels = store.levels().iter().filter(|level| **level > 0);
        let levels: HashSet<String> = levels.map(u64::to_string).collect();
        let is_up = |name: &str| parse_delta_segment(name).is_some_and(|delta| delta > 0);
        let links = self.source.join(&format!("{FINEST}/links"))?;
        let listing = self.source.store.list(links.path.as_ref())?;
        let mut names = listing.folders.iter().filter_map(|key| key.as_str().rsplit('/').next());
        // A group of links that has none but those to coarser levels was made with these.
        let only_up = !listing.folders.is_empty() && names.all(is_up);
        let choose = |path: &str, folder: bool| {
            let mut names = path.split('/');
            let left = match (names.next(), names.next(), names.next()) {
                (Some(DOCUMENT), None, _) => true,
                (Some(FINEST), Some("links"), None) => only_up,
                (Some(FINEST), Some("links"), Some(delta)) => only_up || is_up(delta),
                (Some(first), ..) => levels.contains(first),
                (None, ..) => false,
            };
            match (left, folder) {
                (true, _) => FolderPart::Left,
                (false, true) => FolderPart::Inside,
                (false, false) => match self.options.part {
                    Some(part) if !part.takes(path.as_bytes()) => FolderPart::Left,
                    _ => FolderPart::Carried,
                },
            }
        };
        carry_over(self.context, self.source, self.location, &choose, true)
    }

    /// Writes the document of the new store, which has the finest level alone until others are named.
    pub(super) fn put_root(&self) -> Result<(), Error> {
        let key = self.source.key(DOCUMENT)?;
        let document = self.source.store.get(&key)?;
        let document = document.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let mut document = document.ok_or_else(|| Error::NoNode { at: self.source.to_string() })?;
        if let Value::Object(members) = &mut document {
            members.shift_remove(CONSOLIDATED);
        }
        if let Some(Value::Object(attributes)) = document.get_mut("attributes") {
            Plan::declare(&[], false, attributes);
        }
        let text = format!("{document:#}\n");
        let put = self.location.store.put(
            &self.location.key(DOCUMENT)?,
            text.as_bytes(),
            Condition::Absent,
        );
        match put {
            // Of a run that was stopped, or of a part that was last too.
            Err(StoreError::Conflict { .. }) => Ok(()),
            put => Ok(put.map(drop)?),
        }
    }

    /// Whether the target is this store with these levels, as far as its root says.
    pub(super) fn is_declared_elsewhere(&self) -> Result<bool, Error> {
        let found = match Node::open(self.context.engine(), self.location) {
            Ok(Node::Group(group)) => group,
            Ok(Node::Array(_)) | Err(Error::NoNode { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let objects = self.node_in(self.source, &format!("{FINEST}/object_index"))?.is_some();
        let mut wanted = self.root(self.source)?.metadata().attributes().clone();
        Plan::declare(&self.plan.levels, objects, &mut wanted);
        Ok(*found.metadata().attributes() == wanted)
    }

    /// Gives the new store a copy of its metadata in its root, if the source has one.
    pub(super) fn consolidate(&self) -> Result<(), Error> {
        let document = self.source.store.get(&self.source.key(DOCUMENT)?)?;
        let document = document.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        if document.is_some_and(|document| document.get(CONSOLIDATED).is_some()) {
            consolidate(self.location)?;
        }
        Ok(())
    }
}

/// The member of a root document that holds a copy of all metadata.
const CONSOLIDATED: &str = "consolidated_metadata";
