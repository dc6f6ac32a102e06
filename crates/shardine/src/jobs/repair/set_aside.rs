//! Where damaged bytes are kept.

use std::ops::Range;
use std::sync::Arc;

use serde_json::json;
use shardine_store::{Condition, CreateOptions, Modes, Object, Store, StoreError, StoreExt};

use super::Repair;
use crate::{Error, Location};

/// A folder for damaged bytes: for each piece a file with the bytes, and one in JSON that says what they are.
pub(crate) struct SetAside {
    location: Location,
    pub bytes: u64,
}

/// Names that are tried before it is given up.
const NAMES: u32 = 10_000;

impl SetAside {
    pub fn new(location: Location) -> Self {
        Self { location, bytes: 0 }
    }

    /// Keeps a range of an object, and what is known about it. Returns the name of the file with the bytes.
    pub fn keep(
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
        // Whoever may not read the object may not read what is kept of it.
        let store: Arc<dyn Store> = match (self.location.store.files(), object.file()) {
            (Some(files), Some(file)) => Arc::new(files.with_modes(Modes::of(file)?)),
            _ => Arc::clone(&self.location.store),
        };
        for number in 0..NAMES {
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
            return Ok(name);
        }
        let key = self.location.key(&base)?;
        Err(StoreError::Conflict { key }.into())
    }
}
