//! `shardine demo`: the whole tour on a small image.

mod data;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::{Map, Value, json};
use shardine::jobs::{PyramidOptions, RepackOptions, RepackedArray, VerifyOptions, pyramid};
use shardine::physical::PhysicalBox;
use shardine::store::{Condition, CountingStore, FileStore, StoreExt};
use shardine::zarr::CreateOptions;
use shardine::zarr::metadata::GroupMetadata;
use shardine::{
    ArrayNode, DataSet, Elements, ElementsRef, Engine, GeneratorSource, Group, Location, Packing,
    Region, Strategy, WriteOptions, WriteReport, open_in,
};

use crate::cli::Machine;
use crate::failure::{Failure, quoted};
use crate::info::Stored;
use crate::ome::Look;
use crate::tree::Tree;
use crate::{units, write};
use data::{LABEL, LABELS, LEVELS, MARK, MARK_VALUE, SHAPE, fill_box, level_shape};

/// Create, read, update, reshard and verify a small OME-Zarr image, and show what each step costs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Demo {
    /// Folder to create the image in
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
  shardine demo --json | jq .update

The image is OME-Zarr 0.5, sharded: three levels, and a label image with as many.";

/// Bytes of an element.
const ELEMENT: usize = 2;

/// The level and the plane of it that the demo reads.
const LEVEL: usize = 1;
const PLANE: &str = "z=64";

