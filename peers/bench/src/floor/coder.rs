//! The C codecs, called with contexts and buffers that are used again and again.

use std::ffi::c_void;
use std::ptr::NonNull;

use libdeflate_sys::{
    libdeflate_alloc_compressor, libdeflate_alloc_decompressor, libdeflate_compressor,
    libdeflate_decompressor, libdeflate_free_compressor, libdeflate_free_decompressor,
    libdeflate_gzip_compress, libdeflate_gzip_decompress,
};
use memmap2::MmapMut;
use zstd_safe::{CCtx, DCtx};

use crate::Result;
use crate::job::{Compressor, Job};
use crate::memory::aligned;

pub const ZSTD_LEVEL: i32 = 3;
pub const GZIP_LEVEL: i32 = 5;
pub const BLOSC_LEVEL: i32 = 5;

/// More than any index here takes.
const INDEX: usize = 64 << 10;

/// What one thread needs to code chunks.
pub struct Coder {
    compressor: Compressor,
    element: usize,
    decompress: DCtx<'static>,
    compress: CCtx<'static>,
    inflate: NonNull<libdeflate_decompressor>,
    deflate: NonNull<libdeflate_compressor>,
    /// Encoded bytes of one chunk.
    pub encoded: MmapMut,
    /// The elements of one chunk.
    pub decoded: MmapMut,
}

// SAFETY: libdeflate's objects may be used from any one thread at a time.
unsafe impl Send for Coder {}

impl Coder {
    pub fn new(job: &Job) -> Self {
        let chunk = crate::block::product(job.chunk) * job.element;
        let level = job.metadata["gzip_level"].as_i64().and_then(|level| i32::try_from(level).ok());
        Self::leveled(job.compressor, job.element, chunk, level.unwrap_or(GZIP_LEVEL))
    }

    /// For chunks of so many bytes.
    pub fn sized(compressor: Compressor, element: usize, chunk: usize) -> Self {
        Self::leveled(compressor, element, chunk, GZIP_LEVEL)
    }

    fn leveled(compressor: Compressor, element: usize, chunk: usize, level: i32) -> Self {
        // SAFETY: plain calls; a null pointer is turned into the end of the program below.
        let (inflate, deflate) =
            unsafe { (libdeflate_alloc_decompressor(), libdeflate_alloc_compressor(level)) };
        Self {
            compressor,
            element,
            decompress: DCtx::create(),
            compress: CCtx::create(),
            inflate: NonNull::new(inflate).unwrap_or_else(|| std::process::abort()),
            deflate: NonNull::new(deflate).unwrap_or_else(|| std::process::abort()),
            encoded: aligned(zstd_safe::compress_bound(chunk) + INDEX),
            decoded: aligned(chunk),
        }
    }

    /// Decodes the first `len` bytes of `self.encoded` into `out`, which they fill.
    pub fn decode(&mut self, len: usize, out: &mut [u8]) -> Result {
        decode(self.compressor, &mut self.decompress, self.inflate, &self.encoded[..len], out)
    }

    /// Decodes the first `len` bytes of `self.encoded` into `self.decoded`, which they need not
    /// fill; returns how many there are.
    pub fn decode_some(&mut self, len: usize) -> Result<usize> {
        let (compressor, context, inflate) = (self.compressor, &mut self.decompress, self.inflate);
        decode_some(compressor, context, inflate, &self.encoded[..len], &mut self.decoded)
    }

    /// Decodes the first `len` bytes of `self.encoded` into `self.decoded`, which they fill.
    pub fn decode_here(&mut self, len: usize) -> Result {
        decode(
            self.compressor,
            &mut self.decompress,
            self.inflate,
            &self.encoded[..len],
            &mut self.decoded,
        )
    }

    /// Encodes `self.decoded`.
    pub fn encode(&mut self) -> Result<&[u8]> {
        self.encode_some(self.decoded.len())
    }

    /// Encodes the first `len` bytes of `self.decoded`.
    pub fn encode_some(&mut self, len: usize) -> Result<&[u8]> {
        let (from, to) = (&self.decoded[..len], &mut self.encoded);
        let len = match self.compressor {
            Compressor::Zstd => {
                let len = self.compress.compress(&mut to[..], from, ZSTD_LEVEL);
                len.map_err(zstd_safe::get_error_name)?
            }
            Compressor::BloscLz4 => {
                // SAFETY: source and destination are valid for the lengths given.
                let len = unsafe {
                    blosc_src::blosc_compress_ctx(
                        BLOSC_LEVEL,
                        1,
                        self.element,
                        from.len(),
                        from.as_ptr().cast::<c_void>(),
                        to.as_mut_ptr().cast::<c_void>(),
                        to.len(),
                        c"lz4".as_ptr(),
                        0,
                        1,
                    )
                };
                usize::try_from(len).map_err(|_| "blosc cannot encode")?
            }
            Compressor::Gzip => {
                // SAFETY: the object is alive; source and destination are valid for the lengths
                // given.
                let len = unsafe {
                    libdeflate_gzip_compress(
                        self.deflate.as_ptr(),
                        from.as_ptr().cast::<c_void>(),
                        from.len(),
                        to.as_mut_ptr().cast::<c_void>(),
                        to.len(),
                    )
                };
                if len == 0 {
                    return Err("libdeflate cannot encode".into());
                }
                len
            }
            Compressor::None => return Ok(from),
        };
        Ok(&to[..len])
    }
}

impl Drop for Coder {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` and freed nowhere else.
        unsafe {
            libdeflate_free_decompressor(self.inflate.as_ptr());
            libdeflate_free_compressor(self.deflate.as_ptr());
        }
    }
}

fn decode(
    compressor: Compressor,
    context: &mut DCtx<'_>,
    inflate: NonNull<libdeflate_decompressor>,
    encoded: &[u8],
    out: &mut [u8],
) -> Result {
    let len = decode_some(compressor, context, inflate, encoded, out)?;
    if len != out.len() {
        return Err(format!("a chunk decodes to {len} bytes, not {}", out.len()).into());
    }
    Ok(())
}

/// Decodes into the beginning of `out`; returns how many bytes there are.
fn decode_some(
    compressor: Compressor,
    context: &mut DCtx<'_>,
    inflate: NonNull<libdeflate_decompressor>,
    encoded: &[u8],
    out: &mut [u8],
) -> Result<usize> {
    Ok(match compressor {
        Compressor::Zstd => context.decompress(out, encoded).map_err(zstd_safe::get_error_name)?,
        Compressor::BloscLz4 => {
            // SAFETY: the destination is valid for its length. The source is an array that this
            // program made and verified, so that its header may be believed.
            let len = unsafe {
                blosc_src::blosc_decompress_ctx(
                    encoded.as_ptr().cast::<c_void>(),
                    out.as_mut_ptr().cast::<c_void>(),
                    out.len(),
                    1,
                )
            };
            usize::try_from(len).map_err(|_| "blosc cannot decode")?
        }
        Compressor::Gzip => {
            let mut len = 0;
            // SAFETY: the object is alive; source and destination are valid for the lengths given.
            let result = unsafe {
                libdeflate_gzip_decompress(
                    inflate.as_ptr(),
                    encoded.as_ptr().cast::<c_void>(),
                    encoded.len(),
                    out.as_mut_ptr().cast::<c_void>(),
                    out.len(),
                    &raw mut len,
                )
            };
            if result != 0 {
                return Err("libdeflate cannot decode".into());
            }
            len
        }
        Compressor::None => {
            out.get_mut(..encoded.len()).ok_or("the chunk is too long")?.copy_from_slice(encoded);
            encoded.len()
        }
    })
}
