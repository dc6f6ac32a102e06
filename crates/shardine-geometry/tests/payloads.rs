//! Cells of Zarr Vectors: the bytes that zarr-vectors writes, and bytes that nobody should.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

use proptest::prelude::*;
use serde_json::Value;
use shardine_geometry::zarr_vectors::{
    Block, ChunkCoords, Fragment, FragmentIndex, FragmentRef, FragmentRows, LinkOffsets, Manifest,
    ManifestRows, PayloadError, Ragged, encode_fragments, encode_manifest, encode_ragged,
    original_order, permutation, permutation_code,
};

fn golden(name: &str) -> Vec<Value> {
    let text = include_str!("../../../tests/golden/zarr-vectors/payloads.json");
    let all: Value = serde_json::from_str(text).unwrap();
    all[name].as_array().unwrap().clone()
}

fn hex(row: &Value) -> Vec<u8> {
    let text = row["hex"].as_str().unwrap();
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

fn numbers<T: serde::de::DeserializeOwned>(value: &Value) -> Vec<T> {
    serde_json::from_value(value.clone()).unwrap()
}

fn le(rows: &[i64]) -> Vec<u8> {
    rows.iter().flat_map(|row| row.to_le_bytes()).collect()
}

fn rows_of(fragment: Fragment<'_>) -> FragmentRows {
    match fragment {
        Fragment::Range { start, count } => FragmentRows::Range { start, count },
        Fragment::List(rows) => FragmentRows::List(rows.iter().collect()),
    }
}

fn encoded(fragments: &[FragmentRows]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_fragments(fragments, &mut bytes).unwrap();
    bytes
}

#[test]
fn fragments_are_read_and_written_as_zarr_vectors_does() {
    for row in golden("fragments") {
        let given: Vec<FragmentRows> = row["given"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| match one.get("range") {
                Some(range) => {
                    let range: Vec<u64> = numbers(range);
                    FragmentRows::Range { start: range[0], count: range[1] }
                }
                None => FragmentRows::List(numbers(&one["list"])),
            })
            .collect();
        let bytes = hex(&row);
        let index = FragmentIndex::parse(&bytes).unwrap();
        assert_eq!(index.iter().map(rows_of).collect::<Vec<_>>(), given);
        assert_eq!(index.get(given.len()), None);
        assert_eq!(encoded(&given), bytes);
    }
}

#[test]
fn fragments_tile_if_they_are_ranges_one_after_the_other() {
    let range = |start, count| FragmentRows::Range { start, count };
    let tiles = |fragments: &[FragmentRows], rows| {
        FragmentIndex::parse(&encoded(fragments)).unwrap().tiles(rows)
    };
    assert!(tiles(&[range(0, 2), range(2, 0), range(2, 1)], 3));
    assert!(tiles(&[range(0, 0), range(0, 3)], 3));
    assert!(tiles(&[], 0));
    assert!(!tiles(&[range(0, 2), range(2, 1)], 4));
    assert!(!tiles(&[range(0, 2), range(3, 1)], 3));
    assert!(!tiles(&[range(1, 2), range(0, 1)], 3));
    assert!(!tiles(&[range(0, 2), FragmentRows::List(vec![2])], 3));
}

#[test]
fn a_fragment_index_that_contradicts_itself_is_named() {
    let list = FragmentRows::List(vec![3, 1]);
    let good = encoded(&[FragmentRows::Range { start: 0, count: 4 }, list]);
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        FragmentIndex::parse(&bad).unwrap_err().to_string()
    };
    assert_eq!(with(0, b"ZVFG"), "the magic of a fragment index is 1195791962, not 0x5A564647");
    assert_eq!(with(4, &[2]), "the version of a fragment index is 2, not 1");
    assert_eq!(with(12, &[3]), "the number of ranges is 3, more than fragments");
    assert_eq!(with(16, &[3]), "the number of ranges is 1, but other bits are set");
    let negative = with(24, &(-1i64).to_le_bytes());
    assert_eq!(negative, "the first row of range 0 is -1, which must not be negative");
    let negative = with(32, &i64::MIN.to_le_bytes());
    assert!(negative.starts_with("the number of rows of range 0 is -"), "{negative}");
    assert_eq!(with(40, &[1]), "offset 0 of lists is 1, which must ascend from 0");
    assert_eq!(with(44, &[3]), "the rows of lists needs 24 bytes, but there are 16");
    assert_eq!(with(44, &[1]), "8 bytes follow a fragment index");
    let negative = with(48, &(-7i64).to_le_bytes());
    assert_eq!(negative, "listed row 0 is -7, which must not be negative");
    for len in 0..good.len() {
        let error = FragmentIndex::parse(&good[..len]).unwrap_err();
        assert!(matches!(error, PayloadError::Truncated { .. }), "{len}: {error}");
    }
}

