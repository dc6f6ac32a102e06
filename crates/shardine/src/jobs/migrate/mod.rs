//! Migrates metadata: Zarr version 2 to version 3, OME-Zarr to 0.5 or 0.6. Chunks stay where they
//! are.

mod apply;
mod compare;
mod error;
mod look;
mod old;
mod options;
mod plan;

use shardine_store::{FolderLock, StoreError};

use apply::Apply;
pub use error::{MigrateError, RefusedNode};
pub use options::{MigrateOptions, MigrateSummary, Migrated, MigratedChange};
use plan::{Action, Plan};

use super::frame::marker::remove_leftovers;
use super::frame::switch::Switch;
use super::frame::{JobContext, JobError};
use super::span::job_span;
use crate::ome::{OmeMetadata, OmeRelease, OmeVersion};
use crate::zarr::metadata::NodeMetadata;
use crate::zarr::read_document;
use crate::{Error, Location};

/// Plans that are made if others keep changing documents meanwhile.
const ATTEMPTS: usize = 4;

/// The lock on files of a process that migrates a hierarchy. Its file stays if the process is
/// killed.
const LOCK: &str = "migrate";
const LOCK_FILE: &str = ".shardine-migrate-lock.tmp";

/// Migrates the node at a location and everything below it to Zarr version 3, and its OME-Zarr
/// metadata to one version: 0.5 unless there is a newer one already, or
/// [`ome_version`](MigrateOptions::ome_version) names another. No chunk is read, written or moved.
///
/// Every node of version 2 gets a `zarr.json`, and the OME-Zarr metadata of every group is
/// rewritten in the form of its version; what is not understood in it, and all other attributes,
/// stay. The arrays of images get the names of the axes as `dimension_names`. Groups that have
/// consolidated metadata get it renewed. If any node cannot be migrated, nothing is written:
/// [`MigrateError::Refused`] names all of them.
///
/// **A reader who opens the outermost node finds the old hierarchy or the new one, whenever the
/// process is killed.** New documents are written only where there are none: arrays first, groups after
/// their contents, the outermost last. Until then it is of version 2, and so is everything that is
/// reached through it. If several groups of a version 3 hierarchy change, all of them change in one
/// step, for which the hierarchy must be on files: [`MigrateError::NotTogether`] otherwise. Another
/// migration finishes one that was killed, and does nothing to a migrated hierarchy.
///
/// If there is OME-Zarr metadata, or [`remove_v2`](MigrateOptions::remove_v2) says so, the version 2
/// documents are removed at the end, the outermost first, if all of version 3 are read back and say
/// the same; otherwise none is removed, and the result is [`MigrateError::Differs`].
///
/// Costs a listing for each group, four or five reads for each node, and a write for each document;
/// a document that was written is read once more before the older ones are removed. In a remote
/// store many nodes are read and written in parallel. The store must be able to list, unless the
/// location is an array.
pub fn migrate(
    context: impl Into<JobContext>,
    location: &Location,
    options: &MigrateOptions,
    report: &mut dyn FnMut(&Migrated),
) -> Result<MigrateSummary, Error> {
    let context = context.into();
    let _span = job_span("migrate", location);
    let location = location.clone().with_format(None);
    if let Some(version) = options.ome_version.as_ref().filter(|version| is_too_old(version)) {
        return Err(MigrateError::Version { version: version.to_string() }.into());
    }
    let mut summary = MigrateSummary::default();
    if !options.dry_run
        && let Some(switch) = Switch::of(&location)?
    {
        summary.resumed = switch.settle()?.is_some();
    }
    for _ in 0..ATTEMPTS {
        let plan = Plan::of(context.engine(), &location, options)?;
        if let Some(version) = &plan.version {
            check_above(&location, version)?;
        }
        summary.describe(&plan);
        let remove_v2 = options.remove_v2.unwrap_or(plan.version.is_some());
        let lock = match options.dry_run {
            true => None,
            false => Lock::take(&location, &plan, remove_v2)?,
        };
        let apply = Apply {
            context: &context,
            plan: &plan,
            dry_run: options.dry_run,
            remove_v2,
            summary: &mut summary,
            report,
        };
        let is_done = apply.run(&location)?;
        if let Some(lock) = lock.filter(|_| is_done) {
            summary.resumed |= lock.was_left;
            lock.end(&plan, summary.resumed)?;
        }
        if is_done {
            return Ok(summary);
        }
    }
    Err(Error::MetadataChanged { at: location.to_string() })
}

fn is_too_old(version: &OmeVersion) -> bool {
    version.release() < OmeRelease::V0_5
}

/// Refuses a part of a hierarchy whose groups further up have OME-Zarr metadata of another version.
fn check_above(location: &Location, version: &OmeVersion) -> Result<(), Error> {
    let mut at = location.clone();
    while let Some((above, _)) = at.parent()? {
        let attributes = match read_document(&above) {
            Ok(NodeMetadata::Group(group)) => group.attributes().clone(),
            Err(error @ Error::Store(_)) => return Err(error),
            // What is not a group, or not readable as one, has no parts.
            _ => return Ok(()),
        };
        if let Ok(Some(metadata)) = OmeMetadata::read(&attributes)
            && metadata.version.release() != version.release()
        {
            let (at, above) = (location.to_string(), above.to_string());
            let (has, wanted) = (metadata.version.to_string(), version.to_string());
            return Err(MigrateError::PartOf { at, above, has, wanted }.into());
        }
        at = above;
    }
    Ok(())
}

/// Keeps other migrations away from a group on files, and shows the next one that this one was
/// killed.
struct Lock {
    _lock: Option<FolderLock>,
    /// Whether an earlier migration was killed.
    was_left: bool,
}

impl Lock {
    /// `None` if nothing is to be done, or for an array.
    fn take(location: &Location, plan: &Plan, remove_v2: bool) -> Result<Option<Self>, Error> {
        let Some(root) = plan.root() else { return Ok(None) };
        let Some(exchange) = location.store.exchange() else { return Ok(None) };
        if matches!(root.target, NodeMetadata::Array(_)) {
            return Ok(None);
        }
        let left = location.store.leftovers(location.path.as_ref())?;
        let was_left = left.iter().any(|left| left.name == LOCK_FILE);
        let has_v2 = plan.nodes.iter().any(|node| node.documents.v2.is_some());
        let is_idle = plan.count(Action::Keep) == plan.nodes.len() && !(remove_v2 && has_v2);
        if is_idle && !was_left {
            return Ok(None);
        }
        let _lock = match exchange.lock_in(location.path.as_ref(), LOCK) {
            Ok(Some(lock)) => Some(lock),
            Ok(None) => return Err(JobError::Switching { at: location.to_string() }.into()),
            Err(StoreError::Unsupported { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Self { _lock, was_left }))
    }

    /// Ends the migration, and removes what killed ones have left beside the documents.
    fn end(self, plan: &Plan, resumed: bool) -> Result<(), Error> {
        for node in plan.nodes.iter().filter(|_| resumed) {
            remove_leftovers(&node.location, node.location.path.as_ref())?;
        }
        Ok(())
    }
}
