//! One check of a data set: its findings, its counters, and the walk over its objects.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardine_codec::Context;
use shardine_store::{Key, LeftoverKind, StoreError};

use super::{Finding, FindingKind, Untold, VerifySummary};
use crate::engine::Crew;
use crate::jobs::frame::{JobContext, JobProgress, Part};
use crate::jobs::unfinished::{unfinished_rebuild, unfinished_switch};
use crate::zarr::DOCUMENT;
use crate::{Engine, Error, Location};

/// What to check, and how much to report.
#[derive(Debug, Clone, Copy)]
pub(in crate::jobs) struct Scope {
    /// Whether chunks are decoded.
    pub decode: bool,
    /// The part whose objects are checked; `None` for all.
    pub part: Option<Part>,
    /// The most findings reported one by one.
    pub max_findings: u64,
    /// The same for one kind in one object.
    pub max_of_kind: u64,
    /// Whether the caller already holds the data set in place.
    pub is_held: bool,
    /// Whether only documents are checked: no object of an array is opened.
    pub metadata_only: bool,
    /// The only level whose objects are checked; `None` for all.
    pub level: Option<usize>,
}

/// The callback for findings, and the summary so far.
struct Report<'a> {
    tell: &'a mut (dyn FnMut(Finding) + Send),
    told: u64,
    summary: VerifySummary,
    node: Node,
    /// Objects whose journals have been reported.
    journals: HashSet<Key>,
}

/// The array or scale being walked, for progress.
#[derive(Debug, Default)]
struct Node {
    /// Its path below the data set.
    path: String,
    /// The most objects that it can have, where that is known.
    expected: u64,
    /// Objects found so far, and how many of them were looked at.
    found: u64,
    looked_at: u64,
}

/// The bytes of the elements of each array, by its folder: how much there is to check.
pub(in crate::jobs) type Sizes = HashMap<Option<Key>, u64>;

/// Objects checked before their findings are reported in order.
pub(in crate::jobs) const BATCH: usize = 256;

/// The state shared by all steps of a check.
pub(in crate::jobs) struct Run<'a> {
    pub context: &'a JobContext,
    pub engine: &'a Arc<Engine>,
    pub scope: Scope,
    root: Option<Key>,
    sizes: Sizes,
    /// The folder of the only array whose objects are checked.
    only: Option<Option<Key>>,
    report: Mutex<Report<'a>>,
}

impl<'a> Run<'a> {
    /// A check of the data set at `root`.
    pub fn new(
        context: &'a JobContext,
        root: Option<&Key>,
        scope: Scope,
        tell: &'a mut (dyn FnMut(Finding) + Send),
    ) -> Self {
        let report = Report {
            tell,
            told: 0,
            summary: VerifySummary::default(),
            node: Node::default(),
            journals: HashSet::new(),
        };
        let (engine, root, report) = (context.engine(), root.cloned(), Mutex::new(report));
        Self { context, engine, scope, root, sizes: Sizes::new(), only: None, report }
    }

    /// Weighs arrays by these sizes when it reports progress.
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// Checks the objects of this array only.
    pub fn with_only(mut self, folder: Option<Option<Key>>) -> Self {
        self.only = folder;
        self
    }

    /// Whether the objects of the array in a folder are checked.
    pub fn checks_objects(&self, folder: Option<&Key>) -> bool {
        let is_wanted = self.only.as_ref().is_none_or(|only| only.as_ref() == folder);
        is_wanted && !self.scope.metadata_only
    }

    /// Whether the store has listed every folder so far.
    pub fn is_listed(&self) -> bool {
        !self.report().summary.unlisted
    }

