//! Packs the chunks of an array into shards, with progress and cancellation, and checks the result.
//!
//! `cargo run -p shardine --example reshard -- FOLDER`

use std::error::Error;
use std::path::PathBuf;

use shardine::jobs::{CancelToken, JobContext, RepackOptions, VerifyOptions, repack, verify};
use shardine::{Array, Engine, Location, Packing};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder for the arrays")?;
    let folder = PathBuf::from(folder);

    // An array with a file for each of its chunks, which are far too many.
    let array = Array::builder([256, 256], "uint8")
        .chunks([16, 16])
        .unsharded()
        .overwrite()
        .create(folder.join("small_files.zarr"))?;
    let elements: Vec<u8> = (0..256 * 256).map(|i| (i % 251) as u8 + 1).collect();
    array.write(.., &elements)?;

    // The context of a job: an engine, a progress callback, and a token that cancels it. Pass a
    // clone of the token to whatever may cancel the job, such as a Ctrl-C handler.
    let stop = CancelToken::new();
    let context = JobContext::new(&Engine::shared()?)
        .progress(|now| eprintln!("{} of {} chunks", now.done, now.total))
        .cancel(&stop);

    // Chunks are moved unchanged, not re-encoded. Make the same call again to resume a job that was
    // stopped or killed.
    let source = array.location();
    let target = Location::parse(folder.join("sharded.zarr").to_str().ok_or("not UTF-8")?)?;
    let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![8])).overwrite(true);
    repack(&context, source, Some(&target), &options, &mut |done| {
        println!("{} chunks moved into {} shards", done.chunks_moved, done.objects_written);
    })?;

    let summary = verify(&context, &target, &VerifyOptions::new().decode(true), &mut |finding| {
        println!("{}: {}", finding.kind, finding.message);
    })?;
    assert!(summary.is_ok());
    let sharded = Array::open(&target)?;
    assert_eq!(sharded.shard_shape(), Some(&[128, 128][..]));
    assert_eq!(sharded.read::<u8>(..)?, elements);
    Ok(())
}
