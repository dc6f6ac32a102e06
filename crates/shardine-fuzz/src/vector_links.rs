//! Groups of links and the names of their arrays.
//!
//! Input: a name, a zero byte, one byte for the length of a row, then the groups.

use shardine_geometry::zarr_vectors::{
    LinkOffsets, Ragged, encode_ragged, original_order, permutation, permutation_code,
};

use crate::{joined, memory, split};

pub fn run(input: &[u8]) {
    memory::bounded((1 << 20) + 64 * input.len(), || check(input));
}

fn check(input: &[u8]) {
    let (name, rest) = split(input);
    let Some((&row, groups)) = rest.split_first() else { return };
    if let Ok(name) = str::from_utf8(name) {
        for (rank, width) in [(1, 1), (2, 2), (3, 2), (3, 3), (4, 4)] {
            if let Ok(offsets) = LinkOffsets::parse(name, rank, width) {
                assert_eq!(offsets.name(), name);
                assert_eq!(offsets.width(), width);
                let source = vec![i64::MAX; rank];
                (0..=width).for_each(|end| drop(offsets.chunk(&source, end)));
            }
        }
    }
    let row = usize::from(row);
    let Ok(ragged) = Ragged::parse(groups, row) else { return };
    let all: Vec<&[u8]> = ragged.groups().collect();
    assert_eq!(all.len(), ragged.len());
    assert_eq!(all.concat(), ragged.rows());
    assert!(all.iter().all(|group| group.len() % row == 0));
    let mut again = Vec::new();
    if encode_ragged(&all, &mut again).is_ok() && !groups.is_empty() {
        assert_eq!(again, groups);
    }
    for link in ragged.rows().chunks_exact(8) {
        let Some(code) = link.first_chunk::<8>().map(|code| i64::from_le_bytes(*code)) else {
            continue;
        };
        for width in 0..6 {
            let mut ends: Vec<usize> = (0..width).collect();
            let known = permutation(code, width);
            assert_eq!(original_order(&mut ends, code), known.is_some());
            if let Some(places) = known {
                assert_eq!(permutation_code(&places), Some(code));
            }
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let row =
        |numbers: &[i64]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_le_bytes()).collect() };
    let cases: [(&str, u8, Vec<Vec<u8>>); 4] = [
        ("0.0.+1", 24, vec![row(&[0, 1, 2]), row(&[1, 5, 4])]),
        ("0.0.+1_0.-1.0", 32, vec![row(&[5, 1, 2, 3]), vec![]]),
        ("self", 8, vec![]),
        ("-12.+3", 16, vec![row(&[7, 8, 9, 10])]),
    ];
    cases
        .iter()
        .map(|(name, length, groups)| {
            let groups: Vec<&[u8]> = groups.iter().map(Vec::as_slice).collect();
            let mut bytes = vec![*length];
            let _ = encode_ragged(&groups, &mut bytes);
            joined(&[name.as_bytes(), &bytes])
        })
        .collect()
}
