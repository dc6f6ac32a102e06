//! The threads, the memory and the caches that all arrays share.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use shardine_codec::Context;
use shardine_store::{Store, Workers};

use crate::Error;
use crate::budget::{Budget, Permit};
use crate::cache::{IndexCache, KeptObjects, KnownStale};
use crate::tuning::{MAX_MERGED_READ, MOST_WAITING};

/// The most worker threads that an engine has.
pub const MAX_THREADS: usize = 1024;

/// How much of the machine the engine may use.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EngineOptions {
    /// Worker threads, at most [`MAX_THREADS`]; 0 means one per core. A caller that waits for work is one of them meanwhile.
    pub threads: usize,
    /// Memory in bytes beside the caller's own buffers.
    ///
    /// Half of it is for data in flight, and a good quarter for the indexes of shards. A single chunk
    /// that is larger is still read and written, alone.
    pub memory: u64,
    /// How much of the memory may go into cached indexes; `None` leaves the choice to the engine, 0 caches none.
    pub index_cache: Option<u64>,
    /// Whether large results are put into huge pages where the system has them.
    ///
    /// The first touch of 128 MiB takes a fifth of the time then. Turn it off where memory is so fragmented
    /// that the system has to move pages around to find room for a huge one.
    pub huge_pages: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { threads: 0, memory: 56 << 20, index_cache: None, huge_pages: true }
    }
}

impl EngineOptions {
    /// The default: all cores, 56 MiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this many threads; 0 means one per core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// With this much memory.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// With large results in huge pages or not.
    pub fn huge_pages(mut self, huge: bool) -> Self {
        self.huge_pages = huge;
        self
    }

    /// With this much memory for cached indexes; 0 caches none.
    pub fn index_cache(mut self, bytes: u64) -> Self {
        self.index_cache = Some(bytes);
        self
    }
}

/// One pool of threads, one memory budget and one cache of indexes, shared by all arrays opened with it.
#[derive(Debug)]
pub struct Engine {
    pub(crate) pool: rayon::ThreadPool,
    pub(crate) budget: Arc<Budget>,
    pub(crate) indexes: IndexCache,
    pub(crate) kept: KeptObjects,
    pub(crate) stale: KnownStale,
    contexts: Mutex<Vec<Context>>,
    arrays: AtomicU64,
    huge_pages: bool,
}

thread_local! {
    /// The engine whose pieces of work this thread is doing: 0 for none.
    static SHARING: Cell<usize> = const { Cell::new(0) };
}

/// While it lives, this thread does pieces of an engine's work.
struct Sharing {
    before: usize,
}

impl Sharing {
    fn of(engine: &Engine) -> Self {
        Self { before: SHARING.replace(engine.address()) }
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        SHARING.set(self.before);
    }
}

impl Engine {
    /// Starts an engine.
    pub fn new(options: &EngineOptions) -> Result<Arc<Self>, Error> {
        if options.threads > MAX_THREADS {
            // Some systems start that many, and get nothing done.
            let reason = format!("at most {MAX_THREADS} are started");
            return Err(Error::Threads { threads: options.threads, reason });
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads)
            .thread_name(|i| format!("shardine-{i}"))
            .build()
            .map_err(|e| Error::Threads { threads: options.threads, reason: e.to_string() })?;
        Ok(Arc::new(Self {
            pool,
            budget: Budget::new(options.memory / 2),
            indexes: IndexCache::new(options.index_cache.unwrap_or(options.memory / 10 * 3)),
            kept: KeptObjects::new(),
            stale: KnownStale::new(),
            contexts: Mutex::default(),
            arrays: AtomicU64::new(0),
            huge_pages: options.huge_pages,
        }))
    }

    /// The engine that is used where none is named: all cores, the default budget.
    pub fn shared() -> Result<Arc<Self>, Error> {
        static SHARED: OnceLock<Arc<Engine>> = OnceLock::new();
        if let Some(engine) = SHARED.get() {
            return Ok(Arc::clone(engine));
        }
        let engine = Self::new(&EngineOptions::default())?;
        Ok(Arc::clone(SHARED.get_or_init(|| engine)))
    }

