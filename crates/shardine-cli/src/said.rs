//! Where a verb says what it has done: on standard output, unless the user wants no words.

use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether `--quiet` was given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on nothing is said but errors, and what was asked for: elements, listings, JSON.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// For a report: people may not want it, a program that asks for JSON does.
pub fn out(json: bool) -> Said {
    Said(if is_quiet() && !json { None } else { Some(io::stdout()) })
}

/// For words.
pub fn words() -> Said {
    out(false)
}

/// Standard output, or nothing.
pub struct Said(Option<Stdout>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(out) => out.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Stdout::flush)
    }
}
