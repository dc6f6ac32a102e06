//! Arrays on real object stores: what they cost in requests, and that they hold what was written.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use common::ome5::mendable;
use common::*;
use serde_json::json;
use shardine::jobs::{RepairKind, RepairOptions, VerifyOptions, repair, verify};
use shardine::precomputed::Volume;
use shardine::store::{Condition, Key, StoreExt};
use shardine::{ArrayNode, Elements, Location, Region, StoreOptions, Strategy, WriteOptions};
use shardine_testbed::{Azurite, Nginx, NginxOptions, Proxy, ProxyOptions, SeaweedFs};

const BUCKET: &str = "arrays";

fn seaweed() -> &'static SeaweedFs {
    static MADE: OnceLock<()> = OnceLock::new();
    let server = SeaweedFs::shared().unwrap();
    MADE.get_or_init(|| server.create_bucket(BUCKET).unwrap());
    server
}

fn proxy() -> Proxy {
    Proxy::start(seaweed().addr(), ProxyOptions::default()).unwrap()
}

fn fresh() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn s3(proxy: &Proxy, name: &str) -> Location {
    let options = StoreOptions::new()
        .with("aws_endpoint", &proxy.url())
        .with("aws_access_key_id", SeaweedFs::ACCESS_KEY)
        .with("aws_secret_access_key", SeaweedFs::SECRET_KEY)
        .with("aws_region", SeaweedFs::REGION);
    Location::with_options(&format!("s3://{BUCKET}/{name}"), &options).unwrap()
}

fn azure(name: &str) -> Location {
    static MADE: OnceLock<()> = OnceLock::new();
    let server = Azurite::shared().unwrap();
    MADE.get_or_init(|| server.create_container(BUCKET).unwrap());
    let options = StoreOptions::new()
        .with("azure_storage_account_name", Azurite::ACCOUNT)
        .with("azure_storage_account_key", Azurite::KEY)
        .with("azure_storage_endpoint", &server.endpoint());
    Location::with_options(&format!("az://{BUCKET}/{name}"), &options).unwrap()
}

/// Requests for anything but metadata.
fn for_shards(proxy: &Proxy) -> usize {
    proxy.count_where(|request| !request.path().ends_with("zarr.json"))
}

/// A shard of 8 x 8 x 8 chunks of 64 KiB that do not compress.
fn volume(location: &Location, index: &str) -> ArrayNode {
    let mut sharding = sharding(&[32, 32, 32], json!([bytes(), zstd()]));
    sharding["configuration"]["index_location"] = index.into();
    let codecs = json!([sharding]);
    let document = document(&[256, 256, 256], &[256, 256, 256], "uint16".into(), 0.into(), codecs);
    let array = ArrayNode::create(&engine(), location, metadata(&document)).unwrap();
    // Chunks take all of their 64 KiB.
    let elements: Vec<u8> =
        noise(256 * 256 * 256 * 4, 1).chunks(2).map(|pair| pair[0] ^ (pair[1] >> 1)).collect();
    write(&array, ":,:,:", elements);
    array
}

#[test]
fn reads_cost_the_requests_that_they_must() {
    let proxy = proxy();
    for index in ["start", "end"] {
        let array = volume(&s3(&proxy, &fresh()), index);
        let expected = read(&array, "0:128,128:256,0:128");
        let array = reopen(&array);
        proxy.reset();
        read(&array, "96:128,0:32,128:160");
        assert_eq!(for_shards(&proxy), 2, "a chunk of a cold shard");
        proxy.reset();
        read(&array, "64:96,32:64,0:32");
        assert_eq!(proxy.count(), 1, "another chunk of it");
        let array = reopen(&array);
        proxy.reset();
        assert!(read(&array, "0:128,128:256,0:128") == expected);
        assert!(for_shards(&proxy) <= 3, "{} for 4 x 4 x 4 chunks", for_shards(&proxy));
    }
}

