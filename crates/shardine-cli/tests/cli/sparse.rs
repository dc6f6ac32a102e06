//! A grid of 78 million chunks of which one is stored. A verb that walks the grid instead of what is
//! stored takes minutes here, and the run of the tests shows it.

use crate::support::Folder;

const SHAPE: &str = "34240,34240,34240";

/// One chunk of 80^3 bytes, in the middle of nowhere.
fn sparse(folder: &Folder) -> Vec<u8> {
    folder.ok(&["create", "a", "--shape", SHAPE, "--dtype", "uint8", "--chunk", "80,80,80"]);
    let chunk: Vec<u8> = (0..80 * 80 * 80u32).map(|i| (i % 253 + 1) as u8).collect();
    folder.put("chunk.raw", &chunk);
    folder.ok(&["write", "a", "--region", "8000:8080,16000:16080,24000:24080", "chunk.raw"]);
    chunk
}

fn read(folder: &Folder, place: &[&str]) -> Vec<u8> {
    let region = ["--region", "8000:8080,16000:16080,24000:24080", "-o", "-"];
    folder.ok(&[&["read"][..], place, &region].concat())
}

#[test]
fn every_verb_walks_what_is_stored_and_not_the_grid() {
    let folder = Folder::new();
    let chunk = sparse(&folder);
    folder.ok(&["info", "a"]);
    folder.ok(&["verify", "a", "--decode"]);
    folder.ok(&["reshard", "a", "--chunks-per-shard", "4", "-o", "resharded"]);
    folder.ok(&["unshard", "resharded", "-o", "unsharded"]);
    folder.ok(&["shard", "unsharded", "--chunks-per-shard", "2"]);
    folder.ok(&["compact", "a"]);
    folder.ok(&["copy", "a", "copied"]);
    let to_volume = ["--to", "precomputed", "--resolution", "4,4,4"];
    folder.ok(&[&["convert", "a", "volume"][..], &to_volume].concat());
    folder.ok(&["info", "volume"]);
    folder.ok(&["verify", "volume", "--decode"]);
    folder.ok(&["reshard", "volume", "-o", "volume-resharded", "--target-size", "32MiB"]);
    folder.ok(&["unshard", "volume", "-o", "volume-unsharded"]);
    folder.ok(&["compact", "volume"]);
    folder.ok(&["copy", "volume", "volume-copied"]);
    folder.ok(&["convert", "volume-copied", "back"]);
    for other in ["resharded", "unsharded", "copied", "volume", "volume-unsharded"] {
        let begun = std::time::Instant::now();
        folder.ok(&["compare", "a", other]);
        assert!(begun.elapsed().as_secs() < 10, "{other}: {:?}", begun.elapsed());
    }
    for array in ["a", "resharded", "unsharded", "copied"] {
        assert_eq!(read(&folder, &[array]), chunk, "{array}");
    }
    for volume in ["volume", "volume-resharded", "volume-unsharded", "volume-copied"] {
        assert_eq!(read(&folder, &[volume]), chunk, "{volume}");
    }
    let arrays = folder.json(&["ls", "back", "--json"]);
    assert!(arrays.to_string().contains("34240"), "{arrays}");
}
