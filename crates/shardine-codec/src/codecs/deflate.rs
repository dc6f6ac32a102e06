//! What `gzip` and `zlib` share: libdeflate and its contexts.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use libdeflate_sys as sys;

use super::config::Config;
use super::output::{self, Attempt};
use crate::{CodecError, Context, EncodedSize};

/// The two wrappers around a deflate stream, as libdeflate's functions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    bound: unsafe extern "C" fn(*mut sys::libdeflate_compressor, usize) -> usize,
    compress: unsafe extern "C" fn(
        *mut sys::libdeflate_compressor,
        *const c_void,
        usize,
        *mut c_void,
        usize,
    ) -> usize,
    decompress: unsafe extern "C" fn(
        *mut sys::libdeflate_decompressor,
        *const c_void,
        usize,
        *mut c_void,
        usize,
        *mut usize,
        *mut usize,
    ) -> sys::libdeflate_result,
    /// Whether several streams may be concatenated.
    members: bool,
}

pub(super) const GZIP: Wrapper = Wrapper {
    name: "gzip",
    bound: sys::libdeflate_gzip_compress_bound,
    compress: sys::libdeflate_gzip_compress,
    decompress: sys::libdeflate_gzip_decompress_ex,
    members: true,
};

pub(super) const ZLIB: Wrapper = Wrapper {
    name: "zlib",
    bound: sys::libdeflate_zlib_compress_bound,
    compress: sys::libdeflate_zlib_compress,
    decompress: sys::libdeflate_zlib_decompress_ex,
    members: false,
};

struct Compressor(NonNull<sys::libdeflate_compressor>);

// SAFETY: libdeflate keeps no thread-local state; a context may move between threads.
unsafe impl Send for Compressor {}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: allocated by libdeflate and freed only here.
        unsafe { sys::libdeflate_free_compressor(self.0.as_ptr()) }
    }
}

struct Decompressor(NonNull<sys::libdeflate_decompressor>);