/// The same elements in the same chunks, as a sharded Zarr array and as a sharded volume with this
/// many minishards (in bits) in each shard of 4 x 4 x 4 chunks.
fn array_and_volume(proxy: &Proxy, minishard_bits: u32) -> (ArrayNode, Volume) {
    let data = noise(256 * 256 * 256, 5);
    let codecs = json!([sharding(&[32, 32, 32, 1], json!([bytes()]))]);
    let (shape, shard) = ([256, 256, 256, 1], [128, 128, 128, 1]);
    let document = document(&shape, &shard, "uint8".into(), 0.into(), codecs);
    let array = ArrayNode::create(&engine(), &s3(proxy, &fresh()), metadata(&document));
    let array = array.unwrap();
    write(&array, "", data.clone());
    let scale = json!({
        "key": "s0", "size": [256, 256, 256], "resolution": [1, 1, 1],
        "chunk_sizes": [[32, 32, 32]], "encoding": "raw",
        "sharding": {
            "@type": "neuroglancer_uint64_sharded_v1", "hash": "identity",
            "preshift_bits": 6 - minishard_bits, "minishard_bits": minishard_bits, "shard_bits": 3
        }
    });
    let at = volumes::volume_at(&s3(proxy, &fresh()), &[scale]);
    let volume = Volume::open(&engine(), &at).unwrap();
    write(&volume.array(0).unwrap(), "", data);
    (array, volume)
}

#[test]
fn a_plane_of_a_sharded_volume_costs_the_requests_of_a_sharded_array_and_its_indexes() {
    let proxy = proxy();
    for minishard_bits in [0, 3] {
        let (array, volume) = array_and_volume(&proxy, minishard_bits);
        for (region, shards) in [(":,:,40", 4), (":,7,:", 4), ("250,:,:", 4), ("", 8)] {
            let array = reopen(&array);
            proxy.reset();
            let expected = read(&array, region);
            let of_array = proxy.count();
            let opened = Volume::open(&engine(), volume.location()).unwrap().array(0).unwrap();
            proxy.reset();
            assert!(read(&opened, region) == expected, "{region}");
            let of_volume = proxy.count();
            println!(
                "{minishard_bits} bits, \"{region}\": {of_volume} requests, {of_array} of an array"
            );
            // A table and the indexes, read together, for each shard; an array has one index.
            let most = of_array + 2 * shards;
            assert!(of_volume <= most, "{region}: {of_volume} requests, {of_array} of an array");
        }
    }
}

#[test]
fn a_small_shard_costs_one_request() {
    let proxy = proxy();
    let location = s3(&proxy, &fresh());
    let document = sharded(&[64, 64], &[64, 64], &[16, 16]);
    let array = ArrayNode::create(&engine(), &location, metadata(&document)).unwrap();
    let model = noise(64 * 64 * 2, 2);
    write(&array, ":,:", model.clone());
    for (rows, columns) in [(0..16, 0..16), (0..64, 0..64), (3..50, 20..30)] {
        let array = reopen(&array);
        proxy.reset();
        let region = format!("{}:{},{}:{}", rows.start, rows.end, columns.start, columns.end);
        let elements = read(&array, &region);
        assert_eq!(for_shards(&proxy), 1, "{region}");
        let expected: Vec<u8> = rows
            .flat_map(|row| &model[(row * 64 + columns.start) * 2..(row * 64 + columns.end) * 2])
            .copied()
            .collect();
        assert!(elements == expected, "{region}");
    }
}

