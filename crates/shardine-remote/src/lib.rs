//! Object stores as Shardine stores: S3 and compatible stores, Google Cloud Storage, Azure, and
//! plain HTTP.
//!
//! Requests go through the `object_store` crate, on a runtime of their own with many in flight;
//! callers of a store block until the answer arrives, as with every other store. This crate adds
//! what shards need: reads pinned to one version, uploads in bounded memory, and writes that happen
//! only if nobody else wrote, exactly once even if an answer is lost.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod commit;
mod cost;
mod credentials;
mod encoding;
mod error;
mod exchange;
mod object;
mod options;
mod place;
mod probe;
mod runtime;
mod spool;
mod store;
mod upload;
mod writer;

pub use options::StoreOptions;
pub use place::path_in_url;
pub use store::RemoteStore;
pub use upload::abort_unfinished_uploads;
