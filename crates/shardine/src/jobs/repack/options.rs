use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use crate::codec_words::CodecChoice;
use crate::jobs::frame::Part;
use crate::jobs::rebuild::{Counts, OutOptions};
use crate::jobs::setters::setters;
use crate::jobs::walk::ArrayRole;
pub use crate::plan::Packing;
use crate::shard::{IndexLocation, WriteOrder};

/// How the new objects are checked before the array counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepackCheck {
    /// Not at all: the target store's confirmation is trusted.
    None,
    /// Every index is read back, and every moved chunk is compared with its source, byte by byte.
    /// Of objects with re-encoded chunks only the indexes are checked.
    #[default]
    Bytes,
    /// The same, and all elements of both arrays are decoded and compared.
    Elements,
}

impl RepackCheck {
    /// Its name on the command line and in reports; [`CopyCheck`](crate::jobs::CopyCheck) has the
    /// same for the same.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bytes => "content",
            Self::Elements => "elements",
        }
    }
}

/// How to repack the chunks of an array, or of all arrays of a hierarchy.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RepackOptions {
    /// How chunks are packed.
    pub packing: Packing,
    /// Where indexes lie; `None` leaves them where they are, and puts those of new shards at the
    /// end.
    pub index: Option<IndexLocation>,
    /// The new chunk shape, in elements. Chunks are then re-encoded.
    pub chunk: Option<Vec<u64>>,
    /// The new codecs of the chunks, which are then re-encoded.
    pub codecs: Option<CodecChoice>,
    /// Of vector data, pack the tables of objects too, and not only what is cut into chunks of
    /// space.
    pub objects: bool,
    /// The order of chunks in new shards.
    pub order: WriteOrder,
    /// How the result is checked; `None` means [`RepackCheck::Bytes`] for files and
    /// [`RepackCheck::None`] for a remote store, from which everything would have to be read back.
    pub check: Option<RepackCheck>,
    /// Remove the data set at the target.
    pub overwrite: bool,
    /// Abandon what an earlier job, even a different one, has left unfinished.
    pub restart: bool,
    /// Nobody else uses the array while it is replaced in place: for file systems without reliable
    /// locks.
    pub exclusive: bool,
    /// How long to wait for others to finish before it is replaced in place; `None` means half a
    /// minute.
    pub wait: Option<Duration>,
    /// Only report what would be done.
    pub dry_run: bool,
    /// With a target: assume that the process writing it is dead, where that cannot be checked.
    pub take_over: bool,
    /// With a target: the part of the work this process does; `None` for all of it.
    pub part: Option<Part>,
}

impl RepackOptions {
    /// Keeps everything as it is.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets how chunks are packed.
        packing = Packing;
        /// Sets where indexes lie.
        index some IndexLocation;
        /// Sets the chunk shape.
        chunk slice u64;
        /// Sets the codecs of the chunks.
        codecs some CodecChoice;
        /// Sets whether the tables of objects of vector data are packed too.
        objects = bool;
        /// Sets the order of chunks in new shards.
        order = WriteOrder;
        /// Sets how the result is checked.
        check some RepackCheck;
        /// Sets whether the data set at the target is removed first.
        overwrite = bool;
        /// Sets whether the leftovers of an earlier job are abandoned.
        restart = bool;
        /// Sets whether the caller promises that nobody else uses the array.
        exclusive = bool;
        /// Sets how long to wait for others to finish with the array before it is replaced.
        wait some Duration;
        /// Sets whether to change nothing and only report.
        dry_run = bool;
        /// Does only this part of the work.
        part some Part;
    }

    /// The options for writing to another location.
    pub(in crate::jobs) fn out(&self) -> OutOptions {
        OutOptions {
            overwrite: self.overwrite,
            restart: self.restart,
            take_over: self.take_over,
            part: self.part,
            check: self.check,
            order: self.order,
            ..OutOptions::default()
        }
    }

    /// What is requested: equal requests have equal results.
    pub(super) fn request(&self) -> Value {
        let mut request = json!({
            "packing": self.packing,
            "index": self.index,
            "chunk": self.chunk,
            "codecs": self.codecs,
        });
        // Left out where it is not given, as jobs that began before it existed did.
        if self.objects {
            request["objects"] = true.into();
        }
        request
    }

    /// What is requested of an array with this role and so many axes; a reason if that cannot be.
    pub(super) fn for_role(&self, role: ArrayRole, rank: usize) -> Result<Cow<'_, Self>, String> {
        let mut options = Cow::Borrowed(self);
        match role {
            ArrayRole::Free => {}
            ArrayRole::Table if !self.objects => {
                let kept =
                    Self { packing: Packing::Keep, index: None, chunk: None, ..self.clone() };
                options = Cow::Owned(Self { codecs: None, ..kept });
            }
            ArrayRole::Table => {
                // Its axes are not those of space: it gets as many chunks per shard as they have.
                if let Packing::ChunksPerShard(chunks) | Packing::Shard(chunks) = &self.packing
                    && chunks.len() > 1
                {
                    let count = chunks.iter().try_fold(1u64, |all, &n| all.checked_mul(n));
                    let count = count.ok_or("too many chunks per shard")?;
                    let mut counts = vec![1; rank];
                    if let Some(first) = counts.first_mut() {
                        *first = count;
                    }
                    options.to_mut().packing = Packing::ChunksPerShard(counts);
                }
            }
            ArrayRole::Cells => {
                if self.chunk.is_some() {
                    let reason = "its cells are the chunks of space of vector data, which cannot be \
                                  given another shape here";
                    return Err(reason.to_owned());
                }
                // Axes of attributes come before those of space.
                if let Packing::ChunksPerShard(chunks) | Packing::Shard(chunks) =
                    &mut options.to_mut().packing
                    && chunks.len() > 1
                    && chunks.len() < rank
                {
                    let missing = rank - chunks.len();
                    chunks.splice(0..0, std::iter::repeat_n(1, missing));
                }
            }
        }
        Ok(options)
    }
}

/// What happened to an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RepackOutcome {
    /// It is packed as requested.
    #[default]
    Done,
    /// The same; an earlier run had begun on it.
    Resumed,
    /// It was packed that way already, and nothing was done.
    Unchanged,
    /// A table of objects of vector data, left as it is because
    /// [`objects`](RepackOptions::objects) is not set.
    Kept,
}

/// What was done to one array.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RepackedArray {
    /// Its path below the given location; empty for the location itself.
    pub path: String,
    /// What happened to it.
    pub outcome: RepackOutcome,
    /// The shape of its chunks.
    pub chunk_shape: Vec<u64>,
    /// The shape of its shards, if it has shards.
    pub shard_shape: Option<Vec<u64>>,
    /// Whether its chunks are moved rather than re-encoded.
    pub moves: bool,
    /// Chunks moved without re-encoding.
    pub chunks_moved: u64,
    /// Chunks re-encoded.
    pub chunks_recoded: u64,
    /// Chunks of the grid that are not stored, because they hold only the fill value.
    pub chunks_empty: u64,
    /// Objects this run has written.
    pub objects_written: u64,
    /// Their total bytes.
    pub bytes_written: u64,
    /// Objects an earlier run had written.
    pub objects_kept: u64,
    /// How the result was checked.
    pub check: RepackCheck,
}

impl RepackedArray {
    /// Copies the counts.
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
