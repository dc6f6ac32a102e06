//! Whether values can be repacked without losing some that no reader finds.

use std::collections::HashSet;

use shardine_store::{Key, Store, StoreError, StoreExt};

use crate::Error;
use crate::precomputed::{ShardName, ValueName, ValueNames, unwrapped};

/// Refuses a folder with objects that would be lost if its values were repacked: they look like
/// values, and no reader finds them. One listing.
pub(super) fn survey(
    store: &dyn Store,
    folder: Option<&Key>,
    old: &ValueNames,
    new: &ValueNames,
) -> Result<(), Error> {
    let listing = store.list(folder)?;
    let name_of = |key: &Key| key.as_str().rsplit('/').next().unwrap_or_default().to_owned();
    let shard_of = |name: &str| match old {
        ValueNames::Shards(sharding) => ShardName::of(sharding, name),
        ValueNames::Boxes(_) => ShardName::Other,
    };
    let with_index = |(key, _): &(Key, u64)| match shard_of(&name_of(key)) {
        ShardName::Whole(number) | ShardName::Index(number) => Some(number),
        _ => None,
    };
    let with_index: HashSet<u64> = listing.objects.iter().filter_map(with_index).collect();
    let lacks_index =
        |name: &str| matches!(shard_of(name), ShardName::Data(n) if !with_index.contains(&n));
    for (key, _) in &listing.objects {
        let name = name_of(key);
        let reason = match (old, old.named(&name)) {
            (_, ValueName::Values) if lacks_index(&name) => {
                "it holds the values of a shard whose index is missing"
            }
            (ValueNames::Boxes(_), ValueName::Values)
                if !store.has_folders() && unwrapped(&name).is_some() =>
            {
                "it is named like a compressed file, which no reader finds in this store"
            }
            (_, ValueName::Values) => continue,
            (_, ValueName::Unfound(reason)) => reason,
            (_, ValueName::Other) if new.named(&name) == ValueName::Other => continue,
            (_, ValueName::Other) => {
                "it has the name of a new object, but holds nothing that is being packed"
            }
        };
        let reason = format!(
            "{reason}; check it with `shardine verify`, and repair it or move it away first"
        );
        return Err(StoreError::Damaged { key: key.clone(), reason }.into());
    }
    Ok(())
}
