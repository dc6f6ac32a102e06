//! What the names in a folder of shards stand for.

use std::collections::BTreeSet;

use shardine_store::{Key, Listing};

use crate::jobs::check::Walked;
use crate::jobs::losses::LOSS_RECORD;
use crate::precomputed::compressed_ending;
use crate::shard::uint64::Sharding;

/// Endings of what is kept beside the shards of meshes and skeletons: where they are, and their parts.
const BESIDE: [&str; 3] = [".spatial", ".frags", ".labels"];

/// The names in a folder of shards, by what they stand for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Shards by number.
    pub shards: Vec<NamedShard>,
    /// Shards that are compressed as files.
    pub wrapped: Vec<(u64, Key)>,
    /// Such files of shards that are there as well.
    pub wrapped_too: Vec<(u64, Key)>,
    /// Objects called like shards that cannot be: no reader opens them.
    pub misnamed: Vec<Key>,
    /// Folders where shards belong.
    pub blocked: Vec<Key>,
    pub strays: Vec<Key>,
    /// Whether there is, or may be, a record of what was lost.
    pub has_record: bool,
}

/// A shard of a folder.
#[derive(Debug)]
pub(crate) struct NamedShard {
    pub number: u64,
    pub key: Key,
    /// Whether it is in its older form of two objects.
    pub is_older: bool,
}

impl Walked for NamedShard {
    fn key(&self) -> &Key {
        &self.key
    }
}

/// The last part of a key.
pub(crate) fn last_part(key: &Key) -> &str {
    key.as_str().rsplit('/').next().unwrap_or_default()
}

/// A name without the ending that says that it is compressed.
pub(crate) fn unwrapped(name: &str) -> Option<&str> {
    name.strip_suffix(compressed_ending(name)?)
}

impl Names {
    /// Sorts a listing. `known` are names that are something else.
    pub fn new(sharding: &Sharding, listing: Listing, known: &dyn Fn(&Key) -> bool) -> Self {
        let mut names = Self::default();
        let number = |name: &str, ending: &str| sharding.shard_number(name.strip_suffix(ending)?);
        let mut whole = BTreeSet::new();
        let (mut indexes, mut rest) = (Vec::new(), Vec::new());
        for (key, _) in listing.objects {
            let name = last_part(&key);
            if let Some(shard) = number(name, ".shard") {
                whole.insert(shard);
                names.shards.push(NamedShard { number: shard, key, is_older: false });
            } else if let Some(shard) = number(name, ".index") {
                indexes.push((shard, key));
            } else {
                rest.push(key);
            }
        }
        let mut older = BTreeSet::new();
        for (shard, key) in indexes {
            // Nobody looks at the older form of a shard that is there.
            if whole.contains(&shard) {
                names.strays.push(key);
            } else {
                older.insert(shard);
                names.shards.push(NamedShard { number: shard, key, is_older: true });
            }
        }
        for key in rest {
            let name = last_part(&key);
            let wrapped = unwrapped(name);
            let shard = wrapped.and_then(|name| number(name, ".shard"));
            let hexadecimal =
                |stem: &str| !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
            if number(name, ".data").is_some_and(|shard| older.contains(&shard)) {
                continue;
            }
            match shard {
                Some(shard) if whole.contains(&shard) || older.contains(&shard) => {
                    names.wrapped_too.push((shard, key));
                }
                Some(shard) => names.wrapped.push((shard, key)),
                _ if name.strip_suffix(".shard").is_some_and(hexadecimal) => {
                    names.misnamed.push(key);
                }
                _ if name == LOSS_RECORD => names.has_record = true,
                _ if known(&key) => {}
                _ => names.strays.push(key),
            }
        }
        for key in listing.folders {
            match number(last_part(&key), ".shard") {
                Some(_) => names.blocked.push(key),
                None if known(&key) => {}
                None => names.strays.push(key),
            }
        }
        names.shards.sort_by_key(|shard| shard.number);
        names
    }
}

/// Whether something is usual beside the shards of meshes and skeletons.
pub(crate) fn is_beside(name: &str) -> bool {
    let name = unwrapped(name).unwrap_or(name);
    matches!(name, "info" | "provenance" | "spatial_index")
        || BESIDE.iter().any(|ending| name.ends_with(ending))
}
