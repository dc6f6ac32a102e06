//! Writes and reads an array in an object store: S3, or a server with a compatible API.
//!
//! `cargo run -p shardine --example s3 -- s3://BUCKET/NAME`
//!
//! Credentials, region and endpoint come from the usual environment variables, such as
//! `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION` and `AWS_ENDPOINT`. `gs://` and
//! `az://` work the same way, with the variables of their tools.

use std::error::Error;

use shardine::{Array, Engine, EngineOptions, Location, StoreOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let url =
        std::env::args().nth(1).ok_or("name a URL for the array, such as s3://bucket/name")?;

    // Shards make few large objects: here 4, each uploaded while it is encoded.
    let array = Array::builder([128, 256, 256], "uint16")
        .chunks([32, 32, 32])
        .shards([128, 128, 128])
        .overwrite()
        .create(&url)?;
    let elements: Vec<u16> = (0..128 * 256 * 256).map(|i| (i % 4099) as u16).collect();
    let report = array.write(.., &elements)?;
    println!("{} objects, {} bytes", report.objects_written, report.bytes_written);

    // Options take precedence over the environment. The engine is shared unless you bring your own,
    // with as many threads and as much memory as you like.
    let options = StoreOptions::new().with("requests", "16");
    let place = Location::with_options(&url, &options)?;
    let engine = Engine::new(&EngineOptions::new().threads(2).memory(32 << 20))?;
    let array = Array::open_in(&engine, &place)?;

    // A small part costs two requests: one for the index of its shard, and one for the chunks.
    let part: Vec<u16> = array.read((5, 7, 100..104))?;
    assert_eq!(part, elements[(5 * 256 + 7) * 256 + 100..][..4]);

    // Many parts in one call are requested in parallel.
    let points = [(0, 0, 0), (0, 255, 255), (127, 0, 255)];
    let found = array.read_many::<u16>(points)?;
    for ((z, y, x), found) in points.into_iter().zip(found) {
        assert_eq!(found, [elements[(z * 256 + y) * 256 + x]]);
    }
    Ok(())
}
