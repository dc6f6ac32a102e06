//! Distributes tasks over the workers.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use shardine_codec::Context;

use super::Engine;
use super::first_error::FirstError;
use crate::tuning::{SMALL_OBJECTS, STREAM};

impl Engine {
    /// Runs tasks on the workers until there are none left, or one fails.
    pub fn each_task<T: Send, E: Send>(
        &self,
        tasks: impl Iterator<Item = T> + Send,
        run: &(dyn Fn(T, &mut Context) -> Result<(), E> + Sync),
    ) -> Result<(), E> {
        let (tasks, first_error) = (Mutex::new(tasks), FirstError::default());
        let workers = self.threads();
        self.share(workers, workers, &|_, context| {
            while !first_error.is_set() {
                let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(task) = next else { break };
                if let Err(error) = run(task, context) {
                    first_error.set(error);
                }
            }
        });
        first_error.into_result()
    }

    /// Runs tasks that need this much memory each on the workers, as many in parallel as the budget
    /// allows.
    ///
    /// Called on a worker, which must not wait for the others, it runs all of them itself.
    pub fn each_admitted<T: Send, E: Send>(
        &self,
        memory: u64,
        mut tasks: impl Iterator<Item = T> + Send,
        run: &(dyn Fn(T) -> Result<(), E> + Sync),
    ) -> Result<(), E> {
        if self.on_worker() {
            return tasks.try_for_each(run);
        }
        let first_error = FirstError::default();
        self.pool.in_place_scope(|scope| {
            for task in tasks {
                let permit = self.admit(memory);
                if first_error.is_set() {
                    break;
                }
                let first_error = &first_error;
                scope.spawn(move |_| {
                    if let Err(error) = run(task) {
                        first_error.set(error);
                    }
                    drop(permit);
                });
            }
        });
        first_error.into_result()
    }

    /// Runs tasks that wait for a remote store and need this much memory each, up to `most` in
    /// parallel, each on a thread of its own that is not a worker.
    pub fn each_waiting<T: Send, E: Send>(
        &self,
        memory: u64,
        most: usize,
        tasks: impl Iterator<Item = T> + Send,
        run: &(dyn Fn(T) -> Result<(), E> + Sync),
    ) -> Result<(), E> {
        let mut tasks = tasks;
        if self.on_worker() {
            return tasks.try_for_each(run);
        }
        let affordable = (self.budget.total() / memory.max(1)).max(1) as usize;
        let mut first = tasks.by_ref().take(affordable.min(most)).collect::<VecDeque<_>>();
        // Threads are only started if there is something to do.
        let threads = first.len();
        let tasks = Mutex::new(std::iter::from_fn(move || first.pop_front()).chain(tasks));
        let first_error = FirstError::default();
        let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
        let run = || {
            while !first_error.is_set()
                && let Some(task) = next()
            {
                let _permit = (memory > 0).then(|| self.admit(memory));
                if let Err(error) = run(task) {
                    first_error.set(error);
                }
            }
        };
        on_threads(threads, &run);
        first_error.into_result()
    }

    /// Makes objects: small ones several in parallel, large ones one by one, with all workers on
    /// each.
    pub fn each_object<T: Send + Sync, E: Send>(
        &self,
        mut objects: impl Iterator<Item = T>,
        bytes: &dyn Fn(&T) -> u64,
        make: &(dyn Fn(&T) -> Result<(), E> + Sync),
    ) -> Result<(), E> {
        let mut next = objects.next();
        while let Some(first) = next.take() {
            if bytes(&first) > STREAM {
                make(&first)?;
                next = objects.next();
                continue;
            }
            let mut small = vec![first];
            for object in objects.by_ref() {
                if bytes(&object) > STREAM || small.len() == SMALL_OBJECTS {
                    next = Some(object);
                    break;
                }
                small.push(object);
            }
            self.each_task(small.iter(), &|object, _| make(object))?;
        }
        Ok(())
    }
}

/// Runs `work` on this many threads, including the caller's. They wait for a remote store and are
/// not workers.
pub fn on_threads(threads: usize, work: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let helper = std::thread::Builder::new().name("shardine-far".to_owned());
            // If no more threads can be started, the existing ones do the work.
            if helper.spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}
