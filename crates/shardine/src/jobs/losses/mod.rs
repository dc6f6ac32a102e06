//! What `repair` could not save: a record beside the data.
//!
//! An emptied entry reads as the fill value, and could not be told from one that was never written.
//! So whatever `repair` removes without a replacement is recorded first, in an object in the
//! array's folder, or in the folder of shards. `verify` reports what is in the record and still as
//! it was left; a chunk that was written again no longer counts. Accepting the loss removes the
//! record.

mod array;
mod keyed;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardine_store::{Condition, Key, ReadRange, Store, StoreError, StoreExt};

use crate::jobs::check::keyed::Folder;
use crate::jobs::check::{InfoSet, scale_folder};
pub use crate::zarr::LOSS_RECORD;
use crate::{Array, Engine, EngineError, Error, Location};

pub(super) use array::{chunks_below, fingerprints, in_array};
pub(super) use keyed::{KeyedLoss, cells_of, in_folder, in_objects, total};

/// The largest record that is read, in bytes.
const MAX_RECORD: u64 = 64 << 20;

/// The most losses of one object recorded one by one; with more, the object is recorded as a whole.
const MOST: usize = 1 << 16;

/// Attempts to update a record that others keep changing.
const ATTEMPTS: usize = 8;

/// Everything that was lost in one folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::jobs) struct Losses {
    /// The version of the record.
    shardine_losses: u32,
    /// For an array, the shapes of the objects and of the innermost chunks that the entries below
    /// refer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grid: Option<[Vec<u64>; 2]>,
    /// By the name of the object in the folder.
    pub objects: BTreeMap<String, ObjectLosses>,
}

/// What was lost of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::jobs) struct ObjectLosses {
    /// All of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub whole: bool,
    /// The entries that lead to what was lost, from the outermost shard inwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Vec<u32>>,
    /// Minishards of which no key is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub minishards: Vec<u64>,
    /// Keys whose values were lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<u64>,
    /// Chunks located by an older index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproved: Vec<Fingerprint>,
    /// Whether there were too many of these to list one by one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_unproved: bool,
}

/// Identifies the encoded bytes of a chunk, wherever they are moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::jobs) struct Fingerprint {
    /// The entries that led to it.
    pub entries: Vec<u32>,
    pub len: u64,
    /// 64-bit FNV-1a. Not a CRC: any chunk that ends with its own CRC would have the same one.
    pub fnv1a: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl ObjectLosses {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds further losses.
    pub fn add(&mut self, other: Self) {
        self.whole |= other.whole;
        self.all_unproved |= other.all_unproved;
        self.entries.extend(other.entries);
        self.minishards.extend(other.minishards);
        self.keys.extend(other.keys);
        // Of two for one chunk the newer takes precedence.
        let mut unproved: BTreeMap<Vec<u32>, Fingerprint> = BTreeMap::new();
        for known in std::mem::take(&mut self.unproved).into_iter().chain(other.unproved) {
            unproved.insert(known.entries.clone(), known);
        }
        self.unproved = unproved.into_values().collect();
        self.bound();
    }

    fn bound(&mut self) {
        self.entries.sort_unstable();
        self.entries.dedup();
        self.minishards.sort_unstable();
        self.minishards.dedup();
        self.keys.sort_unstable();
        self.keys.dedup();
        if self.entries.len() > MOST || self.keys.len() > MOST || self.minishards.len() > MOST {
            self.whole = true;
        }
        if self.whole {
            self.entries = Vec::new();
            self.minishards = Vec::new();
            self.keys = Vec::new();
        }
        if self.unproved.len() > MOST {
            self.all_unproved = true;
        }
        if self.all_unproved {
            self.unproved = Vec::new();
        }
    }
}

/// The shapes that the entries of an array's record refer to.
pub(super) fn grid_of(array: &Array) -> [Vec<u64>; 2] {
    let layout = &array.chunks.layout;
    [layout.spec().shape.clone(), layout.innermost_chunk_shape()]
}

