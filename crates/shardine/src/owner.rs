//! Which process wrote a marker, and whether it is still alive.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

/// The claims of this process that are in use as markers.
static LIVE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The writer of a marker.
pub(crate) struct Owner {
    /// Its claim.
    pub id: String,
    /// Distinguishes its process from all others, if its system provides that.
    process: Option<String>,
    /// For display.
    pub shown: String,
}

impl Owner {
    /// A claim of this process, which lives until it is released.
    pub fn claim() -> String {
        let id = Self::fresh_id();
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        id
    }

    /// A unique name.
    pub fn fresh_id() -> String {
        let number = || RandomState::new().build_hasher().finish();
        format!("{:016x}{:016x}", number(), number())
    }

    /// Ends a claim of this process.
    pub fn release(id: &str) {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// What a marker records about this process and its claim.
    pub fn here(id: &str) -> Value {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let pid = std::process::id();
        json!({ "id": id, "process": own_process(), "host": host.trim(), "pid": pid })
    }

    /// The owner that a marker names.
    pub fn of(json: &Value) -> Self {
        let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::to_owned);
        let host = text("host").filter(|host| !host.is_empty());
        let pid = json.get("pid").and_then(Value::as_u64).map_or("?".to_owned(), |n| n.to_string());
        Self {
            id: text("id").unwrap_or_default(),
            process: text("process"),
            shown: format!("process {pid} on {}", host.as_deref().unwrap_or("some machine")),
        }
    }

    /// Whether it is a process that is visible from here.
    pub fn is_of_this_system(&self) -> bool {
        let system = self.process.as_deref().and_then(|process| process.split_once(' '));
        system.is_some_and(|(system, _)| this_system().as_deref() == Some(system))
    }

    /// Whether it is known to have ended.
    pub fn is_dead(&self) -> bool {
        if !self.is_of_this_system() {
            return false;
        }
        let process = self.process.as_deref().unwrap_or_default();
        let Some((_, process)) = process.split_once(' ') else { return false };
        if own_process() == self.process {
            return !self.is_here();
        }
        let Some((pid, start)) = process.split_once(' ') else { return false };
        // It becomes part of a path, and anyone may have written it.
        let Ok(pid) = pid.parse::<u32>() else { return false };
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            // Another process may have been given its number since.
            Ok(stat) => started(&stat).is_some_and(|found| found != start),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }

    /// Whether it is a live claim of this process.
    fn is_here(&self) -> bool {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).contains(&self.id)
    }
}

/// Identifies this running system, and the part of it that is visible from here.
fn this_system() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), space.display()))
}

fn own_process() -> Option<String> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (pid, _) = stat.split_once(' ')?;
    Some(format!("{} {pid} {}", this_system()?, started(&stat)?))
}

/// When a process was started, from its kernel `stat`. The process name comes before that and may
/// contain anything.
fn started(stat: &str) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_dead_only_if_that_is_sure() {
        let process = own_process().unwrap();
        let owner = |process: &str| Owner::of(&json!({ "id": "x", "process": process, "pid": 1 }));
        // This process has no such claim.
        assert!(owner(&process).is_dead());
        LIVE.lock().unwrap().insert("x".to_owned());
        assert!(!owner(&process).is_dead());
        LIVE.lock().unwrap().remove("x");
        let (system, _) = process.split_once(' ').unwrap();
        assert!(owner(&format!("{system} 4194999 1")).is_dead());
        assert!(owner(&format!("{system} 1 999999999999")).is_dead());
        for process in
            ["other 4194999 1", "", system, &format!("{system} 1"), &format!("{system} ../x 1")]
        {
            assert!(!owner(process).is_dead(), "{process}");
        }
        assert!(!Owner::of(&json!({ "id": "x" })).is_dead());
        let stat = std::fs::read_to_string("/proc/1/stat").unwrap();
        assert!(!owner(&format!("{system} 1 {}", started(&stat).unwrap())).is_dead());
    }
}
