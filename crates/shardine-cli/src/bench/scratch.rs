//! A copy of some shards to write to: the array itself is never written.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use shardine::precomputed::{INFO, Volume};
use shardine::store::{Condition, CreateOptions, FileStore, Key, ReadRange, StoreError, StoreExt};
use shardine::{ArrayNode, Location, WriteOptions};
use tempfile::TempDir;

use super::measure::Meter;
use super::source::Source;
use super::subject::{Picked, Subject};
use super::workload::{Runner, Title, Workload, byte_len, counted};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{interrupt, units};

/// The most shards that are copied.
const SHARDS: u64 = 64;

/// The most updates in a run: each of them writes a shard.
const UPDATES: u64 = 32;

/// The folder of the only scale of a copy.
const SCALE: &str = "0";

/// A folder with a part of an array, removed when this is dropped, and on Ctrl-C.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    /// The shards that are copied to it.
    cells: Vec<Vec<u64>>,
}

impl Scratch {
    /// Makes a new, empty folder in `folder`, or beside the array if that is `None`.
    pub fn new(
        subject: &Subject,
        location: &Location,
        folder: Option<&Path>,
    ) -> Result<Self, Failure> {
        if subject.cells.is_empty() {
            return Err(Failure::new(format!(
                "--write: nothing is stored in {location}, so there is nothing to write"
            )));
        }
        if let Some(format) = subject.set.only_read() {
            return Err(Failure::new(format!(
                "--write: {location} is {format}, which is read-only here"
            ))
            .hint("omit --write to measure reads only"));
        }
        subject.check_object_fits()?;
        let parent = parent(location, folder)?;
        let made = tempfile::Builder::new()
            // Listings of a group skip such names.
            .prefix(".shardine-bench-")
            .suffix(".tmp")
            .tempdir_in(&parent);
        let made = made.map_err(|error| {
            Failure::new(format!("{}: cannot create a copy to write to: {error}", parent.display()))
                .hint("use --scratch DIR to choose another folder")
        })?;
        interrupt::will_remove(made.path());
        Ok(Self { folder: made, cells: subject.some_cells(SHARDS) })
    }

    fn location(&self) -> Location {
        Location::root(Arc::new(FileStore::new(self.folder.path())))
    }

    /// Copies some shards unchanged, in the kernel where possible.
    pub fn copy(&self, subject: &Subject, from: &Location) -> Result<(), Failure> {
        let to = self.location();
        if let Some(volume) = subject.set.downcast_ref::<Volume>() {
            return self.copy_level(subject, volume, from, &to);
        }
        // Of an image, the array of the level.
        let from = subject.array.location();
        let node = ArrayNode::open(subject.array.engine(), from)?;
        let names = self.cells.iter().map(|cell| node.metadata().key_encoding().key(cell));
        let progress = Progress::things("copying shards", self.cells.len() as u64);
        // The copy of a version 2 array is a version 3 array with the same chunks.
        let document = node.metadata().to_bytes();
        let put = to.store.put(&to.key("zarr.json")?, &document, Condition::Absent);
        put.map_err(shardine::Error::from)?;
        for name in names {
            copy_object(from, &from.key(&name)?, &to, &name)?;
            progress.add(1);
        }
        progress.finish();
        Ok(())
    }

    /// Copies a level of a volume, which becomes the only one of a new volume.
    fn copy_level(
        &self,
        subject: &Subject,
        volume: &Volume,
        from: &Location,
        to: &Location,
    ) -> Result<(), Failure> {
        let mut keys: BTreeSet<Key> =
            self.cells.iter().filter_map(|cell| subject.keys.get(cell).cloned()).collect();
        // A shard in the older form is two objects, and is listed under the name of the first.
        let older: Vec<&str> =
            keys.iter().filter_map(|key| key.as_str().strip_suffix(".index")).collect();
        let older = older.into_iter().map(|stem| Key::new(&format!("{stem}.data")));
        let older = older.collect::<Result<Vec<_>, _>>().map_err(shardine::Error::from)?;
        keys.extend(older);
        let mut info = volume.info().document().clone();
        let scale = info.get("scales").and_then(|scales| scales.get(subject.level)).cloned();
        let mut scale = scale.unwrap_or_default();
        scale["key"] = SCALE.into();
        // Of several copies in other shapes only the first is read, and there is nothing to
        // disagree with.
        if let Some(sizes) = scale["chunk_sizes"].as_array_mut() {
            sizes.truncate(1);
        }
        info.insert("scales".to_owned(), Value::Array(vec![scale]));
        let info = Value::Object(info).to_string();
        let put = to.store.put(&to.key(INFO)?, info.as_bytes(), Condition::Absent);
        put.map_err(shardine::Error::from)?;
        let progress = Progress::things("copying shards", keys.len() as u64);
        for key in keys {
            let name = key.as_str().rsplit('/').next().unwrap_or_default();
            copy_object(from, &key, to, &format!("{SCALE}/{name}"))?;
            progress.add(1);
        }
        progress.finish();
        Ok(())
    }

