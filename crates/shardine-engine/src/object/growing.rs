//! Objects whose chunks come one by one, from a caller that makes several objects in turn.

use shardine_store::ObjectWriter;

use super::{CreateOptions, Finished, NewObject};
use crate::shard::ShardIndex;
use crate::{Engine, Error};

/// A new object that grows by a chunk at a time.
///
/// [`NewObject::lay_down`] asks for chunks in the order of one object. This is for the other
/// direction: chunks of several objects come in an order of their own, and each goes to the end of
/// its object. Each call describes the object, always the same one.
pub struct GrowingObject {
    writer: Option<Box<dyn ObjectWriter>>,
    placed: ShardIndex,
    end: u64,
}

impl GrowingObject {
    /// An object without chunks. Nothing is created before the first one.
    pub fn new(new: &NewObject<'_>) -> Result<Self, Error> {
        Ok(Self { writer: None, placed: new.frame.places()?, end: new.frame.head() })
    }

    /// Appends a chunk; `entry` is its number in the index.
    pub fn push(&mut self, new: &NewObject<'_>, entry: usize, bytes: &[u8]) -> Result<(), Error> {
        let writer = match &self.writer {
            Some(writer) => writer,
            None => {
                let options =
                    CreateOptions { head: new.frame.head(), condition: new.condition.clone() };
                self.writer.insert(new.store.create(new.key, options)?)
            }
        };
        if writer.append(bytes)? != self.end {
            return Err(Error::Unfinished { object: new.key.clone() });
        }
        let end = self.end + bytes.len() as u64;
        self.placed.set(entry, self.end..end);
        self.end = end;
        Ok(())
    }

    /// Writes what surrounds the chunks; `None` if there are none, and then nothing was created.
    pub fn finish(self, new: &NewObject<'_>, engine: &Engine) -> Result<Option<Finished>, Error> {
        let Self { writer, placed, end } = self;
        let Some(writer) = writer else { return Ok(None) };
        let ends = engine.with_context(|context| new.frame.close(context, &placed, end))?;
        let len = end + ends.tail.len() as u64;
        if !ends.tail.is_empty() && writer.append(&ends.tail)? != end {
            return Err(Error::Unfinished { object: new.key.clone() });
        }
        Ok(Some(Finished { staged: writer.finish(&ends.head)?, len }))
    }
}
