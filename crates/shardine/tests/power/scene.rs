//! Arrays that are updated, and the states in which they may be found.

use std::io;
use std::path::Path;
use std::sync::Arc;

use shardine::store::{DiskObserver, DiskStep, FileStore, Store, Verdict};
use shardine::zarr::metadata::NodeMetadata;
use shardine::{
    Array, ArrayNode, Elements, ElementsRef, Engine, EngineOptions, Location, Region, Strategy,
    WriteOptions,
};
use tempfile::TempDir;

use crate::disk::{Image, Random, Recorder, Step, image, put};

const COLUMNS: usize = 32;
/// Bytes of a shard, which is made of consecutive rows.
pub const SHARD: usize = 1024;

pub const ZSTD: &str = r#", {"name": "zstd", "configuration": {"level": 1, "checksum": false}}"#;

/// Two shards of 4 x 4 chunks of 8 x 8 bytes.
pub fn document(codec: &str, location: &str) -> String {
    format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [64, 32], "data_type": "uint8",
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [32, 32]}}}},
        "chunk_key_encoding": {{"name": "default"}}, "fill_value": 0,
        "codecs": [{{"name": "sharding_indexed", "configuration": {{
            "chunk_shape": [8, 8], "codecs": ["bytes"{codec}], "index_location": "{location}",
            "index_codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}, "crc32c"]}}}}]}}"#
    )
}

/// The same with nested shards that have as many chunks as the outer ones, so that their indexes
/// look alike.
pub fn nested(location: &str) -> String {
    let index =
        r#""index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]"#;
    let inner = format!(
        r#"{{"name": "sharding_indexed", "configuration": {{
            "chunk_shape": [8, 8], "codecs": ["bytes"], "index_location": "{location}", {index}}}}}"#
    );
    format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [64, 32], "data_type": "uint8",
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [32, 32]}}}},
        "chunk_key_encoding": {{"name": "default"}}, "fill_value": 0,
        "codecs": [{{"name": "sharding_indexed", "configuration": {{
            "chunk_shape": [16, 16], "codecs": [{inner}], "index_location": "{location}", {index}}}}}]}}"#
    )
}

/// A folder in memory where there is one: nothing here needs a real disk.
pub fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

pub fn engine() -> Arc<Engine> {
    Engine::new(&EngineOptions::new().threads(1)).unwrap()
}

pub fn create(engine: &Arc<Engine>, root: &Path, document: &str) -> ArrayNode {
    let NodeMetadata::Array(metadata) = NodeMetadata::parse(document.as_bytes()).unwrap() else {
        panic!("it is an array")
    };
    let location = Location::root(Arc::new(FileStore::new(root)));
    ArrayNode::create(engine, &location, metadata).unwrap()
}

pub fn open(engine: &Arc<Engine>, store: impl Store + 'static) -> ArrayNode {
    ArrayNode::open(engine, &Location::root(Arc::new(store))).unwrap()
}

pub fn read(array: &Array) -> Result<Vec<u8>, String> {
    match array.read_elements(Region::all()) {
        Ok(Elements::Fixed(bytes)) => Ok(bytes),
        Ok(_) => Err("other elements".to_owned()),
        Err(error) => Err(format!("a read failed: {error:?}")),
    }
}

/// The same, a quarter of a shard at a time, the last one first: damage in one must not show in
/// others.
pub fn read_parts(array: &Array) -> Result<Vec<u8>, String> {
    let mut all = vec![0; 2 * SHARD];
    for part in (0..8).rev() {
        let (start, shape) = ([part / 2 * 16, part % 2 * 16], [16, 16]);
        let region = Region::of_box(&start.map(|n| n as u64), &shape.map(|n| n as u64));
        match array.read_elements(&region) {
            Ok(Elements::Fixed(data)) => {
                Call { start, shape, data, options: WriteOptions::new() }.apply(&mut all);
            }
            other => return Err(format!("a read of a part failed: {other:?}")),
        }
    }
    Ok(all)
}

