//! Operations over whole data sets.

mod append;
mod check;
mod compact;
mod convert;
mod copy;
mod export;
mod frame;
mod import;
mod losses;
mod migrate;
mod rebuild;
mod repack;
mod repack_volume;
mod repair;
mod verify;
mod walk;
mod watched;
mod whole;

pub use append::{AppendError, AppendFrom, AppendOptions, AppendReport, append};
pub use check::{Finding, FindingKind, Severity, Untold, VerifySummary};
pub use compact::{CompactOptions, CompactSummary, Compacted, compact};
pub use convert::{
    ConvertError, ConvertOptions, ConvertSummary, ConvertedLevel, VolumeForm, ZarrForm,
    convert_to_volume, convert_to_zarr,
};
pub use copy::{COPY_MARKER, CopyCheck, CopyError, CopyOptions, CopyProgress, CopyReport, copy};
pub use export::{ExportOptions, export_to_file, export_to_stream};
pub use frame::{CancelToken, JobContext, JobError, JobProgress, Part};
pub use import::{ImportError, ImportOptions, ImportReport, import};
pub use losses::LOSS_RECORD;
pub use migrate::{MigrateError, MigrateOptions, MigrateSummary, Migrated, RefusedNode, migrate};
pub use rebuild::{PartOutcome, RebuildJob, RebuildPlan, RebuildTask, TaskReport, recover};
pub use repack::{
    REPACK_MARKER, RepackCheck, RepackError, RepackOptions, RepackOutcome, RepackedArray, repack,
};
pub use repack_volume::{RepackVolumeOptions, RepackedScale, repack_keys, repack_volume};
pub use repair::{Repair, RepairKind, RepairOptions, RepairSummary, repair};
pub use verify::{VerifyOptions, verify};
