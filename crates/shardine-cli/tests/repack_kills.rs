//! Jobs that pack chunks anew are killed at random moments: the array is whole at each of them, and the same command
//! finishes what was begun.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shardine::store::FileStore;
use shardine::zarr::metadata::NodeMetadata;
use shardine::{ArrayNode, Elements, Engine, EngineOptions, Location, Region, WriteOptions};
use tempfile::TempDir;

/// Moments at which each job is stopped, over its whole duration.
const MOMENTS: u64 = 24;

/// The fewest of them that must come before its end, or it is stopped more often.
const KILLS: u64 = 10;

/// A folder in memory where there is one, for kills do not test the disk.
fn folder() -> TempDir {
    match Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

fn shardine(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardine"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str]) -> Output {
    let output = shardine(arguments).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    output
}

/// Every file below a folder with its bytes.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.insert(
                    path.strip_prefix(folder).unwrap().to_owned(),
                    fs::read(&path).unwrap(),
                );
            }
        }
    }
    found
}

fn copy(files: &BTreeMap<PathBuf, Vec<u8>>, to: &Path) {
    for (name, bytes) in files {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Bytes that do not repeat soon.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed | 1);
    (0..len).map(|_| (random.next() >> 32) as u8 | 1).collect()
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// A group that keeps the metadata of its two arrays: one of 16 shards with 256 chunks, one of 64 chunks without shards.
fn hierarchy(root: &Path) {
    let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let chain = json!([bytes, {"name": "zstd", "configuration": {"level": 1, "checksum": false}}]);
    let sharding = json!([{"name": "sharding_indexed", "configuration": {"chunk_shape": [8, 8],
        "codecs": chain, "index_codecs": [bytes, {"name": "crc32c"}], "index_location": "end"}}]);
    let engine = Engine::new(&EngineOptions::new().threads(2)).unwrap();
    let place = Location::root(Arc::new(FileStore::new(root)));
    let mut nodes = json!({});
    for (name, chunk, codecs, shape) in
        [("a", [32, 32], sharding, [128u64, 128]), ("b/c", [8, 8], chain, [64, 64])]
    {
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "uint16",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": codecs,
            "attributes": {"name": name},
        });
        let NodeMetadata::Array(metadata) =
            NodeMetadata::parse(document.to_string().as_bytes()).unwrap()
        else {
            panic!("not an array")
        };
        let array = ArrayNode::create(&engine, &place.join(name).unwrap(), metadata).unwrap();
        // The last rows stay empty.
        let rows = shape[0] - 12;
        let data = Elements::Fixed(noise((rows * shape[1] * 2) as usize, shape[0]));
        let region: Region = format!("0:{rows},:").parse().unwrap();
        array.write_elements(&region, data.as_ref(), &WriteOptions::new()).unwrap();
        fs::write(root.join(name).join("notes.txt"), name).unwrap();
        let stored = fs::read(root.join(name).join("zarr.json")).unwrap();
        nodes[name] = serde_json::from_slice(&stored).unwrap();
    }
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
    nodes["b"] = group.clone();
    fs::write(root.join("b/zarr.json"), group.to_string()).unwrap();
    let mut top = group;
    top["consolidated_metadata"] =
        json!({"kind": "inline", "must_understand": false, "metadata": nodes});
    fs::write(root.join("zarr.json"), top.to_string()).unwrap();
}

/// The elements of both arrays, as a process of its own reads them.
fn read(root: &Path) -> [Vec<u8>; 2] {
    ["a", "b/c"].map(|name| run(&["read", root.join(name).to_str().unwrap(), "-o", "-"]).stdout)
}

