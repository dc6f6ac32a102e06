//! What the fuzz targets do with their input, apart from libFuzzer.
//!
//! Each module is one target: `run` takes any bytes and must neither panic nor use a
//! disproportionate amount of memory, and `seeds` are inputs that reach deep. The smoke test runs
//! all of them on an ordinary compiler, so a target that has rotted is noticed without a fuzzing
//! run.

pub mod chunk_codec;
pub mod codec_array;
pub mod codec_bytes;
pub mod codecs;
pub mod data_type;
pub mod geometry;
pub mod geometry_csv;
pub mod geometry_obj;
pub mod geometry_ply;
pub mod geometry_swc;
pub mod journal;
pub mod memory;
pub mod mend_array;
pub mod metadata;
pub mod metadata_v2;
pub mod ome_metadata;
pub mod read_array;
pub mod region;
pub mod shard_index;
pub mod uint64_shard;
pub mod vector_draco;
pub mod vector_fragments;
pub mod vector_links;
pub mod vector_manifests;
pub mod wkw;

/// A target: its name, its body, and the inputs it starts from.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets, in the order of the files in `fuzz_targets`.
pub const TARGETS: &[Target] = &[
    Target { name: "chunk_codec", run: chunk_codec::run, seeds: chunk_codec::seeds },
    Target { name: "codec_array", run: codec_array::run, seeds: codec_array::seeds },
    Target { name: "codec_bytes", run: codec_bytes::run, seeds: codec_bytes::seeds },
    Target { name: "data_type", run: data_type::run, seeds: data_type::seeds },
    Target { name: "geometry_csv", run: geometry_csv::run, seeds: geometry_csv::seeds },
    Target { name: "geometry_obj", run: geometry_obj::run, seeds: geometry_obj::seeds },
    Target { name: "geometry_ply", run: geometry_ply::run, seeds: geometry_ply::seeds },
    Target { name: "geometry_swc", run: geometry_swc::run, seeds: geometry_swc::seeds },
    Target { name: "journal", run: journal::run, seeds: journal::seeds },
    Target { name: "mend_array", run: mend_array::run, seeds: mend_array::seeds },
    Target { name: "metadata", run: metadata::run, seeds: metadata::seeds },
    Target { name: "metadata_v2", run: metadata_v2::run, seeds: metadata_v2::seeds },
    Target { name: "ome_metadata", run: ome_metadata::run, seeds: ome_metadata::seeds },
    Target { name: "read_array", run: read_array::run, seeds: read_array::seeds },
    Target { name: "region", run: region::run, seeds: region::seeds },
    Target { name: "shard_index", run: shard_index::run, seeds: shard_index::seeds },
    Target { name: "uint64_shard", run: uint64_shard::run, seeds: uint64_shard::seeds },
    Target { name: "vector_draco", run: vector_draco::run, seeds: vector_draco::seeds },
    Target { name: "vector_fragments", run: vector_fragments::run, seeds: vector_fragments::seeds },
    Target { name: "vector_links", run: vector_links::run, seeds: vector_links::seeds },
    Target { name: "vector_manifests", run: vector_manifests::run, seeds: vector_manifests::seeds },
    Target { name: "wkw", run: wkw::run, seeds: wkw::seeds },
];

/// Splits `input` at its first zero byte, which JSON text cannot contain.
pub fn split(input: &[u8]) -> (&[u8], &[u8]) {
    match input.iter().position(|&byte| byte == 0) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &[]),
    }
}

/// The inverse of [`split`] for several parts.
pub fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.join(&0)
}
