//! Writes one object of any format: chunks as they are ready, then what surrounds them.
//!
//! A format implements [`Frame`]: how long the head of an object is, and what head and tail contain
//! once it is known where each chunk lies. Everything else is implemented once, here: workers
//! deliver batches of chunks, encoded or to be moved, and the [`Sequencer`] assigns them their
//! places.

mod frame;
mod growing;
mod sequencer;
mod slots;

use std::sync::OnceLock;

use shardine_store::{Condition, CreateOptions, Key, ObjectWriter, Staged, Store, StoreError};

use super::Engine;
use crate::Error;
use crate::shard::ShardIndex;
use sequencer::Sequencer;

pub use frame::{Frame, IndexedFrame, Uint64Frame};
pub use growing::GrowingObject;
pub use sequencer::{Batch, Piece};
pub use slots::{MakeBatch, Sink, Slots, Taken};

/// An object to be written.
pub struct NewObject<'a> {
    /// The store it is written to.
    pub store: &'a dyn Store,
    /// Its key.
    pub key: &'a Key,
    /// What must be there when it is published.
    pub condition: Condition,
    /// What surrounds its chunks.
    pub frame: &'a dyn Frame,
    /// Whether batches are written in the order they arrive.
    pub any_order: bool,
}

/// An object whose chunks are written, but not yet what surrounds them.
pub struct LaidDown<'a> {
    writer: Opening<'a>,
    /// Where each chunk lies.
    pub placed: ShardIndex,
    /// Where the last one ends.
    end: u64,
}

/// An object that is fully written and can be published.
pub struct Finished {
    /// The handle that publishes it.
    pub staged: Staged,
    /// Its length.
    pub len: u64,
}

impl NewObject<'_> {
    /// Has the workers make slots, as many in parallel as the budget allows, and writes them.
    pub fn lay_down<S: Sync, E: From<Error> + Send>(
        &self,
        engine: &Engine,
        slots: Slots<'_, S>,
        make: &MakeBatch<'_, S, E>,
    ) -> Result<LaidDown<'_>, E> {
        let places = self.frame.places()?;
        let writer = Opening::new(self);
        let sequencer = Sequencer::new(&writer, places, self.any_order);
        slots.make_all(engine, self.key, make, &sequencer)?;
        let unfinished = || Error::Unfinished { object: self.key.clone() };
        let (placed, bytes) = sequencer.into_places().ok_or_else(unfinished)?;
        let end = self.frame.head() + bytes;
        Ok(LaidDown { writer, placed, end })
    }

    /// Writes bytes whose places are already decided: `write` puts them there and returns where
    /// each chunk is and where the last byte ends.
    pub fn lay_down_as_is<E: From<Error>>(
        &self,
        write: impl FnOnce(&dyn ObjectWriter) -> Result<(ShardIndex, u64), E>,
    ) -> Result<LaidDown<'_>, E> {
        let writer = Opening::new(self);
        let (placed, end) = write(writer.get().map_err(Error::from)?)?;
        Ok(LaidDown { writer, placed, end })
    }
}

/// The writer of a new object, created when the first byte is written: many objects turn out to be
/// empty.
struct Opening<'a> {
    new: &'a NewObject<'a>,
    writer: OnceLock<Box<dyn ObjectWriter>>,
}

impl<'a> Opening<'a> {
    fn new(new: &'a NewObject<'a>) -> Self {
        Self { new, writer: OnceLock::new() }
    }

    fn key(&self) -> &'a Key {
        self.new.key
    }

    fn create(&self) -> Result<Box<dyn ObjectWriter>, StoreError> {
        let NewObject { store, key, condition, frame, .. } = self.new;
        let options = CreateOptions { head: frame.head(), condition: condition.clone() };
        store.create(key, options)
    }

    fn get(&self) -> Result<&dyn ObjectWriter, StoreError> {
        if let Some(writer) = self.writer.get() {
            return Ok(&**writer);
        }
        let created = self.create()?;
        // If two threads race, one's writer is dropped and leaves nothing behind.
        Ok(&**self.writer.get_or_init(|| created))
    }

    fn into_writer(self) -> Result<Box<dyn ObjectWriter>, StoreError> {
        match self.writer.into_inner() {
            Some(writer) => Ok(writer),
            None => Self::new(self.new).create(),
        }
    }
}

impl LaidDown<'_> {
    /// Whether there is no chunk in it.
    pub fn is_empty(&self) -> bool {
        self.placed.all_absent()
    }

    /// Writes what surrounds the chunks.
    pub fn finish(self, engine: &Engine) -> Result<Finished, Error> {
        let Self { writer, placed, end } = self;
        let NewObject { key, frame, .. } = writer.new;
        let ends = engine.with_context(|context| frame.close(context, &placed, end))?;
        let writer = writer.into_writer()?;
        let len = end + ends.tail.len() as u64;
        if !ends.tail.is_empty() && writer.append(&ends.tail)? != end {
            return Err(Error::Unfinished { object: (*key).clone() });
        }
        Ok(Finished { staged: writer.finish(&ends.head)?, len })
    }
}
