use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::frame::Part;
use super::super::rebuild::{Counts, OutOptions, PartOutcome, StepDone};
use super::super::repack::{CodecChoice, Packing, RepackCheck, RepackOutcome};
use super::super::setters::setters;
use crate::DownsampleMethod;
use crate::plan::{ValueSizes, VolumePacking};
use crate::precomputed::ChunkEncoding;
use crate::shard::IndexLocation;
use crate::shard::uint64::{Encoding, Sharding};
use crate::zarr::ZarrFormat;
use crate::zarr::metadata::Separator;

/// How to convert a data set, whatever the target format.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// The new chunk shape: of a volume, or of arrays made from one, lengths along x, y and z, and
    /// for a Zarr array optionally along channel; of an image lengths along its last axes. Chunks
    /// are then re-encoded.
    pub chunk: Option<Vec<u64>>,
    /// How the result is checked; `None` means [`RepackCheck::Bytes`] for files and
    /// [`RepackCheck::None`] for a remote store.
    pub check: Option<RepackCheck>,
    /// Whether chunks of nothing but zeros are stored too, which some readers of volumes expect.
    /// Those that the source stores and that can be moved are stored in any case.
    pub store_empty: bool,
    /// Remove the data set at the target.
    pub overwrite: bool,
    /// Abandon what an earlier job has left unfinished.
    pub restart: bool,
    /// Only report what would be done.
    pub dry_run: bool,
    /// Assume that the process writing the target is dead, where that cannot be checked.
    pub take_over: bool,
    /// The part of the work this process does; `None` for all of it.
    pub part: Option<Part>,
}

impl ConvertOptions {
    /// Keeps chunks as they are, and refuses a target that exists.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the chunk shape.
        chunk slice u64;
        /// Sets how the result is checked.
        check some RepackCheck;
        /// Sets whether chunks of zeros are stored.
        store_empty = bool;
        /// Sets whether the data set at the target is removed first.
        overwrite = bool;
        /// Sets whether the leftovers of an earlier job are abandoned.
        restart = bool;
        /// Sets whether to change nothing and only report.
        dry_run = bool;
        /// Does only this part of the work.
        part some Part;
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

    /// What is requested: equal requests have equal results.
    pub(super) fn request(&self, form: Value) -> Value {
        json!({ "chunk": self.chunk, "store_empty": self.store_empty, "form": form })
    }
}

/// The form of the arrays that a data set becomes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ZarrForm {
    /// How chunks are packed. [`Packing::Keep`] makes shards of the same boxes where the volume's
    /// shards are boxes.
    pub packing: Packing,
    /// Where indexes lie; `None` means at the end.
    pub index: Option<IndexLocation>,
    /// The codecs of the chunks. `None` means codecs that leave the bytes of raw chunks as they
    /// are, and transpose, bytes and zstd for other encodings. Codec words that do not mention the
    /// order of axes keep the voxel order of the volume.
    pub codecs: Option<CodecChoice>,
    /// The version of the documents; `None` means 3. Version 2 has no shards.
    pub zarr_format: Option<ZarrFormat>,
    /// What separates the numbers in the keys of version 2; `None` means what an array of version 2
    /// has, and `.` for others.
    pub separator: Option<Separator>,
}

impl ZarrForm {
    /// As close to the volume as possible.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets how chunks are packed.
        packing = Packing;
        /// Sets where indexes lie.
        index some IndexLocation;
        /// Sets the codecs of the chunks.
        codecs some CodecChoice;
        /// Sets the version of the documents.
        zarr_format some ZarrFormat;
        /// Sets what separates the numbers in the keys of version 2.
        separator some Separator;
    }

    pub(super) fn request(&self) -> Value {
        let mut request = json!({
            "zarr": self.packing,
            "index": self.index,
            "codecs": self.codecs,
        });
        if let Some(format) = self.zarr_format {
            request["zarr_format"] = json!(format);
            request["separator"] = json!(self.separator);
        }
        request
    }
}

