//! The constants that trade memory, requests and time against each other, in one place.
//!
//! None of them changes what is stored. Limits that a format sets, or that guard against hostile
//! input, are with the parsers that need them.

use std::time::Duration;

// Reading.

/// Objects open at a time.
pub const READ_WAVE: usize = 128;

/// The same for remote objects without an index, where opening is free: each wave costs a round
/// trip.
pub const REMOTE_READ_WAVE: usize = 2048;

/// Decoded bytes up to which the calling thread does the work itself: handing it over costs more.
pub const INLINE_READ: u64 = 128 << 10;

/// How many times a shard that changes during a read is read again.
pub const REREADS: usize = 8;

/// The same for a shard that is being changed in place each time it is read. Every such attempt
/// proves that writers make progress, and most find the shard as it was before the change.
pub const REREADS_BESIDE_A_WRITER: usize = 64;

/// How long a reader waits before each attempt after the first [`REREADS`]. Together these waits
/// outlast the period in which a file is too recent for its timestamps to tell its versions apart.
pub const WRITER_WAIT: Duration = Duration::from_millis(2);

/// How long a reader waits before it looks again at a damaged shard that was changed so recently
/// that its timestamps would not reveal a later change. All [`REREADS`] together outlast the
/// kernel's clock tick.
pub const UNTELLING_WAIT: Duration = Duration::from_millis(10);

/// The largest single read that spans several chunks.
pub const MAX_MERGED_READ: u64 = 8 << 20;

/// The same for a remote store: bytes that have arrived are decoded while the rest is in flight, so
/// reads must not be too large, nor too small for the latency of a request.
pub const MAX_REMOTE_READ: u64 = 2 << 20;

/// The same for large reads from a local store: bytes are decoded while they are in a core's
/// nearest cache.
pub const MAX_LOCAL_READ: u64 = 256 << 10;

/// Threads that wait for one remote store on behalf of one job.
pub const MOST_WAITING: usize = 128;

/// The largest index, or chunk, that is read without a plan, in bytes.
pub const SINGLE_READ: u64 = 1 << 20;

/// Bytes that may in any case be read along with an index to save another request.
pub const SMALL_OBJECT: u64 = 128 << 10;

/// Chunks planned before any of them is read: this bounds the memory of plans, however small chunks
/// are.
pub const MANY_RANGES: usize = 8192;

/// One part in this many of a request's duration is work at either end, the rest is latency.
pub const REQUESTS_WORK: u64 = 32;

/// One part in this many of a request's duration may be spent on bytes that may save another
/// request.
pub const INDEX_GUESS: u64 = 8;

/// Decoded bytes of one worker's piece of work.
pub const DECODE_PIECE: u64 = 64 << 10;

/// Chunks taken from a shard in memory before any of them is decoded.
pub const MANY_CHUNKS: usize = 4096;

/// Bytes read at a time when comparing.
pub const COMPARED: u64 = 256 << 10;

/// How far to prefetch, as a multiple of the reads in flight: one slow response does not hold up
/// the others.
pub const AHEAD: usize = 2;

/// Bytes that may be read between indexes to get them with one read.
pub const INDEX_GAP: u64 = 64 << 10;

/// Memory budgeted for a metadata document in flight.
pub const DOCUMENT: u64 = 64 << 10;

/// Tables up to this many bytes are read whole; of larger ones only the needed entries.
pub const WHOLE_TABLE: u64 = 1 << 20;

/// Bytes of tables cached for each folder of uint64 shards.
pub const KEPT_TABLES: u64 = 4 << 20;
/// The same for the indexes of minishards.
pub const KEPT_INDEXES: u64 = 8 << 20;
/// Bytes of jump tables cached for each webknossos-wrap array: about a hundred files.
pub const KEPT_JUMP_TABLES: u64 = 32 << 20;

/// Memory budgeted for a listing.
pub const LISTING: u64 = 256 << 10;

/// Shards for which the positions of older indexes in their gaps are remembered.
pub const KNOWN_STALE: usize = 1024;

/// Objects kept open at a time. A process may commonly open a thousand.
pub const KEPT_OBJECTS: usize = 64;

// Writing.

/// The gzip level in shards of volumes if none is given.
pub const GZIP_LEVEL: u8 = 6;

/// Decoded bytes from which the chunks of one object are made in parallel, rather than several
/// objects.
pub const STREAM: u64 = 1 << 20;

/// Small objects made in parallel.
pub const SMALL_OBJECTS: usize = 256;

/// Decoded bytes of the chunks that a worker makes in one batch.
pub const BATCH_BYTES: u64 = 256 << 10;

/// The most slots in one batch.
pub const BATCH_SLOTS: usize = 4096;

/// The most chunks made in one batch.
pub const BATCH_MADE: u64 = 1024;

/// Bytes of bookkeeping per batch in flight.
pub const OVERHEAD: u64 = 1024;

/// How many times an update is retried if other writers were faster.
pub const REWRITES: usize = 1000;

/// Objects written to, or removed from, a remote store in parallel.
pub const REMOTE_WRITES: usize = 32;

/// Encoded bytes held in memory until all are there, so that gaps can be found for them.
pub const HELD_CHUNKS: usize = 8 << 20;

/// Bytes that a rewrite has to move for a change in place to be worth its journal, which costs two
/// more waits for the disk.
pub const WORTH_A_JOURNAL: u64 = 2 << 20;

/// Bytes read at a time when scanning or hashing.
pub const SCANNED: u64 = 1 << 20;

/// Objects removed together.
pub const REMOVED_TOGETHER: usize = 4096;

/// Bytes made durable together, so that the disk is busy while others are still being written.
pub const SYNCED_BYTES: u64 = 128 << 20;

/// Objects in flight to a remote store.
pub const PENDING: usize = 64;

/// Objects that a write makes durable together.
pub const WRITE_BATCH: usize = 64;

/// The same for a job, which has no others open. Each is an open file meanwhile.
pub const JOB_BATCH: usize = 256;

/// Objects that a batch keeps open to move values from; values of others are read. A process may
/// commonly open a thousand files, and many batches are in flight.
pub const OPEN_SOURCES: usize = 2;

// Memory.

/// The largest block of old chunks, in bytes, that is decoded as a whole for one worker to be
/// re-encoded.
pub const MAX_BLOCK: u64 = 16 << 20;

/// The expansion factor assumed for decompressing a value of unknown size.
pub const EXPANDS: u64 = 8;

/// The largest compressed value, or whole compressed object, held in memory decompressed, in bytes.
/// Chunks have a known size; this is for values and files of unknown size.
pub const MAX_DECOMPRESSED: u64 = 1 << 30;

/// Results of at least this many bytes go into huge pages.
pub const HUGE: usize = 4 << 20;

/// Keys grouped by shard at a time if the chunks of a shard are scattered over the volume.
pub const SORTED_KEYS: u64 = 1 << 20;

/// The most cells of a shard that are reported by position; for a shard with room for more, only
/// stored ones are reported.
pub const TOLD_BY_PLACE: u64 = 1 << 22;
