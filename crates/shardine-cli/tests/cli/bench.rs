use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::Folder;

/// Bytes that no codec makes smaller, none of them zero.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8 | 1
    };
    (0..len).map(|_| next()).collect()
}

/// 4 shards of 64 KiB, each of 16 chunks of 4 KiB that are stored as they are.
fn sharded() -> Folder {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "512,512", "--dtype", "uint8", "--chunk", "64,64", "--shard",
        "256,256", "--codec", "none",
    ]);
    folder.put("in.raw", &noise(512 * 512));
    folder.ok(&["write", "a", "in.raw"]);
    folder
}

const CHUNK: u64 = 64 * 64;
const INDEX: u64 = 16 * 16 + 4;
const SHARD: u64 = 16 * CHUNK + INDEX;

/// Each file below a folder: its bytes, its inode and when it was last changed.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u64, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let data = fs::metadata(&path).unwrap();
            let bytes = if data.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
            found.insert(path.clone(), (bytes, data.ino(), data.mtime(), data.mtime_nsec()));
            if data.is_dir() {
                waiting.push(path);
            }
        }
    }
    found
}

fn workload<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut workloads = report["workloads"].as_array().unwrap().iter();
    workloads.find(|workload| workload["name"] == name).unwrap_or(&Value::Null)
}

fn names(report: &Value) -> Vec<&str> {
    let workloads = report["workloads"].as_array().unwrap().iter();
    workloads.map(|workload| workload["name"].as_str().unwrap()).collect()
}

