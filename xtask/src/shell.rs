//! Running other programs: every command is printed before it runs, so that it can be run by hand.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// An error message for a human.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A failure that has already been reported; only the exit status is left to set.
    pub fn already_told() -> Self {
        Self(String::new())
    }

    pub fn is_told(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub type Result<T = ()> = std::result::Result<T, Failure>;

/// Turns the errors of the standard library into a [`Failure`] that says what was attempted.
pub trait Attempt<T> {
    fn attempt(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> Attempt<T> for std::result::Result<T, E> {
    fn attempt(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Failure::new(format!("{what}: {error}")))
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().map_or(xtask.clone(), Path::to_path_buf)
}

/// The target folder that the caller set in the environment, if any.
///
/// A relative one is relative to the caller's working directory, while our commands run in the
/// root.
pub fn shared_target_dir() -> Option<PathBuf> {
    let dir = std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty())?;
    std::path::absolute(dir).ok()
}

/// The target folder of the workspace.
pub fn target_dir() -> PathBuf {
    shared_target_dir().unwrap_or_else(|| root().join("target"))
}

/// How many things to run in parallel.
pub fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// A program about to be run from the root of the repository.
pub struct Cmd {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Cmd {
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { program: program.as_ref().into(), args: Vec::new(), env: Vec::new() }
    }

    /// Cargo, with arguments separated by single spaces.
    pub fn cargo(args: &str) -> Self {
        Self::new("cargo").args(args.split(' '))
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().into());
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().into()));
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().into()));
        self
    }

    /// Prints the command, runs it with our standard streams, and fails if it does.
    pub fn run(&self) -> Result {
        println!("$ {self}");
        let status = self.command().status().attempt(format_args!("cannot start `{self}`"))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(format!("failed ({status}); to run it again:\n  {self}")))
    }

    /// Runs the command silently and returns its output; an error only if it cannot start.
    pub fn output(&self) -> Result<Output> {
        self.command().stdin(Stdio::null()).output().attempt(format_args!("cannot start `{self}`"))
    }

    /// Whether the command can be started and succeeds, silently.
    pub fn succeeds(&self) -> bool {
        self.output().is_ok_and(|output| output.status.success())
    }

    /// The command, ready to be spawned in the root of the repository.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(root());
        // `cargo run` describes this package in the environment. Passed on, it makes build scripts
        // that watch those variables run again each time.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        if let Some(dir) = shared_target_dir() {
            command.env("CARGO_TARGET_DIR", dir);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{}={} ", name.to_string_lossy(), quoted(value))?;
        }
        f.write_str(&quoted(&self.program))?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", quoted(arg)))
    }
}

/// A word quoted for a shell, with paths inside the repository shortened.
fn quoted(word: &OsStr) -> String {
    let root = root();
    let word = Path::new(word).strip_prefix(&root).map_or(word, Path::as_os_str).to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
