//! The command line tool, and how it is killed.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::trees::{assert_same, leftovers, tree};

pub fn shardine(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardine"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn run(arguments: &[&str]) -> Output {
    let output = shardine(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    output
}

/// Fails if a data set is damaged.
pub fn verify(root: &Path) {
    let output =
        shardine(&["verify", root.to_str().unwrap(), "--decode", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(output.status.code(), Some(0));
}

/// Bytes that do not repeat soon.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed | 1);
    (0..len).map(|_| (random.next() >> 32) as u8 | 1).collect()
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// A command that is killed again and again.
pub struct Victim<'a> {
    pub arguments: &'a [&'a str],
    /// The folder with everything that it may change.
    pub scene: &'a Path,
    /// Puts the scene in its state before the command.
    pub prepare: &'a dyn Fn(),
    /// What must hold after a kill. Returns whether this one counts.
    pub check: &'a dyn Fn(&str) -> bool,
    /// Whether all was done when the kill came, so that it is not run again.
    pub is_done: &'a dyn Fn() -> bool,
    /// Whether the same command says that the target exists, if all was done.
    pub may_exist: bool,
    /// What must hold in the end, beside the bytes.
    pub finished: &'a dyn Fn(&str),
}

impl Victim<'_> {
    /// Kills the command at this many moments over its whole duration, and at more of them until
    /// so many count. The same command finishes it each time: with the same bytes as without a
    /// kill, and nothing of its own is left. Returns how many kills counted.
    pub fn kill(&self, moments: u64, fewest: u64) -> u64 {
        let arguments = self.arguments;
        // The middle of three, for the machine may have other things to do.
        let mut durations = [(); 3].map(|()| {
            (self.prepare)();
            let start = Instant::now();
            run(arguments);
            start.elapsed()
        });
        durations.sort();
        let duration = durations[1];
        assert_eq!(leftovers(self.scene), Vec::<std::path::PathBuf>::new(), "{arguments:?}");
        let expected = tree(self.scene);
        (self.finished)("never killed");
        let (mut random, mut counted, mut tried) = (Random(moments * 2 + 1), 0, 0);
        while tried < moments || counted < fewest {
            assert!(tried < 20 * moments, "{arguments:?}: {counted} of {tried} in {duration:?}");
            (self.prepare)();
            let part = (tried % moments) as f64 + (random.next() % 1000) as f64 / 1000.0;
            let wait = duration.mul_f64(part / moments as f64);
            let context = format!("{arguments:?}, stopped after {wait:?} of {duration:?}");
            // Nothing reads what it prints: a pipe would fill up, and stop it.
            let mut child =
                shardine(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            thread::sleep(wait);
            // Every fourth is interrupted as by Ctrl-C, the others do not get to know.
            if tried % 4 == 3 {
                let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
            } else {
                child.kill().unwrap();
            }
            let killed = !child.wait().unwrap().success();
            let counts = (self.check)(&context);
            counted += u64::from(killed && counts);
            if !(self.is_done)() {
                let again = shardine(arguments).output().unwrap();
                let told = String::from_utf8_lossy(&again.stderr);
                let is_complete = self.may_exist && told.contains("exists");
                assert!(again.status.success() || is_complete, "{context}: {told}");
            }
            assert_eq!(leftovers(self.scene), Vec::<std::path::PathBuf>::new(), "{context}");
            assert_same(&tree(self.scene), &expected, &context);
            (self.finished)(&context);
            tried += 1;
        }
        println!("{arguments:?}: {counted} of {tried} killed before their end, in {duration:?}");
        counted
    }
}
