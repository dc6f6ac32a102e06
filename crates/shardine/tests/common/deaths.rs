//! Jobs that die at each of their steps on the disk, and are finished by the same call.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use shardine::store::{DiskObserver, DiskStep, FileStore, Verdict};
use shardine::{Error, Location};

use super::trees::{Tree, assert_same, folder, leftovers, restore, tree};

/// Fails at a step, and at all steps after it: as if the process had died.
#[derive(Debug)]
pub struct Dies {
    at: usize,
    steps: AtomicUsize,
}

impl Dies {
    /// How many steps there were.
    pub fn steps(&self) -> usize {
        self.steps.load(Ordering::SeqCst)
    }
}

impl DiskObserver for Dies {
    fn before(&self, _: DiskStep<'_>) -> Verdict {
        match self.steps.fetch_add(1, Ordering::SeqCst) >= self.at {
            true => Verdict::Fail(io::Error::other("died")),
            false => Verdict::Go,
        }
    }
}

/// A place whose writers die at a step.
pub fn dies(root: &Path, at: usize) -> (Location, Arc<Dies>) {
    let observer = Arc::new(Dies { at, steps: AtomicUsize::new(0) });
    (Location::root(Arc::new(FileStore::observed(root, Arc::clone(&observer) as _))), observer)
}

/// Does something once, before a step.
pub struct AtStep {
    at: usize,
    steps: AtomicUsize,
    act: Box<dyn Fn() + Send + Sync>,
}

impl AtStep {
    pub fn new(at: usize, act: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { at, steps: AtomicUsize::new(0), act: Box::new(act) })
    }

    /// Whether there was such a step.
    pub fn is_reached(&self) -> bool {
        self.steps.load(Ordering::SeqCst) > self.at
    }
}

impl std::fmt::Debug for AtStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtStep").field("at", &self.at).finish_non_exhaustive()
    }
}

impl DiskObserver for AtStep {
    fn before(&self, _: DiskStep<'_>) -> Verdict {
        if self.steps.fetch_add(1, Ordering::SeqCst) == self.at {
            (self.act)();
        }
        Verdict::Go
    }
}

/// Work that begins at a step of something else, which waits for it only a little: it may wait for
/// a lock that the other one holds.
pub struct Meanwhile<T>(Mutex<Option<JoinHandle<T>>>);

impl<T> Default for Meanwhile<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Send + 'static> Meanwhile<T> {
    pub fn begin(&self, work: impl FnOnce() -> T + Send + 'static) {
        let thread = thread::spawn(work);
        let start = Instant::now();
        while !thread.is_finished() && start.elapsed() < Duration::from_millis(100) {
            thread::sleep(Duration::from_millis(1));
        }
        *self.0.lock().unwrap() = Some(thread);
    }

    /// Its result, if it was begun.
    pub fn end(&self) -> Option<T> {
        let thread = self.0.lock().unwrap().take()?;
        Some(thread.join().unwrap())
    }
}

/// A job that dies again and again.
pub struct Deaths<'a> {
    /// What it begins with each time.
    pub old: &'a Tree,
    /// It dies at one of so many steps; 1 for each of them.
    pub stride: usize,
    pub run: &'a (dyn Fn(&Location) -> Result<(), Error> + Sync),
    /// What must hold after a death at a step.
    pub check: &'a (dyn Fn(&Path, usize) + Sync),
}

impl Deaths<'_> {
    /// Lets the job die everywhere. The same call then finishes it, with the same bytes as without
    /// a death, and nothing else is left. Returns how many steps it has.
    pub fn everywhere(&self) -> usize {
        let whole = folder();
        let root = whole.path().join("h.zarr");
        restore(self.old, &root);
        let (watched, observer) = dies(&root, usize::MAX);
        (self.run)(&watched).unwrap();
        let (new, steps) = (tree(&root), observer.steps());
        assert!(new != *self.old, "it changes nothing");
        assert_eq!(leftovers(whole.path()), Vec::<std::path::PathBuf>::new());
        let next = AtomicUsize::new(0);
        // Most of the time is spent waiting.
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let step = next.fetch_add(self.stride, Ordering::SeqCst);
                        if step >= steps {
                            break;
                        }
                        self.die(step, &new);
                    }
                });
            }
        });
        println!("{} deaths, {steps} steps", steps.div_ceil(self.stride));
        steps
    }

    fn die(&self, step: usize, new: &Tree) {
        let folder = folder();
        let root = folder.path().join("h.zarr");
        restore(self.old, &root);
        let (dying, observer) = dies(&root, step);
        let ended = (self.run)(&dying);
        if observer.steps() <= step {
            // The number of steps may depend on threads.
            ended.unwrap();
        }
        (self.check)(&root, step);
        let place = Location::root(Arc::new(FileStore::new(&root)));
        (self.run)(&place).unwrap_or_else(|error| panic!("dead at step {step}: {error}"));
        assert_same(&tree(&root), new, &format!("dead at step {step}"));
        assert_eq!(leftovers(folder.path()), Vec::<std::path::PathBuf>::new(), "{step}");
    }
}
