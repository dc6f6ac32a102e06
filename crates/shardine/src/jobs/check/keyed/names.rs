//! Classifies the names in a folder of shards.

use std::collections::BTreeSet;

use shardine_store::{Key, Listing};

use crate::jobs::losses::LOSS_RECORD;
use crate::precomputed::ShardName;
use crate::shard::uint64::Sharding;

/// The names in a folder of shards, by meaning.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Shards by number.
    pub shards: Vec<NamedShard>,
    /// Shards that are compressed as files.
    pub wrapped: Vec<(u64, Key)>,
    /// The same, for shards that also exist uncompressed.
    pub wrapped_too: Vec<(u64, Key)>,
    /// Objects named like shards that cannot be: no reader opens them.
    pub misnamed: Vec<Key>,
    /// Folders where shards belong.
    pub blocked: Vec<Key>,
    pub strays: Vec<Key>,
    /// Whether there is, or may be, a record of losses.
    pub has_record: bool,
}

/// A shard of a folder.
#[derive(Debug)]
pub(crate) struct NamedShard {
    pub number: u64,
    pub key: Key,
    /// Whether it is in the older form of two objects.
    pub is_older: bool,
}

/// The last part of a key.
pub(crate) fn last_part(key: &Key) -> &str {
    key.as_str().rsplit('/').next().unwrap_or_default()
}

impl Names {
    /// Classifies a listing. `known` accepts names that are something else.
    pub fn new(sharding: &Sharding, listing: Listing, known: &dyn Fn(&Key) -> bool) -> Self {
        let mut names = Self::default();
        let of = |key: &Key| ShardName::of(sharding, last_part(key));
        let (mut whole, mut older) = (BTreeSet::new(), BTreeSet::new());
        listing.objects.iter().for_each(|(key, _)| match of(key) {
            ShardName::Whole(shard) => _ = whole.insert(shard),
            ShardName::Index(shard) => _ = older.insert(shard),
            _ => {}
        });
        // Readers ignore the older form of a shard that exists.
        older.retain(|shard| !whole.contains(shard));
        for (key, _) in listing.objects {
            match of(&key) {
                ShardName::Whole(number) => {
                    names.shards.push(NamedShard { number, key, is_older: false });
                }
                ShardName::Index(number) if older.contains(&number) => {
                    names.shards.push(NamedShard { number, key, is_older: true });
                }
                ShardName::Data(number) if older.contains(&number) => {}
                ShardName::Compressed(number) => {
                    let is_there = whole.contains(&number) || older.contains(&number);
                    let list = if is_there { &mut names.wrapped_too } else { &mut names.wrapped };
                    list.push((number, key));
                }
                ShardName::Misnamed => names.misnamed.push(key),
                _ if last_part(&key) == LOSS_RECORD => names.has_record = true,
                _ if known(&key) => {}
                _ => names.strays.push(key),
            }
        }
        for key in listing.folders {
            match of(&key) {
                ShardName::Whole(_) => names.blocked.push(key),
                _ if known(&key) => {}
                _ => names.strays.push(key),
            }
        }
        names.shards.sort_by_key(|shard| shard.number);
        names
    }
}
