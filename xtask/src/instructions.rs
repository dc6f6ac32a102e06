//! Instruction counts of hot paths under valgrind: the same on a busy machine as on a quiet one.
//!
//! They are compared with those in `docs/bench/instructions.json`, so that a slower path is noticed
//! on any machine. The cases are in `peers/bench-instructions`, a workspace of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Attempt, Cmd, Failure, Result, root, target_dir};
use crate::{debian, usage};

/// The version of the runner must be that of the library in `peers/bench-instructions`.
const GUNGRAUN: &str = "0.20.0";

/// The numbers to compare with.
const STORED: &str = "docs/bench/instructions.json";

/// By how many percent a case may exceed its number.
const TOLERANCE: u64 = 3;

/// Instructions by case.
type Counts = BTreeMap<String, u64>;

/// What was counted, and with what.
#[derive(Debug, Default, PartialEq)]
struct Record {
    rustc: String,
    valgrind: String,
    counts: Counts,
}

pub fn main(args: &[String]) -> Result {
    let mut accept = false;
    for option in args {
        match option.as_str() {
            "--instructions" => {}
            "--accept" => accept = true,
            _ => return Err(usage(format!("bench --instructions does not take \"{option}\""))),
        }
    }
    let valgrind = ensure_valgrind()?;
    let runner = ensure_runner()?;
    let home = target_dir().join("instructions");
    if home.exists() {
        // A case that has been removed must not be found again.
        fs::remove_dir_all(&home).attempt(format_args!("cannot remove {}", home.display()))?;
    }
    Cmd::cargo("bench --manifest-path peers/bench-instructions/Cargo.toml")
        .env("GUNGRAUN_RUNNER", &runner)
        .env("GUNGRAUN_HOME", &home)
        .run()?;
    let mut counts = Counts::new();
    collect(&home, &mut counts)?;
    if counts.is_empty() {
        return Err(Failure::new(format!("nothing was counted under {}", home.display())));
    }
    let now = Record { rustc: version_of("rustc")?, valgrind, counts };

    let path = root().join(STORED);
    let stored = match fs::read_to_string(&path) {
        Ok(text) => Record::parse(&text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Record::default(),
        Err(error) => return Err(error).attempt(STORED),
    };
    println!("\n{}", table(&now.counts, &stored.counts));
    for note in notes(&now, &stored) {
        println!("{note}");
    }
    if accept {
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, now.to_json()))
            .attempt(format_args!("cannot write {STORED}"))?;
        println!("These numbers are in {STORED} now.");
        return Ok(());
    }
    let slower = slower(&now.counts, &stored.counts);
    if slower.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{}: more than {TOLERANCE} % above {STORED}.\n\
         Find out why. If it is the price of something worth it, store the new numbers and commit them:\n  \
         cargo xtask bench --instructions --accept",
        slower.join(", ")
    )))
}

/// The version that a tool reports.
fn version_of(tool: &str) -> Result<String> {
    let output = Cmd::new(tool).arg("--version").output()?;
    if !output.status.success() {
        return Err(Failure::new(format!("{tool} does not tell its version")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Installs valgrind if that is possible without asking; returns its version.
fn ensure_valgrind() -> Result<String> {
    debian::ensure("valgrind", &["valgrind"], || version_of("valgrind").is_ok())?;
    version_of("valgrind")
}

/// Builds the program that runs each case under valgrind, unless it is there; returns its path.
fn ensure_runner() -> Result<PathBuf> {
    let tools = target_dir().join("tools");
    let runner = tools.join("bin/gungraun-runner");
    let installed = Cmd::new(&runner).arg("--version").output();
    if installed.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains(GUNGRAUN)) {
        return Ok(runner);
    }
    println!("gungraun-runner {GUNGRAUN} is not installed; building it under {}", tools.display());
    Cmd::cargo("install gungraun-runner --locked --force --version")
        .arg(format!("={GUNGRAUN}"))
        .arg("--root")
        .arg(&tools)
        .run()?;
    Ok(runner)
}

/// Adds up what callgrind wrote below a folder: one folder per case, one file per thread.
fn collect(folder: &Path, counts: &mut Counts) -> Result {
    let unreadable = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).attempt(unreadable())? {
        let path = entry.attempt(unreadable())?.path();
        if path.is_dir() {
            collect(&path, counts)?;
        } else if path.extension().is_some_and(|extension| extension == "out") {
            let case = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).attempt(path.display())?;
            let total = total(&text).ok_or_else(|| {
                Failure::new(format!("{} tells no number of instructions", path.display()))
            })?;
            *counts.entry(case).or_default() += total;
        }
    }
    Ok(())
}

/// The instruction count in a callgrind file.
fn total(text: &str) -> Option<u64> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()
    };
    if value("events:")? != "Ir" {
        return None;
    }
    value("totals:")?.parse().ok()
}

/// The cases that are too far above their numbers.
fn slower(now: &Counts, before: &Counts) -> Vec<String> {
    let too_far = |case: &str, now: u64| {
        let allowed = |before: u64| before.saturating_mul(100 + TOLERANCE);
        before.get(case).is_some_and(|&before| now.saturating_mul(100) > allowed(before))
    };
    now.iter().filter(|&(case, &now)| too_far(case, now)).map(|(case, _)| case.clone()).collect()
}

