//! Instructions of the paths that matter, with everything warm. Run by `cargo xtask bench
//! --instructions`.

use std::hint::black_box;

use gungraun::{
    Callgrind, EntryPoint, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use shardine::Placement;
use shardine_bench_instructions::callgrind::{self, Request};
use shardine_bench_instructions::{CHUNK, ELEMENT, Options, SHARD, Scene, WarmRead, settle};
use shardine_codec::strided;

const NONE: &str = "";
const ZSTD: &str = r#", {"name": "zstd", "configuration": {"level": 3, "checksum": false}}"#;
const BLOSC_LZ4: &str = r#", {"name": "blosc", "configuration":
    {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}}"#;

/// Counts the instructions of some work in all threads, the engine's own too.
fn counted<T>(work: impl FnOnce() -> T) -> T {
    settle();
    callgrind::request(Request::Start);
    let result = black_box(work());
    callgrind::request(Request::Stop);
    result
}

fn read_of(options: Options, start: [u64; 3], shape: [u64; 3]) -> WarmRead {
    WarmRead::new(options, start, shape, false).expect("an array in a folder")
}

fn chunk(codecs: &'static str) -> WarmRead {
    read_of(Options::new(codecs), [CHUNK; 3], [CHUNK; 3])
}

fn chunk_and_index(codecs: &'static str) -> WarmRead {
    read_of(Options { cached: false, ..Options::new(codecs) }, [CHUNK; 3], [CHUNK; 3])
}

fn chunk_and_large_index(codecs: &'static str) -> WarmRead {
    read_of(Options { codecs, chunk: 4, cached: false }, [CHUNK; 3], [4; 3])
}

fn block_in_chunk(codecs: &'static str) -> WarmRead {
    read_of(Options::new(codecs), [CHUNK + 3; 3], [4; 3])
}

fn unaligned_box(codecs: &'static str) -> WarmRead {
    read_of(Options::new(codecs), [13, 14, 15], [100; 3])
}

fn plane(codecs: &'static str) -> WarmRead {
    read_of(Options::new(codecs), [50, 0, 0], [1, SHARD, SHARD])
}

fn shard(codecs: &'static str) -> WarmRead {
    read_of(Options::new(codecs), [0; 3], [SHARD; 3])
}

fn fortran(codecs: &'static str) -> WarmRead {
    WarmRead::new(Options::new(codecs), [0; 3], [SHARD; 3], true).expect("an array in a folder")
}

#[library_benchmark]
#[bench::chunk_zstd(args = (ZSTD), setup = chunk)]
#[bench::chunk_none(args = (NONE), setup = chunk)]
#[bench::chunk_and_index_none(args = (NONE), setup = chunk_and_index)]
#[bench::chunk_and_index_of_32768(args = (NONE), setup = chunk_and_large_index)]
#[bench::block_of_4_zstd(args = (ZSTD), setup = block_in_chunk)]
#[bench::block_of_4_none(args = (NONE), setup = block_in_chunk)]
#[bench::box_of_100_none(args = (NONE), setup = unaligned_box)]
#[bench::plane_zstd(args = (ZSTD), setup = plane)]
#[bench::plane_none(args = (NONE), setup = plane)]
#[bench::shard_zstd(args = (ZSTD), setup = shard)]
#[bench::shard_none(args = (NONE), setup = shard)]
#[bench::shard_blosc_lz4(args = (BLOSC_LZ4), setup = shard)]
#[bench::shard_none_fortran(args = (NONE), setup = fortran)]
fn read(mut read: WarmRead) -> WarmRead {
    counted(|| read.run());
    read
}

fn scene(codecs: &'static str) -> Scene {
    let scene = Scene::new(Options::new(codecs)).expect("an array in a folder");
    scene.update();
    scene
}

#[library_benchmark]
#[bench::shard_zstd(args = (ZSTD), setup = scene)]
#[bench::shard_none(args = (NONE), setup = scene)]
fn write(scene: Scene) -> Scene {
    counted(|| scene.write());
    scene
}

#[library_benchmark]
#[bench::chunk_zstd(args = (ZSTD), setup = scene)]
#[bench::chunk_none(args = (NONE), setup = scene)]
fn update(scene: Scene) -> Scene {
    counted(|| scene.update());
    scene
}

/// A box to be copied into another.
struct Copy {
    shape: [usize; 3],
    source: Vec<u8>,
    from: Placement,
    target: Vec<u8>,
    to: Placement,
}

/// A chunk, and a shard's volume that it belongs into: whole rows that lie apart.
fn rows() -> Copy {
    let mut to = Placement::contiguous(&[SHARD; 3], ELEMENT).expect("a small shape");
    to.start = CHUNK as usize * ELEMENT;
    Copy { to, target: vec![0; (SHARD * SHARD * SHARD) as usize * ELEMENT], ..transpose() }
}

/// A chunk whose axes are turned around.
fn transpose() -> Copy {
    let len = (CHUNK * CHUNK * CHUNK) as usize * ELEMENT;
    Copy {
        shape: [CHUNK as usize; 3],
        source: vec![1; len],
        from: Placement::contiguous(&[CHUNK; 3], ELEMENT).expect("a small shape"),
        target: vec![0; len],
        to: Placement::fortran(&[CHUNK; 3], ELEMENT).expect("a small shape"),
    }
}

#[library_benchmark]
#[bench::rows(rows())]
#[bench::transpose(transpose())]
fn copy(mut copy: Copy) -> Copy {
    let Copy { shape, source, from, target, to } = &mut copy;
    let mut run = || strided::copy(shape, ELEMENT, source, from, target, to);
    run().expect("both have room");
    counted(run).expect("both have room");
    copy
}

library_benchmark_group!(name = hot_paths, benchmarks = [read, write, update, copy]);
main!(
    config = LibraryBenchmarkConfig::default().tool(
        Callgrind::with_args(["--instr-atstart=no", "--cache-sim=no"])
            .entry_point(EntryPoint::None)
    ),
    library_benchmark_groups = hot_paths
);
