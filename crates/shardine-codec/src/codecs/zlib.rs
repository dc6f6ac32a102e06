use std::sync::Arc;

use super::config::Config;
use super::deflate::{self, ZLIB};
use crate::{BytesToBytes, Codec, CodecError, Context, EncodedSize};

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["level"])?;
    let level = deflate::numcodecs_level(config)?;
    Ok(Codec::BytesToBytes(Arc::new(Zlib { level })))
}

#[derive(Debug)]
struct Zlib {
    level: u8,
}

impl BytesToBytes for Zlib {
    fn name(&self) -> &'static str {
        ZLIB.name
    }

    fn encode(
        &self,
        context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        deflate::encode(&ZLIB, self.level, context, input, out)
    }

    fn decode(
        &self,
        context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        deflate::decode(&ZLIB, None, context, input, limit, out)
    }

    fn decode_exact(
        &self,
        context: &mut Context,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        deflate::decode_exact(&ZLIB, context, input, out)
    }

    fn encoded_size(&self, input: u64) -> EncodedSize {
        deflate::encoded_size(&ZLIB, input)
    }
}
