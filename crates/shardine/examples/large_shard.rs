//! Writes one shard that is larger than memory, from a function, and prints how much memory that
//! took.
//!
//! `cargo run --release -p shardine --example large_shard -- FOLDER [GIBIBYTES]`

use std::error::Error;
use std::fs;
use std::time::Instant;

use shardine::{Array, GeneratorSource, WriteOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name the folder for the array")?;
    let gibibytes: u64 = arguments.next().as_deref().unwrap_or("8").parse()?;
    // Planes of 1024 x 1024 elements of two bytes: 512 of them are a gibibyte.
    let planes = gibibytes * 512;
    let array = Array::builder([planes, 1024, 1024], "uint16")
        .chunks([64, 64, 64])
        .shards([planes, 1024, 1024])
        .codec("zstd:1")
        .overwrite()
        .create(&folder)?;
    let source = GeneratorSource::new(2, |start, shape, out| {
        // Smooth along each axis, with four incompressible bits.
        let mut noise =
            (start[0] << 42 | start[1] << 21 | start[2]).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        for (i, element) in out.chunks_exact_mut(2).enumerate() {
            let i = i as u64;
            let (z, y, x) = (i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]);
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            let smooth = (start[0] + z) / 4 + (start[1] + y) / 8 + (start[2] + x) / 2;
            let value = (smooth << 4 | noise & 15) as u16;
            element.copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    });
    let start = Instant::now();
    let report = array.write_from(.., &source, &WriteOptions::new())?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{gibibytes} GiB in one shard of {} bytes, {seconds:.1} s", report.bytes_written);
    // Where this file does not exist, use the system's own tools.
    if let Ok(status) = fs::read_to_string("/proc/self/status") {
        status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
    }
    Ok(())
}
