//! One job in one process: load the libraries, then time, then take a checksum.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::block::Block;
use crate::floor::Floor;
use crate::job::{Action, Job, Measured};
use crate::measure::{Clock, peak, reset_peak};
use crate::plan::CHUNK;
use crate::shardine;

/// Runs the job in a file and prints what was measured as a line of JSON.
pub fn main(job: &Path) -> Result {
    let job: Job = serde_json::from_slice(&fs::read(job)?)?;
    let measured = match job.subject.as_str() {
        "floor" => floor(&job)?,
        "shardine" => engine(&job)?,
        other => return Err(format!("{other} does not run in this worker").into()),
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

fn floor(job: &Job) -> Result<Measured> {
    let before = start(job)?;
    let clock = Clock::start();
    let floor = Floor::new(job)?;
    let pieces = floor.fetch(&job.objects)?;
    let output = pieces.iter().map(|piece| piece.as_ref().len() as u64).sum();
    let measured = stop(clock, "floor", before, output)?;
    if output != job.objects.iter().map(|&(_, length)| length).sum::<u64>() {
        return Err("the floor got another number of bytes".into());
    }
    Ok(measured)
}

fn engine(job: &Job) -> Result<Measured> {
    let warm_up = Block::whole([CHUNK; 3]);
    drop(shardine::read(&shardine::open(job, &job.warm_up)?, &warm_up)?);
    if job.action == Action::Write {
        let volume = fs::read(&job.volume)?;
        let before = start(job)?;
        let clock = Clock::start();
        let array = shardine::create(job)?;
        shardine::write(&array, &Block::whole(job.shape), &volume)?;
        return stop(clock, "shardine", before, 0);
    }
    let before = start(job)?;
    let clock = Clock::start();
    let array = shardine::open(job, &job.array)?;
    let results = match job.action {
        Action::ReadMany => shardine::read_many(&array, &job.blocks)?,
        _ => job.blocks.iter().map(|block| shardine::read(&array, block)).collect::<Result<_>>()?,
    };
    let output = results.iter().map(|result| result.len() as u64).sum();
    let measured = stop(clock, "shardine", before, output)?;
    let mut crc = crc32fast::Hasher::new();
    results.iter().for_each(|result| crc.update(result));
    Ok(Measured { crc: Some(crc.finalize()), ..measured })
}

/// Lets the proxy forget what it has counted, and begins a new peak of memory.
fn start(job: &Job) -> Result<u64> {
    shardine_testbed::request(job.server.parse()?, "GET", "/__proxy/reset", &[], b"")?;
    reset_peak()
}

fn stop(clock: Clock, version: &str, resident: u64, output: u64) -> Result<Measured> {
    let (wall, user, system) = clock.stop();
    let version = version.to_owned();
    Ok(Measured { version, wall, user, system, resident, peak: peak()?, output, crc: None })
}
