use std::sync::Arc;

use super::config::Config;
use super::deflate::{self, GZIP};
use crate::{BytesToBytes, Codec, CodecError, Context, EncodedSize};

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["level"])?;
    let level = config.required_integer("level", 0..=9)?;
    Ok(Codec::BytesToBytes(Arc::new(Gzip { level: u8::try_from(level).unwrap_or(1) })))
}

pub(super) fn build_numcodecs(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["level"])?;
    let level = deflate::numcodecs_level(config)?;
    Ok(Codec::BytesToBytes(Arc::new(Gzip { level })))
}

#[derive(Debug)]
struct Gzip {
    level: u8,
}

impl BytesToBytes for Gzip {
    fn name(&self) -> &'static str {
        GZIP.name
    }

    fn encode(
        &self,
        context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        deflate::encode(&GZIP, self.level, context, input, out)
    }

    fn decode(
        &self,
        context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        // The last four bytes are the size of the last member, modulo 2^32.
        let claimed = input.last_chunk().map(|size| u32::from_le_bytes(*size) as usize);
        deflate::decode(&GZIP, claimed, context, input, limit, out)
    }

    fn decode_exact(
        &self,
        context: &mut Context,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        deflate::decode_exact(&GZIP, context, input, out)
    }

    fn encoded_size(&self, input: u64) -> EncodedSize {
        deflate::encoded_size(&GZIP, input)
    }
}