pub fn noise(len: usize, random: &mut Random) -> Vec<u8> {
    // Chunks of few values are shorter where they are compressed.
    let kinds = [2, 5, 200][random.next(3) as usize];
    (0..len).map(|_| 1 + random.next(kinds) as u8).collect()
}

/// One write.
#[derive(Debug, Clone)]
pub struct Call {
    pub start: [usize; 2],
    pub shape: [usize; 2],
    pub data: Vec<u8>,
    pub options: WriteOptions,
}

impl Call {
    pub fn noise(
        start: [usize; 2],
        shape: [usize; 2],
        strategy: Strategy,
        random: &mut Random,
    ) -> Self {
        let data = noise(shape[0] * shape[1], random);
        Self { start, shape, data, options: WriteOptions::new().strategy(strategy) }
    }

    pub fn fill(start: [usize; 2], shape: [usize; 2], strategy: Strategy) -> Self {
        let data = vec![0; shape[0] * shape[1]];
        Self { start, shape, data, options: WriteOptions::new().strategy(strategy) }
    }

    pub fn apply(&self, model: &mut [u8]) {
        for row in 0..self.shape[0] {
            let to = (self.start[0] + row) * COLUMNS + self.start[1];
            let from = row * self.shape[1];
            model[to..to + self.shape[1]].copy_from_slice(&self.data[from..from + self.shape[1]]);
        }
    }

    pub fn write(&self, array: &Array) -> Result<(), shardine::Error> {
        let region = Region::of_box(&self.start.map(|n| n as u64), &self.shape.map(|n| n as u64));
        array.write_elements(&region, ElementsRef::Fixed(&self.data), &self.options).map(drop)
    }
}

/// New shards, updates, freed and reused slots, shards that become empty and come back, compaction.
pub fn calls(strategy: Strategy, random: &mut Random) -> Vec<Call> {
    let mut noise = |start, shape| Call::noise(start, shape, strategy, random);
    let mut calls = vec![
        noise([3, 5], [20, 20]),
        noise([0, 0], [64, 32]),
        noise([8, 8], [8, 8]),
        noise([8, 8], [8, 8]),
        noise([28, 3], [9, 17]),
        Call::fill([16, 0], [8, 16], strategy),
        noise([24, 0], [8, 8]),
        noise([10, 0], [20, 32]),
        Call::fill([32, 0], [32, 16], strategy),
        Call::fill([32, 16], [32, 16], strategy),
        noise([40, 8], [8, 8]),
        noise([0, 16], [32, 16]),
        noise([0, 0], [64, 32]),
    ];
    calls[11].options = WriteOptions::new().strategy(strategy).max_gap(0.0);
    calls
}

/// For each shard, what may be found.
pub type Allowed = [Vec<Vec<u8>>; 2];

pub fn exactly(model: &[u8]) -> Allowed {
    [vec![model[..SHARD].to_vec()], vec![model[SHARD..].to_vec()]]
}

pub fn is_allowed(found: &[u8], allowed: &Allowed) -> Result<(), String> {
    for (shard, allowed) in allowed.iter().enumerate() {
        let found = &found[shard * SHARD..(shard + 1) * SHARD];
        if !allowed.iter().any(|state| state == found) {
            return Err(format!("shard {shard} is in none of {} states", allowed.len()));
        }
    }
    Ok(())
}

/// A part of a log: from one set of states to another.
#[derive(Debug, Clone)]
pub struct Epoch {
    pub begin: usize,
    pub end: usize,
    before: Allowed,
    after: Allowed,
}

impl Epoch {
    pub fn allowed(&self, at: usize) -> Allowed {
        if at >= self.end {
            return self.after.clone();
        }
        let mut both = self.before.clone();
        for (both, after) in both.iter_mut().zip(&self.after) {
            both.extend(after.iter().cloned());
        }
        both
    }
}

