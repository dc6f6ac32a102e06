//! `repair` of precomputed volumes and of folders of values by key: what can be saved is saved, and
//! what is removed is kept.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::sync::Arc;

use common::volumes::*;
use common::{engine, noise};
use serde_json::{Value, json};
use shardine::Location;
use shardine::jobs::{
    FindingKind, Repair, RepairOptions, RepairSummary, Severity, repair as repair_all,
};
use shardine::precomputed::{KeyValueStore, KeyValues};
use shardine::store::{MemoryStore, Store};

struct Repaired {
    kinds: Vec<&'static str>,
    repairs: Vec<Repair>,
    summary: RepairSummary,
    aside: Location,
}

fn run(at: &Location, dry_run: bool, decode: bool) -> Repaired {
    let aside = Location::root(Arc::new(MemoryStore::new()));
    let options = RepairOptions::new(aside.clone()).dry_run(dry_run).decode(decode);
    let mut repairs = Vec::new();
    let summary = repair_all(&engine(), at, &options, &mut |done| repairs.push(done)).unwrap();
    let kinds = repairs.iter().map(|repair| repair.kind.name()).collect();
    Repaired { kinds, repairs, summary, aside }
}

/// All objects of a store with their bytes.
fn all(at: &Location) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![None];
    while let Some(folder) = folders.pop() {
        let listing = at.store.list(folder.as_ref()).unwrap();
        folders.extend(listing.folders.into_iter().map(Some));
        found.extend(
            listing.objects.iter().map(|(key, _)| (key.to_string(), get(at, key.as_str()))),
        );
    }
    found.sort();
    found
}

/// Repairs, after a dry run that reports the same and changes nothing; then nothing is wrong except
/// the losses.
fn mended(at: &Location, decode: bool) -> Repaired {
    let before = all(at);
    let dry = run(at, true, decode);
    assert!(all(at) == before, "a dry run changed something");
    assert_eq!(all(&dry.aside), []);
    let done = run(at, false, decode);
    assert_eq!(dry.kinds, done.kinds);
    assert_eq!(done.summary.left, 0, "{:?}", done.repairs);
    let (summary, findings) = check(at, decode);
    let damage: Vec<_> = findings.iter().filter(|f| f.severity == Severity::Damage).collect();
    assert!(damage.iter().all(|f| f.kind == FindingKind::LostChunk), "{findings:?}");
    assert_eq!(summary.lost_chunks, done.summary.lost, "{findings:?}");
    assert_eq!(damage.is_empty(), done.summary.lost == 0, "{findings:?}");
    assert_eq!(run(at, false, decode).kinds, Vec::<&str>::new());
    done
}

fn raw(shards: u32, minishards: u32) -> Location {
    let at =
        volume(&[scale("1", [32, 32, 32], Some(&sharding(0, minishards, shards, "raw", "raw")))]);
    fill(&at, 0);
    at
}

#[test]
fn what_is_sound_stays_as_it_is() {
    for sharding in shardings() {
        let at = volume(&[scale("1", [40, 32, 32], Some(&sharding))]);
        fill(&at, 0);
        let before = all(&at);
        assert_eq!(run(&at, false, true).kinds, Vec::<&str>::new());
        assert!(all(&at) == before);
    }
}

#[test]
fn a_compressed_shard_is_unwrapped() {
    let at = raw(1, 1);
    let expected = read_all(&at, 0);
    let shard = get(&at, "1/1.shard");
    put(&at, "1/1.shard.gz", &gzip(&shard));
    remove(&at, "1/1.shard");
    let done = mended(&at, true);
    assert_eq!(done.kinds, ["unwrapped"]);
    assert_eq!(get(&at, "1/1.shard"), shard);
    assert_eq!(read_all(&at, 0), expected);
    assert!(!exists(&at, "1/1.shard.gz"));
    assert_eq!(get(&done.aside, "1_1.shard.gz.bytes"), gzip(&shard));
}