/// A record as read.
pub(super) enum StoredLosses {
    Losses(Losses),
    /// It exists, but is invalid.
    Malformed(String),
}

impl Losses {
    fn new(grid: Option<[Vec<u64>; 2]>) -> Self {
        Self { shardine_losses: 1, grid, objects: BTreeMap::new() }
    }

    /// Whether it belongs to an array with these chunks.
    pub fn is_of(&self, grid: Option<&[Vec<u64>; 2]>) -> bool {
        self.grid.as_ref() == grid
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let record: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match record.shardine_losses {
            1 => Ok(record),
            other => Err(format!("it has version {other}, but only version 1 is supported")),
        }
    }
}

/// The key of the record of a folder.
pub(super) fn record_key(folder: Option<&Key>) -> Result<Key, StoreError> {
    match folder {
        Some(folder) => folder.join(LOSS_RECORD),
        None => Key::new(LOSS_RECORD),
    }
}

/// The record of a folder; `None` if there is none, which costs one request.
pub(super) fn read_record(
    store: &dyn Store,
    folder: Option<&Key>,
) -> Result<Option<StoredLosses>, StoreError> {
    let key = record_key(folder)?;
    let object = match store.open(&key, None) {
        Ok(object) => object,
        Err(StoreError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    if object.len().is_none() {
        // A store where opening is free finds out with the first read.
        match object.read(ReadRange::Bounded(0..0)) {
            Ok(_) => {}
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let len = object.len().ok_or_else(|| StoreError::Changed { key: key.clone() })?;
    let bytes = object.read(ReadRange::Bounded(0..len.min(MAX_RECORD)))?;
    if len > MAX_RECORD {
        return Ok(Some(StoredLosses::Malformed(format!("it has more than {MAX_RECORD} bytes"))));
    }
    Ok(Some(match Losses::parse(&bytes) {
        Ok(record) => StoredLosses::Losses(record),
        Err(reason) => StoredLosses::Malformed(reason),
    }))
}

/// Records what was lost of an object, durably. Returns the record's key.
pub(super) fn record(
    store: &dyn Store,
    folder: Option<&Key>,
    grid: Option<[Vec<u64>; 2]>,
    object: &Key,
    lost: &ObjectLosses,
) -> Result<Key, Error> {
    let key = record_key(folder)?;
    let name = relative(folder, object).to_owned();
    for _ in 0..ATTEMPTS {
        let edit = match store.edit(&key) {
            Ok(edit) => Some(edit),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let mut losses = Losses::new(grid.clone());
        if let Some(edit) = &edit {
            let refuse = |reason| StoreError::Damaged { key: key.clone(), reason };
            if edit.object.len().is_some_and(|len| len > MAX_RECORD) {
                return Err(refuse(format!("it has more than {MAX_RECORD} bytes")).into());
            }
            let known = Losses::parse(&edit.object.read(ReadRange::All)?).map_err(refuse)?;
            if !known.is_of(grid.as_ref()) {
                let reason = "it describes chunks of another shape; `shardine repair \
                              --accept-loss` removes it";
                return Err(refuse(reason.to_owned()).into());
            }
            losses = known;
        }
        losses.objects.entry(name.clone()).or_default().add(lost.clone());
        let text = serde_json::to_string(&losses)
            .map_err(|error| StoreError::Damaged { key: key.clone(), reason: error.to_string() })?;
        let condition = edit.as_ref().map_or(Condition::Absent, |edit| edit.condition());
        match store.put(&key, text.as_bytes(), condition) {
            Ok(_) => return Ok(key),
            Err(StoreError::Conflict { .. } | StoreError::Changed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(EngineError::Contention { object: key, attempts: ATTEMPTS }.into())
}

/// What is still lost, in chunks or values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct InForce {
    pub lost: u64,
    pub unproved: u64,
}

/// Refuses an array with losses: a copy with other chunks could not record them.
pub(super) fn refuse_array(array: &Array) -> Result<(), Error> {
    let location = array.location();
    refuse(&*location.store, location.path.as_ref(), &|losses| {
        let mut all =
            InForce { lost: u64::from(!losses.is_of(Some(&grid_of(array)))), unproved: 0 };
        for loss in in_array(array, losses)? {
            all.lost += loss.lost;
            all.unproved += loss.unproved;
        }
        Ok(all)
    })
}

/// The same for a volume, or a folder of values by key.
pub(super) fn refuse_data_set(engine: &Arc<Engine>, location: &Location) -> Result<(), Error> {
    let set = match InfoSet::read(engine, location) {
        Ok(Some(set)) => set,
        Err(Error::Store(error)) => return Err(error.into()),
        // The job that uses it reports what is wrong.
        Ok(None) | Err(_) => return Ok(()),
    };
    let folder = |folder: &Folder| {
        let (store, path) = (&*folder.shards.store, folder.shards.folder.as_ref());
        refuse(store, path, &|losses| Ok(total(&in_folder(engine, folder, losses)?)))
    };
    match set {
        InfoSet::Folders(folders) => folders.iter().try_for_each(folder),
        InfoSet::Volume(volume) => {
            for (level, scale) in volume.info().scales().iter().enumerate() {
                if let Some(of) = scale_folder(&volume, level, scale)? {
                    folder(&of)?;
                    continue;
                }
                let (store, path) = (&*location.store, volume.folder(scale)?);
                let path = path.as_ref();
                refuse(store, path, &|losses| Ok(total(&in_objects(store, path, losses)?)))?;
            }
            Ok(())
        }
    }
}

fn refuse(
    store: &dyn Store,
    folder: Option<&Key>,
    check: &dyn Fn(&Losses) -> Result<InForce, Error>,
) -> Result<(), Error> {
    let in_force = match read_record(store, folder)? {
        None => return Ok(()),
        Some(StoredLosses::Malformed(reason)) => {
            return Err(StoreError::Damaged { key: record_key(folder)?, reason }.into());
        }
        Some(StoredLosses::Losses(losses)) => check(&losses)?,
    };
    let at = folder.map_or_else(|| store.name(), |at| format!("{}/{at}", store.name()));
    match in_force {
        InForce { lost: 0, unproved: 0 } => Ok(()),
        InForce { lost, unproved } => Err(Error::LostChunks { at, lost, unproved }),
    }
}

/// The name of an object in a folder.
fn relative<'a>(folder: Option<&Key>, object: &'a Key) -> &'a str {
    let rest = folder.and_then(|folder| object.as_str().strip_prefix(folder.as_str()));
    rest.and_then(|rest| rest.strip_prefix('/')).unwrap_or(object.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardine_store::MemoryStore;

    #[test]
    fn what_is_recorded_is_read_again_and_added_to() {
        let store = MemoryStore::new();
        let (folder, object) = (Key::new("a").unwrap(), Key::new("a/c/0").unwrap());
        let lose = |entry| ObjectLosses { entries: vec![vec![entry]], ..Default::default() };
        for entry in [3, 1, 3] {
            record(&store, Some(&folder), None, &object, &lose(entry)).unwrap();
        }
        let Some(StoredLosses::Losses(losses)) = read_record(&store, Some(&folder)).unwrap() else {
            panic!("it is there")
        };
        assert_eq!(losses.objects["c/0"].entries, [[1], [3]]);
        let key = Key::new("a/.shardine-lost.json").unwrap();
        store.put(&key, b"{}", Condition::None).unwrap();
        let found = read_record(&store, Some(&folder)).unwrap();
        assert!(matches!(found, Some(StoredLosses::Malformed(_))));
        assert!(record(&store, Some(&folder), None, &object, &lose(1)).is_err());
    }

    #[test]
    fn more_than_is_told_one_by_one_is_the_whole_object() {
        let mut lost = ObjectLosses::default();
        let entries = (0..=MOST as u32).map(|entry| vec![entry]).collect();
        lost.add(ObjectLosses { entries, ..Default::default() });
        assert_eq!(lost, ObjectLosses { whole: true, ..Default::default() });
    }
}
