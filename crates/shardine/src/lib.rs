//! Sharded chunk storage: reads and writes n-dimensional arrays with chunks packed into shards.
//!
//! Supports Zarr version 3, existing arrays of version 2, Neuroglancer precomputed volumes and
//! webknossos-wrap (read-only), in local files, S3, Azure, Google Cloud Storage and over HTTP.
//!
//! # A tour
//!
//! **Create an array.** [`Array::builder`] takes a shape and a type; everything else has a default.
//! The array is created at a path, a URL or a [`Location`].
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("cells.zarr");
//! use shardine::Array;
//!
//! let cells = Array::builder([64, 512, 512], "uint16")
//!     .chunks([16, 64, 64])
//!     .shards([64, 256, 256])
//!     .codec("zstd:3")
//!     .create(&path)?;
//! # Ok(())
//! # }
//! ```
//!
//! **Write and read** regions as Rust values. A region is given as ranges, one for each axis, or as
//! text: see [`IntoRegion`]. Shards change atomically, and concurrent writers do not lose each
//! other's changes.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let cells = shardine::Array::builder([64, 512, 512], "uint16").create(shardine::Location::memory())?;
//! cells.write((10, 5..7, 100..103), &[1u16, 2, 3, 4, 5, 6])?;
//! assert_eq!(cells.read::<u16>((9..=10, 6, 102))?, [0, 6]);
//! assert_eq!(cells.read::<u16>("10, 5:7, 100:103:2")?, [1, 3, 4, 6]);
//!
//! let mut row = [0u16; 512];
//! cells.read_into((10, 5, ..), &mut row)?;
//!
//! // Nothing is converted: a wrong type is an error that names both.
//! let refused = cells.read::<f32>(..).unwrap_err();
//! assert!(refused.to_string().ends_with("holds uint16, not f32"));
//! # Ok(())
//! # }
//! ```
//!
//! **Open anything.** [`open`] detects what is at a URL; [`Array::open`] is short for its finest
//! level. For variable-length elements, such as strings, and for arrays whose type is only known at
//! run time, use [`Array::read_elements`].
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("file://{}", folder.path().join("cells.zarr").display());
//! # shardine::Array::builder([64, 512, 512], "uint16").create(&url)?;
//! let set = shardine::open(&url)?; // or s3://bucket/cells, https://host/volume
//! println!("{} data, {:?}", set.format(), set.kind());
//! let array = set.array(0)?;
//! println!("{:?} of {}", array.shape(), array.data_type().name());
//! # Ok(())
//! # }
//! ```
//!
//! **Work on whole data sets** with the [`jobs`]: repack chunks into other shards, convert between
//! formats, copy, verify, repair. Most take an [`Engine`], or a [`jobs::JobContext`] with a
//! progress callback and a cancellation token; running a job again resumes it.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use shardine::jobs::{CancelToken, JobContext, RepackOptions, repack};
//! use shardine::{Array, Engine, Error, Location, Packing};
//!
//! # let (source, target) = (Location::memory(), Location::memory());
//! # let array = Array::builder([64, 64], "uint8").chunks([16, 16]).unsharded().create(&source)?;
//! # array.write(.., &[1u8; 64 * 64])?;
//! let stop = CancelToken::new();
//! let context = JobContext::new(&Engine::shared()?)
//!     .progress(|now| println!("{} of {}", now.done, now.total))
//!     .cancel(&stop);
//!
//! // From another thread or a signal handler:
//! stop.cancel();
//! let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![4]));
//! let stopped = repack(&context, &source, Some(&target), &options, &mut |_| {});
//! assert!(matches!(stopped, Err(Error::Cancelled)));
//!
//! // The same again, with nothing to stop it.
//! repack(&Engine::shared()?, &source, Some(&target), &options, &mut |done| {
//!     println!("{} chunks moved", done.chunks_moved);
//! })?;
//! assert_eq!(Array::open(&target)?.shard_shape(), Some(&[64, 64][..]));
//! # Ok(())
//! # }
//! ```
//!
//! The `examples` folder of this crate has complete programs: `make`, `update`, `instrument`
//! (writes planes as they arrive), `reshard`, `s3` and `precomputed`.
//!
//! # What is where
//!
//! | | |
//! |---|---|
//! | [`Array`], [`ArrayBuilder`], [`Region`], [`DataType`], [`Element`] | arrays of any format, and their elements |
//! | [`open`], [`DataSet`], [`Location`], [`StoreOptions`] | data sets, and where they are |
//! | [`ArrayNode`], [`Group`], [`SliceWriter`], [`zarr`] | what only Zarr has: attributes, growing, groups |
//! | [`ome`], [`precomputed`], [`wkw`] | what only other formats have |
//! | [`vectors`] | points, lines, graphs and meshes |
//! | [`physical`] | positions of elements, and boxes of lengths and times |
//! | [`Engine`] | threads, memory and caches, shared by all arrays |
//! | [`jobs`], [`files`] | work on whole data sets; `.npy` and raw files |
//! | [`plan`], [`codec_words`], [`units`] | which chunks, shards and codecs; codecs and sizes in few words |
//! | [`Error`] | why a call failed, and [what to do](Error::hint) |
//! | [`store`], [`shard`], [`stored`] | below arrays: objects, bytes of shards |
//!
//! # Elements in memory
//!
//! Typed calls use the byte order of the machine. Calls on bytes, such as [`Array::read_elements`],
//! use little-endian elements on every machine, in C order.
//!
//! # Tracing
//!
//! Each call that opens, reads or writes is a `tracing` span at level `debug`, and each job is one
//! at level `info`. They cost next to nothing unless the program has a subscriber.
//!
//! # Features
//!
//! `ndarray` adds `Array::read_ndarray` and `Array::write_ndarray`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod anchor;
mod array;
mod builder;
pub mod codec_words;
mod dataset;
mod error;
mod error_kind;
pub mod files;
mod format;
pub mod jobs;
mod location;
pub mod ome;
mod owner;
pub mod physical;
pub mod plan;
pub mod precomputed;
mod set;
pub mod stored;
pub mod units;
pub mod vectors;
pub mod wkw;
pub mod zarr;

use shardine_engine as engine;
pub use shardine_engine::shard;
use shardine_engine::{keyed, layout, memory, selection, source};
pub use shardine_store as store;

pub use array::{Array, HeldArray, Pick};
pub use builder::ArrayBuilder;
pub use codec_words::CodecChoice;
pub use dataset::{open, open_in};
pub use engine::Error as EngineError;
pub use engine::{Engine, EngineOptions, MAX_THREADS, Strategy, WriteOptions, WriteReport};
pub use error::Error;
pub use error_kind::ErrorKind;
pub use half::{bf16, f16};
pub use location::{IntoLocation, Location, LocationSpec};
pub use num_complex::Complex;
pub use plan::Packing;
pub use selection::{
    Axis, AxisRange, IntoRegion, Region, RegionAxes, RegionError, RegionText, Selection,
};
pub use set::{DataSet, KeyRole, PartContent, SetKind, SetPart};
pub use shard::WriteOrder;
pub use shardine_codec::strided::Placement;
pub use shardine_codec::{
    CodecSpec, DataType, DataTypeError, Distance, DownsampleError, DownsampleMethod, Element,
    ElementDifferences, ElementSize, Elements, ElementsRef, FillValue, InvalidElement, Kind,
    VariableElements,
};
pub use shardine_remote::StoreOptions;
pub use source::{GeneratorSource, Source, SourceError};
pub use zarr::{ArrayNode, Child, Group, Node, SliceError, SliceOptions, SliceWriter};
