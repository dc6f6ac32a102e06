//! The command line: `shardine <verb>`.
//!
//! One file per verb. Everything about formats is in the library; here are only arguments, files
//! and messages.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod append;
mod attrs;
mod bench;
mod cli;
mod command;
mod compact;
mod compare;
mod completions;
mod consolidate;
mod convert;
mod copy;
mod create;
mod data_set;
mod dataset;
mod demo;
mod failure;
mod help;
mod info;
mod interrupt;
mod kv;
mod levels;
mod ls;
mod migrate;
mod no_data_set;
mod ome;
mod opaque;
mod packing;
mod plan;
mod progress;
mod pyramid;
mod read;
mod region;
mod repack;
mod repair;
mod said;
mod sharding;
mod stale;
mod tree;
mod units;
mod update;
mod value_folders;
mod vectors;
mod verify;
mod volume;
mod write;

use std::process::ExitCode;

use clap::FromArgMatches;
use serde_json::json;

use cli::{Cli, Verb};
use failure::Failure;

/// A check has found damage, and has reported it.
const DAMAGED: u8 = 1;

/// A comparison has found a difference, and has told it.
const DIFFERENT: u8 = 1;

/// Any other failure.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    // Known before the arguments are parsed, so that a parse error is reported in the requested
    // form too.
    let json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    let parsed = help::command().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            // Help and version are output, not errors; nobody may be there to read them.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return refuse(&Failure::from_usage(&error), json),
    };
    if cli.machine.quiet {
        said::be_quiet();
    }
    // Jobs that a token stops say it when they have stopped.
    if let Some(words) = cli.verb.interrupted_words() {
        interrupt::will_say(words);
    }
    let result = match &cli.verb {
        Verb::Demo(args) => demo::run(args, &cli.machine),
        Verb::Info(args) => info::run(args, &cli.machine),
        Verb::Ls(args) => ls::run(args, &cli.machine),
        Verb::Plan(args) => plan::run(args, &cli.machine),
        Verb::Create(args) => create::run(args, &cli.machine),
        Verb::Read(args) => read::run(args, &cli.machine),
        Verb::Write(args) => write::run(args, &cli.machine),
        Verb::Verify(args) => verify::run(args, &cli.machine),
        Verb::Append(args) => append::run(args, &cli.machine),
        Verb::Repair(args) => repair::run(args, &cli.machine),
        Verb::Compact(args) => compact::run(args, &cli.machine),
        Verb::Compare(args) => compare::run(args, &cli.machine),
        Verb::Consolidate(args) => consolidate::run(args, &cli.machine),
        Verb::Convert(args) => convert::run(args, &cli.machine),
        Verb::Copy(args) => copy::run(args, &cli.machine),
        Verb::Shard(args) => repack::shard(args, &cli.machine),
        Verb::Unshard(args) => repack::unshard(args, &cli.machine),
        Verb::Reshard(args) => repack::reshard(args, &cli.machine),
        Verb::Vectors(args) => vectors::run(args, &cli.machine),
        Verb::Attrs(args) => attrs::run(args, &cli.machine),
        Verb::Migrate(args) => migrate::run(args, &cli.machine),
        Verb::Pyramid(args) => pyramid::run(args, &cli.machine),
        Verb::Kv(args) => kv::run(args, &cli.machine),
        Verb::Bench(args) => bench::run(args, &cli.machine),
        Verb::Completions(args) => completions::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Do not leave unfinished uploads behind.
            shardine::jobs::abort_unfinished_uploads(interrupt::PATIENCE);
            let next = cli.verb.resumed_by();
            match failure {
                Failure::Interrupted => interrupted(next, json),
                failure => refuse(&failure, json),
            }
        }
    }
}

/// Says that Ctrl-C has stopped a job, and what comes next.
fn interrupted(next: &str, json: bool) -> ExitCode {
    match json {
        true => eprintln!("{}", json!({ "error": "interrupted", "hint": next })),
        false => eprintln!("interrupted; {next}"),
    }
    ExitCode::from(interrupt::INTERRUPTED)
}

/// Prints the reason to standard error: one line and at most one more with what to do, or one line
/// of JSON.
fn refuse(failure: &Failure, json: bool) -> ExitCode {
    let tell = |message: &str, hint: Option<&str>| match (json, hint) {
        (true, hint) => eprintln!("{}", json!({ "error": message, "hint": hint })),
        (false, None) => eprintln!("error: {message}"),
        (false, Some(hint)) => eprintln!("error: {message}\nhint: {hint}"),
    };
    match failure {
        Failure::NobodyReads => ExitCode::SUCCESS,
        Failure::Damage => ExitCode::from(DAMAGED),
        Failure::Differs => ExitCode::from(DIFFERENT),
        Failure::Interrupted => interrupted(cli::RESUME, json),
        Failure::Told { message, hint } => {
            tell(message, hint.as_deref());
            ExitCode::from(FAILED)
        }
    }
}
