//! The state shared by all threads of a copy.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shardine_store::{Condition, FolderHold, Key, StoreError};

use super::keys::{Expanded, FoundObject, KeySource, parent};
use super::options::CopyProgress;
use super::pieces::Pieces;
use super::queue::Queue;
use super::worker::CopyWorker;
use super::{CopyCheck, CopyError, CopyOptions, CopyReport};
use crate::anchor::Anchor;
use crate::dataset::{document_names, document_rank, is_document};
use crate::engine::Budget;
use crate::format::DocumentRank;
use crate::jobs::rebuild::PartOutcome;
use crate::{Error, Location};

/// The most data sets held in place during a copy: each takes a descriptor. A replacement of others
/// is noticed at the end.
const MOST_HELD: usize = 256;

/// Bytes of one read.
const PIECE: u64 = 8 << 20;

/// An object to be copied.
#[derive(Debug)]
pub(super) struct ObjectTask {
    pub source: Key,
    pub target: Key,
    /// From a listing.
    pub len: Option<u64>,
    /// The length of what an earlier run has put in the target.
    pub existing: Option<u64>,
    /// Whether it must exist.
    pub needed: bool,
    /// How many times it has changed while being read.
    pub attempts: usize,
    pub folder: Arc<FolderCheck>,
    /// What may exist instead of it, if it does not.
    pub instead: Vec<ObjectTask>,
}

/// The unit of work of a thread.
#[derive(Debug)]
pub(super) enum Task {
    Object(ObjectTask),
    /// Help with a large object.
    Pieces(Arc<(Pieces, ObjectTask)>),
}

/// Objects of one folder of the target, which are checked together when the last of them has
/// arrived.
#[derive(Debug)]
pub(super) struct FolderCheck {
    folder: Option<Key>,
    missing: AtomicUsize,
    expected: Mutex<Vec<(Key, u64)>>,
}

/// What is done so far.
#[derive(Debug, Default)]
struct Counters {
    objects_copied: AtomicU64,
    bytes_copied: AtomicU64,
    objects_skipped: AtomicU64,
    bytes_skipped: AtomicU64,
    /// Bytes written, including those of unfinished objects.
    bytes_moved: AtomicU64,
    objects_found: AtomicU64,
    bytes_found: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[derive(Debug)]
pub(super) struct Job<'a> {
    pub source: &'a Location,
    pub target: &'a Location,
    pub options: &'a CopyOptions,
    pub budget: Arc<Budget>,
    /// Bytes of one read.
    pub piece: u64,
    pub threads: usize,
    /// Whether both sides are local files.
    pub local: bool,
    resumed: bool,
    counters: Counters,
    documents: Mutex<Vec<FoundObject>>,
    /// The data sets of the source, held in place.
    held: Mutex<Vec<(Anchor, Option<Arc<FolderHold>>)>>,
}

impl<'a> Job<'a> {
    pub fn new(
        source: &'a Location,
        target: &'a Location,
        options: &'a CopyOptions,
        resumed: bool,
    ) -> Self {
        let local = source.store.read_cost().local && target.store.read_cost().local;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match (local, options.threads) {
            (false, _) => options.requests,
            (true, 0) => options.requests.min(cores()),
            (true, threads) => options.requests.min(threads),
        };
        Self {
            source,
            target,
            options,
            budget: Budget::new(options.memory.max(1)),
            piece: PIECE.min(options.memory / 4).max(1),
            threads: threads.max(1),
            local,
            resumed,
            counters: Counters::default(),
            documents: Mutex::default(),
            held: Mutex::default(),
        }
    }

    /// Copies everything but documents, which come at the end.
    pub fn copy_objects<K: KeySource>(&self, keys: &K) -> Result<(), Error> {
        let queue = Queue::new(keys.first(), Vec::new());
        let expand = |branch| {
            if let Some(folder) = keys.folder(&branch) {
                self.hold(&folder)?;
            }
            self.expand(keys.expand(branch)?)
        };
        queue.run(self.threads, || CopyWorker::new(self, &queue, &expand))
    }

