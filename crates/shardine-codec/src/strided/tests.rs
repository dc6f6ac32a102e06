use proptest::prelude::*;

use super::*;

/// Offsets of a box, element by element, the slow and obvious way.
fn offsets(shape: &[usize], place: &Placement) -> Vec<usize> {
    let total: usize = shape.iter().product();
    (0..total)
        .map(|mut i| {
            let mut at = place.start;
            for k in (0..shape.len()).rev() {
                at += (i % shape[k]) * place.strides[k];
                i /= shape[k];
            }
            at
        })
        .collect()
}

/// A box in memory whose axes lie in the given order, with a step along each.
fn placed(
    shape: &[usize],
    order: &[usize],
    steps: &[usize],
    start: usize,
    size: usize,
) -> Placement {
    let mut strides: Axes<usize> = SmallVec::from_elem(0, shape.len());
    let mut stride = size;
    for &k in order.iter().rev() {
        strides[k] = stride * steps[k];
        stride *= steps[k] * shape[k].max(1);
    }
    Placement { start, strides }
}

prop_compose! {
    fn boxes()(rank in 0usize..5)(
        shape in prop::collection::vec(0usize..40, rank).prop_map(|mut s| {
            while s.iter().product::<usize>() > 20_000 {
                for n in &mut s { *n = n.div_ceil(2); }
            }
            s
        }),
        from_order in Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
        to_order in Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
        from_steps in prop::collection::vec(1usize..3, rank),
        to_steps in prop::collection::vec(1usize..3, rank),
        size in prop::sample::select(vec![1usize, 2, 3, 4, 8, 16]),
        start in 0usize..9,
    ) -> (Vec<usize>, Placement, Placement, usize) {
        let from = placed(&shape, &from_order, &from_steps, start, size);
        let to = placed(&shape, &to_order, &to_steps, start / 2, size);
        (shape, from, to, size)
    }
}

proptest! {
    #[test]
    fn a_copy_moves_each_element_and_touches_nothing_else((shape, from, to, size) in boxes()) {
        let source: Vec<u8> = (0..from.end(&shape, size).unwrap()).map(|i| (i * 7 + 1) as u8).collect();
        let mut target = vec![0xEE; to.end(&shape, size).unwrap() + 5];
        let mut expected = target.clone();
        for (f, t) in offsets(&shape, &from).into_iter().zip(offsets(&shape, &to)) {
            expected[t..t + size].copy_from_slice(&source[f..f + size]);
        }
        copy(&shape, size, &source, &from, &mut target, &to).unwrap();
        prop_assert_eq!(target, expected);
    }

    #[test]
    fn a_fill_writes_each_place_and_touches_nothing_else((shape, _, to, size) in boxes()) {
        let element: Vec<u8> = (0..size as u8).map(|i| i + 1).collect();
        let mut target = vec![0xEE; to.end(&shape, size).unwrap() + 5];
        let mut expected = target.clone();
        for t in offsets(&shape, &to) {
            expected[t..t + size].copy_from_slice(&element);
        }
        fill(&shape, &element, &mut target, &to).unwrap();
        prop_assert_eq!(target, expected);
    }

    #[test]
    fn filled_means_every_element(mut bytes in prop::collection::vec(0u8..2, 0..64), n in 1usize..5) {
        bytes.truncate(bytes.len() / n * n);
        let element = vec![0; n];
        let expected = bytes.iter().all(|&b| b == 0);
        prop_assert_eq!(is_filled(&bytes, &element), expected);
    }
}

#[test]
fn a_box_past_the_end_is_refused_before_anything_is_written() {
    let place = Placement { start: 0, strides: SmallVec::from_slice(&[4]) };
    let mut target = [0; 8];
    assert_eq!(copy(&[3], 4, &[1; 12], &place, &mut target, &place), Err(OutOfMemory));
    assert_eq!(copy(&[2], 4, &[1; 7], &place, &mut target, &place), Err(OutOfMemory));
    let far = Placement { start: usize::MAX - 2, strides: SmallVec::from_slice(&[usize::MAX]) };
    assert_eq!(copy(&[2], 4, &[1; 8], &place, &mut target, &far), Err(OutOfMemory));
    assert_eq!(target, [0; 8]);
}

#[test]
fn a_long_period_is_not_mistaken_for_a_fill() {
    let mut bytes = vec![5; 100_000];
    assert!(is_filled(&bytes, &[5, 5]));
    bytes[99_999] = 6;
    assert!(!is_filled(&bytes, &[5, 5]));
}

#[test]
fn units_are_turned_round_inside_their_element() {
    let mut bytes = [1, 2, 3, 4, 5, 6];
    let units = [crate::SwapUnit { offset: 1, len: 2 }];
    swap_units(&mut bytes, 3, &units);
    assert_eq!(bytes, [1, 3, 2, 4, 6, 5]);
}