#[test]
fn a_fragment_index_of_four_billion_fragments_costs_no_memory() {
    let mut bytes = encoded(&[]);
    bytes[8..16].fill(0xff);
    let error = FragmentIndex::parse(&bytes).unwrap_err();
    assert!(
        matches!(error, PayloadError::Truncated { needs: 536870912, actual: 0, .. }),
        "{error}"
    );
}

#[test]
fn a_range_beyond_all_rows_is_seen_in_the_extent() {
    let bytes = encoded(&[FragmentRows::Range { start: i64::MAX as u64 - 1, count: 1 }]);
    assert_eq!(FragmentIndex::parse(&bytes).unwrap().extent(), i64::MAX as u64);
    let mut bytes = Vec::new();
    let too_far = FragmentRows::Range { start: i64::MAX as u64, count: 1 };
    assert!(encode_fragments(&[too_far], &mut bytes).is_err());
}

fn blocks_of(bytes: &[u8], rank: usize) -> Result<Vec<Block<'_>>, PayloadError> {
    let mut manifest = Manifest::parse(bytes, rank)?;
    let mut blocks = Vec::new();
    while let Some(block) = manifest.next_block()? {
        blocks.push(block);
    }
    Ok(blocks)
}

#[test]
fn manifests_are_read_and_written_as_zarr_vectors_does() {
    for row in golden("manifests") {
        let rank = row["rank"].as_u64().unwrap() as usize;
        let bytes = hex(&row);
        let blocks = blocks_of(&bytes, rank).unwrap();
        let given = row["given"].as_array().unwrap();
        assert_eq!(blocks.len(), given.len());
        for (block, given) in blocks.iter().zip(given) {
            assert_eq!(block.chunk.to_vec(), numbers::<i64>(&given[0]));
            let mut fragments = Vec::new();
            let taken: Result<(), ()> = block.fragments.try_for_each(|fragment| {
                fragments.push(fragment);
                Ok(())
            });
            taken.unwrap();
            let expected = match &given[1] {
                Value::Number(one) => vec![one.as_u64().unwrap()],
                Value::Array(_) => numbers(&given[1]),
                range => {
                    let range: Vec<u64> = numbers(&range["range"]);
                    (range[0]..range[0] + range[1]).collect()
                }
            };
            assert_eq!(fragments, expected);
            assert_eq!(block.fragments.len(), expected.len() as u64);
        }
        let mut again = Vec::new();
        encode_manifest(&blocks, &mut again).unwrap();
        assert_eq!(again, bytes);
    }
}

