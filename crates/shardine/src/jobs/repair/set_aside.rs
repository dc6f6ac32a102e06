//! Where damaged bytes are kept.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::json;
use shardine_store::{Condition, CreateOptions, Key, Object, Store, StoreError, StoreExt, Version};

use super::Repair;
use crate::{Error, Location};

/// A folder for damaged bytes: for each piece a file with the bytes, and a JSON file that describes
/// them.
pub(crate) struct SetAside {
    location: Location,
    pub bytes: u64,
    /// How many pieces share each name.
    numbers: BTreeMap<String, u32>,
    /// The object version that the last pieces were kept from.
    of: Option<(Option<Key>, Option<Version>)>,
    pieces: u64,
    piece_bytes: u64,
    /// The name under which all of it is kept.
    whole: Option<String>,
}

/// The most pieces of one object kept one by one; with more, the object is kept whole.
const PIECES: u64 = 1000;

/// The most names tried.
const NAMES: u32 = 10_000;

impl SetAside {
    pub fn new(location: Location) -> Self {
        Self {
            location,
            bytes: 0,
            numbers: BTreeMap::new(),
            of: None,
            pieces: 0,
            piece_bytes: 0,
            whole: None,
        }
    }

    /// Keeps a range of an object, and what is known about it. Returns the name of the file with
    /// the bytes.
    ///
    /// Entries may claim the same bytes any number of times: once that would keep more than the
    /// object has, the whole object is kept, once.
    pub fn keep(
        &mut self,
        object: &dyn Object,
        range: Range<u64>,
        repair: &Repair,
    ) -> Result<String, Error> {
        let of = Some((repair.object.clone(), object.version()));
        if self.of != of {
            (self.of, self.pieces, self.piece_bytes, self.whole) = (of, 0, 0, None);
        }
        if let Some(name) = &self.whole {
            return Ok(name.clone());
        }
        self.pieces += 1;
        self.piece_bytes = self.piece_bytes.saturating_add(range.end - range.start);
        let len = object.len().unwrap_or(u64::MAX);
        if self.pieces > 1 && (self.pieces > PIECES || self.piece_bytes > len) {
            let mut all = repair.clone();
            all.chunk = None;
            "too much of it was set aside to be kept in pieces".clone_into(&mut all.message);
            let name = self.keep_piece(object, 0..len, &all)?;
            self.whole = Some(name.clone());
            return Ok(name);
        }
        self.keep_piece(object, range, repair)
    }

    fn keep_piece(
        &mut self,
        object: &dyn Object,
        range: Range<u64>,
        repair: &Repair,
    ) -> Result<String, Error> {
        let mut base =
            repair.object.as_ref().map_or("object", |key| key.as_str()).replace('/', "_");
        if let Some(chunk) = &repair.chunk {
            let numbers: Vec<String> = chunk.iter().map(u64::to_string).collect();
            base = format!("{base}.chunk_{}", numbers.join("_"));
        }
        // A user who may not read the object may not read what is kept of it.
        let store: Arc<dyn Store> = match (self.location.store.folders(), object.file()) {
            (Some(folders), Some(file)) => folders.with_modes_of(file)?,
            _ => Arc::clone(&self.location.store),
        };
        let first = self.numbers.get(&base).copied().unwrap_or(0);
        for number in first..first.saturating_add(NAMES) {
            let name = match number {
                0 => format!("{base}.bytes"),
                n => format!("{base}-{n}.bytes"),
            };
            let key = self.location.key(&name)?;
            let options = CreateOptions { head: 0, condition: Condition::Absent };
            let writer = store.create(&key, options)?;
            writer.append_from(object, range.clone())?;
            match store.publish(vec![writer.finish(&[])?]) {
                Ok(_) => {}
                Err(StoreError::Conflict { .. }) => continue,
                Err(error) => return Err(error.into()),
            }
            let about = json!({
                "object": repair.object.as_ref().map(|key| key.as_str()),
                "shard": repair.shard,
                "chunk": repair.chunk,
                "range": [range.start, range.end],
                "reason": repair.message,
            });
            let about_key = self.location.key(&format!("{name}.json"))?;
            let text = format!("{about:#}\n");
            store.put(&about_key, text.as_bytes(), Condition::None)?;
            self.bytes += range.end - range.start;
            self.numbers.insert(base, number + 1);
            return Ok(name);
        }
        let key = self.location.key(&base)?;
        Err(StoreError::Conflict { key }.into())
    }
}