// SAFETY: as for `Compressor`.
unsafe impl Send for Decompressor {}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: allocated by libdeflate and freed only here.
        unsafe { sys::libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

/// A worker's contexts, with one compressor per level it has used.
#[derive(Default)]
struct Contexts {
    compressors: Vec<(u8, Compressor)>,
    decompressor: Option<Decompressor>,
}

impl Contexts {
    fn compressor(
        &mut self,
        codec: &'static str,
        level: u8,
    ) -> Result<NonNull<sys::libdeflate_compressor>, CodecError> {
        if let Some((_, compressor)) = self.compressors.iter().find(|(at, _)| *at == level) {
            return Ok(compressor.0);
        }
        // SAFETY: has no preconditions; an illegal level gives null.
        let pointer = unsafe { sys::libdeflate_alloc_compressor(c_int::from(level)) };
        let pointer =
            NonNull::new(pointer).ok_or(CodecError::OutOfMemory { codec, bytes: 1 << 20 })?;
        self.compressors.push((level, Compressor(pointer)));
        Ok(pointer)
    }

    fn decompressor(
        &mut self,
        codec: &'static str,
    ) -> Result<NonNull<sys::libdeflate_decompressor>, CodecError> {
        if let Some(decompressor) = &self.decompressor {
            return Ok(decompressor.0);
        }
        // SAFETY: has no preconditions.
        let pointer = unsafe { sys::libdeflate_alloc_decompressor() };
        let pointer =
            NonNull::new(pointer).ok_or(CodecError::OutOfMemory { codec, bytes: 1 << 15 })?;
        self.decompressor = Some(Decompressor(pointer));
        Ok(pointer)
    }
}

/// The `level` of a numcodecs configuration: 1 if absent, and -1 for zlib's default.
pub(super) fn numcodecs_level(config: &Config<'_>) -> Result<u8, CodecError> {
    let level = config.integer("level", -1..=9)?.unwrap_or(1);
    Ok(u8::try_from(level).unwrap_or(6))
}

pub(super) fn encoded_size(wrapper: &Wrapper, input: u64) -> EncodedSize {
    match usize::try_from(input) {
        // libdeflate's bound is not made for sizes near the maximum of its type.
        Ok(input) if input <= isize::MAX as usize => {
            EncodedSize::AtMost(bound(wrapper, input) as u64)
        }
        _ => EncodedSize::Unbounded,
    }
}

/// The most bytes that `input` bytes can become, at any level.
fn bound(wrapper: &Wrapper, input: usize) -> usize {
    // SAFETY: with a null compressor it returns the bound for all of them.
    unsafe { (wrapper.bound)(std::ptr::null_mut(), input) }
}

pub(super) fn encode(
    wrapper: &Wrapper,
    level: u8,
    context: &mut Context,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let compressor = context.slot::<Contexts>().compressor(wrapper.name, level)?;
    // SAFETY: libdeflate has written as many bytes as it reports.
    unsafe {
        output::append(wrapper.name, out, bound(wrapper, input.len()), |spare| {
            // SAFETY: the compressor is alive and used by this call alone; both pointers match the
            // lengths of their slices.
            let written = (wrapper.compress)(
                compressor.as_ptr(),
                input.as_ptr().cast(),
                input.len(),
                spare.as_mut_ptr().cast(),
                spare.len(),
            );
            if written == 0 {
                let reason = "the output is larger than libdeflate's own bound".into();
                return Err(CodecError::Encode { codec: wrapper.name, reason });
            }
            Ok(written)
        })
    }
}

/// Decodes all of `input` to the start of `out`; `Done(n)` promises that `n` bytes are written.
fn decompress(
    wrapper: &Wrapper,
    context: &mut Context,
    input: &[u8],
    out: &mut [MaybeUninit<u8>],
) -> Result<Attempt, CodecError> {
    let decompressor = context.slot::<Contexts>().decompressor(wrapper.name)?;
    let corrupt = |reason: &str| CodecError::corrupt(wrapper.name, input.len(), reason);
    let (mut from, mut to) = (0, 0);
    loop {
        let stream = input.get(from..).unwrap_or_default();
        let room = out.get_mut(to..).unwrap_or_default();
        let (mut read, mut written) = (0, 0);
        // SAFETY: the decompressor is alive and used by this call alone; both pointers match the
        // lengths of their slices.
        let result = unsafe {
            (wrapper.decompress)(
                decompressor.as_ptr(),
                stream.as_ptr().cast(),
                stream.len(),
                room.as_mut_ptr().cast(),
                room.len(),
                &mut read,
                &mut written,
            )
        };
        match result {
            sys::libdeflate_result_LIBDEFLATE_SUCCESS => (from, to) = (from + read, to + written),
            sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => return Ok(Attempt::TooSmall),
            _ => return Err(corrupt("the stream is damaged or cut short")),
        }
        let rest = input.get(from..).unwrap_or_default();
        // gzip files may be padded with zeros.
        if rest.is_empty() || wrapper.members && rest.iter().all(|&byte| byte == 0) {
            return Ok(Attempt::Done(to));
        }
        if !wrapper.members {
            return Err(corrupt("there are bytes after the end of the stream"));
        }
    }
}

pub(super) fn decode(
    wrapper: &Wrapper,
    claimed: Option<usize>,
    context: &mut Context,
    input: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    // SAFETY: libdeflate has written as many bytes as it reports.
    unsafe {
        output::append_growing(wrapper.name, input.len(), claimed, limit, out, |spare| {
            decompress(wrapper, context, input, spare)
        })
    }
}

pub(super) fn decode_exact(
    wrapper: &Wrapper,
    context: &mut Context,
    input: &[u8],
    out: &mut [u8],
) -> Result<(), CodecError> {
    let len = out.len();
    match decompress(wrapper, context, input, output::as_uninit(out))? {
        Attempt::Done(written) => output::check_size(wrapper.name, len, written),
        Attempt::TooSmall => Err(CodecError::TooLarge { codec: wrapper.name, limit: len }),
    }
}

/// zlib's CRC-32 of `bytes`.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    // SAFETY: pointer and length belong to one slice.
    unsafe { sys::libdeflate_crc32(0, bytes.as_ptr().cast(), bytes.len()) }
}

/// zlib's Adler-32 of `bytes`.
pub(super) fn adler32(bytes: &[u8]) -> u32 {
    // SAFETY: pointer and length belong to one slice.
    unsafe { sys::libdeflate_adler32(1, bytes.as_ptr().cast(), bytes.len()) }
}
