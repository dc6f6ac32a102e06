//! Checks chunks: their sizes, and with `decode` their bytes.

use std::ops::Range;

use shardine_codec::{ChunkCodec, CodecError, Context, ElementSize, EncodedSize};
use shardine_store::StoreError;

use super::entries::Placed;
use super::{Check, Source};
use crate::engine::Crew;
use crate::jobs::check::FindingKind;
use crate::layout::{Layout, ShardLayout};

/// Chunks handed to the workers at a time.
const SHARE: usize = 1024;

/// The most encoded bytes accepted for a chunk whose codecs have no bound: as much as one may
/// decode to.
const MOST: u64 = 1 << 30;

/// A problem with a chunk.
pub(in crate::jobs) type Problem = (FindingKind, String);

impl Check<'_, '_> {
    /// Checks a chunk that is an object, or its counterpart in an unusual layout.
    pub fn chunk(
        &mut self,
        source: Source<'_>,
        codec: &ChunkCodec,
        at: Range<u64>,
        path: &[u32],
    ) -> Result<(), StoreError> {
        if let Some(message) = leaf_size_problem(codec, at.end - at.start) {
            return self.find(FindingKind::ChunkSize, path, Some(at), message);
        }
        self.chunks += 1;
        if self.run.scope.decode {
            self.chunks_decoded += 1;
            let key = &self.stored.key;
            let problem =
                self.run.engine.with_context(|c| decode(c, source, key, codec, at.clone()))?;
            if let Some((kind, message)) = problem {
                return self.find(kind, path, Some(at), message);
            }
        }
        Ok(())
    }

    /// Checks the chunks of a shard that begins at `base`.
    pub fn chunks(
        &mut self,
        source: Source<'_>,
        codec: &ChunkCodec,
        placed: &[Placed],
        base: u64,
        path: &mut Vec<u32>,
    ) -> Result<(), StoreError> {
        self.chunks += placed.len() as u64;
        if !self.run.scope.decode {
            return Ok(());
        }
        let workers = self.run.workers(self.array);
        let mut rest = placed;
        while !rest.is_empty() {
            let count = match self.pace {
                Some(_) => self.entries_ahead(rest),
                None => rest.len().min(SHARE),
            };
            let (part, after) = rest.split_at(count);
            rest = after;
            let place = |i: usize| base + part[i].start..base + part[i].end;
            let wanted: Vec<Range<u64>> = match self.pace {
                Some(_) => (0..part.len()).map(place).collect(),
                None => Vec::new(),
            };
            let ahead = self.read_ahead(source, &wanted)?;
            let source = source.with(&ahead);
            let (key, mut problems, mut failed) = (&self.stored.key, Vec::new(), None);
            let work = |i: usize, c: &mut Context| decode(c, source, key, codec, place(i));
            let take = &mut |i, seen| match seen {
                Ok(problem) => problems.extend(Some(i).zip(problem)),
                Err(error) => failed = Some(error),
            };
            self.run.engine.batch_in_order(Crew::Workers(workers), part.len(), &work, take);
            if let Some(error) = failed {
                return Err(error);
            }
            self.chunks_decoded += part.len() as u64;
            for (i, (kind, message)) in problems {
                path.push(part[i].entry);
                let result = self.find(kind, path, Some(place(i)), message);
                path.pop();
                result?;
            }
        }
        Ok(())
    }

    /// Checks a shard that a bytes-to-bytes codec has encoded, index included: without decoding it
    /// nothing is known.
    pub fn encoded_shard(
        &mut self,
        source: Source<'_>,
        shard: &ShardLayout,
        at: Range<u64>,
        path: &mut Vec<u32>,
        bounds: &[u64],
    ) -> Result<(), StoreError> {
        if !self.run.scope.decode {
            return Ok(());
        }
        let bytes = source.read(&self.stored.key, at.clone())?;
        let mut context = Context::new();
        let decoded = match shard.after.decode(&mut context, &bytes) {
            Ok(decoded) => decoded,
            Err(error) => {
                let (kind, message) = problem("the shard", &error);
                return self.find(kind, path, Some(at), message);
            }
        };
        let inner = decoded.as_ref();
        // Positions in the decoded shard mean nothing in the object; for nested ones, the outermost
        // range counts.
        let outermost = self.opaque.is_none();
        self.opaque.get_or_insert(at);
        let result = self.shard(Source::Decoded(inner), shard, 0..inner.len() as u64, path, bounds);
        if outermost {
            self.opaque = None;
        }
        result
    }
}

/// Reads and decodes a chunk; returns what is wrong with it.
pub(in crate::jobs) fn decode(
    context: &mut Context,
    source: Source<'_>,
    key: &shardine_store::Key,
    codec: &ChunkCodec,
    at: Range<u64>,
) -> Result<Option<Problem>, StoreError> {
    let len = at.end - at.start;
    if codec.encoded_size() == EncodedSize::Unbounded && len > MOST {
        let message = format!("a chunk of {len} bytes is too large to decode");
        return Ok(Some((FindingKind::NotChecked, message)));
    }
    let bytes = source.read(key, at)?;
    let result = match codec.spec().data_type.size() {
        ElementSize::Fixed(_) => {
            codec.decode(context, &bytes).map(|elements| elements.recycle(context))
        }
        ElementSize::Variable => codec.decode_variable(context, &bytes).and_then(|elements| {
            let (expected, actual) = (codec.spec().elements(), elements.len());
            match expected {
                Some(expected) if expected != actual => {
                    Err(CodecError::Size { codec: "array -> bytes", expected, actual })
                }
                _ => Ok(()),
            }
        }),
    };
    Ok(result.err().map(|error| problem("the chunk", &error)))
}

/// A failed allocation says nothing about the bytes.
fn problem(what: &str, error: &CodecError) -> Problem {
    let kind = match error {
        CodecError::OutOfMemory { .. } => FindingKind::NotChecked,
        _ => FindingKind::Chunk,
    };
    (kind, format!("{what} cannot be decoded: {error}"))
}

/// What is wrong with the encoded size of an entry, as far as can be known without decoding it.
pub(super) fn size_problem(layout: &Layout, len: u64) -> Option<String> {
    match layout {
        Layout::Chunk(leaf) => leaf_size_problem(&leaf.codec, len),
        _ => None,
    }
}

fn leaf_size_problem(codec: &ChunkCodec, len: u64) -> Option<String> {
    match codec.encoded_size() {
        EncodedSize::Exact(exact) if len != exact => {
            Some(format!("the chunk has {len} bytes, but every chunk encodes to {exact}"))
        }
        // Other encoders may need somewhat more than ours in the worst case.
        EncodedSize::AtMost(most) if len > most.saturating_mul(2).saturating_add(1 << 20) => {
            Some(format!("the chunk has {len} bytes, but no chunk encodes to more than {most}"))
        }
        _ => None,
    }
}
