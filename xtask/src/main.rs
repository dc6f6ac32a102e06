//! The project's chores, run as `cargo xtask <command>`.
//!
//! `test` is what a change must pass. `differential`, `torture` and `fuzz` are the same kinds of
//! checks with as much time as you like.

mod bench;
mod bench_ome;
mod bench_precomputed;
mod bench_pyramid;
mod bench_python;
mod bench_remote;
mod bench_repack;
mod bench_vectors;
mod debian;
mod differential;
mod docs;
mod fuzz;
mod geometry_files;
mod hygiene;
mod instructions;
mod ome_peers;
mod planted_damage;
mod precomputed_peers;
mod python;
mod repack_peers;
mod servers;
mod shell;
mod test;
mod torture;
mod vectors_peers;
mod venv;
mod wheel;
mod wkw_peers;

use std::process::ExitCode;

use shell::Failure;

const USAGE: &str = "\
cargo xtask <command>

  test [--list] [--only STEP]...
      Everything a change must pass: format, lints, tests, the comparison with
      other Zarr implementations. --list tells the steps and what each takes;
      --only runs the named steps alone.

  docs [--accept]
      Documents the workspace, which must not warn, and compares the public surface of the library
      with docs/public-api.txt. --accept stores it there.

  differential [--cases N] [--seed S] [--jobs N]
      A long run of the comparison (500 cases unless told otherwise).

  differential --precomputed [--cases N] [--seed S]
      The same with precomputed volumes, TensorStore and cloud-volume (240 cases).

  ome-suites --from FOLDER
      Judges OME-Zarr documents as the step of that name does, with the suites of a clone of the
      repository ome/ngff-spec, which also has those of version 0.6.

  vectors-peers [--cases N] [--seed S] [--only PART,KIND,...] [--case N] [--jobs N] [--keep] [--list]
      A long run of the comparison with zarr-vectors: N cases of each part (14 to 42). --only takes
      the names of parts and of kinds of geometry; --list tells them.

  torture [--minutes N] [--seed S] [--mix]
      Kills writers at every step and at random times, lets others race for one shard,
      and checks what is left, for N minutes (10).

  fuzz [--seconds N] [--target NAME]... [--asan] [--list] [--seed-corpus]
      Each fuzz target for N seconds (120). Installs cargo-fuzz under the target
      folder if it is not there. --asan adds the address sanitizer;
      --seed-corpus only writes the starting inputs.

  install
      Installs everything that the tests need beside crates: the Python environments of other
      implementations, the servers below, packages of npm. `test` does the same as it goes.

  servers
      Installs what the tests of remote stores run against (SeaweedFS, Azurite and nginx),
      below .servers and as packages of the system. Nothing to do if they are there.

  wheel [--profile NAME] [--target TRIPLE]
      Builds a wheel of the Python package for any Linux with glibc 2.17 (manylinux2014) and Python
      3.11 or later into target/wheels, with zig as the C compiler and linker.

  bench [--quick] [--only W2,W4] [--codec zstd,lz4,none,gzip,zstd64,zstdF,noneF,seg] [--repeats N]
        [--peers shardine,zarrs,...] [--min-seconds S] [--out FOLDER] [--syscalls]
      Times the engine beside other Zarr implementations and a floor that does the least
      work; report, plot and runs go to docs/bench, or those of a quick or partial run to
      target/bench/report. --syscalls counts system calls instead and adds them to the report.

  bench --remote [--quick] [--only R1,R2] [--repeats N] [--latency-ms N] [--peers shardine,...]
        [--out FOLDER]
      The same on an S3 server (SeaweedFS, which is installed if need be) behind a proxy that
      holds every answer back by 20 ms; what it measures is in docs/bench/remote.md.

  bench --repack [--rounds N] [--size small|full] [--only shard,v2,...] [--peers cp,shardine,...]
        [--out FOLDER]
      Times shard, unshard, reshard and v2 to sharded v3 of a volume of 1 GiB beside cp -r and other
      tools, and encoding anew beside a floor; what it measures is in docs/bench/repack.md.

  bench --ome [--rounds N] [--size small|full] [--out FOLDER]
      Times the conversion of an OME-Zarr 0.4 image of 1 GiB with labels to sharded 0.5 beside cp -r,
      ome2024-ngff-challenge and ngff-zarr; the report is docs/bench/ome-results.md.

  bench --precomputed [--quick] [--rounds N] [--only u8-raw,...] [--peers shardine,...] [--out FOLDER]
      Times writing, reading and random reads of precomputed volumes of 512^3 (--quick: 256^3) beside TensorStore,
      cloud-volume, wkw and a floor; the report is docs/bench/precomputed-results.md.

  bench --pyramid [--rounds N] [--slow-rounds N] [--size small|full] [--peers floor,shardine,...]
        [--out FOLDER]
      Times making all levels of an image of 1 GiB beside TensorStore, ome-zarr-py, ngff-zarr,
      igneous and a floor; what it measures is in docs/bench/pyramid.md.

  bench --vectors [--rounds N] [--only write,read,...] [--limit SECONDS] [--compared N] [--out FOLDER]
  bench --vectors --points N [--out FOLDER]
      Times writing, reading, boxes, shard, unshard and reshard of a million points in 21,339 chunks
      (or of N) beside zarr-vectors; with --points, Shardine alone on 1, 10, .. million points up to
      N, within --memory 512MiB. Each writes its half of docs/bench/vectors.md.

  bench --python [--quick] [--only W2,W5] [--codec zstd,...] [--repeats N] [--min-seconds S]
        [--out FOLDER]
      The same workloads from Python: the package beside TensorStore, zarr-python with and without
      zarrs, and the engine itself, in one run; the report is docs/bench/python.md.

  bench --instructions [--accept]
      Counts the instructions of hot paths under valgrind, and fails if one takes more than
      docs/bench/instructions.json says. --accept stores the new numbers there.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.split_first() {
        Some((command, rest)) => match command.as_str() {
            "test" => test::main(rest),
            "differential" => differential::main(rest),
            "bench" => bench::main(rest),
            "docs" => docs::main(rest),
            "wheel" => wheel::main(rest),
            "fuzz" => fuzz::main(rest),
            "torture" => torture::main(rest),
            "servers" => servers::main(rest),
            "install" => test::install(),
            "ome-suites" => ome_peers::main(rest),
            "vectors-peers" => vectors_peers::main(rest),
            "help" | "--help" | "-h" => {
                print!("{USAGE}");
                Ok(())
            }
            other => Err(usage(format!("there is no command \"{other}\""))),
        },
        None => Err(usage("which command?")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_told() {
                eprintln!("\nxtask: {failure}");
            }
            ExitCode::FAILURE
        }
    }
}

/// A mistake in the arguments, reported with the whole usage text.
fn usage(problem: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{problem}\n\n{USAGE}"))
}

/// The value of an option such as `--seed 7`, taken from the arguments after it.
fn value<T: std::str::FromStr>(
    option: &str,
    rest: &mut std::slice::Iter<'_, String>,
) -> Result<T, Failure> {
    let text = rest.next().ok_or_else(|| usage(format!("{option} needs a value")))?;
    text.parse().map_err(|_| usage(format!("{option}: \"{text}\" will not do")))
}