/// The box that the demo reads.
const BOX: &str = "z=64um,y=30um:34um,x=24um:40um";

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
    let write = stage.create(&engine, &location, &name, replace)?;
    let image = open_in(&engine, &location)?;
    let described = stage.describe(&engine, &*image, &name)?;
    stage.list(&*image, &name)?;
    let plane = stage.read_plane(&*image)?;
    let boxed = stage.read_box(&*image)?;
    let update = stage.update(&engine, &location, &*image)?;
    let packed = stage.reshard(&engine, &args.folder)?;
    let read = stage.check(&engine, &location)?;
    let verified = stage.verify(&engine, &location)?;
    if args.json {
        // In the order of the steps.
        let report = json!({
            "folder": name,
            "write": write,
            "image": described,
            "plane": plane,
            "box": boxed,
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

/// Writes the metadata of a group, in place of any that is there.
fn put_group(location: &Location, attributes: Map<String, Value>) -> Result<(), Failure> {
    let document = GroupMetadata::new(attributes).to_bytes();
    let put = location.store.put(&location.key("zarr.json")?, &document, Condition::None);
    put.map_err(shardine::Error::from)?;
    Ok(())
}

/// Creates the finest level of an image and writes it.
fn create_finest(
    engine: &Arc<Engine>,
    location: &Location,
    voxel: fn([u64; 3]) -> u16,
    replace: bool,
) -> Result<WriteReport, Failure> {
    let options = CreateOptions::new().overwrite(replace);
    let finest = ArrayNode::create_with(engine, &location.join("0")?, data::array()?, &options)?;
    let source = GeneratorSource::new(ELEMENT, |start, shape, out: &mut [u8]| {
        fill_box(voxel, start, shape, out);
        Ok(())
    });
    Ok(finest.write_from(Region::all(), &source, &WriteOptions::new())?)
}

/// Makes the lower levels of an image, in place of any that are there.
fn make_levels(engine: &Arc<Engine>, image: &Location, replace: bool) -> Result<(), Failure> {
    let options = PyramidOptions::new().levels(LEVELS).factors(&[2; 3]).overwrite(replace);
    pyramid(engine, image, &options, &mut |_| ())?;
    Ok(())
}

/// Whether there is an image from an earlier run to replace. Anything else is not touched.
fn may_replace(engine: &Arc<Engine>, folder: &Path) -> Result<bool, Failure> {
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Failure::file(folder, &error)),
    };
    if entries.next().is_none() {
        return Ok(false);
    }
    let found = open_in(engine, &Location::parse(&folder.display().to_string())?);
    let ours = found.is_ok_and(|found| {
        let attributes = found.downcast_ref::<Group>().map(|group| group.metadata().attributes());
        let mark = attributes.and_then(|attributes| attributes.get(MARK));
        mark.and_then(Value::as_str) == Some(MARK_VALUE)
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

impl Stage {
    fn head(&self, title: &str) -> io::Result<()> {
        self.line(format_args!("\n{title}"))
    }

    fn say(&self, text: impl std::fmt::Display) -> io::Result<()> {
        self.line(format_args!("  {text}"))
    }

    fn say_lines(&self, text: &[u8]) -> io::Result<()> {
        String::from_utf8_lossy(text).lines().try_for_each(|line| self.say(line))
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
    ) -> Result<Value, Failure> {
        self.line(format_args!(
            "Shardine packs many chunks into one object, a shard, and finds them through its index."
        ))?;
        self.head(&format!(
            "1. Write an OME-Zarr image of {} uint16 to {name}",
            units::shape(&SHAPE)
        ))?;
        let start = Instant::now();
        // The old levels are named until the new ones take their places.
        let levels = if replace { LEVELS } else { 1 };
        put_group(location, data::image_attributes(levels)?)?;
        let report = create_finest(engine, location, data::voxel, replace)?;
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
        let labels = location.join(LABELS)?;
        put_group(&labels, data::labels_attributes()?)?;
        let label = location.join(LABEL)?;
        put_group(&label, data::label_attributes(levels)?)?;
        create_finest(engine, &label, data::label, replace)?;
        let files = Location::root(Arc::new(self.store.inner().clone()));
        for image in [&files, &files.join(LABEL)?] {
            make_levels(engine, image, replace)?;
        }
        let smaller: Vec<String> =
            (1..LEVELS).map(|level| units::shape(&level_shape(level))).collect();
        self.say(format!("then the lower levels, {}, and a label image", smaller.join(" and ")))?;
        Ok(Value::Object(write::describe(&report, seconds)))
    }

    fn describe(
        &self,
        engine: &Arc<Engine>,
        image: &dyn DataSet,
        name: &str,
    ) -> Result<Value, Failure> {
        self.head("2. Describe it: info")?;
        let group = image.downcast_ref::<Group>().ok_or_else(|| Failure::new("no group"))?;
        let scan = |array: &shardine::Array| Stored::scan(array).map(Some);
        let Look::Ome(info) = Look::at(engine, group, &scan, true)? else {
            return Err(Failure::new("the image just written is not understood"));
        };
        let mut text = Vec::new();
        info.write(&mut text, name, group)?;
        self.say_lines(&text)?;
        Ok(info.describe(group))
    }

    fn list(&self, image: &dyn DataSet, name: &str) -> Result<(), Failure> {
        self.head("3. List what is inside: ls -r")?;
        let mut text = Vec::new();
        Tree { recursive: true, all: false }.write(&mut text, name, image)?;
        Ok(self.say_lines(&text)?)
    }

    fn read_plane(&self, image: &dyn DataSet) -> Result<Value, Failure> {
        self.head(&format!(
            "4. Read the middle plane of a lower level: read --level {LEVEL} --region {PLANE}"
        ))?;
        let array = image.array(LEVEL)?;
        let region = image.region(LEVEL, &PLANE.parse().map_err(Failure::new)?, false)?;
        self.store.reset();
        let start = Instant::now();
        let plane = array.read_elements(&region)?;
        let seconds = start.elapsed().as_secs_f64();
        let report = self.describe_reads(PLANE, seconds);
        self.say(format!("{:.1} ms, {}", seconds * 1e3, self.reads()))?;
        if let Elements::Fixed(bytes) = plane {
            let shape = level_shape(LEVEL);
            self.draw(&bytes, shape[1] as usize, shape[2] as usize)?;
        }
        Ok(report)
    }

    /// Reads by physical coordinates.
    fn read_box(&self, image: &dyn DataSet) -> Result<Value, Failure> {
        self.head(&format!("5. Read what is where, in micrometers: read --box {BOX}"))?;
        let array = image.array(0)?;
        let physical: PhysicalBox = BOX.parse().map_err(Failure::new)?;
        let region = image.region_in_box(0, &physical)?;
        self.store.reset();
        let start = Instant::now();
        let elements = array.read_elements(&region)?;
        let seconds = start.elapsed().as_secs_f64();
        let mut report = self.describe_reads(&region.to_string(), seconds);
        report["box"] = json!(BOX);
        let values = elements.into_fixed().unwrap_or_default();
        let values =
            values.chunks_exact(ELEMENT).map(|v| u64::from(u16::from_le_bytes([v[0], v[1]])));
        let (count, sum) = (values.len() as u64, values.sum::<u64>());
        self.say(format!(
            "voxels {region}: {count} of them, {:.0} on average",
            sum as f64 / count.max(1) as f64
        ))?;
        Ok(report)
    }

    /// The plane, small and in few grey levels.
    fn draw(&self, plane: &[u8], height: usize, width: usize) -> io::Result<()> {
        const GREYS: &[u8] = b" .:-=+*#%@";
        const ROWS: usize = 12;
        const COLUMNS: usize = 28;
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

    fn update(
        &self,
        engine: &Arc<Engine>,
        location: &Location,
        image: &dyn DataSet,
    ) -> Result<Value, Failure> {
        let array = image.array(0)?;
        self.head(&format!(
            "6. Update a region where all shards meet: write --region {UPDATED} --strategy in-place"
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
        let options = PyramidOptions::new().update(true).region(region);
        pyramid(engine, location, &options, &mut |_| ())?;
        self.say("the lower levels were renewed where it changed")?;
        let mut members = Map::new();
        members.insert("region".to_owned(), json!(UPDATED));
        members.extend(write::describe(&report, seconds));
        Ok(Value::Object(members))
    }

    /// Repacks the chunks into other shards, in place.
    fn reshard(&self, engine: &Arc<Engine>, folder: &Path) -> Result<Value, Failure> {
        self.head("7. Repack the same chunks into larger shards: reshard --chunks-per-shard 8")?;
        let files = Location::root(Arc::new(FileStore::new(folder)));
        let options = RepackOptions::new().packing(Packing::ChunksPerShard(vec![8]));
        let mut done = RepackedArray::default();
        let mut arrays = 0;
        let start = Instant::now();
        shardine::jobs::repack(engine, &files, None, &options, &mut |array| {
            arrays += 1;
            done.chunks_moved += array.chunks_moved;
            done.objects_written += array.objects_written;
            done.bytes_written += array.bytes_written;
        })?;
        let seconds = start.elapsed().as_secs_f64();
        self.say(format!(
            "{} of {} moved into {} without decoding, and compared with the old ones",
            units::count(done.chunks_moved, "chunk"),
            units::count(arrays, "array"),
            units::count(done.objects_written, "shard"),
        ))?;
        self.say(format!(
            "{}, {} written; each new array replaced the old one in one step",
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

    /// Reopens the image and compares every voxel of the finest level.
    fn check(&self, engine: &Arc<Engine>, location: &Location) -> Result<Value, Failure> {
        self.head("8. Read the finest level back, and compare it voxel by voxel")?;
        let array = open_in(engine, location)?.array(0)?;
        self.store.reset();
        let start = Instant::now();
        let elements = array.read_elements(Region::all())?;
        let seconds = start.elapsed().as_secs_f64();
        let bytes = elements.into_fixed().unwrap_or_default();
        let mut expected = vec![0; bytes.len()];
        fill_box(data::voxel, &[0; 3], &SHAPE, &mut expected);
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
        self.head("9. Check every chunk of all levels: verify --decode")?;
        let start = Instant::now();
        let options = VerifyOptions::new().decode(true);
        let summary = shardine::jobs::verify(engine, location, &options, &mut |_| {})?;
        let seconds = start.elapsed().as_secs_f64();
        if !summary.is_ok() {
            let damage = units::count(summary.damage, "finding");
            return Err(Failure::new(format!("{damage} of damage in the image just written")));
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
            format!("shardine info {quoted}/{LABEL}"),
            format!("shardine ls {quoted} --level 0 --shards"),
            format!("shardine read {quoted} --box z=64um,y=32um,x=30um:32um"),
            format!("shardine read {quoted} --level 1 --region z=32:96,x=64 -o slice.npy"),
            format!("shardine write {quoted} --level 1 --region z=32:96,x=64 slice.npy --json"),
            format!("shardine verify {quoted}"),
            format!("shardine plan {quoted}"),
            format!("shardine unshard {quoted}"),
        ] {
            self.say(command)?;
        }
        let open = format!("import zarr; print(zarr.open('{name}')['0'].info)");
        self.say(format!("python -c \"{open}\""))?;
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
