use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::frame::Part;
use super::super::rebuild::{OutOptions, PartOutcome, StepDone};
use super::super::repack::{CodecChoice, Packing, RepackCheck, RepackOutcome};
use crate::plan::{ValueSizes, VolumePacking};
use crate::precomputed::ChunkEncoding;
use crate::shard::IndexLocation;
use crate::shard::uint64::{Encoding, Sharding};

/// How to convert a data set, whatever it becomes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// Another shape of the chunks: lengths along x, y and z, and of a Zarr array along channel if they are four. They are then encoded anew.
    pub chunk: Option<Vec<u64>>,
    /// How the result is checked; `None` is [`RepackCheck::Bytes`] for files and [`RepackCheck::None`] for a remote store.
    pub check: Option<RepackCheck>,
    /// Whether chunks that hold nothing but zeros are stored too, which some readers of volumes expect. Those that are
    /// stored in the source and can be moved are so in any case.
    pub store_empty: bool,
    /// Remove the data set that is at the target.
    pub overwrite: bool,
    /// Give up what an earlier job has left unfinished.
    pub restart: bool,
    /// Only tell what would be done.
    pub dry_run: bool,
    /// Take the process that was making the target for dead, where that cannot be told.
    pub take_over: bool,
    /// Which part of the work this process does; `None` for all of it.
    pub part: Option<Part>,
}

impl ConvertOptions {
    /// As it is, and refusing a target that exists.
    pub fn new() -> Self {
        Self::default()
    }

    /// With chunks of this shape.
    pub fn chunk(mut self, chunk: &[u64]) -> Self {
        self.chunk = Some(chunk.to_vec());
        self
    }

    /// Checked in this way.
    pub fn check(mut self, check: RepackCheck) -> Self {
        self.check = Some(check);
        self
    }

    /// With chunks of zeros stored, or not.
    pub fn store_empty(mut self, store_empty: bool) -> Self {
        self.store_empty = store_empty;
        self
    }

    /// With the data set at the target removed first, or not.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// With what an earlier job has left given up, or not.
    pub fn restart(mut self, restart: bool) -> Self {
        self.restart = restart;
        self
    }

    /// With nothing changed, or not.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// With only this part of the work done.
    pub fn part(mut self, part: Part) -> Self {
        self.part = Some(part);
        self
    }

    pub(in crate::jobs) fn out(&self) -> OutOptions {
        OutOptions {
            overwrite: self.overwrite,
            restart: self.restart,
            take_over: self.take_over,
            part: self.part,
            check: self.check,
            store_empty: self.store_empty,
            ..OutOptions::default()
        }
    }

    /// What is asked for, the same for the same result.
    pub(super) fn request(&self, form: Value) -> Value {
        json!({ "chunk": self.chunk, "store_empty": self.store_empty, "form": form })
    }
}

/// What the arrays are to be that a volume becomes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ZarrForm {
    /// How chunks are packed. [`Packing::Keep`] makes shards of the same boxes where the volume has shards that are boxes.
    pub packing: Packing,
    /// Where indexes lie; `None` puts them to the end.
    pub index: Option<IndexLocation>,
    /// The codecs of the chunks; `None` is what leaves the bytes of raw chunks as they are, and for other encodings a
    /// transpose, bytes and zstd. Words that say nothing of the order of axes leave voxels as they lie in a volume.
    pub codecs: Option<CodecChoice>,
}

impl ZarrForm {
    /// As near to the volume as can be.
    pub fn new() -> Self {
        Self::default()
    }

    /// With chunks packed in this way.
    pub fn packing(mut self, packing: Packing) -> Self {
        self.packing = packing;
        self
    }

    /// With indexes there.
    pub fn index(mut self, index: IndexLocation) -> Self {
        self.index = Some(index);
        self
    }

    /// With chunks encoded by these codecs.
    pub fn codecs(mut self, codecs: CodecChoice) -> Self {
        self.codecs = Some(codecs);
        self
    }

    pub(super) fn request(&self) -> Value {
        json!({
            "zarr": self.packing,
            "index": self.index,
            "codecs": self.codecs,
        })
    }
}