fn members(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_names_in_the_report_are_these() {
    let folder = sharded();
    let report = folder.json(&["bench", "a", "--json", "--repeats", "2"]);
    assert_eq!(
        members(&report),
        [
            "url",
            "shape",
            "dtype",
            "chunk_shape",
            "shard_shape",
            "array_bytes",
            "objects_stored",
            "objects_possible",
            "threads",
            "memory",
            "limit",
            "repeats",
            "workloads"
        ]
    );
    assert_eq!(report["url"], "a");
    assert_eq!(report["array_bytes"], 512 * 512);
    assert_eq!((&report["objects_stored"], &report["objects_possible"]), (&json!(4), &json!(4)));
    assert_eq!(report["limit"], 1 << 30);
    assert_eq!(names(&report), ["whole", "shards", "chunks", "chunks_cached", "regions", "planes"]);
    for workload in report["workloads"].as_array().unwrap() {
        assert_eq!(
            members(workload),
            [
                "name",
                "what",
                "calls",
                "call_shape",
                "axis",
                "complete",
                "decoded_bytes",
                "seconds",
                "seconds_min",
                "seconds_max",
                "cpu_seconds",
                "bytes_per_second",
                "latency",
                "store",
                "peak_rss_bytes",
                "first",
                "runs"
            ]
        );
        assert_eq!(members(&workload["latency"]), ["p50_seconds", "p99_seconds"]);
        assert_eq!(workload["runs"].as_array().unwrap().len(), 2);
        for run in workload["runs"].as_array().unwrap().iter().chain([&workload["first"]]) {
            assert_eq!(
                members(run),
                ["seconds", "cpu_seconds", "decoded_bytes", "store", "peak_rss_bytes"]
            );
            assert_eq!(run["store"], workload["store"], "{workload:#}");
            assert!(run["seconds"].as_f64().unwrap() > 0.0);
            assert!(run["cpu_seconds"].as_f64().unwrap() >= 0.0);
            #[cfg(target_os = "linux")]
            assert!(run["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
        }
    }
}

#[test]
fn the_calls_of_the_store_are_those_of_the_reads() {
    let folder = sharded();
    let report = folder.json(&["bench", "a", "--json", "--repeats", "1"]);
    let of = |name: &str| {
        let workload = workload(&report, name);
        let number = |value: &Value| value.as_u64().unwrap();
        let store = &workload["store"];
        let bytes = (number(&workload["decoded_bytes"]), number(&store["bytes_read"]));
        (number(&workload["calls"]), number(&store["reads"]), bytes)
    };
    assert_eq!(of("whole"), (1, 4, (512 * 512, 4 * SHARD)));
    assert_eq!(of("shards"), (4, 4, (512 * 512, 4 * SHARD)));
    // All 64 chunks, each once.
    assert_eq!(of("chunks"), (64, 128, (64 * CHUNK, 64 * (CHUNK + INDEX))));
    assert_eq!(of("chunks_cached"), (64, 64, (64 * CHUNK, 64 * CHUNK)));
    let regions = workload(&report, "regions");
    assert_eq!(regions["call_shape"], json!([100, 100]));
    assert_eq!(regions["decoded_bytes"].as_u64(), regions["calls"].as_u64().map(|n| n * 10_000));
    let plane = workload(&report, "planes");
    assert_eq!((&plane["call_shape"], &plane["axis"]), (&json!([512, 1]), &json!(1)));
    for workload in report["workloads"].as_array().unwrap() {
        assert_eq!(workload["store"]["creates"], 0);
        assert_eq!(workload["store"]["bytes_written"], 0);
    }
}

#[test]
fn without_write_nothing_is_written() {
    let folder = sharded();
    let before = contents(&folder.path(""));
    folder.ok(&["bench", "a", "--repeats", "1"]);
    assert!(contents(&folder.path("")) == before);
    let errors = folder.refused(&["bench", "a", "--only", "chunks,update"]);
    assert!(errors.contains("needs --write"), "{errors}");
    assert!(folder.refused(&["bench", "a", "--scratch", "."]).contains("--write"));
}

#[test]
fn writing_is_measured_on_a_copy_that_is_gone_afterwards() {
    let folder = sharded();
    fs::create_dir(folder.path("scratch")).unwrap();
    let before = contents(&folder.path("a"));
    for place in [&["--write"][..], &["--write", "--scratch", "scratch"]] {
        let arguments = [&["bench", "a", "--json", "--only", "write,update"], place].concat();
        let report = folder.json(&arguments);
        assert!(contents(&folder.path("a")) == before);
        assert_eq!(folder.names(), ["a", "in.raw", "scratch"]);
        assert_eq!(fs::read_dir(folder.path("scratch")).unwrap().count(), 0);
        assert_eq!(names(&report), ["write", "update"]);
        let write = workload(&report, "write");
        assert_eq!((&write["calls"], &write["complete"]), (&json!(4), &json!(true)));
        assert_eq!(write["decoded_bytes"], 512 * 512);
        assert_eq!(write["store"]["creates"], 4);
        assert_eq!(write["store"]["bytes_written"], 4 * SHARD);
        let update = workload(&report, "update");
        assert_eq!(update["calls"], 32);
        assert_eq!(update["call_shape"], json!([64, 64]));
        assert_eq!(update["decoded_bytes"], 32 * CHUNK);
        assert_eq!(update["store"]["creates"], 32);
        // Each time the other chunks are moved and the index is new.
        assert_eq!(update["store"]["bytes_written"], 32 * SHARD);
    }
    let all = folder.json(&["bench", "a", "--json", "--write", "--repeats", "1"]);
    assert_eq!(names(&all).len(), 8);
}

#[test]
fn an_interrupted_run_leaves_no_copy() {
    let folder = sharded();
    let before = contents(&folder.path("a"));
    let arguments = ["bench", "a", "--write", "--only", "update", "--repeats", "1000"];
    let mut child = folder.command(&arguments).spawn().unwrap();
    let copied = |name: &String| folder.exists(&format!("{name}/c/1/1"));
    while !folder.names().iter().any(|name| name.starts_with(".shardine-") && copied(name)) {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::yield_now();
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(folder.names(), ["a", "in.raw"]);
    assert!(contents(&folder.path("a")) == before);
}

#[test]
fn a_copy_that_cannot_be_made_is_refused_before_anything_is_read() {
    let folder = sharded();
    let errors = folder.refused(&["bench", "a", "--write", "--scratch", "nowhere"]);
    assert!(errors.contains("nowhere"), "{errors}");
    let errors = folder.refused(&["bench", "a", "--write", "--scratch", "a/c"]);
    assert!(errors.contains("inside the array"), "{errors}");
    folder.ok(&["create", "empty", "--shape", "8", "--dtype", "uint8"]);
    let errors = folder.refused(&["bench", "empty", "--write"]);
    assert!(errors.contains("nothing is stored"), "{errors}");
    // The superuser may write anywhere.
    let closed = folder.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(closed.join("x"), b"x").is_err() {
        let errors = folder.refused(&["bench", "a", "--write", "--scratch", "closed"]);
        assert!(errors.contains("--scratch DIR"), "{errors}");
    }
}

#[test]
fn a_bad_chunk_is_named_as_read_names_it_and_leaves_no_copy() {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "64,64", "--dtype", "uint8", "--chunk", "16,16", "--shard",
        "32,32", "--codec", "crc32c",
    ]);
    folder.put("in.raw", &noise(64 * 64));
    folder.ok(&["write", "a", "in.raw"]);
    let mut shard = folder.get("a/c/1/0");
    shard[5] ^= 1;
    folder.put("a/c/1/0", &shard);
    let before = contents(&folder.path("a"));
    let expected = folder.refused(&["read", "a", "-o", "out.raw"]);
    assert!(expected.contains("chunk [2, 0] in \"c/1/0\""), "{expected}");
    for only in ["whole", "shards", "chunks", "write", "update"] {
        let errors = folder.refused(&["bench", "a", "--write", "--only", only]);
        assert_eq!(errors, expected, "{only}");
        assert_eq!(folder.names(), ["a", "in.raw"]);
    }
    assert!(contents(&folder.path("a")) == before);
}

#[test]
fn a_limit_reads_a_part_that_is_spread_over_the_array() {
    let folder = sharded();
    let report = folder.json(&["bench", "a", "--json", "--limit", "128KiB", "--write"]);
    let decoded = |name: &str| workload(&report, name)["decoded_bytes"].as_u64().unwrap();
    let calls = |name: &str| workload(&report, name)["calls"].as_u64().unwrap();
    assert_eq!((calls("shards"), decoded("shards")), (2, 128 << 10));
    assert!((1..=128 << 10).contains(&decoded("whole")));
    assert_eq!(calls("chunks"), 32);
    assert_eq!(calls("write"), 2);
    for name in ["whole", "shards", "write"] {
        assert_eq!(workload(&report, name)["complete"], false, "{name}");
    }
    let text = folder.text(&["bench", "a", "--limit", "128KiB", "--only", "shards"]);
    assert!(text.contains("128 KiB of 256 KiB, evenly spread"), "{text}");
    // Less than a chunk still reads one.
    let report = folder.json(&["bench", "a", "--json", "--limit", "1"]);
    for name in ["whole", "shards", "chunks"] {
        assert_eq!(workload(&report, name)["decoded_bytes"], CHUNK, "{name}");
    }
    assert_eq!(workload(&report, "planes")["calls"], 1);
}

#[test]
fn an_array_far_larger_than_memory_is_measured_in_parts() {
    let folder = Folder::new();
    folder.ok(&[
        "create",
        "a",
        "--shape",
        "1000000000,1000000000,1000",
        "--dtype",
        "float64",
        "--chunk",
        "8,8,8",
        "--shard",
        "32,32,32",
        "--codec",
        "none",
    ]);
    folder.put("in.raw", &noise(32 * 32 * 32 * 8));
    folder.ok(&["write", "a", "--region", "0:32,999999968:,64:96", "in.raw"]);
    let report = folder.json(&["bench", "a", "--json", "--limit", "4MiB", "--repeats", "1"]);
    for workload in report["workloads"].as_array().unwrap() {
        assert!(workload["decoded_bytes"].as_u64().unwrap() <= 4 << 20, "{workload:#}");
    }
    // The one shard that is stored is the one that is read.
    let shards = workload(&report, "shards");
    assert_eq!((&shards["calls"], &shards["decoded_bytes"]), (&json!(1), &json!(1 << 18)));
    assert_eq!(workload(&report, "chunks_cached")["store"]["reads"], 64);
}

#[test]
fn arrays_of_every_kind_are_measured() {
    let folder = Folder::new();
    let cases: [(&str, &[&str], Vec<u8>); 7] = [
        ("unsharded", &["--shape", "20,30", "--dtype", "uint8", "--shard", "none"], noise(600)),
        (
            "edge",
            &["--shape", "7,11,5", "--dtype", "uint16", "--chunk", "2,2,2", "--shard", "4,4,4"],
            noise(770),
        ),
        ("narrow", &["--shape", "1,1,100", "--dtype", "int8", "--chunk", "1,1,8"], noise(100)),
        ("point", &["--shape", "()", "--dtype", "int32"], vec![1, 2, 3, 4]),
        ("line", &["--shape", "5000", "--dtype", "uint8", "--chunk", "100"], noise(5000)),
        (
            "text",
            &["--shape", "6,2", "--dtype", "string", "--chunk", "2,2", "--shard", "4,2"],
            b"a\0bc\0\0d\0e\0f\0g\0h\0i\0j\0long enough\0".to_vec(),
        ),
        (
            "fill",
            &["--shape", "8,8", "--dtype", "uint8", "--chunk", "2,2", "--shard", "4,4"],
            Vec::new(),
        ),
    ];
    for (name, options, elements) in cases {
        folder.ok(&[&["create", name], options].concat());
        let mut arguments = vec!["bench", name, "--json", "--repeats", "1"];
        if !elements.is_empty() {
            folder.put("in.raw", &elements);
            folder.ok(&["write", name, "in.raw"]);
            arguments.push("--write");
        }
        let before = contents(&folder.path(name));
        let report = folder.json(&arguments);
        assert!(contents(&folder.path(name)) == before, "{name}");
        let whole = workload(&report, "whole");
        assert_eq!(whole["complete"], true, "{name}");
        assert_eq!(whole["calls"], 1, "{name}");
        if !matches!(name, "text" | "fill") {
            assert_eq!(whole["decoded_bytes"], elements.len(), "{name}");
            assert_eq!(workload(&report, "shards")["decoded_bytes"], elements.len(), "{name}");
            assert_eq!(workload(&report, "write")["decoded_bytes"], elements.len(), "{name}");
        }
        match name {
            "unsharded" => {
                assert_eq!(workload(&report, "chunks_cached"), &Value::Null);
                assert_eq!(report["shard_shape"], Value::Null);
            }
            // Every stored chunk once.
            "edge" => {
                assert_eq!(workload(&report, "chunks")["calls"], 4 * 6 * 3);
                assert_eq!(workload(&report, "chunks")["decoded_bytes"], 770);
            }
            "text" => {
                assert_eq!(report["array_bytes"], Value::Null);
                let letters = elements.iter().filter(|&&byte| byte != 0).count();
                assert_eq!(whole["decoded_bytes"], letters);
                assert_eq!(workload(&report, "write")["decoded_bytes"], letters);
            }
            "fill" => {
                assert_eq!(whole["store"]["reads"], 0);
                assert_eq!(whole["decoded_bytes"], 64);
                assert_eq!(workload(&report, "shards")["decoded_bytes"], 64);
            }
            "point" => assert_eq!(workload(&report, "planes")["axis"], Value::Null),
            _ => {}
        }
        // The table for people has a row for each in both parts.
        let text = folder.text(&["bench", name, "--repeats", "1"]);
        assert_eq!(text.lines().filter(|line| line.starts_with("regions ")).count(), 3, "{text}");
    }
}

#[test]
fn chunks_in_shards_in_shards_are_found() {
    let folder = Folder::new();
    let sharding = |chunk: u64, codecs: Value| {
        json!({ "name": "sharding_indexed", "configuration": {
            "chunk_shape": [chunk, chunk],
            "codecs": codecs,
            "index_codecs": [
                { "name": "bytes", "configuration": { "endian": "little" } },
                { "name": "crc32c" },
            ],
        } })
    };
    let inner = sharding(16, json!([{ "name": "bytes" }]));
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [500, 500], "data_type": "uint8",
        "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": [256, 256] } },
        "chunk_key_encoding": { "name": "default" }, "fill_value": 0,
        "codecs": [sharding(128, json!([inner]))],
    });
    folder.put("zarr.json", document.to_string().as_bytes());
    folder.ok(&["create", "a", "--metadata", "zarr.json"]);
    folder.put("in.raw", &noise(128 * 128));
    folder.ok(&["write", "a", "--region", "372:,372:", "in.raw"]);
    let report = folder.json(&["bench", "a", "--json", "--only", "chunks", "--repeats", "1"]);
    let cached = workload(&report, "chunks_cached");
    assert_eq!(cached["call_shape"], json!([16, 16]));
    assert!(cached["store"]["reads"].as_u64() <= cached["calls"].as_u64());
    assert!(cached["store"]["reads"].as_u64().unwrap() > 0);
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    let folder = sharded();
    folder.ok(&["create", "none", "--shape", "0,8", "--dtype", "uint8"]);
    let errors = folder.refused(&["bench", "none"]);
    assert!(errors.contains("0 x 8 has no elements"), "{errors}");
    assert!(folder.refused(&["bench", "nothing"]).contains("there is no Zarr array"));
    assert!(folder.refused(&["bench", "a", "--only", "everything"]).contains("everything"));
    assert!(folder.refused(&["bench", "a", "--repeats", "0"]).contains("--repeats"));
    assert!(folder.refused(&["bench", "a", "--limit", "much"]).contains("--limit"));
}

