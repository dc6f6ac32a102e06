//! Which values of a folder of shards, and which chunks that are single objects, are still as
//! `repair` left them.

use shardine_store::{Key, Store, StoreError};

use super::{InForce, Losses};
use crate::engine::Cells;
use crate::jobs::check::keyed::{Folder, Payload};
use crate::{Engine, Error};

/// The most chunks of a scale for which those of one shard are counted.
const MOST_CELLS: u64 = 1 << 24;

/// The extensions of files that are compressed as a whole.
const ENDINGS: [&str; 3] = ["", ".gz", ".zstd"];

/// Part of a folder that is still lost.
pub(in crate::jobs) struct KeyedLoss {
    pub object: Key,
    pub shard: Option<u64>,
    /// The value; `None` for more than one.
    pub key: Option<u64>,
    /// The number of lost values; `None` if it is unknown which keys there were.
    pub lost: Option<u64>,
    pub what: String,
}

/// The keys of all chunks of a scale that belong in a shard, or in one minishard of it; `None` if
/// the keys are not those of chunks, or there are too many.
pub(in crate::jobs) fn cells_of(
    folder: &Folder,
    shard: u64,
    minishard: Option<u64>,
) -> Option<Vec<u64>> {
    let Payload::Chunks(chunks) = &folder.payload else { return None };
    let code = chunks.code.as_ref()?;
    let cells = Cells::new(chunks.grid.to_vec());
    let key = |cell: Vec<u64>| code.encode([cell[0], cell[1], cell[2]]);
    let belongs = |key: &u64| {
        let place = folder.shards.sharding.place(*key);
        place.shard == shard && minishard.is_none_or(|of| of == place.minishard)
    };
    (cells.count <= MOST_CELLS).then(|| cells.map(key).filter(belongs).collect())
}

/// What is recorded and still as it was left. Reads the indexes that lead to the keys.
pub(in crate::jobs) fn in_folder(
    engine: &Engine,
    folder: &Folder,
    losses: &Losses,
) -> Result<Vec<KeyedLoss>, Error> {
    let shards = &folder.shards;
    let is_lost = |key: u64| match engine.with_context(|context| shards.find(key, context)) {
        Ok(found) => Ok(found.is_none()),
        // A damaged shard is reported by itself; what is in it is unknown.
        Err(StoreError::Damaged { .. }) => Ok(true),
        Err(error) => Err(error),
    };
    let mut found = Vec::new();
    for (name, lost) in &losses.objects {
        let Some(shard) = shards.number_of(name) else { continue };
        let object = shards.object_key(name)?;
        // Others may have changed it since it was opened here.
        shards.forget(shard);
        let mut add = |key: Option<u64>, lost: Option<u64>, what: String| {
            let (object, shard) = (object.clone(), Some(shard));
            found.push(KeyedLoss { object, shard, key, lost, what });
        };
        let parts = lost.whole.then_some(None).into_iter();
        for part in parts.chain(lost.minishards.iter().copied().map(Some)) {
            let of = part.map_or("the shard".to_owned(), |part| format!("minishard {part}"));
            let Some(keys) = cells_of(folder, shard, part) else {
                add(None, None, format!("all values of {of} were lost, and its keys are unknown"));
                continue;
            };
            let all = keys.len();
            let mut absent = 0;
            for key in keys {
                absent += u64::from(is_lost(key)?);
            }
            if absent > 0 {
                let what = format!("{absent} of the {all} chunks of {of} were lost");
                add(None, Some(absent), what);
            }
        }
        for &key in &lost.keys {
            if is_lost(key)? {
                add(Some(key), Some(1), format!("key {key} was lost"));
            }
        }
    }
    Ok(found)
}

/// The same for a scale whose chunks are single objects.
pub(in crate::jobs) fn in_objects(
    store: &dyn Store,
    folder: Option<&Key>,
    losses: &Losses,
) -> Result<Vec<KeyedLoss>, Error> {
    let mut found = Vec::new();
    for name in losses.objects.keys() {
        let mut there = false;
        for ending in ENDINGS {
            let name = format!("{name}{ending}");
            let key = folder.map_or_else(|| Key::new(&name), |folder| folder.join(&name))?;
            let opened = store
                .open(&key, None)
                .and_then(|object| object.read(shardine_store::ReadRange::Bounded(0..0)).map(drop));
            match opened {
                Ok(()) => there = true,
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !there {
            let object = folder.map_or_else(|| Key::new(name), |folder| folder.join(name))?;
            let what = "the chunk was lost".to_owned();
            found.push(KeyedLoss { object, shard: None, key: None, lost: Some(1), what });
        }
    }
    Ok(found)
}

/// The total; an unknown number of values counts as one.
pub(in crate::jobs) fn total(losses: &[KeyedLoss]) -> InForce {
    let lost = losses.iter().map(|loss| loss.lost.unwrap_or(1)).sum();
    InForce { lost, unproved: 0 }
}
