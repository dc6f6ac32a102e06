//! A writer that is stopped while it holds its lock.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use shardine::{Strategy, WriteOptions};

use crate::options::Options;
use crate::plan::{Plan, Scenario, value};
use crate::process::{self, wait_until, words};
use crate::setup::{self, Setup, told};
use crate::{Result, kill};

/// Nobody should have to wait this long.
const SOON: Duration = Duration::from_secs(10);

/// How long to watch before concluding that someone is waiting.
const WHILE: Duration = Duration::from_millis(100);

pub fn main(_: &Options) -> Result {
    run()
}

pub fn run() -> Result {
    for strategy in [Strategy::Rewrite, Strategy::InPlace, Strategy::Append] {
        for index_at_end in [false, true] {
            let setup = Setup { strategy, index_at_end, zstd: false };
            stopped(&setup).map_err(|why| format!("{why}\n  with: stop ({setup})"))?;
        }
    }
    Ok(())
}

/// Stops a writer of the first shard at each of its steps.
fn stopped(setup: &Setup) -> Result {
    let (scenario, seed) = (Scenario::Existing, 1);
    let plan = Plan::new(setup, scenario, seed);
    let when = kill::When::Never;
    let whole = kill::Kill { setup: *setup, scenario, seed, when, torn: false };
    let steps = whole.run(None, false)?.unwrap_or_default();
    // The first of the updates is enough.
    let first = steps.len() / (plan.ops.len() - plan.prepared);
    for (step, letter) in steps.chars().take(first).enumerate() {
        let folder = process::folder(false)?;
        let (array, log) = (folder.path().join("array"), folder.path().join("log"));
        setup::create(&array, &plan.shape, setup, plan.len)?;
        let mut arguments = words(&format!(
            "work --setup {setup} --scenario {scenario} --seed {seed} --stop-at {step}"
        ));
        for (name, path) in [("--folder", &array), ("--log", &log)] {
            arguments.extend([name.to_owned(), path.display().to_string()]);
        }
        let mut child = process::start(&arguments)?;
        let outcome = beside(&child, &array, &plan);
        let _ = child.kill();
        let _ = child.wait();
        let blocked = outcome.map_err(|why| format!("stopped at step {step} ({letter}): {why}"))?;
        // It is dead: the writer that waited for it continues.
        if let Some(blocked) = blocked {
            blocked
                .recv_timeout(SOON)
                .map_err(|_| format!("killed at step {step}, it still keeps others waiting"))??;
        }
    }
    Ok(())
}

type Waiting = mpsc::Receiver<Result>;

/// Writes while another writer is stopped. Returns the writer that waits for it, if it holds the
/// lock.
fn beside(child: &Child, array: &Path, plan: &Plan) -> Result<Option<Waiting>> {
    if !wait_until(SOON, || is_stopped(child.id())) {
        return Err("it did not stop".to_owned());
    }
    for strategy in [Strategy::Rewrite, Strategy::InPlace] {
        update(array, plan, plan.shape.shard(), strategy)
            .recv_timeout(SOON)
            .map_err(|_| format!("a writer of another shard ({strategy}) waits for it"))??;
    }
    let same = update(array, plan, 0, Strategy::InPlace);
    match same.recv_timeout(WHILE) {
        Ok(done) => done.map(|()| None),
        Err(_) => Ok(Some(same)),
    }
}

/// Updates a chunk in a separate thread.
fn update(array: &Path, plan: &Plan, start: usize, strategy: Strategy) -> Waiting {
    let (tell, told_here) = mpsc::channel();
    let (array, chunk) = (array.to_owned(), plan.shape.chunk);
    thread::spawn(move || {
        let data: Vec<u32> = (start..start + chunk).map(|at| value(77, at)).collect();
        let options = WriteOptions::new().strategy(strategy);
        let done = setup::open(&array, 1).and_then(|array| {
            setup::write(&array, start, &data, &options).map_err(|e| told(&e))?;
            match setup::read(&array, start, chunk).map_err(|e| told(&e))? == data {
                true => Ok(()),
                false => Err("an update is not there after it returned".to_owned()),
            }
        });
        // The receiver may be gone.
        let _ = tell.send(done);
    });
    told_here
}

/// Whether the system reports a process as stopped.
fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}
