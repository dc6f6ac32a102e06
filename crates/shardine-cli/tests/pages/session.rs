//! Commands run one after the other, by one bash in one fresh folder.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::page::Page;

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    /// What it printed, to standard output and standard error, in this order of lines.
    pub output: Vec<String>,
    pub status: i32,
}

/// Ends the output of each command, before its status.
const MARK: &str = "=== shardine page ===";

/// Runs all commands of a page.
pub fn run(page: &Page) -> Vec<Ran> {
    let folder = tempfile::tempdir().unwrap();
    // Not in the folder of the session, where a reader has no such files.
    let beside = tempfile::tempdir().unwrap();
    let script = beside.path().join("session.sh");
    let mut lines = vec!["exec 2>&1".to_owned()];
    for shown in &page.commands {
        lines.push(shown.command.clone());
        // Keeps `$?` for the next command.
        lines.push(format!("_status=$?; printf '\\n{MARK} %d\\n' $_status; (exit $_status)"));
    }
    std::fs::write(&script, lines.join("\n") + "\n").unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_shardine"));
    let mut path = program.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["--noprofile", "--norc"])
        .arg(&script)
        .current_dir(folder.path())
        .env("PATH", path)
        .env("LC_ALL", "C.UTF-8")
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let ran = split(&text);
    let next = page.commands.get(ran.len()).map(|shown| shown.command.as_str());
    assert_eq!(next, None, "the session ended in this command, after\n{text}");
    ran
}

fn split(text: &str) -> Vec<Ran> {
    let mark = format!("\n{MARK} ");
    let mut rest = text;
    let mut ran = Vec::new();
    while let Some((output, after)) = rest.split_once(&mark) {
        let (status, after) = after.split_once('\n').unwrap_or((after, ""));
        ran.push(Ran {
            output: output.lines().map(str::to_owned).collect(),
            status: status.parse().unwrap(),
        });
        rest = after;
    }
    ran
}

#[cfg(test)]
fn session(block: &str) -> Vec<Ran> {
    run(&Page::parse(&format!("```console\n{block}\n```\n")).unwrap())
}

#[test]
fn a_session_keeps_its_folder_its_variables_and_its_status() {
    let ran = session("$ x=5; echo a > f\n$ cat f; echo $x\n$ echo err >&2; false\n$ echo $?");
    let outputs: Vec<String> = ran.iter().map(|ran| ran.output.join("|")).collect();
    assert_eq!(outputs, ["", "a|5", "err", "1"]);
    let statuses: Vec<i32> = ran.iter().map(|ran| ran.status).collect();
    assert_eq!(statuses, [0, 0, 1, 0]);
}

#[test]
fn output_without_a_last_newline_is_kept_apart() {
    let ran = session("$ printf 'a\\n\\n'\n$ printf b");
    assert_eq!(ran[0].output, ["a", ""]);
    assert_eq!(ran[1].output, ["b"]);
}

#[test]
fn the_tested_program_comes_first() {
    let ran = session("$ command -v shardine");
    assert_eq!(ran[0].output, [env!("CARGO_BIN_EXE_shardine")]);
}

#[test]
#[should_panic(expected = "the session ended in this command")]
fn a_session_that_ends_early_is_noticed() {
    session("$ exit 0\n$ echo never");
}