#[test]
fn the_two_objects_of_the_older_form_are_joined() {
    let at = raw(1, 1);
    let shard = get(&at, "1/1.shard");
    put(&at, "1/1.index", &shard[..32]);
    put(&at, "1/1.data", &shard[32..]);
    remove(&at, "1/1.shard");
    assert_eq!(mended(&at, true).kinds, ["joined"]);
    assert_eq!(get(&at, "1/1.shard"), shard);
    assert!(!exists(&at, "1/1.index") && !exists(&at, "1/1.data"));
}

#[test]
fn zlib_becomes_gzip_with_the_same_content() {
    for index in ["raw", "gzip"] {
        let at = volume(&[scale("1", [32, 32, 32], Some(&sharding(0, 0, 0, index, "gzip")))]);
        let chunk = noise(4096, 9);
        fill(&at, 0);
        for key in 0..8 {
            with_value(&at, "1/0.shard", key, &zlib(&chunk));
        }
        assert_eq!(mended(&at, true).kinds, ["recoded"]);
        let shards = KeyValueStore::open_in(&engine(), &at, "1").unwrap();
        for key in 0..8 {
            assert_eq!(shards.get(key).unwrap().unwrap(), chunk);
        }
    }
}

#[test]
fn keys_are_moved_where_they_belong() {
    // In the same shard, and to another one.
    for (bits, minishard, key, from) in [((0, 1), 1, 6, 0), ((1, 1), 0, 2, 0), ((1, 1), 0, 7, 0)] {
        let at = raw(bits.0, bits.1);
        let expected = read_all(&at, 0);
        let own = KeyValueStore::open_in(&engine(), &at, "1").unwrap();
        let value = own.get(key).unwrap().unwrap();
        own.update(&KeyValues::new().remove(key)).unwrap();
        let object = format!("1/{from}.shard");
        with_values(&at, &object, |values| {
            values.push((minishard, key, value));
            values.sort_by_key(|(minishard, key, _)| (*minishard, *key));
        });
        assert_eq!(kinds(&at, false), ["misplaced-key"]);
        assert_eq!(mended(&at, true).kinds, ["moved"]);
        assert_eq!(read_all(&at, 0), expected);
    }
}

#[test]
fn a_key_whose_place_is_taken_is_set_aside() {
    let at = raw(1, 1);
    let expected = read_all(&at, 0);
    let stray = noise(4096, 77);
    with_values(&at, "1/0.shard", |values| values.push((1, 7, stray.clone())));
    let done = mended(&at, true);
    assert_eq!(done.kinds, ["chunk-set-aside"]);
    assert_eq!(read_all(&at, 0), expected);
    assert_eq!(get(&done.aside, "1_0.shard.chunk_1_1_1_0.bytes"), stray);
}

#[test]
fn a_shard_of_another_name_gives_what_it_has() {
    let at = raw(2, 1);
    let expected = read_all(&at, 0);
    let shard = get(&at, "1/1.shard");
    remove(&at, "1/1.shard");
    put(&at, "1/9.shard", &shard);
    let done = mended(&at, true);
    assert_eq!(done.kinds, ["moved", "moved", "object-set-aside"]);
    assert_eq!(read_all(&at, 0), expected);
    assert_eq!(get(&done.aside, "1_9.shard.bytes"), shard);
}

#[test]
fn info_is_corrected_where_it_disagrees_with_every_value() {
    for (data, said) in [("raw", "gzip"), ("gzip", "raw")] {
        let at = volume(&[
            scale("1", [32, 32, 32], Some(&sharding(0, 1, 1, "raw", said))),
            scale("2", [16, 16, 16], Some(&sharding(0, 1, 1, "raw", data))),
        ]);
        fill(&at, 0);
        fill(&at, 1);
        edit_info(&at, |info| info["provenance"] = json!({"kept": [1, 2.5]}));
        let info = get(&at, "info");
        edit_info(&at, |info| info["scales"][0]["sharding"]["data_encoding"] = json!(data));
        let wrong = get(&at, "info");
        let done = mended(&at, true);
        assert_eq!(done.kinds, ["info-corrected"]);
        let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        assert_eq!(parse(&get(&at, "info")), parse(&info));
        assert_eq!(get(&done.aside, "info.bytes"), wrong);
    }
}

