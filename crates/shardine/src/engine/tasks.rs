//! Sharing tasks out among the workers.

use std::sync::{Mutex, PoisonError};

use shardine_codec::Context;

use super::Engine;
use super::first_error::FirstError;
use crate::Error;

/// Decoded bytes from which the chunks of one object are made in parallel, and not several objects.
pub(crate) const STREAM: u64 = 1 << 20;

/// Small objects that are made in parallel.
const TOGETHER: usize = 256;

impl Engine {
    /// Has the workers do tasks until there are none, or one fails.
    pub(crate) fn each_task<T: Send>(
        &self,
        tasks: impl Iterator<Item = T> + Send,
        run: &(dyn Fn(T, &mut Context) -> Result<(), Error> + Sync),
    ) -> Result<(), Error> {
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

    /// Has objects made: several small ones in parallel, and large ones one after the other, with all workers at each.
    pub(crate) fn each_object<T: Send + Sync>(
        &self,
        mut objects: impl Iterator<Item = T>,
        bytes: &dyn Fn(&T) -> u64,
        make: &(dyn Fn(&T) -> Result<(), Error> + Sync),
    ) -> Result<(), Error> {
        let mut next = objects.next();
        while let Some(first) = next.take() {
            if bytes(&first) > STREAM {
                make(&first)?;
                next = objects.next();
                continue;
            }
            let mut small = vec![first];
            for object in objects.by_ref() {
                if bytes(&object) > STREAM || small.len() == TOGETHER {
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