fn verify(root: &Path) {
    let output =
        shardine(&["verify", root.to_str().unwrap(), "--decode", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(output.status.code(), Some(0));
}

/// Kills a command over its whole duration, and finishes it each time; returns how many of them were killed before their end.
fn kill(words: &str, to_target: bool, seed: u64) -> u64 {
    let folder = folder();
    let origin = folder.path().join("origin");
    fs::create_dir(&origin).unwrap();
    hierarchy(&origin);
    let (files, old) = (tree(&origin), read(&origin));
    let (parent, mut random) = (folder.path().join("scene"), Random(seed));
    let (scene, target) = (parent.join("h.zarr"), parent.join("new.zarr"));
    let mut arguments: Vec<&str> = words.split(' ').collect();
    arguments.insert(1, scene.to_str().unwrap());
    if to_target {
        arguments.extend(["-o", target.to_str().unwrap()]);
    }
    let result = if to_target { &target } else { &scene };
    // The middle of three, for the machine may have other things to do.
    let mut durations = [(); 3].map(|()| {
        let _ = fs::remove_dir_all(&parent);
        copy(&files, &scene);
        let start = Instant::now();
        run(&arguments);
        start.elapsed()
    });
    durations.sort();
    let duration = durations[1];
    let expected = tree(&parent);
    assert_eq!(read(result), old);
    let (mut killed, mut i) = (0, 0);
    while i < MOMENTS || killed < KILLS {
        assert!(i < 20 * MOMENTS, "{words}: {killed} of {i} were stopped before their end");
        fs::remove_dir_all(&parent).unwrap();
        copy(&files, &scene);
        let part = (i % MOMENTS) as f64 + (random.next() % 1000) as f64 / 1000.0;
        let wait: Duration = duration.mul_f64(part / MOMENTS as f64);
        let mut child = shardine(&arguments).spawn().unwrap();
        thread::sleep(wait);
        let context = format!("{words}, stopped after {wait:?} of {duration:?}");
        // Every fourth is interrupted as by Ctrl-C, the others do not get to know.
        if i % 4 == 3 {
            let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        } else {
            child.kill().unwrap();
        }
        killed += u64::from(!child.wait().unwrap().success());
        assert!(read(&scene) == old, "{context}");
        verify(&scene);
        if to_target {
            assert_eq!(tree(&scene), files, "{context}");
        }
        if to_target && target.join("zarr.json").exists() {
            assert!(read(&target) == old, "{context}");
        }
        let again = shardine(&arguments).output().unwrap();
        let told = String::from_utf8_lossy(&again.stderr);
        // A command that was killed after its last step has left a target that is complete.
        let complete = to_target && told.contains("exists");
        assert!(again.status.success() || complete, "{context}: {told}");
        assert!(read(result) == old, "{context}");
        verify(result);
        let now = tree(&parent);
        assert_eq!(
            now.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "{context}"
        );
        assert!(now == expected, "{context}: other bytes");
        i += 1;
    }
    println!("{words}: {killed} of {i} killed before their end, which takes {duration:?}");
    killed
}

#[test]
fn jobs_that_are_killed_leave_the_array_whole_and_the_same_command_finishes_them() {
    let jobs = [
        ("reshard --chunks-per-shard 8 --order c --threads 1", false),
        ("unshard", false),
        ("reshard --chunk 16,4 --shard 64,64 --codec zstd:2", false),
        ("shard --shard 32,64 --index start --order c --threads 1", false),
        ("reshard --chunks-per-shard 2 --order c --threads 1", true),
        ("reshard --chunk 16,4 --shard none --codec none", true),
    ];
    let killed: u64 =
        jobs.iter().zip(1..).map(|((words, to_target), seed)| kill(words, *to_target, seed)).sum();
    assert!(killed >= 50, "{killed} jobs were killed before their end");
}

/// Names below a folder that only a writer at work should have there.
fn of_ours(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with(".shardine") || name.ends_with(".tmp") {
                found.push(path.clone());
            }
            if path.is_dir() {
                waiting.push(path);
            }
        }
    }
    found
}