#[test]
fn values_stored_otherwise_are_stored_as_info_says() {
    let raw_chunk = noise(4096, 3);
    let at = volume(&[scale("1", [32, 32, 32], Some(&sharding(0, 0, 0, "raw", "gzip")))]);
    fill(&at, 0);
    with_value(&at, "1/0.shard", 4, &raw_chunk);
    assert_eq!(mended(&at, true).kinds, ["recoded"]);
    let at2 = raw(0, 0);
    with_value(&at2, "1/0.shard", 4, &gzip(&raw_chunk));
    assert_eq!(mended(&at2, true).kinds, ["recoded"]);
    for at in [at, at2] {
        let own = KeyValueStore::open_in(&engine(), &at, "1").unwrap();
        assert_eq!(own.get(4).unwrap().unwrap(), raw_chunk);
    }
}

#[test]
fn bad_entries_are_dropped_and_kept_aside() {
    let table = 16;
    for (start, len) in
        [(1 << 40, 4096), (u64::MAX - 5, 4096), (3, 4096), (table, 0), (table + 7 * 4096, 4095)]
    {
        let at = raw(0, 0);
        let before = get(&at, "1/0.shard");
        let others = KeyValueStore::open_in(&engine(), &at, "1").unwrap();
        let expected: Vec<_> = (0..7).map(|key| others.get(key).unwrap()).collect();
        with_index(&at, "1/0.shard", |entries| entries[7] = (7, start, len));
        let done = mended(&at, false);
        assert_eq!(done.kinds, ["chunk-set-aside"]);
        let others = KeyValueStore::open_in(&engine(), &at, "1").unwrap();
        assert_eq!((0..7).map(|key| others.get(key).unwrap()).collect::<Vec<_>>(), expected);
        assert_eq!(others.get(7).unwrap(), None);
        if len > 0 && start < before.len() as u64 {
            // The index itself was changed.
            let kept = get(&done.aside, "1_0.shard.chunk_1_1_1_0.bytes");
            assert_eq!(kept.len() as u64, len);
        }
    }
}

#[test]
fn duplicates_go_and_the_first_stays() {
    let at = raw(0, 0);
    let stray = noise(4096, 77);
    let expected = read_all(&at, 0);
    with_values(&at, "1/0.shard", |values| values.insert(3, (0, 2, stray.clone())));
    let done = mended(&at, true);
    assert_eq!(done.kinds, ["chunk-set-aside"]);
    assert_eq!(read_all(&at, 0), expected);
    assert_eq!(get(&done.aside, "1_0.shard.chunk_0_1_0_0.bytes"), stray);
    with_values(&at, "1/0.shard", |values| values.reverse());
    assert_eq!(mended(&at, true).kinds, ["reordered"]);
    assert_eq!(read_all(&at, 0), expected);
    assert_eq!(kinds(&at, true), Vec::<&str>::new());
}

#[test]
fn a_lost_index_leaves_the_other_minishards() {
    let at = raw(0, 1);
    let mut shard = get(&at, "1/0.shard");
    // The index of the first minishard ends beyond the data.
    shard[15] = 0x7f;
    put(&at, "1/0.shard", &shard);
    let done = mended(&at, false);
    assert_eq!(done.kinds, ["index-set-aside"]);
    assert_eq!(get(&done.aside, "1_0.shard.bytes"), shard);
    let own = KeyValueStore::open_in(&engine(), &at, "1").unwrap();
    let keys: Vec<bool> = (0..8).map(|key| own.get(key).unwrap().is_some()).collect();
    assert_eq!(keys, [false, true, false, true, false, true, false, true]);
}

