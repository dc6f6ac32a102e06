//! Power failures at every step.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use shardine::{Engine, Strategy};

use crate::disk::{Disk, Image, Kept, Random, Step, image};
use crate::scene::{
    Allowed, Call, Deed, Run, ZSTD, calls, check, create, document, engine, exactly, folder,
    nested, record,
};

/// Examines what failures at every step of a run leave.
struct Failures {
    engine: Arc<Engine>,
    random: Random,
    /// Random states for each step.
    states: u64,
    seen: HashSet<u64>,
    strategy: Strategy,
    /// One in this many states with a journal is itself subjected to failures.
    deeper: u64,
    checked: usize,
    with_journal: usize,
}

impl Failures {
    fn new(strategy: Strategy, states: u64, deeper: u64) -> Self {
        Self {
            engine: engine(),
            random: Random(7),
            states,
            seen: HashSet::new(),
            strategy,
            deeper,
            checked: 0,
            with_journal: 0,
        }
    }

    /// Fails before each step, and after the last one.
    fn all(&mut self, run: &Run, depth: u32) -> Result<(), String> {
        let mut disk = Disk::new(&run.base);
        for at in 0..=run.log.len() {
            let epoch = run.epochs.iter().rev().find(|epoch| epoch.begin <= at).unwrap();
            let allowed = epoch.allowed(at);
            for kept in self.kept(disk.pending()) {
                let left = disk.fail(kept);
                self.one(&left, &allowed, depth).map_err(|error| {
                    let from = epoch.begin.saturating_sub(12).max(at.saturating_sub(25));
                    let steps: Vec<String> =
                        run.log[from..at].iter().map(|step| format!("{step:?}")).collect();
                    let steps = steps.join("\n  ");
                    format!(
                        "{error}\nafter {at} of {} steps with {kept:?} kept\n  {steps}",
                        run.log.len()
                    )
                })?;
            }
            if let Some(step) = run.log.get(at) {
                disk.apply(step);
            }
        }
        Ok(())
    }

    fn kept(&mut self, pending: usize) -> Vec<Kept> {
        let mut kept = vec![Kept::All];
        if pending > 0 {
            kept.extend([Kept::Nothing, Kept::Names, Kept::Bytes]);
            for i in 0..self.states {
                let block = [512, 64, 4096][i as usize % 3];
                kept.push(Kept::Some(self.random.next(1 << 31), block));
            }
        }
        kept
    }

    fn one(&mut self, left: &Image, allowed: &Allowed, depth: u32) -> Result<(), String> {
        let mut hasher = DefaultHasher::new();
        (left, allowed).hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            return Ok(());
        }
        self.checked += 1;
        let strategy = self.strategy;
        let mut noise = |start, shape| Call::noise(start, shape, strategy, &mut self.random);
        let (one, both) = (noise([9, 9], [5, 5]), noise([20, 0], [24, 20]));
        check(&self.engine, left, allowed, &[one.clone(), both.clone()])?;
        let journal = left.keys().any(|path| path.to_string_lossy().ends_with(".journal"));
        self.with_journal += usize::from(journal);
        if journal && depth > 0 && self.random.next(self.deeper) == 0 {
            let all = Call::noise([0, 0], [64, 32], strategy, &mut self.random);
            let nothing = Call::fill([0, 0], [64, 32], strategy);
            let deeds = match self.random.next(4) {
                0 => vec![Deed::Read, Deed::Write(both)],
                1 => vec![Deed::Write(both), Deed::Write(one)],
                2 => vec![Deed::Write(all), Deed::Write(one)],
                _ => vec![Deed::Write(nothing), Deed::Write(one)],
            };
            let run = record(&self.engine, left.clone(), allowed.clone(), &deeds, None)?;
            self.all(&run, depth - 1).map_err(|error| format!("{error}\nwhich came after"))?;
        }
        Ok(())
    }
}

fn any_failure_leaves_one_of_two_states(document: &str) {
    for strategy in [Strategy::InPlace, Strategy::Append, Strategy::Rewrite] {
        let mut failures = Failures::new(strategy, 4, 14);
        let folder = folder();
        create(&failures.engine, folder.path(), document);
        let deeds: Vec<Deed> =
            calls(strategy, &mut Random(3)).into_iter().map(Deed::Write).collect();
        let base = image(folder.path());
        let run = record(&failures.engine, base, exactly(&[0; 2048]), &deeds, None).unwrap();
        let started = std::time::Instant::now();
        let outcome = failures.all(&run, 1);
        println!(
            "{strategy}: {} steps, {} states, {} with a journal, {:?}",
            run.log.len(),
            failures.checked,
            failures.with_journal,
            started.elapsed()
        );
        if let Err(error) = outcome {
            panic!("{strategy}: {error}");
        }
    }
}

#[test]
fn any_failure_leaves_one_of_two_states_index_at_start() {
    any_failure_leaves_one_of_two_states(&document("", "start"));
}

#[test]
fn any_failure_leaves_one_of_two_states_index_at_end() {
    any_failure_leaves_one_of_two_states(&document("", "end"));
}

#[test]
fn any_failure_leaves_one_of_two_states_index_at_start_compressed() {
    any_failure_leaves_one_of_two_states(&document(ZSTD, "start"));
}

#[test]
fn any_failure_leaves_one_of_two_states_index_at_end_compressed() {
    any_failure_leaves_one_of_two_states(&document(ZSTD, "end"));
}

/// An inner shard that is written beyond the end also ends in an index, which is not that of the
/// shard.
#[test]
fn any_failure_leaves_one_of_two_states_nested() {
    any_failure_leaves_one_of_two_states(&nested("start"));
    any_failure_leaves_one_of_two_states(&nested("end"));
}

/// After a failed sync the kernel treats what it could not write as written. Later code must not
/// believe that.
#[test]
fn a_power_failure_after_a_failed_sync_leaves_one_of_two_states() {
    for location in ["start", "end"] {
        for strategy in [Strategy::InPlace, Strategy::Append] {
            let mut failures = Failures::new(strategy, 2, 14);
            let engine = Arc::clone(&failures.engine);
            let folder = folder();
            let array = create(&engine, folder.path(), &document("", location));
            let mut model = vec![0; 2048];
            for call in &calls(strategy, &mut Random(11))[..8] {
                let base = image(folder.path());
                let deeds = [Deed::Write(call.clone())];
                let record =
                    |fails| record(&engine, base.clone(), exactly(&model), &deeds, fails).unwrap();
                for at in 0..record(None).log.len() {
                    let run = record(Some(at));
                    if matches!(run.log.get(at), Some(Step::SyncFailed(_)))
                        && let Err(error) = failures.all(&run, 0)
                    {
                        panic!("{location} {strategy}: {error}");
                    }
                }
                call.write(&array).unwrap();
                call.apply(&mut model);
            }
        }
    }
}
