//! The codecs, one file each, and the one place where they are registered.

mod bitround;
mod blosc;
mod bytes;
mod bz2;
mod checksum;
mod config;
mod deflate;
mod delta;
mod fixedscaleoffset;
mod gzip;
mod lz4;
mod lz4_block;
mod lzma;
mod neuroglancer;
mod numcodecs_packbits;
mod numeric;
mod output;
mod packbits;
mod shuffle;
mod stream;
mod transpose;
mod vlen;
mod zlib;
mod zstd;

pub use lz4_block::prefix_between;
pub use zlib::{gzip_for_zlib, zlib_to_gzip};

use config::Config;

use crate::{Codec, CodecError, CodecSpec};

type Build = fn(&Config<'_>) -> Result<Codec, CodecError>;

/// Every codec name with its constructor.
///
/// `numcodecs.*` is how zarr-python spells a codec of the numcodecs package in Zarr v3; the
/// configuration is then that package's, which is why some names of the same codec have different
/// `Build` functions.
const CODECS: &[(&str, Build)] = &[
    ("transpose", transpose::build),
    ("bitround", bitround::build),
    ("numcodecs.bitround", bitround::build_numcodecs),
    ("https://codec.zarrs.dev/array_to_bytes/bitround", bitround::build_numcodecs),
    ("fixedscaleoffset", fixedscaleoffset::build),
    ("numcodecs.fixedscaleoffset", fixedscaleoffset::build),
    ("delta", delta::build),
    ("numcodecs.delta", delta::build),
    ("numcodecs.packbits", numcodecs_packbits::build),
    ("bytes", bytes::build),
    ("endian", bytes::build),
    ("packbits", packbits::build),
    ("vlen-utf8", vlen::build_utf8),
    ("vlen-bytes", vlen::build_bytes),
    ("neuroglancer_compressed_segmentation", neuroglancer::segmentation::build),
    ("neuroglancer_jpeg", neuroglancer::jpeg::build),
    ("neuroglancer_compresso", neuroglancer::compresso::build),
    ("neuroglancer_png", neuroglancer::png::build),
    ("neuroglancer_jxl", neuroglancer::jxl::build),
    ("blosc", blosc::build),
    ("numcodecs.blosc", blosc::build_numcodecs),
    ("gzip", gzip::build),
    ("numcodecs.gzip", gzip::build_numcodecs),
    ("zstd", zstd::build),
    ("numcodecs.zstd", zstd::build_numcodecs),
    ("crc32c", checksum::build_crc32c),
    ("numcodecs.crc32c", checksum::build_crc32c_numcodecs),
    ("crc32", checksum::build_crc32),
    ("numcodecs.crc32", checksum::build_crc32),
    ("adler32", checksum::build_adler32),
    ("numcodecs.adler32", checksum::build_adler32),
    ("fletcher32", checksum::build_fletcher32),
    ("numcodecs.fletcher32", checksum::build_fletcher32),
    ("https://codec.zarrs.dev/bytes_to_bytes/fletcher32", checksum::build_fletcher32),
    ("zlib", zlib::build),
    ("numcodecs.zlib", zlib::build),
    ("lz4", lz4::build),
    ("numcodecs.lz4", lz4::build),
    ("wkw.lz4_block", lz4_block::build),
    ("bz2", bz2::build),
    ("numcodecs.bz2", bz2::build),
    ("lzma", lzma::build),
    ("numcodecs.lzma", lzma::build),
    ("shuffle", shuffle::build),
    ("numcodecs.shuffle", shuffle::build),
];

pub(crate) fn from_spec(spec: &CodecSpec) -> Result<Codec, CodecError> {
    match CODECS.iter().find(|(name, _)| *name == spec.name) {
        Some((_, build)) => build(&Config::new(spec)),
        None => Err(CodecError::Unknown { name: spec.name.clone() }),
    }
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CODECS.iter().map(|(name, _)| *name)
}
