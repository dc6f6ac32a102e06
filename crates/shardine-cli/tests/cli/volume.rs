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
    assert!(folder.text(&["shard", "v"]).contains("already"));
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
    assert!(folder.refused(&["reshard", "v", "--codec", "zstd:3"]).contains("Zarr"));
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