#[test]
fn a_manifest_that_contradicts_itself_is_named() {
    let block = |fragments| Block { chunk: ChunkCoords::from_slice(&[1, 2]), fragments };
    let mut good = Vec::new();
    encode_manifest(&[block(FragmentRef::Single(4))], &mut good).unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        blocks_of(&bad, 2).unwrap_err().to_string()
    };
    assert_eq!(with(20, &[3]), "the mode of a block is 3, neither 0, 1 nor 2");
    assert_eq!(with(20, &[1]), "a block needs 8 bytes, but there are 0");
    assert_eq!(with(0, &[0]), "25 bytes follow the blocks of a manifest");
    assert_eq!(with(0, &[2]), "the chunk of a block needs 16 bytes, but there are 0");
    let negative = with(21, &(-1i64).to_le_bytes());
    assert_eq!(negative, "a fragment of a manifest is -1, which must not be negative");
    assert_eq!(blocks_of(&[], 3).unwrap(), []);
    for len in 1..good.len() {
        assert!(blocks_of(&good[..len], 2).is_err(), "{len}");
    }
}

#[test]
fn a_dense_manifest_lies_within_the_blocks() {
    assert_eq!(ManifestRows::parse([2, 3], 5), Ok(ManifestRows { start: 2, count: 3 }));
    assert_eq!(ManifestRows::parse([9, 0], 5), Ok(ManifestRows { start: 9, count: 0 }));
    for bad in [[2, 4], [6, 1], [-1, 2], [0, -1], [i64::MAX, i64::MAX]] {
        assert!(ManifestRows::parse(bad, 5).is_err(), "{bad:?}");
    }
}

#[test]
fn groups_of_links_are_read_and_written_as_zarr_vectors_does() {
    for row in golden("ragged") {
        let width = row["width"].as_u64().unwrap() as usize;
        let given: Vec<Vec<u8>> = row["given"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| le(&numbers::<i64>(group)))
            .collect();
        let bytes = hex(&row);
        let ragged = Ragged::parse(&bytes, 8 * width).unwrap();
        assert_eq!(ragged.groups().collect::<Vec<_>>(), given);
        assert_eq!(ragged.rows(), given.concat());
        let mut again = Vec::new();
        let groups: Vec<&[u8]> = given.iter().map(Vec::as_slice).collect();
        encode_ragged(&groups, &mut again).unwrap();
        assert_eq!(again, bytes);
    }
}

#[test]
fn groups_of_links_that_contradict_themselves_are_named() {
    let parse =
        |numbers: &[i64]| Ragged::parse(&le(numbers), 16).map(|_| ()).unwrap_err().to_string();
    assert_eq!(parse(&[-1]), "the number of groups is -1, which must not be negative");
    assert!(parse(&[i64::MAX]).starts_with("the offsets of groups needs"));
    assert_eq!(parse(&[2, 0]), "the offsets of groups needs 16 bytes, but there are 8");
    let order = "which must ascend from 0 to the end of the bytes";
    assert_eq!(parse(&[1, 16, 1, 2]), format!("the offset of group 0 is 16, {order}"));
    assert_eq!(parse(&[2, 0, 32, 1, 2]), format!("the offset of group 1 is 32, {order}"));
    assert_eq!(parse(&[3, 0, 16, 0, 1, 2]), format!("the offset of group 2 is 0, {order}"));
    assert_eq!(parse(&[1, 0, 7]), "8 bytes are no whole number of rows of 16 bytes");
    assert_eq!(parse(&[0, 7]), "8 bytes follow a list of no groups");
    assert!(Ragged::parse(&[], 16).unwrap().is_empty());
    assert!(Ragged::parse(&[0; 7], 16).is_err());
    assert!(Ragged::parse(&le(&[1, 0]), 0).is_err());
}

#[test]
fn permutations_have_the_numbers_that_zarr_vectors_gives_them() {
    for row in golden("permutations") {
        let places: Vec<u8> = numbers(&row["places"]);
        let code = row["code"].as_i64().unwrap();
        assert_eq!(permutation_code(&places), Some(code));
        assert_eq!(permutation(code, places.len()).unwrap().to_vec(), places);
    }
    assert_eq!(permutation(6, 3), None);
    assert_eq!(permutation(-1, 3), None);
    assert_eq!(permutation(0, 21), None);
    assert_eq!(permutation_code(&[0, 0]), None);
    assert_eq!(permutation_code(&[0; 300]), None);
}

