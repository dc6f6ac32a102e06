use serde_json::{Value, json};

use crate::support::Folder;

/// A volume with two scales of the same data, cut off at their ends.
fn volume(folder: &Folder) -> Value {
    let scale = |key: &str, sharding: Value| {
        json!({
            "key": key, "size": [10, 9, 8], "resolution": [8, 8, 40], "voxel_offset": [5, -5, 0],
            "chunk_sizes": [[4, 4, 4]], "encoding": "raw", "sharding": sharding,
        })
    };
    let sharding = json!({
        "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 1, "hash": "identity",
        "minishard_bits": 1, "shard_bits": 3, "data_encoding": "gzip",
    });
    let info = json!({
        "type": "image", "data_type": "uint8", "num_channels": 1, "provenance": {"by": "hand"},
        "scales": [scale("8_8_40", sharding), scale("other", Value::Null)],
    });
    folder.put("info.json", info.to_string().as_bytes());
    folder.ok(&["create", "volume", "--metadata", "info.json"]);
    let voxels: Vec<u8> = (0..720u32).map(|i| (i * i % 251) as u8 + 1).collect();
    folder.put("in.raw", &voxels);
    for level in ["0", "1"] {
        folder.ok(&["write", "volume", "in.raw", "--level", level]);
    }
    info
}

#[test]
fn a_volume_becomes_a_group_and_a_volume_again() {
    let folder = Folder::new();
    let info = volume(&folder);
    let report = folder.json(&["convert", "volume", "image.zarr", "--json"]);
    for level in 0..2 {
        let level = &report["levels"][level];
        // 2 of 3, 2 of 3 and 2 of 2 chunks are whole.
        assert_eq!((&level["chunks_moved"], &level["chunks_recoded"]), (&json!(8), &json!(10)));
        assert_eq!(level["verified"], "content");
    }
    for name in ["image.zarr/8_8_40", "image.zarr/other"] {
        assert_eq!(folder.ok(&["read", name, "-o", "-"]), folder.get("in.raw"));
        folder.ok(&["verify", name, "--decode"]);
    }
    let arguments = ["convert", "image.zarr", "back", "--to", "precomputed"];
    let text = folder.text(&arguments);
    assert!(text.contains("info: taken unchanged from the group"), "{text}");
    assert!(text.contains("2 levels: 16 chunks moved, 20 re-encoded, 0 absent"), "{text}");
    let back: Value = serde_json::from_slice(&folder.get("back/info")).unwrap();
    assert_eq!(back, info);
    assert_eq!(folder.get("back/8_8_40/0.shard"), folder.get("volume/8_8_40/0.shard"));
    assert!(folder.refused(&arguments).contains("already exists"));
    folder.ok(&[&arguments[..], &["--overwrite"]].concat());
    assert!(!folder.exists("back/.shardine-convert.json"));
}

#[test]
fn an_array_becomes_the_volume_that_the_flags_say() {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "8,8,8", "--dtype", "uint32", "--chunk", "4,4,4", "--dims",
        "z,y,x", "--codec", "gzip:1",
    ]);
    folder.put("in.raw", &(0..512u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    folder.ok(&["write", "a", "in.raw"]);
    let arguments = [
        "convert",
        "a",
        "v",
        "--to",
        "precomputed",
        "--resolution",
        "4,4.5,40",
        "--voxel-offset",
        "-1,2,3",
        "--shard",
        "8,8,4",
        "--type",
        "image",
        "--json",
    ];
    let report = folder.json(&arguments);
    assert_eq!(report["info"], "new");
    assert_eq!(report["levels"][0]["chunks_moved"], 8);
    assert_eq!(report["levels"][0]["shard"], json!([8, 8, 4, 1]));
    let info: Value = serde_json::from_slice(&folder.get("v/info")).unwrap();
    assert_eq!(info["type"], "image");
    let scale = &info["scales"][0];
    assert_eq!(scale["key"], "4_4.5_40");
    assert_eq!(scale["voxel_offset"], json!([-1, 2, 3]));
    assert_eq!(scale["sharding"]["data_encoding"], "gzip");
    // The voxel at x 1, y 2, z 3 is the element at 3, 2, 1.
    let voxel = folder.ok(&["read", "v", "--region", "1,2,3", "-o", "-"]);
    assert_eq!(voxel, (3 * 64 + 2 * 8 + 1u32).to_le_bytes());
    folder.ok(&[
        "convert",
        "a",
        "plain",
        "--to",
        "precomputed",
        "--shard",
        "none",
        "--chunk",
        "8,8,8",
    ]);
    assert!(folder.exists("plain/1_1_1/0-8_0-8_0-8"));
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let folder = Folder::new();
    volume(&folder);
    folder.ok(&["create", "a", "--shape", "8,8,8", "--dtype", "int64"]);
    folder.ok(&["create", "b", "--shape", "8,8,8", "--dtype", "uint8"]);
    for (arguments, said) in [
        (&["convert", "a", "v", "--to", "precomputed"][..], "int64"),
        (&["convert", "volume", "v", "--to", "precomputed"], "already"),
        (&["convert", "b", "v", "--to", "precomputed", "--codec", "zstd:1"], "--codec"),
        (&["convert", "b", "v", "--to", "precomputed", "--encoding", "tiff"], "tiff"),
        (&["convert", "b", "v", "--resolution", "1,1,1"], "--resolution"),
        (&["convert", "volume", "v", "--type", "image"], "--type"),
        (&["convert", "in.raw", "v", "--to", "precomputed"], "--to precomputed"),
        (&["convert", "nothing", "v", "--to", "precomputed"], "nothing"),
    ] {
        let errors = folder.refused(arguments);
        assert!(errors.contains(said), "{errors}");
        assert!(!folder.exists("v"), "{errors}");
    }
    let text = folder.text(&["convert", "b", "v", "--to", "precomputed"]);
    assert!(text.contains("the axes have no names, assumed to be x, y, z"), "{text}");
}

#[test]
fn an_info_that_is_wrong_is_told() {
    let folder = Folder::new();
    volume(&folder);
    let mut info: Value = serde_json::from_slice(&folder.get("volume/info")).unwrap();
    info["data_type"] = json!("complex7");
    folder.put("volume/info", info.to_string().as_bytes());
    for arguments in
        [&["convert", "volume", "new"][..], &["convert", "volume", "new", "--to", "precomputed"]]
    {
        let said = folder.refused(arguments);
        assert!(said.contains("complex7"), "{said}");
    }
    assert!(!folder.exists("new"));
}

#[test]
fn lengths_that_add_up_to_more_than_there_can_be_are_told() {
    let folder = Folder::new();
    let info = json!({
        "type": "image", "data_type": "uint8", "num_channels": 1,
        "scales": [{
            "key": "1", "size": [8, 4, 4], "resolution": [1, 1, 1], "chunk_sizes": [[4, 4, 4]],
            "encoding": "raw", "sharding": {
                "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 0, "hash": "identity",
                "minishard_bits": 0, "shard_bits": 0,
            },
        }],
    });
    std::fs::create_dir_all(folder.path("volume/1")).unwrap();
    folder.put("volume/info", info.to_string().as_bytes());
    // Where the index is; then two keys, where their values begin, both at the same place, and how long they are.
    let half = 1u64 << 63;
    let words = [0, 48, 0, 1, 0, half, half, half];
    let shard: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    folder.put("volume/1/0.shard", &shard);
    for arguments in [&["info", "volume"][..], &["ls", "volume", "--shards"]] {
        let output = folder.run(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
    }
}
