use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use crate::codec_words::CodecChoice;
use crate::jobs::frame::Part;
use crate::jobs::rebuild::{Counts, OutOptions};
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

    /// Sets how chunks are packed.
    pub fn packing(mut self, packing: Packing) -> Self {
        self.packing = packing;
        self
    }

    /// Sets where indexes lie.
    pub fn index(mut self, index: IndexLocation) -> Self {
        self.index = Some(index);
        self
    }

    /// Sets the chunk shape.
    pub fn chunk(mut self, chunk: &[u64]) -> Self {
        self.chunk = Some(chunk.to_vec());
        self
    }

    /// Sets the codecs of the chunks.
    pub fn codecs(mut self, codecs: CodecChoice) -> Self {
        self.codecs = Some(codecs);
        self
    }

    /// Sets whether the tables of objects of vector data are packed too.
    pub fn objects(mut self, objects: bool) -> Self {
        self.objects = objects;
        self
    }

    /// Sets the order of chunks in new shards.
    pub fn order(mut self, order: WriteOrder) -> Self {
        self.order = order;
        self
    }

    /// Sets how the result is checked.
    pub fn check(mut self, check: RepackCheck) -> Self {
        self.check = Some(check);
        self
    }

    /// Sets whether the data set at the target is removed first.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Sets whether the leftovers of an earlier job are abandoned.
    pub fn restart(mut self, restart: bool) -> Self {
        self.restart = restart;
        self
    }

    /// Sets whether the caller promises that nobody else uses the array.
    pub fn exclusive(mut self, exclusive: bool) -> Self {
        self.exclusive = exclusive;
        self
    }

    /// Sets how long to wait for others to finish with the array before it is replaced.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets whether to change nothing and only report.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Does only this part of the work.
    pub fn part(mut self, part: Part) -> Self {
        self.part = Some(part);
        self
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
                    counts.first_mut().map(|first| *first = count);
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
