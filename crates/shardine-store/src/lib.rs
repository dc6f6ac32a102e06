//! Where objects live: in memory, in files, or wherever other stores keep them.
//!
//! A store knows keys, ranges and versions. It knows nothing of arrays, chunks or codecs. Its
//! interface is blocking; a store that is asynchronous inside hides its runtime. Every store passes
//! the suite in [`conformance`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod batch;
mod buffer;
pub mod conformance;
mod counting;
mod edit;
mod error;
mod ext;
mod fault;
mod file;
mod folders;
mod headers;
mod key;
pub mod layer;
mod memory;
mod object;
mod store;

pub use batch::Workers;
pub use buffer::{Buffer, BufferPool, COPY_PIECE, ReadBuffer};
pub use counting::{Call, CountingStore, Counts};
pub use edit::{Edit, Held, Holding, InPlace};
pub use error::StoreError;
pub use ext::{MAX_SMALL_OBJECT, StoreExt};
pub use fault::{FaultStore, Operation};
pub use file::{
    DiskLook, DiskObserver, DiskStep, DocumentStamp, FileStore, FolderAlone, FolderHold, FolderId,
    FolderIdentity, FolderLock, FolderPart, FolderState, JobLock, Modes, ObjectTimes, Survey,
    Verdict, is_own_file,
};
pub use folders::{FolderExchange, Folders};
pub use headers::{HeaderName, Headers};
pub use key::Key;
pub use memory::MemoryStore;
pub use object::{Done, NextRead, Object, Read, ReadRange, Reads, Version, copy_into};
pub use store::{
    Condition, CreateOptions, Leftover, LeftoverKind, Listing, ObjectWriter, Pending, ReadCost,
    Recovery, Staged, Store, Unlisted, UnlistedKind,
};
