//! How a volume reports its objects, and that its shards are compacted like those of arrays.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::collections::BTreeMap;

use common::engine;
use common::volumes::*;
use shardine::jobs::{CompactOptions, compact};
use shardine::precomputed::Volume;
use shardine::{ElementsRef, Region, WriteOptions};

const SIZE: [u64; 3] = [70, 33, 48];

/// The cell of a chunk, and where it begins and ends in its object.
type Place = (Option<[u64; 3]>, u64, u64);

/// Where chunks are according to the volume's own listing, by object.
fn listed(volume: &Volume, level: usize) -> BTreeMap<String, Vec<Place>> {
    let mut listed: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let tell = |chunk: shardine::precomputed::StoredChunk| {
        let place = (chunk.cell, chunk.range.start, chunk.range.end);
        listed.entry(chunk.object).or_default().push(place);
    };
    volume.stored_chunks(level, tell).unwrap();
    listed
}

#[test]
fn the_objects_of_a_volume_are_its_shards_with_their_chunks() {
    for sharding in shardings() {
        let at = volume(&[scale("1", SIZE, Some(&sharding))]);
        write(&at, 0, "10:70,0:33,16:48");
        let volume = Volume::open(&engine(), &at).unwrap();
        let array = volume.array(0).unwrap();
        let listed = listed(&volume, 0);
        let objects = array.objects().unwrap();
        assert_eq!(objects.len(), listed.len(), "{sharding}");
        for object in &objects {
            let name = object.key.as_str().strip_prefix("1/").unwrap();
            assert_eq!(object.len, get(&at, object.key.as_str()).len() as u64);
            let found = array.shard_entries(&object.cell).unwrap().unwrap();
            assert_eq!((&found.key, found.len), (&object.key, object.len), "{sharding}");
            assert_eq!(found.gap_bytes, 0, "{sharding}");
            assert_eq!(found.grid.iter().product::<u64>(), found.entries.len() as u64);
            let mut expected: Vec<_> = listed[name].iter().map(|c| (c.1, c.2)).collect();
            let mut ranges: Vec<_> =
                found.entries.iter().flatten().map(|range| (range.start, range.end)).collect();
            expected.sort_unstable();
            ranges.sort_unstable();
            assert_eq!(ranges, expected, "{sharding}");
            let Some(shape) = array.shard_shape() else { continue };
            assert_eq!(sharding["hash"], "identity", "{sharding}");
            for &(cell, start, end) in &listed[name] {
                let cell = cell.unwrap();
                let at = (0..3).fold(0, |at, axis| {
                    let first = object.cell[axis] * shape[axis] / 16;
                    at * found.grid[axis] + (cell[axis] - first)
                });
                assert_eq!(found.entries[at as usize], Some(start..end), "{sharding}");
            }
        }
        assert!(array.shard_entries(&[1000, 0, 0, 0]).unwrap().is_none(), "{sharding}");
    }
}

#[test]
fn the_objects_of_a_volume_without_shards_are_its_chunks() {
    let at = volume(&[scale("1", SIZE, None)]);
    write(&at, 0, "16:70,0:33,16:48");
    let array = Volume::open(&engine(), &at).unwrap().array(0).unwrap();
    let objects = array.objects().unwrap();
    assert_eq!(objects.len(), 4 * 3 * 2);
    assert_eq!(objects[0].cell, [1, 0, 1, 0]);
    assert_eq!(objects[0].key.as_str(), "1/16-32_0-16_16-32");
    assert_eq!((array.shard_shape(), array.entry_shape()), (None, None));
}

#[test]
fn compacting_a_volume_squeezes_gaps_out_and_changes_nothing_else() {
    for sharding in shardings() {
        let plain = scale("2", [20, 20, 20], None);
        let at = volume(&[scale("1", SIZE, Some(&sharding)), plain]);
        fill(&at, 0);
        fill(&at, 1);
        let before = [read_all(&at, 0), read_all(&at, 1)];
        let engine = engine();
        let run = |options: CompactOptions| {
            let mut told = Vec::new();
            let tell = &mut |shard: Result<_, _>| told.push(shard.unwrap());
            let summary = compact(&engine, &at, &options, tell).unwrap();
            (summary, told)
        };
        assert_eq!(run(CompactOptions::new()).0.compacted, 0, "{sharding}");
        let array = Volume::open(&engine, &at).unwrap().array(0).unwrap();
        let shard = array.objects().unwrap().remove(0);
        let mut bytes = get(&at, shard.key.as_str());
        bytes.extend([7; 1000]);
        put(&at, shard.key.as_str(), &bytes);

        let (dry, _) = run(CompactOptions::new().dry_run(true));
        assert_eq!((dry.compacted, dry.before - dry.after), (1, 1000), "{sharding}");
        assert_eq!(get(&at, shard.key.as_str()), bytes);
        let (summary, told) = run(CompactOptions::new());
        assert_eq!((summary.arrays, summary.compacted, summary.failed), (2, 1, 0), "{sharding}");
        assert_eq!(told[0].object, shard.key);
        assert!(told[0].after < bytes.len() as u64, "{sharding}");
        assert_eq!([read_all(&at, 0), read_all(&at, 1)], before, "{sharding}");
        assert_eq!(run(CompactOptions::new()).0.compacted, 0, "{sharding}");
        assert!(check(&at, true).1.is_empty(), "{sharding}");
    }
}

#[test]
fn parts_that_cover_a_shard_together_replace_it_even_if_it_is_damaged() {
    let sharding = sharding(0, 1, 2, "raw", "raw");
    for (halves, replaced) in
        [(["0:32,:,:", "32:70,:,:"], true), (["0:30,:,:", "32:70,:,:"], false)]
    {
        let at = volume(&[scale("1", SIZE, Some(&sharding))]);
        fill(&at, 0);
        let array = Volume::open(&engine(), &at).unwrap().array(0).unwrap();
        for object in array.objects().unwrap() {
            put(&at, object.key.as_str(), b"of no use");
        }
        let parts = halves.map(|half| {
            let region: Region = half.parse().unwrap();
            let len = region.resolve(array.shape()).unwrap().shape().iter().product::<u64>();
            (region, vec![7; len as usize])
        });
        let parts: Vec<_> =
            parts.iter().map(|(region, bytes)| (region, ElementsRef::Fixed(bytes))).collect();
        let written = array.write_many_elements(&parts, &WriteOptions::new());
        assert_eq!(written.is_ok(), replaced, "{halves:?}: {written:?}");
        if replaced {
            assert_eq!(read_all(&at, 0), shardine::Elements::Fixed(vec![7; 70 * 33 * 48]));
        }
    }
}
