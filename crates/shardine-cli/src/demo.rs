//! `shardine demo`: the whole tour on a small volume.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::{Map, Value, json};
use shardine::jobs::{RepackOptions, RepackedArray, VerifyOptions};
use shardine::store::{CountingStore, FileStore};
use shardine::zarr::CreateOptions;
use shardine::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding, NewArray, codec_specs_to_json};
use shardine::{
    Array, ArrayNode, DataType, Elements, ElementsRef, Engine, GeneratorSource, Location, Packing,
    Region, Strategy, WriteOptions, WriteReport, codec_words,
};

use crate::cli::Machine;
use crate::failure::{Failure, quoted};
use crate::{info, units, write};

/// Create, update, reshard and verify a small sharded array, and show what each step costs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Demo {
    /// Folder to create the array in
    #[arg(default_value = "shardine-demo")]
    folder: PathBuf,
    /// Print only what each step cost, as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  shardine demo
  shardine demo somewhere/else
  shardine demo --json | jq .update";

const SHAPE: [u64; 3] = [256, 256, 256];
const SHARD: [u64; 3] = [128, 128, 128];
const CHUNK: [u64; 3] = [32, 32, 32];

/// Bytes of an element.
const ELEMENT: usize = 2;

/// The attribute by which a later run recognizes a folder that it may replace.
const MARK: &str = "made_by";
const MARK_VALUE: &str = "shardine demo";

/// The region that the demo reads first.
const PLANE: &str = "128";

/// The region that the demo updates: it straddles the shards.
const UPDATED: &str = "120:136,120:136,120:136";
const UPDATED_START: [u64; 3] = [120; 3];
const UPDATED_SHAPE: [u64; 3] = [16; 3];

/// What the update writes to its whole region; brighter than any voxel.
const UPDATED_VALUE: u16 = 40_000;

/// Where the demo prints its story, and how it counts what each step costs.
struct Stage {
    /// Whether it prints a story, or only numbers at the end.
    tells: bool,
    store: CountingStore<FileStore>,
}

pub fn run(args: &Demo, machine: &Machine) -> Result<(), Failure> {
    let engine = machine.engine()?;
    let replace = may_replace(&engine, &args.folder)?;
    let store = CountingStore::new(FileStore::new(&args.folder));
    let stage = Stage { tells: !args.json, store };
    let name = args.folder.display().to_string();
    let location = Location::root(Arc::new(stage.store.clone()));
    let (array, write) = stage.create(&engine, &location, &name, replace)?;
    let described = stage.describe(&array, &name)?;
    let plane = stage.read_plane(&array)?;
    let update = stage.update(&array)?;
    let packed = stage.reshard(&engine, &args.folder)?;
    let read = stage.check(&engine, &location)?;
    let verified = stage.verify(&engine, &location)?;
    if args.json {
        // In the order of the steps.
        let report = json!({
            "folder": name,
            "write": write,
            "array": described,
            "plane": plane,
            "update": update,
            "reshard": packed,
            "read": read,
            "verify": verified,
        });
        writeln!(io::stdout(), "{report:#}")?;
        return Ok(());
    }
    stage.farewell(&name)
}

/// Whether there is an array from an earlier run to replace. Anything else is not touched.
fn may_replace(engine: &Arc<Engine>, folder: &Path) -> Result<bool, Failure> {
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Failure::file(folder, &error)),
    };
    if entries.next().is_none() {
        return Ok(false);
    }
    let array = ArrayNode::open(engine, &Location::parse(&folder.display().to_string())?);
    let ours = array.is_ok_and(|array| {
        array.metadata().attributes().get(MARK).and_then(Value::as_str) == Some(MARK_VALUE)
    });
    if ours {
        return Ok(true);
    }
    Err(Failure::new(format!(
        "{}: is not empty, and was not created by an earlier demo",
        folder.display()
    ))
    .hint("choose another folder: shardine demo DIR"))
}

