//! Finds damage in arrays and whole hierarchies. Nothing is ever written.

mod ahead;
mod entries;
mod finding;
mod grid;
mod hierarchy;
mod losses;
mod object;
mod payload;
pub(super) mod volume;

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardine_store::{Key, LeftoverKind};

use crate::{Array, Engine, Error, Location, PossibleObject};

pub(super) use finding::{Correction, Origin};
pub use finding::{Finding, FindingKind, Severity, Untold};

/// What is told while a verification runs: objects checked so far, and objects found so far.
type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Findings that are told one by one unless another number is asked for.
const MAX_FINDINGS: u64 = 10_000;

/// Findings of one kind in one object that are told one by one.
const MAX_OF_KIND: u64 = 5_000;

/// How thoroughly to look.
#[derive(Clone)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Decode every chunk; without it only metadata and indexes are read.
    pub decode: bool,
    /// Told how many objects are checked and how many have been found so far. May be called from any thread.
    pub progress: Option<Progress>,
    /// Whether the caller holds the data set in its place already.
    pub(in crate::jobs) is_held: bool,
    /// The most findings that are told one by one; further ones are counted. A damaged index may have millions.
    pub max_findings: u64,
    /// The same for findings of one kind in one object.
    pub(crate) max_of_kind: u64,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        let (max_findings, max_of_kind) = (MAX_FINDINGS, MAX_OF_KIND);
        Self { decode: false, progress: None, max_findings, max_of_kind, is_held: false }
    }
}

impl VerifyOptions {
    /// The default: no chunk is decoded.
    pub fn new() -> Self {
        Self::default()
    }

    /// With every chunk decoded or not.
    pub fn decode(mut self, decode: bool) -> Self {
        self.decode = decode;
        self
    }

    /// With so many findings told one by one at most.
    pub fn max_findings(mut self, max_findings: u64) -> Self {
        self.max_findings = max_findings;
        self
    }

    /// For `repair`: with every finding told, but of each object only so many of a kind.
    pub(crate) fn all_findings(mut self, max_of_kind: u64) -> Self {
        (self.max_findings, self.max_of_kind) = (u64::MAX, max_of_kind);
        self
    }

    /// With somebody who is told the objects checked and the objects found so far.
    pub fn progress(mut self, progress: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }
}

impl fmt::Debug for VerifyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyOptions").field("decode", &self.decode).finish_non_exhaustive()
    }
}

/// What a verification has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VerifySummary {
    /// Arrays that were checked.
    pub arrays: u64,
    /// Groups that were checked.
    pub groups: u64,
    /// Objects of grids that were checked.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Chunks that the indexes refer to, or objects that are chunks.
    pub chunks: u64,
    /// Chunks that were decoded, whether that went well or not.
    pub chunks_decoded: u64,
    /// Bytes of shards that nothing refers to.
    pub gap_bytes: u64,
    /// Chunks that `repair` could not save, and that are still not there.
    pub lost_chunks: u64,
    /// Chunks that are as an older index had them.
    pub unproved_chunks: u64,
    /// Findings that are damage.
    pub damage: u64,
    /// Findings that are not.
    pub notices: u64,
    /// Findings that were only counted.
    pub untold: Untold,
    /// Whether the store could not list: nodes were looked for by what consolidated metadata names, objects by asking for
    /// each that the grid has room for. What neither leads to was not looked for.
    pub unlisted: bool,
}

impl VerifySummary {
    /// Whether no damage was found.
    pub fn is_ok(&self) -> bool {
        self.damage == 0
    }
}

#[derive(Debug, Default)]
struct Counters {
    objects: AtomicU64,
    found: AtomicU64,
    bytes: AtomicU64,
    chunks: AtomicU64,
    chunks_decoded: AtomicU64,
    gap_bytes: AtomicU64,
    lost: AtomicU64,
    unproved: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Whoever takes the findings, and how many there were.
struct Report<'a> {
    tell: &'a mut (dyn FnMut(Finding) + Send),
    damage: u64,
    notices: u64,
    told: u64,
    untold: Untold,
}

impl Report<'_> {
    fn count(&mut self, kind: FindingKind, count: u64) {
        match kind.severity() {
            Severity::Damage => self.damage += count,
            Severity::Notice => self.notices += count,
        }
    }
}

/// What all parts of a verification share.
struct Run<'a> {
    engine: &'a Arc<Engine>,
    options: &'a VerifyOptions,
    report: Mutex<Report<'a>>,
    counters: Counters,
    /// Objects whose journals have been told.
    journals: Mutex<HashSet<Key>>,
    /// Whether something could not be listed.
    unlisted: AtomicBool,
}

impl<'a> Run<'a> {
    fn new(
        engine: &'a Arc<Engine>,
        options: &'a VerifyOptions,
        tell: &'a mut (dyn FnMut(Finding) + Send),
    ) -> Self {
        let report =
            Mutex::new(Report { tell, damage: 0, notices: 0, told: 0, untold: Untold::default() });
        let (counters, journals) = (Counters::default(), Mutex::default());
        let unlisted = AtomicBool::new(false);
        Self { engine, options, report, counters, journals, unlisted }
    }

