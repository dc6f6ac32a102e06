//! Jobs that move data: the source is whole at each moment, and so is what is there of the target.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use shardine::store::FileStore;
use shardine::zarr::metadata::NodeMetadata;
use shardine::{ArrayNode, Elements, Engine, EngineOptions, Location, Region, WriteOptions};

use crate::program::{Victim, noise, run, verify};
use crate::trees::{folder, leftovers, restore, tree};

/// A group that keeps the metadata of its two arrays: one of 16 shards with 256 chunks, one of 64
/// chunks without shards.
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

/// Kills a command over its whole duration, and finishes it each time; returns how many of them
/// were killed before their end.
fn kill(words: &str, to_target: bool) -> u64 {
    let folder = folder();
    let origin = folder.path().join("origin");
    fs::create_dir(&origin).unwrap();
    hierarchy(&origin);
    let (files, old) = (tree(&origin), read(&origin));
    let parent = folder.path().join("scene");
    let (scene, target) = (parent.join("h.zarr"), parent.join("new.zarr"));
    let mut arguments: Vec<&str> = words.split(' ').collect();
    arguments.insert(1, scene.to_str().unwrap());
    if to_target {
        arguments.extend(["-o", target.to_str().unwrap()]);
    }
    let result = if to_target { &target } else { &scene };
    let victim = Victim {
        arguments: &arguments,
        scene: &parent,
        prepare: &|| {
            let _ = fs::remove_dir_all(&parent);
            restore(&files, &scene);
        },
        check: &|context| {
            assert!(read(&scene) == old, "{context}");
            verify(&scene);
            if to_target {
                assert_eq!(tree(&scene), files, "{context}");
            }
            if to_target && target.join("zarr.json").exists() {
                assert!(read(&target) == old, "{context}");
            }
            true
        },
        is_done: &|| false,
        // A command that was killed after its last step has left a target that is complete.
        may_exist: to_target,
        finished: &|context| {
            assert!(read(result) == old, "{context}");
            verify(result);
        },
    };
    victim.kill(24, 10)
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
    let killed: u64 = jobs.iter().map(|(words, to_target)| kill(words, *to_target)).sum();
    assert!(killed >= 50, "{killed} jobs were killed before their end");
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
    let whole = tempfile::tempdir().unwrap();
    let whole = whole.path().join("whole");
    let victim = Victim {
        arguments,
        scene,
        prepare: &|| {
            let _ = fs::remove_dir_all(scene);
            fs::create_dir_all(scene).unwrap();
            prepare();
        },
        // The marker is left by every run that did not end.
        check: &|_| {
            let temporary = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "tmp");
            leftovers(scene).iter().any(temporary)
        },
        is_done,
        may_exist: true,
        finished: &|_| {
            let whole = whole.to_str().unwrap();
            match Path::new(whole).exists() {
                true => drop(run(&["compare", target, whole])),
                false => drop(run(&["copy", target, whole])),
            }
        },
    };
    victim.kill(20, 4);
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
    let folder = folder();
    let (origin, scene) = (folder.path().join("origin"), folder.path().join("scene"));
    let target = scene.join("new.zarr");
    plate(&origin, 2, 3);
    let files = tree(&origin);
    let (from, to) = (origin.to_str().unwrap(), target.to_str().unwrap());
    for (version, root) in [("0.5", "zarr.json"), ("0.4", ".zgroup")] {
        let victim = Victim {
            arguments: &["convert", from, to, "--to", "ome-zarr", "--ome-version", version],
            scene: &scene,
            prepare: &|| {
                let _ = fs::remove_dir_all(&scene);
                fs::create_dir_all(&scene).unwrap();
            },
            check: &|context| {
                assert!(tree(&origin) == files, "{context}: the source was changed");
                // A root is written when everything below it is there.
                if target.join(root).exists() {
                    verify(&target);
                }
                true
            },
            is_done: &|| false,
            may_exist: true,
            finished: &|_| drop(run(&["compare", from, to])),
        };
        victim.kill(10, 10);
    }
}
