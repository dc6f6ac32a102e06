//! Jobs: operations over whole data sets. Each takes a location, options and a context.
//!
//! | job | what it does |
//! |---|---|
//! | [`repack`], [`repack_volume`], [`repack_keys`] | repacks chunks or values into other shards, moving encoded bytes where it can (`shard`, `unshard` and `reshard` on the command line) |
//! | [`convert_to_ome`], [`convert_to_volume`], [`convert_to_zarr`] | converts a data set to OME-Zarr, arrays to a precomputed volume, a data set to arrays |
//! | [`import`], [`import_to_ome`], [`append`], [`export_to_file`], [`export_to_stream`] | `.npy` and raw files to arrays or images, and back |
//! | [`write_vectors`] | rows of geometry to a Zarr Vectors store |
//! | [`copy`] | copies a data set to another store, byte for byte |
//! | [`compare`], [`compare_objects`] | finds where two data sets differ, by elements or byte for byte |
//! | [`verify`], [`repair`] | finds damage, and repairs what can be repaired |
//! | [`compact`] | removes the gaps that in-place updates leave |
//! | [`pyramid`], [`pyramid_to`] | the lower levels of an image, in one pass over the finest |
//! | [`pyramid_vectors`], [`pyramid_vectors_to`] | the coarser levels of a Zarr Vectors store |
//! | [`migrate`] | Zarr version 2 to 3, OME-Zarr to 0.5 or 0.6; the chunks stay where they are |
//! | [`unfinished_job`] | finds an interrupted in-place job on a data set |
//! | [`recover`] | restores the name of a data set whose in-place job was killed between two renames |
//! | [`abort_unfinished_uploads`] | for a program that is about to exit: leaves no parts of uploads behind |
//!
//! Most take a [`JobContext`]: the engine, a progress callback and a token that stops the job; an
//! engine alone will do. Options have defaults. A stopped job leaves valid data, and running it
//! again resumes it. Several processes can share a job with [`Part`].
//!
//! ```
//! use shardine::jobs::{CancelToken, JobContext, VerifyOptions, verify};
//! use shardine::{Array, Engine, Location};
//!
//! let place = Location::memory();
//! Array::builder([100, 100], "uint8").create(&place)?.write(.., &[1u8; 10_000])?;
//!
//! let context = JobContext::new(&Engine::shared()?)
//!     .progress(|now| println!("{} of {} objects", now.done, now.total))
//!     .cancel(&CancelToken::new());
//! let summary = verify(&context, &place, &VerifyOptions::new().decode(true), &mut |finding| {
//!     println!("{}: {}", finding.kind, finding.message);
//! })?;
//! assert!(summary.is_ok());
//! # Ok::<(), shardine::Error>(())
//! ```

mod append;
mod as_json;
mod check;
mod compact;
mod compare;
mod convert;
mod copy;
mod export;
mod frame;
mod import;
mod losses;
mod migrate;
mod pyramid;
mod rebuild;
mod repack;
mod repack_volume;
mod repair;
mod setters;
mod span;
mod subject;
mod unfinished;
mod vectors_pyramid;
mod vectors_write;
mod verify;
mod walk;
mod watched;
mod whole;

pub use append::{AppendError, AppendFrom, AppendOptions, AppendReport, append};
pub use as_json::describe_written;
pub use check::{Finding, FindingKind, Severity, Untold, VerifySummary};
pub use compact::{CompactOptions, CompactSummary, Compacted, compact};
pub use compare::{
    AttributeDiffers, Comparand, CompareError, CompareOptions, CompareSide, CompareSummary,
    Difference, DifferenceKind, ElementPlace, ElementsDiffer, ObjectDifference, ObjectSummary,
    compare, compare_objects,
};
pub use convert::{
    ConvertError, ConvertOptions, ConvertSummary, ConvertedLevel, LevelCount, OmeForm, VolumeForm,
    ZarrForm, convert_to_ome, convert_to_volume, convert_to_zarr,
};
pub use copy::{COPY_MARKER, CopyCheck, CopyError, CopyOptions, CopyProgress, CopyReport, copy};
pub use export::{ExportOptions, export_to_file, export_to_stream};
pub use frame::{CancelToken, JobContext, JobError, JobProgress, Part};
pub use import::{ImportError, ImportOptions, ImportReport, import, import_to_ome};
pub use losses::LOSS_RECORD;
pub use migrate::{
    MigrateError, MigrateOptions, MigrateSummary, Migrated, MigratedChange, RefusedNode, migrate,
};
pub use pyramid::{
    LevelCounts, PYRAMID_MARKER, PyramidError, PyramidLevel, PyramidOptions, PyramidPlan,
    PyramidReport, PyramidSummary, PyramidTask, pyramid, pyramid_to,
};
pub use rebuild::{PartOutcome, RebuildJob, RebuildPlan, RebuildTask, TaskReport, recover};
pub use repack::{
    REPACK_MARKER, RepackCheck, RepackError, RepackOptions, RepackOutcome, RepackedArray, repack,
};
pub use repack_volume::{RepackVolumeOptions, RepackedScale, repack_keys, repack_volume};
pub use repair::{Repair, RepairKind, RepairOptions, RepairSummary, repair};
pub use shardine_remote::abort_unfinished_uploads;
pub use subject::{Subject, subject};
pub use unfinished::{UnfinishedJob, unfinished_job};
pub use vectors_pyramid::{
    PyramidVectorsError, PyramidVectorsLevel, PyramidVectorsOptions, PyramidVectorsReport,
    pyramid_vectors, pyramid_vectors_to,
};
pub use vectors_write::{
    ObjectTables, WriteVectorsError, WriteVectorsOptions, WriteVectorsReport, write_vectors,
    write_vectors_with,
};
pub use verify::{VerifyOptions, verify};