fn metadata() -> Result<ArrayMetadata, Failure> {
    let data_type = DataType::parse_name("uint16").map_err(Failure::new)?;
    let words = [codec_words::DEFAULT.to_owned()];
    let codecs = codec_words::chain(&words, &data_type).map_err(Failure::new)?;
    let codecs = codec_specs_to_json(&codecs);
    let mut attributes = Map::new();
    attributes.insert(MARK.to_owned(), json!(MARK_VALUE));
    let axes = ["z", "y", "x"].map(|name| Some(name.to_owned()));
    ArrayMetadata::new(NewArray {
        shape: SHAPE.to_vec(),
        chunk_shape: SHARD.to_vec(),
        data_type,
        fill: None,
        // At the start, so that an update need not rewrite a shard.
        codecs: vec![codec_words::sharding(&CHUNK, &codecs, None, "start")],
        key_encoding: ChunkKeyEncoding::default(),
        dimension_names: Some(axes.to_vec()),
        attributes,
    })
    .map_err(Failure::new)
}

/// A bright ball in the dark, with camera noise: the same on every run and in any order.
fn voxel(z: u64, y: u64, x: u64) -> u16 {
    let from_centre = |i: u64| i.abs_diff(SHAPE[0] / 2);
    let squared = [z, y, x].map(|i| from_centre(i).pow(2)).iter().sum::<u64>();
    let radius = SHAPE[0] * 3 / 8;
    if squared > radius.pow(2) {
        return 0;
    }
    let light = 200 + (radius.pow(2) - squared) / 16;
    // A hash of the position: a few bits of it are noise.
    let mixed = ((z << 16) ^ (y << 8) ^ x).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (light + (mixed >> 60)) as u16
}

fn fill_box(start: &[u64], shape: &[u64], out: &mut [u8]) {
    let elements = out.chunks_exact_mut(ELEMENT).enumerate();
    for (i, element) in elements {
        let i = i as u64;
        let (z, y, x) = (i / shape[2] / shape[1], i / shape[2] % shape[1], i % shape[2]);
        let value = voxel(start[0] + z, start[1] + y, start[2] + x);
        element.copy_from_slice(&value.to_le_bytes());
    }
}

impl Stage {
    fn head(&self, title: &str) -> io::Result<()> {
        self.line(format_args!("\n{title}"))
    }

    fn say(&self, text: impl std::fmt::Display) -> io::Result<()> {
        self.line(format_args!("  {text}"))
    }

    fn line(&self, text: std::fmt::Arguments<'_>) -> io::Result<()> {
        if self.tells { writeln!(io::stdout(), "{text}") } else { Ok(()) }
    }

    fn create(
        &self,
        engine: &Arc<Engine>,
        location: &Location,
        name: &str,
        replace: bool,
    ) -> Result<(ArrayNode, Value), Failure> {
        self.line(format_args!(
            "Shardine packs many chunks into one object, a shard, and finds them through its index."
        ))?;
        self.head(&format!("1. Write a volume of {} uint16 to {name}", units::shape(&SHAPE)))?;
        let start = Instant::now();
        let options = CreateOptions::new().overwrite(replace);
        let array = ArrayNode::create_with(engine, location, metadata()?, &options)?;
        let source = GeneratorSource::new(ELEMENT, |start, shape, out: &mut [u8]| {
            fill_box(start, shape, out);
            Ok(())
        });
        let report = array.write_from(Region::all(), &source, &WriteOptions::new())?;
        let seconds = start.elapsed().as_secs_f64();
        let chunks = report.chunks_encoded + report.chunks_empty;
        self.say(format!(
            "{} in {}: {} stored, {} all zero and not stored",
            units::count(chunks, "chunk"),
            units::count(report.objects_written, "object"),
            units::count(report.chunks_encoded, "chunk"),
            report.chunks_empty
        ))?;
        self.say(wrote(&report, seconds))?;
        Ok((array, Value::Object(write::describe(&report, seconds))))
    }

    fn describe(&self, array: &ArrayNode, name: &str) -> Result<Value, Failure> {
        self.head("2. Describe it: info")?;
        let stored = info::Stored::scan(array)?;
        let mut text = Vec::new();
        info::write_array(&mut text, name, array, Some(&stored))?;
        for line in String::from_utf8_lossy(&text).lines() {
            self.say(line)?;
        }
        Ok(info::describe(array, Some(&stored)))
    }

