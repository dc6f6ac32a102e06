//! Threads that wait for work, each with buffers of its own.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use super::coder::Coder;
use crate::job::Job;

type Work = dyn Fn(&mut Coder) + Sync;

/// A piece of work that every member does once.
struct Call {
    work: *const Work,
}

// SAFETY: the work is `Sync`, and `Crew::run` keeps it alive until all members are done with it.
unsafe impl Send for Call {}

#[derive(Default)]
struct State {
    call: Option<Call>,
    /// Counts calls, so that no member does one twice.
    number: u64,
    busy: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    done: Condvar,
}

/// The calling thread and its helpers.
pub struct Crew {
    shared: Arc<Shared>,
    helpers: Vec<thread::JoinHandle<()>>,
    own: Coder,
}

impl Crew {
    pub fn new(job: &Job) -> Self {
        let shared = Arc::new(Shared::default());
        let helpers = (1..job.threads).map(|_| {
            let shared = Arc::clone(&shared);
            let mut coder = Coder::new(job);
            thread::spawn(move || help(&shared, &mut coder))
        });
        Self { helpers: helpers.collect(), shared, own: Coder::new(job) }
    }

    /// The calling thread's own buffers, for work that is not worth sharing.
    pub fn own(&mut self) -> &mut Coder {
        &mut self.own
    }

    /// Has every member do the work, the caller too, and waits for all.
    pub fn run(&mut self, work: &(dyn Fn(&mut Coder) + Sync)) {
        // SAFETY: only the lifetime is taken away; this function returns after the last use.
        let kept: &'static Work = unsafe { std::mem::transmute(work) };
        {
            let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.call = Some(Call { work: kept });
            state.number += 1;
            state.busy = self.helpers.len();
        }
        self.shared.wake.notify_all();
        work(&mut self.own);
        let state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.shared.done.wait_while(state, |state| state.busy > 0));
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.wake.notify_all();
        for helper in self.helpers.drain(..) {
            drop(helper.join());
        }
    }
}

fn help(shared: &Shared, coder: &mut Coder) {
    let mut seen = 0;
    loop {
        let state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |state: &mut State| state.number == seen && !state.closed;
        let Ok(state) = shared.wake.wait_while(state, waiting) else { return };
        let Some(Call { work }) = state.call.as_ref().filter(|_| !state.closed) else { return };
        let work = *work;
        seen = state.number;
        drop(state);
        // SAFETY: `Crew::run` waits until `busy` is zero before the work can go away.
        unsafe { (*work)(coder) };
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy -= 1;
        drop(state);
        shared.done.notify_one();
    }
}
