//! `cargo xtask fuzz`: runs every fuzz target for a while, with a line of results for each.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::shell::{Attempt, Cmd, Failure, Result, root, target_dir};
use crate::{usage, value};

/// What the caller asked for.
struct Options {
    seconds: u32,
    targets: Vec<String>,
    asan: bool,
}

/// What one target did.
#[derive(Default)]
struct Outcome {
    executions: u64,
    coverage: u64,
    /// The file that makes the target fail, if libFuzzer named one.
    reproducer: Option<String>,
    failed: bool,
}

pub fn main(args: &[String]) -> Result {
    let known = targets()?;
    let mut options = Options { seconds: 120, targets: Vec::new(), asan: false };
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--seconds" => options.seconds = value(option, &mut rest)?,
            "--target" => options.targets.push(value(option, &mut rest)?),
            "--asan" => options.asan = true,
            "--seed-corpus" => return write_seeds(),
            "--list" => {
                known.iter().for_each(|target| println!("{target}"));
                return Ok(());
            }
            _ => return Err(usage(format!("fuzz does not take \"{option}\""))),
        }
    }
    if let Some(name) = options.targets.iter().find(|name| !known.contains(name)) {
        return Err(Failure::new(format!(
            "no fuzz target \"{name}\"; there are: {}",
            known.join(", ")
        )));
    }
    if options.targets.is_empty() {
        options.targets = known;
    }
    ensure_cargo_fuzz()?;
    write_seeds()?;
    let mut findings = Vec::new();
    let mut results = Vec::new();
    for target in &options.targets {
        let start = Instant::now();
        let outcome = run(target, &options)?;
        results.push(line(target, &outcome, start.elapsed()));
        if outcome.failed {
            findings.push((target, outcome.reproducer));
        }
    }
    println!("\n{:16} {:>12} {:>9} {:>8}  result", "target", "executions", "coverage", "time");
    results.iter().for_each(|line| println!("{line}"));
    if findings.is_empty() {
        return Ok(());
    }
    println!();
    for (target, reproducer) in &findings {
        match reproducer {
            Some(path) => {
                println!(
                    "{target}: to see it again:\n  {}",
                    cargo_fuzz("run", target, &options).arg(path)
                )
            }
            None => println!("{target}: failed without an input; see the log above"),
        }
    }
    Err(Failure::new(format!("{} of {} targets failed", findings.len(), options.targets.len())))
}

fn line(target: &str, outcome: &Outcome, time: Duration) -> String {
    let result = match (&outcome.failed, &outcome.reproducer) {
        (false, _) => "ok".to_owned(),
        (true, Some(path)) => format!("FAILED: {path}"),
        (true, None) => "FAILED".to_owned(),
    };
    format!(
        "{target:16} {:>12} {:>9} {:>6} s  {result}",
        outcome.executions,
        outcome.coverage,
        time.as_secs(),
    )
}

