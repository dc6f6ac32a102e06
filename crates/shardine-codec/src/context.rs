use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;

/// What one worker keeps between chunks: compressor contexts and scratch buffers.
///
/// Setting up a zstd context for each chunk costs 6 to 10 % of a read, so each
/// worker owns one `Context` and hands it to every codec call. A codec keeps
/// whatever it likes in a slot of its own type:
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
    slots: HashMap<TypeId, Box<dyn Any + Send>>,
    buffers: Vec<Vec<u8>>,
}

impl Context {
    /// An empty context.
    pub fn new() -> Self {
        Self::default()
    }

    /// The slot of type `T`, made with `T::default()` on first use.
    pub fn slot<T: Default + Send + 'static>(&mut self) -> &mut T {
        let slot = self.slots.entry(TypeId::of::<T>()).or_insert_with(|| Box::<T>::default());
        match slot.downcast_mut() {
            Some(slot) => slot,
            None => unreachable!("a slot is keyed by the type of what is in it"),
        }
    }

    /// Takes an empty scratch buffer; its capacity is what its last user left.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Gives a scratch buffer back for the next [`take_buffer`](Self::take_buffer).
    pub fn give_buffer(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
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
