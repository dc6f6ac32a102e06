//! The index of the fragments of a chunk. What the parser accepts it can enumerate, within the
//! extent that it states, and writing it again gives the same fragments.

use shardine_geometry::zarr_vectors::{Fragment, FragmentIndex, FragmentRows, encode_fragments};

use crate::memory;

/// The most rows of a range that are gone through one by one.
const MOST_ROWS: u64 = 1 << 12;

pub fn run(input: &[u8]) {
    memory::bounded((1 << 20) + 64 * input.len(), || check(input));
}

fn check(input: &[u8]) {
    let Ok(index) = FragmentIndex::parse(input) else { return };
    let mut rows = Vec::new();
    let mut total = 0u64;
    for at in 0..index.len() {
        let Some(fragment) = index.get(at) else { panic!("fragment {at} of {}", index.len()) };
        total = total.saturating_add(fragment.len());
        if fragment.len() <= MOST_ROWS {
            fragment.for_each(|row| assert!(row < index.extent(), "{row} of {}", index.extent()));
        }
        if let Fragment::Range { start, count } = fragment {
            assert!(count == 0 || start + count <= index.extent());
        }
        rows.push(owned(fragment));
    }
    assert_eq!(total, index.total());
    assert!(index.get(index.len()).is_none());
    if index.tiles(index.extent()) {
        assert_eq!(index.total(), index.extent());
    }
    let mut again = Vec::new();
    // A range may begin beyond what can be written, if it has no rows.
    if encode_fragments(&rows, &mut again).is_ok() {
        let Ok(again) = FragmentIndex::parse(&again) else { panic!("unreadable: {rows:?}") };
        assert!(again.iter().map(owned).eq(rows), "other fragments");
        assert_eq!((again.extent(), again.total()), (index.extent(), index.total()));
    }
}

fn owned(fragment: Fragment<'_>) -> FragmentRows {
    match fragment {
        Fragment::Range { start, count } => FragmentRows::Range { start, count },
        Fragment::List(list) => FragmentRows::List(list.iter().collect()),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let range = |start, count| FragmentRows::Range { start, count };
    let many = (0..130u64).map(|at| match at % 3 {
        0 => FragmentRows::List(vec![at, at + 1]),
        _ => range(at, 1),
    });
    let cases = [
        vec![],
        vec![range(0, 4)],
        vec![range(0, 4), range(4, 0), range(4, 3)],
        vec![FragmentRows::List(vec![3, 1]), range(0, 2), FragmentRows::List(vec![])],
        many.collect(),
    ];
    cases
        .iter()
        .map(|fragments| {
            let mut bytes = Vec::new();
            let _ = encode_fragments(fragments, &mut bytes);
            bytes
        })
        .collect()
}