    /// Whether a folder is the data set, or in it.
    pub fn is_inside(&self, folder: Option<&Key>) -> bool {
        let Some(root) = &self.root else { return true };
        folder.is_some_and(|folder| {
            let rest = folder.as_str().strip_prefix(root.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    fn report(&self) -> MutexGuard<'_, Report<'a>> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen.
    pub fn into_summary(self) -> VerifySummary {
        self.report.into_inner().unwrap_or_else(PoisonError::into_inner).summary
    }

    /// A part of the check in which no chunk is decoded.
    pub fn without_decoding(
        &self,
        check: impl FnOnce(&Run<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let scope = Scope { decode: false, ..self.scope };
        let tell = &mut |finding| self.tell([finding]);
        let run = Run::new(self.context, self.root.as_ref(), scope, tell);
        let result = check(&run);
        let seen = run.into_summary();
        // What was reported has been counted.
        self.count(&seen.untold);
        self.sum(|summary| {
            summary.arrays += seen.arrays;
            summary.objects += seen.objects;
            summary.bytes += seen.bytes;
            summary.chunks += seen.chunks;
            summary.gap_bytes += seen.gap_bytes;
            summary.lost_chunks += seen.lost_chunks;
            summary.unproved_chunks += seen.unproved_chunks;
            summary.unlisted |= seen.unlisted;
            summary.unread_folders += seen.unread_folders;
        });
        result
    }

    /// Updates the summary.
    pub fn sum(&self, add: impl FnOnce(&mut VerifySummary)) {
        add(&mut self.report().summary);
    }

    /// Whether this part does what is not done object by object.
    pub fn is_first(&self) -> bool {
        matches!(self.scope.part, None | Some(Part::Of { index: 1, .. }))
    }

    /// Whether this part checks the object with this key.
    pub fn takes(&self, key: &Key) -> bool {
        self.scope.part.is_none_or(|part| part.takes(self.below(Some(key)).as_bytes()))
    }

    /// A key relative to the data set.
    fn below<'k>(&self, key: Option<&'k Key>) -> &'k str {
        let key = key.map_or("", Key::as_str);
        let rest = self.root.as_ref().and_then(|root| key.strip_prefix(root.as_str()));
        rest.and_then(|rest| rest.strip_prefix('/').or(rest.is_empty().then_some(rest)))
            .unwrap_or(key)
    }

    /// Reports findings in an object that belongs to this part.
    pub fn tell(&self, findings: impl IntoIterator<Item = Finding>) {
        let mut report = self.report();
        for finding in findings {
            report.summary.count(finding.kind, 1);
            if report.told < self.scope.max_findings {
                report.told += 1;
                (report.tell)(finding);
            } else {
                report.summary.untold.add(finding.kind, 1);
            }
        }
    }

    /// Reports a finding not tied to an object; only the first part does.
    pub fn note(&self, finding: Finding) {
        if self.is_first() {
            self.tell([finding]);
        }
    }

    /// Counts findings that are not reported one by one.
    pub fn count(&self, untold: &Untold) {
        let summary = &mut self.report().summary;
        for (kind, count) in untold.kinds() {
            summary.count(kind, count);
            summary.untold.add(kind, count);
        }
    }

    /// Begins an array or a scale.
    pub fn begin(&self, folder: Option<&Key>) -> Result<(), Error> {
        if self.context.is_watched() {
            let path = self.below(folder).to_owned();
            self.report().node = Node { path, ..Node::default() };
            let size = self.sizes.get(&folder.cloned()).copied().unwrap_or(0);
            self.context.begin_step(size, 0);
        }
        self.context.check()
    }

    /// Says how many objects there are to look at in the current array or scale, at most.
    pub fn expect(&self, objects: u64) {
        self.report().node.expected = objects;
    }

    /// Checks some objects, several in parallel, and collects the results in their order.
    ///
    /// `look` is passed whether the object belongs to this part, and returns `None` for one that
    /// does not exist. Every walk goes through here: it checks for cancellation before each object,
    /// counts those of this part, and reports progress.
    pub fn batch<T: Sync, S: Send>(
        &self,
        crew: Crew,
        objects: &[T],
        key: fn(&T) -> &Key,
        look: &(dyn Fn(&T, bool, &mut Context) -> Option<S> + Sync),
        take: &mut dyn FnMut(&T, S),
    ) -> Result<(), Error> {
        let own = |object: &T| self.takes(key(object));
        self.report().node.found += objects.iter().filter(|object| own(object)).count() as u64;
        let work = |i: usize, context: &mut Context| {
            self.context.check().ok()?;
            let is_own = own(&objects[i]);
            let seen = look(&objects[i], is_own, context);
            if is_own {
                self.looked(seen.is_some());
            }
            seen
        };
        self.engine.batch_in_order(crew, objects.len(), &work, &mut |i, seen| {
            if let Some(seen) = seen {
                take(&objects[i], seen);
            }
        });
        self.context.check()
    }

    /// Counts a checked object, and reports progress.
    fn looked(&self, is_there: bool) {
        let mut report = self.report();
        match is_there {
            true => {
                report.summary.objects += 1;
                report.node.looked_at += 1;
            }
            false => report.node.found -= 1,
        }
        if self.context.is_watched() {
            let Node { path, expected, found, looked_at } = &report.node;
            let progress = JobProgress::steps(path, *looked_at, *found.max(expected));
            let bytes = report.summary.bytes;
            drop(report);
            self.context.report(JobProgress { bytes, ..progress });
        }
    }

    /// Reports that a folder could not be read.
    pub fn unreadable(&self, folder: Option<&Key>, error: &Error) {
        if let Error::Store(StoreError::LinkedFolder { .. }) = error {
            // The link has been reported already.
            return;
        }
        // The first part reports it, but no other may claim to have checked what is in there.
        if !self.is_first() {
            self.sum(|summary| summary.unread_folders += 1);
        }
        let kind = FindingKind::Unreadable;
        self.note(Finding::new(kind, folder.cloned(), error.to_string()));
    }

    /// Reports what writers left in a folder, except for those still at work.
    pub fn leftovers(&self, location: &Location, folder: Option<&Key>) -> Result<(), Error> {
        if !self.is_first() {
            return Ok(());
        }
        for leftover in location.store.leftovers(folder)? {
            if leftover.in_use {
                continue;
            }
            let (kind, what) = match leftover.kind {
                LeftoverKind::Temporary => {
                    (FindingKind::LeftoverTemporary, "this file was left behind by a killed writer")
                }
                LeftoverKind::Journal => {
                    (FindingKind::LeftoverJournal, "a change in place was interrupted")
                }
                LeftoverKind::SetAside => (
                    FindingKind::SetAside,
                    "a journal that belonged to another version of its object was set aside",
                ),
                LeftoverKind::Job if changes_documents(leftover.object.as_ref()) => (
                    FindingKind::UnfinishedJob,
                    "a job changing the documents of this hierarchy was interrupted",
                ),
                LeftoverKind::Job => (
                    FindingKind::UnfinishedJob,
                    "a job rebuilding the array next to it was interrupted",
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
            let message = match (leftover.kind, &leftover.object) {
                (LeftoverKind::Job, Some(object)) => {
                    let job = match changes_documents(Some(object)) {
                        true => unfinished_switch(&location.at(folder.cloned())),
                        false => unfinished_rebuild(&location.at(Some(object.clone()))),
                    };
                    match job.ok().flatten().and_then(|job| job.command) {
                        Some(command) => format!("{what}, started by `{command}`"),
                        None => what.to_owned(),
                    }
                }
                (LeftoverKind::Job, None) => what.to_owned(),
                _ => format!("{what} ({} bytes)", leftover.len),
            };
            self.note(Finding::new(kind, name.ok(), message));
        }
        Ok(())
    }

    /// Whether the journal of this object has not been reported yet.
    pub fn first_journal_of(&self, object: &Key) -> bool {
        self.report().journals.insert(object.clone())
    }
}

/// Whether the job on an object changes documents, its own among them.
fn changes_documents(object: Option<&Key>) -> bool {
    object.is_some_and(|object| object.as_str().rsplit('/').next() == Some(DOCUMENT))
}
