//! Codecs that put a 32-bit checksum before or after the data.

use std::sync::Arc;

use super::config::Config;
use super::deflate;
use super::output;
use crate::{BytesToBytes, Codec, CodecError, Context, EncodedSize};

const LEN: usize = 4;

#[derive(Debug, Clone, Copy)]
enum Location {
    Start,
    End,
}

#[derive(Debug)]
struct Checksum {
    name: &'static str,
    sum: fn(&[u8]) -> u32,
    location: Location,
}

fn build(
    config: &Config<'_>,
    name: &'static str,
    sum: fn(&[u8]) -> u32,
    default: Location,
) -> Result<Codec, CodecError> {
    config.only(&["location"])?;
    let choices = [("start", Location::Start), ("end", Location::End)];
    let location = config.choice("location", &choices)?.unwrap_or(default);
    Ok(Codec::BytesToBytes(Arc::new(Checksum { name, sum, location })))
}

pub(super) fn build_crc32c(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&[])?;
    build_crc32c_numcodecs(config)
}

pub(super) fn build_crc32c_numcodecs(config: &Config<'_>) -> Result<Codec, CodecError> {
    build(config, "crc32c", crc32c::crc32c, Location::End)
}

pub(super) fn build_crc32(config: &Config<'_>) -> Result<Codec, CodecError> {
    build(config, "crc32", deflate::crc32, Location::Start)
}

pub(super) fn build_adler32(config: &Config<'_>) -> Result<Codec, CodecError> {
    build(config, "adler32", deflate::adler32, Location::Start)
}

pub(super) fn build_fletcher32(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&[])?;
    build(config, "fletcher32", fletcher32, Location::End)
}

/// The Fletcher-32 sum of HDF5: big-endian words, an odd last byte taken as the upper half of one.
fn fletcher32(bytes: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (words, odd) = bytes.as_chunks::<2>();
    let (mut low, mut high) = (0u32, 0u32);
    // After 360 words the sums still fit, hence the usual block size.
    for block in words.chunks(360) {
        for &word in block {
            low += u32::from(u16::from_be_bytes(word));
            high += low;
        }
        (low, high) = (fold(low), fold(high));
    }
    if let [byte] = odd {
        low += u32::from(*byte) << 8;
        high += low;
        (low, high) = (fold(low), fold(high));
    }
    fold(high) << 16 | fold(low)
}

impl Checksum {
    fn check<'a>(&self, input: &'a [u8]) -> Result<&'a [u8], CodecError> {
        let parts = match self.location {
            Location::Start => input.split_first_chunk::<LEN>(),
            Location::End => input.split_last_chunk::<LEN>().map(|(payload, sum)| (sum, payload)),
        };
        let Some((stored, payload)) = parts else {
            let reason = "there is no room for a checksum";
            return Err(CodecError::corrupt(self.name, input.len(), reason));
        };
        let (stored, computed) = (u32::from_le_bytes(*stored), (self.sum)(payload));
        if stored == computed {
            Ok(payload)
        } else {
            Err(CodecError::Checksum { codec: self.name, stored, computed })
        }
    }
}

impl BytesToBytes for Checksum {
    fn name(&self) -> &'static str {
        self.name
    }

    fn encode(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        output::reserve(self.name, out, input.len().saturating_add(LEN))?;
        let sum = (self.sum)(input).to_le_bytes();
        match self.location {
            Location::Start => {
                out.extend_from_slice(&sum);
                out.extend_from_slice(input);
            }
            Location::End => {
                out.extend_from_slice(input);
                out.extend_from_slice(&sum);
            }
        }
        Ok(())
    }

    fn decode(
        &self,
        _context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let payload = self.check(input)?;
        output::check_limit(self.name, payload.len(), limit)?;
        output::reserve(self.name, out, payload.len())?;
        out.extend_from_slice(payload);
        Ok(())
    }

    fn decode_exact(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        let payload = self.check(input)?;
        output::check_size(self.name, out.len(), payload.len())?;
        out.copy_from_slice(payload);
        Ok(())
    }

    fn payload<'a>(&self, input: &'a [u8]) -> Option<Result<&'a [u8], CodecError>> {
        Some(self.check(input))
    }

    fn encoded_size(&self, input: u64) -> EncodedSize {
        match input.checked_add(LEN as u64) {
            Some(size) => EncodedSize::Exact(size),
            None => EncodedSize::Unbounded,
        }
    }
}