/// The targets, by the files that define them.
fn targets() -> Result<Vec<String>> {
    let dir = root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir).attempt(dir.display())? {
        let path = entry.attempt(dir.display())?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(stem) = path.file_stem()
        {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Where cargo-fuzz is installed if the machine has none: nothing outside the repository changes.
fn tools() -> PathBuf {
    target_dir().join("tools")
}

fn ensure_cargo_fuzz() -> Result {
    if Cmd::new("cargo-fuzz").arg("--version").succeeds()
        || Cmd::new(tools().join("bin/cargo-fuzz")).arg("--version").succeeds()
    {
        return Ok(());
    }
    println!("cargo-fuzz is not installed; building it under {}", tools().display());
    Cmd::cargo("install cargo-fuzz --version ^0.13 --locked --root").arg(tools()).run()
}

/// `cargo fuzz build` or `cargo fuzz run` for one target.
///
/// Coverage instrumentation works on a stable compiler. The sanitizer does not, unless the compiler
/// is told to allow unstable options.
fn cargo_fuzz(action: &str, target: &str, options: &Options) -> Cmd {
    let local = tools().join("bin/cargo-fuzz");
    let cmd = Cmd::new(if local.exists() { local.as_path() } else { Path::new("cargo-fuzz") });
    let cmd = if options.asan { cmd.env("RUSTC_BOOTSTRAP", "1") } else { cmd };
    let sanitizer = if options.asan { "address" } else { "none" };
    cmd.args([action, "--fuzz-dir", "fuzz", "--sanitizer", sanitizer, target])
}

/// Runs one target for its time, showing its output.
fn run(target: &str, options: &Options) -> Result<Outcome> {
    let fuzz = root().join("fuzz");
    let corpus = fuzz.join("corpus").join(target);
    let artifacts = fuzz.join("artifacts").join(target);
    for dir in [&corpus, &artifacts] {
        fs::create_dir_all(dir).attempt(dir.display())?;
    }
    println!("\n=== fuzz {target}");
    cargo_fuzz("build", target, options).run()?;
    let mut cmd = cargo_fuzz("run", target, options).arg(&corpus);
    let seeds = seeds().join(target);
    if seeds.is_dir() {
        cmd = cmd.arg(seeds);
    }
    // A decoder that trusts a hostile length shows up as memory or time. The sanitizer's own
    // bookkeeping counts as memory too.
    let memory = if options.asan { 2560 } else { 1024 };
    cmd = cmd.arg("--").args([
        format!("-max_total_time={}", options.seconds),
        format!("-rss_limit_mb={memory}"),
        "-malloc_limit_mb=512".to_owned(),
        "-timeout=10".to_owned(),
        "-print_final_stats=1".to_owned(),
        "-max_len=65536".to_owned(),
    ]);
    let dictionary = fuzz.join("dictionaries").join(format!("{target}.dict"));
    if dictionary.exists() {
        cmd = cmd.arg(format!("-dict={}", dictionary.display()));
    }
    println!("$ {cmd}");
    let mut child = cmd
        .command()
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .attempt(format_args!("cannot start `{cmd}`"))?;
    let mut outcome = Outcome::default();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n') {
            let line = line.attempt("reading what the target says")?;
            let line = String::from_utf8_lossy(&line);
            outcome.hear(&line);
            if worth_showing(&line) {
                // The reader of our output may be gone; the run continues.
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
    }
    let status = child.wait().attempt("waiting for the target")?;
    outcome.failed = !status.success();
    Ok(outcome)
}

/// libFuzzer reports each new input and each string that helped; only the rest is interesting.
fn worth_showing(line: &str) -> bool {
    !line.starts_with(['#', '"', '\t']) && !line.trim().is_empty()
}

impl Outcome {
    /// Processes one line of libFuzzer's output.
    fn hear(&mut self, line: &str) {
        if let Some(at) = line.find("cov: ") {
            self.coverage = number(&line[at + 5..]).unwrap_or(self.coverage);
        }
        if let Some(rest) = line.strip_prefix('#') {
            self.executions = number(rest).unwrap_or(self.executions);
        }
        if let Some(rest) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = number(rest.trim_start()).unwrap_or(self.executions);
        }
        if let Some((_, path)) = line.split_once("Test unit written to ") {
            self.reproducer = Some(path.trim().to_owned());
        }
    }
}

/// The number at the start of `text`.
fn number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn seeds() -> PathBuf {
    target_dir().join("fuzz-seeds")
}

/// Writes the inputs that runs start from, created with the encoders of this very tree.
fn write_seeds() -> Result {
    Cmd::cargo("run --quiet --package shardine-fuzz --example seeds --").arg(seeds()).run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_report_and_the_reproducer_are_kept() {
        let mut outcome = Outcome::default();
        outcome.hear("#2\tINITED cov: 11 ft: 12 corp: 1/1b exec/s: 0 rss: 30Mb");
        outcome.hear("#4194304\tpulse  cov: 512 ft: 2000 corp: 80/9Kb lim: 4096 exec/s: 1");
        assert_eq!((outcome.executions, outcome.coverage), (4_194_304, 512));
        outcome.hear("artifact_prefix='x/'; Test unit written to x/crash-da39a3");
        assert_eq!(outcome.reproducer.as_deref(), Some("x/crash-da39a3"));
        outcome.hear("stat::number_of_executed_units: 5000000");
        assert_eq!(outcome.executions, 5_000_000);
    }
}
