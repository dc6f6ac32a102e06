//! Remote stores keep their promises on a bad network, with servers that lie, and whatever happens
//! to an answer.
//!
//! One binary, so that all tests share one server of each kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod fake_s3;
mod server;

mod aborts;
mod conditions;
mod consistency;
mod credentials;
mod encodings;
mod exhausted;
mod faults;
mod http;
mod lies;
mod memory;
mod once;
mod races;
mod secrets;

use std::sync::mpsc;
use std::time::Duration;

use shardine_remote::{RemoteStore, StoreOptions};
use shardine_store::Key;

/// Runs something that must not hang.
fn within<T: Send + 'static>(seconds: u64, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, waiting) = mpsc::channel();
    let thread = std::thread::spawn(move || drop(done.send(run())));
    match waiting.recv_timeout(Duration::from_secs(seconds)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs: {seconds} s are over"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().unwrap_err())
        }
    }
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Bytes that depend on their position.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let step = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(step).take(len).collect()
}

fn store(url: &str, options: &StoreOptions) -> RemoteStore {
    RemoteStore::new(url, options).unwrap()
}

/// An error and all its causes, in both ways in which they can be shown.
fn shown(error: &dyn std::error::Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(&format!(" {cause} {cause:?}"));
        next = cause.source();
    }
    text
}

/// Runs one test of this binary in a separate process, with an environment, and returns what it
/// printed.
fn in_child(test: &str, environment: &[(&str, &str)]) -> String {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("1 passed"), "there is no test {test}");
    text
}

/// A setting passed to a child; `None` if it is run by hand.
fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
