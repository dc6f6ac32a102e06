//! Creates an array, writes a part of it and reads it back.
//!
//! `cargo run -p shardine --example make -- FOLDER`

use std::error::Error;

use shardine::Array;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder for the array")?;

    // Everything here has a default: leave it all out for a start.
    let array = Array::builder([64, 512, 512], "uint16")
        // The unit that is read and decoded.
        .chunks([16, 64, 64])
        // Many chunks in one file.
        .shards([64, 256, 256])
        .codec("zstd:3")
        .fill(7)
        .dimension_names(["z", "y", "x"])
        .attribute("microscope", "the left one")
        .overwrite()
        .create(&folder)?;

    // One plane, row by row: axes that are left out are whole.
    let plane: Vec<u16> = (0..512 * 512).map(|i| (i % 1000) as u16).collect();
    let report = array.write(10, &plane)?;
    println!("{} chunks in {} files", report.chunks_encoded, report.objects_written);

    // Any other program opens it by its path or URL. The type must be the array's: nothing is
    // converted, and a wrong type is an error.
    let array = Array::open(&folder)?;
    println!("{:?} elements of {}", array.shape(), array.data_type().name());
    let column: Vec<u16> = array.read((9..12, 5, 100))?;
    // Elements that were never written have the fill value.
    assert_eq!(column, [7, plane[5 * 512 + 100], 7]);

    // Existing memory can be reused.
    let mut row = vec![0u16; 512];
    for y in [0, 100, 200] {
        array.read_into((10, y, ..), &mut row)?;
        assert_eq!(row, plane[y * 512..][..512]);
    }
    Ok(())
}
