use serde_json::json;

use crate::support::{Folder, npy};

/// A volume of 100 x 50 x 20 voxels of 1 in a box, in shards.
fn volume(folder: &Folder) {
    folder.ok(&[
        "create",
        "v",
        "--to",
        "precomputed",
        "--shape",
        "100,50,20",
        "--dtype",
        "uint8",
        "--chunk",
        "32,32,16",
        "--resolution",
        "8,8,40.5",
        "--voxel-offset",
        "-3,0,7",
        "--shard",
        "64,64,32",
    ]);
    // A volume of one channel takes files of three axes, in either order.
    folder.put("part.npy", &npy(1, "'|u1'", true, "(60, 50, 20)", &[1; 60 * 50 * 20]));
    folder.ok(&["write", "v", "--region", "0:60", "part.npy"]);
}

#[test]
fn a_volume_is_made_written_described_and_packed_anew() {
    let folder = Folder::new();
    volume(&folder);
    let info = folder.json(&["info", "v", "--json"]);
    assert_eq!((&info["format"], &info["channels"]), (&json!("precomputed"), &json!(1)));
    let level = &info["levels"][0];
    assert_eq!(level["key"], "8_8_40.5");
    assert_eq!(level["voxel_offset"], json!([-3, 0, 7]));
    assert_eq!((&level["stored"]["chunks"], &level["stored"]["objects"]), (&json!(8), &json!(1)));
    let whole = folder.ok(&["read", "v", "-o", "-"]);
    assert_eq!(whole.len(), 100 * 50 * 20);
    assert_eq!(whole.iter().map(|&n| u64::from(n)).sum::<u64>(), 60 * 50 * 20);

    let text =
        folder.text(&["reshard", "v", "--hash", "murmurhash3_x86_128", "--data-encoding", "raw"]);
    assert!(text.contains("0 chunks moved, 8 compressed or decompressed"), "{text}");
    assert_eq!(folder.ok(&["read", "v", "-o", "-"]), whole);
    let text = folder.text(&["unshard", "v"]);
    assert!(text.contains("8 chunks moved, 0 compressed"), "{text}");
    assert!(folder.exists("v/8_8_40.5/-3-29_0-32_7-23"));
    let text = folder.text(&["shard", "v", "--chunks-per-shard", "2"]);
    assert!(text.contains("preshift 3"), "{text}");
    assert!(folder.text(&["shard", "v"]).contains("unchanged"));
    assert_eq!(folder.ok(&["read", "v", "-o", "-"]), whole);
    folder.ok(&["verify", "v", "--decode"]);
    let plan = folder.json(&["plan", "v", "--json"]);
    assert_eq!(plan["scales"][0]["reasons"].as_array().unwrap().len(), 4);

    assert!(
        folder
            .refused(&["write", "v", "part.npy", "--region", "0:60", "--strategy", "in-place"])
            .contains("checksum")
    );
    assert!(folder.refused(&["append", "v", "part.npy"]).contains("precomputed volume"));
    assert!(folder.refused(&["read", "v", "--level", "1"]).contains("no level 1"));
    assert!(folder.refused(&["reshard", "v", "--codec", "zstd:3"]).contains("shardine convert"));
}

#[test]
fn keys_are_put_got_listed_and_removed() {
    let folder = Folder::new();
    volume(&folder);
    let listed = folder.text(&["kv", "ls", "v/8_8_40.5", "--json"]);
    assert_eq!(listed.lines().count(), 8);
    let chunk = folder.ok(&["kv", "get", "v/8_8_40.5", "0"]);
    assert_eq!(chunk, vec![1; 32 * 32 * 16]);
    folder.put("nines", &[9; 32 * 32 * 16]);
    folder.ok(&["kv", "put", "v/8_8_40.5", "0=nines"]);
    assert_eq!(folder.ok(&["read", "v", "--region", "31,31,15", "-o", "-"]), [9]);
    assert_eq!(folder.ok(&["read", "v", "--region", "32,31,15", "-o", "-"]), [1]);
    folder.ok(&["kv", "rm", "v/8_8_40.5", "0"]);
    assert!(folder.refused(&["kv", "get", "v/8_8_40.5", "0"]).contains("has no key 0"));
    assert!(folder.refused(&["kv", "ls", "v"]).contains("--sharding"));
}

