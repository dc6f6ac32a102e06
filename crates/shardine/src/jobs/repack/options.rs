use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use crate::codec_words::CodecChoice;
use crate::jobs::frame::Part;
use crate::jobs::rebuild::{Counts, OutOptions};
pub use crate::plan::Packing;
use crate::shard::{IndexLocation, WriteOrder};

/// How the new objects are checked before the array counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// How to pack the chunks of an array, or of all arrays of a hierarchy, anew.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
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
    /// At a target: take the process that was making it for dead, where that cannot be told.
    pub take_over: bool,
    /// At a target: which part of the work this process does; `None` for all of it.
    pub part: Option<Part>,
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

    /// With only this part of the work done.
    pub fn part(mut self, part: Part) -> Self {
        self.part = Some(part);
        self
    }

    /// How it is made at another place.
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

    /// What is asked for, the same for the same result.
    pub(super) fn request(&self) -> Value {
        json!({
            "packing": self.packing,
            "index": self.index,
            "chunk": self.chunk,
            "codecs": self.codecs,
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
