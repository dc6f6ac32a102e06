use std::mem::MaybeUninit;
use std::sync::Arc;

use zstd_safe::{CCtx, CParameter, DCtx, WriteBuf, zstd_sys};

use super::config::Config;
use super::output::{self, Attempt};
use crate::{BytesToBytes, Codec, CodecError, Context, EncodedSize};

const NAME: &str = "zstd";

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.required("level")?;
    build_numcodecs(config)
}

pub(super) fn build_numcodecs(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["level", "checksum"])?;
    // The bounds are those of the specification, which are libzstd's.
    let level = config.integer("level", -131_072..=22)?.unwrap_or(0);
    let checksum = config.boolean("checksum")?.unwrap_or(false);
    let parameters = Parameters { level: i32::try_from(level).unwrap_or(0), checksum };
    Ok(Codec::BytesToBytes(Arc::new(Zstd { parameters })))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parameters {
    level: i32,
    checksum: bool,
}

#[derive(Debug)]
struct Zstd {
    parameters: Parameters,
}

/// A worker's contexts; the compressor remembers its parameters.
#[derive(Default)]
struct Contexts {
    compressor: Option<(CCtx<'static>, Parameters)>,
    decompressor: Option<DCtx<'static>>,
}

impl Contexts {
    fn compressor(&mut self, wanted: Parameters) -> Result<&mut CCtx<'static>, CodecError> {
        if self.compressor.as_ref().is_none_or(|(_, parameters)| *parameters != wanted) {
            let mut context = match self.compressor.take() {
                Some((context, _)) => context,
                None => CCtx::try_create().ok_or(NO_MEMORY)?,
            };
            for parameter in [
                CParameter::CompressionLevel(wanted.level),
                CParameter::ChecksumFlag(wanted.checksum),
            ] {
                context.set_parameter(parameter).map_err(encode_error)?;
            }
            self.compressor = Some((context, wanted));
        }
        self.compressor.as_mut().map(|(context, _)| context).ok_or(NO_MEMORY)
    }

    fn decompressor(&mut self) -> Result<&mut DCtx<'static>, CodecError> {
        if self.decompressor.is_none() {
            self.decompressor = DCtx::try_create();
        }
        self.decompressor.as_mut().ok_or(NO_MEMORY)
    }
}

const NO_MEMORY: CodecError = CodecError::OutOfMemory { codec: NAME, bytes: 1 << 17 };

fn encode_error(code: usize) -> CodecError {
    CodecError::Encode { codec: NAME, reason: zstd_safe::get_error_name(code).into() }
}

/// Uninitialized memory that libzstd may write to.
struct Spare<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    written: usize,
}

// SAFETY: pointer and capacity belong to one slice; `as_slice` covers only what libzstd has
// reported as written from its start.
unsafe impl WriteBuf for Spare<'_> {
    fn as_slice(&self) -> &[u8] {
        // SAFETY: `written` bytes are initialized, by the contract of `filled_until`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.written) }
    }

    fn capacity(&self) -> usize {
        self.memory.len()
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast()
    }

    unsafe fn filled_until(&mut self, n: usize) {
        self.written = n;
    }
}

/// Decompresses all frames of `input` to the start of `out`.
fn decompress(
    context: &mut Context,
    input: &[u8],
    out: &mut (impl WriteBuf + ?Sized),
) -> Result<Attempt, CodecError> {
    match context.slot::<Contexts>().decompressor()?.decompress(out, input) {
        Ok(written) => Ok(Attempt::Done(written)),
        Err(code) => {
            // SAFETY: only looks at the number.
            let kind = unsafe { zstd_sys::ZSTD_getErrorCode(code) };
            if kind == zstd_sys::ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall {
                return Ok(Attempt::TooSmall);
            }
            Err(CodecError::corrupt(NAME, input.len(), zstd_safe::get_error_name(code)))
        }
    }
}

/// The most that `input` bytes can decode to: a block takes 4 bytes and decodes to at most 128 KiB.
fn most(input: usize) -> usize {
    (input / 4 + 1).saturating_mul(128 << 10)
}

impl BytesToBytes for Zstd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn encode(
        &self,
        context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let compressor = context.slot::<Contexts>().compressor(self.parameters)?;
        let room = zstd_safe::compress_bound(input.len());
        // SAFETY: libzstd has written as many bytes as it reports.
        unsafe {
            output::append(NAME, out, room, |memory| {
                let mut spare = Spare { memory, written: 0 };
                compressor.compress2(&mut spare, input).map_err(encode_error)
            })
        }
    }

    fn decode(
        &self,
        context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let claimed = match zstd_safe::get_frame_content_size(input) {
            // A first frame that is skippable, or not the only one, says nothing about the total.
            Ok(Some(size)) if size > 0 => Some(usize::try_from(size).unwrap_or(usize::MAX)),
            _ => None,
        };
        output::check_limit(NAME, claimed.unwrap_or(0), limit)?;
        // A damaged block can ask for more room again and again without filling any.
        let room = limit.min(most(input.len()));
        // SAFETY: libzstd has written as many bytes as it reports.
        let result = unsafe {
            output::append_growing(NAME, input.len(), claimed, room, out, |memory| {
                decompress(context, input, &mut Spare { memory, written: 0 })
            })
        };
        match result {
            Err(CodecError::TooLarge { .. }) if room < limit => {
                Err(CodecError::corrupt(NAME, input.len(), "a block is longer than blocks can be"))
            }
            result => result,
        }
    }

    fn decode_exact(
        &self,
        context: &mut Context,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        match decompress(context, input, out)? {
            Attempt::Done(written) => output::check_size(NAME, out.len(), written),
            Attempt::TooSmall => Err(CodecError::TooLarge { codec: NAME, limit: out.len() }),
        }
    }

    fn encoded_size(&self, input: u64) -> EncodedSize {
        match usize::try_from(input).map(zstd_safe::compress_bound) {
            Ok(bound) if bound as u64 >= input => EncodedSize::AtMost(bound as u64),
            _ => EncodedSize::Unbounded,
        }
    }
}