    /// Worker threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Bytes that may be in flight at once.
    pub fn memory_in_flight(&self) -> u64 {
        self.budget.total()
    }

    /// How many may wait for a store at once, if each takes so many bytes: one if the store is on this machine.
    pub fn at_once(&self, store: &dyn Store, bytes: u64) -> usize {
        let cost = store.read_cost();
        if cost.local {
            return 1;
        }
        let most = cost.in_flight.clamp(1, MOST_WAITING);
        usize::try_from(self.memory_in_flight() / bytes.max(1)).unwrap_or(most).clamp(1, most)
    }

    /// Zeroed memory for a result of so many elements; `None` if there is none.
    pub fn memory_for_result<T: bytemuck::Pod>(&self, len: usize) -> Option<Vec<T>> {
        crate::memory::zeroed(len, self.huge_pages)
    }

    /// A number that no other opened array has.
    pub fn next_array(&self) -> u64 {
        self.arrays.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs `work` with a context of its own, which it leaves to the next.
    pub fn with_context<T>(&self, work: impl FnOnce(&mut Context) -> T) -> T {
        let kept = self.contexts.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut context = kept.unwrap_or_default();
        let result = work(&mut context);
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        // A rush of callers is no reason to keep the memory of all of them.
        if contexts.len() < 2 * self.pool.current_num_threads() {
            contexts.push(context);
        }
        result
    }

    /// Waits for memory, unless the caller is a worker: what a worker does is part of something that has
    /// been admitted already, and if it waited for its own kind nobody might be left to make room.
    pub fn admit(&self, bytes: u64) -> Option<Permit> {
        if self.on_worker() { None } else { Some(self.budget.acquire(bytes)) }
    }

    /// Whether the caller is one of the workers, who must not wait for the others.
    pub fn on_worker(&self) -> bool {
        self.pool.current_thread_index().is_some() || SHARING.get() == self.address()
    }

    /// What tells this engine from others.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Has workers, the caller among them, do pieces of work by number, each worker with a context of its own.
    ///
    /// On a worker, which must not wait for the others, it does all of them itself.
    pub fn share(&self, workers: usize, count: usize, work: &(dyn Fn(usize, &mut Context) + Sync)) {
        let next = AtomicUsize::new(0);
        let run = || {
            self.with_context(|context| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        break;
                    }
                    work(i, context);
                }
            });
        };
        if self.on_worker() {
            return run();
        }
        let helpers = workers.min(count).saturating_sub(1);
        let here = || {
            let _sharing = Sharing::of(self);
            run();
        };
        if helpers == 0 {
            return here();
        }
        // A worker that waits for something inside a piece (a source may use its threads) takes up what else there
        // is to do. Another helper on top of that piece could wait for it for ever, so it leaves the work to others.
        let help = || {
            if SHARING.get() == 0 {
                here();
            }
        };
        self.pool.in_place_scope(|scope| {
            (0..helpers).for_each(|_| scope.spawn(|_| help()));
            here();
        });
    }

    /// Closes what is kept open of an array.
    pub fn close_array(&self, array: u64) {
        self.kept.remove_array(array);
    }

    /// The most that is worth reading at once.
    pub fn max_merged_read(&self) -> u64 {
        MAX_MERGED_READ.min(self.budget.total() / 4).max(1)
    }
}

/// The threads of a pool, for the batches of a store.
pub(crate) struct PoolWorkers<'a>(pub &'a rayon::ThreadPool);

impl Workers for PoolWorkers<'_> {
    fn run<T: Send>(&self, mut next: impl FnMut() -> Option<T>, task: impl Fn(T) + Sync) {
        let task = &task;
        self.0.in_place_scope(|scope| {
            while let Some(given) = next() {
                scope.spawn(move |_| task(given));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_thread_whose_piece_of_work_panicked_is_no_worker() {
        let engine = Engine::new(&EngineOptions::new().threads(2)).unwrap();
        for workers in [1, 2] {
            let work = || engine.share(workers, 4, &|_, _| panic!("of no use"));
            assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
            assert!(!engine.on_worker());
        }
    }
}
