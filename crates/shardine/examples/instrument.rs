//! Stores planes as an instrument delivers them, and reads them while it is running.
//!
//! `cargo run -p shardine --example instrument -- FOLDER`

use std::error::Error;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use shardine::{Array, SliceOptions, SliceWriter};

const HEIGHT: usize = 256;
const WIDTH: usize = 256;

/// A camera that takes a picture every few milliseconds, and does not wait.
fn camera(pictures: u16) -> mpsc::Receiver<Vec<u16>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for number in 0..pictures {
            thread::sleep(Duration::from_millis(2));
            let picture = (0..HEIGHT * WIDTH).map(|i| number + (i % 16) as u16).collect();
            if sender.send(picture).is_err() {
                // The receiver is gone.
                break;
            }
        }
    });
    receiver
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder for the array")?;

    // It starts with no planes, and grows. Chunks that are 8 planes long are written once 8 planes
    // have arrived; until then the planes wait in memory.
    let array = Array::builder([0, HEIGHT as u64, WIDTH as u64], "uint16")
        .chunks([8, 64, 64])
        .shards([64, 256, 256])
        .codec("zstd:1")
        .dimension_names(["t", "y", "x"])
        .overwrite()
        .create(&folder)?;

    // Commit every 16 planes: that is when others see them. A program that is killed loses only
    // what came after the last commit.
    let mut writer = SliceWriter::new(array, 0, SliceOptions::new().commit_every(16))?;
    for picture in camera(100) {
        writer.push(&picture)?;
        if writer.position() == 50 {
            // What another process would see now: whole planes, up to the last commit.
            let seen = Array::open(&folder)?;
            assert_eq!(seen.shape()[0], 48);
            println!("{} planes so far, the last one begins with {:?}", seen.shape()[0], {
                seen.read::<u16>((-1, 0, ..4))?
            });
        }
    }
    // Commits what is left.
    let array = writer.finish()?;
    println!("{} planes", array.shape()[0]);
    assert_eq!(array.read::<u16>((.., 0, 0))?, (0..100).collect::<Vec<u16>>());
    Ok(())
}
