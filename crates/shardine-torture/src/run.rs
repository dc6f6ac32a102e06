//! The parent of everything: runs as many kills and duels as requested.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::duel::Duel;
use crate::kill::{Kill, When};
use crate::options::Options;
use crate::peer::Peer;
use crate::plan::{Random, Scenario};
use crate::setup::Setup;
use crate::{Result, stop};

/// One kill in this many is on disk, not in memory.
const ON_DISK: usize = 25;

/// After this many violations nothing new is learned.
const ENOUGH: usize = 10;

/// Something to do.
enum Task {
    /// A writer that is not killed, to learn its steps.
    Count(Kill),
    Kill(Kill),
    Duel(Duel),
    Stop,
}

struct Run {
    python: Option<PathBuf>,
    tasks: Mutex<VecDeque<Task>>,
    /// The kills that become known by counting.
    kills: Mutex<Vec<Kill>>,
    counted: AtomicUsize,
    killed: AtomicUsize,
    duels: AtomicUsize,
    violations: Mutex<Vec<String>>,
}

pub fn main(options: &Options) -> Result {
    let started = Instant::now();
    let minutes: Option<f64> = options.get("minutes")?;
    let runs: Option<usize> = options.get("runs")?;
    let seed: u64 = options.get("seed")?.unwrap_or(1);
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.get("jobs")?.unwrap_or(jobs).max(1);
    if minutes.is_none() == runs.is_none() {
        return Err("either --minutes or --runs".to_owned());
    }
    let run = Run {
        python: options.get("python")?,
        tasks: Mutex::default(),
        kills: Mutex::default(),
        counted: AtomicUsize::new(0),
        killed: AtomicUsize::new(0),
        duels: AtomicUsize::new(0),
        violations: Mutex::default(),
    };
    let mut random = Random::new(seed);
    run.perform(jobs, writers(seed).into_iter().map(Task::Count).collect(), None);
    let mut kills = std::mem::take(&mut *lock(&run.kills));
    let steps = kills.len();
    shuffle(&mut kills, &mut random);
    kills.truncate(runs.unwrap_or(usize::MAX));
    let mut tasks: Vec<Task> = vec![Task::Stop];
    let small = runs.is_some();
    tasks.extend(Duel::all(seed, if small { 60 } else { 1500 }).into_iter().map(Task::Duel));
    tasks.extend(kills.into_iter().map(Task::Kill));
    for i in 0..runs.unwrap_or(400) / 3 {
        tasks.push(Task::Kill(Kill::at_random(seed.wrapping_mul(1 << 20).wrapping_add(i as u64))));
    }
    let end = minutes.map(|minutes| started + Duration::from_secs_f64(minutes * 60.0));
    run.perform(jobs, tasks, end);
    let mut round = seed;
    while end.is_some_and(|end| Instant::now() < end) && lock(&run.violations).len() < ENOUGH {
        round = round.wrapping_add(1 << 32);
        let mut tasks: Vec<Task> =
            (0..500).map(|i| Task::Kill(Kill::at_random(round.wrapping_add(i)))).collect();
        tasks.extend(Duel::all(round, 1500).into_iter().map(Task::Duel));
        run.perform(jobs, tasks, end);
    }
    run.report(steps, started)
}

/// Each writer that is killed at its steps.
fn writers(seed: u64) -> Vec<Kill> {
    let mut all = Vec::new();
    for setup in Setup::all() {
        for scenario in Scenario::STEPPED {
            // Megabytes of noise are the same with or without a codec.
            if !(scenario == Scenario::Flood && setup.zstd) {
                all.push(Kill { setup, scenario, seed, when: When::Never, torn: false });
            }
        }
    }
    all
}

impl Run {
    /// Performs the tasks, several in parallel, each worker with its own reader of another
    /// implementation.
    fn perform(&self, jobs: usize, tasks: Vec<Task>, end: Option<Instant>) {
        lock(&self.tasks).extend(tasks);
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    let mut peer = match self.python.as_deref().map(Peer::start).transpose() {
                        Ok(peer) => peer,
                        Err(why) => return self.violated(why),
                    };
                    while let Some(task) = self.next(end) {
                        if let Err(why) = self.one(task, peer.as_mut()) {
                            self.violated(why);
                        }
                    }
                });
            }
        });
        lock(&self.tasks).clear();
    }

    fn next(&self, end: Option<Instant>) -> Option<Task> {
        let over = end.is_some_and(|end| Instant::now() > end);
        if over || lock(&self.violations).len() >= ENOUGH {
            return None;
        }
        lock(&self.tasks).pop_front()
    }

    fn one(&self, task: Task, peer: Option<&mut Peer>) -> Result {
        match task {
            Task::Count(kill) => {
                let steps = kill.run(None, false)?.unwrap_or_default();
                self.counted.fetch_add(1, Ordering::Relaxed);
                lock(&self.kills).extend(kill.at_every_step(&steps));
                Ok(())
            }
            Task::Kill(kill) => {
                let n = self.killed.fetch_add(1, Ordering::Relaxed);
                kill.run(peer, n % ON_DISK == ON_DISK - 1).map(|_| ())
            }
            Task::Duel(duel) => {
                self.duels.fetch_add(1, Ordering::Relaxed);
                duel.run()
            }
            Task::Stop => stop::run(),
        }
    }

    fn violated(&self, why: String) {
        println!("VIOLATION: {why}");
        lock(&self.violations).push(why);
    }

    fn report(&self, steps: usize, started: Instant) -> Result {
        let violations = lock(&self.violations).len();
        println!(
            "{} writers with {steps} ways to be killed at a step; {} kills, {} duels in {:.0} s; {violations} violations",
            self.counted.load(Ordering::Relaxed),
            self.killed.load(Ordering::Relaxed),
            self.duels.load(Ordering::Relaxed),
            started.elapsed().as_secs_f64(),
        );
        match violations {
            0 => Ok(()),
            n => Err(format!("{n} violations, told above; what they left was kept")),
        }
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for i in (1..items.len()).rev() {
        items.swap(i, random.below(i + 1));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