    fn tell(&self, findings: impl IntoIterator<Item = Finding>) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        for finding in findings {
            report.count(finding.kind, 1);
            if report.told < self.options.max_findings {
                report.told += 1;
                (report.tell)(finding);
            } else {
                report.untold.add(finding.kind, 1);
            }
        }
    }

    /// Counts findings that are not told one by one.
    fn count(&self, untold: &Untold) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, count) in untold.kinds() {
            report.count(kind, count);
            report.untold.add(kind, count);
        }
    }

    /// Tells what writers left in a folder. A writer that is at work is none of our business.
    fn leftovers(&self, location: &Location, folder: Option<&Key>) -> Result<(), Error> {
        for leftover in location.store.leftovers(folder)? {
            if leftover.in_use {
                continue;
            }
            let (kind, what) = match leftover.kind {
                LeftoverKind::Temporary => {
                    (FindingKind::LeftoverTemporary, "a writer that was killed left this file")
                }
                LeftoverKind::Journal => {
                    (FindingKind::LeftoverJournal, "a change in place was interrupted")
                }
                LeftoverKind::SetAside => (
                    FindingKind::SetAside,
                    "a journal that belonged to another version of its object was set aside",
                ),
                LeftoverKind::Job => (
                    FindingKind::UnfinishedJob,
                    "a job that builds the array beside it anew was interrupted",
                ),
            };
            if let (LeftoverKind::Journal, Some(object)) = (leftover.kind, &leftover.object)
                && !self.first_journal_of(object)
            {
                continue;
            }
            let name = match folder {
                Some(folder) => folder.join(&leftover.name),
                None => Key::new(&leftover.name),
            };
            let message = match leftover.kind {
                LeftoverKind::Job => what.to_owned(),
                _ => format!("{what} ({} bytes)", leftover.len),
            };
            self.tell([Finding::new(kind, name.ok(), message)]);
        }
        Ok(())
    }

    /// Whether the journal of this object has not been told yet.
    fn first_journal_of(&self, object: &Key) -> bool {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner).insert(object.clone())
    }

    fn progress(&self) {
        if let Some(progress) = &self.options.progress {
            let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            progress(get(&self.counters.objects), get(&self.counters.found));
        }
    }
}

/// Checks one object of an array.
pub(super) fn verify_object(
    engine: &Arc<Engine>,
    array: &Array,
    object: &PossibleObject,
    options: &VerifyOptions,
) -> Vec<Finding> {
    let mut told = Vec::new();
    let mut tell = |finding| told.push(finding);
    let run = Run::new(engine, options, &mut tell);
    let last = run.object(array, object, run.pace(array, 1));
    drop(run);
    told.extend(last.into_iter().flatten());
    told
}

/// Checks an array, or a group with all nodes below it, against the format.
///
/// Each finding is told as soon as it is certain: those of one object one after another, those of one node in
/// the order of its objects (an object with hundreds of findings may come earlier). Of one kind in one object some thousand
/// are told, and [`max_findings`](VerifyOptions::max_findings) in all; the others are counted. What cannot be opened or
/// read inside a hierarchy is a finding; an error means that there was nothing to check.
///
/// Costs the listings of all folders, one read for each `zarr.json` and one for each index; with
/// [`decode`](VerifyOptions::decode) every chunk is read and decoded too. Memory is that of one index, and of one chunk
/// being decoded, for each thread. In a remote store as many objects are checked at once as it has requests in flight and the
/// engine's memory allows, and chunks are read in large pieces. Where the store cannot list, consolidated metadata and
/// the grids of arrays say what there may be ([`VerifySummary::unlisted`]): one read for each shard that is possible,
/// and [`Error::UnlistedGroup`] for a group without consolidated metadata. An object that is replaced, removed or changed while it is checked is checked again.
/// Nothing is written and nothing is recovered: a shard whose change in place was interrupted is told as
/// [`FindingKind::LeftoverJournal`].
///
/// ```
/// use shardine::{Engine, Location, VerifyOptions, verify};
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
    engine: &Arc<Engine>,
    location: &Location,
    options: &VerifyOptions,
    tell: &mut (dyn FnMut(Finding) + Send),
) -> Result<VerifySummary, Error> {
    let run = Run::new(engine, options, tell);
    let nodes = run.hierarchy(location)?;
    let report = run.report.into_inner().unwrap_or_else(PoisonError::into_inner);
    let counters = run.counters;
    Ok(VerifySummary {
        arrays: nodes.arrays,
        groups: nodes.groups,
        objects: counters.objects.into_inner(),
        bytes: counters.bytes.into_inner(),
        chunks: counters.chunks.into_inner(),
        chunks_decoded: counters.chunks_decoded.into_inner(),
        gap_bytes: counters.gap_bytes.into_inner(),
        lost_chunks: counters.lost.into_inner(),
        unproved_chunks: counters.unproved.into_inner(),
        damage: report.damage,
        notices: report.notices,
        untold: report.untold,
        unlisted: run.unlisted.into_inner(),
    })
}