    /// Holds a folder in place, if it is a data set, or at least notices if another one replaces
    /// it.
    fn hold(&self, folder: &Location) -> Result<(), Error> {
        for documents in document_names() {
            let Some(anchor) = Anchor::of(folder, documents.making)? else { continue };
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let hold = if held.len() < MOST_HELD { anchor.hold()? } else { None };
            held.push((anchor, hold));
        }
        Ok(())
    }

    /// Whether every document of the source is still the one that was there when its objects were
    /// listed.
    pub fn is_source_unchanged(&self) -> Result<bool, Error> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for (anchor, _) in held.iter() {
            if !anchor.is_same()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Copies the documents, deepest first: a reader that finds one finds everything it describes.
    pub fn copy_documents(&self) -> Result<(), Error> {
        let mut documents = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_depth: BTreeMap<usize, Vec<FoundObject>> = BTreeMap::new();
        for document in documents.drain(..) {
            let depth = document.key.as_str().split('/').count();
            by_depth.entry(depth).or_default().push(document);
        }
        for (_, documents) in by_depth.into_iter().rev() {
            let mut by_rank: BTreeMap<Option<DocumentRank>, Vec<Task>> = BTreeMap::new();
            for task in self.tasks(documents, false)? {
                by_rank.entry(document_rank(&task.source)).or_default().push(Task::Object(task));
            }
            for tasks in by_rank.into_values() {
                let queue: Queue<(), Task> = Queue::new(Vec::new(), tasks);
                let expand = |()| Ok((Vec::new(), Vec::new()));
                queue.run(self.threads, || CopyWorker::new(self, &queue, &expand))?;
            }
        }
        Ok(())
    }

    /// Turns what was found into tasks.
    fn expand<B>(&self, found: Expanded<B>) -> Result<(Vec<B>, Vec<Task>), Error> {
        let (documents, objects): (Vec<_>, Vec<_>) =
            found.objects.into_iter().partition(|object| is_document(&object.key));
        let objects = self.mine(objects)?;
        let known = documents.iter().chain(&objects).filter_map(|object| object.len);
        add(&self.counters.objects_found, (documents.len() + objects.len()) as u64);
        add(&self.counters.bytes_found, known.fold(0, u64::saturating_add));
        self.documents.lock().unwrap_or_else(PoisonError::into_inner).extend(documents);
        let tasks = self.tasks(objects, true)?;
        Ok((found.branches, tasks.into_iter().map(Task::Object).collect()))
    }

    /// The objects that this process copies.
    fn mine(&self, objects: Vec<FoundObject>) -> Result<Vec<FoundObject>, Error> {
        let Some(part) = self.options.part else { return Ok(objects) };
        let mut mine = Vec::new();
        for object in objects {
            if part.takes(self.name(&object.key)?.as_bytes()) {
                mine.push(object);
            }
        }
        Ok(mine)
    }

    /// Makes tasks; trusted objects that an earlier run has copied need not be copied again.
    fn tasks(&self, objects: Vec<FoundObject>, trusted: bool) -> Result<Vec<ObjectTask>, Error> {
        let mut folders: BTreeMap<Option<Key>, Vec<FoundObject>> = BTreeMap::new();
        for object in objects {
            let folder = parent(&self.target_key(&object.key)?);
            folders.entry(folder).or_default().push(object);
        }
        let mut tasks = Vec::new();
        for (folder, objects) in folders {
            let there = if trusted { self.existing(folder.as_ref())? } else { HashMap::new() };
            let missing = AtomicUsize::new(objects.len());
            let folder = Arc::new(FolderCheck { folder, missing, expected: Mutex::default() });
            for object in objects {
                tasks.push(self.task(object, &there, &folder)?);
            }
        }
        Ok(tasks)
    }

    fn task(
        &self,
        object: FoundObject,
        there: &HashMap<Key, u64>,
        folder: &Arc<FolderCheck>,
    ) -> Result<ObjectTask, Error> {
        let FoundObject { key, len, needed, instead } = object;
        let target = self.target_key(&key)?;
        let instead = instead.into_iter().map(|object| self.task(object, there, folder));
        Ok(ObjectTask {
            needed,
            source: key,
            existing: there.get(&target).copied(),
            target,
            len,
            attempts: 0,
            folder: Arc::clone(folder),
            instead: instead.collect::<Result<_, _>>()?,
        })
    }

    /// What an earlier run has put in a folder of the target.
    fn existing(&self, folder: Option<&Key>) -> Result<HashMap<Key, u64>, Error> {
        if !self.resumed {
            return Ok(HashMap::new());
        }
        Ok(self.target.store.list(folder)?.objects.into_iter().collect())
    }

    fn target_key(&self, key: &Key) -> Result<Key, Error> {
        self.target.key(self.name(key)?)
    }

    /// The path of an object below the source.
    fn name<'k>(&self, key: &'k Key) -> Result<&'k str, Error> {
        let text = key.as_str();
        let name = match &self.source.path {
            None => Some(text),
            Some(path) => text.strip_prefix(path.as_str()).and_then(|rest| rest.strip_prefix('/')),
        };
        let reason = "it is not below the listed location";
        Ok(name.ok_or_else(|| StoreError::Key { text: text.to_owned(), reason })?)
    }

    /// Counts bytes as written.
    pub fn moved(&self, bytes: u64) {
        add(&self.counters.bytes_moved, bytes);
        self.tell();
    }

    /// Takes back bytes that were written in vain.
    pub fn unmoved(&self, bytes: u64) {
        self.counters.bytes_moved.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub fn copied(&self, task: &ObjectTask, len: u64) -> Result<(), Error> {
        add(&self.counters.objects_copied, 1);
        add(&self.counters.bytes_copied, len);
        self.there(task, Some(len))
    }

    pub fn skipped(&self, task: &ObjectTask, len: u64) -> Result<(), Error> {
        add(&self.counters.objects_skipped, 1);
        add(&self.counters.bytes_skipped, len);
        add(&self.counters.bytes_moved, len);
        self.there(task, Some(len))
    }

    /// Handles an object that the source does not have; returns the tasks for what may exist
    /// instead.
    pub fn absent(&self, mut task: ObjectTask) -> Result<Vec<Task>, Error> {
        let instead = std::mem::take(&mut task.instead);
        // All of them lie in the same folder.
        task.folder.missing.fetch_add(instead.len(), Ordering::Relaxed);
        self.there(&task, None)?;
        Ok(instead.into_iter().map(Task::Object).collect())
    }

    /// Handles an object that has arrived; after the last one of a folder, the folder is checked.
    fn there(&self, task: &ObjectTask, len: Option<u64>) -> Result<(), Error> {
        self.tell();
        let check = &task.folder;
        let mut expected = check.expected.lock().unwrap_or_else(PoisonError::into_inner);
        expected.extend(len.map(|len| (task.target.clone(), len)));
        if check.missing.fetch_sub(1, Ordering::Relaxed) > 1 {
            return Ok(());
        }
        let expected = std::mem::take(&mut *expected);
        if self.options.check == CopyCheck::None || expected.is_empty() {
            return Ok(());
        }
        let listing = self.target.store.list(check.folder.as_ref())?;
        let found: HashMap<Key, u64> = listing.objects.into_iter().collect();
        for (object, expected) in expected {
            let found = found.get(&object).copied();
            if found != Some(expected) {
                if found.is_some() {
                    self.target.store.delete(&object, &Condition::None)?;
                }
                return Err(CopyError::Length { object, expected, found }.into());
            }
        }
        Ok(())
    }

    fn tell(&self) {
        if let Some(progress) = &self.options.progress {
            let counters = &self.counters;
            progress(CopyProgress {
                objects: get(&counters.objects_copied) + get(&counters.objects_skipped),
                bytes: get(&counters.bytes_moved),
                objects_found: get(&counters.objects_found),
                bytes_found: get(&counters.bytes_found),
            });
        }
    }

    pub fn report(&self) -> CopyReport {
        let counters = &self.counters;
        CopyReport {
            objects_copied: get(&counters.objects_copied),
            bytes_copied: get(&counters.bytes_copied),
            objects_skipped: get(&counters.objects_skipped),
            bytes_skipped: get(&counters.bytes_skipped),
            resumed: self.resumed,
            check: self.options.check,
            outcome: PartOutcome::Complete,
        }
    }
}