/// Kills a command until it has left files of its own often enough, and resumes it each time:
/// nothing of them is there then, and `target` is what a run without a kill makes.
///
/// A kill may come after the work was done; what `is_done` then is not begun again.
fn leaves_nothing(
    arguments: &[&str],
    scene: &Path,
    target: &str,
    prepare: &dyn Fn(),
    is_done: &dyn Fn() -> bool,
) {
    const OFTEN: u64 = 4;
    let fresh = || {
        let _ = fs::remove_dir_all(scene);
        fs::create_dir_all(scene).unwrap();
        prepare();
    };
    fresh();
    let start = Instant::now();
    run(arguments);
    let duration = start.elapsed();
    assert_eq!(of_ours(scene), Vec::<PathBuf>::new(), "{arguments:?}");
    let expected = tree(scene);
    let whole = tempfile::tempdir().unwrap();
    let whole = whole.path().join("whole");
    let whole = whole.to_str().unwrap();
    run(&["copy", target, whole]);
    let (mut random, mut left, mut tried) = (Random(7), 0, 0);
    while left < OFTEN {
        tried += 1;
        assert!(tried < 400, "{arguments:?}: {left} of {tried} left something in {duration:?}");
        fresh();
        let mut child = shardine(arguments).spawn().unwrap();
        thread::sleep(duration.mul_f64((random.next() % 1000) as f64 / 1000.0));
        child.kill().unwrap();
        child.wait().unwrap();
        // The marker is left by every run that did not end.
        let temporary = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "tmp");
        left += u64::from(of_ours(scene).iter().any(temporary));
        if !is_done() {
            let again = shardine(arguments).output().unwrap();
            let told = String::from_utf8_lossy(&again.stderr);
            let complete = told.contains("exists");
            assert!(again.status.success() || complete, "{arguments:?}: {told}");
        }
        assert_eq!(of_ours(scene), Vec::<PathBuf>::new(), "{arguments:?}");
        run(&["compare", target, whole]);
        assert!(tree(scene) == expected, "{arguments:?}: other bytes");
    }
}

#[test]
fn a_copy_that_was_killed_and_resumed_leaves_no_file_of_its_own() {
    let folder = folder();
    let (origin, scene) = (folder.path().join("origin"), folder.path().join("scene"));
    fs::create_dir(&origin).unwrap();
    hierarchy(&origin);
    let target = scene.join("new.zarr");
    let arguments = ["copy", origin.to_str().unwrap(), target.to_str().unwrap()];
    leaves_nothing(&arguments, &scene, target.to_str().unwrap(), &|| {}, &|| false);
}

#[test]
fn a_conversion_of_a_file_that_was_killed_and_resumed_leaves_no_file_of_its_own() {
    let folder = folder();
    let (file, scene) = (folder.path().join("in.raw"), folder.path().join("scene"));
    fs::write(&file, noise(512 * 512, 3)).unwrap();
    let target = scene.join("new.zarr");
    let arguments = [
        "convert",
        file.to_str().unwrap(),
        target.to_str().unwrap(),
        "--shape",
        "512,512",
        "--dtype",
        "uint8",
        "--chunk",
        "16,16",
        "--shard",
        "none",
    ];
    leaves_nothing(&arguments, &scene, target.to_str().unwrap(), &|| {}, &|| false);
}

#[test]
fn an_append_that_was_killed_and_resumed_leaves_no_file_of_its_own() {
    let folder = folder();
    let (file, scene) = (folder.path().join("in.raw"), folder.path().join("scene"));
    fs::write(&file, noise(64 * 128 * 128, 3)).unwrap();
    let target = scene.join("new.zarr");
    let target = target.to_str().unwrap();
    let arguments = ["append", target, file.to_str().unwrap(), "--commit-every", "4"];
    let prepare = || {
        run(&[
            "create",
            target,
            "--shape",
            "0,128,128",
            "--dtype",
            "uint8",
            "--chunk",
            "1,32,32",
            "--shard",
            "4,128,128",
        ]);
    };
    // The same command would append the file once more.
    let is_done = || {
        let document = fs::read(scene.join("new.zarr/zarr.json")).unwrap();
        let document: Value = serde_json::from_slice(&document).unwrap();
        document["shape"][0] == 64 && !scene.join("new.zarr/.shardine-append.json").exists()
    };
    leaves_nothing(&arguments, &scene, target, &prepare, &is_done);
}

