use std::sync::Arc;

use bzip2::{Action, Compress, Compression, Decompress, Status};

use super::config::Config;
use super::output;
use super::stream::{self, Step};
use crate::{BytesToBytes, Codec, CodecError, Context, EncodedSize};

const NAME: &str = "bz2";

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["level"])?;
    let level = config.integer("level", 1..=9)?.unwrap_or(1);
    Ok(Codec::BytesToBytes(Arc::new(Bz2 { level: u32::try_from(level).unwrap_or(1) })))
}

/// bzip2 streams; the decoder accepts several in a row.
///
/// bzip2 has no reusable contexts: each call allocates its own, up to 8 MB.
#[derive(Debug)]
struct Bz2 {
    level: u32,
}

fn bound(input: u64) -> Option<u64> {
    input.checked_add(input / 100)?.checked_add(601)
}

impl BytesToBytes for Bz2 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn encode(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let failed = |reason: String| CodecError::Encode { codec: NAME, reason };
        let mut compressor = Compress::new(Compression::new(self.level), 0);
        let room = bound(input.len() as u64).and_then(|room| usize::try_from(room).ok());
        output::reserve(NAME, out, room.unwrap_or(usize::MAX))?;
        let mut from = 0;
        loop {
            let rest = input.get(from..).unwrap_or_default();
            let before = (compressor.total_in(), out.len());
            let status = compressor
                .compress_vec(rest, out, Action::Finish)
                .map_err(|error| failed(error.to_string()))?;
            from += usize::try_from(compressor.total_in() - before.0).unwrap_or(usize::MAX);
            if status == Status::StreamEnd {
                return Ok(());
            }
            if before == (compressor.total_in(), out.len()) {
                return Err(failed("bzip2 made more than its own bound".into()));
            }
        }
    }

    fn decode(
        &self,
        _context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let (start, mut from) = (out.len(), 0);
        loop {
            let mut decompressor = Decompress::new(false);
            let rest = input.get(from..).unwrap_or_default();
            let room = limit.saturating_sub(out.len() - start);
            from += stream::run(NAME, rest, room, out, |bytes, out| {
                let before = decompressor.total_in();
                let status = decompressor
                    .decompress_vec(bytes, out)
                    .map_err(|error| CodecError::corrupt(NAME, input.len(), error.to_string()))?;
                let read = decompressor.total_in() - before;
                Ok(Step {
                    read: usize::try_from(read).unwrap_or(usize::MAX),
                    ended: status == Status::StreamEnd,
                })
            })?;
            if from >= input.len() {
                return Ok(());
            }
        }
    }

    fn encoded_size(&self, input: u64) -> EncodedSize {
        bound(input).map_or(EncodedSize::Unbounded, EncodedSize::AtMost)
    }
}
