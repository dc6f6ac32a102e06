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

/// The maximum number of worker threads of an engine.
pub const MAX_THREADS: usize = 1024;

/// How much of the machine the engine may use.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EngineOptions {
    /// Worker threads, at most [`MAX_THREADS`]; 0 means one per core. A caller that waits for work
    /// counts as one of them.
    pub threads: usize,
    /// Memory in bytes, not counting the caller's own buffers.
    ///
    /// Half of it is for data in flight and a good quarter for shard indexes. A single chunk that
    /// is larger is still read and written, alone.
    pub memory: u64,
    /// How much of the memory cached indexes may use; `None` lets the engine choose, 0 disables the
    /// cache.
    pub index_cache: Option<u64>,
    /// Whether large results go into huge pages where the system has them.
    ///
    /// This cuts the time of the first touch of 128 MiB to a fifth. Turn it off if memory is so
    /// fragmented that the system has to move pages to make room for a huge one.
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

    /// Sets the number of threads; 0 means one per core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the memory budget.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets whether large results go into huge pages.
    pub fn huge_pages(mut self, huge: bool) -> Self {
        self.huge_pages = huge;
        self
    }

    /// Sets the memory for cached indexes; 0 disables the cache.
    pub fn index_cache(mut self, bytes: u64) -> Self {
        self.index_cache = Some(bytes);
        self
    }
}

/// A thread pool, a memory budget and an index cache, shared by all arrays opened with this engine.
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
    /// The engine whose work this thread is sharing; 0 for none.
    static SHARING: Cell<usize> = const { Cell::new(0) };
}

/// Marks this thread as sharing an engine's work while it lives.
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
            // Some systems would start that many and get nothing done.
            let reason = format!("at most {MAX_THREADS} are allowed");
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

    /// The engine used by default: all cores, the default budget.
    pub fn shared() -> Result<Arc<Self>, Error> {
        static SHARED: OnceLock<Arc<Engine>> = OnceLock::new();
        if let Some(engine) = SHARED.get() {
            return Ok(Arc::clone(engine));
        }
        let engine = Self::new(&EngineOptions::default())?;
        Ok(Arc::clone(SHARED.get_or_init(|| engine)))
    }

    /// The number of worker threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// How many bytes may be in flight at a time.
    pub fn memory_in_flight(&self) -> u64 {
        self.budget.total()
    }

    /// How many items of `bytes` bytes may wait for a store in parallel; one if the store is local.
    pub fn at_once(&self, store: &dyn Store, bytes: u64) -> usize {
        let cost = store.read_cost();
        if cost.local {
            return 1;
        }
        let most = cost.in_flight.clamp(1, MOST_WAITING);
        usize::try_from(self.memory_in_flight() / bytes.max(1)).unwrap_or(most).clamp(1, most)
    }

    /// Zeroed memory for a result of `len` elements; `None` if the allocation fails.
    pub fn memory_for_result<T: bytemuck::Pod>(&self, len: usize) -> Option<Vec<T>> {
        crate::memory::zeroed(len, self.huge_pages)
    }

    /// A number unique among the arrays opened so far.
    pub fn next_array(&self) -> u64 {
        self.arrays.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs `work` with a context of its own, which is reused afterwards.
    pub fn with_context<T>(&self, work: impl FnOnce(&mut Context) -> T) -> T {
        let kept = self.contexts.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut context = kept.unwrap_or_default();
        let result = work(&mut context);
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        // A burst of callers is no reason to keep the memory of all of them.
        if contexts.len() < 2 * self.pool.current_num_threads() {
            contexts.push(context);
        }
        result
    }

    /// Waits for memory, unless the caller is a worker: a worker's task is part of something
    /// already admitted, and if workers waited for each other, none might be left to free memory.
    pub fn admit(&self, bytes: u64) -> Option<Permit> {
        if self.on_worker() { None } else { Some(self.budget.acquire(bytes)) }
    }

    /// Whether the caller is a worker, which must not wait for the other workers.
    pub fn on_worker(&self) -> bool {
        self.pool.current_thread_index().is_some() || SHARING.get() == self.address()
    }

    /// Identifies this engine.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Distributes `count` numbered items of work over the workers and the caller, each with a
    /// context of its own.
    ///
    /// Called on a worker, which must not wait for the others, it does all the work itself.
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
        // A worker that waits inside an item (a source may use the pool's threads) picks up other
        // work. Another helper on top of that item could wait for it forever, so it leaves the work
        // to others.
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

    /// Closes the objects kept open for an array.
    pub fn close_array(&self, array: u64) {
        self.kept.remove_array(array);
    }

    /// The largest merged read worth making.
    pub fn max_merged_read(&self) -> u64 {
        MAX_MERGED_READ.min(self.budget.total() / 4).max(1)
    }
}

/// The threads of a pool, as the workers of a store's batches.
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