#[test]
fn many_regions_cost_one_index_for_each_shard() {
    let proxy = proxy();
    let location = s3(&proxy, &fresh());
    let document = sharded(&[512, 512], &[256, 256], &[16, 16]);
    let array = ArrayNode::create(&engine(), &location, metadata(&document)).unwrap();
    write(&array, ":,:", noise(512 * 512 * 2, 3));
    let regions: Vec<Region> = (0..40)
        .map(|i| {
            let (y, x) = (i * 37 % 500, i * 91 % 480);
            format!("{y}:{},{x}:{}", y + 9, x + 30).parse().unwrap()
        })
        .collect();
    let one_by_one: Vec<Elements> =
        regions.iter().map(|r| array.read_elements(r).unwrap()).collect();
    let array = reopen(&array);
    proxy.reset();
    let together = array.read_many_elements(&regions).unwrap();
    for (one, other) in one_by_one.iter().zip(&together) {
        assert!(matches!((one, other), (Elements::Fixed(a), Elements::Fixed(b)) if a == b));
    }
    assert!(for_shards(&proxy) < 40, "{} requests", for_shards(&proxy));
    assert_eq!(array.read_many_elements(&[]).unwrap().len(), 0);
}

#[test]
fn what_another_writer_puts_where_nothing_was_is_seen() {
    let proxy = proxy();
    let location = s3(&proxy, &fresh());
    let document = sharded(&[64, 64], &[64, 64], &[16, 16]);
    let array = ArrayNode::create(&engine(), &location, metadata(&document)).unwrap();
    write(&array, "0:16,0:16", noise(16 * 16 * 2, 1));
    // The index that says so is cached from now on.
    assert!(read(&array, "32:48,32:48").iter().all(|&byte| byte == 0));
    let other = reopen(&array);
    let elements = noise(16 * 16 * 2, 2);
    write(&other, "32:48,32:48", elements.clone());
    assert!(read(&array, "32:48,32:48") == elements);
    other.location().store.delete(&Key::new("c/0/0").unwrap(), &Default::default()).unwrap();
    assert!(read(&array, "32:48,32:48").iter().all(|&byte| byte == 0));
}

#[test]
fn a_write_that_fails_leaves_nothing_on_its_way() {
    let proxy = proxy();
    let location = s3(&proxy, &fresh());
    let document = sharded(&[64 * 8, 64], &[64, 64], &[16, 16]);
    let array = ArrayNode::create(&engine(), &location, metadata(&document)).unwrap();
    // The first objects take long to store; a later one is unavailable.
    proxy.set_latency(std::time::Duration::from_millis(300));
    let generate = |start: &[u64], shape: &[u64], out: &mut [u8]| {
        if start[0] + shape[0] > 64 * 7 {
            return Err("it cannot be had".into());
        }
        out.fill(7);
        Ok(())
    };
    let source = shardine::GeneratorSource::new(2, generate);
    array.write_from(Region::all(), &source, &WriteOptions::new()).unwrap_err();
    let stored = proxy.count_of("PUT");
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert_eq!(proxy.count_of("PUT"), stored, "something was written afterwards");
}

/// Writes, updates, empties and reads again, and compares with a model.
fn goes_through_its_life(location: &Location, shard: u64) {
    let document = sharded(&[2 * shard, shard], &[shard, shard], &[shard / 4, shard / 4]);
    let array = ArrayNode::create(&engine(), location, metadata(&document)).unwrap();
    let (rows, columns) = (2 * shard as usize, shard as usize);
    let mut model = noise(rows * columns * 2, 7);
    write(&array, ":,:", model.clone());
    assert!(read(&reopen(&array), ":,:") == model);
    // Part of one shard; nothing changes in the others.
    let (from, to) = (columns / 8, columns / 2);
    let patch = noise((to - from) * (to - from) * 2, 8);
    write(&array, &format!("{from}:{to},{from}:{to}"), patch.clone());
    let wide = (to - from) * 2;
    for (row, line) in (from..to).zip(patch.chunks(wide)) {
        let at = (row * columns + from) * 2;
        model[at..at + wide].copy_from_slice(line);
    }
    assert!(read(&reopen(&array), ":,:") == model);
    // One half of a shard and then the other becomes fill value: what is left has no chunks.
    let zeros = |rows: usize| vec![0; rows * columns * 2];
    write(&array, &format!("0:{}", columns / 2), zeros(columns / 2));
    write(&array, &format!("{}:{columns}", columns / 2), zeros(columns / 2));
    model[..columns * columns * 2].fill(0);
    assert!(read(&reopen(&array), ":,:") == model);
    // A whole shard in one write: it is removed.
    write(&array, &format!("{columns}:{rows}"), zeros(columns));
    assert!(read(&reopen(&array), ":,:").iter().all(|&byte| byte == 0));
    let summary = verify(&engine(), location, &VerifyOptions::default(), &mut |finding| {
        panic!("{finding:?}");
    });
    summary.unwrap();
    // What such a store cannot do is refused, and does no harm.
    let in_place = WriteOptions::new().strategy(Strategy::InPlace);
    let model = noise(rows * columns * 2, 9);
    write(&array, ":,:", model.clone());
    let one = Elements::Fixed(vec![1; 2]);
    array.write_elements("0,0", one.as_ref(), &in_place).unwrap_err();
    assert!(read(&reopen(&array), ":,:") == model);
}

