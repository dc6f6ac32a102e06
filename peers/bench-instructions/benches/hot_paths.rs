//! Instructions of the paths that matter, with everything warm. Run by `cargo xtask bench --instructions`.

use std::hint::black_box;

use gungraun::{
    Callgrind, EntryPoint, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use shardine::{Array, ElementsRef, Placement, Region, WriteOptions};
use shardine_bench_instructions::callgrind::{self, Request};
use shardine_bench_instructions::{SHARD, Subject, elements, empty, filled};
use shardine_codec::strided;

const ZSTD: &str = r#", {"name": "zstd", "configuration": {"level": 3, "checksum": false}}"#;
const NONE: &str = "";

/// Counts the instructions of some work in all threads, the engine's own too.
fn counted<T>(work: impl FnOnce() -> T) -> T {
    callgrind::request(Request::Start);
    let result = black_box(work());
    callgrind::request(Request::Stop);
    result
}

fn subject(codecs: &str, edge: usize) -> (Subject, Region) {
    let shape = [edge as u64; 3];
    let start = if edge as u64 == SHARD { [0; 3] } else { [32; 3] };
    let subject = filled(codecs, edge * edge * edge * 2).expect("an array in memory");
    (subject, Region::of_box(&start, &shape))
}

fn one_chunk(codecs: &str) -> (Subject, Region) {
    subject(codecs, 32)
}

fn small_block(codecs: &str) -> (Subject, Region) {
    subject(codecs, 4)
}

fn whole_shard(codecs: &str) -> (Subject, Region) {
    subject(codecs, SHARD as usize)
}

#[library_benchmark]
#[bench::chunk_zstd(args = (ZSTD), setup = one_chunk)]
#[bench::chunk_none(args = (NONE), setup = one_chunk)]
#[bench::block_of_4_zstd(args = (ZSTD), setup = small_block)]
#[bench::block_of_4_none(args = (NONE), setup = small_block)]
#[bench::shard_zstd(args = (ZSTD), setup = whole_shard)]
#[bench::shard_none(args = (NONE), setup = whole_shard)]
fn read((mut subject, region): (Subject, Region)) -> Subject {
    let result = counted(|| subject.array.read_into(&region, &mut subject.buffer));
    result.expect("a region of the array");
    subject
}

fn to_write(codecs: &str) -> (Array, Vec<u8>) {
    (empty(codecs).expect("an array in memory"), elements())
}

#[library_benchmark]
#[bench::shard_zstd(args = (ZSTD), setup = to_write)]
#[bench::shard_none(args = (NONE), setup = to_write)]
fn write((array, elements): (Array, Vec<u8>)) -> (Array, Vec<u8>) {
    let all = ElementsRef::Fixed(&elements);
    let result = counted(|| array.write(&Region::all(), all, &WriteOptions::new()));
    result.expect("all of the array");
    (array, elements)
}

/// A chunk of 32^3 and a volume of 128^3 that it belongs into, elements of two bytes.
fn chunk_and_volume() -> (Vec<u8>, Vec<u8>, Placement, Placement) {
    let from = Placement::contiguous(&[32; 3], 2).expect("a small shape");
    let mut to = Placement::contiguous(&[SHARD; 3], 2).expect("a small shape");
    to.start = 2 * 64;
    (vec![1; 32 * 32 * 32 * 2], vec![0; (SHARD * SHARD * SHARD * 2) as usize], from, to)
}

#[library_benchmark]
#[bench::chunk_of_32(chunk_and_volume())]
fn scatter(
    (chunk, mut volume, from, to): (Vec<u8>, Vec<u8>, Placement, Placement),
) -> (Vec<u8>, Vec<u8>) {
    let result = counted(|| strided::copy(&[32; 3], 2, &chunk, &from, &mut volume, &to));
    result.expect("both have room");
    (chunk, volume)
}

library_benchmark_group!(name = hot_paths, benchmarks = [read, write, scatter]);
main!(
    config = LibraryBenchmarkConfig::default()
        .tool(Callgrind::with_args(["--instr-atstart=no"]).entry_point(EntryPoint::None)),
    library_benchmark_groups = hot_paths
);
