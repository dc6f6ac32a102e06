//! Times the engine beside other Zarr implementations; `cargo xtask bench` prepares and runs it.
//!
//! `drive` makes the data, starts one worker process per run and reports; `worker JOB` is one such
//! process; `report RUNS OUT` makes the report of an earlier run again. `repack`, `precomputed`
//! and `pyramid` have the same and more for the options of `cargo xtask bench` of these names.

mod block;
mod chunks;
mod drive;
mod floor;
mod growing;
mod host;
mod job;
mod measure;
mod memory;
mod precomputed;
mod process;
mod pyramid;
mod random;
mod repack;
mod runs;
mod subject;
mod volume;
mod worker;

use std::path::Path;
use std::process::ExitCode;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["worker", job] => worker::main(Path::new(job)),
        ["drive", options @ ..] => drive::main(options),
        ["report", runs, out] => drive::report(Path::new(runs), Path::new(out)),
        ["repack", words @ ..] => repack::main(words),
        ["precomputed", words @ ..] => precomputed::main(words),
        ["pyramid", words @ ..] => pyramid::main(words),
        _ => Err(
            "usage: [repack|precomputed|pyramid] drive OPTIONS | worker JOB | report RUNS OUT; see cargo xtask bench"
                .into(),
        ),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