#[test]
fn a_stored_face_gets_its_winding_back() {
    for row in golden("links") {
        let mut ends: Vec<i64> = numbers(&row["stored"]);
        assert!(original_order(&mut ends, row["code"].as_i64().unwrap()));
        assert_eq!(ends, numbers::<i64>(&row["given"]));
    }
    let mut ends = [1, 2];
    assert!(!original_order(&mut ends, 2));
    assert_eq!(ends, [1, 2]);
}

#[test]
fn arrays_of_links_have_the_names_that_zarr_vectors_gives_them() {
    for row in golden("offsets") {
        let given: Vec<Vec<i64>> = numbers(&row["given"]);
        let offsets = LinkOffsets::new(given.iter().map(|one| ChunkCoords::from_slice(one)));
        let name = row["name"].as_str().unwrap();
        assert_eq!(offsets.name(), name);
        let rank = given.first().map_or(3, Vec::len);
        assert_eq!(LinkOffsets::parse(name, rank, given.len() + 1), Ok(offsets));
    }
    for bad in ["", "self", "0.0", "0.0.0_0.0.0", "0.0.1", "0.0.+0", "0.0.--1", "0.0.+1x", "0..0"] {
        assert!(LinkOffsets::parse(bad, 3, 2).is_err(), "{bad}");
    }
    assert!(LinkOffsets::parse("0", 1, 0).is_err());
    assert!(LinkOffsets::within(3, 2).is_within());
    let beyond = LinkOffsets::parse("+1", 1, 2).unwrap();
    assert_eq!(beyond.chunk(&[i64::MAX], 1), None);
    assert_eq!(beyond.chunk(&[i64::MAX], 0).unwrap().to_vec(), [i64::MAX]);
    assert_eq!(beyond.chunk(&[3], 1).unwrap().to_vec(), [4]);
    assert_eq!(beyond.chunk(&[3], 2), None);
}

fn any_fragments() -> impl Strategy<Value = Vec<FragmentRows>> {
    let range =
        (0u64..1000, 0u64..1000).prop_map(|(start, count)| FragmentRows::Range { start, count });
    let list = prop::collection::vec(0u64..1000, 0..6).prop_map(FragmentRows::List);
    prop::collection::vec(prop_oneof![range, list], 0..200)
}

proptest! {
    #[test]
    fn fragments_survive_the_way_there_and_back(fragments in any_fragments()) {
        let bytes = encoded(&fragments);
        let index = FragmentIndex::parse(&bytes).unwrap();
        prop_assert_eq!(index.iter().map(rows_of).collect::<Vec<_>>(), fragments.clone());
        let mut rows = Vec::new();
        index.iter().for_each(|fragment| fragment.for_each(|row| rows.push(row)));
        prop_assert_eq!(index.extent(), rows.iter().max().map_or(0, |row| row + 1));
        prop_assert_eq!(index.total(), rows.len() as u64);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
        let mut bytes = bytes;
        if head {
            let magic = encoded(&[]);
            let len = bytes.len().min(8);
            bytes[..len].copy_from_slice(&magic[..len]);
        }
        if let Ok(index) = FragmentIndex::parse(&bytes) {
            prop_assert_eq!(index.iter().count(), index.len());
        }
        if let Ok(ragged) = Ragged::parse(&bytes, 16) {
            prop_assert_eq!(ragged.groups().map(<[u8]>::len).sum::<usize>(), ragged.rows().len());
        }
        let _ = blocks_of(&bytes, 3);
    }

    #[test]
    fn permutations_survive_the_way_there_and_back(width in 0usize..=20, code in any::<i64>()) {
        if let Some(places) = permutation(code, width) {
            prop_assert_eq!(permutation_code(&places), Some(code));
        }
    }
}
