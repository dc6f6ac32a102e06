//! Makes a Neuroglancer volume from a Zarr array, and reads it like any other array.
//!
//! `cargo run -p shardine --example precomputed -- FOLDER`

use std::error::Error;
use std::path::PathBuf;

use shardine::jobs::{ConvertOptions, VolumeForm, convert_to_volume};
use shardine::precomputed::Volume;
use shardine::{Array, Engine, Location, SetKind};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder for the array and the volume")?;
    let folder = PathBuf::from(folder);

    // The names of axes say which is which: a volume has x, y, z and channel.
    let cells = Array::builder([64, 128, 128], "uint64")
        .chunks([32, 64, 64])
        .dimension_names(["z", "y", "x"])
        .overwrite()
        .create(folder.join("cells.zarr"))?;
    cells.write((10..20, 30..60, 40..90), &vec![42u64; 10 * 30 * 50])?;

    // Point Neuroglancer at the folder, or at its copy in a bucket: precomputed://s3://...
    let target = Location::parse(folder.join("cells").to_str().ok_or("not UTF-8")?)?;
    let form = VolumeForm::new().resolution([8.0, 8.0, 40.0]);
    let options = ConvertOptions::new().overwrite(true);
    let engine = Engine::shared()?;
    convert_to_volume(&engine, cells.location(), &target, &form, &options, &mut |level| {
        println!("level {}: {:?} voxels of {:?}", level.level, level.shape, level.chunk_shape);
    })?;

    // Whatever the format, a data set is opened by its location.
    let set = shardine::open(&target)?;
    assert_eq!((set.format(), set.kind()), ("precomputed", SetKind::Levels));
    let finest = set.array(0)?;
    println!("{:?} with axes {:?}", finest.shape(), finest.axis_names());
    assert_eq!(finest.read::<u64>((39..42, 30, 10, 0))?, [0, 42, 42]);

    // What only volumes have is on the volume itself.
    let volume = set.downcast_ref::<Volume>().ok_or("no volume")?;
    println!("voxels of {:?} nm", volume.scale(0)?.resolution);
    Ok(())
}