/// What else a reader of the table should know.
fn notes(now: &Record, stored: &Record) -> Vec<String> {
    let mut notes = Vec::new();
    if stored.counts.is_empty() {
        notes.push(format!("There are no numbers in {STORED} yet; --accept stores these."));
        return notes;
    }
    for (now, before) in [(&now.rustc, &stored.rustc), (&now.valgrind, &stored.valgrind)] {
        if now != before {
            notes.push(format!(
                "The stored numbers were made with {before}, these with {now}: that alone may change them."
            ));
        }
    }
    let names = |here: &Counts, there: &Counts| {
        let missing = here.keys().filter(|case| !there.contains_key(*case)).cloned();
        Some(missing.collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty())
    };
    if let Some(names) = names(&now.counts, &stored.counts) {
        notes.push(format!("Not compared with anything until --accept stores them: {names}."));
    }
    if let Some(names) = names(&stored.counts, &now.counts) {
        notes.push(format!("Stored, but no longer counted; --accept forgets them: {names}."));
    }
    let faster = slower(&stored.counts, &now.counts);
    if !faster.is_empty() {
        notes.push(format!("Faster; --accept makes sure that it stays: {}.", faster.join(", ")));
    }
    notes
}

/// All cases side by side.
fn table(now: &Counts, before: &Counts) -> String {
    let cases: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    let width = cases.iter().map(|case| case.len()).max().unwrap_or(0).max(4);
    let mut out =
        format!("{:width$} {:>13} {:>13} {:>9}\n", "case", "instructions", "before", "change");
    for case in cases {
        let (now, before) = (now.get(case), before.get(case));
        let change = match (now, before) {
            (Some(&now), Some(&before)) if before > 0 => {
                format!("{:+.2} %", (now as f64 / before as f64 - 1.0) * 100.0)
            }
            (_, None) => "new".into(),
            _ => "gone".into(),
        };
        let (now, before) = (grouped(now), grouped(before));
        // Writing to a string does not fail.
        let _ = writeln!(out, "{case:width$} {now:>13} {before:>13} {change:>9}");
    }
    out
}

/// A number in groups of three digits; a dash for none.
fn grouped(number: Option<&u64>) -> String {
    let Some(number) = number else { return "-".into() };
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

impl Record {
    /// One name and its value per line, which [`parse`](Self::parse) relies on.
    fn to_json(&self) -> String {
        let counts = self.counts.iter().map(|(case, count)| format!("    \"{case}\": {count}"));
        format!(
            "{{\n  \"rustc\": \"{}\",\n  \"valgrind\": \"{}\",\n  \"instructions\": {{\n{}\n  }}\n}}\n",
            self.rustc,
            self.valgrind,
            counts.collect::<Vec<_>>().join(",\n")
        )
    }

    fn parse(text: &str) -> Result<Self> {
        let mut record = Self::default();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim().trim_end_matches(',');
            if matches!(line, "{" | "}" | "" | "\"instructions\": {") {
                continue;
            }
            record.take(line).ok_or_else(|| {
                let number = i + 1;
                Failure::new(format!("{STORED}:{number}: not a line that --accept writes: {line}"))
            })?;
        }
        Ok(record)
    }

    /// Parses one line of the stored form.
    fn take(&mut self, line: &str) -> Option<()> {
        let (name, value) = line.strip_prefix('"')?.split_once("\": ")?;
        let quoted = || Some(value.strip_prefix('"')?.strip_suffix('"')?.to_owned());
        match name {
            "rustc" => self.rustc = quoted()?,
            "valgrind" => self.valgrind = quoted()?,
            case => {
                self.counts.insert(case.to_owned(), value.parse().ok()?);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(cases: &[(&str, u64)]) -> Counts {
        cases.iter().map(|&(case, count)| (case.to_owned(), count)).collect()
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let record = Record {
            rustc: "rustc 1.91.0 (abc 2025-10-28)".into(),
            valgrind: "valgrind-3.19.0".into(),
            counts: counts(&[("read.chunk", 12_345), ("write.shard", 6)]),
        };
        assert_eq!(Record::parse(&record.to_json()).unwrap(), record);
    }

    #[test]
    fn a_line_that_was_edited_by_hand_is_named() {
        let error = Record::parse("{\n  \"instructions\": {\n    \"a\": many\n  }\n}\n");
        assert!(error.unwrap_err().to_string().contains("instructions.json:3"));
    }

    #[test]
    fn only_what_is_above_the_tolerance_is_slower() {
        let before = counts(&[("a", 1000), ("b", 1000), ("c", 1000), ("gone", 1)]);
        let now = counts(&[("a", 1030), ("b", 1031), ("c", 10), ("new", 5)]);
        assert_eq!(slower(&now, &before), ["b"]);
    }

    #[test]
    fn cases_that_came_or_went_are_told() {
        let record = |cases| Record { counts: counts(cases), ..Record::default() };
        let notes = notes(&record(&[("a", 1), ("new", 1)]), &record(&[("a", 1), ("old", 1)]));
        assert_eq!(notes.len(), 2);
        assert!(notes[0].ends_with("new.") && notes[1].ends_with("old."));
    }

    #[test]
    fn another_event_is_not_taken_for_instructions() {
        assert_eq!(total("events: Ir\nfn=x\n1 2\ntotals: 77\n"), Some(77));
        assert_eq!(total("events: Dr Ir\ntotals: 77 1\n"), None);
    }

    #[test]
    fn numbers_are_read_in_groups() {
        assert_eq!(grouped(Some(&1_234_567)), "1 234 567");
        assert_eq!(grouped(Some(&123)), "123");
        assert_eq!(grouped(None), "-");
    }
}
