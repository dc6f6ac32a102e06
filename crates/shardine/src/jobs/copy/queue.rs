//! Work that makes more work, shared by threads.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::Error;

/// With fewer waiting tasks than this, more are looked for. Bounds how far discovery runs ahead.
const LOW: usize = 256;

/// What a worker has to do.
#[derive(Debug)]
pub(super) enum Work<B, T> {
    /// Look for more tasks.
    Expand(B),
    /// Do this task.
    Do(T),
}

/// What is waiting: branches whose tasks have yet to be found, and tasks.
///
/// Branches are expanded only when few tasks wait, the last found first, so that what waits is
/// proportional to the depth of the tree and the width of one branch, not to the whole.
#[derive(Debug)]
pub(super) struct Queue<B, T> {
    state: Mutex<State<B, T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<B, T> {
    branches: Vec<B>,
    tasks: VecDeque<T>,
    /// Workers that may still add something.
    busy: usize,
    /// The first error, after which nothing more is handed out.
    error: Option<Error>,
}

/// What a worker gets.
enum Taken<B, T> {
    Work(Work<B, T>),
    /// Others may still add something.
    Later,
    End,
}

/// A worker that is busy. If it panics, the others must not wait for it.
struct Busy<'a, B: Send, T: Send>(&'a Queue<B, T>);

impl<B: Send, T: Send> Drop for Busy<'_, B, T> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.changed.notify_all();
    }
}

/// One of the threads that process a queue.
pub(super) trait Worker<B, T> {
    fn work(&mut self, work: Work<B, T>) -> Result<(), Error>;

    /// Called when there is nothing to do at the moment: do what was deferred.
    fn idle(&mut self) -> Result<(), Error>;
}

impl<B: Send, T: Send> Queue<B, T> {
    pub fn new(branches: Vec<B>, tasks: Vec<T>) -> Self {
        let state = State { branches, tasks: tasks.into(), busy: 0, error: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<B, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds new branches and tasks.
    pub fn add(&self, branches: Vec<B>, tasks: Vec<T>) {
        let mut state = self.lock();
        state.branches.extend(branches);
        state.tasks.extend(tasks);
        drop(state);
        self.changed.notify_all();
    }

    /// Adds a task ahead of those that wait.
    pub fn add_first(&self, task: T) {
        self.lock().tasks.push_front(task);
        self.changed.notify_one();
    }

    /// The number of waiting tasks.
    pub fn waiting(&self) -> usize {
        self.lock().tasks.len()
    }

    /// Whether a worker has failed, so that continuing is pointless.
    pub fn has_failed(&self) -> bool {
        self.lock().error.is_some()
    }

    fn fail(&self, error: Error) {
        self.lock().error.get_or_insert(error);
        self.changed.notify_all();
    }

    fn take(&self, wait: bool) -> Taken<B, T> {
        let mut state = self.lock();
        loop {
            if state.error.is_some() {
                return Taken::End;
            }
            let work = match state.tasks.len() < LOW {
                true => state.branches.pop().map(Work::Expand),
                false => None,
            };
            if let Some(work) = work.or_else(|| state.tasks.pop_front().map(Work::Do)) {
                state.busy += 1;
                return Taken::Work(work);
            }
            if state.busy == 0 {
                return Taken::End;
            }
            if !wait {
                return Taken::Later;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn work_off(&self, worker: &mut impl Worker<B, T>) {
        let mut put_off = true;
        loop {
            match self.take(!put_off) {
                Taken::Work(work) => {
                    let busy = Busy(self);
                    if let Err(error) = worker.work(work) {
                        self.fail(error);
                    }
                    drop(busy);
                    put_off = true;
                }
                Taken::Later => {
                    put_off = false;
                    if let Err(error) = worker.idle() {
                        self.fail(error);
                    }
                }
                Taken::End => break,
            }
        }
        if !self.has_failed()
            && let Err(error) = worker.idle()
        {
            self.fail(error);
        }
    }

    /// Processes everything with this many threads, including the calling one; ends early with the
    /// first error.
    ///
    /// If the system cannot create more threads, the existing ones do the work.
    pub fn run<W: Worker<B, T>>(
        &self,
        threads: usize,
        worker: impl Fn() -> W + Sync,
    ) -> Result<(), Error> {
        std::thread::scope(|scope| {
            for _ in 1..threads {
                let name = std::thread::Builder::new().name("copy".to_owned());
                if name.spawn_scoped(scope, || self.work_off(&mut worker())).is_err() {
                    break;
                }
            }
            self.work_off(&mut worker());
        });
        self.lock().error.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use super::*;

    struct Count<'a> {
        queue: &'a Queue<u32, u32>,
        most: &'a AtomicUsize,
        sum: &'a AtomicU64,
        put_off: u64,
    }

    impl Worker<u32, u32> for Count<'_> {
        fn work(&mut self, work: Work<u32, u32>) -> Result<(), Error> {
            match work {
                Work::Expand(0) => self.queue.add(Vec::new(), vec![1; 100]),
                Work::Expand(depth) => self.queue.add(vec![depth - 1; 10], Vec::new()),
                Work::Do(n) => self.put_off += u64::from(n),
            }
            self.most.fetch_max(self.queue.waiting(), Ordering::Relaxed);
            Ok(())
        }

        fn idle(&mut self) -> Result<(), Error> {
            self.sum.fetch_add(std::mem::take(&mut self.put_off), Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn all_of_a_tree_is_done_and_little_of_it_waits() {
        let queue = Queue::new(vec![3], Vec::new());
        let (most, sum) = (AtomicUsize::new(0), AtomicU64::new(0));
        let worker = || Count { queue: &queue, most: &most, sum: &sum, put_off: 0 };
        queue.run(4, worker).unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 100_000);
        assert!(most.load(Ordering::Relaxed) <= LOW + 4 * 100);
    }
}
