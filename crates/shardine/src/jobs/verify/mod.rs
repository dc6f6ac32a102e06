//! Finds damage in arrays and whole hierarchies. Never writes.

mod boxes;
mod fill;
mod grid;
mod hierarchy;
mod losses;
mod ome;
mod ome_versions;
mod shards;
mod shared;
mod single;
mod vectors;
mod volume;

use super::check::{Finding, Run, Scope, Sizes, VerifySummary};
use super::frame::{JobContext, JobError, Part};
use super::span::job_span;
use crate::{Error, Location, open_in};
pub(super) use hierarchy::refusal;
pub(super) use ome::{array_facts, node_facts};

/// The default number of findings reported one by one.
const MAX_FINDINGS: u64 = 10_000;

/// The most findings of one kind in one object that are reported one by one.
const MAX_OF_KIND: u64 = 5_000;

/// How thoroughly to verify.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Decode every chunk; without it only metadata and indexes are read.
    pub decode: bool,
    /// Check documents only: no chunk and no index is read.
    pub metadata_only: bool,
    /// Of a data set with levels, check the objects of this one only; `None` for all.
    pub level: Option<usize>,
    /// The part of the objects to check; `None` for all of them.
    pub part: Option<Part>,
    /// The most findings reported one by one; further ones are counted. A damaged index may have
    /// millions.
    pub max_findings: u64,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            decode: false,
            metadata_only: false,
            level: None,
            part: None,
            max_findings: MAX_FINDINGS,
        }
    }
}

impl VerifyOptions {
    /// The default: no chunk is decoded.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether to decode every chunk.
    pub fn decode(mut self, decode: bool) -> Self {
        self.decode = decode;
        self
    }

    /// Sets whether to check documents only.
    ///
    /// No chunk and no index is read, and of an array only what its document says is checked. The
    /// location may also be a single file with a `zarr.json`, a `.zattrs` or the attributes of a
    /// group, which is then judged on its own.
    pub fn metadata_only(mut self, metadata_only: bool) -> Self {
        self.metadata_only = metadata_only;
        self
    }

    /// Checks the objects of one level of an image or a volume only, and all documents.
    ///
    /// [`Error::NoLevel`] if there is no such level, [`Error::NotAnArray`] for a group without
    /// levels.
    pub fn level(mut self, level: Option<usize>) -> Self {
        self.level = level;
        self
    }

    /// Checks only a part of the objects.
    ///
    /// Each object belongs to one part, by its key below the data set. What concerns more than one
    /// object is reported by part 1: metadata, names, leftovers, records of losses, and for the
    /// shards of a volume how their values are stored and which chunks seem to be missing. So the
    /// findings of all parts are those of a run without parts, each once.
    pub fn part(mut self, part: Option<Part>) -> Self {
        self.part = part;
        self
    }

    /// Sets the most findings reported one by one.
    pub fn max_findings(mut self, max_findings: u64) -> Self {
        self.max_findings = max_findings;
        self
    }
}

/// Checks an array, or a group with all nodes below it, against the format.
///
/// Each finding is reported as soon as it is certain: those of one object together, those of one
/// node in the order of its objects (an object with hundreds of findings may come earlier). A few
/// thousand of one kind in one object are reported, and
/// [`max_findings`](VerifyOptions::max_findings) in total; the others are counted. What cannot be
/// opened or read inside a hierarchy is a finding; an error means that there was nothing to check,
/// or that `context` stopped it.
///
/// Groups with OME-Zarr metadata are judged by the rules of its version, as
/// [`ome::rules`](crate::ome::rules) has them, with the documents that are read anyway.
///
/// A group that is a store of Zarr Vectors is judged by the rules of that format, with everything
/// in its cells: see [`zarr_vectors::rules`](shardine_geometry::zarr_vectors::rules). That reads
/// all cells, except with [`metadata_only`](VerifyOptions::metadata_only), and keeps a table of the
/// chunks of all levels.
///
/// Nothing is written and nothing is recovered: a shard whose in-place update was interrupted is
/// checked as readers see it, without the update, and reported as
/// [`FindingKind::LeftoverJournal`](crate::jobs::FindingKind::LeftoverJournal). An object that is
/// replaced, removed or changed while it is checked is checked again.
///
/// Costs the listings of all folders, one read for each `zarr.json` and one for each index; with
/// [`decode`](VerifyOptions::decode) every chunk is read and decoded too. Memory is one index, and
/// one chunk being decoded, for each thread. In a remote store as many objects are checked in
/// parallel as its requests in flight and the engine's memory allow, and chunks are read in large
/// pieces. Where the store cannot list, consolidated metadata and the grids of arrays say what may
/// exist ([`VerifySummary::unlisted`]): one read for each possible shard, and
/// [`Error::UnlistedGroup`] for a group without consolidated metadata.
///
/// ```
/// use shardine::jobs::{VerifyOptions, verify};
/// use shardine::{Engine, Location};
/// # use shardine::{Group, zarr::metadata::GroupMetadata};
/// # let location = Location::root(std::sync::Arc::new(shardine::store::MemoryStore::new()));
/// # let engine = Engine::shared()?;
/// # Group::create(&engine, &location, GroupMetadata::new(Default::default()))?;
/// let options = VerifyOptions::new().decode(true);
/// let summary = verify(&engine, &location, &options, &mut |finding| {
///     println!("{}: {}", finding.kind, finding.message);
/// })?;
/// assert!(summary.is_ok());
/// # Ok::<(), shardine::Error>(())
/// ```
pub fn verify(
    context: impl Into<JobContext>,
    location: &Location,
    options: &VerifyOptions,
    tell: &mut (dyn FnMut(Finding) + Send),
) -> Result<VerifySummary, Error> {
    let _span = job_span("verify", location);
    let VerifyOptions { decode, metadata_only, level, part, max_findings } = *options;
    let (max_of_kind, is_held) = (MAX_OF_KIND, false);
    let scope = Scope { decode, part, max_findings, max_of_kind, is_held, metadata_only, level };
    verify_in(&context.into(), location, scope, tell)
}

/// The same for a caller that may hold the data set in place, or needs other limits.
pub(in crate::jobs) fn verify_in(
    context: &JobContext,
    location: &Location,
    scope: Scope,
    tell: &mut (dyn FnMut(Finding) + Send),
) -> Result<VerifySummary, Error> {
    if scope.part == Some(Part::Finish) {
        return Err(JobError::NothingToFinish { job: "verify" }.into());
    }
    context.check()?;
    let only = match scope.level {
        Some(level) => {
            Some(open_in(context.engine(), location)?.array(level)?.location().path.clone())
        }
        None => None,
    };
    let sizes = if scope.metadata_only { Sizes::new() } else { sizes(context, location) };
    let total = sizes.values().copied().fold(0, u64::saturating_add);
    let weighed = context.of_steps(total);
    let context = if total > 0 { &weighed } else { context };
    let run = Run::new(context, location.path.as_ref(), scope, tell);
    let run = run.with_sizes(sizes).with_only(only);
    run.hierarchy(location)?;
    Ok(run.into_summary())
}

/// The sizes of all arrays, if there is a progress callback. What cannot be opened is left to the
/// check itself.
fn sizes(context: &JobContext, location: &Location) -> Sizes {
    let mut sizes = Sizes::new();
    if context.is_watched()
        && let Ok(set) = open_in(context.engine(), location)
    {
        let _ = set.each_array(&mut |array| {
            context.check()?;
            if let Ok(array) = array {
                sizes.insert(array.location().path.clone(), array.decoded_len());
            }
            Ok(())
        });
    }
    sizes
}