/// The form of the volume that arrays become.
///
/// With all defaults, an `info` that was kept when the arrays were made from a volume is written
/// back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct VolumeForm {
    /// `image` or `segmentation`; `None` derives it from the type and the encoding.
    pub kind: Option<String>,
    /// Nanometres from one voxel to the next at the finest level.
    pub resolution: Option<[f64; 3]>,
    /// Where the first voxel of the finest level lies.
    pub voxel_offset: Option<[i64; 3]>,
    /// How chunks are encoded; `None` means raw.
    pub encoding: Option<ChunkEncoding>,
    /// How chunks are packed.
    pub packing: Option<VolumePacking>,
    /// How values are stored in shards; `None` means gzip for encodings that do not compress by
    /// themselves, and for others if it makes a sample of chunks smaller by a tenth.
    pub data_encoding: Option<Encoding>,
}

impl VolumeForm {
    /// As close to the arrays as possible.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the kind: `image` or `segmentation`.
        kind into String;
        /// Sets the resolution.
        resolution some [f64; 3];
        /// Sets where the first voxel lies.
        voxel_offset some [i64; 3];
        /// Sets how chunks are encoded.
        encoding some ChunkEncoding;
        /// Sets how chunks are packed.
        packing some VolumePacking;
        /// Sets how values are stored in shards.
        data_encoding some Encoding;
    }

    pub(super) fn request(&self) -> Value {
        json!({ "volume": self })
    }
}

/// What was done to one level.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ConvertedLevel {
    /// Its number; 0 is the finest.
    pub level: usize,
    /// Its name in the source: an array's path below the given location, or the key of a scale.
    pub source: String,
    /// Its name in the target.
    pub target: String,
    /// What happened to it.
    pub outcome: RepackOutcome,
    /// Elements along x, y, z and channel.
    pub shape: Vec<u64>,
    /// The shape of its chunks, likewise.
    pub chunk_shape: Vec<u64>,
    /// The shape of its shards, likewise, where they are boxes.
    pub shard_shape: Option<Vec<u64>>,
    /// How chunks are packed in a volume.
    pub sharding: Option<Sharding>,
    /// The measurement that decided the data encoding, if it was not given.
    pub measured: Option<ValueSizes>,
    /// The axes of the source, in order; of an image, its own.
    pub axes: Vec<String>,
    /// Whether the metadata names no axes, so that these are assumed.
    pub axes_assumed: bool,
    /// Whether whole chunks are moved without re-encoding; those cut off at an end of the array
    /// never are.
    pub moves: bool,
    /// Chunks moved without re-encoding.
    pub chunks_moved: u64,
    /// Chunks re-encoded.
    pub chunks_recoded: u64,
    /// Chunks that are not stored.
    pub chunks_absent: u64,
    /// Objects this run has written.
    pub objects_written: u64,
    /// Their total bytes.
    pub bytes_written: u64,
    /// Objects an earlier run had written. Their chunks are not counted.
    pub objects_kept: u64,
    /// How the result was checked.
    pub check: RepackCheck,
    /// How it was reduced from the level before it, if the source does not have it.
    pub method: Option<DownsampleMethod>,
    /// Codecs of the source that not every reader of Zarr knows, and what replaces them.
    pub codecs_replaced: Option<String>,
    /// Nanometres along x, y and z by which a level of a volume is off, beside
    /// [`position_shift`](ConvertSummary::position_shift), because it begins at a whole voxel.
    pub position_error: [f64; 3],
}

impl ConvertedLevel {
    /// Adds the counts of the step that has made it; `number` is its place among the levels of the
    /// step.
    pub(super) fn done(mut self, done: &StepDone, number: usize) -> Self {
        let counts = match done.levels.get(number) {
            Some(level) => Counts::from(level),
            None => done.counts,
        };
        self.check = done.check;
        if done.resumed {
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

/// What a conversion has done.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ConvertSummary {
    /// Whether the `info` of the volume is the one kept in the arrays.
    pub info_kept: bool,
    /// Why a kept `info` was not written back.
    pub info_not_kept: Option<String>,
    /// Whether an image has the metadata that a volume kept of it.
    pub image_kept: bool,
    /// Why metadata that a volume keeps of an image was not written back.
    pub image_not_kept: Option<String>,
    /// Nanometres along x, y and z from a position in an image to that in the volume made of it: a
    /// volume begins at a whole voxel. At most half a voxel of the finest level.
    pub position_shift: Option<[f64; 3]>,
    /// The paths of label images that a volume has no place for.
    pub labels_left_out: Vec<String>,
    /// Whether the result is complete, or waits for other parts.
    pub outcome: PartOutcome,
}