/// A plate of OME-Zarr 0.4: wells with two fields of two levels, each with labels.
fn plate(root: &Path, rows: usize, columns: usize) {
    let put = |path: String, document: &Value| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, document.to_string()).unwrap();
    };
    let group = |path: &str, attributes: &Value| {
        put(format!("{path}.zgroup"), &json!({"zarr_format": 2}));
        put(format!("{path}.zattrs"), attributes);
    };
    let image = |path: &str, more: Value, seed: u64| {
        let level = |n: u32| {
            json!({"path": n.to_string(), "coordinateTransformations": [
                {"type": "scale", "scale": [f64::from(n + 1), f64::from(n + 1)]}]})
        };
        let axes = json!([{"name": "y", "type": "space"}, {"name": "x", "type": "space"}]);
        let mut attributes = json!({"multiscales": [
            {"version": "0.4", "axes": axes, "datasets": [level(0), level(1)]}]});
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        group(path, &attributes);
        for (level, len) in [(0u64, 16u64), (1, 8)] {
            let zarray = json!({
                "zarr_format": 2, "shape": [len, len], "chunks": [8, 8], "dtype": "|u1",
                "compressor": null, "fill_value": 0, "order": "C", "filters": null,
                "dimension_separator": "/",
            });
            put(format!("{path}{level}/.zarray"), &zarray);
            for chunk in 0..(len / 8) * (len / 8) {
                let (y, x) = (chunk / (len / 8), chunk % (len / 8));
                let place = root.join(format!("{path}{level}/{y}/{x}"));
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::write(place, noise(64, seed * 100 + level * 10 + chunk)).unwrap();
            }
        }
    };
    let mut wells = Vec::new();
    for row in 0..rows {
        let name = char::from(b'A' + row as u8);
        group(&format!("{name}/"), &json!({}));
        for column in 0..columns {
            let path = format!("{name}/{}", column + 1);
            let images = json!([{"path": "0"}, {"path": "1"}]);
            group(&format!("{path}/"), &json!({"well": {"version": "0.4", "images": images}}));
            for field in 0..2u64 {
                let seed = (row * columns + column) as u64 * 2 + field;
                image(&format!("{path}/{field}/"), json!({}), seed);
                group(&format!("{path}/{field}/labels/"), &json!({"labels": ["cells"]}));
                let label = json!({"image-label": {"version": "0.4"}});
                image(&format!("{path}/{field}/labels/cells/"), label, seed + 1000);
            }
            wells.push(json!({"path": path, "rowIndex": row, "columnIndex": column}));
        }
    }
    let rows: Vec<Value> =
        (0..rows).map(|n| json!({"name": char::from(b'A' + n as u8).to_string()})).collect();
    let columns: Vec<Value> = (1..=columns).map(|n| json!({"name": n.to_string()})).collect();
    let plate = json!({"version": "0.4", "rows": rows, "columns": columns, "wells": wells});
    group("", &json!({"plate": plate}));
}

#[test]
fn a_plate_whose_conversion_was_killed_and_resumed_is_whole_and_the_source_as_it_was() {
    const OFTEN: u64 = 10;
    let folder = folder();
    let (origin, target) = (folder.path().join("origin"), folder.path().join("new.zarr"));
    plate(&origin, 2, 3);
    let files = tree(&origin);
    let (from, to) = (origin.to_str().unwrap(), target.to_str().unwrap());
    for (version, root) in [("0.5", "zarr.json"), ("0.4", ".zgroup")] {
        let arguments = ["convert", from, to, "--to", "ome-zarr", "--ome-version", version];
        let _ = fs::remove_dir_all(&target);
        let start = Instant::now();
        run(&arguments);
        let duration = start.elapsed();
        run(&["compare", from, to]);
        let expected = tree(&target);
        let (mut random, mut killed, mut tried) = (Random(11), 0, 0);
        while killed < OFTEN {
            tried += 1;
            assert!(tried < 200, "{version}: {killed} of {tried} were killed in {duration:?}");
            fs::remove_dir_all(&target).unwrap();
            let mut child = shardine(&arguments).spawn().unwrap();
            thread::sleep(duration.mul_f64((random.next() % 1000) as f64 / 1000.0));
            child.kill().unwrap();
            killed += u64::from(!child.wait().unwrap().success());
            assert!(tree(&origin) == files, "{version}: the source was changed");
            fs::create_dir_all(&target).unwrap();
            // A root is written when everything below it is there.
            if target.join(root).exists() {
                verify(&target);
            }
            let again = shardine(&arguments).output().unwrap();
            let told = String::from_utf8_lossy(&again.stderr);
            assert!(again.status.success() || told.contains("exists"), "{version}: {told}");
            assert!(tree(&target) == expected, "{version}: other files");
        }
    }
}
