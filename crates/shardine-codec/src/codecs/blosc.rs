use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::sync::Arc;

use serde_json::Value;

use super::config::Config;
use super::output;
use crate::{BytesToBytes, Codec, CodecError, Context, EncodedSize};

const NAME: &str = "blosc";

/// Bytes before the blocks, and the most that encoding can add.
const HEADER: usize = 16;

/// c-blosc counts in `int`, header included.
const MAX_INPUT: usize = c_int::MAX as usize - HEADER;

/// The flag that the data follows as it is, and the compressors as the upper bits number them.
const COPIED: u8 = 2;
const BLOSCLZ: u8 = 0;
const LZ4: u8 = 1;
const SNAPPY: u8 = 2;
const ZLIB: u8 = 3;
const ZSTD: u8 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shuffle {
    None,
    Bytes,
    Bits,
    /// Bits for elements of one byte, bytes for others.
    Auto,
}

#[derive(Debug, Clone)]
struct Blosc {
    compressor: &'static CStr,
    level: c_int,
    shuffle: Shuffle,
    /// `None` while nobody has said how large elements are.
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
        ("blosclz", Some(c"blosclz")),
        ("lz4", Some(c"lz4")),
        ("lz4hc", Some(c"lz4hc")),
        ("snappy", None),
        ("zlib", Some(c"zlib")),
        ("zstd", Some(c"zstd")),
    ];
    let compressor = config.choice("cname", &choices)?.unwrap_or(Some(c"lz4"));
    let compressor = compressor.ok_or_else(|| config.unsupported("\"snappy\" is not built in"))?;
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

/// The decoded size, once the header agrees with itself and with the length of `input`.
///
/// c-blosc trusts its header as to how long its input is, so this comes first.
fn decoded_size(input: &[u8]) -> Result<usize, CodecError> {
    let corrupt = |reason: String| CodecError::corrupt(NAME, input.len(), reason);
    let Some(header) = input.first_chunk::<HEADER>() else {
        return Err(corrupt(format!("the header alone has {HEADER} bytes")));
    };
    let [version, _, flags, type_size, sizes @ ..] = *header;
    let [n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3] = sizes;
    let decoded = u32::from_le_bytes([n0, n1, n2, n3]) as usize;
    let block = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
    let encoded = u32::from_le_bytes([c0, c1, c2, c3]) as usize;
    if version != 2 {
        return Err(corrupt(format!("format version {version}, only 2 is known")));
    }
    if encoded != input.len() {
        return Err(corrupt(format!("the header says {encoded} encoded bytes")));
    }
    if decoded > MAX_INPUT {
        return Err(corrupt(format!("the header says {decoded} decoded bytes")));
    }
    if decoded > 0 && (block == 0 || block > decoded || type_size == 0) {
        return Err(corrupt(format!(
            "the header says blocks of {block} and elements of {type_size} bytes in {decoded}"
        )));
    }
    // How much one byte can become: past it the header lies, and is not worth any memory.
    let ratio = match (flags & COPIED != 0, flags >> 5) {
        (true, _) => 1,
        (_, BLOSCLZ | LZ4) => 256,
        (_, SNAPPY) => {
            return Err(CodecError::unsupported(NAME, "the data is compressed with snappy"));
        }
        (_, ZLIB) => 1032,
        (_, ZSTD) => 1 << 16,
        (_, format) => return Err(corrupt(format!("compressor {format} is not known"))),
    };
    if decoded / ratio > encoded {
        return Err(corrupt(format!("the header says {decoded} decoded bytes")));
    }
    Ok(decoded)
}

/// Decodes `input` to `out`, which has the length that its header says.
fn decompress(input: &[u8], out: &mut [MaybeUninit<u8>]) -> Result<(), CodecError> {
    if out.is_empty() {
        return Ok(());
    }
    // SAFETY: the header was checked against the length of `input`; c-blosc writes at most as
    // many bytes as it is told there are, which is the length of `out`.
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

impl BytesToBytes for Blosc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn encode(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        if input.len() > MAX_INPUT {
            let reason = format!("{} bytes, at most {MAX_INPUT} are possible", input.len());
            return Err(CodecError::Encode { codec: NAME, reason });
        }
        let element_size = self.element_size.unwrap_or(1);
        let shuffle = match self.shuffle {
            Shuffle::None => blosc_src::BLOSC_NOSHUFFLE,
            Shuffle::Bytes => blosc_src::BLOSC_SHUFFLE,
            Shuffle::Bits => blosc_src::BLOSC_BITSHUFFLE,
            Shuffle::Auto if element_size == 1 => blosc_src::BLOSC_BITSHUFFLE,
            Shuffle::Auto => blosc_src::BLOSC_SHUFFLE,
        };
        // SAFETY: c-blosc has written as many bytes as it says.
        unsafe {
            output::append(NAME, out, input.len() + HEADER, |spare| {
                // SAFETY: both pointers go with the lengths of their slices, which do not overlap.
                let written = blosc_src::blosc_compress_ctx(
                    self.level,
                    shuffle as c_int,
                    element_size,
                    input.len(),
                    input.as_ptr().cast(),
                    spare.as_mut_ptr().cast(),
                    spare.len(),
                    self.compressor.as_ptr(),
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

    fn decode(
        &self,
        _context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let size = decoded_size(input)?;
        output::check_limit(NAME, size, limit)?;
        // SAFETY: on success, `decompress` has written all of the slice.
        unsafe { output::append(NAME, out, size, |spare| decompress(input, spare).map(|()| size)) }
    }

    fn decode_exact(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        output::check_size(NAME, out.len(), decoded_size(input)?)?;
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
