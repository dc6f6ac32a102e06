mod filter;
mod header;
mod snappy;

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::sync::Arc;

use serde_json::Value;

use super::config::Config;
use super::output;
use crate::{BytesToBytes, Codec, CodecError, Context, EncodedSize};
use filter::Filter;
use header::{HEADER, Header, MAX_INPUT};

const NAME: &str = "blosc";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shuffle {
    None,
    Bytes,
    Bits,
    /// Bits for elements of one byte, bytes for others.
    Auto,
}

#[derive(Debug, Clone, Copy)]
enum Compressor {
    /// A compressor that c-blosc has under this name.
    Linked(&'static CStr),
    Snappy,
}

#[derive(Debug, Clone)]
struct Blosc {
    compressor: Compressor,
    level: c_int,
    shuffle: Shuffle,
    /// `None` until the element size is known.
    element_size: Option<usize>,
    block_size: usize,
}

const MEMBERS: &[&str] = &["cname", "clevel", "shuffle", "typesize", "blocksize"];

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    for member in ["cname", "clevel", "shuffle"] {
        config.required(member)?;
    }
    let choices =
        [("noshuffle", Shuffle::None), ("shuffle", Shuffle::Bytes), ("bitshuffle", Shuffle::Bits)];
    let shuffle = config.choice("shuffle", &choices)?.unwrap_or(Shuffle::None);
    let codec = build_with(config, shuffle, if shuffle == Shuffle::None { 0 } else { 1 })?;
    if codec.element_size.is_none() && shuffle != Shuffle::None {
        return Err(config.error("\"typesize\" is missing, and needed to shuffle"));
    }
    Ok(Codec::BytesToBytes(Arc::new(codec)))
}

pub(super) fn build_numcodecs(config: &Config<'_>) -> Result<Codec, CodecError> {
    let shuffle = match config.get("shuffle").map(Value::as_i64) {
        Some(Some(-1)) => Shuffle::Auto,
        Some(Some(0)) => Shuffle::None,
        None | Some(Some(1)) => Shuffle::Bytes,
        Some(Some(2)) => Shuffle::Bits,
        Some(_) => return Err(config.wrong("shuffle", "-1, 0, 1 or 2")),
    };
    Ok(Codec::BytesToBytes(Arc::new(build_with(config, shuffle, 0)?)))
}

fn build_with(config: &Config<'_>, shuffle: Shuffle, least_size: i64) -> Result<Blosc, CodecError> {
    config.only(MEMBERS)?;
    let choices = [
        ("blosclz", Compressor::Linked(c"blosclz")),
        ("lz4", Compressor::Linked(c"lz4")),
        ("lz4hc", Compressor::Linked(c"lz4hc")),
        ("snappy", Compressor::Snappy),
        ("zlib", Compressor::Linked(c"zlib")),
        ("zstd", Compressor::Linked(c"zstd")),
    ];
    let compressor = config.choice("cname", &choices)?.unwrap_or(Compressor::Linked(c"lz4"));
    let level = config.integer("clevel", 0..=9)?.unwrap_or(5);
    let element_size = config.integer("typesize", least_size..=i64::from(c_int::MAX))?;
    let block_size = config.integer("blocksize", 0..=i64::from(c_int::MAX))?.unwrap_or(0);
    Ok(Blosc {
        compressor,
        level: c_int::try_from(level).unwrap_or(5),
        shuffle,
        element_size: element_size.and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0),
        block_size: usize::try_from(block_size).unwrap_or(0),
    })
}

