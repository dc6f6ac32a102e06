//! Manifests of objects.
//!
//! Input: one byte for the number of axes, then a manifest.

use shardine_geometry::zarr_vectors::{
    Block, ChunkCoords, FragmentRef, Manifest, ManifestRows, encode_manifest,
};

use crate::memory;

pub fn run(input: &[u8]) {
    memory::bounded((1 << 20) + 64 * input.len(), || check(input));
}

fn check(input: &[u8]) {
    let Some((&rank, bytes)) = input.split_first() else { return };
    let rank = usize::from(rank % 6);
    if let Some(pair) = bytes.first_chunk::<16>() {
        let number = |at: usize| pair[at..].first_chunk::<8>().map(|n| i64::from_le_bytes(*n));
        let span = [number(0).unwrap_or(0), number(8).unwrap_or(0)];
        if let Ok(rows) = ManifestRows::parse(span, 1000) {
            assert!(rows.count == 0 || rows.start + rows.count <= 1000);
        }
    }
    let Ok(mut manifest) = Manifest::parse(bytes, rank) else { return };
    let mut blocks: Vec<Block<'_>> = Vec::new();
    loop {
        match manifest.next_block() {
            Err(_) => return,
            Ok(None) => break,
            Ok(Some(block)) => {
                assert_eq!(block.chunk.len(), rank);
                // A range may claim more than exist: the caller can stop.
                let mut left = 100;
                let _ = block.fragments.try_for_each(|fragment| {
                    assert!(i64::try_from(fragment).is_ok() || left < 100);
                    left -= 1;
                    if left == 0 { Err(()) } else { Ok(()) }
                });
                blocks.push(block);
            }
        }
    }
    let mut again = Vec::new();
    if encode_manifest(&blocks, &mut again).is_ok() && !bytes.is_empty() {
        assert_eq!(again, bytes);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let list: Vec<u8> = [4i64, 0, 2].iter().flat_map(|n| n.to_le_bytes()).collect();
    let block =
        |chunk: &[i64], fragments| Block { chunk: ChunkCoords::from_slice(chunk), fragments };
    let cases = [
        (3, vec![]),
        (3, vec![block(&[0, 0, 0], FragmentRef::Single(4))]),
        (
            3,
            vec![
                block(&[-1, 0, 2], FragmentRef::Range { start: 1, count: 3 }),
                block(&[5, 5, 5], FragmentRef::List(&list)),
            ],
        ),
        (2, vec![block(&[7, -7], FragmentRef::Single(1))]),
    ];
    cases
        .iter()
        .map(|(rank, blocks)| {
            let mut bytes = vec![*rank];
            let _ = encode_manifest(blocks, &mut bytes);
            bytes
        })
        .collect()
}