#[test]
fn arrays_live_on_s3_as_they_do_on_files() {
    let proxy = proxy();
    goes_through_its_life(&s3(&proxy, &fresh()), 64);
    // Large enough to be streamed.
    goes_through_its_life(&s3(&proxy, &fresh()), 1024);
}

#[test]
fn arrays_live_on_azure_as_they_do_on_files() {
    goes_through_its_life(&azure(&fresh()), 64);
    goes_through_its_life(&azure(&fresh()), 1024);
}

/// Repairs the metadata of a plate, and finds nothing left to repair.
fn metadata_is_repaired(location: &Location) {
    for (key, bytes) in &mendable().0 {
        let key = location.key(key).unwrap();
        location.store.put(&key, bytes, Condition::None).unwrap();
    }
    let plate = location.join("p").unwrap();
    let found = || {
        let mut found = Vec::new();
        verify(&engine(), &plate, &VerifyOptions::new(), &mut |one| found.push(one)).unwrap();
        found
    };
    assert!(found().len() > 10);
    let options = RepairOptions::new(location.join("aside").unwrap());
    let mut corrected = 0;
    let summary = repair(&engine(), &plate, &options, &mut |told| {
        corrected += usize::from(told.kind == RepairKind::MetadataCorrected);
    });
    assert!(summary.unwrap().is_ok());
    // As on files.
    assert_eq!(corrected, 12);
    assert_eq!(found(), []);
}

#[test]
fn metadata_of_images_is_repaired_on_s3_and_azure() {
    metadata_is_repaired(&s3(&proxy(), &fresh()));
    metadata_is_repaired(&azure(&fresh()));
}

#[test]
fn arrays_are_read_and_verified_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a b.zarr");
    let document = sharded(&[300, 200], &[128, 128], &[32, 32]);
    let local = Location::parse(place.to_str().unwrap()).unwrap();
    let array = ArrayNode::create(&engine(), &local, metadata(&document)).unwrap();
    let expected = noise(300 * 200 * 2, 5);
    write(&array, ":,:", expected.clone());
    let server = Nginx::start(folder.path(), &NginxOptions::default()).unwrap();
    for below in ["", "no-etag/", "bare/"] {
        let url = format!("{}/{below}a%20b.zarr/", server.url().trim_end_matches('/'));
        let far = Location::parse(&url).unwrap();
        let array = ArrayNode::open(&engine(), &far).unwrap();
        assert!(read(&array, ":,:") == expected, "{url}");
        let rows = (100..140).flat_map(|row| &expected[(row * 200 + 7) * 2..(row * 200 + 9) * 2]);
        assert!(read(&array, "100:140,7:9").iter().eq(rows));
        let summary = verify(&engine(), &far, &VerifyOptions::default(), &mut |finding| {
            panic!("{finding:?}");
        });
        summary.unwrap();
        let one = Elements::Fixed(vec![1; 2]);
        let refused = array.write_elements("0,0", one.as_ref(), &WriteOptions::new());
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("cannot be written to"), "{refused}");
    }
}