/// Decodes `input` with c-blosc to `out`, which has the length given by the header.
///
/// The header must be one that [`Header::read`] accepts, with the length of `input` in it.
fn decompress(input: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<(), CodecError> {
    if out.is_empty() {
        return Ok(());
    }
    // SAFETY: the header was checked against the length of `input`; c-blosc writes at most as many
    // bytes as it is told there are, which is the length of `out`.
    let written = unsafe {
        blosc_src::blosc_decompress_ctx(
            input.as_ptr().cast(),
            out.as_mut_ptr().cast(),
            out.len(),
            1,
        )
    };
    if usize::try_from(written) == Ok(out.len()) {
        return Ok(());
    }
    Err(CodecError::corrupt(NAME, input.len(), "the blocks are damaged or cut short"))
}

impl Blosc {
    fn filter(&self) -> Filter {
        match self.shuffle {
            Shuffle::None => Filter::None,
            Shuffle::Bytes => Filter::Bytes,
            Shuffle::Bits => Filter::Bits,
            Shuffle::Auto if self.element_size.unwrap_or(1) == 1 => Filter::Bits,
            Shuffle::Auto => Filter::Bytes,
        }
    }

    /// Encodes `input`, at most [`MAX_INPUT`] bytes, with c-blosc and appends the result to `out`.
    fn compress(
        &self,
        compressor: &CStr,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let shuffle = match self.filter() {
            Filter::None => blosc_src::BLOSC_NOSHUFFLE,
            Filter::Bytes => blosc_src::BLOSC_SHUFFLE,
            Filter::Bits => blosc_src::BLOSC_BITSHUFFLE,
        };
        // SAFETY: c-blosc has written as many bytes as it reports.
        unsafe {
            output::append(NAME, out, input.len() + HEADER, |spare| {
                // SAFETY: both pointers match the lengths of their slices, which do not overlap.
                let written = blosc_src::blosc_compress_ctx(
                    self.level,
                    shuffle as c_int,
                    self.element_size.unwrap_or(1),
                    input.len(),
                    input.as_ptr().cast(),
                    spare.as_mut_ptr().cast(),
                    spare.len(),
                    compressor.as_ptr(),
                    self.block_size,
                    1,
                );
                match usize::try_from(written) {
                    Ok(written) if written >= HEADER => Ok(written),
                    _ => {
                        let reason = format!("c-blosc failed with {written}");
                        Err(CodecError::Encode { codec: NAME, reason })
                    }
                }
            })
        }
    }
}

impl BytesToBytes for Blosc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn encode(
        &self,
        context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        if input.len() > MAX_INPUT {
            let reason = format!("{} bytes, at most {MAX_INPUT} are possible", input.len());
            return Err(CodecError::Encode { codec: NAME, reason });
        }
        match self.compressor {
            Compressor::Linked(name) => self.compress(name, input, out),
            Compressor::Snappy => {
                let parameters = snappy::Parameters {
                    level: usize::try_from(self.level).unwrap_or(0),
                    filter: self.filter(),
                    element_size: self.element_size.unwrap_or(1),
                    block_size: self.block_size,
                };
                snappy::encode(context, parameters, input, out)
            }
        }
    }

    fn decode(
        &self,
        context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let header = Header::read(input)?;
        let size = header.decoded;
        output::check_limit(NAME, size, limit)?;
        if header.is_snappy() {
            output::reserve(NAME, out, size)?;
            let start = out.len();
            out.resize(start + size, 0);
            let result = snappy::decode(context, header, input, &mut out[start..]);
            if result.is_err() {
                out.truncate(start);
            }
            return result;
        }
        // SAFETY: on success, `decompress` has written all of the slice.
        unsafe { output::append(NAME, out, size, |spare| decompress(input, spare).map(|()| size)) }
    }

    fn decode_exact(
        &self,
        context: &mut Context,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        let header = Header::read(input)?;
        output::check_size(NAME, out.len(), header.decoded)?;
        if header.is_snappy() {
            return snappy::decode(context, header, input, out);
        }
        decompress(input, output::as_uninit(out))
    }

    fn encoded_size(&self, input: u64) -> EncodedSize {
        if input > MAX_INPUT as u64 {
            return EncodedSize::Unbounded;
        }
        EncodedSize::AtMost(input + HEADER as u64)
    }

    fn with_element_size(&self, size: usize) -> Option<Arc<dyn BytesToBytes>> {
        match self.element_size {
            Some(_) => None,
            None => Some(Arc::new(Self { element_size: Some(size), ..self.clone() })),
        }
    }
}
