//! Kills writers of shards at every step and at random times, lets others race, and examines what
//! is left.
//!
//! `run` is the parent and judges; every other command is a child that it starts, and can be
//! started by hand to reproduce a violation.

mod duel;
mod judge;
mod kill;
mod mix;
mod options;
mod peer;
mod plan;
mod process;
mod run;
mod setup;
mod slices;
mod stop;
mod work;

use std::process::ExitCode;

use options::Options;

/// An error is a message for a human.
pub type Result<T = ()> = std::result::Result<T, String>;

const USAGE: &str = "\
shardine-torture <command>

  run (--minutes M | --runs N) [--seed S] [--jobs N] [--python PATH]
      Kills writers at every step (with --runs at some N of them) and at random times, runs duels, and checks what is
      left. --python names an interpreter with zarr-python, which then has to read the same.

  work --folder F --log F --setup STRATEGY,INDEX,CODEC --scenario NAME --seed S
       [--plain] [--die-at N [--midway] | --stop-at N]
      One writer. It dies before its N-th step on the disk, or in the middle of it, or stops there.

  duel [--updates N] [--writers in-place,mixed,…] [--index I] [--codec C] [--seed S] [--vanish] [--kills N]
      Writers in several processes and threads on one shard, and readers beside them.

  mix --shardine PATH [--minutes M] [--seed S] [--python PATH]
      Readers, writers, appenders, verify, repair and copy beside a loop of jobs in place, all by the command line at
      PATH. zarr-python reads beside them, and what it gets is counted.

  stop
      A writer that is stopped while it holds its lock, and writers of this shard and of another.
";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let done = Options::parse(words).and_then(|options| match command.as_str() {
        "run" => run::main(&options),
        "work" => work::main(&options),
        "duel" => duel::main(&options),
        "duel-writer" => duel::writer(&options),
        "duel-reader" => duel::reader(&options),
        "stop" => stop::main(&options),
        "mix" => mix::main(&options),
        _ => Err(format!("which command?\n\n{USAGE}")),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
