//! Why a test bed could not be set up.

use std::io;
use std::time::Duration;

/// Why a server or a proxy cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BedError {
    /// A server is not installed.
    #[error(
        "{program} is not installed; `cargo xtask servers` installs it ({variable} may name another)"
    )]
    Missing {
        /// The program that was looked for.
        program: &'static str,
        /// The environment variable that may say where it is.
        variable: &'static str,
    },
    /// A server exited while it was starting.
    #[error("{server} ended while it was starting ({status}); the end of its log:\n{log}")]
    Ended {
        /// Which server.
        server: &'static str,
        /// How it exited.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// A server is running, but not usable.
    #[error("{server} was not ready after {waited:?}: {last}; the end of its log:\n{log}")]
    NotReady {
        /// Which server.
        server: &'static str,
        /// How long it was waited for.
        waited: Duration,
        /// What it answered last.
        last: String,
        /// The last lines of its log.
        log: String,
    },
    /// A server refused to create a bucket, a container or a certificate.
    #[error("cannot make {what}: {answer}")]
    Refused {
        /// What was to be created.
        what: String,
        /// The answer.
        answer: String,
    },
    /// No free ports were found.
    #[error("no {wanted} free ports on 127.0.0.1")]
    NoPorts {
        /// How many were wanted.
        wanted: usize,
    },
    /// The description of a fault makes no sense.
    #[error("\"{text}\" is not a fault: {why}")]
    Spec {
        /// The part that makes no sense.
        text: String,
        /// Why not.
        why: &'static str,
    },
    /// Files, sockets or processes on this machine failed.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// What the system reported.
        source: io::Error,
    },
}

/// Adds to an error what was attempted.
pub(crate) trait Attempt<T> {
    fn attempt(self, what: impl Into<String>) -> crate::Result<T>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, what: impl Into<String>) -> crate::Result<T> {
        self.map_err(|source| BedError::Io { what: what.into(), source })
    }
}