    /// Writes whole shards, one by one, with their own elements.
    pub fn write(&self, runner: &Runner<'_>) -> Result<Workload, Failure> {
        let pieces = self.cells.iter().map(|cell| runner.subject.object(cell)).collect();
        let complete = self.cells.len() == runner.subject.cells.len();
        let picked = Picked { pieces, complete };
        let thing = if runner.subject.array.shard_shape().is_some() { "shard" } else { "chunk" };
        let count = units::count(picked.pieces.len() as u64, thing);
        let title = Title { name: "write", what: format!("{count} of a copy, written one by one") };
        self.measure(runner, title, &picked)
    }

    /// Writes single chunks, so that each time all others of a shard have to be kept.
    pub fn update(&self, runner: &Runner<'_>) -> Result<Workload, Failure> {
        let picked = runner.subject.chunks(&self.cells, UPDATES)?;
        let count = units::count(picked.pieces.len() as u64, "random chunk");
        let title =
            Title { name: "update", what: format!("{count} of a copy, replaced one by one") };
        self.measure(runner, title, &picked)
    }

    fn measure(
        &self,
        runner: &Runner<'_>,
        title: Title,
        picked: &Picked,
    ) -> Result<Workload, Failure> {
        let engine = runner.machine.engine()?;
        let (store, location) = counted(&self.location());
        let source = Source::open(&engine, &location, 0)?;
        runner.measure(title, picked, |progress| {
            let copy = source.array()?;
            let mut meter = Meter::start(&store);
            for piece in &picked.pieces {
                let region = piece.region();
                let elements = runner.subject.array.read_elements(&region)?;
                let options = WriteOptions::new();
                meter.time(|| copy.write_elements(&region, elements.as_ref(), &options))?;
                meter.decoded(byte_len(&elements));
                progress.add(1);
            }
            Ok(meter.stop())
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Before it is forgotten: whenever Ctrl-C comes, the folder is removed.
        let _ = fs::remove_dir_all(self.folder.path());
        interrupt::forget(self.folder.path());
    }
}

/// The folder that the copy is made in: on the same file system as the array, unless one is given.
fn parent(location: &Location, folder: Option<&Path>) -> Result<PathBuf, Failure> {
    let array = match fs::canonicalize(location.to_string()) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        found => {
            Some(found.map_err(|error| Failure::file(Path::new(&location.to_string()), &error))?)
        }
    };
    let Some(folder) = folder else {
        return array.as_deref().and_then(Path::parent).map(Path::to_owned).ok_or_else(|| {
            Failure::new(format!("--write: there is no folder beside {location} for a copy"))
                .hint("use --scratch DIR to choose one")
        });
    };
    let folder = fs::canonicalize(folder).map_err(|error| Failure::file(folder, &error))?;
    if array.is_some_and(|array| folder.starts_with(array)) {
        return Err(Failure::new(format!(
            "--scratch {}: lies inside the array, where nothing is written",
            folder.display()
        )));
    }
    Ok(folder)
}

fn copy_object(from: &Location, key: &Key, to: &Location, name: &str) -> Result<(), Failure> {
    let copy = || -> Result<(), StoreError> {
        let object = from.store.open(key, None)?;
        let writer = to.store.create(&Key::new(name)?, CreateOptions::default())?;
        match object.len() {
            Some(0) => {}
            Some(len) => drop(writer.append_from(&*object, 0..len)?),
            None => drop(writer.append(&object.read(ReadRange::All)?)?),
        }
        to.store.publish(vec![writer.finish(&[])?])?;
        Ok(())
    };
    copy().map_err(|error| shardine::Error::from(error).into())
}
