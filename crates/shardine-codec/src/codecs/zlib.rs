use std::sync::Arc;

use serde_json::{Map, json};

use super::config::Config;
use super::deflate::{self, ZLIB};
use crate::{BytesToBytes, Codec, CodecError, CodecSpec, Context, EncodedSize};

/// The method and flags before a deflate stream.
const HEAD: usize = 2;

/// The checksum after it.
const TAIL: usize = 4;

/// What gzip has before it: a magic number, deflate, no flags, no time, an unknown system.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["level"])?;
    let level = deflate::numcodecs_level(config)?;
    Ok(Codec::BytesToBytes(Arc::new(Zlib { level })))
}

#[derive(Debug)]
struct Zlib {
    level: u8,
}

/// The `gzip` codec of the same level as a `zlib` codec; `None` if it is another codec.
///
/// Both have the same compressed stream, each in an envelope of its own: see [`zlib_to_gzip`].
pub fn gzip_for_zlib(codec: &CodecSpec) -> Option<CodecSpec> {
    if !matches!(&*codec.name, "zlib" | "numcodecs.zlib") {
        return None;
    }
    let level = deflate::numcodecs_level(&Config::new(codec)).ok()?;
    let configuration = Map::from_iter([("level".to_owned(), json!(level))]);
    Some(CodecSpec { name: "gzip".to_owned(), configuration, must_understand: true })
}

/// Appends a zlib stream in the form of gzip to `out`, without compressing anything again. It is
/// decoded for the checksum, and fails if it is damaged or its decoded form is longer than `limit`.
pub fn zlib_to_gzip(
    context: &mut Context,
    input: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let mut plain = context.take_buffer();
    let decoded = deflate::decode(&ZLIB, None, context, input, limit, &mut plain);
    let (sum, len) = (deflate::crc32(&plain), plain.len() as u64);
    context.give_buffer(plain);
    decoded?;
    let end = input.len().saturating_sub(TAIL);
    let Some(stream) = input.get(HEAD..end) else {
        return Err(CodecError::corrupt(ZLIB.name, input.len(), "the stream is cut short"));
    };
    out.extend_from_slice(&GZIP_HEAD);
    out.extend_from_slice(stream);
    out.extend_from_slice(&sum.to_le_bytes());
    // Modulo 2^32.
    out.extend_from_slice(&len.to_le_bytes()[..4]);
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_spec;

    fn codec(name: &str, level: i64) -> CodecSpec {
        let configuration = Map::from_iter([("level".to_owned(), json!(level))]);
        CodecSpec { name: name.to_owned(), configuration, must_understand: true }
    }

    fn built(spec: &CodecSpec) -> Arc<dyn BytesToBytes> {
        match from_spec(spec).unwrap() {
            Codec::BytesToBytes(codec) => codec,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_zlib_stream_in_the_form_of_gzip_has_the_same_compressed_bytes() {
        let mut context = Context::default();
        for len in [0, 1, 100, 70_000] {
            let plain: Vec<u8> = (0..len).map(|i: u32| (i.wrapping_mul(i) >> 7) as u8).collect();
            let (mut zlib, mut gzip, mut back) = (Vec::new(), vec![7], Vec::new());
            built(&codec("zlib", 5)).encode(&mut context, &plain, &mut zlib).unwrap();
            zlib_to_gzip(&mut context, &zlib, plain.len(), &mut gzip).unwrap();
            assert_eq!((gzip[0], gzip.len()), (7, zlib.len() + 13));
            assert_eq!(gzip[11..gzip.len() - 8], zlib[2..zlib.len() - 4]);
            let gzip_codec = built(&gzip_for_zlib(&codec("numcodecs.zlib", 5)).unwrap());
            gzip_codec.decode(&mut context, &gzip[1..], plain.len(), &mut back).unwrap();
            assert_eq!(back, plain);
        }
    }

    #[test]
    fn a_damaged_zlib_stream_is_not_taken_along() {
        let (mut context, mut zlib, mut out) = (Context::default(), Vec::new(), vec![1]);
        built(&codec("zlib", 1)).encode(&mut context, &[5; 1000], &mut zlib).unwrap();
        let mut check = |bytes: &[u8], limit| {
            zlib_to_gzip(&mut context, bytes, limit, &mut out).unwrap_err();
            assert_eq!(out, [1]);
        };
        for at in 0..zlib.len() {
            let mut damaged = zlib.clone();
            damaged[at] ^= 0xff;
            check(&damaged, 1 << 20);
            check(&zlib[..at], 1 << 20);
        }
        check(&zlib, 999);
        assert!(gzip_for_zlib(&codec("gzip", 1)).is_none());
        assert_eq!(gzip_for_zlib(&codec("zlib", -1)), Some(codec("gzip", 6)));
    }
}
