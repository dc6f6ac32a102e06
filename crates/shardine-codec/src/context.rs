use std::any::{Any, TypeId};
use std::fmt;

use crate::CodecError;

/// What one worker keeps between chunks: compressor contexts and scratch buffers.
///
/// Setting up a zstd context for each chunk costs 6 to 10 % of a read, so each worker owns one
/// `Context` and passes it to every codec call. A codec keeps whatever it likes in a slot of its
/// own type:
///
/// ```
/// #[derive(Default)]
/// struct MyState { calls: usize }
///
/// let mut context = shardine_codec::Context::new();
/// context.slot::<MyState>().calls += 1;
/// assert_eq!(context.slot::<MyState>().calls, 1);
/// ```
#[derive(Default)]
pub struct Context {
    /// A handful, so scanning them is faster than hashing.
    slots: Vec<(TypeId, Box<dyn Any + Send>)>,
    buffers: Vec<Vec<u8>>,
}

impl Context {
    /// An empty context.
    pub fn new() -> Self {
        Self::default()
    }

    /// The slot of type `T`, created with `T::default()` on first use.
    pub fn slot<T: Default + Send + 'static>(&mut self) -> &mut T {
        let id = TypeId::of::<T>();
        let at = self.slots.iter().position(|(slot, _)| *slot == id).unwrap_or_else(|| {
            self.slots.push((id, Box::<T>::default()));
            self.slots.len() - 1
        });
        match self.slots[at].1.downcast_mut() {
            Some(slot) => slot,
            None => unreachable!("a slot is keyed by the type of what is in it"),
        }
    }

    /// Takes an empty scratch buffer, with the capacity that its last user left.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Takes a scratch buffer of `len` bytes with arbitrary content.
    ///
    /// A buffer keeps its length while unused, so only growth costs anything. The length may come
    /// from metadata: if there is not enough memory, that is an error rather than an abort.
    pub fn take_filled(&mut self, len: usize) -> Result<Vec<u8>, CodecError> {
        let longest = (0..self.buffers.len()).max_by_key(|&i| self.buffers[i].len());
        let mut buffer = longest.map(|i| self.buffers.swap_remove(i)).unwrap_or_default();
        buffer
            .try_reserve(len.saturating_sub(buffer.len()))
            .map_err(|_| CodecError::OutOfMemory { codec: "bytes", bytes: len })?;
        buffer.resize(len, 0);
        Ok(buffer)
    }

    /// Returns a scratch buffer for reuse.
    pub fn give_buffer(&mut self, buffer: Vec<u8>) {
        self.buffers.push(buffer);
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("slots", &self.slots.len())
            .field("buffers", &self.buffers.len())
            .finish()
    }
}
