//! Where objects live: memory, files, and what later stores bring.
//!
//! A store knows keys, ranges and versions. It knows nothing of arrays, chunks
//! or codecs. It is blocking; a store that is asynchronous inside hides its
//! runtime. Every store passes the suite in [`conformance`].

pub mod conformance;
mod buffer;
mod counting;
mod error;
mod file;
mod key;
mod memory;
mod store;

pub use buffer::{Buffer, BufferPool};
pub use counting::{Call, Counts, CountingStore};
pub use error::StoreError;
pub use file::FileStore;
pub use key::Key;
pub use memory::MemoryStore;
pub use store::{
    Condition, CreateOptions, Listing, Object, ObjectWriter, Read, ReadCost, ReadRange, Staged, Store,
    Version,
};
