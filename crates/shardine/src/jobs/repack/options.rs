use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::jobs::rebuild::Counts;
use crate::shard::{IndexLocation, WriteOrder};
use crate::{CodecSpec, DataType};

/// How chunks are packed into objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Packing {
    /// As they are.
    #[default]
    Keep,
    /// Each is an object of its own.
    Unsharded,
    /// So many along each axis in a shard; one number holds for all axes. Ones alone mean no shards.
    ChunksPerShard(Vec<u64>),
    /// Shards of this shape, in elements.
    Shard(Vec<u64>),
    /// Shards of about so many bytes, by what the chunks of the array take. Where that is only known once they are packed,
    /// of shards in shards and of chunks that are encoded anew, a second job may find that other shards come nearer.
    TargetSize(u64),
}

impl Packing {
    pub(in crate::jobs) fn to_json(&self) -> Value {
        match self {
            Self::Keep => json!("keep"),
            Self::Unsharded => json!("unsharded"),
            Self::ChunksPerShard(chunks) => json!({ "chunks_per_shard": chunks }),
            Self::Shard(shape) => json!({ "shard": shape }),
            Self::TargetSize(bytes) => json!({ "target_size": bytes }),
        }
    }
}

/// What makes the codecs of an array by its type.
type MakeCodecs = Arc<dyn Fn(&DataType) -> Result<Vec<CodecSpec>, String> + Send + Sync>;

/// Other codecs for the chunks.
#[derive(Clone)]
pub struct CodecChoice {
    /// What was asked for, in words that are the same for the same codecs.
    request: String,
    make: MakeCodecs,
}

impl CodecChoice {
    /// Codecs that `make` tells for each type; `request` says in words what was asked for.
    pub fn new(
        request: impl Into<String>,
        make: impl Fn(&DataType) -> Result<Vec<CodecSpec>, String> + Send + Sync + 'static,
    ) -> Self {
        Self { request: request.into(), make: Arc::new(make) }
    }

    /// What was asked for.
    pub(in crate::jobs) fn request(&self) -> &str {
        &self.request
    }

    pub(in crate::jobs) fn codecs(&self, data_type: &DataType) -> Result<Vec<CodecSpec>, String> {
        (self.make)(data_type)
    }
}

impl fmt::Debug for CodecChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CodecChoice").field(&self.request).finish()
    }
}

/// How the new objects are checked before the array counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RepackCheck {
    /// Not at all: what the target store has called published is believed.
    None,
    /// Every index is read back, and every chunk that was moved is compared with where it came from, byte by byte. Objects of
    /// chunks that were encoded anew are looked at as far as their indexes go.
    #[default]
    Bytes,
    /// The same, and all elements of both arrays are decoded and compared.
    Elements,
}

impl RepackCheck {
    /// Its name on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bytes => "bytes",
            Self::Elements => "elements",
        }
    }
}

/// How to pack the chunks of an array, or of all arrays of a hierarchy, anew.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepackOptions {
    /// How chunks are packed.
    pub packing: Packing,
    /// Where indexes lie; `None` leaves them where they are, and puts those of new shards to the end.
    pub index: Option<IndexLocation>,
    /// Another shape of the chunks, in elements. They are then encoded anew.
    pub chunk: Option<Vec<u64>>,
    /// Other codecs for the chunks. They are then encoded anew.
    pub codecs: Option<CodecChoice>,
    /// The order of chunks in new shards.
    pub order: WriteOrder,
    /// How the result is checked; `None` is [`RepackCheck::Bytes`] for files and [`RepackCheck::None`] for a remote store,
    /// from which everything would have to come back.
    pub check: Option<RepackCheck>,
    /// Remove the data set that is at the target.
    pub overwrite: bool,
    /// Give up what an earlier job, be it another one, has left unfinished.
    pub restart: bool,
    /// Nobody else uses the array while it is replaced in place: for file systems without locks to rely on.
    pub exclusive: bool,
    /// How long others may take to be done before it is replaced in place; `None` is half a minute.
    pub wait: Option<Duration>,
    /// Only tell what would be done.
    pub dry_run: bool,
}

impl RepackOptions {
    /// As it is.
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

    /// With chunks of this shape.
    pub fn chunk(mut self, chunk: &[u64]) -> Self {
        self.chunk = Some(chunk.to_vec());
        self
    }

    /// With chunks encoded by these codecs.
    pub fn codecs(mut self, codecs: CodecChoice) -> Self {
        self.codecs = Some(codecs);
        self
    }

    /// With chunks laid down in this order.
    pub fn order(mut self, order: WriteOrder) -> Self {
        self.order = order;
        self
    }

    /// Checked in this way.
    pub fn check(mut self, check: RepackCheck) -> Self {
        self.check = Some(check);
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

    /// With the caller's word that nobody else uses the array, or not.
    pub fn exclusive(mut self, exclusive: bool) -> Self {
        self.exclusive = exclusive;
        self
    }

    /// With others given so long to be done with the array before it is replaced.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// With nothing changed, or not.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// What is asked for, the same for the same result.
    pub(super) fn request(&self) -> Value {
        json!({
            "packing": self.packing.to_json(),
            "index": self.index.map(|index| match index {
                IndexLocation::Start => "start",
                IndexLocation::End => "end",
            }),
            "chunk": self.chunk,
            "codecs": self.codecs.as_ref().map(|codecs| &codecs.request),
        })
    }
}

/// What became of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RepackOutcome {
    /// It is packed as asked.
    #[default]
    Done,
    /// The same; an earlier run had begun with it.
    Resumed,
    /// It was so already, and nothing was done.
    Unchanged,
}

/// What was done to one array.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RepackedArray {
    /// Its path below the place that was named; empty for that place itself.
    pub path: String,
    /// What became of it.
    pub outcome: RepackOutcome,
    /// The shape of its chunks.
    pub chunk_shape: Vec<u64>,
    /// The shape of its shards, if it has shards.
    pub shard_shape: Option<Vec<u64>>,
    /// Whether its chunks are moved as they are, and not encoded anew.
    pub moves: bool,
    /// Chunks that were moved as they were.
    pub chunks_moved: u64,
    /// Chunks that were encoded anew.
    pub chunks_recoded: u64,
    /// Chunks of the grid that are not stored, because they hold nothing but the fill value.
    pub chunks_empty: u64,
    /// Objects that this run has written.
    pub objects_written: u64,
    /// Their bytes.
    pub bytes_written: u64,
    /// Objects that an earlier run had written.
    pub objects_kept: u64,
    /// How the result was checked.
    pub check: RepackCheck,
}

impl RepackedArray {
    /// Takes over what was counted.
    pub(super) fn count(&mut self, counts: &Counts, check: RepackCheck) {
        self.chunks_moved = counts.moved;
        self.chunks_recoded = counts.recoded;
        self.chunks_empty = counts.absent;
        self.objects_written = counts.written;
        self.bytes_written = counts.bytes;
        self.objects_kept = counts.kept;
        self.check = check;
    }
}