#[test]
fn a_shard_shorter_than_its_table_is_set_aside_whole() {
    let at = raw(0, 2);
    put(&at, "1/0.shard", &[1; 20]);
    let done = mended(&at, false);
    assert_eq!(done.kinds, ["object-set-aside"]);
    assert_eq!(get(&done.aside, "1_0.shard.bytes"), [1; 20]);
    assert!(!exists(&at, "1/0.shard"));
}

#[test]
fn a_chunk_that_cannot_be_decoded_is_set_aside() {
    let at = volume(&[scale("1", [32, 32, 32], Some(&sharding(0, 0, 0, "gzip", "gzip")))]);
    fill(&at, 0);
    with_values(&at, "1/0.shard", |values| values[6].2.truncate(200));
    assert_eq!(run(&at, true, false).kinds, Vec::<&str>::new());
    let done = mended(&at, true);
    assert_eq!(done.kinds, ["chunk-set-aside"]);
    assert_eq!(get(&done.aside, "1_0.shard.chunk_0_1_1_0.bytes").len(), 200);
}

#[test]
fn damaged_chunks_that_are_objects_are_set_aside() {
    let at = volume(&[scale("1", [32, 32, 32], None)]);
    fill(&at, 0);
    put(&at, "1/0-16_0-16_0-16", &[5; 99]);
    let done = mended(&at, true);
    assert_eq!(done.kinds, ["object-set-aside"]);
    assert_eq!(get(&done.aside, "1_0-16_0-16_0-16.chunk_0_0_0_0.bytes"), [5; 99]);
}

#[test]
fn what_cannot_be_mended_is_left_and_told() {
    let at = raw(1, 1);
    let shard = get(&at, "1/1.shard");
    remove(&at, "1/1.shard");
    put(&at, "1/1.shard.br", &shard);
    let done = run(&at, false, false);
    assert_eq!((done.kinds.as_slice(), done.summary.left), (&["left"][..], 1));
    put(&at, "info", b"{");
    assert_eq!(run(&at, false, false).kinds, ["left"]);
}