/// A volume of 2 x 2 x 1 shards of 2 x 2 x 1 chunks of 32 x 32 x 32 that are stored as they are,
/// packed as `shard` says.
fn volume(shard: &[&str]) -> Folder {
    let folder = Folder::new();
    let create = [
        "create",
        "v",
        "--to",
        "precomputed",
        "--shape",
        "128,128,32",
        "--dtype",
        "uint8",
        "--chunk",
        "32,32,32",
        "--resolution",
        "8,8,8",
    ];
    folder.ok(&create);
    folder.put("in.raw", &noise(128 * 128 * 32));
    folder.ok(&["write", "v", "in.raw"]);
    if !shard.is_empty() {
        folder.ok(&[&["reshard", "v"], shard].concat());
    }
    folder
}

const VOXELS: u64 = 32 * 32 * 32;

#[test]
fn a_volume_is_measured_however_it_is_packed() {
    let boxes = ["--shard", "64,64,32", "--data-encoding", "raw"];
    let scattered = [
        "--hash",
        "murmurhash3_x86_128",
        "--preshift-bits",
        "0",
        "--minishard-bits",
        "1",
        "--shard-bits",
        "2",
        "--data-encoding",
        "raw",
    ];
    for (packing, stored, shard_shape, chunk_loads) in [
        (&boxes[..], 4, json!([64, 64, 32, 1]), &["chunks", "chunks_cached"][..]),
        (&scattered, 16, Value::Null, &["chunks", "chunks_cached"]),
        (&["--shard", "none"], 16, Value::Null, &["chunks"]),
    ] {
        let folder = volume(packing);
        let before = contents(&folder.path("v"));
        let report = folder.json(&["bench", "v", "--json", "--repeats", "1"]);
        assert!(contents(&folder.path("v")) == before);
        let what = format!("{packing:?}: {report:#}");
        assert_eq!(report["shape"], json!([128, 128, 32, 1]), "{what}");
        assert_eq!(report["chunk_shape"], json!([32, 32, 32, 1]), "{what}");
        assert_eq!((&report["shard_shape"], &report["level"]), (&shard_shape, &json!(0)), "{what}");
        assert_eq!(report["objects_stored"], stored, "{what}");
        assert_eq!(report["objects_possible"], stored, "{what}");
        let expected = [&["whole", "shards"], chunk_loads, &["regions", "planes"]].concat();
        assert_eq!(names(&report), expected, "{what}");
        for name in ["whole", "shards", "chunks"] {
            assert_eq!(workload(&report, name)["decoded_bytes"], 16 * VOXELS, "{what}");
        }
        assert_eq!(workload(&report, "shards")["calls"], stored, "{what}");
        assert_eq!(workload(&report, "chunks")["calls"], 16, "{what}");
        if chunk_loads.len() == 2 {
            let reads = |name: &str| workload(&report, name)["store"]["reads"].as_u64().unwrap();
            // A chunk, and if it is not known yet what leads to it: a table and an index.
            assert_eq!(reads("chunks_cached"), 16, "{what}");
            assert!(reads("chunks") >= 32, "{what}");
        }
        let text = folder.text(&["bench", "v", "--only", "shards", "--repeats", "1"]);
        assert!(text.contains(if stored == 4 { "4 shards" } else { "16 chunks" }), "{text}");
    }
}