/// A volume of chunks that are never decoded, each a file; with gzip around them, if asked for.
fn encoded_volume(
    folder: &Folder,
    name: &str,
    encoding: &str,
    wrapped: bool,
    repeats: bool,
) -> u64 {
    let scale = json!({
        "key": "8", "size": [128, 128, 64], "resolution": [8, 8, 8], "voxel_offset": [0, 0, 0],
        "chunk_sizes": [[32, 32, 32]], "encoding": encoding, "jpeg_quality": 75,
    });
    let info = json!({
        "@type": "neuroglancer_multiscale_volume", "type": "segmentation", "data_type": "uint8",
        "num_channels": 1, "scales": [scale],
    });
    std::fs::create_dir_all(folder.path(&format!("{name}/8"))).unwrap();
    folder.put(&format!("{name}/info"), info.to_string().as_bytes());
    let (mut state, mut bytes) = (1u64, 0);
    for (x, y, z) in (0..32).map(|i| (i % 4, i / 4 % 4, i / 16)) {
        let [x0, y0, z0] = [x * 32, y * 32, z * 32];
        let file = format!("{name}/8/{x0}-{}_{y0}-{}_{z0}-{}", x0 + 32, y0 + 32, z0 + 32);
        let chunk: Vec<u8> = (0..4096)
            .map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if repeats { (i / 64) as u8 } else { (state >> 56) as u8 }
            })
            .collect();
        folder.put(&file, &chunk);
        if wrapped {
            let path = folder.path(&file);
            assert!(std::process::Command::new("gzip").arg(&path).status().unwrap().success());
            bytes += folder.path(&format!("{file}.gz")).metadata().unwrap().len();
        } else {
            bytes += chunk.len() as u64;
        }
    }
    bytes
}

/// Bytes of all files below a folder.
fn bytes_in(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn values_are_compressed_where_that_pays_and_the_report_says_why() {
    let folder = Folder::new();
    for (name, wrapped) in [("wrapped", true), ("plain", false)] {
        let before = encoded_volume(&folder, name, "compresso", wrapped, true);
        let told = folder.text(&["shard", name, "--dry-run"]);
        assert!(told.contains("data gzip: 16 chunks took 64 KiB raw, and"), "{told}");
        let report = folder.json(&["shard", name, "--json"]);
        let scale = &report["scales"][0];
        assert_eq!(scale["sharding"]["data_encoding"], "gzip");
        assert_eq!(
            (&scale["measured"]["chunks"], &scale["measured"]["raw_bytes"]),
            (&json!(16), &json!(65536))
        );
        let after = bytes_in(&folder.path(&format!("{name}/8")));
        // The index is small beside the chunks.
        assert!(after < before + 4096, "{name}: {before} became {after}");
        // What was decided once stays so.
        assert!(folder.text(&["shard", name]).contains("unchanged"));
        let told = folder.text(&["reshard", name, "--chunks-per-shard", "2"]);
        assert!(told.contains("data gzip") && !told.contains("took"), "{told}");
    }
    // What does not shrink stays raw, and so does what was asked for.
    encoded_volume(&folder, "noise", "jpeg", false, false);
    let told = folder.text(&["shard", "noise"]);
    assert!(told.contains("data raw") && told.contains("with gzip"), "{told}");
    encoded_volume(&folder, "said", "compresso", false, true);
    let told = folder.text(&["shard", "said", "--data-encoding", "raw"]);
    assert!(told.contains("data raw") && !told.contains("took"), "{told}");
}