#[test]
fn meshes_keep_their_fragments_when_a_neighbour_is_mended() {
    let at = near();
    let info = json!({"@type": "neuroglancer_multilod_draco", "sharding": sharding(0, 0, 1, "gzip", "gzip")});
    put(&at, "info", info.to_string().as_bytes());
    let manifest = |bytes: u32| -> Vec<u8> {
        let words = [&[0u32; 6][..], &[1], &[0; 4], &[1], &[0, 0, 0, bytes]].concat();
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    let fragments = |key: u64| vec![key as u8 + 1; key as usize * 10 + 5];
    let mesh = |key: u64| manifest(fragments(key).len() as u32);
    let store = KeyValueStore::open(&engine(), &at).unwrap();
    let values = (0..20)
        .fold(KeyValues::new(), |values, key| values.put_mesh(key, mesh(key), fragments(key)));
    store.update(&values).unwrap();
    // The shard of the odd keys under another name, and something that is not a manifest.
    let shard = get(&at, "1.shard");
    remove(&at, "1.shard");
    put(&at, "3.shard", &shard);
    let done = mended(&at, true);
    assert_eq!(done.kinds.last(), Some(&"object-set-aside"));
    let store = KeyValueStore::open(&engine(), &at).unwrap();
    for key in 0..20 {
        assert_eq!(store.get(key).unwrap().unwrap(), mesh(key));
        assert_eq!(store.get_fragments(key).unwrap().unwrap(), fragments(key));
    }
}

#[test]
fn a_scale_that_disagrees_with_info_as_a_whole_is_left() {
    let gzip = || {
        let at = volume(&[scale("1", [32, 32, 32], Some(&sharding(0, 1, 1, "gzip", "gzip")))]);
        fill(&at, 0);
        at
    };
    let boxes = || {
        let at = volume(&[scale("1", [32, 32, 32], None)]);
        fill(&at, 0);
        at
    };
    let wide = |info: &mut Value| info["data_type"] = "uint16".into();
    let large = |info: &mut Value| info["scales"][0]["chunk_sizes"] = json!([[32, 32, 32]]);
    let encoded = |info: &mut Value| info["scales"][0]["encoding"] = "png".into();
    type Edit<'a> = &'a dyn Fn(&mut Value);
    let cases: [(Location, Edit<'_>, bool); 7] = [
        (raw(1, 1), &wide, false),
        (raw(1, 1), &wide, true),
        (raw(1, 1), &large, false),
        (gzip(), &wide, true),
        (raw(1, 1), &encoded, true),
        (boxes(), &wide, false),
        (boxes(), &encoded, true),
    ];
    for (number, (at, edit, decode)) in cases.into_iter().enumerate() {
        edit_info(&at, edit);
        let before = all(&at);
        for dry_run in [true, false] {
            let done = run(&at, dry_run, decode);
            assert!(all(&at) == before, "case {number}");
            assert_eq!(all(&done.aside), []);
            assert!(done.kinds.iter().all(|kind| *kind == "left"), "{number}: {:?}", done.repairs);
            let about_info = done.repairs.iter().any(|repair| repair.message.contains("`info`"));
            assert!(about_info && done.summary.left > 1, "{number}: {:?}", done.repairs);
        }
    }
}

#[test]
fn what_comes_out_of_a_compressed_shard_is_not_set_aside_for_a_wrong_info() {
    let at = raw(0, 1);
    let shard = get(&at, "1/0.shard");
    remove(&at, "1/0.shard");
    put(&at, "1/0.shard.gz", &gzip(&shard));
    edit_info(&at, |info| info["data_type"] = "uint16".into());
    let done = run(&at, false, false);
    assert_eq!((done.kinds[0], get(&at, "1/0.shard")), ("unwrapped", shard));
    assert!(done.kinds[1..].iter().all(|kind| *kind == "left"));
}

#[test]
fn a_compressed_shard_beside_the_plain_one_is_left() {
    let at = raw(1, 1);
    put(&at, "1/1.shard.gz", &gzip(&get(&at, "1/1.shard")));
    let before = all(&at);
    for dry_run in [true, false] {
        let done = run(&at, dry_run, true);
        assert_eq!((done.kinds.as_slice(), done.summary.left), (&["left"][..], 1));
        assert!(all(&at) == before);
    }
}

#[test]
fn keys_with_the_same_manifest_keep_its_fragments() {
    let at = near();
    let sharding = sharding(0, 0, 0, "raw", "raw");
    let info = json!({"@type": "neuroglancer_multilod_draco", "sharding": sharding});
    put(&at, "info", info.to_string().as_bytes());
    let fragments = noise(50, 1);
    let words = [&[0u32; 6][..], &[1], &[0; 4], &[1], &[0, 0, 0, 50]].concat();
    let manifest: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let first = [fragments.clone(), manifest.clone()].concat();
    let values = [(0, 0, first), (0, 1, Vec::new()), (0, 2, vec![7; 10])];
    put(&at, "0.shard", &built(0, false, &values));
    with_index(&at, "0.shard", |entries| {
        let (start, len) = (entries[0].1 + 50, manifest.len() as u64);
        entries[0] = (0, start, len);
        entries[1] = (1, start, len);
    });
    // The last is not a manifest, so the shard is rewritten.
    assert_eq!(mended(&at, false).kinds, ["chunk-set-aside"]);
    let store = KeyValueStore::open(&engine(), &at).unwrap();
    for key in [0, 1] {
        assert_eq!(store.get(key).unwrap().unwrap(), manifest);
        assert_eq!(store.get_fragments(key).unwrap().unwrap(), fragments);
    }
}
