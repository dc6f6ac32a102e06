//! Sharded chunk storage: reads and writes the shards of n-dimensional arrays.
//!
//! [`Array`] is where to begin: open one as an [`ArrayNode`] at a [`Location`], then [`read`](Array::read)
//! or [`write`](Array::write) a [`Region`] of it. The [`Engine`] holds what all arrays share: threads, the memory
//! budget, and the cache of shard indexes.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod anchor;
mod array;
mod builder;
pub mod codec_words;
mod dataset;
mod error;
pub mod files;
mod jobs;
mod location;
mod owner;
pub mod plan;
pub mod precomputed;
mod set;
mod wkw;
pub mod zarr;

use shardine_engine as engine;
pub use shardine_engine::shard;
use shardine_engine::{keyed, layout, memory, selection, source};

pub use shardine_remote::{StoreOptions, abort_unfinished_uploads};
pub use shardine_store as store;

pub use array::{Array, HeldArray};
pub use builder::ArrayBuilder;
pub use codec_words::CodecChoice;
pub use dataset::{open, open_in};
pub use engine::Error as EngineError;
pub use engine::{Engine, EngineOptions, MAX_THREADS, Strategy, WriteOptions, WriteReport};
pub use engine::{PossibleObject, ShardEntries, StoredObject};
pub use error::Error;
pub use half::{bf16, f16};
pub use jobs::LOSS_RECORD;
pub use jobs::{AppendError, AppendFrom, AppendOptions, AppendReport, append};
pub use jobs::{COPY_MARKER, CopyCheck, CopyError, CopyOptions, CopyProgress, CopyReport, copy};
pub use jobs::{CancelToken, JobContext, JobError, JobProgress, Part, PartOutcome, recover};
pub use jobs::{CompactOptions, CompactSummary, Compacted, compact};
pub use jobs::{
    ConvertError, ConvertOptions, ConvertSummary, ConvertedLevel, VolumeForm, ZarrForm,
    convert_to_volume, convert_to_zarr,
};
pub use jobs::{ExportOptions, export_to_file, export_to_stream};
pub use jobs::{Finding, FindingKind, Severity, Untold, VerifyOptions, VerifySummary, verify};
pub use jobs::{ImportError, ImportOptions, ImportReport, import};
pub use jobs::{MigrateError, MigrateOptions, MigrateSummary, Migrated, RefusedNode, migrate};
pub use jobs::{
    REPACK_MARKER, RepackCheck, RepackError, RepackOptions, RepackOutcome, RepackedArray, repack,
};
pub use jobs::{RebuildJob, RebuildPlan, RebuildTask, TaskReport};
pub use jobs::{RepackVolumeOptions, RepackedScale, repack_keys, repack_volume};
pub use jobs::{Repair, RepairKind, RepairOptions, RepairSummary, repair};
pub use layout::{DecodeError, EncodeError, LayoutError};
pub use location::{IntoLocation, Location, LocationSpec};
pub use num_complex::Complex;
pub use plan::{Packing, ShardingRequest, VolumePacking};
pub use precomputed::KeyFolders;
pub use precomputed::key_values::{KeyValueStore, KeyValues, ListedKey, PayloadKind, PutReport};
pub use selection::{Axis, AxisRange, IntoRegion, Region, RegionError, Selection};
pub use set::{DataSet, KeyRole, PartContent, SetKind, SetPart};
pub use shard::WriteOrder;
pub use shardine_codec::strided::Placement;
pub use shardine_codec::{
    CodecSpec, DataType, DataTypeError, Element, ElementSize, Elements, ElementsRef, FillValue,
    InvalidElement, Kind, VariableElements,
};
pub use source::{GeneratorSource, Source, SourceError};
pub use wkw::PropertiesError;
pub use zarr::metadata::ZarrFormat;
pub use zarr::{
    AppendClaim, AppendNote, ArrayNode, Child, Group, Node, SliceError, SliceOptions, SliceWriter,
    StaleCopy, consolidate, remove_consolidated, renew_consolidated_above,
};