/// What the volume is to be that arrays become.
///
/// With nothing but the default, an `info` that was kept when the arrays were made from a volume is written back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct VolumeForm {
    /// `image` or `segmentation`; `None` goes by the type and the encoding.
    pub kind: Option<String>,
    /// Nanometres from one voxel to the next at the finest level.
    pub resolution: Option<[f64; 3]>,
    /// Where the first voxel of the finest level is.
    pub voxel_offset: Option<[i64; 3]>,
    /// How chunks are encoded; `None` is raw.
    pub encoding: Option<ChunkEncoding>,
    /// How chunks are packed.
    pub packing: Option<VolumePacking>,
    /// How values are stored in shards; `None` is gzip for encodings that do not compress by themselves, and for others if it
    /// makes a few chunks that are tried smaller by a tenth.
    pub data_encoding: Option<Encoding>,
}

impl VolumeForm {
    /// As near to the arrays as can be.
    pub fn new() -> Self {
        Self::default()
    }

    /// Of this kind.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// With this resolution.
    pub fn resolution(mut self, resolution: [f64; 3]) -> Self {
        self.resolution = Some(resolution);
        self
    }

    /// With the first voxel there.
    pub fn voxel_offset(mut self, voxel_offset: [i64; 3]) -> Self {
        self.voxel_offset = Some(voxel_offset);
        self
    }

    /// With chunks encoded so.
    pub fn encoding(mut self, encoding: ChunkEncoding) -> Self {
        self.encoding = Some(encoding);
        self
    }

    /// With chunks packed so.
    pub fn packing(mut self, packing: VolumePacking) -> Self {
        self.packing = Some(packing);
        self
    }

    /// With values stored so.
    pub fn data_encoding(mut self, encoding: Encoding) -> Self {
        self.data_encoding = Some(encoding);
        self
    }

    pub(super) fn request(&self) -> Value {
        json!({ "volume": self })
    }
}

/// What became of one level.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ConvertedLevel {
    /// Its number; 0 is the finest.
    pub level: usize,
    /// Its name in the source: the path of an array below the place that was named, or the key of a scale.
    pub source: String,
    /// The same in the target.
    pub target: String,
    /// What became of it.
    pub outcome: RepackOutcome,
    /// Elements along x, y, z and channel.
    pub shape: Vec<u64>,
    /// The same of its chunks.
    pub chunk_shape: Vec<u64>,
    /// The same of its shards, where they are boxes.
    pub shard_shape: Option<Vec<u64>>,
    /// How chunks are packed in a volume.
    pub sharding: Option<Sharding>,
    /// What decided whether values are compressed with gzip, where nobody had said it.
    pub measured: Option<ValueSizes>,
    /// The axes of the source, in their order.
    pub axes: Vec<&'static str>,
    /// Whether the metadata names no axes, and these are only believed to be so.
    pub axes_assumed: bool,
    /// Whether whole chunks are moved as they are; those that are cut off at an end of the array never are.
    pub moves: bool,
    /// Chunks that were moved as they were.
    pub chunks_moved: u64,
    /// Chunks that were encoded anew.
    pub chunks_recoded: u64,
    /// Chunks that are not stored.
    pub chunks_absent: u64,
    /// Objects that this run has written.
    pub objects_written: u64,
    /// Their bytes.
    pub bytes_written: u64,
    /// Objects that an earlier run had written. Their chunks are not counted.
    pub objects_kept: u64,
    /// How the result was checked.
    pub check: RepackCheck,
}

impl ConvertedLevel {
    /// With what was done.
    pub(super) fn done(mut self, done: StepDone) -> Self {
        let StepDone { counts, resumed, check } = done;
        self.check = check;
        if resumed {
            self.outcome = RepackOutcome::Resumed;
        }
        self.chunks_moved = counts.moved;
        self.chunks_recoded = counts.recoded;
        self.chunks_absent = counts.absent;
        self.objects_written = counts.written;
        self.bytes_written = counts.bytes;
        self.objects_kept = counts.kept;
        self
    }
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ConvertSummary {
    /// Whether the `info` of a volume is the one that was kept in the arrays.
    pub info_kept: bool,
    /// Why a kept `info` was not written back.
    pub info_not_kept: Option<String>,
    /// Whether the result is whole, or waits for other parts.
    pub outcome: PartOutcome,
}
