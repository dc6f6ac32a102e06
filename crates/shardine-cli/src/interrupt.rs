//! What happens on Ctrl-C.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Duration;

use shardine::files::{IfExists, OutputFile};
use shardine::jobs::CancelToken;

use crate::failure::Failure;

/// What Ctrl-C removes.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Cancels the job of this process.
static TOKEN: OnceLock<CancelToken> = OnceLock::new();

/// What is said when Ctrl-C ends the program.
static WORDS: OnceLock<&'static str> = OnceLock::new();

/// The exit status of a program ended by SIGINT, as shells report it.
pub const INTERRUPTED: u8 = 130;

/// How often removing a folder that is still being written to is tried.
const ATTEMPTS: usize = 100;

/// How long to wait for remote stores.
pub const PATIENCE: Duration = Duration::from_secs(5);

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on the first Ctrl-C cancels jobs through this token, and only the second one ends the
/// program.
pub fn token() -> CancelToken {
    will_clean_up();
    TOKEN.get_or_init(CancelToken::new).clone()
}

/// From now on Ctrl-C says this before it ends a verb that it cannot stop between two steps.
pub fn will_say(words: &'static str) {
    will_clean_up();
    let _ = WORDS.set(words);
}

/// From now on Ctrl-C removes this file, or this folder with everything in it.
pub fn will_remove(path: &Path) {
    will_clean_up();
    unfinished().push(path.to_owned());
}

/// Ctrl-C no longer removes it.
pub fn forget(path: &Path) {
    unfinished().retain(|known| known != path);
}

/// A file that appears whole or not at all, and that Ctrl-C removes while it is incomplete.
#[derive(Debug)]
pub struct Unfinished {
    /// Dropped first: an unfinished file is removed before Ctrl-C forgets it.
    output: OutputFile,
    _removed: Removed,
}

impl Unfinished {
    /// Begins the file.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, Failure> {
        let output = OutputFile::create(path, IfExists::replaced(overwrite))?;
        will_remove(output.temporary());
        let _removed = Removed(output.temporary().to_owned());
        Ok(Self { output, _removed })
    }

    pub fn output(&self) -> &OutputFile {
        &self.output
    }

    /// Gives the file its name.
    pub fn finish(self) -> Result<(), Failure> {
        Ok(self.output.finish()?)
    }
}

/// A path that Ctrl-C removes until this is dropped.
#[derive(Debug)]
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        forget(&self.0);
    }
}

/// From now on Ctrl-C makes remote stores drop the parts of unfinished uploads, which are invisible
/// but stored and paid for; and removes unfinished files.
pub fn will_clean_up() {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // Without a handler things are left behind, which is no reason to stop.
        let _ = ctrlc::set_handler(|| {
            if let Some(token) = TOKEN.get().filter(|token| !token.is_cancelled()) {
                token.cancel();
                return;
            }
            // Held to the end: a verb that fails because its files are gone waits for it in
            // `forget`, and does not get to report that.
            let paths = unfinished();
            for path in paths.iter() {
                remove(path);
            }
            shardine::jobs::abort_unfinished_uploads(PATIENCE);
            if let Some(words) = WORDS.get() {
                eprintln!("interrupted; {words}");
            }
            std::process::exit(INTERRUPTED.into());
        });
    });
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        // If its type is unknown, try both.
        Ok(found) if !found.is_dir() => {
            let _ = fs::remove_file(path);
            return;
        }
        _ => drop(fs::remove_file(path)),
    }
    // Workers keep running to the end and may put something into a folder that was just found
    // empty.
    for _ in 0..ATTEMPTS {
        if fs::remove_dir_all(path).is_ok() {
            return;
        }
    }
}
