//! Times the engine beside other Zarr implementations on an S3 server that is far away; `cargo
//! xtask bench --remote` prepares and runs it.
//!
//! `drive` starts the server, makes the data, starts one worker process per run and reports;
//! `worker JOB` is one such process; `report RUNS OUT` makes the report of an earlier run again.

mod block;
mod drive;
mod floor;
mod job;
#[path = "../../bench/src/measure.rs"]
mod measure;
mod plan;
#[path = "../../bench/src/random.rs"]
mod random;
mod record;
mod report;
mod shardine;
#[path = "../../bench/src/volume.rs"]
#[allow(dead_code, reason = "only the image is needed here")]
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
        ["report", runs, out] => {
            record::Record::load(Path::new(runs)).and_then(|r| report::write(&r, Path::new(out)))
        }
        _ => Err(
            "usage: drive OPTIONS | worker JOB | report RUNS OUT; see cargo xtask bench --remote"
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