    fn read_plane(&self, array: &Array) -> Result<Value, Failure> {
        self.head(&format!("3. Read the middle plane: read --region {PLANE}"))?;
        self.store.reset();
        let start = Instant::now();
        let plane = array.read_elements(PLANE)?;
        let seconds = start.elapsed().as_secs_f64();
        let report = self.describe_reads(PLANE, seconds);
        self.say(format!("{:.1} ms, {}", seconds * 1e3, self.reads()))?;
        if let Elements::Fixed(bytes) = plane {
            self.draw(&bytes)?;
        }
        Ok(report)
    }

    /// The plane, small and in few grey levels.
    fn draw(&self, plane: &[u8]) -> io::Result<()> {
        const GREYS: &[u8] = b" .:-=+*#%@";
        const ROWS: usize = 12;
        const COLUMNS: usize = 28;
        let (height, width) = (SHAPE[1] as usize, SHAPE[2] as usize);
        let value = |y: usize, x: usize| {
            let at = (y * width + x) * ELEMENT;
            plane.get(at..at + ELEMENT).map_or(0, |v| usize::from(u16::from_le_bytes([v[0], v[1]])))
        };
        let brightest = (0..height * width).map(|i| value(i / width, i % width)).max().unwrap_or(0);
        for row in 0..ROWS {
            let y = (2 * row + 1) * height / (2 * ROWS);
            let line: String = (0..COLUMNS)
                .map(|column| {
                    let x = (2 * column + 1) * width / (2 * COLUMNS);
                    let grey = value(y, x) * (GREYS.len() - 1) / brightest.max(1);
                    char::from(GREYS[grey.min(GREYS.len() - 1)])
                })
                .collect();
            if !line.trim().is_empty() {
                self.say(format!("    {}", line.trim_end()))?;
            }
        }
        Ok(())
    }

    fn update(&self, array: &Array) -> Result<Value, Failure> {
        self.head(&format!(
            "4. Update a region where all shards meet: write --region {UPDATED} --strategy in-place"
        ))?;
        self.store.reset();
        let count = units::elements(&UPDATED_SHAPE) as usize;
        let bytes: Vec<u8> =
            std::iter::repeat_n(UPDATED_VALUE.to_le_bytes(), count).flatten().collect();
        let region = Region::of_box(&UPDATED_START, &UPDATED_SHAPE);
        let start = Instant::now();
        let options = WriteOptions::new().strategy(Strategy::InPlace);
        let report = array.write_elements(&region, ElementsRef::Fixed(&bytes), &options)?;
        let seconds = start.elapsed().as_secs_f64();
        self.say(format!(
            "{} re-encoded and appended to their shards, {} moved",
            units::count(report.chunks_encoded, "chunk"),
            report.chunks_kept
        ))?;
        self.say(wrote(&report, seconds))?;
        self.say("then each index was switched: readers see either the old shard or the new one,")?;
        self.say("even if the writer is killed")?;
        let mut members = Map::new();
        members.insert("region".to_owned(), json!(UPDATED));
        members.extend(write::describe(&report, seconds));
        Ok(Value::Object(members))
    }