/// What was done, step by step.
pub struct Run {
    pub base: Image,
    pub log: Vec<Step>,
    pub epochs: Vec<Epoch>,
}

/// What is done in a run.
pub enum Deed {
    Read,
    Write(Call),
}

/// Does it and keeps the record. A failed write leaves both states possible.
pub fn record(
    engine: &Arc<Engine>,
    base: Image,
    mut state: Allowed,
    deeds: &[Deed],
    fails: Option<usize>,
) -> Result<Run, String> {
    let folder = folder();
    put(&base, folder.path());
    let recorder = Recorder::new(folder.path(), fails);
    let array = open(engine, FileStore::observed(folder.path(), Arc::clone(&recorder) as _));
    let mut epochs = Vec::new();
    for deed in deeds {
        let begin = recorder.len();
        let after = match deed {
            Deed::Read => {
                let found = read(&array)?;
                is_allowed(&found, &state)?;
                exactly(&found)
            }
            Deed::Write(call) => {
                let mut after = state.clone();
                for i in 0..2 {
                    let of = |bytes: &Vec<u8>| {
                        let mut model = vec![0; 2 * SHARD];
                        model[i * SHARD..(i + 1) * SHARD].copy_from_slice(bytes);
                        call.apply(&mut model);
                        model[i * SHARD..(i + 1) * SHARD].to_vec()
                    };
                    after[i] = state[i].iter().map(of).collect();
                }
                match call.write(&array) {
                    Err(error) if fails.is_none() => {
                        return Err(format!("a write failed: {error:?}"));
                    }
                    Err(_) => after.iter_mut().zip(&state).for_each(|(after, state)| {
                        after.extend(state.iter().cloned());
                    }),
                    Ok(()) => {}
                }
                after
            }
        };
        let end = recorder.len();
        epochs.push(Epoch { begin, end, before: state, after: after.clone() });
        state = after;
    }
    is_allowed(&read(&array)?, &state)?;
    Ok(Run { base, log: recorder.take(), epochs })
}

/// Refuses every change.
#[derive(Debug)]
pub struct ReadOnly;

impl DiskObserver for ReadOnly {
    fn before(&self, _: DiskStep<'_>) -> Verdict {
        Verdict::Fail(io::Error::from(io::ErrorKind::ReadOnlyFilesystem))
    }
}

/// Opens what a failure left: reads it read-only, reads it, changes it and reads it again.
pub fn check(
    engine: &Arc<Engine>,
    left: &Image,
    allowed: &Allowed,
    calls: &[Call],
) -> Result<(), String> {
    let folder = folder();
    put(left, folder.path());
    let read_only =
        || read_parts(&open(engine, FileStore::observed(folder.path(), Arc::new(ReadOnly))));
    is_allowed(&read_only().map_err(|e| format!("read-only: {e}"))?, allowed)
        .map_err(|e| format!("read-only: {e}"))?;
    if image(folder.path()) != *left {
        return Err("a reader changed what it may not change".to_owned());
    }
    let array = open(engine, FileStore::new(folder.path()));
    let mut model = read_parts(&array)?;
    if read(&array)? != model {
        return Err("all is not its parts".to_owned());
    }
    is_allowed(&model, allowed)?;
    if read_only()? != model {
        return Err("two readers differ".to_owned());
    }
    for call in calls {
        call.write(&array).map_err(|error| format!("a write failed: {error:?}"))?;
        call.apply(&mut model);
        if read(&array)? != model {
            return Err("what was written after the failure is not there".to_owned());
        }
    }
    drop(array);
    if read(&open(engine, FileStore::new(folder.path())))? != model {
        return Err("what was written after the failure is not there for others".to_owned());
    }
    let is_journal = |path: &Path| path.to_string_lossy().ends_with(".journal");
    match image(folder.path()).keys().find(|path| is_journal(path)) {
        Some(path) => Err(format!("{} was left", path.display())),
        None => Ok(()),
    }
}
