//! Numbers that change when another program writes to a job's source.

use shardine_store::{Key, StoreError};

use super::part::stable_hash;
use crate::{Error, Location};

/// For a folder of files, at the cost of a `stat` each; `None` for any other store.
pub(in crate::jobs) fn of_files(source: &Location) -> Result<Option<u64>, Error> {
    let Some(exchange) = source.store.exchange() else { return Ok(None) };
    Ok(Some(exchange.fingerprint(source.path.as_ref())?))
}

/// For objects, by their names and lengths, in any order.
pub(in crate::jobs) fn of_objects<'a>(
    objects: impl Iterator<Item = (&'a Key, Option<u64>)>,
) -> u64 {
    let hashes = objects.map(|(key, len)| stable_hash(format!("{key} {len:?}").as_bytes()));
    hashes.fold(0, u64::wrapping_add)
}

/// For everything below a location: on files a `stat` each, on other stores a listing of each
/// folder. `None` where neither is available.
pub(in crate::jobs) fn of_tree(source: &Location) -> Result<Option<u64>, Error> {
    if let Some(state) = of_files(source)? {
        return Ok(Some(state));
    }
    let (mut sum, mut waiting) = (0u64, vec![source.path.clone()]);
    while let Some(folder) = waiting.pop() {
        let listing = match source.store.list(folder.as_ref()) {
            Err(StoreError::Unsupported { .. }) => return Ok(None),
            listing => listing?,
        };
        let objects = listing.objects.iter().map(|(key, len)| (key, Some(*len)));
        sum = sum.wrapping_add(of_objects(objects));
        waiting.extend(listing.folders.into_iter().map(Some));
    }
    Ok(Some(sum))
}
