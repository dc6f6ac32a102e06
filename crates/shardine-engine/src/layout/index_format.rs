use std::ops::Range;

use shardine_codec::strided::{self, Axes, Placement};
use shardine_codec::{
    ArraySpec, ChunkCodec, Codec, CodecError, Context, DataType, ElementsRef, EncodedSize,
    FillValue,
};

use crate::shard::{IndexLocation, ShardError, ShardIndex};

/// How the index of a shard is encoded, and where it lies.
#[derive(Debug, Clone)]
pub struct IndexFormat {
    codec: ChunkCodec,
    chunks: usize,
    len: u64,
    location: IndexLocation,
    checksummed: bool,
    ends_with_crc32c: bool,
}

/// Codecs that reveal a damaged index, and tell an index from zeros.
const CHECKSUMS: [&str; 3] = ["crc32c", "crc32", "adler32"];

impl IndexFormat {
    /// Binds the index codecs to a grid of chunks. Refuses codecs whose output size varies.
    pub fn new(
        codecs: &[Codec],
        grid: &[u64],
        location: IndexLocation,
    ) -> Result<Self, CodecError> {
        let mut shape = grid.to_vec();
        shape.push(2);
        let data_type = DataType::from_json(&"uint64".into())?;
        let fill = FillValue(vec![0xFF; 8]);
        let codec = ChunkCodec::new(codecs, ArraySpec { shape, data_type, fill })?;
        let chunks = grid.iter().product::<u64>() as usize;
        match codec.encoded_size() {
            EncodedSize::Exact(len) => {
                let checksummed = codecs.iter().any(|codec| {
                    matches!(codec, Codec::BytesToBytes(codec) if CHECKSUMS.contains(&codec.name()))
                });
                let ends_with_crc32c = matches!(
                    codecs.last(),
                    Some(Codec::BytesToBytes(codec)) if codec.name() == "crc32c"
                );
                Ok(Self { codec, chunks, len, location, checksummed, ends_with_crc32c })
            }
            _ => Err(CodecError::unsupported(
                "index_codecs",
                "the size of an encoded index must not depend on its content; use bytes and crc32c",
            )),
        }
    }

    /// The number of entries.
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// Bytes of the encoded index.
    #[expect(clippy::len_without_is_empty, reason = "an index is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The end of the shard at which the index lies.
    pub fn location(&self) -> IndexLocation {
        self.location
    }

    /// Whether a torn index can be detected.
    pub fn is_checksummed(&self) -> bool {
        self.checksummed
    }

    /// Whether the last bytes of the index are the crc32c of all the others, so that it can be
    /// searched for.
    pub fn ends_with_crc32c(&self) -> bool {
        self.ends_with_crc32c
    }

    /// Bytes before the first chunk.
    pub fn head(&self) -> u64 {
        match self.location {
            IndexLocation::Start => self.len,
            IndexLocation::End => 0,
        }
    }

    /// The range of the index in a shard of `shard_len` bytes.
    pub fn range(&self, shard_len: u64) -> Result<Range<u64>, ShardError> {
        if shard_len < self.len {
            return Err(ShardError::Truncated { actual: shard_len, index: self.len });
        }
        Ok(match self.location {
            IndexLocation::Start => 0..self.len,
            IndexLocation::End => shard_len - self.len..shard_len,
        })
    }

    /// Decodes the index of a shard of `shard_len` bytes.
    pub fn decode(
        &self,
        context: &mut Context,
        encoded: &[u8],
        shard_len: u64,
    ) -> Result<ShardIndex, ShardError> {
        let range = self.range(shard_len)?;
        let wrap = |source| ShardError::Index { start: range.start, end: range.end, source };
        let decoded = self.codec.decode(context, encoded).map_err(wrap)?;
        let entries = match self.reordered(decoded.as_ref(), true) {
            Some(entries) => entries,
            None => decoded.as_ref().to_vec(),
        };
        decoded.recycle(context);
        Ok(ShardIndex::from_bytes(entries, self.chunks, shard_len)?.stored_at(range))
    }

    /// Encodes an index.
    pub fn encode(&self, context: &mut Context, index: &ShardIndex) -> Result<Vec<u8>, CodecError> {
        let mut out = Vec::with_capacity(self.len as usize);
        let reordered = self.reordered(index.as_bytes(), false);
        let entries = reordered.as_deref().unwrap_or(index.as_bytes());
        self.codec.encode(context, ElementsRef::Fixed(entries), &mut out)?;
        if out.len() as u64 != self.len {
            let (expected, actual) = (self.len as usize, out.len());
            return Err(CodecError::Size { codec: "index_codecs", expected, actual });
        }
        Ok(out)
    }

    /// The entries with their axes permuted by a transpose among the index codecs; `None` without
    /// one.
    fn reordered(&self, entries: &[u8], decode: bool) -> Option<Vec<u8>> {
        let order = self.codec.axis_order();
        if order.is_sorted() {
            return None;
        }
        let plain = Placement::contiguous(&self.codec.spec().shape, 8)?;
        let stored = Placement::contiguous(&self.codec.stored().shape, 8)?;
        let mut permuted = plain.clone();
        for (i, &k) in order.iter().enumerate() {
            permuted.strides[k] = stored.strides[i];
        }
        let shape: Axes<usize> = self.codec.spec().shape.iter().map(|&n| n as usize).collect();
        let mut out = vec![0; entries.len()];
        let (from, to) = if decode { (&permuted, &plain) } else { (&plain, &permuted) };
        strided::copy(&shape, 8, entries, from, &mut out, to).ok()?;
        Some(out)
    }
}
