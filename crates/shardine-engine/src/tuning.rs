//! What trades memory, requests and time for each other, in one place.
//!
//! None of it changes what is stored. Limits that a format sets, or that hostile input is checked against, are with the
//! parsers that need them.

use std::time::Duration;

// Reading.

/// Objects that are open at once.
pub const READ_WAVE: usize = 128;

/// The same where they are far away, opening them costs nothing, and they have no index: there each wave is a time to wait.
pub const REMOTE_READ_WAVE: usize = 2048;

/// Decoded bytes up to which the caller's own thread does the work: handing over costs more.
pub const INLINE_READ: u64 = 128 << 10;

/// How often a shard that changes under the reader is read again.
pub const REREADS: usize = 8;

/// The same for a shard that is being changed in place each time it is read. Every such attempt
/// proves that writers make progress, and most find the shard as it was before the change.
pub const REREADS_BESIDE_A_WRITER: usize = 64;

/// How long a reader that was [`REREADS`] times in vain waits before each further attempt. Together
/// they outlast the time for which a file is too young for its times to tell its versions apart.
pub const WRITER_WAIT: Duration = Duration::from_millis(2);

/// How long a reader waits before it looks again at a damaged shard that was changed so recently that
/// its times would not tell of a change since. All [`REREADS`] together outlast the kernel's clock tick.
pub const UNTELLING_WAIT: Duration = Duration::from_millis(10);

/// The largest single read that is made of several chunks.
pub const MAX_MERGED_READ: u64 = 8 << 20;

/// The same of a remote store: what has arrived is decoded while the rest is on its way, so pieces are not too large, and not
/// too small for the time that a request takes.
pub const MAX_REMOTE_READ: u64 = 2 << 20;

/// The same of large reads from a local store: what is read is decoded while it is in the nearest cache of a core.
pub const MAX_LOCAL_READ: u64 = 256 << 10;

/// Threads that wait for one remote store on behalf of one job.
pub const MOST_WAITING: usize = 128;

/// Bytes of an index, or of a chunk, up to which they are read here.
pub const SINGLE_READ: u64 = 1 << 20;

/// Bytes that may be spent on that in any case.
pub const SMALL_OBJECT: u64 = 128 << 10;

/// Chunks that are planned before any of them is read: memory for plans is bounded, however small chunks are.
pub const MANY_RANGES: usize = 8192;

/// How much of the time that a request takes is work, for this machine or the other, and not distance.
pub const REQUESTS_WORK: u64 = 32;

/// How much of the time that a request takes may be spent on bytes which perhaps save another one.
pub const INDEX_GUESS: u64 = 8;

/// Decoded bytes of a piece of work for one worker.
pub const DECODE_PIECE: u64 = 64 << 10;

/// Chunks that are taken out of a shard in memory before any of them is decoded.
pub const MANY_CHUNKS: usize = 4096;

/// Bytes that are read at a time to be compared.
pub const COMPARED: u64 = 256 << 10;

/// What is read ahead of its turn, as a multiple of what is read at once: one slow answer does not hold up the others.
pub const AHEAD: usize = 2;

/// Bytes that may be read between indexes, to have them with one read.
pub const INDEX_GAP: u64 = 64 << 10;

/// Memory that is reckoned for a metadata document on its way.
pub const DOCUMENT: u64 = 64 << 10;

/// Bytes of a table up to which it is read whole; of a larger one only the entries that are wanted.
pub const WHOLE_TABLE: u64 = 1 << 20;

/// Bytes of tables that are kept for each folder of uint64 shards.
pub const KEPT_TABLES: u64 = 4 << 20;
/// The same of the indexes of minishards.
pub const KEPT_INDEXES: u64 = 8 << 20;
/// Bytes of jump tables that are kept for each array of webknossos-wrap: of a hundred files or so.
pub const KEPT_JUMP_TABLES: u64 = 32 << 20;

/// Memory that is reckoned for a listing.
pub const LISTING: u64 = 256 << 10;

/// Shards of which it is remembered where older indexes lie in their gaps.
pub const KNOWN_STALE: usize = 1024;

/// Objects that are kept open at once. A process may commonly have a thousand.
pub const KEPT_OBJECTS: usize = 64;

// Writing.

/// How hard gzip tries in shards of volumes where nothing else is said.
pub const GZIP_LEVEL: u8 = 6;

/// Decoded bytes from which the chunks of one object are made in parallel, and not several objects.
pub const STREAM: u64 = 1 << 20;

/// Small objects that are made in parallel.
pub const SMALL_OBJECTS: usize = 256;

/// Decoded bytes of the chunks that a worker makes in one batch.
pub const BATCH_BYTES: u64 = 256 << 10;

/// The most slots in one batch.
pub const BATCH_SLOTS: usize = 4096;

/// The most chunks that are made in one batch.
pub const BATCH_MADE: u64 = 1024;

/// Bytes of bookkeeping for each batch in flight.
pub const OVERHEAD: u64 = 1024;

/// How often an update is tried again when other writers were faster.
pub const REWRITES: usize = 1000;

/// Objects that are written to a remote store, or removed from it, at the same time.
pub const REMOTE_WRITES: usize = 32;

/// Encoded bytes that are kept in memory until all are there, so that gaps can be found for them.
pub const HELD_CHUNKS: usize = 8 << 20;

/// Bytes that a rewrite has to move for a change in place to be worth its journal, which is two waits for the disk more.
pub const WORTH_A_JOURNAL: u64 = 2 << 20;

/// Bytes that are read at a time of what is looked through or hashed.
pub const SCANNED: u64 = 1 << 20;

/// Objects that are removed together.
pub const REMOVED_TOGETHER: usize = 4096;

/// Bytes that are made durable together, so that the disk has something to do while others are still written.
pub const SYNCED_BYTES: u64 = 128 << 20;

/// Objects on their way to a remote store.
pub const PENDING: usize = 64;

/// Objects that a write makes durable together.
pub const WRITE_BATCH: usize = 64;

/// The same of a job, which has no others open. Each is an open file meanwhile.
pub const JOB_BATCH: usize = 256;

/// Objects that a batch keeps open to have values moved from them; those of others are read. A process may commonly have a
/// thousand files open, and many batches are under way.
pub const OPEN_SOURCES: usize = 2;

// Memory.

/// The most bytes of a block of old chunks that is decoded as a whole for one worker, to be encoded again.
pub const MAX_BLOCK: u64 = 16 << 20;

/// How much longer a value may get that is decompressed, where nothing says.
pub const EXPANDS: u64 = 8;

/// Bytes of a compressed value, or of a whole compressed object, that are held in memory decompressed. Chunks have a known
/// size; this is for values and files of which nothing says how large they are.
pub const MAX_DECOMPRESSED: u64 = 1 << 30;

/// From this length on, a result is put into huge pages.
pub const HUGE: usize = 4 << 20;

/// Keys that are sorted by their shards at once, where the chunks of a shard are all over the volume.
pub const SORTED_KEYS: u64 = 1 << 20;

/// Cells of a shard that are told by their places; of one with room for more only those that are stored are told.
pub const TOLD_BY_PLACE: u64 = 1 << 22;