#[test]
fn writing_to_a_volume_is_measured_on_a_copy_that_is_gone_afterwards() {
    let boxes = ["--shard", "64,64,32", "--data-encoding", "raw"];
    let scattered = [
        "--hash",
        "murmurhash3_x86_128",
        "--preshift-bits",
        "0",
        "--minishard-bits",
        "1",
        "--shard-bits",
        "2",
        "--data-encoding",
        "gzip",
    ];
    for (packing, objects) in [(&boxes[..], 4), (&scattered, 16), (&["--shard", "none"], 16)] {
        let folder = volume(packing);
        let before = contents(&folder.path("v"));
        let arguments =
            ["bench", "v", "--json", "--only", "write,update", "--write", "--repeats", "1"];
        let report = folder.json(&arguments);
        assert!(contents(&folder.path("v")) == before);
        assert_eq!(folder.names(), ["in.raw", "v"]);
        let write = workload(&report, "write");
        assert_eq!((&write["calls"], &write["complete"]), (&json!(objects), &json!(true)));
        assert_eq!(write["decoded_bytes"], 16 * VOXELS);
        assert_eq!(write["store"]["creates"], objects);
        let update = workload(&report, "update");
        assert_eq!(
            (&update["calls"], &update["call_shape"]),
            (&json!(16), &json!([32, 32, 32, 1]))
        );
        assert_eq!(update["store"]["creates"], 16);
    }
}