    /// Repacks the chunks into other shards, in place.
    fn reshard(&self, engine: &Arc<Engine>, folder: &Path) -> Result<Value, Failure> {
        self.head("5. Repack the same chunks into larger shards: reshard --chunks-per-shard 8")?;
        let files = Location::root(Arc::new(FileStore::new(folder)));
        let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![8]));
        let mut done = RepackedArray::default();
        let start = Instant::now();
        shardine::jobs::repack(engine, &files, None, &options, &mut |array| done = array)?;
        let seconds = start.elapsed().as_secs_f64();
        self.say(format!(
            "{} moved into {} without decoding, and compared with the old ones",
            units::count(done.chunks_moved, "chunk"),
            units::count(done.objects_written, "shard"),
        ))?;
        self.say(format!(
            "{}, {} written; then the new array replaced the old one in one step",
            units::duration(seconds),
            units::size(done.bytes_written)
        ))?;
        Ok(json!({
            "chunks_moved": done.chunks_moved,
            "objects_written": done.objects_written,
            "bytes_written": done.bytes_written,
            "seconds": seconds,
        }))
    }

    /// Reopens the array and compares every voxel.
    fn check(&self, engine: &Arc<Engine>, location: &Location) -> Result<Value, Failure> {
        self.head("6. Read everything back, and compare it voxel by voxel")?;
        let array = ArrayNode::open(engine, location)?;
        self.store.reset();
        let start = Instant::now();
        let elements = array.read_elements(Region::all())?;
        let seconds = start.elapsed().as_secs_f64();
        let bytes = elements.into_fixed().unwrap_or_default();
        let mut expected = vec![0; bytes.len()];
        fill_box(&[0; 3], &SHAPE, &mut expected);
        let inside =
            |i: u64, k: usize| (UPDATED_START[k]..UPDATED_START[k] + UPDATED_SHAPE[k]).contains(&i);
        for (i, element) in expected.chunks_exact_mut(ELEMENT).enumerate() {
            let i = i as u64;
            let place = [i / SHAPE[2] / SHAPE[1], i / SHAPE[2] % SHAPE[1], i % SHAPE[2]];
            if place.iter().enumerate().all(|(k, &i)| inside(i, k)) {
                element.copy_from_slice(&UPDATED_VALUE.to_le_bytes());
            }
        }
        if bytes != expected {
            let different = bytes.iter().zip(&expected).filter(|(a, b)| a != b).count();
            return Err(Failure::new(format!("{different} bytes differ from what was written")));
        }
        let speed = bytes.len() as f64 / seconds / f64::from(1 << 20);
        let size = units::size(bytes.len() as u64);
        self.say(format!(
            "{:.0} ms for {size}, {speed:.0} MiB/s, {}",
            seconds * 1e3,
            self.reads()
        ))?;
        self.say("every voxel matches what was written")?;
        Ok(self.describe_reads("", seconds))
    }

    fn verify(&self, engine: &Arc<Engine>, location: &Location) -> Result<Value, Failure> {
        self.head("7. Check every chunk: verify --decode")?;
        let start = Instant::now();
        let options = VerifyOptions::new().decode(true);
        let summary = shardine::jobs::verify(engine, location, &options, &mut |_| {})?;
        let seconds = start.elapsed().as_secs_f64();
        if !summary.is_ok() {
            let damage = units::count(summary.damage, "finding");
            return Err(Failure::new(format!("{damage} of damage in the array just written")));
        }
        self.say(format!(
            "{:.0} ms: {} and {} checked, no damage",
            seconds * 1e3,
            units::count(summary.objects, "shard"),
            units::count(summary.chunks_decoded, "chunk")
        ))?;
        Ok(json!({
            "objects": summary.objects,
            "chunks_decoded": summary.chunks_decoded,
            "damage": summary.damage,
            "gap_bytes": summary.gap_bytes,
            "seconds": seconds,
        }))
    }

    /// The store's calls since the last reset.
    fn reads(&self) -> String {
        let counts = self.store.counts();
        format!("{} of {}", units::count(counts.reads, "read"), units::size(counts.bytes_read))
    }

    /// The same in JSON, for a region that was read.
    fn describe_reads(&self, region: &str, seconds: f64) -> Value {
        let counts = self.store.counts();
        json!({
            "region": region,
            "reads": counts.reads,
            "bytes_read": counts.bytes_read,
            "seconds": seconds,
        })
    }

    fn farewell(&self, name: &str) -> Result<(), Failure> {
        self.head("What to try next")?;
        let quoted = quoted(name);
        for command in [
            format!("shardine info {quoted}"),
            format!("shardine ls {quoted} --shards"),
            format!("shardine read {quoted} --region 128,128,120:128"),
            format!("shardine read {quoted} --region 64:192,:,128 -o slice.npy"),
            format!("shardine write {quoted} --region 64:192,:,128 slice.npy --json"),
            format!("shardine verify {quoted}"),
            format!("shardine plan {quoted}"),
            format!("shardine unshard {quoted}"),
        ] {
            self.say(command)?;
        }
        self.say("python -c \"import zarr; print(zarr.open('".to_owned() + name + "').info)\"")?;
        Ok(())
    }
}

fn wrote(report: &WriteReport, seconds: f64) -> String {
    format!("{:.0} ms, {} written", seconds * 1e3, units::size(report.bytes_written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_updated_region_is_what_it_says() {
        assert_eq!(Region::of_box(&UPDATED_START, &UPDATED_SHAPE).to_string(), UPDATED);
    }
}
