//! Where a verb reports what it has done: on standard output, unless the user wants it quiet.

use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether `--quiet` was given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on prints only errors, and what was requested: elements, listings, JSON.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// For a report: `--quiet` suppresses it for people, but not for a program that asks for JSON.
pub fn out(json: bool) -> Said {
    Said(if is_quiet() && !json { None } else { Some(io::stdout()) })
}

/// For messages.
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
