//! Jobs shared by several processes.

use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

/// The most parts a job may have.
pub(super) const MOST: u32 = 1_000_000;

/// The part of a job that a process does.
///
/// Tasks are distributed by name, so processes need not know of each other: each runs its own, in
/// any order and any number of times, and all agree on which part a task belongs to. On the command
/// line it is `3/16`, or `finish`.
///
/// ```
/// use shardine::jobs::Part;
/// let part: Part = "3/16".parse()?;
/// assert_eq!(part, Part::Of { index: 3, count: 16 });
/// assert!("0/4".parse::<Part>().is_err() && "5/4".parse::<Part>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Part {
    /// Part `index`, counted from 1, of `count`.
    Of {
        /// The number of this part, from 1.
        index: u32,
        /// The number of parts.
        count: u32,
    },
    /// No tasks; only what comes after all parts.
    Finish,
}

impl Part {
    /// Whether the task with this name belongs to this part.
    ///
    /// The answer is the same on every machine and in every release.
    pub fn takes(self, task: &[u8]) -> bool {
        match self {
            Self::Of { index, count } => {
                stable_hash(task) % u64::from(count.max(1)) + 1 == u64::from(index)
            }
            Self::Finish => false,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of { index, count } => write!(f, "{index}/{count}"),
            Self::Finish => f.write_str("finish"),
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "finish" {
            return Ok(Self::Finish);
        }
        let numbers = text.split_once('/');
        let number = |text: &str| text.parse::<u32>().ok();
        match numbers.and_then(|(index, count)| Some((number(index)?, number(count)?))) {
            Some((index, count)) if (1..=MOST).contains(&count) && (1..=count).contains(&index) => {
                Ok(Self::Of { index, count })
            }
            _ => Err(format!("\"{text}\" is not a part such as 3/16, or finish")),
        }
    }
}

impl TryFrom<String> for Part {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Part> for String {
    fn from(part: Part) -> Self {
        part.to_string()
    }
}

/// A hash that is the same on every machine and in every release: SipHash-1-3 with keys of 0.
pub(crate) fn stable_hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_belongs_to_one_part_and_parts_are_of_about_the_same_size() {
        let count = 7;
        let parts = || (1..=count).map(|index| Part::Of { index, count });
        let mut sizes = [0u32; 7];
        for task in 0..7000u32 {
            let takers: Vec<usize> = parts()
                .enumerate()
                .filter(|(_, part)| part.takes(&task.to_le_bytes()))
                .map(|(i, _)| i)
                .collect();
            assert_eq!(takers.len(), 1);
            sizes[takers[0]] += 1;
        }
        assert!(sizes.iter().all(|size| (850..1150).contains(size)), "{sizes:?}");
    }

    #[test]
    fn the_hash_never_changes() {
        // Computed with the reference implementation of SipHash-1-3, keys of 0.
        assert_eq!(stable_hash(b""), 0xd1fb_a762_150c_532c);
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for text in ["", "1", "0/1", "2/1", "1/0", "a/b", "1/2/3", "-1/2", "1/1000001", "Finish"] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
        for text in ["1/1", "16/16", "finish"] {
            assert_eq!(text.parse::<Part>().unwrap().to_string(), text);
        }
    }
}
