//! Changes parts of an existing array, from several threads.
//!
//! `cargo run -p shardine --example update -- FOLDER`

use std::error::Error;
use std::thread;

use shardine::{Array, Strategy, WriteOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder for the array")?;
    let array = Array::builder([256, 256], "uint32")
        .chunks([32, 32])
        .shards([256, 256])
        .overwrite()
        .create(&folder)?;
    array.write(.., &vec![1u32; 256 * 256])?;

    // Part of a shard: chunks outside the region are copied as bytes, and a reader sees the old
    // shard or the new one, never a mixture.
    let report = array.write((0..64, 0..64), &vec![2u32; 64 * 64])?;
    println!("{} chunks encoded, {} kept", report.chunks_encoded, report.chunks_kept);
    assert_eq!((report.chunks_encoded, report.chunks_kept), (4, 60));

    // The same, in place: new chunks go into the file, then its index is switched. For small
    // changes to large shards, in local files.
    let in_place = WriteOptions::new().strategy(Strategy::InPlace);
    let report = array.write_with((70, 70), &[3u32], &in_place)?;
    println!("{} bytes written", report.bytes_written);

    // Many regions in one call: each shard that they touch is changed once.
    let ones = [(0..1, &[4u32; 256][..]), (255..256, &[5; 256])];
    array.write_many(ones, &WriteOptions::new())?;

    // Writers of one shard wait for each other, in other processes too: no change is lost.
    thread::scope(|scope| {
        for column in 0..4u32 {
            let array = &array;
            scope.spawn(move || array.write((100..110, column), &[10 + column; 10]));
        }
    });
    assert_eq!(array.read::<u32>((105, ..4))?, [10, 11, 12, 13]);
    assert_eq!(array.read::<u32>((70, 69..72))?, [1, 3, 1]);
    assert_eq!(array.read::<u32>((.., 255))?[..2], [4, 1]);
    Ok(())
}