#[test]
fn a_level_of_a_volume_is_measured_and_one_of_an_array_is_refused() {
    let folder = volume(&[]);
    let mut info: Value = serde_json::from_slice(&folder.get("v/info")).unwrap();
    let mut coarse = info["scales"][0].clone();
    coarse["key"] = "coarse".into();
    coarse["size"] = json!([64, 64, 32]);
    coarse["resolution"] = json!([16, 16, 8]);
    info["scales"].as_array_mut().unwrap().push(coarse);
    folder.put("v/info", info.to_string().as_bytes());
    folder.put("coarse.raw", &noise(64 * 64 * 32));
    folder.ok(&["write", "v", "coarse.raw", "--level", "1"]);
    let arguments = ["bench", "v", "--level", "1", "--json", "--write", "--repeats", "1"];
    let report = folder.json(&arguments);
    assert_eq!((&report["level"], &report["objects_stored"]), (&json!(1), &json!(1)));
    assert_eq!(report["shape"], json!([64, 64, 32, 1]));
    assert_eq!(workload(&report, "update")["calls"], 4);
    assert!(folder.refused(&["bench", "v", "--level", "2"]).contains("no level 2"));
    let folder = sharded();
    assert!(folder.refused(&["bench", "a", "--level", "1"]).contains("no levels"));
}

#[test]
fn chunks_of_a_volume_that_are_compressed_as_files_are_read() {
    let folder = volume(&["--shard", "none"]);
    let mut stored = 0;
    for entry in std::fs::read_dir(folder.path("v/8_8_8")).unwrap() {
        let chunk = entry.unwrap().path();
        let done = std::process::Command::new("gzip").arg(&chunk).status();
        assert!(done.unwrap().success());
        let compressed = format!("{}.gz", chunk.display());
        stored += std::fs::metadata(compressed).unwrap().len();
    }
    let report = folder.json(&["bench", "v", "--json", "--repeats", "1"]);
    assert_eq!(workload(&report, "whole")["store"]["bytes_read"], stored);
}
